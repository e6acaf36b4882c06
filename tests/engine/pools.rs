//! Nodepools: who may go where, in which order pools are searched, and what a tree shares.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, pool, single, topology};
use apportion::model::{ClassPolicy, JobKind, PoolIx, ProcessLimit, ResourceClass, Topology};

fn in_pool(mut class: ResourceClass, pool: usize) -> ResourceClass {
    class.pool = PoolIx(pool);
    class
}

/// Four nested pools, each with a node of 4 GB: `a` in pool 0 to `d` in pool 3.
fn nested(classes: Vec<ResourceClass>) -> Cluster {
    let pools = vec![
        pool("top", None, "a"),
        pool("second", Some(0), "b"),
        pool("third", Some(1), "c"),
        pool("fourth", Some(2), "d"),
    ];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("a=4 b=4 c=4 d=4");
    cluster
}

/// F102, F106, F112: fair-share work goes to its own pool and down, at any depth; never up.
#[test]
fn fair_share_work_goes_down_the_tree_and_never_up() {
    let reach = |pool| {
        let mut cluster = nested(vec![in_pool(fair("normal", 100, UNPACED), pool)]);
        cluster.arrive(job(1, "ann", "normal", 4)).cycle();
        cluster.nodes_of(1).concat()
    };
    assert_eq!([0, 1, 2, 3].map(reach), ["abcd", "bcd", "cd", "d"]);
}

/// F106: its own pool first, then further and further down.
#[test]
fn the_own_pool_is_filled_before_those_below_it() {
    let mut cluster = nested(vec![fair("normal", 100, UNPACED)]);
    let mut reached = Vec::new();
    for limit in 1..=4 {
        let mut limited = job(limit, "ann", "normal", 4);
        limited.facts.limit = ProcessLimit::AtMost(1);
        cluster.arrive(limited).cycle();
        reached.push(cluster.nodes_of(limit).concat());
    }
    assert_eq!(reached, ["a", "b", "c", "d"]);
}

/// F107, F112: work that cannot be preempted waits for its own pool, even if other pools have free
/// space.
#[test]
fn work_that_stays_never_leaves_its_pool() {
    let classes = vec![
        in_pool(class("reserve", ClassPolicy::Reserve, 1, UNPACED), 1),
        in_pool(class("fixed", ClassPolicy::FixedShare, 5, UNPACED), 1),
    ];
    let mut cluster = nested(classes);
    cluster.arrive(single(1, "ann", "fixed", 3, JobKind::Service));
    cluster.arrive(single(2, "ann", "fixed", 3, JobKind::ArbitraryProcess)).cycle();
    assert_eq!((cluster.nodes_of(1), cluster.held(2)), (vec!["b"], 0));
    assert_eq!(cluster.reason(2), "nothing_left");
    cluster.arrive(single(3, "ann", "reserve", 4, JobKind::Reservation)).cycles(2);
    assert_eq!(cluster.reason(3), "nothing_left");
    cluster.complete(1).complete(2).cycle();
    assert_eq!(cluster.nodes_of(3), ["b"]);
}

