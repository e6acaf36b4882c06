//! Nodes: arrival, pool, states that keep work away, and return.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, pool, single, topology};
use apportion::model::{
    ClassPolicy, JobId, JobKind, Mebibytes, NodeIx, PoolIx, QShares, ShareFacts, ShareId,
    SharePhase, Topology,
};
use apportion::scheduler::{Removal, SchedulerEvent};

fn cluster() -> Cluster {
    Cluster::with_classes(vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, UNPACED),
    ])
}

/// An event that keeps a machine out of scheduling, and the event that ends it.
type Flag = (&'static str, fn(&mut Cluster), fn(&mut Cluster));

/// Each on machine `m2` of 4 GB.
const FLAGS: &[Flag] = &[
    (
        "dead",
        |cluster| {
            cluster.die("m2");
        },
        |cluster| {
            cluster.nodes("m2=4");
        },
    ),
    (
        "varied-off",
        |cluster| {
            cluster.vary_off("m2");
        },
        |cluster| {
            cluster.vary_on("m2");
        },
    ),
    (
        "quiesced",
        |cluster| {
            cluster.quiesce("m2", 4);
        },
        |cluster| {
            cluster.nodes("m2=4");
        },
    ),
    (
        "blacklisted",
        |cluster| {
            let share = ShareId(900);
            let spec = single(90, "ann", "gone", 1, JobKind::ArbitraryProcess);
            cluster.arrive(spec).record(SchedulerEvent::ShareSeen {
                job: JobId(90),
                share,
                node: "m2".into(),
                facts: ShareFacts::default(),
            });
        },
        |cluster| {
            cluster.complete(90);
        },
    ),
];

/// F75: the next cycle uses a node after a single report.
#[test]
fn a_node_is_used_from_its_first_report_on() {
    let mut cluster = cluster();
    cluster.arrive(job(1, "ann", "normal", 1)).cycle();
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "impossible"));
    assert_eq!(cluster.nodes("m1=4").cycle().held(1), 4);
}

/// F76, F78: a node goes to the pool that lists it, else to the first.
#[test]
fn a_node_joins_the_pool_that_lists_it() {
    let pools = vec![pool("first", None, "a1"), pool("second", None, "b1 b2")];
    let mut cluster = Cluster::new(Topology { pools: pools.into(), ..topology() });
    cluster.nodes("b2=4 a1=4 stranger=4 b1=4").cycle();
    let pools: Vec<_> = cluster.view.nodes.iter().map(|node| node.pool.as_str()).collect();
    assert_eq!(pools, ["first", "second", "second", "first"]);
}

/// F92, F88: each flag alone keeps new work of every kind away, and the count of it; when it is
/// gone, the machine is used in the next cycle.
#[test]
fn each_flag_alone_keeps_work_away() {
    for (word, set, clear) in FLAGS {
        let mut cluster = cluster();
        cluster.nodes("m1=2 m2=4").cycle();
        set(&mut cluster);
        cluster.arrive(job(1, "bob", "normal", 1));
        cluster.arrive(single(2, "cid", "reserve", 4, JobKind::Reservation));
        cluster.arrive(single(3, "dan", "fixed", 3, JobKind::Service)).cycle();
        assert_eq!(cluster.node("m2").state.words(), [*word]);
        assert_eq!(cluster.holdings([1, 2, 3]), [2, 0, 0], "{word}");
        assert_eq!(cluster.job(1).target.0, 2, "{word}: not counted either");
        assert_eq!([2, 3].map(|id| cluster.reason(id)), ["no_machine_up"; 2], "{word}");
        cluster.complete(2);
        clear(&mut cluster);
        cluster.cycle();
        assert_eq!(cluster.holdings([1, 3]), [3, 1], "{word}");
    }
}

/// F80, F83: a dead machine keeps its place in the state; when it returns its size is as reported.
#[test]
fn a_node_returns_with_the_size_it_reports() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.die("m1").cycles(2);
    assert!(cluster.node("m1").state.is_dead);
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "no_machine_up"));
    cluster.nodes("m1=6").cycles(2);
    assert_eq!((cluster.node("m1").order, cluster.held(1)), (QShares(6), 6));
}

/// F81: misses are counted from the first on, shown, and forgotten with the next report.
#[test]
fn missed_heartbeats_are_counted_and_forgotten() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").record(SchedulerEvent::HeartbeatIntervalPassed);
    let seen = [(); 2].map(|()| {
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
        cluster.node("m1").missed
    });
    assert_eq!(seen, [1, 2]);
    assert_eq!(cluster.nodes("m1=4").cycle().node("m1").missed, 0);
}

