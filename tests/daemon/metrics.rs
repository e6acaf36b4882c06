//! Metrics as a Prometheus gets them: well-formed, true, and complete for alerts and dashboard.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "what was not checked is said")]

use crate::support::http;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::http::{Daemon, job, running, with};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;

const OPEN: &str = "application/openmetrics-text; version=1.0.0";

/// Samples by name and labels, as they are written.
type Samples = BTreeMap<String, f64>;

async fn scrape(daemon: &Daemon, accept: &str) -> (String, String) {
    let request = daemon.client.get(format!("{}/metrics", daemon.url)).header("accept", accept);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (kind, answer.text().await.unwrap())
}

/// Reads `OpenMetrics` as strictly as its specification is: every sample belongs to the family
/// declared right before it, no family and no sample comes twice, and the end is told.
fn parse(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").expect("the end is told");
    let (mut samples, mut families) = (Samples::new(), BTreeSet::new());
    let (mut family, mut kind, mut help) = ("", "", "");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').expect("a name and a text").0;
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').unwrap();
            assert_eq!(help, family, "help comes first");
            assert!(families.insert(family), "{family} comes twice");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name == family && family.ends_with(unit), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        check_labels(labels);
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} after {family}"));
        let expected: &[&str] = match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{other}"),
        };
        assert!(expected.contains(&suffix), "{line} in a {kind}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
    }
    samples
}

/// `a="b",c="d"}`: names of letters, and none twice.
fn check_labels(labels: &str) {
    let labels = labels.strip_suffix('}').expect("closed");
    let mut names = BTreeSet::new();
    for label in labels.split("\",").filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once("=\"").expect("a name and a value");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(!value.trim_end_matches('"').contains(['"', '\n']), "{value}");
        assert!(names.insert(name), "{name} comes twice");
    }
}

#[tokio::test]
async fn the_numbers_are_those_of_the_cluster() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    let unknown = with(job(3, "eve"), "class", json!("no such class"));
    let work = [running(job(1, "ann"), &schedule), running(job(2, "bob"), &schedule), unknown];
    daemon.publish(2, json!(work)).await;
    let body = json!({ "nodes": ["n1"], "reason": "a test" }).to_string();
    daemon.send(Method::POST, "/v1/nodes/vary-off", &body).await;
    let (kind, text) = scrape(&daemon, OPEN).await;
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let samples = parse(&text);
    for (series, value) in [
        ("apportion_build_info{version=\"0.1.0\"}", 1.0),
        ("apportion_ready", 1.0),
        ("apportion_nodes{pool=\"main\",state=\"up\"}", 2.0),
        ("apportion_nodes{pool=\"main\",state=\"varied_off\"}", 1.0),
        ("apportion_quanta{pool=\"main\",state=\"held\"}", 8.0),
        ("apportion_quanta{pool=\"main\",state=\"leaving\"}", 4.0),
        ("apportion_quanta{pool=\"main\",state=\"free\"}", 0.0),
        ("apportion_quantum_bytes{pool=\"main\"}", 1_073_741_824.0),
        ("apportion_jobs{class=\"normal\",state=\"partial\"}", 2.0),
        ("apportion_jobs{class=\"fixed\",state=\"waiting\"}", 0.0),
        ("apportion_jobs{class=\"unknown\",state=\"refused\"}", 0.0),
        ("apportion_pending_jobs{class=\"normal\",reason=\"fair_share_used\"}", 2.0),
        ("apportion_held_quanta{class=\"normal\"}", 8.0),
        ("apportion_evictions_total{reason=\"varied_off\"}", 4.0),
        ("apportion_preemptions_total{reason=\"fair_share\"}", 0.0),
        ("apportion_wait_seconds_count{class=\"normal\"}", 2.0),
        ("apportion_heartbeats_total{result=\"accepted\"}", 3.0),
        ("apportion_config_generation", 1.0),
        ("apportion_invariant_violations_total", 0.0),
        (
            "apportion_requests_total{route=\"/v1/nodes/vary-off\",method=\"POST\",status=\"200\"}",
            1.0,
        ),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series} in:\n{text}");
    }
    let cycles = daemon.get("/v1/status").await["cycle"].as_f64().unwrap();
    assert!(2.0 <= samples["apportion_snapshot_generation"]);
    assert!(samples["apportion_snapshot_generation"] <= cycles);
    for name in ["ann", "bob", "eve", "no such class", "n1"] {
        assert!(!text.contains(&format!("\"{name}\"")), "{name} is a label in:\n{text}");
    }
    daemon.stop().await;
}

