//! apportion: a cluster resource manager that shares memory fairly, never thrashes, and always
//! says why.
//!
//! # The onion
//!
//! ```text
//!  cli ─► daemon ─► api (access) ─► converter ─► scheduler ─► engine ─► model
//!           ├────► store ───────────────────────────────────────►│
//!           ├────► dashboard ─► api                               │
//!           └────► config ──────────────────────────────────────►│
//!  journal ─► scheduler, engine
//!  sim ─► converter, scheduler, engine      (as the daemon does, without HTTP, store or clock)
//!  bench ─► the same, timed; and the daemon, from outside
//!  agent ─► api::wire, orchestrator::wire   (on every node: says that it lives, and runs slots)
//!  slot  ─► orchestrator::wire              (in every share: runs tasks, one process each)
//!  rank  ─► orchestrator::wire, slot::wire (in a gang: starts programs of rank 0 at other ranks)
//!  orchestrator ─► api::wire, access        (campaigns of tasks; a client of the public API)
//!  grid  ─► model                           (campaigns over several clusters: predictors, router)
//! ```
//!
//! `converter`, `scheduler`, `engine`, `model` and `audit` are the crate `apportion-core`.
//!
//! # Invariants
//!
//! 1. The engine cannot fail. It returns a schedule and a report; "could not" is a line in the
//!    report.
//! 2. The engine cannot tell what time it is; nor can the scheduler.
//! 3. Equal snapshots give equal schedules. No hashing collection is iterated, no float compared,
//!    every order has an identifier as its last word.
//! 4. Only `scheduler` holds state, and only one thread holds the scheduler.
//! 5. `async` appears only in `net`, `client`, `agent`, `api`, `store`, `daemon`, `dashboard`, `demo`, `bench`,
//!    `orchestrator` (not in its `spec` and `book`) and `cli`.
//! 6. Types that cross a wire live in `api::wire` and `orchestrator::wire`, rows in `store`, files in `config`, events and
//!    state as text in `journal`. `model` types are not serializable, so that a rename breaks
//!    no client and no file.
//! 7. A schedule is stored before it is published.
//! 8. A preempted share stays on its node until the orchestrator confirms that it has exited.
//! 9. Nodes are never forgotten; they only miss heartbeats.
//! 10. Nothing is unbounded.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test's panic is its failure"))]

pub use apportion_core::{audit, converter, engine, model, scheduler};

pub mod agent;
pub mod api;
pub mod auth;
pub mod bench;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod dashboard;
pub mod demo;
pub mod grid;
pub mod journal;
pub mod net;
pub mod orchestrator;
pub mod rank;
pub mod sim;
pub mod slot;
pub mod store;
pub mod telemetry;
