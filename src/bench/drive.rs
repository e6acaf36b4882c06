//! Keeps a scheduler going: tells it of nodes and jobs, and what became of what it decided.
//!
//! As an orchestrator would that does everything at once: processes are shown in the cycle after
//! the one that asked for them, and with the first of them their job runs; what has to go has gone
//! by then. What would be lost with a process is drawn once and does not grow, so that a cluster
//! without news is at rest.

use std::sync::Arc;

use super::cluster::{self, Jobs, Shape};
use crate::model::{JobFacts, JobId, Millis, ShareFacts, ShareId, ShareState, Topology, count};
use crate::scheduler::{Event, JobView, Scheduler, View};

/// So many cycles in a row without any change are a cluster that has settled: it is at rest then,
/// and nothing is too dear or too early any more.
pub const STILL_CYCLES: u64 = 3;
/// So many percent of the jobs are replaced at a time.
const CHURN_PERCENT: u64 = 1;
/// What a work item takes, as far as anybody knows. Until that is known no job grows.
const TIME_PER_ITEM: Millis = 600_000;
/// What a process needs to initialize.
const INITIALIZATION: Millis = 30_000;
/// What would be lost with a process is one of so many multiples of the time below.
const INVESTMENTS: u64 = 60;
const INVESTMENT: Millis = 10_000;

/// How a ramp ended.
#[derive(Clone, Debug)]
pub struct Ramp {
    /// How many cycles it took.
    pub cycles: u64,
    /// Whether nothing changes any more.
    pub is_settled: bool,
    /// The last cycle.
    pub view: View,
}

/// Books of an empty cluster of this shape, with all its jobs waiting, and the jobs that come after
/// them.
pub fn books(shape: &Shape, topology: Topology) -> (Scheduler, Jobs) {
    let mut scheduler = Scheduler::new(topology, ShareId(1));
    for report in cluster::nodes(shape.nodes) {
        scheduler.record(Event::NodeReported(report));
    }
    let mut jobs = Jobs::of(shape);
    for _ in 0..shape.jobs {
        arrive(&mut scheduler, &mut jobs);
    }
    (scheduler, jobs)
}

/// Books of empty nodes with room for one share each, and a request for one share for each job.
pub fn single_books(shape: &Shape) -> Scheduler {
    let mut scheduler = Scheduler::new(cluster::topology(shape.quantum), ShareId(1));
    for report in cluster::equal_nodes(shape.nodes, shape.quantum.memory()) {
        scheduler.record(Event::NodeReported(report));
    }
    for spec in cluster::single_requests(shape) {
        scheduler.record(Event::JobArrived(spec));
    }
    scheduler
}

/// Books of a cluster of this shape whose nodes are filled for good, with all its jobs waiting.
pub fn waiting_books(shape: &Shape) -> Scheduler {
    let (mut scheduler, _) = books(shape, cluster::topology_with_filling(shape.quantum));
    for spec in cluster::filling(shape) {
        scheduler.record(Event::JobArrived(spec));
    }
    scheduler
}

/// 1 % of the jobs end, whichever they are, and as many others come.
pub fn replace(scheduler: &mut Scheduler, view: &View, jobs: &mut Jobs) {
    let mut left: Vec<JobId> = view.jobs.iter().map(|job| job.id).collect();
    for _ in 0..(count(&left) * CHURN_PERCENT).div_ceil(100) {
        let job = jobs.one_of(&mut left);
        scheduler.record(Event::JobCompleted { job });
        arrive(scheduler, jobs);
    }
}

/// As many jobs again come that will get nothing. The books must have classes for them.
pub fn block(scheduler: &mut Scheduler, shape: &Shape) {
    for spec in cluster::blocked_jobs(shape) {
        scheduler.record(Event::JobArrived(spec));
    }
}

/// The next job arrives.
fn arrive(scheduler: &mut Scheduler, jobs: &mut Jobs) {
    scheduler.record(Event::JobArrived(jobs.next().expect("they never end")));
}

