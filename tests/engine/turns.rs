//! Turns of gangs of fair-share work over time: each row of the table of the design, and the rules
//! around it.
//!
//! Design: requests and time, section 3.7. The cluster has twelve nodes, and most gangs need all of them.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, fair, job, topology};
use apportion::model::{
    Chunk, Elasticity, GangRules, JobFacts, JobId, JobSpec, Mebibytes, Place, ProcessLimit,
    ResourceClass, Shape, Tags, Topology,
};
use apportion::scheduler::SchedulerEvent;

/// Length of a cycle, in milliseconds.
const CYCLE: u64 = 10_000;
/// Nodes of the cluster, of 1 GB each.
const NODES: u64 = 12;
/// Farthest that a part of the time may be from what the table says, in thousandths.
const TOLERANCE: u64 = 20;

fn taking_gangs(name: &str, weight: u32) -> ResourceClass {
    let gangs = GangRules { are_allowed: true, ..GangRules::default() };
    ResourceClass { gangs, ..fair(name, weight, UNPACED) }
}

/// A cluster with these classes.
fn cluster(weights: &[(&str, u32)]) -> Cluster {
    let classes = weights.iter().map(|(name, weight)| taking_gangs(name, *weight)).collect();
    let mut cluster = Cluster::new(Topology { classes, ..topology() });
    for node in 0..NODES {
        cluster.nodes(&format!("n{node}=1"));
    }
    cluster
}

/// A gang of `count` nodes that says it runs for so many cycles.
fn gang(id: u64, user: &str, class: &str, count: u64, cycles: u64) -> JobSpec {
    let mut spec = job(id, user, class, 1);
    spec.facts.limit = ProcessLimit::Unlimited;
    let memory = Mebibytes::from_gib(1);
    spec.shape = Some(Arc::new(Shape {
        chunks: vec![Chunk { count, memory, tags: Tags::default() }],
        place: Place::Scatter,
        duration: Some(cycles * CYCLE),
        ..Shape::default()
    }));
    spec
}

/// A user who has one gang after another, each of all nodes.
struct Stream {
    user: &'static str,
    class: &'static str,
    /// Cycles that each gang runs, and cycles that it declares.
    runs: u64,
    declares: u64,
    job: u64,
    ran: u64,
    /// Cycles in which the gang held all nodes.
    total: u64,
}

fn stream(user: &'static str, class: &'static str, runs: u64) -> Stream {
    Stream { user, class, runs, declares: runs, job: 0, ran: 0, total: 0 }
}

/// Plays `streams` for so many cycles, beside a job of each of `plain` that uses all that it gets.
/// Returns the part of the time that each stream had the nodes, in thousandths.
fn parts(
    weights: &[(&str, u32)],
    streams: &mut [Stream],
    plain: &[(&str, &str)],
    cycles: u64,
) -> Vec<u64> {
    let mut cluster = cluster(weights);
    let mut next = 1;
    let mut used = 0;
    for (user, class) in plain {
        cluster.arrive(job(next, user, class, 1));
        next += 1;
    }
    for _ in 0..cycles {
        for stream in streams.iter_mut() {
            if stream.job != 0 && stream.ran < stream.runs {
                continue;
            }
            if stream.job != 0 {
                cluster.complete(stream.job);
            }
            (stream.job, stream.ran) = (next, 0);
            next += 1;
            let spec = gang(stream.job, stream.user, stream.class, NODES, stream.declares);
            cluster.arrive(spec);
        }
        cluster.confirm_exits();
        cluster.view = cluster.scheduler.schedule_with(&cluster.effort());
        for stream in streams.iter_mut() {
            let held = cluster.held(stream.job);
            assert!(held == 0 || held == NODES, "a part of a gang runs");
            stream.ran += u64::from(held == NODES);
            stream.total += u64::from(held == NODES);
        }
        used += cluster.view.jobs.iter().map(|job| job.held().0).sum::<u64>();
    }
    streams.iter().map(|stream| (stream.total * NODES * 1000).div_euclid(used)).collect()
}

fn are(parts: &[u64], expected: &[u64]) {
    for (part, expected) in parts.iter().zip(expected) {
        assert!(part.abs_diff(*expected) < TOLERANCE, "{parts:?} instead of {expected}");
    }
}

#[test]
fn a_user_of_gangs_has_its_part_beside_plain_work() {
    let alone = |plain: u32| {
        let mut streams = [stream("ann", "a", 40)];
        parts(&[("a", 100), ("b", plain)], &mut streams, &[("bob", "b")], 6_000)
    };
    are(&alone(100), &[500]);
    are(&alone(200), &[333]);
}

#[test]
fn gangs_of_all_lengths_have_equal_parts_beside_plain_work() {
    let mut streams = [stream("ann", "a", 25), stream("bob", "a", 50), stream("cid", "a", 200)];
    are(&parts(&[("a", 100)], &mut streams, &[("dan", "a")], 12_000), &[250; 3]);
}

