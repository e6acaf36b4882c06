//! Nodes that swallow tasks or fail them, with told time.

use super::super::*;
use super::spec;
use super::world::{World, name};

/// A world with a campaign of `count` tasks and a slot on nodes 0 and 1.
fn on_two_nodes(count: u64) -> (World, u64) {
    let mut world = World::new();
    let id = world.submit(spec(count));
    give(&mut world, 0);
    give(&mut world, 1);
    (world, id)
}

fn give(world: &mut World, node: usize) {
    world.publish();
    world.give(0, node);
    world.schedule();
    (0..2).for_each(|_| world.exchange(node, false, false));
}

/// Runs a task on a node.
fn run(world: &mut World, node: usize, why: Reason, exit: u8) {
    world.exchange(node, false, false);
    world.begin(node, 0);
    world.exchange(node, false, false);
    world.end(node, 0, why, Some(exit));
    world.exchange(node, false, false);
}

/// Tasks that ever began on a node.
fn begun_on(world: &World, node: usize) -> usize {
    let began = |row: &&AttemptRow| row.node == name(node) && world.begun.contains(&row.id);
    world.rows.attempts.values().filter(began).count()
}

#[test]
fn a_node_that_returns_0_at_once_is_out_after_five_tasks() {
    let (mut world, id) = on_two_nodes(200);
    world.ms = BTreeMap::from([(0, 2_000), (1, 1)]);
    (0..20).for_each(|_| run(&mut world, 0, Reason::Done, 0));
    for _ in 0..9 {
        run(&mut world, 1, Reason::Done, 0);
    }
    assert_eq!(begun_on(&world, 1), 5, "no task begins there any more");
    let fault = world.faults[&(id, name(1))].clone();
    assert_eq!((fault.code.as_str(), fault.closed_ms), ("sink", None));
    assert_eq!(world.suspects.len(), 1);
    assert!((900..=1_000).contains(&world.suspects[0].2), "half of 2 s: {:?}", world.suspects);
    // The resource manager excepts the node, also after a restart. A share that comes there all the
    // same is given back.
    for _ in 0..2 {
        world.publish();
        assert_eq!(world.published[0].except_nodes, [name(1).to_string()]);
        (0..2).for_each(|node| world.exchange(node, false, false));
        give(&mut world, 1);
        let is_live = |slot: &&Slot| slot.row.node == name(1) && !slot.is_gone();
        assert_eq!(world.book.slots().values().filter(is_live).count(), 0);
        world.restart();
    }
}

#[test]
fn a_node_that_fails_at_once_is_out_after_three_tasks() {
    let mut lone = spec(200);
    lone.retries = 3;
    let mut world = World::new();
    let id = world.submit(lone);
    give(&mut world, 0);
    give(&mut world, 1);
    world.ms = BTreeMap::from([(0, 2_000), (1, 1)]);
    (0..3).for_each(|_| run(&mut world, 0, Reason::Done, 0));
    (0..9).for_each(|_| run(&mut world, 1, Reason::Exit, 1));
    assert_eq!(begun_on(&world, 1), 3);
    assert_eq!(world.faults[&(id, name(1))].code, "failing");
    assert!(world.suspects.is_empty(), "nothing of it was done");
    // Failures that take as long as other tasks are the program's.
    let (mut world, _) = on_two_nodes(200);
    world.ms = BTreeMap::from([(0, 2_000), (1, 1_500)]);
    (0..3).for_each(|_| run(&mut world, 0, Reason::Done, 0));
    (0..9).for_each(|_| run(&mut world, 1, Reason::Exit, 1));
    assert!(world.faults.is_empty());
}

#[test]
fn a_single_task_tries_the_node_again_and_waits_double() {
    let (mut world, id) = on_two_nodes(400);
    world.ms = BTreeMap::from([(0, 2_000), (1, 1)]);
    (0..20).for_each(|_| run(&mut world, 0, Reason::Done, 0));
    (0..6).for_each(|_| run(&mut world, 1, Reason::Done, 0));
    let share_and_try = |world: &mut World, ms: u64| {
        world.now += ms;
        world.record(Event::Elapsed);
        (0..2).for_each(|node| world.exchange(node, false, false));
        give(world, 1);
        let before = begun_on(world, 1);
        run(world, 1, Reason::Done, 0);
        begun_on(world, 1) - before
    };
    assert_eq!(share_and_try(&mut world, 299_000), 0, "five minutes are not over");
    assert_eq!(share_and_try(&mut world, 1_000), 1, "a retest");
    assert!(world.faults.contains_key(&(id, name(1))));
    assert_eq!(share_and_try(&mut world, 599_000), 0, "the wait has doubled");
    world.ms.insert(1, 1_900);
    assert_eq!(share_and_try(&mut world, 1_000), 1);
    assert!(world.faults.is_empty(), "it went well");
}
