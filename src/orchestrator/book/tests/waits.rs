//! Campaigns that wait, with told time.

use super::super::*;
use super::spec;
use super::world::World;
use crate::orchestrator::spec::CampaignSpec;

fn state(world: &World, id: u64) -> CampaignState {
    world.rows.campaigns[&id].state
}

/// Runs the tasks of the first work that takes a share, on node 0, until nothing is left to run.
fn run(world: &mut World) {
    world.publish();
    world.give(0, 0);
    world.schedule();
    for _ in 0..8 {
        world.exchange(0, false, false);
        world.begin(0, 0);
        world.exchange(0, false, false);
        world.end(0, 0, Reason::Done, Some(0));
    }
    (0..2).for_each(|_| world.exchange(0, false, false));
}

#[test]
fn a_campaign_begins_when_those_before_it_are_done() {
    let mut world = World::new();
    let first = world.submit(spec(2));
    let other = world.submit(spec(1));
    let later = world.submit(CampaignSpec { after: vec![first, other], ..spec(2) });
    world.record(Event::Met(later, BTreeSet::from([other])));
    assert_eq!(state(&world, later), CampaignState::Waiting);
    world.publish();
    assert!(world.published.iter().find(|work| work.work == later).unwrap().is_frozen);
    world.restart();
    assert_eq!(world.book.campaigns()[&later].facts.waits_for, BTreeSet::from([first]));
    run(&mut world);
    assert_eq!(
        (state(&world, first), state(&world, later)),
        (CampaignState::Done, CampaignState::Running)
    );
}

#[test]
fn a_campaign_after_one_that_failed_waits_until_its_owner_decides() {
    let mut world = World::new();
    let first = world.submit(spec(1));
    let later = world.submit(CampaignSpec { after: vec![first], ..spec(1) });
    let effects = world.record(Event::Cancelled(first));
    let note =
        |effect: &Effect| matches!(effect, Effect::Note(note) if note.code == "after-failed");
    assert!(effects.iter().any(note), "{effects:?}");
    assert_eq!(state(&world, later), CampaignState::Waiting);
    world.record(Event::Suspended { campaign: later, at_once: false });
    world.record(Event::Resumed(later));
    assert_eq!(
        state(&world, later),
        CampaignState::Waiting,
        "the first resume ends the suspension"
    );
    world.record(Event::Resumed(later));
    assert_eq!(state(&world, later), CampaignState::Running);
}

#[test]
fn outside_its_hours_a_campaign_waits_and_what_runs_stays() {
    let mut world = World::new();
    let id = world.submit(CampaignSpec { active: vec!["sat-sun".to_owned()], ..spec(9) });
    world.publish();
    world.give(0, 0);
    world.schedule();
    (0..2).for_each(|_| world.exchange(0, false, false));
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.record(Event::Hours(id, Some(7_000)));
    assert_eq!(state(&world, id), CampaignState::Waiting);
    world.exchange(0, false, false);
    world.begin(0, 0);
    assert_eq!(world.begun.len(), 1, "no further task begins");
    let running = |row: &&TaskRow| row.state == TaskState::Running;
    assert_eq!(world.rows.tasks.values().filter(running).count(), 1);
    world.end(0, 0, Reason::Done, Some(0));
    (0..2).for_each(|_| world.exchange(0, false, false));
    assert_eq!((state(&world, id), world.rows.campaigns[&id].done), (CampaignState::Waiting, 1));
    assert_eq!(world.rows.campaigns[&id].opens_ms, Some(7_000));
    world.record(Event::Hours(id, None));
    assert_eq!(state(&world, id), CampaignState::Running);
    for _ in 0..3 {
        run(&mut world);
    }
    assert_eq!(state(&world, id), CampaignState::Done);
}
