//! Donors, beneficiaries, rules, and the purpose of preemptions.

use super::*;
use crate::model::Place;

#[test]
fn a_share_is_taken_once() {
    let (scene, ..) = sharing(VictimRule::FairShare);
    scene.misreports(Rule::VictimNotHeld, |scene| {
        let again = scene.schedule.preemptions[0];
        scene.schedule.preemptions.push(again);
    });
    let mut scene = Scene::new(&[4]);
    let job = scene.running((ANN, FAIR), 1, 1, 0);
    scene.edit(job).facts.remaining = 0;
    scene.edit(job).shares[0].state = SharePhase::Leaving;
    scene.misreports(Rule::VictimNotHeld, |scene| {
        scene.preempt(job, 0, None, VictimRule::NoLongerAllowed);
    });
}

#[test]
fn a_receipt_agrees_with_its_share() {
    let doctors: [fn(&mut Preemption); 3] = [
        |receipt| receipt.loss = 7,
        |receipt| receipt.node = NodeIx(1),
        |receipt| receipt.rule = VictimRule::NoLongerAllowed,
    ];
    for doctor in doctors {
        let mut scene = Scene::new(&[1, 1]);
        let ann = scene.running((ANN, LOW), 1, 1, 0);
        scene.running((ANN, FIXED), 1, 1, 1);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.preempt(ann, 0, Some(bob), VictimRule::Priority);
        scene.promise(bob, 0);
        scene.edit(ann).facts.limit = ProcessLimit::AtMost(0);
        scene.breaks(Rule::FalseReceipt, |scene| doctor(&mut scene.schedule.preemptions[0]));
    }
}

/// The class has a lower priority than the beneficiary's; its only fault is that it is not
/// fair-share.
#[test]
fn only_fair_share_work_is_preempted() {
    let mut scene = Scene::new(&[1]);
    let ann = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::Priority);
    scene.promise(bob, 0);
    scene.breaks(Rule::NotPreemptable, |scene| {
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        topology.classes[LOW].policy = ClassPolicy::FixedShare;
    });
}

#[test]
fn a_maximum_takes_what_is_above_it() {
    let mut scene = Scene::new(&[4]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    scene.edit(ann).facts.limit = ProcessLimit::AtMost(3);
    scene.preempt(ann, 0, None, VictimRule::NoLongerAllowed);
    scene.breaks(Rule::StillAllowed, |scene| {
        scene.preempt(ann, 1, None, VictimRule::NoLongerAllowed);
        scene.schedule.promises.clear();
    });
}

/// Six processes are held and three allowed: a process goes as its node left the pool, two more go
/// for the maximum.
#[test]
fn what_goes_for_its_place_does_not_go_for_the_maximum_as_well() {
    let mut scene = Scene::new(&[5, 2]);
    scene.node(1).pool = APART;
    let ann = scene.running((ANN, FAIR), 1, 5, 0);
    scene.hold(ann, 1, 1);
    scene.edit(ann).facts.limit = ProcessLimit::AtMost(3);
    for place in [5, 0, 1] {
        scene.preempt(ann, place, None, VictimRule::NoLongerAllowed);
    }
    scene.breaks(Rule::StillAllowed, |scene| {
        scene.preempt(ann, 2, None, VictimRule::NoLongerAllowed);
    });
}

/// D2: its pool was taken from its class.
#[test]
fn a_share_may_not_stay_where_its_job_may_not_be() {
    let mut scene = Scene::new(&[1]);
    let ann = scene.running((ANN, INNER), 1, 1, 0);
    scene.preempt(ann, 0, None, VictimRule::NoLongerAllowed);
    scene.breaks(Rule::StillAllowed, |scene| scene.node(0).pool = SUB);
}

#[test]
fn the_rule_fits_the_priorities() {
    let (scene, ..) = sharing(VictimRule::FairShare);
    scene.breaks(Rule::WrongPriority, |scene| {
        scene.schedule.preemptions[0].rule = VictimRule::Priority;
    });
    let mut scene = Scene::new(&[1]);
    let ann = scene.running((ANN, LOW), 1, 1, 0);
    scene.edit(ann).facts.is_completing = true;
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::Priority);
    scene.promise(bob, 0);
    scene.breaks(Rule::WrongPriority, |scene| {
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        topology.classes[LOW].priority = 1;
    });
}

