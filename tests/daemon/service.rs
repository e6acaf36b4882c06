//! The daemon as a service: its messages to systemd, the keep-alives of its watchdog, and the few
//! rights of the units.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "what was not checked is said")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::daemon::CONFIG;
use crate::support::notified::Notified;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, raw_sql};
use tempfile::TempDir;

/// A daemon, and where it listens.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    /// Starts the daemon as systemd does, with a watchdog of `watchdog_ms` milliseconds.
    fn start(folder: &Path, socket: &Notified, watchdog_ms: u64) -> Service {
        fs::write(folder.join("apportion.toml"), CONFIG).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let child = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(["serve", "--listen", &address])
            .current_dir(folder)
            .env("CONFIGURATION_DIRECTORY", folder)
            .env("NOTIFY_SOCKET", socket.path())
            .env("WATCHDOG_USEC", (watchdog_ms * 1000).to_string())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Service { child, url: format!("http://{address}") }
    }

    /// Reports a node, which is news and thus causes a cycle.
    async fn report_a_node(&self) -> reqwest::Client {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let beat = serde_json::json!({ "node": "n1", "memory_mb": 1024 });
        let heartbeats = format!("{}/v1/heartbeats", self.url);
        let answer = client.post(heartbeats).json(&beat).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        client
    }

    fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn systemd_is_told_how_the_daemon_is() {
    let folder = TempDir::new().unwrap();
    let socket = Notified::listen(folder.path());
    let mut service = Service::start(folder.path(), &socket, 3_000);
    let started = socket.until("READY=1");
    assert!(started.contains("STATUS=no cycle yet"), "{started}");
    socket.until("WATCHDOG=1");
    service.report_a_node().await;
    socket.until("STATUS=cycle 0 took");
    service.signal("-HUP");
    let reloading = socket.until("RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "in one message: {reloading}");
    socket.until("READY=1");
    service.signal("-TERM");
    socket.until("STOPPING=1");
    assert!(service.child.wait().unwrap().success());
}

/// The keep-alive comes only from the thread that plans and stores: while that thread stands still
/// there is none, though HTTP answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_stands_still_feeds_no_watchdog() {
    let folder = TempDir::new().unwrap();
    let socket = Notified::listen(folder.path());
    let service = Service::start(folder.path(), &socket, 300);
    socket.until("READY=1");
    assert!(3 < socket.count("WATCHDOG=1", Duration::from_secs(2)));
    // A holder of the store's lock keeps the scheduler from its commit, for some seconds.
    let record = SqliteConnectOptions::new().filename(folder.path().join("apportion.db"));
    let mut record = record.connect().await.unwrap();
    raw_sql("begin immediate").execute(&mut record).await.unwrap();
    let client = service.report_a_node().await;
    // The keep-alives go on until the cycle begins.
    while 0 < socket.count("WATCHDOG=1", Duration::from_millis(500)) {}
    assert_eq!(socket.count("WATCHDOG=1", Duration::from_millis(1500)), 0);
    let answer = client.get(format!("{}/livez", service.url)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    raw_sql("rollback").execute(&mut record).await.unwrap();
    socket.until("WATCHDOG=1");
}

/// Settles how exposed systemd thinks a unit is: 0 is not at all, 10 is completely.
#[test]
fn the_units_may_do_next_to_nothing() {
    // The agent that becomes other users needs root: 3.2.
    for (unit, threshold) in
        [("apportion", 15), ("apportion-agent", 15), ("apportion-agent-run", 32)]
    {
        let file = format!("{}/packaging/{unit}.service", env!("CARGO_MANIFEST_DIR"));
        let threshold = format!("--threshold={threshold}");
        let said = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", &threshold, &file])
            .output();
        let Ok(said) = said else {
            println!("NOT CHECKED: there is no systemd-analyze (Debian package `systemd`)");
            return;
        };
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success(), "{unit} is exposed by more than {threshold}:\n{text}");
        assert!(text.contains("Overall exposure level"), "{text}");
    }
}
