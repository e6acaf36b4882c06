//! Campaigns on other clusters: prologues and epilogues there, events of clusters, leases after a reboot.

use super::super::*;
use super::spec;
use super::world::{World, name};
use crate::orchestrator::spec::{CampaignSpec, HookKind};
use crate::orchestrator::wire::{Command, EventClass};

fn with_hooks(tasks: u64) -> CampaignSpec {
    let program = |name: &str| Some(Command::Argv(vec![name.to_owned()]));
    CampaignSpec {
        cluster_prologue: program("fetch"),
        cluster_epilogue: program("collect"),
        ..spec(tasks)
    }
}

fn leave(world: &mut World, campaign: u64, cluster: &str, count: u64) {
    let departure = Departure {
        campaign,
        cluster: cluster.into(),
        most: count,
        affinities: BTreeMap::new(),
        lease_ms: Some(5000),
    };
    let leave = Forwarding::Leave(departure);
    world.record(Event::Forwarded(leave));
}

/// Tasks on a cluster, with the number of their campaign.
fn there(world: &World, cluster: &str) -> Vec<AttemptId> {
    let batches = world.book.forwarding().batches.into_iter();
    let there = batches.filter(|batch| batch.cluster.as_str() == cluster);
    there.flat_map(|batch| batch.tasks).map(|task| task.id).collect()
}

/// Ends all tasks of a campaign on a cluster, each after `ms` milliseconds.
fn end_all(world: &mut World, campaign: u64, cluster: &str, why: Reason, ms: u64) {
    let ids = there(world, cluster).into_iter().filter(|id| id.campaign == campaign);
    let exit = Some(u64::from(why != Reason::Done));
    let exit = exit.and_then(|exit| u8::try_from(exit).ok());
    let results = ids.map(|task| TaskResult { task, exit, ms, ..super::result(why) }).collect();
    world.record(Event::Forwarded(Forwarding::Ended(results)));
}

fn state(world: &World, id: u64) -> CampaignState {
    world.rows.campaigns[&id].state
}

fn away(world: &World, campaign: u64) -> AwayState {
    let view = world.book.forwarding();
    view.campaigns.into_iter().find(|it| it.id == campaign).unwrap().away
}

#[test]
fn each_cluster_has_its_prologue_first_and_its_epilogue_last_and_each_once() {
    for restarts in [false, true] {
        let again = |world: &mut World| {
            if restarts {
                world.restart();
            }
        };
        let mut world = World::routing();
        let id = world.submit(with_hooks(4));
        assert_eq!(state(&world, id), CampaignState::Running, "other clusters need not wait");
        for cluster in ["lyon", "nancy"] {
            leave(&mut world, id, cluster, 2);
            assert!(there(&world, cluster).is_empty(), "its prologue is not done");
            let hook = world.hook(id, cluster, HookKind::Prologue).unwrap();
            again(&mut world);
            assert_eq!(world.hook(id, cluster, HookKind::Prologue), None, "it is on its way");
            assert!(away(&world, id).preparing.contains(&Name::from(cluster)));
            // It leaves for its cluster alone.
            leave(&mut world, hook, "grenoble", 1);
            assert!(there(&world, "grenoble").is_empty());
            leave(&mut world, hook, cluster, 1);
            again(&mut world);
            end_all(&mut world, hook, cluster, Reason::Done, 10);
            again(&mut world);
            assert_eq!(world.hook(id, cluster, HookKind::Prologue), None, "it is done");
            leave(&mut world, id, cluster, 2);
            assert_eq!(there(&world, cluster).len(), 2);
        }
        end_all(&mut world, id, "lyon", Reason::Done, 10);
        again(&mut world);
        assert_eq!(world.hook(id, "lyon", HookKind::Epilogue), None, "tasks are left on nancy");
        end_all(&mut world, id, "nancy", Reason::Done, 10);
        again(&mut world);
        let due: Vec<Name> = away(&world, id).to_finish;
        assert_eq!(due, [Name::from("lyon"), Name::from("nancy")]);
        for cluster in due {
            assert_eq!(state(&world, id), CampaignState::Finishing);
            let cluster = cluster.as_str();
            let hook = world.hook(id, cluster, HookKind::Epilogue).unwrap();
            assert_eq!(world.hook(id, cluster, HookKind::Epilogue), None);
            again(&mut world);
            leave(&mut world, hook, cluster, 1);
            end_all(&mut world, hook, cluster, Reason::Done, 10);
        }
        assert_eq!((state(&world, id), world.rows.campaigns[&id].done), (CampaignState::Done, 4));
        // No task ran here, so neither did the programs of this cluster.
        assert_eq!([id + 1, id + 2].map(|id| state(&world, id)), [CampaignState::Cancelled; 2]);
    }
}

