//! What one cycle decided.

use super::report::Report;
use super::snapshot::Promise;
use crate::model::{JobId, MachineIx, Millis, Order, ShareId};

/// The outcome of one cycle: what begins, what ends, what is promised, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Shares to create, in the order in which they get their numbers.
    pub expansions: Vec<Expansion>,
    /// Shares to take back.
    pub preemptions: Vec<Preemption>,
    /// Room that stays earmarked; replaces the snapshot's promises.
    pub promises: Vec<Promise>,
    /// The jobs for which room is to be searched in the next cycle first, as this one searched enough.
    pub put_off: Vec<JobId>,
    /// What was seen, done, and could not be done.
    pub report: Report,
}

/// A new share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Whose it is.
    pub job: JobId,
    /// Where it is.
    pub machine: MachineIx,
    /// Its size: the job's order, or for a reservation the order of the whole machine.
    pub order: Order,
}

/// A share taken back, with the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Which share.
    pub share: ShareId,
    /// Whose it was.
    pub job: JobId,
    /// Where it is until its exit is confirmed.
    pub machine: MachineIx,
    /// For whom; nobody, where its job may not hold it any more.
    pub beneficiary: Option<JobId>,
    /// Under which rule.
    pub rule: PreemptionRule,
    /// Work lost with it: what was invested, and the time it took to initialize.
    pub loss: Millis,
    /// What else could have been done for the beneficiary.
    pub considered: Considered,
}

/// What else was considered before room was made for one nshare: all zero where there is no
/// beneficiary and thus no choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Considered {
    /// Machines that the beneficiary may use and that are large enough.
    pub machines: u64,
    /// For how many of them a plan was made, the chosen one included: of those with the cheapest
    /// shares, and not where it was seen that it would be none of the best two.
    pub plans: u64,
    /// The best of the others.
    pub runner_up: Option<RunnerUp>,
}

/// A way to make room that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerUp {
    /// Where.
    pub machine: MachineIx,
    /// How many shares would have gone.
    pub victims: u64,
    /// The work that would have been lost.
    pub loss: Millis,
}

/// Why a share may be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreemptionRule {
    /// Its job may no longer hold it: its maximum fell, its node left its pool, or the machine may
    /// not run it any more.
    NoLongerAllowed,
    /// Work of a better priority needs the room.
    Priority,
    /// Its job, user or class holds more than was counted for it, and somebody worse off needs the
    /// room.
    FairShare,
    /// A needy job takes from somebody who is strictly better off even afterwards.
    Defragmentation,
    /// Its beneficiary has nothing, though a process was counted for it; its own job and side keep
    /// all that was counted for them. Where no arrangement gives everybody something, this is how
    /// the count decides who goes without.
    FirstShare,
    /// In a cluster at rest: even after giving one nshare, of the larger of the two orders, its
    /// side is still better off, whatever was counted.
    Envy,
    /// In a cluster at rest: its beneficiary has nothing, though a process was counted for it, and
    /// no machine can be cleared by the other rules alone. It is moved: its job gets as much
    /// elsewhere in the same cycle.
    Relocation,
}

impl PreemptionRule {
    /// A stable name, for programs.
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

    /// Whether it takes something from the share's job for its beneficiary. What is moved was not
    /// taken: its job has as much as before, so there is nothing that it might take back.
    pub fn is_taking(self) -> bool {
        match self {
            PreemptionRule::NoLongerAllowed | PreemptionRule::Relocation => false,
            PreemptionRule::Priority
            | PreemptionRule::FairShare
            | PreemptionRule::Defragmentation
            | PreemptionRule::FirstShare
            | PreemptionRule::Envy => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_stable_codes() {
        for (rule, code) in [
            (PreemptionRule::NoLongerAllowed, "no_longer_allowed"),
            (PreemptionRule::Priority, "priority"),
            (PreemptionRule::FairShare, "fair_share"),
            (PreemptionRule::Defragmentation, "defragmentation"),
            (PreemptionRule::FirstShare, "first_share"),
            (PreemptionRule::Envy, "envy"),
            (PreemptionRule::Relocation, "relocation"),
        ] {
            assert_eq!(rule.code(), code);
        }
    }
}
