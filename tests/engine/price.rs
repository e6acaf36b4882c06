//! Price and time of space: waiting pays for losses, the quiet cluster, and the preemption stop.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, fair, job};
use apportion::engine::{Alternatives, NextBest};
use apportion::model::{JobId, NodeIx, ProcessLimit, SharePhase};
use apportion::scheduler::SchedulerEvent;

/// Ann has all of a node of 8, with `investment` in each process; then Bob comes, too.
fn two_users(investment: u64) -> Cluster {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=8").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.invest(1, investment).arrive(job(2, "bob", "normal", 1));
    cluster
}

/// A job makes progress: news without a change of any demand.
fn work_gets_on(cluster: &mut Cluster) {
    cluster.change(1, |facts| facts.time_per_item = Some(facts.time_per_item.unwrap_or(0) + 1));
}

/// Claims change, though nothing comes of it.
fn claims_change(cluster: &mut Cluster) {
    cluster.change(1, |facts| {
        facts.limit = match facts.limit {
            ProcessLimit::AtMost(1000) => ProcessLimit::AtMost(1001),
            ProcessLimit::Unlimited | ProcessLimit::AtMost(_) | ProcessLimit::Frozen => {
                ProcessLimit::AtMost(1000)
            }
        };
    });
}

fn net_strikes(cluster: &Cluster) -> u64 {
    cluster.view.planned.as_deref().unwrap().schedule.report.net_strikes
}

/// 440 s would be lost: 300 s of credit, and 14 cycles of 10 s, of which the cycle in which it got
/// its first process is none.
#[test]
fn waiting_pays_for_what_is_destroyed() {
    let mut cluster = two_users(439_000);
    let mut waited = 0;
    while cluster.view.jobs.len() < 2 || cluster.held(2) < 2 {
        claims_change(&mut cluster);
        cluster.invest(1, 439_000).cycle();
        if cluster.held(2) == 1 && cluster.job(2).promised.0 == 0 {
            assert_eq!(cluster.reason(2), "too_dear", "{}", cluster.picture());
            waited += 1;
        }
        assert!(waited < 30, "{}", cluster.picture());
    }
    assert_eq!(waited, 15);
}

#[test]
fn work_that_has_nothing_pays_nothing() {
    let mut cluster = two_users(9_000_000);
    cluster.cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [7, 1], "{}", cluster.picture());
}

/// The loss is the investment, and 1 s of the process's initialization.
#[test]
fn at_rest_the_loss_limit_of_the_class_holds() {
    for (investment, bobs) in [(1_999_000, 4), (2_000_000, 1)] {
        let mut cluster = two_users(investment);
        cluster.cycles(6);
        assert_eq!(cluster.held(2), bobs, "{investment}: {}", cluster.picture());
        let reason = if bobs == 1 { "too_dear" } else { "fair_share_used" };
        assert_eq!(cluster.reason(2), reason);
    }
}

#[test]
fn a_class_may_allow_less_to_be_lost() {
    let frugal = apportion::model::CapRules { loss_limit: 300_000, ..UNPACED };
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, frugal)]);
    cluster.nodes("m1=8").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.invest(1, 999_000).arrive(job(2, "bob", "normal", 1));
    for _ in 0..17 {
        work_gets_on(&mut cluster);
        cluster.cycle();
    }
    assert_eq!((cluster.held(2), cluster.reason(2)), (1, "too_dear"), "{}", cluster.picture());
}

/// An expensive share becomes cheap when nothing has changed for long: only without the preemption
/// stop is it preempted then.
#[test]
fn after_the_quiet_stop_the_net_strikes_and_says_so() {
    for (quiet_stop, bobs, strikes) in [(Some(3), 1, 1), (None, 4, 0)] {
        let mut cluster = two_users(9_000_000);
        cluster.reconfigure(|topology| topology.settings.quiet_stop = quiet_stop);
        for _ in 0..5 {
            work_gets_on(&mut cluster);
            cluster.cycle();
        }
        assert_eq!((cluster.held(2), cluster.reason(2)), (1, "too_dear"));
        for _ in 0..3 {
            work_gets_on(&mut cluster);
            cluster.invest(1, 0).cycle();
        }
        assert_eq!(cluster.held(2), bobs, "{}", cluster.picture());
        assert_eq!(net_strikes(&cluster), strikes);
        assert_eq!(cluster.reason(2), if strikes == 1 { "quiet_stop" } else { "fair_share_used" });
    }
}

/// Ann has a node of 4 and a node of 2; preemption on the first costs less.
#[test]
fn a_receipt_says_what_else_was_considered() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4 m2=2 m3=1").arrive(job(1, "ann", "normal", 1)).cycle().invest(1, 5000);
    let on_m1: Vec<_> = cluster.job(1).shares.iter().filter(|share| share.node == "m1").collect();
    let (share, node) = (on_m1[0].id, on_m1[0].node.clone());
    let facts = apportion::model::ShareFacts { is_initialized: true, ..Default::default() };
    cluster.record(SchedulerEvent::ShareSeen { job: JobId(1), share, node, facts });
    cluster.arrive(job(2, "bob", "normal", 2)).cycle();
    let planned = cluster.view.planned.as_deref().unwrap();
    let receipt = planned.schedule.preemptions[0];
    let runner_up = NextBest { node: NodeIx(1), victims: 2, loss: 12_000 };
    let considered = Alternatives { nodes: 2, plans: 2, runner_up: Some(runner_up) };
    assert_eq!((receipt.node, receipt.considered), (NodeIx(0), considered));
}

/// Bob's process of 3 waits for three exits. The first exit leaves room for a process of Cid's, who
/// may only use that node.
#[test]
fn room_made_for_one_is_not_given_to_another_piece_by_piece() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=3 m2=9").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.confirms_exits = false;
    let [mut large, mut small] = [job(2, "bob", "normal", 3), job(3, "cid", "normal", 1)];
    large.nodes = vec!["m1".to_owned()];
    small.nodes = vec!["m1".to_owned()];
    large.facts.limit = ProcessLimit::AtMost(1);
    cluster.arrive(large).cycle();
    let is_leaving = |cluster: &Cluster| {
        let shares = cluster.job(1).shares.iter();
        let leaving = shares.filter(|share| share.state == SharePhase::Leaving);
        leaving.map(|share| share.id).collect::<Vec<_>>()
    };
    let leaving = is_leaving(&cluster);
    assert_eq!(leaving.len(), 3, "{}", cluster.picture());
    cluster.arrive(small).exit(1, leaving[0]).cycles(3);
    assert_eq!(cluster.holdings([2, 3]), [0, 0], "{}", cluster.picture());
    cluster.exit(1, leaving[1]).exit(1, leaving[2]).cycle();
    assert_eq!(cluster.held(2), 1, "{}", cluster.picture());
}