#[test]
fn tasks_here_wait_for_the_prologue_here_while_others_leave() {
    let mut world = World::routing();
    let id = world.submit(with_hooks(3));
    world.publish();
    let told = |world: &World, id| {
        let mut works = world.published.iter();
        works.find(|work| work.work == id).map(|work| work.is_frozen)
    };
    assert_eq!((told(&world, id), told(&world, id + 1)), (Some(true), Some(false)));
    let hook = world.hook(id, "lyon", HookKind::Prologue).unwrap();
    world.publish();
    assert_eq!(told(&world, hook), None, "the resource manager here has no part in it");
    for _ in 0..3 {
        world.give(0, 0);
        world.schedule();
        (0..3).for_each(|_| world.exchange(0, false, false));
        world.begin(0, 0);
        world.end(0, 0, Reason::Done, Some(0));
        (0..2).for_each(|_| world.exchange(0, false, false));
        world.publish();
    }
    assert_eq!(state(&world, id + 1), CampaignState::Done);
    assert_eq!(told(&world, id), Some(false));
    // The owner may begin without it.
    let mut world = World::routing();
    let id = world.submit(with_hooks(3));
    world.record(Event::Resumed(id));
    world.publish();
    assert!(!world.published[0].is_frozen, "{:?}", world.published[0]);
}

#[test]
fn a_prologue_that_fails_blacklists_its_cluster_until_a_retest_goes_well() {
    let mut world = World::routing();
    let id = world.submit(CampaignSpec { cluster_epilogue: None, ..with_hooks(2) });
    let fail = |world: &mut World| {
        let hook = world.hook(id, "lyon", HookKind::Prologue).unwrap();
        for attempt in 1..=3 {
            leave(world, hook, "lyon", 1);
            assert_eq!(there(world, "lyon").len(), 1, "attempt {attempt}");
            end_all(world, hook, "lyon", Reason::Exit, 10);
        }
        assert_eq!(state(world, hook), CampaignState::Failed);
    };
    let lyon = Name::from("lyon");
    fail(&mut world);
    world.restart();
    assert!(!away(&world, id).avoided[&lyon]);
    assert_eq!(state(&world, id), CampaignState::Running, "it goes on elsewhere");
    let (place, row) = world.faults.first_key_value().unwrap();
    assert_eq!((place.1.as_str(), row.code.as_str()), ("cluster lyon", "prologue"));
    assert!(row.text.contains("avoids cluster lyon, as its prologue there"), "{}", row.text);
    world.publish();
    assert_eq!(world.published[0].except_nodes, [""; 0], "it is no node");
    world.now += 300_000;
    world.record(Event::Elapsed);
    assert!(away(&world, id).avoided[&lyon], "it is tried again");
    fail(&mut world);
    world.now += 300_000;
    world.record(Event::Elapsed);
    assert!(!away(&world, id).avoided[&lyon], "the wait is twice as long");
    world.now += 300_000;
    world.record(Event::Elapsed);
    let hook = world.hook(id, "lyon", HookKind::Prologue).unwrap();
    leave(&mut world, hook, "lyon", 1);
    end_all(&mut world, hook, "lyon", Reason::Done, 10);
    assert!(away(&world, id).avoided.is_empty() && world.faults.is_empty());
    leave(&mut world, id, "lyon", 2);
    assert_eq!(there(&world, "lyon").len(), 2);
}

