//! Targets of all jobs: by priority, weight, user and job; and the limits of an allotment.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeMap;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, pool, single, topology};
use apportion::model::{
    ClassIx, ClassPolicy, JobKind, JobSpec, Mebibytes, PoolIx, ProcessLimit, Quantum,
    ResourceClass, Topology, UserAllotment,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn at_most(mut spec: JobSpec, limit: u64) -> JobSpec {
    spec.facts.limit = ProcessLimit::AtMost(limit);
    spec
}

fn of_priority(name: &str, priority: u32) -> ResourceClass {
    class(name, ClassPolicy::FairShare { weight: 100 }, priority, UNPACED)
}

/// F135: the highest priority takes all it can use, the next takes from the rest, and so on.
#[test]
fn priorities_are_served_best_first() {
    let classes = vec![of_priority("c", 30), of_priority("a", 2), of_priority("b", 7)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=10 m2=10");
    cluster.arrive(at_most(job(1, "ann", "c", 1), 12)).arrive(at_most(job(2, "bob", "b", 1), 12));
    assert_eq!(cluster.cycle().holdings([1, 2]), [8, 12]);
    cluster.arrive(at_most(job(3, "cid", "a", 1), 12)).cycles(3);
    assert_eq!(cluster.holdings([1, 2, 3]), [0, 8, 12]);
}

/// F137, F156: the scheduler does not offer non-preemptable shares to other jobs. Their target
/// stays when the space for it is gone.
#[test]
fn fixed_work_is_counted_before_anything_is_offered() {
    let classes =
        vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED), of_priority("urgent", 1)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=6").arrive(at_most(job(1, "ann", "fixed", 1), 4)).cycle();
    cluster.arrive(job(2, "bob", "urgent", 1)).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [4, 2], "not even for a better priority");
    cluster.nodes("m1=3").cycles(2);
    assert_eq!(cluster.job(1).target.0, 4);
    assert_eq!(cluster.held(1), 4);
}

/// F139, F140: users of a class are equals, and so are the jobs of a user, independent of their
/// settings.
#[test]
fn equals_get_equal_parts() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=12 m2=12");
    for id in 1..=4 {
        cluster.arrive(job(id, "ann", "normal", if id == 4 { 2 } else { 1 }));
    }
    cluster.arrive(job(5, "bob", "normal", 1)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4, 5]), [4, 3, 3, 1, 12], "{}", cluster.picture());
    let deserved = [1, 4, 5].map(|id| cluster.job(id).pure_fair_share.0);
    assert_eq!(deserved, [3, 3, 12]);
}

/// F141, F142: nothing is counted where it does not fit, and nothing is left that could be used.
#[test]
fn only_what_fits_is_counted() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=3 m2=3 m3=5 m4=4").arrive(job(1, "ann", "normal", 4)).cycle();
    assert_eq!((cluster.job(1).target.0, cluster.held(1)), (2, 2));
    cluster.arrive(job(2, "bob", "normal", 3)).arrive(job(3, "cid", "normal", 1)).cycles(4);
    let used: u64 = cluster.view.nodes.iter().map(|node| node.used.0).sum();
    assert_eq!(used, 15, "{}", cluster.picture());
    assert!(cluster.holdings([1, 2, 3]).iter().all(|&held| held > 0), "{}", cluster.picture());
}

/// F144, F145: a job that is owed a fraction of a process gets a process while there are any; the
/// oldest first.
#[test]
fn fractions_go_to_the_oldest() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4");
    for (id, user) in [(1, "dan"), (2, "cid"), (3, "bob"), (4, "ann"), (5, "eve"), (6, "fay")] {
        cluster.arrive(job(id, user, "normal", 1));
    }
    assert_eq!(cluster.cycle().holdings([1, 2, 3, 4, 5, 6]), [1, 1, 1, 1, 0, 0]);
    for id in 1..=4 {
        assert_eq!(cluster.job(id).pure_fair_share.0, 0, "all of it was rounded away");
    }
    assert_eq!(cluster.reason(5), "fair_share_used");
}

