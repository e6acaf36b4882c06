//! The outer layer's pure half: matches the outside world to the scheduler, both ways.
//!
//! Inwards, two successive publications become the events between them. Outwards, the scheduler's
//! view becomes the update for the orchestrator. Both are functions: no clock, no wire format, no
//! state.

mod difference;
mod gang_words;
mod publication;
mod update;

pub use difference::events_between;
pub use gang_words::lack_words;
pub use publication::{CheckedPublication, JobState, LimboProcess, PublishedJob, PublishedProcess};
pub use update::{
    AssignedShare, Explanation, JobUpdate, ShareRemoval, Update, code_of, explain,
    explain_held_back, explain_job, update_from, update_of,
};
