//! Targets: counting, weights, priorities, caps, and preemptions with their beneficiaries.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{
    Cluster, DOUBLING, UNPACED, class, fair, job, pool, single, topology,
};
use apportion::model::{
    ClassIx, ClassPolicy, JobKind, Mebibytes, NodeReport, ProcessLimit, Tags, Topology,
};
use apportion::scheduler::SchedulerEvent;

#[test]
fn one_job_may_have_everything() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=8 m2=8").arrive(job(1, "ann", "normal", 1)).cycle();
    assert_eq!(cluster.held(1), 16);
}

#[test]
fn classes_divide_by_weight() {
    let classes = [("low", 50), ("normal", 100), ("high", 200)]
        .map(|(name, weight)| fair(name, weight, UNPACED));
    let mut cluster = Cluster::with_classes(classes.to_vec());
    cluster.nodes("m1=35 m2=35");
    for (id, class) in [(1, "low"), (2, "normal"), (3, "high")] {
        cluster.arrive(job(id, "ann", class, 1));
    }
    assert_eq!(cluster.cycle().holdings([1, 2, 3]), [10, 20, 40]);
}

#[test]
fn users_divide_equally_however_many_jobs_they_have() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=10 m2=10").arrive(job(9, "bob", "normal", 1));
    for id in 1..=5 {
        cluster.arrive(job(id, "ann", "normal", 1));
    }
    cluster.cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4, 5, 9]), [2, 2, 2, 2, 2, 10]);
}

#[test]
fn a_late_user_gets_half_from_the_least_invested_work() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle().invest(1, 500);
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.preempted()), ([4, 0], 4));
    assert_eq!(cluster.reason(2), "waiting_for_exits");
    assert_eq!(cluster.cycle().holdings([1, 2]), [4, 4]);
    assert_eq!(cluster.cycle().preempted(), 0);
}

#[test]
fn room_is_given_away_only_once_the_exit_is_confirmed() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.confirms_exits = false;
    cluster.arrive(job(2, "bob", "normal", 1)).cycles(3);
    assert_eq!(cluster.holdings([1, 2]), [2, 0]);
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().holdings([1, 2]), [2, 2]);
}

#[test]
fn a_better_priority_takes_all_it_can_use() {
    let classes = vec![
        class("urgent", ClassPolicy::FairShare { weight: 1 }, 5, UNPACED),
        fair("normal", 1000, UNPACED),
    ];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    let mut urgent = job(2, "bob", "urgent", 1);
    urgent.facts.limit = ProcessLimit::AtMost(6);
    cluster.arrive(urgent).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [2, 6]);
    assert_eq!(cluster.reason(1), "fair_share_used");
}

/// Small orders come last in the original, which rounds a fraction of an nshare up for large orders
/// (defect G3).
#[test]
fn small_jobs_do_not_starve_beside_large_ones() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=8 m2=8 m3=2");
    for (id, user, order) in [(1, "ann", 8), (2, "bob", 8), (3, "cid", 1), (4, "dan", 1)] {
        cluster.arrive(job(id, user, "normal", order));
    }
    cluster.cycles(4);
    for id in [3, 4] {
        assert!(cluster.held(id) >= 1, "{}", cluster.picture());
    }
}

#[test]
fn doubling_starts_at_the_initialization_cap_and_doubles() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, DOUBLING)]);
    let mut spec = job(1, "ann", "normal", 1);
    spec.facts.is_running = false;
    let running = job(1, "ann", "normal", 1).facts;
    cluster.nodes("m1=16 m2=16").arrive(spec).cycles(2);
    assert_eq!((cluster.held(1), cluster.reason(1)), (2, "initialization_cap"));
    cluster.record(SchedulerEvent::JobChanged { job: apportion::model::JobId(1), facts: running });
    let growth = [(); 5].map(|()| cluster.cycle().held(1));
    assert_eq!(growth, [4, 8, 16, 32, 32]);
}

#[test]
fn a_lower_maximum_sheds_what_is_above_it() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    let mut spec = job(1, "ann", "normal", 1);
    cluster.nodes("m1=8").arrive(spec.clone()).cycle();
    spec.facts.limit = ProcessLimit::AtMost(3);
    cluster.record(SchedulerEvent::JobChanged { job: spec.id, facts: spec.facts }).cycle();
    assert_eq!((cluster.held(1), cluster.preempted()), (3, 5));
    spec.facts.limit = ProcessLimit::Frozen;
    cluster.record(SchedulerEvent::JobChanged { job: spec.id, facts: spec.facts }).cycle();
    assert_eq!((cluster.held(1), cluster.reason(1)), (3, "none"));
}

/// Two users, three places: a user has a place more than the other, and they do not take turns
/// (`core-study.md` section 4, case 1).
#[test]
fn an_odd_share_does_not_change_hands() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster
        .nodes("m1=3")
        .arrive(job(1, "ann", "normal", 1))
        .arrive(job(2, "bob", "normal", 1))
        .cycles(2);
    let before = cluster.holdings([1, 2]);
    for _ in 0..10 {
        assert_eq!((cluster.cycle().preempted(), cluster.holdings([1, 2])), (0, before));
    }
}