#[test]
fn long_gangs_and_short_ones_have_their_parts() {
    let both = |long: &'static str, weights: &[(&str, u32)]| {
        let mut streams = [stream("ann", long, 400), stream("bob", "b", 20)];
        parts(weights, &mut streams, &[], 16_000)
    };
    are(&both("b", &[("b", 100)]), &[500, 500]);
    are(&both("a", &[("a", 100), ("b", 300)]), &[250, 750]);
}

#[test]
fn a_gang_that_ends_early_gets_the_rest_back() {
    let mut streams = [Stream { declares: 80, ..stream("ann", "a", 40) }];
    are(&parts(&[("a", 100), ("b", 100)], &mut streams, &[("bob", "b")], 6_000), &[500]);
}

/// A hundred gangs at once get their user no more than one after the other.
#[test]
fn many_gangs_at_once_earn_no_more_than_one_after_the_other() {
    let mut cluster = cluster(&[("a", 100)]);
    cluster.arrive(job(1, "bob", "a", 1));
    for id in 2..102 {
        cluster.arrive(gang(id, "ann", "a", NODES, 20));
    }
    let (mut ran, mut of_ann, mut of_bob) = (std::collections::BTreeMap::new(), 0, 0);
    for _ in 0..1_500 {
        cluster.confirm_exits();
        cluster.view = cluster.scheduler.schedule_with(&cluster.effort());
        of_bob += cluster.held(1);
        let running: Vec<u64> = cluster
            .view
            .jobs
            .iter()
            .filter(|job| job.held().0 == NODES && job.id != JobId(1))
            .map(|job| job.id.0)
            .collect();
        for id in running {
            of_ann += NODES;
            let ran: &mut u64 = ran.entry(id).or_default();
            *ran += 1;
            if *ran == 20 {
                cluster.complete(id);
            }
        }
    }
    are(&[(of_ann * 1000).div_euclid(of_ann + of_bob)], &[500]);
}

/// Two gangs of nine nodes of twelve: the older starts unpaid, as no other job can use the nodes. Once
/// its user has saved enough it pays, and the younger waits for the end of its turn.
#[test]
fn a_gang_that_runs_unpaid_pays_once_it_falls_due() {
    let mut cluster = cluster(&[("a", 100)]);
    cluster.arrive(gang(1, "ann", "a", 9, 20)).arrive(gang(2, "bob", "a", 9, 20)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [9, 0]);
    assert_eq!(cluster.reason(2), "earning");
    // Each earns 6 of the 9 qshares, so the other 3 are saved after half of the duration.
    cluster.cycles(25);
    assert_eq!(cluster.holdings([1, 2]), [9, 0], "{}", cluster.picture());
    cluster.cycles(10);
    assert_eq!(cluster.holdings([1, 2]), [0, 9], "the turn of the other: {}", cluster.picture());
}

/// The owner of an evolving gang asks for more: it grows at once within its fair share, and once it
/// has saved enough beyond it. It shrinks at once.
#[test]
fn an_evolving_gang_grows_in_its_turn() {
    let mut cluster = cluster(&[("a", 100)]);
    let mut spec = gang(1, "ann", "a", 1, 100);
    let shape = Arc::unwrap_or_clone(spec.shape.take().unwrap());
    spec.shape = Some(Arc::new(Shape { elasticity: Some(Elasticity::Evolving), ..shape }));
    spec.facts.limit = ProcessLimit::AtMost(1);
    let asks = |cluster: &mut Cluster, count| {
        let facts = JobFacts { limit: ProcessLimit::AtMost(count), ..spec.facts };
        cluster.record(SchedulerEvent::JobChanged { job: JobId(1), facts });
    };
    cluster.arrive(job(2, "bob", "a", 1)).arrive(spec.clone()).cycles(33);
    assert_eq!(cluster.holdings([1, 2]), [1, 11]);
    asks(&mut cluster, 6);
    cluster.cycles(3);
    assert_eq!(cluster.holdings([1, 2]), [6, 6], "within its share: {}", cluster.picture());
    asks(&mut cluster, 9);
    cluster.cycles(3);
    assert_eq!(cluster.holdings([1, 2]), [6, 6]);
    assert_eq!(cluster.reason(1), "earning");
    // It saved 5 of 6 qshares over 33 cycles, which pays for 3 more once 55 cycles are left.
    cluster.cycles(4);
    assert_eq!(cluster.holdings([1, 2]), [6, 6]);
    cluster.cycles(6);
    assert_eq!(cluster.holdings([1, 2]), [9, 3], "it has saved enough: {}", cluster.picture());
    asks(&mut cluster, 1);
    cluster.cycles(3);
    assert_eq!(cluster.holdings([1, 2]), [1, 11]);
}
