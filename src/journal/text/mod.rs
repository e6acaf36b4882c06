//! Entries and checkpoints as written: types of their own, which define all stored names in a
//! single place.
//!
//! Later versions read the written text. A new field therefore needs a default, and no field is
//! renamed or removed. An incompatible form gets another number (`VERSION` in `seal.rs`). The
//! snapshots beside this file show all of it.

mod calendar;
mod checkpoint;
mod line;
mod shape;
mod topology;
mod urgent;
mod work;

pub use checkpoint::CheckpointText;
pub use line::Line;