#[test]
fn better_priority_does_not_take_for_fairness() {
    let mut scene = Scene::new(&[1]);
    let ann = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::Priority);
    scene.promise(bob, 0);
    scene.breaks(Rule::WrongPriority, |scene| {
        scene.schedule.preemptions[0].rule = VictimRule::FairShare;
    });
}

/// Node 1 is emptied anyhow: with Bob's promise there, nothing on node 0 need be preempted.
#[test]
fn no_share_is_preempted_in_vain() {
    let mut scene = Scene::new(&[2, 2]);
    let ann = scene.running((ANN, LOW), 2, 1, 0);
    scene.hold(ann, 1, 1);
    scene.edit(ann).shares[1].state = SharePhase::Leaving;
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::Priority);
    scene.promise(bob, 0);
    scene.breaks(Rule::Unpaid, |scene| scene.schedule.promises[0].node = NodeIx(1));
}

/// Bob gets a share in free space beside the share preempted for him. The space of the preempted
/// share is kept for Ann's fixed work.
#[test]
fn a_new_share_on_that_very_node_pays_as_well() {
    let mut scene = Scene::new(&[2, 1]);
    let low = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    let fixed = scene.job(ANN, FIXED, 1, 2);
    scene.preempt(low, 0, Some(bob), VictimRule::Priority);
    scene.expand(bob, 0);
    scene.expand(fixed, 1);
    scene.promise(fixed, 0);
    scene.breaks(Rule::Unpaid, |scene| {
        scene.schedule.expansions[0].node = NodeIx(1);
        scene.schedule.expansions[1].node = NodeIx(0);
    });
}

/// The second job lost shares to Bob on its own node, but is not moved for him.
#[test]
fn what_others_get_who_gave_elsewhere_does_not_pay() {
    let mut scene = Scene::new(&[2, 2, 1]);
    let first = scene.running((ANN, LOW), 2, 1, 0);
    let second = scene.running((ANN, LOW), 1, 2, 1);
    scene.hold(second, 1, 2);
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.promise(bob, 1);
    for place in 0..2 {
        scene.preempt(second, place, Some(bob), VictimRule::Priority);
    }
    scene.breaks(Rule::Unpaid, |scene| {
        scene.preempt(first, 0, Some(bob), VictimRule::Priority);
        scene.promise(second, 0);
        scene.promise(second, 0);
    });
}

#[test]
fn no_victim_is_superfluous() {
    let (scene, ann, bob) = sharing(VictimRule::FairShare);
    scene.breaks(Rule::SuperfluousVictim, |scene| {
        scene.schedule.promises.pop();
        scene.count(ann, 2);
        scene.count(bob, 1);
    });
}

/// A plan makes space for an nshare of 3 in a single step, so even the smallest victim was needed.
#[test]
fn not_even_a_small_victim_is_superfluous() {
    let mut scene = Scene::new(&[4]);
    let small = scene.running((ANN, LOW), 1, 1, 0);
    let large = scene.running((ANN, LOW), 3, 1, 0);
    let bob = scene.job(BOB, FAIR, 3, 1);
    scene.preempt(large, 0, Some(bob), VictimRule::Priority);
    scene.promise(bob, 0);
    scene.breaks(Rule::SuperfluousVictim, |scene| {
        scene.preempt(small, 0, Some(bob), VictimRule::Priority);
    });
}

