//! The daemon over real HTTP, as an unknown client sees it.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::io::Read;
use std::time::Duration;

use crate::support::http::{CONFIG, Daemon, beside, held, ids, job, running, with};
use apportion::config;
use apportion::daemon::{self, DaemonError};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_daemon_without_a_record_does_not_serve() {
    let folder = TempDir::new().unwrap();
    let mut config = config::parse("test.toml", CONFIG).unwrap();
    config.daemon.state = folder.path().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let failure = daemon::serve(config, listener, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(failure, DaemonError::NoRecord(_)), "{failure}");
    assert_eq!(failure.to_string(), "cannot start without the record");
}

#[tokio::test]
async fn nothing_is_scheduled_before_the_first_publication() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    assert_eq!(daemon.send(Method::GET, "/livez", "").await.status(), StatusCode::OK);
    assert_eq!(
        daemon.send(Method::GET, "/readyz", "").await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    let early = daemon.send(Method::GET, "/v1/schedule", "").await;
    assert_eq!(early.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = early.text().await.unwrap();
    assert!(text.contains("?wait=30s"), "{text}");

    // Nodes are shown all the same.
    daemon.report(&["n1"]).await;
    daemon.get_until("/v1/nodes", |list| list["nodes"][0]["name"] == "n1").await;
    assert_eq!(
        daemon.send(Method::GET, "/readyz", "").await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );

    daemon.publish(1, json!([])).await;
    daemon.get_until("/v1/schedule", |schedule| schedule["jobs"] == json!([])).await;
    assert_eq!(daemon.send(Method::GET, "/readyz", "").await.status(), StatusCode::OK);
    daemon.stop().await;
}

#[tokio::test]
async fn two_users_share_the_cluster_and_see_why() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;

    let schedule = daemon.get("/v1/schedule").await;
    assert_eq!(
        schedule["jobs"][0]["added"].as_array().unwrap().len(),
        6,
        "not seen yet, so repeated"
    );
    daemon
        .publish(2, json!([running(job(1, "ann"), &schedule), running(job(2, "bob"), &schedule)]))
        .await;
    let is_seen = |schedule: &Value| schedule["jobs"][0]["added"] == json!([]);
    daemon.get_until("/v1/schedule", is_seen).await;

    let why = daemon.get("/v1/jobs/1/why").await;
    assert_eq!(why["reason"]["code"], "fair_share_used", "{why}");
    assert_eq!(why["nodes"]["total"], 3);
    assert_eq!(why["nodes"]["full"], 3, "{why}");
    assert_eq!(why["sums"]["class_account"]["held"], 12);
    assert_eq!(why["sums"]["user_account"]["held"], 6);

    let users = daemon.get("/v1/users").await;
    assert_eq!(users["users"][1]["user"], "bob");
    assert_eq!(users["users"][1]["memory_mb"], 6144);
    let load = daemon.get("/v1/load").await;
    assert_eq!(load["classes"][0]["users"][0]["account"]["held"], 6);
    let occupancy = daemon.get("/v1/occupancy").await;
    assert_eq!(occupancy["nodes"][2]["free"], 0);
    let status = daemon.get("/v1/status").await;
    assert_eq!((&status["nodes"]["up"], &status["shares"]["held"]), (&json!(3), &json!(12)));
    assert_eq!(status["audit_findings"], json!([]));
    assert_eq!(daemon.get("/v1/classes").await["classes"][2]["policy"], "fixed_share");
    daemon.stop().await;
}

