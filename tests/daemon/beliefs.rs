//! Publications with gaps and absent nodes, as the daemon treats them: the real binary, over real
//! HTTP, in stories where a part of the truth is missing.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;
use std::time::Duration;

use crate::support::daemon::{Daemon, job};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[daemon]
cycle_period = "10ms"
heartbeat_interval = "200ms"

[daemon.limits]
absent_publications = 3
absent_time = "100ms"

[scheduler]
quantum = "1GB"
node_stability = 2
initialization_cap = 0
expand_by_doubling = false
prediction = false

[[nodepool]]
name = "main"

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"

[[class]]
name = "fixed"
policy = "fixed-share"
nodepool = "main"
"#;

/// A daemon, the nodes that report to it, and the last number of a publication.
struct World {
    daemon: Daemon,
    nodes: Vec<String>,
    sequence: u64,
}

impl World {
    fn new(folder: &Path, nodes: u64) -> World {
        let nodes = (1..=nodes).map(|number| format!("n{number}")).collect();
        World { daemon: Daemon::start(folder, CONFIG), nodes, sequence: 0 }
    }

    async fn beat(&self) {
        let nodes: Vec<Value> =
            self.nodes.iter().map(|node| json!({ "node": node, "memory_mb": 4096 })).collect();
        let body = json!({ "nodes": nodes });
        let answer = self.daemon.send(Method::POST, "/v1/heartbeats", &body).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
    }

    /// Publishes `work` under the next number, with these fields besides; waits until it is stored.
    async fn publish(&mut self, work: &[Value], more: Value) -> (StatusCode, Value) {
        self.sequence += 1;
        let mut body = json!({ "sequence": self.sequence, "work": work });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = "/v1/publication?wait=commit";
        let answer = self.daemon.try_ask(Method::PUT, path, Some(&body)).await.unwrap();
        self.cycles(2).await;
        answer
    }

    /// Lets `count` cycles pass while the nodes report. A quiet daemon plans none.
    async fn cycles(&self, count: u64) {
        for _ in 0..2 * count {
            self.beat().await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    async fn status(&self) -> Value {
        self.daemon.get("/v1/status").await
    }

    /// The job with the shares of the schedule, each with a running process.
    async fn running(&self, work: &Value) -> Value {
        let schedule = self.daemon.get("/v1/schedule").await;
        let jobs = schedule["jobs"].as_array().unwrap();
        let known = jobs.iter().find(|job| job["id"] == work["id"]).unwrap();
        let shares = known["shares"].as_array().unwrap().iter();
        let running = shares.map(
            |share| json!({ "share": share["share"], "node": share["node"], "state": "running" }),
        );
        let mut work = work.clone();
        work["state"] = json!("running");
        work["processes"] = running.collect();
        work
    }

    /// Qshares in use on all nodes; none may have more than it has.
    async fn used(&self) -> u64 {
        let nodes = self.daemon.get("/v1/nodes").await;
        let nodes = nodes["nodes"].as_array().unwrap().iter();
        let used = nodes.map(|node| {
            assert!(node["used"].as_u64() <= node["order"].as_u64(), "{node}");
            node["used"].as_u64().unwrap()
        });
        used.sum()
    }

    async fn act(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.daemon.try_ask(Method::POST, path, Some(&body)).await.unwrap()
    }
}

fn codes(answer: &Value) -> Vec<&str> {
    let warnings = answer["warnings"].as_array().unwrap().iter();
    warnings.map(|warning| warning["code"].as_str().unwrap()).collect()
}

/// A job with `processes` processes of 1 GB.
fn of(id: u64, processes: u64) -> Value {
    let mut work = job(id, "ann", &[]);
    work["max_processes"] = json!(processes);
    work["memory_mb"] = json!(1024);
    work
}

/// A process of ten that a publication leaves out keeps its space for a time, then loses it. A
/// process that is published again meanwhile was never gone.
#[tokio::test]
async fn what_is_absent_keeps_its_room_until_it_was_absent_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 3);
    let (big, small) = (of(1, 9), of(2, 1));
    world.publish(&[big.clone(), small.clone()], json!({})).await;
    world.cycles(4).await;
    let all = [world.running(&big).await, world.running(&small).await];
    world.publish(&all, json!({})).await;
    assert_eq!(world.used().await, 10);

