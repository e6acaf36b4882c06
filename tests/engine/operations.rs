//! Events around scheduling: nodes that die, are varied off, or return; restarts; and the
//! scheduler's state afterwards.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, pool, single, topology};
use apportion::model::{
    ClassIx, ClassPolicy, JobId, JobKind, Mebibytes, NodeReport, PoolIx, Quantum, ShareFacts,
    ShareId, SharePhase, Tags, Topology,
};
use apportion::scheduler::{
    AdminCommand, CommandError, EventEffect, JobDisposition, Refusal, Removal, SchedulerEvent,
    Waiting,
};

fn busy_cluster() -> Cluster {
    let classes = vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, UNPACED),
    ];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=4 m2=4 m3=8");
    cluster.arrive(single(1, "ann", "reserve", 8, JobKind::Reservation));
    cluster.arrive(single(2, "ann", "fixed", 1, JobKind::Service));
    cluster.arrive(single(3, "ann", "fixed", 1, JobKind::ArbitraryProcess));
    cluster.arrive(job(4, "bob", "normal", 1)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 1, 1, 6], "{}", cluster.picture());
    cluster
}

fn vary_off(nodes: &[&str]) -> AdminCommand {
    let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
    AdminCommand::VaryOff { nodes, reason: "new disk".to_owned() }
}

#[test]
fn vary_off_evicts_fair_share_work_only() {
    let mut cluster = busy_cluster();
    cluster.command(vary_off(&["m1", "m3"])).cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 1, 1, 3]);
    assert_eq!(cluster.job(4).disposition, JobDisposition::Shrunken);
    let leaving =
        cluster.job(4).shares.iter().filter(|share| share.removal == Some(Removal::VariedOff));
    assert_eq!(leaving.count(), 3);
    cluster.cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 1, 1, 3], "nothing new is placed there");
    cluster.command(AdminCommand::VaryOn { nodes: vec!["m1".to_owned()] }).cycle();
    assert_eq!(cluster.held(4), 6);
}

#[test]
fn vary_off_of_an_unknown_node_does_nothing_and_names_the_nearest() {
    let mut cluster = busy_cluster();
    let error = cluster.scheduler.command(vary_off(&["m1", "m33"])).unwrap_err();
    assert_eq!(error.to_string(), "unknown node `m33` (did you mean `m3`?)");
    assert_eq!(cluster.scheduler.command(vary_off(&[])).unwrap_err(), CommandError::NoNodes);
    assert!(cluster.cycle().view.varied_off.is_empty());
}

#[test]
fn vary_off_twice_changes_nothing_the_second_time() {
    let mut cluster = busy_cluster();
    let changed =
        [(); 2].map(|()| cluster.scheduler.command(vary_off(&["m1"])).unwrap().changed.len());
    assert_eq!(changed, [1, 0]);
}

#[test]
fn node_death_purges_all_but_reservations_and_restarts_only_jobs() {
    let mut cluster = busy_cluster();
    for node in ["m1", "m2", "m3"] {
        cluster.record(SchedulerEvent::NodeDied { node: node.into() });
    }
    cluster.cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 0, 0, 0]);
    assert_eq!(cluster.job(4).purged.len(), 6, "the orchestrator is told until it has seen it");
    cluster.nodes("m1=4 m2=4 m3=8").cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 0, 0, 8]);
    assert_eq!(cluster.reason(2), "spent");
}

#[test]
fn what_was_purged_takes_space_again_when_its_node_returns_until_it_is_confirmed() {
    let mut cluster = busy_cluster();
    cluster.confirms_exits = false;
    cluster.record(SchedulerEvent::NodeDied { node: "m2".into() }).cycle();
    cluster.nodes("m2=4").cycle();
    let m2 = cluster.view.nodes.iter().find(|node| node.name == "m2").unwrap();
    assert_eq!(
        (m2.used.0, m2.shares.iter().all(|(_, _, _, state)| *state == SharePhase::Leaving)),
        (4, true)
    );
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().held(4), 7, "{}", cluster.picture());
}