#[tokio::test]
async fn work_is_shown_page_by_page() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    daemon
        .publish(1, (1..=5).map(|id| job(id, if id == 3 { "bob" } else { "ann" })).collect())
        .await;
    daemon.get_until("/v1/jobs", |page| page["jobs"].as_array().unwrap().len() == 5).await;

    let first = daemon.get("/v1/jobs?limit=2&user=ann").await;
    assert_eq!(ids(&first), [1, 2]);
    let next = first["next"].as_str().unwrap();
    let last = daemon.get(&format!("/v1/jobs?limit=2&user=ann&cursor={next}")).await;
    assert_eq!((ids(&last), &last["next"]), (vec![4, 5], &Value::Null));
    assert_eq!(ids(&daemon.get("/v1/jobs?waiting=true").await).len(), 5, "there are no nodes");
    daemon.stop().await;
}

#[tokio::test]
async fn a_long_poll_ends_with_news_and_with_the_daemon() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let poll = |etag: String, wait: &str| {
        let request = daemon.client.get(format!("{}/v1/schedule?wait={wait}", daemon.url));
        request.header("if-none-match", etag).send()
    };
    let current = daemon.client.get(format!("{}/v1/schedule", daemon.url)).send().await.unwrap();
    let etag = current.headers()["etag"].to_str().unwrap().to_owned();
    assert!(etag.starts_with("W/\""), "{etag}");

    let unchanged = poll(etag.clone(), "50ms").await.unwrap();
    assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
    let (news, _) = tokio::join!(poll(etag, "30s"), daemon.publish(2, json!([job(1, "ann")])));
    let news = news.unwrap();
    assert_eq!(news.status(), StatusCode::OK);

    let refused = daemon.send(Method::GET, "/v1/schedule?wait=soon", "").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);

    // The daemon's end does not wait for long polls.
    let settled = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 12).await;
    let waiting = tokio::spawn(poll(format!("W/\"{}\"", settled["cycle"]), "60s"));
    // The arrival of the poll cannot be seen from outside.
    tokio::time::sleep(Duration::from_millis(500)).await;
    tokio::time::timeout(Duration::from_secs(30), daemon.stop()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn nodes_are_varied_off_and_on() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let off = |extra: Value| {
        let mut body = json!({ "nodes": ["n[1-2]"], "reason": "new disks" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body.to_string()
    };

    let dry: Value = daemon
        .send(Method::POST, "/v1/nodes/vary-off", &off(json!({ "dry_run": true })))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(dry["changed"], json!(["n1", "n2"]));
    assert_eq!(dry["impact"]["shares_evicted"], 8);
    let fewer = dry["impact"]["below"].as_array().unwrap().iter();
    let lost = fewer.map(|job| job["holds"].as_u64().unwrap() - job["keeps"].as_u64().unwrap());
    assert_eq!(lost.sum::<u64>(), 8, "no free space is left elsewhere");
    assert_eq!(daemon.get("/v1/nodes?state=varied-off").await["nodes"], json!([]));

    let done: Value = daemon
        .send(Method::POST, "/v1/nodes/vary-off", &off(json!({})))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!((&done["changed"], &done["unchanged"]), (&json!(["n1", "n2"]), &json!([])));
    assert_eq!(done["impact"]["shares_evicted"], 8);
    // The answer follows the commit, so the change is visible at once.
    let nodes = daemon.get("/v1/nodes?state=varied-off").await;
    assert_eq!(nodes["nodes"][0]["vary_off_reason"], "new disks");
    let schedule = daemon.get("/v1/schedule").await;
    let removed: usize = schedule["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["removed"].as_array().unwrap().len())
        .sum();
    assert_eq!(removed, 8);
    assert_eq!(schedule["jobs"][0]["removed"][0]["reason"], "varied_off");

    let again: Value = daemon
        .send(Method::POST, "/v1/nodes/vary-off", &off(json!({})))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!((&again["changed"], &again["unchanged"]), (&json!([]), &json!(["n1", "n2"])));
    let on: Value = daemon
        .send(Method::POST, "/v1/nodes/vary-on", r#"{"nodes": ["n1", "n3"]}"#)
        .await
        .json()
        .await
        .unwrap();
    assert_eq!((&on["changed"], &on["unchanged"]), (&json!(["n1"]), &json!(["n3"])));
    daemon.stop().await;
}

#[tokio::test]
async fn a_restart_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    let published = json!([running(job(1, "ann"), &schedule), running(job(2, "bob"), &schedule)]);
    daemon.publish(2, published.clone()).await;
    daemon.send(Method::POST, "/v1/nodes/vary-off", r#"{"nodes": ["n3"], "reason": "fans"}"#).await;
    daemon.stop().await;

    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1", "n2", "n3"]).await;
    let stale = daemon.send(Method::PUT, "/v1/publication", r#"{"sequence": 1, "work": []}"#).await;
    assert_eq!(stale.status(), StatusCode::CONFLICT);
    daemon.publish(3, published).await;
    let recovered = daemon
        .get_until("/v1/schedule", |schedule| {
            schedule["jobs"].as_array().is_some_and(|jobs| jobs.len() == 2)
        })
        .await;
    assert!(recovered["cycle"].as_u64() > schedule["cycle"].as_u64(), "cycles are counted on");
    let shares = |schedule: &Value| -> usize {
        schedule["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["shares"].as_array().unwrap().len())
            .sum()
    };
    assert_eq!(shares(&recovered), 12, "{recovered}");
    assert_eq!(daemon.get("/v1/nodes/n3").await["vary_off_reason"], "fans");
    daemon.stop().await;
}

/// After a restart only the publication tells about running work: a running process takes its space
/// even if the rest of its item is invalid.
#[tokio::test]
async fn what_runs_is_not_overbooked_because_its_item_is_bad_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    let ann = running(job(1, "ann"), &schedule);
    daemon.stop().await;

    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1", "n2", "n3"]).await;
    let bad = with(ann.clone(), "colour", json!("red"));
    let answer = daemon.publish(2, json!([bad, job(3, "cid")])).await;
    assert_eq!((answer.accepted, answer.refused.len()), (1, 1));
    daemon.get_until("/v1/schedule", |schedule| held(schedule, 3) == 6).await;

    daemon.publish(3, json!([ann, job(3, "cid")])).await;
    let both = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 6).await;
    assert_eq!(held(&both, 3), 6, "{both}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_bad_item_spoils_no_other_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let answer = daemon
        .publish(
            2,
            json!([with(job(1, "ann"), "memory_mb", json!(-5)), job(3, "cat"), job(2, "bob")]),
        )
        .await;
    assert_eq!(answer.accepted, 2);
    assert_eq!(
        (answer.refused[0].code.as_str(), answer.refused[0].pointer.as_str()),
        ("P026", "/work/0/memory_mb")
    );
    // The refused item was known before, and stays as it was.
    daemon.get_until("/v1/jobs", |page| ids(page) == [1, 2, 3]).await;

    // The invalid item names no job, so no absent job counts as over.
    let answer = daemon.publish(3, json!([with(job(1, "ann"), "id", json!("one"))])).await;
    assert_eq!(answer.refused[0].pointer, "/work/0/id");
    assert_eq!(
        daemon.publish(4, json!([job(1, "ann"), job(2, "bob"), job(3, "cat")])).await.accepted,
        3
    );
    assert_eq!(ids(&daemon.get("/v1/jobs").await), [1, 2, 3]);
    daemon.stop().await;
}

/// A publication with a process in the share of another job is refused. The share is counted once,
/// on its node, for the job that it was issued to.
#[tokio::test]
async fn a_share_stays_with_the_work_it_was_issued_to() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    let anns = running(job(1, "ann"), &schedule)["processes"][0].clone();
    let thief = with(job(2, "bob"), "processes", json!([anns]));
    let answer = daemon.publish(2, json!([job(1, "ann"), thief, job(3, "cid")])).await;
    assert_eq!(answer.accepted, 2);
    let refused = &answer.refused[0];
    assert_eq!((refused.code.as_str(), refused.pointer.as_str()), ("P042", "/work/1/processes"));
    assert!(refused.detail.contains("which job 1 has too"), "{}", refused.detail);
    let after = daemon.get_until("/v1/jobs", |page| ids(page) == [1, 2, 3]).await;
    let all: Vec<u64> = after["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|job| job["shares"].as_array().unwrap())
        .map(|share| share["share"].as_u64().unwrap())
        .collect();
    assert_eq!(all.iter().filter(|share| json!(share) == anns["share"]).count(), 1);
    daemon.stop().await;
}

/// Work without a class goes to the default class of its kind; each absent field has a fixed
/// default.
#[tokio::test]
async fn what_is_left_out_has_a_default() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1", "n2", "n3"]).await;
    let bare = |id: u64, kind: &str| {
        json!({
            "id": id, "kind": kind, "user": "ann", "memory_mb": 1024, "state": "schedulable", "submitted_ms": id,
        })
    };
    let work = json!([bare(1, "job"), bare(2, "service"), bare(3, "arbitrary_process")]);
    assert_eq!(daemon.publish(1, work.clone()).await.accepted, 3);
    let is_there = |page: &Value| ids(page) == [1, 2, 3] && page["jobs"][2]["sums"]["held"] == 1;
    let before = daemon.get_until("/v1/jobs", is_there).await;
    let class_of = |ix: usize| before["jobs"][ix]["class"].clone();
    assert_eq!([0, 1, 2].map(class_of), [json!("normal"), json!("fixed"), json!("fixed")]);
    let first = &before["jobs"][0];
    assert_eq!((&first["threads"], &first["remaining"]), (&json!(1), &json!(1)));

    assert_eq!(daemon.publish(2, work).await.accepted, 3);
    let after = daemon.get_until("/v1/jobs", is_there).await;
    assert_eq!(after["jobs"][0]["remaining"], json!(1));
    let without_memory = json!([{ "id": 4, "kind": "job", "user": "ann", "state": "schedulable", "submitted_ms": 4 }]);
    assert_eq!(daemon.publish(3, without_memory).await.refused[0].code, "P026");
    daemon.stop().await;
}

/// Until the configured heartbeat intervals have passed, publications are taken in and nothing is
/// scheduled. A command is answered after a cycle, so that none has to be waited for.
#[tokio::test]
async fn nothing_is_scheduled_until_the_cluster_had_time_to_report() {
    for (init_stability, status) in [(1, StatusCode::SERVICE_UNAVAILABLE), (0, StatusCode::OK)] {
        let folder = TempDir::new().unwrap();
        let settle = |config: &mut config::Config| {
            config.daemon.init_stability = init_stability;
            config.daemon.heartbeat_interval = Duration::from_hours(1);
        };
        let daemon = Daemon::start_with(&folder, settle).await;
        daemon.report(&["n1", "n2"]).await;
        daemon.get_until("/v1/nodes", |list| list["nodes"][1]["name"] == "n2").await;
        daemon.publish(1, json!([job(1, "ann")])).await;
        let off = daemon
            .send(Method::POST, "/v1/nodes/vary-off", r#"{"nodes": ["n2"], "reason": "fans"}"#)
            .await;
        assert_eq!(off.status(), StatusCode::OK);
        let answer = daemon.send(Method::GET, "/v1/schedule", "").await;
        assert_eq!(answer.status(), status, "after {init_stability} intervals");
        daemon.stop().await;
    }
}

/// Heartbeats, publications and commands at the same time: none is lost.
#[tokio::test]
async fn what_comes_at_the_same_time_is_all_taken_in() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1", "n6"]).await;
    daemon.get_until("/v1/nodes", |list| list["nodes"][1]["name"] == "n6").await;
    let off = r#"{"nodes": ["n6"], "reason": "fans"}"#;
    tokio::join!(
        daemon.report(&["n2"]),
        daemon.publish(1, json!([job(1, "ann"), job(2, "bob")])),
        daemon.report(&["n3"]),
        daemon.send(Method::POST, "/v1/nodes/vary-off", off),
        daemon.report(&["n4"]),
        daemon.report(&["n5"]),
    );
    let is_settled = |schedule: &Value| held(schedule, 1) == 10 && held(schedule, 2) == 10;
    daemon.get_until("/v1/schedule", is_settled).await;
    let nodes = daemon.get("/v1/nodes").await["nodes"].as_array().unwrap().len();
    assert_eq!(nodes, 6);
    assert_eq!(daemon.get("/v1/nodes/n6").await["vary_off_reason"], "fans");
    daemon.stop().await;
}

#[tokio::test]
async fn a_repeated_publication_is_the_same_publication() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let work = json!([job(1, "ann"), with(job(2, "bob"), "class", json!("nromal"))]);
    let first = daemon.publish(7, work.clone()).await;
    assert_eq!(first.refused[0].code, "P022");
    assert!(
        first.refused[0].detail.contains("did you mean `normal`?"),
        "{}",
        first.refused[0].detail
    );
    assert_eq!(daemon.publish(7, work).await, first);
    daemon.stop().await;
}

/// A job's work as published while all it holds runs, each process with so much work in it.
fn invested(work: Value, schedule: &Value, investment_ms: u64) -> Value {
    let mut work = running(work, schedule);
    let job = schedule["jobs"].as_array().unwrap().iter().find(|job| job["id"] == work["id"]);
    let removed = job.unwrap()["removed"].as_array().unwrap();
    let processes = work["processes"].as_array_mut().unwrap();
    // The orchestrator ends terminated processes at once.
    processes.retain(|process| !removed.iter().any(|gone| gone["share"] == process["share"]));
    for process in processes {
        process["investment_ms"] = json!(investment_ms);
    }
    work
}

/// Output of an `apportion` command.
async fn apportion(args: [&str; 2], daemon: &Daemon) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.args(args).args(["--url", &daemon.url]).env_remove("APPORTION_LOG");
    // The daemon runs in this thread, which must not wait for the answer.
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_receipt_says_under_which_rule_and_what_was_rejected() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1", "n2", "n3"]).await;
    daemon.publish(1, json!([job(1, "ann")])).await;
    let alone = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 12).await;
    daemon.publish(2, json!([invested(job(1, "ann"), &alone, 60_000), job(2, "bob")])).await;
    let is_taken = |why: &Value| why["taken_for_it"] != json!([]);
    let why = daemon.get_until("/v1/jobs/2/why", is_taken).await;

    let receipt = &why["taken_for_it"][0];
    assert_eq!((&receipt["rule"], &receipt["loss_ms"]), (&json!("fair_share"), &json!(60_000)));
    let considered = &receipt["considered"];
    // The third costs no less than the second, and is not worked out.
    assert_eq!((&considered["nodes"], &considered["plans"]), (&json!(3), &json!(2)), "{why}");
    let other = &considered["runner_up"];
    assert_eq!((&other["victims"], &other["loss_ms"]), (&json!(1), &json!(60_000)), "{why}");
    assert!(["n1", "n2", "n3"].iter().any(|node| other["node"] == *node), "{why}");
    assert_ne!(other["node"], receipt["node"]);
    let told = format!(
        "of 3 nodes, 2 were compared where space could be freed, and the next best, {}, would have cost 1 process and 1m of work",
        other["node"].as_str().unwrap()
    );
    assert!(receipt["sentence"].as_str().unwrap().contains(&told), "{receipt}");
    assert_eq!(daemon.get("/v1/jobs/1/why").await["taken_from_it"][0]["considered"], *considered);
    let shown = apportion(["why", "2"], &daemon).await;
    assert!(shown.contains(&told), "{shown}");
    daemon.stop().await;
}

/// Without changes, the space is too expensive first; then the preemption stop acts, early here,
/// and is reported once.
#[tokio::test]
async fn work_that_is_held_back_says_by_what_and_for_how_long() {
    let folder = TempDir::new().unwrap();
    let (daemon, process) = beside(&folder, "1h", "quiet_stop = 3\nnode_stability = 1000");
    daemon.report(&["n1", "n2", "n3"]).await;
    daemon.publish(1, json!([job(1, "ann")])).await;
    let alone = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 12).await;
    let timed = |time: u64| with(job(1, "ann"), "time_per_item_ms", json!(time));
    let invest = |schedule, time| invested(timed(time), schedule, 1_000_000);
    daemon.publish(2, json!([invest(&alone, 1000), job(2, "bob")])).await;
    // The first process of a job may cost any loss.
    let waits = |schedule: &Value| held(schedule, 1) == 11;
    let shared = daemon.get_until("/v1/schedule", waits).await;
    assert_eq!(daemon.get("/v1/jobs/2/why").await["reason"]["code"], "waiting_for_exits");
    // News, so that the cluster is not quiet yet, but no other demand.
    daemon.publish(3, json!([invest(&shared, 1001), job(2, "bob")])).await;
    let shared = daemon.get_until("/v1/schedule", |schedule| held(schedule, 2) == 1).await;
    let settled = json!([invest(&shared, 1001), running(job(2, "bob"), &shared)]);

    let mut last = (json!(null), json!(null));
    let (mut was_too_dear, mut behind) = (false, 0);
    for sequence in 4..=9 {
        daemon.publish(sequence, settled.clone()).await;
        let is_next = |status: &Value| status["publication"] == sequence;
        let status = daemon.get_until("/v1/status", is_next).await;
        let why = daemon.get("/v1/jobs/2/why").await;
        let quiet = status["calm"]["quiet_cycles"].as_u64().unwrap();
        assert_eq!(status["calm"]["rest_cycles"], quiet - 1, "{status}");
        assert_eq!(why["held_back"]["code"], why["reason"]["code"]);
        assert_eq!(daemon.get("/v1/jobs/2").await["held_back"], why["held_back"]);
        let now_behind = why["sums"]["job"]["behind_cycles"].as_u64().unwrap();
        assert!(behind < now_behind, "{why}");
        behind = now_behind;
        let told = format!("and has been behind for {behind} cycle");
        assert!(why["sentence"].as_str().unwrap().contains(&told), "{why}");
        if quiet < 3 {
            was_too_dear = true;
            assert_eq!(why["reason"]["code"], "too_dear", "{why}");
            assert_eq!(why["held_back"]["loss_ms"], 1_000_000);
            assert!(300_000 <= why["held_back"]["limit_ms"].as_u64().unwrap(), "{why}");
            let shown = apportion(["queue", "--waiting"], &daemon).await;
            assert!(
                shown.contains("would destroy at least 16m 40s of other jobs' work"),
                "{shown}"
            );
            assert_eq!(status["net_strikes"], 0);
        } else {
            assert_eq!(why["reason"]["code"], "quiet_stop", "{why}");
            assert_eq!(why["held_back"]["quiet_cycles"], 3);
            assert!(1 <= status["net_strikes"].as_u64().unwrap(), "{status}");
            let shown = apportion(["why", "2"], &daemon).await;
            assert!(
                shown.contains("neither demand nor supply has changed for 3 cycles or more"),
                "{shown}"
            );
            assert!(shown.contains(&told), "{shown}");
        }
        // A longer wait is no news for the orchestrator.
        let schedule =
            (why["reason"]["code"].clone(), daemon.get("/v1/schedule").await["cycle"].clone());
        assert!(last.0 != schedule.0 || last == schedule, "{last:?} {schedule:?}");
        last = schedule;
    }
    assert!(was_too_dear && last.0 == "quiet_stop");
    let strikes = async |expected: usize| {
        process.logs("the quiet stop holds").await;
        let count = || process.said().matches("the quiet stop holds").count();
        for _ in 0..2_000 {
            if expected <= count() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        count()
    };
    assert_eq!(strikes(1).await, 1, "once, though it struck in many cycles");

    daemon.publish(10, json!([settled[0]])).await;
    let is_over =
        |status: &Value| status["net_strikes"] == 0 && status["calm"]["quiet_cycles"] == 0;
    daemon.get_until("/v1/status", is_over).await;
    assert_eq!(strikes(2).await, 2, "and that it is over");
}

#[tokio::test]
async fn the_document_names_every_rule_and_what_holds_back() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let schemas = &daemon.get("/openapi.json").await["components"]["schemas"];
    let rules = [
        "no_longer_allowed",
        "window",
        "class_closed",
        "urgent",
        "overrun",
        "priority",
        "fair_share",
        "defragmentation",
        "first_share",
        "turn",
        "envy",
        "relocation",
    ];
    assert_eq!(schemas["PreemptionRule"]["enum"], json!(rules));
    let described = schemas["PreemptionRule"]["description"].as_str().unwrap();
    assert!(rules.iter().all(|rule| described.contains(&format!("`{rule}`: "))), "{described}");
    let codes = ["too_dear", "too_late", "quiet_stop", "next_cycle"];
    assert_eq!(schemas["HeldBackCode"]["enum"], json!(codes));
    for (schema, field) in [
        ("PreemptionInfo", "considered"),
        ("Considered", "runner_up"),
        ("HeldBack", "limit_ms"),
        ("Why", "held_back"),
        ("JobInfo", "held_back"),
        ("JobSums", "behind_cycles"),
        ("Status", "net_strikes"),
        ("Calm", "quiet_cycles"),
    ] {
        let property = &schemas[schema]["properties"][field];
        assert!(property.is_object(), "{schema}.{field}");
    }
    daemon.stop().await;
}

