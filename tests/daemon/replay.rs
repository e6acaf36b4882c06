//! `apportion replay` on the record of the real daemon: every cycle is what it was, a changed byte is
//! found and named, and a past cycle is explained and played elsewhere.
//!
//! `FAULTS=all` has it live for 1,000 cycles and four lives.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;
use std::process::Output;

use crate::support::daemon::{CONFIG, Daemon, apportion, job, shares};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, raw_sql};

/// A checkpoint every seventh cycle, so that replays begin with a checkpoint.
fn config() -> String {
    format!("{CONFIG}\n[daemon.journal]\nbooks_every = 7\n")
}

/// A daemon that lived for some cycles `lives` times, in which work came, moved and went; and was
/// killed after each. Returns the number of the last cycle.
async fn lived(folder: &Path, cycles: u64, lives: u64) -> u64 {
    let (mut last, mut sequence) = (0, 0);
    for life in 1..=lives {
        let daemon = Daemon::start(folder, &config());
        daemon.nodes("n1=4 n2=4 n3=2").await;
        while last < cycles * life {
            sequence += 1;
            let told = if sequence == 1 { Value::Null } else { daemon.schedule().await };
            let users = (1..).zip(["ann", "bob", "cid"]);
            let is_there = |(id, _): &(u64, _)| sequence % 20 < 5 * id;
            let work = users.filter(is_there).map(|(id, user)| {
                let held = held(&told, id);
                let held: Vec<_> =
                    held.iter().map(|(share, node)| (*share, node.as_str())).collect();
                job(id, user, &held)
            });
            daemon.publish(sequence, &work.collect::<Vec<_>>()).await;
            daemon.cycle(last + 1).await;
            last = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
        }
    }
    last
}

/// The shares of a job that are not terminating, each with its node.
fn held(schedule: &Value, id: u64) -> Vec<(u64, String)> {
    let gone = shares(schedule, id, "removed");
    let jobs = schedule["jobs"].as_array().into_iter().flatten();
    let all = jobs.filter(|job| job["id"] == id).flat_map(|job| job["shares"].as_array().unwrap());
    let all = all.map(|share| {
        (share["share"].as_u64().unwrap(), share["node"].as_str().unwrap().to_owned())
    });
    all.filter(|(share, _)| !gone.contains(share)).collect()
}

fn replay(folder: &Path, args: &[&str]) -> Output {
    let store = folder.join("state.db");
    apportion(&[&["replay", store.to_str().unwrap()], args].concat())
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn fails(output: &Output, status: i32, with: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(with), "{with}: {said}");
}

async fn execute(folder: &Path, sql: String) {
    let options = SqliteConnectOptions::new().filename(folder.join("state.db"));
    let mut client = options.connect().await.unwrap();
    raw_sql(AssertSqlSafe(sql)).execute(&mut client).await.unwrap();
    client.close().await.unwrap();
}

/// Cycles in each of the four lives.
fn cycles() -> u64 {
    if std::env::var("FAULTS").is_ok_and(|faults| faults == "all") { 250 } else { 15 }
}

#[tokio::test]
async fn every_cycle_is_what_it_was_restarts_included() {
    let folder = tempfile::tempdir().unwrap();
    let last = lived(folder.path(), cycles(), 4).await;
    let said = succeeds(&replay(folder.path(), &[]));
    assert!(said.contains(&format!("cycles 1 to {last}")), "{said}");
    assert!(said.contains(&format!("all {last} are what they were")), "{said}");
    let said = succeeds(&replay(folder.path(), &["--from", "20", "--to", "29", "--json"]));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["from"], &said["cycles"]), (&20.into(), &10.into()));
    fails(&replay(folder.path(), &["--cycle", "9999"]), 5, &format!("which has 1 to {last}"));
}

