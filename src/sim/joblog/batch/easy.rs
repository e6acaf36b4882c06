//! EASY backfill: the oldest waiting job has a reservation, which younger jobs must not delay.

use super::{BatchPlanner, BatchState};
use crate::model::Millis;
use crate::sim::joblog::profile::{BatchRequest, Placement};

/// Failed requests that are kept to spare equal or larger ones a search.
const FAILURES_KEPT: usize = 16;

/// Jobs that wait, oldest first.
#[derive(Default)]
pub(super) struct Easy(Vec<usize>);

/// Requests that found no space in this pass. Space only shrinks in a pass, so requests that ask for
/// no less find none either.
#[derive(Default)]
struct FailedRequests<'a>(Vec<BatchRequest<'a>>);

impl<'a> FailedRequests<'a> {
    fn cover(&self, request: &BatchRequest<'_>) -> bool {
        self.0.iter().any(|failed| {
            failed.processes <= request.processes
                && failed.quanta <= request.quanta
                && failed.length <= request.length
                && std::ptr::eq(failed.nodes, request.nodes)
        })
    }

    fn add(&mut self, request: BatchRequest<'a>) {
        if self.0.len() < FAILURES_KEPT {
            self.0.push(request);
        }
    }
}

impl BatchPlanner for Easy {
    fn arrive(&mut self, job: usize, _: &mut BatchState<'_>) {
        self.0.push(job);
    }

    fn note_early_end(&mut self, _: &Placement) {}

    fn start(&mut self, state: &mut BatchState<'_>) -> Vec<(usize, Placement)> {
        let mut started = Vec::new();
        // Jobs that started may let the head reserve other nodes, which lets more jobs start.
        loop {
            let more = self.start_once(state);
            if more.is_empty() {
                return started;
            }
            started.extend(more);
        }
    }

    fn next_start(&self) -> Option<Millis> {
        None
    }
}

impl Easy {
    /// Goes through the queue once, with a single reservation for its head.
    fn start_once(&mut self, state: &mut BatchState<'_>) -> Vec<(usize, Placement)> {
        let mut started = Vec::new();
        // The head of the queue and the place that is reserved for it.
        let mut reserved: Option<(usize, Placement, Millis)> = None;
        let mut failed = FailedRequests::default();
        let mut waiting = Vec::new();
        for job in std::mem::take(&mut self.0) {
            let request = state.request(job);
            let place =
                if failed.cover(&request) { None } else { state.free.place(&request, state.now) };
            if let Some(place) = place {
                state.take(job, &place, state.now);
                started.push((job, place));
                continue;
            }
            failed.add(request);
            waiting.push(job);
            if reserved.is_none() {
                reserved = reserve(state, job);
            }
        }
        self.0 = waiting;
        if let Some((job, place, at)) = reserved {
            state.give(job, &place, at);
        }
        started
    }
}

/// Reserves the earliest place for the job.
fn reserve(state: &mut BatchState<'_>, job: usize) -> Option<(usize, Placement, Millis)> {
    let request = state.request(job);
    let at = state.free.earliest(&request, state.now, Millis::MAX)?;
    let place = state.free.place(&request, at)?;
    state.take(job, &place, at);
    Some((job, place, at))
}
