//! Urgent work over real HTTP: decided at once, on record before the answer, known from then on.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon::{CONFIG, Daemon, apportion, job, shares};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATH: &str = "/v1/urgent";

fn config() -> String {
    let daemon = "[daemon]\nheartbeat_interval = \"100ms\"\n";
    let rare = "prediction = false\nnode_stability = 1000\n";
    let config = CONFIG.replace("[daemon]\n", daemon).replace("prediction = false\n", rare);
    format!(
        "{config}\n[[class]]\nname = \"alarm\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\n\
         priority = 1\ngangs = true\nurgent = true\n\
         [[class]]\nname = \"fixed\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\n\
         [[user]]\nname = \"op\"\nallotment = \"0GB\"\nurgent_allotment = \"9GB\"\n"
    )
}

/// An urgent gang of `nodes` whole nodes.
fn gang(id: u64, nodes: u64) -> Value {
    json!({
        "id": id, "kind": "job", "user": "op", "class": "alarm", "state": "schedulable",
        "chunks": [{"count": nodes, "memory_mb": 1024}], "place": "scatter", "exclusive": true,
        "submitted_ms": 5, "duration_ms": 3_600_000,
    })
}

async fn post(daemon: &Daemon, item: &Value) -> (u16, Value) {
    let (status, answer) = daemon.try_ask(Method::POST, PATH, Some(item)).await.unwrap();
    (status.as_u16(), answer)
}

fn fixed() -> Value {
    json!({
        "id": 9, "kind": "job", "user": "bob", "class": "fixed", "state": "schedulable",
        "memory_mb": 1024, "max_processes": 1, "submitted_ms": 1, "nodes": ["n3"],
    })
}

/// Ann's fair-share job fills n1 and n2, and bob's fixed process is on n3.
async fn occupied(folder: &TempDir) -> Daemon {
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=2 n2=2 n3=1").await;
    daemon.publish(1, &[job(1, "ann", &[]), fixed()]).await;
    let is_full = |schedule: &Value| {
        shares(schedule, 1, "shares").len() == 4 && shares(schedule, 9, "shares").len() == 1
    };
    daemon.schedule_when(is_full).await;
    daemon
}

/// Ann's job with its processes: initialized, or gone.
fn anns(held: &[(u64, &str)], gone: &[(u64, &str)]) -> Value {
    let mut item = job(1, "ann", held);
    let list = item["processes"].as_array_mut().unwrap();
    for (share, node) in gone {
        list.push(json!({"share": share, "node": node, "state": "gone"}));
    }
    item
}

fn share_list(answer: &Value) -> Vec<(u64, String)> {
    let preempted = answer["preempted"].as_array().unwrap().iter();
    let share =
        |it: &Value| (it["share"].as_u64().unwrap(), it["node"].as_str().unwrap().to_owned());
    preempted.map(share).collect()
}

#[tokio::test]
async fn urgent_work_is_accepted_and_starts() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let (status, answer) = post(&daemon, &gang(11, 1)).await;
    assert_eq!((status, &answer["verdict"]), (200, &json!("accepted")), "{answer}");
    let promised = answer["promised"].as_array().unwrap();
    assert_eq!((promised.len(), &promised[0]["rank"]), (1, &json!(0)));
    let taken = share_list(&answer);
    assert_eq!(taken.len(), 2, "all of a node: {answer}");
    assert!(taken.iter().all(|(_, node)| promised[0]["node"] == **node), "{answer}");
    // The answer follows the commit: the cycle is on record.
    assert!(answer["cycle"].as_u64() <= daemon.get("/v1/status").await["cycle"].as_u64());

    // Repeating changes nothing and answers the same.
    assert_eq!(post(&daemon, &gang(11, 1)).await, (200, answer.clone()));
    // `why` has the takings of the last cycle, and another cycle may have come. The record stays.
    let why = daemon.get("/v1/jobs/1/why").await;
    assert!(why["cycle"] != answer["cycle"] || why.to_string().contains("urgent"), "{why}");
    let told = daemon.get("/v1/events?since=0").await;
    assert!(told.to_string().contains(r#""rule":"urgent""#), "{told}");
    let why = daemon.get("/v1/jobs/11/why").await;
    assert_eq!(why["reason"]["code"], "waiting_for_exits", "{why}");

    // The processes exit, and the gang starts on the promised node.
    let schedule = daemon.schedule().await;
    let all: Vec<u64> = shares(&schedule, 1, "shares");
    let gone: Vec<(u64, &str)> =
        taken.iter().map(|(share, node)| (*share, node.as_str())).collect();
    let other = if promised[0]["node"] == "n1" { "n2" } else { "n1" };
    let is_kept = |share: &u64| !gone.iter().any(|(it, _)| it == share);
    let held: Vec<(u64, &str)> = all.into_iter().filter(is_kept).map(|it| (it, other)).collect();
    daemon.publish(2, &[anns(&held, &gone), fixed(), gang(11, 1)]).await;
    let started = daemon.schedule_when(|told| shares(told, 11, "shares").len() == 1).await;
    let jobs = started["jobs"].as_array().unwrap();
    let own = jobs.iter().find(|job| job["id"] == 11).unwrap();
    assert_eq!(own["shares"][0]["node"], promised[0]["node"]);
    // The fixed process is where it was.
    assert_eq!(shares(&started, 9, "shares").len(), 1);
}

#[tokio::test]
async fn urgent_work_is_refused_with_a_reason_and_not_kept() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let before = daemon.schedule_text().await.1;
    let (status, answer) = post(&daemon, &gang(11, 3)).await;
    assert_eq!((status, &answer["code"]), (409, &json!("A012")), "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("needs 3, and 2 can be had"), "{answer}");
    assert_eq!(daemon.try_get("/v1/jobs/11").await.unwrap().0, StatusCode::NOT_FOUND);
    assert_eq!(daemon.schedule_text().await.1, before, "nothing is lost for it");

    let with = |more: Value| {
        let mut item = gang(12, 1);
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let cases = [
        (json!({"user": "ann"}), 409, "an urgent allotment of 0 GB"),
        (json!({"class": "fixed"}), 409, "use `alarm`"),
        (json!({"class": "alram"}), 409, "did you mean `alarm`?"),
        (json!({"id": 9}), 422, "differs from what was published before"),
        (json!({"state": "completed"}), 400, "/state"),
        (json!({"processes": [{"share": 1, "node": "n1", "state": "running"}]}), 400, "processes"),
        (json!({"chunks": []}), 400, "/chunks"),
        (json!({"colour": "red"}), 400, "colour"),
    ];
    for (more, status, words) in cases {
        let answer = post(&daemon, &with(more.clone())).await;
        assert_eq!(answer.0, status, "{more}: {}", answer.1);
        assert!(answer.1.to_string().contains(words), "{more}: {}", answer.1);
    }
    // A publication may not bring urgent work.
    daemon.publish(2, &[job(1, "ann", &[]), fixed(), gang(12, 1)]).await;
    let why = daemon.get_until("/v1/jobs/12/why", |_| true).await;
    assert_eq!(why["reason"]["code"], "only_urgent", "{why}");
    assert!(why.to_string().contains("apportion urgent"), "{why}");
    // The channel admits it all the same.
    assert_eq!(post(&daemon, &gang(12, 1)).await.0, 200);
}

#[tokio::test]
async fn the_eleventh_request_of_a_minute_waits() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    for id in 20..30 {
        assert_eq!(post(&daemon, &gang(id, 3)).await.0, 409);
    }
    let answer = daemon.send(Method::POST, PATH, &gang(30, 1)).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=61).contains(&wait), "{wait}");
}

