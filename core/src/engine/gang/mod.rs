//! Gangs: jobs whose processes start together, or not at all.
//!
//! A gang of fixed-share work is decided by age, between single requests. It starts if all its
//! processes fit on nodes that are free, or on which work of lower priority can be preempted. If
//! not, no job loses anything for it. Meanwhile it claims nodes: younger work that stays is kept
//! off them, and work that can be preempted goes on there until the last node is free.
//!
//! Design: requests and time, sections 3.1 to 3.5; seed 003.

mod calendar;
mod claim;
mod counted_anew;
mod decide;
mod expected;
mod fit;
mod give;
mod kinds;
mod node_time;
mod packing;
mod place;
mod planner;
mod pool_supplies;
mod request;
mod shared_gangs;
mod singles;
mod supply;
#[cfg(test)]
mod tests;
mod timeline;
mod turn_choices;
mod turns;
mod urgent;
mod wait;
mod windows;

pub(super) use claim::{NodeClaims, leaves_claims, uses_claim};
pub(super) use give::cheapest_gang_for;
pub(super) use place::place_gangs;
pub(super) use planner::GangPlanner;
pub(super) use request::qshares_of_gang;
pub(super) use singles::CalendarLeaves;
pub(super) use turn_choices::TurnChoices;
pub use turns::{TurnBill, TurnIncome};
pub(super) use turns::{accounts, is_paid};
pub use urgent::{UrgentRefusal, plan_urgent};
pub(super) use wait::note_windows;

use super::draft::Draft;
use super::snapshot::Job;
use crate::model::{Elasticity, GangRules, JobIx, NodeIx, Order, Precedence, ProcessLimit, Shape};

/// A process of a gang and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Rank of the process.
    pub rank: u32,
    /// Node of the process.
    pub node: NodeIx,
    /// Size of the share. On an exclusive node the lowest rank fills the node.
    pub order: Order,
}

/// Nodes for all new processes of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GangPlan {
    /// Place of the job in the snapshot.
    pub job: JobIx,
    /// Processes, by rank.
    pub slots: Vec<Slot>,
    /// True if the space was promised before.
    pub is_promised: bool,
}

/// A gang that takes back space, as far as its rights are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taker {
    /// Precedence of the gang.
    pub priority: Precedence,
    /// True if it is fair-share work, and takes its turn among its peers.
    pub is_among_peers: bool,
}

impl Taker {
    /// The rights of the gang at `job`.
    pub(super) fn of(draft: &Draft<'_>, job: JobIx) -> Taker {
        let class = draft.class_of(job);
        Taker { priority: draft.precedence(job), is_among_peers: class.policy.is_preemptable() }
    }

    /// True if the gang may take from `job`: from lower priorities, and in its turn from peers. A
    /// gang that paid for its own turn keeps its nodes.
    pub(super) fn may_take_from(self, draft: &Draft<'_>, job: JobIx) -> bool {
        let (class, theirs) = (draft.class_of(job), draft.precedence(job));
        let is_peer = self.is_among_peers && self.priority == theirs;
        let is_unpaid =
            || !draft.jobs[job].is_due && !is_paid(draft.snapshot, &draft.job(job).gang);
        let may_go = class.policy.is_preemptable() && !draft.jobs[job].has_stepped;
        may_go && (self.priority < theirs || (is_peer && is_unpaid()))
    }
}

/// Space of a node that is kept for a waiting gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Place of the gang in the snapshot.
    pub job: JobIx,
    /// Node of the space.
    pub node: NodeIx,
    /// Amount of space, in qshares.
    pub amount: u64,
}

/// Shape of the job, if it is a gang.
pub(super) fn gang_shape(job: &Job) -> Option<&Shape> {
    job.shape.as_deref().filter(|shape| shape.is_gang())
}

/// Number of processes that the gang should have.
///
/// A gang keeps the number that it started with. The owner of an evolving gang changes it. A
/// moldable gang that waits names its maximum.
pub(super) fn processes_due(job: &Job, shape: &Shape) -> u64 {
    match (shape.elasticity, job.gang.size) {
        (Some(Elasticity::Evolving), _) => match job.facts.limit {
            ProcessLimit::AtMost(wish) => wish,
            ProcessLimit::Unlimited => shape.processes(),
            ProcessLimit::Frozen => job.nshares_held().0,
        },
        (_, Some(_)) => job.nshares_held().0,
        (_, None) => shape.processes(),
    }
}

/// The smallest number of processes at which a moldable gang starts after `failures` cycles that
/// could not start it.
///
/// Design: requests and time, section 3.7: it falls from the maximum to the minimum over the
/// patience of the class.
fn least_start(shape: &Shape, rules: &GangRules, failures: u64) -> u64 {
    let most = shape.processes();
    let least = shape.min_processes.clamp(1, most.max(1));
    let step = (most - least).checked_div(rules.patience).unwrap_or(most - least).max(1);
    least.max(most.saturating_sub(failures.saturating_mul(step)))
}
