//! Benchmarks: a cluster of any size, timed cycles, and the lower bound of a cycle's duration.
//!
//! Made for operators who size a head node and for developers of the engine. The schedulers are the
//! real schedulers; nothing in them knows that it is measured. The caller passes the clock in. The
//! daemon is an exception: it is measured from outside, over HTTP, as a client sees it.
//!
//! ```text
//! cluster   a seed ─► nodes and jobs
//! drive     nodes and jobs ⇄ Scheduler ─► a settled scheduler
//! cycle     a scheduler in one of five situations ─► timed cycles ─► measure
//! gangs     plans of clusters with gangs of the kinds that cost most ─► bare, audit
//! situation a scheduler right before a cycle, for benchmarks that repeat it · parts: the parts of the plan
//! place     requests for one share each ─► one timed cycle ─► measure
//! measure   parts of a cycle · bare: the pass that is the lower bound · audit, untimed
//! daemon    the binary, on a store that goes with it ─► publication to committed schedule
//! slot      a slot beside a loop that starts programs: starts a second, and its cost when idle
//! orchestrator  the binary, between agents and a resource manager that are simulated
//! grid      passes of the router over many clusters and campaigns, without requests
//! load      the same beside a bare server: heartbeats, polls, agents, readers
//! ```

mod bare;
pub mod cluster;
pub mod cycle;
pub mod daemon;
pub mod drive;
pub mod gangs;
pub mod grid;
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
pub use times::DurationSpread;