/// A process preempted from ann for bob is counted with the work lost, and its exit once it is
/// confirmed.
#[tokio::test]
async fn what_is_taken_back_is_counted() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    daemon.report(&["n1"]).await;
    daemon.publish(1, json!([job(1, "ann")])).await;
    let schedule = daemon.get_until("/v1/schedule", |one| http::held(one, 1) == 4).await;
    let mut ann = running(job(1, "ann"), &schedule);
    for process in ann["processes"].as_array_mut().unwrap() {
        process["investment_ms"] = json!(60_000);
    }
    let answer = daemon.publish(2, json!([ann, job(2, "bob")])).await;
    assert_eq!(answer.accepted, 2, "{answer:?}");
    let schedule = daemon.get_until("/v1/schedule", |one| http::held(one, 1) == 2).await;
    let going = schedule["jobs"][0]["removed"].as_array().unwrap().clone();
    for process in ann["processes"].as_array_mut().unwrap() {
        if going.iter().any(|gone| gone["share"] == process["share"]) {
            process["state"] = json!("gone");
        }
    }
    daemon.publish(3, json!([ann, job(2, "bob")])).await;
    daemon.get_until("/v1/schedule", |one| http::held(one, 2) == 2).await;
    let samples = parse(&scrape(&daemon, OPEN).await.1);
    let sum = |name: &str| {
        let series = samples.iter().filter(|(series, _)| series.starts_with(name));
        series.map(|(_, value)| value).sum::<f64>().to_string()
    };
    assert_eq!(sum("apportion_preemptions_total"), "2");
    assert_eq!(sum("apportion_preempted_work_seconds_total"), "120");
    assert_eq!(sum("apportion_eviction_latency_seconds_count"), "2");
    assert_eq!(sum("apportion_evictions_total"), "0");
    daemon.stop().await;
}

/// Every name of ours in a file, without the suffixes that a query may need.
fn names_in(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_metric = |word: &&str| {
        // Not the name of a package, `apportion_0.1.0`.
        word.strip_prefix("apportion_").is_some_and(|rest| rest.starts_with(char::is_lowercase))
    };
    text.split(|c| !is_name(c)).filter(is_metric).map(str::to_owned).collect()
}

#[tokio::test]
async fn alerts_and_dashboard_ask_for_what_there_is() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    daemon.publish(2, json!([running(job(1, "ann"), &schedule)])).await;
    daemon.get_until("/v1/schedule", |one| http::held(one, 1) == 12).await;
    let text = scrape(&daemon, OPEN).await.1;
    let samples = parse(&text);
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let there: BTreeSet<&str> =
        samples.keys().filter_map(|series| series.split('{').next()).chain(families).collect();
    let mut seen = 0;
    for file in ["config/alerts.yml", "config/grafana-dashboard.json", "docs/operations.md"] {
        // The orchestrator's metrics are at another path: tests/running/cohost.rs.
        let of_daemon = |name: &String| !name.starts_with("apportion_orchestrator_");
        for name in names_in(file).into_iter().filter(of_daemon) {
            assert!(there.contains(name.as_str()), "{file} asks for {name}, which is not there");
            seen += 1;
        }
    }
    assert!(20 < seen, "{seen}");
    let dashboard = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/config/grafana-dashboard.json"
    ));
    serde_json::from_str::<serde_json::Value>(&dashboard.unwrap()).unwrap();
    daemon.stop().await;
}

