//! Small scenarios that are played in full, and the errors for scenarios that cannot be played.

use std::io::Write;

use serde_json::Value;

use super::*;

fn scenario_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

const CONFIG: &str = r#""config": {"quantumGB": 1, "initializationCap": 0, "expandByDoubling": false, "prediction": false,
    "nodepools": [{"name": "all", "nodes": ["n1"]}],
    "classes": [{"name": "normal", "policy": "FAIR_SHARE"}, {"name": "fixed", "policy": "FIXED_SHARE"}]}"#;

/// Plays `cycles` on the small cluster and shows each job as `id: held/occupying`.
fn play_cycles(cycles: &str) -> Vec<String> {
    let file = scenario_file(&format!(r#"{{"name": "t", {CONFIG}, "cycles": [{cycles}]}}"#));
    let document = play_file(file.path()).unwrap();
    let show = |line: &PlayedJob| format!("{}: {}/{}", line.id, line.held, line.occupying);
    document
        .cycles
        .iter()
        .map(|cycle| cycle.jobs.iter().map(show).collect::<Vec<_>>().join(", "))
        .collect()
}

#[test]
fn preempted_shares_are_confirmed_in_the_next_cycle() {
    let cycles = r#"
        {"events": [{"e": "node", "name": "n1", "memGB": 4},
                    {"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1}]},
        {"events": [{"e": "job", "id": 2, "user": "b", "class": "normal", "memGB": 1}]},
        {}"#;
    assert_eq!(play_cycles(cycles), ["1: 4/4", "1: 2/4, 2: 0/0", "1: 2/2, 2: 2/2"]);
}

#[test]
fn what_was_taken_back_is_shown_with_rule_loss_and_for_whom() {
    let file = scenario_file(&format!(
        r#"{{"name": "t", {CONFIG}, "cycles": [
            {{"events": [{{"e": "node", "name": "n1", "memGB": 4}},
                {{"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1}}]}},
            {{"events": [{{"e": "run", "id": 1, "timePerItemMs": 9, "initMs": 5, "investmentMs": 7}},
                {{"e": "job", "id": 2, "user": "b", "class": "normal", "memGB": 1}},
                {{"e": "update", "id": 1, "maxProcesses": 3}}]}}]}}"#
    ));
    let document = play_file(file.path()).unwrap();
    let shown = serde_json::to_value(&document).unwrap();
    let [first, second] = [0, 1].map(|cycle| &shown["cycles"][cycle]["jobs"][0]);
    assert_eq!(first.get("preempted"), None);
    assert_eq!(second["shrunken"], serde_json::json!(["n1", "n1"]));
    let expected = serde_json::json!([
        {"node": "n1", "rule": "fair_share", "for": 2, "loss": 12},
        {"node": "n1", "rule": "no_longer_allowed", "loss": 12},
    ]);
    assert_eq!(second["preempted"], expected);
    // The net that has not struck is not mentioned.
    assert_eq!(shown["cycles"][1].get("netStrikes"), None);
    let mut document = document;
    document.cycles[1].net_strikes = 2;
    assert_eq!(serde_json::to_value(&document).unwrap()["cycles"][1]["netStrikes"], 2);
}

#[test]
fn a_service_whose_process_exits_is_over_and_a_job_is_not() {
    let cycles = r#"
        {"events": [{"e": "node", "name": "n1", "memGB": 4},
                    {"e": "job", "id": 1, "user": "a", "class": "fixed", "memGB": 1, "type": "service"},
                    {"e": "job", "id": 2, "user": "a", "class": "normal", "memGB": 1, "maxProcesses": 2}]},
        {"events": [{"e": "procdone", "id": 1, "sel": {"all": true}},
                    {"e": "procdone", "id": 2, "sel": {"index": 0, "node": "n1"}}]},
        {"events": [{"e": "done", "id": 1}]}"#;
    assert_eq!(play_cycles(cycles), ["1: 1/1, 2: 2/2", "1: 0/0, 2: 2/2", "2: 2/2"]);
}

#[test]
fn a_frozen_job_does_not_grow_back() {
    let cycles = r#"
        {"events": [{"e": "node", "name": "n1", "memGB": 4},
                    {"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1}]},
        {"events": [{"e": "update", "id": 1, "maxProcesses": -1}]},
        {"events": [{"e": "procdone", "id": 1, "sel": {"from": 1, "to": 3}}]}"#;
    assert_eq!(play_cycles(cycles), ["1: 4/4", "1: 4/4", "1: 2/2"]);
}

#[test]
fn a_range_of_shares_ends_before_its_end() {
    let gone = |range: &str| {
        let cycles = format!(
            r#"{{"events": [{{"e": "node", "name": "n1", "memGB": 4}},
                {{"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1}}]}},
            {{"events": [{{"e": "update", "id": 1, "maxProcesses": -1}},
                {{"e": "procdone", "id": 1, "sel": {range}}}]}}"#
        );
        play_cycles(&cycles).remove(1)
    };
    assert_eq!(gone(r#"{"from": 0, "to": 0}"#), "1: 4/4");
    assert_eq!(gone(r#"{"from": 0, "to": 1}"#), "1: 3/3");
    assert_eq!(gone(r#"{"from": 1, "to": 3}"#), "1: 2/2");
    assert_eq!(gone(r#"{"from": 0, "to": 4}"#), "1: 0/0");
}

/// The node that holds job 1 moves to a pool that its class may not use. The scheduler still knows
/// the job and evicts its shares: they are confirmed like all shares. The shares of a job whose
/// class is gone are not confirmed.
#[test]
fn shares_evicted_from_another_pool_are_confirmed_and_those_of_refused_work_are_not() {
    let config = |classes: &str, left: &str, right: &str| {
        format!(
            r#"{{"quantumGB": 1, "initializationCap": 0, "expandByDoubling": false, "prediction": false,
            "nodepools": [{{"name": "left", "nodes": [{left}]}}, {{"name": "right", "nodes": [{right}]}}],
            "classes": [{{"name": "normal", "policy": "FAIR_SHARE", "nodepool": "left"}}{classes}]}}"#
        )
    };
    let old = r#", {"name": "old", "policy": "FAIR_SHARE", "nodepool": "right"}"#;
    let before = config(old, r#""n1", "n2""#, r#""n3""#);
    let play = |after: &str| {
        let text = format!(
            r#"{{"name": "t", "config": {before}, "cycles": [
            {{"events": [{{"e": "nodes", "list": [["n1", 2], ["n2", 2], ["n3", 2]]}},
                {{"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1}},
                {{"e": "job", "id": 2, "user": "a", "class": "old", "memGB": 1}}]}},
            {{"events": [{{"e": "reconfigure", "config": {after}}}]}}, {{}}, {{}},
            {{"events": [{{"e": "whitelist"}}]}}]}}"#
        );
        let document = play_file(scenario_file(&text).path()).unwrap();
        let show = |line: &PlayedJob| format!("{}: {}/{}", line.id, line.held, line.occupying);
        let cycles = document.cycles.iter();
        let shown = cycles.map(|cycle| cycle.jobs.iter().map(show).collect::<Vec<_>>().join(", "));
        shown.collect::<Vec<String>>()
    };
    let moved = config(old, r#""n1""#, r#""n2", "n3""#);
    assert_eq!(
        play(&moved),
        ["1: 4/4, 2: 2/2", "1: 2/4, 2: 2/2", "1: 2/2, 2: 4/4", "1: 2/2, 2: 4/4", "1: 2/2, 2: 4/4"]
    );
    let gone = config("", r#""n1", "n2""#, r#""n3""#);
    assert_eq!(
        play(&gone),
        ["1: 4/4, 2: 2/2", "1: 4/4, 2: 0/2", "1: 4/4, 2: 0/2", "1: 4/4, 2: 0/2", "1: 4/4, 2: 0/0"]
    );
}

#[test]
fn a_scenario_is_written_as_it_was_read() {
    let cycles = r#"[
        {"atMs": 5, "events": [
            {"e": "nodes", "list": [["n1", 4], ["n2", 8]]},
            {"e": "nodes", "range": "n[3-5]", "memGB": 8},
            {"e": "job", "id": 3, "user": "a", "class": "gang", "threads": 1, "workItems": 10,
             "chunks": [{"count": 2, "memGB": 1, "tags": {"color": "red"}}, {"count": 1, "memGB": 2}],
             "place": "scatter", "exclusive": true, "groupBy": "rack", "span": false,
             "durationMs": 7, "runsForMs": 5, "elasticity": "rigid"},
            {"e": "job", "id": 4, "user": "a", "class": "gang", "memGB": 1, "threads": 1,
             "workItems": 10, "elasticity": "malleable", "minProcesses": 2,
             "legalSizes": {"multipleOf": 2}},
            {"e": "job", "id": 5, "user": "a", "class": "gang", "memGB": 1, "threads": 1,
             "workItems": 10, "legalSizes": [1, 4]},
            {"e": "job", "id": 6, "user": "a", "class": "gang", "memGB": 1, "threads": 1,
             "workItems": 10, "legalSizes": "odd"},
            {"e": "update", "id": 3, "processes": 4},
            {"e": "node", "name": "n1", "memGB": 4},
            {"e": "quiesce", "name": "n1"},
            {"e": "miss", "name": "n1", "count": 2},
            {"e": "dead", "names": ["n1"]},
            {"e": "varyoff", "names": ["n1"]},
            {"e": "varyon", "names": ["n1"]},
            {"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1, "threads": 2, "workItems": 7},
            {"e": "job", "id": 2, "user": "a", "class": "fixed", "memGB": 1, "threads": 1, "workItems": 9,
             "completed": 3, "maxProcesses": -1, "type": "service", "machines": ["n1"], "serviceId": 4,
             "submit": 5}]},
        {},
        {"events": [
            {"e": "update", "id": 1},
            {"e": "update", "id": 1, "remaining": 0, "timePerItemMs": null, "running": false},
            {"e": "update", "id": 1, "timePerItemMs": 0, "maxProcesses": 3, "completing": true},
            {"e": "run", "id": 1, "timePerItemMs": 5, "initMs": 6, "investmentMs": 0},
            {"e": "proc", "id": 1, "sel": {"from": 0, "to": 1, "node": "n1"}, "initMs": 4},
            {"e": "procdone", "id": 1, "sel": {"all": true, "pendingRemove": false}},
            {"e": "done", "id": 1},
            {"e": "confirm"},
            {"e": "confirm", "id": 0},
            {"e": "whitelist"},
            {"e": "reconfigure", "config": {"quantumGB": 1,
                "properties": {"ducc.rm.node.stability": "3"},
                "nodepools": [{"name": "all", "searchOrder": 3}, {"name": "sub", "parent": "all"}],
                "classes": [{"name": "normal", "policy": "FAIR_SHARE", "weight": 50, "nodepool": "sub",
                    "gangs": true, "patience": 5, "maxDurationMs": 9}],
                "nodeTags": [{"nodes": "n[1-9]", "every": 2, "tags": {"rack": "r1"}, "preference": -3}],
                "placementSets": ["rack"], "spanSets": false,
                "users": [{"name": "a", "maxAllotmentGB": 3}]}}]}]"#;
    let options = r#"{"autoConfirm": false, "autoEnd": true, "autoRun": {"initMs": 1, "timePerItemMs": 2,
        "itemsPerProcess": 3, "investPerCycleMs": 4}}"#;
    let text = format!(r#"{{"name": "t", {CONFIG}, "options": {options}, "cycles": {cycles}}}"#);
    let scenario: Scenario = parse(&text).unwrap();
    let read: Value = parse(&text).unwrap();
    assert_eq!(serde_json::to_value(&scenario).unwrap(), read);
}

/// The document of `cycles`, as it is printed.
fn printed(cycles: &str, options: &str) -> Value {
    let config = CONFIG.replace("\"FIXED_SHARE\"", "\"FIXED_SHARE\", \"gangs\": true");
    let text = format!(r#"{{"name": "t", {config}, "options": {options}, "cycles": [{cycles}]}}"#);
    serde_json::to_value(play_file(scenario_file(&text).path()).unwrap()).unwrap()
}

#[test]
fn with_a_clock_work_ends_by_itself_and_reasons_are_codes() {
    let cycles = r#"
        {"atMs": 0, "events": [{"e": "nodes", "range": "n1", "memGB": 4},
            {"e": "job", "id": 1, "user": "a", "class": "fixed", "memGB": 4, "type": "ap",
             "runsForMs": 15000}]},
        {"events": [{"e": "job", "id": 2, "user": "b", "class": "fixed", "memGB": 4, "type": "ap"}]},
        {"atMs": 14999},
        {"atMs": 15000}"#;
    let document = printed(cycles, r#"{"autoEnd": true}"#);
    let jobs = |cycle: usize| {
        let jobs = document["cycles"][cycle]["jobs"].as_array().unwrap();
        jobs.iter()
            .map(|job| (job["id"].as_u64().unwrap(), job["held"].as_u64().unwrap()))
            .collect()
    };
    let held: Vec<Vec<(u64, u64)>> = (0..4).map(jobs).collect();
    assert_eq!(held, [vec![(1, 1)], vec![(1, 1), (2, 0)], vec![(1, 1), (2, 0)], vec![(2, 1)]]);
    let waiting = &document["cycles"][1]["jobs"][1];
    assert_eq!(waiting["reason"], "nothing_left");
    assert_eq!(waiting["numbers"], serde_json::json!({"asks": 4, "left": 0}));
    assert_eq!(waiting["adapting"], false);
    // Without `autoEnd` it goes on, and without a clock the reason is a sentence.
    assert_eq!(printed(cycles, "{}")["cycles"][3]["jobs"][0]["id"], 1);
    let untimed = cycles.replace(r#""atMs": 0, "#, "").replace(r#""atMs": 14999"#, "");
    let untimed = printed(&untimed.replace(r#""atMs": 15000"#, ""), "{}");
    let waiting = &untimed["cycles"][1]["jobs"][1];
    assert!(waiting["reason"].as_str().unwrap().contains(' '), "{waiting}");
    assert_eq!((waiting.get("numbers"), waiting.get("adapting")), (None, None));
}

#[test]
fn only_an_evolving_gang_takes_another_size() {
    let job = |id: u64, more: &str| {
        format!(
            r#"{{"e": "job", "id": {id}, "user": "a", "class": "fixed", {more},
                "chunks": [{{"count": 1, "memGB": 1}}]}}"#
        )
    };
    let cycles = format!(
        r#"{{"atMs": 0, "events": [{{"e": "nodes", "range": "n1", "memGB": 4}}, {}, {}]}},
        {{"events": [{{"e": "update", "id": 1, "processes": 2}},
            {{"e": "update", "id": 2, "processes": 2}}]}}, {{}}"#,
        job(1, r#""elasticity": "evolving""#),
        job(2, r#""place": "scatter""#)
    );
    let document = printed(&cycles, "{}");
    let cycle = |cycle: usize| &document["cycles"][cycle];
    assert_eq!(cycle(0).get("refused"), None);
    assert_eq!(cycle(1)["refused"], serde_json::json!({"2": "immutable"}));
    assert_eq!(cycle(2).get("refused"), None);
    let held: Vec<&Value> = (0..2).map(|job| &cycle(1)["jobs"][job]["held"]).collect();
    assert_eq!(held, [2, 1]);
    assert_eq!(cycle(1)["jobs"][0]["ranks"], serde_json::json!(["n1", "n1"]));
}

#[test]
fn flaws_name_file_place_and_remedy() {
    let cases = [
        (r#"{"name": 1}"#, "line 1, column 10, at `name`"),
        (
            r#"{"name": "t", "config": {"nodepools": [], "classes": []}, "cycles": []}"#,
            "config.nodepools",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p", "parent": "q"}], "classes": []}, "cycles": []}"#,
            "config.nodepools[0]",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}],
                "classes": [{"name": "c", "policy": "RESERVE", "nodepool": "q"}]}, "cycles": []}"#,
            "config.classes[0]",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{}, {"events": [{"e": "run", "id": 3}]}]}"#,
            "cycles[1].events[0]",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{"atMs": 5}, {"atMs": 4}]}"#,
            "cycles[1].atMs",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{"events": [{"e": "nodes", "range": "n[1-", "memGB": 1}]}]}"#,
            "cycles[0].events[0].range",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{"events": [{"e": "dead", "names": ["$node:1"]}]}]}"#,
            "cycles[0].events[0]",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{"events": [{"e": "job", "id": 1, "user": "a", "class": "c",
                    "chunks": [{"count": 1, "memGB": 1}], "place": "spread"}]}]}"#,
            "cycles[0].events[0].place",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{"events": [{"e": "job", "id": 1, "user": "a", "class": "c",
                    "chunks": [{"count": 0, "memGB": 1}]}]}]}"#,
            "cycles[0].events[0]",
        ),
        (
            r#"{"name": "t", "config": {"nodepools": [{"name": "p"}], "classes": []},
                "cycles": [{"events": [{"e": "job", "id": 1, "user": "a", "class": "c", "memGB": 1,
                    "chunks": [{"count": 1, "memGB": 1}]}]}]}"#,
            "cycles[0].events[0].memGB",
        ),
    ];
    for (text, expected) in cases {
        let file = scenario_file(text);
        let error = play_file(file.path()).unwrap_err();
        let SimError::Malformed { path, place, remedy, .. } = &error else { panic!("{error}") };
        assert_eq!((path.as_path(), place.as_str()), (file.path(), expected));
        assert!(!remedy.is_empty());
    }
}

#[test]
fn a_recording_is_compared_where_its_counts_are_canonical() {
    let scenario = format!(
        r#"{{"name": "t", {CONFIG}, "cycles": [{{"events": [{{"e": "node", "name": "n1", "memGB": 4}},
            {{"e": "job", "id": 1, "user": "a", "class": "normal", "memGB": 1}}]}}, {{}}]}}"#
    );
    let line =
        |held: u64| format!(r#"[{{"id": 1, "order": 1, "cap": 10, "given": 4, "held": {held}}}]"#);
    let recorded = format!(
        r#"{{"scenario": {scenario}, "cycles": [{{"cycle": 0, "canonicalCounts": false, "jobs": {}}},
            {{"cycle": 1, "canonicalCounts": true, "jobs": {}}}]}}"#,
        line(1),
        line(3)
    );
    let file = scenario_file(&recorded);
    let differences: Vec<String> =
        compare_file(file.path()).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(differences, ["cycle 1, job 1: held is 4, recorded 3"]);
}
