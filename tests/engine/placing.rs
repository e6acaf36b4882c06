//! Placement ("What Of"): the machine of each process, and processes that are never moved for it.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single};
use apportion::model::{ClassPolicy, JobKind, JobSpec, ProcessLimit, SharePhase};

fn at_most(mut spec: JobSpec, limit: u64) -> JobSpec {
    spec.facts.limit = ProcessLimit::AtMost(limit);
    spec
}

fn cluster() -> Cluster {
    Cluster::with_classes(vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, UNPACED),
    ])
}

/// F168: a process goes into the smallest hole that takes it; a whole machine is broken last.
#[test]
fn the_smallest_hole_that_fits_is_used() {
    let mut cluster = cluster();
    cluster.nodes("m1=5 m2=3 m3=8");
    cluster.arrive(at_most(job(1, "ann", "normal", 4), 1)).cycle();
    assert_eq!(cluster.nodes_of(1), ["m1"]);
    for (id, order, node) in [(2, 1, "m1"), (3, 2, "m2"), (4, 1, "m2"), (5, 1, "m3")] {
        cluster.arrive(at_most(job(id, "ann", "normal", order), 1)).cycle();
        assert_eq!(cluster.nodes_of(id), [node], "{}", cluster.picture());
    }
}

/// F121: a process goes where no larger request loses its place: all is counted, and all of it placed.
#[test]
fn exact_multiples_are_used_up_before_larger_holes_are_split() {
    /// The nodes, and of each job the size and the most it may have.
    type Case<'a> = (&'a str, &'a [(u64, u64)]);
    let cases: [Case<'_>; 6] = [
        // All that is wanted has room.
        ("m1=3 m2=4", &[(2, 2), (3, 1)]),
        ("m1=4 m2=5", &[(2, 2), (5, 1)]),
        ("m1=6 m2=4 m3=3", &[(3, 3), (4, 1)]),
        // More is wanted than there is.
        ("m1=8 m2=8", &[(2, 99), (3, 2)]),
        ("m1=6 m2=5 m3=5", &[(2, 99), (1, 2)]),
        ("m1=7 m2=6 m3=3", &[(2, 99), (1, 2), (2, 1), (1, 2)]),
    ];
    for (nodes, jobs) in cases {
        // The job that comes first chooses first.
        for is_reversed in [false, true] {
            let mut cluster = cluster();
            cluster.nodes(nodes);
            for ((order, most), id) in jobs.iter().zip(1..) {
                let mut spec = at_most(job(id, &format!("user{id}"), "normal", *order), *most);
                spec.submitted = if is_reversed { 10 - id } else { id };
                cluster.arrive(spec);
            }
            cluster.cycle();
            let all: u64 = cluster.view.nodes.iter().map(|node| node.order.0).sum();
            let of_jobs = jobs.iter().zip(1..);
            let sums = of_jobs.map(|((order, _), id)| {
                let job = cluster.job(id);
                [order * job.target.0, order * job.held().0]
            });
            let sums = sums.reduce(|[one, two], [three, four]| [one + three, two + four]);
            let [targets, held] = sums.unwrap();
            assert_eq!(targets, all, "{nodes} {jobs:?}: {}", cluster.picture());
            assert_eq!(held, all, "{nodes} {jobs:?}: {}", cluster.picture());
        }
    }
}

/// F166: of two that would then have as much the larger comes first, and of equals the older.
#[test]
fn older_then_larger_work_comes_first() {
    let mut cluster = cluster();
    cluster.arrive(at_most(job(2, "bob", "normal", 4), 1));
    cluster.arrive(at_most(job(1, "ann", "normal", 4), 1)).nodes("m1=4").cycle();
    assert_eq!(cluster.holdings([1, 2]), [1, 0], "the older");

    let mut cluster = self::cluster();
    for (id, order, most) in [(1, 2, 2), (2, 4, 1)] {
        let mut spec = at_most(job(id, "ann", "normal", order), most);
        spec.submitted = 7;
        cluster.arrive(spec);
    }
    cluster.nodes("m1=6").cycle();
    assert_eq!(cluster.holdings([1, 2]), [1, 1], "the larger");
}

