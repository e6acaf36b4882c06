//! Who may take while the cluster moves, is quiet or is at rest, and what truly holds a job back.

use super::*;

/// Ann has a machine of 4 in nshares of 1 and gives Bob one, under `rule`; Bob, who could use one
/// more than he had, had `bobs` on a machine of his own.
fn given_to_bob(rule: PreemptionRule, bobs: u64) -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[4, bobs]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.job(BOB, FAIR, 1, bobs + 1);
    scene.hold(bob, bobs, 1);
    scene.preempt(ann, 0, Some(bob), rule);
    scene.promise(bob, 0);
    (scene, ann, bob)
}

#[test]
fn holdings_alone_decide_in_a_cluster_at_rest_only() {
    let (mut scene, ..) = given_to_bob(PreemptionRule::Envy, 1);
    scene.snapshot.calm.rest_cycles = 2;
    scene.breaks(Rule::WrongMoment, |scene| scene.snapshot.calm.rest_cycles = 1);
}

/// Bob has one of two that were counted for him, or nothing.
#[test]
fn at_rest_counts_decide_for_a_while_and_then_for_those_who_have_nothing() {
    for rule in [PreemptionRule::FairShare, PreemptionRule::Defragmentation] {
        let is_early = |bobs, quiet_cycles, rest_cycles, has_defragmentation| {
            let (mut scene, ann, bob) = given_to_bob(rule, bobs);
            scene.count(ann, 2);
            scene.count(bob, 2);
            scene.settings().defragmentation = has_defragmentation;
            scene.snapshot.calm = Calm { quiet_cycles, rest_cycles, takings: Vec::new() };
            !scene.broken().contains(&Rule::WrongMoment)
        };
        assert!(is_early(1, 5, 5, true));
        assert!(!is_early(1, 6, 6, true));
        assert!(is_early(1, 6, 1, true), "the cluster moves");
        assert!(is_early(0, 6, 6, true), "he has nothing");
        assert!(is_early(1, 6, 6, false), "nothing else decides");
    }
}

/// Ann holds 7 in nshares of 1 and Bob 4 in one, and twice that was counted for him: he may have
/// one of hers by counts, as she has 6 then, and not by holdings, as he would get 4.
#[test]
fn at_rest_whoever_is_below_its_count_is_not_behind_for_ever() {
    let mut scene = Scene::new(&[7, 4]);
    let ann = scene.running((ANN, FAIR), 1, 7, 0);
    let bob = scene.running((BOB, FAIR), 4, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(ann, 3);
    scene.count(bob, 2);
    scene.snapshot.calm = Calm { quiet_cycles: 6, rest_cycles: 6, takings: Vec::new() };
    assert_eq!(scene.broken(), []);
}

#[test]
fn what_is_beyond_all_counts_is_for_a_cluster_that_moves() {
    let (mut scene, ..) = given_to_bob(PreemptionRule::FirstShare, 0);
    assert_eq!(scene.broken(), []);
    scene.breaks(Rule::WrongMoment, |scene| scene.snapshot.calm.rest_cycles = 2);
}

#[test]
fn a_first_share_is_for_those_who_have_nothing() {
    let (mut scene, ..) = given_to_bob(PreemptionRule::FirstShare, 1);
    assert_eq!(scene.broken(), [Rule::FalseFirst]);
    // Nor may it be among what was counted for its job.
    let mut scene = Scene::new(&[2]);
    let ann = scene.running((ANN, FAIR), 2, 1, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.preempt(ann, 0, Some(bob), PreemptionRule::FirstShare);
    scene.promise(bob, 0);
    scene.count(ann, 1);
    scene.count(bob, 0);
    let broken = scene.broken();
    assert!(broken.contains(&Rule::FalseFirst), "{broken:?}");
}

#[test]
fn whoever_loses_all_may_have_a_first_share() {
    let (mut scene, _, bob) = given_to_bob(PreemptionRule::FirstShare, 1);
    scene.edit(bob).facts.remaining = 1;
    scene.machine(1).pool = APART;
    scene.preempt(bob, 0, None, PreemptionRule::NoLongerAllowed);
    assert_eq!(scene.broken(), []);
}

/// Ann has 4 where Bob gets his first, and 2 of another job elsewhere.
#[test]
fn a_first_share_is_beyond_the_counts_of_its_job_and_of_its_side() {
    for (here, elsewhere, bobs, is_right) in
        [(3, 2, 1, true), (4, 0, 1, false), (3, 3, 1, false), (3, 2, 0, false)]
    {
        let mut scene = Scene::new(&[4, 2, 1]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let other = scene.running((ANN, FAIR), 1, 2, 1);
        let bob = scene.job(BOB, FAIR, 1, 1);
        let fixed = scene.running((BOB, FIXED), 1, 1, 2);
        scene.edit(other).facts.remaining = 3;
        scene.edit(other).machines = Some(vec![MachineIx(1)]);
        scene.edit(bob).machines = Some(vec![MachineIx(0)]);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FirstShare);
        scene.promise(bob, 0);
        for (job, given) in [(ann, here), (other, elsewhere), (bob, bobs), (fixed, 0)] {
            scene.count(job, given);
        }
        let wanted: &[Rule] = if is_right { &[] } else { &[Rule::FalseFirst] };
        assert_eq!(scene.broken(), wanted, "{here} {elsewhere} {bobs}");
    }
}

/// 400 s of work, against 300 s of credit and nothing waited.
#[test]
fn nobody_destroys_more_than_the_waiting_has_cost() {
    let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 1);
    scene.edit(ann).shares[0].facts.investment = 400_000;
    scene.schedule.preemptions[0].loss = 400_000;
    scene.edit(bob).behind_since = Some(90);
    scene.breaks(Rule::TooDear, |scene| scene.edit(bob).behind_since = Some(91));
}

#[test]
fn the_first_share_is_free() {
    let (mut scene, ann, _) = given_to_bob(PreemptionRule::FairShare, 0);
    scene.edit(ann).shares[0].facts.investment = 400_000;
    scene.schedule.preemptions[0].loss = 400_000;
    assert_eq!(scene.broken(), []);
}

#[test]
fn credit_is_for_those_who_have_hardly_begun() {
    for (bobs, broken) in [(3, vec![]), (4, vec![Rule::TooDear])] {
        let mut scene = Scene::new(&[8, bobs]);
        let ann = scene.running((ANN, FAIR), 1, 8, 0);
        let bob = scene.running((BOB, FAIR), 1, bobs, 1);
        scene.edit(bob).facts.remaining = bobs + 1;
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 0);
        scene.edit(ann).shares[0].facts.investment = 300_000;
        scene.schedule.preemptions[0].loss = 300_000;
        assert_eq!(scene.broken(), broken, "{bobs}");
    }
}

