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

/// The promise: however early a node begins to swallow tasks, and however long tasks take elsewhere, it has 20 of
/// them and the tasks on their way. Other nodes have 0 to 20 tasks done before.
#[test]
fn a_sink_has_a_bounded_number_of_tasks_however_early_it_begins() {
    for others in 0..=20 {
        let (mut world, id) = on_two_nodes(2_000);
        world.ms = BTreeMap::from([(0, 60_000), (1, 1)]);
        (0..others).for_each(|_| run(&mut world, 0, Reason::Done, 0));
        // A task runs on node 0 all the time.
        world.exchange(0, false, false);
        world.begin(0, 0);
        world.exchange(0, false, false);
        for _ in 0..200 {
            world.now += 20;
            world.nodes[0].slots.values_mut().for_each(|slot| slot.running_ms += 20);
            world.exchange(0, false, false);
            run(&mut world, 1, Reason::Done, 0);
            world.record(Event::Elapsed);
        }
        let swallowed = begun_on(&world, 1);
        assert!((5..=24).contains(&swallowed), "{swallowed} after {others} tasks elsewhere");
        assert_eq!(world.faults[&(id, name(1))].code, "sink", "{others}");
        assert_eq!(world.suspects.len(), 1, "{others}");
    }
}

/// Short tasks on all nodes, and a node alone, make no sink and hold nothing up.
#[test]
fn short_tasks_everywhere_are_no_fault_and_none_waits() {
    let (mut world, _) = on_two_nodes(300);
    world.ms = BTreeMap::from([(0, 1), (1, 1)]);
    for _ in 0..150 {
        (0..2).for_each(|node| run(&mut world, node, Reason::Done, 0));
    }
    assert!(world.faults.is_empty());
    assert_eq!(world.rows.campaigns[&1].done, 300);
    let mut world = World::new();
    world.submit(spec(100));
    give(&mut world, 1);
    world.ms.insert(1, 1);
    (0..100).for_each(|_| run(&mut world, 1, Reason::Done, 0));
    assert_eq!(world.rows.campaigns[&1].done, 100);
    // The first tasks are short and later tasks long, on both nodes.
    let (mut world, _) = on_two_nodes(300);
    world.ms = BTreeMap::from([(0, 1), (1, 1)]);
    (0..9).for_each(|_| (0..2).for_each(|node| run(&mut world, node, Reason::Done, 0)));
    world.ms.insert(0, 60_000);
    (0..8).for_each(|_| run(&mut world, 0, Reason::Done, 0));
    (0..30).for_each(|_| run(&mut world, 1, Reason::Done, 0));
    assert!(world.faults.is_empty(), "other nodes had short tasks too: {:?}", world.faults);
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
