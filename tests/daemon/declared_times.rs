//! Times of known work that its owner changes, over real HTTP and a kill.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon::{CONFIG, Daemon, apportion, shares};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const HOUR: u64 = 3_600_000;

fn config() -> String {
    let batch = "[[class]]\nname = \"batch\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\ngangs = true\nmax_duration = \"3h\"\n";
    format!("{CONFIG}\n{batch}")
}

/// A gang of whole nodes with these times.
fn gang(id: u64, nodes: u64, times: &Value, running: &[Value]) -> Value {
    let mut gang = json!({
        "id": id, "kind": "job", "user": "ann", "class": "batch", "state": "schedulable",
        "submitted_ms": id, "remaining": nodes, "place": "scatter",
        "chunks": [{ "count": nodes, "memory_mb": 4000 }], "processes": running,
    });
    for (field, value) in times.as_object().unwrap() {
        gang[field] = value.clone();
    }
    gang
}

/// Publishes job 1 with these times on both nodes, and job 2, which waits. Returns the answer.
async fn publish(
    daemon: &Daemon,
    sequence: u64,
    one: &Value,
    two: &Value,
    running: &[Value],
) -> Value {
    let work = [gang(1, 2, one, running), gang(2, 1, two, &[])];
    let body = json!({ "sequence": sequence, "full": true, "work": work });
    let (status, answer) =
        daemon.try_ask(Method::PUT, "/v1/publication", Some(&body)).await.unwrap();
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    answer
}

/// Expected start of job 2 once it is not `before`.
async fn start(daemon: &Daemon, before: u64) -> u64 {
    let is_other = |job: &Value| job["start_estimate_ms"].as_u64().is_some_and(|at| at != before);
    let job = daemon.get_until("/v1/jobs/2", is_other).await;
    job["start_estimate_ms"].as_u64().unwrap()
}

#[tokio::test]
async fn changed_times_count_from_the_next_cycle_on() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=4 n2=4").await;
    let hours = |hours: u64| json!({ "duration_ms": hours * HOUR });
    let half = json!({ "duration_ms": HOUR.div_euclid(2) });
    publish(&daemon, 1, &hours(1), &half, &[]).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 2).await;
    let added = schedule["jobs"][0]["added"].as_array().unwrap().clone();
    let process = |added: &Value| json!({ "share": added["share"], "node": added["node"], "state": "running" });
    let running: Vec<Value> = added.iter().map(process).collect();
    publish(&daemon, 2, &hours(1), &half, &running).await;
    let first = start(&daemon, 0).await;

    // Longer, with a warning; then shorter.
    let longer = publish(&daemon, 3, &hours(2), &half, &running).await;
    assert_eq!(
        (&longer["warnings"][0]["code"], &longer["warnings"][0]["pointer"]),
        (&json!("P031"), &json!("/work/0/duration_ms")),
        "{longer}"
    );
    assert!(
        longer["warnings"][0]["detail"].as_str().unwrap().contains("runs for 2h and not for 1h")
    );
    assert_eq!(start(&daemon, first).await, first + HOUR);

    // It is kept over a kill, and a change that was published meanwhile is taken.
    daemon.kill();
    drop(daemon);
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=4 n2=4").await;
    let same = publish(&daemon, 4, &hours(2), &half, &running).await;
    assert_eq!(same["warnings"], json!([]), "known by now: {same}");
    assert_eq!(start(&daemon, first).await, first + HOUR);
    let not_before = json!({ "duration_ms": HOUR, "not_before_ms": first + 2 * HOUR });
    publish(&daemon, 5, &hours(1), &not_before, &running).await;
    assert_eq!(start(&daemon, first + HOUR).await, first + 2 * HOUR);

    // Values that cannot be: the known times stay.
    let now = json!({ "duration_ms": HOUR, "not_before_ms": 9, "deadline_ms": 8 });
    let bad = publish(&daemon, 6, &hours(4), &now, &running).await;
    let refused = |place: usize| {
        format!("{} {}", bad["refused"][place]["code"], bad["refused"][place]["pointer"])
    };
    assert_eq!(refused(0), "\"P036\" \"/work/0/duration_ms\"", "{bad}");
    assert_eq!(refused(1), "\"P031\" \"/work/1/deadline_ms\"", "{bad}");
    let one = daemon.get("/v1/jobs/1").await;
    assert_eq!((&one["duration_ms"], &one["sums"]["held"]), (&json!(HOUR), &json!(2)), "{one}");
    assert_eq!(daemon.get("/v1/jobs/2").await["not_before_ms"], first + 2 * HOUR);

    // A deadline too early, and later again.
    let deadline = |at: u64| json!({ "duration_ms": HOUR, "deadline_ms": at });
    publish(&daemon, 7, &hours(1), &deadline(first + 1), &running).await;
    let reason = |code: &'static str| move |job: &Value| job["reason"]["code"] == code;
    daemon.get_until("/v1/jobs/2", reason("deadline_unreachable")).await;
    publish(&daemon, 8, &hours(1), &deadline(first + HOUR), &running).await;
    daemon.get_until("/v1/jobs/2", reason("gang_waits")).await;
    assert_eq!(start(&daemon, 0).await, first);
    drop(daemon);

    let state = folder.path().join("state.db");
    let replayed = apportion(&["replay", state.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success(), "{said}{}", String::from_utf8_lossy(&replayed.stderr));
    assert!(said.contains("are what they were"), "{said}");
}

