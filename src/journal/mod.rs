//! The journal: everything that happened to the scheduler, so that any past cycle can be computed
//! again, and a restart goes on where the last life ended.
//!
//! The journal consists of:
//!
//! - **Batches**: what was recorded between two cycles, in the order in which the scheduler took
//!   it, a line each. Heartbeats that say nothing leave no line; which nodes reported before an interval
//!   ends is written as exceptions ([`JournalEntry::IntervalPassed`]).
//! - **Digests**: what each cycle saw and decided, in 32 bytes ([`digest()`]).
//! - **Checkpoints**: all that the scheduler knows, every so many cycles. From there the batches lead on.
//!
//! Each written text carries the version of its format and a checksum
//! ([`Sealed`](crate::model::Sealed)). The text has types of its own, so that a rename in the
//! scheduler does not change the stored names.
//!
//! The module is pure: its caller stores the batches and the checkpoints.

mod digest;
mod entry;
mod excerpt;
mod journaling_scheduler;
mod replay;
mod seal;
mod text;

pub use digest::{Digest, Digests, digest};
pub use entry::JournalEntry;
pub use excerpt::Excerpt;
pub use journaling_scheduler::JournalingScheduler;
pub use replay::{Replay, ReplayError};
pub use seal::{Batch, Unreadable, open, open_checkpoint, seal, seal_checkpoint};

#[cfg(test)]
mod tests;