/// Fixed-share work goes to different machines while there are any, then stacks.
#[test]
fn a_service_spreads_before_it_stacks() {
    let mut cluster =
        Cluster::with_classes(vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)]);
    cluster.nodes("m1=4 m2=4 m3=4");
    for id in 1..=4 {
        let mut spec = single(id, "ann", "fixed", 1, JobKind::Service);
        spec.service = 7;
        cluster.arrive(spec);
    }
    cluster.cycle();
    let on_nodes: Vec<usize> = cluster.view.nodes.iter().map(|node| node.shares.len()).collect();
    assert_eq!(on_nodes, [2, 1, 1]);
}

/// The allotment holds for any number of requests in a cycle (defect G7).
#[test]
fn a_burst_does_not_overrun_the_allotment() {
    let mut topology = Topology {
        classes: vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)].into(),
        ..topology()
    };
    topology.settings.allotment = Some(Mebibytes::from_gib(10));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=16 m2=16");
    for id in 1..=6 {
        cluster.arrive(single(id, "ann", "fixed", 4, JobKind::ArbitraryProcess));
    }
    cluster.cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4, 5, 6]), [1, 1, 0, 0, 0, 0]);
    assert_eq!(cluster.reason(3), "over_allotment");
}

#[test]
fn a_reservation_waits_for_a_whole_node_of_its_size() {
    let classes =
        vec![class("reserve", ClassPolicy::Reserve, 1, UNPACED), fair("normal", 100, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=4 m2=8").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(single(2, "bob", "reserve", 8, JobKind::Reservation)).cycle();
    assert_eq!(
        (cluster.held(2), cluster.preempted(), cluster.reason(2)),
        (0, 8, "waiting_for_exits")
    );
    assert_eq!(cluster.cycle().holdings([1, 2]), [4, 1]);
    cluster.arrive(single(3, "bob", "reserve", 6, JobKind::Reservation)).cycle();
    assert_eq!(cluster.reason(3), "impossible");
}

/// Impossible work has that reason, blocks no other job, and starts when such a machine joins
/// (decision D8).
#[test]
fn impossible_work_waits_until_such_a_node_joins() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster
        .nodes("m1=4")
        .arrive(job(1, "ann", "normal", 9))
        .arrive(job(2, "bob", "normal", 1))
        .cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.reason(1)), ([0, 4], "impossible"));
    // Ann's part of 22 covers her process of 9.
    assert_eq!(cluster.nodes("m2=9 m3=9").cycle().held(1), 1);
}

/// `core-study.md` section 4, case 5; defect G5: a squatter never moves, and the class whose pool
/// it is starves.
#[test]
fn squatters_leave_a_pool_whose_own_class_needs_it() {
    let mut topology = Topology {
        pools: vec![pool("root", None, "r1"), pool("child", Some(0), "c1 c2")].into(),
        classes: vec![fair("wide", 100, UNPACED), fair("narrow", 100, UNPACED)].into(),
        ..topology()
    };
    topology.classes[ClassIx(1)].pool = apportion::model::PoolIx(1);
    let mut cluster = Cluster::new(topology);
    cluster.nodes("r1=4 c1=4 c2=4").arrive(job(1, "ann", "wide", 1)).cycle();
    assert_eq!(cluster.held(1), 12);
    cluster.arrive(job(2, "bob", "narrow", 1)).cycles(3);
    assert_eq!(cluster.holdings([1, 2]), [6, 6]);
    let on_root = &cluster.view.nodes.iter().find(|node| node.name == "r1").unwrap().shares;
    assert_eq!(on_root.len(), 4, "residents stayed");
}

/// `core-study.md` section 4, case 6: a heavy class full of order 1, a light class that wants the
/// whole machine.
#[test]
fn a_large_job_of_a_light_class_gets_its_turn() {
    let mut cluster =
        Cluster::with_classes(vec![fair("heavy", 100, UNPACED), fair("light", 10, UNPACED)]);
    cluster.nodes("m1=16").arrive(job(1, "ann", "heavy", 1)).cycle();
    cluster.arrive(job(2, "bob", "light", 16)).cycles(3);
    assert!(
        cluster.holdings([1, 2]) == [0, 1] || cluster.reason(2) != "none",
        "{}",
        cluster.picture()
    );
}

