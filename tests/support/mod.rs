//! Shared code of the tests: clusters in memory, daemons, agents, slots, browsers.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each group of tests uses its own part of this"
)]
#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

pub mod both;
pub mod browser;
pub mod cluster;
pub mod daemon;
pub mod diary;
pub mod faults;
pub mod fleet;
pub mod head;
pub mod history;
pub mod http;
pub mod notified;
pub mod past;
pub mod scenario_check;
pub mod script;
pub mod slot;
pub mod step;
pub mod up;
pub mod witness;
pub mod world;