#[test]
fn an_epilogue_that_fails_elsewhere_keeps_the_campaign_from_its_end() {
    let mut world = World::routing();
    let id = world.submit(CampaignSpec { cluster_prologue: None, ..with_hooks(1) });
    leave(&mut world, id, "lyon", 1);
    end_all(&mut world, id, "lyon", Reason::Done, 10);
    let hook = world.hook(id, "lyon", HookKind::Epilogue).unwrap();
    for _ in 0..3 {
        leave(&mut world, hook, "lyon", 1);
        end_all(&mut world, hook, "lyon", Reason::Exit, 10);
    }
    world.restart();
    assert_eq!(
        (state(&world, hook), state(&world, id)),
        (CampaignState::Failed, CampaignState::Finishing)
    );
    world.record(Event::Resumed(id));
    assert_eq!(state(&world, id), CampaignState::Done);
}

#[test]
fn a_cancelled_campaign_cancels_its_programs_elsewhere() {
    let mut world = World::routing();
    let id = world.submit(with_hooks(2));
    let hook = world.hook(id, "lyon", HookKind::Prologue).unwrap();
    world.record(Event::Cancelled(id));
    let all = [id, id + 1, id + 2, hook].map(|id| state(&world, id));
    assert_eq!(all, [CampaignState::Cancelled; 4]);
}

#[test]
fn a_cluster_that_fails_tasks_at_once_is_avoided_by_the_campaign() {
    let mut world = World::routing();
    let id = world.submit(CampaignSpec { retries: 9, ..spec(40) });
    leave(&mut world, id, "nancy", 5);
    end_all(&mut world, id, "nancy", Reason::Done, 60_000);
    leave(&mut world, id, "lyon", 3);
    end_all(&mut world, id, "lyon", Reason::Exit, 10);
    let avoided = away(&world, id).avoided;
    assert_eq!(avoided.into_iter().collect::<Vec<_>>(), [(Name::from("lyon"), false)]);
    world.now += 300_000;
    world.record(Event::Elapsed);
    leave(&mut world, id, "lyon", 1);
    end_all(&mut world, id, "lyon", Reason::Done, 60_000);
    assert!(away(&world, id).avoided.is_empty(), "a task went well there");
    // A cluster that swallows tasks is a sink, and its results are suspicious.
    leave(&mut world, id, "nancy", 20);
    end_all(&mut world, id, "nancy", Reason::Done, 60_000);
    leave(&mut world, id, "lyon", 5);
    end_all(&mut world, id, "lyon", Reason::Done, 1);
    assert_eq!(world.faults[&(id, name_of("lyon"))].code, "sink");
    assert_eq!(world.suspects[0].1, name_of("lyon"));
}

fn name_of(cluster: &str) -> Name {
    Name::from(format!("cluster {cluster}"))
}

#[test]
fn a_refusal_is_an_event_and_three_of_two_users_are_one_of_the_cluster() {
    let mut world = World::routing();
    let mut campaigns = Vec::new();
    for user in ["ann", "bob", "ann"] {
        campaigns.push(world.submit_as(user, spec(3)));
    }
    let lyon = Name::from("lyon");
    for id in &campaigns {
        assert!(world.book.forwarding().events.is_empty(), "two are not enough");
        let refused = Forwarding::Refused(*id, lyon.clone(), "403: no such user".to_owned());
        world.record(Event::Forwarded(refused));
        assert!(!away(&world, *id).avoided[&lyon]);
    }
    let event = world.book.filed_of(EventClass::Cluster, "lyon").unwrap().clone();
    assert_eq!(event.code, "bad-cluster");
    world.restart();
    assert!(world.book.forwarding().events.contains_key(&lyon));
    world.record(Event::Closed(event.id));
    assert!(world.book.forwarding().events.is_empty());
    assert!(campaigns.iter().all(|id| away(&world, *id).avoided.is_empty()), "they close with it");
}