/// F146, F199: with nothing new, nothing moves, for a hundred cycles.
#[test]
fn nothing_moves_while_nothing_happens() {
    let classes = vec![fair("a", 100, UNPACED), fair("b", 70, UNPACED), of_priority("c", 20)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=7 m2=7 m3=5 m4=11");
    let users = ["ann", "bob", "cid"];
    for id in 1..=12_u64 {
        let (class, user) = (
            ["a", "b", "c"][usize::try_from(id % 3).unwrap()],
            users[usize::try_from(id % 2).unwrap()],
        );
        cluster.arrive(job(id, user, class, 1 + id % 4));
    }
    cluster.cycles(20);
    let shares = |cluster: &Cluster| -> Vec<_> {
        cluster.view.jobs.iter().map(|job| job.shares.clone()).collect()
    };
    let settled = shares(&cluster);
    for _ in 0..100 {
        cluster.cycle();
        assert_eq!(cluster.preempted(), 0);
    }
    assert_eq!(shares(&cluster), settled);
}

/// F147: a pure fair share is the part by weight, then by users, then by jobs, each rounded down.
#[test]
fn a_pure_fair_share_is_divided_three_times() {
    let classes = vec![fair("light", 1, UNPACED), fair("heavy", 2, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=50 m2=50");
    let work = [(1, "ann", "heavy"), (2, "ann", "heavy"), (3, "bob", "heavy"), (4, "ann", "light")];
    for (id, user, class) in work {
        cluster.arrive(job(id, user, class, 1));
    }
    cluster.cycle();
    let deserved = [1, 2, 3, 4].map(|id| cluster.job(id).pure_fair_share.0);
    assert_eq!(deserved, [16, 16, 33, 33]);
}

/// F150: the other users share an unwanted part at once.
#[test]
fn an_idle_part_goes_to_the_others() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=30");
    cluster.arrive(at_most(job(1, "ann", "normal", 1), 2));
    cluster.arrive(job(2, "bob", "normal", 1)).arrive(job(3, "cid", "normal", 1));
    assert_eq!(cluster.cycle().holdings([1, 2, 3]), [2, 14, 14]);
}

/// F151: a single process if there is room, the oldest first.
#[test]
fn fixed_requests_are_served_oldest_first() {
    let mut cluster =
        Cluster::with_classes(vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)]);
    for id in [3, 1, 2] {
        cluster.arrive(single(id, "ann", "fixed", 2, JobKind::ArbitraryProcess));
    }
    cluster.nodes("m1=4").cycle();
    assert_eq!(cluster.holdings([1, 2, 3]), [1, 1, 0]);
    assert_eq!(cluster.complete(1).cycle().held(3), 1);
}

/// F153: only non-preemptable shares keep a machine from being reserved.
#[test]
fn a_node_can_be_reserved_if_only_fair_share_work_is_on_it() {
    let classes = vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, UNPACED),
    ];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=4 m2=4").arrive(single(1, "ann", "fixed", 1, JobKind::Service));
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!(cluster.held(2), 7);
    for id in [3, 4] {
        cluster.arrive(single(id, "cid", "reserve", 4, JobKind::Reservation));
    }
    cluster.cycles(3);
    assert_eq!(cluster.holdings([1, 3, 4]), [1, 1, 0]);
    assert_eq!(cluster.reason(4), "nothing_left");
    assert_ne!(cluster.nodes_of(1), cluster.nodes_of(3));
}

/// F154, F155: a reservation gets exactly its size, or with overage so much more; overage is read
/// anew at a reconfiguration, and is for unmanaged reservations only.
#[test]
fn a_reservation_is_not_promoted_beyond_the_overage() {
    let classes = vec![class("reserve", ClassPolicy::Reserve, 1, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=3 m2=4");
    cluster.arrive(single(1, "ann", "reserve", 2, JobKind::Reservation));
    cluster.arrive(single(2, "ann", "reserve", 2, JobKind::ArbitraryProcess)).cycle();
    assert_eq!([cluster.reason(1), cluster.reason(2)], ["impossible"; 2]);
    let overage = |gib| {
        move |topology: &mut Topology| topology.settings.reserve_overage = Mebibytes::from_gib(gib)
    };
    cluster.reconfigure(overage(1)).cycle();
    assert_eq!((cluster.nodes_of(1), cluster.held(2)), (vec!["m1"], 0));
    assert_eq!(cluster.job(1).shares[0].order.get(), 3, "the whole machine is accounted");
    cluster.reconfigure(overage(0)).cycles(2);
    assert_eq!(cluster.nodes_of(1), ["m1"], "and is kept");
}

/// F157: to the last gigabyte and not beyond.
#[test]
fn an_allotment_is_used_to_the_last_gigabyte() {
    let mut topology = Topology {
        classes: vec![
            class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
            class("steady", ClassPolicy::FixedShare, 6, UNPACED),
        ]
        .into(),
        ..topology()
    };
    topology.settings.allotment = Some(Mebibytes::from_gib(360));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=400").arrive(single(1, "ann", "fixed", 359, JobKind::Service));
    cluster.arrive(single(2, "ann", "steady", 1, JobKind::Service)).cycle();
    cluster.arrive(single(3, "ann", "steady", 1, JobKind::Service));
    cluster.arrive(single(4, "bob", "fixed", 1, JobKind::Service)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 1, 0, 1], "over all classes, for each user");
    assert_eq!(cluster.reason(3), "over_allotment");
}

/// F158, L23: a user's shares in several trees are added up in memory, not in quanta.
#[test]
fn an_allotment_is_memory_in_all_quanta() {
    let mut topology = Topology {
        pools: vec![pool("coarse", None, "c1"), pool("fine", None, "f1")].into(),
        classes: ["coarse", "fine"]
            .map(|name| class(name, ClassPolicy::FixedShare, 5, UNPACED))
            .to_vec()
            .into(),
        ..topology()
    };
    topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
    topology.classes[ClassIx(1)].pool = PoolIx(1);
    topology.settings.allotment = Some(Mebibytes::from_gib(40));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("c1=60 f1=60");
    cluster.arrive(single(1, "ann", "coarse", 16, JobKind::Service)); // 30 GB, in two quanta
    cluster.arrive(single(2, "ann", "fine", 11, JobKind::Service));
    cluster.arrive(single(3, "ann", "fine", 10, JobKind::Service));
    cluster.arrive(single(4, "ann", "coarse", 1, JobKind::Service)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 0, 1, 0]);
}

