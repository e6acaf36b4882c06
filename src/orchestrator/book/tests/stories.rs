//! Single stories, each with its point.

use super::super::*;
use super::spec;
use super::world::World;
use crate::orchestrator::spec::MemoryRetry;
use crate::orchestrator::wire::Rung;

/// Builds a world with a campaign of `count` tasks, and a slot on node 0 that asked for tasks.
fn with_slot(count: u64) -> World {
    let mut world = World::new();
    world.submit(spec(count));
    world.publish();
    world.give(0, 0);
    world.schedule();
    world.exchange(0, false, false);
    world.publish();
    world.exchange(0, false, false);
    world
}

#[test]
fn a_campaign_runs_to_its_end() {
    let mut world = with_slot(3);
    for _ in 0..6 {
        world.begin(0, 0);
        world.exchange(0, false, false);
        world.end(0, 0, Reason::Done, Some(0));
        world.exchange(0, false, false);
    }
    world.exchange(0, false, false);
    let row = &world.rows.campaigns[&1];
    assert_eq!((row.state, row.done), (CampaignState::Done, 3));
    assert!(world.nodes[0].slots.is_empty(), "the node was told to forget its slot");
    world.publish();
    assert!(world.published.is_empty());
}

#[test]
fn a_task_that_failed_gets_another_size_of_memory() {
    let mut world = with_slot(1);
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.end(0, 0, Reason::Memory, None);
    world.exchange(0, false, false);
    world.exchange(0, false, false);
    let campaign = world.rows.campaigns[&1].clone();
    assert_eq!(campaign.state, CampaignState::Failed);
    let resubmit = |world: &mut World, memory_mb| {
        let reopened = Reopened {
            campaign: world.rows.campaigns[&1].clone(),
            spec: world.specs[&1].clone(),
            works: Vec::new(),
            tasks: world.rows.tasks.values().cloned().collect(),
            beyond: Vec::new(),
            untouched: false,
            memory_mb: Some(memory_mb),
        };
        world.record(Event::Resubmitted(Box::new(reopened)));
    };
    resubmit(&mut world, 6000);
    let works = world.book.publication(0);
    let work = works.iter().find(|work| 0 < work.remaining).unwrap();
    assert_eq!((work.memory_mb, work.remaining), (6000, 1));
    assert_eq!(world.rows.tasks[&(1, 1)].step, 1);
}

#[test]
fn a_size_of_memory_is_never_taken_for_one_of_the_retries() {
    let mut spec = spec(3);
    spec.memory_retry = MemoryRetry::parse("2x2");
    let mut world = World::new();
    let id = world.submit(spec);
    let mut campaign = world.book.campaigns()[&id].clone();
    let step = campaign.step_of(6000);
    assert_eq!((step, campaign.step_of(6000)), (3, 3), "behind two retries, and made once");
    let sizes: Vec<u64> = campaign.steps.iter().map(|step| step.work.memory_mb).collect();
    assert_eq!(sizes, [1024, 2048, 4096, 6000]);
    assert_eq!(campaign.step_of(4096), 2);
    for more in 0..40 {
        assert!(campaign.step_of(7000 + more) < MAX_STEPS);
    }
}

#[test]
fn a_campaign_that_is_under_way_takes_more_tasks() {
    let mut world = with_slot(1);
    world.begin(0, 0);
    world.exchange(0, false, false);
    assert_eq!(world.rows.campaigns[&1].state, CampaignState::Finishing);
    world.extend(1, 2, true);
    assert_eq!(world.rows.campaigns[&1].total, 1, "nothing of it is on record");
    world.extend(1, 2, false);
    let row = &world.rows.campaigns[&1];
    assert_eq!((row.state, row.total, row.limit), (CampaignState::Running, 3, 3));
    world.restart();
    assert_eq!(world.book.publication(0)[0].remaining, 3);
    assert_eq!(world.book.check_extension(1, 10_000_000), Err(CannotExtend::TooMany(1)));
    world.record(Event::Cancelled(1));
    assert_eq!(world.book.check_extension(1, 1), Err(CannotExtend::Cancelling(1)));
    assert_eq!(world.book.check_extension(2, 1), Err(CannotExtend::Ended(2)));
    let mut kept = spec(1);
    kept.keep = true;
    let kept = world.submit(kept);
    assert_eq!(world.book.check_extension(kept, 1), Err(CannotExtend::Kept(kept)));
}

