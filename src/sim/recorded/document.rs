//! What a played scenario shows: one document, in the words of the recorded results.

use std::collections::BTreeMap;

use serde::Serialize;

/// A played scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Document {
    /// The scenario's name.
    pub name: String,
    /// What each cycle decided.
    pub cycles: Vec<Cycle>,
}

/// One cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cycle {
    /// Its number, from 0.
    pub cycle: u64,
    /// All work that is not done, by number.
    pub jobs: Vec<JobLine>,
    /// How many jobs the safety net held back.
    #[serde(skip_serializing_if = "is_zero")]
    pub net_strikes: u64,
    /// Rules that the schedule breaks.
    pub audit: Vec<Finding>,
}

/// How a cycle left one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLine {
    /// Its number.
    pub id: u64,
    /// Qshares of one process; `None` while the job is refused.
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
    /// All shares, those that are leaving included.
    pub occupying: u64,
    /// The nodes of new shares, one entry a share.
    pub expanded: Vec<String>,
    /// The nodes of shares told to leave in this cycle, one entry a share.
    pub shrunken: Vec<String>,
    /// What the engine took back in this cycle, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<Taken>,
    /// Shares told to leave and not confirmed gone.
    pub pending_removes: u64,
    /// How many shares it has on each node.
    pub nodes: BTreeMap<String, u64>,
    /// Whether it cannot be preempted and was counted nothing, though it could use something.
    pub deferred: bool,
    /// Why it has less than it wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A share that the engine took back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Taken {
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
pub struct Finding {
    /// Which rule.
    pub rule: &'static str,
    /// What exactly.
    pub detail: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
