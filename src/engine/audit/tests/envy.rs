//! Nobody could have been given one more share by right.

use super::*;

/// Ann has a machine of 4 in nshares of 1, Bob wants an nshare of 2 and is counted one.
fn waiting() -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[4]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.count(ann, 4);
    scene.count(bob, 0);
    (scene, ann, bob)
}

#[test]
fn surplus_is_taken_for_those_below_their_count() {
    let (scene, ann, bob) = waiting();
    scene.breaks(Rule::CurableEnvy, |scene| {
        scene.count(ann, 2);
        scene.count(bob, 1);
    });
}

/// After one share Ann has 1 left of 2, which is more than nothing; after two she has nothing.
#[test]
fn nobody_is_ruined_for_others_unless_the_count_says_so() {
    let mut scene = Scene::new(&[2]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.count(ann, 0);
    scene.count(bob, 1);
    scene.snapshot.calm.rest_cycles = 2;
    scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.rest_cycles = 0);
}

#[test]
fn worse_priority_is_always_to_be_had() {
    let mut scene = Scene::new(&[2]);
    let low = scene.running((ANN, LOW), 1, 2, 0);
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.count(low, 0);
    scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 1));
}

#[test]
fn worse_priority_is_to_be_had_for_more_than_the_first() {
    let mut scene = Scene::new(&[1, 1]);
    let low = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(low, 0);
    scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 2));
}

/// There is room that stays idle, for which nothing need be taken.
#[test]
fn who_has_something_envies_only_those_who_have_more() {
    let mut scene = Scene::new(&[3, 1]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 0);
    let other = scene.running((BOB, FIXED), 1, 1, 1);
    scene.edit(ann).facts.remaining = 2;
    scene.count(ann, 2);
    scene.count(other, 0);
    assert_eq!(scene.broken(), [Rule::IdleRoom]);
    scene.hold(bob, 1, 1);
    scene.edit(other).shares.clear();
    assert_eq!(scene.broken(), [Rule::IdleRoom, Rule::CurableEnvy]);
}

#[test]
fn who_has_nothing_lacks_what_is_idle_as_well() {
    let mut scene = Scene::new(&[1]);
    let ann = scene.job(ANN, FAIR, 1, 1);
    scene.count(ann, 1);
    assert_eq!(scene.broken(), [Rule::IdleRoom, Rule::CurableEnvy]);
}

/// An opinion must not take longer than the decision.
#[test]
fn where_there_is_too_much_to_look_at_nothing_is_said() {
    for (shares, broken) in [(199_998, vec![Rule::CurableEnvy]), (199_999, vec![])] {
        let mut scene = Scene::new(&[shares]);
        let ann = scene.running((ANN, FAIR), 1, shares, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.count(ann, shares - 1);
        scene.count(bob, 1);
        assert_eq!(scene.broken(), broken, "{shares}");
    }
}

/// Ann has no surplus, for more is counted than the machine can hold of whole nshares.
#[test]
fn the_needy_take_without_surplus_where_defragmentation_is_on() {
    let mut scene = Scene::new(&[4, 3]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    scene.running((ANN, FIXED), 1, 1, 1);
    scene.running((ANN, FIXED), 2, 1, 1);
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.count(ann, 4);
    scene.count(bob, 1);
    scene.count(JobId(2), 0);
    scene.count(JobId(3), 0);
    scene.deserved.insert(bob, 2);
    scene.settings().defragmentation = false;
    scene.breaks(Rule::CurableEnvy, |scene| scene.settings().defragmentation = true);
}

/// Ann has two large shares; Bob has one small one and is counted two. Room is short by one.
fn needy(anns: u64, bobs: u64) -> Vec<Rule> {
    let mut scene = Scene::new(&[6, 2]);
    let ann = scene.running((ANN, FAIR), 3, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    let fixed = scene.running((ANN, FIXED), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(fixed, 0);
    scene.count(bob, 2);
    scene.deserved = BTreeMap::from([(ann, anns), (bob, bobs)]);
    scene.broken()
}

#[test]
fn the_needy_take_from_those_who_can_spare_it() {
    assert_eq!(needy(3, 2), [Rule::CurableEnvy]);
    assert_eq!(needy(4, 2), [], "Ann would become needy");
    assert_eq!(needy(3, 1), [], "Bob is not needy");
}

/// Ann's user has no surplus: what is not counted for the job that could give is counted for
/// another, which can go nowhere.
#[test]
fn who_keeps_its_count_can_spare_the_rest() {
    let mut scene = Scene::new(&[6, 2]);
    let ann = scene.running((ANN, FAIR), 3, 2, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    let fixed = scene.running((ANN, FIXED), 1, 1, 1);
    let other = scene.job(ANN, FAIR, 3, 1);
    scene.edit(other).machines = Some(Vec::new());
    scene.edit(bob).facts.remaining = 2;
    scene.count(fixed, 0);
    scene.count(ann, 1);
    scene.count(other, 1);
    scene.deserved = BTreeMap::from([(ann, 4), (bob, 2)]);
    scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 2));
}

/// What Ann got in this cycle may have come after everything was tried.
#[test]
fn a_donor_is_judged_without_what_is_new() {
    let mut scene = Scene::new(&[2, 2]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    scene.edit(ann).facts.remaining = 4;
    scene.expand(ann, 1);
    scene.expand(ann, 1);
    let bob = scene.job(BOB, FAIR, 2, 1);
    scene.count(ann, 2);
    scene.count(bob, 1);
    assert_eq!(scene.broken(), []);
}

#[test]
fn a_donor_is_judged_without_what_it_lost() {
    let mut scene = Scene::new(&[4, 2]);
    let rich = scene.running((ANN, FAIR), 1, 4, 0);
    let fixed = scene.running((BOB, FIXED), 2, 1, 1);
    let served = scene.job(ANN, FAIR, 1, 2);
    let waiting = scene.job(ANN, FAIR, 2, 1);
    for place in 0..2 {
        scene.preempt(rich, place, Some(served), PreemptionRule::FairShare);
        scene.promise(served, 0);
    }
    scene.count(fixed, 0);
    scene.count(waiting, 1);
    assert_eq!(scene.broken(), []);
}

#[test]
fn new_and_leaving_shares_are_not_to_be_had() {
    let mut scene = Scene::new(&[4]);
    let ann = scene.job(ANN, FAIR, 1, 4);
    let bob = scene.job(BOB, FAIR, 2, 1);
    (0..4).for_each(|_| {
        scene.expand(ann, 0);
    });
    scene.count(ann, 2);
    scene.count(bob, 1);
    assert_eq!(scene.broken(), [], "created in this very cycle");
}
