//! Gangs under random histories: whole or absent, and of one generation at a time. And single stories.

use std::collections::BTreeSet;

use super::super::*;
use super::spec;
use super::world::{World, name};
use crate::orchestrator::spec::{GangSpec, TaskRange};
use crate::orchestrator::wire::{SlotEnd, SlotStage};

/// The specification of a gang.
pub fn gang(nodes: u64, every_node: bool) -> CampaignSpec {
    let mut spec = spec(1);
    let (exclusive, tags, group_by) = (false, BTreeMap::new(), None);
    let sizes = None;
    spec.gang = Some(GangSpec { nodes, sizes, exclusive, every_node, tags, group_by });
    spec.tasks = TaskRange::up_to(nodes);
    spec
}

/// Sometimes a gang, in a random history.
pub fn of_lot(lot: u8) -> Option<CampaignSpec> {
    if lot % 9 == 4 {
        return Some(super::resize::malleable(1 + u64::from(lot % 2), 3));
    }
    (lot % 3 == 1).then(|| gang(1 + u64::from(lot % 4) % 3, lot.is_multiple_of(2)))
}

/// The gang of a campaign, if its size is fixed.
fn gang_of(world: &World, campaign: u64) -> Option<&GangSpec> {
    world.specs.get(&campaign)?.gang.as_ref().filter(|gang| gang.sizes.is_none())
}

/// The number of ranks of the gang that `work` is for.
fn ranks_of(world: &World, work: u64) -> Option<u64> {
    let published = world.published.iter().find(|it| it.work == work)?;
    published.gang.as_ref().filter(|gang| gang.sizes.is_none()).map(|gang| gang.nodes)
}

/// Gives a gang all its shares, or none if it has some. Returns false if the work is no gang.
pub fn give_whole(world: &mut World, work: u64, node: usize) -> bool {
    let Some(nodes) = ranks_of(world, work) else { return false };
    if world.shares.values().all(|(_, holder, _)| *holder != work) {
        for rank in 0..nodes {
            let at = (node + usize::try_from(rank).unwrap()) % 3;
            world.shares.insert(world.next_share, (at, work, false));
            world.ranks.insert(world.next_share, rank);
            world.next_share += 1;
        }
    }
    true
}

/// Removes all shares of a gang that lost some, as the resource manager does.
pub fn break_gangs(world: &mut World) {
    let works: BTreeSet<u64> = world.shares.values().map(|(_, work, _)| *work).collect();
    for work in works {
        let Some(nodes) = ranks_of(world, work) else { continue };
        let is_held = |(_, holder, removed): &&(usize, u64, bool)| *holder == work && !removed;
        let held = crate::model::count(world.shares.values().filter(is_held));
        if held < nodes {
            let of_work = world.shares.values_mut().filter(|(_, holder, _)| *holder == work);
            of_work.for_each(|share| share.2 = true);
        }
    }
}

/// All ranks of a gang get attempts of one generation in one event, with slots that their nodes have.
pub fn begins_whole(world: &World, effects: &[Effect]) {
    let mut begun: BTreeMap<u64, Vec<&AttemptRow>> = BTreeMap::new();
    for effect in effects {
        if let Effect::Attempt(row) = effect
            && !world.rows.attempts.contains_key(&row.id)
            && gang_of(world, row.id.campaign).is_some()
        {
            begun.entry(row.id.campaign).or_default().push(row);
        }
    }
    for (campaign, rows) in begun {
        let nodes = gang_of(world, campaign).unwrap().nodes;
        let distinct = |of: fn(&AttemptRow) -> u64| {
            crate::model::count(rows.iter().map(|row| of(row)).collect::<BTreeSet<u64>>())
        };
        let counts = (distinct(|row| row.id.task), distinct(|row| row.share));
        assert_eq!(counts, (nodes, nodes), "a part of a gang begins: {rows:?}");
        assert_eq!(distinct(|row| row.id.attempt), 1, "two generations: {rows:?}");
        for row in rows {
            let slot = &world.book.slots()[&row.share];
            assert!(slot.is_open() && slot.is_reported, "a slot is not ready: {slot:?}");
            assert_eq!(slot.row.rank, Some(GangSpec::rank_of(row.id.task)));
        }
        let open = world.rows.attempts.values().filter(|row| row.id.campaign == campaign);
        let left: Vec<&AttemptRow> = open.filter(|row| row.result.is_none()).collect();
        let ended = |row: &&&AttemptRow| {
            let closes = |effect: &Effect| matches!(effect, Effect::Attempt(it) if it.id == row.id);
            !effects.iter().any(closes)
        };
        assert_eq!(left.iter().filter(ended).count(), 0, "an old generation is left: {left:?}");
    }
}

