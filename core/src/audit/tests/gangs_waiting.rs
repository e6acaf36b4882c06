//! Gangs that wait: for free space, behind older gangs, and for a true reason.

use super::gangs::GangDoctor;
use super::*;
use crate::engine::{GangLack, GangNodes};
use crate::model::{Elasticity, Place, Tags};

/// A gang of two scattered processes of order 4; the second node is varied off.
fn waiting() -> (Scene, JobId) {
    let mut scene = Scene::new(&[4, 4]);
    let gang = scene.gang((ANN, FIXED), &[(2, 4)], Place::Scatter);
    scene.node(1).state.is_varied_off = true;
    (scene, gang)
}

#[test]
fn no_gang_waits_beside_room_for_it() {
    let (scene, _) = waiting();
    scene.breaks(Rule::IdleGang, |scene| scene.node(1).state.is_varied_off = false);
    let (scene, gang) = waiting();
    scene.breaks(Rule::IdleGang, |scene| {
        scene.shape(gang).place = Place::Pack;
        scene.node(0).order = QShares(8);
    });
}

/// The first chunk could use either node, the second only the other.
#[test]
fn room_is_found_by_an_exact_matching() {
    let (mut scene, gang) = waiting();
    let chunk = scene.shape(gang).chunks[0].clone();
    scene.shape(gang).chunks[0].count = 1;
    scene.shape(gang).chunks.push(chunk);
    scene.shape(gang).chunks[1].count = 1;
    scene.shape(gang).chunks[1].tags = Tags::of([("color", "red")]);
    scene.tag(0, "color", "red");
    scene.breaks(Rule::IdleGang, |scene| scene.node(1).state.is_varied_off = false);
}

#[test]
fn a_gang_may_have_a_reason_to_wait() {
    let doctors: [(&str, GangDoctor); 10] = [
        ("the user's allotment", |scene, _| scene.settings().allotment = Some(Mebibytes(8191))),
        ("its list", |scene, gang| scene.edit(gang).nodes = Some([NodeIx(0)].into())),
        ("its tags", |scene, gang| {
            scene.shape(gang).chunks[0].tags = Tags::of([("color", "red")]);
            scene.tag(0, "color", "red");
        }),
        ("exclusive, and a node is in use", |scene, gang| {
            scene.shape(gang).is_exclusive = true;
            scene.node(0).order = QShares(5);
            scene.running((BOB, FIXED), 1, 1, 0);
        }),
        ("in use until an exit", |scene, _| {
            let bob = scene.running((BOB, FIXED), 1, 1, 0);
            scene.edit(bob).shares[0].state = SharePhase::Leaving;
            scene.edit(bob).is_spent = true;
        }),
        ("one rack has one of the nodes", |scene, gang| {
            scene.tag(0, "rack", "r1");
            scene.tag(1, "rack", "r2");
            scene.shape(gang).group_by = Some("rack".into());
            scene.shape(gang).may_span = Some(false);
        }),
        ("a rack that is down could hold it", |scene, gang| {
            for on in 2..4 {
                Arc::make_mut(&mut scene.snapshot.nodes).push(node(on, 4));
                scene.node(on).state.is_dead = true;
                scene.tag(on, "rack", "r3");
            }
            scene.tag(0, "rack", "r1");
            scene.tag(1, "rack", "r2");
            scene.shape(gang).group_by = Some("rack".into());
        }),
        ("a rack could hold fewer processes", |scene, gang| {
            scene.tag(0, "rack", "r1");
            scene.tag(1, "rack", "r2");
            scene.shape(gang).group_by = Some("rack".into());
            scene.shape(gang).elasticity = Some(Elasticity::Moldable);
        }),
        ("it has ended", |scene, gang| scene.edit(gang).is_spent = true),
        ("it has started before", |scene, gang| scene.edit(gang).gang.size = Some(2)),
    ];
    for (reason, doctor) in doctors {
        let (mut scene, gang) = waiting();
        scene.node(1).state.is_varied_off = false;
        assert_eq!(scene.broken(), [Rule::IdleGang]);
        doctor(&mut scene, gang);
        assert_eq!(scene.broken(), [], "{reason}");
    }
}

