//! Clearing a machine for a job without shares by moving its processes: the conditions, the new
//! nodes, and the time.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::script::{Case, Script, cases};
use apportion::engine::{Alternatives, NextBest, Preemption, VictimRule, WaitReason};
use apportion::model::{NShares, NodeIx, Order, QShares};
use apportion::scheduler::Waiting;

/// Three users of two nodes. The third user, whose class has the same weight, needs a whole node; a
/// user who made room by right would have nothing left. Of the 6 processes that leave the first
/// node, 5 go by right, and the last is moved in place of a process of the second user. Then the
/// first two users are made equal.
const TWO_MAKE_WAY: &[&str] = &["m1=6; 1 ann 1x6", "m2=6; 2 bob 1x6", "3 cid@other 6x1"];

/// A class beside the standard classes.
const OTHER: &str = "other=100";

/// A process on each of two nodes, first of size 1 and later of 2, where a process of 2 finds no
/// space.
const SPREAD: [&str; 2] = ["m1=1; 1 ann 1x1", "m2=1; 2 bob 1x1"];

/// Two processes of Ann's fill a node, and might be on other nodes.
const IN_THE_WAY: [&str; 2] =
    ["m1=2; 1 ann 1x2 on m1,m2,m4", "m2=8; m3=2; 2 dan 1 on m2; 4 cid 1x2 on m3"];

