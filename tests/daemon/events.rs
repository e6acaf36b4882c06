//! The feed of the real daemon: every change that matters, in order and without a gap, over
//! restarts too; and a pointer to the whole where it reaches back too far.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::daemon::{CONFIG, Daemon, job, shares};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, raw_sql};

/// Every event after `since`, page by page.
async fn all_since(daemon: &Daemon, since: u64) -> Vec<Value> {
    let (mut since, mut all) = (since, Vec::new());
    loop {
        let page = daemon.get(&format!("/v1/events?since={since}")).await;
        all.extend(page["events"].as_array().unwrap_or_else(|| panic!("{page}")).iter().cloned());
        since = page["sequence"].as_u64().unwrap();
        if page["more"] == false {
            return all;
        }
    }
}

/// Up to which event the schedule goes.
async fn sequence_of(daemon: &Daemon) -> u64 {
    let answer = daemon.ask("/v1/schedule").await;
    answer.headers()["apportion-sequence"].to_str().unwrap().parse().unwrap()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// The shares named in all events of a kind.
fn shares_in(events: &[Value], kind: &str) -> BTreeSet<u64> {
    let lists =
        of_kind(events, kind).into_iter().flat_map(|event| event["shares"].as_array().unwrap());
    lists.map(|share| share["share"].as_u64().unwrap()).collect()
}

/// Shares that exist and are not terminating.
fn kept(schedule: &Value, ids: &[u64]) -> BTreeSet<u64> {
    let all = ids.iter().flat_map(|id| shares(schedule, *id, "shares"));
    let gone: BTreeSet<u64> = ids.iter().flat_map(|id| shares(schedule, *id, "removed")).collect();
    all.filter(|share| !gone.contains(share)).collect()
}

async fn busy(daemon: &Daemon) {
    daemon.nodes("n1=4 n2=4").await;
    daemon.publish(1, &[job(1, "ann", &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 8).await;
    daemon.publish(2, &[job(1, "ann", &[]), job(2, "bob", &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 1, "removed").len() == 4).await;
}

#[tokio::test]
async fn what_matters_is_told_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    busy(&daemon).await;
    daemon.vary_off("n2").await;
    let mut stray = job(3, "cid", &[]);
    stray["class"] = json!("nromal");
    daemon.publish(3, &[job(1, "ann", &[]), job(2, "bob", &[]), stray]).await;
    daemon.schedule_when(|schedule| schedule["jobs"].as_array().unwrap().len() == 3).await;

    let events = all_since(&daemon, 0).await;
    assert_eq!(numbers(&events), (1..=u64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
    let nodes = of_kind(&events, "nodes");
    let (first, off) = (&nodes[0]["nodes"], &nodes[1]["nodes"]);
    assert_eq!(first[0], json!({ "node": "n1", "states": ["up"], "memory_mb": 4096 }));
    let varied_off = json!({ "node": "n2", "states": ["varied-off"], "states_before": ["up"], "memory_mb": 4096 });
    assert_eq!(off, &json!([varied_off]));
    let added = &of_kind(&events, "added")[0]["shares"];
    assert_eq!(
        added[0],
        json!({ "job": 1, "share": 1, "node": added[0]["node"], "memory_mb": 1024 })
    );
    assert_eq!(added.as_array().unwrap().len(), 8);
    let removed = &of_kind(&events, "removed")[0]["shares"][0];
    let preempted = ["job", "purge", "reason", "rule", "beneficiary"].map(|field| &removed[field]);
    assert_eq!(json!(preempted), json!([1, false, "preempted", "fair_share", 2]));
    let evicted = &of_kind(&events, "removed")[1]["shares"][0];
    assert_eq!((&evicted["reason"], evicted.get("rule")), (&json!("varied_off"), None));
    let act = of_kind(&events, "administration")[0];
    assert_eq!(
        json!([act["action"], act["nodes"], act["reason"]]),
        json!(["vary-off", ["n2"], "a test"])
    );
    let refused = &of_kind(&events, "refused")[0]["work"];
    assert_eq!(refused[0]["job"], 3);
    assert_eq!(refused[0]["reason"]["code"], "unknown_class");
    // No event comes twice.
    let told: Vec<u64> = shares_in(&events, "removed").into_iter().collect();
    let times: usize = of_kind(&events, "removed")
        .iter()
        .map(|event| event["shares"].as_array().unwrap().len())
        .sum();
    assert_eq!(told.len(), times);
}

/// An orchestrator that was away catches up from the schedule it has, though the daemon was killed
/// meanwhile.
#[tokio::test]
async fn nothing_is_left_out_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let first = Daemon::start(folder.path(), CONFIG);
    first.nodes("n1=4 n2=4").await;
    first.publish(1, &[job(1, "ann", &[])]).await;
    first.schedule_when(|schedule| shares(schedule, 1, "added").len() == 8).await;
    let since = sequence_of(&first).await;
    first.publish(2, &[job(1, "ann", &[]), job(2, "bob", &[])]).await;
    first.schedule_when(|schedule| shares(schedule, 1, "removed").len() == 4).await;
    let before = all_since(&first, 0).await;
    drop(first);

    let second = Daemon::start(folder.path(), CONFIG);
    assert_eq!(all_since(&second, 0).await, before, "what was told stays");
    second.publish(3, &[job(2, "bob", &[])]).await;
    second.schedule_when(|schedule| shares(schedule, 2, "added").len() == 8).await;
    drop(second);
    let third = Daemon::start(folder.path(), CONFIG);
    third.nodes("n1=4 n2=4 n3=2").await;
    let now = third.schedule_when(|schedule| shares(schedule, 2, "added").len() == 10).await;

    let missed = all_since(&third, since).await;
    assert_eq!(numbers(&missed).first(), Some(&(since + 1)));
    assert!(numbers(&missed).windows(2).all(|pair| pair[0] + 1 == pair[1]));
    // Ann's job is over, which the orchestrator said itself.
    let caught_up: BTreeSet<u64> =
        shares_in(&missed, "added").difference(&shares_in(&missed, "removed")).copied().collect();
    assert_eq!(caught_up, kept(&now, &[2]));
    assert_eq!(all_since(&third, sequence_of(&third).await).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_late_follower_is_sent_to_the_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG}\n[daemon.journal]\ncycles = 5\nbooks_every = 1\n");
    let daemon = Daemon::start(folder.path(), &config);
    busy(&daemon).await;
    let start = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
    for sequence in 3..20 {
        daemon.nodes(&format!("n1=4 n2=4 n3={}", 1 + sequence % 2)).await;
        daemon.publish(sequence, &[job(1, "ann", &[]), job(2, "bob", &[])]).await;
        daemon.cycle(start + sequence - 2).await;
    }
    let newest = daemon.get("/v1/events").await["sequence"].as_u64().unwrap();
    for since in [0, 1, newest + 1000, u64::MAX] {
        let answer = daemon.ask(&format!("/v1/events?since={since}")).await;
        assert_eq!(answer.status(), StatusCode::GONE, "{since}");
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["code"], "Q002");
        assert!(problem["detail"].as_str().unwrap().contains("/v1/schedule"), "{problem}");
    }
    let sequence = sequence_of(&daemon).await;
    let events = all_since(&daemon, sequence).await;
    let newest = events.last().map_or(sequence, |event| event["sequence"].as_u64().unwrap());
    assert_eq!(numbers(&events), (sequence + 1..=newest).collect::<Vec<_>>());
    let bad = daemon.ask("/v1/events?since=soon").await;
    assert_eq!(bad.status(), StatusCode::BAD_REQUEST);
}

/// A follower gets no event that differs from the written event, and learns where to go on; later
/// events arrive.
#[tokio::test]
async fn an_event_that_was_changed_on_the_disk_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    busy(&daemon).await;
    let before = all_since(&daemon, 0).await;
    assert!(2 < before.len(), "{before:?}");
    let file = SqliteConnectOptions::new().filename(folder.path().join("state.db"));
    let mut stranger = file.connect().await.unwrap();
    let change = "update feed set body = replace(body, '\"n1\"', '\"n7\"') where seq = 2";
    raw_sql(change).execute(&mut stranger).await.unwrap();
    assert_eq!(daemon.get("/v1/events?since=0").await["events"], json!(before[..1]));
    let refused = daemon.ask("/v1/events?since=1").await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let refused: Value = refused.json().await.unwrap();
    assert!(refused["detail"].as_str().unwrap().contains("take `/v1/schedule`"), "{refused}");
    daemon.logs_line(&["event 2 of the feed was changed", "state.db", "restore a copy"]).await;
    assert_eq!(all_since(&daemon, 2).await, before[2..]);
}

#[tokio::test]
async fn a_long_poll_answers_as_soon_as_something_comes() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    busy(&daemon).await;
    let page = daemon.get("/v1/events").await;
    assert_eq!(page["events"], json!([]), "without `since`, what is still to come");
    let since = page["sequence"].clone();
    let empty = daemon.get(&format!("/v1/events?since={since}&wait=50ms")).await;
    assert_eq!((&empty["events"], &empty["sequence"]), (&json!([]), &since));
    let path = format!("/v1/events?since={since}&wait=30s");
    let (page, ()) = tokio::join!(daemon.get(&path), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        daemon.vary_off("n1").await;
    });
    assert_eq!(page["events"][0]["kind"], "administration");
}

