//! Loss limits, in an idle cluster and in a busy cluster.

use super::*;
use crate::model::Millis;

/// Ann has a node of 19 in nshares of 1. Bob has `bobs` on a node of his own, and preempts a share
/// of hers for each of `losses`.
fn taken(bobs: u64, losses: &[Millis]) -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[19, bobs]);
    let ann = scene.running((ANN, FAIR), 1, 19, 0);
    let bob = scene.running((BOB, FAIR), 1, bobs, 1);
    for (place, loss) in losses.iter().enumerate() {
        scene.preempt(ann, place, Some(bob), VictimRule::FairShare);
        scene.promise(bob, 0);
        scene.edit(ann).shares[place].facts.investment = *loss;
        scene.schedule.preemptions[place].loss = *loss;
        scene.edit(bob).facts.remaining = bobs + u64::try_from(place).unwrap() + 1;
    }
    (scene, ann, bob)
}

const LIMIT: Millis = CapRules::LOSS_LIMIT;

#[test]
fn a_class_allows_so_much_at_rest_too() {
    for rest_cycles in [0, 2] {
        for (loss, broken) in [(LIMIT, vec![]), (LIMIT + 1, vec![Rule::TooDear])] {
            let (mut scene, ..) = taken(1, &[loss]);
            scene.snapshot.quiescence.rest_cycles = rest_cycles;
            assert_eq!(scene.broken(), broken, "{rest_cycles} {loss}");
        }
    }
}

/// 100 cycles of 10 s with 3 threads, and 300 s of credit for a job that has hardly begun.
#[test]
fn waiting_pays_for_more() {
    for (bobs, paid) in [(7, 3_300_000), (8, 3_000_000)] {
        for (loss, broken) in [(paid, vec![]), (paid + 1, vec![Rule::TooDear])] {
            let (mut scene, _, bob) = taken(bobs, &[loss]);
            let job = scene.edit(bob);
            (job.threads, job.behind_since) = (3, Some(0));
            job.facts.remaining *= 3;
            assert_eq!(scene.broken(), broken, "{bobs} {loss}");
        }
    }
}

#[test]
fn the_first_process_is_free_and_no_other() {
    let broken = |losses: &[Millis]| taken(0, losses).0.broken();
    assert_eq!(broken(&[90 * LIMIT]), []);
    assert_eq!(broken(&[90 * LIMIT, LIMIT]), []);
    assert_eq!(broken(&[90 * LIMIT, LIMIT + 1]), [Rule::TooDear]);
}

#[test]
fn of_two_nodes_one_is_the_first() {
    let broken = |loss| {
        let mut scene = Scene::new(&[5, 5]);
        let ann = scene.running((ANN, FAIR), 1, 5, 0);
        scene.hold(ann, 5, 1);
        scene.edit(ann).facts.remaining = 10;
        let bob = scene.job(BOB, FAIR, 1, 2);
        for (at, place) in [0, 5].into_iter().enumerate() {
            scene.preempt(ann, place, Some(bob), VictimRule::FairShare);
            scene.promise(bob, at);
            scene.edit(ann).shares[place].facts.investment = loss;
            scene.schedule.preemptions[at].loss = loss;
        }
        scene.broken()
    };
    assert_eq!(broken(LIMIT), []);
    assert_eq!(broken(LIMIT + 1), [Rule::TooDear]);
}

/// Bob's class is due two thirds of a process, and its target is 0 or 1.
#[test]
fn a_first_process_that_is_neither_owed_nor_counted_has_its_price() {
    let broken = |loss, target| {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, HEAVY), 1, 2, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.preempt(ann, 0, Some(bob), VictimRule::FirstShare);
        scene.promise(bob, 0);
        scene.edit(ann).shares[0].facts.investment = loss;
        scene.schedule.preemptions[0].loss = loss;
        scene.count(ann, 2 - target);
        scene.count(bob, target);
        scene.broken()
    };
    assert_eq!(broken(LIMIT, 0), []);
    assert_eq!(broken(LIMIT + 1, 0), [Rule::TooDear]);
    assert_eq!(broken(LIMIT + 1, 1), []);
}

#[test]
fn better_priorities_do_not_pay() {
    let mut scene = Scene::new(&[1, 1]);
    let low = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.preempt(low, 0, Some(bob), VictimRule::Priority);
    scene.promise(bob, 0);
    scene.edit(low).shares[0].facts.investment = 90 * LIMIT;
    scene.schedule.preemptions[0].loss = 90 * LIMIT;
    assert_eq!(scene.broken(), []);
}
