//! Holds the played document of a scenario against what the scenario expects.
//!
//! The format is that of the README beside the acceptance scenarios. A cycle or a field without an
//! expectation is free; an expectation of an unknown kind is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use apportion::model::expand_hostlist;
use apportion::sim::recorded::play_file;
use serde::Deserialize;
use serde_json::Value;

/// What must hold at the end of a cycle.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExpectedCycle {
    preempted: Option<usize>,
    urgent: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
    jobs: BTreeMap<String, ExpectedJob>,
    audit: Vec<Value>,
}

/// What must hold of a job.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct ExpectedJob {
    held: Option<u64>,
    occupying: Option<u64>,
    adapting: Option<bool>,
    reason: Option<String>,
    starts_at_ms: Option<Value>,
    numbers: BTreeMap<String, u64>,
    /// Number of different nodes.
    nodes: Option<usize>,
    exactly: Option<String>,
    within: Option<String>,
    ranks: Vec<(String, usize)>,
    rank_nodes: BTreeMap<String, String>,
    tags: Vec<(String, usize)>,
    at_least: Vec<(String, usize)>,
    sets: Option<ExpectedSets>,
    apart_from: Vec<u64>,
    removed: Option<u64>,
    removed_for: Option<String>,
    absent: bool,
}

/// How many different values of a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedSets {
    key: String,
    count: Option<usize>,
    min: Option<usize>,
}

#[derive(Deserialize)]
struct ScenarioText {
    config: Value,
    cycles: Vec<CycleText>,
}

#[derive(Deserialize)]
struct CycleText {
    #[serde(default)]
    events: Vec<Value>,
    #[serde(default)]
    expect: ExpectedCycle,
}

/// Plays the scenario in `path`. Returns every expectation that the document does not meet.
pub fn unmet(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the scenario can be read");
    let scenario: ScenarioText = serde_json::from_str(&text).expect("expectations are known");
    let document = match play_file(path) {
        Ok(document) => serde_json::to_value(document).expect("a document is JSON"),
        Err(error) => return vec![error.to_string()],
    };
    unmet_by(&scenario, &document)
}

/// Like [`unmet`], of a scenario and a document in memory.
pub fn unmet_in(scenario: &Value, document: &Value) -> Vec<String> {
    let scenario = serde_json::from_value(scenario.clone()).expect("expectations are known");
    unmet_by(&scenario, document)
}

fn unmet_by(scenario: &ScenarioText, document: &Value) -> Vec<String> {
    let cycles = document["cycles"].as_array().expect("a document has cycles");
    let mut unmet = Vec::new();
    if cycles.len() != scenario.cycles.len() {
        unmet.push(format!("{} cycles, not {}", cycles.len(), scenario.cycles.len()));
    }
    let mut tags = tags_of(&scenario.config);
    let mut exclusive = BTreeSet::new();
    for (number, (input, played)) in scenario.cycles.iter().zip(cycles).enumerate() {
        for event in &input.events {
            match event["e"].as_str() {
                Some("reconfigure") => tags = tags_of(&event["config"]),
                Some("job") if event["exclusive"] == true => {
                    exclusive.extend(event["id"].as_u64());
                }
                _ => {}
            }
        }
        let cycle = PlayedEnd::new(played, &tags);
        let mut found = cycle.unmet(&input.expect);
        found.extend(cycle.shared(&exclusive));
        unmet.extend(found.into_iter().map(|unmet| format!("cycle {number}: {unmet}")));
    }
    unmet
}

/// Tags by node, as a configuration gives them.
type TagsByNode = BTreeMap<String, BTreeMap<String, String>>;

fn tags_of(config: &Value) -> TagsByNode {
    let mut tags = TagsByNode::new();
    for rule in config["nodeTags"].as_array().into_iter().flatten() {
        let names = expand_hostlist(rule["nodes"].as_str().unwrap()).unwrap();
        let every = rule["every"].as_u64().map_or(1, |every| usize::try_from(every).unwrap());
        for name in names.into_iter().step_by(every) {
            let of_node = tags.entry(name).or_default();
            for (key, value) in rule["tags"].as_object().into_iter().flatten() {
                of_node.insert(key.clone(), value.as_str().unwrap().to_owned());
            }
        }
    }
    tags
}

