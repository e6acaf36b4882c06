//! Work that runs longer than it declared, in classes that end such work.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single, topology};
use crate::support::diary::Diary;
use apportion::model::{
    Chunk, ClassIx, ClassPolicy, GangRules, JobId, JobKind, JobSpec, JobTimes, Mebibytes, Millis,
    Place, ProcessLimit, Shape, Tags, Topology,
};
use apportion::scheduler::{EventEffect, Removal, SchedulerEvent};

const MINUTE: Millis = 60_000;

/// Two nodes of 4 GB, a class that ends work after its declared time, and a class that does not.
fn cluster() -> Cluster {
    let gangs = GangRules { are_allowed: true, ..GangRules::default() };
    let mut strict = class("strict", ClassPolicy::FixedShare, 5, UNPACED);
    strict.gangs = GangRules { ends_overruns: true, ..gangs };
    let mut patient = class("patient", ClassPolicy::FixedShare, 6, UNPACED);
    patient.gangs = gangs;
    let classes = vec![strict, patient, fair("fair", 100, UNPACED)];
    let mut cluster = Cluster::new(Topology { classes: classes.into(), ..topology() });
    cluster.diary = Some(Diary::of(&cluster.scheduler));
    cluster.nodes("a=4 b=4");
    cluster
}

fn timed(spec: JobSpec, minutes: u64) -> JobSpec {
    let shape = spec.shape.as_deref().cloned().unwrap_or_default();
    let shape = Shape { duration: Some(minutes * MINUTE), ..shape };
    JobSpec { shape: Some(Arc::new(shape)), ..spec }
}

/// A gang of whole nodes that declares so many minutes.
fn gang(id: u64, class: &str, nodes: u64, minutes: u64) -> JobSpec {
    let mut spec = job(id, "ann", class, 4);
    spec.facts.remaining = nodes;
    spec.facts.limit = ProcessLimit::AtMost(nodes);
    let chunk = Chunk { count: nodes, memory: Mebibytes::from_gib(4), tags: Tags::default() };
    let shape = Shape { chunks: vec![chunk], place: Place::Scatter, ..Shape::default() };
    spec.shape = Some(Arc::new(shape));
    timed(spec, minutes)
}

fn cycle_at(cluster: &mut Cluster, minute: u64) {
    cluster.record(SchedulerEvent::TimeIs { now: minute * MINUTE });
    cluster.cycle();
}

/// Expected start in minutes.
fn estimate(cluster: &Cluster, id: u64) -> Option<u64> {
    Some(cluster.job(id).start_estimate?.at.div_euclid(MINUTE))
}

/// Reasons for which the shares of a job leave.
fn removals(cluster: &Cluster, id: u64) -> Vec<Option<Removal>> {
    cluster.job(id).shares.iter().map(|share| share.removal).collect()
}

#[test]
fn gang_beyond_its_declared_end_is_over() {
    let mut cluster = cluster();
    cluster.arrive(gang(1, "strict", 2, 10));
    cluster.arrive(gang(2, "strict", 1, 5));
    cycle_at(&mut cluster, 1);
    for minute in [2, 10] {
        cycle_at(&mut cluster, minute);
        assert_eq!((cluster.held(1), estimate(&cluster, 2)), (2, Some(11)), "minute {minute}");
        cluster.resume();
    }
    cycle_at(&mut cluster, 11);
    assert_eq!(cluster.held(1), 0);
    assert_eq!(removals(&cluster, 1), [Some(Removal::Overrun); 2], "the whole gang goes");
    assert_eq!(cluster.reason(1), "overrun");
    // Its processes are gone in the next cycle, and it does not start again.
    for minute in 12..15 {
        cluster.resume();
        cycle_at(&mut cluster, minute);
        assert_eq!(cluster.holdings([1, 2]), [0, 1], "minute {minute}");
        assert_eq!((cluster.reason(1), cluster.job(1).shares.len()), ("overrun", 0));
    }
    // A longer time comes too late.
    let times = JobTimes { duration: Some(90 * MINUTE), ..JobTimes::default() };
    cluster.record(SchedulerEvent::JobRetimed { job: JobId(1), times });
    cluster.complete(2);
    cycle_at(&mut cluster, 20);
    cycle_at(&mut cluster, 21);
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "overrun"));
    cluster.diary.take().unwrap().replay(0).unwrap();
}

