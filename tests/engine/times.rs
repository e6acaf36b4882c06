//! Times of known work that change: the next cycle plans with them, and so does a restart.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single, topology};
use crate::support::diary::Diary;
use apportion::model::{
    Chunk, ClassIx, ClassPolicy, GangRules, JobId, JobKind, JobSpec, JobTimes, Mebibytes, Millis,
    Place, ProcessLimit, ResourceClass, Shape, Tags, Topology,
};
use apportion::scheduler::{EventEffect, SchedulerEvent};

const MINUTE: Millis = 60_000;

/// Two nodes of 4 GB and a class of gangs, of 30 minutes at most.
fn cluster() -> Cluster {
    let mut fixed = class("fixed", ClassPolicy::FixedShare, 5, UNPACED);
    let most = Some(30 * MINUTE);
    fixed.gangs = GangRules { are_allowed: true, max_duration: most, ..GangRules::default() };
    let mut cluster = Cluster::new(Topology { classes: vec![fixed].into(), ..topology() });
    cluster.diary = Some(Diary::of(&cluster.scheduler));
    cluster.nodes("a=4 b=4");
    cluster
}

/// A gang of whole nodes, and its times in minutes.
fn gang(cluster: &mut Cluster, id: u64, nodes: u64, duration: u64) {
    let mut spec = job(id, "ann", "fixed", 4);
    spec.facts.remaining = nodes;
    spec.facts.limit = ProcessLimit::AtMost(nodes);
    let memory = Mebibytes::from_gib(4);
    let chunk = Chunk { count: nodes, memory, tags: Tags::default() };
    spec.shape = Some(Arc::new(Shape {
        chunks: vec![chunk],
        place: Place::Scatter,
        duration: Some(duration * MINUTE),
        ..Shape::default()
    }));
    cluster.arrive(spec);
}

fn cycle_at(cluster: &mut Cluster, minute: u64) {
    cluster.record(SchedulerEvent::TimeIs { now: minute * MINUTE });
    cluster.cycle();
}

/// Times in minutes: how long the job runs, its earliest start, its deadline.
fn retime(cluster: &mut Cluster, id: u64, times: [Option<u64>; 3]) {
    let [duration, not_before, deadline] =
        times.map(|minutes| minutes.map(|minutes| minutes * MINUTE));
    let times = JobTimes { duration, not_before, deadline };
    cluster.record(SchedulerEvent::JobRetimed { job: JobId(id), times });
}

/// Expected start in minutes.
fn estimate(cluster: &Cluster, id: u64) -> Option<u64> {
    let estimate = cluster.job(id).start_estimate?;
    Some(estimate.at.div_euclid(MINUTE))
}

#[test]
fn changed_times_move_what_waits_in_the_next_cycle() {
    let mut cluster = cluster();
    gang(&mut cluster, 1, 2, 10);
    gang(&mut cluster, 2, 1, 5);
    cycle_at(&mut cluster, 1);
    assert_eq!((cluster.held(1), estimate(&cluster, 2)), (2, Some(11)));
    // Job, its times, and the expected start and the reason of job 2.
    let cases = [
        (1, [Some(20), None, None], Some(21), "gang_waits"),
        (1, [Some(6), None, None], Some(7), "gang_waits"),
        (2, [Some(5), Some(15), None], Some(15), "too_early"),
        (2, [Some(5), None, Some(10)], None, "deadline_unreachable"),
        (2, [Some(3), None, Some(10)], Some(7), "gang_waits"),
        (2, [None, None, None], Some(7), "gang_waits"),
        // Never started any more by its class, which has a longest duration.
        (2, [Some(31), None, None], None, "refused"),
        (2, [Some(5), None, None], Some(7), "gang_waits"),
    ];
    for (minute, (id, times, start, reason)) in (2..).zip(cases) {
        retime(&mut cluster, id, times);
        // The second cycle is that of a scheduler that was started again.
        for _ in 0..2 {
            cycle_at(&mut cluster, 2);
            let found = (estimate(&cluster, 2), cluster.reason(2));
            assert_eq!(found, (start, reason), "{minute}: job {id} {times:?}");
            cluster.resume();
        }
    }
    cluster.diary.take().unwrap().replay(0).unwrap();
}