/// F159, F70: a user's own allotment counts, up or down, also when the user had no work meanwhile.
#[test]
fn a_users_own_allotment_counts() {
    let allotments = BTreeMap::from([
        ("bob".to_owned(), UserAllotment::of_fixed(Mebibytes::from_gib(12))),
        ("cid".to_owned(), UserAllotment::of_fixed(Mebibytes::from_gib(2))),
    ]);
    let classes = vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)];
    let mut topology = Topology { classes: classes.into(), allotments, ..topology() };
    topology.settings.allotment = Some(Mebibytes::from_gib(4));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=64");
    for round in [0, 10] {
        for (id, user) in [(1, "ann"), (2, "bob"), (3, "cid")] {
            cluster.arrive(job(round + id, user, "fixed", 1));
        }
        cluster.cycle();
        assert_eq!([1, 2, 3].map(|id| cluster.held(round + id)), [4, 12, 2]);
        for id in 1..=3 {
            cluster.complete(round + id);
        }
        cluster.cycle();
    }
}

/// F162: the next request starts in the cycle in which there is room under the allotment again.
#[test]
fn a_deferred_request_starts_when_the_allotment_has_room() {
    let mut topology = Topology {
        classes: vec![class("reserve", ClassPolicy::Reserve, 1, UNPACED)].into(),
        ..topology()
    };
    topology.settings.allotment = Some(Mebibytes::from_gib(4));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=4 m2=4");
    for id in [1, 2] {
        cluster.arrive(single(id, "ann", "reserve", 4, JobKind::Reservation));
    }
    cluster.cycles(2);
    assert_eq!((cluster.holdings([1, 2]), cluster.reason(2)), ([1, 0], "over_allotment"));
    assert_eq!(cluster.complete(1).cycle().held(2), 1);
}

