//! Requests of owners and operators.

use std::sync::Arc;

use super::bag::AGAIN;
use super::campaigns::Campaign;
use super::notes::history;
use super::rows::{CampaignRow, CampaignState, Ending, TaskRow, TaskState, WorkRow};
use super::{Book, Now};
use crate::orchestrator::spec::{CampaignSpec, CampaignType, HookKind};
use crate::orchestrator::wire::{StopReason, TaskSignal};

/// A campaign to be submitted.
#[derive(Clone, Debug)]
pub struct NewCampaign {
    /// The name of its owner.
    pub owner: String,
    /// The number of its owner at the head, if it is known.
    pub uid: Option<u32>,
    /// The number of its specification.
    pub spec_number: u64,
    /// Specification of the campaign.
    pub spec: Arc<CampaignSpec>,
    /// Prologue and epilogue of the cluster, which are campaigns with the next numbers, in this order.
    pub hooks: Vec<NewHook>,
}

/// A prologue or epilogue of the cluster to be submitted with its campaign.
#[derive(Clone, Debug)]
pub struct NewHook {
    /// Purpose of the program.
    pub kind: HookKind,
    /// The number of its specification.
    pub spec_number: u64,
    /// Specification of its campaign.
    pub spec: Arc<CampaignSpec>,
}

/// Tasks to be queued again.
#[derive(Clone, Debug)]
pub struct Reopened {
    /// The campaign, as it was stored. Not used if the book has it.
    pub campaign: CampaignRow,
    /// Specification of the campaign.
    pub spec: Arc<CampaignSpec>,
    /// The work of its memory steps, as it was stored. Not used if the book has it.
    pub works: Vec<WorkRow>,
    /// The tasks, each final.
    pub tasks: Vec<TaskRow>,
    /// Tasks beyond the cursor that were touched.
    pub beyond: Vec<TaskRow>,
    /// True if untouched tasks that were cancelled with the campaign are queued too.
    pub untouched: bool,
    /// Another size of memory for the tasks, in MiB.
    pub memory_mb: Option<u64>,
}

impl Book {
    pub(super) fn submit(&mut self, new: NewCampaign, now: Now) {
        let NewCampaign { owner, uid, hooks, .. } = new.clone();
        let id = self.enter(new, None, now);
        for NewHook { kind, spec_number, spec } in hooks {
            let new =
                NewCampaign { owner: owner.clone(), uid, spec_number, spec, hooks: Vec::new() };
            let hook = self.enter(new, Some(id), now);
            let Some(campaign) = self.campaigns.get_mut(&id) else { continue };
            match kind {
                HookKind::Prologue => drop(campaign.facts.waits_for.insert(hook)),
                HookKind::Epilogue => campaign.facts.epilogue = Some(hook),
            }
        }
    }

    /// Enters a new campaign, which may be a prologue or epilogue of another.
    pub(super) fn enter(&mut self, new: NewCampaign, hook_of: Option<u64>, now: Now) -> u64 {
        let id = self.next;
        self.next += 1;
        let count = new.spec.tasks.count;
        // The clock on the wall may jump back: what came later is listed and served as later.
        let latest = self.campaigns.values().next_back();
        let earliest_ms = latest.map_or(0, |campaign| campaign.facts.submitted_ms);
        // A test runs a single task on each cluster.
        let is_test = new.spec.kind == CampaignType::Test;
        let limit = if is_test { count.min(self.settings.clusters.max(1)) } else { count };
        let facts = CampaignRow {
            id,
            owner: new.owner,
            uid: new.uid,
            spec: new.spec_number,
            total: count,
            submitted_ms: now.wall_ms.max(earliest_ms),
            state: CampaignState::Running,
            ending: None,
            taken: 0,
            limit,
            done: 0,
            failed: 0,
            cancelled: 0,
            dropped: count - limit,
            init_fails: 0,
            has_begun: false,
            ended_ms: 0,
            ended: 0,
            prepared_ms: 0,
            rss_mb: 0,
            verdict: None,
            waits_for: new.spec.after.iter().copied().collect(),
            opens_ms: None,
            hook_of,
            epilogue: None,
            hook_cluster: None,
            prepared: std::collections::BTreeSet::new(),
            epilogues: std::collections::BTreeSet::new(),
        };
        let mut campaign = Campaign::new(facts, new.spec, self.settings.routes());
        let step = campaign.step_mut(0);
        step.work = WorkRow { number: Some(id), ..step.work };
        self.dirty.works.insert((id, 0), step.work);
        self.campaigns.insert(id, campaign);
        let text = format!("submitted, {}", crate::model::counted(count, "task"));
        self.dirty.notes.push(history(id, "submitted", &text));
        self.dirty.next = true;
        self.dirty.settle.insert(id);
        id
    }