/// It took from Bob, the cluster has long been quiet, and much is lost.
#[test]
fn worse_priority_is_taken_from_at_any_time_and_price() {
    let mut scene = Scene::new(&[1, 1]);
    let low = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.preempt(low, 0, Some(bob), PreemptionRule::Priority);
    scene.promise(bob, 0);
    scene.edit(low).shares[0].facts.investment = 9_000_000;
    scene.schedule.preemptions[0].loss = 9_000_000;
    let takings = vec![Taking { from: bob, by: low }];
    scene.snapshot.calm = Calm { quiet_cycles: 12, rest_cycles: 0, takings };
    assert_eq!(scene.broken(), []);
}

#[test]
fn at_last_call_a_class_may_destroy_up_to_its_limit_and_at_rest_nothing_is_too_dear() {
    for (quiet_cycles, rest_cycles, loss, is_right) in [
        (11, 0, 2_000_000, true),
        (11, 0, 2_000_001, false),
        (10, 0, 2_000_000, false),
        (5, 2, 9_000_000, true),
    ] {
        let (mut scene, ann, _) = given_to_bob(PreemptionRule::FairShare, 1);
        scene.edit(ann).shares[0].facts.investment = loss;
        scene.schedule.preemptions[0].loss = loss;
        scene.snapshot.calm = Calm { quiet_cycles, rest_cycles, takings: Vec::new() };
        let broken = scene.broken();
        assert_eq!(broken.is_empty(), is_right, "{quiet_cycles} {rest_cycles} {loss}");
        assert!(broken.iter().all(|rule| *rule == Rule::TooDear));
    }
}

#[test]
fn nobody_takes_back_not_even_through_others() {
    let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 1);
    let cid = scene.job(UserIx(0), HEAVY, 1, 0);
    scene.snapshot.calm.quiet_cycles = 9;
    scene.snapshot.calm.takings = vec![Taking { from: ann, by: bob }];
    assert_eq!(scene.broken(), [], "once more in the same direction");
    scene.snapshot.calm.takings = vec![Taking { from: bob, by: cid }];
    assert_eq!(scene.broken(), [], "another level");
    scene.breaks(Rule::TakenBack, |scene| {
        scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
    });
}