#[test]
fn tasks_that_were_cut_are_taken_up_before_others_are_added() {
    let mut world = with_slot(9);
    world.record(Event::Cancelled(1));
    world.record(Event::Resubmitted(Box::new(Reopened {
        campaign: world.rows.campaigns[&1].clone(),
        spec: world.specs[&1].clone(),
        works: Vec::new(),
        tasks: Vec::new(),
        beyond: Vec::new(),
        untouched: false,
        memory_mb: None,
    })));
    assert_eq!(world.book.check_extension(1, 1), Err(CannotExtend::Cut(1)));
}

#[test]
fn a_lost_answer_brings_the_same_attempt_again() {
    let mut world = World::new();
    world.submit(spec(1));
    world.publish();
    world.give(0, 0);
    world.schedule();
    world.exchange(0, false, false);
    world.exchange(0, true, false);
    assert!(world.nodes[0].slots[&1].held.is_empty());
    world.exchange(0, false, false);
    assert_eq!(world.nodes[0].slots[&1].held, [AttemptId { campaign: 1, task: 1, attempt: 1 }]);
}

#[test]
fn a_silent_node_is_given_up_after_its_lease_only() {
    let mut world = with_slot(1);
    world.begin(0, 0);
    world.exchange(0, false, false);
    let patience = world.book.patience(30_000);
    assert_eq!(patience, 60_000 + 30_000 + 600 + 10_000);
    world.pass(patience);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Running);
    world.pass(1);
    let task = &world.rows.tasks[&(1, 1)];
    assert_eq!((task.state, task.losses, task.tries), (TaskState::Queued, 1, 0));
}

/// The wall clock jumps by hours between any two exchanges: only stored times may differ.
#[test]
fn jumps_of_the_clock_change_no_lease_and_no_order() {
    let play = |jumps: [u64; 4]| {
        let mut world = with_slot(4);
        let mut seen = Vec::new();
        for wall_began in jumps {
            world.wall_began = wall_began;
            world.submit(spec(1));
            world.begin(0, 0);
            world.exchange(0, false, false);
            world.pass(20_000);
            world.end(0, 0, Reason::Done, Some(0));
            world.publish();
            let states: Vec<_> = world.rows.tasks.values().map(|row| row.state).collect();
            seen.push((states, world.published.len(), world.nodes[0].slots.len()));
        }
        world.begin(0, 0);
        world.exchange(0, false, false);
        let patience = world.book.patience(30_000);
        for (ms, wall_began) in [(patience, 0), (1, u64::MAX)] {
            if jumps[0] != jumps[1] {
                world.wall_began = wall_began;
            }
            world.pass(ms);
            let states: Vec<_> = world.rows.tasks.values().map(|row| row.state).collect();
            seen.push((states, world.published.len(), world.nodes[0].slots.len()));
        }
        let campaigns = world.rows.campaigns.values();
        let submitted: Vec<u64> = campaigns.map(|row| row.submitted_ms).collect();
        assert!(submitted.is_sorted(), "{submitted:?}");
        seen
    };
    let steady = play([1_000_000; 4]);
    let hour = 3_600_000;
    assert_eq!(play([60 * hour, 6 * hour, 540 * hour, 0]), steady);
}

/// A world where the first task of a campaign runs on node 0.
fn begun(spec: CampaignSpec) -> World {
    let mut world = World::new();
    world.submit(spec);
    world.publish();
    world.give(0, 0);
    world.schedule();
    world.exchange(0, false, false);
    world.exchange(0, false, false);
    world.begin(0, 0);
    world.exchange(0, false, false);
    world
}

/// Builds a world with a campaign of a task that may run twice. Its first attempt has begun on node
/// 0, which is silent; the task begins again on node 1.
fn twice() -> World {
    let mut spec = spec(1);
    spec.may_run_twice = true;
    let mut world = begun(spec);
    assert_eq!(world.book.silence(), 30_000);
    world.pass(30_000);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Running);
    world.pass(1);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Queued);
    world.publish();
    assert_eq!(world.published[0].remaining, 2, "the silent slot is not free");
    world.give(0, 1);
    world.schedule();
    world
}

