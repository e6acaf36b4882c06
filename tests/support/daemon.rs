//! The real binary on a folder of its own, with what an orchestrator and agents would send it.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses its own part of this")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};

/// Small orders, no pacing, and cycles as fast as they are allowed.
pub const CONFIG: &str = r#"
[daemon]
cycle_period = "10ms"

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
"#;

/// A life of the daemon. Dropping it kills it, as `kill -9` would.
pub struct Daemon {
    child: Child,
    pub url: String,
    client: Client,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    /// Starts it on the state in `folder`, under `config`.
    pub fn start(folder: &Path, config: &str) -> Daemon {
        Daemon::start_at(folder, config, "127.0.0.1:0")
    }

    /// The same, at an address.
    pub fn start_at(folder: &Path, config: &str, address: &str) -> Daemon {
        std::fs::write(folder.join("apportion.toml"), config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(["serve", "--listen", address, "--log-format", "json"])
            .arg("--config")
            .arg(folder.join("apportion.toml"))
            .arg("--state")
            .arg(folder.join("state.db"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = lines
            .find_map(|line| Some(line.split_once("127.0.0.1:")?.1.to_owned()))
            .expect("the daemon says where it listens");
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines {
                written.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        let client = Client::builder().no_proxy().build().unwrap();
        Daemon { child, url: format!("http://127.0.0.1:{port}"), client, log }
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it has logged this.
    pub async fn logs(&self, text: &str) {
        for _ in 0..2_000 {
            if self.log.lock().unwrap().contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never logged {text:?}:\n{}", self.log.lock().unwrap());
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.url)).json(body);
        request.send().await.unwrap()
    }

    pub async fn ask(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Value {
        self.ask(path).await.json().await.unwrap()
    }

    /// Nodes of so many GB report: `n1=8 n2=4`.
    pub async fn nodes(&self, nodes: &str) {
        let nodes = nodes.split_whitespace().map(|node| {
            let (name, gib) = node.split_once('=').unwrap();
            json!({ "node": name, "memory_mb": gib.parse::<u64>().unwrap() * 1024 })
        });
        let body = json!({ "nodes": nodes.collect::<Vec<_>>() });
        let answer = self.send(Method::POST, "/v1/heartbeats", &body).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
    }

    /// All work is published.
    pub async fn publish(&self, sequence: u64, work: &[Value]) {
        let body = json!({ "sequence": sequence, "work": work });
        let answer = self.send(Method::PUT, "/v1/publication", &body).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED, "{}", answer.text().await.unwrap());
    }

    pub async fn vary_off(&self, node: &str) {
        let body = json!({ "nodes": [node], "reason": "a test" });
        let answer = self.send(Method::POST, "/v1/nodes/vary-off", &body).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }

    /// The schedule as it is sent, and its `ETag`.
    pub async fn schedule_text(&self) -> (String, String) {
        let answer = self.ask("/v1/schedule?wait=20s").await;
        assert_eq!(answer.status(), StatusCode::OK);
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        (etag, answer.text().await.unwrap())
    }

    pub async fn schedule(&self) -> Value {
        serde_json::from_str(&self.schedule_text().await.1).unwrap()
    }

    /// The first schedule that `is_right`.
    pub async fn schedule_when(&self, is_right: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..6_000 {
            let schedule = self.schedule().await;
            if is_right(&schedule) {
                return schedule;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the schedule never became right: {}", self.schedule().await);
    }

    /// Waits until cycle `cycle` is on record.
    pub async fn cycle(&self, cycle: u64) {
        while self.get("/v1/status").await["cycle"].as_u64().unwrap() < cycle {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A job of processes of 1 GB that wants everything, with a process in each of these shares.
pub fn job(id: u64, user: &str, processes: &[(u64, &str)]) -> Value {
    let processes = processes
        .iter()
        .map(|(share, node)| json!({ "share": share, "node": node, "state": "running" }));
    json!({
        "id": id, "kind": "job", "user": user, "class": "normal", "state": "running", "running": true,
        "memory_mb": 1024, "remaining": 1000, "time_per_item_ms": 60_000, "submitted_ms": id,
        "processes": processes.collect::<Vec<_>>(),
    })
}

/// The job `id` of `schedule`, and the numbers of the shares in one of its lists.
pub fn shares(schedule: &Value, id: u64, list: &str) -> Vec<u64> {
    let job = schedule["jobs"].as_array().into_iter().flatten().find(|job| job["id"] == id);
    let shares = job.map(|job| job[list].as_array().unwrap().as_slice()).unwrap_or_default();
    shares.iter().map(|share| share["share"].as_u64().unwrap()).collect()
}

/// Runs the command line to its end.
pub fn apportion(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_apportion")).args(args).output().unwrap()
}
