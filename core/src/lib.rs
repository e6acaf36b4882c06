//! What apportion decides: a pure core without async, clocks and I/O.
//!
//! ```text
//!  converter ─► scheduler ─► engine ─► model
//!                 audit ─────► engine (its data), model
//! ```
//!
//! [`engine`] computes a schedule from a snapshot; [`scheduler`] holds the state from cycle to cycle; [`converter`] turns
//! publications into events. [`audit`] checks schedules, and shares no step with the engine. [`model`] has the words.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test's panic is its failure"))]

pub mod audit;
pub mod converter;
pub mod engine;
pub mod model;
pub mod scheduler;
