//! First come, first served: no job starts before an older job.

use std::collections::VecDeque;

use super::{BatchPlanner, BatchState};
use crate::model::Millis;
use crate::sim::joblog::profile::Placement;

/// Jobs that wait, oldest first.
#[derive(Default)]
pub(super) struct FirstCome(VecDeque<usize>);

impl BatchPlanner for FirstCome {
    fn arrive(&mut self, job: usize, _: &mut BatchState<'_>) {
        self.0.push_back(job);
    }

    fn note_early_end(&mut self, _: &Placement) {}

    fn start(&mut self, state: &mut BatchState<'_>) -> Vec<(usize, Placement)> {
        let mut started = Vec::new();
        while let Some(&job) = self.0.front() {
            let Some(place) = state.free.place(&state.request(job), state.now) else { break };
            state.take(job, &place, state.now);
            started.push((job, place));
            self.0.pop_front();
        }
        started
    }

    fn next_start(&self) -> Option<Millis> {
        None
    }
}