#[test]
fn taking_back_through_a_third_is_taking_back() {
    let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 1);
    Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
    let cid = scene.job(UserIx(2), FAIR, 1, 0);
    scene.snapshot.calm.quiet_cycles = 9;
    scene.snapshot.calm.takings = vec![Taking { from: bob, by: cid }];
    assert_eq!(scene.broken(), []);
    scene.breaks(Rule::TakenBack, |scene| {
        scene.snapshot.calm.takings.push(Taking { from: cid, by: ann });
    });
}

/// Ann, who took from Bob, is moved for him; nothing is taken from her.
#[test]
fn to_be_moved_is_not_to_be_taken_from() {
    let mut scene = Scene::new(&[2, 1, 9, 4]);
    let moved = scene.running((ANN, FAIR), 1, 1, 0);
    let bob = scene.job(BOB, FAIR, 2, 1);
    let ann = scene.running((ANN, FAIR), 1, 4, 3);
    scene.running((BOB, FAIR), 1, 9, 2);
    scene.preempt(moved, 0, Some(bob), PreemptionRule::Relocation);
    scene.expand(moved, 1);
    scene.promise(bob, 0);
    scene.snapshot.calm =
        Calm { quiet_cycles: 12, rest_cycles: 2, takings: vec![Taking { from: bob, by: moved }] };
    assert_eq!(scene.broken(), []);
    // And so she may take from him, who is ahead now.
    scene.snapshot.calm.takings.clear();
    scene.count(JobId(4), 8);
    scene.breaks(Rule::CurableEnvy, |scene| {
        scene.edit(ann).facts.remaining = 5;
        scene.count(ann, 5);
    });
}

#[test]
fn who_has_nothing_may_take_back_for_a_while() {
    let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 0);
    scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
    scene.snapshot.calm.quiet_cycles = 11;
    scene.breaks(Rule::TakenBack, |scene| scene.snapshot.calm.quiet_cycles = 12);
}

/// Ann's surplus is Bob's to have, who has nothing, though she took from him; later it is not.
#[test]
fn envy_of_those_who_may_not_take_back_is_not_curable() {
    let mut scene = Scene::new(&[4]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.count(ann, 3);
    scene.count(bob, 1);
    scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
    scene.snapshot.calm.quiet_cycles = 12;
    scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.quiet_cycles = 11);
}

#[test]
fn envy_of_those_who_have_something_is_not_curable_by_taking_back() {
    let mut scene = Scene::new(&[4, 1]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(ann, 3);
    scene.count(bob, 2);
    scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
    scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.takings.clear());
}

#[test]
fn after_the_quiet_stop_only_those_take_who_have_nothing() {
    let (mut scene, ..) = given_to_bob(PreemptionRule::FairShare, 0);
    scene.snapshot.calm.quiet_cycles = 12;
    assert_eq!(scene.broken(), []);
    let (mut scene, ..) = given_to_bob(PreemptionRule::FairShare, 1);
    scene.snapshot.calm.quiet_cycles = 11;
    assert_eq!(scene.broken(), []);
    scene.snapshot.calm.quiet_cycles = 12;
    scene.settings().quiet_stop = None;
    scene.breaks(Rule::NotStopped, |scene| scene.settings().quiet_stop = Some(12));
}

