//! The real binary, killed with SIGKILL again and again while it works: what was shown stays true.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[daemon]
cycle_period = "20ms"

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

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// A life of the daemon. Dropping it kills it, as `kill -9` would.
struct Life {
    child: Child,
    url: String,
    client: Client,
}

impl Life {
    fn begin(folder: &Path) -> Life {
        std::fs::write(folder.join("apportion.toml"), CONFIG).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .arg("--config")
            .arg(folder.join("apportion.toml"))
            .arg("--state")
            .arg(folder.join("state.db"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| Some(line.split_once("127.0.0.1:")?.1.to_owned()))
            .expect("the daemon says where it listens");
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        // What it logs from now on is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let client = Client::builder().no_proxy().build().unwrap();
        Life { child, url: format!("http://127.0.0.1:{port}"), client }
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: &Value) -> StatusCode {
        let request = self.client.request(method, format!("{}{path}", self.url)).json(body);
        request.send().await.unwrap().status()
    }

    async fn heartbeats(&self) {
        let nodes = NODES.map(|node| json!({ "node": node, "memory_mb": 8192 }));
        let status =
            self.send(reqwest::Method::POST, "/v1/heartbeats", &json!({ "nodes": nodes })).await;
        assert_eq!(status, StatusCode::ACCEPTED);
    }

    async fn vary_off(&self, node: &str) {
        let body = json!({ "nodes": [node], "reason": "a test" });
        // A node is known once the first cycle after its heartbeat is on record.
        let url = format!("{}/v1/nodes/{node}", self.url);
        while self.client.get(&url).send().await.unwrap().status() != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            self.send(reqwest::Method::POST, "/v1/nodes/vary-off", &body).await,
            StatusCode::OK
        );
    }

    /// The next schedule that is on record.
    async fn schedule(&self) -> Value {
        loop {
            let response =
                self.client.get(format!("{}/v1/schedule", self.url)).send().await.unwrap();
            if response.status() == StatusCode::OK {
                return response.json().await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The first schedule that `is_right`.
    async fn schedule_when(&self, is_right: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..12_000 {
            let schedule = self.schedule().await;
            if is_right(&schedule) {
                return schedule;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the schedule never became right");
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap().json().await.unwrap()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn numbers(shares: &Value) -> impl Iterator<Item = u64> {
    shares.as_array().unwrap().iter().map(|share| share["share"].as_u64().unwrap())
}

/// The shares that the schedule wants to end.
fn told_to_end(schedule: &Value) -> impl Iterator<Item = u64> {
    schedule["jobs"].as_array().unwrap().iter().flat_map(|job| numbers(&job["removed"]))
}

/// An orchestrator that starts every process it is told to, and ends those it is told to end.
#[derive(Default)]
struct Orchestrator {
    sequence: u64,
    jobs: Vec<(u64, &'static str)>,
    /// Share to job and node: all it was ever told of.
    ever: BTreeMap<u64, (u64, String)>,
    running: BTreeMap<u64, (u64, String)>,
    /// Shares it was told to end. That is final.
    ended: BTreeSet<u64>,
}

impl Orchestrator {
    async fn publish(&mut self, life: &Life) {
        self.sequence += 1;
        let work = self.jobs.iter().map(|&(id, user)| {
            let shares = self.running.iter().filter(|(_, (job, _))| *job == id);
            let processes = shares.map(|(share, (_, node))| json!({ "share": share, "node": node, "state": "running" }));
            json!({
                "id": id, "kind": "job", "user": user, "class": "normal", "state": "running", "running": true,
                "memory_mb": 1024, "remaining": 1000, "time_per_item_ms": 60_000, "submitted_ms": id,
                "processes": processes.collect::<Vec<_>>(),
            })
        });
        let body = json!({ "sequence": self.sequence, "work": work.collect::<Vec<_>>() });
        let status = life.send(reqwest::Method::PUT, "/v1/publication", &body).await;
        assert_eq!(status, StatusCode::ACCEPTED);
    }

    /// Remembers what the schedule says. A share number must never have meant anything else.
    fn note(&mut self, schedule: &Value) {
        for job in schedule["jobs"].as_array().unwrap() {
            let id = job["id"].as_u64().unwrap();
            for share in job["shares"].as_array().unwrap() {
                let number = share["share"].as_u64().unwrap();
                let place = (id, share["node"].as_str().unwrap().to_owned());
                let first = self.ever.entry(number).or_insert_with(|| place.clone());
                assert_eq!(first, &place, "share {number} was used again");
            }
            let removed: BTreeSet<u64> = numbers(&job["removed"]).collect();
            for number in numbers(&job["shares"]).filter(|number| self.ended.contains(number)) {
                assert!(removed.contains(&number), "share {number} was told to end, and came back");
            }
            self.ended.extend(removed);
        }
    }

    /// Does as the schedule says.
    fn obey(&mut self, schedule: &Value) {
        self.note(schedule);
        for job in schedule["jobs"].as_array().unwrap() {
            for share in job["added"].as_array().unwrap() {
                let number = share["share"].as_u64().unwrap();
                self.running.insert(number, self.ever[&number].clone());
            }
            for share in job["removed"].as_array().unwrap() {
                self.running.remove(&share["share"].as_u64().unwrap());
            }
        }
        self.assert_no_node_is_overcommitted();
    }

    fn assert_no_node_is_overcommitted(&self) {
        for node in NODES {
            let processes = self.running.values().filter(|(_, on)| on == node).count();
            assert!(processes <= 8, "{node} runs {processes} processes of 1 GB on 8 GB");
        }
    }
}

#[tokio::test]
async fn killed_at_any_moment_it_comes_back_without_reusing_a_share_or_forgetting_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut orchestrator = Orchestrator { jobs: vec![(1, "ann")], ..Orchestrator::default() };
    let mut off: Vec<&str> = Vec::new();
    for round in 0..10_u64 {
        if round % 5 == 4 {
            // Bob is gone, so nobody would tell ann anew to give way; and a life without any
            // publication must not take anything off the record.
            orchestrator.jobs.retain(|(_, user)| *user != "bob");
            let idle = Life::begin(folder.path());
            idle.heartbeats().await;
            let node = NODES[off.len()];
            idle.vary_off(node).await;
            off.push(node);
        }
        let life = Life::begin(folder.path());
        life.heartbeats().await;
        orchestrator.publish(&life).await;
        // Each life dies at another point of the same conversation.
        if round % 5 == 0 {
            continue;
        }
        let schedule = life.schedule().await;
        orchestrator.note(&schedule);
        if round % 5 == 1 {
            // Shown, and never carried out.
            continue;
        }
        orchestrator.obey(&schedule);
        if round % 5 == 2 {
            let node = NODES[off.len()];
            life.vary_off(node).await;
            off.push(node);
            continue;
        }
        if round % 5 == 3 {
            orchestrator.jobs.push((round, "bob"));
            orchestrator.publish(&life).await;
            // Ann is told to give way, and the daemon dies before she has.
            let ended = orchestrator.ended.clone();
            let is_news = |share: u64| !ended.contains(&share);
            let told = life.schedule_when(|schedule| told_to_end(schedule).any(is_news)).await;
            orchestrator.note(&told);
            continue;
        }
        orchestrator.publish(&life).await;
        orchestrator.obey(&life.schedule().await);
    }
    let life = Life::begin(folder.path());
    life.heartbeats().await;
    for node in &off {
        assert_eq!(life.get(&format!("/v1/nodes/{node}")).await["vary_off_reason"], "a test");
    }
    assert_eq!(off.len(), 4);
    assert!(!orchestrator.running.is_empty());
}
