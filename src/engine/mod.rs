//! The inner layer: a pure function from what is to what should be.
//!
//! [`plan`] reads one [`Snapshot`] and returns one [`Schedule`]. It never awaits, reads a clock,
//! touches storage or fails; whatever it could not do is a line in the schedule's report.
#![doc = include_str!("README.md")]

pub mod audit;
mod cap;
mod draft;
mod entities;
mod how_much;
mod nodepool;
mod preempt;
mod reasons;
mod report;
mod rows;
mod schedule;
mod serve;
mod shares;
mod snapshot;
mod what_of;

pub use audit::audit;
pub use preempt::{MEMORY_AFTER, is_steady};
pub use report::{Account, Cap, CapBound, HeldBack, JobReport, Reason, Report, UserAccount};
pub use schedule::{Considered, Expansion, Preemption, PreemptionRule, RunnerUp, Schedule};
pub use snapshot::{Calm, Job, Machine, Promise, Share, Snapshot, Taking};

use draft::Draft;

/// Plans one cycle.
///
/// Reads like the design: count, place what fits, make room for the rest, use what is left over.
pub fn plan(snapshot: &Snapshot) -> Schedule {
    let mut draft = Draft::new(snapshot);
    how_much::how_much(&mut draft);
    preempt::shed_beyond_maximum(&mut draft);
    what_of::what_of(&mut draft);
    if draft.is_anybody_short() && draft.is_room_to_be_had() {
        preempt::make_room(&mut draft);
        what_of::fill(&mut draft);
    }
    let report = reasons::report(&draft);
    let Draft { expansions, preemptions, promises, .. } = draft;
    Schedule { expansions, preemptions, promises, report }
}