/// F165, F198: a needy job gets freed space before all other jobs, although its class has no less
/// than theirs. It gets as much as takes it out of need.
#[test]
fn a_needy_job_comes_before_an_older_one() {
    let classes = vec![
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("a", 100, UNPACED),
        fair("b", 100, UNPACED),
    ];
    let mut cluster = Cluster::with_classes(classes);
    cluster.reconfigure(|topology| topology.settings.fragmentation_threshold = 2);
    cluster.nodes("m1=12").arrive(single(1, "zoe", "fixed", 2, JobKind::Service));
    cluster.arrive(job(2, "ann", "a", 1)).arrive(job(3, "bob", "b", 1)).cycle();
    assert_eq!(cluster.holdings([2, 3]), [5, 5]);
    cluster.complete(1).arrive(job(4, "ann", "a", 1)).cycle();
    assert_eq!(cluster.held(4), 2, "{}", cluster.picture());
}

/// F169: a terminating share takes its space until it has exited, even if other nodes have none.
#[test]
fn room_that_is_being_freed_is_not_given_away() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(job(2, "bob", "normal", 1)).arrive(job(3, "cid", "normal", 1)).cycles(4);
    assert_eq!((cluster.node("m1").used.0, cluster.holdings([2, 3])), (4, [0, 0]));
    let leaving = cluster.job(1).shares.iter().find(|share| share.state == SharePhase::Leaving);
    let leaving = leaving.unwrap().id;
    cluster.exit(1, leaving).cycle();
    assert_eq!(cluster.holdings([2, 3]).iter().sum::<u64>(), 1);
}

/// F170: no event moves a running process.
#[test]
fn running_processes_are_never_moved() {
    let mut cluster = cluster();
    cluster.nodes("m1=5 m2=7").arrive(job(1, "ann", "normal", 2)).cycle();
    let mut known = std::collections::BTreeMap::new();
    for id in 2..=6 {
        cluster.arrive(job(
            id,
            ["bob", "cid"][usize::try_from(id % 2).unwrap()],
            "normal",
            1 + id % 3,
        ));
        cluster.nodes(&format!("m{id}=4", id = id + 1)).cycles(2);
        for job in cluster.view.jobs.iter() {
            for share in &job.shares {
                let place = (job.id, share.node.clone());
                assert_eq!(known.entry(share.id).or_insert_with(|| place.clone()), &place);
            }
        }
    }
    assert!(known.len() > 8);
}

/// F171, L28: instances of a service go to different machines while there are any, then stack.
/// Instances of another service, or other work, do not matter.
#[test]
fn instances_of_a_service_spread_before_they_stack() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=8 m3=8");
    let instance = |id, service| {
        let mut spec = single(id, "ann", "fixed", 1, JobKind::Service);
        spec.service = service;
        spec
    };
    for id in 1..=3 {
        cluster.arrive(instance(id, 7));
    }
    cluster.arrive(instance(4, 8)).cycle();
    let mut nodes: Vec<_> = (1..=3).map(|id| cluster.nodes_of(id)[0]).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["m1", "m2", "m3"]);
    let other = cluster.nodes_of(4)[0];
    assert_eq!(cluster.node(other).used.0, 2, "beside an instance of another service");
    for id in 5..=6 {
        cluster.arrive(instance(id, 7));
    }
    assert_eq!(cluster.cycle().holdings([5, 6]), [1, 1], "and stack when there is no other way");
}

/// F172: an empty machine at once; otherwise a machine is cleared, and held until it is empty.
#[test]
fn a_reservation_gets_an_empty_node_or_has_one_cleared() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4").arrive(at_most(job(1, "ann", "normal", 1), 4)).cycle();
    cluster.arrive(single(2, "bob", "reserve", 4, JobKind::Reservation)).cycle();
    assert_eq!((cluster.held(2), cluster.preempted()), (1, 0), "one was empty");
    cluster.confirms_exits = false;
    cluster.arrive(single(3, "bob", "reserve", 4, JobKind::Reservation)).cycle();
    assert_eq!((cluster.held(1), cluster.reason(3)), (0, "waiting_for_exits"));
    cluster.arrive(job(4, "cid", "normal", 1)).cycle();
    while let Some(leaving) = cluster.job(1).shares.first().map(|share| share.id) {
        assert_eq!(cluster.holdings([3, 4]), [0, 0], "a part of it is nobody's");
        cluster.exit(1, leaving).cycle();
    }
    assert_eq!(cluster.holdings([3, 4]), [1, 0]);
}

