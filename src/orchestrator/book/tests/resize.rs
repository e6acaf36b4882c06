//! Malleable gangs: the told ranks under random histories, and single stories.

use proptest::prelude::*;

use super::super::*;
use super::gangs::gang;
use super::world::{World, name};
use crate::model::count;
use crate::orchestrator::spec::GangSizes;
use crate::orchestrator::wire::SlotStage;

/// The specification of a malleable gang.
pub fn malleable(min_nodes: u64, nodes: u64) -> CampaignSpec {
    let mut spec = gang(nodes, false);
    let sizes = GangSizes { min_nodes, legal_sizes: "any".to_owned(), resize_signal: 10 };
    spec.gang.as_mut().unwrap().sizes = Some(sizes);
    spec
}

/// Lets all nodes report, and begins what they hold.
fn settle(world: &mut World) {
    for _ in 0..4 {
        world.publish();
        world.schedule();
        for node in 0..3 {
            world.exchange(node, false, false);
            for _ in 0..4 {
                world.begin(node, 0);
            }
            world.exchange(node, false, false);
        }
    }
}

/// Gives a share on each of the nodes.
fn give(world: &mut World, nodes: &[usize]) {
    world.publish();
    for node in nodes {
        world.give(0, *node);
    }
    settle(world);
}

/// Nodes that the running program of rank 0 was last told of. `None`: it does not run.
fn told(world: &World) -> Option<Vec<String>> {
    let slots = world.nodes.iter().flat_map(|node| node.slots.values());
    let leads = |id: &AttemptId| id.task == 1;
    let mut leaders = slots.filter(|slot| slot.running.iter().any(leads));
    let leader = leaders.next()?;
    let told = leader.told.as_ref().filter(|told| leader.running.contains(&told.task));
    Some(told.unwrap().ranks.iter().map(|rank| rank.node.clone()).collect())
}

/// Removes the share of a rank.
fn remove(world: &mut World, rank: u64) -> u64 {
    let slots = world.book.slots().values();
    let share = slots.filter(|slot| !slot.is_gone()).find(|slot| slot.row.rank == Some(rank));
    let share = share.unwrap().row.share;
    world.shares.get_mut(&share).unwrap().2 = true;
    share
}

#[test]
fn the_program_begins_at_the_minimum_and_is_told_of_later_nodes() {
    let mut world = World::new();
    let id = world.submit(malleable(2, 4));
    give(&mut world, &[1]);
    assert_eq!(told(&world), None);
    give(&mut world, &[0]);
    assert_eq!(told(&world).unwrap(), ["n1", "n0"], "the lowest share is rank 0");
    give(&mut world, &[2, 2]);
    assert_eq!(told(&world).unwrap(), ["n1", "n0", "n2", "n2"]);
    // A share beyond the maximum has no rank.
    give(&mut world, &[0]);
    assert_eq!(told(&world).unwrap().len(), 4);
    world.restart();
    settle(&mut world);
    assert_eq!(told(&world).unwrap(), ["n1", "n0", "n2", "n2"]);
    world.end(1, 0, Reason::Done, Some(0));
    settle(&mut world);
    let row = &world.rows.campaigns[&id];
    assert_eq!((row.state, row.done), (CampaignState::Done, 4));
}

#[test]
fn a_removed_rank_is_told_at_once_and_serves_until_its_grace_is_over() {
    let mut world = World::new();
    world.submit(malleable(2, 3));
    give(&mut world, &[0, 1, 2]);
    let share = remove(&mut world, 1);
    world.schedule();
    world.exchange(0, false, false);
    assert_eq!(told(&world).unwrap(), ["n0", "n2"]);
    world.exchange(1, false, false);
    let slot = &world.nodes[1].slots[&share];
    assert_eq!((slot.stop.unwrap().by_ms, slot.running.len()), (Some(30_000), 1));
    world.end(1, 0, Reason::Preempted, None);
    settle(&mut world);
    assert_eq!(told(&world).unwrap(), ["n0", "n2"]);
    // The free rank goes to the next slot.
    give(&mut world, &[1]);
    assert_eq!(told(&world).unwrap(), ["n0", "n1", "n2"]);
    assert_eq!(world.rows.tasks.values().map(|row| row.attempt).max(), Some(2));
}

#[test]
fn a_taken_share_below_the_minimum_ends_the_program_and_a_lost_slot_does_not() {
    let mut world = World::new();
    world.submit(malleable(2, 3));
    give(&mut world, &[0, 1]);
    world.kill(1, 0);
    settle(&mut world);
    assert_eq!(told(&world).unwrap(), ["n0"], "the program decides");
    give(&mut world, &[1]);
    assert_eq!(told(&world).unwrap(), ["n0", "n1"]);
    remove(&mut world, 1);
    world.schedule();
    let stops = |world: &World| {
        let slots = world.book.slots().values();
        slots.filter(|slot| slot.row.node == name(0)).filter(|slot| slot.row.stop.is_some()).count()
    };
    assert_eq!(stops(&world), 1, "the slot of rank 0 stops");
}

#[test]
fn the_end_of_the_leaders_share_begins_the_gang_again_in_the_slots_that_are_left() {
    let mut world = World::new();
    let id = world.submit(malleable(2, 3));
    give(&mut world, &[0, 1, 2]);
    let work = world.published[0].work;
    remove(&mut world, 0);
    world.schedule();
    world.exchange(0, false, false);
    world.end(0, 0, Reason::Preempted, None);
    assert_eq!(told(&world), None);
    settle(&mut world);
    assert_eq!(told(&world).unwrap(), ["n1", "n2"]);
    assert_eq!(world.published[0].work, work);
    let leader = &world.rows.tasks[&(id, 1)];
    assert_eq!((leader.attempt, leader.tries, leader.losses), (2, 0, 0));
}

