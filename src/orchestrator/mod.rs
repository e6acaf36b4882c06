//! The orchestrator: campaigns of tasks, run in the shares that the resource manager gives out.
//!
//! An outer layer. It reaches the resource manager through its public API and by no other way, and
//! it reaches nodes through what their agents ask for: agents dial, the orchestrator answers.

mod answers;
pub mod book;
pub mod drive;
pub mod rm;
pub mod run;
pub mod serve;
pub mod spec;
pub mod store;
pub mod wire;
