//! The daemon over real HTTP: what a stranger's client sees.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::needless_pass_by_value, reason = "tables read better so")]

use std::time::Duration;

use apportion::api::wire;
use apportion::config;
use apportion::daemon::{self, DaemonError};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Three machines are to be told of: their pool takes any node, and the quantum is 1 GB.
const CONFIG: &str = r#"
[scheduler]
quantum = "1GB"
initialization_cap = 0
expand_by_doubling = false
prediction = false

[[nodepool]]
name = "main"

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"
priority = 10
weight = 100
default = true

[[class]]
name = "restricted"
policy = "fair-share"
nodepool = "main"
priority = 10
weight = 100
users = ["root"]

[[class]]
name = "fixed"
policy = "fixed-share"
nodepool = "main"
priority = 5
default = true
"#;

/// A daemon, and a client of it.
struct Daemon {
    url: String,
    client: Client,
    stop: CancellationToken,
    running: JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    async fn start(folder: &TempDir) -> Daemon {
        Daemon::start_with(folder, |_| {}).await
    }

    async fn start_with(folder: &TempDir, change: impl FnOnce(&mut config::Config)) -> Daemon {
        let mut config =
            config::parse("test.toml", CONFIG).unwrap_or_else(|problems| panic!("{problems}"));
        config.daemon.state = folder.path().join("state.db");
        config.daemon.cycle_period = Duration::from_millis(20);
        config.daemon.limits.body_bytes = 64 << 10;
        config.daemon.limits.max_nodes = 6;
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let running = tokio::spawn(daemon::serve(config, listener, stop.clone()));
        Daemon { url, client: Client::builder().no_proxy().build().unwrap(), stop, running }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.url));
        request
            .header("content-type", "application/json")
            .body(body.to_owned())
            .send()
            .await
            .unwrap()
    }

    async fn publish(&self, sequence: u64, work: Value) -> wire::PublicationAnswer {
        let body = json!({ "sequence": sequence, "work": work }).to_string();
        let response = self.send(Method::PUT, "/v1/publication", &body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        response.json().await.unwrap()
    }

    /// Nodes of 4 GB each.
    async fn report(&self, names: &[&str]) {
        let nodes: Vec<Value> =
            names.iter().map(|name| json!({ "node": name, "memory_mb": 4096 })).collect();
        let body = json!({ "nodes": nodes }).to_string();
        let response = self.send(Method::POST, "/v1/heartbeats", &body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }

    async fn get(&self, path: &str) -> Value {
        let response = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    /// Polls until `is_right`, as a patient client would.
    async fn get_until(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..3000 {
            let response = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
            if response.status() == StatusCode::OK {
                let body = response.json().await.unwrap();
                if is_right(&body) {
                    return body;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} never became right: {}", self.get(path).await);
    }

    /// Three nodes of 4 GB, shared by ann's work 1 and bob's work 2 of 1 GB a process.
    async fn with_two_users(folder: &TempDir) -> Daemon {
        let daemon = Daemon::start(folder).await;
        daemon.report(&["n1", "n2", "n3"]).await;
        let answer = daemon.publish(1, json!([job(1, "ann"), job(2, "bob")])).await;
        assert_eq!((answer.accepted, answer.refused.len()), (2, 0));
        daemon
            .get_until("/v1/schedule", |schedule| held(schedule, 1) == 6 && held(schedule, 2) == 6)
            .await;
        daemon
    }
}

fn job(id: u64, user: &str) -> Value {
    json!({
        "id": id, "kind": "job", "user": user, "class": "normal", "memory_mb": 1024, "state": "running",
        "remaining": 1000, "running": true, "submitted_ms": id,
    })
}

fn with(mut work: Value, field: &str, value: Value) -> Value {
    work[field] = value;
    work
}

/// How many shares the schedule has for a job, those that are to go not counted.
fn held(schedule: &Value, id: u64) -> usize {
    let jobs = schedule["jobs"].as_array().unwrap();
    let job = jobs.iter().find(|job| job["id"] == id);
    let count = |job: &Value, list: &str| job[list].as_array().unwrap().len();
    job.map_or(0, |job| count(job, "shares") - count(job, "removed"))
}

fn ids(page: &Value) -> Vec<u64> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

/// The job as published once all it was assigned runs.
fn running(work: Value, schedule: &Value) -> Value {
    let scheduled =
        schedule["jobs"].as_array().unwrap().iter().find(|job| job["id"] == work["id"]).unwrap();
    let process = |share: &Value| json!({ "share": share["share"], "node": share["node"], "state": "running" });
    let processes: Vec<Value> =
        scheduled["shares"].as_array().unwrap().iter().map(process).collect();
    with(work, "processes", json!(processes))
}

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

    // The daemon does not wait for whoever waits for it.
    let settled = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 12).await;
    let waiting = tokio::spawn(poll(format!("W/\"{}\"", settled["cycle"]), "60s"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::timeout(Duration::from_secs(3), daemon.stop()).await.unwrap();
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
    assert_eq!(daemon.get("/v1/nodes?state=varied-off").await["nodes"], json!([]));

    let done: Value = daemon
        .send(Method::POST, "/v1/nodes/vary-off", &off(json!({})))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!((&done["changed"], &done["unchanged"]), (&json!(["n1", "n2"]), &json!([])));
    // Answered once it is on record, so it is shown at once.
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

/// After a restart the publication is all that is known of running work: what runs takes its space
/// even if the rest of its item makes no sense.
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

    // Nothing says which work this was about, so nothing that is absent counts as over.
    let answer = daemon.publish(3, json!([with(job(1, "ann"), "id", json!("one"))])).await;
    assert_eq!(answer.refused[0].pointer, "/work/0/id");
    assert_eq!(
        daemon.publish(4, json!([job(1, "ann"), job(2, "bob"), job(3, "cat")])).await.accepted,
        3
    );
    assert_eq!(ids(&daemon.get("/v1/jobs").await), [1, 2, 3]);
    daemon.stop().await;
}

/// Whoever shows a process in a share of others is refused: the share is counted once, where it is,
/// for whom it was issued.
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
    assert!(refused.detail.contains("which work 1 has too"), "{}", refused.detail);
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

/// Work that names no class goes to the default for its kind; what else it leaves out has a default
/// that is the same whenever it is left out.
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

/// What a bad request is answered with.
struct Bad {
    method: Method,
    path: &'static str,
    body: String,
    /// Status, code and pointer.
    answer: &'static str,
    says: &'static str,
}

fn bad(
    method: Method,
    path: &'static str,
    body: impl ToString,
    answer: &'static str,
    says: &'static str,
) -> Bad {
    Bad { method, path, body: body.to_string(), answer, says }
}

fn publication(body: impl ToString, answer: &'static str, says: &'static str) -> Bad {
    bad(Method::PUT, "/v1/publication", body, answer, says)
}

fn heartbeat(body: impl ToString, answer: &'static str, says: &'static str) -> Bad {
    bad(Method::POST, "/v1/heartbeats", body, answer, says)
}

fn vary_off(body: impl ToString, answer: &'static str, says: &'static str) -> Bad {
    bad(Method::POST, "/v1/nodes/vary-off", body, answer, says)
}

fn bad_publications() -> Vec<Bad> {
    let nested = format!("{{\"sequence\": 9, \"work\": {}{}}}", "[".repeat(100), "]".repeat(100));
    vec![
        publication("", "400 P001", "expected a JSON object"),
        publication(r#"{"sequence": 9, "work": ["#, "400 P002", "line 1 column"),
        publication("sequence=9", "400 P002", "nothing was changed"),
        publication(nested, "400 P003", "64"),
        publication(
            format!("{{\"sequence\": 9, \"work\": []{}}}", " ".repeat(70_000)),
            "413 P004",
            "body_bytes",
        ),
        publication(json!({ "sequence": 0, "work": [] }), "409 P010 /sequence", "older than 1"),
        publication(json!({ "sequence": 1, "work": [] }), "409 P011 /sequence", "higher number"),
        publication(json!({ "sequence": -1, "work": [] }), "400 P014 /sequence", "`-1`"),
        publication(json!({ "sequence": u64::MAX, "work": [] }), "400 P014 /sequence", "room"),
        publication(json!({ "sequence": 9.5, "work": [] }), "400 P014 /sequence", "9.5"),
        publication(json!({ "sequence": "9", "work": [] }), "400 P014 /sequence", "string"),
        publication(
            json!({ "sequence": 9, "work": [], "epoch": 1 }),
            "400 P015 /epoch",
            "`sequence`",
        ),
        publication(
            r#"{"sequence": 9, "sequence": 10, "work": []}"#,
            "400 P016 /sequence",
            "duplicate",
        ),
        publication(json!({ "sequence": 9 }), "400 P017 /work", "missing field `work`"),
        publication(json!({ "sequence": 9, "work": {} }), "400 P018 /work", "array"),
        publication("[9, false, []]", "400 P018", "expected a JSON object"),
    ]
}

fn other_bad_requests() -> Vec<Bad> {
    vec![
        heartbeat("{}", "400 H008 /node", "missing field `node`"),
        heartbeat("[]", "400 P018", "expected a JSON object"),
        vary_off(r#"[["n1"], "disk swap"]"#, "400 P018", "expected a JSON object"),
        heartbeat(json!({ "node": "n1", "memory_mb": 0 }), "400 H002 /memory_mb", "at"),
        heartbeat(json!({ "node": "n1", "memory_mb": -1 }), "400 H002 /memory_mb", "`-1`"),
        heartbeat(json!({ "node": "n1", "memory_mb": "4GB" }), "400 H002 /memory_mb", "4GB"),
        heartbeat(
            json!({ "node": "n1", "memory_mb": 4_u64 << 40 }),
            "400 H002 /memory_mb",
            "allowed",
        ),
        heartbeat(json!({ "node": "n 1", "memory_mb": 4 }), "400 H008 /node", "allowed"),
        heartbeat(
            json!({ "node": "n1", "memory_mb": 4, "load": 1 }),
            "400 P015 /load",
            "`quiesced`",
        ),
        vary_off("", "400 P001", "empty"),
        vary_off(json!({ "nodes": ["n1"] }), "400 P017 /reason", "missing field `reason`"),
        vary_off(json!({ "nodes": ["n1"], "reason": " " }), "400 A005 /reason", "say why"),
        vary_off(json!({ "nodes": [], "reason": "x" }), "400 A003 /nodes", "at least one"),
        vary_off(json!({ "nodes": ["n[1-3]"], "reason": "x" }), "400 A003 /nodes", "all: true"),
        vary_off(
            json!({ "nodes": ["nn1"], "reason": "x" }),
            "404 A001 /nodes",
            "did you mean `n1`?",
        ),
        vary_off(
            json!({ "nodes": ["n1", "elsewhere"], "reason": "x" }),
            "400 A002 /nodes",
            "`elsewhere`",
        ),
        vary_off(json!({ "nodes": ["n[1"], "reason": "x" }), "400 A002 /nodes/0", "host list"),
        vary_off(
            json!({ "nodes": ["n1"], "reason": "x", "force": true }),
            "400 P015 /force",
            "`dry_run`",
        ),
        bad(
            Method::POST,
            "/v1/nodes/vary-on",
            json!({ "nodes": ["n9"] }),
            "404 A001 /nodes",
            "had reported by cycle",
        ),
        bad(Method::GET, "/v1/nodes/n9", "", "404 A001", "n9"),
        bad(Method::GET, "/v1/nodes?sate=up", "", "400 T005", "sate"),
        bad(Method::GET, "/v1/jobs/9", "", "404 Q001", "no work 9"),
        bad(Method::GET, "/v1/jobs/x/why", "", "400 T005", "`x` is no whole number"),
        bad(Method::GET, "/v1/jobs?cursor=x", "", "400 T005", "next"),
        bad(Method::GET, "/v1/nonsense", "", "404 T002", "/openapi.json"),
        bad(Method::DELETE, "/v1/publication", "", "405 T002", "DELETE"),
    ]
}

#[tokio::test]
async fn bad_requests_are_answered_with_the_place_and_the_remedy_and_change_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let before = (
        daemon.get("/v1/jobs").await["jobs"].clone(),
        daemon.get("/v1/nodes").await["nodes"].clone(),
    );
    for bad in bad_publications().into_iter().chain(other_bad_requests()) {
        let what = format!("{} {} {:.80}", bad.method, bad.path, bad.body);
        let response = daemon.send(bad.method, bad.path, &bad.body).await;
        let status = response.status().as_u16();
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{what}");
        let problem: wire::Problem = response.json().await.unwrap();
        assert_eq!(problem.status, status, "{what}");
        let pointer =
            problem.errors.first().map(|error| error.pointer.as_str()).unwrap_or_default();
        let answer = format!("{status} {} {pointer}", problem.code);
        assert_eq!(answer.trim_end(), bad.answer, "{what}: {}", problem.detail);
        assert!(problem.detail.contains(bad.says), "{what}: {}", problem.detail);
    }
    let form = daemon
        .client
        .put(format!("{}/v1/publication", daemon.url))
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(form.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(form.json::<wire::Problem>().await.unwrap().code, "P005");
    let after = (
        daemon.get("/v1/jobs").await["jobs"].clone(),
        daemon.get("/v1/nodes").await["nodes"].clone(),
    );
    assert_eq!(before, after);
    daemon.stop().await;
}

#[tokio::test]
async fn bad_items_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let new = || job(9, "ann");
    let processes = |share: u64| json!([{ "share": share, "node": "n1", "state": "running" }]);
    let cases = [
        (job(1, "ann"), "P020", "/work/2/id"),
        (with(new(), "id", json!(-1)), "P018", "/work/2/id"),
        (with(new(), "class", json!("nromal")), "P022", "/work/2/class"),
        (
            with(with(new(), "class", Value::Null), "kind", json!("reservation")),
            "P023",
            "/work/2/class",
        ),
        (with(new(), "class", json!("restricted")), "P024", "/work/2/user"),
        (with(new(), "kind", json!("service")), "P025", "/work/2/class"),
        (with(new(), "kind", json!("jbo")), "P018", "/work/2/kind"),
        (with(new(), "memory_mb", json!(0)), "P026", "/work/2/memory_mb"),
        (with(new(), "memory_mb", json!("16GB")), "P026", "/work/2/memory_mb"),
        (with(new(), "memory_mb", json!(u64::MAX)), "P027", "/work/2/memory_mb"),
        (with(new(), "threads", json!(0)), "P028", "/work/2/threads"),
        (with(new(), "remaining", json!(-3)), "P029", "/work/2/remaining"),
        (with(new(), "remaining", json!(2_000_000_000_u64)), "P029", "/work/2/remaining"),
        (with(new(), "max_processes", json!(0)), "P030", "/work/2/max_processes"),
        (with(new(), "user", json!("")), "P050", "/work/2/user"),
        (with(new(), "user", json!("ann\n")), "P050", "/work/2/user"),
        (with(new(), "user", json!("x".repeat(300))), "P050", "/work/2/user"),
        (with(new(), "memroy_mb", json!(1)), "P015", "/work/2/memroy_mb"),
        (with(new(), "nodes", json!(["n1", ""])), "P018", "/work/2/nodes/1"),
        (
            with(new(), "processes", json!([{ "share": 1, "node": "n1" }])),
            "P017",
            "/work/2/processes/0/state",
        ),
        (with(new(), "processes", processes(70)), "P042", "/work/2/processes"),
        (with(new(), "processes", processes(u64::MAX)), "P018", "/work/2/processes"),
        (json!("work"), "P018", "/work/2"),
    ];
    let ann = with(job(1, "ann"), "processes", processes(70));
    for (sequence, (item, code, pointer)) in (2..).zip(cases) {
        let what = item.to_string();
        let answer = daemon.publish(sequence, json!([ann, job(2, "bob"), item])).await;
        assert_eq!(answer.accepted, 2, "{what}");
        let refused = &answer.refused[0];
        assert_eq!(
            (refused.code.as_str(), refused.pointer.as_str()),
            (code, pointer),
            "{what}: {refused:?}"
        );
    }
    daemon.stop().await;
}

#[tokio::test]
async fn what_looks_wrong_is_taken_with_a_warning() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let process =
        |share: u64, node: &str| json!([{ "share": share, "node": node, "state": "running" }]);
    let schedule = daemon.get("/v1/schedule").await;
    let assigned = &schedule["jobs"][0]["shares"][0];
    let elsewhere = if assigned["node"] == "n1" { "n2" } else { "n1" };
    let moved = process(assigned["share"].as_u64().unwrap(), elsewhere);
    let cases = [
        (with(job(1, "ann"), "time_per_item_ms", json!(-7)), "P031", "/work/0/time_per_item_ms"),
        (with(job(1, "ann"), "processes", process(7000, "n1")), "P040", "/work/0/processes"),
        (with(job(1, "ann"), "processes", moved), "P041", "/work/0/processes"),
        (
            with(with(job(1, "ann"), "state", json!("completed")), "processes", process(1, "n1")),
            "P046",
            "/work/0/processes",
        ),
    ];
    for (sequence, (item, code, pointer)) in (2..).zip(cases) {
        let answer = daemon.publish(sequence, json!([item, job(2, "bob")])).await;
        assert_eq!(answer.accepted, 2);
        let codes: Vec<_> = answer
            .warnings
            .iter()
            .map(|warning| (warning.code.as_str(), warning.pointer.as_str()))
            .collect();
        assert!(codes.contains(&(code, pointer)), "{item}: {codes:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn what_never_changes_must_not_and_sudden_silence_is_not_believed() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let work: Value = (1..=11).map(|id| job(id, "ann")).collect();
    daemon.publish(1, work).await;
    let answer = daemon
        .publish(2, (1..=11).map(|id| job(id, if id == 4 { "bob" } else { "ann" })).collect())
        .await;
    assert_eq!(
        (answer.refused[0].code.as_str(), answer.refused[0].pointer.as_str()),
        ("P021", "/work/3/user")
    );

    let sudden =
        daemon.send(Method::PUT, "/v1/publication", r#"{"sequence": 3, "work": []}"#).await;
    assert_eq!(sudden.status(), StatusCode::CONFLICT);
    assert_eq!(sudden.json::<wire::Problem>().await.unwrap().code, "P051");
    let meant = daemon
        .send(Method::PUT, "/v1/publication", r#"{"sequence": 3, "full": true, "work": []}"#)
        .await;
    assert_eq!(meant.status(), StatusCode::ACCEPTED);
    daemon.get_until("/v1/jobs", |page| page["jobs"] == json!([])).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_bad_heartbeat_spoils_no_other() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let beat = |node: &str, sequence: u64| json!({ "node": node, "memory_mb": 4096, "boot_id": "a", "sequence": sequence });
    let batch = json!({ "nodes": [beat("n1", 5), beat("n1", 5), { "node": "n2" }, beat("n4", 1)] });
    let response = daemon.send(Method::POST, "/v1/heartbeats", &batch.to_string()).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    let answer: wire::HeartbeatAnswer = response.json().await.unwrap();
    assert_eq!(answer.accepted, 2);
    let refused: Vec<_> = answer
        .refused
        .iter()
        .map(|problem| (problem.code.as_str(), problem.pointer.as_str()))
        .collect();
    assert_eq!(refused, [("H002", "/nodes/2/memory_mb"), ("H004", "/nodes/1/sequence")]);

    let replayed = daemon.send(Method::POST, "/v1/heartbeats", &beat("n1", 4).to_string()).await;
    assert_eq!(replayed.status(), StatusCode::CONFLICT);
    daemon.report(&["n5", "n6"]).await;
    let one_too_many =
        daemon.send(Method::POST, "/v1/heartbeats", &beat("n7", 1).to_string()).await;
    assert_eq!(one_too_many.status(), StatusCode::TOO_MANY_REQUESTS);
    daemon.stop().await;
}

/// A job's work as published while all it holds runs, each process with so much work in it.
fn invested(work: Value, schedule: &Value, investment_ms: u64) -> Value {
    let mut work = running(work, schedule);
    let job = schedule["jobs"].as_array().unwrap().iter().find(|job| job["id"] == work["id"]);
    let removed = job.unwrap()["removed"].as_array().unwrap();
    let processes = work["processes"].as_array_mut().unwrap();
    // What was told to leave is gone at once.
    processes.retain(|process| !removed.iter().any(|gone| gone["share"] == process["share"]));
    for process in processes {
        process["investment_ms"] = json!(investment_ms);
    }
    work
}

/// What `apportion` prints.
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
    assert_eq!((&considered["nodes"], &considered["plans"]), (&json!(3), &json!(3)), "{why}");
    let other = &considered["runner_up"];
    assert_eq!((&other["victims"], &other["loss_ms"]), (&json!(1), &json!(60_000)), "{why}");
    assert!(["n1", "n2", "n3"].iter().any(|node| other["node"] == *node), "{why}");
    assert_ne!(other["node"], receipt["node"]);
    let told = format!(
        "of 3 nodes, 3 were compared where room could be made, and the next best, {}, would have cost 1 process and 1m of work",
        other["node"].as_str().unwrap()
    );
    assert!(receipt["sentence"].as_str().unwrap().contains(&told), "{receipt}");
    assert_eq!(daemon.get("/v1/jobs/1/why").await["taken_from_it"][0]["considered"], *considered);
    let shown = apportion(["why", "2"], &daemon).await;
    assert!(shown.contains(&told), "{shown}");
    daemon.stop().await;
}

/// What comes of it when nothing changes: room is too dear, then the net strikes, early here, and
/// says so once.
#[tokio::test]
async fn work_that_is_held_back_says_by_what_and_for_how_long() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let (daemon, _process) = beside(&folder, &log, "quiet_stop = 3\nnode_stability = 1000").await;
    daemon.report(&["n1", "n2", "n3"]).await;
    daemon.publish(1, json!([job(1, "ann")])).await;
    let alone = daemon.get_until("/v1/schedule", |schedule| held(schedule, 1) == 12).await;
    let invest = |schedule| invested(job(1, "ann"), schedule, 10_000_000);
    daemon.publish(2, json!([invest(&alone), job(2, "bob")])).await;
    // The first process costs whatever it costs.
    let waits = |schedule: &Value| held(schedule, 1) == 11;
    let shared = daemon.get_until("/v1/schedule", waits).await;
    assert_eq!(daemon.get("/v1/jobs/2/why").await["reason"]["code"], "waiting_for_exits");
    // News, so that the cluster is not at rest yet, but no other demand.
    let invest = |schedule| with(invest(schedule), "time_per_item_ms", json!(1000));
    daemon.publish(3, json!([invest(&shared), job(2, "bob")])).await;
    let shared = daemon.get_until("/v1/schedule", |schedule| held(schedule, 2) == 1).await;
    let settled = json!([invest(&shared), running(job(2, "bob"), &shared)]);

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
            assert_eq!(why["held_back"]["loss_ms"], 10_000_000);
            assert!(300_000 <= why["held_back"]["limit_ms"].as_u64().unwrap(), "{why}");
            let shown = apportion(["queue", "--waiting"], &daemon).await;
            assert!(shown.contains("would destroy 2h 46m of others' work"), "{shown}");
            assert_eq!(status["net_strikes"], 0);
        } else {
            assert_eq!(why["reason"]["code"], "quiet_stop", "{why}");
            assert_eq!(why["held_back"]["quiet_cycles"], 3);
            assert!(1 <= status["net_strikes"].as_u64().unwrap(), "{status}");
            let shown = apportion(["why", "2"], &daemon).await;
            assert!(shown.contains("nothing has changed for 3 cycles or more"), "{shown}");
            assert!(shown.contains(&told), "{shown}");
        }
        // That it waits longer is no news for the orchestrator.
        let schedule =
            (why["reason"]["code"].clone(), daemon.get("/v1/schedule").await["cycle"].clone());
        assert!(last.0 != schedule.0 || last == schedule, "{last:?} {schedule:?}");
        last = schedule;
    }
    assert!(was_too_dear && last.0 == "quiet_stop");
    let strikes = || std::fs::read_to_string(&log).unwrap().matches("the quiet stop holds").count();
    assert_eq!(strikes(), 1, "once, though it struck in many cycles");

    daemon.publish(10, json!([settled[0]])).await;
    let is_over =
        |status: &Value| status["net_strikes"] == 0 && status["calm"]["quiet_cycles"] == 0;
    daemon.get_until("/v1/status", is_over).await;
    assert_eq!(strikes(), 2, "and that it is over");
}

/// A process that ends with the test, however that ends.
struct Process(std::process::Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A daemon in a process of its own, with these settings besides, and its log in a file.
async fn beside(folder: &TempDir, log: &std::path::Path, settings: &str) -> (Daemon, Process) {
    let path = folder.path().join("apportion.toml");
    let state = folder.path().join("state.db");
    let daemons = "[daemon]\ncycle_period = \"20ms\"\nheartbeat_interval = \"1h\"\n";
    let scheduler = format!("[scheduler]\n{settings}");
    let text = format!("{daemons}{}", CONFIG.replacen("[scheduler]", &scheduler, 1));
    std::fs::write(&path, text).unwrap();
    let process = std::process::Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--config"])
        .arg(&path)
        .arg("--state")
        .arg(&state)
        .env_remove("APPORTION_LOG")
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    let address = loop {
        let text = std::fs::read_to_string(log).unwrap();
        let line = text.lines().find(|line| line.contains("listening") && line.ends_with('}'));
        if let Some(line) = line {
            let line: Value = serde_json::from_str(line).unwrap();
            let address = line["address"].as_str().or_else(|| line["fields"]["address"].as_str());
            break address.unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let client = Client::builder().no_proxy().build().unwrap();
    let running = tokio::spawn(async { Ok(()) });
    let stop = CancellationToken::new();
    (Daemon { url: format!("http://{address}"), client, stop, running }, Process(process))
}

#[tokio::test]
async fn the_document_names_every_rule_and_what_holds_back() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let schemas = &daemon.get("/openapi.json").await["components"]["schemas"];
    let rules = [
        "no_longer_allowed",
        "priority",
        "fair_share",
        "defragmentation",
        "first_share",
        "envy",
        "relocation",
    ];
    assert_eq!(schemas["PreemptionRule"]["enum"], json!(rules));
    let described = schemas["PreemptionRule"]["description"].as_str().unwrap();
    assert!(rules.iter().all(|rule| described.contains(&format!("`{rule}`: "))), "{described}");
    let codes = ["too_dear", "too_late", "quiet_stop"];
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

#[tokio::test]
async fn the_document_lists_every_route() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let document = daemon.get("/openapi.json").await;
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let expected = [
        "/livez",
        "/readyz",
        "/v1/classes",
        "/v1/events",
        "/v1/heartbeats",
        "/v1/jobs",
        "/v1/jobs/{id}",
        "/v1/jobs/{id}/why",
        "/v1/load",
        "/v1/nodes",
        "/v1/nodes/vary-off",
        "/v1/nodes/vary-on",
        "/v1/nodes/{name}",
        "/v1/occupancy",
        "/v1/publication",
        "/v1/schedule",
        "/v1/status",
        "/v1/users",
    ];
    assert_eq!(paths, expected);
    assert!(document["components"]["schemas"]["Work"]["properties"]["memory_mb"].is_object());
    daemon.stop().await;
}
