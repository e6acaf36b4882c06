//! Progress of a cycle's plan, and the limit of its searches.
//!
//! The cost of all other phases grows with the number of jobs and nodes. Searching for space may
//! cost their product, so it is limited. The limit is in steps and not in time: equal cycles end at
//! the same step.

use std::cell::Cell;

use crate::model::Steps;

/// Most search steps of a cycle: a second or two, and more than any cycle in a real log took.
const SEARCH_LIMIT: u64 = 4_000_000;

/// Jobs, nodes and search steps for each reported step.
const TOLD_EVERY: u64 = 256;

/// Work limit and step counters of a cycle.
#[derive(Clone, Debug)]
pub struct Effort {
    steps: Steps,
    limit: u64,
    searched: Cell<u64>,
    /// Steps other than search steps.
    done: Cell<u64>,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort::told(Steps::default())
    }
}

impl Effort {
    /// The default limit; progress is reported to `steps`.
    pub fn told(steps: Steps) -> Effort {
        Effort { steps, limit: SEARCH_LIMIT, searched: Cell::new(0), done: Cell::new(0) }
    }

    /// Replaces the search limit by `limit` steps.
    #[must_use]
    pub fn searching(self, limit: u64) -> Effort {
        Effort { limit, ..self }
    }

    /// Doubles the search limit for each of `cycles` idle cycles, in which no job had any news. In
    /// an idle cluster no job waits for the outcome. Once a cycle has searched for every job, the
    /// cluster is settled.
    #[must_use]
    pub(super) fn at_rest(&self, cycles: u64) -> Effort {
        let times = u32::try_from(cycles).ok().and_then(|cycles| 1_u64.checked_shl(cycles));
        Effort { limit: self.limit.saturating_mul(times.unwrap_or(u64::MAX)), ..self.clone() }
    }

    /// A phase is over.
    pub fn end_phase(&self) {
        self.steps.take();
    }

    /// A job or node was dealt with.
    pub(super) fn step(&self) {
        self.tell_one_of_many(&self.done);
    }

    /// Counts a share or node examined in search of space.
    pub(super) fn search(&self) {
        self.tell_one_of_many(&self.searched);
    }

    fn tell_one_of_many(&self, counter: &Cell<u64>) {
        let count = counter.get() + 1;
        counter.set(count);
        if count.is_multiple_of(TOLD_EVERY) {
            self.steps.take();
        }
    }

    /// True if the search limit of this cycle is reached.
    pub(super) fn is_spent(&self) -> bool {
        self.limit <= self.searched.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_rest_the_limit_doubles_with_every_cycle() {
        let limit = |cycles| Effort::default().searching(3).at_rest(cycles).limit;
        let limits = [limit(0), limit(1), limit(4), limit(63), limit(64), limit(u64::MAX)];
        assert_eq!(limits, [3, 6, 48, u64::MAX, u64::MAX, u64::MAX]);
    }

    #[test]
    fn a_search_ends_at_its_limit_and_is_told_now_and_then() {
        let steps = Steps::default();
        let effort = Effort::told(steps.clone()).searching(1000);
        for _ in 0..999 {
            effort.search();
        }
        assert!(!effort.is_spent());
        effort.search();
        assert!(effort.is_spent());
        assert_eq!(steps.taken(), 3, "768 and not yet 1024");
        effort.end_phase();
        assert_eq!(steps.taken(), 4);
        for _ in 0..TOLD_EVERY {
            effort.step();
        }
        assert_eq!(steps.taken(), 5);
    }
}
