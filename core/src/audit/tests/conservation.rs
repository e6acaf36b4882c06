//! No space stays free that a job could use.

use super::*;

#[test]
fn no_space_stays_idle() {
    let mut scene = Scene::new(&[2]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    scene.count(ann, 1);
    scene.breaks(Rule::IdleRoom, |scene| scene.edit(ann).facts.remaining = 2);
}

/// Fair-share work is no request, though it has a target.
#[test]
fn room_that_stays_idle_is_found_once() {
    let mut scene = Scene::new(&[2]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    scene.edit(ann).facts.remaining = 2;
    scene.count(ann, 2);
    assert_eq!(scene.broken(), [Rule::IdleRoom]);
}

/// The space is free now, and will be needed when the share beside it has exited.
#[test]
fn promised_room_is_not_idle() {
    let mut scene = Scene::new(&[2]);
    let ann = scene.running((ANN, FAIR), 1, 1, 0);
    scene.edit(ann).facts.remaining = 1;
    scene.edit(ann).shares[0].state = SharePhase::Leaving;
    let large = scene.job(BOB, FIXED, 2, 1);
    scene.promise(large, 0);
    assert_eq!(scene.broken(), []);
    scene.schedule.promises.clear();
    scene.count(large, 0);
    assert_eq!(scene.broken(), [Rule::IdleRoom]);
}

#[test]
fn a_counted_request_is_placed() {
    let mut scene = Scene::new(&[4]);
    let service = scene.job(ANN, FIXED, 1, 1);
    scene.edit(service).kind = JobKind::Service;
    scene.count(service, 0);
    scene.breaks(Rule::UnplacedRequest, |scene| scene.count(service, 1));
}

/// The request is promised space of a terminating share, beside free space.
#[test]
fn a_promised_request_is_placed() {
    let mut scene = Scene::new(&[3]);
    let fixed = scene.running((ANN, FIXED), 1, 1, 0);
    scene.edit(fixed).facts.remaining = 3;
    let low = scene.running((ANN, LOW), 1, 1, 0);
    scene.edit(low).shares[0].state = SharePhase::Leaving;
    scene.edit(low).facts.is_completing = true;
    scene.promise(fixed, 0);
    scene.count(fixed, 2);
    scene.breaks(Rule::UnplacedRequest, |scene| scene.count(fixed, 3));
}

#[test]
fn a_counted_reservation_is_placed_if_a_node_is_empty() {
    let mut scene = Scene::new(&[4]);
    scene.running((ANN, FIXED), 1, 1, 0);
    let whole = scene.job(ANN, RESERVE, 4, 1);
    scene.count(JobId(1), 0);
    scene.count(whole, 1);
    scene.breaks(Rule::UnplacedRequest, |scene| scene.edit(JobId(1)).shares.clear());
}

/// A node larger than requested may be more than is left of an allotment.
#[test]
fn a_reservation_under_an_allotment_may_wait_beside_a_larger_node() {
    let allotted = Some(Mebibytes(8192));
    for (allotment, whole, is_right) in
        [(None, 4, false), (None, 5, false), (allotted, 4, false), (allotted, 5, true)]
    {
        let mut scene = Scene::new(&[whole]);
        let job = scene.job(ANN, RESERVE, 4, 1);
        scene.edit(job).kind = JobKind::Reservation;
        scene.count(job, 1);
        scene.settings().allotment = allotment;
        let wanted: &[Rule] = if is_right { &[] } else { &[Rule::UnplacedRequest] };
        assert_eq!(scene.broken(), wanted, "{allotment:?} {whole}");
    }
}
