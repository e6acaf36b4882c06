//! Decisions of a cycle.

use super::gang::{TurnBill, TurnIncome};
use super::report::Report;
use super::snapshot::Promise;
use crate::model::{JobId, Millis, NodeIx, Order, ShareId};

/// The outcome of a cycle: shares that begin, shares that end, promises, and the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleSchedule {
    /// Shares to create, in the order in which they get their numbers.
    pub expansions: Vec<Expansion>,
    /// Shares to preempt or evict.
    pub preemptions: Vec<Preemption>,
    /// Space that stays promised; replaces the snapshot's promises.
    pub promises: Vec<Promise>,
    /// Jobs that the next cycle searches space for first, as this cycle reached its search limit.
    pub put_off: Vec<JobId>,
    /// Bills of gangs that started.
    pub bills: Vec<TurnBill>,
    /// Incomes of all users with gangs of fair-share work, by class and user.
    pub incomes: Vec<TurnIncome>,
    /// Next cycle that may decide otherwise even if nothing happens; `None` if no cycle will.
    pub next_change: Option<u64>,
    /// First moment at which the same snapshot may be planned otherwise; `None` if there is none.
    pub valid_until: Option<Millis>,
    /// Figures, decisions and reasons of unmet demand.
    pub report: Report,
}

/// A new share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Job of the share.
    pub job: JobId,
    /// Node of the share.
    pub node: NodeIx,
    /// Size of the share: the job's order, or for a reservation the order of the whole node.
    pub order: Order,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
}

/// A share taken back, with the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Number of the share.
    pub share: ShareId,
    /// Job that held the share.
    pub job: JobId,
    /// Node that the share occupies until its exit is confirmed.
    pub node: NodeIx,
    /// Job that the space is for; `None` if the share's job may not hold it any more.
    pub beneficiary: Option<JobId>,
    /// Rule of the preemption.
    pub rule: VictimRule,
    /// Work lost with the share: its investment, and the time it took to initialize.
    pub loss: Millis,
    /// Alternatives that were examined for the beneficiary.
    pub considered: Alternatives,
}

/// Alternatives that were examined before space was made for an nshare. All zero if there is no
/// beneficiary and thus no choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alternatives {
    /// Nodes that the beneficiary may use and that are large enough.
    pub nodes: u64,
    /// Nodes for which a plan was made, the chosen node included. Only nodes with the cheapest
    /// shares get a plan, and only as long as it may be among the best two.
    pub plans: u64,
    /// The best plan that was not chosen.
    pub runner_up: Option<NextBest>,
}

/// A way to make space that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextBest {
    /// Node of the plan.
    pub node: NodeIx,
    /// Number of shares that would have been preempted.
    pub victims: u64,
    /// Work that would have been lost.
    pub loss: Millis,
}

/// Reason why a share may be preempted or evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VictimRule {
    /// The job may no longer hold the share: its maximum fell, the node left its pool, or the node
    /// may not run the job any more.
    NoLongerAllowed,
    /// The share's node goes into maintenance. Or a job needs the space in its advance reservation.
    Window,
    /// The class of the share's job closes.
    ClassClosed,
    /// An urgent job needs the space.
    Urgent,
    /// The share's job stays, runs longer than it declared, and its class ends such work.
    Overrun,
    /// A job of a higher priority needs the space.
    Priority,
    /// The share's job, user or class holds more than its target, and a job that is worse off needs
    /// the space.
    FairShare,
    /// A needy job preempts a job that is strictly better off even afterwards.
    Defragmentation,
    /// The beneficiary has nothing, though its target is at least a process. The share's job and
    /// its side keep their whole targets. If no arrangement gives every job a process, targets thus
    /// decide which jobs go without.
    FirstShare,
    /// A gang of a peer saved up its turn, and the share's job holds more than its target. Or the
    /// share belongs to a gang that did not pay for its turn, and a peer is below its target.
    Turn,
    /// In an idle cluster: the share's side is still better off after giving an nshare of the
    /// larger of the two orders. Targets do not matter.
    Envy,
    /// In an idle cluster: the share is moved. Its beneficiary has nothing, though its target is at
    /// least a process, and the other rules alone can clear no node. The share's job gets as much
    /// elsewhere in the same cycle.
    Relocation,
}

impl VictimRule {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            VictimRule::NoLongerAllowed => "no_longer_allowed",
            VictimRule::Window => "window",
            VictimRule::ClassClosed => "class_closed",
            VictimRule::Urgent => "urgent",
            VictimRule::Overrun => "overrun",
            VictimRule::Priority => "priority",
            VictimRule::FairShare => "fair_share",
            VictimRule::Defragmentation => "defragmentation",
            VictimRule::FirstShare => "first_share",
            VictimRule::Turn => "turn",
            VictimRule::Envy => "envy",
            VictimRule::Relocation => "relocation",
        }
    }

    /// True if the rule takes something from the share's job for its beneficiary that could be taken
    /// back. A moved share is not taken: its job has as much as before. A turn is paid for. Urgent
    /// work never gives anything back.
    pub fn is_taking(self) -> bool {
        match self {
            VictimRule::NoLongerAllowed
            | VictimRule::Window
            | VictimRule::ClassClosed
            | VictimRule::Urgent
            | VictimRule::Overrun
            | VictimRule::Relocation
            | VictimRule::Turn => false,
            VictimRule::Priority
            | VictimRule::FairShare
            | VictimRule::Defragmentation
            | VictimRule::FirstShare
            | VictimRule::Envy => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_stable_codes() {
        for (rule, code) in [
            (VictimRule::NoLongerAllowed, "no_longer_allowed"),
            (VictimRule::Urgent, "urgent"),
            (VictimRule::Priority, "priority"),
            (VictimRule::FairShare, "fair_share"),
            (VictimRule::Defragmentation, "defragmentation"),
            (VictimRule::FirstShare, "first_share"),
            (VictimRule::Turn, "turn"),
            (VictimRule::Window, "window"),
            (VictimRule::ClassClosed, "class_closed"),
            (VictimRule::Overrun, "overrun"),
            (VictimRule::Envy, "envy"),
            (VictimRule::Relocation, "relocation"),
        ] {
            assert_eq!(rule.code(), code);
        }
    }
}