/// Reads messages of a stream until there are `count` of them: number, kind and data of each.
async fn messages(
    daemon: &Daemon,
    query: &str,
    last_id: Option<u64>,
    count: usize,
) -> Vec<(u64, String, Value)> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client
        .get(format!("{}/v1/events{query}", daemon.url))
        .header("accept", "text/event-stream");
    if let Some(id) = last_id {
        request = request.header("last-event-id", id.to_string());
    }
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    while text.matches("\n\n").count() < count {
        text += std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap();
    }
    let field = |message: &str, name: &str| {
        let line = message.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {message}"))
    };
    let message = |message: &str| {
        let id = field(message, "id: ").parse().unwrap();
        (id, field(message, "event: "), serde_json::from_str(&field(message, "data: ")).unwrap())
    };
    text.split("\n\n").filter(|text| !text.is_empty()).map(message).collect()
}

#[tokio::test]
async fn a_stream_tells_what_comes_and_is_taken_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    busy(&daemon).await;
    let told = all_since(&daemon, 0).await;
    let (streamed, ()) = tokio::join!(messages(&daemon, "?since=0", None, told.len() + 1), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        daemon.vary_off("n1").await;
    });
    for ((id, kind, data), event) in streamed.iter().zip(&told) {
        assert_eq!(
            (json!(id), json!(kind), data),
            (event["sequence"].clone(), event["kind"].clone(), event)
        );
    }
    let (last, kind, _) = streamed.last().unwrap();
    assert_eq!((*last, kind.as_str()), (u64::try_from(told.len()).unwrap() + 1, "administration"));
    drop(daemon);

    let daemon = Daemon::start(folder.path(), CONFIG);
    let again = messages(&daemon, "", Some(2), told.len() - 2).await;
    assert_eq!(again[0].0, 3);
    assert_eq!(again[..told.len() - 2], streamed[2..told.len()]);
}
