//! The same scheduler in virtual time: recorded scenarios, the original's system-test suites, and
//! a survey of small saturated clusters.
//!
//! The module has no HTTP, no store and no clock of its own. A caller that measures planning time
//! passes a clock in. Everything is deterministic.
//!
//! ```text
//! recorded    a scenario file ─► events ─► Scheduler ─► what each cycle decided
//! systemtest  a suite ─► world ⇄ Scheduler ─► measure ─► report
//! survey      a seed ─► scenarios ─► recorded ─► who envies whom at the end
//! joblog      a cluster's own past ─► three classic policies, and Scheduler ─► waits, side by side
//! scale       a seed ─► one large cluster ⇄ Scheduler ─► does it come to rest
//! ```
//!
//! [`world`] knows nothing of schedulers, so that it can be driven from elsewhere too.
//!
//! The model is `systemtest-v1`, written down in `MODEL.md` beside the suites ("MODEL" below).

mod error;
pub mod joblog;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
pub mod measure;
pub mod recorded;
pub mod survey;
pub mod systemtest;
pub mod world;

pub use error::{SimError, Violation};

/// A length as a number of the kind that everything here is counted in.
fn count(length: usize) -> u64 {
    u64::try_from(length).expect("a length fits in 64 bits")
}
