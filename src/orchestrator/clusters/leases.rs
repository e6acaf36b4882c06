//! Leases of batches, as the router knows them.
//!
//! A restart of the router begins the wait anew: an earlier life may have renewed a lease until its
//! last moment.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::mpsc;

use super::router::{BrokenPass, ask};
use crate::grid::ForwardingLease;
use crate::model::{Name, count};
use crate::orchestrator::book::{Book, ForwardingView};
use crate::orchestrator::drive::BookRequest;
use crate::orchestrator::forwarding::GridRequest;
use crate::orchestrator::store::ClusterRow;
use crate::orchestrator::wire::{TaskResult, TaskSpec};

/// Leases of batches.
#[derive(Debug, Default)]
pub(super) struct BatchLeases {
    /// Time of the last message that may have renewed the lease of a batch, by the router's clock.
    sent: BTreeMap<u64, u64>,
    /// Clusters on record. `None`: not read yet.
    clusters: Option<BTreeMap<Name, ClusterRow>>,
}

impl BatchLeases {
    /// True if the clusters were read from the record.
    pub(super) fn is_loaded(&self) -> bool {
        self.clusters.is_some()
    }

    /// Takes the clusters on record.
    pub(super) fn load(&mut self, clusters: BTreeMap<Name, ClusterRow>) {
        self.clusters = Some(clusters);
    }

    /// Notes messages that may have renewed leases: each batch, with the time of its message.
    pub(super) fn renewed(&mut self, batches: &[(u64, u64)]) {
        self.sent.extend(batches.iter().copied());
    }

    /// Puts the lease of a cluster's slots on record, if it is the longest so far. It has to be there
    /// before a task leaves, since a silent cluster does not tell it.
    pub(super) async fn learn(
        &mut self,
        cluster: &Name,
        slot_lease_ms: u64,
        requests: &mpsc::Sender<BookRequest>,
    ) -> Result<(), BrokenPass> {
        let row = self.clusters.get_or_insert_default().entry(cluster.clone()).or_default();
        if slot_lease_ms <= row.slot_lease_ms {
            return Ok(());
        }
        row.slot_lease_ms = slot_lease_ms;
        let cluster = cluster.clone();
        ask(requests, |reply| GridRequest::SlotLease(cluster, slot_lease_ms, reply)).await
    }

    /// Ends of the tasks that cannot run on their clusters any more, as these are silent and the
    /// leases ran out. `heard`: the clusters that answer.
    pub(super) fn over(
        &mut self,
        view: &ForwardingView,
        heard: &BTreeSet<&Name>,
        now_ms: u64,
    ) -> Vec<TaskResult> {
        let open: BTreeSet<u64> = view.batches.iter().map(|batch| batch.batch).collect();
        self.sent.retain(|batch, _| open.contains(batch));
        let mut over = Vec::new();
        for batch in &view.batches {
            let sent_ms = *self.sent.entry(batch.batch).or_insert(now_ms);
            let Some(lease_ms) = batch.lease_ms.filter(|_| !heard.contains(&batch.cluster)) else {
                continue;
            };
            let known = self.clusters.as_ref().and_then(|known| known.get(&batch.cluster));
            let slot_lease_ms = known.map_or(0, |row| row.slot_lease_ms);
            let Some(task) = view.campaign(batch.campaign).map(|it| &it.spec.task) else {
                continue;
            };
            let Some(unheard_ms) = unheard_ms(task, count(&batch.tasks)) else { continue };
            if slot_lease_ms == 0 {
                continue;
            }
            let grace_ms = task.grace_ms;
            let lease = ForwardingLease { lease_ms, slot_lease_ms, grace_ms, unheard_ms };
            if lease.is_over(sent_ms, now_ms) {
                let (cluster, campaign, batch_number) =
                    (&batch.cluster, batch.campaign, batch.batch);
                tracing::warn!(%cluster, campaign, batch = batch_number, "its lease ran out; its tasks run elsewhere");
                over.extend(batch.tasks.iter().map(Book::given_up));
            }
        }
        over
    }
}

/// Longest time for which slots go on with the tasks of a batch after the end of their lease, in milliseconds.
/// `None`: there is no bound. Slots with `on_unheard = "finish"` work to the end of their queues, where each task
/// has its time limit; in the worst case a single slot has all tasks of the batch.
fn unheard_ms(task: &TaskSpec, tasks: u64) -> Option<u64> {
    if !task.finishes_unheard {
        return Some(0);
    }
    if task.prologue.is_some() || task.epilogue.is_some() {
        // Programs of slots have no time limit.
        return None;
    }
    Some(task.time_limit_ms?.saturating_add(task.grace_ms).saturating_mul(tasks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::spec::CampaignSpec;
    use crate::orchestrator::wire::Command;

    #[test]
    fn tasks_that_finish_unheard_are_waited_for_as_long_as_their_time_limits_last() {
        let spec = |text: &str| CampaignSpec::read(toml::from_str(text).unwrap()).unwrap().0.task;
        let base = "command = [\"a\"]\nmemory = \"1GB\"\ngrace = \"5s\"\n";
        let finish = format!("{base}on_unheard = \"finish\"\n");
        let limited = format!("{finish}time_limit = \"10m\"\n");
        assert_eq!(unheard_ms(&spec(base), 3), Some(0));
        assert_eq!(unheard_ms(&spec(&finish), 3), None, "only the cluster or an operator ends it");
        assert_eq!(unheard_ms(&spec(&limited), 3), Some(3 * 605_000));
        let prologue = Some(Command::Argv(vec!["x".to_owned()]));
        assert_eq!(unheard_ms(&TaskSpec { prologue, ..spec(&limited) }, 3), None);
    }
}
