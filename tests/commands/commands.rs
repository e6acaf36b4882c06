//! Every command against a real daemon: inputs of operators and users, and outputs for scripts.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::support::daemon::{CONFIG, Daemon, apportion, job};
use apportion::cli::args::Cli;
use clap::CommandFactory;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Exit status, standard output, standard error.
fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Two nodes, and two users with a job each that wants everything; a third that is impossible.
async fn shared(folder: &TempDir) -> Daemon {
    let daemon = Daemon::start(folder.path(), CONFIG);
    daemon.nodes("n1=4 n2=4").await;
    let mut huge = job(3, "cid", &[]);
    huge["memory_mb"] = (64 * 1024).into();
    daemon.publish(1, &[job(1, "ann", &[]), job(2, "bob", &[]), huge]).await;
    let held = |schedule: &Value, id| daemon::shares(schedule, id, "shares").len();
    daemon.schedule_when(|schedule| held(schedule, 1) == 4 && held(schedule, 2) == 4).await;
    daemon
}

/// Runs a command that must succeed; returns its output.
#[track_caller]
fn ask(daemon: &Daemon, command: &str) -> String {
    let mut args: Vec<&str> = command.split(' ').collect();
    args.extend(["--url", &daemon.url]);
    let (status, stdout, stderr) = told(apportion(&args));
    assert_eq!((status, stderr.as_str()), (0, ""), "{command}: {stdout}");
    stdout
}

#[tokio::test]
async fn reservations_are_planned_listed_and_deleted() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    assert!(ask(&daemon, "reservation list").starts_with("No reservation and no maintenance"));
    let create = "reservation create r1 --nodes n[1-2] --start +2h --for 90m --users ann,cyd";
    let dry = ask(&daemon, &format!("{create} --dry-run"));
    assert!(dry.starts_with("reservation r1 would be created: in 2h\nnodes:    n[1-2]\n"), "{dry}");
    let done = ask(&daemon, create);
    for words in ["reservation r1 created", "n[1-2]", ", 1h 30m later", "ann,cyd", "classes:  all"]
    {
        assert!(done.contains(words), "{words}: {done}");
    }
    let plan = "node maintenance n? --start 2099-01-01T00:00Z --end +1h --reason disks";
    let mut args: Vec<&str> = plan.split(' ').collect();
    args.extend(["--url", &daemon.url]);
    let (status, _, stderr) = told(apportion(&args));
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("is not after the start") && stderr.contains("(P031)"), "{stderr}");
    let plan = "node maintenance n? --start +5h --for 2h --reason disks --name m1";
    let said = ask(&daemon, plan);
    assert!(said.contains("is evicted shortly before the start"), "{said}");
    let listed = ask(&daemon, "reservation ls");
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[1].starts_with("r1    reservation  n[1-2]") && lines[1].contains("in 1h 59m"));
    assert!(lines[2].starts_with("m1    maintenance  n[1-2]"), "{listed}");
    assert_eq!(ask(&daemon, "reservation list -o name"), "r1\nm1\n");
    let shown: Value = serde_json::from_str(&ask(&daemon, "reservation r1 --json")).unwrap();
    assert_eq!(shown["users"], serde_json::json!(["ann", "cyd"]));
    assert!(ask(&daemon, "node show n1").contains("window:   reservation r1, "));
    // A maintenance that begins now takes work away, so a script has to agree.
    let now = ["node", "maintenance", "n1", "--start", "now", "--for", "1h", "--reason", "fan"];
    let url = ["--url", &daemon.url];
    let (status, stdout, stderr) = told(apportion(&[&now[..], &url[..]].concat()));
    assert_eq!(status, 1, "{stdout}");
    assert!(stdout.contains("4 shares of ") && stderr.contains("--yes"), "{stdout}{stderr}");
    let (status, stdout, _) = told(apportion(&[&now[..], &["--yes"], &url[..]].concat()));
    assert_eq!(status, 0, "{stdout}");
    assert!(stdout.contains(" evicted (") && stdout.contains("open for another 1h"), "{stdout}");
    assert_eq!(ask(&daemon, "nodes --state maintenance -o name"), "n1\n");
    assert_eq!(ask(&daemon, "reservation delete r1"), "r1 deleted: n[1-2] free of it\n");
    let again = ask(&daemon, "reservation delete r1");
    assert!(again.starts_with("no reservation `r1`"), "{again}");
}

