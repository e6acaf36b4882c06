//! Urgent work: what goes for it.

use super::*;
use crate::model::{Elasticity, Shape};

/// Three nodes of 4. Ann's malleable job of two processes, at least one, is on nodes 0 and 1; Bob's
/// plain process is on node 2. An urgent job of size 4 took what `taken` names.
fn scene(taken: &[(JobId, usize, usize)]) -> (Scene, JobId) {
    let mut scene = Scene::new(&[4, 4, 4]);
    let topology = Arc::make_mut(&mut scene.snapshot.topology);
    (topology.classes[FIXED].is_urgent, topology.classes[FIXED].priority) = (true, 0);
    let malleable = scene.running((ANN, FAIR), 4, 1, 0);
    scene.hold(malleable, 1, 1);
    scene.edit(malleable).shape = Some(Arc::new(Shape {
        elasticity: Some(Elasticity::Malleable),
        min_processes: 1,
        ..Shape::default()
    }));
    scene.edit(malleable).facts.limit = ProcessLimit::AtMost(2);
    for share in &mut scene.edit(malleable).shares {
        share.facts.is_initialized = true;
    }
    scene.running((BOB, FAIR), 4, 1, 2);
    let urgent = scene.job(BOB, FIXED, 4, 1);
    for (job, place, node) in taken {
        scene.preempt(*job, *place, Some(urgent), VictimRule::Urgent);
        if scene.schedule.promises.is_empty() {
            scene.promise(urgent, *node);
        }
    }
    (scene, urgent)
}

const MALLEABLE: JobId = JobId(1);
const PLAIN: JobId = JobId(2);

#[test]
fn urgent_work_takes_the_cheapest_first() {
    let (mut cheapest, _) = scene(&[(MALLEABLE, 1, 1)]);
    assert!(!cheapest.broken().contains(&Rule::UrgentTaken), "{:?}", cheapest.broken());
    let (mut dearer, _) = scene(&[(PLAIN, 0, 2)]);
    assert!(dearer.broken().contains(&Rule::UrgentTaken), "a process above the minimum is cheaper");
    let (mut whole, _) = scene(&[(MALLEABLE, 0, 0), (MALLEABLE, 1, 1)]);
    assert!(whole.broken().contains(&Rule::UrgentTaken), "its last process is the dearest");
    let (mut more, _) = scene(&[(MALLEABLE, 1, 1), (PLAIN, 0, 2)]);
    assert!(more.broken().contains(&Rule::UrgentTaken), "one process suffices");
}

#[test]
fn urgent_work_never_takes_what_stays() {
    let (mut scene, urgent) = scene(&[]);
    let fixed = scene.running((ANN, FIXED), 4, 1, 2);
    scene.preempt(fixed, 0, Some(urgent), VictimRule::Urgent);
    scene.promise(urgent, 2);
    assert!(scene.broken().contains(&Rule::UrgentTaken));
}

#[test]
fn free_space_comes_before_all() {
    let (mut scene, _) = scene(&[(MALLEABLE, 1, 1)]);
    scene.edit(PLAIN).shares.clear();
    assert!(scene.broken().contains(&Rule::UrgentTaken), "node 2 is free");
}
