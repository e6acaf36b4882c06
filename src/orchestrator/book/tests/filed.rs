//! Events of nodes and clusters.

use super::super::*;
use super::spec;
use super::world::{World, name};
use crate::orchestrator::wire::EventClass;

fn file(world: &mut World, class: EventClass, name: &str, parent: Option<u64>) -> u64 {
    let id = world.book.next_filed();
    let event = GridEvent {
        id,
        class,
        name: name.to_owned(),
        code: "filed".to_owned(),
        who: "root".to_owned(),
        opened_ms: 1,
        closed_ms: None,
        parent,
        text: "broken".to_owned(),
    };
    world.record(Event::Filed(Box::new(event)));
    id
}

/// Gives a share on `node` to the first work that wants a share, and lets tasks begin there.
fn give(world: &mut World, node: usize) {
    world.publish();
    world.give(0, node);
    world.schedule();
    (0..3).for_each(|_| world.exchange(node, false, false));
    world.begin(node, 0);
    world.exchange(node, false, false);
}

fn begun_on(world: &World, node: usize) -> usize {
    let began = |row: &&AttemptRow| row.node == name(node) && world.begun.contains(&row.id);
    world.rows.attempts.values().filter(began).count()
}

#[test]
fn no_task_begins_on_a_node_with_an_open_event_over_restarts() {
    let mut world = World::new();
    world.submit(spec(50));
    give(&mut world, 1);
    assert_eq!(begun_on(&world, 1), 1);
    let id = file(&mut world, EventClass::Node, "n1", None);
    for _ in 0..3 {
        world.restart();
        give(&mut world, 1);
        world.publish();
        assert_eq!(world.published[0].except_nodes, ["n1"]);
        world.end(1, 0, Reason::Done, Some(0));
    }
    assert_eq!(begun_on(&world, 1), 1, "what ran ended by itself");
    give(&mut world, 0);
    assert_eq!(begun_on(&world, 0), 1, "other nodes go on");
    world.record(Event::Closed(id));
    world.restart();
    give(&mut world, 1);
    assert!(1 < begun_on(&world, 1), "it is used again");
}

#[test]
fn an_event_of_the_local_cluster_holds_all_campaigns() {
    let mut world = World::new();
    world.submit(spec(50));
    let id = file(&mut world, EventClass::Cluster, LOCAL, None);
    give(&mut world, 0);
    assert!(world.published[0].is_frozen && world.begun.is_empty());
    world.record(Event::Closed(id));
    give(&mut world, 0);
    assert_eq!(world.begun.len(), 1);
    file(&mut world, EventClass::Cluster, "lyon", None);
    give(&mut world, 1);
    assert_eq!(world.begun.len(), 2, "another cluster is not this one");
}

#[test]
fn an_event_closes_with_the_one_that_caused_it() {
    let mut world = World::new();
    let first = file(&mut world, EventClass::Cluster, "lyon", None);
    let second = file(&mut world, EventClass::Node, "n1", Some(first));
    let third = file(&mut world, EventClass::Node, "n2", Some(second));
    let other = file(&mut world, EventClass::Node, "n0", None);
    world.restart();
    let effects = world.record(Event::Closed(first));
    let closed: Vec<u64> = effects
        .iter()
        .filter_map(|effect| {
            let Effect::Filed(event) = effect else { return None };
            event.closed_ms.map(|_| event.id)
        })
        .collect();
    assert_eq!(closed, [first, second, third]);
    assert_eq!(world.filed.keys().copied().collect::<Vec<_>>(), [other]);
}