/// F85, F183: the processes of a dead node are placed elsewhere at once; the orchestrator confirms
/// their end.
#[test]
fn work_of_a_dead_node_is_placed_elsewhere_at_once() {
    let mut cluster = cluster();
    let mut limited = job(1, "ann", "normal", 1);
    limited.facts.limit = apportion::model::ProcessLimit::AtMost(4);
    cluster.confirms_exits = false;
    cluster.nodes("m1=4 m2=4").arrive(limited).cycle();
    let node = cluster.nodes_of(1)[0].to_owned();
    cluster.die(&node).cycle();
    assert_eq!(cluster.held(1), 4, "{}", cluster.picture());
    assert!(!cluster.nodes_of(1).contains(&node.as_str()));
    assert!(cluster.job(1).purged.iter().all(|share| share.removal == Some(Removal::NodeDied)));
    assert_eq!(cluster.job(1).purged.len(), 4);
}

/// Work that was lost with its node and is published there again is lost again. Such a publication
/// is from before the death, or had left the work out for a while.
#[test]
fn work_that_is_shown_on_a_dead_node_is_given_up() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.die("m2").cycle();
    let share = cluster.view.next_share;
    let facts = ShareFacts::default();
    cluster
        .record(SchedulerEvent::ShareSeen { job: JobId(1), share, node: "m2".into(), facts })
        .cycle();
    assert!(!cluster.nodes_of(1).contains(&"m2"), "{}", cluster.picture());
    assert!(cluster.job(1).purged.iter().any(|purged| purged.id == share));
}

/// F87, L22: varying off a dead node, or a node that is off, evicts nothing anew and is no death.
#[test]
fn varying_off_a_dead_node_marks_it_and_no_more() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.die("m2").cycle();
    let before = cluster.job(1).shares.clone();
    cluster.vary_off("m2").cycle();
    cluster.vary_off("m2").cycle();
    assert_eq!(cluster.job(1).shares, before);
    assert_eq!(cluster.node("m2").state.words(), ["dead", "varied-off"]);
}

/// F89: only the administrator who varied a node off puts it back.
#[test]
fn a_heartbeat_does_not_vary_a_node_on() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").vary_off("m1").arrive(job(1, "ann", "normal", 1)).cycle();
    for _ in 0..3 {
        assert_eq!(cluster.nodes("m1=4").cycle().held(1), 0);
    }
    cluster.die("m1").cycle();
    assert_eq!(cluster.nodes("m1=4").cycle().held(1), 0, "a death does not, either");
    assert_eq!(cluster.vary_on("m1").cycle().held(1), 4);
}

/// F90, L2: neither a restart nor other configuration brings a node back that was varied off.
#[test]
fn varied_off_stays_varied_off() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4").vary_off("m2").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.reconfigure(|topology| topology.pools.push(pool("other", None, "m2"))).cycle();
    assert_eq!(cluster.node("m2").vary_off_reason.as_deref(), Some("a test"));
    assert_eq!(cluster.held(1), 4);
    let mut restarted = cluster.restarted();
    restarted.nodes("m1=4 m2=4").cycle();
    assert!(restarted.node("m2").state.is_varied_off);
    assert_eq!(restarted.held(1), 4);
}

/// F91: the processes of a quiesced node go on, nothing new comes, and the state can be undone.
#[test]
fn a_quiesced_node_keeps_what_it_has() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    let share = cluster.job(1).shares[0].id;
    cluster.quiesce("m1", 4).cycles(3);
    assert_eq!((cluster.held(1), cluster.preempted()), (4, 0));
    cluster.exit(1, share).cycle();
    assert_eq!(cluster.held(1), 3);
    assert_eq!(cluster.nodes("m1=4").cycle().held(1), 4);
}

/// F93, L4, G8: work on machines out of scheduling takes nothing from other work.
#[test]
fn work_on_unschedulable_nodes_takes_nothing_from_the_others() {
    let mut cluster = cluster();
    cluster.nodes("m1=8");
    cluster.arrive(single(1, "ann", "fixed", 6, JobKind::Service)).cycle();
    cluster.vary_off("m1").nodes("m2=8").arrive(job(2, "bob", "normal", 1)).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [1, 8], "{}", cluster.picture());
    assert_eq!(cluster.job(2).target.0, 8);
}

