//! Random histories with crashes, lost answers, repeats and new boots. An oracle that only
//! remembers the events recounts the invariants.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::world::World;
use super::{shared, spec};
use crate::orchestrator::spec::{CampaignMode, EarlyTasks};

#[derive(Clone, Copy, Debug)]
enum Op {
    Submit(u8),
    Publish,
    Schedule,
    Give(u8, u8),
    Remove(u8),
    Exchange(u8, u8),
    Begin(u8, u8),
    End(u8, u8, u8),
    Kill(u8, u8),
    Reboot(u8, bool),
    Restart,
    Pass(u16),
    Extend(u8, u8),
    Suspend(u8, bool),
    Resume(u8),
    Cancel(u8),
    CancelTask(u8, u8),
    Resubmit(u8),
    Lost(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (1..30_u8).prop_map(Op::Submit),
        8 => Just(Op::Publish),
        8 => Just(Op::Schedule),
        8 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Give(a, b)),
        2 => any::<u8>().prop_map(Op::Remove),
        20 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Exchange(a, b)),
        20 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Begin(a, b)),
        16 => any::<(u8, u8, u8)>().prop_map(|(a, b, c)| Op::End(a, b, c)),
        2 => any::<(u8, u8)>().prop_map(|(a, b)| Op::Kill(a, b)),
        1 => any::<(u8, bool)>().prop_map(|(a, b)| Op::Reboot(a, b)),
        2 => Just(Op::Restart),
        4 => (0..60_000_u16).prop_map(Op::Pass),
        2 => (any::<u8>(), 1..9_u8).prop_map(|(a, b)| Op::Extend(a, b)),
        1 => any::<(u8, bool)>().prop_map(|(a, b)| Op::Suspend(a, b)),
        1 => any::<u8>().prop_map(Op::Resume),
        1 => any::<u8>().prop_map(Op::Cancel),
        1 => any::<(u8, u8)>().prop_map(|(a, b)| Op::CancelTask(a, b)),
        1 => any::<u8>().prop_map(Op::Resubmit),
        1 => any::<u8>().prop_map(Op::Lost),
    ]
}

fn campaign(world: &World, pick: u8) -> u64 {
    let ids: Vec<u64> = world.specs.keys().copied().collect();
    if ids.is_empty() { 0 } else { ids[usize::from(pick) % ids.len()] }
}

fn play(world: &mut World, op: Op) {
    let node = |pick: u8| usize::from(pick) % 3;
    match op {
        Op::Submit(count) => {
            let mut spec = spec(count.into());
            spec.retries = u64::from(count % 3);
            spec.may_run_twice = count % 5 < 2;
            spec.task.finishes_unheard = count % 6 == 0;
            spec.lanes = 1 + u64::from(count % 2);
            if count % 7 == 0 {
                spec.max_fails = Some(2);
            }
            if let Some(gang) = super::gangs::of_lot(count) {
                spec = gang;
                spec.retries = u64::from(count % 3);
            } else if count % 4 == 0 {
                spec.memory_retry = crate::orchestrator::spec::MemoryRetry::parse("2x2");
            }
            if spec.gang.is_none() && count % 3 == 1 {
                spec.first = Some(EarlyTasks { count: 3, class: "fast".to_owned() });
            }
            if spec.may_run_twice && count % 2 == 0 {
                spec.mode = CampaignMode::Finalise;
            }
            world.submit(spec);
        }
        Op::Publish => world.publish(),
        Op::Schedule => world.schedule(),
        Op::Give(pick, at) => world.give(pick.into(), node(at)),
        Op::Remove(pick) => {
            let live = world.shares.len().max(1);
            if let Some((_, _, removed)) = world.shares.values_mut().nth(usize::from(pick) % live) {
                *removed = true;
            }
        }
        Op::Exchange(at, luck) => world.exchange(node(at), luck % 5 == 0, luck % 31 == 0),
        Op::Begin(at, pick) => world.begin(node(at), pick.into()),
        Op::End(at, pick, how) => {
            let (why, exit) = match how % 8 {
                0 => (Reason::Exit, Some(1)),
                1 => (Reason::Exit, Some(66)),
                2 => (Reason::Memory, None),
                3 => (Reason::Signal, None),
                _ => (Reason::Done, Some(0)),
            };
            world.end(node(at), pick.into(), why, exit);
        }
        Op::Kill(at, pick) => world.kill(node(at), pick.into()),
        Op::Reboot(at, wipes) => world.reboot(node(at), wipes),
        Op::Restart => world.restart(),
        Op::Pass(ms) => world.pass(u64::from(ms) * 2),
        Op::Extend(pick, count) => {
            let id = campaign(world, pick);
            world.extend(id, u64::from(count), count % 4 == 0);
        }
        Op::Suspend(pick, at_once) => {
            let campaign = campaign(world, pick);
            world.record(Event::Suspended { campaign, at_once });
        }
        Op::Resume(pick) => {
            let id = campaign(world, pick);
            world.record(Event::Resumed(id));
        }
        Op::Cancel(pick) => {
            let id = campaign(world, pick);
            world.record(Event::Cancelled(id));
        }
        Op::CancelTask(pick, task) => {
            let id = campaign(world, pick);
            world.record(Event::TaskCancelled(id, u64::from(task % 32)));
        }
        Op::Resubmit(pick) => resubmit(world, pick),
        Op::Lost(at) => {
            // An operator declares only dead nodes lost.
            world.reboot(node(at), true);
            world.record(Event::NodeLost(super::world::name(node(at))));
        }
    }
}