cases! {
    two_who_could_not_clear_a_node_each_make_way_together {
        classes: OTHER,
        steps: TWO_MAKE_WAY,
        held: "1=3 2=3 3=1",
        lost: "1=6 2=3",
    }
    one_that_is_in_the_way_moves_to_free_space {
        steps: &[SPREAD[0], SPREAD[1], "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=1",
        lost: "1=1",
    }
    /// Ann's newer process would go first, but has no other node.
    the_one_moves_that_may_take_space_elsewhere {
        steps: &[
            "m1=3; 1 bob 1x1 on m1,m2; 2 ann 1x1 on m1",
            "m2=1; 4 dan@low 1x1 on m2",
            "3 cid 2x1 on m1",
        ],
        held: "1=1 2=1 3=1 4=0",
        lost: "1=1 4=1",
    }
    the_one_moves_that_has_least_to_lose {
        steps: &[SPREAD[0], SPREAD[1], "1 did 60; 2 did 40", "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=1",
        lost: "2=1",
    }
    nothing_moves_where_there_is_no_space_elsewhere {
        steps: &[
            "m1=1; 1 ann 1x1 on m1,m2",
            "m2=2; 2 bob 1x1 on m2; 9 dan@fixed 1 on m2",
            "m4=1; m5=1; m6=1; 4 eve 1 on m4,m5,m6",
            "m1=2; 3 cid 2x1",
        ],
        held: "1=1 2=1 3=0 4=3",
        why: "3=fair_share_used",
    }
    /// On Ann's node of 2 Bob would come to 4, and she would keep 4. But then her second job would
    /// have nothing.
    a_last_process_stays_where_evenness_would_take_it {
        steps: &["m1=2; m2=2; m3=1; m4=1; m5=1; m6=1; 1 ann 1; 2 ann 2x1", "3 bob 2"],
        held: "1=4 2=1 3=1",
        lost: "1=2",
        why: "3=fair_share_used",
    }
    /// The third node would do for the second of them, but neither may use it.
    nothing_moves_where_there_is_space_for_a_part_of_it_only {
        steps: &[
            "m1=2; 1 ann 1x1 on m1,m2; 2 bob 1x1 on m1,m2",
            "m2=1; m3=1; 3 cid 2x1 on m1",
        ],
        held: "1=1 2=1 3=0",
        why: "3=fair_share_used",
    }
    all_that_is_in_the_way_is_moved_at_once {
        steps: &["m1=2; 1 ann 1x1; 2 bob 1x1", "m2=2; 3 cid 2x1 on m1"],
        held: "1=1 2=1 3=1",
        lost: "1=1 2=1",
    }
    nothing_moves_to_a_node_that_it_may_not_use {
        steps: &["m1=1; 1 ann 1x1 on m1", "m2=1; 2 bob 1x1 on m2", "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=0",
        why: "3=fair_share_used",
    }
    what_may_not_move_stays_and_another_node_is_cleared {
        steps: &["m1=1; 1 ann 1x1 on m1", "m2=1; 2 bob 1x1", "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=1",
        lost: "2=1",
    }
    /// An ending job would not get a lost share back.
    what_is_ending_is_not_moved {
        steps: &[SPREAD[0], SPREAD[1], "1 ends; 2 ends", "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=0",
        why: "3=fragmented",
    }
    what_may_not_grow_may_be_moved {
        steps: &[SPREAD[0], SPREAD[1], "1 frozen; 2 frozen", "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=1",
        lost: "1=1",
    }
    /// The smaller process has less to lose and would go first, but does not have to.
    no_more_is_moved_than_has_to_be {
        steps: &[
            "m1=4; 1 bob 3x1 on m1,m2; 2 ann 1x1 on m1,m2",
            "m2=4; 3 cid 3x1 on m1",
        ],
        held: "1=1 2=1 3=1",
        lost: "1=1",
    }
    /// Cid's job has nothing, and Ann is no better off. Of her two processes in the way, the first
    /// is preempted for it, and the last is moved, to space that is made at Dan's. Then she takes
    /// the lost process back from him.
    of_two_that_are_in_the_way_one_goes_and_the_last_is_moved {
        steps: &[IN_THE_WAY[0], IN_THE_WAY[1], "3 cid 2x1 on m1"],
        held: "1=2 2=6 3=1 4=2",
        lost: "1=2 2=2",
    }
    one_may_wait_for_its_new_place_where_another_need_not {
        steps: &[IN_THE_WAY[0], IN_THE_WAY[1], "m4=1; 3 cid 2x1 on m1"],
        held: "1=2 2=7 3=1 4=2",
        lost: "1=2 2=1",
    }
    as_many_may_wait_for_new_places_as_have_one_already {
        steps: &[
            "m1=4; 1 ann 1x4 on m1,m2,m4",
            "m2=8; m3=4; 2 dan 1 on m2; 4 cid 1x4 on m3",
            "m4=2; 3 cid 4x1 on m1",
        ],
        held: "1=4 2=6 3=1 4=4",
        lost: "1=4 2=2",
    }
    /// Two processes have space on the fourth node; the other processes find theirs at Dan's.
    all_shares_in_the_way_go_except_the_last {
        steps: &[
            "m1=5; 1 ann 1x5 on m1,m2,m4",
            "m2=12; m3=5; 2 dan 1 on m2; 4 cid 1x5 on m3",
            "m4=2; 3 cid 5x1 on m1",
        ],
        held: "1=5 2=9 3=1 4=5",
        lost: "1=5 2=3",
    }
    /// A move could make space for another process, but the job is not in need.
    nothing_moves_for_work_that_has_something {
        steps: &[SPREAD[0], SPREAD[1], "m1=2; m2=2; m3=2; 3 cid 2x2"],
        held: "1=1 2=1 3=1",
    }
}

fn receipts(script: &Script) -> Vec<Preemption> {
    script.cluster.view.planned.as_deref().unwrap().schedule.preemptions.clone()
}

/// Two nodes of 2, each with a process of 1, and a process of 2 that waits.
fn in_the_way() -> Script {
    let mut script = Script::new(&Case::default());
    for step in SPREAD {
        script.step(step);
        script.settle();
    }
    script.step("m1=2; m2=2; 3 cid 2x1");
    script
}

/// Runs until a cycle takes something back or moves it.
fn until_something_goes(script: &mut Script) {
    assert!((0..5).any(|_| script.cycle() > 0), "{}", script.cluster.picture());
}

/// Also if its class has the same priority as the job in need.
#[test]
fn what_cannot_be_preempted_is_not_moved() {
    let mut script = Script::new(&Case::default());
    script.cluster.reconfigure(|topology| {
        let mut classes = topology.classes.iter_mut();
        classes.find(|class| class.name == "fixed").unwrap().priority = 10;
    });
    for step in ["m1=1; 1 ann@fixed 1", "m2=1; 2 bob 1x1", "m1=2; m2=2; 3 cid 2x1"] {
        script.step(step);
        script.settle();
    }
    assert_eq!((script.lost(), script.cluster.holdings([1, 2, 3])), (1, [1, 1, 1]));
    let ann = &script.cluster.job(1).shares;
    assert!(ann.iter().all(|share| share.node == "m1"), "{}", script.cluster.picture());
}

#[test]
fn nothing_moves_while_work_does() {
    let mut script = in_the_way();
    for _ in 0..5 {
        script.step("1 did 1");
        script.step("1 left 900000; 1 left 800000");
        assert_eq!(script.cycle(), 0);
    }
    assert_eq!(script.cycle(), 0);
    assert_eq!(script.cycle(), 1, "two cycles after the last news");
}

#[test]
fn nothing_moves_without_defragmentation() {
    let mut script = in_the_way();
    script.cluster.reconfigure(|topology| topology.settings.defragmentation = false);
    script.settle();
    assert_eq!((script.lost(), script.cluster.holdings([1, 2, 3])), (0, [1, 1, 0]));
    assert_eq!(script.cluster.reason(3), "fragmented");
    script.cluster.reconfigure(|topology| topology.settings.defragmentation = true);
    script.settle();
    assert_eq!((script.lost(), script.cluster.holdings([1, 2, 3])), (1, [1, 1, 1]));
}

/// A moved process starts again in the same cycle. It is moved once, even if its exit takes long.
#[test]
fn what_is_moved_is_never_without_and_is_moved_once() {
    let mut script = in_the_way();
    script.cluster.confirms_exits = false;
    let mut moved = Vec::new();
    for _ in 0..10 {
        script.cycle();
        moved.extend(receipts(&script).iter().map(|receipt| (receipt.rule, receipt.beneficiary)));
        assert_eq!(script.cluster.holdings([1, 2]), [1, 1], "{}", script.cluster.picture());
    }
    let cid = script.cluster.job(3).id;
    assert_eq!(moved, [(VictimRule::Relocation, Some(cid))]);
    assert_eq!(script.cluster.reason(3), "waiting_for_exits");
    script.cluster.confirms_exits = true;
    script.settle();
    assert_eq!((script.lost(), script.cluster.holdings([1, 2, 3])), (1, [1, 1, 1]));
}

/// At most 32 nodes are tried: nodes that are too small do not count, and nodes with more in the
/// way come last.
#[test]
fn a_node_that_can_be_cleared_is_found_among_many_that_cannot() {
    for (others, size) in [("are full for good", 2), ("are too small", 1)] {
        let mut script = Script::new(&Case::default());
        for step in SPREAD {
            script.step(step);
            script.settle();
        }
        for node in 10..50 {
            script.step(&format!("a{node}={size}"));
            if size == 2 {
                script.step(&format!("{node} dan@fixed 2 on a{node}"));
            }
        }
        script.settle();
        script.step("m1=2; m2=2; 3 cid 2x1");
        script.settle();
        assert_eq!(script.cluster.holdings([1, 2, 3]), [1, 1, 1], "{others}");
        assert_eq!(script.lost(), 1, "{others}");
    }
}

/// Either node could be cleared; on the second there is as much to lose.
#[test]
fn a_receipt_says_what_else_could_have_been_moved() {
    let mut script = in_the_way();
    until_something_goes(&mut script);
    let [receipt] = receipts(&script)[..] else { panic!("{}", script.cluster.picture()) };
    let runner_up = NextBest { node: NodeIx(1), victims: 1, loss: 0 };
    let considered = Alternatives { nodes: 2, plans: 2, runner_up: Some(runner_up) };
    assert_eq!((receipt.node, receipt.considered), (NodeIx(0), considered));
}

/// Shares taken on the other node go by right, for the job that needs the first node.
#[test]
fn a_receipt_tells_what_was_moved_from_what_was_taken() {
    let mut script = Script::new(&Case { classes: OTHER, ..Case::default() });
    for step in TWO_MAKE_WAY {
        script.settle();
        script.step(step);
    }
    until_something_goes(&mut script);
    let receipts = receipts(&script);
    let cid = script.cluster.job(3).id;
    let of = |job: u64, rule| {
        let for_cid = receipts.iter().filter(|receipt| receipt.beneficiary == Some(cid));
        for_cid.filter(|receipt| receipt.job.0 == job && receipt.rule == rule).count()
    };
    assert_eq!(of(1, VictimRule::FairShare) + of(1, VictimRule::Defragmentation), 5);
    assert_eq!((of(1, VictimRule::Relocation), of(2, VictimRule::Relocation)), (1, 0));
    assert_eq!(of(2, VictimRule::FairShare), 1);
}

/// Ann and Bob have four each, and Bob needs two more on a node where a process of Ann's is in the
/// way. The process moves to a node that no other job may use. As Bob is now ahead by two, Ann
/// takes a process from him in the next cycle: her own process moved, so the no-take-back rule does
/// not hold her.
#[test]
fn a_moved_job_may_take_from_others() {
    let mut script = Script::new(&Case::default());
    script.step("m1=1; m3=7; 1 ann 1x1 on m1,m2; 4 ann 1 on m3; 2 bob 1 on m3");
    script.settle();
    script.step("m1=2; m2=1; 3 bob 2x1 on m1");
    let told = |script: &Script| -> Vec<_> {
        receipts(script).iter().map(|gone| (gone.job.0, gone.rule)).collect()
    };
    until_something_goes(&mut script);
    assert_eq!(told(&script), [(1, VictimRule::Relocation)]);
    script.cycle();
    assert_eq!(told(&script), [(2, VictimRule::FairShare)]);
    script.settle();
    assert_eq!(script.cluster.holdings([1, 2, 3, 4]), [1, 3, 1, 4], "{}", script.cluster.picture());
}

/// Half of each node of 2 is free, and neither node may be cleared for a process of 2.
#[test]
fn a_fragmented_job_reports_the_free_space() {
    let mut script = Script::new(&Case::default());
    script.cluster.reconfigure(|topology| topology.settings.defragmentation = false);
    for step in [SPREAD[0], SPREAD[1], "m1=2; m2=2; 3 cid 2x1"] {
        script.step(step);
        script.settle();
    }
    let asks = Order::new(2).unwrap();
    let (free, largest_hole) = (QShares(2), QShares(1));
    let reason = WaitReason::Fragmented { target: NShares(1), free, largest_hole, asks };
    assert_eq!(script.cluster.job(3).reason, Some(Waiting::Engine(reason)));
}