fn ends(world: &World) -> Vec<(u64, &'static str)> {
    let ended = world.rows.attempts.values();
    let ended = ended.filter_map(|row| Some((row.id.attempt, row.result.as_ref()?.why.word())));
    ended.collect()
}

#[test]
fn the_first_of_two_results_counts_and_the_other_slot_is_told() {
    for first in [0, 1] {
        let mut world = twice();
        world.exchange(1, false, false);
        world.exchange(1, false, false);
        world.begin(1, 0);
        world.exchange(1, false, false);
        assert_eq!(world.rows.tasks[&(1, 1)].attempt, 2);
        world.restart();
        world.end(first, 0, Reason::Done, Some(0));
        world.exchange(first, false, false);
        let task = &world.rows.tasks[&(1, 1)];
        assert_eq!((task.state, task.attempt), (TaskState::Done, 2));
        // The node of the overtaken attempt reports again, and ends that attempt.
        world.exchange(1 - first, false, false);
        assert_eq!(
            world.nodes[1 - first].slots.values().map(|slot| slot.running.len()).sum::<usize>(),
            0
        );
        for node in [1 - first, first, 1 - first, first] {
            world.exchange(node, false, false);
        }
        let expected = if first == 0 {
            [(1, "done"), (2, "superseded")]
        } else {
            [(1, "superseded"), (2, "done")]
        };
        assert_eq!(ends(&world), expected);
        let row = &world.rows.campaigns[&1];
        assert_eq!((row.state, row.done, row.ended), (CampaignState::Done, 1, 1));
    }
}

#[test]
fn a_node_that_is_back_in_time_goes_on_with_its_task() {
    let mut world = twice();
    world.exchange(0, false, false);
    let task = &world.rows.tasks[&(1, 1)];
    assert_eq!((task.state, task.attempt), (TaskState::Running, 1));
    world.exchange(1, false, false);
    world.exchange(1, false, false);
    world.begin(1, 0);
    assert_eq!(world.begun.len(), 1);
    world.end(0, 0, Reason::Done, Some(0));
    world.exchange(0, false, false);
    assert_eq!(ends(&world), [(1, "done")]);
}

#[test]
fn a_loser_that_fails_or_is_lost_takes_nothing_from_the_other() {
    let mut world = twice();
    world.exchange(1, false, false);
    world.exchange(1, false, false);
    world.begin(1, 0);
    world.exchange(1, false, false);
    world.reboot(0, true);
    world.exchange(0, false, false);
    let task = world.rows.tasks[&(1, 1)].clone();
    assert_eq!((task.state, task.attempt, task.losses), (TaskState::Running, 2, 1));
    world.end(1, 0, Reason::Exit, Some(1));
    world.exchange(1, false, false);
    assert_eq!(ends(&world), [(1, "lost"), (2, "exit")]);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Failed);
}

#[test]
fn a_slot_that_finishes_unheard_is_given_up_by_its_node_or_an_operator_only() {
    for by_operator in [false, true] {
        let mut spec = spec(1);
        spec.task.finishes_unheard = true;
        let mut world = begun(spec);
        world.pass(10 * world.book.patience(30_000));
        assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Running);
        world.reboot(0, true);
        if by_operator {
            world.record(Event::NodeLost(super::world::name(0)));
        } else {
            world.exchange(0, false, false);
        }
        assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Queued);
    }
}

#[test]
fn a_new_boot_gives_tasks_up_at_once() {
    let mut world = with_slot(1);
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.reboot(0, true);
    world.exchange(0, false, false);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Queued);
    assert_eq!(world.rows.slots[&1].state, SlotState::Gone);
}

#[test]
fn a_share_that_no_node_heard_of_goes_at_once() {
    let mut world = World::new();
    world.submit(spec(1));
    world.publish();
    world.give(0, 0);
    world.schedule();
    for (_, _, removed) in world.shares.values_mut() {
        *removed = true;
    }
    world.schedule();
    assert_eq!(world.rows.slots[&1].state, SlotState::Gone);
}

#[test]
fn an_older_exchange_is_refused() {
    let mut world = with_slot(1);
    world.nodes[0].number = 0;
    let report = Exchange {
        v: 1,
        boot: "0".into(),
        life: "0".into(),
        number: 1,
        limits: Rung::Watched,
        only_user: None,
        address: None,
        epoch: 0,
        slots: Vec::new(),
    };
    let refusal = world.book.check("n0", &report).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "exchange 1 comes after exchange 2 of the same life; send higher numbers"
    );
}