/// F173, L3, G12: of machines that would do, the machine with the least loss is cleared.
#[test]
fn the_cheapest_node_is_cleared() {
    for dear in ["m1", "m2"] {
        let mut cluster = cluster();
        cluster.nodes("m1=4 m2=4");
        for (id, node) in [(1, "m1"), (2, "m2")] {
            let mut listed = job(id, "ann", "normal", 1);
            listed.nodes = vec![node.to_owned()];
            cluster.arrive(listed);
        }
        cluster.cycle().invest(1, if dear == "m1" { 4_000_000 } else { 4 });
        cluster.invest(2, if dear == "m2" { 4_000_000 } else { 4 });
        cluster.arrive(single(3, "bob", "reserve", 4, JobKind::Reservation)).cycles(2);
        assert_ne!(cluster.nodes_of(3), [dear]);
        assert_eq!(cluster.held(3), 1);
    }
}

/// F174, F175, G6: two reservations clear two machines, none is counted twice, and nothing stays
/// held when they are gone.
#[test]
fn every_reservation_has_a_node_of_its_own() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4 m3=4").arrive(job(1, "ann", "normal", 1)).cycle();
    for id in 2..=5 {
        cluster.arrive(single(id, "bob", "reserve", 4, JobKind::Reservation));
    }
    cluster.cycle();
    assert_eq!([2, 3, 4, 5].map(|id| cluster.job(id).target.0), [1, 1, 1, 0]);
    cluster.cycle();
    let mut nodes: Vec<_> = (2..=4).map(|id| cluster.nodes_of(id).concat()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["m1", "m2", "m3"]);
    for id in 2..=5 {
        cluster.complete(id);
    }
    assert_eq!(cluster.cycle().held(1), 12);
}

/// F174: a reservation that gives up while its machine is cleared leaves no hold behind.
#[test]
fn a_promise_without_its_job_is_forgotten() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(single(2, "bob", "reserve", 4, JobKind::Reservation)).cycle();
    cluster.complete(2).cycle();
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().held(1), 4);
}

/// F174: work that is ending by the time its space is free does not get it, and no share waits for
/// it.
#[test]
fn a_promise_that_its_job_cannot_use_is_forgotten() {
    for fixed in [job(2, "bob", "fixed", 2), single(2, "bob", "reserve", 4, JobKind::Reservation)] {
        let mut cluster = cluster();
        cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
        cluster.arrive(at_most(fixed, 1)).cycle();
        assert_eq!((cluster.held(2), cluster.job(2).promised.0), (0, 1));
        cluster.change(2, |facts| facts.is_completing = true).cycle();
        assert_eq!((cluster.held(2), cluster.job(2).promised.0), (0, 0));
        assert_eq!(cluster.held(1), 4, "{}", cluster.picture());
    }
}

/// F174: work that cannot be preempted goes where room was made for it, though by the time it is
/// there another machine would suit it better.
#[test]
fn room_that_was_made_is_used_by_whom_it_was_made_for() {
    for fixed in [job(2, "bob", "fixed", 2), single(2, "bob", "reserve", 4, JobKind::Reservation)] {
        let mut cluster = cluster();
        let order = fixed.memory;
        cluster.nodes("m1=4").arrive(at_most(job(1, "ann", "normal", 3), 1)).cycle();
        cluster.arrive(at_most(fixed, 1)).cycle();
        assert_eq!((cluster.held(1), cluster.job(2).promised.0), (0, 1));
        cluster.report("m0", order).cycle();
        assert_eq!(cluster.nodes_of(2), ["m1"], "{}", cluster.picture());
    }
}

/// F174: a job that is promised a node goes to another that is free, but not before a job of higher
/// priority: that job would take a further node back, though one is being cleared.
#[test]
fn free_space_goes_to_higher_priorities_before_promises() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(at_most(job(2, "bob", "normal", 4), 1)).cycle();
    assert_eq!((cluster.held(1), cluster.job(2).promised.0), (4, 1));
    let fixed = at_most(job(3, "cid", "fixed", 4), 1);
    let order = fixed.memory;
    cluster.arrive(fixed).report("m3", order).cycle();
    assert_eq!(cluster.nodes_of(3), ["m3"], "{}", cluster.picture());
    assert_eq!((cluster.preempted(), cluster.job(2).promised.0), (0, 1));
}

/// D14, F11, F19: a reservation has the whole of its machine, for every size of it.
#[test]
fn a_reservation_has_all_of_a_node_that_grows_or_shrinks() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "reserve", 4, JobKind::Reservation)).cycle();
    cluster.arrive(job(2, "bob", "normal", 1));
    for gib in [6, 3, 8] {
        cluster.nodes(&format!("m1={gib}")).cycles(2);
        assert_eq!((cluster.on("m1"), cluster.node("m1").used.0), (vec![1], gib));
    }
}