#[tokio::test]
async fn every_question_has_an_answer_in_every_form() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    // The question, what a person reads in it, and how many lines programs get.
    let cases: [(&str, &str, usize); 14] = [
        ("nodes", "n[1-2]  main  up", 2),
        ("nodes n[1-2] --state up", "n[1-2]", 2),
        ("node show n2", "n2 in pool main: up", 1),
        ("queue", "impossible: one process", 3),
        ("queue --user ann", "fair share used", 1),
        ("queue --summary", "fair_share_used", 2),
        ("job show 1", "job 1 of ann in class normal: ", 1),
        ("job explain 3", "a larger node joins", 1),
        ("why 3 --sentence", "needs:   impossible as things are", 1),
        ("class show normal", "held:       8 GB", 1),
        ("users", "cid", 3),
        ("user show bob", "user bob: 1 job, 0 without a process", 1),
        ("load", "no: no node is so large", 1),
        ("occupancy", "assigned", 2),
    ];
    for (question, words, entries) in cases {
        let shown = ask(&daemon, question);
        assert!(shown.contains(words), "{question}:\n{shown}");
        assert!(ask(&daemon, &format!("{question} -o wide")).lines().count() > 0, "{question}");
        let json = ask(&daemon, &format!("{question} --json"));
        // Ages may differ.
        let again = ask(&daemon, &format!("{question} -o json"));
        assert_eq!(json.lines().count(), again.lines().count());
        serde_json::from_str::<Value>(&json).unwrap();
        let lines = ask(&daemon, &format!("{question} -o jsonl"));
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), entries, "{question}: {lines:?}");
    }
    for state in ["awaited", "dead", "varied-off", "quiesced", "blacklisted", "maintenance"] {
        assert!(
            ask(&daemon, &format!("nodes --state {state}")).contains("No such node"),
            "{state}"
        );
    }
    let diag = ask(&daemon, "diag");
    for words in [
        "nodes:        2 of 2 up",
        "3 jobs, of which 3 wait and 0 are refused",
        "planning:",
        "since the start, 0 refused, 0 failed",
        "\n  GET /v1/jobs ",
        "\n  anybody  -     127.0.0.1 ",
    ] {
        assert!(diag.contains(words), "{words}: {diag}");
    }
    let wide = ask(&daemon, "diag -o wide");
    let published = wide.lines().find(|line| line.contains("PUT /v1/publication")).unwrap();
    assert_eq!(published.split_whitespace().nth(2), Some("1"), "{published}");
    let diag: Value = serde_json::from_str(&ask(&daemon, "diag --json")).unwrap();
    assert!(diag["cycle"].as_u64().unwrap() > 0 && diag["requests"].as_array().unwrap().len() > 8);
    assert_eq!(
        (&diag["clients"][0]["client"], &diag["other_clients"]["requests"]),
        (&"anybody".into(), &0.into())
    );
    let listed = ask(&daemon, "classes");
    assert_eq!(
        ask(&daemon, "classes --no-header").trim(),
        listed.split_once('\n').unwrap().1.trim()
    );
}

