//! Reasons that hold a job back, true and false.

use super::*;

/// Bob has a process and a target of two. Taking another from Ann would destroy an hour's work, but
/// the report gives `held_back` as the reason.
fn held_back(held_back: Declined, bound: CapBound, quiescence: Quiescence) -> Vec<Rule> {
    let mut scene = Scene::new(&[4, 1]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.running((BOB, FAIR), 1, 1, 1);
    scene.edit(bob).facts.remaining = 2;
    scene.count(ann, 3);
    scene.count(bob, 2);
    for share in &mut scene.edit(ann).shares {
        share.facts.investment = 3_600_000;
    }
    scene.snapshot.quiescence = quiescence;
    scene.report();
    scene.schedule.report.jobs[JobIx(1)].held_back = Some(held_back);
    scene.schedule.report.jobs[JobIx(1)].cap.bound = bound;
    scene.broken_as_reported()
}

#[test]
fn a_job_held_back_names_the_true_reason() {
    let moving = Quiescence::default;
    let quiet = || Quiescence { quiet_cycles: 12, ..Quiescence::default() };
    let rest = || Quiescence { rest_cycles: 2, ..Quiescence::default() };
    let dear = |loss, limit| Declined::TooDear { loss, limit };
    for (what, quiescence, is_true) in [
        (dear(3_600_000, 2_000_000), moving(), true),
        (dear(3_600_000, 300_000), moving(), true),
        (dear(300_000, 300_000), moving(), false),
        (dear(3_600_000, 2_000_001), moving(), false),
        (dear(3_600_000, 2_000_000), rest(), true),
        (dear(3_600_000, 300_000), rest(), false),
        (Declined::Quiet { cycles: 12 }, quiet(), true),
        (Declined::Quiet { cycles: 12 }, moving(), false),
        (Declined::TooLate, moving(), false),
    ] {
        let wanted: &[Rule] = if is_true { &[] } else { &[Rule::FalseHold] };
        assert_eq!(held_back(what, CapBound::WorkLeft, quiescence), wanted, "{what}");
    }
}

#[test]
fn it_is_too_late_where_a_prediction_says_so_and_the_cluster_moves() {
    for (bound, rest_cycles, is_true) in [
        (CapBound::Prediction, 1, true),
        (CapBound::Prediction, 2, false),
        (CapBound::WorkLeft, 1, false),
    ] {
        let quiescence = Quiescence { rest_cycles, ..Quiescence::default() };
        let wanted: &[Rule] = if is_true { &[] } else { &[Rule::FalseHold] };
        assert_eq!(held_back(Declined::TooLate, bound, quiescence), wanted, "{bound:?}");
    }
}

#[test]
fn only_a_job_whose_first_process_has_a_price_may_have_nothing_for_its_price() {
    let says = |target| {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, HEAVY), 1, 2, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.count(ann, 2 - target);
        scene.count(bob, target);
        scene.report();
        let held_back = Declined::TooDear { loss: 3_600_000, limit: 2_000_000 };
        scene.schedule.report.jobs[JobIx(1)].held_back = Some(held_back);
        scene.broken_as_reported()
    };
    assert_eq!(says(0), []);
    assert_eq!(says(1), [Rule::FalseHold]);
}
