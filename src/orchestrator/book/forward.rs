//! Tasks that were forwarded to other clusters.
//!
//! A forwarded task has an attempt, but no slot of this orchestrator. The tasks of a *batch* are
//! consecutive, of the same campaign and memory step, and go to the same cluster as a child
//! campaign. The number of a batch comes from the counter of campaigns and is never used again. With
//! the grid's identity it is the key of the child campaign, so a cluster takes a batch once.
//!
//! The attempt ends by a report of its cluster: a result, or a confirmed withdrawal. It also ends once
//! the lease of its batch has run out there. Until then the task begins nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::campaigns::Campaign;
use super::renewals::LeaseRow;
use super::rows::{AttemptRow, CampaignState, TaskRow, TaskState};
use super::{Book, Now, attempt_of};
use crate::model::Name;
use crate::orchestrator::spec::{CampaignSpec, CampaignType};
use crate::orchestrator::wire::{AttemptId, Reason, Stdin, TaskResult};

/// Shares from this number on are batches. No resource manager counts so far.
pub const FIRST_BATCH: u64 = 1 << 52;

/// True if a share is a batch of forwarded tasks.
pub fn is_batch(share: u64) -> bool {
    FIRST_BATCH <= share
}

/// A change of forwarded tasks.
#[derive(Clone, Debug)]
pub enum Forwarding {
    /// Tasks of a campaign leave for a cluster: the campaign, the cluster and the most tasks. The
    /// last is the lease of the tasks, in milliseconds. `None`: the cluster knows no leases.
    Leave(u64, Name, u64, Option<u64>),
    /// Attempts began on their cluster.
    Begun(Vec<AttemptId>),
    /// Attempts ended on their cluster, or were withdrawn.
    Ended(Vec<TaskResult>),
}

/// A batch of forwarded tasks whose attempts have not all ended.
#[derive(Clone, Debug)]
pub struct ForwardedBatch {
    /// Number of the batch.
    pub batch: u64,
    /// The campaign.
    pub campaign: u64,
    /// Name of the cluster.
    pub cluster: Name,
    /// Lease that the batch was sent with, in milliseconds. `None`: its tasks wait for the cluster.
    pub lease_ms: Option<u64>,
    /// The tasks whose attempts have not ended.
    pub tasks: Vec<ForwardedTask>,
}

/// A forwarded task.
#[derive(Clone, Copy, Debug)]
pub struct ForwardedTask {
    /// The attempt.
    pub id: AttemptId,
    /// True if the cluster has reported its start.
    pub is_running: bool,
    /// True if the attempt has to end.
    pub is_cancelled: bool,
    /// Time of its assignment, in milliseconds since the epoch.
    pub assigned_ms: u64,
}

/// A campaign, as the router needs it.
#[derive(Clone, Debug)]
pub struct ForwardableCampaign {
    /// Number of the campaign.
    pub id: u64,
    /// Tasks in slots of this orchestrator, begun or not.
    pub in_slots: u64,
    /// Owner of the campaign.
    pub owner: String,
    /// Specification of the campaign.
    pub spec: Arc<CampaignSpec>,
    /// Tasks in the bag.
    pub queued: u64,
    /// Memory of a task, in MiB.
    pub memory_mb: u64,
    /// True if no task begins any more, and running ones end.
    pub is_ending: bool,
    /// Mean time of an ended task, in milliseconds, and number of ended tasks.
    pub ended: (u64, u64),
}

/// All that the router needs from the book.
#[derive(Clone, Debug, Default)]
pub struct ForwardingView {
    /// Campaigns whose tasks may be forwarded, by number.
    pub campaigns: Vec<ForwardableCampaign>,
    /// Batches, by number.
    pub batches: Vec<ForwardedBatch>,
}

impl Campaign {
    /// True if tasks may leave. A gang begins as a whole, a kept task stays where it is, and kept
    /// standard input is at this orchestrator. A prologue or epilogue of the cluster runs once, here.
    fn may_leave(&self) -> bool {
        let has_input = matches!(self.spec.task.stdin, Stdin::Kept { .. });
        let has_hook = self.spec.has_cluster_hook() || self.facts.hook_of.is_some();
        let is_whole = self.spec.gang.is_some() || self.spec.keep || has_input || has_hook;
        !is_whole && self.spec.nodes.is_empty() && self.spec.kind == CampaignType::Default
    }
}

impl Book {
    /// Enters a change of forwarded tasks.
    pub(super) fn forward(&mut self, change: Forwarding, now: Now) {
        match change {
            Forwarding::Leave(campaign, cluster, count, lease_ms) => {
                self.send_away(campaign, &cluster, (count, lease_ms), now);
            }
            Forwarding::Begun(ids) => ids.into_iter().for_each(|id| self.begun_away(id)),
            Forwarding::Ended(results) => {
                for result in results {
                    let open = self.open.get(&result.task).filter(|row| is_batch(row.share));
                    // A repeated report changes nothing.
                    if let Some(share) = open.map(|row| row.share) {
                        self.enter_end(share, result, now);
                    }
                }
            }
        }
    }

