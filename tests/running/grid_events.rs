//! Events of nodes and clusters, and the notify hook, at a real daemon with an orchestrator.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::daemon::{CONFIG, Daemon, apportion};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A daemon with an orchestrator, whose notify hook is the file `hook` in `folder`.
fn daemon(folder: &Path) -> Daemon {
    let (state, hook) = (folder.join("orchestrator.db"), folder.join("hook"));
    let (state, hook) = (state.display(), hook.display());
    let section = format!("[orchestrator]\nenabled = true\nstate = '{state}'\nnotify = '{hook}'\n");
    Daemon::start(folder, &format!("{CONFIG}\n{section}"))
}

fn write_hook(folder: &Path, text: &str) {
    let path = folder.join("new-hook");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(path, folder.join("hook")).unwrap();
}

async fn submit(daemon: &Daemon) -> u64 {
    let body = json!({ "user": "ann", "command": ["true"], "class": "normal" });
    let answer = daemon.send(Method::POST, "/v1/campaigns", &body).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    answer.json::<Value>().await.unwrap()["id"].as_u64().unwrap()
}

async fn cancel(daemon: &Daemon, id: u64) {
    let path = format!("/v1/campaigns/{id}/state");
    let answer = daemon.send(Method::PUT, &path, &json!({ "state": "cancelled" })).await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
}

/// The events that the hook wrote, once there are `count`.
async fn told(folder: &Path, count: usize) -> Vec<Value> {
    let since = Instant::now();
    loop {
        let text = fs::read_to_string(folder.join("told")).unwrap_or_default();
        let events: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if count <= events.len() {
            return events;
        }
        assert!(since.elapsed() < Duration::from_mins(1), "{count} of {events:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_notify_hook_gets_each_event_once_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_hook(path, &format!("cat >> {0}/told; echo >> {0}/told", path.display()));
    let first = daemon(path);
    let id = submit(&first).await;
    cancel(&first, id).await;
    told(path, 3).await;
    // What was told is on record before the next event is.
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(first);
    let second = daemon(path);
    let later = submit(&second).await;
    let events = told(path, 4).await;
    let seen: Vec<(u64, &str)> = events
        .iter()
        .map(|event| (event["campaign"].as_u64().unwrap(), event["code"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(id, "submitted"), (id, "ending"), (id, "ended"), (later, "submitted")]);
    assert!(events.iter().all(|event| event["class"] == "campaign" && event["user"] == "ann"));
    assert!(events[2]["text"].as_str().unwrap().contains(": cancelled: 0 done"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_fails_is_told_of_and_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_hook(path, "exit 3");
    let daemon = daemon(path);
    let id = submit(&daemon).await;
    let note = |shown: &Value| {
        let notes = shown["notes"].as_array().unwrap().clone();
        notes.into_iter().find(|note| note["code"] == "notify-failed")
    };
    let campaign = format!("/v1/campaigns/{id}");
    let began = Instant::now();
    for _ in 0..20 {
        submit(&daemon).await;
    }
    assert!(began.elapsed() < Duration::from_secs(30), "submissions wait for the hook");
    let shown = daemon.get_until(&campaign, |shown| note(shown).is_some()).await;
    let text = note(&shown).unwrap()["text"].as_str().unwrap().to_owned();
    assert!(
        text.contains("failed: exit status: 3; events are passed over until it works"),
        "{text}"
    );
    write_hook(path, &format!("cat >> {0}/told; echo >> {0}/told", path.display()));
    let last = submit(&daemon).await;
    let since = Instant::now();
    while told(path, 1).await.last().is_none_or(|event| event["campaign"] != last) {
        assert!(since.elapsed() < Duration::from_mins(1), "it is not told again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_files_and_closes_an_event_of_a_node() {
    let folder = tempfile::tempdir().unwrap();
    write_hook(folder.path(), "true");
    let daemon = daemon(folder.path());
    let run = |words: &[&str]| {
        let words: Vec<&str> =
            words.iter().copied().chain(["--orchestrator", &daemon.url]).collect();
        let output = apportion(&words);
        let (told, error) = (output.stdout, output.stderr);
        (
            output.status.success(),
            String::from_utf8(told).unwrap() + &String::from_utf8(error).unwrap(),
        )
    };
    let (_, filed) = run(&["fault", "file", "--node", "n1", "its disk is full"]);
    assert_eq!(filed.trim(), "event 1 is open");
    let (_, again) = run(&["fault", "file", "--node", "n1", "another word"]);
    assert_eq!(again.trim(), "event 1 is open", "one event of a node is open at a time");
    let (_, caused) = run(&["fault", "file", "--cluster", "lyon", "--parent", "1", "no disk"]);
    assert_eq!(caused.trim(), "event 2 is open");
    let (is_done, refused) = run(&["fault", "file", "--log", "--parent", "7", "a remark"]);
    assert!(!is_done && refused.contains("no event 7 is open"), "{refused}");
    let (_, listed) = run(&["fault", "list"]);
    assert!(listed.contains("node n1") && listed.contains("its disk is full"), "{listed}");
    assert!(listed.contains("cluster lyon"), "{listed}");
    // The resource manager excepts the node.
    let id = submit(&daemon).await;
    daemon.nodes("n1=4").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let schedule = daemon.schedule().await;
    assert_eq!(crate::support::daemon::shares(&schedule, id, "added"), [0; 0], "{schedule}");
    let (_, closed) = run(&["fault", "close", "1"]);
    assert_eq!(closed.trim(), "event 1 is closed");
    let (is_done, refused) = run(&["fault", "close", "2"]);
    assert!(
        !is_done && refused.contains("no event 2 is open"),
        "it closed with event 1: {refused}"
    );
    let list = daemon.get("/v1/grid/events").await;
    let events = list["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["closed_ms"].is_u64()), "{list}");
    for _ in 0..100 {
        daemon.nodes("n1=4").await;
        let schedule = daemon.schedule().await;
        if schedule.to_string().contains("n1") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the node is not used again");
}