/// No cycle has to be planned for deadlines that can no longer be met, until the running gang runs
/// longer than it declared.
#[test]
fn a_deadline_that_is_past_lets_cycles_be_quiet() {
    let mut cluster = cluster();
    gang(&mut cluster, 1, 2, 10);
    gang(&mut cluster, 2, 1, 5);
    let mut single = job(3, "ann", "fixed", 4);
    single.shape = Some(Arc::new(Shape { duration: Some(5 * MINUTE), ..Shape::default() }));
    cluster.arrive(single);
    for id in [2, 3] {
        retime(&mut cluster, id, [Some(5), None, Some(4)]);
    }
    cycle_at(&mut cluster, 1);
    let valid_until = cluster.view.planned.as_deref().unwrap().schedule.valid_until;
    for id in [2, 3] {
        assert_eq!(cluster.reason(id), "deadline_unreachable");
    }
    assert_eq!((cluster.held(1), valid_until), (2, Some(11 * MINUTE + 1)));
}

/// A length that is declared late counts from then on, where no time was told before.
#[test]
fn a_length_declared_while_it_runs_counts_from_then() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.classes[ClassIx(0)].gangs.max_duration = None);
    let mut spec = job(1, "ann", "fixed", 4);
    spec.facts.limit = ProcessLimit::AtMost(2);
    cluster.arrive(spec);
    cluster.cycles(2);
    assert!(!cluster.scheduler.needs_time());
    retime(&mut cluster, 1, [Some(10), None, None]);
    assert!(cluster.scheduler.needs_time());
    gang(&mut cluster, 2, 1, 5);
    cycle_at(&mut cluster, 100);
    assert_eq!((cluster.held(1), estimate(&cluster, 2)), (2, Some(110)));
    retime(&mut cluster, 1, [None, None, None]);
    cycle_at(&mut cluster, 101);
    assert_eq!(estimate(&cluster, 2), None, "its end is not known");
    cluster.diary.take().unwrap().replay(0).unwrap();
}

/// The same times again, and times of unknown work, change nothing.
#[test]
fn equal_times_and_unknown_work_change_nothing() {
    let mut cluster = cluster();
    gang(&mut cluster, 1, 2, 10);
    cycle_at(&mut cluster, 1);
    let before = cluster.scheduler.state();
    retime(&mut cluster, 1, [Some(10), None, None]);
    retime(&mut cluster, 9, [Some(10), None, None]);
    assert_eq!(cluster.scheduler.state(), before);
}

/// A class of fair-share work beside the class of gangs.
fn with_fair() -> Cluster {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| {
        let gangs = GangRules { are_allowed: true, ..GangRules::default() };
        topology.classes.push(ResourceClass { gangs, ..fair("fair", 100, UNPACED) });
    });
    cluster
}

/// A job whose owner wants it to start at `minute` or later.
fn not_before(spec: JobSpec, minute: u64) -> JobSpec {
    let shape = spec.shape.as_deref().cloned().unwrap_or_default();
    let shape = Shape { not_before: Some(minute * MINUTE), ..shape };
    JobSpec { shape: Some(Arc::new(shape)), ..spec }
}

