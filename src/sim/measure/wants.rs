//! Processes that a job could use, by the model's own rule. This is the yardstick for every
//! scheduler, independent of the scheduler's own rule. MODEL section 7.

use std::num::NonZeroU64;

use crate::model::{Millis, ceil_div, floor_div};
use crate::sim::world::INITIALIZATION;

/// Time past initialization that the prediction covers, in milliseconds: the fudge and one
/// publication.
const LOOK_AHEAD: Millis = 130_000;

/// Processes a job may have before its first process has initialized.
const INITIALIZATION_CAP: u64 = 2;

/// A job at the tell step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Items not finished, including the items in progress.
    pub remaining: u64,
    /// Items that a process works on at a time.
    pub threads: NonZeroU64,
    /// The most processes it may have, if there is such a limit.
    pub nodes: Option<u64>,
    /// True if a process of the job ever initialized.
    pub is_running: bool,
    /// Mean time of an item; 0 while unknown.
    pub time_per_item: Millis,
    /// Processes held.
    pub held: u64,
    /// True if a process that the job holds has initialized.
    pub has_initialized: bool,
}

impl Need {
    /// Processes for all its work at once, up to its limit.
    pub fn useful(&self) -> u64 {
        self.at_most_nodes(ceil_div(self.remaining, self.threads))
    }

    /// Processes that the job could use, independent of the scheduler's decisions so far.
    pub fn demand(&self) -> u64 {
        if self.is_running { self.useful() } else { self.useful().min(INITIALIZATION_CAP) }
    }

    /// Processes it could use now, growth being paced.
    pub fn cap(&self) -> u64 {
        let base = self.at_most_nodes(ceil_div(self.remaining, self.threads).max(self.held));
        let time_per_item = NonZeroU64::new(self.time_per_item).filter(|_| self.is_running);
        let Some(time_per_item) = time_per_item else {
            return base.min(INITIALIZATION_CAP);
        };
        let predicted = self.predicted(time_per_item);
        let potential = if predicted < base { predicted.max(self.held) } else { base };
        if self.held == 0 { base.min(INITIALIZATION_CAP) } else { potential.min(2 * self.held) }
    }

    /// Processes for the items that will be left when new processes could begin.
    fn predicted(&self, time_per_item: NonZeroU64) -> u64 {
        let initialization = if self.has_initialized { INITIALIZATION } else { 0 };
        let thread_time = (initialization + LOOK_AHEAD) * self.held * self.threads.get();
        // Rounded to the nearest, halves up: floor((2a + b) / 2b).
        let twice =
            NonZeroU64::new(2 * time_per_item.get()).expect("twice a positive number is positive");
        let done_by_then = floor_div(2 * thread_time + time_per_item.get(), twice);
        let processes = ceil_div(self.remaining.saturating_sub(done_by_then), self.threads);
        if processes == 0 { self.held } else { processes }
    }

    fn at_most_nodes(&self, processes: u64) -> u64 {
        self.nodes.map_or(processes, |nodes| processes.min(nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Need = Need {
        remaining: 400,
        threads: NonZeroU64::new(4).unwrap(),
        nodes: None,
        is_running: false,
        time_per_item: 0,
        held: 0,
        has_initialized: false,
    };

    #[test]
    fn before_initialization_two_are_enough() {
        assert_eq!((FRESH.cap(), FRESH.demand()), (2, 2));
        let single = Need { nodes: Some(1), ..FRESH };
        assert_eq!((single.cap(), single.demand()), (1, 1));
    }

    #[test]
    fn a_running_job_may_double() {
        let running = Need {
            is_running: true,
            has_initialized: true,
            time_per_item: 100_000,
            held: 3,
            ..FRESH
        };
        // In 190 s three processes of four threads finish 22.8 items of 100 s: 377 are left for 95.
        assert_eq!((running.cap(), running.demand()), (6, 100));
        let lost_all = Need { held: 0, has_initialized: false, ..running };
        assert_eq!((lost_all.cap(), lost_all.demand()), (2, 100));
    }

    #[test]
    fn prediction_slows_growth_but_takes_nothing() {
        let ending = Need {
            is_running: true,
            has_initialized: true,
            time_per_item: 100_000,
            held: 5,
            remaining: 48,
            ..FRESH
        };
        // 12 processes for all of it, but in 190 s five finish 38, and 10 are left for 3.
        assert_eq!(ending.cap(), 5);
        // One process finishes 7.6 items, rounded 8, and 40 are left for 10 processes: doubling is
        // the bound.
        assert_eq!(Need { held: 1, ..ending }.cap(), 2);
        // No item would be left.
        assert_eq!(Need { time_per_item: 1_000, ..ending }.cap(), 5);
    }

    /// The time is known from items in progress while no process held has initialized any more.
    #[test]
    fn prediction_without_an_initialized_process_looks_less_far() {
        let need =
            Need { is_running: true, time_per_item: 100_000, held: 4, remaining: 40, ..FRESH };
        // 130 s * 16 threads / 100 s = 20.8, rounded 21: 19 left for 5 of at most 8.
        assert_eq!(need.cap(), 5);
    }
}