/// The first publication after the acceptance may be older than it; the second is not.
#[tokio::test]
async fn the_second_publication_without_it_ends_urgent_work() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    assert_eq!(post(&daemon, &gang(11, 1)).await.0, 200);
    let knows = async || daemon.try_get("/v1/jobs/11").await.unwrap().0 == StatusCode::OK;
    let without = [job(1, "ann", &[]), fixed()];
    let publish = async |sequence: u64| {
        let body = json!({"sequence": sequence, "work": without});
        let path = "/v1/publication?wait=commit";
        let answer = daemon.try_ask(Method::PUT, path, Some(&body)).await.unwrap();
        assert_eq!(answer.0, StatusCode::ACCEPTED, "{}", answer.1);
    };
    publish(2).await;
    publish(2).await;
    assert!(knows().await, "the first, and the same again");
    publish(3).await;
    assert!(!knows().await, "the second");
}

#[tokio::test]
async fn accepted_work_survives_a_kill_and_replays() {
    let folder = TempDir::new().unwrap();
    let first = occupied(&folder).await;
    let (_, answer) = post(&first, &gang(11, 1)).await;
    assert_eq!(post(&first, &gang(12, 3)).await.0, 409);
    first.kill();
    drop(first);

    let second = Daemon::start(folder.path(), &config());
    second.get_until("/v1/jobs/11", |job| job["id"] == 11).await;
    assert_eq!(second.try_get("/v1/jobs/12").await.unwrap().0, StatusCode::NOT_FOUND);
    assert_eq!(post(&second, &gang(11, 1)).await, (200, answer.clone()), "the same answer");
    // The orchestrator had a publication in flight.
    second.nodes("n1=2 n2=2 n3=1").await;
    let body = json!({"sequence": 2, "work": [job(1, "ann", &[]), fixed()]});
    second.try_ask(Method::PUT, "/v1/publication?wait=commit", Some(&body)).await.unwrap();
    assert_eq!(second.try_get("/v1/jobs/11").await.unwrap().0, StatusCode::OK);
    second.kill();
    drop(second);
    let record = folder.path().join("state.db");
    let replay = apportion(&["replay", record.to_str().unwrap()]);
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stdout));
}

#[tokio::test]
async fn the_command_says_what_was_decided() {
    let folder = TempDir::new().unwrap();
    let daemon = occupied(&folder).await;
    let ask = |more: &[&str]| {
        let common = ["urgent", "--url", &daemon.url, "--user", "op", "--class", "alarm"];
        apportion(&[&common, more].concat())
    };
    let done = ask(&["--id", "11", "--memory", "1GB", "--nodes", "1", "--exclusive"]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(
        said.starts_with("job 11 is accepted, in cycle ") && said.contains("2 shares"),
        "{said}"
    );
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let refused = ask(&["--id", "12", "--memory", "1GB", "--nodes", "3", "--exclusive"]);
    assert_eq!(refused.status.code(), Some(6));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("refused: ") && said.contains("can be had"), "{said}");
    let json = ask(&["--id", "11", "--memory", "1GB", "--nodes", "1", "--exclusive", "--json"]);
    let again: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(again["verdict"], "accepted");
}
