//! Turns of gangs are earned and paid for, and the paid time is theirs.

use super::*;
use crate::engine::{PaidTurn, TurnAccount, TurnBill};
use crate::model::Place;

/// Length of the gang.
const LENGTH: u64 = 100_000;

/// Bob's job holds all of a node of 4. Ann's gang needs all of it for 100 s, has a fair share of half of it,
/// and its user has saved so many qshare-milliseconds. Its turn has come: it takes the node.
fn turn(base: i64) -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[4]);
    let gang = scene.gang((ANN, FAIR), &[(4, 1)], Place::Free);
    scene.shape(gang).duration = Some(LENGTH);
    scene.fair_share.insert(gang, 2);
    let bob = scene.running((BOB, FAIR), 1, 4, 0);
    scene.edit(bob).facts.remaining = 0;
    scene.count(bob, 0);
    for place in 0..4 {
        scene.preempt(bob, place, Some(gang), VictimRule::Turn);
    }
    scene.promise_ranks(gang, &[0; 4]);
    scene.snapshot.turns =
        vec![TurnAccount { class: FAIR, user: ANN, base, since: 90, rate: 0, most: 400_000 }];
    (scene, gang, bob)
}

fn bill(scene: &mut Scene, gang: JobId, price: i64) {
    let turn = PaidTurn { from: 100, until: 110, price };
    scene.schedule.bills.push(TurnBill { job: gang, turn });
}

/// Two processes too many for 100 s are 200,000 qshare-milliseconds.
#[test]
fn a_turn_is_taken_once_it_is_earned() {
    let (scene, ..) = turn(200_000);
    scene.breaks(Rule::TurnNotEarned, |scene| scene.snapshot.turns[0].base -= 1);
    // An income of 2 a millisecond, for ten cycles of 10 s.
    let (mut scene, ..) = turn(0);
    scene.snapshot.turns[0].rate = 2;
    scene.breaks(Rule::TurnNotEarned, |scene| scene.snapshot.turns[0].since += 1);
    let (scene, ..) = turn(300_000);
    scene.breaks(Rule::TurnNotEarned, |scene| scene.snapshot.turns[0].most = 199_999);
    let (scene, ..) = turn(200_000);
    scene.breaks(Rule::TurnNotEarned, |scene| scene.snapshot.turns[0].user = BOB);
    let (scene, gang, _) = turn(400_000);
    scene.breaks(Rule::TurnNotEarned, |scene| scene.shape(gang).duration = None);
    let (mut scene, gang, _) = turn(0);
    scene.fair_share.insert(gang, 4);
    scene.breaks(Rule::TurnNotEarned, |scene| {
        scene.fair_share.insert(gang, 3);
    });
}

/// The gang is free to begin; it is billed for all of its time, and only if it has earned it.
#[test]
fn a_turn_is_paid_for() {
    let beginning = |base: i64, price: i64| {
        let mut scene = Scene::new(&[4]);
        let gang = scene.gang((ANN, FAIR), &[(4, 1)], Place::Free);
        scene.shape(gang).duration = Some(LENGTH);
        scene.fair_share.insert(gang, 2);
        scene.begin(gang, &[0; 4]);
        scene.snapshot.turns =
            vec![TurnAccount { class: FAIR, user: ANN, base, since: 90, rate: 0, most: 400_000 }];
        bill(&mut scene, gang, price);
        (scene, gang)
    };
    assert_eq!(beginning(200_000, 400_000).0.broken(), []);
    assert_eq!(beginning(200_000, 399_999).0.broken(), [Rule::TurnNotEarned]);
    assert_eq!(beginning(199_999, 400_000).0.broken(), [Rule::TurnNotEarned]);
    let (mut scene, gang) = beginning(0, 400_000);
    scene.snapshot.promises = (0..4).map(|rank| promise_of(gang, rank)).collect();
    assert_eq!(scene.broken(), [], "a turn that was promised has come");
}

fn promise_of(gang: JobId, rank: u32) -> Promise {
    Promise { job: gang, node: NodeIx(0), order: order(1), rank: Some(rank) }
}

#[test]
fn a_turn_leaves_its_peers_what_they_were_counted_for() {
    let (mut scene, _, bob) = turn(200_000);
    scene.count(bob, 1);
    assert!(scene.broken().contains(&Rule::TurnNotEarned));
}

/// Bob's gang has the node, and Ann's gang of half of it takes all from it.
#[test]
fn the_paid_time_of_a_gang_is_its_own() {
    let taking = |until: u64| {
        let mut scene = Scene::new(&[4]);
        let ann = scene.gang((ANN, FAIR), &[(4, 1)], Place::Free);
        scene.fair_share.insert(ann, 4);
        let bob = scene.gang((BOB, FAIR), &[(4, 1)], Place::Free);
        scene.started(bob, &[0; 4]);
        scene.edit(bob).gang.turn = Some(PaidTurn { from: 90, until, price: 1 });
        scene.count(bob, 0);
        for place in 0..4 {
            scene.preempt(bob, place, Some(ann), VictimRule::Turn);
        }
        scene.promise_ranks(ann, &[0; 4]);
        scene.broken()
    };
    assert_eq!(taking(100), []);
    assert_eq!(taking(101), [Rule::TurnNotEarned]);
}