/// A client generated from the document finds every schema that the document refers to.
#[tokio::test]
async fn the_document_refers_to_nothing_that_is_not_in_it() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let document = daemon.get("/openapi.json").await;
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut count = 0;
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
        count += 1;
    }
    assert!(100 < count, "{count}");
    let brief = &document["components"]["schemas"]["WhyBrief"];
    assert_eq!(brief["additionalProperties"], false, "or the whole answer is one of these too");
    daemon.stop().await;
}

#[tokio::test]
async fn the_document_lists_every_route() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let document = daemon.get("/openapi.json").await;
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let expected = [
        "/healthz",
        "/livez",
        "/metrics",
        "/readyz",
        "/v1/classes",
        "/v1/clients",
        "/v1/config",
        "/v1/config/apply",
        "/v1/config/generations",
        "/v1/config/generations/{generation}",
        "/v1/config/plan",
        "/v1/cycles",
        "/v1/events",
        "/v1/heartbeats",
        "/v1/jobs",
        "/v1/jobs/{id}",
        "/v1/jobs/{id}/why",
        "/v1/load",
        "/v1/nodes",
        "/v1/nodes/forget",
        "/v1/nodes/lost",
        "/v1/nodes/vary-off",
        "/v1/nodes/vary-on",
        "/v1/nodes/{name}",
        "/v1/occupancy",
        "/v1/orchestrators",
        "/v1/orchestrators/hand-over",
        "/v1/publication",
        "/v1/publication/reset",
        "/v1/reservations",
        "/v1/reservations/{name}",
        "/v1/schedule",
        "/v1/status",
        "/v1/urgent",
        "/v1/users",
    ];
    assert_eq!(paths, expected);
    assert!(document["components"]["schemas"]["Work"]["properties"]["memory_mb"].is_object());
    daemon.stop().await;
}