fn resubmit(world: &mut World, pick: u8) {
    let id = campaign(world, pick);
    let Some(row) = world.rows.campaigns.get(&id).cloned() else { return };
    let of = |row: &&TaskRow| row.campaign == id && row.state.is_final();
    let finals: Vec<TaskRow> = world.rows.tasks.values().filter(of).cloned().collect();
    let tasks = finals.iter().filter(|row| row.state != TaskState::Done).cloned().collect();
    let spec = world.specs[&id].clone();
    let beyond = finals
        .iter()
        .filter(|task| row.taken <= spec.tasks.position(task.task).unwrap())
        .cloned()
        .collect();
    let (works, memory_mb) = (Vec::new(), None);
    let reopened =
        Reopened { campaign: row, spec, works, tasks, beyond, untouched: true, memory_mb };
    world.record(Event::Resubmitted(Box::new(reopened)));
}

/// Recounts from the rows all figures of the book.
fn recount(world: &World) {
    for row in world.rows.campaigns.values() {
        let of = |task: &&TaskRow| task.campaign == row.id;
        let tasks: Vec<&TaskRow> = world.rows.tasks.values().filter(of).collect();
        let count =
            |state: TaskState| crate::model::count(tasks.iter().filter(|task| task.state == state));
        let spec = &world.specs[&row.id];
        let touched = |at: &u64| {
            let task = spec.tasks.at(*at).unwrap();
            world.rows.tasks.contains_key(&(row.id, task))
        };
        let untouched = crate::model::count((row.taken..row.limit).filter(|at| !touched(at)));
        let cut = crate::model::count((row.limit..row.total).filter(|at| !touched(at)));
        let live =
            count(TaskState::Queued) + count(TaskState::Assigned) + count(TaskState::Running);
        let finals = row.done + row.failed + row.cancelled + row.dropped;
        assert_eq!(finals + live + untouched, row.total, "T4: {row:?}");
        assert_eq!(row.done, count(TaskState::Done), "T3: {row:?}");
        assert_eq!(row.failed, count(TaskState::Failed), "{row:?}");
        assert_eq!(row.cancelled, count(TaskState::Cancelled) + cut, "{row:?}");
        if !row.state.is_final() {
            // T10: the publication equals the rows.
            let told: u64 = world.book.campaigns()[&row.id]
                .steps
                .iter()
                .map(|step| world.book.campaigns()[&row.id].remaining(step))
                .sum();
            assert_eq!(told, live + untouched, "T10: {row:?}");
        }
        if spec.gang.is_some() {
            super::gangs::is_whole(world, row);
            continue;
        }
        for task in tasks {
            one_result_counts(world, task);
            failures_are_real(world, task);
        }
    }
}

