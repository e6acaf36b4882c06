//! How fast it is: a cluster of any size, cycles that are timed, and the least that a cycle could
//! take.
//!
//! For whoever sizes a head node, and for whoever makes the engine faster. The schedulers are the
//! real ones; nothing in them knows that it is measured. Whoever asks hands the clock in, except for
//! the daemon, which is measured from outside, over HTTP, as strangers see it.
//!
//! ```text
//! cluster   a seed ─► nodes and jobs
//! drive     nodes and jobs ⇄ Scheduler ─► settled books
//! cycle     books in one of five situations ─► timed cycles ─► measure
//! situation books right before a cycle, for benchmarks that repeat it · parts: of the plan, one by one
//! place     requests for one share each ─► one timed cycle ─► measure
//! measure   parts of a cycle · bare: the pass below which nothing gets · audit, untimed
//! daemon    the binary, on a store that goes with it ─► publication to committed schedule
//! slot      a slot beside a loop that starts programs: starts a second, and what it costs idle
//! orchestrator  the binary, between agents and a resource manager that are simulated
//! load      the same beside a bare server: heartbeats, polls, agents, readers
//! ```

mod bare;
pub mod cluster;
pub mod cycle;
pub mod daemon;
pub mod drive;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
pub mod load;
pub mod measure;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
pub mod orchestrator;
pub mod parts;
pub mod place;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
mod process;
pub mod situation;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
pub mod slot;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
mod times;

pub use measure::{Measured, Parts};
pub use times::Spread;
