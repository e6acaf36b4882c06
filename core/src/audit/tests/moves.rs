//! Moved jobs, passed-on space, and kept promises.

use super::*;

/// Ann has two processes, and loses a process to Bob, who has nothing.
fn giving() -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[2, 9]);
    Arc::make_mut(&mut scene.snapshot.users).push("cid".into());
    let ann = scene.running((ANN, FAIR), 1, 2, 0);
    let bob = scene.job(BOB, FAIR, 1, 1);
    let cid = scene.running((UserIx(2), FAIR), 1, 9, 1);
    scene.preempt(ann, 0, Some(bob), VictimRule::FairShare);
    scene.promise(bob, 0);
    scene.count(cid, 3);
    (scene, ann, cid)
}

#[test]
fn no_job_is_robbed_to_take_from_a_third() {
    let (scene, ann, cid) = giving();
    scene.breaks(Rule::PassedThrough, |scene| {
        scene.preempt(cid, 0, Some(ann), VictimRule::FairShare);
        scene.promise(ann, 1);
    });
}

/// Shares preempted for their job's maximum, or by a higher priority, are no gain of a peer.
#[test]
fn who_loses_to_better_priority_may_take() {
    let (mut scene, ann, cid) = giving();
    scene.schedule = CycleSchedule::default();
    let fixed = scene.job(BOB, FIXED, 1, 1);
    scene.preempt(ann, 0, Some(fixed), VictimRule::Priority);
    scene.promise(fixed, 0);
    scene.preempt(cid, 0, Some(ann), VictimRule::FairShare);
    scene.promise(ann, 1);
    scene.preempt(cid, 1, Some(JobId(2)), VictimRule::FairShare);
    scene.promise(JobId(2), 1);
    assert_eq!(scene.broken(), []);
}

/// Ann has a process and work for three. She was promised another process in the space of a
/// terminating share.
fn promised() -> (Scene, JobId) {
    let mut scene = Scene::new(&[1, 1]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    scene.edit(ann).facts.remaining = 3;
    let low = scene.running((BOB, LOW), 1, 1, 1);
    scene.edit(low).shares[0].state = SharePhase::Leaving;
    scene.edit(low).facts.remaining = 0;
    scene.promise(ann, 1);
    scene.snapshot.promises = scene.schedule.promises.clone();
    (scene, ann)
}

#[test]
fn what_was_promised_is_kept() {
    let (scene, _) = promised();
    scene.breaks(Rule::DroppedPromise, |scene| scene.schedule.promises.clear());
    // The promised process may begin elsewhere instead.
    let (mut scene, ann) = promised();
    Arc::make_mut(&mut scene.snapshot.nodes).push(node(2, 1));
    scene.schedule.promises.clear();
    scene.expand(ann, 2);
    assert_eq!(scene.broken(), []);
}

/// A job of an odd number was promised four processes: it gives back the fourth. Then it may lose one of
/// the three to a fixed job, and gives back another: a process is left.
#[test]
fn a_job_with_legal_sizes_gives_back_what_makes_no_step() {
    let scene_with = |fixed: bool| {
        let mut scene = Scene::new(&[1; 4]);
        let ann = scene.job(ANN, FAIR, 1, 9);
        let (elasticity, legal_sizes) = (Some(Elasticity::Malleable), LegalSizes::Odd);
        let shape = Shape { elasticity, legal_sizes, min_processes: 1, ..Shape::default() };
        scene.edit(ann).shape = Some(Arc::new(shape));
        let low = scene.job(BOB, LOW, 1, 0);
        for node in 0..4 {
            scene.hold(low, 1, node);
            scene.promise(ann, node);
        }
        for share in &mut scene.edit(low).shares {
            share.state = SharePhase::Leaving;
        }
        scene.snapshot.promises = std::mem::take(&mut scene.schedule.promises);
        if fixed {
            let fixed = scene.job(BOB, FIXED, 1, 1);
            scene.promise(fixed, 0);
        }
        (scene, ann)
    };
    let drops = |fixed: bool, kept: usize| {
        let (mut scene, ann) = scene_with(fixed);
        for node in 1..=kept {
            scene.promise(ann, node);
        }
        scene.broken().contains(&Rule::DroppedPromise)
    };
    assert_eq!([0, 1, 3].map(|kept| drops(false, kept)), [true, true, false]);
    assert_eq!([0, 1].map(|kept| drops(true, kept)), [true, false]);
}

#[test]
fn it_goes_with_the_work_the_node_or_the_room() {
    type Doctor = fn(&mut Scene, JobId);
    let doctors: [Doctor; 5] = [
        |scene, ann| scene.edit(ann).facts.remaining = 1,
        |scene, ann| scene.edit(ann).facts.limit = ProcessLimit::AtMost(1),
        |scene, _| scene.node(1).state.is_varied_off = true,
        |scene, _| scene.node(1).order = QShares(0),
        |scene, _| {
            let fixed = scene.job(BOB, FIXED, 1, 1);
            scene.promise(fixed, 1);
        },
    ];
    for (number, doctor) in doctors.into_iter().enumerate() {
        let (mut scene, ann) = promised();
        scene.schedule.promises.clear();
        doctor(&mut scene, ann);
        assert_eq!(scene.broken(), [], "{number}");
    }
}

/// Prediction has lowered the cap to what Ann holds; the promise is kept all the same, and the cap
/// covers it.
#[test]
fn pace_is_no_reason_to_drop_it() {
    let paced = || {
        let (mut scene, ann) = promised();
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        let rules = &mut topology.classes[FAIR].cap_rules;
        (rules.prediction, rules.prediction_fudge) = (true, 1_000_000);
        let rules = *rules;
        assert_eq!(cap_of(scene.edit(ann), &rules, 10_000, 0), 1);
        scene
    };
    let mut scene = paced();
    assert_eq!(scene.broken(), []);
    for (cap, findings) in [(1, &[Rule::ReportCap][..]), (2, &[]), (3, &[Rule::ReportCap])] {
        scene.schedule.report.jobs[JobIx(0)].cap.nshares = NShares(cap);
        assert_eq!(scene.broken_as_reported(), findings, "{cap}");
    }
    let mut scene = paced();
    scene.schedule.promises.clear();
    assert_eq!(scene.broken(), [Rule::DroppedPromise]);
}