/// F94, L10, D4: fair shares are parts of the usable memory.
#[test]
fn deserved_shares_are_of_usable_memory_only() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=8 m3=8 m4=8");
    cluster.arrive(job(1, "ann", "normal", 1)).arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!(cluster.job(1).pure_fair_share, QShares(16));
    cluster.vary_off("m2").quiesce("m3", 8).die("m4").cycle();
    assert_eq!(cluster.job(1).pure_fair_share, QShares(4));
    cluster.nodes("m1=12").cycle();
    assert_eq!(cluster.job(1).pure_fair_share, QShares(6), "sizes are those of now");
}

/// F95, F98, L7: shares that the configuration no longer allows take their own size, to the last
/// process.
#[test]
fn blacklisted_work_takes_the_space_it_has() {
    let mut cluster = cluster();
    cluster.nodes("m1=24 m2=8");
    cluster.arrive(single(1, "ann", "fixed", 20, JobKind::ArbitraryProcess));
    cluster.arrive(single(2, "ann", "reserve", 8, JobKind::Reservation)).cycle();
    let forget = |topology: &mut Topology| topology.classes.retain(|class| class.name == "normal");
    cluster.reconfigure(forget).arrive(job(3, "bob", "normal", 1)).cycles(2);
    assert_eq!([cluster.node("m1").used, cluster.node("m2").used], [QShares(20), QShares(8)]);
    let limbo = &cluster.view.planned.as_deref().unwrap().snapshot.nodes;
    assert_eq!([limbo[NodeIx(0)].limbo, limbo[NodeIx(1)].limbo], [QShares(20), QShares(8)]);
    assert_eq!(cluster.holdings([1, 2, 3]), [1, 1, 0]);
}

/// F96, F97, F99, F100: jobs and services go from a blacklisted machine, arbitrary processes and
/// reservations stay; until the last of them is gone, nothing comes.
#[test]
fn a_node_is_blacklisted_until_the_last_of_it_is_gone() {
    let mut cluster = cluster();
    cluster.nodes("m1=4");
    cluster.arrive(single(1, "ann", "fixed", 1, JobKind::Service));
    cluster.arrive(single(2, "ann", "fixed", 1, JobKind::ArbitraryProcess));
    cluster.arrive(job(3, "bob", "normal", 1)).cycle();
    cluster.confirms_exits = false;
    cluster.reconfigure(|topology| topology.classes.retain(|class| class.name != "fixed")).cycle();
    let is_leaving =
        |id| cluster.job(id).shares.iter().all(|share| share.state == SharePhase::Leaving);
    assert_eq!([1, 2, 3].map(is_leaving), [true, false, true]);
    cluster.confirms_exits = true;
    cluster.cycles(2);
    assert_eq!(cluster.node("m1").state.words(), ["blacklisted"]);
    assert_eq!((cluster.held(2), cluster.held(3)), (1, 0), "the last of it is still there");
    cluster.complete(2).cycle();
    assert!(cluster.node("m1").state.words().is_empty());
    assert_eq!(cluster.held(3), 4);
}

/// F101, F224, D12: work that cannot move, in a pool its class no longer uses, keeps its machine for
/// itself until it is done.
#[test]
fn fixed_work_in_the_wrong_pool_blacklists_its_host() {
    let mut topology = Topology {
        pools: vec![pool("old", None, "m1 m2"), pool("new", None, "n1")].into(),
        classes: vec![
            class("reserve", ClassPolicy::Reserve, 1, UNPACED),
            class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
            fair("normal", 100, UNPACED),
        ]
        .into(),
        ..topology()
    };
    topology.settings.allotment = Some(Mebibytes::from_gib(100));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=4 m2=8 n1=4");
    cluster.arrive(single(1, "ann", "fixed", 1, JobKind::ArbitraryProcess));
    cluster.arrive(single(2, "ann", "reserve", 8, JobKind::Reservation));
    cluster.arrive(job(3, "bob", "normal", 1)).cycle();
    cluster.reconfigure(|topology| {
        for class in topology.classes.iter_mut().take(2) {
            class.pool = PoolIx(1);
        }
    });
    cluster.cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3]), [1, 1, 0], "{}", cluster.picture());
    assert_eq!(cluster.node("m1").state.words(), ["blacklisted"]);
    assert_eq!(cluster.node("m2").state.words(), ["blacklisted"]);
    cluster.complete(1).complete(2).cycle();
    assert_eq!(cluster.held(3), 12);
}