#[test]
fn a_node_dies_after_exactly_the_configured_misses_and_a_heartbeat_in_time_saves_it() {
    let mut cluster = busy_cluster();
    let passes = |cluster: &mut Cluster, silent: &str| {
        for (name, gib) in [("m1", 4), ("m2", 4), ("m3", 8)] {
            if name != silent {
                let memory = Mebibytes::from_gib(gib);
                let report = NodeReport {
                    tags: Tags::default(),
                    name: name.into(),
                    memory,
                    is_quiesced: false,
                };
                cluster.record(SchedulerEvent::NodeReported(report));
            }
        }
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
        cluster.view.nodes.iter().filter(|node| node.state.is_dead).count()
    };
    passes(&mut cluster, "");
    let dead = [(); 3].map(|()| passes(&mut cluster, "m2"));
    assert_eq!(dead, [0, 0, 1]);
    for _ in 0..3 {
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
    }
    cluster.nodes("m1=4 m3=8 m2=4").cycle();
    assert!(cluster.view.nodes.iter().all(|node| !node.state.is_dead), "the verdict is withdrawn");
}

/// Decision D15: half the cluster silent at once is more likely our fault than theirs.
#[test]
fn mass_loss_is_held_and_said() {
    let mut topology =
        Topology { classes: vec![fair("normal", 100, UNPACED)].into(), ..topology() };
    topology.settings.mass_loss_percent = Some(20);
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=4 m2=4 m3=4 m4=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.invest(1, 0);
    for node in ["m1", "m2"] {
        cluster.record(SchedulerEvent::NodeDied { node: node.into() });
    }
    cluster.cycle();
    assert_eq!((cluster.held(1), cluster.view.lost_held_back.len()), (16, 2));
    cluster.nodes("m1=4").cycle();
    assert_eq!(
        (cluster.held(1), cluster.view.lost_held_back.len()),
        (12, 0),
        "one of four is a loss like any other"
    );
}

#[test]
fn a_service_whose_process_exits_is_not_started_again() {
    let mut cluster = busy_cluster();
    let share = cluster.job(2).shares[0].id;
    cluster.record(SchedulerEvent::ShareExited { job: JobId(2), share }).cycles(2);
    assert_eq!((cluster.held(2), cluster.reason(2)), (0, "spent"));
}

/// A restart: the orchestrator shows shares we do not remember. They are taken over where they are,
/// nothing is preempted, and their numbers are not used again.
#[test]
fn shares_from_before_a_restart_are_taken_over_in_place() {
    let cluster = busy_cluster();
    let jobs = cluster.view.jobs.clone();
    let mut restarted = Cluster::with_classes(cluster.scheduler.topology().classes.clone());
    restarted.scheduler.restore_varied_off([("m2".into(), "new disk".to_owned())]);
    let specs = [
        single(1, "ann", "reserve", 8, JobKind::Reservation),
        single(2, "ann", "fixed", 1, JobKind::Service),
        single(3, "ann", "fixed", 1, JobKind::ArbitraryProcess),
        job(4, "bob", "normal", 1),
    ];
    for (spec, job) in specs.into_iter().zip(jobs.iter()) {
        restarted.arrive(spec);
        for share in &job.shares {
            let (facts, node) = (ShareFacts::default(), share.node.clone());
            restarted.record(SchedulerEvent::ShareSeen {
                job: job.id,
                share: share.id,
                node,
                facts,
            });
        }
    }
    restarted.nodes("m1=4 m2=4 m3=8").cycle();
    assert_eq!(
        (restarted.holdings([1, 2, 3, 4]), restarted.preempted()),
        ([1, 1, 1, 3], 0),
        "m2 is still off"
    );
    let issued = jobs.iter().flat_map(|job| &job.shares).map(|share| share.id).max().unwrap();
    assert_eq!(restarted.view.next_share, ShareId(issued.0 + 1));
}

/// I04: a terminated share stays terminated, also for a restarted daemon.
#[test]
fn a_preemption_from_before_a_restart_is_final() {
    let mut restarted = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    restarted.confirms_exits = false;
    restarted.scheduler.restore_leaving([ShareId(2)]);
    restarted.nodes("m1=4").arrive(job(1, "ann", "normal", 1));
    for share in [1, 2] {
        let (share, facts, node) = (ShareId(share), ShareFacts::default(), "m1".to_owned());
        restarted.record(SchedulerEvent::ShareSeen {
            job: JobId(1),
            share,
            node: node.into(),
            facts,
        });
    }
    restarted.cycle();
    let leaving = restarted.job(1).shares.iter().filter(|share| share.state == SharePhase::Leaving);
    assert_eq!(leaving.map(|share| share.id).collect::<Vec<_>>(), [ShareId(2)]);
    assert_eq!(restarted.held(1), 3, "its space is taken until the exit is confirmed");
}

