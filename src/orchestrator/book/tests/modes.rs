//! Types and modes of campaigns: tests, early tasks, slots before the first end, copies.

use super::super::*;
use super::spec;
use super::world::World;
use crate::orchestrator::spec::{CampaignType, EarlyTasks};

#[test]
fn a_test_runs_one_task_and_drops_the_others() {
    let mut world = World::new();
    let mut spec = spec(1000);
    spec.kind = CampaignType::Test;
    let id = world.submit(spec);
    world.publish();
    assert_eq!((world.published.len(), world.published[0].remaining), (1, 1));
    world.give(0, 0);
    world.schedule();
    for _ in 0..3 {
        world.exchange(0, false, false);
        world.begin(0, 0);
        world.end(0, 0, Reason::Done, Some(0));
    }
    world.exchange(0, false, false);
    let row = &world.rows.campaigns[&id];
    assert_eq!((row.state, row.done, row.dropped), (CampaignState::Done, 1, 999));
    assert_eq!(world.begun.len(), 1);
}

#[test]
fn early_tasks_are_work_of_their_own_class() {
    let mut world = World::new();
    let mut spec = spec(10);
    spec.first = Some(EarlyTasks { count: 6, class: "fast".to_owned() });
    let id = world.submit(spec);
    let told = |world: &mut World| -> Vec<(u64, Option<String>, u64)> {
        world.publish();
        let told = world.published.iter().map(|it| (it.work, it.class.clone(), it.remaining));
        told.collect()
    };
    let fast = Some("fast".to_owned());
    assert_eq!(told(&mut world), [(id + 1, fast.clone(), 6), (id, None, 4)]);
    // A slot of the ordinary class takes the tasks in order, early ones too.
    world.give(1, 0);
    world.schedule();
    world.exchange(0, false, false);
    world.exchange(0, false, false);
    let early = |world: &mut World| told(world).into_iter().find(|it| it.1 == fast).map(|it| it.2);
    assert_eq!(early(&mut world), Some(2), "tasks 1 to 4 are with the ordinary slot");
    world.give(0, 1);
    world.schedule();
    world.exchange(1, false, false);
    world.exchange(1, false, false);
    world.begin(1, 0);
    world.exchange(1, false, false);
    let begun = world.begun.first().copied().unwrap();
    assert_eq!(world.rows.tasks[&(id, begun.task)].step, EARLY_STEP);
    // An early task that is interrupted stays one, also over a restart.
    world.kill(1, 0);
    world.exchange(1, false, false);
    world.restart();
    assert_eq!(early(&mut world), Some(2));
    assert_eq!(told(&mut world).iter().map(|it| it.2).sum::<u64>(), 10);
}
