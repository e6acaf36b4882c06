//! Types and modes of campaigns: tests, early tasks, slots before the first end, copies.

use super::super::*;
use super::spec;
use super::world::World;
use crate::orchestrator::spec::{CampaignMode, CampaignSpec, CampaignType, EarlyTasks};

#[test]
fn a_test_runs_one_task_and_drops_the_others() {
    let mut world = World::new();
    let mut spec = spec(1000);
    spec.kind = CampaignType::Test;
    let id = world.submit(spec);
    world.publish();
    assert_eq!((world.published.len(), world.published[0].remaining), (1, 1));
    world.run_in_a_slot();
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
    // An interrupted early task is early again, also over a restart.
    world.kill(1, 0);
    world.exchange(1, false, false);
    world.restart();
    assert_eq!(early(&mut world), Some(2));
    assert_eq!(told(&mut world).iter().map(|it| it.2).sum::<u64>(), 10);
}

/// Tasks of a campaign that have a row, in their states.
fn states(world: &World, id: u64) -> Vec<(u64, TaskState, u64)> {
    let rows = world.rows.tasks.values().filter(|row| row.campaign == id);
    rows.map(|row| (row.task, row.state, row.attempt)).collect()
}

/// Publishes, gives every node a share of the first work, and lets all agents exchange.
fn fill(world: &mut World, nodes: usize) {
    world.publish();
    for node in 0..nodes {
        world.give(0, node);
    }
    world.schedule();
    for _ in 0..2 {
        (0..nodes).for_each(|node| world.exchange(node, false, false));
    }
}

/// A campaign of `count` tasks in the mode `finalise`.
fn finalising(count: u64) -> CampaignSpec {
    CampaignSpec { mode: CampaignMode::Finalise, may_run_twice: true, ..spec(count) }
}

#[test]
fn prediction_keeps_to_one_slot_until_a_task_has_ended() {
    let mut world = World::new();
    let spec = CampaignSpec { mode: CampaignMode::Prediction, max: Some(8), ..spec(20) };
    world.submit(spec);
    fill(&mut world, 1);
    assert_eq!(world.published[0].max, Some(1));
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.end(0, 0, Reason::Done, Some(0));
    world.exchange(0, false, false);
    world.publish();
    assert_eq!(world.published[0].max, Some(8));
}

/// A world of two nodes where task 1 of a campaign runs on node 0, and its copy on node 1.
fn with_copy(count: u64) -> (World, u64) {
    let mut world = World::new();
    let id = world.submit(finalising(count));
    fill(&mut world, 1);
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.publish();
    // The second share comes while the task is the last.
    world.shares.insert(world.next_share, (1, id, false));
    world.next_share += 1;
    world.schedule();
    world.exchange(1, false, false);
    world.exchange(1, false, false);
    world.begin(1, 0);
    world.exchange(1, false, false);
    (world, id)
}

#[test]
fn the_first_success_counts_and_the_other_attempt_is_superseded() {
    for winner in [0, 1] {
        let (mut world, id) = with_copy(1);
        assert_eq!(states(&world, id), [(1, TaskState::Running, 2)]);
        assert_eq!(world.rows.tasks[&(id, 1)].live, Some(1));
        world.now += 5_000;
        world.publish();
        let work = &world.published[0];
        let investments: Vec<u64> = work.slots.iter().map(|slot| slot.investment_ms).collect();
        assert!(0 < investments[0] && investments[1] == 0, "a copy loses nothing: {work:?}");
        world.end(winner, 0, Reason::Done, Some(0));
        world.exchange(winner, false, false);
        world.exchange(1 - winner, false, false);
        world.exchange(1 - winner, false, false);
        (0..2).for_each(|node| world.exchange(node, false, false));
        (0..2).for_each(|node| world.exchange(node, false, false));
        let row = &world.rows.campaigns[&id];
        assert_eq!((row.state, row.done), (CampaignState::Done, 1));
        let ends: Vec<Reason> = world
            .rows
            .attempts
            .values()
            .filter_map(|row| row.result.as_ref())
            .map(|it| it.why)
            .collect();
        let mut expected = [Reason::Superseded; 2];
        expected[winner] = Reason::Done;
        assert_eq!(ends, expected);
        assert!(world.nodes.iter().all(|node| node.slots.is_empty()), "no process is left");
    }
}

#[test]
fn a_task_goes_on_with_the_attempt_that_is_left() {
    // The attempt that counts fails: the copy takes its place.
    let (mut world, id) = with_copy(1);
    world.end(0, 0, Reason::Exit, Some(1));
    world.exchange(0, false, false);
    let row = world.rows.tasks[&(id, 1)].clone();
    assert_eq!((row.state, row.live, row.tries), (TaskState::Running, None, 1));
    world.restart();
    world.exchange(1, false, false);
    world.end(1, 0, Reason::Done, Some(0));
    world.exchange(1, false, false);
    assert_eq!(states(&world, id), [(1, TaskState::Done, 2)]);
    // The copy fails: nothing changes, and there is no second copy.
    let (mut world, id) = with_copy(1);
    world.end(1, 0, Reason::Exit, Some(1));
    world.exchange(1, false, false);
    world.exchange(1, false, false);
    assert_eq!(states(&world, id), [(1, TaskState::Running, 2)]);
    world.restart();
    (0..2).for_each(|node| world.exchange(node, false, false));
    world.end(0, 0, Reason::Exit, Some(1));
    world.exchange(0, false, false);
    assert_eq!(states(&world, id), [(1, TaskState::Failed, 2)], "now it counts");
}

#[test]
fn a_cancelled_campaign_ends_copies_too() {
    let (mut world, id) = with_copy(1);
    world.record(Event::Cancelled(id));
    for node in [1, 0, 1, 0] {
        world.exchange(node, false, false);
        world.end(node, 0, Reason::Cancelled, None);
    }
    (0..2).for_each(|node| world.exchange(node, false, false));
    assert_eq!(world.rows.campaigns[&id].state, CampaignState::Cancelled);
}

#[test]
fn a_late_task_asks_for_a_slot_when_none_is_free() {
    let mut world = World::new();
    let id = world.submit(finalising(4));
    fill(&mut world, 1);
    for _ in 0..3 {
        world.begin(0, 0);
        world.exchange(0, false, false);
        world.end(0, 0, Reason::Done, Some(0));
        world.exchange(0, false, false);
    }
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.publish();
    assert_eq!(world.published[0].remaining, 1);
    // The median is 100 ms.
    world.record(Event::Elapsed);
    world.publish();
    assert_eq!(world.published[0].remaining, 1);
    world.now += 400;
    world.record(Event::Elapsed);
    world.publish();
    assert_eq!(world.published[0].remaining, 2, "task 4 of campaign {id} is late");
}
