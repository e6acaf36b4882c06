//! Tasks that other clusters have.

use super::spec;
use super::world::World;
use crate::orchestrator::book::{
    Book, CampaignState, Departure, Ending, Event, ForwardedBatch, Forwarding, LeaseRow, TaskState,
    is_batch,
};
use crate::orchestrator::spec::CampaignType;
use crate::orchestrator::wire::{AttemptId, Reason, TaskResult};

fn forward(world: &mut World, change: Forwarding) {
    world.record(Event::Forwarded(change));
}

fn leave(world: &mut World, campaign: u64, cluster: &str, count: u64) {
    leave_by(world, campaign, cluster, count, &[]);
}

fn leave_by(world: &mut World, campaign: u64, cluster: &str, most: u64, affinities: &[(u64, i64)]) {
    let (cluster, affinities) = (cluster.into(), affinities.iter().copied().collect());
    let departure = Departure { campaign, cluster, most, affinities, lease_ms: Some(5000) };
    forward(world, Forwarding::Leave(departure));
}

fn result(task: u64, attempt: u64, why: Reason) -> TaskResult {
    let task = AttemptId { campaign: 1, task, attempt };
    TaskResult { task, ms: 100, ..super::result(why) }
}

fn end(world: &mut World, result: TaskResult) {
    forward(world, Forwarding::Ended(vec![result]));
}

/// Tasks of each batch.
fn tasks(world: &World) -> Vec<Vec<u64>> {
    let of = |batch: &ForwardedBatch| batch.tasks.iter().map(|task| task.id.task).collect();
    world.book.forwarding().batches.iter().map(of).collect()
}

/// Tasks that the resource manager is told of.
fn told(world: &mut World) -> u64 {
    world.book.publication(0).iter().map(|work| work.remaining).sum()
}

#[test]
fn forwarded_tasks_leave_the_bag_and_each_result_counts_once() {
    let mut world = World::new();
    world.submit(spec(5));
    leave(&mut world, 1, "lyon", 3);
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1, 2, 3]], 2));
    // What is on record survives, with the number of its batch.
    let batch = world.book.forwarding().batches[0].batch;
    world.restart();
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1, 2, 3]], 2));
    assert_eq!(world.book.forwarding().batches[0].batch, batch);
    assert_eq!(world.book.forwarding().batches[0].lease_ms, Some(5000));
    forward(&mut world, Forwarding::Begun(vec![result(1, 1, Reason::Done).task]));
    assert!(world.book.forwarding().batches[0].tasks[0].is_running);
    end(&mut world, result(1, 1, Reason::Done));
    end(&mut world, result(1, 1, Reason::Done));
    end(&mut world, result(2, 9, Reason::Done));
    assert_eq!(world.book.campaigns()[&1].facts.done, 1);
    assert_eq!(tasks(&world), [[2, 3]]);
}

#[test]
fn withdrawn_tasks_go_first_and_run_elsewhere() {
    let mut world = World::new();
    world.submit(spec(4));
    leave(&mut world, 1, "lyon", 2);
    end(&mut world, Book::withdrawn(result(2, 1, Reason::Done).task));
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1]], 3));
    leave(&mut world, 1, "grenoble", 9);
    // Task 2 came back; tasks 3 and 4 follow it without a gap.
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1], vec![2, 3, 4]], 0));
    let batches = world.book.forwarding().batches;
    let second = &batches[1];
    assert_eq!((second.cluster.as_str(), second.tasks[0].id.attempt), ("grenoble", 2));
    // The old attempt is over, and a later report of its cluster changes nothing.
    end(&mut world, result(2, 1, Reason::Done));
    assert_eq!(world.book.campaigns()[&1].facts.done, 0);
    for (task, attempt) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        end(&mut world, result(task, attempt, Reason::Done));
    }
    assert_eq!(world.rows.campaigns[&1].state, CampaignState::Done);
    assert_eq!(world.rows.campaigns[&1].done, 4);
}

