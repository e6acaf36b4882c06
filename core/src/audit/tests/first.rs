//! Jobs that are owed a first process, and jobs that could have a process.

use super::*;
use crate::audit::arrange::{MayMove, TRIES, is_arrangeable};
use crate::audit::ledger::Ledger;
use crate::model::{Place, Precedence};

const CID: UserIx = UserIx(2);

/// Nodes of these orders, and Cid among the users. The cluster has been quiet for so long that the
/// planner had time to give all jobs a process.
fn scene(orders: &[u64]) -> Scene {
    let mut scene = Scene::new(orders);
    scene.snapshot.quiescence.quiet_cycles = 3;
    Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
    scene
}

/// Ann's class, of twice the weight, has all six. Bob has `jobs` jobs of `order` without a process.
fn against_heavy(order: u32, jobs: u64) -> Vec<Rule> {
    let mut scene = scene(&[6]);
    let ann = scene.running((ANN, HEAVY), 1, 6, 0);
    scene.edit(ann).facts.remaining = 100;
    scene.count(ann, 4);
    for number in 0..jobs {
        let bob = scene.job(BOB, FAIR, order, 100);
        let is_counted = order == 1 && number < 2;
        scene.count(bob, u64::from(is_counted));
    }
    scene.broken()
}

#[test]
fn a_job_that_is_owed_a_process_has_one() {
    assert_eq!(against_heavy(1, 1), [Rule::Starving]);
    assert_eq!(against_heavy(2, 1), [Rule::Starving]);
    // Two thirds of a process are none.
    assert_eq!(against_heavy(3, 1), []);
    // Two of three jobs have a target of a process, and the third is owed none.
    assert_eq!(against_heavy(1, 2), [Rule::Starving; 2]);
    assert_eq!(against_heavy(1, 3), [Rule::Starving; 2]);
}

