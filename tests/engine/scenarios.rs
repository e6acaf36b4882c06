//! Plays the acceptance scenarios of gangs and of time, and holds each against what must come of it.
//!
//! A scenario says what has to hold for those who submit work, and nothing about how it is done.
//! Where the files are absent nothing is played.

#![expect(clippy::print_stdout, reason = "a test that skips says so")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::scenario_check::{unmet, unmet_in};

/// Scenarios that are not met yet, with the reason.
const NOT_YET: &[(&str, &str)] = &[];

/// The scenarios, by name.
fn scenarios() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/scenarios");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("{} is absent: its scenarios are not played", folder.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("a folder lists its files").path());
    let named = paths.filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_one = path.extension()? == "json";
        is_one.then_some((name, path))
    });
    let mut scenarios: Vec<(String, PathBuf)> = named.collect();
    scenarios.sort();
    scenarios
}

#[test]
fn every_scenario_ends_as_it_must() {
    let scenarios = scenarios();
    let not_yet: BTreeMap<&str, &str> = NOT_YET.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, path) in &scenarios {
        let unmet = unmet(path);
        match not_yet.get(name.as_str()) {
            None => wrong.extend(unmet.into_iter().map(|unmet| format!("{name}: {unmet}"))),
            Some(reason) if unmet.is_empty() => {
                wrong.push(format!("{name} is met, and listed as not yet: {reason}"));
            }
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    for (name, reason) in NOT_YET {
        assert!(!reason.is_empty(), "{name} says why");
        let is_there = scenarios.is_empty() || scenarios.iter().any(|(other, _)| other == name);
        assert!(is_there, "{name} is no scenario");
    }
}

/// A document of a single cycle that meets every kind of expectation, and the expectations.
fn met() -> (Value, Value) {
    let scenario = json!({
        "config": {"nodeTags": [
            {"nodes": "n[1-4]", "tags": {"color": "red"}},
            {"nodes": "n[1-4]", "every": 2, "tags": {"color": "blue", "rack": "r1"}}]},
        "cycles": [{
            "events": [{"e": "job", "id": 1, "exclusive": true}, {"e": "job", "id": 2}],
            "expect": {"preempted": 1, "refused": {"2": "immutable"}, "audit": [], "jobs": {
                "1": {"held": 3, "occupying": 4, "adapting": false, "reason": "gang_waits",
                    "numbers": {"found": 1, "needed": 2}, "nodes": 3, "exactly": "n[1-3]",
                    "within": "n[1-4]", "ranks": [["color=blue", 2], ["color=red", 1]],
                    "rankNodes": {"1": "n3"}, "tags": [["color=blue", 2]],
                    "atLeast": [["color=red", 1]], "sets": {"key": "rack", "count": 2, "min": 2},
                    "apartFrom": [2], "startsAtMs": {"min": 5}},
                "2": {"held": 1, "removed": 1, "removedFor": "gang_broken", "startsAtMs": 7},
                "3": {"absent": true}}}}]});
    let document = json!({"cycles": [{"audit": [], "refused": {"2": "immutable"}, "jobs": [
        {"id": 1, "held": 3, "occupying": 4, "adapting": false, "reason": "gang_waits",
            "numbers": {"found": 1, "needed": 2}, "ranks": ["n1", "n3", "n2"], "startsAtMs": 5,
            "preempted": [{}], "nodes": {"n1": 1, "n2": 1, "n3": 1}},
        {"id": 2, "held": 1, "occupying": 1, "removed": 1, "removedFor": "gang_broken",
            "startsAtMs": 7, "nodes": {"n4": 1}}]}]});
    (scenario, document)
}

#[test]
fn every_kind_of_expectation_can_be_missed() {
    let (scenario, document) = met();
    assert_eq!(unmet_in(&scenario, &document), [""; 0]);
    let first = "/cycles/0/jobs/0";
    let second = "/cycles/0/jobs/1";
    let changes = [
        ("/cycles/0/audit", "", json!([{"rule": "spanned"}]), "audit"),
        ("/cycles/0/refused", "", json!({}), "refused 2"),
        (first, "/held", json!(2), "held"),
        (first, "/occupying", json!(3), "occupying"),
        (first, "/adapting", json!(true), "adapting"),
        (first, "/reason", json!("earning"), "reason"),
        (first, "/numbers/found", json!(2), "found"),
        (first, "/ranks", json!(["n1", "n3", "n3"]), "nodes is 2"),
        (first, "/ranks", json!(["n1", "n3", "n4"]), "exactly"),
        (first, "/ranks", json!(["n1", "n3", "n5"]), "within"),
        (first, "/ranks", json!(["n1", "n2", "n3"]), "ranks with color=blue"),
        (first, "/ranks", json!(["n3", "n1", "n2"]), "rank 1"),
        (first, "/ranks", json!(["n1", "n2", "n4"]), "with color=blue is 1"),
        (first, "/ranks", json!(["n1", "n3", "n1"]), "not at least 1"),
        (first, "/ranks", json!(["n1", "n3", "n3"]), "sets of rack"),
        (first, "/ranks", json!(["n1", "n3", "n4"]), "shares a node with job 2"),
        (first, "/startsAtMs", json!(4), "starts at 4"),
        (first, "/preempted", json!([]), "preempted"),
        (second, "/removed", json!(0), "removed"),
        (second, "/removedFor", json!("varied_off"), "removedFor"),
        (second, "/startsAtMs", json!(8), "startsAtMs"),
        (second, "/nodes", json!({"n1": 1}), "not exclusive"),
        (second, "/id", json!(3), "job 3: is there"),
        (second, "/id", json!(4), "job 2: is not there"),
    ];
    for (place, field, value, expected) in changes {
        let mut document = document.clone();
        *document.pointer_mut(&format!("{place}{field}")).expect("the field is there") = value;
        let unmet = unmet_in(&scenario, &document);
        assert!(unmet.iter().any(|unmet| unmet.contains(expected)), "{expected}: {unmet:?}");
    }
}