/// No attempt of another generation runs while `id` begins.
pub fn is_of_one_generation(world: &World, id: AttemptId) {
    if gang_of(world, id.campaign).is_none() {
        return;
    }
    for slot in world.nodes.iter().flat_map(|node| node.slots.values()) {
        let mut others = slot.running.iter().filter(|other| other.campaign == id.campaign);
        let other = others.find(|other| other.attempt != id.attempt);
        assert_eq!(other, None, "{id} begins while an older generation runs");
    }
}

/// All ranks of a gang wait, or all have begun, or all have the same end.
pub fn is_whole(world: &World, row: &CampaignRow) {
    let of = |task: &&TaskRow| task.campaign == row.id;
    let tasks: Vec<&TaskRow> = world.rows.tasks.values().filter(of).collect();
    let state = |task: &&TaskRow| {
        let has_begun = task.state == TaskState::Assigned;
        if has_begun { TaskState::Running } else { task.state }
    };
    let mut states: BTreeSet<TaskState> = tasks.iter().map(state).collect();
    if gang_of(world, row.id).is_none() && states.contains(&TaskState::Running) {
        // Ranks that a malleable gang does not have now wait.
        states.remove(&TaskState::Queued);
    }
    assert!(states.len() < 2, "{states:?}: {tasks:#?}");
    let is_touched = tasks.is_empty() || crate::model::count(&tasks) == row.total;
    assert!(is_touched, "a part of the gang was touched: {tasks:#?}");
}

/// Runs a world with one gang until its attempts run everywhere.
fn begun(world: &mut World, nodes: u64) {
    for _ in 0..6 {
        world.publish();
        world.give(0, 0);
        world.schedule();
        for node in 0..3 {
            world.exchange(node, false, false);
        }
    }
    for node in 0..3 {
        world.begin(node, 0);
        world.exchange(node, false, false);
    }
    let running = world.nodes.iter().flat_map(|node| node.slots.values());
    assert_eq!(
        running.map(|slot| slot.running.len()).sum::<usize>(),
        usize::try_from(nodes).unwrap()
    );
}

fn state(world: &World, id: u64) -> (CampaignState, u64, u64) {
    let row = &world.rows.campaigns[&id];
    (row.state, row.done, row.failed)
}

fn settle(world: &mut World) {
    for _ in 0..6 {
        for node in 0..3 {
            world.exchange(node, false, false);
        }
        world.publish();
        world.schedule();
    }
}

#[test]
fn a_gang_waits_for_its_last_slot() {
    let mut world = World::new();
    let id = world.submit(gang(3, false));
    world.publish();
    world.give(0, 0);
    world.publish();
    world.schedule();
    for _ in 0..4 {
        world.exchange(0, false, false);
        world.exchange(1, false, false);
    }
    let held = |world: &World| {
        let slots = world.nodes.iter().flat_map(|node| node.slots.values());
        slots.map(|slot| slot.held.len()).sum::<usize>()
    };
    let ready = |world: &World| {
        let gang = world.book.gang(id).unwrap();
        gang.ranks.iter().filter(|rank| rank.is_ready).count()
    };
    assert_eq!((held(&world), ready(&world)), (0, 2));
    for node in [2, 2, 0, 1] {
        world.exchange(node, false, false);
    }
    assert_eq!((held(&world), ready(&world)), (3, 3));
    let places = &world.book.gang(id).unwrap().ranks;
    let nodes: Vec<_> = places.iter().map(|rank| rank.node.clone().unwrap()).collect();
    assert_eq!(nodes, ["n0", "n1", "n2"]);
}

#[test]
fn the_end_of_rank_0_is_the_end_of_all() {
    for (exit, expected) in [(0, (CampaignState::Done, 3, 0)), (7, (CampaignState::Failed, 0, 3))] {
        let mut world = World::new();
        let id = world.submit(gang(3, false));
        begun(&mut world, 3);
        let why = if exit == 0 { Reason::Done } else { Reason::Exit };
        world.end(0, 0, why, Some(exit));
        settle(&mut world);
        assert_eq!(state(&world, id), expected);
        assert!(world.book.gone().is_empty() && world.shares.is_empty(), "{:?}", world.shares);
    }
}

#[test]
fn every_rank_counts_if_the_program_runs_everywhere() {
    let mut world = World::new();
    let id = world.submit(gang(3, true));
    begun(&mut world, 3);
    world.end(1, 0, Reason::Done, Some(0));
    settle(&mut world);
    assert_eq!(state(&world, id).1, 0);
    world.restart();
    world.end(0, 0, Reason::Done, Some(0));
    world.end(2, 0, Reason::Done, Some(0));
    settle(&mut world);
    assert_eq!(state(&world, id), (CampaignState::Done, 3, 0));
}

