//! Mean time between two interruptions of a task, for the period of checkpoints.
//!
//! Counted over all attempts that ended, over restarts of the orchestrator. A preemption, a node that was
//! varied off and a loss are interruptions; the failure of a program is none.

use super::Book;
use crate::orchestrator::wire::{Reason, TaskResult};

/// Time that counts as passed without an interruption before the first attempt: a day, in milliseconds. The
/// mean is right to it while there are few attempts.
const PRIOR_MS: u64 = 86_400_000;

/// Time in attempts, and their interruptions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interruptions {
    /// Time of all attempts together, in milliseconds.
    passed_ms: u64,
    count: u64,
}

impl Interruptions {
    /// The time and the count on record.
    pub fn stored((passed_ms, count): (u64, u64)) -> Interruptions {
        Interruptions { passed_ms, count }
    }

    /// The time and the count to store.
    pub fn stores(&self) -> (u64, u64) {
        (self.passed_ms, self.count)
    }

    /// Counts the end of an attempt.
    pub fn add(&mut self, result: &TaskResult) {
        self.passed_ms = self.passed_ms.saturating_add(result.ms);
        let is_interruption = matches!(
            result.why,
            Reason::Preempted | Reason::VariedOff | Reason::Lost | Reason::NodeKiller
        );
        self.count += u64::from(is_interruption);
    }

    /// Mean time between two interruptions, in milliseconds.
    pub fn mean_ms(&self) -> u64 {
        let passed_ms = self.passed_ms.saturating_add(PRIOR_MS);
        passed_ms.checked_div(self.count + 1).unwrap_or(passed_ms)
    }
}

impl Book {
    /// Time in ended attempts, in milliseconds, and their interruptions.
    pub fn interruptions(&self) -> (u64, u64) {
        self.interruptions.stores()
    }

    /// Mean time between two interruptions of a task, in milliseconds.
    pub fn interruption_ms(&self) -> u64 {
        self.interruptions.mean_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_shorten_their_mean_and_failures_do_not() {
        let end = |why, hours: u64| TaskResult {
            ms: hours * 3_600_000,
            ..super::super::tests::result(why)
        };
        let mut seen = Interruptions::default();
        assert_eq!(seen.mean_ms(), PRIOR_MS);
        seen.add(&end(Reason::Exit, 24));
        assert_eq!(seen.mean_ms(), 2 * PRIOR_MS);
        seen.add(&end(Reason::Preempted, 0));
        seen.add(&end(Reason::Lost, 0));
        seen.add(&end(Reason::VariedOff, 0));
        assert_eq!(seen.mean_ms(), 43_200_000, "48 hours over three interruptions and one to come");
    }
}