#[test]
fn suspended_work_drains_and_goes_on() {
    let mut world = with_slot(5);
    world.begin(0, 0);
    world.exchange(0, false, false);
    world.record(Event::Suspended { campaign: 1, at_once: false });
    assert!(world.book.publication(0)[0].is_frozen);
    world.exchange(0, false, false);
    world.end(0, 0, Reason::Done, Some(0));
    world.exchange(0, false, false);
    let row = world.book.campaigns()[&1].row();
    assert_eq!((row.state, row.done), (CampaignState::Suspended, 1));
    assert_eq!(world.rows.slots[&1].state, SlotState::Gone);
    world.record(Event::Resumed(1));
    assert_eq!(world.book.campaigns()[&1].facts.state, CampaignState::Running);
}

#[test]
fn idle_slots_call_unstarted_tasks_back() {
    let world = with_slot(4);
    // The queue is short, so no slot hoards: it gets half, though it could hold all.
    assert_eq!(world.nodes[0].slots[&1].held.len(), 2);
    let mut world = with_slot(40);
    assert_eq!(world.nodes[0].slots[&1].held.len(), 4);
    for _ in 0..36 {
        world.begin(0, 0);
        world.end(0, 0, Reason::Done, Some(0));
        world.exchange(0, false, false);
    }
    assert_eq!(world.rows.campaigns[&1].done, 36);
}

#[test]
fn three_slots_that_cannot_prepare_freeze_a_campaign() {
    let mut world = World::new();
    let mut spec = spec(5);
    spec.needs_kernel_limit = true;
    world.submit(spec);
    for _ in 0..3 {
        world.publish();
        world.give(0, 0);
        world.schedule();
        world.exchange(0, false, false);
    }
    assert_eq!(world.rows.campaigns[&1].init_fails, INIT_FAILS);
    assert!(world.book.publication(0)[0].is_frozen);
    assert!(world.nodes[0].slots.is_empty());
}

#[test]
fn a_test_runs_one_task_and_drops_the_others() {
    let mut world = World::new();
    let mut spec = spec(100);
    spec.kind = crate::orchestrator::spec::CampaignType::Test;
    world.submit(spec);
    let row = &world.rows.campaigns[&1];
    assert_eq!((row.limit, row.dropped), (1, 99));
    assert_eq!(world.book.publication(0)[0].remaining, 1);
}

#[test]
fn a_result_that_is_missing_holds_up_no_later_one() {
    let mut world = with_slot(40);
    for _ in 0..2 {
        world.begin(0, 0);
        world.end(0, 0, Reason::Done, Some(0));
    }
    for result in &mut world.nodes[0].slots.get_mut(&1).unwrap().results {
        // Numbers 2 and 4.
        result.number *= 2;
    }
    world.exchange(0, false, false);
    assert_eq!((world.rows.campaigns[&1].done, world.rows.slots[&1].acked), (2, 4));
}

#[test]
fn a_pause_of_the_orchestrator_is_no_silence_of_a_node() {
    let mut world = with_slot(1);
    world.begin(0, 0);
    world.exchange(0, false, false);
    // The orchestrator stands still for longer than any lease, while the task ends.
    world.now += 10 * world.settings.lease_ms;
    world.end(0, 0, Reason::Done, Some(0));
    world.record(Event::Elapsed);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Running);
    world.exchange(0, false, false);
    assert_eq!(world.rows.campaigns[&1].done, 1);
}

#[test]
fn a_kept_task_gets_another_slot_after_its_slot_is_lost() {
    let mut spec = spec(1);
    spec.keep = true;
    let mut world = begun(spec);
    let work = world.published[0].work;
    world.kill(0, 0);
    world.exchange(0, false, false);
    // For the resource manager, a work with a single process is over with that process.
    world.publish();
    let now: Vec<u64> = world.published.iter().map(|work| work.work).collect();
    assert!(now.len() == 1 && now[0] != work, "work {work}, then {now:?}");
    world.restart();
    world.publish();
    assert_eq!(world.published[0].work, now[0]);
}
