//! Hours of classes over real HTTP: closed, opened and closed by reloads, over a kill, on record.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::process::Command;

use crate::support::daemon::{CONFIG, Daemon, job, shares};
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const ZONE: &str = "Europe/Vienna";
const DAY: u64 = 24 * 3_600_000;

/// Weekday in so many days from now, as the configuration names it.
fn day(ahead: i64) -> &'static str {
    let today = Timestamp::now().to_zoned(TimeZone::get(ZONE).unwrap());
    match today.checked_add(ahead.days()).unwrap().weekday() {
        Weekday::Monday => "mon",
        Weekday::Tuesday => "tue",
        Weekday::Wednesday => "wed",
        Weekday::Thursday => "thu",
        Weekday::Friday => "fri",
        Weekday::Saturday => "sat",
        Weekday::Sunday => "sun",
    }
}

/// Open for some days around today, also if midnight passes meanwhile.
fn open() -> String {
    format!("{}-{}", day(-1), day(2))
}

/// Opens in two days, at noon.
fn closed() -> String {
    format!("{} 12:00-18:00", day(2))
}

fn config(active: &str) -> String {
    let scheduler = format!("[scheduler]\ntimezone = \"{ZONE}\"\nnotice = \"1s\"\n");
    let daemon = "[daemon]\nheartbeat_interval = \"100ms\"\n";
    let config = CONFIG.replace("[scheduler]\n", &scheduler).replace("[daemon]\n", daemon);
    let rare = "prediction = false\nnode_stability = 1000\n";
    let config = config.replace("prediction = false\n", rare);
    let night = "[[class]]\nname = \"night\"\npolicy = \"fair-share\"\nnodepool = \"main\"\n";
    format!("{config}\n{night}active = [\"{active}\"]\n")
}

/// Two nodes, and a job of ann's in the class with hours.
async fn waiting(folder: &TempDir, active: &str) -> Daemon {
    let daemon = Daemon::start(folder.path(), &config(active));
    daemon.nodes("n1=4 n2=4").await;
    daemon.publish(1, &[nightly(&[])]).await;
    daemon.schedule().await;
    daemon
}

fn nightly(processes: &[(u64, &str)]) -> Value {
    let mut nightly = job(1, "ann", processes);
    nightly["class"] = json!("night");
    nightly
}

async fn apply(daemon: &Daemon, active: &str) -> Value {
    let body = json!({ "name": "new.toml", "text": config(active), "reason": "a test" });
    let (status, plan) =
        daemon.try_ask(Method::POST, "/v1/config/apply", Some(&body)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{plan}");
    plan
}

async fn night(daemon: &Daemon) -> Value {
    let classes = daemon.get("/v1/classes").await;
    let mut classes = classes["classes"].as_array().unwrap().iter();
    classes.find(|class| class["name"] == "night").unwrap().clone()
}

fn now_ms() -> u64 {
    Timestamp::now().as_millisecond().try_into().unwrap()
}

fn replays(folder: &TempDir) {
    let state = folder.path().join("state.db");
    let mut replay = Command::new(env!("CARGO_BIN_EXE_apportion"));
    // The record names moments: a machine without time zone data replays it.
    replay.arg("replay").arg(&state).env("TZDIR", folder.path()).env("TZ", "");
    let replayed = replay.output().unwrap();
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success(), "{said}{}", String::from_utf8_lossy(&replayed.stderr));
    assert!(said.contains("are what they were"), "{said}");
}

#[tokio::test]
async fn a_closed_class_waits_and_says_until_when() {
    let folder = TempDir::new().unwrap();
    let daemon = waiting(&folder, &closed()).await;
    let class = night(&daemon).await;
    assert_eq!(class["active"], json!(format!("{} ({ZONE})", closed())));
    assert_eq!(class["is_open"], json!(false));
    let opens = class["next_change_ms"].as_u64().unwrap();
    assert!((now_ms() + DAY..now_ms() + 3 * DAY).contains(&opens), "{opens}");
    let normal = &daemon.get("/v1/classes").await["classes"][0];
    assert_eq!((&normal["active"], &normal["is_open"]), (&Value::Null, &json!(true)));

    let why =
        daemon.get_until("/v1/jobs/1/why", |why| why["reason"]["code"] == "class_closed").await;
    let sentence = why["reason"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("class closed: opens in "), "{sentence}");
    let clock = Timestamp::from_millisecond(opens.try_into().unwrap()).unwrap();
    let clock = clock.to_zoned(TimeZone::get(ZONE).unwrap()).strftime("%Y-%m-%d 12:00 CE");
    assert!(sentence.contains(&format!("({clock}")), "{sentence}");
    assert!(why["sentence"].as_str().unwrap().contains(sentence), "{why}");
    assert!(shares(&daemon.schedule().await, 1, "shares").is_empty());
    let page = daemon.ask("/classes").await.text().await.unwrap();
    assert!(page.contains("closed, opens in 1d") || page.contains("closed, opens in 2d"), "{page}");
}

