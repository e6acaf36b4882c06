//! The outer layer's pure half: matches the outside world to the scheduler, both ways.
//!
//! Inwards, two publications in a row become the events between them. Outwards, the books become
//! the update the orchestrator gets. Both are functions: no clock, no wire format, no state.

mod difference;
mod publication;
mod update;

pub use difference::events_between;
pub use publication::{CheckedPublication, JobState, LimboProcess, PublishedJob, PublishedProcess};
pub use update::{
    AssignedShare, Explanation, JobUpdate, ShareRemoval, Update, code_of, explain,
    explain_held_back, update_from, update_of,
};