#[test]
fn a_task_that_failed_on_a_cluster_goes_there_last_among_its_priority() {
    let mut world = World::new();
    let mut again = spec(8);
    again.retries = 3;
    world.submit(again);
    leave(&mut world, 1, "lyon", 3);
    for task in [1, 2, 3] {
        end(&mut world, TaskResult { exit: Some(1), ..result(task, 1, Reason::Exit) });
    }
    // Failed tasks go before untouched ones, and task 1 is the last of them.
    leave_by(&mut world, 1, "lyon", 2, &[(1, -2), (2, -1)]);
    assert_eq!(tasks(&world), [[2, 3]]);
    leave_by(&mut world, 1, "lyon", 3, &[(1, -2), (2, -1)]);
    assert_eq!(tasks(&world), [vec![2, 3], vec![1], vec![4, 5]]);
}

/// A test waits for the router, has one task on each cluster that takes part, and drops the rest.
#[test]
fn a_test_has_one_task_on_each_cluster() {
    let mut world = World::new();
    world.book.settings.clusters = 4;
    let mut test = spec(100);
    test.kind = CampaignType::Test;
    let id = world.submit(test);
    world.publish();
    assert!(world.published[0].is_frozen, "no process here before the clusters are chosen");
    assert!(world.book.forwarding().campaigns[0].waits_for_router);
    // The fourth cluster is silent, and the own cluster keeps a task.
    leave(&mut world, id, "lyon", 1);
    leave(&mut world, id, "nancy", 1);
    forward(&mut world, Forwarding::Tested(id, 1));
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1], vec![2]], 1));
    assert!(!world.book.forwarding().campaigns[0].waits_for_router);
    world.publish();
    assert!(!world.published[0].is_frozen);
    end(&mut world, result(1, 1, Reason::Done));
    end(&mut world, result(2, 1, Reason::Done));
    world.run_in_a_slot();
    let row = &world.rows.campaigns[&id];
    assert_eq!((row.state, row.done, row.dropped), (CampaignState::Done, 3, 97));
}

/// A cluster without a node of its own keeps no task of a test.
#[test]
fn a_test_drops_its_last_task_where_no_cluster_wants_it() {
    let mut world = World::new();
    world.book.settings.clusters = 2;
    let mut test = spec(2);
    test.kind = CampaignType::Test;
    world.submit(test);
    leave(&mut world, 1, "lyon", 1);
    forward(&mut world, Forwarding::Tested(1, 0));
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1]], 0));
    end(&mut world, result(1, 1, Reason::Done));
    let row = &world.rows.campaigns[&1];
    assert_eq!((row.state, row.done, row.dropped), (CampaignState::Done, 1, 1));
}

/// A task that was cancelled before its turn is no task to keep.
#[test]
fn a_test_keeps_a_task_that_was_not_cancelled() {
    let mut world = World::new();
    world.book.settings.clusters = 4;
    let mut test = spec(9);
    test.kind = CampaignType::Test;
    world.submit(test);
    world.record(Event::TaskCancelled(1, 4));
    leave(&mut world, 1, "lyon", 1);
    forward(&mut world, Forwarding::Tested(1, 1));
    assert_eq!((tasks(&world), told(&mut world)), (vec![vec![1]], 1));
    let row = &world.rows.campaigns[&1];
    assert_eq!((row.dropped, row.cancelled), (6, 1));
    assert!(!world.book.forwarding().campaigns[0].waits_for_router);
}

#[test]
fn a_gap_begins_another_batch() {
    let mut world = World::new();
    world.submit(spec(6));
    leave(&mut world, 1, "lyon", 6);
    for task in [1, 3, 4] {
        end(&mut world, Book::withdrawn(result(task, 1, Reason::Done).task));
    }
    leave(&mut world, 1, "grenoble", 9);
    assert_eq!(tasks(&world), [vec![2, 5, 6], vec![1], vec![3, 4]]);
    let numbers: Vec<u64> = world.book.forwarding().batches.iter().map(|it| it.batch).collect();
    assert!(numbers.iter().all(|number| is_batch(*number)) && numbers.is_sorted());
}

#[test]
fn a_failure_elsewhere_follows_the_table_of_states() {
    let mut world = World::new();
    let mut twice = spec(1);
    twice.retries = 1;
    world.submit(twice);
    for attempt in [1, 2] {
        leave(&mut world, 1, "lyon", 1);
        end(&mut world, TaskResult { exit: Some(1), ..result(1, attempt, Reason::Exit) });
    }
    assert_eq!(world.rows.campaigns[&1].state, CampaignState::Failed);
    assert_eq!(world.rows.tasks[&(1, 1)].state, TaskState::Failed);
}