#[tokio::test]
async fn long_answers_are_compressed_for_clients_that_accept_it() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let names = ["n1", "n2", "n3"];
    daemon.report(&names).await;
    daemon.publish(1, (1..=99).map(|id| job(id, "ann")).collect()).await;
    let is_whole = |schedule: &Value| schedule["jobs"].as_array().unwrap().len() == 99;
    daemon.get_until("/v1/schedule", is_whole).await;

    let ask = async |path: &str, headers: &[(&str, &str)]| {
        let request = daemon.client.get(format!("{}{path}", daemon.url));
        let request =
            headers.iter().fold(request, |asked, (name, value)| asked.header(*name, *value));
        request.send().await.unwrap()
    };
    let header = |answer: &reqwest::Response, name: &str| {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    // Stays as it is for as long as nothing is published.
    for path in ["/v1/schedule", "/v1/jobs", "/openapi.json"] {
        let plain = ask(path, &[]).await;
        assert_eq!(header(&plain, "content-encoding"), None, "{path}: nobody asked for it");
        let refused = ask(path, &[("accept-encoding", "gzip;q=0, br")]).await;
        assert_eq!(header(&refused, "content-encoding"), None, "{path}: refused");
        let packed = ask(path, &[("accept-encoding", "br, gzip")]).await;
        assert_eq!(header(&packed, "content-encoding").as_deref(), Some("gzip"), "{path}");
        for answer in [&plain, &packed] {
            assert_eq!(header(answer, "vary").as_deref(), Some("accept-encoding"), "{path}");
            assert_eq!(header(answer, "content-type").as_deref(), Some("application/json"));
        }
        assert_eq!(header(&plain, "etag"), header(&packed, "etag"), "{path}");
        let (plain, packed) = (plain.text().await.unwrap(), packed.bytes().await.unwrap());
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&*packed).read_to_string(&mut unpacked).unwrap();
        let without_cycle = |text: &str| {
            let mut value: Value = serde_json::from_str(text).unwrap();
            value["cycle"].take();
            value
        };
        assert_eq!(without_cycle(&unpacked), without_cycle(&plain), "{path}");
        assert!(packed.len() * 3 < plain.len(), "{path}: {} of {}", packed.len(), plain.len());
    }

    let gzip = ("accept-encoding", "gzip");
    let tag = header(&ask("/v1/schedule", &[gzip]).await, "etag").unwrap();
    let unchanged = ask("/v1/schedule", &[gzip, ("if-none-match", &tag)]).await;
    assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(header(&unchanged, "vary").as_deref(), Some("accept-encoding"));
    for (path, accept) in
        [("/v1/status", "*/*"), ("/v1/nodes", "*/*"), ("/v1/events?since=0", "text/event-stream")]
    {
        let answer = ask(path, &[gzip, ("accept", accept)]).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        assert_eq!(header(&answer, "content-encoding"), None, "{path} is short, or a stream");
    }
    daemon.stop().await;
}

/// The list of a large cluster is long.
#[tokio::test]
async fn the_list_of_nodes_is_packed_too_all_of_it_or_some() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start_with(&folder, |config| config.daemon.limits.max_nodes = 50).await;
    let names: Vec<String> = (1..=50).map(|number| format!("n{number}")).collect();
    daemon.report(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let is_whole = |list: &Value| list["nodes"].as_array().unwrap().len() == 50;
    daemon.get_until("/v1/nodes", is_whole).await;
    for path in ["/v1/nodes", "/v1/nodes?pool=main"] {
        let request = daemon.client.get(format!("{}{path}", daemon.url));
        let packed = request.header("accept-encoding", "gzip").send().await.unwrap();
        assert_eq!(packed.headers()["content-encoding"], "gzip", "{path}");
        assert_eq!(packed.headers()["vary"], "accept-encoding", "{path}");
        let packed = packed.bytes().await.unwrap();
        let list: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&*packed)).unwrap();
        assert!(is_whole(&list), "{path}: {list}");
    }
    daemon.stop().await;
}
