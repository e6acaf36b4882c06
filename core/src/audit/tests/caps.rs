//! The cap that follows from the facts of a job.

use super::*;

const PACED: CapRules = CapRules {
    initialization_cap: 2,
    expand_by_doubling: true,
    prediction: true,
    prediction_fudge: 10_000,
    loss_limit: CapRules::LOSS_LIMIT,
};

/// The cap of a job that holds `held` shares, which took 10 s each to initialize.
fn cap(rules: CapRules, held: u64, edit: fn(&mut Job)) -> u64 {
    cap_with(rules, held, 0, edit)
}

/// The cap of such a job while `promised` nshares are promised to it.
fn cap_with(rules: CapRules, held: u64, promised: u64, edit: fn(&mut Job)) -> u64 {
    let mut scene = Scene::new(&[64]);
    let id = scene.job(ANN, FAIR, 1, 100);
    scene.hold(id, held, 0);
    let job = scene.edit(id);
    for share in &mut job.shares {
        share.facts = ShareFacts { is_initialized: true, initialization: 10_000, investment: 0 };
    }
    edit(job);
    cap_of(job, &rules, 10_000, promised)
}

#[test]
fn work_left_is_rounded_up_and_never_less_than_held() {
    assert_eq!(cap(FREE_GROWTH, 0, |job| job.threads = 3), 34);
    assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.remaining = 2), 5);
    assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.limit = ProcessLimit::AtMost(3)), 3);
    assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.limit = ProcessLimit::Frozen), 5);
    assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.is_completing = true), 5);
    assert_eq!(cap(FREE_GROWTH, 0, |job| job.kind = JobKind::Service), 1);
}

#[test]
fn nothing_paces_growth_where_no_limit_is_set() {
    assert_eq!(cap(FREE_GROWTH, 0, |job| job.facts.is_running = false), 100);
}

#[test]
fn growth_is_paced() {
    let slow: fn(&mut Job) = |job| job.facts.time_per_item = Some(1_000_000);
    assert_eq!(cap(PACED, 1, |job| job.facts.is_running = false), 2, "before it runs");
    assert_eq!(cap(PACED, 1, |job| job.facts.time_per_item = Some(0)), 2, "nothing is done");
    assert_eq!(cap(PACED, 0, slow), 2, "it starts again");
    assert_eq!(cap(PACED, 3, slow), 6, "it doubles");
    assert_eq!(cap_with(PACED, 3, 2, slow), 6, "not from what is only promised");
    assert_eq!(cap_with(PACED, 3, 5, slow), 8, "which stays promised");
    assert_eq!(cap_with(PACED, 0, 4, slow), 4, "also where it starts again");
}

/// In the 30 s until a new process is ready, two that take 1 s an item do 60 of 62.
/// A job with legal sizes is as large as its owner says from its first cycle on.
#[test]
fn nothing_paces_a_job_with_legal_sizes() {
    let sized = |job: &mut Job| {
        let shape =
            Shape { elasticity: Some(Elasticity::Malleable), min_processes: 4, ..Shape::default() };
        job.shape = Some(Arc::new(shape));
        job.facts.limit = ProcessLimit::AtMost(8);
    };
    assert_eq!(cap(PACED, 0, sized), 8);
    assert_eq!(cap(PACED, 0, |job| job.facts.limit = ProcessLimit::AtMost(8)), 2);
}

#[test]
fn processes_that_would_come_too_late_are_not_started() {
    let rules = CapRules { expand_by_doubling: false, ..PACED };
    assert_eq!(cap(rules, 2, |job| job.facts.remaining = 65), 5);
    assert_eq!(cap(rules, 2, |job| job.facts.remaining = 61), 2, "no fewer than it holds");
}