#[test]
fn a_cancelled_campaign_waits_for_the_word_of_its_clusters() {
    let mut world = World::new();
    world.submit(spec(3));
    leave(&mut world, 1, "lyon", 2);
    world.record(Event::Cancelled(1));
    assert!(world.book.forwarding().batches[0].tasks.iter().all(|task| task.is_cancelled));
    assert_eq!(world.rows.campaigns[&1].state, CampaignState::Cancelling);
    // A cancelled campaign sends nothing more.
    leave(&mut world, 1, "lyon", 2);
    for task in [1, 2] {
        end(&mut world, Book::withdrawn(result(task, 1, Reason::Done).task));
    }
    let row = &world.rows.campaigns[&1];
    assert_eq!((row.state, row.cancelled, row.done), (CampaignState::Cancelled, 3, 0));
}

#[test]
fn tasks_of_a_batch_whose_lease_ran_out_run_elsewhere_and_count_once() {
    let mut world = World::new();
    world.submit(spec(2));
    leave(&mut world, 1, "lyon", 2);
    forward(&mut world, Forwarding::Begun(vec![result(1, 1, Reason::Done).task]));
    let batch = world.book.forwarding().batches.remove(0);
    assert_eq!(world.rows.leases[&batch.batch].lease_ms, 5000);
    for task in &batch.tasks {
        end(&mut world, Book::given_up(task));
    }
    let losses = |world: &World, task| world.rows.tasks[&(1, task)].losses;
    assert_eq!(
        (losses(&world, 1), losses(&world, 2)),
        (1, 0),
        "task 1 alone is known to have begun"
    );
    assert!(world.rows.leases.is_empty(), "{:?}", world.rows.leases);
    leave(&mut world, 1, "grenoble", 2);
    // The cluster comes back with its result: another attempt counts.
    end(&mut world, result(1, 1, Reason::Done));
    assert_eq!(world.book.campaigns()[&1].facts.done, 0);
    for task in [1, 2] {
        end(&mut world, result(task, 2, Reason::Done));
    }
    assert_eq!((world.rows.campaigns[&1].done, world.rows.leases.len()), (2, 0));
}

/// Leases campaign 1 at time `now` of the world for 5 s.
fn lease(world: &mut World) {
    let until_ms = world.now + 5000;
    world.record(Event::Leased(LeaseRow { number: 1, lease_ms: 5000, until_ms }));
}

fn is_cancelled(world: &World) -> bool {
    world.rows.campaigns[&1].ending == Some(Ending::Cancelled)
}

#[test]
fn a_campaign_whose_lease_is_not_renewed_is_cancelled_before_anything_begins() {
    let mut world = World::new();
    world.submit(spec(3));
    lease(&mut world);
    let begun = world.now;
    world.now = begun + 3000;
    world.record(Event::Renewed(vec![1, 7], begun + 1000));
    // A renewal that was under way for long changes nothing.
    world.record(Event::Renewed(vec![1], begun + 500));
    world.now = begun + 5999;
    world.record(Event::Elapsed);
    assert!(!is_cancelled(&world));
    assert_eq!(world.book.renewable(&[1, 7]), [1]);
    world.now = begun + 6000;
    // The first event after the end comes too late, even a renewal.
    world.record(Event::Renewed(vec![1], begun + 5999));
    assert!(is_cancelled(&world));
    assert!(world.book.renewable(&[1]).is_empty());
    assert!(world.rows.leases.is_empty(), "a final campaign has no lease");
}

#[test]
fn a_lease_goes_on_over_a_restart_and_ends_no_later() {
    let mut world = World::new();
    world.submit(spec(3));
    lease(&mut world);
    let begun = world.now;
    for passed in (200..=3000).step_by(200) {
        world.record(Event::Renewed(vec![1], begun + passed));
    }
    let stored = world.rows.leases[&1].until_ms;
    assert!((begun + 7375..=begun + 8000).contains(&stored), "{stored} {begun}");
    world.restart();
    world.now = stored - 1;
    world.record(Event::Elapsed);
    assert!(!is_cancelled(&world));
    world.now = stored;
    world.record(Event::Elapsed);
    assert!(is_cancelled(&world));
}