/// Shares above a lower maximum go for good. Shares on a node that takes no new work count for
/// their holder, and go too.
#[test]
fn what_is_above_a_lower_maximum_does_not_come_back_elsewhere() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    let mut spec = job(1, "ann", "normal", 1);
    spec.facts.limit = ProcessLimit::AtMost(2);
    cluster.nodes("m1=1 m2=1 m3=1").arrive(spec.clone()).cycle();
    let (name, memory) = ("m1".to_owned(), Mebibytes::from_gib(1));
    cluster.record(SchedulerEvent::NodeReported(NodeReport {
        tags: Tags::default(),
        name: name.into(),
        memory,
        is_quiesced: true,
    }));
    spec.facts.limit = ProcessLimit::AtMost(0);
    cluster.record(SchedulerEvent::JobChanged { job: spec.id, facts: spec.facts }).cycle();
    assert_eq!((cluster.held(1), cluster.preempted()), (0, 2), "{}", cluster.picture());
}

/// A job that is ending loses shares that other jobs need, and gets nothing in their place.
#[test]
fn an_ending_job_gets_nothing_for_what_was_taken_from_it() {
    let classes =
        vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED), fair("normal", 100, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    let mut ending = job(1, "ann", "normal", 2);
    cluster.nodes("m1=2").arrive(ending.clone()).cycle();
    ending.facts.is_completing = true;
    cluster.record(SchedulerEvent::JobChanged { job: ending.id, facts: ending.facts });
    let mut service = single(2, "bob", "fixed", 2, JobKind::Service);
    service.nodes = vec!["m1".to_owned()];
    cluster.nodes("m2=2").arrive(service).cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.reason(2)), ([0, 0], "waiting_for_exits"));
    assert_eq!(cluster.cycle().holdings([1, 2]), [0, 1]);
}

/// A request without a machine is not granted: it does not block requests that fit.
#[test]
fn what_cannot_be_placed_uses_up_no_allotment() {
    let mut topology = Topology {
        classes: vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)].into(),
        ..topology()
    };
    topology.settings.allotment = Some(Mebibytes::from_gib(4));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=3");
    for (id, order) in [(1, 4), (2, 3)] {
        cluster.arrive(single(id, "ann", "fixed", order, JobKind::Service));
    }
    assert_eq!(cluster.cycle().holdings([1, 2]), [0, 1], "{}", cluster.picture());
    assert_eq!(cluster.reason(1), "impossible");
}

/// A reservation with overage has the whole of a larger machine: that is what the allotment and the
/// accounts go by.
#[test]
fn a_reservation_counts_as_large_as_its_node() {
    let mut topology = Topology {
        classes: vec![class("reserve", ClassPolicy::Reserve, 1, UNPACED)].into(),
        ..topology()
    };
    topology.settings.reserve_overage = Mebibytes::from_gib(2);
    topology.settings.allotment = Some(Mebibytes::from_gib(3));
    let mut cluster = Cluster::new(topology);
    cluster.arrive(single(1, "ann", "reserve", 2, JobKind::Reservation)).nodes("m1=4").cycle();
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "nothing_left"), "4 GB is not allowed");
    assert_eq!(cluster.nodes("m2=3").cycles(2).held(1), 1);
    let account = cluster.view.classes[0].account;
    assert_eq!((account.target.0, account.held.0), (3, 3));
}

/// Room is promised as a whole machine; if the machine has another size by the time it is free, the
/// reservation gets it as it is then, or not at all.
#[test]
fn a_reservation_is_not_given_a_part_of_a_node_that_grew() {
    let classes =
        vec![class("reserve", ClassPolicy::Reserve, 1, UNPACED), fair("normal", 100, UNPACED)];
    let mut topology = Topology { classes: classes.into(), ..topology() };
    topology.settings.reserve_overage = Mebibytes::from_gib(1);
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=8").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(single(2, "bob", "reserve", 8, JobKind::Reservation)).cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.reason(2)), ([0, 0], "waiting_for_exits"));
    cluster.nodes("m1=9").cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [0, 1], "{}", cluster.picture());
    assert_eq!(cluster.job(2).shares[0].order.get(), 9);
}

/// Space on a machine that shrank also has to cover the machine's deficit.
#[test]
fn room_is_made_on_a_node_that_shrank_below_its_use() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=8").arrive(job(1, "ann", "normal", 3)).cycle();
    cluster.arrive(job(2, "ann", "normal", 1)).nodes("m1=2").cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [0, 2], "{}", cluster.picture());
}

/// A promise on a machine that shrank since is dropped and made anew, with all that takes.
#[test]
fn a_promise_on_a_node_that_shrank_is_made_anew() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    let at_most = |id, user, order, limit| {
        let mut spec = job(id, user, "normal", order);
        spec.facts.limit = ProcessLimit::AtMost(limit);
        spec
    };
    cluster.nodes("m1=9").arrive(at_most(1, "ann", 1, 2)).arrive(at_most(2, "ann", 7, 1)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [2, 1]);
    cluster.confirms_exits = false;
    cluster.arrive(at_most(3, "bob", 2, 2)).cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.reason(3)), ([2, 0], "waiting_for_exits"));
    cluster.nodes("m1=3").cycle();
    assert_eq!((cluster.held(1), cluster.preempted()), (1, 1), "{}", cluster.picture());
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().holdings([1, 2, 3]), [1, 0, 1]);
}
