//! `apportion bench` as an operator runs it, on clusters small enough for a test. Its report is
//! complete and consistent; the times in it are not checked.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs the binary to its end: exit status, standard output, standard error.
#[track_caller]
fn run(args: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .arg("bench")
        .args(args.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The figures of a run that went well and had nothing to complain of.
#[track_caller]
fn figures(args: &str) -> Value {
    let (status, stdout, stderr) = run(&format!("{args} --json"));
    assert_eq!((status, stderr.as_str()), (0, ""), "{args}: {stdout}");
    serde_json::from_str(&stdout).unwrap()
}

#[track_caller]
fn number(figures: &Value, key: &str) -> u64 {
    figures[key].as_u64().unwrap_or_else(|| panic!("{key} in {figures}"))
}

/// Checks the part of a report that all timed cycles share.
#[track_caller]
fn check_measured(figures: &Value) {
    for key in ["median", "p99", "max"] {
        assert!(figures["cycle_ms"][key].is_number(), "cycle_ms.{key} in {figures}");
    }
    for key in ["record", "schedule", "plan", "view", "freeze_apply", "update"] {
        assert!(figures["parts_ms"][key].is_number(), "parts_ms.{key} in {figures}");
    }
    for key in ["bare_pass_ms", "ratio"] {
        assert!(figures[key].is_number(), "{key} in {figures}");
    }
    let is_known = figures["peak_rss_mb"].is_number();
    assert!(is_known || !cfg!(target_os = "linux"), "peak_rss_mb in {figures}");
    assert_eq!(number(figures, "audit_findings"), 0, "{figures}");
    assert_eq!(number(figures, "quiet_evictions"), 0, "{figures}");
    assert!(number(figures, "shares_held") > 0, "{figures}");
    assert!(number(figures, "used_qshares") <= number(figures, "capacity_qshares"), "{figures}");
}

#[test]
fn every_regime_reports_all_its_figures() {
    for regime in ["burst", "steady", "waiting", "churn", "blocked"] {
        let figures =
            figures(&format!("cycle --nodes 30 --jobs 30 --regime {regime} --cycles 3 --seed 7"));
        check_measured(&figures);
        assert_eq!(figures["regime"], regime);
        for (key, value) in [("nodes", 30), ("jobs", 30), ("users", 3), ("seed", 7), ("cycles", 3)]
        {
            assert_eq!(number(&figures, key), value, "{regime}: {key}");
        }
        assert_eq!(figures["is_settled"], true, "{regime}");
        if regime == "blocked" || regime == "waiting" {
            // All that was to be blocked is, or to wait.
            assert!(number(&figures, "jobs_waiting") >= 30, "{figures}");
        }
    }
}

#[test]
fn a_finer_quantum_and_other_users_are_obeyed() {
    for regime in ["steady", "blocked"] {
        let figures = figures(&format!(
            "cycle --nodes 15 --jobs 40 --users 2 --quantum 1GB --regime {regime} --cycles 2"
        ));
        check_measured(&figures);
        assert_eq!((number(&figures, "users"), number(&figures, "quantum_mb")), (2, 1024));
        assert_eq!(number(&figures, "evictions"), 0);
    }
}

#[test]
fn a_cluster_in_motion_is_no_settled_one_and_it_says_so() {
    let (status, stdout, stderr) =
        run("cycle --nodes 30 --jobs 30 --regime steady --cycles 2 --ramp-cycles 2");
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.contains("not settled after 2 cycles"), "{stderr}");
    assert!(stdout.starts_with("FIGURE") && stdout.contains("ratio of the two"), "{stdout}");
}

#[test]
fn every_request_is_placed_on_a_node_of_its_own() {
    let figures = figures("place --nodes 40 --jobs 30 --cycles 2");
    check_measured(&figures);
    assert_eq!((number(&figures, "shares_held"), number(&figures, "jobs_waiting")), (30, 0));
    assert_eq!(number(&figures, "capacity_qshares"), 40);
}

#[test]
fn the_daemon_is_timed_from_the_publication_to_the_schedule() {
    let figures = figures("daemon --nodes 10 --jobs 10 --starts 2");
    for key in ["schedule_ms", "answer_ms", "plan_ms", "store_ms"] {
        assert!(figures[key].is_number(), "{key} in {figures}");
    }
    assert_eq!((number(&figures, "nodes"), number(&figures, "jobs")), (10, 10));
    assert_eq!((number(&figures, "jobs_placed"), number(&figures, "starts")), (10, 2));
    let median = |key: &str| figures[key]["median"].as_f64().unwrap();
    assert!(0.0 < median("start_ms") && median("start_ms") <= median("resumed_ms"), "{figures}");
    assert!(number(&figures, "shares_held") >= 10);
    if cfg!(target_os = "linux") {
        for key in ["cpu_s", "publication_cpu_s", "peak_rss_mb", "store_bytes"] {
            assert!(figures[key].is_number(), "{key} in {figures}");
        }
    }
}

/// The daemon and the bare server beside it answer everything they are asked, and are gone then.
#[test]
fn load_reports_both_sides_of_everything() {
    let figures = figures("load --nodes 64 --jobs 8 --seconds 1");
    assert_eq!((number(&figures, "nodes"), number(&figures, "jobs")), (64, 8));
    for what in ["single_heartbeats", "batches", "unchanged_polls", "whole_polls"] {
        let compared = &figures[what];
        for key in ["daemon_per_s", "bare_per_s", "ratio"] {
            assert!(compared[key].as_f64().is_some_and(|value| 0.0 < value), "{what}: {compared}");
        }
        for side in ["daemon_cpu_us", "bare_cpu_us"] {
            let is_known = compared[side].is_number();
            assert!(is_known || !cfg!(target_os = "linux"), "{what}: {compared}");
        }
        for side in ["daemon_ms", "bare_ms"] {
            assert!(compared[side]["median"].is_number(), "{what}: {compared}");
        }
    }
    assert!(0 < number(&figures, "schedule_bytes"), "{figures}");
    for (what, key) in [("agents", "sent_per_s"), ("readers", "ratio"), ("readers", "reads_per_s")]
    {
        assert!(figures[what][key].as_f64().is_some_and(|value| 0.0 < value), "{figures}");
    }
    for (what, key) in [
        ("agents", "core_percent"),
        ("agents", "bare_core_percent"),
        ("readers", "alone_cpu_ms"),
        ("readers", "with_readers_cpu_ms"),
    ] {
        let is_known = figures[what][key].is_number();
        assert!(is_known || !cfg!(target_os = "linux"), "{figures}");
    }
}

/// The orchestrator between simulated agents and a simulated resource manager runs every task, and keeps
/// and publishes what runs, over a start anew.
#[test]
fn the_orchestrator_is_measured_with_all_its_tasks() {
    let figures = figures(
        "orchestrator --agents 3 --slots 2 --tasks 500 --campaigns 2 --lines 300 --running 20 --nodes 4 \
         --seconds 2",
    );
    let (starts, large) = (&figures["starts"], &figures["large"]);
    for (key, value) in [("agents", 3), ("slots", 6), ("tasks", 500)] {
        assert_eq!(number(starts, key), value, "{figures}");
    }
    for key in ["per_s", "bare_per_s", "ratio"] {
        assert!(starts[key].as_f64().is_some_and(|value| 0.0 < value), "{key} in {figures}");
    }
    for (key, value) in [
        ("campaigns", 2),
        ("lines", 300),
        ("running", 20),
        ("agents", 4),
        ("publication_processes", 20),
    ] {
        assert_eq!(number(large, key), value, "{key} in {figures}");
    }
    assert!(0 < number(large, "publication_bytes"), "{figures}");
    for key in ["submit_s", "restart_ms"] {
        assert!(large[key].as_f64().is_some_and(|value| 0.0 < value), "{key} in {figures}");
    }
    for key in [
        "command_peak_mb",
        "submit_peak_mb",
        "submit_bytes",
        "peak_mb",
        "restarted_peak_mb",
        "idle_core_percent",
        "publication_core_percent",
    ] {
        assert!(large[key].is_number() || !cfg!(target_os = "linux"), "{key} in {figures}");
    }
}

#[test]
fn one_part_of_the_orchestrator_is_measured_alone() {
    let (status, shown, stderr) =
        run("orchestrator --only starts --agents 2 --slots 2 --tasks 200");
    assert_eq!((status, stderr.as_str()), (0, ""), "{shown}");
    assert!(shown.starts_with("WHAT") && shown.contains("started in a second"), "{shown}");
    assert!(!shown.contains("submission"), "{shown}");
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
}