#[test]
fn a_share_on_an_unknown_node_counts_until_its_heartbeat() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    let (share, facts) = (ShareId(7), ShareFacts::default());
    cluster.arrive(job(1, "ann", "normal", 1));
    cluster
        .record(SchedulerEvent::ShareSeen { job: JobId(1), share, node: "m9".into(), facts })
        .cycle();
    assert_eq!((cluster.held(1), cluster.view.nodes[0].state.is_awaited), (1, true));
    assert_eq!(cluster.nodes("m9=4").cycle().held(1), 4);
}

#[test]
fn a_smaller_report_evicts_nothing_and_leaves_nothing_free() {
    let mut cluster = busy_cluster();
    let before = cluster.holdings([1, 2, 3, 4]);
    cluster.nodes("m1=2").cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), before);
}

/// Configuration that no longer has a class: its shares are in limbo, their machine is blacklisted
/// until they have left (I33).
#[test]
fn a_removed_class_blacklists_the_nodes_its_work_is_on() {
    let mut cluster = busy_cluster();
    let mut topology = Topology::clone(cluster.scheduler.topology());
    topology.classes.retain(|class| class.name != "fixed");
    cluster.confirms_exits = false;
    cluster.command(AdminCommand::Reconfigure(Box::new(topology))).cycle();
    let blacklisted: Vec<&str> = cluster
        .view
        .nodes
        .iter()
        .filter(|node| node.state.is_blacklisted)
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(blacklisted, ["m1", "m2"]);
    assert!(matches!(cluster.job(2).reason, Some(Waiting::Refused(Refusal::UnknownClass { .. }))));
    let is_leaving =
        |id| cluster.job(id).shares.iter().all(|share| share.state == SharePhase::Leaving);
    assert_eq!(
        [2, 3, 4].map(is_leaving),
        [true, false, true],
        "services and jobs go, an arbitrary process stays"
    );
    cluster.confirms_exits = true;
    cluster.complete(3).cycles(2);
    assert!(cluster.view.nodes.iter().all(|node| !node.state.is_blacklisted));
    assert_eq!(cluster.held(4), 8);
}

/// The effect of another configuration is computed on a copy, and equals the later real effect.
#[test]
fn a_configuration_is_tried_out_without_a_trace() {
    let mut cluster = busy_cluster();
    cluster.confirms_exits = false;
    let mut topology = Topology::clone(cluster.scheduler.topology());
    topology.classes.retain(|class| class.name != "fixed");
    let before = cluster.scheduler.view();
    let reconfigure = AdminCommand::Reconfigure(Box::new(topology.clone()));
    let impact = cluster.scheduler.try_out(reconfigure).unwrap();
    let after = cluster.scheduler.view();
    assert_eq!((&after.jobs, &after.nodes), (&before.jobs, &before.nodes));
    assert_eq!((after.cycle, after.next_share), (before.cycle, before.next_share));

    let evicted: Vec<_> =
        impact.evicted.iter().map(|(&(job, why), &count)| (job.0, why, count)).collect();
    assert_eq!(evicted, [(2, Removal::Blacklisted, 1), (4, Removal::Blacklisted, 6)]);
    assert_eq!(impact.parked.into_iter().collect::<Vec<_>>(), [(JobId(3), 1)]);
    assert_eq!((impact.refused.len(), impact.blacklisted.len(), impact.moved.len()), (2, 2, 0));

    cluster.command(AdminCommand::Reconfigure(Box::new(topology))).cycle();
    let come = cluster.scheduler.impact_since(&before, None);
    assert_eq!(
        (come.evicted, come.refused, come.blacklisted),
        (impact.evicted, impact.refused, impact.blacklisted)
    );
    assert_eq!(come.cycle, impact.cycle);
}