/// A cycle as played.
struct PlayedEnd<'a> {
    cycle: &'a Value,
    jobs: BTreeMap<u64, &'a Value>,
    tags: &'a TagsByNode,
}

impl<'a> PlayedEnd<'a> {
    fn new(cycle: &'a Value, tags: &'a TagsByNode) -> PlayedEnd<'a> {
        let jobs = cycle["jobs"].as_array().into_iter().flatten();
        let jobs = jobs.map(|job| (job["id"].as_u64().unwrap(), job)).collect();
        PlayedEnd { cycle, jobs, tags }
    }

    fn unmet(&self, expected: &ExpectedCycle) -> Vec<String> {
        let mut unmet = Vec::new();
        let findings = self.cycle["audit"].as_array().expect("a cycle has findings");
        if *findings != expected.audit {
            unmet.push(format!("the audit found {findings:?}"));
        }
        let taken = |job: &&Value| job["preempted"].as_array().map_or(0, Vec::len);
        let taken: usize = self.jobs.values().map(taken).sum();
        note(&mut unmet, "preempted", expected.preempted.as_ref(), &taken);
        for (list, expected) in [("urgent", &expected.urgent), ("refused", &expected.refused)] {
            for (job, code) in expected {
                let found = self.cycle[list][job].as_str();
                note(&mut unmet, &format!("{list} {job}"), Some(&Some(code.as_str())), &found);
            }
        }
        for (id, expected) in &expected.jobs {
            let id: u64 = id.parse().expect("a job is a number");
            let found = match (self.jobs.get(&id), expected.absent) {
                (Some(job), false) => self.unmet_of(job, expected),
                (None, true) => Vec::new(),
                (Some(_), true) => vec!["is there".to_owned()],
                (None, false) => vec!["is not there".to_owned()],
            };
            unmet.extend(found.into_iter().map(|unmet| format!("job {id}: {unmet}")));
        }
        unmet
    }

    fn unmet_of(&self, job: &Value, expected: &ExpectedJob) -> Vec<String> {
        let mut unmet = Vec::new();
        note(&mut unmet, "held", expected.held.as_ref(), &number(job, "held"));
        note(&mut unmet, "occupying", expected.occupying.as_ref(), &number(job, "occupying"));
        note(
            &mut unmet,
            "adapting",
            expected.adapting.map(Some).as_ref(),
            &job["adapting"].as_bool(),
        );
        for (field, expected) in
            [("reason", &expected.reason), ("removedFor", &expected.removed_for)]
        {
            let expected = expected.as_deref().map(Some);
            note(&mut unmet, field, expected.as_ref(), &job[field].as_str());
        }
        for (name, expected) in &expected.numbers {
            note(&mut unmet, name, Some(&Some(*expected)), &job["numbers"][name].as_u64());
        }
        note(&mut unmet, "removed", expected.removed.as_ref(), &number(job, "removed"));
        match &expected.starts_at_ms {
            Some(Value::Object(least)) => {
                let least = least["min"].as_u64();
                if job["startsAtMs"].as_u64() < least {
                    unmet.push(format!("starts at {}, before {least:?}", job["startsAtMs"]));
                }
            }
            expected => {
                note(&mut unmet, "startsAtMs", expected.as_ref(), &job["startsAtMs"]);
            }
        }
        unmet.extend(self.unmet_places(job, expected));
        unmet
    }

    /// Expectations of the nodes that a job is on.
    fn unmet_places(&self, job: &Value, expected: &ExpectedJob) -> Vec<String> {
        let mut unmet = Vec::new();
        let places = places(job);
        let nodes: BTreeSet<&str> = places.iter().map(String::as_str).collect();
        note(&mut unmet, "nodes", expected.nodes.as_ref(), &nodes.len());
        let listed = |list: &String| -> BTreeSet<String> {
            expand_hostlist(list).expect("a host list is well-formed").into_iter().collect()
        };
        if let Some(list) = expected.exactly.as_ref().map(listed)
            && !nodes.iter().copied().eq(list.iter())
        {
            unmet.push(format!("is on {nodes:?}, not exactly {list:?}"));
        }
        if let Some(list) = expected.within.as_ref().map(listed)
            && nodes.iter().any(|node| !list.contains(*node))
        {
            unmet.push(format!("is on {nodes:?}, not within {list:?}"));
        }
        let mut ranks = places.iter();
        for (tag, processes) in &expected.ranks {
            let first = ranks.by_ref().take(*processes);
            let with = first.filter(|node| self.has(node, tag)).count();
            note(&mut unmet, &format!("ranks with {tag}"), Some(processes), &with);
        }
        for (rank, node) in &expected.rank_nodes {
            let found = places.get(rank.parse::<usize>().expect("a rank is a number"));
            note(&mut unmet, &format!("rank {rank}"), Some(&Some(node)), &found);
        }
        let with = |tag: &String| places.iter().filter(|node| self.has(node, tag)).count();
        for (tag, processes) in &expected.tags {
            note(&mut unmet, &format!("with {tag}"), Some(processes), &with(tag));
        }
        for (tag, processes) in &expected.at_least {
            if with(tag) < *processes {
                unmet.push(format!("{} with {tag}, not at least {processes}", with(tag)));
            }
        }
        if let Some(ExpectedSets { key, count, min }) = &expected.sets {
            let values: BTreeSet<&str> = nodes.iter().map(|node| self.value(node, key)).collect();
            note(&mut unmet, &format!("sets of {key}"), count.as_ref(), &values.len());
            if values.len() < min.unwrap_or(0) {
                unmet.push(format!("{} sets of {key}, not at least {min:?}", values.len()));
            }
        }
        for other in &expected.apart_from {
            let others = self.jobs.get(other).map(|job| self::places(job)).unwrap_or_default();
            if others.iter().any(|node| nodes.contains(node.as_str())) {
                unmet.push(format!("shares a node with job {other}"));
            }
        }
        unmet
    }

    /// Nodes of exclusive jobs that another job is on.
    fn shared(&self, exclusive: &BTreeSet<u64>) -> Vec<String> {
        let mut on_node: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (&id, job) in &self.jobs {
            for node in job["nodes"].as_object().into_iter().flatten().map(|(node, _)| node) {
                on_node.entry(node).or_default().insert(id);
            }
        }
        let is_shared = |jobs: &BTreeSet<u64>| 1 < jobs.len() && !jobs.is_disjoint(exclusive);
        let shared = on_node.iter().filter(|(_, jobs)| is_shared(jobs));
        shared.map(|(node, jobs)| format!("{node} is not exclusive: jobs {jobs:?}")).collect()
    }

    /// Value of a tag of a node; a tag that is not set is "false".
    fn value(&self, node: &str, key: &str) -> &str {
        self.tags.get(node).and_then(|tags| tags.get(key)).map_or("false", String::as_str)
    }

    /// True if the node has the tag, written as KEY=VALUE.
    fn has(&self, node: &str, tag: &str) -> bool {
        let (key, value) = tag.split_once('=').expect("a tag is KEY=VALUE");
        self.value(node, key) == value
    }
}

/// Nodes of a job's processes: by rank for a gang, by name otherwise.
fn places(job: &Value) -> Vec<String> {
    if let Some(ranks) = job["ranks"].as_array() {
        return ranks.iter().map(|node| node.as_str().unwrap().to_owned()).collect();
    }
    let nodes = job["nodes"].as_object().into_iter().flatten();
    let nodes = nodes.flat_map(|(node, processes)| {
        let processes = usize::try_from(processes.as_u64().unwrap()).unwrap();
        std::iter::repeat_n(node.clone(), processes)
    });
    nodes.collect()
}

/// A number of a job; 0 if it is not told.
fn number(job: &Value, field: &str) -> u64 {
    job[field].as_u64().unwrap_or(0)
}

/// Notes what differs from an expectation.
fn note<T: PartialEq + std::fmt::Debug>(
    unmet: &mut Vec<String>,
    what: &str,
    expected: Option<&T>,
    found: &T,
) {
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        unmet.push(format!("{what} is {found:?}, not {expected:?}"));
    }
}