/// Where no set could ever hold it, all nodes count.
#[test]
fn a_gang_that_may_span_waits_for_no_set() {
    let (mut scene, gang) = waiting();
    scene.tag(0, "rack", "r1");
    scene.tag(1, "rack", "r2");
    scene.shape(gang).group_by = Some("rack".into());
    scene.breaks(Rule::IdleGang, |scene| scene.node(1).state.is_varied_off = false);
}

/// An older gang of three waits for the work on the third node, and a younger gang of two.
fn behind(older: u64) -> (Scene, [JobId; 2]) {
    let mut scene = Scene::new(&[4, 4, 4]);
    let first = scene.gang((ANN, FIXED), &[(older, 4)], Place::Scatter);
    scene.running((BOB, FIXED), 4, 1, 2);
    let second = scene.gang((BOB, FIXED), &[(2, 4)], Place::Scatter);
    (scene, [first, second])
}

#[test]
fn an_older_gang_is_a_reason_while_it_claims() {
    let (mut scene, [first, second]) = behind(3);
    assert_eq!(scene.broken(), []);
    let hold_limit = |cycles: u64| {
        let (mut scene, [first, _]) = behind(3);
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        topology.classes[FIXED].gangs.hold_limit = 50_000;
        scene.edit(first).gang.waits_since = Some(100 - cycles);
        scene.broken()
    };
    // It holds for five cycles, then pauses for five. The cycles at the edges count for both.
    for cycles in [0, 4, 5, 9, 10, 14, 15, 19, 20] {
        assert_eq!(hold_limit(cycles), [], "{cycles}");
    }
    for cycles in [6, 8, 16, 18] {
        assert_eq!(hold_limit(cycles), [Rule::IdleGang], "{cycles}");
    }
    // Other nodes are its business, and none of the younger gang's.
    scene.shape(first).chunks[0].tags = Tags::of([("color", "red")]);
    scene.tag(2, "color", "red");
    scene.edit(second).nodes = Some([NodeIx(0), NodeIx(1)].into());
    assert_eq!(scene.broken(), [Rule::IdleGang]);
}

#[test]
fn work_that_goes_first_is_a_reason_if_it_has_less_than_it_could_use() {
    let (mut scene, _) = waiting();
    scene.node(1).state.is_varied_off = false;
    scene.running((BOB, FAIR), 1, 1, 0);
    scene.node(0).order = QShares(5);
    assert_eq!(scene.broken(), [Rule::IdleGang]);
    let topology = Arc::make_mut(&mut scene.snapshot.topology);
    topology.classes[FIXED].priority = 15;
    assert_eq!(scene.broken(), [Rule::IdleGang]);
    scene.edit(JobId(2)).facts.remaining = 9;
    scene.edit(JobId(2)).facts.limit = ProcessLimit::Unlimited;
    assert!(!scene.broken().contains(&Rule::IdleGang));
}

#[test]
fn younger_work_that_stays_does_not_pass() {
    let passing = || {
        let (mut scene, [first, second]) = behind(3);
        scene.shape(second).elasticity = Some(Elasticity::Moldable);
        scene.edit(second).is_spent = true;
        let single = scene.job(BOB, FIXED, 4, 1);
        (scene, first, single)
    };
    let (scene, _, single) = passing();
    scene.breaks(Rule::ClaimPassed, |scene| {
        scene.expand(single, 0);
    });
    let doctors: [(&str, GangDoctor); 7] = [
        ("it waits for a service", |scene, _| scene.edit(JobId(2)).kind = JobKind::Service),
        ("it is paused", |scene, first| {
            let topology = Arc::make_mut(&mut scene.snapshot.topology);
            topology.classes[FIXED].gangs.hold_limit = 50_000;
            scene.edit(first).gang.waits_since = Some(92);
        }),
        ("its user is at the allotment", |scene, _| {
            scene.settings().allotment = Some(Mebibytes(12_287));
        }),
        ("it needs other nodes", |scene, first| {
            scene.shape(first).chunks[0].tags = Tags::of([("color", "red")]);
            scene.tag(1, "color", "red");
            scene.tag(2, "color", "red");
        }),
        ("it fits nowhere", |scene, first| scene.shape(first).chunks[0].count = 4),
        ("the other was promised its space", |scene, _| {
            scene.snapshot.promises =
                vec![Promise { job: JobId(4), node: NodeIx(0), order: order(4), rank: None }];
        }),
        ("the other goes first", |scene, first| {
            let topology = Arc::make_mut(&mut scene.snapshot.topology);
            topology.classes[RESERVE].gangs.are_allowed = true;
            scene.edit(first).class = LOW;
        }),
    ];
    for (reason, doctor) in doctors {
        let (mut scene, first, single) = passing();
        scene.expand(single, 0);
        doctor(&mut scene, first);
        assert!(!scene.broken().contains(&Rule::ClaimPassed), "{reason}");
    }
}

