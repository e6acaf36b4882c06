//! The classic policies of batch systems: FCFS, EASY backfill and conservative backfill.
//!
//! All three know each node exactly, take jobs in order of submission and preempt nothing. EASY:
//! D. Lifka, "The ANL/IBM SP scheduling system", 1995. Conservative: A. Mu'alem and D. Feitelson,
//! "Utilization, predictability, workloads, and user runtime estimates", 2001.

mod conservative;
mod easy;
mod first_come;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::cluster::ReplayCluster;
use super::outcome::{JobRun, ReplayOutcome};
use super::profile::{BatchRequest, FreeProfile, Placement};
use super::requests::ReplayJob;
use crate::model::{Millis, Steps};
use conservative::Conservative;
use easy::Easy;
use first_come::FirstCome;

/// Order in which waiting jobs start.
pub(super) trait BatchPlanner {
    /// Takes in a job that arrived, by its index.
    fn arrive(&mut self, job: usize, state: &mut BatchState<'_>);

    /// Notes that memory is free on these nodes earlier than planned.
    fn note_early_end(&mut self, place: &Placement);

    /// Starts what can start now: each job that is returned has its place.
    fn start(&mut self, state: &mut BatchState<'_>) -> Vec<(usize, Placement)>;

    /// The next moment at which a job starts though nothing arrives or ends.
    fn next_start(&self) -> Option<Millis>;
}

/// State that planners share: the jobs, the clock, and the free memory.
pub(super) struct BatchState<'a> {
    cluster: &'a ReplayCluster,
    jobs: &'a [ReplayJob],
    pub now: Millis,
    /// Free memory, as far as running jobs and reservations take none. A running job has its memory
    /// for the requested time.
    pub free: FreeProfile,
}

impl<'a> BatchState<'a> {
    /// The request of the job at `ix`.
    pub fn request(&self, ix: usize) -> BatchRequest<'a> {
        let job = &self.jobs[ix];
        BatchRequest {
            processes: job.processes,
            quanta: job.quanta,
            length: job.declared,
            nodes: &self.cluster.classes[job.class].nodes,
        }
    }

    /// Takes the memory of the job at `ix` from `from` on, for its requested time.
    pub fn take(&mut self, ix: usize, place: &Placement, from: Millis) {
        let job = &self.jobs[ix];
        self.free.take(place, job.quanta, from, from.saturating_add(job.declared));
    }

    /// Gives it back.
    pub fn give(&mut self, ix: usize, place: &Placement, from: Millis) {
        let job = &self.jobs[ix];
        self.free.give(place, job.quanta, from, from.saturating_add(job.declared));
    }
}

/// Plays all jobs under FCFS.
pub(super) fn first_come(
    cluster: &ReplayCluster,
    jobs: &[ReplayJob],
    steps: &Steps,
) -> ReplayOutcome {
    play(cluster, jobs, FirstCome::default(), steps)
}

/// Plays all jobs under EASY backfill.
pub(super) fn easy(cluster: &ReplayCluster, jobs: &[ReplayJob], steps: &Steps) -> ReplayOutcome {
    play(cluster, jobs, Easy::default(), steps)
}

/// Plays all jobs under conservative backfill.
pub(super) fn conservative(
    cluster: &ReplayCluster,
    jobs: &[ReplayJob],
    steps: &Steps,
) -> ReplayOutcome {
    play(cluster, jobs, Conservative::default(), steps)
}

/// Plays all jobs, from event to event. A job that could never start is passed over.
fn play(
    cluster: &ReplayCluster,
    jobs: &[ReplayJob],
    mut planner: impl BatchPlanner,
    steps: &Steps,
) -> ReplayOutcome {
    let free = FreeProfile::new(cluster.nodes.iter().map(|node| node.quanta));
    let mut state = BatchState { cluster, jobs, now: 0, free };
    let mut arrivals =
        jobs.iter().enumerate().filter(|(_, job)| job.never.is_none()).map(|(ix, _)| ix).peekable();
    // Ends of running jobs: when, and the index of the run.
    let mut ends: BTreeSet<(Millis, usize)> = BTreeSet::new();
    let mut outcome = ReplayOutcome::default();
    loop {
        let arrival = arrivals.peek().map(|ix| jobs[*ix].submitted);
        let end = ends.first().map(|(at, _)| *at);
        let next = [arrival, end, planner.next_start()].into_iter().flatten().min();
        let Some(next) = next else { return outcome };
        state.now = next;
        state.free.forget_before(next);
        while let Some((_, run)) = ends.first().copied().filter(|(at, _)| *at <= next) {
            ends.pop_first();
            end_run(&mut state, &outcome.runs[run], &mut planner);
            steps.take();
        }
        while let Some(ix) = arrivals.next_if(|ix| jobs[*ix].submitted <= next) {
            planner.arrive(ix, &mut state);
        }
        for (job, place) in planner.start(&mut state) {
            let end = next.saturating_add(jobs[job].runs);
            ends.insert((end, outcome.runs.len()));
            outcome.runs.push(JobRun { job, start: next, end, is_lost: false, place });
        }
    }
}

/// Gives back the rest of the requested time of a job that ended.
fn end_run(state: &mut BatchState<'_>, run: &JobRun, planner: &mut impl BatchPlanner) {
    let job = &state.jobs[run.job];
    let planned = run.start.saturating_add(job.declared);
    if run.end < planned {
        state.free.give(&run.place, job.quanta, run.end, planned);
        planner.note_early_end(&run.place);
    }
}
