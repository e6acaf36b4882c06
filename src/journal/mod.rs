//! The journal: everything that happened to the scheduler, so that any past cycle can be computed
//! again, and a restart goes on where the last life ended.
//!
//! What is kept:
//!
//! - **Batches**: what was recorded between two cycles, in the order in which the scheduler took
//!   it, a line each. Heartbeats that say nothing leave no line; who was heard when an interval
//!   ends is told by its exceptions ([`Entry::IntervalPassed`]).
//! - **Digests**: what each cycle saw and decided, in 32 bytes ([`digest()`]).
//! - **Books**: all that the scheduler knows, every so many cycles. From there the batches lead on.
//!
//! What is written says in which version of the text it is, and has a sum beside it
//! ([`Sealed`](crate::model::Sealed)). The text is made of types of its own, so that no rename in
//! the scheduler changes what is on record.
//!
//! Pure: where batches and books are kept is the business of whoever calls.

mod clerk;
mod digest;
mod entry;
mod excerpt;
mod replay;
mod seal;
mod text;

pub use clerk::Clerk;
pub use digest::{Digest, Digests, digest};
pub use entry::Entry;
pub use excerpt::Excerpt;
pub use replay::{Replay, Trouble};
pub use seal::{Batch, Unreadable, open, open_books, seal, seal_books};

#[cfg(test)]
mod tests;