/// The effect of taking nodes out is computed on a copy, and equals the later real effect: processes
/// that are evicted, and processes elsewhere that make room for a user who has none left.
#[test]
fn taking_nodes_out_is_tried_out_without_a_trace() {
    let mut cluster = busy_cluster();
    cluster.invest(4, 1_000);
    cluster.arrive(job(5, "ann", "normal", 1)).cycles(4);
    let state = cluster.scheduler.state();
    let before = cluster.scheduler.view();
    let held = |id: u64| cluster.held(id);
    let (four, five) = (held(4), held(5));
    let holders = cluster.nodes_of(5);
    let node = holders.first().expect("ann has a process").to_string();
    let command = vary_off(&[&node]);
    let impact = cluster.scheduler.try_out(command.clone()).unwrap();
    assert_eq!(cluster.scheduler.state(), state, "the state is as before");
    assert_eq!(impact.changed, [node]);
    assert!(0 < impact.evicted_for(Removal::VariedOff) && 0 < impact.work_lost, "{impact:?}");
    assert!(!impact.below.is_empty(), "{impact:?}");

    cluster.confirms_exits = false;
    cluster.command(command).cycle();
    let came = cluster.scheduler.impact_since(&before, None);
    assert_eq!((came.evicted, came.work_lost), (impact.evicted, impact.work_lost));
    assert_eq!(came.below, impact.below);
    for (id, had) in [(4, four), (5, five)] {
        let below = impact.below.get(&JobId(id));
        let now = below.map_or(had, |holding| holding.after);
        assert_eq!((below.map_or(had, |holding| holding.before), cluster.held(id)), (had, now));
    }
    let refused = cluster.scheduler.try_out(vary_off(&["m33"]));
    assert!(matches!(refused, Err(CommandError::UnknownNodes(_))), "{refused:?}");
}

/// A heartbeat is judged once, by the scheduler that records it.
#[test]
fn a_heartbeat_that_repeats_what_is_known_is_routine() {
    let mut cluster = busy_cluster();
    let report = |gib| NodeReport {
        name: "m1".into(),
        memory: Mebibytes::from_gib(gib),
        is_quiesced: false,
        tags: Tags::default(),
    };
    let mut record = |event| cluster.scheduler.record(event);
    assert_eq!(record(SchedulerEvent::NodeReported(report(5))), EventEffect::News);
    assert_eq!(record(SchedulerEvent::NodeReported(report(5))), EventEffect::Routine);
    assert_eq!(
        record(SchedulerEvent::HeartbeatIntervalPassed),
        EventEffect::News,
        "m1 alone is not new"
    );
    assert_eq!(record(SchedulerEvent::NodeDied { node: "m1".into() }), EventEffect::News);
    assert_eq!(record(SchedulerEvent::NodeReported(report(5))), EventEffect::News, "it is back");
}

/// If nothing changes, shares that would go anyway are not attributed to the configuration.
#[test]
fn what_goes_anyway_is_not_put_down_to_a_configuration() {
    let mut cluster = busy_cluster();
    cluster.command(vary_off(&["m1"]));
    let topology = Topology::clone(cluster.scheduler.topology());
    let impact = cluster.scheduler.try_out(AdminCommand::Reconfigure(Box::new(topology))).unwrap();
    assert!(impact.evicted.is_empty() && impact.parked.is_empty(), "{impact:?}");
    assert_eq!(cluster.cycle().held(4), 3, "it does go");
}

#[test]
fn work_that_may_not_be_preempted_is_refused_in_a_fair_share_class() {
    let mut cluster = busy_cluster();
    cluster.arrive(single(9, "ann", "normal", 1, JobKind::Service)).cycle();
    assert_eq!(cluster.job(9).disposition, JobDisposition::Refused);
}

/// Work that cannot be parsed still runs: no process is put on top of it, and once parsed it is
/// taken over in place.
#[test]
fn shares_of_unparsed_work_take_their_space() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    let (share, node) = (ShareId(7), "m1".to_owned());
    let memory = Some(Mebibytes::from_gib(3));
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1));
    cluster
        .record(SchedulerEvent::LimboShareSeen { share, node: node.clone().into(), memory })
        .cycle();
    assert_eq!((cluster.held(1), cluster.view.nodes[0].used.0), (5, 4));
    assert_eq!(cluster.view.next_share, ShareId(13), "numbers go on behind it");

    cluster.arrive(job(2, "bob", "normal", 3));
    cluster.record(SchedulerEvent::ShareSeen {
        job: JobId(2),
        share,
        node: node.into(),
        facts: ShareFacts::default(),
    });
    cluster.record(SchedulerEvent::LimboShareGone { share }).cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.preempted()), ([5, 1], 0));

    let (share, node) = (ShareId(99), "m9".to_owned());
    cluster
        .record(SchedulerEvent::LimboShareSeen { share, node: node.into(), memory: None })
        .nodes("m9=4")
        .cycle();
    assert_eq!(cluster.view.nodes[2].used.0, 4, "of unknown size: it may be all of the node");
    cluster.record(SchedulerEvent::LimboShareGone { share }).cycle();
    assert_eq!(cluster.holdings([1, 2]).iter().sum::<u64>(), 8, "{}", cluster.picture());
}

