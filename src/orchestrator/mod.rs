//! The orchestrator: campaigns of tasks, run in the shares that the resource manager gives out.
//!
//! An outer layer. It reaches the resource manager through its public API and by no other way, and
//! it reaches nodes through what their agents ask for: agents dial, the orchestrator answers.
//!
//! ```text
//!  clients, agents ─► serve ─► drive (owner thread) ─► book (pure) ◄─ spec (pure)
//!                       │        └─► store (own SQLite file)
//!                       └─► store::Reader        rm ─► resource manager
//! ```
//!
//! Words: a **campaign** is a bag of tasks with one command and one owner. A **task** is one item of
//! it. An **attempt** is one start of a task; its numbers grow. A **slot** is our process in a share;
//! it runs tasks. A **lease** is how long a slot goes on without an exchange.
//!
//! Not in this version: finalising with copies, and several clusters.

mod answers;
pub mod book;
pub mod drive;
pub mod extend;
mod hold;
pub mod meters;
pub mod retention;
pub mod rm;
pub mod run;
pub mod serve;
pub mod spec;
pub mod store;
mod way;
pub mod wire;
