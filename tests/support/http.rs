//! A daemon with a single pool and three classes, and a client that uses real HTTP only.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::needless_pass_by_value,
    reason = "each test file uses its own part of this, and tables read better so"
)]

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

pub use super::daemon as process;

/// Three machines are to be told of: their pool takes any node, and the quantum is 1 GB.
pub const CONFIG: &str = r#"
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
pub struct Daemon {
    pub url: String,
    pub client: Client,
    pub stop: CancellationToken,
    pub running: JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    pub async fn start(folder: &TempDir) -> Daemon {
        Daemon::start_with(folder, |_| {}).await
    }

    pub async fn start_with(folder: &TempDir, change: impl FnOnce(&mut config::Config)) -> Daemon {
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

    pub async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }

    pub async fn send(&self, method: Method, path: &str, body: &str) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.url));
        request
            .header("content-type", "application/json")
            .body(body.to_owned())
            .send()
            .await
            .unwrap()
    }

    pub async fn publish(&self, sequence: u64, work: Value) -> wire::PublicationAnswer {
        let body = json!({ "sequence": sequence, "full": true, "work": work }).to_string();
        let response = self.send(Method::PUT, "/v1/publication", &body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        response.json().await.unwrap()
    }

    /// Nodes of 4 GB each.
    pub async fn report(&self, names: &[&str]) {
        let nodes: Vec<Value> =
            names.iter().map(|name| json!({ "node": name, "memory_mb": 4096 })).collect();
        let body = json!({ "nodes": nodes }).to_string();
        let response = self.send(Method::POST, "/v1/heartbeats", &body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }

    pub async fn get(&self, path: &str) -> Value {
        let response = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    /// Polls until `is_right`, as a patient client would.
    pub async fn get_until(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
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
    pub async fn with_two_users(folder: &TempDir) -> Daemon {
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

pub fn job(id: u64, user: &str) -> Value {
    json!({
        "id": id, "kind": "job", "user": user, "class": "normal", "memory_mb": 1024, "state": "running",
        "remaining": 1000, "running": true, "submitted_ms": id,
    })
}

pub fn with(mut work: Value, field: &str, value: Value) -> Value {
    work[field] = value;
    work
}

/// Number of shares that the schedule has for a job, without terminating shares.
pub fn held(schedule: &Value, id: u64) -> usize {
    let jobs = schedule["jobs"].as_array().unwrap();
    let job = jobs.iter().find(|job| job["id"] == id);
    let count = |job: &Value, list: &str| job[list].as_array().unwrap().len();
    job.map_or(0, |job| count(job, "shares") - count(job, "removed"))
}

pub fn ids(page: &Value) -> Vec<u64> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

/// The job as published once all it was assigned runs.
pub fn running(work: Value, schedule: &Value) -> Value {
    let scheduled =
        schedule["jobs"].as_array().unwrap().iter().find(|job| job["id"] == work["id"]).unwrap();
    let process = |share: &Value| json!({ "share": share["share"], "node": share["node"], "state": "running" });
    let processes: Vec<Value> =
        scheduled["shares"].as_array().unwrap().iter().map(process).collect();
    with(work, "processes", json!(processes))
}

/// A daemon in a process of its own, with this heartbeat interval and these settings besides.
pub fn beside(folder: &TempDir, heartbeats: &str, settings: &str) -> (Daemon, process::Daemon) {
    let daemons =
        format!("[daemon]\ncycle_period = \"20ms\"\nheartbeat_interval = \"{heartbeats}\"\n");
    let scheduler = format!("[scheduler]\n{settings}");
    let text = format!("{daemons}{}", CONFIG.replacen("[scheduler]", &scheduler, 1));
    let process = process::Daemon::start(folder.path(), &text);
    let client = Client::builder().no_proxy().build().unwrap();
    let running = tokio::spawn(async { Ok(()) });
    let stop = CancellationToken::new();
    (Daemon { url: process.url.clone(), client, stop, running }, process)
}
