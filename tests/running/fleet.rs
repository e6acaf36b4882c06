//! Campaigns on a daemon, an orchestrator and several agents, all of them real processes: fairness,
//! preemption, suspension, memory, lines byte for byte, and a node that nothing reaches.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::fleet;
use crate::support::witness;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::support::fleet::{CONFIG, Fleet, Part, Plan, marked, port};
use reqwest::Method;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const TWO_SLOTS: &[&str] = &["--memory", "512MB"];

fn plan(agents: usize) -> Plan<'static> {
    let detours = BTreeMap::new();
    let head_flags = &["--linger", "1s"];
    Plan { config: CONFIG, agents, agent_flags: TWO_SLOTS, head_flags, detours, ports: None }
}

/// An attempt, as the database has it.
#[derive(Debug)]
struct Attempt {
    task: u64,
    number: u64,
    node: String,
    why: String,
    ms: u64,
    assigned: i64,
    ended: i64,
}

/// All attempts of a campaign that have ended, by task and number.
async fn attempts(folder: &Path, campaign: u64) -> Vec<Attempt> {
    let query = "select task, attempt, node, reason, coalesce(json_extract(result, '$.ms'), 0),
        assigned_ms, ended_ms from attempts where campaign = ? and reason is not null order by 1, 2";
    let path = format!("sqlite:{}", folder.join("orchestrator.db").display());
    let mut database = SqliteConnection::connect(&path).await.unwrap();
    let rows = sqlx::query(query).bind(i64::try_from(campaign).unwrap());
    let rows = rows.fetch_all(&mut database).await.unwrap();
    let number = |row: &SqliteRow, place: usize| u64::try_from(row.get::<i64, _>(place)).unwrap();
    let read = |row: &SqliteRow| Attempt {
        task: number(row, 0),
        number: number(row, 1),
        node: row.get(2),
        why: row.get(3),
        ms: number(row, 4),
        assigned: row.get(5),
        ended: row.get(6),
    };
    rows.iter().map(read).collect()
}