/// Runs promtool with this on its standard input; `None` if there is none.
fn promtool(args: &[&str], input: &str) -> Option<(bool, String)> {
    let child = Command::new("promtool")
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("NOT CHECKED: there is no promtool (Debian package `prometheus`)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Only of classes that predict, and of work that runs.
#[tokio::test]
async fn what_says_nothing_of_its_pace_is_told_from_what_does() {
    let folder = TempDir::new().unwrap();
    let predicts = |config: &mut apportion::config::Config| {
        config.topology.classes[apportion::model::ClassIx(0)].cap_rules.prediction = true;
    };
    let daemon = Daemon::start_with(&folder, predicts).await;
    daemon.report(&["n1"]).await;
    let timed = |work| with(work, "time_per_item_ms", json!(60_000));
    let unpredicted = with(timed(job(4, "dan")), "class", json!("fixed"));
    let waiting = with(job(5, "eve"), "running", json!(false));
    let waiting = with(waiting, "state", json!("schedulable"));
    let work =
        json!([timed(job(1, "ann")), job(2, "bob"), timed(job(3, "cid")), unpredicted, waiting]);
    daemon.publish(1, work).await;
    daemon.get_until("/v1/status", |status| status["jobs"]["total"] == 5).await;
    let samples = parse(&scrape(&daemon, OPEN).await.1);
    let coverage = samples.iter().filter(|(series, _)| series.contains("prediction_coverage"));
    let coverage: Vec<(&str, f64)> =
        coverage.map(|(series, part)| (series.as_str(), *part)).collect();
    let expected = [("apportion_prediction_coverage_ratio{class=\"normal\"}", 2.0 / 3.0)];
    assert_eq!(coverage, expected);
    daemon.stop().await;
}

#[tokio::test]
async fn promtool_has_nothing_to_say_about_the_metrics() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let (kind, text) = scrape(&daemon, "*/*").await;
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    if let Some(said) = promtool(&["check", "metrics"], &text) {
        assert_eq!(said, (true, String::new()));
    }
    daemon.stop().await;
}

#[test]
fn every_alert_fires_in_a_test_and_is_in_the_guide() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/alerts/rules_test.yml");
    let tests = std::fs::read_to_string(file).unwrap();
    let rules =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/alerts.yml")).unwrap();
    let rules = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for alert in rules {
        let row = format!("\n| `{alert}` |");
        assert!(guide.contains(&row), "docs/operations.md does not say what to do for {alert}");
        let fires = format!("alertname: {alert}\n        exp_alerts:\n          - ");
        assert!(tests.contains(&fires), "no test makes {alert} fire");
    }
    if let Some((is_right, said)) = promtool(&["test", "rules", file], "") {
        assert!(is_right, "{said}");
    }
}

#[tokio::test]
async fn readiness_says_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(&folder).await;
    let ask = async |path: &str| {
        let answer = daemon.client.get(format!("{}{path}", daemon.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    daemon.report(&["n1"]).await;
    let (status, text) = ask("/readyz?verbose").await;
    assert_eq!(status, 503);
    assert!(text.contains("\n[-] schedule: waiting for the first publication"), "{text}");
    assert!(text.contains("[+] scheduler: last seen to live 0 s ago"), "{text}");
    assert_eq!(ask("/readyz").await.0, 503);
    assert_eq!(ask("/healthz").await.0, 503);
    assert_eq!(ask("/livez").await, (200, "ok".to_owned()));
    daemon.publish(1, json!([job(1, "ann")])).await;
    daemon.get_until("/v1/schedule", |one| http::held(one, 1) == 4).await;
    let (status, text) = ask("/healthz?verbose").await;
    assert_eq!((status, text.lines().last()), (200, Some("ready")), "{text}");
    assert_eq!(ask("/readyz").await, (200, "ok".to_owned()));
    daemon.stop().await;
}