#[tokio::test]
async fn reloads_open_and_close_a_class() {
    let folder = TempDir::new().unwrap();
    let daemon = waiting(&folder, &closed()).await;
    let body = json!({ "name": "new.toml", "text": config(&open()), "reason": "a test" });
    let (_, plan) = daemon.try_ask(Method::POST, "/v1/config/plan", Some(&body)).await.unwrap();
    assert!(plan["notes"].to_string().contains("the hours of classes change"), "{plan}");
    assert_eq!(plan["changes"][0]["setting"], "class.night.active", "{plan}");

    apply(&daemon, &open()).await;
    let told = daemon.schedule_when(|told| shares(told, 1, "added").len() == 8).await;
    let class = night(&daemon).await;
    assert_eq!(
        (&class["is_open"], &class["active"]),
        (&json!(true), &json!(format!("{} ({ZONE})", open())))
    );
    assert!(now_ms() < class["next_change_ms"].as_u64().unwrap());

    let added = shares(&told, 1, "added");
    let jobs = told["jobs"].as_array().unwrap();
    let placed = jobs.iter().find(|job| job["id"] == 1).unwrap()["shares"].as_array().unwrap();
    let processes: Vec<(u64, &str)> = placed
        .iter()
        .map(|share| (share["share"].as_u64().unwrap(), share["node"].as_str().unwrap()))
        .collect();
    daemon.publish(2, &[nightly(&processes)]).await;
    apply(&daemon, &closed()).await;
    let told = daemon.schedule_when(|told| shares(told, 1, "removed").len() == 8).await;
    assert_eq!(shares(&told, 1, "removed"), added);
    let removed = &told["jobs"].as_array().unwrap().iter().find(|job| job["id"] == 1).unwrap();
    for share in removed["removed"].as_array().unwrap() {
        assert_eq!(share["reason"], "class_closed");
    }
    drop(daemon);
    replays(&folder);
}

#[tokio::test]
async fn hours_survive_a_kill_and_follow_the_file() {
    let folder = TempDir::new().unwrap();
    let first = waiting(&folder, &closed()).await;
    let before = night(&first).await;
    first.kill();
    drop(first);
    let second = Daemon::start(folder.path(), &config(&closed()));
    second.get_until("/v1/jobs/1", |_| true).await;
    assert_eq!(night(&second).await["next_change_ms"], before["next_change_ms"]);
    second.publish(2, &[nightly(&[])]).await;
    second.get_until("/v1/jobs/1/why", |why| why["reason"]["code"] == "class_closed").await;
    drop(second);
    let third = Daemon::start(folder.path(), &config(&open()));
    third.get_until("/v1/classes", |list| list["classes"][1]["is_open"] == true).await;
    third.publish(3, &[nightly(&[])]).await;
    third.schedule_when(|told| shares(told, 1, "shares").len() == 8).await;
    drop(third);
    replays(&folder);
}

/// A class that closes within a minute: time alone brings the close.
#[tokio::test]
async fn a_class_closes_by_itself() {
    let folder = TempDir::new().unwrap();
    let zone = TimeZone::get(ZONE).unwrap();
    // The close is at least 6 s ahead, and not at midnight.
    let now = Timestamp::now().checked_add(6.seconds()).unwrap().to_zoned(zone);
    let close = now.checked_add(1.minute()).unwrap().strftime("%H:%M").to_string();
    let today = day(0);
    let active = if close.as_str() < "00:10" {
        return;
    } else {
        format!("{today} 00:00-{close}")
    };
    let daemon = waiting(&folder, &active).await;
    daemon.schedule_when(|told| shares(told, 1, "shares").len() == 8).await;
    let closes = night(&daemon).await["next_change_ms"].as_u64().unwrap();
    assert!(closes <= now_ms() + 66_000);
    let wait = closes.saturating_sub(now_ms() + 2_000);
    tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    assert!(shares(&daemon.schedule().await, 1, "removed").is_empty(), "not before the notice");
    daemon.schedule_when(|told| shares(told, 1, "removed").len() == 8).await;
    assert!(closes <= now_ms() + 1_000, "not before the notice");
    daemon.get_until("/v1/classes", |list| list["classes"][1]["is_open"] == false).await;
    drop(daemon);
    replays(&folder);
}
