//! Nodes of shares and promises, and the space that they may take.

use super::*;

#[test]
fn no_node_is_over_committed() {
    // The order of the node also limits the targets, so the targets stay low.
    let (mut scene, job) = growing(FAIR);
    scene.count(job, 1);
    scene.breaks(Rule::OverCommitted, |scene| scene.node(0).order = QShares(3));
}

#[test]
fn what_is_leaving_or_in_limbo_still_takes_room() {
    let (mut scene, job) = growing(FAIR);
    scene.count(job, 0);
    scene.count(JobId(1), 1);
    scene.breaks(Rule::OverCommitted, |scene| scene.node(0).limbo = QShares(1));
    let (mut scene, job) = growing(FAIR);
    scene.node(0).order = QShares(5);
    scene.hold(job, 1, 0);
    scene.edit(job).shares[0].state = SharePhase::Leaving;
    scene.breaks(Rule::OverCommitted, |scene| {
        scene.hold(job, 2, 0);
        scene.edit(job).shares[1].state = SharePhase::Leaving;
        scene.edit(job).shares[2].state = SharePhase::Leaving;
    });
}

#[test]
fn a_node_that_shrank_below_its_use_is_left_alone() {
    let mut scene = Scene::new(&[2]);
    scene.running((ANN, FAIR), 1, 4, 0);
    assert_eq!(scene.broken(), []);
}

#[test]
fn promises_fit_beside_what_stays() {
    let (mut scene, ..) = sharing(VictimRule::FairShare);
    scene.edit(JobId(2)).facts.remaining = 3;
    scene.count(JobId(2), 2);
    scene.breaks(Rule::OverPromised, |scene| scene.promise(JobId(2), 0));
}

#[test]
fn nodes_out_of_scheduling_get_nothing() {
    let mut scene = Scene::new(&[4]);
    let job = scene.job(ANN, FAIR, 4, 1);
    scene.count(job, 0);
    scene.expand(job, 0);
    scene.breaks(Rule::UnschedulableNode, |scene| {
        scene.node(0).state.is_quiesced = true;
    });
}

#[test]
fn a_promise_is_held_to_the_same_as_a_share() {
    let (scene, ..) = sharing(VictimRule::FairShare);
    scene.breaks(Rule::WrongOrder, |scene| {
        let mut promises = scene.schedule.promises.iter_mut();
        promises.next().unwrap().order = order(2);
        scene.node(0).order = QShares(5);
    });
    let (scene, _, bob) = sharing(VictimRule::FairShare);
    scene.breaks(Rule::NodeList, |scene| {
        scene.schedule.promises.pop();
        scene.schedule.preemptions.pop();
        scene.edit(bob).nodes = Some([].into());
    });
}

#[test]
fn fair_share_work_goes_down_the_tree_and_not_up() {
    let mut scene = Scene::new(&[1]);
    scene.node(0).pool = SUB;
    let job = scene.job(ANN, FAIR, 1, 1);
    scene.expand(job, 0);
    scene.breaks(Rule::WrongPool, |scene| {
        scene.edit(job).class = INNER;
        scene.node(0).pool = TOP;
    });
}

#[test]
fn work_that_stays_goes_to_its_own_pool_only() {
    let mut scene = Scene::new(&[4]);
    let job = scene.job(ANN, FIXED, 1, 1);
    scene.expand(job, 0);
    scene.breaks(Rule::Squatter, |scene| scene.node(0).pool = SUB);
}

#[test]
fn an_old_squatter_blacklists_its_node() {
    let mut scene = Scene::new(&[4]);
    scene.running((ANN, FIXED), 1, 1, 0);
    scene.node(0).pool = SUB;
    scene.node(0).state.is_blacklisted = true;
    scene.breaks(Rule::Squatter, |scene| {
        scene.node(0).state.is_blacklisted = false;
    });
}

#[test]
fn a_node_list_is_obeyed() {
    let mut scene = Scene::new(&[1, 1]);
    let job = scene.job(ANN, FAIR, 1, 1);
    scene.edit(job).nodes = Some([NodeIx(0)].into());
    scene.expand(job, 0);
    scene.breaks(Rule::NodeList, |scene| {
        scene.edit(job).nodes = Some([NodeIx(1)].into());
    });
}

