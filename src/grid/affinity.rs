//! Affinity of tasks to clusters: it falls with each failure and each long wait on a cluster.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::model::Name;

/// Time after which affinities begin anew, in milliseconds.
pub const AFFINITY_PERIOD_MS: u64 = 3_600_000;

/// Affinities of tasks to clusters, by campaign, task and cluster. An absent affinity is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinities {
    by_task: BTreeMap<(u64, u64, Name), i64>,
    /// Time of the last reset, in milliseconds of the caller's clock.
    reset_ms: u64,
}

impl Affinities {
    /// Lowers the affinity of a task after a failure, a limit or a long wait on the cluster.
    pub fn lower(&mut self, campaign: u64, task: u64, cluster: &Name) {
        let affinity = self.by_task.entry((campaign, task, cluster.clone())).or_default();
        *affinity = affinity.saturating_sub(1);
    }

    /// Returns the affinity of a task to a cluster: 0 or less.
    pub fn of(&self, campaign: u64, task: u64, cluster: &Name) -> i64 {
        self.by_task.get(&(campaign, task, cluster.clone())).copied().unwrap_or(0)
    }

    /// Stored affinities, whose period began at time `reset_ms`.
    pub fn stored(by_task: BTreeMap<(u64, u64, Name), i64>, reset_ms: u64) -> Affinities {
        Affinities { by_task, reset_ms }
    }

    /// Begin of the period, in milliseconds of the caller's clock.
    pub fn reset_ms(&self) -> u64 {
        self.reset_ms
    }

    /// All affinities below 0.
    pub fn all(&self) -> &BTreeMap<(u64, u64, Name), i64> {
        &self.by_task
    }

    /// Forgets all affinities once their period is over. Returns true if it did.
    pub fn reset(&mut self, now_ms: u64) -> bool {
        let is_due = AFFINITY_PERIOD_MS <= now_ms.saturating_sub(self.reset_ms);
        if is_due {
            self.reset_ms = now_ms;
            self.by_task.clear();
        }
        is_due
    }

    /// Forgets the affinities of a campaign that has ended.
    pub fn forget(&mut self, campaign: u64) {
        self.by_task.retain(|(of, _, _), _| *of != campaign);
    }

    /// Affinities below 0 of a campaign's tasks to a cluster, by task.
    pub fn on(&self, campaign: u64, cluster: &Name) -> BTreeMap<u64, i64> {
        let first = (campaign, 0, Name::default());
        let own = self.by_task.range(first..).take_while(|((of, _, _), _)| *of == campaign);
        let own = own.filter(|((_, _, at), _)| at == cluster);
        own.map(|((_, task, _), affinity)| (*task, *affinity)).collect()
    }
}

/// Puts queued tasks into the order in which a cluster gets them: by priority, affinity to the
/// cluster, and number. `queued` has the priority and the number of each task. `affinities`: those
/// below 0, by task.
pub fn by_affinity(affinities: &BTreeMap<u64, i64>, mut queued: Vec<(u8, u64)>) -> Vec<(u8, u64)> {
    let affinity = |task: &u64| affinities.get(task).copied().unwrap_or(0);
    queued.sort_by_key(|(priority, task)| (Reverse((*priority, affinity(task))), *task));
    queued
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_makes_the_next_choice_differ_until_the_reset() {
        let (here, there): (Name, Name) = ("lyon".into(), "grenoble".into());
        let mut affinities = Affinities::default();
        let queued = vec![(20, 4), (20, 7), (10, 1), (30, 9)];
        let order = |affinities: &Affinities, cluster: &Name| {
            let order = by_affinity(&affinities.on(1, cluster), queued.clone());
            order.into_iter().map(|(_, task)| task).collect::<Vec<_>>()
        };
        assert_eq!(order(&affinities, &here), [9, 4, 7, 1]);
        affinities.lower(1, 4, &here);
        assert_eq!(order(&affinities, &here), [9, 7, 4, 1]);
        assert_eq!(order(&affinities, &there), [9, 4, 7, 1]);
        assert!(!affinities.reset(AFFINITY_PERIOD_MS - 1));
        assert_eq!(affinities.of(1, 4, &here), -1);
        assert!(affinities.reset(AFFINITY_PERIOD_MS));
        assert_eq!(order(&affinities, &here), [9, 4, 7, 1]);
    }
}
