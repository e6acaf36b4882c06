//! The agent beside a real daemon: its heartbeats arrive, it retries, and it sends little.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::daemon::{CONFIG, Daemon, apportion};
use crate::support::notified::Notified;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tempfile::TempDir;

/// An agent that runs until the test ends.
struct Agent(Child);

impl Agent {
    fn start(args: &[&str], socket: Option<&Notified>) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
        command.args(["agent", "--interval", "50ms"]).args(args).stderr(Stdio::null());
        if let Some(socket) = socket {
            command.env("NOTIFY_SOCKET", socket.path());
        }
        Agent(command.spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The process may already have a signal to end.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

async fn node_when(daemon: &Daemon, node: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2_000 {
        let shown = daemon.get(&format!("/v1/nodes/{node}")).await;
        if is_right(&shown) {
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never right: {}", daemon.get(&format!("/v1/nodes/{node}")).await);
}

fn states(node: &Value) -> Vec<&str> {
    node["states"].as_array().into_iter().flatten().map(|state| state.as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_node_that_runs_an_agent_is_there_with_its_memory() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let once = ["agent", "--once", "--json", "--node", "here", "--url", &daemon.url];
    let said = apportion(&once);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(said["memory_mb"], total >> 10);
    assert!(said["available_mb"].as_u64().unwrap() <= total >> 10);
    let node = node_when(&daemon, "here", |node| node["name"] == "here").await;
    assert_eq!((&node["memory_mb"], states(&node)), (&said["memory_mb"], vec!["up"]));
    let metrics = daemon.ask("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("apportion_available_bytes{pool=\"main\"} "), "{metrics}");
}

/// An agent that starts before the daemon retries until the daemon runs; a file takes its node out
/// and back.
#[tokio::test]
async fn an_agent_waits_for_the_daemon_and_passes_on_what_its_node_wants() {
    let folder = TempDir::new().unwrap();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("http://127.0.0.1:{port}");
    let socket = Notified::listen(folder.path());
    let wish = folder.path().join("quiesce");
    let args = ["--node", "n1", "--memory", "8GB", "--reserve", "1GB", "--url", &url];
    let args = [&args[..], &["--quiesce-file", wish.to_str().unwrap()]].concat();
    let mut agent = Agent::start(&args, Some(&socket));
    socket.until("READY=1");
    socket.until("STATUS=heartbeat failed: cannot reach a daemon");

    let daemon = Daemon::start_at(folder.path(), CONFIG, &format!("127.0.0.1:{port}"));
    socket.until("STATUS=n1: offers 7168 MB");
    node_when(&daemon, "n1", |node| states(node) == ["up"]).await;
    fs::write(&wish, "").unwrap();
    let node = node_when(&daemon, "n1", |node| states(node) == ["quiesced"]).await;
    assert_eq!(node["memory_mb"], 7168);
    fs::remove_file(&wish).unwrap();
    node_when(&daemon, "n1", |node| states(node) == ["up"]).await;
    // Started again it is another life, and not a second agent.
    drop(std::mem::replace(&mut agent, Agent::start(&args, None)));
    fs::write(&wish, "").unwrap();
    let node = node_when(&daemon, "n1", |node| states(node) == ["quiesced"]).await;
    assert_eq!(node["notes"].as_array().map_or(0, Vec::len), 0, "{node}");
}

#[tokio::test]
async fn exit_statuses_tell_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let long = "x".repeat(300);
    for (args, status, says) in [
        (vec!["--url", "http://127.0.0.1:1"], 3, "cannot reach a daemon at http://127.0.0.1:1"),
        (vec!["--node", long.as_str(), "--url", &daemon.url], 1, "H00"),
        (vec!["--memory", "1GB", "--reserve", "2GB"], 1, "smaller --reserve"),
        (vec!["--token-file", "/nonexistent"], 1, "cannot read the token in /nonexistent"),
        (vec!["--memory", "much"], 2, "--memory"),
        (vec!["--interval", "1ms"], 2, "10ms to 1h"),
    ] {
        let said = apportion(&[&["agent", "--once"][..], &args].concat());
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(status), "{args:?}: {text}");
        assert!(text.contains(says), "{args:?}: {text}");
    }
}

/// The token is sent as a bearer's, and read again for every heartbeat.
#[tokio::test]
async fn a_token_is_sent_and_may_be_replaced() {
    let folder = TempDir::new().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (heard, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let answer = move |headers: HeaderMap| async move {
        heard.send(headers["authorization"].to_str().unwrap().to_owned()).unwrap();
        (StatusCode::ACCEPTED, r#"{"accepted": 1, "refused": []}"#)
    };
    let router = Router::new().route("/v1/heartbeats", post(answer));
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    let file = folder.path().join("token");
    let write = |token: &str| {
        let new = folder.path().join("new");
        fs::write(&new, token).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, &file).unwrap();
    };
    write("first\n");
    let _agent = Agent::start(&["--url", &url, "--token-file", file.to_str().unwrap()], None);
    assert_eq!(tokens.recv().await.unwrap(), "Bearer first");
    write("second\n");
    while tokens.recv().await.unwrap() != "Bearer second" {}
}