/// F71: the report distinguishes requests by the cycle's decision.
#[test]
fn a_cycle_reports_its_decision_for_every_job() {
    use apportion::scheduler::JobDisposition::{
        Dormant, Expanded, Refused, Reserved, Shrunken, Stable,
    };
    let classes =
        vec![class("reserve", ClassPolicy::Reserve, 1, UNPACED), fair("normal", 100, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=4 m2=8").arrive(job(1, "ann", "normal", 1));
    cluster.arrive(single(2, "ann", "reserve", 8, JobKind::Reservation));
    cluster.arrive(job(3, "bob", "nowhere", 1)).cycle();
    let seen = |cluster: &Cluster, ids: &[u64]| {
        ids.iter().map(|&id| cluster.job(id).disposition).collect::<Vec<_>>()
    };
    assert_eq!(seen(&cluster, &[1, 2, 3]), [Expanded, Reserved, Refused]);
    assert_eq!(seen(cluster.cycle(), &[1, 2, 3]), [Stable, Reserved, Refused]);
    cluster.arrive(job(4, "bob", "normal", 2)).cycle();
    assert_eq!(seen(&cluster, &[1, 4]), [Shrunken, Dormant]);
    assert_eq!(seen(cluster.cycle(), &[1, 4]), [Stable, Expanded]);
}

/// A class, user or job beside its peers: its weight, its wants and its count, in processes.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    weight: u64,
    wanted: u64,
    counted: u64,
}

/// The sides that are counted too little or too much of `total`. Too little is less than the whole
/// processes of the exact max-min part: all a side wants, or as much by weight as each unsatisfied
/// side. Too much is more, by weight, than an unsatisfied side would have with a further process.
fn uneven(total: u64, sides: &[Side]) -> Vec<Side> {
    let mut open: Vec<Side> = sides.to_vec();
    // By the wants for a unit of weight: the side that is satisfied first.
    open.sort_by(|one, other| (one.wanted * other.weight).cmp(&(other.wanted * one.weight)));
    let (mut left, mut weights) = (total, open.iter().map(|side| side.weight).sum::<u64>());
    let mut off = Vec::new();
    for side in open {
        // The part of a side is `left * weight / weights`, or its wants.
        let part = (left * side.weight).min(side.wanted * weights);
        let is_behind = |other: &Side| {
            other.counted < other.wanted
                && (other.counted + 1) * side.weight < side.counted * other.weight
        };
        if (side.counted + 1) * weights <= part || sides.iter().any(is_behind) {
            off.push(side);
        }
        if part == side.wanted * weights {
            (left, weights) = (left - side.wanted, weights - side.weight);
        }
    }
    off
}

#[test]
fn what_is_too_little_or_too_much_is_noticed() {
    let sides = |counts: [u64; 3]| {
        let wanted = [(100, 2), (100, 9), (200, 9)];
        let sides = wanted.iter().zip(counts);
        sides
            .map(|(&(weight, wanted), counted)| Side { weight, wanted, counted })
            .collect::<Vec<_>>()
    };
    // Of 11, after the 2 of the first, the remaining sides have 3 and 6.
    for (counts, off) in [([2, 3, 6], 0), ([2, 2, 7], 2), ([2, 4, 5], 2), ([0, 4, 7], 3)] {
        assert_eq!(uneven(11, &sides(counts)).len(), off, "{counts:?}");
    }
}

/// Of each job the class, the user and how many processes it wants.
fn crowd() -> impl Strategy<Value = Vec<(usize, usize, u64)>> {
    prop::collection::vec((0..3_usize, 0..4_usize, 0..25_u64), 1..=12)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(13), ..ProptestConfig::default()
    })]

    /// I13: at every level each side is counted the whole processes of its exact max-min part, and
    /// more only where no other is behind. Of the parts of users and jobs the whole is what their
    /// class or user was counted.
    #[test]
    fn counts_are_no_less_than_the_exact_parts(
        (jobs, order, nodes) in (crowd(), 1..4_u64, 1..9_u64)
    ) {
        const CLASSES: [(&str, u64); 3] = [("light", 50), ("normal", 100), ("heavy", 200)];
        let classes = CLASSES.map(|(name, weight)| {
            class(name, ClassPolicy::FairShare { weight: weight.try_into().unwrap() }, 10, UNPACED)
        });
        let mut cluster = Cluster::with_classes(classes.to_vec());
        for node in 1..=nodes {
            cluster.nodes(&format!("m{node}={}", 4 * order));
        }
        for ((class, user, wanted), id) in jobs.iter().zip(1..) {
            let mut spec = job(id, &format!("user{user}"), CLASSES[*class].0, order);
            spec.facts.remaining = *wanted;
            cluster.arrive(spec);
        }
        cluster.cycle();
        let mut of_classes: BTreeMap<usize, Side> = BTreeMap::new();
        let mut of_users: BTreeMap<(usize, usize), Side> = BTreeMap::new();
        let mut of_jobs: BTreeMap<(usize, usize), Vec<Side>> = BTreeMap::new();
        for (&(class, user, wanted), id) in jobs.iter().zip(1..) {
            let counted = cluster.job(id).target.0;
            let weight = CLASSES[class].1;
            let of_class = of_classes.entry(class).or_insert(Side { weight, ..Side::default() });
            let of_user = of_users.entry((class, user)).or_insert(Side { weight: 1, ..Side::default() });
            for side in [of_class, of_user] {
                side.wanted += wanted;
                side.counted += counted;
            }
            of_jobs.entry((class, user)).or_default().push(Side { weight: 1, wanted, counted });
        }
        let sides = |sides: &BTreeMap<usize, Side>| sides.values().copied().collect::<Vec<_>>();
        prop_assert!(uneven(4 * nodes, &sides(&of_classes)).is_empty(), "{of_classes:?}");
        for (class, side) in &of_classes {
            let users = of_users.iter().filter(|((of, _), _)| of == class);
            let users: Vec<Side> = users.map(|(_, side)| *side).collect();
            prop_assert!(uneven(side.counted, &users).is_empty(), "{side:?} {users:?}");
        }
        for (user, side) in &of_users {
            prop_assert!(uneven(side.counted, &of_jobs[user]).is_empty(), "{side:?}");
        }
    }
}