    let (status, answer) = world.publish(&all[..1], json!({})).await;
    assert_eq!((status, codes(&answer)), (StatusCode::ACCEPTED, vec!["P052"]), "{answer}");
    assert_eq!(world.used().await, 10);
    assert_eq!(world.status().await["absent"], json!({ "jobs": 1, "processes": 1, "held": 0 }));
    let (_, answer) = world.publish(&all, json!({})).await;
    assert_eq!(codes(&answer), [""; 0], "{answer}");
    assert_eq!(world.status().await["absent"], Value::Null);

    for _ in 0..2 {
        world.publish(&all[..1], json!({})).await;
        assert_eq!(world.used().await, 10);
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    let (_, answer) = world.publish(&all[..1], json!({})).await;
    assert_eq!(codes(&answer), ["P053"], "{answer}");
    world.cycles(3).await;
    assert_eq!(world.used().await, 9, "given up");
}

/// Half of the work vanishes: no time gives it up, a restart forgets nothing of it, and the orchestrator's
/// word does.
#[tokio::test]
async fn much_that_vanishes_at_once_is_held_until_it_is_said_to_be_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 3);
    let (one, two) = (of(1, 4), of(2, 4));
    world.publish(&[one.clone(), two.clone()], json!({})).await;
    world.cycles(4).await;
    let all = [world.running(&one).await, world.running(&two).await];
    world.publish(&all, json!({})).await;
    for _ in 0..4 {
        let (_, answer) = world.publish(&all[..1], json!({})).await;
        assert_eq!(codes(&answer), ["P052"], "{answer}");
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(world.used().await, 8);
    }
    let page = world.daemon.ask("/").await.text().await.unwrap();
    assert!(page.contains("The last publication leaves out 4 processes of 1 job"), "{page}");
    world.daemon.kill();
    world.daemon = Daemon::start(folder.path(), CONFIG);
    world.cycles(2).await;
    world.publish(&all[..1], json!({})).await;
    assert_eq!(world.used().await, 8, "after a restart");
    let (status, answer) = world.publish(&all[..1], json!({ "full": true })).await;
    assert_eq!((status, codes(&answer)), (StatusCode::ACCEPTED, vec![]), "{answer}");
    world.cycles(3).await;
    assert_eq!(world.used().await, 4);
}

/// A node is taken for dead, and a publication that leaves out most of the work does not say that its
/// processes are gone. The node returns with them, and their space is not offered again.
#[tokio::test]
async fn a_publication_with_gaps_does_not_empty_a_dead_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 4);
    let jobs: Vec<Value> = (1..=4).map(|id| of(id, 4)).collect();
    world.publish(&jobs, json!({})).await;
    world.cycles(4).await;
    let mut all = Vec::new();
    for job in &jobs {
        all.push(world.running(job).await);
    }
    world.publish(&all, json!({})).await;
    assert_eq!(world.used().await, 16);
    let silent = world.nodes.pop().unwrap();
    let dead = async |world: &World| {
        let node = world.daemon.get(&format!("/v1/nodes/{silent}")).await;
        node["used"] == 0
    };
    while !dead(&world).await {
        world.cycles(1).await;
    }
    for _ in 0..2 {
        let (_, answer) = world.publish(&[], json!({})).await;
        assert_eq!(codes(&answer), ["P052"], "{answer}");
    }
    world.nodes.push(silent);
    world.cycles(6).await;
    assert_eq!(world.used().await, 16, "the processes of the node that came back");
    let (_, answer) = world.publish(&all, json!({})).await;
    assert_eq!(codes(&answer), [""; 0], "{answer}");
    world.cycles(3).await;
    assert_eq!(world.used().await, 16);
}

