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

use super::away::AwayState;
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

/// Tasks of a campaign that leave for a cluster.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The campaign.
    pub campaign: u64,
    /// Name of the cluster.
    pub cluster: Name,
    /// Most tasks that leave.
    pub most: u64,
    /// Affinities below 0 of its tasks to the cluster.
    pub affinities: BTreeMap<u64, i64>,
    /// Lease of the tasks, in milliseconds. `None`: the cluster knows no leases.
    pub lease_ms: Option<u64>,
}

/// A change of forwarded tasks.
#[derive(Clone, Debug)]
pub enum Forwarding {
    /// Tasks of a campaign leave for a cluster.
    Leave(Departure),
    /// All clusters that take part in a test have a task of it: the campaign, and the tasks that are
    /// kept for the own cluster. Further tasks are dropped.
    Tested(u64, u64),
    /// Attempts began on their cluster.
    Begun(Vec<AttemptId>),
    /// Attempts ended on their cluster, or were withdrawn.
    Ended(Vec<TaskResult>),
    /// A cluster refuses the tasks of a campaign, for this reason.
    Refused(u64, Name, String),
    /// An operator declares a cluster lost: no task runs there any more.
    Lost(Name),
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
    /// True if the campaign is a test whose clusters are not chosen yet.
    pub waits_for_router: bool,
    /// True if no task begins any more, and running ones end.
    pub is_ending: bool,
    /// Mean time of an ended task, in milliseconds, and number of ended tasks.
    pub ended: (u64, u64),
    /// State on the other clusters.
    pub away: AwayState,
}

/// All that the router needs from the book.
#[derive(Clone, Debug, Default)]
pub struct ForwardingView {
    /// Campaigns whose tasks may be forwarded, by number.
    pub campaigns: Vec<ForwardableCampaign>,
    /// Batches, by number.
    pub batches: Vec<ForwardedBatch>,
    /// Open events of clusters: the sentence of each, by the name of the cluster. No task begins there.
    pub events: BTreeMap<Name, String>,
}

impl ForwardingView {
    /// A campaign whose tasks may be forwarded.
    pub fn campaign(&self, id: u64) -> Option<&ForwardableCampaign> {
        let at = self.campaigns.binary_search_by_key(&id, |campaign| campaign.id);
        at.ok().and_then(|at| self.campaigns.get(at))
    }
}

impl Campaign {
    /// True if tasks may leave. A gang begins as a whole, a kept task stays where it is, and kept
    /// standard input is at this orchestrator. A prologue or epilogue stays on its cluster.
    pub(super) fn may_leave(&self) -> bool {
        let has_input = matches!(self.spec.task.stdin, Stdin::Kept { .. });
        let is_hook_here = self.facts.hook_of.is_some() && self.facts.hook_cluster.is_none();
        let is_whole = self.spec.gang.is_some() || self.spec.keep || has_input || is_hook_here;
        !is_whole && self.spec.nodes.is_empty()
    }

    /// True if the router has not yet chosen the clusters of a test. A test of a single task needs no choice.
    pub(super) fn waits_for_router(&self) -> bool {
        self.spec.kind == CampaignType::Test && 1 < self.cursor.left()
    }

    /// Drops untouched tasks, all but `kept`.
    fn drop_untouched(&mut self, kept: u64) {
        let before = self.cursor.left();
        // A task that was touched out of turn is not untouched: it stays behind the limit.
        while kept < self.cursor.left() {
            self.cursor.limit -= 1;
        }
        self.facts.dropped += before - self.cursor.left();
    }
}

impl Book {
    /// Enters a change of forwarded tasks.
    pub(super) fn forward(&mut self, change: Forwarding, now: Now) {
        match change {
            Forwarding::Leave(departure) => self.send_away(&departure, now),
            Forwarding::Tested(id, kept) => {
                if let Some(campaign) = self.campaigns.get_mut(&id) {
                    campaign.drop_untouched(kept);
                    self.dirty.settle.insert(id);
                }
            }
            Forwarding::Begun(ids) => ids.into_iter().for_each(|id| self.begun_away(id)),
            Forwarding::Refused(campaign, cluster, why) => {
                self.refused_away(campaign, &cluster, &why, now);
            }
            Forwarding::Lost(cluster) => {
                let batches = self.forwarding().batches.into_iter();
                let there = batches.filter(|batch| batch.cluster == cluster);
                let results = there.flat_map(|batch| batch.tasks);
                let results = results.map(|task| Book::given_up(&task)).collect();
                self.forward(Forwarding::Ended(results), now);
            }
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

    fn send_away(&mut self, departure: &Departure, now: Now) {
        let Departure { campaign: id, cluster, most, affinities, lease_ms } = departure;
        let Some(campaign) = self.campaigns.get_mut(id) else { return };
        let only = campaign.facts.hook_cluster.as_ref();
        let is_meant = only.is_none_or(|only| only == cluster) && campaign.is_prepared_on(cluster);
        if !campaign.may_begin_away() || !campaign.may_leave() || !is_meant {
            return;
        }
        if campaign.spec.cluster_epilogue.is_some() {
            campaign.facts.prepared.insert(cluster.clone());
        }
        let step = (0..crate::model::count(&campaign.steps)).find(|at| 0 < campaign.queued(*at));
        let Some(step) = step else { return };
        let taken = campaign.take_for(step, *most, affinities);
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
            if let Some(lease_ms) = *lease_ms {
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
        self.dirty.settle.insert(*id);
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
                    .filter(|_| campaign.may_begin_away())
                    .map_or(0, |step| campaign.queued(step.work.step)),
                memory_mb: step.map_or(campaign.spec.memory_mb, |step| step.work.memory_mb),
                waits_for_router: campaign.waits_for_router(),
                is_ending: facts.state == CampaignState::Cancelling,
                ended: (facts.ended_ms.checked_div(facts.ended).unwrap_or(0), facts.ended),
                away: self.away_state(campaign),
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
        ForwardingView {
            campaigns: campaigns.collect(),
            batches: batches.into_values().collect(),
            events: self.events_of_clusters(),
        }
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
