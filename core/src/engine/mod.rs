//! The inner layer: a pure function from the state of the cluster to a schedule.
//!
//! [`plan`] reads a [`Snapshot`] and returns a [`CycleSchedule`]. It never awaits, reads a clock,
//! touches storage or fails; work that it could not do is a line in the schedule's report.
#![doc = include_str!("README.md")]

mod bisect;
mod capacity;
mod csr;
mod demand;
mod draft;
mod effort;
mod fairness_tree;
mod gang;
mod job_draft;
mod phases;
mod place;
mod precedence;
mod preempt;
mod reasons;
mod report;
mod schedule;
mod share_table;
mod sizes;
mod snapshot;
mod target;
mod wait_reason;
mod water_filling;

pub use effort::Effort;
pub use gang::{TurnBill, TurnIncome, UrgentRefusal, plan_urgent};
pub use phases::{IdealCluster, Planning};
pub use preempt::{MEMORY_AFTER, is_steady};
pub use report::{
    Cap, CapBound, ClaimedSpace, Declined, EstimateBasis, JobAccount, JobReport, Report,
    StartEstimate, UserAccount,
};
pub use schedule::{Alternatives, CycleSchedule, Expansion, NextBest, Preemption, VictimRule};
pub use sizes::ADAPTING;
pub use snapshot::{
    GangProgress, Job, Node, NodeWindow, PaidTurn, Promise, Quiescence, Share, Snapshot, Taking,
    TurnAccount,
};
pub use wait_reason::{GangLack, GangNodes, WaitReason, exactly};

/// Plans a cycle.
///
/// Follows the design: compute targets, place what fits, make space for the rest, use the free
/// space that is left.
pub fn plan(snapshot: &Snapshot) -> CycleSchedule {
    plan_with(snapshot, &Effort::default())
}

/// Plans a cycle within the limits of `effort`.
pub fn plan_with(snapshot: &Snapshot, effort: &Effort) -> CycleSchedule {
    let mut planning = Planning::with(snapshot, effort);
    planning.count();
    planning.place();
    planning.make_space();
    planning.end()
}