/// The processes of a refused item still count, and their space is not offered again.
#[tokio::test]
async fn what_runs_of_work_that_is_refused_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 3);
    let work = of(1, 4);
    world.publish(std::slice::from_ref(&work), json!({})).await;
    world.cycles(4).await;
    let offered = async |world: &World| {
        let schedule = world.daemon.get("/v1/schedule").await;
        schedule["jobs"][0]["added"].as_array().unwrap().len()
    };
    assert_eq!(offered(&world).await, 4);
    let mut running = world.running(&work).await;
    running["user"] = json!("bob");
    let (status, answer) = world.publish(&[running], json!({})).await;
    assert_eq!((status, &answer["refused"][0]["code"]), (StatusCode::ACCEPTED, &json!("P021")));
    world.cycles(3).await;
    assert_eq!((offered(&world).await, world.used().await), (0, 4));
}

/// A second orchestrator is refused, also after a kill, until an operator hands over.
#[tokio::test]
async fn only_the_orchestrator_that_said_its_name_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 3);
    let work = [of(1, 2)];
    let main = json!({ "publisher": "main", "epoch": 1 });
    assert_eq!(world.publish(&work, main.clone()).await.0, StatusCode::ACCEPTED);
    for other in
        [json!({}), json!({ "publisher": "spare" }), json!({ "publisher": "main", "epoch": 0 })]
    {
        let (status, answer) = world.publish(&[], other.clone()).await;
        assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("P054")), "{other}");
    }
    world.daemon.kill();
    world.daemon = Daemon::start(folder.path(), CONFIG);
    world.cycles(2).await;
    let spare = json!({ "publisher": "spare", "full": true });
    assert_eq!(world.publish(&work, spare.clone()).await.0, StatusCode::CONFLICT);
    let known = world.daemon.get("/v1/orchestrators").await;
    assert!(
        known.to_string().contains("\"main\"") && known.to_string().contains("\"spare\""),
        "{known}"
    );
    for to in ["", "a\u{202e}b", &"x".repeat(5_000)] {
        let body = json!({ "to": to, "reason": "no name" });
        let (status, answer) = world.act("/v1/orchestrators/hand-over", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    }
    let (status, _) = world
        .act("/v1/orchestrators/hand-over", json!({ "to": "spare", "reason": "main is gone" }))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(world.publish(&work, spare).await.0, StatusCode::ACCEPTED);
    assert_eq!(world.publish(&work, main).await.0, StatusCode::CONFLICT);
    // A new incarnation numbers anew.
    world.sequence = 0;
    let again = json!({ "publisher": "spare", "epoch": 1 });
    assert_eq!(world.publish(&work, again).await.0, StatusCode::ACCEPTED);
}

/// A number that is far too high uses up nothing, and an operator lets numbers begin anew.
#[tokio::test]
async fn a_wrong_number_locks_no_publisher_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 3);
    let work = [of(1, 2)];
    for (last, expected) in
        [(1_u64 << 53, StatusCode::BAD_REQUEST), (1 << 50, StatusCode::ACCEPTED)]
    {
        world.sequence = last - 1;
        assert_eq!(world.publish(&work, json!({})).await.0, expected, "{last} as the first");
    }
    world.sequence += 1 << 41;
    assert_eq!(world.publish(&work, json!({})).await.0, StatusCode::BAD_REQUEST);
    world.sequence = 4;
    assert_eq!(world.publish(&work, json!({})).await.0, StatusCode::CONFLICT);
    let (status, answer) = world.act("/v1/publication/reset", json!({ "reason": "" })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    let (status, _) = world.act("/v1/publication/reset", json!({ "reason": "a slip" })).await;
    assert_eq!(status, StatusCode::OK);
    let (status, answer) = world.publish(&work, json!({})).await;
    assert_eq!((status, &answer["stored"]), (StatusCode::ACCEPTED, &json!(true)), "{answer}");
    let schedule = world.daemon.ask("/v1/schedule").await;
    assert_eq!(schedule.headers()["apportion-publication"], "6");
    // The first and the last publication asked for the same: the text came about with the first.
    let schedule: Value = schedule.json().await.unwrap();
    assert!([json!(1_u64 << 50), json!(6)].contains(&schedule["publication"]), "{schedule}");
}

