//! The orchestrator of `examples/` beside a real daemon: its commands run, and one that is stopped runs again.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "what was not checked is said")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::daemon::{CONFIG, Daemon};

/// The example with `commands`, or `None` without python.
fn orchestrator(daemon: &Daemon, commands: &[String]) -> Option<Child> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/orchestrator.py");
    let child = Command::new("python3")
        .arg(example)
        .args(commands)
        .envs([("APPORTION_URL", daemon.url.as_str()), ("MEMORY_MB", "1000"), ("USER", "ann")])
        .stdin(Stdio::null())
        .spawn();
    if child.is_err() {
        println!("LEFT OUT: the example of an orchestrator: there is no python3");
    }
    child.ok()
}

/// The class of jobs that name none is `normal`.
fn start(folder: &Path) -> Daemon {
    Daemon::start(folder, &format!("{CONFIG}default = true\n"))
}

fn ends_well(mut child: Child) {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        if began.elapsed() > Duration::from_mins(2) {
            child.kill().unwrap();
            panic!("the example does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_runs_its_commands_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    daemon.nodes("n1=2 n2=2").await;
    let file = folder.path().join("said");
    let commands: Vec<String> =
        (1..=5).map(|number| format!("echo {number} >> {}", file.display())).collect();
    let Some(child) = orchestrator(&daemon, &commands) else { return };
    ends_well(child);
    let mut said = lines(&file);
    said.sort_unstable();
    assert_eq!(said, ["1", "2", "3", "4", "5"]);
    let none = |jobs: &Value| jobs["jobs"].as_array().unwrap().is_empty();
    daemon.get_until("/v1/jobs", none).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_starts_again_what_it_was_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    daemon.nodes("n1=1").await;
    let file = folder.path().join("said");
    let command = format!("echo begun >> {0}; sleep 4; echo done >> {0}", file.display());
    let Some(child) = orchestrator(&daemon, &[command]) else { return };
    daemon.schedule_when(|schedule| schedule["jobs"][0]["shares"][0]["node"] == "n1").await;
    let began = Instant::now();
    while lines(&file).is_empty() {
        assert!(began.elapsed() < Duration::from_mins(1), "nothing begins");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    daemon.nodes("n1=1 n2=1").await;
    daemon.get_until("/v1/nodes/n2", |_| true).await;
    daemon.vary_off("n1").await;
    ends_well(child);
    assert_eq!(lines(&file), ["begun", "begun", "done"]);
}