    pub(super) fn suspend(&mut self, id: u64, at_once: bool) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        if campaign.facts.ending.is_none() {
            campaign.facts.state = CampaignState::Suspended;
            self.dirty.notes.push(history(id, "suspended", "suspended"));
            self.stop_slots(id, StopReason::Drained, !at_once);
            self.dirty.settle.insert(id);
        }
    }

    pub(super) fn resume(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        if campaign.facts.ending.is_none() {
            if campaign.facts.state == CampaignState::Waiting || campaign.is_unprepared() {
                // The owner does not want to wait for other campaigns any more.
                campaign.facts.waits_for.clear();
            }
            campaign.facts.state = CampaignState::Running;
            campaign.facts.init_fails = 0;
            self.dirty.notes.push(history(id, "resumed", "resumed"));
            self.give_up_epilogue(id);
            self.dirty.settle.insert(id);
        }
    }

    /// Ends a campaign: queued tasks are cancelled, its slots are stopped.
    pub(super) fn cancel(&mut self, id: u64, why: Ending) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        if campaign.facts.ending.is_some() {
            return;
        }
        campaign.end(why);
        let text = match why {
            Ending::Cancelled => "cancelled",
            Ending::MaxFails => {
                "more tasks failed than `max_fails` allows; all other tasks are cancelled"
            }
        };
        self.dirty.notes.push(history(id, "ending", text));
        // Ranks that a malleable gang does not have now get the end of the others.
        let is_left = campaign.is_malleable() && campaign.begun_ranks().next().is_some();
        let steps = campaign.all_steps().filter(|_| !is_left);
        let queued: Vec<u64> = steps.flat_map(|step| step.queue.tasks()).collect();
        for task in queued {
            if let Some(row) = campaign.displace(task) {
                let row = TaskRow { state: TaskState::Cancelled, ..row };
                self.dirty.tasks.insert((id, task), row.clone());
                campaign.place(row);
            }
        }
        self.stop_slots(id, StopReason::Cancelled, false);
        self.dirty.settle.insert(id);
        self.cancel_hooks(id);
    }

    /// Orders all slots of a campaign to stop.
    pub(super) fn stop_slots(&mut self, id: u64, why: StopReason, drains: bool) {
        let of_campaign = self.slots.values().filter(|slot| slot.row.campaign == id);
        let live = of_campaign.filter(|slot| !slot.is_gone());
        let shares: Vec<u64> = live.map(|slot| slot.row.share).collect();
        for share in shares {
            // A slot that no node knows of holds no attempt, so no time is written down.
            self.stop_slot(share, why, drains, Now::default());
        }
    }

    pub(super) fn cancel_task(&mut self, id: u64, task: u64) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        if campaign.spec.gang.is_some() {
            // Ranks end together, so the end of one is the end of the campaign.
            return self.cancel(id, Ending::Cancelled);
        }
        let row = if campaign.cursor.holds(task) {
            campaign.cursor.skip(task);
            Some(campaign.fresh(task))
        } else {
            campaign.displace(task)
        };
        let Some(mut row) = row else { return };
        match row.share {
            None => row.state = TaskState::Cancelled,
            Some(share) => {
                row.cancel = true;
                if let Some(slot) = self.slots.get_mut(&share) {
                    slot.row.order += 1;
                    self.dirty.slots.insert(share);
                    self.dirty.wake.insert(slot.row.node.clone());
                }
            }
        }
        self.dirty.tasks.insert((id, task), row.clone());
        campaign.place(row);
        self.tell_losers(id, task);
        self.dirty.settle.insert(id);
    }

    pub(super) fn signal(&mut self, id: u64, task: u64, signal: u8) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        let is_everywhere = campaign.spec.gang.as_ref().is_some_and(|gang| gang.every_node);
        let is_meant =
            |row: &&TaskRow| row.state == TaskState::Running && (is_everywhere || row.task == task);
        for row in campaign.tasks.values().filter(is_meant) {
            let slot = row.share.and_then(|share| self.slots.get_mut(&share));
            let Some(slot) = slot else { continue };
            slot.row.order += 1;
            let signal = TaskSignal { task: super::attempt_of(row), signal };
            slot.signals.push((slot.row.order, signal));
            self.dirty.slots.insert(slot.row.share);
            self.dirty.wake.insert(slot.row.node.clone());
        }
    }

    /// Queues final tasks again. A campaign that ended runs again.
    pub(super) fn reopen(&mut self, reopened: Reopened) {
        let Reopened { campaign: row, spec, works, tasks, beyond, untouched, memory_mb } = reopened;
        let id = row.id;
        self.dirty.notes.push(history(id, "resubmitted", "tasks are queued again"));
        let routes = self.settings.routes();
        let campaign = self.campaigns.entry(id).or_insert_with(|| {
            let mut campaign = Campaign::new(row, spec, routes);
            for work in works {
                campaign.step_mut(work.step).work = work;
            }
            for row in &beyond {
                campaign.cursor.skip(row.task);
            }
            campaign
        });
        let facts = &mut campaign.facts;
        (facts.ending, facts.state, facts.init_fails) = (None, CampaignState::Running, 0);
        if untouched && campaign.spec.kind == CampaignType::Default {
            let cut = campaign.cursor.left();
            campaign.cursor.limit = campaign.spec.tasks.count;
            let back = campaign.cursor.left() - cut;
            campaign.facts.cancelled = campaign.facts.cancelled.saturating_sub(back);
        }
        let step = memory_mb.map(|memory_mb| campaign.step_of(memory_mb));
        for row in tasks.into_iter().filter(|row| row.state.is_final()) {
            let facts = &mut campaign.facts;
            let counter = match row.state {
                TaskState::Failed => &mut facts.failed,
                TaskState::Dropped => &mut facts.dropped,
                TaskState::Done => &mut facts.done,
                TaskState::Cancelled
                | TaskState::Queued
                | TaskState::Assigned
                | TaskState::Running => &mut facts.cancelled,
            };
            *counter = counter.saturating_sub(1);
            // An attempt of that number may still be about to end in a slot.
            let is_open = self.open.contains_key(&super::attempt_of(&row));
            let row = TaskRow {
                attempt: row.attempt + u64::from(is_open),
                state: TaskState::Queued,
                priority: AGAIN,
                tries: 0,
                losses: 0,
                resubmits: 0,
                cancel: false,
                share: None,
                step: step.unwrap_or(row.step),
                ..row
            };
            self.dirty.tasks.insert((id, row.task), row.clone());
            campaign.place(row);
        }
        self.dirty.settle.insert(id);
    }
}