#[test]
fn a_lost_rank_begins_the_gang_again_under_another_number() {
    let mut world = World::new();
    let id = world.submit(gang(3, false));
    begun(&mut world, 3);
    let work = world.published[0].work;
    world.kill(2, 0);
    settle(&mut world);
    let tasks: Vec<&TaskRow> = world.rows.tasks.values().collect();
    assert!(tasks.iter().all(|row| row.state == TaskState::Queued && row.losses == 1), "{tasks:?}");
    let alive = world.nodes.iter().flat_map(|node| node.slots.values());
    assert_eq!(alive.filter(|slot| slot.stage != SlotStage::Gone).count(), 0);
    begun(&mut world, 3);
    assert_ne!(world.published[0].work, work);
    assert!(world.rows.tasks.values().all(|row| row.attempt == 2));
    world.end(0, 0, Reason::Done, Some(0));
    settle(&mut world);
    assert_eq!(state(&world, id), (CampaignState::Done, 3, 0));
}

#[test]
fn another_try_uses_the_same_slots() {
    let mut world = World::new();
    let mut twice = gang(2, true);
    twice.retries = 1;
    let id = world.submit(twice);
    begun(&mut world, 2);
    let work = world.published[0].work;
    world.end(1, 0, Reason::Signal, None);
    settle(&mut world);
    begun(&mut world, 2);
    assert_eq!(world.published[0].work, work);
    assert!(world.rows.tasks.values().all(|row| (row.attempt, row.tries) == (2, 1)));
    world.end(0, 0, Reason::Exit, Some(3));
    settle(&mut world);
    assert_eq!(state(&world, id), (CampaignState::Failed, 0, 2));
}

#[test]
fn a_stopped_rank_serves_rank_0_to_its_end() {
    let mut world = World::new();
    world.submit(gang(2, false));
    begun(&mut world, 2);
    for share in world.shares.values_mut() {
        share.2 = true;
    }
    world.schedule();
    for node in 0..2 {
        world.exchange(node, false, false);
    }
    let stop = |world: &World, node: usize| {
        world.nodes[node].slots.values().next().unwrap().stop.unwrap().by_ms
    };
    assert_eq!((stop(&world, 0), stop(&world, 1)), (Some(30_000), None));
    world.end(0, 0, Reason::Preempted, None);
    settle(&mut world);
    let tasks: Vec<&TaskRow> = world.rows.tasks.values().collect();
    let is_again = |row: &&TaskRow| row.state == TaskState::Queued && row.tries + row.losses == 0;
    assert!(tasks.iter().all(is_again), "{tasks:?}");
}

#[test]
fn a_node_whose_agent_tells_no_address_is_reached_by_its_name() {
    let mut world = World::new();
    world.address = None;
    let id = world.submit(gang(2, false));
    begun(&mut world, 2);
    let task = AttemptId { campaign: id, task: 1, attempt: 1 };
    let share = world.rows.attempts[&task].share;
    let start = world.book.rank_start(&world.book.campaigns[&id], 1).unwrap();
    let places: Vec<(&str, &str)> =
        start.ranks.iter().map(|place| (place.node.as_str(), place.address.as_str())).collect();
    assert_eq!(places, [("n0", "n0"), ("n1", "n1")], "share {share}");
}

#[test]
fn a_slot_that_does_not_listen_tells_that_its_agent_is_old() {
    let mut world = World::new();
    let id = world.submit(gang(2, false));
    world.publish();
    world.give(0, 0);
    world.schedule();
    for _ in 0..3 {
        for node in 0..3 {
            world.nodes[node].slots.values_mut().for_each(|slot| slot.listens = false);
            world.exchange(node, false, false);
        }
    }
    assert!(world.rows.campaigns[&id].init_fails > 0);
    let stops = world.book.slots().values().filter_map(|slot| slot.row.stop);
    assert!(stops.count() > 0, "a slot that no rank reaches keeps the gang waiting");
    assert!(world.rows.attempts.is_empty());
}

#[test]
fn a_node_without_agent_is_named() {
    let mut world = World::new();
    let id = world.submit(gang(2, false));
    world.publish();
    world.give(0, 0);
    world.schedule();
    world.exchange(0, false, false);
    world.pass(70_000);
    let row = &world.rows.campaigns[&id];
    assert_eq!(row.init_fails, 1);
    let slot = world.book.slots().values().find(|slot| slot.row.node == name(0)).unwrap();
    assert_eq!(slot.row.stop, Some(crate::orchestrator::wire::StopReason::VariedOff));
    let end = SlotEnd::Idle;
    assert!(world.nodes[0].slots.values().all(|slot| slot.end != Some(end)));
}