/// A value of the metric of errors of estimates.
async fn start_error(daemon: &Daemon, what: &str, labels: &str) -> String {
    let text = daemon.ask("/metrics").await.text().await.unwrap();
    let series = format!("apportion_start_estimate_error_seconds_{what}{{{labels}}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&series));
    value.unwrap_or_else(|| panic!("no {series} in {text}")).to_owned()
}

/// The job before it ends at once: its follower starts an hour before its first estimate, and two
/// before its last.
#[tokio::test]
async fn a_start_is_compared_with_its_first_and_last_estimate() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=4 n2=4").await;
    let hours = |hours: u64| json!({ "duration_ms": hours * HOUR });
    publish(&daemon, 1, &hours(1), &hours(1), &[]).await;
    let first = start(&daemon, 0).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 2).await;
    let added = schedule["jobs"][0]["added"].as_array().unwrap().clone();
    let process = |added: &Value| json!({ "share": added["share"], "node": added["node"], "state": "running" });
    let running: Vec<Value> = added.iter().map(process).collect();
    publish(&daemon, 2, &hours(2), &hours(1), &running).await;
    assert_eq!(start(&daemon, first).await, first + HOUR);
    let labels = ["told=\"first\",start=\"early\"", "told=\"last\",start=\"early\""];
    for labels in labels {
        assert_eq!(start_error(&daemon, "count", labels).await, "0", "nothing started yet");
    }
    daemon.publish(3, &[gang(2, 1, &hours(1), &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 2, "added").len() == 1).await;
    for (labels, error) in labels.into_iter().zip([3600.0, 7200.0]) {
        assert_eq!(start_error(&daemon, "count", labels).await, "1");
        let sum: f64 = start_error(&daemon, "sum", labels).await.parse().unwrap();
        assert!((error - 60.0..=error).contains(&sum), "{labels}: {sum}");
    }
    let late = "told=\"last\",start=\"late\"";
    assert_eq!(start_error(&daemon, "count", late).await, "0");
}

/// Processes of these shares, which run.
fn processes(schedule: &Value, id: u64) -> Vec<Value> {
    let job = schedule["jobs"].as_array().unwrap().iter().find(|job| job["id"] == id).unwrap();
    let process = |share: &Value| json!({ "share": share["share"], "node": share["node"], "state": "running" });
    job["added"].as_array().unwrap().iter().map(process).collect()
}

/// Time alone ends the gang, and its node goes to the gang that waits.
#[tokio::test]
async fn gang_beyond_its_time_is_over_where_its_class_says_so() {
    let folder = TempDir::new().unwrap();
    let config = format!("{}on_overrun = \"end\"\n", config());
    let daemon = Daemon::start(folder.path(), &config);
    daemon.nodes("n1=4 n2=4").await;
    let (short, long) = (json!({ "duration_ms": 3000 }), json!({ "duration_ms": HOUR }));
    publish(&daemon, 1, &short, &long, &[]).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 2).await;
    let running = processes(&schedule, 1);
    publish(&daemon, 2, &short, &long, &running).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 1, "removed").len() == 2).await;
    let removed = &schedule["jobs"][0]["removed"];
    assert_eq!([&removed[0]["reason"], &removed[1]["reason"]], ["overrun"; 2], "{removed}");
    let why = daemon.get_until("/v1/jobs/1/why", |why| why["reason"]["code"] == "overrun").await;
    let sentence = why["reason"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("it ran longer than it declared, so that it is over"), "{why}");
    assert!(why.to_string().contains("submitted anew with a longer time"), "{why}");
    let events = daemon.get("/v1/events?since=0").await.to_string();
    assert!(events.contains("\"rule\":\"overrun\""), "{events}");

    // Its space returns with its exits, and it stays over, also after a kill.
    let gone = |process: &Value| json!({ "share": process["share"], "node": process["node"], "state": "gone" });
    let gone: Vec<Value> = running.iter().map(gone).collect();
    publish(&daemon, 3, &long, &long, &gone).await;
    let schedule = daemon.schedule_when(|schedule| shares(schedule, 2, "added").len() == 1).await;
    assert!(shares(&schedule, 1, "added").is_empty());
    daemon.kill();
    drop(daemon);
    let daemon = Daemon::start(folder.path(), &config);
    daemon.nodes("n1=4 n2=4").await;
    publish(&daemon, 4, &long, &long, &[]).await;
    daemon.get_until("/v1/jobs/1", |job| job["reason"]["code"] == "overrun").await;
    drop(daemon);
    let state = folder.path().join("state.db");
    let replayed = apportion(&["replay", state.to_str().unwrap()]);
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
}