#[test]
fn a_share_has_its_jobs_order() {
    let mut scene = Scene::new(&[4, 2]);
    let job = scene.job(ANN, FIXED, 2, 1);
    scene.expand(job, 0);
    scene.breaks(Rule::WrongOrder, |scene| scene.schedule.expansions[0].order = order(1));
}

/// Seed 000, "Scheduling Policies", and the overage of a quantum that is configured here.
#[test]
fn a_reservation_has_a_whole_node_of_its_size() {
    let reserve = |whole: u32, kind| {
        let mut scene = Scene::new(&[u64::from(whole)]);
        let job = scene.job(ANN, RESERVE, 4, 1);
        scene.edit(job).kind = kind;
        scene.expand(job, 0).order = order(whole);
        scene.broken()
    };
    assert_eq!(reserve(4, JobKind::ArbitraryProcess), []);
    assert_eq!(reserve(5, JobKind::Reservation), []);
    assert_eq!(reserve(5, JobKind::ArbitraryProcess), [Rule::WrongOrder]);
    assert_eq!(reserve(6, JobKind::Reservation), [Rule::WrongOrder]);
}

#[test]
fn ended_work_gets_nothing() {
    let (mut scene, job) = growing(FAIR);
    scene.count(job, 0);
    scene.breaks(Rule::EndedWork, |scene| {
        scene.schedule.expansions.pop();
        scene.edit(job).facts.is_completing = true;
    });
    let mut scene = Scene::new(&[1]);
    let job = scene.job(ANN, FIXED, 1, 1);
    scene.edit(job).kind = JobKind::Service;
    scene.expand(job, 0);
    scene.count(job, 0);
    scene.breaks(Rule::EndedWork, |scene| scene.edit(job).is_spent = true);
}

#[test]
fn no_job_grows_above_its_cap() {
    let (mut scene, job) = growing(FAIR);
    scene.count(job, 1);
    scene.breaks(Rule::AboveCap, |scene| scene.edit(job).facts.remaining = 1);
    let mut scene = Scene::new(&[2]);
    let service = scene.job(ANN, FIXED, 1, 1);
    scene.edit(service).kind = JobKind::Service;
    scene.count(service, 1);
    scene.expand(service, 0);
    scene.breaks(Rule::AboveCap, |scene| {
        scene.expand(service, 0);
    });
}

#[test]
fn a_job_may_stay_above_its_cap() {
    let mut scene = Scene::new(&[4]);
    let job = scene.running((ANN, FAIR), 1, 4, 0);
    scene.edit(job).facts.limit = ProcessLimit::AtMost(2);
    assert_eq!(scene.broken(), []);
}

/// D10: earlier grants of the same cycle count.
#[test]
fn an_allotment_holds_over_all_trees() {
    let mut scene = Scene::new(&[4, 4, 4]);
    scene.node(1).pool = APART;
    scene.running((BOB, FIXED), 4, 1, 2);
    let first = scene.job(ANN, FIXED, 1, 1);
    let second = scene.job(ANN, FIXED, 1, 1);
    scene.expand(first, 0);
    scene.expand(second, 0);
    scene.settings().allotment = Some(Mebibytes(2048));
    scene.breaks(Rule::OverAllotment, |scene| {
        scene.settings().allotment = Some(Mebibytes(2047));
    });
}

#[test]
fn an_allotment_is_for_what_cannot_be_preempted_old_and_new() {
    let mut scene = Scene::new(&[4]);
    scene.running((ANN, FIXED), 1, 2, 0);
    scene.running((ANN, FAIR), 1, 1, 0);
    let new = scene.job(ANN, FIXED, 1, 1);
    scene.expand(new, 0);
    scene.settings().allotment = Some(Mebibytes(3072));
    scene.breaks(Rule::OverAllotment, |scene| {
        scene.settings().allotment = Some(Mebibytes(3071));
    });
}
