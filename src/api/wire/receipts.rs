//! What was taken from whom, and what was left alone.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A share taken back, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreemptionInfo {
    /// The share.
    pub share: u64,
    /// Whose it was.
    pub job: u64,
    /// Where it is until its exit is confirmed.
    pub node: String,
    /// For whom. Absent: its job may not hold it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneficiary: Option<u64>,
    /// Under which rule.
    pub rule: PreemptionRule,
    /// Work lost with it.
    pub loss_ms: u64,
    /// What else could have been done for the beneficiary. Absent: there was none, and no choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered: Option<Considered>,
    /// All this in one sentence, for people.
    pub sentence: String,
}

/// Why a share may be taken back.
///
/// - `no_longer_allowed`: its job may not hold it any more; there is no beneficiary.
/// - `priority`: work of a better priority needs the room.
/// - `fair_share`: its job, user or class holds more than was counted for it, and somebody worse
///   off needs the room.
/// - `defragmentation`: a job far below what it deserves takes from a side that is better off even
///   afterwards.
/// - `first_share`: the beneficiary has nothing; the side it takes from keeps all that was counted
///   for it.
/// - `envy`: in a cluster at rest, the side it takes from is still better off afterwards, whatever
///   was counted.
/// - `relocation`: in a cluster at rest, the beneficiary has nothing; the job gets as much on
///   another node at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptionRule {
    /// Its job may not hold it any more; there is no beneficiary.
    NoLongerAllowed,
    /// Work of a better priority needs the room.
    Priority,
    /// Its job, user or class holds more than was counted for it, and somebody worse off needs the
    /// room.
    FairShare,
    /// A job far below what it deserves takes from a side that is better off even afterwards.
    Defragmentation,
    /// The beneficiary has nothing; the side it takes from keeps all that was counted for it.
    FirstShare,
    /// In a cluster at rest, the side it takes from is still better off afterwards, whatever was
    /// counted.
    Envy,
    /// In a cluster at rest, the beneficiary has nothing; the job gets as much on another node at
    /// once.
    Relocation,
}

impl PreemptionRule {
    /// Its name, as it is sent.
    pub fn code(self) -> &'static str {
        match self {
            PreemptionRule::NoLongerAllowed => "no_longer_allowed",
            PreemptionRule::Priority => "priority",
            PreemptionRule::FairShare => "fair_share",
            PreemptionRule::Defragmentation => "defragmentation",
            PreemptionRule::FirstShare => "first_share",
            PreemptionRule::Envy => "envy",
            PreemptionRule::Relocation => "relocation",
        }
    }
}

/// What else was considered before room was made for one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Considered {
    /// Nodes that the beneficiary may use and that are large enough.
    pub nodes: u64,
    /// For how many of them it was worked out what room would cost, the one that was chosen included.
    /// Where it is seen that it would be none of the best two, it is not.
    pub plans: u64,
    /// The best of the others. Absent: there was no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp>,
}

/// A way to make room that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerUp {
    /// Where.
    pub node: String,
    /// How many processes would have gone.
    pub victims: u64,
    /// The work that would have been lost.
    pub loss_ms: u64,
}

/// Why work leaves others what it might take from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldBack {
    /// What holds it back.
    pub code: HeldBackCode,
    /// The same with its numbers, for people.
    pub sentence: String,
    /// Work of others that one more process would destroy at least, in thread time. `too_dear` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ms: Option<u64>,
    /// What it may destroy by now: what its waiting has cost, or its class's loss limit. `too_dear`
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// For how many cycles or more neither demand nor supply has changed. `quiet_stop` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_cycles: Option<u64>,
}

/// What keeps work from taking room from others.
///
/// - `too_dear`: more work of others would be lost than it is worth so far.
/// - `too_late`: its work is nearly done, and more processes would hardly come in time.
/// - `quiet_stop`: neither demand nor supply has changed for so long that only work that has
///   nothing takes from its peers: the safety net.
/// - `next_cycle`: the search for room for others took as long as one cycle may search; its turn
///   comes in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBackCode {
    /// More work of others would be lost than it is worth so far.
    TooDear,
    /// Its work is nearly done, and more processes would hardly come in time.
    TooLate,
    /// Nothing has changed for so long that only work that has nothing takes from others: the
    /// safety net.
    QuietStop,
    /// The search for room for others took as long as one cycle may search; its turn comes in the
    /// next.
    NextCycle,
}
