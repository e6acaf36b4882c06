//! Output that documents show beside a command is what the command prints.
//!
//! Commands of the README run against an `apportion up`, all other ones against a daemon with the
//! nodes of the demo and jobs that are the same every time. `INSTA_UPDATE=always` writes the output
//! of the latter into the documents.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::documents::{documents, words};
use crate::support::daemon::Daemon;
use crate::support::up::Up;

/// Commands whose output is not compared, each with the reason.
const NOT_COMPARED: &[(&str, &str)] =
    &[("apportion up", "memory, port and way of limits are those of the machine, and it runs on")];

/// Beginnings of lines whose rest is not compared, each with the reason.
const REST_VARIES: &[(&str, &str)] =
    &[("asked for 256 MB a slot; used", "a short task is measured or not, as it happens")];

/// The demo's nodes, with classes of two policies; jobs grow at once, so that few cycles lead to
/// the state that is shown. Nothing but a request causes a cycle.
const CONFIG: &str = r#"
[daemon]
cycle_period = "10ms"
heartbeat_interval = "1h"

[scheduler]
quantum = "15GB"
initialization_cap = 0
expand_by_doubling = false
prediction = false

[[nodepool]]
name = "main"

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"
default = true

[[class]]
name = "fixed"
policy = "fixed-share"
nodepool = "main"
default = true
"#;

/// A command with its output, as a document shows them.
struct Shown {
    /// Line of the command.
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The commands of ours with output in a document.
fn shown(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let (mut is_console, mut is_ours) = (false, false);
    for (line, content) in (1..).zip(text.lines()) {
        if content.starts_with("```") {
            (is_console, is_ours) = (content == "```console", false);
        } else if let Some(command) = content.strip_prefix("$ ").filter(|_| is_console) {
            is_ours = command.starts_with("apportion ") && !command.ends_with('\\');
            if is_ours {
                let (command, output) = (command.to_owned(), Vec::new());
                found.push(Shown { line, command, output });
            }
        } else if is_ours {
            let last = found.last_mut().unwrap();
            last.output.push(content.to_owned());
        }
    }
    for one in &mut found {
        while one.output.last().is_some_and(String::is_empty) {
            one.output.pop();
        }
    }
    found.retain(|one| !one.output.is_empty());
    found
}

/// A line without what differs from run to run: times, secrets, the user, the width of columns.
fn masked(line: &str) -> String {
    if let Some((start, _)) = REST_VARIES.iter().find(|(start, _)| line.starts_with(start)) {
        return (*start).to_owned();
    }
    let mut masked: Vec<String> = Vec::new();
    let is_event = line.len() > 9 && line.as_bytes()[2] == b':' && line.as_bytes()[8] == b'Z';
    let mut before = "";
    for (place, word) in line.split_whitespace().enumerate() {
        let bare = word.trim_matches([',', ';', '(', ')', '.']);
        let digits = bare.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let unit = &bare[digits.len()..];
        let is_time = is_number && ["ms", "s", "m", "h", "d"].contains(&unit);
        let secret =
            ["apn_", "sha256:", "until="].into_iter().find(|start| word.starts_with(start));
        let kept = match secret {
            Some(start) => format!("{start}…"),
            None if is_time || (is_event && place < 2) => word.replace(bare, "TIME"),
            None if word == "ms" && masked.last().is_some() => {
                masked.pop();
                "TIME".to_owned()
            }
            None if before == "of" && line.starts_with("campaign ") => "USER".to_owned(),
            None => word.to_owned(),
        };
        before = word;
        // A duration may have two parts: `4m 31s`.
        let is_second_part =
            kept.starts_with("TIME") && masked.last().is_some_and(|it| it == "TIME");
        if is_second_part && !is_event {
            masked.pop();
        }
        masked.push(kept);
    }
    masked.join(" ")
}

fn lines_masked(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| masked(line)).collect()
}

/// A process of 28 GB for each share that the schedule gives to job `id`.
fn processes(schedule: &Value, id: u64) -> Vec<Value> {
    let jobs = schedule["jobs"].as_array().into_iter().flatten();
    let shares =
        jobs.filter(|job| job["id"] == id).flat_map(|job| job["shares"].as_array().unwrap());
    let process = |share: &Value| {
        json!({
            "share": share["share"], "node": share["node"], "state": "running",
            "initialization_ms": 5_000, "investment_ms": 30_000 + 1_000 * share["share"].as_u64().unwrap(),
        })
    };
    shares.map(process).collect()
}

/// A job that was submitted at `submitted`, in milliseconds since the epoch.
fn work(id: u64, user: &str, remaining: u64, submitted: u64, schedule: &Value) -> Value {
    let processes = processes(schedule, id);
    json!({
        "id": id, "kind": "job", "user": user, "class": "normal", "memory_mb": 28 * 1024,
        "state": if processes.is_empty() { "schedulable" } else { "running" },
        "running": !processes.is_empty(), "remaining": remaining, "time_per_item_ms": 60_000,
        "submitted_ms": submitted, "processes": processes,
    })
}

