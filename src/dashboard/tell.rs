//! Events in sentences: what came about, of whom, where, and for whom.

use std::collections::{BTreeMap, BTreeSet};

use super::refill::preempted_by;
use super::words::{self, counted};
use crate::api::wire::{AddedShare, ChangedNode, Event, FeedEvent, RemovalReason, RemovedShare};
use crate::model::fold_hostlist;

/// Jobs and nodes of an event listed by name; the rest are counted.
const NAMED: usize = 6;

/// Nodes kept of an event, for the page of each node.
const NODES_MAX: usize = 64;

/// An event, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventText {
    /// Sequence number of the event.
    pub sequence: u64,
    /// The cycle.
    pub cycle: u64,
    /// Time of the cycle in milliseconds since the epoch.
    pub at_ms: i64,
    /// In a word: `start`, `take-back`, `refuse`, `node` or `admin`.
    pub kind: &'static str,
    /// The event in a sentence.
    pub sentence: String,
    /// The jobs it is about, at most some.
    pub jobs: Vec<u64>,
    /// The nodes it is about, at most some.
    pub nodes: Vec<String>,
    /// Number of processes that the event preempts.
    pub preempted: u64,
}

/// Every word for a kind of event.
pub(super) const KINDS: [&str; 5] = ["start", "take-back", "refuse", "node", "admin"];

/// Describes `event` in a sentence.
pub(super) fn told(event: &Event) -> EventText {
    let (kind, sentence) = match &event.what {
        FeedEvent::Added { shares } => ("start", added(shares)),
        FeedEvent::Removed { shares } => ("take-back", removed(shares)),
        FeedEvent::Refused { work } => {
            let first = work.first().map(|work| work.reason.sentence.clone()).unwrap_or_default();
            let sentence = match work.as_slice() {
                [one] => format!("job {} is refused: {first}", one.job),
                all => format!(
                    "{} are refused: {}; the first: {first}",
                    counted(length(all), "job"),
                    named(all.iter().map(|work| work.job.to_string()))
                ),
            };
            ("refuse", sentence)
        }
        FeedEvent::Nodes { nodes } => ("node", changed(nodes)),
        FeedEvent::Administration { action, nodes, reason } => {
            let reason = reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
            let nodes = match nodes.as_slice() {
                [] => String::new(),
                nodes => format!(" {}", folded(nodes.iter().map(String::as_str))),
            };
            ("admin", format!("{action}{nodes}{reason}"))
        }
    };
    EventText {
        sequence: event.sequence,
        cycle: event.cycle,
        at_ms: event.at_ms,
        kind,
        sentence,
        jobs: jobs_of(&event.what),
        nodes: nodes_of(&event.what),
        preempted: preempted_by(&event.what),
    }
}

fn jobs_of(what: &FeedEvent) -> Vec<u64> {
    let jobs: BTreeSet<u64> = match what {
        FeedEvent::Added { shares } => shares.iter().map(|share| share.job).collect(),
        FeedEvent::Removed { shares } => shares.iter().map(|share| share.job).collect(),
        FeedEvent::Refused { work } => work.iter().map(|work| work.job).collect(),
        FeedEvent::Nodes { .. } | FeedEvent::Administration { .. } => BTreeSet::new(),
    };
    jobs.into_iter().take(NAMED).collect()
}

fn nodes_of(what: &FeedEvent) -> Vec<String> {
    let nodes: BTreeSet<&String> = match what {
        FeedEvent::Added { shares } => shares.iter().map(|share| &share.node).collect(),
        FeedEvent::Removed { shares } => shares.iter().map(|share| &share.node).collect(),
        FeedEvent::Nodes { nodes } => nodes.iter().map(|node| &node.node).collect(),
        FeedEvent::Administration { nodes, .. } => nodes.iter().collect(),
        FeedEvent::Refused { .. } => BTreeSet::new(),
    };
    nodes.into_iter().take(NODES_MAX).cloned().collect()
}

fn added(shares: &[AddedShare]) -> String {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for share in shares {
        *counts.entry(share.job).or_default() += 1;
    }
    let nodes = folded(shares.iter().map(|share| share.node.as_str()));
    let start = if shares.len() == 1 { "starts" } else { "start" };
    let each = per_job(&counts);
    format!("{} {start} on {nodes}: {each}", counted(length(shares), "process"))
}

/// "4 of job 7, 1 of job 9"
fn per_job(counts: &BTreeMap<u64, u64>) -> String {
    named(counts.iter().map(|(job, count)| format!("{count} of job {job}")))
}