/// A cluster with nodes of 4 GB, in which `node_stability` missed heartbeats are a death.
fn watched(node_stability: u32, mass_loss_percent: Option<u32>, nodes: u64) -> Cluster {
    let mut topology =
        Topology { classes: vec![fair("normal", 100, UNPACED)].into(), ..topology() };
    topology.settings.node_stability = node_stability;
    topology.settings.mass_loss_percent = mass_loss_percent;
    let mut cluster = Cluster::new(topology);
    report_all_but(&mut cluster, nodes, 0);
    cluster.arrive(job(1, "ann", "normal", 1)).cycle();
    // Only nodes on which a process was shown count.
    cluster.invest(1, 0);
    cluster
}

/// All but the first `silent` of `nodes` report.
fn report_all_but(cluster: &mut Cluster, nodes: u64, silent: u64) {
    for node in silent + 1..=nodes {
        cluster.nodes(&format!("m{node:03}=4"));
    }
}

fn dead(cluster: &Cluster) -> usize {
    cluster.view.nodes.iter().filter(|node| node.state.is_dead).count()
}

/// F82, I28: neither a miss too early nor a miss too late, for every limit.
#[test]
fn a_node_is_dead_after_exactly_so_many_silent_intervals() {
    for stability in 1..=6 {
        for silent in 0..=stability + 1 {
            let mut cluster = watched(stability, None, 2);
            // The interval of the last heartbeat.
            cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
            for _ in 0..silent {
                report_all_but(&mut cluster, 2, 1);
                cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
            }
            let node = cluster.node("m001");
            assert_eq!((node.missed, node.state.is_dead), (silent, stability <= silent));
            let held = if stability <= silent { 4 } else { 8 };
            assert_eq!(cluster.held(1), held, "{silent} of {stability}");
        }
    }
}

/// I28: heartbeats count as missed only while the daemon could receive them; earlier misses count
/// no more.
#[test]
fn misses_are_counted_anew_after_a_time_of_deafness() {
    for missed_before in 1..=3 {
        let mut cluster = watched(3, None, 2);
        for _ in 0..missed_before {
            cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
        }
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
        for node in ["m001", "m002"] {
            let node = node.into();
            cluster.record(SchedulerEvent::NodeMissedHeartbeats { node, missed: 0 });
        }
        let seen = [(); 4].map(|()| {
            cluster.cycle();
            let seen = (cluster.node("m001").missed, dead(&cluster));
            cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
            seen
        });
        assert_eq!(seen, [(0, 0), (1, 0), (2, 0), (3, 2)], "after {missed_before}");
    }
}

/// D15: the number of nodes that may miss heartbeats together, by cluster size, and the state of
/// nodes beyond it.
#[test]
fn a_loss_is_believed_up_to_the_configured_part_of_the_nodes() {
    let cases = [
        // nodes, percent, silent, believed
        (10, Some(20), 2, true),
        (10, Some(20), 3, false),
        (10, Some(20), 10, false),
        (5, Some(20), 1, true),
        (5, Some(20), 2, false),
        (4, Some(20), 1, true), // one is a loss like any other
        (1, Some(20), 1, true),
        (2, Some(1), 2, false),
        (100, Some(1), 1, true),
        (100, Some(1), 2, false),
        (3, Some(100), 3, true),
        (3, None, 3, true),
    ];
    for (nodes, percent, silent, is_believed) in cases {
        let what = format!("{silent} of {nodes} at {percent:?}");
        let mut cluster = watched(1, percent, nodes);
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
        report_all_but(&mut cluster, nodes, silent);
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
        assert_eq!(dead(&cluster), usize::try_from(silent).unwrap(), "{what}: no new work there");
        let held = if is_believed { nodes - silent } else { nodes } * 4;
        assert_eq!(cluster.held(1), held, "{what}");
        let held_back = cluster.view.lost_held_back.len();
        assert_eq!(held_back, if is_believed { 0 } else { dead(&cluster) }, "{what}");
        // The state lasts as long as their heartbeats are missed.
        cluster.cycles(3);
        assert_eq!(cluster.held(1), held, "{what}");
        let shares: Vec<ShareId> = cluster.job(1).shares.iter().map(|share| share.id).collect();
        report_all_but(&mut cluster, nodes, 0);
        cluster.cycle();
        assert_eq!((dead(&cluster), cluster.view.lost_held_back.len()), (0, 0), "{what}");
        let is_there = |share: &ShareId| cluster.job(1).shares.iter().any(|kept| kept.id == *share);
        assert!(shares.iter().all(is_there), "{what}: nothing is evicted for a false alarm");
    }
}