/// T3: a single result makes a task done, however many attempts ran.
fn one_result_counts(world: &World, task: &TaskRow) {
    let id = |attempt| AttemptId { campaign: task.campaign, task: task.task, attempt };
    let attempts = world.rows.attempts.range(id(0)..=id(u64::MAX)).map(|(_, row)| row);
    let is_done =
        |row: &&AttemptRow| row.result.as_ref().is_some_and(|result| result.why == Reason::Done);
    let done = crate::model::count(attempts.filter(is_done));
    assert_eq!(done, u64::from(task.state == TaskState::Done), "T3: {task:?}");
}

/// T11: a preempted, evicted or lost attempt counts as no failure.
fn failures_are_real(world: &World, task: &TaskRow) {
    let results = world
        .rows
        .attempts
        .values()
        .filter(|row| (row.id.campaign, row.id.task) == (task.campaign, task.task))
        .filter_map(|row| row.result.as_ref());
    let failed = results
        .filter(|result| matches!(result.why, Reason::Exit | Reason::Signal | Reason::Memory))
        .count();
    assert!(task.tries <= u64::try_from(failed).unwrap(), "T11: {task:?}");
}

/// T6: a restart reads back the same book.
fn restart_changes_nothing(world: &World) {
    let again = Book::restore(world.settings, world.rows.saved(&world.specs), world.now);
    for (id, campaign) in world.book.campaigns() {
        let other = &again.campaigns()[id];
        assert_eq!(campaign.row(), other.row());
        assert_eq!(campaign.tasks, other.tasks);
        assert_eq!((&campaign.cursor, &campaign.ranks), (&other.cursor, &other.ranks));
        assert_eq!((campaign.slots, campaign.steps.len()), (other.slots, other.steps.len()));
        for (step, other) in campaign.steps.iter().zip(&other.steps) {
            assert_eq!((&step.work, &step.queue), (&other.work, &other.queue));
            assert_eq!((step.in_slots, step.slots), (other.in_slots, other.slots));
        }
    }
    let attempts = |book: &Book| -> BTreeMap<u64, Vec<AttemptId>> {
        let slots = book.slots().iter().filter(|(_, slot)| !slot.is_gone());
        slots.map(|(share, slot)| (*share, slot.attempts.keys().copied().collect())).collect()
    };
    assert_eq!(attempts(&world.book), attempts(&again), "T6");
}

/// Runs on without trouble until all campaigns are final.
fn finish(world: &mut World) {
    for id in world.specs.keys().copied().collect::<Vec<_>>() {
        world.record(Event::Resumed(id));
    }
    for round in 0..600_usize {
        if world.book.campaigns().is_empty() {
            return;
        }
        world.publish();
        if world.shares.len() < 9 {
            world.give(round, round % 3);
        }
        world.schedule();
        for node in 0..3 {
            world.exchange(node, false, false);
            for pick in 0..4 {
                world.begin(node, pick);
            }
            for _ in 0..4 {
                world.end(node, round, Reason::Done, Some(0));
            }
        }
        world.pass(20_000);
        // Slots that stay idle end, as they would by themselves, and make space for larger ones.
        if round % 4 == 3 {
            world.end_idle_slots();
        }
    }
    panic!("not all campaigns end: {:#?}", world.book.campaigns());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("BOOK_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
    ))]

    #[test]
    fn no_task_is_lost_or_counted_twice(ops in proptest::collection::vec(op(), 1..400)) {
        let mut world = World::new();
        world.submit(spec(12));
        for op in ops {
            play(&mut world, op);
            recount(&world);
            restart_changes_nothing(&world);
        }
        finish(&mut world);
        recount(&world);
    }
}

#[test]
fn a_bag_takes_no_room() {
    let mut world = World::new();
    let new = NewCampaign {
        owner: "ann".into(),
        uid: None,
        spec_number: 1,
        spec: shared(1_000_000),
        hooks: Vec::new(),
    };
    let effects = world.record(Event::Submitted(Box::new(new)));
    assert!(effects.len() < 6, "{effects:?}");
    assert_eq!(world.book.publication(0)[0].remaining, 1_000_000);
}