/// The record is read beside a running daemon, and what is told of a past cycle is what was told
/// then.
#[tokio::test]
async fn a_past_cycle_is_explained_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &config());
    daemon.nodes("n1=4").await;
    daemon.publish(1, &[job(1, "ann", &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 1, "added").len() == 4).await;
    daemon.publish(2, &[job(1, "ann", &[]), job(2, "bob", &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 1, "removed").len() == 2).await;
    let told = daemon.get("/v1/jobs/2/why").await;
    let cycle = told["cycle"].to_string();
    daemon.publish(3, &[job(2, "bob", &[])]).await;
    daemon.schedule_when(|schedule| shares(schedule, 2, "added").len() == 4).await;
    let said = succeeds(&replay(folder.path(), &["--cycle", &cycle, "--explain", "2", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["why"], told);
    let said = succeeds(&replay(folder.path(), &["--cycle", &cycle, "--explain", "2"]));
    assert!(said.contains(told["sentence"].as_str().unwrap()), "{said}");
    assert!(said.contains("taken for it in the last cycle"), "{said}");
    fails(&replay(folder.path(), &["--cycle", &cycle, "--explain", "9"]), 5, "no job 9");
}

#[tokio::test]
async fn what_was_changed_on_record_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let last = lived(folder.path(), cycles(), 4).await;
    let before = last.div_euclid(2);
    let flip = |column: &str, at: &str| {
        format!(
            "update batches set {column} = cast(replace(cast({column} as text), '{at}', '{at}1') as blob)
             where id = (select id from batches where cycle >= {before} and instr(cast({column} as text), '{at}') limit 1)"
        )
    };
    execute(folder.path(), flip("body", "\"job\":")).await;
    let output = replay(folder.path(), &[]);
    fails(&output, 1, "the inputs before cycle");
    fails(&output, 1, "was changed after it was written");
    let said = String::from_utf8_lossy(&output.stderr);
    let cycle: u64 =
        said.split("before cycle ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(before <= cycle, "{said}");
    succeeds(&replay(folder.path(), &["--to", &(cycle - 1).to_string()]));

    let digest = format!("update cycles set digest = zeroblob(32) where cycle = {}", cycle - 1);
    execute(folder.path(), digest).await;
    fails(&replay(folder.path(), &[]), 1, &format!("the decision of cycle {} differs", cycle - 1));
}

/// An incident becomes a test: the excerpt, played by the simulator, decides as the daemon did.
#[tokio::test]
async fn an_excerpt_is_played_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let last = lived(folder.path(), 15, 2).await;
    let file = folder.path().join("incident.json");
    let file = file.to_str().unwrap();
    let from = (last - 9).to_string();
    let said = succeeds(&replay(folder.path(), &["--from", &from, "--export", file]));
    assert!(said.contains("simulate --recorded"), "{said}");
    let played = apportion(&["simulate", "--recorded", file, "--json"]);
    let played: Value = serde_json::from_str(&succeeds(&played)).unwrap();
    let cycles = played["cycles"].as_array().unwrap();
    assert_eq!(cycles.len(), 10);
    for cycle in cycles {
        assert_eq!(cycle["audit"].as_array().unwrap().len(), 0);
        let number = cycle["cycle"].to_string();
        for line in cycle["jobs"].as_array().unwrap() {
            let id = line["id"].to_string();
            let told = replay(folder.path(), &["--cycle", &number, "--explain", &id, "--json"]);
            let told: Value = serde_json::from_str(&succeeds(&told)).unwrap();
            assert_eq!(
                told["why"]["sums"]["job"]["held"], line["held"],
                "job {id} in cycle {number}"
            );
            assert_eq!(
                told["why"]["sums"]["job"]["given"], line["given"],
                "job {id} in cycle {number}"
            );
        }
    }
}

#[test]
fn what_is_no_record_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    fails(&replay(folder.path(), &[]), 1, "there is no file");
    std::fs::write(folder.path().join("state.db"), "not a database, but long enough to be one")
        .unwrap();
    fails(&replay(folder.path(), &[]), 1, "not a database");
}
