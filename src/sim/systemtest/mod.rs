//! The original's own system-test suites, replayed to completion against our scheduler.
//!
//! [`Suite::load`] reads the jobs and the fixed draws; [`run`] plays them in the model's world,
//! ten virtual seconds a cycle, and measures. MODEL sections 1 to 6, 9 and 10.

mod driver;
mod suite;

pub use suite::{Suite, SuiteNode, SuiteVariant};

use std::path::Path;
use std::time::Duration;

use self::driver::Driver;
use super::SimError;
use super::measure::RunReport;

/// A reading of a clock that never goes back; only differences count.
pub type Clock<'a> = &'a dyn Fn() -> Duration;

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// The figures.
    pub report: RunReport,
    /// The first findings of the engine's audit, as text. Empty unless something is wrong with us.
    pub findings: Vec<String>,
}

/// Replays the suite in folder `jobs` with the draws of file `draws`.
///
/// # Errors
///
/// If a file cannot be read or makes no sense, or if the run broke a rule of the model.
pub fn run_files(
    jobs: &Path,
    draws: &Path,
    variant: SuiteVariant,
    clock: Clock<'_>,
) -> Result<RunOutcome, SimError> {
    run(&Suite::load(jobs, draws, variant)?, clock)
}

/// Replays `suite`.
///
/// # Errors
///
/// If the run broke a rule of the model: then the scheduler asked for the impossible, or never
/// finishes.
pub fn run(suite: &Suite, clock: Clock<'_>) -> Result<RunOutcome, SimError> {
    let begun = clock();
    let mut outcome = Driver::new(suite, clock).run()?;
    outcome.report.wall_s = clock().saturating_sub(begun).as_secs_f64();
    Ok(outcome)
}

#[cfg(test)]
mod tests;
