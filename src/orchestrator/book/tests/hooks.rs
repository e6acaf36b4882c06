//! Prologues and epilogues of the cluster.

use super::super::*;
use super::spec;
use super::world::World;
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::wire::Command;

fn with_hooks(tasks: u64) -> CampaignSpec {
    let program = |name: &str| Some(Command::Argv(vec![name.to_owned()]));
    CampaignSpec {
        cluster_prologue: program("fetch"),
        cluster_epilogue: program("collect"),
        ..spec(tasks)
    }
}

fn state(world: &World, id: u64) -> CampaignState {
    world.rows.campaigns[&id].state
}

/// Gives shares of node 0 to campaigns that want some, and lets each task that begins end with `why`. Restarts after each step
/// if `restarts`.
fn go_on(world: &mut World, restarts: bool, why: Reason) {
    for _ in 0..4 {
        world.publish();
        world.give(0, 0);
        world.schedule();
        for _ in 0..6 {
            world.exchange(0, false, false);
            world.begin(0, 0);
            if restarts {
                world.restart();
            }
            world.exchange(0, false, false);
            world.end(0, 0, why, Some(u8::from(why != Reason::Done)));
            if restarts {
                world.restart();
            }
        }
        (0..2).for_each(|_| world.exchange(0, false, false));
        world.now += 100;
    }
}

/// Campaigns of the attempts that began, by their numbers.
fn attempts(world: &World, campaign: u64) -> usize {
    world.begun.iter().filter(|attempt| attempt.campaign == campaign).count()
}

#[test]
fn the_prologue_comes_first_and_the_epilogue_last_and_each_once_over_restarts() {
    for restarts in [false, true] {
        let mut world = World::new();
        let id = world.submit(with_hooks(5));
        let (prologue, epilogue) = (id + 1, id + 2);
        assert_eq!([id, epilogue].map(|id| state(&world, id)), [CampaignState::Waiting; 2]);
        let mut seen = Vec::new();
        for _ in 0..20 {
            go_on(&mut world, restarts, Reason::Done);
            let counts = [prologue, id, epilogue].map(|id| attempts(&world, id));
            let [first, tasks, last] = counts;
            assert!(tasks == 0 || state(&world, prologue) == CampaignState::Done, "{counts:?}");
            assert!(last == 0 || world.rows.campaigns[&id].done == 5, "{counts:?}");
            assert!(first <= 1 && last <= 1, "{counts:?}");
            seen.push(counts);
            world.restart();
        }
        assert_eq!(seen.last(), Some(&[1, 5, 1]), "{seen:?}");
        let ends = [prologue, id, epilogue].map(|id| state(&world, id));
        assert_eq!(ends, [CampaignState::Done; 3]);
    }
}

#[test]
fn a_prologue_that_fails_blocks_the_campaign_until_its_owner_decides() {
    let mut world = World::new();
    let id = world.submit(with_hooks(2));
    (0..3).for_each(|_| go_on(&mut world, true, Reason::Exit));
    assert_eq!((state(&world, id + 1), attempts(&world, id + 1)), (CampaignState::Failed, 1));
    assert_eq!((state(&world, id), attempts(&world, id)), (CampaignState::Waiting, 0));
    world.record(Event::Resumed(id));
    (0..6).for_each(|_| go_on(&mut world, true, Reason::Done));
    assert_eq!([id, id + 2].map(|id| state(&world, id)), [CampaignState::Done; 2]);
    assert_eq!(attempts(&world, id + 1), 1, "it is not tried again by itself");
}

#[test]
fn an_epilogue_that_fails_keeps_the_campaign_from_its_end() {
    let mut world = World::new();
    let id = world.submit(CampaignSpec { cluster_prologue: None, ..with_hooks(1) });
    let epilogue = id + 1;
    while world.rows.campaigns[&id].done == 0 {
        world.publish();
        world.give(0, 0);
        world.schedule();
        (0..2).for_each(|_| world.exchange(0, false, false));
        world.begin(0, 0);
        world.end(0, 0, Reason::Done, Some(0));
        (0..2).for_each(|_| world.exchange(0, false, false));
    }
    (0..3).for_each(|_| go_on(&mut world, false, Reason::Exit));
    assert_eq!(state(&world, epilogue), CampaignState::Failed);
    assert_eq!(state(&world, id), CampaignState::Finishing);
    world.restart();
    assert!(world.book.check_extension(id, 1).is_ok(), "its epilogue has not run well");
    world.record(Event::Resumed(id));
    assert_eq!(state(&world, id), CampaignState::Done);
}

#[test]
fn the_hooks_of_a_cancelled_campaign_are_cancelled() {
    let mut world = World::new();
    let id = world.submit(with_hooks(3));
    world.record(Event::Cancelled(id));
    assert_eq!([id, id + 1, id + 2].map(|id| state(&world, id)), [CampaignState::Cancelled; 3]);
}