/// Requests of all kinds: fair-share work singly, with sizes, and as a gang; fixed-share work as a gang,
/// singly, and as a service.
#[test]
fn no_job_starts_before_its_earliest_start() {
    let mut cluster = with_fair();
    let plain = |id, class| {
        let mut spec = job(id, "ann", class, 1);
        spec.facts.limit = ProcessLimit::AtMost(1);
        not_before(spec, 5)
    };
    let sized = |id| {
        let mut spec = plain(id, "fair");
        spec.facts.limit = ProcessLimit::AtMost(2);
        let shape = spec.shape.as_deref().cloned().unwrap();
        let shape = Shape { min_processes: 2, ..shape };
        JobSpec { shape: Some(Arc::new(shape)), ..spec }
    };
    let whole = |id, class| {
        let chunk = Chunk { count: 1, memory: Mebibytes::from_gib(1), tags: Tags::default() };
        let mut spec = job(id, "bob", class, 1);
        (spec.facts.remaining, spec.facts.limit) = (1, ProcessLimit::AtMost(1));
        spec.shape = Some(Arc::new(Shape {
            chunks: vec![chunk],
            duration: Some(MINUTE),
            ..Shape::default()
        }));
        not_before(spec, 5)
    };
    cluster.arrive(plain(1, "fair")).arrive(sized(2)).arrive(whole(3, "fair"));
    cluster.arrive(plain(4, "fixed")).arrive(whole(5, "fixed"));
    cluster.arrive(not_before(single(6, "ann", "fixed", 1, JobKind::Service), 5));
    let all = [1, 2, 3, 4, 5, 6];
    for minute in [1, 4] {
        cycle_at(&mut cluster, minute);
        assert_eq!(cluster.holdings(all), [0; 6], "minute {minute}");
        assert_eq!(all.map(|id| cluster.reason(id)), ["too_early"; 6], "minute {minute}");
        cluster.resume();
    }
    cycle_at(&mut cluster, 5);
    assert_eq!(cluster.holdings(all), [1, 2, 1, 1, 1, 1]);
    cluster.diary.take().unwrap().replay(0).unwrap();
}

/// A later start does not stop work that runs, and keeps it from growing.
#[test]
fn work_that_runs_is_not_touched_by_a_later_start() {
    let mut cluster = with_fair();
    let mut spec = job(1, "ann", "fair", 1);
    spec.facts.limit = ProcessLimit::AtMost(2);
    cluster.arrive(spec);
    cycle_at(&mut cluster, 1);
    retime(&mut cluster, 1, [None, Some(9), None]);
    cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(4));
    cycle_at(&mut cluster, 2);
    assert_eq!((cluster.held(1), cluster.reason(1)), (2, "too_early"));
    cycle_at(&mut cluster, 9);
    assert_eq!(cluster.held(1), 4);
    cluster.diary.take().unwrap().replay(0).unwrap();
}

/// Nothing else happens, so the moment alone is news.
#[test]
fn earliest_start_is_news() {
    let mut cluster = with_fair();
    cluster.arrive(not_before(job(1, "ann", "fair", 1), 60));
    cycle_at(&mut cluster, 1);
    cluster.cycles(40);
    let news =
        |cluster: &mut Cluster, now| cluster.scheduler.record(SchedulerEvent::TimeIs { now });
    assert_eq!(news(&mut cluster, 60 * MINUTE - 1), EventEffect::Routine);
    assert_eq!(news(&mut cluster, 60 * MINUTE), EventEffect::News);
    cluster.cycle();
    assert_eq!(cluster.held(1), 8);
}

/// A reservation that is named, or missing, and a deadline have no effect on fair-share work.
#[test]
fn reservation_and_deadline_do_not_concern_fair_share_work() {
    let mut cluster = with_fair();
    let mut spec = job(1, "ann", "fair", 1);
    spec.shape = Some(Arc::new(Shape {
        deadline: Some(2 * MINUTE),
        duration: Some(5 * MINUTE),
        reservation: Some("r1".into()),
        ..Shape::default()
    }));
    cluster.arrive(spec);
    cycle_at(&mut cluster, 1);
    assert_eq!(cluster.held(1), 8);
    cycle_at(&mut cluster, 10);
    assert_eq!(cluster.held(1), 8);
}
