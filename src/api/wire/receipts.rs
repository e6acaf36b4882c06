//! Preempted shares, and reasons why shares were not preempted.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A preempted share and its beneficiary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreemptionInfo {
    /// The share.
    pub share: u64,
    /// Number of the job that the share belonged to.
    pub job: u64,
    /// Node of the share until its exit is confirmed.
    pub node: String,
    /// Number of the job that needs the space. Absent: the share's job may not hold it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneficiary: Option<u64>,
    /// Under which rule.
    pub rule: PreemptionRule,
    /// Work lost with the share, in milliseconds.
    pub loss_ms: u64,
    /// Alternatives that were considered for the beneficiary. Absent: there was none, and no
    /// choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered: Option<Considered>,
    /// Summary of these fields in a sentence, for people.
    pub sentence: String,
}

/// Rule by which a share may be preempted.
///
/// - `no_longer_allowed`: the job may not hold the share any more; there is no beneficiary.
/// - `window`: the share's node goes into maintenance; there is no beneficiary.
/// - `class_closed`: the class of the share's job closes; there is no beneficiary.
/// - `urgent`: urgent work was accepted and needs the space.
/// - `overrun`: the job ran longer than it declared, and its class ends such jobs; there is no
///   beneficiary.
/// - `priority`: a job of higher priority needs the space.
/// - `fair_share`: the share's job, user or class holds more than its target, and a job that is
///   worse off needs the space.
/// - `defragmentation`: a job far below its fair share takes from a donor that is better off even
///   afterwards.
/// - `first_share`: the beneficiary has nothing; the donor keeps its whole target.
/// - `turn`: a gang of a peer saved up its turn, and the donor holds more than its target; or the
///   donor is a gang that did not pay, and a peer is below its target.
/// - `envy`: in a cluster at rest, the donor is still better off afterwards, at any target.
/// - `relocation`: in a cluster at rest, the beneficiary has nothing; the donor gets as much on
///   another node at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptionRule {
    /// The job may not hold the share any more; there is no beneficiary.
    NoLongerAllowed,
    /// The share's node goes into maintenance, without a beneficiary. Or the beneficiary is in its
    /// advance reservation of the node.
    Window,
    /// The class of the share's job closes; there is no beneficiary.
    ClassClosed,
    /// Urgent work was accepted and needs the space.
    Urgent,
    /// The job ran longer than it declared, and its class ends such jobs; there is no beneficiary.
    Overrun,
    /// A job of higher priority needs the space.
    Priority,
    /// The share's job, user or class holds more than its target, and a job that is worse off needs
    /// the space.
    FairShare,
    /// A job far below its fair share takes from a donor that is better off even afterwards.
    Defragmentation,
    /// The beneficiary has nothing; the donor keeps its whole target.
    FirstShare,
    /// A gang of a peer saved up its turn, and the donor holds more than its target.
    Turn,
    /// In a cluster at rest, the donor is still better off afterwards, at any target.
    Envy,
    /// In a cluster at rest, the beneficiary has nothing; the donor gets as much on another node at
    /// once.
    Relocation,
}

impl PreemptionRule {
    /// Returns the rule's name on the wire.
    pub fn code(self) -> &'static str {
        match self {
            PreemptionRule::NoLongerAllowed => "no_longer_allowed",
            PreemptionRule::Window => "window",
            PreemptionRule::ClassClosed => "class_closed",
            PreemptionRule::Urgent => "urgent",
            PreemptionRule::Overrun => "overrun",
            PreemptionRule::Priority => "priority",
            PreemptionRule::FairShare => "fair_share",
            PreemptionRule::Defragmentation => "defragmentation",
            PreemptionRule::FirstShare => "first_share",
            PreemptionRule::Turn => "turn",
            PreemptionRule::Envy => "envy",
            PreemptionRule::Relocation => "relocation",
        }
    }
}

/// Alternatives that were considered before space was made for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Considered {
    /// Nodes that the beneficiary may use and that are large enough.
    pub nodes: u64,
    /// Number of these nodes whose cost of making space was computed, the chosen node included. The
    /// planner skips a node as soon as its plan is seen to be worse than the best two.
    pub plans: u64,
    /// Best alternative to the chosen plan. Absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp>,
}

/// A plan to make space that was not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerUp {
    /// Node of the alternative.
    pub node: String,
    /// Number of processes that would have been preempted.
    pub victims: u64,
    /// Work that would have been lost, in milliseconds.
    pub loss_ms: u64,
}

/// Reason why a job does not preempt shares that it might.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldBack {
    /// Code of the reason.
    pub code: HeldBackCode,
    /// The same with its numbers, for people.
    pub sentence: String,
    /// Least loss of work in other jobs that a further process would cause, in thread time.
    /// `too_dear` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ms: Option<u64>,
    /// Loss that the job may cause by now: the cost of its waiting, or its class's loss limit.
    /// `too_dear` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Least number of cycles since demand or supply changed. `quiet_stop` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_cycles: Option<u64>,
}

/// Codes of the reasons why a job does not preempt shares.
///
/// - `too_dear`: preemption would destroy more work of other jobs than it is worth so far.
/// - `too_late`: the job is nearly done, and more processes would hardly come in time.
/// - `quiet_stop`: demand and supply have not changed for so long that only a job without shares
///   still preempts from its peers: the safety net.
/// - `next_cycle`: the search for shares to preempt used up the time that a cycle allows; the job's
///   turn comes in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBackCode {
    /// Preemption would destroy more work of other jobs than it is worth so far.
    TooDear,
    /// The job is nearly done, and more processes would hardly come in time.
    TooLate,
    /// Demand and supply have not changed for long, so only a job without shares still preempts:
    /// the safety net.
    QuietStop,
    /// The search for shares to preempt used up the time that a cycle allows; the job's turn comes
    /// in the next.
    NextCycle,
}
