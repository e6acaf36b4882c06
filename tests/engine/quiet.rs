//! Cycles without events: not planned again, and equal to planned cycles. Every cycle of every test
//! asserts the equality ([`support::Cluster::cycle`]).

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::sync::Arc;

use crate::support::cluster::{Cluster, DOUBLING, UNPACED, fair, job};
use apportion::model::{Mebibytes, ShareId};
use apportion::scheduler::SchedulerEvent;

/// A cycle more than every rule that waits for quiet waits: the last that has to be planned.
const STEADY: usize = 13;

/// Two users on a full node; as many cycles as it takes until time alone changes nothing.
fn quiet() -> Cluster {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4 m2=4");
    cluster.arrive(job(1, "ann", "normal", 1)).arrive(job(2, "bob", "normal", 2));
    // The second heartbeat of a new node is news.
    cluster.record(SchedulerEvent::HeartbeatIntervalPassed).nodes("m1=4 m2=4");
    cluster.record(SchedulerEvent::HeartbeatIntervalPassed).nodes("m1=4 m2=4");
    cluster.cycles(STEADY + 3);
    assert!(!is_planned(&mut cluster), "{}", cluster.picture());
    cluster
}

/// True if the next cycle is planned, as opposed to taken over from the last.
fn is_planned(cluster: &mut Cluster) -> bool {
    let before = cluster.view.clone();
    cluster.cycle();
    assert_eq!(cluster.view.cycle, before.cycle + 1);
    let schedule =
        |view: &apportion::scheduler::View| Arc::clone(&view.planned.as_deref().unwrap().schedule);
    !Arc::ptr_eq(&schedule(&before), &schedule(&cluster.view))
}

#[test]
fn a_cycle_in_which_nothing_happened_is_not_planned_again() {
    let mut cluster = quiet();
    let before = cluster.view.clone();
    for _ in 0..10 {
        assert!(!is_planned(&mut cluster));
    }
    assert!(Arc::ptr_eq(&before.jobs, &cluster.view.jobs));
    let planned = cluster.view.planned.as_deref().unwrap();
    assert_eq!(planned.snapshot.cycle, before.cycle + 10, "it is a cycle of its own all the same");
    let quiescence = &before.planned.as_deref().unwrap().snapshot.quiescence;
    assert_eq!(planned.snapshot.quiescence.quiet_cycles, quiescence.quiet_cycles + 10);
}

/// Every rule that waits for so many cycles has to see them.
#[test]
fn until_time_alone_changes_nothing_every_cycle_is_planned() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    for cycle in 2..=STEADY {
        assert!(is_planned(&mut cluster), "cycle {cycle}");
    }
    assert!(!is_planned(&mut cluster));
}

#[test]
fn a_late_quiet_stop_is_waited_for() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.reconfigure(|topology| topology.settings.quiet_stop = Some(20));
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    for cycle in 2..=21 {
        assert!(is_planned(&mut cluster), "cycle {cycle}");
    }
    assert!(!is_planned(&mut cluster));
}

/// Until then the job may have two processes. The preemption stop has long acted when the job may
/// double, and doubling preempts processes of other jobs.
#[test]
fn a_quiet_cluster_shares_anew_once_the_time_per_item_is_known() {
    for (threads, items_done) in [(1, 0), (4, 0), (4, 1)] {
        let mut cluster = Cluster::with_classes(vec![fair("normal", 100, DOUBLING)]);
        cluster.nodes("m1=16 m2=16 m3=16 m4=16");
        let (mut ann, mut bob) = (job(1, "ann", "normal", 1), job(2, "bob", "normal", 1));
        (ann.threads, bob.threads, bob.facts.time_per_item) = (threads, threads, None);
        cluster.arrive(ann).arrive(bob).cycles(3 * STEADY);
        assert_eq!(cluster.holdings([1, 2]), [62, 2], "{}", cluster.picture());

        cluster.change(2, |facts| {
            facts.time_per_item = Some(60_000);
            facts.remaining -= items_done;
        });
        cluster.cycles(3 * STEADY);
        let held = cluster.holdings([1, 2]);
        assert_eq!(held, [32, 32], "{threads} threads, {items_done} done: {}", cluster.reason(2));
    }
}

/// Progress is news, so that the cluster is not idle, but it changes no claim.
#[test]
fn progress_that_frees_no_process_leaves_the_cluster_quiet() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, DOUBLING)]);
    let mut work = job(1, "ann", "normal", 1);
    work.threads = 4;
    cluster.nodes("m1=4").arrive(work).cycles(STEADY);
    let quiescence =
        |cluster: &Cluster| cluster.view.planned.as_deref().unwrap().snapshot.quiescence.clone();
    let before = quiescence(&cluster);
    for cycle in 1..=3 {
        cluster.change(1, |facts| {
            facts.remaining -= 1;
            facts.time_per_item = Some(60_000 + cycle);
        });
        cluster.cycle();
        let now = quiescence(&cluster);
        assert_eq!((now.quiet_cycles, now.rest_cycles), (before.quiet_cycles + cycle, 0));
    }
    // The fourth item frees a process.
    cluster.change(1, |facts| facts.remaining -= 1).cycle();
    assert_eq!(quiescence(&cluster).quiet_cycles, 0);
}

#[test]
fn every_recorded_event_causes_a_plan() {
    type Act = fn(&mut Cluster) -> &mut Cluster;
    let acts: [(&str, Act); 7] = [
        ("a job comes", |cluster| cluster.arrive(job(3, "cid", "normal", 1))),
        ("a job goes", |cluster| cluster.complete(2)),
        ("a job gets on", |cluster| cluster.change(1, |facts| facts.remaining -= 1)),
        ("a node grows", |cluster| cluster.report("m1", Mebibytes::from_gib(8))),
        ("a node dies", |cluster| cluster.die("m2")),
        ("a command that changes nothing", |cluster| cluster.vary_on("m1")),
        ("news of nobody", |cluster| cluster.exit(7, ShareId(7))),
    ];
    for (what, act) in acts {
        let mut cluster = quiet();
        act(&mut cluster);
        assert!(is_planned(&mut cluster), "{what}");
    }
}

#[test]
fn heartbeats_of_nodes_that_are_well_are_no_news() {
    let mut cluster = quiet();
    for _ in 0..5 {
        for node in ["m1", "m2"] {
            cluster.report(node, Mebibytes::from_gib(4));
        }
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
        assert!(!is_planned(&mut cluster));
    }
    // A node missed a heartbeat, which is journaled, and then it reported.
    cluster.report("m1", Mebibytes::from_gib(4));
    cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
    assert!(is_planned(&mut cluster));
    assert_eq!(cluster.node("m2").missed, 1);
    assert!(!is_planned(&mut cluster));
    cluster.report("m2", Mebibytes::from_gib(4));
    assert!(is_planned(&mut cluster));
    assert_eq!(cluster.node("m2").missed, 0);
}