/// A gang that must not span claims nodes of the only rack that could hold it.
#[test]
fn a_claim_is_within_the_set() {
    let claiming = |on: usize| {
        let mut scene = Scene::new(&[4, 4, 4, 4]);
        for on in 0..4 {
            scene.tag(on, "rack", if on < 3 { "r1" } else { "r2" });
        }
        let gang = scene.gang((ANN, FIXED), &[(3, 4)], Place::Scatter);
        scene.shape(gang).group_by = Some("rack".into());
        scene.running((BOB, FIXED), 4, 1, 2);
        let single = scene.job(BOB, FIXED, 4, 1);
        scene.expand(single, on);
        scene.broken()
    };
    assert_eq!(claiming(3), []);
    assert_eq!(claiming(0), [Rule::ClaimPassed]);
}

/// Of two racks that could hold it, the gang may wait for either.
#[test]
fn a_claim_may_be_in_any_of_the_sets() {
    let claiming = |nodes: &[usize]| {
        let mut scene = Scene::new(&[4; 6]);
        for on in 0..6 {
            scene.tag(on, "rack", if on < 3 { "r1" } else { "r2" });
        }
        let gang = scene.gang((ANN, FIXED), &[(3, 4)], Place::Scatter);
        scene.shape(gang).group_by = Some("rack".into());
        scene.running((BOB, FIXED), 4, 1, 2);
        scene.running((BOB, FIXED), 4, 1, 5);
        for &on in nodes {
            let single = scene.job(BOB, FIXED, 4, 1);
            scene.expand(single, on);
        }
        scene.broken()
    };
    assert_eq!(claiming(&[0]), []);
    assert_eq!(claiming(&[0, 3]), [Rule::ClaimPassed]);
}

/// An older service got a node of a rack after the gang had claimed the rest of that rack. The gang
/// was right to leave the other rack to younger work.
#[test]
fn a_set_that_an_older_service_closes_in_this_cycle_may_have_been_claimed() {
    let claiming = |is_new: bool| {
        let mut scene = Scene::new(&[4; 6]);
        for on in 0..6 {
            scene.tag(on, "rack", if on < 3 { "r1" } else { "r2" });
        }
        let service = scene.job(BOB, FIXED, 4, 1);
        scene.edit(service).kind = JobKind::Service;
        if is_new {
            _ = scene.expand(service, 2);
        } else {
            scene.hold(service, 1, 2);
        }
        scene.running((BOB, FIXED), 4, 1, 5);
        let gang = scene.gang((ANN, FIXED), &[(3, 4)], Place::Scatter);
        scene.shape(gang).group_by = Some("rack".into());
        let single = scene.job(BOB, FIXED, 4, 1);
        scene.expand(single, 3);
        scene.broken()
    };
    assert_eq!(claiming(true), []);
    assert_eq!(claiming(false), [Rule::ClaimPassed]);
}

/// A service was promised a node of the only rack that could hold the gang, and starts elsewhere. The gang
/// had to expect it there, and claimed nothing.
#[test]
fn a_set_that_an_older_service_leaves_in_this_cycle_may_not_have_been_claimed() {
    let claiming = |was_promised: bool| {
        let mut scene = Scene::new(&[4; 6]);
        for on in 0..6 {
            scene.tag(on, "rack", if on < 4 { "r1" } else { "r2" });
        }
        let service = scene.job(BOB, FIXED, 4, 1);
        scene.edit(service).kind = JobKind::Service;
        if was_promised {
            scene.promise(service, 2);
            scene.snapshot.promises = std::mem::take(&mut scene.schedule.promises);
        }
        scene.expand(service, 5);
        scene.running((BOB, FIXED), 4, 1, 1);
        let gang = scene.gang((ANN, FIXED), &[(4, 4)], Place::Scatter);
        scene.shape(gang).group_by = Some("rack".into());
        let single = scene.job(BOB, FIXED, 4, 1);
        scene.expand(single, 3);
        scene.broken().contains(&Rule::ClaimPassed)
    };
    assert!(!claiming(true));
    assert!(claiming(false));
}

