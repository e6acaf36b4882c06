//! State of a scheduler right before a cycle: the start of benchmarks that repeat a cycle.
//!
//! Each situation stresses another part of the engine. A burst counts and places; a quiet cycle
//! counts and searches for free space in vain; churn also preempts; blocked jobs mostly need
//! reasons. [`PlanPart`](super::parts::PlanPart) is such a part by itself.

use super::cluster::{self, ClusterShape, JobStream};
use super::drive::{self, Ramp};
use crate::converter::CheckedPublication;
use crate::engine::Snapshot;
use crate::model::JobSpec;
use crate::scheduler::{Scheduler, View};

/// Enough cycles for a cluster to settle that is small enough to be repeated many times.
const RAMP_CYCLES: u64 = 100;

/// Name of a situation, and the function that builds its scheduler.
pub type Situation = (&'static str, fn(&ClusterShape) -> Scheduler);

/// All of them.
pub const SITUATIONS: [Situation; 5] = [
    ("burst", burst),
    ("quiet", |shape| settled(shape).0),
    ("churn", churned),
    ("blocked", blocked),
    ("place", drive::single_jobs),
];

/// All jobs have arrived, and nothing has been planned.
fn burst(shape: &ClusterShape) -> Scheduler {
    drive::loaded(shape, cluster::topology(shape.quantum)).0
}

/// Builds a cluster in which nothing changes any more, with the jobs that would come next and the
/// last view.
pub fn settled(shape: &ClusterShape) -> (Scheduler, JobStream, View) {
    // The classes of blocked jobs have no effect while there are no such jobs.
    let topology = cluster::topology_with_queue(shape.quantum);
    let (mut scheduler, jobs) = drive::loaded(shape, topology);
    let Ramp { view, .. } = drive::ramp(&mut scheduler, RAMP_CYCLES);
    (scheduler, jobs, view)
}

/// A hundredth of the jobs has just been replaced.
fn churned(shape: &ClusterShape) -> Scheduler {
    let (mut scheduler, mut jobs, view) = settled(shape);
    drive::replace(&mut scheduler, &view, &mut jobs);
    scheduler
}

/// Twice the jobs: the later half has just arrived, and will get nothing.
fn blocked(shape: &ClusterShape) -> Scheduler {
    let (mut scheduler, _, _) = settled(shape);
    drive::block(&mut scheduler, shape);
    scheduler
}

/// Snapshot that the engine gets in the next cycle of this scheduler.
///
/// # Panics
///
/// Never: a cycle leaves its plan.
pub fn next_snapshot(mut scheduler: Scheduler) -> Snapshot {
    let planned = scheduler.schedule().planned.expect("a cycle has run");
    planned.snapshot.clone()
}

/// Two publications in a row: all jobs run, and then a hundredth of the jobs is replaced.
pub fn publications(shape: &ClusterShape) -> [CheckedPublication; 2] {
    let (_, mut jobs, view) = settled(shape);
    let mut specs: Vec<JobSpec> =
        (0..shape.jobs).zip(JobStream::of(shape)).map(|(_, spec)| spec).collect();
    let before = cluster::publication(1, &specs, &view);
    for (spec, new) in specs.iter_mut().step_by(100).zip(&mut jobs) {
        *spec = new;
    }
    [before, cluster::publication(2, &specs, &view)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::audit;
    use crate::converter::events_between;
    use crate::engine::plan;
    use crate::model::{Mebibytes, Quantum, count};
    use crate::scheduler::SchedulerEvent;

    fn shape() -> ClusterShape {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        ClusterShape { nodes: 12, jobs: 20, users: 2, quantum, seed: 1 }
    }

    #[test]
    fn every_situation_leads_to_a_cycle_that_is_sound() {
        for (name, scheduler) in SITUATIONS {
            let snapshot = next_snapshot(scheduler(&shape()));
            assert_eq!(audit(&snapshot, &plan(&snapshot)), [], "{name}");
        }
    }

    #[test]
    fn one_job_of_a_hundred_is_another_in_the_second_publication() {
        let [before, after] = publications(&shape());
        let events = events_between(Some(&before), &after);
        let is_arrival = |event: &&SchedulerEvent| matches!(event, SchedulerEvent::JobArrived(_));
        assert_eq!(count(events.iter().filter(is_arrival)), 1);
        assert_eq!(events.len(), 2);
    }
}