/// Bob has one, is counted two, and could take from Ann, but says what holds him back.
fn held_back(held_back: HeldBack, bound: CapBound, calm: Calm) -> Vec<Rule> {
    let mut scene = Scene::new(&[4, 1]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(ann, 3);
    scene.count(bob, 2);
    scene.snapshot.calm = calm;
    scene.report();
    assert!(scene.broken_as_reported().contains(&Rule::CurableEnvy));
    scene.schedule.report.jobs[1].held_back = Some(held_back);
    scene.schedule.report.jobs[1].cap.bound = bound;
    scene.broken_as_reported()
}

#[test]
fn whoever_is_held_back_says_truly_by_what() {
    let moving = Calm::default;
    let quiet = || Calm { quiet_cycles: 12, ..Calm::default() };
    let rest = || Calm { rest_cycles: 2, ..Calm::default() };
    let dear = |loss, limit| HeldBack::TooDear { loss, limit };
    for (what, calm, is_true) in [
        (dear(300_001, 300_000), moving(), true),
        (dear(300_000, 300_000), moving(), false),
        (dear(900_000, 299_999), moving(), false),
        (dear(900_000, 300_000), rest(), false),
        (dear(2_000_001, 2_000_000), quiet(), true),
        (HeldBack::Quiet { cycles: 12 }, quiet(), true),
        (HeldBack::Quiet { cycles: 12 }, moving(), false),
        (HeldBack::TooLate, moving(), false),
    ] {
        let wanted: &[Rule] = if is_true { &[] } else { &[Rule::FalseHold] };
        assert_eq!(held_back(what, CapBound::WorkLeft, calm), wanted, "{what}");
    }
}

#[test]
fn it_is_too_late_where_a_prediction_says_so_and_the_cluster_moves() {
    for (bound, rest_cycles, is_true) in [
        (CapBound::Prediction, 1, true),
        (CapBound::Prediction, 2, false),
        (CapBound::WorkLeft, 1, false),
    ] {
        let calm = Calm { rest_cycles, ..Calm::default() };
        let wanted: &[Rule] = if is_true { &[] } else { &[Rule::FalseHold] };
        assert_eq!(held_back(HeldBack::TooLate, bound, calm), wanted, "{bound:?}");
    }
}

/// Ann holds 4 of 4 and Bob 1, as is counted: at rest he is behind by more than one.
#[test]
fn at_rest_envy_is_cured_whatever_was_counted() {
    let mut scene = Scene::new(&[4, 1]);
    scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(JobId(1), 2);
    scene.snapshot.calm.rest_cycles = 1;
    scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.rest_cycles = 2);
}

#[test]
fn at_rest_only_counts_are_evidence_without_defragmentation() {
    let mut scene = Scene::new(&[4, 1]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(ann, 3);
    scene.snapshot.calm.rest_cycles = 2;
    scene.settings().defragmentation = false;
    scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 2));
}

#[test]
fn whoever_has_nothing_gets_what_is_beyond_all_counts() {
    // By weight Ann's class is behind Bob's, though it holds one more than is counted for it.
    let mut scene = Scene::new(&[2, 9]);
    let ann = scene.running((ANN, HEAVY), 1, 2, 0);
    scene.running((ANN, FAIR), 1, 9, 1);
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.edit(ann).machines = Some(vec![MachineIx(0)]);
    scene.edit(bob).machines = Some(vec![MachineIx(0)]);
    scene.count(ann, 1);
    scene.count(bob, 1);
    scene.snapshot.calm.rest_cycles = 2;
    scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.rest_cycles = 0);
}

/// Bob has nothing, and needs this order on the machine where Ann has so many shares of this
/// order, and count; in the same class she has so many of 1 elsewhere, and count. By weight it
/// is behind Bob's.
fn beyond(
    (size, held, given): (u32, u64, u64),
    (held_elsewhere, given_elsewhere): (u64, u64),
    needed: u32,
) -> Vec<Rule> {
    let mut scene = Scene::new(&[u64::from(size) * held, 9, held_elsewhere, 1]);
    let ann = scene.running((ANN, HEAVY), size, held, 0);
    let other = scene.job(ANN, HEAVY, 1, held_elsewhere.max(given_elsewhere));
    scene.hold(other, held_elsewhere, 2);
    scene.running((ANN, FAIR), 1, 9, 1);
    let fixed = scene.running((ANN, FIXED), 1, 1, 3);
    let bob = scene.job(BOB, FAIR, needed, 1);
    for (job, on) in [(ann, 0), (other, 2), (bob, 0)] {
        scene.edit(job).machines = Some(vec![MachineIx(on)]);
    }
    for (job, given) in [(ann, given), (other, given_elsewhere), (fixed, 0), (bob, 1)] {
        scene.count(job, given);
    }
    scene.broken()
}

#[test]
fn what_is_beyond_all_counts_is_beyond_those_of_its_job_and_of_its_side() {
    assert_eq!(beyond((1, 1, 0), (2, 0), 1), [Rule::CurableEnvy]);
    assert_eq!(beyond((1, 1, 1), (2, 0), 1), [], "its job's count");
    assert_eq!(beyond((1, 1, 0), (0, 0), 1), [Rule::CurableEnvy]);
    assert_eq!(beyond((1, 1, 0), (0, 1), 1), [], "its side's count");
    assert_eq!(beyond((2, 2, 0), (4, 2), 4), [Rule::CurableEnvy], "two shares");
    assert_eq!(beyond((2, 2, 1), (4, 2), 4), [], "its job's count, with the second");
}
