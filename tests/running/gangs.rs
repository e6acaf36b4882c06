//! Gangs on a daemon, an orchestrator and several agents, all of them real processes: whole or absent,
//! programs that rank 0 starts at other ranks, a node that dies, and real MPI.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stderr, reason = "a test that is left out says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::fleet::{CONFIG, Fleet, Part, Plan, marked, user};
use apportion::orchestrator::wire::{CampaignDetail, TaskList};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, Row, SqliteConnection};

/// The configuration of a fleet whose classes allow gangs.
fn config() -> String {
    CONFIG.replace("priority = 5\n", "priority = 5\ngangs = true\n")
}

async fn fleet(config: &str, agents: usize) -> Fleet {
    let detours = BTreeMap::new();
    let (agent_flags, head_flags): (&[&str], &[&str]) =
        (&["--memory", "1GB"], &["--linger", "1s", "--lease", "20s"]);
    Fleet::start(&Plan { config, agents, agent_flags, head_flags, detours, ports: None }).await
}

/// Runs `apportion run` with these flags, as the user that runs work here.
async fn run(fleet: &Fleet, flags: &[&str], command: &[&str]) -> Output {
    let (head, work, user) = (fleet.head.clone(), fleet.work(), user());
    let words: Vec<String> = ["run", "--user", &user, "--memory", "256MB"]
        .iter()
        .chain(flags)
        .chain(&["--"])
        .chain(command)
        .map(|word| (*word).to_owned())
        .collect();
    let run = move || {
        Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(words)
            .env("APPORTION_URL", &head)
            .env("APPORTION_ORCHESTRATOR", &head)
            .current_dir(work)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

async fn tasks(fleet: &Fleet, id: u64) -> Option<TaskList> {
    let path = format!("/v1/campaigns/{id}/tasks?attempts=true");
    serde_json::from_value(fleet.ask(Method::GET, &path, None).await.ok()?.1).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rank_runs_the_program_with_its_rank_and_all_nodes() {
    let fleet = fleet(&config(), 3).await;
    let script = "echo \"$APPORTION_RANK of $APPORTION_RANKS on $APPORTION_NODE: $(echo $(cat \
                  $APPORTION_NODE_FILE)) $RANK/$WORLD_SIZE ${APPORTION_RANK_SHELL:-none}\"";
    let output = run(&fleet, &["--nodes", "3", "--every-node"], &["sh", "-c", script]).await;
    let (out, err) = text(&output);
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let nodes: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(4)).collect();
    assert_eq!((lines.len(), output.status.code()), (3, Some(0)), "{out} {err}{}", fleet.logs());
    let all: Vec<String> = nodes.iter().map(|node| node.trim_end_matches(':').to_owned()).collect();
    for (rank, line) in lines.iter().enumerate() {
        let expected = format!("{rank} of 3 on {}: {} {rank}/3 none", all[rank], all.join(" "));
        assert_eq!(*line, expected);
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3, "a node for each rank");
    // The rank that fails decides, and ends the others.
    let script = "[ $APPORTION_RANK = 2 ] && exit 7; sleep 600";
    let output = run(&fleet, &["--nodes", "3", "--every-node"], &["sh", "-c", script]).await;
    assert_eq!(output.status.code(), Some(7), "{:?}", text(&output));
    let none = async |_: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("nothing is left", none).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rank_0_starts_programs_at_other_ranks() {
    let fleet = fleet(&config(), 3).await;
    let script = r#"
        set -e
        second=$(sed -n 2p "$APPORTION_NODE_FILE"); third=$(sed -n 3p "$APPORTION_NODE_FILE")
        "$APPORTION_RANK_SHELL" -x "$second" 'echo on $APPORTION_NODE rank $APPORTION_RANK of $APPORTION_RANKS'
        "$APPORTION_RANK_SHELL" "$third" 'echo err >&2; pwd; exit 9' || echo "exit $?"
        "$APPORTION_RANK_SHELL" "$(sed -n 1p "$APPORTION_NODE_FILE")" 'echo own $APPORTION_RANK'
        "$APPORTION_RANK_SHELL" nowhere true || echo "nowhere $?"
        "$APPORTION_RANK_SHELL" "$second" 'kill -TERM $$' || echo "signal $?"
        # Another secret opens nothing.
        file=$(dirname "$APPORTION_RANK_SHELL")/ranks.json
        sed 's/"key":"[0-9a-f]*"/"key":"00"/' "$file" > wrong.json
        sed "s#'$file'#'$PWD/wrong.json'#" "$APPORTION_RANK_SHELL" > wrong.sh
        sh wrong.sh "$second" 'touch opened' || echo "wrong $?"
        stat -c %a "$file"
        exit 5
    "#;
    let output = run(&fleet, &["--nodes", "3"], &["sh", "-c", script]).await;
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(5), "{out} {err}{}", fleet.logs());
    let lines: Vec<&str> = out.lines().collect();
    let second = lines[0].split(' ').nth(1).unwrap();
    assert_eq!(lines[0], format!("on {second} rank 1 of 3"));
    let work = fleet.work();
    let expected = [
        work.to_str().unwrap(),
        "exit 9",
        "own 0",
        "nowhere 255",
        "signal 143",
        "wrong 255",
        "600",
    ];
    assert_eq!(lines[1..], expected, "{out} {err}");
    assert!(err.contains("err\n"), "{err}");
    assert!(err.contains("`nowhere` is no node of this gang; its nodes are n"), "{err}");
    assert!(err.contains("does not know the secret of this gang"), "{err}");
    assert!(!work.join("opened").exists());
    let none = async |_: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("nothing is left", none).await;
    // Neither the campaign nor its specification tells the secret.
    let (_, detail) = fleet.ask(Method::GET, "/v1/campaigns/1", None).await.unwrap();
    let (_, spec) = fleet.ask(Method::GET, "/v1/campaigns/1/spec", None).await.unwrap();
    let (_, list) = fleet.ask(Method::GET, "/v1/campaigns/1/tasks/1", None).await.unwrap();
    let told = format!("{detail}{spec}{list}");
    let key = key_of(&fleet).await;
    assert!(told.contains("\"nodes\":3") && key.len() == 64 && !told.contains(&key), "{told}");
}

/// The secret of campaign 1, out of the database.
async fn key_of(fleet: &Fleet) -> String {
    let path = format!("sqlite:{}", fleet.folder().join("orchestrator.db").display());
    let mut database = SqliteConnection::connect(&path).await.unwrap();
    let row = sqlx::query("select gang_key from campaigns").fetch_one(&mut database).await.unwrap();
    row.get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_start_nothing() {
    // The server of a rank, as its slot starts it, and a shell that knows another secret.
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = |key: &str, rank: u64| {
        let place = |node: &str| json!({ "node": node, "address": "127.0.0.1", "port": port });
        let ranks = [place("n1"), place("n2")];
        let text = json!({ "rank": rank, "every_node": false, "ranks": ranks, "key": key });
        let path = folder.path().join(format!("{key}{rank}.json"));
        fs::write(&path, text.to_string()).unwrap();
        path
    };
    let program = env!("CARGO_BIN_EXE_apportion");
    let input = std::os::fd::OwnedFd::from(listener);
    let mut server = Command::new(program)
        .args(["rank-server", file("ab", 1).to_str().unwrap()])
        .stdin(Stdio::from(input))
        .spawn()
        .unwrap();
    let mark = folder.path().join("mark");
    let shell = |key: &str| {
        let command = format!("touch {}", mark.display());
        let words =
            ["rank-shell", file(key, 0).to_str().unwrap(), "n2", &command].map(str::to_owned);
        Command::new(program).args(words).output().unwrap()
    };
    for key in ["cd", ""] {
        assert_eq!(shell(key).status.code(), Some(255));
    }
    // Bytes that are no message, and a connection that says nothing.
    let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut noise = TcpStream::connect(("127.0.0.1", port)).unwrap();
    noise.write_all(&[0xff; 4096]).unwrap();
    assert!(!mark.exists());
    assert_eq!(shell("ab").status.code(), Some(0));
    assert!(mark.exists());
    drop(silent);
    server.kill().unwrap();
    server.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_that_lost_a_node_begins_again_as_a_whole_elsewhere() {
    let mut fleet = fleet(&config(), 4).await;
    let shell = "echo $APPORTION_ATTEMPT.$APPORTION_RANK $APPORTION_NODE >> begun; \
                 while [ ! -e go.$APPORTION_ATTEMPT ]; do sleep 0.1; done";
    let gang = json!({ "nodes": 3, "every_node": true });
    let id = fleet.submit(json!({ "shell": shell, "gang": gang, "grace": "1s" })).await;
    let begun = async |fleet: &Fleet| Some(fleet.lines("begun")).filter(|lines| lines.len() == 3);
    let lines = fleet.until("three ranks", begun).await;
    let detail: CampaignDetail = fleet.campaign(id).await.unwrap();
    let gang = detail.gang.unwrap();
    assert_eq!(gang.words(), "3 nodes, 3 of 3 ready");
    let work = detail.works[0];
    // The agent of a rank and all of its processes die with the machine.
    let lost = lines.iter().find(|line| line.starts_with("1.1 ")).unwrap();
    let lost = lost.split(' ').nth(1).unwrap().to_owned();
    let number: usize = lost.trim_start_matches('n').parse().unwrap();
    fleet.kill(Part::Agent(number));
    let spool = fleet.folder().join(&lost);
    for (_, pid) in marked(&spool) {
        crate::support::fleet::signal(pid, rustix::process::Signal::KILL);
    }
    let again = async |fleet: &Fleet| Some(fleet.lines("begun")).filter(|lines| lines.len() == 6);
    let lines = fleet.until("three ranks again", again).await;
    let second: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("2.")?.split(' ').nth(1)).collect();
    assert_eq!(second.iter().collect::<BTreeSet<_>>().len(), 3, "{lines:?}");
    assert!(!second.contains(&lost.as_str()), "{lines:?}");
    // Nothing of the first generation is left: each process of a task tells its attempt.
    let attempts = marked(fleet.folder());
    let of_task = attempts.iter().filter_map(|(_, pid)| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut words = environment.split(|byte| *byte == 0);
        let attempt = words.find_map(|word| word.strip_prefix(b"APPORTION_ATTEMPT="))?;
        Some(String::from_utf8_lossy(attempt).into_owned())
    });
    assert_eq!(of_task.collect::<BTreeSet<_>>(), BTreeSet::from(["2".to_owned()]));
    fs::write(fleet.work().join("go.2"), "").unwrap();
    let detail = fleet.until_state(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (3, 0));
    assert!(!detail.works.contains(&work));
    let list = tasks(&fleet, id).await.unwrap();
    let ranks: Vec<_> = list.tasks.iter().map(|task| (task.rank, task.attempt)).collect();
    assert_eq!(ranks, [(Some(0), 2), (Some(1), 2), (Some(2), 2)]);
    assert!(list.tasks.iter().all(|task| (task.tries, task.losses) == (0, 1)), "{list:?}");
}

/// Takes a node out of service.
async fn vary_off(fleet: &Fleet, node: &str) {
    let body = json!({ "nodes": [node], "reason": "a test" });
    let request = reqwest::Client::new().post(format!("{}/v1/nodes/vary-off", fleet.rm));
    let answer = request.json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malleable_gang_is_told_of_nodes_that_come_and_go() {
    let mut fleet = fleet(&config(), 3).await;
    fleet.kill(Part::Agent(3));
    // A child without a handler outlives every change.
    let shell = r#"
        size() { echo $(cat "$APPORTION_NODE_FILE") >> sizes; }
        trap size USR1
        "$APPORTION_RANK_SHELL" "$(tail -n 1 "$APPORTION_NODE_FILE")" 'echo $APPORTION_RANK' >> ranks
        size
        sleep 600 & child=$!
        while [ ! -e go ]; do sleep 0.1; done
        "$APPORTION_RANK_SHELL" "$(tail -n 1 "$APPORTION_NODE_FILE")" 'echo $APPORTION_RANK' >> ranks
        wc -l < "${APPORTION_NODE_FILE%/*}/hosts" >> hosts
        kill $child && echo alive >> hosts
    "#;
    let gang = json!({ "nodes": "2-3" });
    let body = json!({ "shell": shell, "memory": "1GB", "gang": gang, "grace": "3s" });
    let id = fleet.submit(body).await;
    let lines = async |fleet: &Fleet, count: usize| {
        Some(fleet.lines("sizes")).filter(|lines| lines.len() == count)
    };
    let first = fleet.until("two nodes", async |fleet: &Fleet| lines(fleet, 1).await).await;
    let nodes = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(nodes(&first[0]).iter().collect::<BTreeSet<_>>().len(), 2, "{first:?}");
    fleet.revive();
    let more = fleet.until("a third node", async |fleet: &Fleet| lines(fleet, 2).await).await;
    assert_eq!(more[1], format!("{} n3", first[0]));
    let words = fleet.campaign(id).await.unwrap().gang.unwrap().words();
    assert_eq!(words, "2 to 3 nodes, 3 ready");
    let second = nodes(&more[1])[1].clone();
    vary_off(&fleet, &second).await;
    let less = fleet.until("two nodes again", async |fleet: &Fleet| lines(fleet, 3).await).await;
    assert_eq!(nodes(&less[2]), [nodes(&first[0])[0].clone(), "n3".to_owned()]);
    fs::write(fleet.work().join("go"), "").unwrap();
    let detail = fleet.until_state(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (3, 0));
    assert_eq!(
        (fleet.lines("ranks"), fleet.lines("hosts")),
        (vec!["1".to_owned(), "2".to_owned()], vec!["2".to_owned(), "alive".to_owned()],)
    );
    assert_eq!(fleet.lines("sizes").len(), 3, "nothing is told twice");
    let none = async |_: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("nothing is left", none).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malleable_gang_uses_only_nodes_with_its_tags() {
    let tags = "[[tags]]\nnodes = [\"n1\", \"n3\"]\nset = [\"rack=r1\"]\n";
    let fleet = fleet(&format!("{}\n{tags}", config()), 3).await;
    let gang = json!({ "nodes": "2-3", "tags": { "rack": "r1" } });
    let shell = "sort $APPORTION_NODE_FILE > nodes; \"$APPORTION_RANK_SHELL\" \
                 \"$(tail -n 1 \"$APPORTION_NODE_FILE\")\" 'echo $APPORTION_NODE' >> ranks";
    let id = fleet.submit(json!({ "shell": shell, "memory": "1GB", "gang": gang })).await;
    fleet.until_state(id, "done").await;
    assert_eq!(fleet.lines("nodes"), ["n1", "n3"], "n2 lacks the tag");
    assert_eq!(fleet.lines("ranks").len(), 1);
    let (status, answer) = fleet
        .ask(
            Method::POST,
            "/v1/campaigns",
            Some(json!({
                "user": user(), "shell": "true", "cwd": "/",
                "gang": { "nodes": "2-3", "exclusive": true, "group_by": "rack" }
            })),
        )
        .await
        .unwrap();
    assert_eq!(status.as_u16(), 422, "{answer}");
    let told = answer.to_string();
    assert!(told.contains("ask for as much `memory` as a node has"), "{told}");
    assert!(told.contains("name the group by its tag"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_waits_for_the_last_node_and_has_it_alone() {
    let fleet = fleet(&config(), 2).await;
    // A node is full of other work, so no rank begins.
    let full = json!({ "shell": "while [ ! -e go ]; do sleep 0.1; done", "memory": "1GB" });
    let other = fleet.submit(full).await;
    let runs =
        async |fleet: &Fleet| fleet.campaign(other).await.filter(|it| it.campaign.running == 1);
    fleet.until("other work runs", runs).await;
    let gang = json!({ "nodes": 2, "every_node": true, "exclusive": true });
    let body =
        json!({ "shell": "echo $APPORTION_MEMORY_MB >> memory", "gang": gang, "class": "normal" });
    let id = fleet.submit(body).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.lines("memory"), Vec::<String>::new());
    let (_, why) = fleet.ask(Method::GET, &format!("/v1/campaigns/{id}/why"), None).await.unwrap();
    assert!(why["sentences"][0].as_str().unwrap().len() > 10, "{why}");
    fs::write(fleet.work().join("go"), "").unwrap();
    fleet.until_state(id, "done").await;
    assert_eq!(fleet.lines("memory"), ["1024", "1024"], "an exclusive rank has its whole node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_without_gangs_and_a_list_of_tasks_are_told() {
    let fleet = fleet(CONFIG, 2).await;
    let id = fleet.submit(json!({ "shell": "true", "gang": { "nodes": 2 } })).await;
    let noted = async |fleet: &Fleet| {
        let detail = fleet.campaign(id).await?;
        detail.notes.into_iter().find(|note| note.code == "refused")
    };
    let note = fleet.until("refused", noted).await;
    assert!(note.text.contains("gang"), "{}", note.text);
    let (status, answer) = fleet
        .ask(
            Method::POST,
            "/v1/campaigns",
            Some(json!({
                "user": user(), "shell": "true", "tasks": 5, "gang": { "nodes": 2 }, "cwd": "/"
            })),
        )
        .await
        .unwrap();
    assert_eq!(status.as_u16(), 422, "{answer}");
    assert!(answer.to_string().contains("a gang runs one program"), "{answer}");
}

/// The hello of MPI.
const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s, sum %d\n", rank, size, getenv("APPORTION_NODE"), sum);
    MPI_Finalize();
    return 0;
}
"#;

/// Compiles the hello; `None` if there is no MPI here.
fn hello(fleet: &Fleet) -> Option<()> {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !has("mpirun") || !has("mpicc") {
        eprintln!("no mpirun or no mpicc: real MPI is not tried");
        return None;
    }
    let source = fleet.folder().join("hello.c");
    fs::write(&source, HELLO).unwrap();
    let mut compiler = Command::new("mpicc");
    let output = compiler.arg("-o").arg(fleet.work().join("hello")).arg(&source).output().unwrap();
    assert!(output.status.success(), "{:?}", text(&output));
    Some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mpirun_uses_all_nodes_by_itself() {
    let fleet = fleet(&config(), 4).await;
    if hello(&fleet).is_none() {
        return;
    }
    // All nodes are this machine, whose only sure network is loopback.
    let flags = [
        "--nodes",
        "4",
        "--exclusive",
        "--env",
        "OMPI_ALLOW_RUN_AS_ROOT=1",
        "--env",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        "--env",
        "OMPI_MCA_oob_tcp_if_include=lo",
        "--env",
        "OMPI_MCA_btl_tcp_if_include=lo",
        "--env",
        "OMPI_MCA_btl=tcp,self",
    ];
    let output = run(&fleet, &flags, &["mpirun", "./hello"]).await;
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(0), "{out} {err}{}", fleet.logs());
    let mut lines: Vec<&str> = out.lines().filter(|line| line.starts_with("rank ")).collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 4, "{out} {err}");
    let mut nodes = BTreeSet::new();
    for (rank, line) in lines.iter().enumerate() {
        let node = line.split(' ').nth(5).unwrap().trim_end_matches(',');
        nodes.insert(node.to_owned());
        assert_eq!(*line, format!("rank {rank} of 4 on {node}, sum 6"));
    }
    assert_eq!(nodes, ["n1", "n2", "n3", "n4"].map(str::to_owned).into());
    let none = async |_: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("nothing is left", none).await;
    let detail: Value = fleet.ask(Method::GET, "/v1/campaigns/1", None).await.unwrap().1;
    assert_eq!(detail["gang"]["nodes"], 4);
}