/// A share of 1 preempted for an nshare of 1 leaves nothing over. So a third victim cannot be
/// excused by the plan for the other job.
#[test]
fn plans_of_others_excuse_no_more_than_they_can_have_left() {
    let mut scene = Scene::new(&[3]);
    let low = scene.running((ANN, LOW), 1, 3, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    let ann = scene.job(ANN, FAIR, 1, 1);
    for (place, taker) in [bob, ann].into_iter().enumerate() {
        scene.preempt(low, place, Some(taker), VictimRule::Priority);
        scene.promise(taker, 0);
    }
    assert_eq!(scene.broken(), []);
    scene.preempt(low, 2, Some(bob), VictimRule::Priority);
    assert_eq!(scene.broken(), [Rule::SuperfluousVictim; 2]);
}

/// Ann's only share is in the way of Bob, who has nothing, and moves to the other node.
fn moving() -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[2, 1]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    let bob = scene.job(BOB, HEAVY, 2, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::Relocation);
    scene.expand(ann, 1);
    scene.promise(bob, 0);
    scene.count(bob, 1);
    scene.snapshot.quiescence.rest_cycles = 2;
    (scene, ann, bob)
}

#[test]
fn a_moved_job_has_as_much_elsewhere() {
    let (scene, ..) = moving();
    scene.breaks(Rule::FalseMove, |scene| {
        scene.schedule.expansions.clear();
        scene.node(1).order = QShares(0);
    });
    let (scene, ..) = moving();
    scene.breaks(Rule::FalseMove, |scene| {
        scene.schedule.expansions[0].node = NodeIx(0);
        scene.node(0).order = QShares(3);
    });
}

/// An earlier promise is not the new place of a moved job.
#[test]
fn a_moved_job_gets_a_new_share() {
    let (mut scene, ann, _) = moving();
    scene.schedule.expansions.clear();
    scene.promise(ann, 1);
    scene.edit(ann).facts.remaining = 2;
    scene.running((ANN, FIXED), 1, 1, 1);
    scene.edit(JobId(3)).shares[0].state = SharePhase::Leaving;
    scene.breaks(Rule::FalseMove, |scene| {
        scene.snapshot.promises = vec![scene.schedule.promises[1]];
    });
}

/// Swapping two shares of a job between two nodes would be no move at all.
#[test]
fn what_is_moved_from_two_nodes_goes_to_others() {
    let mut scene = Scene::new(&[3, 3, 1, 1]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    scene.hold(ann, 1, 1);
    scene.edit(ann).facts.remaining = 2;
    for (place, on) in [(0, 2), (1, 3)] {
        let bob = scene.job(BOB, HEAVY, 3, 1);
        scene.preempt(ann, place, Some(bob), VictimRule::Relocation);
        scene.expand(ann, on);
        scene.promise(bob, place);
    }
    scene.snapshot.quiescence.rest_cycles = 2;
    scene.breaks(Rule::FalseMove, |scene| {
        for new in &mut scene.schedule.expansions {
            new.node = NodeIx(0);
        }
        scene.node(0).order = QShares(5);
    });
}

#[test]
fn only_peers_are_moved_and_only_fair_share_work() {
    let (scene, _, bob) = moving();
    scene.breaks(Rule::WrongPriority, |scene| scene.edit(bob).class = LOW);
    let (scene, ..) = moving();
    scene.breaks(Rule::NotPreemptable, |scene| {
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        topology.classes[FAIR].policy = ClassPolicy::FixedShare;
    });
}

#[test]
fn no_share_is_moved_in_vain_or_needlessly() {
    let (scene, ..) = moving();
    scene.breaks(Rule::Unpaid, |scene| scene.schedule.promises.clear());
    let (scene, ..) = moving();
    scene.breaks(Rule::SuperfluousVictim, |scene| {
        scene.node(0).order = QShares(3);
    });
}

/// Cid is promised the first node. Ann has two shares there. A share goes by the rule of fairness,
/// and the other share moves to the place of a share of Bob's.
fn moving_in() -> Scene {
    let mut scene = Scene::new(&[2, 2]);
    Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 2, 1);
    let cid = scene.job(UserIx(2), FAIR, 2, 1);
    scene.preempt(ann, 0, Some(cid), VictimRule::FairShare);
    scene.preempt(ann, 1, Some(cid), VictimRule::Relocation);
    scene.preempt(bob, 0, Some(cid), VictimRule::FairShare);
    scene.promise(ann, 1);
    scene.promise(cid, 0);
    for job in [ann, bob] {
        scene.edit(job).facts.limit = ProcessLimit::AtMost(2);
    }
    scene.snapshot.quiescence.rest_cycles = 2;
    scene
}

