//! The last step of a pass: tasks come back from a cluster with too many waiting tasks.

use std::collections::{BTreeMap, BTreeSet};

use super::load::{ClusterLoads, arrives};
use crate::grid::{SentTask, WAITING_LIMIT_MS, WithdrawalCause, surplus};
use crate::orchestrator::book::ForwardedBatch;
use crate::orchestrator::drive::wall_ms;

/// Tasks to take back from a cluster, each as a campaign and a task.
#[derive(Debug, Default)]
pub(super) struct Withdrawals {
    /// All of them.
    pub tasks: BTreeSet<(u64, u64)>,
    /// Tasks that have waited too long.
    pub late: Vec<(u64, u64)>,
}

/// Returns the withdrawals of a cluster: cancelled tasks, tasks that have waited too long, and the
/// surplus over the groups that may wait there. `allowed`: their number; without it there is no
/// surplus.
pub(super) fn withdrawals(
    here: &[&ForwardedBatch],
    loads: &ClusterLoads,
    allowed: Option<u64>,
) -> Withdrawals {
    let mut gone = Withdrawals::default();
    let mut waiting = Vec::new();
    let mut groups: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for batch in here {
        let campaign = batch.campaign;
        let cancelled = batch.tasks.iter().filter(|task| task.is_cancelled);
        gone.tasks.extend(cancelled.map(|task| (campaign, task.id.task)));
        for mut group in loads.waiting_groups(batch) {
            group.retain(|task| !task.is_cancelled && !arrives(task));
            let Some(first) = group.first() else { continue };
            let (sent_ms, task, is_exempt) =
                (first.assigned_ms, first.id.task, loads.is_test(campaign));
            waiting.push(SentTask { sent_ms, campaign, task, is_exempt });
            let tasks = group.iter().map(|it| (campaign, it.id.task)).collect();
            groups.insert((campaign, task), tasks);
        }
    }
    for withdrawal in surplus(&waiting, allowed, wall_ms(), WAITING_LIMIT_MS) {
        let SentTask { campaign, task, .. } = withdrawal.task;
        let Some(tasks) = groups.remove(&(campaign, task)) else { continue };
        gone.tasks.extend(&tasks);
        if withdrawal.cause == WithdrawalCause::TooLong {
            gone.late.extend(tasks);
        }
    }
    gone
}
