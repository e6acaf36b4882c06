//! The orchestrator: runs campaigns of tasks in the shares of the resource manager.
//!
//! An outer layer. The orchestrator reaches the resource manager only through its public API. Nodes
//! call the orchestrator: agents dial, and the orchestrator answers.
//!
//! ```text
//!  clients, agents ─► serve ─► drive (owner thread) ─► book (pure) ◄─ spec (pure)
//!                       │        └─► store (own SQLite file)
//!                       └─► store::StoreReader   rm ─► resource manager
//! ```
//!
//! Words: a **campaign** is a bag of tasks with the same command and the same owner. A **task** is
//! an item of the bag. An **attempt** is a start of a task; its numbers grow. A **slot** is the
//! orchestrator's process in a share; it runs tasks. A **lease** is the time that a slot goes on
//! without an exchange.
//!
//! The `clusters` are other orchestrators: the router forwards tasks to them, by the rules of
//! [`crate::grid`].

pub mod admission;
mod answers;
pub mod book;
mod clusters;
pub mod declared;
pub mod drive;
pub mod extend;
pub mod filed;
pub mod forwarding;
mod hold;
mod hours;
pub mod house;
pub mod meters;
mod notifier;
mod resubmit;
pub mod retention;
pub mod rm;
pub mod run;
pub mod serve;
mod site_program;
pub mod spec;
pub mod store;
pub mod submit;
mod way;
pub mod wire;
