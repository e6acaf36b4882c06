//! Time: windows, notices, hours, and the first gang that waits.

use super::*;
use crate::engine::{EstimateBasis, NodeWindow};
use crate::model::{Millis, Place, Shape, Window, WindowKind};

const NOW: Millis = 1_000_000;
const HOUR: Millis = 3_600_000;

fn window(kind: WindowKind, nodes: &[usize], from: Millis, to: Millis) -> NodeWindow {
    NodeWindow {
        window: Arc::new(Window {
            name: "w1".into(),
            kind,
            nodes: Vec::new(),
            from,
            to,
            users: Vec::new(),
            classes: Vec::new(),
            reason: String::new(),
        }),
        nodes: nodes.iter().copied().map(NodeIx).collect(),
    }
}

/// A cluster in which time matters, with a window.
fn timed(orders: &[u64], window: NodeWindow) -> Scene {
    let mut scene = Scene::new(orders);
    scene.snapshot.now = Some(NOW);
    scene.snapshot.windows = Arc::new(vec![window]);
    scene
}

/// A gang of a single process that starts on node 0 and stays for an hour, beside a reservation of
/// the node after two hours.
fn starting() -> (Scene, JobId) {
    let kept = window(WindowKind::Reservation, &[0], NOW + 2 * HOUR, NOW + 3 * HOUR);
    let mut scene = timed(&[4], kept);
    let gang = scene.gang((ANN, FIXED), &[(1, 4)], Place::Scatter);
    scene.shape(gang).duration = Some(HOUR);
    scene.expand(gang, 0).rank = Some(0);
    (scene, gang)
}

#[test]
fn work_that_stays_is_in_no_window_of_others() {
    let (scene, gang) = starting();
    scene.breaks(Rule::InWindow, |scene| scene.shape(gang).duration = Some(2 * HOUR + 1));
    let (scene, gang) = starting();
    scene.breaks(Rule::InWindow, |scene| scene.shape(gang).duration = None);
    let (scene, gang) = starting();
    scene.breaks(Rule::InWindow, |scene| scene.shape(gang).reservation = Some("w1".into()));
    let (scene, _) = starting();
    scene.breaks(Rule::InWindow, |scene| {
        scene.snapshot.hours = Arc::new([(FIXED, vec![(NOW, NOW + HOUR - 1)])].into());
    });
}

/// A job of fair-share work on a node whose maintenance begins after the notice.
fn leaving() -> (Scene, JobId) {
    let notice = Settings::default().notice;
    let kept = window(WindowKind::Maintenance, &[0], NOW + notice + 1, NOW + HOUR);
    let mut scene = timed(&[4, 4], kept);
    let job = scene.running((ANN, FAIR), 2, 1, 0);
    (scene, job)
}

#[test]
fn preemptable_work_leaves_at_the_notice_and_no_sooner() {
    let (scene, _) = leaving();
    scene.breaks(Rule::LateNotice, |scene| scene.snapshot.now = Some(NOW + 1));
    for rule in [VictimRule::Window, VictimRule::ClassClosed] {
        let (mut scene, job) = leaving();
        scene.preempt(job, 0, None, rule);
        assert!(scene.broken().contains(&Rule::LateNotice), "{rule:?}");
    }
    let (scene, _) = leaving();
    scene.breaks(Rule::LateNotice, |scene| {
        scene.snapshot.hours = Arc::new([(FAIR, vec![(0, NOW)])].into());
    });
}

/// The first gang waits for a node until its work ends in an hour. A younger gang of half an hour
/// starts on the other node.
fn head() -> (Scene, JobId) {
    let far = window(WindowKind::Reservation, &[], NOW + 9 * HOUR, NOW + 10 * HOUR);
    let mut scene = timed(&[4, 4], far);
    let running = scene.gang((BOB, FIXED), &[(1, 4)], Place::Scatter);
    scene.shape(running).duration = Some(HOUR);
    scene.hold(running, 1, 0);
    scene.edit(running).gang.started = Some(NOW);
    scene.edit(running).gang.size = Some(1);
    scene.edit(running).shares[0].rank = Some(0);
    let head = scene.gang((ANN, FIXED), &[(2, 4)], Place::Scatter);
    scene.shape(head).duration = Some(HOUR);
    let younger = scene.gang((BOB, FIXED), &[(1, 4)], Place::Scatter);
    scene.shape(younger).duration = Some(HOUR);
    scene.expand(younger, 1).rank = Some(0);
    scene
        .estimates
        .insert(head, StartEstimate { at: NOW + HOUR, basis: EstimateBasis::DeclaredEnds });
    (scene, younger)
}

#[test]
fn younger_work_does_not_delay_the_first_gang() {
    let (scene, younger) = head();
    scene.breaks(Rule::HeadDelayed, |scene| scene.shape(younger).duration = Some(HOUR + 1));
    let (scene, younger) = head();
    scene.breaks(Rule::HeadDelayed, |scene| scene.shape(younger).duration = None);
}

