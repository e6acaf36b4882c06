//! Conservative backfill: every job has a reservation from its arrival on, which only moves ahead.
//!
//! Waiting jobs move ahead in order of submission after a job ended early, until no job can. A
//! job of a single process can gain only on nodes where something changed. Other nodes are not
//! searched.

use std::collections::{BTreeMap, BTreeSet};

use super::{BatchPlanner, BatchState};
use crate::model::Millis;
use crate::sim::joblog::profile::{BatchRequest, Placement};

/// Reservations of all waiting jobs.
#[derive(Default)]
pub(super) struct Conservative {
    /// Start and place of each waiting job, oldest first.
    reserved: BTreeMap<usize, (Millis, Placement)>,
    /// The same by start.
    by_start: BTreeSet<(Millis, usize)>,
    /// Nodes with more free memory than when reservations were last improved.
    changed: BTreeSet<usize>,
}

impl Conservative {
    fn enter(&mut self, job: usize, start: Millis, place: Placement) {
        self.by_start.insert((start, job));
        self.reserved.insert(job, (start, place));
    }

    /// Moves reservations ahead until none can move.
    fn improve(&mut self, state: &mut BatchState<'_>) {
        while !self.changed.is_empty() {
            let mut changed = std::mem::take(&mut self.changed);
            let waiting: Vec<usize> = self.reserved.keys().copied().collect();
            for job in waiting {
                self.improve_one(job, state, &mut changed);
            }
        }
    }

    /// Moves the reservation of `job` ahead if it can. The nodes that it leaves are `changed` for
    /// younger jobs of this pass, and for older ones of the next.
    fn improve_one(
        &mut self,
        job: usize,
        state: &mut BatchState<'_>,
        changed: &mut BTreeSet<usize>,
    ) {
        let Some((start, place)) = self.reserved.get(&job) else { return };
        let (start, place) = (*start, place.clone());
        if start <= state.now {
            return;
        }
        let whole = state.request(job);
        let nodes: Vec<usize> =
            whole.nodes.iter().copied().filter(|node| changed.contains(node)).collect();
        if nodes.is_empty() {
            return;
        }
        let request =
            if whole.processes == 1 { BatchRequest { nodes: &nodes, ..whole } } else { whole };
        // The job's own reservation is no obstacle.
        state.give(job, &place, start);
        let better = state.free.earliest(&request, state.now, start);
        let better = better.and_then(|at| Some((at, state.free.place(&request, at)?)));
        let Some((at, found)) = better else {
            state.take(job, &place, start);
            return;
        };
        state.take(job, &found, at);
        self.by_start.remove(&(start, job));
        self.enter(job, at, found);
        for (node, _) in place {
            changed.insert(node);
            self.changed.insert(node);
        }
    }
}

impl BatchPlanner for Conservative {
    fn arrive(&mut self, job: usize, state: &mut BatchState<'_>) {
        self.improve(state);
        let request = state.request(job);
        let Some(at) = state.free.earliest(&request, state.now, Millis::MAX) else { return };
        let Some(place) = state.free.place(&request, at) else { return };
        state.take(job, &place, at);
        self.enter(job, at, place);
    }

    fn note_early_end(&mut self, place: &Placement) {
        self.changed.extend(place.iter().map(|(node, _)| *node));
    }

    fn start(&mut self, state: &mut BatchState<'_>) -> Vec<(usize, Placement)> {
        self.improve(state);
        let mut started = Vec::new();
        while let Some((at, job)) =
            self.by_start.first().copied().filter(|(at, _)| *at <= state.now)
        {
            self.by_start.remove(&(at, job));
            if let Some((_, place)) = self.reserved.remove(&job) {
                started.push((job, place));
            }
        }
        started
    }

    fn next_start(&self) -> Option<Millis> {
        self.by_start.first().map(|(at, _)| *at)
    }
}