/// A renamed machine is another node: heartbeats of the old name stop, and acts of an administrator
/// on the old name do not apply to the new name.
#[test]
fn a_renamed_node_is_a_new_one() {
    let mut cluster = watched(2, None, 2);
    cluster.vary_off("m001").cycle();
    assert_eq!(cluster.held(1), 4);
    for _ in 0..3 {
        cluster.nodes("m002=4 m009=4").record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
    }
    assert_eq!(cluster.node("m001").state.words(), ["dead", "varied-off"]);
    assert!(cluster.node("m009").state.words().is_empty());
    assert_eq!(cluster.held(1), 8);
    cluster.nodes("m001=4").cycle();
    assert_eq!(cluster.node("m001").state.words(), ["varied-off"], "and back under its old one");
}

/// F11, F79, D14: the size of a node is as reported, in every state; its processes stay.
#[test]
fn a_node_is_as_large_as_it_says() {
    for (gib, order, held) in [(4, 4, 4), (6, 6, 6), (3, 3, 4), (1, 1, 4), (0, 0, 4)] {
        let mut cluster = watched(3, None, 1);
        cluster.nodes(&format!("m001={gib}")).cycles(2);
        let node = cluster.node("m001");
        assert_eq!((node.order, node.state.words()), (QShares(order), vec![]), "{gib} GB");
        assert_eq!((cluster.held(1), cluster.preempted()), (held, 0), "{gib} GB");
    }
    let mut cluster = watched(3, None, 1);
    cluster.vary_off("m001").cycle();
    cluster.nodes("m001=8").cycle();
    assert_eq!((cluster.node("m001").order, cluster.held(1)), (QShares(8), 0));
    cluster.vary_on("m001").cycle();
    assert_eq!(cluster.held(1), 8);
}

/// F89, F90, L2: no event puts a node back that was varied off, or takes a node out that was varied
/// on.
#[test]
fn off_and_on_survive_everything() {
    type FeedEvent = (&'static str, fn(Cluster) -> Cluster);
    let diff_events: [FeedEvent; 9] = [
        ("a heartbeat", |mut cluster| {
            cluster.nodes("m001=4");
            cluster
        }),
        ("another size", |mut cluster| {
            cluster.nodes("m001=9").cycle().nodes("m001=4");
            cluster
        }),
        ("quiescing", |mut cluster| {
            cluster.quiesce("m001", 4).cycle().nodes("m001=4");
            cluster
        }),
        ("death", |mut cluster| {
            cluster.die("m001").cycle().nodes("m001=4");
            cluster
        }),
        ("silence", |mut cluster| {
            for _ in 0..5 {
                cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
            }
            report_all_but(&mut cluster, 2, 0);
            cluster
        }),
        ("deafness", |mut cluster| {
            cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
            cluster.record(SchedulerEvent::NodeMissedHeartbeats { node: "m001".into(), missed: 0 });
            cluster
        }),
        ("another pool", |mut cluster| {
            cluster
                .reconfigure(|topology| topology.pools[PoolIx(0)].nodes = vec!["m001".to_owned()]);
            cluster
        }),
        ("a restart", |cluster| {
            let mut restarted = cluster.restarted();
            report_all_but(&mut restarted, 2, 0);
            restarted
        }),
        ("a restart, and silence", |cluster| {
            let mut restarted = cluster.restarted();
            for _ in 0..5 {
                restarted.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
            }
            report_all_but(&mut restarted, 2, 0);
            restarted
        }),
    ];
    for (what, happen) in diff_events {
        let mut off = watched(3, None, 2);
        off.vary_off("m001").cycle();
        let mut off = happen(off);
        off.cycle();
        assert_eq!(off.node("m001").state.words(), ["varied-off"], "{what}");
        assert_eq!(off.node("m001").vary_off_reason.as_deref(), Some("a test"), "{what}");
        assert_eq!(off.on("m001"), [0; 0], "{what}");

        let mut on = watched(3, None, 2);
        on.vary_off("m001").cycle();
        on.vary_on("m001");
        let mut on = happen(on);
        on.cycle();
        assert!(on.node("m001").state.words().is_empty(), "{what}");
        assert!(4 <= on.on("m001").len(), "{what}: {}", on.picture());
    }
}