/// The counts of nodes agree with the list, through HTTP as well.
#[tokio::test]
async fn why_has_three_depths() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    let at = |depth: &str| {
        let path = format!("/v1/jobs/1/why{depth}");
        async { daemon.get(&{ path }).await }
    };
    let (brief, usual, whole) =
        (at("?depth=sentence").await, at("").await, at("?depth=nodes").await);
    assert_eq!(usual, at("?depth=reasons").await);
    for part in ["job", "sentence", "reason", "unblock"] {
        assert_eq!((&brief[part], &usual[part]), (&usual[part], &whole[part]), "{part}");
    }
    assert_eq!([&brief["sums"], &usual["verdicts"]], [&Value::Null; 2]);
    assert_eq!(whole["verdicts"].as_array().unwrap().len(), 2);
    assert_eq!(daemon.ask("/v1/jobs/1/why?depth=sea").await.status(), 400);

    let [sentence, reasons, nodes] =
        ["--sentence", "--reasons", "--nodes"].map(|depth| ask(&daemon, &format!("why 1 {depth}")));
    assert!(reasons.starts_with(sentence.trim()), "{sentence}{reasons}");
    assert!(nodes.starts_with(reasons.trim()), "{reasons}{nodes}");
    assert!(nodes.contains("n[1-2]  full"), "{nodes}");
    assert_eq!(ask(&daemon, "why 1"), reasons);
}

/// A gang of three GPU nodes in a rack that has two: like nodes share a line, within 80 columns.
#[tokio::test]
async fn why_tells_of_each_node_what_a_gang_lacks_there() {
    let folder = TempDir::new().unwrap();
    let tags =
        |nodes: &str, tag: &str| format!("[[tags]]\nnodes = [\"{nodes}\"]\nset = [\"{tag}\"]\n");
    let config = format!(
        "{CONFIG}\n[[class]]\nname = \"wide\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\ngangs = true\n{}{}{}",
        tags("a[1-6]", "rack=a"),
        tags("b[1-6]", "rack=b"),
        tags("a[1-2],b1", "gpu=a100"),
    );
    let daemon = Daemon::start(folder.path(), &config);
    let nodes: Vec<String> = (1..7).map(|it| format!("a{it}=8 b{it}=8")).collect();
    daemon.nodes(&nodes.join(" ")).await;
    let gang = json!({
        "id": 1, "kind": "job", "user": "ann", "class": "wide", "state": "schedulable",
        "chunks": [{"count": 3, "memory_mb": 4096, "tags": {"gpu": "a100"}}], "place": "scatter",
        "group_by": "rack", "span": false, "submitted_ms": 5,
    });
    daemon.publish(1, &[gang]).await;
    let is_told = |why: &Value| why["reason"]["code"] == "cannot_span";
    let why = daemon.get_until("/v1/jobs/1/why?depth=nodes", is_told).await;
    let verdict = |node: &str| {
        let mut verdicts = why["verdicts"].as_array().unwrap().iter();
        verdicts.find(|verdict| verdict["node"] == node).unwrap()["verdict"].clone()
    };
    assert_eq!((verdict("a1"), verdict("b4")), ("other_set".into(), "lacks_tags".into()));
    assert_eq!([&why["nodes"]["other_set"], &why["nodes"]["lacks_tags"]], [3, 9]);
    let shown = ask(&daemon, "why 1 --nodes");
    let table = shown.split_once("NODE").unwrap().1;
    for line in [
        "a[3-6],b[2-6]  without its tags  has no gpu=a100",
        "a[1-2]         in a small set    rack=a could never hold all 3 processes",
        "b1             in a small set    rack=b could never hold all 3 processes",
    ] {
        assert!(table.contains(line), "{line}\n{shown}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let wide = ask(&daemon, "nodes -o wide");
    assert!(wide.lines().any(|line| line.ends_with("gpu=a100,rack=a")), "{wide}");
    let told = ask(&daemon, "why 1 --nodes -o json");
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["verdicts"], why["verdicts"]);
}

#[tokio::test]
async fn what_is_not_there_ends_with_5_and_what_is_near_is_named() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    let cases = [
        ("node show n3", "no node n3 has reported, did you mean `n"),
        ("occupancy n[2-4]", "no node n[3-4] has reported"),
        ("class show nromal", "did you mean `normal`?"),
        ("user show anm", "did you mean `ann`?"),
        ("job show 7", "no job 7"),
        ("why 1 7", "no job 7"),
        ("nodes x*", "no node x* has reported"),
        ("nodes --pool mian", "did you mean `main`?"),
        ("queue --class nromal", "did you mean `normal`?"),
        ("queue --user anm", "did you mean `ann`?"),
        ("queue --node n9", "no node n9 has reported"),
        ("events --node n9", "no node n9 has reported"),
    ];
    for (question, words) in cases {
        let mut args: Vec<&str> = question.split(' ').collect();
        args.extend(["--url", &daemon.url]);
        let (status, stdout, stderr) = told(apportion(&args));
        assert_eq!((status, stdout.as_str()), (5, ""), "{question}: {stderr}");
        assert!(stderr.contains(words), "{question}: {stderr}");
    }
}

