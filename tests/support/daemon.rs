//! The real binary on a folder of its own, with requests as an orchestrator and agents would send
//! them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};

/// Time limit of an answer. Long polls of these tests wait for less.
const PATIENCE: Duration = Duration::from_mins(1);

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
    child: Mutex<Child>,
    pub url: String,
    client: Client,
    folder: PathBuf,
    log: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

/// The daemon does not answer any more: a request may have been done or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl Daemon {
    /// Starts it on the state in `folder`, under `config`.
    pub fn start(folder: &Path, config: &str) -> Daemon {
        Daemon::start_at(folder, config, "127.0.0.1:0")
    }

    /// The same, at an address.
    pub fn start_at(folder: &Path, config: &str, address: &str) -> Daemon {
        let state = folder.join("state.db");
        Daemon::started(folder, config, &state, &[], address)
            .unwrap_or_else(|said| panic!("it does not start:\n{said}"))
    }

    /// Starts a daemon with its store at `state`, by another program if given, with its arguments.
    /// Returns its output if it never listens.
    pub fn try_start(
        folder: &Path,
        config: &str,
        state: &Path,
        under: &[String],
    ) -> Result<Daemon, String> {
        Daemon::started(folder, config, state, under, "127.0.0.1:0")
    }

    fn started(
        folder: &Path,
        config: &str,
        state: &Path,
        under: &[String],
        address: &str,
    ) -> Result<Daemon, String> {
        let mut child = spawn(folder, config, state, under, address);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = String::new();
        let address = loop {
            let Some(line) = lines.next() else {
                child.wait().unwrap();
                return Err(said);
            };
            if let Some((_, address)) = line.split_once("127.0.0.1:") {
                break address.to_owned();
            }
            said.extend([line.as_str(), "\n"]);
        };
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        let log = Arc::new(Mutex::new(said));
        let written = Arc::clone(&log);
        // The test reads the log, so that the daemon never waits for a reader.
        let reader = std::thread::spawn(move || {
            for line in lines {
                written.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let (url, folder) = (format!("http://127.0.0.1:{port}"), folder.to_owned());
        Ok(Daemon { child: Mutex::new(child), url, client, folder, log, reader })
    }

    /// Writes the configuration file, which the daemon reads on a signal.
    pub fn configure(&self, config: &str) {
        std::fs::write(self.folder.join("apportion.toml"), config).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// `kill -9`, and waits until it is gone. It may be gone already.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Exit status of the daemon if it ends within `seconds`, after all its output is read.
    pub async fn end(&self, seconds: u64) -> Option<ExitStatus> {
        for _ in 0..seconds * 200 {
            let status = self.child.lock().unwrap().try_wait().unwrap();
            if let Some(status) = status
                && self.reader.is_finished()
            {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }

    /// All that it has logged.
    pub fn said(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Status and text of the answer. A daemon that reports its stop counts as gone.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, String), Gone> {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(body);
        }
        let lost = |error: reqwest::Error| {
            assert!(!error.is_timeout(), "no answer about {path}: {}", self.said());
            Gone
        };
        let response = request.send().await.map_err(lost)?;
        let status = response.status();
        let text = response.text().await.map_err(lost)?;
        let is_stopping = status == StatusCode::SERVICE_UNAVAILABLE && text.contains("T008");
        if is_stopping { Err(Gone) } else { Ok((status, text)) }
    }

    /// The same, with what is answered as JSON.
    pub async fn try_ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Gone> {
        let (status, text) = self.try_send(method, path, body).await?;
        Ok((status, serde_json::from_str(&text).unwrap_or_default()))
    }

    pub async fn try_get(&self, path: &str) -> Result<(StatusCode, Value), Gone> {
        self.try_ask(Method::GET, path, None).await
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it has logged this.
    pub async fn logs(&self, text: &str) {
        self.logs_line(&[text]).await;
    }

    /// Waits until it has logged a line with all of these in it.
    pub async fn logs_line(&self, words: &[&str]) {
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        for _ in 0..12_000 {
            if self.log.lock().unwrap().lines().any(is_it) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never logged {words:?}:\n{}", self.said());
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

    /// The answer once it `is_right`. Until then the path may have none.
    pub async fn get_until(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..12_000 {
            let (status, answer) = self.try_get(path).await.unwrap();
            if status == StatusCode::OK && is_right(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{path} never became right: {:?}", self.try_get(path).await);
    }

    /// Reports nodes with these GB: `n1=8 n2=4`.
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
        let body = json!({ "sequence": sequence, "full": true, "work": work });
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
        let answer = self.ask("/v1/schedule?wait=50s").await;
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

    /// Waits until cycle `cycle` is stored.
    pub async fn cycle(&self, cycle: u64) {
        while self.get("/v1/status").await["cycle"].as_u64().unwrap() < cycle {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the binary on `state` with `config` as its file in `folder`, and does not wait until it
/// listens.
pub fn spawn(folder: &Path, config: &str, state: &Path, under: &[String], address: &str) -> Child {
    std::fs::write(folder.join("apportion.toml"), config).unwrap();
    let ours = env!("CARGO_BIN_EXE_apportion").to_owned();
    let mut words = under.iter().chain([&ours]);
    Command::new(words.next().unwrap())
        .args(words)
        .args(["serve", "--listen", address, "--log-format", "json"])
        .arg("--config")
        .arg(folder.join("apportion.toml"))
        .arg("--state")
        .arg(state)
        .env_remove("APPORTION_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
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

/// The job `id` of `schedule`, and the numbers of the shares in `list`.
pub fn shares(schedule: &Value, id: u64, list: &str) -> Vec<u64> {
    let job = schedule["jobs"].as_array().into_iter().flatten().find(|job| job["id"] == id);
    let shares = job.map(|job| job[list].as_array().unwrap().as_slice()).unwrap_or_default();
    shares.iter().map(|share| share["share"].as_u64().unwrap()).collect()
}

/// Runs the command line to its end.
pub fn apportion(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_apportion")).args(args).output().unwrap()
}