#[test]
fn longer_time_declared_before_the_end_counts() {
    let mut cluster = cluster();
    cluster.arrive(gang(1, "strict", 1, 10));
    cycle_at(&mut cluster, 1);
    let times = JobTimes { duration: Some(20 * MINUTE), ..JobTimes::default() };
    cluster.record(SchedulerEvent::JobRetimed { job: JobId(1), times });
    cycle_at(&mut cluster, 15);
    assert_eq!(cluster.held(1), 1);
    cycle_at(&mut cluster, 21);
    assert_eq!(cluster.held(1), 0);
}

/// Processes that need not start together, a service, and work of the class that waits.
#[test]
fn all_work_of_the_class_ends_and_other_work_goes_on() {
    let mut cluster = cluster();
    let mut plain = job(1, "ann", "strict", 1);
    plain.facts.limit = ProcessLimit::AtMost(3);
    cluster.arrive(timed(plain, 5));
    cluster.arrive(timed(single(2, "ann", "strict", 1, JobKind::Service), 6));
    cluster.arrive(timed(single(3, "ann", "patient", 1, JobKind::Service), 5));
    cluster.arrive(single(4, "ann", "strict", 1, JobKind::Service));
    cluster.arrive(timed(job(5, "ann", "fair", 1), 1));
    cycle_at(&mut cluster, 1);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [3, 1, 1, 1]);
    cycle_at(&mut cluster, 6);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [0, 1, 1, 1]);
    cycle_at(&mut cluster, 7);
    cluster.cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [0, 0, 1, 1], "the last declares no time");
    assert_eq!([1, 2].map(|id| cluster.reason(id)), ["overrun"; 2]);
    assert!(0 < cluster.held(5), "work that can be preempted has no declared end");
    cluster.diary.take().unwrap().replay(0).unwrap();
}

/// Nothing waits and nothing happens, so the end alone is news.
#[test]
fn end_of_the_declared_time_is_news() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| {
        topology.classes[ClassIx(0)].gangs.default_duration = Some(5 * MINUTE);
    });
    let is_needed = |cluster: &Cluster| cluster.scheduler.needs_time();
    assert!(!is_needed(&cluster));
    cluster.arrive(single(1, "ann", "strict", 1, JobKind::ArbitraryProcess));
    assert!(is_needed(&cluster), "its class declares a time for it");
    cycle_at(&mut cluster, 1);
    while cluster.scheduler.view().cycle < 40 {
        cluster.cycle();
    }
    let news =
        |cluster: &mut Cluster, now| cluster.scheduler.record(SchedulerEvent::TimeIs { now });
    assert_eq!(news(&mut cluster, 6 * MINUTE - 1), EventEffect::Routine);
    assert_eq!(news(&mut cluster, 6 * MINUTE), EventEffect::News);
    cluster.cycle();
    assert_eq!(removals(&cluster, 1), [Some(Removal::Overrun)]);
}

/// Work runs on in a class that waits; another configuration ends it at once.
#[test]
fn class_that_ends_overruns_from_now_on_ends_work() {
    let mut cluster = cluster();
    cluster.arrive(gang(1, "patient", 1, 5));
    cluster.arrive(single(2, "ann", "patient", 1, JobKind::Service));
    cycle_at(&mut cluster, 1);
    cycle_at(&mut cluster, 30);
    assert_eq!(cluster.holdings([1, 2]), [1, 1]);
    cluster.reconfigure(|topology| topology.classes[ClassIx(1)].gangs.ends_overruns = true);
    cycle_at(&mut cluster, 31);
    assert_eq!(cluster.holdings([1, 2]), [0, 1]);
    cluster.diary.take().unwrap().replay(0).unwrap();
}

/// Shares that run since before time mattered count from the first time that is known.
#[test]
fn work_without_known_start_counts_from_the_first_time() {
    let mut cluster = cluster();
    cluster.arrive(single(1, "ann", "strict", 1, JobKind::Service));
    cluster.cycles(2);
    cluster.reconfigure(|topology| {
        topology.classes[ClassIx(0)].gangs.max_duration = Some(5 * MINUTE);
    });
    cycle_at(&mut cluster, 100);
    cycle_at(&mut cluster, 104);
    assert_eq!(cluster.held(1), 1);
    cycle_at(&mut cluster, 105);
    assert_eq!(removals(&cluster, 1), [Some(Removal::Overrun)]);
}
