//! Result of a played scenario: a document in the words of the recorded results.

use std::collections::BTreeMap;

use serde::Serialize;

/// A played scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlayedDocument {
    /// The scenario's name.
    pub name: String,
    /// Decisions of each cycle.
    pub cycles: Vec<PlayedCycle>,
}

/// A single cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlayedCycle {
    /// Number of the cycle, from 0.
    pub cycle: u64,
    /// All work that is not done, by number.
    pub jobs: Vec<PlayedJob>,
    /// Changes that were refused in this cycle: the job, and the code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<u64, &'static str>,
    /// Decisions on urgent work: accepted or refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub urgent: BTreeMap<u64, &'static str>,
    /// Jobs that the preemption stop held back.
    #[serde(skip_serializing_if = "is_zero")]
    pub net_strikes: u64,
    /// Rules that the schedule breaks.
    pub audit: Vec<PlayedFinding>,
}

/// A single job at the end of a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlayedJob {
    /// Number of the job.
    pub id: u64,
    /// Qshares of a process; `None` while the job is refused.
    pub order: Option<u32>,
    /// The most nshares it could use.
    pub cap: u64,
    /// Nshares counted for it.
    pub given: u64,
    /// Qshares it deserves before bonus shares; fair-share work only.
    #[serde(rename = "pureFS", skip_serializing_if = "Option::is_none")]
    pub pure_fair_share: Option<u64>,
    /// Shares that are not leaving.
    pub held: u64,
    /// All shares, including the shares that are leaving.
    pub occupying: u64,
    /// Nodes of the new shares, an entry for each share.
    pub expanded: Vec<String>,
    /// Nodes of the shares that were terminated in this cycle, an entry for each share.
    pub shrunken: Vec<String>,
    /// Shares that the engine preempted in this cycle, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<PreemptedShare>,
    /// Terminated shares that are not confirmed gone.
    pub pending_removes: u64,
    /// Number of shares on each node.
    pub nodes: BTreeMap<String, u64>,
    /// True if the job cannot be preempted and has a target of zero although it could use a
    /// process.
    pub deferred: bool,
    /// Nodes in the order of the ranks, an entry for each process; gangs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Vec<String>>,
    /// Reason why the job has less than it wants: a sentence, or its code in a scenario with a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Numbers of the reason, by name; only in a scenario with a clock, like the rest below.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<&'static str, u64>,
    /// Expected start, in milliseconds from the start of the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at_ms: Option<u64>,
    /// True if a change of the job's size is not confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapting: Option<bool>,
    /// Shares evicted in this cycle, except dead shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
    /// Reason for which they were evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_for: Option<&'static str>,
}

/// A share that the engine took back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PreemptedShare {
    /// From which node.
    pub node: String,
    /// Under which rule.
    pub rule: &'static str,
    /// For which job; for none if its own may not hold it any more.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub beneficiary: Option<u64>,
    /// Work lost with it, in milliseconds.
    pub loss: u64,
}

/// A rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlayedFinding {
    /// Name of the rule.
    pub rule: &'static str,
    /// Details of the violation.
    pub detail: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
