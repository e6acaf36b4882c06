//! The inner layer: a pure function from what is to what should be.
//!
//! [`plan`] reads a [`Snapshot`] and returns a [`Schedule`]. It never awaits, reads a clock,
//! touches storage or fails; work that it could not do is a line in the schedule's report.
#![doc = include_str!("README.md")]

pub mod audit;
mod cap;
mod draft;
mod effort;
mod entities;
mod how_much;
mod nodepool;
mod phases;
mod preempt;
mod reasons;
mod report;
mod rows;
mod schedule;
mod serve;
mod shares;
mod snapshot;
mod what_of;

pub use audit::{audit, audit_with};
pub use effort::Effort;
pub use phases::{IdealCluster, Planning};
pub use preempt::{MEMORY_AFTER, is_steady};
pub use report::{
    Account, Cap, CapBound, HeldBack, JobReport, Reason, Report, UserAccount, exactly,
};
pub use schedule::{Considered, Expansion, Preemption, PreemptionRule, RunnerUp, Schedule};
pub use snapshot::{Calm, Job, Machine, Promise, Share, Snapshot, Taking};

/// Plans a cycle.
///
/// Reads like the design: count, place what fits, make room for the rest, use what is left over.
pub fn plan(snapshot: &Snapshot) -> Schedule {
    plan_with(snapshot, &Effort::default())
}

/// The same, with so much `effort`.
pub fn plan_with(snapshot: &Snapshot, effort: &Effort) -> Schedule {
    let mut planning = Planning::with(snapshot, effort);
    planning.count();
    planning.place();
    planning.make_room();
    planning.end()
}
