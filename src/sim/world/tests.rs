//! Tiny worlds, worked out by hand.

use std::num::NonZeroU64;

use super::*;
use crate::model::Mebibytes;

fn work(threads: u64, items: &[Millis]) -> SimWork {
    SimWork {
        name: "w".to_owned(),
        user: "u".to_owned(),
        class: "normal".to_owned(),
        memory: Mebibytes::from_gib(28),
        threads: NonZeroU64::new(threads).unwrap(),
        nodes: None,
        submitted: 0,
        items: items.to_vec(),
    }
}

fn at(world: &mut World, now: Millis) -> WorldNews {
    world.advance(now);
    world.tell()
}

/// Two threads, four items of 5, 20, 10 and 30 s: thread 0 does the first and third.
#[test]
fn threads_pull_items_in_file_order() {
    let mut world = World::new(vec![work(2, &[5_000, 20_000, 10_000, 30_000])]);
    assert_eq!(at(&mut world, 0).arrived, [WorkIx(0)]);
    let process = world.start(WorkIx(0));
    assert_eq!(world.process_facts(process), ShareFacts::default());

    assert_eq!(at(&mut world, 60_000).first_initialized, [WorkIx(0)]);
    assert_eq!(world.job_facts(WorkIx(0)).time_per_item, Some(0), "nothing is known yet");

    at(&mut world, 70_000);
    let facts = world.process_facts(process);
    // Thread 0 is 5 s into the third item, thread 1 is 10 s into the second.
    assert_eq!(
        (facts.is_initialized, facts.initialization, facts.investment),
        (true, 60_000, 15_000)
    );
    let facts = world.job_facts(WorkIx(0));
    assert_eq!((facts.remaining, facts.is_running), (3, true));
    // a = 5 s; only the item in progress for 10 s is longer: (1*10 + 1*5) / 2.
    assert_eq!(facts.time_per_item, Some(7_500));

    at(&mut world, 100_000);
    // Third item ended at 75 s, second at 80 s; the fourth began at 75 s.
    assert_eq!(world.job_facts(WorkIx(0)).remaining, 1);
    let news = at(&mut world, 110_000);
    assert_eq!(news.completed, [(WorkIx(0), vec![process])]);
    assert_eq!(world.ended(WorkIx(0)), Some(105_000));
    assert!(world.is_over());
    let spent = world.spent(process);
    assert_eq!((spent.useful, spent.initializing, spent.total), (65_000, 120_000, 220_000));
}

#[test]
fn preempted_items_are_served_first_and_from_zero() {
    let mut world = World::new(vec![work(1, &[100_000, 1_000, 1_000])]);
    at(&mut world, 0);
    let first = world.start(WorkIx(0));
    at(&mut world, 60_000);
    let second = world.start(WorkIx(0));
    at(&mut world, 110_000);

    assert_eq!(world.preempt(first), 50_000);
    assert_eq!(world.stage(first), Stage::Draining);
    assert_eq!(world.held(WorkIx(0)), [second]);
    world.settle();
    assert_eq!(at(&mut world, 120_000).drained, [first]);
    assert_eq!(world.stage(first), Stage::Gone);
    // The second began with the item that came back, at 120 s.
    at(&mut world, 130_000);
    assert_eq!(world.process_facts(second).investment, 10_000);
    at(&mut world, 230_000);
    assert_eq!(world.ended(WorkIx(0)), Some(222_000));
}

#[test]
fn an_idle_thread_pulls_again_when_items_come_back() {
    let mut world = World::new(vec![work(2, &[100_000, 100_000, 10_000])]);
    at(&mut world, 0);
    let first = world.start(WorkIx(0));
    let second = world.start(WorkIx(0));
    // The second process has an item of 10 s and an idle thread.
    at(&mut world, 60_000);
    assert_eq!(world.process_facts(second).investment, 0);
    at(&mut world, 65_000);
    world.preempt(first);
    world.settle();
    at(&mut world, 70_000);
    // The free thread took the first item at 65 s, the other thread the second item at 70 s.
    assert_eq!(world.process_facts(second).investment, 5_000);
    at(&mut world, 170_000);
    assert_eq!(world.ended(WorkIx(0)), Some(170_000));
}

#[test]
fn useless_processes_leave_unless_they_initialize() {
    let mut world = World::new(vec![work(1, &[100_000])]);
    at(&mut world, 0);
    let first = world.start(WorkIx(0));
    let second = world.start(WorkIx(0));
    at(&mut world, 50_000);
    let third = world.start(WorkIx(0));
    assert_eq!(at(&mut world, 60_000).left, [second]);
    assert_eq!(world.held(WorkIx(0)), [first, third]);
    assert_eq!(at(&mut world, 110_000).left, [third]);
}

#[test]
fn jobs_are_told_in_order_of_submission() {
    let mut late = work(1, &[1]);
    late.submitted = 10_001;
    let mut world = World::new(vec![late, work(1, &[1])]);
    assert_eq!(at(&mut world, 10_000).arrived, [WorkIx(1)]);
    assert_eq!(at(&mut world, 20_000).arrived, [WorkIx(0)]);
    assert_eq!(world.active(), [WorkIx(1), WorkIx(0)]);
}