#[test]
fn a_number_that_is_not_legal_is_told_only_when_it_is_smaller() {
    let mut world = World::new();
    let mut spec = malleable(2, 6);
    spec.gang.as_mut().unwrap().sizes.as_mut().unwrap().legal_sizes = "even".to_owned();
    world.submit(spec);
    give(&mut world, &[0, 1]);
    give(&mut world, &[2]);
    assert_eq!(told(&world).unwrap(), ["n0", "n1"]);
    give(&mut world, &[0]);
    assert_eq!(told(&world).unwrap(), ["n0", "n1", "n2", "n0"]);
    world.kill(2, 0);
    settle(&mut world);
    assert_eq!(told(&world).unwrap(), ["n0", "n1", "n0"]);
}

/// A step of a random history.
#[derive(Clone, Copy, Debug)]
enum Step {
    Give(usize),
    Remove(usize),
    Schedule,
    Exchange(usize, bool),
    Begin(usize),
    EndStopped(usize),
    Kill(usize, usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_usize).prop_map(Step::Give),
        1 => (0..9_usize).prop_map(Step::Remove),
        4 => Just(Step::Schedule),
        8 => (0..3_usize, proptest::bool::weighted(0.2)).prop_map(|(at, lost)| Step::Exchange(at, lost)),
        6 => (0..3_usize).prop_map(Step::Begin),
        2 => (0..3_usize).prop_map(Step::EndStopped),
        1 => (0..3_usize, 0..4_usize).prop_map(|(at, pick)| Step::Kill(at, pick)),
        1 => Just(Step::Restart),
    ]
}

fn play(world: &mut World, step: Step) {
    match step {
        Step::Give(node) => {
            world.publish();
            world.give(0, node);
        }
        Step::Remove(pick) => {
            if let Some(share) = world.shares.values_mut().nth(pick) {
                share.2 = true;
            }
        }
        Step::Schedule => {
            world.publish();
            world.schedule();
        }
        Step::Exchange(node, is_lost) => world.exchange(node, is_lost, false),
        Step::Begin(node) => world.begin(node, 0),
        Step::EndStopped(node) => {
            let slots = world.nodes[node].slots.values();
            if slots.clone().count() == 1 && slots.into_iter().all(|slot| slot.stop.is_some()) {
                world.end(node, 0, Reason::Preempted, None);
            }
        }
        Step::Kill(node, pick) => world.kill(node, pick),
        Step::Restart => world.restart(),
    }
}

/// The told ranks go on and serve, and are enough unless slots were lost.
fn is_told_well(world: &World, id: u64, min: u64, has_lost: bool) {
    let Some(campaign) = world.book.campaigns().get(&id) else { return };
    let Some(told) = &campaign.told else { return };
    for share in told {
        let slot = &world.book.slots()[share];
        assert!(slot.is_open() && slot.attempts.len() == 1, "{share} is told: {slot:?}");
    }
    assert!(has_lost || min <= count(told), "{told:?} are too few");
    let mut serving = world.book.slots().values().filter(|slot| {
        let has_begun = slot.attempts.values().any(|held| held.begun.is_some());
        slot.row.campaign == id && slot.is_open() && has_begun
    });
    assert!(serving.all(|slot| told.contains(&slot.row.share)), "a ready slot is not told");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rank_0_is_told_of_exactly_the_ready_slots(
        min in 1..4_u64,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut world = World::new();
        let id = world.submit(malleable(min, 5));
        let mut has_lost = false;
        for step in steps {
            has_lost |= matches!(step, Step::Kill(..));
            play(&mut world, step);
            // The nodes of removed shares with even numbers have died: see `World::schedule`.
            has_lost |= world.shares.iter().any(|(share, it)| it.2 && share.is_multiple_of(2));
            is_told_well(&world, id, min, has_lost);
        }
        settle(&mut world);
        is_told_well(&world, id, min, has_lost);
        let slots = world.book.slots().values();
        let ready = slots.filter(|slot| slot.is_open() && !slot.attempts.is_empty());
        let mut ready: Vec<(Option<u64>, String)> =
            ready.map(|slot| (slot.row.rank, slot.row.node.to_string())).collect();
        ready.sort();
        let ready: Vec<String> = ready.into_iter().map(|(_, node)| node).collect();
        if world.book.campaigns()[&id].told.is_some() {
            prop_assert_eq!(told(&world).unwrap(), ready);
        }
        // The gang ends in every history.
        for round in 0..200 {
            if world.book.campaigns().is_empty() {
                break;
            }
            prop_assert!(round < 199, "the gang does not end: {:#?}", world.book.campaigns());
            world.record(Event::Resumed(id));
            world.publish();
            if world.shares.len() < 5 {
                world.give(0, round % 3);
            }
            settle(&mut world);
            for node in 0..3 {
                for pick in 0..4 {
                    world.end(node, pick, Reason::Done, Some(0));
                }
            }
        }
        let is_alive = |slot: &&super::world::SimSlot| slot.stage != SlotStage::Gone;
        settle(&mut world);
        let alive = world.nodes.iter().flat_map(|node| node.slots.values()).filter(is_alive);
        prop_assert_eq!(alive.count(), 0);
    }
}