#[tokio::test]
async fn events_are_told_from_where_one_asks() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    daemon.vary_off("n2").await;
    let all = ask(&daemon, "events --since 0");
    for words in
        ["added     job 1: +", "nodes     n[1-2]: new -> up", "admin     vary-off n2 (a test)"]
    {
        assert!(all.contains(words), "{words} is not in\n{all}");
    }
    assert_eq!(ask(&daemon, "events"), all, "fewer than are told unasked");
    assert_eq!(ask(&daemon, "events --since 10h"), all);
    let numbers = |lines: &str| -> Vec<u64> {
        let number = |line| serde_json::from_str::<Value>(line).unwrap()["sequence"].as_u64();
        lines.lines().map(|line| number(line).unwrap()).collect()
    };
    let events = numbers(&ask(&daemon, "events --since 0 --json"));
    assert_eq!(events, (1..=u64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(numbers(&ask(&daemon, "events --since 2 -o jsonl")), events[2..]);
}

/// A process that ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start(daemon: &Daemon, args: &[&str]) -> (Running, impl Iterator<Item = String>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(args)
        .args(["--url", &daemon.url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (Running(child), lines)
}

/// A command asks again only after an event.
#[tokio::test]
async fn who_watches_and_who_follows_is_told_what_comes_about() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    let (_watching, watched) = start(&daemon, &["nodes", "--watch", "-o", "jsonl"]);
    let (_following, mut followed) = start(&daemon, &["events", "-f"]);
    // Both are there before anything happens.
    let mut watched = watched.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert_eq!(watched.next().unwrap()["states"][0], "up");
    let first = followed.next().unwrap();
    daemon.vary_off("n2").await;
    let is_off = |node: &Value| node["name"] == "n2" && node["states"][0] == "varied-off";
    assert!(watched.take(200).any(|node| is_off(&node)));
    assert!(followed.any(|line| line.contains("vary-off n2 (a test)")), "{first}");
}

/// The binary under another name.
fn link(folder: &Path, name: &str, daemon: &Daemon, args: &[&str]) -> (i32, String, String) {
    let link = folder.join(name);
    symlink(env!("CARGO_BIN_EXE_apportion"), &link).unwrap();
    let output = Command::new(&link).args(args).env("APPORTION_URL", &daemon.url).output().unwrap();
    std::fs::remove_file(&link).unwrap();
    told(output)
}

#[tokio::test]
async fn links_with_the_originals_names_do_what_those_commands_did() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    let call = |name, args: &[&str]| link(folder.path(), name, &daemon, args);

    let (status, stdout, stderr) = call("vary_off", &["nowhere", "n2"]);
    assert_eq!((status, stderr.as_str()), (1, ""), "one is unknown, and the other is done");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert_eq!(lines[0], "nowhere: no such node");
    assert!(lines[1].starts_with("n2: varied off; 4 shares evicted"), "{stdout}");
    let again = call("vary_off", &["n2"]);
    assert_eq!((again.0, again.1.as_str()), (0, "n2: already varied off\n"));
    assert_eq!(call("vary_on", &["n2"]).1, "n2: varied on\n");
    assert_eq!(call("vary_off", &[]).0, 1, "used wrongly");

    let (status, load, _) = call("rm_qload", &[]);
    assert_eq!(status, 0);
    assert!(load.contains("WHOLE") && load.contains("normal"), "{load}");
    let (status, occupancy, _) = call("rm_qoccupancy", &[]);
    assert_eq!(status, 0);
    let heading: Vec<&str> = occupancy.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heading.len(), 14, "{occupancy}");
    assert!(occupancy.contains("\n    job 1 ann normal: share "), "{occupancy}");
    let (status, told, stderr) = call("rm_reconfigure", &[]);
    assert_eq!(status, 0, "{stderr}");
    assert!(told.contains("generation 1 is in effect"), "{told}");
    std::fs::write(folder.path().join("apportion.toml"), "nonsense").unwrap();
    let (status, _, stderr) = call("rm_reconfigure", &[]);
    assert_eq!(status, 1);
    assert!(stderr.contains("is wrong in one place"), "{stderr}");
}

