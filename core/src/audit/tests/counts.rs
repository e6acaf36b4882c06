//! Targets stay within the tree and the caps, and leave no peer behind.

use super::*;

#[test]
fn no_tree_is_counted_twice() {
    let mut scene = Scene::new(&[2, 2]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    scene.edit(ann).facts.remaining = 4;
    scene.node(1).pool = APART;
    scene.node(1).order = QShares(2);
    scene.breaks(Rule::OverCounted, |scene| scene.count(ann, 3));
}

#[test]
fn what_is_held_out_of_scheduling_may_be_counted() {
    let mut scene = Scene::new(&[2, 1]);
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    scene.hold(ann, 1, 1);
    scene.node(1).state.is_varied_off = true;
    scene.edit(ann).facts.remaining = 4;
    scene.breaks(Rule::OverCounted, |scene| {
        scene.count(ann, 4);
    });
}

#[test]
fn what_is_new_makes_a_tree_no_larger() {
    let mut scene = Scene::new(&[2]);
    let ann = scene.job(ANN, FAIR, 1, 4);
    scene.expand(ann, 0);
    scene.expand(ann, 0);
    scene.breaks(Rule::OverCounted, |scene| scene.count(ann, 3));
}

#[test]
fn counts_stay_within_caps() {
    let mut scene = Scene::new(&[2]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    let fixed = scene.running((ANN, FIXED), 1, 1, 0);
    scene.count(fixed, 0);
    scene.breaks(Rule::CountAboveCap, |scene| scene.count(ann, 2));
}

/// Ann's jobs and Bob's job, each with a class, an order and a target in nshares; each could use
/// more.
fn counted(ann: &[(ClassIx, u32, u64)], bob: (ClassIx, u32, u64)) -> Vec<Rule> {
    let mut scene = Scene::new(&[32]);
    let theirs = ann.iter().map(|&job| (ANN, job)).chain([(BOB, bob)]);
    let mut fill = 32;
    for (user, (class, nshare, target)) in theirs {
        let job = scene.job(user, class, nshare, target + 32);
        scene.hold(job, target, 0);
        fill -= u64::from(nshare) * target;
    }
    scene.running((ANN, FIXED), 1, fill, 0);
    scene.broken()
}

#[test]
fn no_target_is_more_than_an_nshare_behind() {
    assert_eq!(counted(&[(FAIR, 1, 4)], (FAIR, 1, 2)), [], "users, one each way");
    assert_eq!(counted(&[(FAIR, 1, 5)], (FAIR, 1, 2)), [Rule::UnevenCounts], "users");
    assert_eq!(counted(&[(HEAVY, 1, 9)], (FAIR, 1, 3)), [], "8 / 2 against 4 / 1");
    assert_eq!(counted(&[(HEAVY, 1, 10)], (FAIR, 1, 3)), [Rule::UnevenCounts], "classes");
    assert_eq!(counted(&[(FAIR, 1, 4), (FAIR, 1, 1)], (FAIR, 1, 5)), [Rule::UnevenCounts]);
}

#[test]
fn what_a_peer_could_not_use_is_not_envied() {
    assert_eq!(counted(&[(FAIR, 1, 9)], (FAIR, 2, 1)), [], "Bob's is larger");
    assert_eq!(counted(&[(FAIR, 2, 5)], (FAIR, 1, 2)), [Rule::UnevenCounts], "smaller");
    assert_eq!(counted(&[(LOW, 1, 9)], (FAIR, 1, 1)), [], "of another priority");
    let beside = [(FAIR, 1, 5), (FAIR, 5, 0)];
    assert_eq!(counted(&beside, (FAIR, 1, 2)), [Rule::UnevenCounts], "large, but not counted");
    let mut scene = Scene::new(&[8, 8]);
    scene.node(0).pool = SUB;
    let ann = scene.job(ANN, FAIR, 1, 30);
    scene.hold(ann, 8, 1);
    let bob = scene.job(BOB, INNER, 1, 30);
    scene.hold(bob, 8, 0);
    scene.count(ann, 12);
    scene.count(bob, 4);
    assert_eq!(scene.broken(), [], "Bob cannot use what is outside his pool");
    scene.count(ann, 4);
    scene.count(bob, 12);
    assert_eq!(scene.broken(), [Rule::UnevenCounts], "Ann can use what is inside it");
}

#[test]
fn what_is_tied_to_its_place_is_not_envied() {
    let tied = |tie: fn(&mut Scene, JobId)| {
        let mut scene = Scene::new(&[5, 2]);
        let ann = scene.running((ANN, FAIR), 1, 5, 0);
        let bob = scene.running((BOB, FAIR), 1, 2, 1);
        scene.edit(ann).facts.remaining = 9;
        scene.edit(bob).facts.remaining = 9;
        tie(&mut scene, ann);
        scene.broken()
    };
    assert_eq!(tied(|_, _| ()), [Rule::UnevenCounts]);
    assert_eq!(tied(|scene, ann| scene.edit(ann).nodes = Some([NodeIx(0)].into())), []);
    assert_eq!(tied(|scene, ann| scene.edit(ann).facts.is_completing = true), []);
    assert_eq!(tied(|scene, _| scene.node(0).state.is_quiesced = true), []);
}

/// The class with the small job grows in space that the large order cannot use.
#[test]
fn leftovers_of_a_peer_are_not_envied() {
    let mut scene = Scene::new(&[2, 1, 1, 1, 1, 1]);
    let large = scene.running((ANN, FAIR), 2, 1, 0);
    let small = scene.job(ANN, FAIR, 1, 9);
    (1..6).for_each(|on| scene.hold(small, 1, on));
    let other = scene.job(BOB, FAIR, 2, 1);
    scene.count(large, 1);
    scene.count(other, 0);
    assert_eq!(scene.broken(), []);
}
