//! Schedules in, publications out.

use std::num::NonZeroU64;

use super::*;
use crate::model::Mebibytes;
use crate::sim::world::SimWork;

fn orchestrator(kind: WorkKind, items: &[Millis]) -> DemoOrchestrator {
    let work = SimWork {
        name: "w".to_owned(),
        user: "ann".to_owned(),
        class: "normal".to_owned(),
        memory: Mebibytes::from_gib(28),
        threads: NonZeroU64::MIN,
        nodes: None,
        submitted: 0,
        items: items.to_vec(),
    };
    let clock = RoundClock { epoch_ms: 1_000, speed: NonZeroU64::MIN };
    let mut orchestrator =
        DemoOrchestrator::new(vec![WorkRequest { kind, submission: 1, work }], clock);
    assert_eq!(orchestrator.advance(0).submitted, [FIRST_JOB]);
    orchestrator
}

#[test]
fn a_running_job_keeps_its_number_when_more_come() {
    let mut orchestrator = orchestrator(WorkKind::Job, &[60_000]);
    let mut later = orchestrator.request(FIRST_JOB).unwrap().clone();
    later.work.submitted = 10;
    orchestrator.submit(vec![later]);
    assert_eq!(orchestrator.advance(10).submitted, [FIRST_JOB + 1]);
    let published = orchestrator.publication(1).work;
    assert_eq!(
        published.iter().map(|work| work.id).collect::<Vec<_>>(),
        [FIRST_JOB, FIRST_JOB + 1]
    );
}

/// A schedule with these shares added, and these shares removed.
fn schedule(added: &[u64], removed: &[(u64, RemovalReason)]) -> wire::Schedule {
    let node = || "n1".to_owned();
    let assigned =
        |&share: &u64| Assigned { share, node: node(), memory_mb: 1, rank: None, chunk: None };
    let taken = |&(share, reason): &(u64, RemovalReason)| wire::Removed {
        share,
        node: node(),
        purge: reason == RemovalReason::NodeDied,
        reason,
    };
    let job = wire::ScheduledJob {
        id: FIRST_JOB,
        kind: WorkKind::Job,
        refused: false,
        memory_mb: 1,
        shares: added.iter().map(assigned).collect(),
        added: added.iter().map(assigned).collect(),
        removed: removed.iter().map(taken).collect(),
        resize: None,
        start_estimate_ms: None,
        estimate_basis: None,
        reason: None,
    };
    wire::Schedule { cycle: 1, publication: None, jobs: vec![job] }
}

/// Each published process, as share and state.
fn published(orchestrator: &DemoOrchestrator) -> Vec<(u64, ProcessState)> {
    let publication = orchestrator.publication(1);
    let processes = publication.work.iter().flat_map(|work| &work.processes);
    processes.map(|process| (process.share, process.state)).collect()
}

#[test]
fn a_share_is_started_once_and_confirmed_when_gone() {
    let mut orchestrator = orchestrator(WorkKind::Job, &[10_000, 10_000]);
    assert_eq!(orchestrator.apply(&schedule(&[3], &[])).started.len(), 1);
    assert_eq!(published(&orchestrator), [(3, ProcessState::Initializing)]);
    assert_eq!(orchestrator.apply(&schedule(&[3], &[])).started, []);
    orchestrator.advance(65_000);
    assert_eq!(published(&orchestrator), [(3, ProcessState::Running)]);

    let preempted = schedule(&[], &[(3, RemovalReason::Preempted)]);
    let stopped = orchestrator.apply(&preempted).stopped;
    assert_eq!(stopped.iter().map(|stopped| stopped.lost).collect::<Vec<_>>(), [5_000]);
    assert_eq!(published(&orchestrator), [(3, ProcessState::Stopping)]);
    assert_eq!(orchestrator.apply(&preempted).stopped, []);

    orchestrator.advance(70_000);
    // Late: from before the daemon knew that it had gone.
    orchestrator.apply(&preempted);
    assert_eq!(published(&orchestrator), [(3, ProcessState::Gone)]);
    orchestrator.apply(&schedule(&[], &[]));
    assert_eq!(published(&orchestrator), []);
}

#[test]
fn a_process_on_a_dead_node_needs_no_time_to_go() {
    let mut orchestrator = orchestrator(WorkKind::Job, &[10_000]);
    orchestrator.apply(&schedule(&[3], &[]));
    orchestrator.apply(&schedule(&[4], &[(3, RemovalReason::NodeDied)]));
    assert_eq!(
        published(&orchestrator),
        [(4, ProcessState::Initializing), (3, ProcessState::Gone)]
    );
}

#[test]
fn work_that_is_done_is_published_no_more() {
    let mut orchestrator = orchestrator(WorkKind::Job, &[10_000]);
    orchestrator.apply(&schedule(&[3], &[]));
    let completed = orchestrator.advance(80_000).completed;
    assert_eq!(completed, [Completed { job: FIRST_JOB, took: 70_000 }]);
    assert_eq!(orchestrator.publication(2).work, []);
}

#[test]
fn a_service_whose_node_dies_is_over() {
    let mut orchestrator = orchestrator(WorkKind::Service, &[1_000_000]);
    orchestrator.apply(&schedule(&[3], &[]));
    orchestrator.apply(&schedule(&[], &[(3, RemovalReason::NodeDied)]));
    assert_eq!(orchestrator.publication(2).work, []);
}