/// The reason of the gang, made up.
fn saying(of: GangNodes) -> WaitReason {
    WaitReason::GangLacks(GangLack { of, chunk: None, found: 1, needed: 2 })
}

#[test]
fn a_gang_that_fits_is_not_told_that_it_never_will() {
    let told = |scene: &mut Scene, of| {
        scene.report();
        scene.schedule.report.jobs[JobIx(0)].reason = Some(saying(of));
        scene.broken_as_reported()
    };
    let (mut scene, gang) = waiting();
    assert_eq!(told(&mut scene, GangNodes::Available), []);
    assert_eq!(told(&mut scene, GangNodes::Up), []);
    assert_eq!(told(&mut scene, GangNodes::Configured), [Rule::FalseNever]);
    assert_eq!(told(&mut scene, GangNodes::OfOneSet), [Rule::FalseNever], "there are no sets");
    // All nodes are up and in use.
    scene.node(1).state.is_varied_off = false;
    scene.running((BOB, FIXED), 4, 1, 1);
    assert_eq!(told(&mut scene, GangNodes::Available), []);
    assert_eq!(told(&mut scene, GangNodes::Up), [Rule::FalseNever]);
    scene.tag(0, "rack", "r1");
    scene.tag(1, "rack", "r2");
    scene.shape(gang).group_by = Some("rack".into());
    assert_eq!(told(&mut scene, GangNodes::OfOneSet), [Rule::FalseNever], "it may span");
    scene.shape(gang).may_span = Some(false);
    assert_eq!(told(&mut scene, GangNodes::OfOneSet), []);
    scene.tag(1, "rack", "r1");
    assert_eq!(told(&mut scene, GangNodes::OfOneSet), [Rule::FalseNever]);
    scene.shape(gang).chunks[0].count = 3;
    assert_eq!(told(&mut scene, GangNodes::Configured), []);
    assert_eq!(told(&mut scene, GangNodes::OfOneSet), []);
}

/// Nodes that never reported count: nodes that a share or a command names, and nodes of the pool.
#[test]
fn never_is_not_said_for_nodes_that_never_reported() {
    let (mut scene, gang) = waiting();
    scene.shape(gang).chunks[0].count = 3;
    let told = |scene: &mut Scene| {
        scene.report();
        scene.schedule.report.jobs[JobIx(0)].reason = Some(saying(GangNodes::Configured));
        scene.broken_as_reported()
    };
    assert_eq!(told(&mut scene), []);
    let pools = &mut Arc::make_mut(&mut scene.snapshot.topology).pools;
    pools[TOP].nodes = vec!["node0".to_owned(), "node9".to_owned()];
    assert_eq!(told(&mut scene), [Rule::FalseNever]);
    Arc::make_mut(&mut scene.snapshot.topology).pools[TOP].nodes.clear();
    Arc::make_mut(&mut scene.snapshot.nodes).push(node(2, 0));
    assert_eq!(told(&mut scene), [], "a node smaller than a quantum");
    scene.node(2).state.is_awaited = true;
    assert_eq!(told(&mut scene), [Rule::FalseNever]);
}

#[test]
fn who_waits_behind_a_gang_names_one_that_claims() {
    let (mut scene, [first, second]) = behind(3);
    let told = |scene: &mut Scene, job| {
        scene.report();
        scene.schedule.report.jobs[JobIx(2)].reason = Some(WaitReason::BehindOlderGang { job });
        scene.broken_as_reported()
    };
    assert_eq!(told(&mut scene, first), []);
    assert_eq!(told(&mut scene, second), [Rule::FalseHold], "itself");
    assert_eq!(told(&mut scene, JobId(2)), [Rule::FalseHold], "no gang");
    scene.edit(first).is_spent = true;
    scene.edit(second).nodes = Some([NodeIx(0)].into());
    assert_eq!(told(&mut scene, first), [Rule::FalseHold], "it has ended");
}