/// Cycle after cycle until nothing changes any more, or for at most so many; at least one.
pub fn ramp(scheduler: &mut Scheduler, most: u64) -> Ramp {
    let (mut cycles, mut still) = (0, 0);
    loop {
        let view = scheduler.schedule();
        cycles += 1;
        still = if is_still(&view) { still + 1 } else { 0 };
        let is_settled = still == STILL_CYCLES;
        if is_settled || most <= cycles {
            return Ramp { cycles, is_settled, view };
        }
        confirm(scheduler, &view);
    }
}

/// Cycle after cycle until one is taken over from the last as nothing is new and time alone changes
/// nothing any more, or for at most so many; at least one.
pub fn ramp_to_quiet(scheduler: &mut Scheduler, most: u64) -> Ramp {
    let schedule_of =
        |view: &View| view.planned.as_ref().map(|planned| Arc::clone(&planned.schedule));
    let (mut cycles, mut last) = (0, None);
    loop {
        let view = scheduler.schedule();
        cycles += 1;
        let schedule = schedule_of(&view);
        let is_taken_over =
            schedule.as_ref().zip(last.as_ref()).is_some_and(|(new, last)| Arc::ptr_eq(new, last));
        if is_taken_over || most <= cycles {
            return Ramp { cycles, is_settled: is_taken_over, view };
        }
        last = schedule;
        confirm(scheduler, &view);
    }
}

/// Whether a cycle changed nothing.
fn is_still(view: &View) -> bool {
    let schedule = view.planned.as_ref().map(|planned| &planned.schedule);
    schedule.is_some_and(|schedule| {
        schedule.expansions.is_empty()
            && schedule.preemptions.is_empty()
            && schedule.promises.is_empty()
    })
}

/// Tells what became of what the last cycle decided. Without anything new it says nothing.
pub fn confirm(scheduler: &mut Scheduler, view: &View) {
    for job in view.jobs.iter() {
        confirm_job(scheduler, job);
    }
}

fn confirm_job(scheduler: &mut Scheduler, view: &JobView) {
    let job = view.id;
    if !view.facts.is_running && !view.shares.is_empty() {
        let facts = JobFacts { is_running: true, time_per_item: Some(TIME_PER_ITEM), ..view.facts };
        scheduler.record(Event::JobChanged { job, facts });
    }
    for share in &view.shares {
        let (id, node) = (share.id, share.node.clone());
        match share.state {
            ShareState::Leaving => scheduler.record(Event::ShareExited { job, share: id }),
            ShareState::Held if !share.is_seen => {
                let facts = facts_of(id);
                scheduler.record(Event::ShareSeen { job, share: id, node, facts });
            }
            ShareState::Held => {}
        }
    }
}

fn facts_of(share: ShareId) -> ShareFacts {
    ShareFacts {
        is_initialized: true,
        initialization: INITIALIZATION,
        investment: INVESTMENT * share.0.rem_euclid(INVESTMENTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mebibytes, Quantum};

    #[test]
    fn a_cluster_settles_full_and_then_nothing_changes() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = Shape { nodes: 12, jobs: 15, users: 3, quantum, seed: 1 };
        let (mut scheduler, _) = books(&shape, cluster::topology(quantum));
        let ramp = ramp(&mut scheduler, 60);
        assert!(ramp.is_settled && STILL_CYCLES < ramp.cycles, "{} cycles", ramp.cycles);
        let free: u64 = ramp.view.nodes.iter().map(|node| node.order.0 - node.used.0).sum();
        assert!(free < 4, "{free} qshares are free, and there is a job for each");
        for _ in 0..20 {
            let view = scheduler.schedule();
            assert!(is_still(&view));
            confirm(&mut scheduler, &view);
        }
    }

    #[test]
    fn a_ramp_ends_when_it_has_to() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = Shape { nodes: 12, jobs: 15, users: 3, quantum, seed: 1 };
        let (mut scheduler, _) = books(&shape, cluster::topology(quantum));
        let ramp = ramp(&mut scheduler, 2);
        assert_eq!((ramp.cycles, ramp.is_settled), (2, false));
        assert_eq!(count(ramp.view.jobs.iter()), 15);
    }
}