#[test]
fn what_is_taken_elsewhere_makes_room_for_what_is_moved() {
    moving_in().breaks(Rule::Unpaid, |scene| {
        Arc::make_mut(&mut scene.snapshot.nodes).push(node(2, 1));
        scene.schedule.promises[0].node = NodeIx(2);
    });
    moving_in().breaks(Rule::SuperfluousVictim, |scene| {
        scene.node(1).order = QShares(3);
        for job in scene.jobs() {
            Arc::make_mut(job).facts.limit = ProcessLimit::AtMost(1);
        }
    });
}

/// Bob loses a share for the moved share, and a share on the node that is cleared. Cid was promised
/// nothing for the first of them, as that space was for Ann.
#[test]
fn what_others_are_promised_is_not_the_beneficiary_s() {
    let mut scene = Scene::new(&[2, 3]);
    Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 0);
    scene.hold(bob, 3, 1);
    scene.edit(bob).facts.limit = ProcessLimit::AtMost(4);
    let cid = scene.job(UserIx(2), FAIR, 2, 1);
    scene.preempt(ann, 0, Some(cid), VictimRule::Relocation);
    scene.preempt(bob, 0, Some(cid), VictimRule::FairShare);
    scene.preempt(bob, 1, Some(cid), VictimRule::FairShare);
    scene.promise(ann, 1);
    scene.promise(cid, 0);
    scene.edit(bob).facts.remaining = 4;
    scene.snapshot.quiescence.rest_cycles = 2;
    assert_eq!(scene.broken(), []);
}

/// Two nshares of 3, with 1 free: the first plan takes the share of 2, the second the share of 5.
/// In the end 2 are left over, and still each plan was tight at its time.
#[test]
fn plans_are_not_blamed_for_those_that_follow() {
    let mut scene = Scene::new(&[8]);
    let small = scene.running((ANN, LOW), 2, 1, 0);
    let large = scene.running((ANN, LOW), 5, 1, 0);
    let bob = scene.job(BOB, FAIR, 3, 2);
    for victim in [small, large] {
        scene.preempt(victim, 0, Some(bob), VictimRule::Priority);
        scene.promise(bob, 0);
    }
    scene.breaks(Rule::SuperfluousVictim, |scene| {
        scene.schedule.promises.pop();
    });
}

/// The share of 3 preempted for an nshare of 2 leaves 1, which came too late for the other plan.
#[test]
fn plans_are_not_blamed_for_those_of_others() {
    let mut scene = Scene::new(&[4]);
    for (size, asked) in [(1, 1), (3, 2)] {
        let low = scene.running((ANN, LOW), size, 1, 0);
        let bob = scene.job(BOB, FAIR, asked, 1);
        scene.preempt(low, 0, Some(bob), VictimRule::Priority);
        scene.promise(bob, 0);
    }
    assert_eq!(scene.broken(), []);
}

/// The first job gives to the second at 6 against 3, and to the third until it has 3 itself.
#[test]
fn what_a_donor_loses_to_others_is_not_held_against_the_first() {
    let mut scene = Scene::new(&[6, 3]);
    let rich = scene.running((ANN, FAIR), 1, 6, 0);
    let middling = scene.running((ANN, FAIR), 1, 3, 1);
    scene.edit(middling).facts.remaining = 4;
    let poor = scene.job(ANN, FAIR, 1, 2);
    for (place, taker) in [middling, poor, poor].into_iter().enumerate() {
        scene.preempt(rich, place, Some(taker), VictimRule::FairShare);
        scene.promise(taker, 0);
    }
    scene.count(middling, 3);
    assert_eq!(scene.broken(), []);
}