fn removed(shares: &[RemovedShare]) -> String {
    let mut groups: BTreeMap<(String, Option<u64>), BTreeMap<u64, u64>> = BTreeMap::new();
    for share in shares {
        let why = match (share.reason, share.rule) {
            (RemovalReason::Preempted, Some(rule)) => rule.code().replace('_', " "),
            (RemovalReason::Preempted, None) => "preempted".to_owned(),
            (RemovalReason::VariedOff, _) => "node varied off".to_owned(),
            (RemovalReason::Blacklisted, _) => "no longer allowed there".to_owned(),
            (RemovalReason::NodeDied, _) => "node died".to_owned(),
            (RemovalReason::Window, _) => "maintenance of its node".to_owned(),
            (RemovalReason::ClassClosed, _) => "its class closes".to_owned(),
            (RemovalReason::Overrun, _) => "ran longer than declared".to_owned(),
            (RemovalReason::Withdrawn, _) => "withdrawn: the node is full".to_owned(),
            (RemovalReason::GangBroken, _) => "gang broken".to_owned(),
        };
        *groups.entry((why, share.beneficiary)).or_default().entry(share.job).or_default() += 1;
    }
    let told = groups.iter().map(|((why, beneficiary), counts)| {
        let whom = beneficiary.map(|job| format!(" for job {job}")).unwrap_or_default();
        format!("{}{whom} ({why})", per_job(counts))
    });
    let go = if shares.len() == 1 { "goes" } else { "go" };
    format!("{} {go}: {}", counted(length(shares), "process"), named(told))
}

fn changed(nodes: &[ChangedNode]) -> String {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let words = |states: &[crate::api::wire::NodeState]| {
            states.iter().map(|state| state.word()).collect::<Vec<_>>().join(", ")
        };
        let now = words(&node.states);
        let change = match &node.states_before {
            None => format!("new, {}, {}", now, words::memory(node.memory_mb)),
            Some(before) if *before == node.states => {
                format!("now {}", words::memory(node.memory_mb))
            }
            Some(before) => format!("{} → {now}", words(before)),
        };
        groups.entry(change).or_default().push(&node.node);
    }
    let told =
        groups.iter().map(|(change, nodes)| format!("{} {change}", folded(nodes.iter().copied())));
    told.collect::<Vec<_>>().join("; ")
}

fn length<T>(things: &[T]) -> u64 {
    crate::model::count(things)
}

/// The first of them, and how many more there are.
fn named(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    let more = if 0 < more { format!(", and {more} more") } else { String::new() };
    all.join(", ") + &more
}

/// Names of nodes as a host list, cut where it becomes long.
fn folded<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.collect();
    let text = fold_hostlist(names.iter().copied());
    if text.len() <= 120 { text } else { counted(crate::model::count(&names), "node") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::{NodeState, PreemptionRule};

    fn event(what: FeedEvent) -> EventText {
        told(&Event { sequence: 1, cycle: 2, at_ms: 3, what })
    }

    #[test]
    fn events_are_told_in_sentences() {
        let share =
            |job, node: &str| AddedShare { job, share: 1, node: node.to_owned(), memory_mb: 1 };
        let shares = vec![share(7, "n1"), share(7, "n2"), share(9, "n2")];
        let started = event(FeedEvent::Added { shares });
        assert_eq!(started.sentence, "3 processes start on n[1-2]: 2 of job 7, 1 of job 9");
        assert_eq!((started.jobs, started.nodes.len()), (vec![7, 9], 2));

        let gone = |job, rule, beneficiary| RemovedShare {
            job,
            share: 1,
            node: "n1".to_owned(),
            purge: false,
            reason: RemovalReason::Preempted,
            rule,
            beneficiary,
        };
        let shares = vec![gone(7, Some(PreemptionRule::FairShare), Some(9))];
        let went = event(FeedEvent::Removed { shares });
        assert_eq!(went.sentence, "1 process goes: 1 of job 7 for job 9 (fair share)");

        let node = |name: &str, before| ChangedNode {
            node: name.to_owned(),
            states: vec![NodeState::Dead],
            states_before: before,
            memory_mb: 31 << 10,
        };
        let up = Some(vec![NodeState::Up]);
        let nodes = vec![node("n1", up.clone()), node("n2", up), node("n3", None)];
        let silent = event(FeedEvent::Nodes { nodes });
        assert_eq!(silent.sentence, "n3 new, dead, 31 GB; n[1-2] up → dead");
    }

    #[test]
    fn what_is_long_is_counted() {
        let counts: BTreeMap<u64, u64> = (1..=9).map(|job| (job, 1)).collect();
        assert!(per_job(&counts).ends_with("1 of job 6, and 3 more"));
        let names: Vec<String> = (0..90).map(|number| format!("n{}x", number * 7)).collect();
        assert_eq!(folded(names.iter().map(String::as_str)), "90 nodes");
    }
}