/// Follows the guide for `ApportionSilentTogether`, word by word.
#[tokio::test]
async fn the_guide_s_remedy_for_nodes_that_are_dead_frees_their_work() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), 4);
    let mut service = of(1, 1);
    service["kind"] = json!("arbitrary_process");
    service["class"] = json!("fixed");
    let many = of(2, 15);
    world.publish(&[service.clone(), many.clone()], json!({})).await;
    world.cycles(4).await;
    let mut all = [world.running(&service).await, world.running(&many).await];
    world.publish(&all, json!({})).await;
    let dead = all[0]["processes"][0]["node"].as_str().unwrap().to_owned();
    let other = world.nodes.iter().find(|node| **node != dead).unwrap().clone();
    world.nodes.retain(|node| *node != dead && *node != other);
    let held = json!([dead.clone().min(other.clone()), dead.clone().max(other.clone())]);
    while world.status().await["silent_together"] != held {
        world.beat().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let why = world.daemon.get("/v1/jobs/1/why").await;
    let sentence =
        format!("job 1 holds 1 of 1 process, but 1 process is on a node that is silent ({dead})");
    assert_eq!(why["sentence"], sentence, "{why}");
    let until = why["unblock"]["sentence"].as_str().unwrap();
    assert!(until.contains(&format!("apportion node lost {dead}")), "{until}");
    let guide = std::fs::read_to_string("docs/operations.md").unwrap();
    let row = guide.lines().find(|line| line.starts_with("| `ApportionSilentTogether`")).unwrap();
    let remedy = row.split('`').find(|part| part.starts_with("apportion node lost")).unwrap();
    let remedy = remedy.replace("NAMES", &format!("{dead},{other}")).replace("WHY", "burnt");
    let words = remedy.split(' ').skip(1);
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(words)
        // The question that it asks on a terminal, answered.
        .arg("--yes")
        .env("APPORTION_URL", &world.daemon.url)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    world.cycles(3).await;
    assert_eq!(world.status().await["silent_together"], json!([]));
    let schedule = world.daemon.get("/v1/schedule").await;
    let jobs = schedule["jobs"].as_array().unwrap().iter();
    let removed = jobs.flat_map(|job| job["removed"].as_array().unwrap()).collect::<Vec<_>>();
    let of_service = removed.iter().any(|it| it["node"] == json!(dead) && it["purge"] == true);
    assert!(of_service, "fixed work too: {schedule}");

    // Gone for good: refused while anything is shown there, also by a dry run; done afterwards.
    for dry_run in [true, false] {
        let early = json!({ "nodes": [dead, other], "reason": "scrapped", "dry_run": dry_run });
        let (status, answer) = world.act("/v1/nodes/forget", early).await;
        assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    }
    for work in &mut all {
        for process in work["processes"].as_array_mut().unwrap() {
            if process["node"] == json!(dead) || process["node"] == json!(other) {
                process["state"] = json!("gone");
            }
        }
    }
    world.publish(&all, json!({})).await;
    let forget = json!({ "nodes": [dead, other], "reason": "scrapped" });
    let (status, answer) = world.act("/v1/nodes/forget", forget).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.cycles(2).await;
    let nodes = world.daemon.get("/v1/nodes").await;
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 2, "{nodes}");
    let up = json!({ "nodes": [world.nodes[0]], "reason": "no" });
    assert_eq!(world.act("/v1/nodes/forget", up).await.0, StatusCode::CONFLICT);
}
