//! Drives a scheduler: reports nodes and jobs, and the effects of its decisions.
//!
//! Acts as an orchestrator without delays. Processes appear in the cycle after the request, and
//! with its first process a job runs; terminated processes have exited by then. The loss of a
//! process is drawn once and does not grow, so that a cluster without news is quiet.

use std::sync::Arc;

use super::cluster::{self, ClusterShape, JobStream};
use crate::model::{JobFacts, JobId, Millis, ShareFacts, ShareId, SharePhase, Topology, count};
use crate::scheduler::{JobView, Scheduler, SchedulerEvent, View};

/// Successive cycles without any change after which the cluster counts as settled: then time alone
/// changes nothing either.
pub const STILL_CYCLES: u64 = 3;
/// Percentage of the jobs that are replaced at a time.
const CHURN_PERCENT: u64 = 1;
/// Time of a work item in milliseconds. Until the scheduler knows it, no job grows.
const TIME_PER_ITEM: Millis = 600_000;
/// Initialization time of a process in milliseconds.
const INITIALIZATION: Millis = 30_000;
/// Number of distinct losses: the loss of a process is a multiple of `INVESTMENT`, below this
/// factor.
const INVESTMENTS: u64 = 60;
const INVESTMENT: Millis = 10_000;

/// End of a ramp.
#[derive(Clone, Debug)]
pub struct Ramp {
    /// Number of cycles.
    pub cycles: u64,
    /// True if nothing changes any more.
    pub is_settled: bool,
    /// The last cycle.
    pub view: View,
}

/// Scheduler with an empty cluster of this shape and all its jobs waiting, and the jobs that come
/// after them.
pub fn loaded(shape: &ClusterShape, topology: Topology) -> (Scheduler, JobStream) {
    let mut scheduler = Scheduler::new(topology, ShareId(1));
    for report in cluster::nodes(shape.nodes) {
        scheduler.record(SchedulerEvent::NodeReported(report));
    }
    let mut jobs = JobStream::of(shape);
    for _ in 0..shape.jobs {
        arrive(&mut scheduler, &mut jobs);
    }
    (scheduler, jobs)
}

/// Scheduler with empty nodes that fit a single share each, and a request for a share for each job.
pub fn single_jobs(shape: &ClusterShape) -> Scheduler {
    let mut scheduler = Scheduler::new(cluster::topology(shape.quantum), ShareId(1));
    for report in cluster::equal_nodes(shape.nodes, shape.quantum.memory()) {
        scheduler.record(SchedulerEvent::NodeReported(report));
    }
    for spec in cluster::single_requests(shape) {
        scheduler.record(SchedulerEvent::JobArrived(spec));
    }
    scheduler
}

/// Scheduler with a cluster of this shape whose nodes are filled for good, and all its jobs
/// waiting.
pub fn waiting_jobs(shape: &ClusterShape) -> Scheduler {
    let (mut scheduler, _) = loaded(shape, cluster::topology_with_filling(shape.quantum));
    for spec in cluster::filling(shape) {
        scheduler.record(SchedulerEvent::JobArrived(spec));
    }
    scheduler
}

/// Replaces 1 % of the jobs, drawn at random.
pub fn replace(scheduler: &mut Scheduler, view: &View, jobs: &mut JobStream) {
    let mut left: Vec<JobId> = view.jobs.iter().map(|job| job.id).collect();
    for _ in 0..(count(&left) * CHURN_PERCENT).div_ceil(100) {
        let job = jobs.one_of(&mut left);
        scheduler.record(SchedulerEvent::JobCompleted { job });
        arrive(scheduler, jobs);
    }
}

/// Adds as many jobs again that will get nothing. The scheduler must have classes for them.
pub fn block(scheduler: &mut Scheduler, shape: &ClusterShape) {
    for spec in cluster::blocked_jobs(shape) {
        scheduler.record(SchedulerEvent::JobArrived(spec));
    }
}

/// The next job arrives.
fn arrive(scheduler: &mut Scheduler, jobs: &mut JobStream) {
    scheduler.record(SchedulerEvent::JobArrived(jobs.next().expect("they never end")));
}

/// Runs cycles until nothing changes any more, or until `most` cycles have run; at least 1.
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

/// Runs cycles until the scheduler reuses the last schedule, or until `most` cycles have run; at
/// least 1. A schedule is reused if nothing is new and time alone changes nothing any more.
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

/// True if a cycle changed nothing.
fn is_still(view: &View) -> bool {
    let schedule = view.planned.as_ref().map(|planned| &planned.schedule);
    schedule.is_some_and(|schedule| {
        schedule.expansions.is_empty()
            && schedule.preemptions.is_empty()
            && schedule.promises.is_empty()
    })
}

/// Reports the effects of the last cycle's decisions; nothing if there are none.
pub fn confirm(scheduler: &mut Scheduler, view: &View) {
    for job in view.jobs.iter() {
        confirm_job(scheduler, job);
    }
}

fn confirm_job(scheduler: &mut Scheduler, view: &JobView) {
    let job = view.id;
    if !view.facts.is_running && !view.shares.is_empty() {
        let facts = JobFacts { is_running: true, time_per_item: Some(TIME_PER_ITEM), ..view.facts };
        scheduler.record(SchedulerEvent::JobChanged { job, facts });
    }
    for share in &view.shares {
        let (id, node) = (share.id, share.node.clone());
        match share.state {
            SharePhase::Leaving => {
                scheduler.record(SchedulerEvent::ShareExited { job, share: id });
            }
            SharePhase::Held if !share.is_seen => {
                let facts = facts_of(id);
                scheduler.record(SchedulerEvent::ShareSeen { job, share: id, node, facts });
            }
            SharePhase::Held => {}
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
        let shape = ClusterShape { nodes: 12, jobs: 15, users: 3, quantum, seed: 1 };
        let (mut scheduler, _) = loaded(&shape, cluster::topology(quantum));
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
        let shape = ClusterShape { nodes: 12, jobs: 15, users: 3, quantum, seed: 1 };
        let (mut scheduler, _) = loaded(&shape, cluster::topology(quantum));
        let ramp = ramp(&mut scheduler, 2);
        assert_eq!((ramp.cycles, ramp.is_settled), (2, false));
        assert_eq!(count(ramp.view.jobs.iter()), 15);
    }
}