    fn send_away(
        &mut self,
        id: u64,
        cluster: &Name,
        (count, lease_ms): (u64, Option<u64>),
        now: Now,
    ) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        if !campaign.may_begin() || !campaign.may_leave() {
            return;
        }
        let step = (0..crate::model::count(&campaign.steps)).find(|at| 0 < campaign.queued(*at));
        let Some(step) = step else { return };
        let taken: Vec<u64> = std::iter::repeat_with(|| campaign.take(step))
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .map_while(|task| task)
            .collect();
        let mut last: Option<u64> = None;
        for task in taken {
            let place = campaign.cursor.range.position(task);
            // A gap begins another batch: its child campaign is a range.
            if last.and_then(|last| last.checked_add(1)) != place || place.is_none() {
                self.next += 1;
                self.dirty.next = true;
            }
            last = place;
            let share = FIRST_BATCH + self.next - 1;
            if let Some(lease_ms) = lease_ms {
                self.sent.entry(share).or_insert((lease_ms, 0)).1 += 1;
                let row = LeaseRow { number: share, lease_ms, until_ms: 0 };
                self.dirty.leases.insert(share, Some(row));
            }
            let row = campaign.tasks.remove(&task);
            let row = row.unwrap_or_else(|| campaign.fresh(task));
            let (state, attempt) = (TaskState::Assigned, row.attempt + 1);
            let row = TaskRow { state, attempt, share: Some(share), ..row };
            let (id, node) = (attempt_of(&row), cluster.clone());
            let assigned_ms = now.wall_ms;
            let attempt = AttemptRow { id, share, node, assigned_ms, result: None, ended_ms: None };
            self.open.insert(id, attempt.clone());
            self.dirty.attempts.insert(id, attempt);
            self.dirty.tasks.insert((id.campaign, task), row.clone());
            campaign.place(row);
        }
        self.dirty.settle.insert(id);
    }

    /// Counts an attempt of a batch that ended.
    pub(super) fn come_back(&mut self, share: u64) {
        let Some((_, open)) = self.sent.get_mut(&share) else { return };
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.sent.remove(&share);
            self.dirty.leases.insert(share, None);
        }
    }

    fn begun_away(&mut self, id: AttemptId) {
        let campaign = self.campaigns.get_mut(&id.campaign);
        let task = campaign.and_then(|campaign| campaign.tasks.get_mut(&id.task));
        let Some(task) = task.filter(|task| task.attempt == id.attempt) else { return };
        if task.state == TaskState::Assigned && task.share.is_some_and(is_batch) {
            task.state = TaskState::Running;
            self.dirty.tasks.insert((id.campaign, id.task), task.clone());
            self.dirty.settle.insert(id.campaign);
        }
    }

    /// All that the router needs.
    pub fn forwarding(&self) -> ForwardingView {
        let campaigns = self.campaigns.values().filter(|campaign| campaign.may_leave());
        let campaigns = campaigns.map(|campaign| {
            let facts = &campaign.facts;
            let step = campaign.steps.iter().find(|step| 0 < campaign.queued(step.work.step));
            ForwardableCampaign {
                id: facts.id,
                in_slots: campaign.all_steps().map(|step| step.in_slots).sum(),
                owner: facts.owner.clone(),
                spec: Arc::clone(&campaign.spec),
                queued: step
                    .filter(|_| campaign.may_begin())
                    .map_or(0, |step| campaign.queued(step.work.step)),
                memory_mb: step.map_or(campaign.spec.memory_mb, |step| step.work.memory_mb),
                is_ending: facts.state == CampaignState::Cancelling,
                ended: (facts.ended_ms.checked_div(facts.ended).unwrap_or(0), facts.ended),
            }
        });
        let mut batches: BTreeMap<u64, ForwardedBatch> = BTreeMap::new();
        for row in self.open.values().filter(|row| is_batch(row.share)) {
            let campaign = self.campaigns.get(&row.id.campaign);
            let task = campaign.and_then(|campaign| campaign.tasks.get(&row.id.task));
            let is_ending = campaign.is_none_or(|campaign| campaign.facts.ending.is_some());
            let batch = batches.entry(row.share).or_insert_with(|| ForwardedBatch {
                batch: row.share,
                campaign: row.id.campaign,
                cluster: row.node.clone(),
                lease_ms: self.sent.get(&row.share).map(|(lease_ms, _)| *lease_ms),
                tasks: Vec::new(),
            });
            batch.tasks.push(ForwardedTask {
                id: row.id,
                is_running: task.is_some_and(|task| task.state == TaskState::Running),
                is_cancelled: is_ending || task.is_none_or(|task| task.cancel),
                assigned_ms: row.assigned_ms,
            });
        }
        ForwardingView { campaigns: campaigns.collect(), batches: batches.into_values().collect() }
    }

    /// The end of a forwarded attempt that its cluster confirmed to have withdrawn.
    pub fn withdrawn(id: AttemptId) -> TaskResult {
        let held = super::slots::Held::default();
        super::ends::ended(id, &held, Reason::Returned, Now::default())
    }

    /// The end of a forwarded attempt whose lease has run out. An attempt that is not known to have
    /// begun is not counted.
    pub fn given_up(task: &ForwardedTask) -> TaskResult {
        let why = if task.is_running { Reason::Lost } else { Reason::Returned };
        TaskResult { why, ..Book::withdrawn(task.id) }
    }
}
