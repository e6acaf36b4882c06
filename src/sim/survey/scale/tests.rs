//! Checks of the drawn cluster against its description, and a play of a cluster that is small
//! enough.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::*;
use crate::model::{Name, PoolIx};

const SIZE: ScaleSize = ScaleSize { nodes: 60, jobs: 50 };

fn still() -> Duration {
    Duration::ZERO
}

#[test]
fn a_large_cluster_comes_to_rest() {
    let outcome = run(SIZE, 1, FEWEST_CYCLES, &still);
    assert_eq!(outcome.findings, Vec::<String>::new());
    let ScaleFigures { preempted, last_preempting_cycle, .. } = outcome.figures;
    // Some process must have moved, or the test shows nothing.
    assert_ne!(preempted, 0);
    assert!(last_preempting_cycle.is_some_and(|cycle| cycle <= 20), "{last_preempting_cycle:?}");
    let expected = ScaleFigures {
        seed: 1,
        nodes: 60,
        jobs: 50,
        cycles: 40,
        preempted,
        last_preempting_cycle,
        audited_cycles: 2,
        ..ScaleFigures::default()
    };
    assert_eq!(outcome.figures, expected);
}

#[test]
fn the_same_seed_gives_the_same_cluster_and_another_another() {
    let play = |seed| ScaleFigures { seed: 0, ..run(SIZE, seed, 20, &still).figures };
    assert_eq!(play(3), play(3));
    assert_ne!(play(3), play(4));
}

#[test]
fn what_a_cycle_takes_is_read_from_the_clock() {
    // Every reading is a millisecond later than the reading before it, and the step grows by a
    // millisecond each time.
    let (readings, now) = (Cell::new(0), Cell::new(Duration::ZERO));
    let clock = || {
        readings.set(readings.get() + 1);
        now.set(now.get() + Duration::from_millis(readings.get()));
        now.get()
    };
    let figures = run(ScaleSize { nodes: 1, jobs: 1 }, 1, 5, &clock).figures;
    // The cycles take 2, 4, 6, 8 and 10.
    assert_eq!(figures.cycle_ms, Milliseconds { median: 6.0, max: 10.0 });
    assert_eq!((figures.cycles, figures.audited_cycles), (5, 0));
    assert_eq!(milliseconds(Vec::new()), Milliseconds::default());
}

#[test]
fn clusters_are_drawn_as_promised() {
    for size in [ScaleSize { nodes: 1, jobs: 1 }, ScaleSize { nodes: 400, jobs: 30 }, SIZE] {
        let DrawnCluster { topology, nodes, jobs } = cluster::cluster(size, 7);
        let quantum = topology.pools[PoolIx(0)].quantum;
        let orders: Vec<u64> =
            nodes.iter().map(|node| quantum.order_of_node(node.memory).0).collect();
        assert!(orders.iter().all(|order| (1..=16).contains(order)));
        let names: BTreeSet<&Name> = nodes.iter().map(|node| &node.name).collect();
        assert_eq!((count(nodes.len()), count(names.len())), (size.nodes, size.nodes));
        assert_eq!(topology.classes.len(), 4);
        assert!(jobs.iter().map(|job| job.spec.id.0).eq(1..=size.jobs));
        let users: BTreeSet<&Name> = jobs.iter().map(|job| &job.spec.user).collect();
        assert!(count(users.len()) <= size.nodes.div_ceil(10));
        let mut demanded = 0;
        for DrawnJob { spec, arrival, .. } in &jobs {
            let order = quantum.order_of_work(spec.memory).unwrap();
            assert!((1..=4).contains(&order.get()));
            assert!((1..=8).contains(arrival));
            assert!(topology.class_named(&spec.class).is_some());
            demanded += spec.facts.remaining * order.qshares().0;
        }
        assert!(orders.iter().sum::<u64>() <= demanded);
    }
}

/// The ending sees free and usable space, if the cluster has any.
#[test]
fn an_ending_is_what_is_held_and_what_is_free() {
    let DrawnCluster { topology, nodes, jobs } = cluster::cluster(SIZE, 1);
    let mut scheduler = Scheduler::new(topology, ShareId(1));
    let capacity = |ending: &FinalState| ending.nodes.iter().map(|node| node.order).sum::<u64>();
    for report in nodes {
        scheduler.record(SchedulerEvent::NodeReported(report));
    }
    for job in &jobs {
        scheduler.record(SchedulerEvent::JobArrived(job.spec.clone()));
    }
    let mut ending = ending(&scheduler.schedule());
    let held: u64 = ending.jobs.iter().map(|job| job.held * job.order).sum();
    let free: u64 = ending.nodes.iter().map(|node| node.free).sum();
    assert_eq!(held + free, capacity(&ending));
    for job in &ending.jobs {
        assert_eq!(job.shares.values().sum::<u64>(), job.held);
        assert!(job.held <= job.cap && 0 < job.cap && 0 < job.order);
    }
    assert_eq!(idle::usable_qshares(&ending), 0);
    ending.nodes[0].free = 1;
    ending.jobs[0].order = 1;
    ending.jobs[0].cap += 1;
    assert_eq!(idle::usable_qshares(&ending), 1);
}
