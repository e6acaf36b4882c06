//! Processes whose place another job could have, in an idle cluster.

use super::*;

fn at_rest() -> Quiescence {
    Quiescence { quiet_cycles: 5, rest_cycles: 2, takings: Vec::new() }
}

/// Ann has nine processes of 1 on a node. Bob's class, of this weight, has a process of 8 on
/// another node and wants a second. Eight of Ann's would have to go.
fn weighed(weight: u32, rest_cycles: u64) -> Vec<Rule> {
    let mut scene = Scene::new(&[9, 8]);
    scene.running((ANN, FAIR), 1, 9, 0);
    let bob = scene.running((BOB, HEAVY), 8, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    let topology = Arc::make_mut(&mut scene.snapshot.topology);
    topology.classes[HEAVY].policy = ClassPolicy::FairShare { weight };
    scene.snapshot.quiescence = Quiescence { rest_cycles, ..at_rest() };
    scene.broken()
}

/// With a second process Bob would have 16, and Ann would be left with 1.
#[test]
fn a_whole_plan_is_charged_once() {
    assert_eq!(weighed(16, 2), [Rule::Envy]);
    assert_eq!(weighed(15, 2), []);
    assert_eq!(weighed(16, 1), [], "the cluster moves");
}

/// Ann has `anns` processes on a node where `free` quanta are free; Bob could use the node.
fn beside(anns: u64, free: u64, doctor: impl FnOnce(&mut Scene, JobId, JobId)) -> Vec<Rule> {
    let mut scene = Scene::new(&[anns + free, 2]);
    let ann = scene.running((ANN, FAIR), 1, anns, 0);
    let bob = scene.running((BOB, FAIR), 2, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.snapshot.quiescence = at_rest();
    doctor(&mut scene, ann, bob);
    scene.broken()
}

#[test]
fn free_room_counts_as_well() {
    let nothing = |_: &mut Scene, _, _| {};
    assert_eq!(beside(5, 1, nothing), [Rule::Envy], "4 and 4");
    assert_eq!(beside(5, 0, nothing), [], "3 and 4");
    assert_eq!(beside(6, 0, nothing), [Rule::Envy], "4 and 4");
}

#[test]
fn only_a_job_that_could_use_more_envies() {
    assert_eq!(beside(6, 0, |scene, _, bob| scene.edit(bob).facts.remaining = 1), []);
    let list = |scene: &mut Scene, _, bob| scene.edit(bob).nodes = Some([NodeIx(1)].into());
    assert_eq!(beside(6, 0, list), []);
}

/// Each of Ann's processes costs half of the loss limit of 2,000 s, or just more.
#[test]
fn what_is_too_dear_is_no_envy() {
    let invest = |loss| {
        move |scene: &mut Scene, ann, _| {
            for share in &mut scene.edit(ann).shares {
                share.facts.investment = loss;
            }
        }
    };
    assert_eq!(beside(6, 0, invest(1_000_000)), [Rule::Envy]);
    assert_eq!(beside(6, 0, invest(1_000_001)), []);
    // The two processes of least loss decide.
    let two = |scene: &mut Scene, ann, bob| {
        invest(3_600_000)(scene, ann, bob);
        for share in &mut scene.edit(ann).shares[3..5] {
            share.facts.investment = 0;
        }
    };
    assert_eq!(beside(6, 0, two), [Rule::Envy]);
}

#[test]
fn who_says_what_it_would_cost_says_so_truly() {
    let says_after = |quiet_cycles, held_back| {
        let mut scene = Scene::new(&[6, 2]);
        scene.running((ANN, FAIR), 1, 6, 0);
        let bob = scene.running((BOB, FAIR), 2, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.snapshot.quiescence = Quiescence { quiet_cycles, ..at_rest() };
        scene.report();
        scene.schedule.report.jobs[JobIx(1)].held_back = Some(held_back);
        scene.broken_as_reported()
    };
    let dear = Declined::TooDear { loss: 3_000_000, limit: CapRules::LOSS_LIMIT };
    assert_eq!(says_after(5, dear), [Rule::Envy], "nothing at all would be lost");
    let stopped = Declined::Quiet { cycles: 12 };
    assert_eq!(says_after(12, stopped), [], "the configured stop has come");
    assert_eq!(says_after(11, stopped), [Rule::FalseHold], "it has not");
    let mut scene = Scene::new(&[6, 2]);
    let ann = scene.running((ANN, FAIR), 1, 6, 0);
    let bob = scene.running((BOB, FAIR), 2, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.edit(ann).facts.remaining = 6;
    scene.snapshot.quiescence = at_rest();
    scene.schedule.put_off = vec![bob];
    scene.report();
    scene.schedule.report.jobs[JobIx(1)].held_back = Some(Declined::NextCycle);
    assert_eq!(scene.broken_as_reported(), [], "its turn comes");
}

/// Ann and Cid each hold half of the space that Bob needs, and much elsewhere.
#[test]
fn what_one_side_cannot_spare_alone_is_no_envy() {
    let broken = |cids: UserIx| {
        let mut scene = Scene::new(&[2, 2, 9, 9]);
        Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.hold(ann, 9, 2);
        let cid = scene.running((cids, FAIR), 1, 1, 0);
        scene.hold(cid, 9, 3);
        let bob = scene.running((BOB, FAIR), 2, 1, 1);
        for (job, on) in [(ann, 2), (cid, 3)] {
            scene.edit(job).facts.remaining = 10;
            scene.edit(job).nodes = Some([NodeIx(0), NodeIx(on)].into());
        }
        scene.edit(bob).nodes = Some([NodeIx(0), NodeIx(1)].into());
        scene.edit(bob).facts.remaining = 2;
        scene.snapshot.quiescence = at_rest();
        scene.broken()
    };
    assert_eq!(broken(UserIx(2)), []);
    assert_eq!(broken(ANN), [Rule::Envy]);
}

/// The class of Ann and Cid holds much more than Bob's. The process whose place Bob would get is
/// Cid's.
#[test]
fn the_last_process_of_a_job_that_is_owed_one_is_not_to_be_had() {
    let broken = |cids_elsewhere: u64| {
        let mut scene = Scene::new(&[1, 9, 1, 1]);
        Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
        let cid = scene.running((UserIx(2), FAIR), 1, 1, 0);
        scene.hold(cid, cids_elsewhere, 3);
        scene.edit(cid).facts.remaining = 1 + cids_elsewhere;
        scene.running((ANN, FAIR), 1, 9, 1);
        let bob = scene.running((BOB, HEAVY), 1, 1, 2);
        scene.edit(bob).nodes = Some([NodeIx(0), NodeIx(2)].into());
        scene.edit(bob).facts.remaining = 2;
        if cids_elsewhere == 0 {
            scene.node(3).order = QShares(0);
        }
        scene.snapshot.quiescence = at_rest();
        scene.broken()
    };
    assert_eq!(broken(0), []);
    assert_eq!(broken(1), [Rule::Envy]);
}

#[test]
fn nothing_is_said_of_a_cycle_that_took_something() {
    let mut scene = Scene::new(&[9, 2]);
    let ann = scene.running((ANN, FAIR), 1, 9, 0);
    let bob = scene.running((BOB, FAIR), 2, 1, 1);
    scene.edit(bob).facts.remaining = 9;
    scene.snapshot.quiescence = at_rest();
    assert_eq!(scene.broken(), [Rule::Envy]);
    for place in 0..2 {
        scene.preempt(ann, place, Some(bob), VictimRule::Envy);
    }
    scene.promise(bob, 0);
    assert_eq!(scene.broken(), []);
}

/// Shares that Ann got in this very cycle may be preempted in the next.
#[test]
fn what_is_new_is_not_to_be_had() {
    let mut scene = Scene::new(&[6, 2]);
    let ann = scene.job(ANN, FAIR, 1, 6);
    let bob = scene.running((BOB, FAIR), 2, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    for _ in 0..6 {
        scene.expand(ann, 0);
    }
    scene.snapshot.quiescence = at_rest();
    assert_eq!(scene.broken(), []);
}

#[test]
fn at_rest_only_counts_are_evidence_without_defragmentation() {
    let off = |scene: &mut Scene, _, _| scene.settings().defragmentation = false;
    assert_eq!(beside(6, 0, off), []);
}

/// An opinion must not take longer than the decision.
#[test]
fn where_there_is_too_much_to_look_at_nothing_is_said() {
    for (shares, broken) in [(1_000, vec![Rule::Envy]), (3_000_000, vec![])] {
        let mut scene = Scene::new(&[shares, 1]);
        let ann = scene.running((ANN, FAIR), 1, shares, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(ann, 2);
        scene.snapshot.quiescence = at_rest();
        assert_eq!(scene.broken(), broken, "{shares}");
    }
}

#[test]
fn worse_priority_is_always_to_be_had() {
    let mut scene = Scene::new(&[1, 1]);
    let low = scene.running((ANN, LOW), 1, 1, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(low, 0);
    scene.count(bob, 2);
    scene.breaks(Rule::PriorityWaits, |scene| scene.snapshot.quiescence = at_rest());
}

#[test]
fn worse_priority_is_to_be_had_for_counted_work_that_stays() {
    let broken = |target| {
        let mut scene = Scene::new(&[1]);
        let low = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.job(BOB, FIXED, 1, 1);
        scene.count(low, 1 - target);
        scene.count(bob, target);
        scene.snapshot.quiescence = at_rest();
        scene.broken()
    };
    assert_eq!(broken(0), []);
    assert_eq!(broken(1), [Rule::PriorityWaits]);
}