/// Every command there is, by its words.
fn commands() -> Vec<Vec<String>> {
    fn below(command: &clap::Command, words: &[String]) -> Vec<Vec<String>> {
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let subcommands = shown.flat_map(|one| {
            let words = [words, &[one.get_name().to_owned()]].concat();
            [vec![words.clone()], below(one, &words)].concat()
        });
        subcommands.collect()
    }
    below(&Cli::command(), &[])
}

#[test]
fn every_command_teaches_by_example_and_has_a_page_and_completions() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("man");
    let (status, stdout, stderr) = told(apportion(&["man", "--out", out.to_str().unwrap()]));
    assert_eq!((status, stderr.as_str()), (0, ""));
    let commands = commands();
    assert!(40 < commands.len(), "{commands:?}");
    // The additional page is about the whole program.
    assert!(stdout.starts_with(&format!("{} pages", commands.len() + 1)), "{stdout}");
    for words in &commands {
        let page = out.join(format!("apportion-{}.1", words.join("-")));
        let page = std::fs::read_to_string(&page).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH DESCRIPTION"), "{words:?}");
        let args: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let (status, help, _) = told(apportion(&args));
        assert_eq!(status, 0, "{words:?}");
        let has_subcommands = help.contains("\nCommands:\n");
        assert!(has_subcommands || help.contains("Examples:\n  apportion "), "{words:?}: {help}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, script, _) = told(apportion(&["completions", shell]));
        assert!(status == 0 && script.contains("APPORTION_COMPLETE"), "{shell}: {script}");
    }
    let (status, page, _) = told(apportion(&["man"]));
    assert!(status == 0 && page.contains(".TH apportion 1"), "{page}");
}

/// As fish asks: the words so far, the last one unfinished.
#[tokio::test]
async fn a_shell_completes_what_there_is_in_the_cluster() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    let complete = |url: &str, words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(["--", "apportion"])
            .args(words.split(' '))
            .env("APPORTION_COMPLETE", "fish")
            .env("APPORTION_URL", url)
            .output();
        let (status, stdout, stderr) = told(output.unwrap());
        assert_eq!((status, stderr.as_str()), (0, ""), "{words}");
        stdout
    };
    for (words, offered) in [
        ("no", "node\t"),
        ("node va", "vary-off\t"),
        ("why ", "\n2\n"),
        ("job show ", "\n3\n"),
        ("node show ", "n2\n"),
        ("class show n", "normal\n"),
        ("queue --user a", "ann\n"),
        ("queue --class ", "normal\n"),
        ("queue --state w", "waiting"),
        ("nodes --pool m", "main\n"),
    ] {
        let shown = format!("\n{}", complete(&daemon.url, words));
        assert!(shown.contains(offered), "{words}: {shown}");
    }
    // Without a daemon the commands are still there.
    assert!(complete("http://127.0.0.1:1", "node va").contains("vary-off"));
    complete("http://127.0.0.1:1", "why ");
}

#[test]
fn top_says_that_it_needs_a_terminal() {
    let (status, stdout, stderr) = told(apportion(&["top", "--url", "http://127.0.0.1:1"]));
    assert_eq!((status, stdout.as_str()), (1, ""));
    assert!(stderr.contains("`apportion diag`"), "{stderr}");
}
