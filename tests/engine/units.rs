//! The sizes everything is reckoned in: quanta, orders, and how machines and work are rounded.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, fair, job, pool, topology};
use apportion::converter::update_from;
use apportion::model::{ClassIx, Mebibytes, Order, PoolIx, QShares, Quantum, Topology};

/// A single pool with this quantum, in GB, and a fair-share class.
fn cluster_in_quanta_of(gib: u64) -> Cluster {
    let mut topology =
        Topology { classes: vec![fair("normal", 100, UNPACED)].into(), ..topology() };
    topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes::from_gib(gib)).unwrap();
    Cluster::new(topology)
}

/// F1, F14: and nothing is smaller than what was asked for.
#[test]
fn every_size_that_is_published_is_whole_quanta() {
    let mut cluster = cluster_in_quanta_of(15);
    cluster.nodes("m1=31 m2=47 m3=79 m4=15 m5=79 m6=79");
    for (id, gib) in [(1, 14), (2, 28), (3, 31), (4, 75)] {
        cluster.arrive(job(id, &format!("user{id}"), "normal", gib));
    }
    cluster.cycles(6);
    let quantum = 15 << 10;
    let update = update_from(&cluster.view);
    for (job, gib) in update.jobs.iter().zip([14, 28, 31, 75]) {
        assert!(job.memory.0.is_multiple_of(quantum) && gib << 10 <= job.memory.0);
        for share in &job.shares {
            assert_eq!(share.memory, job.memory);
        }
    }
    assert!(update.jobs.iter().all(|job| !job.shares.is_empty()), "{}", cluster.picture());
}

/// F5, F6: work rounds up, machines round down; the design's own numbers.
#[test]
fn orders_are_those_of_the_design() {
    let mut cluster = cluster_in_quanta_of(15);
    let asked = [(14, 1), (28, 2), (30, 2), (31, 3)];
    for (gib, _) in asked {
        cluster.arrive(job(gib, "ann", "normal", gib));
    }
    cluster.nodes("a=31 b=47 c=79 d=14").cycle();
    for (gib, order) in asked {
        assert_eq!(cluster.job(gib).order.map(Order::get), Some(order), "{gib} GB of work");
    }
    let sizes: Vec<u64> = cluster.view.nodes.iter().map(|node| node.order.0).collect();
    assert_eq!(sizes, [2, 3, 5, 0]);
}

/// F3: a machine is as large as its pool's quantum makes it.
#[test]
fn every_tree_has_its_own_quantum() {
    let mut topology = Topology {
        pools: vec![
            pool("fine", None, "f1"),
            pool("coarse", None, "c1"),
            pool("inner", Some(1), "c2"),
        ]
        .into(),
        classes: vec![fair("fine", 100, UNPACED), fair("coarse", 100, UNPACED)].into(),
        ..topology()
    };
    for (pool, gib) in [(0, 10), (1, 15), (2, 15)] {
        topology.pools[PoolIx(pool)].quantum = Quantum::new(Mebibytes::from_gib(gib)).unwrap();
    }
    topology.classes[ClassIx(1)].pool = PoolIx(1);
    let mut cluster = Cluster::new(topology);
    cluster.nodes("f1=30 c1=30 c2=30");
    cluster.arrive(job(1, "ann", "fine", 10)).arrive(job(2, "ann", "coarse", 10)).cycle();
    let sizes = ["f1", "c1", "c2"].map(|node| cluster.node(node).order);
    assert_eq!(sizes, [QShares(3), QShares(2), QShares(2)]);
    assert_eq!(cluster.holdings([1, 2]), [3, 4]);
}

/// F7: two machines of 3 are no machine of 4.
#[test]
fn a_process_has_all_its_memory_on_one_node() {
    let mut cluster = cluster_in_quanta_of(1);
    cluster.nodes("m1=3 m2=3 m3=5").arrive(job(1, "ann", "normal", 4)).cycle();
    assert_eq!((cluster.nodes_of(1), cluster.node("m3").used), (vec!["m3"], QShares(4)));
}

/// F9: reserved memory comes off before rounding.
#[test]
fn reserved_memory_comes_off_every_node() {
    let mut cluster = cluster_in_quanta_of(16);
    cluster.nodes("m1=64").cycle();
    assert_eq!(cluster.node("m1").order, QShares(4));
    cluster
        .reconfigure(|topology| topology.settings.reserved_memory = Mebibytes::from_gib(1))
        .cycle();
    assert_eq!(cluster.node("m1").order, QShares(3));
    assert_eq!(cluster.report("m2", Mebibytes(512)).cycle().node("m2").order, QShares(0));
}

/// F11: also after a restart, and with any processes on it.
#[test]
fn a_node_is_as_large_as_it_last_said() {
    let mut cluster = cluster_in_quanta_of(1);
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    let sizes = [8, 2, 6].map(|gib| {
        let seen = cluster.nodes(&format!("m1={gib}")).cycle().node("m1");
        (seen.order.0, seen.used.0)
    });
    assert_eq!(sizes, [(8, 8), (2, 8), (6, 8)], "what runs stays, and nothing is free below zero");
    let mut restarted = cluster.restarted();
    restarted.nodes("m1=10").cycle();
    assert_eq!((restarted.held(1), restarted.node("m1").order.0), (10, 10));
}

/// F12: no table has to be as long as the largest job.
#[test]
fn work_larger_than_any_node_waits_beside_work_that_fits() {
    let mut cluster = cluster_in_quanta_of(1);
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1 << 20)).cycle();
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "impossible"));
    assert_eq!(cluster.arrive(job(2, "ann", "normal", 4)).cycle().held(2), 1);
}