#[test]
fn a_silent_cluster_has_an_event_until_it_answers() {
    let mut world = World::routing();
    let lyon = Name::from("lyon");
    let told = |why: Option<&str>| Event::ClusterHeard(lyon.clone(), why.map(str::to_owned));
    (0..2).for_each(|_| drop(world.record(told(Some("silent for 60 s")))));
    assert_eq!(world.filed.len(), 1, "one event of a cluster is open at a time");
    world.restart();
    assert_eq!(world.book.forwarding().events[&lyon], "event 1: silent for 60 s");
    world.record(told(None));
    assert!(world.book.forwarding().events.is_empty() && world.filed.is_empty());
}

#[test]
fn tasks_of_a_lost_cluster_begin_elsewhere_and_count_once() {
    let mut world = World::routing();
    let id = world.submit(spec(3));
    leave(&mut world, id, "lyon", 2);
    leave(&mut world, id, "nancy", 1);
    let old = there(&world, "lyon");
    world.record(Event::Forwarded(Forwarding::Lost("lyon".into())));
    assert_eq!((there(&world, "lyon").len(), there(&world, "nancy").len()), (0, 1));
    leave(&mut world, id, "nancy", 2);
    // Its late word changes nothing.
    let late = old.into_iter().map(|task| TaskResult { task, ..super::result(Reason::Done) });
    world.record(Event::Forwarded(Forwarding::Ended(late.collect())));
    assert_eq!(world.rows.campaigns[&id].done, 0);
    end_all(&mut world, id, "nancy", Reason::Done, 10);
    assert_eq!((state(&world, id), world.rows.campaigns[&id].done), (CampaignState::Done, 3));
}

/// A leased campaign with a task that runs on node 0, after a reboot of the head.
fn rebooted() -> World {
    let mut world = World::new();
    world.submit(spec(3));
    let until_ms = world.now + 5000;
    world.record(Event::Leased(LeaseRow { number: 1, lease_ms: 5000, until_ms }));
    world.publish();
    world.give(0, 0);
    world.schedule();
    (0..3).for_each(|_| world.exchange(0, false, false));
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.rows.leases.insert(1, LeaseRow { number: 1, lease_ms: 5000, until_ms: 0 });
    world.restart();
    world
}

fn is_answered(world: &World) -> bool {
    let report = world.report(0);
    world.book.check(name(0).as_str(), &report).is_ok()
}

#[test]
fn a_lease_from_before_a_reboot_is_in_doubt_until_its_sender_renews_it() {
    let mut world = rebooted();
    // A quarter of the lease of slots, 60 s.
    world.now += 14_999;
    world.record(Event::Elapsed);
    assert!(!is_answered(&world), "a slot would go on for too long");
    let as_of_ms = world.now;
    world.record(Event::Renewed(vec![1], as_of_ms));
    assert!(is_answered(&world));
    assert_eq!(world.rows.leases[&1].until_ms, as_of_ms + 5000, "the new end is on record");
    world.exchange(0, false, false);
    assert_eq!(world.begun.len(), 1);
    world.end(0, 0, Reason::Done, Some(0));
    (0..3).for_each(|_| world.exchange(0, false, false));
    assert_eq!(world.rows.campaigns[&1].done, 1, "it was not begun again");
}

#[test]
fn a_lease_that_is_not_renewed_after_a_reboot_ends_before_a_node_is_answered() {
    let mut world = rebooted();
    world.now += 15_000;
    world.record(Event::Elapsed);
    assert_eq!(world.rows.campaigns[&1].ending, Some(Ending::Cancelled));
    assert!(is_answered(&world));
    assert!(world.book.renewable(&[1]).is_empty());
}

/// The interruptions so far survive a restart, and so does the mean time between two of them.
#[test]
fn the_mean_time_between_interruptions_goes_on_over_a_restart() {
    let mut world = World::routing();
    let id = world.submit(spec(2));
    leave(&mut world, id, "lyon", 2);
    end_all(&mut world, id, "lyon", Reason::Preempted, 3_600_000);
    let before = world.book.interruption_ms();
    assert_eq!(before, 31_200_000, "26 hours over two interruptions and one to come");
    let saved = Saved { interruptions: world.book.interruptions(), ..Saved::default() };
    assert_eq!(Book::restore(world.settings, saved, 0).interruption_ms(), before);
}
