//! Nodes that fall silent, and a daemon that cannot listen, seen from outside.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::time::Duration;

use crate::support::http::{Daemon, beside, held, job, running};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The first schedule in which job 1 has `qshares`, while these nodes report.
async fn schedule_with(daemon: &Daemon, nodes: &[&str], qshares: usize) -> Value {
    daemon.report(nodes).await;
    daemon.publish(1, json!([job(1, "ann")])).await;
    loop {
        daemon.report(nodes).await;
        let response = daemon.send(Method::GET, "/v1/schedule", "").await;
        if response.status() == StatusCode::OK {
            let schedule = response.json().await.unwrap();
            if held(&schedule, 1) == qshares {
                return schedule;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// D15: when all fall silent at once, it is said, nothing is given up, and when they are back all
/// goes on where it is.
#[tokio::test]
async fn when_too_many_fall_silent_at_once_it_is_said_and_nothing_is_given_up() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start_with(&folder, |config| {
        config.daemon.heartbeat_interval = Duration::from_millis(200);
        config.topology.settings.node_stability = 1;
    })
    .await;
    let nodes = ["n1", "n2", "n3"];
    let before = schedule_with(&daemon, &nodes, 12).await;
    daemon.publish(2, json!([running(job(1, "ann"), &before)])).await;

    let is_silent = |status: &Value| status["silent_together"] == json!(nodes);
    daemon.get_until("/v1/status", is_silent).await;
    let n1 = daemon.get("/v1/nodes/n1").await;
    assert_eq!(n1["states"], json!(["dead"]));
    assert!(n1["notes"].to_string().contains("its work is not given up"), "{n1}");
    let list = daemon.get("/v1/nodes?state=dead").await;
    assert!(list["nodes"][2]["notes"].to_string().contains("silent with too many"), "{list}");
    assert_eq!(held(&daemon.get("/v1/schedule").await, 1), 12);

    // The nodes may miss heartbeats again before the next look, so they report each time.
    let is_over = async || {
        daemon.report(&nodes).await;
        daemon.get("/v1/status").await["silent_together"] == json!([])
    };
    while !is_over().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let after = daemon.get("/v1/schedule").await;
    let shares = |schedule: &Value| running(job(1, "ann"), schedule)["processes"].clone();
    assert_eq!(shares(&after), shares(&before), "the same shares in the same places");
    daemon.stop().await;
}

/// I28: a daemon that stood still for many intervals says so, and gives no node up for it.
#[tokio::test]
async fn a_daemon_that_stood_still_gives_no_node_up() {
    let folder = TempDir::new().unwrap();
    let settings = "node_stability = 3\nmass_loss_percent = 100\n";
    let (daemon, process) = beside(&folder, "1s", settings);
    let before = schedule_with(&daemon, &["n1", "n2"], 8).await;

    process.signal("STOP");
    tokio::time::sleep(Duration::from_secs(4)).await;
    process.signal("CONT");
    while !process.said().contains("missed heartbeats count from zero") {
        daemon.report(&["n1", "n2"]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    daemon.report(&["n1", "n2"]).await;
    let status = daemon.get("/v1/status").await;
    assert_eq!(status["nodes"]["dead"], 0, "{status}");
    let shares = |schedule: &Value| running(job(1, "ann"), schedule)["processes"].clone();
    assert_eq!(shares(&daemon.get("/v1/schedule").await), shares(&before));
}
