//! Flood control: the tasks that may wait on a cluster, and the withdrawal of the surplus.

use std::cmp::Reverse;

use super::ratio::part_of;

/// Longest time that a task waits on a cluster, in milliseconds. A longer wait withdraws it.
pub const WAITING_LIMIT_MS: u64 = 900_000;

/// Time that a cluster needs to begin a task that it has space for, in milliseconds: a publication, a
/// cycle and the start of a slot. A task is no surplus before.
pub const ARRIVAL_MS: u64 = 5_000;

/// The tasks that may wait on a cluster of `capacity` resources: `capacity × flood`, rounded down.
/// A `flood` of 0 means that no task waits.
pub fn allowed(capacity: u64, flood: u64) -> u64 {
    part_of(capacity, flood)
}

/// The tasks of `resources` each that a cluster can take: tasks that start now, and the space among the
/// waiting tasks.
pub fn fit(free: u64, resources: u64, allowed: u64, waiting: u64) -> u64 {
    let start = free.checked_div(resources.max(1)).unwrap_or(0);
    start.saturating_add(allowed.saturating_sub(waiting))
}

/// A task that was sent to a cluster and waits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SentTask {
    /// Time of the sending, in milliseconds of the caller's clock.
    pub sent_ms: u64,
    /// The campaign.
    pub campaign: u64,
    /// The task.
    pub task: u64,
    /// True if the task is withdrawn only when it waits too long.
    pub is_exempt: bool,
}

/// Cause of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithdrawalCause {
    /// More tasks wait than the flood rate allows.
    Surplus,
    /// The task has waited longer than the limit. Its affinity to the cluster falls.
    TooLong,
}

/// A task to withdraw from a cluster. It returns to the bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The task.
    pub task: SentTask,
    /// The cause.
    pub cause: WithdrawalCause,
}

/// Returns the withdrawals of a cluster, newest first: tasks that wait longer than `limit_ms`, then
/// the surplus over `allowed`. Without `allowed` there is no surplus.
///
/// A step of its own, after the submission: the newest task has waited least, so its withdrawal
/// costs least.
pub fn surplus(
    waiting: &[SentTask],
    allowed: Option<u64>,
    now_ms: u64,
    limit_ms: u64,
) -> Vec<Withdrawal> {
    let is_late = |task: &SentTask| limit_ms < now_ms.saturating_sub(task.sent_ms);
    let mut newest: Vec<SentTask> = waiting.to_vec();
    newest.sort_by_key(|task| Reverse(*task));
    let (late, mut others): (Vec<SentTask>, Vec<SentTask>) = newest.into_iter().partition(is_late);
    let most = allowed.and_then(|allowed| usize::try_from(allowed).ok());
    let excess = most.map_or(0, |most| others.len().saturating_sub(most));
    others.retain(|task| !task.is_exempt);
    others.truncate(excess);
    let with = |cause| move |task| Withdrawal { task, cause };
    let late = late.into_iter().map(with(WithdrawalCause::TooLong));
    late.chain(others.into_iter().map(with(WithdrawalCause::Surplus))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::ONE;

    fn task(sent_ms: u64, task: u64) -> SentTask {
        SentTask { sent_ms, campaign: 1, task, is_exempt: false }
    }

    #[test]
    fn the_flood_rate_can_be_nothing() {
        let rows = [(100, 0, 0), (100, 500_000, 50), (7, 500_000, 3), (100, ONE, 100), (0, ONE, 0)];
        for (capacity, flood, expected) in rows {
            assert_eq!(allowed(capacity, flood), expected, "{capacity} {flood}");
        }
    }

    #[test]
    fn parallel_tasks_start_only_in_whole_sets_of_resources() {
        // CG-08: tasks of 4 resources never exceed a quarter of the free ones.
        for free in 0..40 {
            assert_eq!(fit(free, 4, 0, 0), free.checked_div(4).unwrap());
        }
        assert_eq!(fit(30, 8, 10, 4), 9);
        assert_eq!(fit(30, 8, 10, 11), 3);
    }

    #[test]
    fn the_newest_of_the_surplus_go_first_and_no_more_than_it() {
        let waiting: Vec<SentTask> = (1..=6).map(|number| task(number * 10, number)).collect();
        let gone = surplus(&waiting, Some(4), 100, WAITING_LIMIT_MS);
        let numbers: Vec<u64> = gone.iter().map(|it| it.task.task).collect();
        assert_eq!(numbers, [6, 5]);
        assert!(gone.iter().all(|it| it.cause == WithdrawalCause::Surplus));
        assert!(surplus(&waiting, Some(6), 100, WAITING_LIMIT_MS).is_empty());
        assert_eq!(surplus(&waiting, Some(0), 100, WAITING_LIMIT_MS).len(), 6);
        assert!(surplus(&waiting, None, 100, WAITING_LIMIT_MS).is_empty());
    }

    #[test]
    fn a_task_that_waits_too_long_goes_and_counts_for_the_surplus() {
        let waiting = [task(0, 1), task(900_000, 2), task(900_001, 3)];
        let at = |now| {
            let gone = surplus(&waiting, Some(2), now, WAITING_LIMIT_MS);
            gone.iter().map(|it| (it.task.task, it.cause)).collect::<Vec<_>>()
        };
        assert_eq!(at(900_000), [(3, WithdrawalCause::Surplus)]);
        assert_eq!(at(900_001), [(1, WithdrawalCause::TooLong)]);
    }

    #[test]
    fn a_test_task_is_no_surplus() {
        let waiting = [SentTask { is_exempt: true, ..task(20, 1) }, task(10, 2)];
        let gone = surplus(&waiting, Some(1), 100, WAITING_LIMIT_MS);
        assert_eq!(gone.iter().map(|it| it.task.task).collect::<Vec<_>>(), [2]);
    }
}