/// Memory is reckoned in the quanta of the class's pool, wherever the orchestrator shows a process.
#[test]
fn a_process_in_the_wrong_tree_weighs_on_the_allotment_with_its_own_memory() {
    let mut topology = Topology {
        pools: vec![pool("coarse", None, "c1"), pool("fine", None, "f1")].into(),
        classes: vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)].into(),
        ..topology()
    };
    topology.pools[PoolIx(1)].quantum = Quantum::new(Mebibytes(512)).unwrap();
    topology.classes[ClassIx(0)].pool = PoolIx(1);
    topology.settings.allotment = Some(Mebibytes::from_gib(2));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("c1=8 f1=8").arrive(single(1, "ann", "fixed", 1, JobKind::ArbitraryProcess));
    let (share, facts) = (ShareId(7), ShareFacts::default());
    cluster.record(SchedulerEvent::ShareSeen { job: JobId(1), share, node: "c1".into(), facts });
    cluster.arrive(single(2, "ann", "fixed", 1, JobKind::ArbitraryProcess)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [1, 1], "1 GB each, of 2 GB");
}

/// A process that runs on another node than its share takes space on both nodes until it has exited
/// or is back. Other events do not change that; its share stays where it is.
#[test]
fn a_process_elsewhere_than_its_share_takes_space_in_both_places() {
    let seen = |cluster: &mut Cluster, share: ShareId, node: &str, investment: u64| {
        let facts = ShareFacts { investment, ..ShareFacts::default() };
        cluster.record(SchedulerEvent::ShareSeen {
            job: JobId(1),
            share,
            node: node.into(),
            facts,
        });
    };
    let used = |cluster: &Cluster| ["m1", "m2"].map(|node| cluster.node(node).used.0);
    let start = || {
        let mut cluster =
            Cluster::with_classes(vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)]);
        cluster
            .nodes("m1=4")
            .arrive(single(1, "ann", "fixed", 3, JobKind::ArbitraryProcess))
            .cycle();
        let share = cluster.job(1).shares[0].id;
        cluster.nodes("m2=4");
        seen(&mut cluster, share, "m2", 1);
        let memory = Some(Mebibytes::from_gib(3));
        cluster.record(SchedulerEvent::LimboShareSeen { share, node: "m2".into(), memory }).cycle();
        assert_eq!(used(&cluster), [3, 3]);
        (cluster, share)
    };
    // The process is observed again, with new facts, and nothing fits beside it on either node.
    let (mut cluster, share) = start();
    seen(&mut cluster, share, "m2", 2);
    cluster.arrive(single(2, "bob", "fixed", 2, JobKind::ArbitraryProcess)).cycle();
    assert_eq!((used(&cluster), cluster.held(2)), ([3, 3], 0));
    assert_eq!(cluster.job(1).shares[0].node, "m1");
    // The process is back.
    seen(&mut cluster, share, "m1", 3);
    cluster.record(SchedulerEvent::LimboShareGone { share }).cycle();
    assert_eq!((used(&cluster), cluster.on("m2")), ([3, 2], vec![2]));

    // The process has exited.
    let (mut cluster, share) = start();
    cluster.exit(1, share).record(SchedulerEvent::LimboShareGone { share }).cycle();
    assert_eq!(used(&cluster), [0, 0]);
    // The share's node dies: the process still runs where it is.
    let (mut cluster, share) = start();
    cluster.confirms_exits = false;
    cluster.die("m1").cycle();
    seen(&mut cluster, share, "m2", 4);
    assert_eq!(used(cluster.cycle()), [0, 3]);
}

/// A single wrong number must not use up the whole range of numbers.
#[test]
fn a_share_number_that_is_never_reached_is_not_passed() {
    for (shown, next) in [(7, 8), ((1 << 52) - 1, 1 << 52), (1 << 52, 1), (1 << 53, 1)] {
        let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
        let (share, facts) = (ShareId(shown), ShareFacts::default());
        cluster.arrive(job(1, "ann", "normal", 1));
        cluster.record(SchedulerEvent::ShareSeen {
            job: JobId(1),
            share,
            node: "m1".into(),
            facts,
        });
        assert_eq!(cluster.scheduler.view().next_share, ShareId(next), "{shown}");
    }
}