/// Publishes all work, waits until it is on disk, and returns the schedule.
async fn publish(daemon: &Daemon, sequence: u64, work: &[Value]) -> Value {
    let body = json!({ "sequence": sequence, "full": true, "work": work });
    let answer = daemon.send(Method::PUT, "/v1/publication?wait=commit", &body).await;
    let (status, answer) = (answer.status(), answer.json::<Value>().await.unwrap());
    assert_eq!((status, &answer["refused"]), (StatusCode::ACCEPTED, &json!([])), "{answer}");
    daemon.get("/v1/schedule").await
}

/// The cluster of the documents: ann has the nodes for herself, then kim and eve come, and a node
/// is taken out.
async fn cluster(folder: &Path) -> Daemon {
    let daemon = Daemon::start(folder, CONFIG);
    let named = |name: &str, count: u64, gib: u64| {
        (1..=count).map(move |number| format!("{name}{number:02}={gib}")).collect::<Vec<_>>()
    };
    let nodes = [named("small", 29, 31), named("mid", 20, 47), named("big", 4, 79)].concat();
    daemon.nodes(&nodes.join(" ")).await;
    daemon.get_until("/v1/status", |status| status["nodes"]["up"] == 53).await;
    let none = json!({});
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let minute_ago = u64::try_from(now).unwrap() - 60_000;
    let anns = |schedule: &Value| {
        [(1, 132), (2, 132), (3, 90)]
            .map(|(id, left)| work(id, "ann", left, minute_ago, schedule))
            .to_vec()
    };
    let schedule = publish(&daemon, 1, &anns(&none)).await;
    let schedule = publish(&daemon, 2, &anns(&schedule)).await;
    daemon.vary_off("big01").await;
    let mut impossible = work(7, "eve", 1, minute_ago, &none);
    impossible["class"] = "fixed".into();
    impossible["kind"] = "service".into();
    impossible["memory_mb"] = (96 * 1024).into();
    let others = [work(4, "kim", 132, minute_ago, &none), impossible];
    let all = [anns(&schedule), others.to_vec()].concat();
    // The cycle after the preemptions: processes are on their way out.
    publish(&daemon, 3, &all).await;
    publish(&daemon, 4, &all).await;
    daemon
}

/// Runs a command of a document; returns what it prints to standard output.
fn told(folder: &Path, url: &str, command: &str) -> Vec<String> {
    let args = words(command);
    let output = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(&args[1..])
        .current_dir(folder)
        .env("HOME", folder)
        .env("APPORTION_URL", url)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{command}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Writes the output of commands into a document in place of what is there.
fn update(document: &Path, outputs: &[(Shown, Vec<String>)]) {
    let text = fs::read_to_string(document).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (shown, told) in outputs.iter().rev() {
        lines.splice(shown.line..shown.line + shown.output.len(), told.iter().cloned());
    }
    fs::write(document, lines.join("\n") + "\n").unwrap();
}

#[tokio::test]
async fn documents_show_what_commands_print() {
    let folder = TempDir::new().unwrap();
    // Commands run beside the examples of the repository, as in a checkout.
    let examples = folder.path().join("examples");
    fs::create_dir(&examples).unwrap();
    fs::copy("examples/small.swf", examples.join("small.swf")).unwrap();
    let daemon = cluster(folder.path()).await;
    let is_update = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let shown: Vec<Shown> = shown(&text)
            .into_iter()
            .filter(|one| !NOT_COMPARED.iter().any(|(command, _)| is_same(&one.command, command)))
            .collect();
        if shown.is_empty() {
            continue;
        }
        count += shown.len();
        let up = document.ends_with("README.md").then(Up::start);
        let run = |one: &Shown| match &up {
            Some(up) => {
                let args = words(&one.command);
                let args: Vec<&str> = args[1..].iter().map(String::as_str).collect();
                up.ask(&args).lines().map(|line| line.trim_end().to_owned()).collect()
            }
            None => told(folder.path(), &daemon.url, &one.command),
        };
        let outputs: Vec<(Shown, Vec<String>)> = shown
            .into_iter()
            .map(|one| {
                let told = run(&one);
                (one, told)
            })
            .filter(|(one, told)| lines_masked(&one.output) != lines_masked(told))
            .collect();
        if is_update && up.is_none() {
            update(&document, &outputs);
            continue;
        }
        wrong.extend(outputs.iter().map(|(one, told)| {
            let place = format!("{}:{}: {}", document.display(), one.line, one.command);
            format!("{place}\n{}\n", lines_masked(told).join("\n"))
        }));
    }
    assert!(10 <= count, "{count} commands with output");
    assert!(wrong.is_empty(), "these commands print something else:\n{}", wrong.join("\n"));
}

/// True if a command line is `command`. A comment after it does not count.
fn is_same(line: &str, command: &str) -> bool {
    words(line) == words(command)
}

#[test]
fn masks_hide_times_and_nothing_else() {
    for (line, expected) in [
        ("when:    in about 4m 31s (job 3 is done)", "when: in about TIME (job 3 is done)"),
        ("17:10:31Z      97  removed   job 4: -2 on big01", "TIME TIME removed job 4: -2 on big01"),
        ("a task takes 5 ms on average", "a task takes TIME on average"),
        ("4 shares evicted (2, 4); 9m of work lost", "4 shares evicted (2, 4); TIME of work lost"),
        ("campaign 2 of ann: done", "campaign 2 of USER done"),
        ("main  up  31 GB  29", "main up 31 GB 29"),
    ] {
        assert_eq!(masked(line), expected);
    }
}