/// With its earlier promise, Bob's job has as much as Ann would be left with.
#[test]
fn what_was_promised_before_is_held() {
    let mut scene = Scene::new(&[2, 1]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    let low = scene.running((ANN, LOW), 1, 1, 1);
    scene.edit(low).shares[0].state = SharePhase::Leaving;
    let bob = scene.job(BOB, FAIR, 1, 2);
    scene.promise(bob, 1);
    scene.snapshot.promises = scene.schedule.promises.clone();
    scene.count(ann, 2);
    scene.count(bob, 1);
    scene.breaks(Rule::UnfairPreemption, |scene| {
        scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
        scene.promise(bob, 0);
    });
}

/// A share preempted for a maximum made space for the promise that Bob had.
#[test]
fn what_was_promised_before_is_held_where_others_had_to_leave() {
    let mut scene = Scene::new(&[2, 2]);
    let low = scene.running((ANN, LOW), 1, 2, 0);
    let ann = scene.running((ANN, FAIR), 1, 2, 1);
    let bob = scene.job(BOB, FAIR, 1, 2);
    scene.edit(low).facts.limit = ProcessLimit::AtMost(1);
    scene.preempt(low, 0, None, VictimRule::NoLongerAllowed);
    scene.promise(bob, 0);
    scene.snapshot.promises = scene.schedule.promises.clone();
    scene.breaks(Rule::UnfairPreemption, |scene| {
        scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
        scene.promise(bob, 1);
        scene.count(ann, 2);
        scene.count(bob, 1);
    });
}

/// Bob's old promise lost its space to fixed work; then Ann's share was preempted for an equal
/// promise.
#[test]
fn what_was_taken_for_is_not_what_was_promised_before() {
    let mut scene = Scene::new(&[5]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    let fixed = scene.job(BOB, FIXED, 1, 1);
    scene.promise(bob, 0);
    scene.snapshot.promises = scene.schedule.promises.clone();
    scene.preempt(ann, 0, Some(bob), VictimRule::FirstShare);
    scene.promise(fixed, 0);
    assert_eq!(scene.broken(), []);
}

/// Of two promises on a node with terminating shares, only the first is from before. Bob has 1, and
/// Ann is left with 2.
#[test]
fn what_was_promised_once_is_held_once() {
    let mut scene = Scene::new(&[2, 3]);
    let low = scene.running((ANN, LOW), 1, 2, 0);
    for share in &mut scene.edit(low).shares {
        share.state = SharePhase::Leaving;
    }
    let ann = scene.running((ANN, FAIR), 1, 3, 1);
    let bob = scene.job(BOB, FAIR, 1, 3);
    scene.promise(bob, 0);
    scene.snapshot.promises = scene.schedule.promises.clone();
    scene.promise(bob, 0);
    scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
    scene.promise(bob, 1);
    scene.count(ann, 3);
    scene.count(bob, 2);
    scene.breaks(Rule::UnfairPreemption, |scene| {
        let again = scene.snapshot.promises[0];
        scene.snapshot.promises.push(again);
    });
}

/// Bob had three promises on a node that has shrunk to 1 beside Ann's two shares. So he has 1, then
/// 2 with the first of the preempted shares, and Ann is left with 3.
#[test]
fn old_promises_are_held_as_far_as_there_is_room() {
    let mut scene = Scene::new(&[3, 3]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    scene.hold(ann, 3, 1);
    let bob = scene.job(BOB, FAIR, 1, 3);
    for _ in 0..3 {
        scene.promise(bob, 0);
    }
    scene.snapshot.promises = scene.schedule.promises.clone();
    for place in 0..2 {
        scene.preempt(ann, place, Some(bob), VictimRule::FairShare);
    }
    assert_eq!(scene.broken(), []);
}

/// Ann has `held` shares of `size` and loses `lost` of them for `nshares` nshares of Bob's, who had
/// nothing.
fn one_by_one((size, held, lost): (u32, u64, u64), nshares: u64) -> Vec<Rule> {
    let mut scene = Scene::new(&[u64::from(size) * held]);
    let ann = scene.running((ANN, FAIR), size, held, 0);
    let bob = scene.job(BOB, FAIR, 1, nshares);
    for place in 0..usize::try_from(lost).unwrap() {
        scene.preempt(ann, place, Some(bob), VictimRule::FairShare);
    }
    for _ in 0..nshares {
        scene.promise(bob, 0);
    }
    if size == 1 {
        scene.count(ann, held.div_ceil(2));
        scene.count(bob, held >> 1);
    }
    scene.broken()
}

#[test]
fn what_was_promised_before_the_last_plan_is_held() {
    assert_eq!(one_by_one((1, 6, 3), 3), [], "3 against 2");
    assert_eq!(one_by_one((1, 5, 3), 3), [Rule::UnfairPreemption], "2 against 2");
    assert_eq!(one_by_one((2, 3, 2), 4), [], "2 against 1: two plans, two that fit beside");
}

/// As in the test above, 2 against 2, on a node whose last free space went to fixed work in the
/// same cycle.
#[test]
fn what_is_new_on_a_node_was_not_in_the_way() {
    let mut scene = Scene::new(&[8]);
    let ann = scene.running((ANN, FAIR), 1, 5, 0);
    let bob = scene.job(BOB, FAIR, 1, 3);
    let fixed = scene.job(BOB, FIXED, 1, 3);
    for place in 0..3 {
        scene.preempt(ann, place, Some(bob), VictimRule::FairShare);
        scene.promise(bob, 0);
        scene.expand(fixed, 0);
    }
    scene.count(ann, 3);
    scene.count(bob, 2);
    assert_eq!(scene.broken(), [Rule::UnfairPreemption]);
}

/// Ann has 8 on a node that has shrunk to 4. A single plan may have made up for that and made space
/// for both of Bob's nshares, while he had 1.
#[test]
fn a_plan_makes_up_for_what_has_shrunk() {
    let mut scene = Scene::new(&[4, 1]);
    let ann = scene.running((ANN, FAIR), 2, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 3;
    for place in 0..3 {
        scene.preempt(ann, place, Some(bob), VictimRule::FairShare);
    }
    scene.promise(bob, 0);
    scene.promise(bob, 0);
    scene.count(ann, 2);
    scene.count(bob, 1);
    scene.breaks(Rule::UnfairPreemption, |scene| scene.node(0).order = QShares(5));
}

#[test]
fn a_donor_is_credited_with_what_it_gets() {
    let mut scene = Scene::new(&[2, 1, 1]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.expand(ann, 2);
    scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
    scene.promise(bob, 0);
    assert_eq!(scene.broken(), []);
}

#[test]
fn the_donor_stays_strictly_better_off() {
    let mut scene = Scene::new(&[2, 1]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.fair_share = BTreeMap::from([(bob, 2)]);
    scene.count(ann, 2);
    scene.count(bob, 1);
    scene.breaks(Rule::UnfairPreemption, |scene| {
        scene.preempt(ann, 0, Some(bob), VictimRule::Defragmentation);
        scene.promise(bob, 0);
    });
}

/// Two of three quanta that were promised at a low priority go to a fixed job. A quantum is left over, and
/// Bob's victim went before.
#[test]
fn what_is_left_of_a_withdrawn_promise_came_later() {
    let broken = |was_promised: bool| {
        let mut scene = Scene::new(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        let low = scene.job(BOB, LOW, 3, 1);
        let fixed = scene.job(BOB, FIXED, 2, 1);
        for share in scene.edit(ann).shares.iter_mut().skip(1) {
            share.state = SharePhase::Leaving;
        }
        if was_promised {
            let order = scene.edit(low).order;
            let promise = Promise { rank: None, job: low, node: NodeIx(0), order };
            scene.snapshot.promises.push(promise);
        }
        scene.preempt(ann, 0, Some(bob), VictimRule::FirstShare);
        scene.promise(bob, 0);
        scene.promise(fixed, 0);
        scene.broken().contains(&Rule::SuperfluousVictim)
    };
    assert_eq!([true, false].map(broken), [false, true]);
}

/// The same swap, by the targets. Nothing of Ann's target goes to a job that is then no worse off.
/// Shares above her target do, as long as she was better off before.
#[test]
fn only_a_surplus_goes_to_a_side_no_worse_off() {
    for (counted, bobs, findings) in
        [(2, 1, &[Rule::UnfairPreemption][..]), (1, 1, &[]), (1, 2, &[Rule::UnfairPreemption])]
    {
        let mut scene = Scene::new(&[2, 2]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, bobs, 1);
        scene.running((ANN, FIXED), 1, 2 - bobs, 1);
        scene.edit(bob).facts.remaining = bobs + 1;
        scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
        scene.promise(bob, 0);
        scene.count(ann, counted);
        scene.count(bob, 3 - counted);
        assert_eq!(scene.broken(), findings, "{counted} {bobs}");
    }
}

/// Twice the weight: 4 against 1 becomes 3 against 2, and 3 for a weight of 2 is less.
#[test]
fn classes_are_compared_by_weight() {
    let mut scene = Scene::new(&[4, 2]);
    let ann = scene.running((ANN, HEAVY), 1, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.running((ANN, FIXED), 1, 1, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
    scene.promise(bob, 0);
    assert_eq!(scene.broken(), [], "3 / 2 against 1 / 1");
    scene.preempt(ann, 1, Some(bob), VictimRule::FairShare);
    scene.promise(bob, 0);
    scene.edit(bob).facts.remaining = 3;
    scene.count(ann, 2);
    scene.count(bob, 2);
    assert_eq!(scene.broken(), [Rule::UnfairPreemption], "2 / 2 against 2 / 1");
}

#[test]
fn a_donor_does_not_become_needy() {
    let mut scene = Scene::new(&[6, 2]);
    let ann = scene.running((ANN, FAIR), 3, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    let fixed = scene.running((ANN, FIXED), 1, 1, 1);
    scene.count(fixed, 0);
    scene.edit(bob).facts.remaining = 4;
    scene.preempt(ann, 0, Some(bob), VictimRule::Defragmentation);
    for _ in 0..3 {
        scene.promise(bob, 0);
    }
    scene.fair_share = BTreeMap::from([(ann, 3), (bob, 3)]);
    scene.count(ann, 2);
    scene.count(bob, 2);
    scene.breaks(Rule::NeedyDonor, |scene| {
        scene.fair_share.insert(ann, 4);
    });
}

/// Ann has two shares of 3 and would be poor with a single share. Bob, who has 1, preempts a share
/// of hers.
fn giving() -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[6, 2]);
    let ann = scene.running((ANN, FAIR), 3, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    let fixed = scene.running((ANN, FIXED), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.preempt(ann, 0, Some(bob), VictimRule::Defragmentation);
    scene.promise(bob, 0);
    scene.fair_share = BTreeMap::from([(ann, 4), (bob, 2)]);
    scene.count(fixed, 0);
    scene.count(ann, 2);
    scene.count(bob, 2);
    (scene, ann, bob)
}

#[test]
fn a_donor_that_gains_as_well_may_become_needy() {
    let (mut scene, ann, _) = giving();
    assert_eq!(scene.broken(), [Rule::NeedyDonor]);
    Arc::make_mut(&mut scene.snapshot.nodes).push(node(2, 3));
    scene.expand(ann, 2);
    scene.edit(ann).facts.remaining = 3;
    scene.count(ann, 3);
    assert_eq!(scene.broken(), []);
}

#[test]
fn a_donor_to_a_job_with_nothing_may_become_needy() {
    let (mut scene, _, bob) = giving();
    scene.edit(bob).shares.clear();
    scene.edit(bob).facts.remaining = 1;
    scene.count(bob, 1);
    assert_eq!(scene.broken(), []);
}

#[test]
fn a_donor_on_a_side_with_surplus_may_become_needy() {
    let (mut scene, ..) = giving();
    Arc::make_mut(&mut scene.snapshot.nodes).push(node(2, 1));
    let other = scene.running((ANN, FAIR), 1, 1, 2);
    scene.edit(other).nodes = Some([NodeIx(2)].into());
    scene.count(other, 0);
    scene.breaks(Rule::NeedyDonor, |scene| scene.count(other, 1));
}

/// The rest of her target belongs to another job on her side, which can go nowhere.
#[test]
fn a_donor_that_keeps_its_count_does_not_become_needy() {
    let (mut scene, ann, _) = giving();
    let other = scene.job(ANN, FAIR, 3, 1);
    scene.edit(other).nodes = Some([].into());
    scene.count(other, 1);
    scene.count(ann, 1);
    assert_eq!(scene.broken(), []);
}

/// Ann was promised a third share before, in the space of a terminating share. That is no gain.
#[test]
fn a_donor_is_judged_with_what_it_was_promised_before() {
    let (mut scene, ann, bob) = giving();
    Arc::make_mut(&mut scene.snapshot.nodes).push(node(2, 3));
    let low = scene.running((ANN, LOW), 3, 1, 2);
    scene.edit(low).shares[0].state = SharePhase::Leaving;
    scene.promise(ann, 2);
    scene.snapshot.promises = vec![scene.schedule.promises[1]];
    scene.edit(ann).facts.remaining = 3;
    scene.count(ann, 3);
    scene.edit(bob).nodes = Some([NodeIx(0), NodeIx(1)].into());
    scene.edit(bob).facts.remaining = 5;
    scene.breaks(Rule::NeedyDonor, |scene| {
        scene.preempt(ann, 1, Some(bob), VictimRule::Defragmentation);
        for _ in 0..3 {
            scene.promise(bob, 0);
        }
    });
}

/// Ann was promised 3 on each of two nodes. A gang takes the space of a promise, so Ann has 3 when Bob
/// loses 4 of 8. Two processes of Ann fit where Bob was. Without the gang she has 6 before.
#[test]
fn a_promise_that_made_way_for_a_gang_is_not_kept() {
    for has_gang in [true, false] {
        let mut scene = Scene::new(&[8, 4, 4]);
        let bob = scene.job(BOB, FAIR, 4, 100);
        for (place, phase) in [
            (0, SharePhase::Held),
            (0, SharePhase::Leaving),
            (1, SharePhase::Held),
            (2, SharePhase::Leaving),
        ] {
            scene.hold(bob, 1, place);
            scene.edit(bob).shares.last_mut().unwrap().state = phase;
        }
        let ann = scene.job(ANN, FAIR, 3, 100);
        if has_gang {
            let gang = scene.gang((ANN, FIXED), &[(1, 2)], Place::Scatter);
            scene.promise(gang, 0);
            scene.schedule.promises[0].rank = Some(0);
        }
        for place in [0, 0, 2] {
            scene.promise(ann, place);
        }
        let promises = &scene.schedule.promises;
        scene.snapshot.promises = promises.iter().rev().take(2).copied().collect();
        scene.preempt(bob, 0, Some(ann), VictimRule::FairShare);
        scene.count(ann, 3);
        scene.count(bob, 2);
        assert_eq!(scene.broken().contains(&Rule::UnfairPreemption), !has_gang, "{has_gang}");
    }
}