/// Ann has four of at least three processes, a power of two. With one less she would have nothing.
#[test]
fn an_owed_job_needs_the_fewest_processes_that_its_sizes_allow() {
    for (legal_sizes, is_starving) in [(LegalSizes::Any, true), (LegalSizes::PowerOfTwo, false)] {
        let mut scene = scene(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let elasticity = Some(Elasticity::Malleable);
        let shape = Shape { elasticity, legal_sizes, min_processes: 3, ..Shape::default() };
        scene.edit(ann).shape = Some(Arc::new(shape.clone()));
        for share in &mut scene.edit(ann).shares {
            share.facts.is_initialized = true;
        }
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.count(bob, 1);
        assert_eq!(scene.broken().contains(&Rule::Starving), is_starving, "{shape:?}");
    }
}

/// Quiet for so long, or without a process while behind for so long.
#[test]
fn the_planner_has_some_cycles_to_give_it() {
    for (quiet_cycles, behind_since, findings) in [
        (2, None, &[][..]),
        (3, None, &[Rule::Starving]),
        (0, Some(98), &[]),
        (0, Some(97), &[Rule::Starving]),
    ] {
        let mut scene = scene(&[6]);
        let ann = scene.running((ANN, HEAVY), 1, 6, 0);
        let bob = scene.job(BOB, FAIR, 1, 100);
        scene.count(ann, 4);
        scene.count(bob, 2);
        scene.snapshot.quiescence.quiet_cycles = quiet_cycles;
        scene.edit(bob).behind_since = behind_since;
        assert_eq!(scene.broken(), findings, "{quiet_cycles} {behind_since:?}");
    }
}

#[test]
fn room_that_is_promised_is_something() {
    let mut scene = scene(&[6]);
    let ann = scene.running((ANN, HEAVY), 1, 6, 0);
    let bob = scene.job(BOB, FAIR, 1, 100);
    scene.preempt(ann, 0, Some(bob), VictimRule::FirstShare);
    scene.promise(bob, 0);
    assert_eq!(scene.broken(), []);
}

#[test]
fn a_job_put_off_has_its_turn_later() {
    let mut scene = scene(&[6]);
    let ann = scene.running((ANN, HEAVY), 1, 6, 0);
    let bob = scene.job(BOB, FAIR, 1, 100);
    scene.count(ann, 4);
    scene.count(bob, 2);
    scene.report();
    assert_eq!(scene.broken_as_reported(), [Rule::Starving]);
    scene.schedule.put_off = vec![bob];
    scene.schedule.report.jobs[JobIx(1)].held_back = Some(Declined::NextCycle);
    assert_eq!(scene.broken_as_reported(), []);
}

/// Three users are owed a process of 2 each; six quanta are free in two pieces.
#[test]
fn no_job_starves_if_not_all_could_have_a_process() {
    let broken = |orders: &[u64], fixed: u64| {
        let mut scene = scene(orders);
        let ann = scene.running((ANN, FAIR), 2, 1, 0);
        scene.edit(ann).facts.remaining = 2;
        if orders[0] == 4 {
            scene.hold(ann, 1, 0);
        }
        scene.running((BOB, FAIR), 2, 1, 1);
        let cid = scene.job(CID, FAIR, 2, 1);
        scene.count(cid, 0);
        if 0 < fixed {
            scene.running((ANN, FIXED), 1, fixed, 2);
        }
        scene.broken()
    };
    assert_eq!(broken(&[3, 3], 0), []);
    assert_eq!(broken(&[4, 2], 0), [Rule::Starving]);
    // Work that stays is not in the way where it is.
    assert_eq!(broken(&[4, 2, 1], 1), [Rule::Starving]);
}

/// Ann is owed a process on the first node; Cid is owed a process there, or on any node.
#[test]
fn a_list_bounds_what_could_be_had() {
    let broken = |list: Option<Vec<NodeIx>>| {
        let mut scene = scene(&[1, 1, 1]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.edit(ann).nodes = Some([NodeIx(0)].into());
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.hold(bob, 1, 2);
        let cid = scene.job(CID, FAIR, 1, 1);
        scene.edit(cid).nodes = list.map(Into::into);
        scene.broken()
    };
    assert_eq!(broken(Some(vec![NodeIx(0)])), []);
    assert_eq!(broken(None), [Rule::Starving]);
}

#[test]
fn lower_priority_is_in_no_jobs_way() {
    let mut scene = scene(&[1]);
    let low = scene.running((ANN, LOW), 1, 1, 0);
    scene.count(low, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    scene.edit(low).facts.remaining = 1;
    scene.count(bob, 1);
    assert_eq!(scene.broken(), [Rule::Starving]);
    // A lower priority is owed only what higher priorities leave.
    let mut scene = self::scene(&[1]);
    scene.running((ANN, FAIR), 1, 1, 0);
    scene.job(BOB, LOW, 1, 1);
    assert_eq!(scene.broken(), []);
}

/// Ann has 3 of 5 and demands more, but no second process of 3 fits. What she leaves may be owed to Bob. Of
/// fixed-share work that waits for it, nothing is left.
#[test]
fn what_a_higher_priority_cannot_use_may_be_owed() {
    for (order, held, target) in [(3, 1, 1), (1, 3, 5)] {
        let mut scene = scene(&[5]);
        let ann = scene.running((ANN, FAIR), order, held, 0);
        scene.edit(ann).facts.remaining = 100;
        scene.count(ann, target);
        let cid = scene.running((CID, LOW), 1, 2, 0);
        scene.count(cid, 2);
        let bob = scene.job(BOB, LOW, 1, 1);
        scene.count(bob, 0);
        let owed = |scene: &mut Scene| {
            scene.report();
            let ledger = Ledger::open(&scene.snapshot, &scene.schedule).unwrap();
            let bob = JobIx(2);
            [&ledger.owed, &ledger.perhaps_owed].map(|owed| owed.contains(&ledger, bob))
        };
        assert_eq!(owed(&mut scene), [false, order == 3], "{order}");
        let fixed = scene.job(BOB, FIXED, 1, 2);
        scene.count(fixed, 2);
        assert_eq!(owed(&mut scene), [false; 2], "{order}");
    }
}

/// Ann has all her processes on a node that is out of scheduling: they take nothing of the node that
/// Bob is owed a process on.
#[test]
fn what_a_higher_priority_holds_out_of_scheduling_is_no_part_of_the_rest() {
    for (is_varied_off, is_owed) in [(true, true), (false, false)] {
        let mut scene = scene(&[4, 4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        scene.edit(ann).facts.remaining = 8;
        scene.hold(ann, 1, 1);
        scene.count(ann, if is_varied_off { 5 } else { 8 });
        let bob = scene.job(BOB, LOW, 1, 1);
        scene.count(bob, 0);
        scene.node(0).state.is_varied_off = is_varied_off;
        scene.report();
        let ledger = Ledger::open(&scene.snapshot, &scene.schedule).unwrap();
        assert_eq!(ledger.perhaps_owed.contains(&ledger, JobIx(1)), is_owed);
    }
}

/// Ann and Bob have a process each on two nodes of 2. Cid is owed a process that needs both quanta
/// of a node.
fn in_the_way(rest_cycles: u64, doctor: impl FnOnce(&mut Scene)) -> Vec<Rule> {
    let mut scene = scene(&[2, 2]);
    scene.running((ANN, FAIR), 1, 1, 0);
    scene.running((BOB, FAIR), 1, 1, 1);
    scene.job(CID, HEAVY, 2, 1);
    scene.snapshot.quiescence.rest_cycles = rest_cycles;
    doctor(&mut scene);
    scene.broken()
}

#[test]
fn work_is_moved_at_rest_only_and_with_defragmentation_on() {
    assert_eq!(in_the_way(2, |_| {}), [Rule::Starving]);
    assert_eq!(in_the_way(1, |_| {}), []);
    assert_eq!(in_the_way(2, |scene| scene.settings().defragmentation = false), []);
}

#[test]
fn work_that_is_ending_stays_where_it_is() {
    let end = |ids: &'static [u64]| {
        move |scene: &mut Scene| {
            for id in ids {
                scene.edit(JobId(*id)).facts.is_completing = true;
            }
        }
    };
    assert_eq!(in_the_way(2, end(&[1])), [], "first fit puts the largest there");
    assert_eq!(in_the_way(2, end(&[1, 2])), []);
}

/// Bob is promised a process of 3 in the space of two terminating shares of Ann's. Cid is owed a
/// process of 1 on the same node of 4.
#[test]
fn promised_room_is_not_to_be_had() {
    let broken = |is_promised| {
        let mut scene = scene(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 3, 0);
        for share in &mut scene.edit(ann).shares[1..] {
            share.state = SharePhase::Leaving;
        }
        scene.edit(ann).facts.remaining = 1;
        let bob = scene.job(BOB, FAIR, 3, 1);
        scene.job(CID, FAIR, 1, 1);
        if is_promised {
            scene.promise(bob, 0);
        }
        scene.broken()
    };
    assert_eq!(broken(true), []);
    assert_eq!(broken(false), [Rule::IdleRoom, Rule::Starving]);
}

/// As [`in_the_way`], with a process that starts beside Bob's: first fit would not know where.
#[test]
fn what_starts_has_its_place() {
    let starts = |is_starting: bool| {
        in_the_way(2, |scene| {
            if is_starting {
                let other = scene.job(BOB, LOW, 1, 1);
                scene.expand(other, 1);
            }
        })
    };
    assert_eq!(starts(true), []);
    assert_eq!(starts(false), [Rule::Starving]);
}

/// Cid is owed a process of 3. Ann's 4 may go to the node of 4 only once Bob's process has left it. If
/// Bob's has 3, two nodes would have to be cleared; if it has 2, there is space beside Ann's.
#[test]
fn what_is_moved_has_no_node_cleared_for_it() {
    let broken = |bobs: u32| {
        let mut scene = scene(&[4, 6]);
        scene.running((ANN, FAIR), 4, 1, 1);
        scene.running((BOB, FAIR), bobs, 1, 0);
        let cid = scene.job(CID, HEAVY, 3, 1);
        scene.count(cid, 1);
        scene.snapshot.quiescence.rest_cycles = 2;
        scene.broken()
    };
    assert_eq!(broken(2), [Rule::Starving]);
    assert_eq!(broken(3), []);
}

/// Cid is owed two of the three quanta that Ann has on a node, unless fixed work waits for two of them.
#[test]
fn what_is_counted_for_work_that_stays_is_not_to_be_had() {
    let broken = |fixed: u64| {
        let mut scene = scene(&[3, 1]);
        let ann = scene.running((ANN, FAIR), 1, 3, 0);
        scene.hold(ann, 1, 1);
        scene.edit(ann).facts.remaining = 4;
        scene.count(ann, 2 - 2 * fixed);
        let cid = scene.job(CID, FAIR, 2, 1);
        scene.count(cid, 1);
        let bob = scene.job(BOB, FIXED, 2, 1);
        scene.count(bob, fixed);
        scene.broken()
    };
    assert_eq!(broken(0), [Rule::Starving]);
    assert_eq!(broken(1), []);
}

/// Best fit would put the process of 4 on the node of 5, and then the last process has no place.
#[test]
fn an_arrangement_is_searched_for() {
    let could = |orders: &[u64], processes: &[u32]| {
        let mut scene = scene(orders);
        for &order in processes {
            scene.job(ANN, FAIR, order, 1);
        }
        scene.report();
        let ledger = Ledger::open(&scene.snapshot, &scene.schedule).unwrap();
        is_arrangeable(
            &ledger,
            (TOP, Precedence::Priority(10)),
            ledger.jobs.places(),
            TRIES,
            MayMove::All,
        )
    };
    assert!(could(&[6, 5], &[4, 3, 2, 2]));
    assert!(!could(&[6, 5], &[4, 3, 3, 2]));
    assert!(!could(&[6, 5], &[4, 4, 4]));
    assert!(could(&[6, 5], &[]));
}

/// Bob's part is less than a process; but if his job has a target of a process, it is owed.
#[test]
fn a_counted_job_has_one_at_rest_and_in_motion() {
    let broken = |rest_cycles, target| {
        let mut scene = scene(&[2]);
        let ann = scene.running((ANN, HEAVY), 1, 2, 0);
        scene.edit(ann).facts.remaining = 9;
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.count(ann, 2 - target);
        scene.count(bob, target);
        scene.snapshot.quiescence.rest_cycles = rest_cycles;
        scene.broken()
    };
    assert_eq!(broken(2, 1), [Rule::Starving]);
    assert_eq!(broken(2, 0), []);
    assert_eq!(broken(0, 1), [Rule::Starving]);
}

/// Ann, who holds `anns` processes, loses a process that becomes Bob's second.
fn robbed(anns: u64, rule: VictimRule) -> Vec<Rule> {
    let mut scene = scene(&[1, 1, 1]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    scene.hold(ann, anns - 1, 2);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.preempt(ann, 0, Some(bob), rule);
    scene.promise(bob, 0);
    scene.broken()
}

#[test]
fn the_last_process_does_not_go_to_a_peer() {
    assert!(robbed(1, VictimRule::FairShare).contains(&Rule::LastTaken));
    assert!(!robbed(2, VictimRule::FairShare).contains(&Rule::LastTaken));
    assert!(!robbed(1, VictimRule::Relocation).contains(&Rule::LastTaken));
}

/// A gang in its turn takes a process that Ann has beyond her target, before a higher priority takes the last.
#[test]
fn the_last_may_go_to_a_higher_priority_after_a_turn() {
    let broken = |rule: VictimRule| {
        let mut scene = scene(&[1, 1, 1]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.hold(ann, 1, 2);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        let fixed = scene.job(BOB, FIXED, 1, 1);
        scene.preempt(ann, 0, Some(bob), rule);
        scene.preempt(ann, 1, Some(fixed), VictimRule::Priority);
        scene.promise(bob, 0);
        scene.promise(fixed, 2);
        scene.broken().contains(&Rule::LastTaken)
    };
    assert!(broken(VictimRule::FairShare));
    assert!(!broken(VictimRule::Turn));
}

/// None of Ann's three jobs is owed a process, but she is.
#[test]
fn nor_does_the_last_of_a_user() {
    let broken = |others: u64| {
        let mut scene = scene(&[1, 1, 1]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        for number in 0..2 {
            let other = scene.job(ANN, FAIR, 1, 1);
            scene.hold(other, if number == 0 { others } else { 0 }, 2);
        }
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
        scene.promise(bob, 0);
        scene.broken()
    };
    assert!(broken(0).contains(&Rule::LastTaken));
    assert!(!broken(1).contains(&Rule::LastTaken));
}

/// Ann's gang waits for nodes. Without it the part of Cid covers his process of 4, but no process of
/// 5. Only he or Bob can have a process.
#[test]
fn a_process_that_its_job_may_be_owed_stays() {
    for (order, findings) in [(4, &[][..]), (5, &[Rule::Starving])] {
        let mut scene = scene(&[6, 2]);
        let gang = scene.gang((ANN, FAIR), &[(2, 3)], Place::Scatter);
        scene.count(gang, 0);
        let cid = scene.running((CID, LOW), order, 1, 0);
        scene.count(cid, 0);
        let bob = scene.job(BOB, LOW, 3, 100);
        scene.count(bob, 2);
        assert_eq!(scene.broken(), findings, "{order}");
    }
}

/// Bob's gang has its node until Cid's class takes it. In the same cycle Ann takes Bob's other process,
/// which is owed to him only without the gang.
#[test]
fn a_gang_that_is_lost_in_a_cycle_counts_until_then() {
    for has_gang in [true, false] {
        let mut scene = scene(&[2, 2, 2]);
        let bob = scene.running((BOB, LOW), 2, 1, 1);
        scene.count(bob, 0);
        if has_gang {
            let gang = scene.gang((BOB, LOW), &[(1, 2)], Place::Scatter);
            scene.hold(gang, 1, 0);
            scene.edit(gang).shares[0].rank = Some(0);
            let cid = scene.job(CID, FAIR, 2, 1);
            scene.preempt(gang, 0, Some(cid), VictimRule::Priority);
            scene.promise(cid, 0);
        }
        let ann = scene.job(ANN, LOW, 2, 1);
        scene.count(ann, 1);
        scene.preempt(bob, 0, Some(ann), VictimRule::FirstShare);
        scene.promise(ann, 1);
        assert_eq!(scene.broken().contains(&Rule::LastTaken), !has_gang, "{has_gang}");
    }
}

/// Bob's gang takes the only process of Cid, or of Bob. Beside it, Ann and the other have 2 quanta
/// each, or 3. A user with a gang is owed no process.
#[test]
fn a_gang_in_its_turn_leaves_what_is_owed_beside_it() {
    for (user, more, is_owed) in [(CID, 1, false), (CID, 3, true), (BOB, 3, false)] {
        let mut scene = scene(&[3, 3, more]);
        let gang = scene.gang((BOB, FAIR), &[(1, 3)], Place::Scatter);
        scene.count(gang, 1);
        let only = scene.running((user, FAIR), 3, 1, 0);
        scene.edit(only).facts.remaining = 9;
        scene.count(only, 0);
        let ann = scene.running((ANN, FAIR), 1, 3, 1);
        scene.edit(ann).facts.remaining = 99;
        scene.preempt(only, 0, Some(gang), VictimRule::Turn);
        scene.promise(gang, 0);
        assert_eq!(scene.broken().contains(&Rule::LastTaken), is_owed, "{user:?} {more}");
    }
}