/// A single request for a whole node waits until the work there ends in an hour. A younger request
/// for the rest of the node starts, and ends by then.
fn single_head() -> (Scene, JobId) {
    let far = window(WindowKind::Reservation, &[], NOW + 9 * HOUR, NOW + 10 * HOUR);
    let mut scene = timed(&[4], far);
    let timed_job = |scene: &mut Scene, user, size| {
        let job = scene.job(user, FIXED, size, 1);
        let shape = Shape { duration: Some(HOUR), ..Shape::default() };
        scene.edit(job).shape = Some(Arc::new(shape));
        job
    };
    let running = timed_job(&mut scene, BOB, 2);
    scene.hold(running, 1, 0);
    scene.edit(running).gang.started = Some(NOW);
    let head = timed_job(&mut scene, ANN, 4);
    let younger = timed_job(&mut scene, BOB, 2);
    scene.expand(younger, 0);
    scene
        .estimates
        .insert(head, StartEstimate { at: NOW + HOUR, basis: EstimateBasis::DeclaredEnds });
    (scene, younger)
}

#[test]
fn younger_work_does_not_delay_the_first_single_request() {
    let (scene, younger) = single_head();
    scene.breaks(Rule::HeadDelayed, |scene| scene.shape(younger).duration = Some(HOUR + 1));
    let (scene, younger) = single_head();
    scene.breaks(Rule::HeadDelayed, |scene| scene.shape(younger).duration = None);
}

#[test]
fn no_job_starts_before_its_earliest_start() {
    let (scene, gang) = starting();
    scene.breaks(Rule::EarlyStart, |scene| scene.shape(gang).not_before = Some(NOW + 1));
}

/// A job that has declared an hour and began an hour ago, in a class that ends overruns, and that
/// leaves.
fn overrun() -> (Scene, JobId) {
    let far = window(WindowKind::Reservation, &[], NOW + 9 * HOUR, NOW + 10 * HOUR);
    let mut scene = timed(&[4, 4], far);
    let gang = scene.gang((ANN, FIXED), &[(1, 4)], Place::Scatter);
    scene.shape(gang).duration = Some(HOUR);
    scene.hold(gang, 1, 0);
    scene.edit(gang).shares[0].rank = Some(0);
    scene.preempt(gang, 0, None, VictimRule::Overrun);
    scene.edit(gang).gang.size = Some(1);
    scene.snapshot.now = Some(NOW + HOUR);
    scene.edit(gang).gang.started = Some(NOW);
    Arc::make_mut(&mut scene.snapshot.topology).classes[FIXED].gangs.ends_overruns = true;
    (scene, gang)
}

#[test]
fn work_ends_at_its_declared_end_and_no_sooner() {
    let (scene, gang) = overrun();
    scene.breaks(Rule::WrongEnd, |scene| scene.shape(gang).duration = Some(HOUR + 1));
    let (scene, gang) = overrun();
    scene.breaks(Rule::WrongEnd, |scene| scene.shape(gang).duration = None);
    let (scene, _) = overrun();
    scene.breaks(Rule::WrongEnd, |scene| {
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        topology.classes[FIXED].gangs.ends_overruns = false;
    });
    let (scene, _) = overrun();
    scene.breaks(Rule::WrongEnd, |scene| scene.schedule.preemptions.clear());
}

/// Node 0 is reserved from now on. Fair-share work of a higher priority leaves it for a gang that
/// names the reservation.
fn giving_way() -> (Scene, JobId) {
    let kept = window(WindowKind::Reservation, &[0], NOW, NOW + 2 * HOUR);
    let mut scene = timed(&[4], kept);
    Arc::make_mut(&mut scene.snapshot.topology).classes[FIXED].priority = 20;
    let running = scene.running((BOB, FAIR), 2, 2, 0);
    let gang = scene.gang((ANN, FIXED), &[(1, 4)], Place::Scatter);
    scene.shape(gang).duration = Some(HOUR);
    scene.shape(gang).reservation = Some("w1".into());
    for place in 0..2 {
        scene.preempt(running, place, Some(gang), VictimRule::Window);
    }
    scene.promise(gang, 0);
    scene.schedule.promises[0].rank = Some(0);
    (scene, gang)
}

#[test]
fn work_gives_way_in_a_reservation_for_its_work_alone() {
    let set_rule = |scene: &mut Scene, rule| {
        for gone in &mut scene.schedule.preemptions {
            gone.rule = rule;
        }
    };
    let (mut scene, _) = giving_way();
    assert_eq!(scene.broken(), []);
    // The reservation is not near yet.
    let (mut scene, _) = giving_way();
    let notice = Settings::default().notice;
    let ahead = window(WindowKind::Reservation, &[0], NOW + notice + 1, NOW + 9 * HOUR);
    scene.snapshot.windows = Arc::new(vec![ahead]);
    assert!(scene.broken().contains(&Rule::LateNotice));
    // The gang names no reservation.
    let (mut scene, gang) = giving_way();
    scene.shape(gang).reservation = None;
    assert!(scene.broken().contains(&Rule::WrongPriority));
    // Fair-share work keeps the node.
    let (mut scene, _) = giving_way();
    scene.schedule.preemptions.clear();
    scene.schedule.promises.clear();
    assert!(scene.broken().contains(&Rule::PriorityWaits));
    let (mut scene, _) = giving_way();
    set_rule(&mut scene, VictimRule::Turn);
    assert!(scene.broken().contains(&Rule::WrongPriority));
}