/// Number of shares of each campaign in the schedule.
async fn held(fleet: &Fleet, works: [u64; 2]) -> Option<[usize; 2]> {
    let schedule = fleet.schedule().await?;
    let count = |work: u64| {
        let job = schedule.jobs.iter().find(|job| job.id == work);
        job.map_or(0, |job| job.shares.len() + job.added.len())
    };
    Some(works.map(count))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_equal_right_come_to_halves_and_lose_little() {
    // Several slots a node, so that there is a choice of whom to preempt there.
    let agent_flags = &["--memory", "1GB"];
    let fleet = Fleet::start(&Plan { agent_flags, ..plan(4) }).await;
    let shell = "sleep 0.$((5 + APPORTION_TASK_ID % 5))";
    let bag = |user: &str| json!({ "user": user, "shell": shell, "tasks": 5_000, "grace": "5s" });
    // `nobody` runs the tasks of the second campaign too, if this process may start another user's
    // work.
    let second = if fleet::user() == "nobody" { "daemon" } else { "nobody" };
    let first = fleet.submit(bag(&fleet::user())).await;
    let full = async |fleet: &Fleet| held(fleet, [first, 0]).await.filter(|held| held[0] == 16);
    fleet.until("the first one has all", &full).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    if second == "nobody" {
        // Without the right to start another user's work there is nothing to share.
        return;
    }
    let story = async || {
        let later = fleet.submit(bag(second)).await;
        let is_half = async |fleet: &Fleet| {
            for _ in 0..3 {
                let held = held(fleet, [first, later]).await?;
                let is_fair = held[0].abs_diff(held[1]) <= 2 && held[0] + held[1] == 16;
                if !is_fair {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            Some(())
        };
        fleet.until("halves", is_half).await;
        let runs =
            async |fleet: &Fleet| fleet.campaign(later).await.filter(|it| it.campaign.done > 40);
        fleet.until("the second one gets on", runs).await;
        fleet.change(later, json!({ "state": "cancelled" })).await;
        fleet.until("the first one has all again", &full).await;
    };
    let mut witness = witness::Witness::default();
    // All of a node may go, and a cycle may be missed: then nothing is left to judge by.
    for _ in 0..8 {
        witness.during(&fleet, story()).await;
        if 0 < witness.judged {
            break;
        }
    }
    assert!(0 < witness.judged, "{witness:?}");
    let all = attempts(fleet.folder(), first).await;
    let time = |lost: bool| -> u64 {
        all.iter().filter(|one| (one.why == "preempted") == lost).map(|one| one.ms).sum()
    };
    assert!(time(true) * 20 <= time(false), "lost {} ms of {} ms", time(true), time(false));
    assert!(all.iter().all(|one| ["done", "returned", "preempted"].contains(&one.why.as_str())));
}

/// Counts to 30, four times a second. TERM saves the count.
const COUNTER: &str = r#"
t=$APPORTION_TASK_ID
n=$(cat count.$t 2>/dev/null || echo 0)
trap 'echo $n > count.$t; exit 0' TERM
while [ $n -lt 30 ]; do sleep 0.25; echo "$t $((n+1))" >> steps; n=$((n+1)); done
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_class_starts_and_preempted_tasks_go_on_where_they_were() {
    let fleet = Fleet::start(&plan(4)).await;
    let body = json!({ "shell": COUNTER, "tasks": 24, "class": "normal", "grace": "10s" });
    let low = fleet.submit(body).await;
    let is_busy = async |_: &Fleet| (fleet.lines("steps").len() > 40).then_some(());
    fleet.until("all count", is_busy).await;
    let body = json!({ "shell": "sleep 1; echo >> urgent", "tasks": 8, "class": "urgent" });
    let high = fleet.submit(body).await;
    fleet.until_state(high, "done").await;
    assert_eq!(fleet.lines("urgent").len(), 8);
    let detail = fleet.campaign(low).await.unwrap();
    assert!(detail.campaign.done < 24, "it had to wait: {detail:?}");
    let detail = fleet.until_state(low, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (24, 0));

    let all = attempts(fleet.folder(), low).await;
    let preempted: Vec<&Attempt> = all.iter().filter(|one| one.why == "preempted").collect();
    assert!(!preempted.is_empty());
    for one in &preempted {
        let next = all.iter().find(|it| (it.task, it.number) == (one.task, one.number + 1));
        let next = next.unwrap_or_else(|| panic!("no attempt after {one:?}"));
        // The repeated task is queued first: no untouched task goes before it.
        let overtaker = all
            .iter()
            .find(|it| it.number == 1 && one.ended < it.assigned && it.assigned < next.assigned);
        assert!(overtaker.is_none(), "{overtaker:?} before {next:?}, which follows {one:?}");
    }
    let steps = fleet.lines("steps");
    let different: BTreeSet<&String> = steps.iter().collect();
    assert_eq!(different.len(), 24 * 30);
    // A TERM may come between a step and its count.
    assert!(steps.len() <= different.len() + preempted.len(), "{}", steps.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_work_stops_goes_on_and_a_cancelled_one_leaves_nothing() {
    let fleet = Fleet::start(&plan(2)).await;
    let body = json!({ "shell": "echo >> begun; sleep 0.5", "tasks": 100_000, "grace": "2s" });
    let id = fleet.submit(body).await;
    let begins = async |_: &Fleet| (fleet.lines("begun").len() > 10).then_some(());
    fleet.until("tasks begin", begins).await;
    fleet.change(id, json!({ "state": "suspended" })).await;
    let rests = async |fleet: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("what ran has ended", rests).await;
    let before = fleet.lines("begun").len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.lines("begun").len(), before);
    let ended = attempts(fleet.folder(), id).await;
    assert!(ended.iter().all(|one| one.why == "done" || one.why == "returned"), "{ended:?}");
    fleet.change(id, json!({ "state": "running" })).await;
    let goes_on = async |_: &Fleet| (fleet.lines("begun").len() > before + 5).then_some(());
    fleet.until("tasks begin again", goes_on).await;
    fleet.change(id, json!({ "state": "cancelled" })).await;
    fleet.until_state(id, "cancelled").await;

    // Double forks, a session of its own, and ears that are closed.
    let text = "(setsid sleep 5001 &); (sh -c 'sleep 5002 &' &); trap '' TERM; echo >> deaf; sleep 5003; sleep 5004";
    let id = fleet.submit(json!({ "shell": text, "tasks": 4, "grace": "1s" })).await;
    let is_deaf = |count: usize| {
        let (fleet, file) = (&fleet, "deaf");
        async move |_: &Fleet| (fleet.lines(file).len() >= count).then_some(())
    };
    fleet.until("four run", is_deaf(4)).await;
    fleet.change(id, json!({ "state": "suspended", "now": true })).await;
    fleet.until("nothing runs", rests).await;
    assert_eq!(fleet.campaign(id).await.unwrap().campaign.failed, 0);
    fleet.change(id, json!({ "state": "running" })).await;
    fleet.until("four run again", is_deaf(8)).await;
    fleet.change(id, json!({ "state": "cancelled" })).await;
    fleet.until_state(id, "cancelled").await;
    assert_eq!(marked(fleet.folder()).into_iter().filter(is_task).count(), 0);
}

/// True if a process belongs to a task, and is not the slot itself, which may still close its
/// files.
fn is_task((_, pid): &(String, u32)) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    !words.is_empty() && words.split(|byte| *byte == 0).nth(1) != Some(b"slot")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hog_is_done_with_more_memory() {
    let mut plan = plan(1);
    plan.agent_flags = &["--memory", "1GB"];
    let fleet = Fleet::start(&plan).await;
    let text = r#"exec perl -e '$n = 320 << 20; $x = "x" x $n; sleep 2; print length $x'"#;
    let body = json!({ "shell": text, "tasks": 1, "memory": "256MB", "memory_retry": "2x1" });
    let id = fleet.submit(body).await;
    fleet.until_state(id, "done").await;
    let all = attempts(fleet.folder(), id).await;
    let whys: Vec<&str> = all.iter().map(|one| one.why.as_str()).collect();
    assert_eq!(whys, ["memory", "done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_arrive_byte_for_byte_and_leave_few_files() {
    let fleet = Fleet::start(&plan(1)).await;
    let odd = [
        "a b  c",
        " lead and trail ",
        "\"quo'ted\" `x` $HOME",
        "tab\tbed",
        "grüße 日本 🦀",
        "",
        "back\\slash \\n",
        "*",
        "{task} {entry} {{",
        "-n",
    ];
    let mut lines: Vec<String> = odd.iter().map(|line| (*line).to_owned()).collect();
    lines.extend((0..150).map(|line| format!("line {line}")));
    lines.push("no newline behind it".to_owned());
    let input = fleet.work().join("lines");
    fs::write(&input, lines.join("\n")).unwrap();
    let told = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(["submit", "--url", &fleet.rm, "--orchestrator", &fleet.head, "--wait"])
        .args(["--user", &fleet::user(), "--memory", "256MB", "--each-line"])
        .arg(&input)
        .args(["--shell", "printf %s \"$APPORTION_ENTRY\" > entry.$APPORTION_TASK_ID; echo {task}"])
        .current_dir(fleet.work())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{said}; {}", fleet.logs());
    for (line, task) in lines.iter().zip(1..) {
        let found = fs::read_to_string(fleet.work().join(format!("entry.{task}"))).unwrap();
        assert_eq!(&found, line, "task {task}");
    }
    for slot in fs::read_dir(fleet.folder().join("n1/slots")).unwrap().flatten() {
        let files = fs::read_dir(slot.path()).unwrap().count();
        assert!(files <= 10, "{files} files in {}", slot.path().display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_added_once_however_often_the_orchestrator_is_killed() {
    let mut fleet = Fleet::start(&plan(1)).await;
    let shell = "echo \"$APPORTION_TASK_ID $APPORTION_ENTRY\" >> entries";
    let id = fleet.submit(json!({ "shell": shell, "lines": ["0"] })).await;
    fleet.change(id, json!({ "state": "suspended" })).await;
    let url = format!("{}/v1/campaigns/{id}/tasks", fleet.head);
    let adding = tokio::spawn(async move {
        let client = reqwest::Client::new();
        for number in 1..=40 {
            let body = json!({ "lines": [format!("{number}"), format!("{number} again")] });
            tokio::time::sleep(Duration::from_millis(80)).await;
            loop {
                let request = client.post(&url).header("idempotency-key", format!("k{number}"));
                let answer = request.json(&body).timeout(Duration::from_secs(5)).send().await;
                // Without an answer it may be on record or not: the same key says so.
                if answer.is_ok_and(|answer| answer.status() == reqwest::StatusCode::CREATED) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let mut kills = 0;
    while !adding.is_finished() {
        tokio::time::sleep(Duration::from_millis(500 + fleet::lot() % 800)).await;
        kills += 1;
        assert!(kills < 200, "they are not added; {}", fleet.logs());
        fleet.kill(Part::Orchestrator);
        fleet.revive();
    }
    adding.await.unwrap();
    let answers = async |fleet: &Fleet| fleet.campaign(id).await;
    let detail = fleet.until("it answers", answers).await;
    assert_eq!((detail.campaign.tasks, detail.campaign.queued), (81, 81));
    fleet.change(id, json!({ "state": "running" })).await;
    fleet.until_state(id, "done").await;
    let mut expected = vec!["1 0".to_owned()];
    for number in 1..=40 {
        expected.push(format!("{} {number}", 2 * number));
        expected.push(format!("{} {number} again", 2 * number + 1));
    }
    let mut found = fleet.lines("entries");
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Forwards a port to another until the connection is cut. Bytes under way then arrive nowhere.
async fn open_way(from: u16, to: u16, cut: Arc<watch::Sender<bool>>) {
    let listener = TcpListener::bind(("127.0.0.1", from)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut state = cut.subscribe();
            tokio::spawn(async move {
                if !*state.borrow()
                    && let Ok(mut far) = TcpStream::connect(("127.0.0.1", to)).await
                {
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => return,
                        _ = state.wait_for(|is_cut| *is_cut) => {}
                    }
                }
                // Both ends hear nothing until the way is open again.
                let _ = state.wait_for(|is_cut| !*is_cut).await;
            });
        }
    });
}

/// Starts `agents` agents, the first of which can be cut off.
async fn with_a_way_to_cut(
    agents: usize,
    head_flags: &'static [&'static str],
) -> (Fleet, Arc<watch::Sender<bool>>) {
    let mut plan = plan(agents);
    plan.head_flags = head_flags;
    let ports = [port(), port()];
    plan.ports = Some(ports);
    let cut = Arc::new(watch::channel(false).0);
    let ways = [port(), port()];
    for (way, to) in ways.into_iter().zip(ports) {
        open_way(way, to, Arc::clone(&cut)).await;
    }
    plan.detours.insert(1, ways.map(|way| format!("http://127.0.0.1:{way}")));
    (Fleet::start(&plan).await, cut)
}

/// Runs until a file is there that names its node.
const UNTIL_GO: &str = "while [ ! -e go.$APPORTION_NODE ]; do
    echo $APPORTION_TASK_ID $APPORTION_NODE >> alive; sleep 0.2; done";

/// Number of lines that tasks on a node have written.
fn written(fleet: &Fleet, node: &str) -> usize {
    fleet.lines("alive").iter().filter(|line| line.ends_with(node)).count()
}

/// Waits until so many tasks run, and returns on which nodes.
async fn until_running(fleet: &Fleet, tasks: usize) -> BTreeMap<String, String> {
    let places = || -> BTreeMap<String, String> {
        let lines = fleet.lines("alive");
        let words = lines.iter().filter_map(|line| line.split_once(' '));
        words.map(|(task, node)| (task.to_owned(), node.to_owned())).collect()
    };
    let all_run = async |_: &Fleet| Some(places()).filter(|places| places.len() == tasks);
    fleet.until("all run", all_run).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_may_run_twice_begin_again_while_their_node_is_silent() {
    // The lease does not run out in this test: silence alone has to be enough.
    let (fleet, cut) = with_a_way_to_cut(3, &["--linger", "1s", "--lease", "40s"]).await;
    let body =
        json!({ "shell": UNTIL_GO, "tasks": 6, "grace": "1s", "lanes": 1, "may_run_twice": true });
    let id = fleet.submit(body).await;
    let places = until_running(&fleet, 6).await;
    let stranded: Vec<u64> = places
        .iter()
        .filter(|(_, node)| *node == "n1")
        .map(|(task, _)| task.parse().unwrap())
        .collect();
    assert_eq!(stranded.len(), 2, "{places:?}");
    cut.send(true).unwrap();
    for node in ["n2", "n3"] {
        fs::write(fleet.work().join(format!("go.{node}")), "").unwrap();
    }
    let all_done =
        async |fleet: &Fleet| fleet.campaign(id).await.filter(|it| it.campaign.done == 6);
    let detail = fleet.until("all are done elsewhere", all_done).await;
    assert!(detail.may_run_twice);
    assert_eq!(detail.campaign.state, "finishing", "what the silent node runs is not over");
    let before = written(&fleet, "n1");
    let goes_on = async |fleet: &Fleet| (before < written(fleet, "n1")).then_some(());
    fleet.until("the silent node runs its own", goes_on).await;

    cut.send(false).unwrap();
    let detail = fleet.until_state(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (6, 0));
    let rests = async |fleet: &Fleet| {
        marked(fleet.folder()).into_iter().all(|one| !is_task(&one)).then_some(())
    };
    fleet.until("the losers have ended", rests).await;
    let all = attempts(fleet.folder(), id).await;
    for task in 1..=6 {
        // A task that its slot handed back unbegun did not run there.
        let is_begun = |one: &&Attempt| one.task == task && one.why != "returned";
        let of: Vec<&Attempt> = all.iter().filter(is_begun).collect();
        let told: Vec<(&str, bool)> =
            of.iter().map(|one| (one.why.as_str(), one.node == "n1")).collect();
        if stranded.contains(&task) {
            assert_eq!(told, [("superseded", true), ("done", false)], "{of:?}");
        } else {
            assert_eq!(told, [("done", false)], "{of:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_finishes_unheard_works_on_after_its_lease() {
    let (fleet, cut) = with_a_way_to_cut(2, &["--linger", "1s", "--lease", "4s"]).await;
    let body =
        json!({ "shell": UNTIL_GO, "tasks": 4, "grace": "1s", "lanes": 1, "on_unheard": "finish" });
    let id = fleet.submit(body).await;
    let places = until_running(&fleet, 4).await;
    assert_eq!(places.values().filter(|node| *node == "n1").count(), 2, "{places:?}");
    cut.send(true).unwrap();
    // The lease, the grace, and the time until the orchestrator would give the slots up.
    tokio::time::sleep(Duration::from_secs(4 + 1 + 10 + 3)).await;
    let before = written(&fleet, "n1");
    let goes_on = async |fleet: &Fleet| (before + 5 < written(fleet, "n1")).then_some(());
    fleet.until("both slots work on", goes_on).await;
    let detail = fleet.campaign(id).await.unwrap();
    assert_eq!((detail.campaign.running, detail.on_unheard.as_str()), (4, "finish"));
    for node in ["n1", "n2"] {
        fs::write(fleet.work().join(format!("go.{node}")), "").unwrap();
    }
    let others = async |fleet: &Fleet| fleet.campaign(id).await.filter(|it| it.campaign.done == 2);
    fleet.until("the others are done", others).await;
    cut.send(false).unwrap();
    fleet.until_state(id, "done").await;
    let all = attempts(fleet.folder(), id).await;
    let told: Vec<(u64, u64, &str)> =
        all.iter().map(|one| (one.task, one.number, one.why.as_str())).collect();
    assert_eq!(told, [(1, 1, "done"), (2, 1, "done"), (3, 1, "done"), (4, 1, "done")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_node_that_nothing_reaches_end_before_others_begin() {
    let (fleet, cut) = with_a_way_to_cut(3, &["--linger", "1s", "--lease", "15s"]).await;
    // /proc/uptime is CLOCK_BOOTTIME.
    let text = "while [ ! -e go.$APPORTION_NODE ]; do read up rest < /proc/uptime
        echo $APPORTION_TASK_ID $APPORTION_ATTEMPT $APPORTION_NODE $up >> alive; sleep 0.2; done";
    let body = json!({ "shell": text, "tasks": 6, "grace": "1s", "lanes": 1 });
    let id = fleet.submit(body).await;
    let places = || -> BTreeMap<String, String> {
        let lines = fleet.lines("alive");
        let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        words.map(|words| (words[0].to_owned(), words[2].to_owned())).collect()
    };
    let all_run = async |_: &Fleet| (places().len() == 6).then_some(());
    fleet.until("six run", all_run).await;
    let stranded = places().values().filter(|node| *node == "n1").count();
    assert_eq!(stranded, 2, "{:?}", places());
    cut.send(true).unwrap();
    for node in ["n2", "n3"] {
        fs::write(fleet.work().join(format!("go.{node}")), "").unwrap();
    }
    fleet.until_state(id, "done").await;
    cut.send(false).unwrap();
    // The node is back, and tells what it knows.
    let comes_back = json!({ "shell": "true", "tasks": 1, "nodes": "n1" });
    let again = fleet.submit(comes_back).await;
    fleet.until_state(again, "done").await;

    let all = attempts(fleet.folder(), id).await;
    let done = all.iter().filter(|one| one.why == "done").count();
    let lost: Vec<&Attempt> = all.iter().filter(|one| one.why == "lost").collect();
    assert_eq!((done, lost.len()), (6, 2), "{all:?}");
    assert!(lost.iter().all(|one| one.node == "n1"), "{lost:?}");
    let mut times = BTreeMap::<(String, u64), Vec<f64>>::new();
    for line in fleet.lines("alive") {
        let words: Vec<&str> = line.split(' ').collect();
        let id = (words[0].to_owned(), words[1].parse().unwrap());
        times.entry(id).or_default().push(words[3].parse().unwrap());
    }
    for one in lost {
        let last = times[&(one.task.to_string(), one.number)].last().copied().unwrap();
        let later = times
            .iter()
            .filter(|((task, attempt), _)| *task == one.task.to_string() && one.number < *attempt);
        for (attempt, times) in later {
            assert!(
                last < times[0],
                "{attempt:?} began at {} while {one:?} lived at {last}",
                times[0]
            );
        }
        // If the file is missing, the later attempt found `go` at once; so it began last of all.
        let next = all.iter().find(|it| (it.task, it.number) == (one.task, one.number + 1));
        assert!(one.ended <= next.unwrap().assigned, "{one:?} {next:?}");
    }
}

/// Tasks of which the first attempt that begins hangs.
const HANG: [u64; 5] = [10, 30, 50, 70, 90];

/// The folder tells which attempt begins first: an attempt may return from a slot before it begins.
/// Processes that a hanging attempt starts ignore TERM.
const HANGING: &str = r"
case $APPORTION_TASK_ID in
10|30|50|70|90) mkdir hung.$APPORTION_TASK_ID 2>/dev/null || exit 0
trap '' TERM; sleep 1000 & while :; do sleep 1; done;;
esac
exit 0
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_finish_a_campaign_of_which_five_tasks_hang() {
    let fleet = Fleet::start(&plan(4)).await;
    // `TASKS=1000` is the size of the promise.
    let tasks: u64 = std::env::var("TASKS").map_or(200, |text| text.parse().unwrap());
    let body = json!({ "shell": HANGING, "tasks": tasks, "grace": "1s", "mode": "finalise",
        "may_run_twice": true });
    let id = fleet.submit(body).await;
    let detail = fleet.until_state(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (tasks, 0));
    // The hanging attempts are killed after their grace.
    let superseded = async |fleet: &Fleet| {
        let all = attempts(fleet.folder(), id).await;
        let is_over = |task| all.iter().any(|it| it.task == task && it.why == "superseded");
        HANG.into_iter().all(is_over).then_some(all)
    };
    let all = fleet.until("the hanging attempts are superseded", superseded).await;
    for task in HANG {
        let ends = |why| all.iter().filter(move |one| one.task == task && one.why == why);
        assert_eq!((ends("done").count(), ends("superseded").count()), (1, 1), "{all:?}");
    }
    let rests = async |fleet: &Fleet| marked(fleet.folder()).is_empty().then_some(());
    fleet.until("no process is left", rests).await;
}

/// A node whose mount is broken from the first task elsewhere on: none shows how long a task takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_swallows_from_the_first_task_on_has_no_more_than_40() {
    let fleet = Fleet::start(&plan(3)).await;
    let script = r#"
        if [ "$1" = n1 ]; then while [ ! -e begun ]; do sleep 0.05; done; exit 0; fi
        touch begun; sleep 2; echo $APPORTION_TASK_ID >> worked"#;
    let id =
        fleet.submit(json!({ "command": ["sh", "-c", script, "sh", "{node}"], "tasks": 80 })).await;
    let detail = fleet.until_state(id, "done").await;
    assert_eq!(detail.campaign.done, 80);
    let swallowed = 80 - u64::try_from(fleet.lines("worked").len()).unwrap();
    assert!((4..=40).contains(&swallowed), "{swallowed} were swallowed");
    // The first tasks there waited for those elsewhere.
    assert!((swallowed - 4..=swallowed).contains(&detail.suspicious), "{detail:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_swallows_tasks_is_avoided_and_its_results_are_repeated() {
    let fleet = Fleet::start(&plan(3)).await;
    // The file stands for a broken mount of node n1: its tasks end at once, without work.
    let script =
        r#"[ -e broken ] && [ "$1" = n1 ] && exit 0; sleep 0.5; echo $APPORTION_TASK_ID >> worked"#;
    let command = ["sh", "-c", script, "sh", "{node}"];
    let body = json!({ "command": command, "tasks": 200, "group_target": "0s" });
    let id = fleet.submit(body).await;
    let worked = async |fleet: &Fleet| (40 <= fleet.lines("worked").len()).then_some(());
    fleet.until("others show how long a task takes", worked).await;
    fs::write(fleet.work().join("broken"), "").unwrap();
    let detail = fleet.until_state(id, "done").await;
    assert_eq!(detail.campaign.done, 200);
    let swallowed = 200 - fleet.lines("worked").len();
    assert!((5..=60).contains(&swallowed), "{swallowed} were swallowed");
    let swallowed = u64::try_from(swallowed).unwrap();
    // Each swallowed task is suspicious, and a task that worked there at the time.
    let suspicious = detail.suspicious;
    let most = swallowed + 8;
    assert!((swallowed..=most).contains(&suspicious), "{suspicious} for {swallowed}");
    fs::remove_file(fleet.work().join("broken")).unwrap();
    let path = format!("/v1/campaigns/{id}/resubmit");
    let body = Some(json!({ "suspicious": true }));
    let (_, again) = fleet.ask(Method::POST, &path, body).await.unwrap();
    assert_eq!(again["tasks"], suspicious);
    let detail = fleet.until_state(id, "done").await;
    let worked: BTreeSet<String> = fleet.lines("worked").into_iter().collect();
    assert_eq!((worked.len(), detail.suspicious), (200, 0), "all have worked now");
}