/// F105: siblings are searched by their search order, not by name or place in the file.
#[test]
fn siblings_are_searched_in_their_order() {
    let mut pools = vec![pool("top", None, "t")];
    for (name, search_order) in [("x", 30), ("y", 10), ("z", 20)] {
        pools.push(pool(name, Some(0), name));
        pools.last_mut().unwrap().search_order = search_order;
    }
    let classes = vec![fair("normal", 100, UNPACED)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("t=1 x=1 y=1 z=1");
    let mut reached = Vec::new();
    for id in 1..=4 {
        let mut limited = job(id, "ann", "normal", 1);
        limited.facts.limit = ProcessLimit::AtMost(1);
        cluster.arrive(limited).cycle();
        reached.push(cluster.nodes_of(id).concat());
    }
    assert_eq!(reached, ["t", "y", "z", "x"]);
}

/// F69, F104: events in a tree have no effect on another tree.
#[test]
fn trees_share_nothing() {
    let pools = vec![pool("one", None, "a"), pool("other", None, "b"), pool("in", Some(1), "c")];
    let classes = vec![fair("here", 1, UNPACED), in_pool(fair("there", 1000, UNPACED), 1)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("a=4 b=4 c=4").arrive(job(1, "ann", "here", 1)).cycle();
    assert_eq!(cluster.nodes_of(1), ["a"; 4], "no spill");
    for id in 2..=9 {
        cluster.arrive(job(id, "bob", "there", 1));
    }
    cluster.cycles(2);
    assert_eq!((cluster.held(1), cluster.job(1).pure_fair_share.0), (4, 4));
    assert_eq!((2..=9).map(|id| cluster.held(id)).sum::<u64>(), 8);
}

/// F114: a pool with no nodes, and a pool that no class uses, are pools like any other.
#[test]
fn empty_pools_are_legal() {
    let pools = vec![
        pool("empty", None, ""),
        pool("unused", None, "u1"),
        pool("below", Some(0), "b1"),
        pool("void", Some(2), ""),
    ];
    let classes = vec![fair("normal", 100, UNPACED), in_pool(fair("void", 100, UNPACED), 3)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.arrive(job(1, "ann", "normal", 1)).arrive(job(2, "ann", "void", 1)).cycle();
    cluster.nodes("u1=4 b1=2").cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [2, 0]);
    assert_eq!([cluster.reason(1), cluster.reason(2)], ["fair_share_used", "impossible"]);
    assert_eq!(cluster.node("u1").used.0, 0);
}

/// F110, F148: a process counted in a pool is not counted again above it: the sum of all counts is
/// the cluster.
#[test]
fn the_counts_of_a_tree_add_up_to_what_it_has() {
    for depth in 0..4 {
        let classes =
            vec![fair("above", 100, UNPACED), in_pool(fair("below", 100, UNPACED), depth)];
        let mut cluster = nested(classes);
        cluster.arrive(job(1, "ann", "above", 1)).arrive(job(2, "bob", "below", 1)).cycle();
        let targets = [1, 2].map(|id| cluster.job(id).target.0);
        assert_eq!(targets.iter().sum::<u64>(), 16, "{targets:?}");
        let below: u64 = 4 * (4 - u64::try_from(depth).unwrap());
        assert_eq!(targets[1], below.min(8), "a half, where its pools have that much");
        assert_eq!(cluster.cycles(3).holdings([1, 2]), targets);
    }
}

/// F113, L8, G9, D11: what a class has in any depth is gone for worse priorities.
#[test]
fn what_is_counted_at_any_depth_is_gone_for_worse_priorities() {
    for depth in 0..4 {
        let classes = vec![
            in_pool(class("urgent", ClassPolicy::FairShare { weight: 1 }, 1, UNPACED), depth),
            fair("normal", 100, UNPACED),
        ];
        let mut cluster = nested(classes);
        cluster.arrive(job(1, "ann", "urgent", 1)).arrive(job(2, "bob", "normal", 1)).cycle();
        let urgent = 4 * (4 - u64::try_from(depth).unwrap());
        assert_eq!(cluster.job(1).target.0, urgent);
        assert_eq!(cluster.job(2).target.0, 16 - urgent);
        assert_eq!(cluster.cycles(2).holdings([1, 2]), [urgent, 16 - urgent]);
    }
}

/// F108, F109, F184, D1: in the contested pool squatters go, not residents. The beneficiary gets
/// its target, with nothing left idle.
#[test]
fn squatters_go_before_residents() {
    let classes = vec![fair("wide", 100, UNPACED), in_pool(fair("deep", 100, UNPACED), 3)];
    let mut cluster = nested(classes);
    let mut resident = job(1, "ann", "deep", 1);
    resident.facts.limit = ProcessLimit::AtMost(2);
    cluster.arrive(resident).cycle().arrive(job(2, "bob", "wide", 1)).cycle();
    assert_eq!(cluster.on("d"), [1, 1, 2, 2]);
    // The residents have nothing invested, the squatters much: they go all the same.
    cluster.invest(2, 1_000_000).arrive(job(3, "cid", "deep", 1)).cycles(5);
    assert_eq!(cluster.on("d"), [1, 1, 3, 3], "{}", cluster.picture());
    assert_eq!(cluster.holdings([1, 2, 3]), [2, 12, 2]);
}

/// F109, D1: also where residents would be cheaper to lose and are above their own count.
#[test]
fn cheap_residents_stay_while_there_are_squatters() {
    let pools = vec![pool("top", None, "a"), pool("deep", Some(0), "d")];
    let urgent = class("urgent", ClassPolicy::FairShare { weight: 100 }, 2, UNPACED);
    let classes = vec![
        fair("wide", 100, UNPACED),
        in_pool(fair("deep", 100, UNPACED), 1),
        in_pool(urgent, 1),
    ];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    let limited = |id, user, class, limit| {
        let mut spec = job(id, user, class, 1);
        spec.facts.limit = ProcessLimit::AtMost(limit);
        spec
    };
    cluster.nodes("a=4 d=8").arrive(limited(1, "ann", "deep", 6)).cycle();
    cluster.arrive(job(2, "bob", "wide", 1)).cycle();
    assert_eq!(cluster.on("d"), [1, 1, 1, 1, 1, 1, 2, 2]);
    cluster.invest(2, 1_000_000).arrive(limited(3, "cid", "urgent", 2)).cycle();
    let receipts = &cluster.view.planned.as_deref().unwrap().schedule.preemptions;
    let for_cid =
        receipts.iter().filter(|receipt| receipt.beneficiary.is_some_and(|job| job.0 == 3));
    assert_eq!(for_cid.map(|receipt| receipt.job.0).collect::<Vec<_>>(), [2, 2]);
}

/// F165, F167: a class gets its own pool before work from above spills into it.
#[test]
fn a_class_gets_its_own_pool_before_others_spill_into_it() {
    let classes = vec![fair("wide", 100, UNPACED), in_pool(fair("deep", 100, UNPACED), 3)];
    let mut cluster = nested(classes);
    cluster.arrive(job(1, "ann", "wide", 1)).arrive(job(2, "bob", "deep", 1)).cycle();
    assert_eq!((cluster.on("d"), cluster.held(1)), (vec![2; 4], 12));
}
