//! Tasks that may run twice: a task of a silent node begins again at once, and the first result
//! counts.
//!
//! An attempt is *overtaken* once its task is queued again without it, or is final. It stays in its
//! slot, for it may run. If its node reports again before another attempt began, it becomes the
//! task's current attempt again. If its task has become final, the node is ordered to end the
//! attempt. The book then stores its result as superseded.

use super::bag::AGAIN;
use super::campaigns::Campaign;
use super::rows::{Note, SlotState, TaskRow, TaskState};
use super::{Book, Now, attempt_of, tries};
use crate::model::counted;
use crate::orchestrator::wire::{AttemptId, Reason, TaskResult};

/// A node is silent after so long without an exchange, in milliseconds: it exchanges every 25 s.
const LONGEST_SILENCE_MS: u64 = 60_000;

impl Campaign {
    /// True if the task of an attempt waits for this attempt.
    pub(super) fn is_current(&self, share: u64, id: AttemptId) -> bool {
        let row = self.tasks.get(&id.task);
        row.is_some_and(|row| row.share == Some(share) && attempt_of(row) == id)
    }

    /// True if a slot should run an attempt: the task waits for it, or it is a copy.
    pub(super) fn is_meant(&self, share: u64, id: AttemptId) -> bool {
        self.is_current(share, id) || self.is_copy(id)
    }

    /// The task after an attempt in a slot ended. `None`: the result does not count.
    pub(super) fn after(&self, share: u64, result: &TaskResult) -> Option<TaskRow> {
        let row = self.tasks.get(&result.task.task)?;
        let mut next = row.clone();
        tries::enter(&mut next, result, &self.spec, self.facts.ending);
        if self.is_current(share, result.task) {
            return Some(next);
        }
        // The orchestrator ordered the end of the attempt, so its result does not concern the task.
        if matches!(result.why, Reason::Cancelled | Reason::Superseded) {
            return None;
        }
        if next.state.is_final() || row.state == TaskState::Queued {
            return Some(next);
        }
        // The task goes on with another attempt.
        let TaskRow { tries, losses, resubmits, .. } = next;
        Some(TaskRow { tries, losses, resubmits, ..row.clone() })
    }
}

impl Book {
    /// After how long without an exchange a node is silent, in milliseconds: at most a minute, and half
    /// of the lease.
    pub fn silence(&self) -> u64 {
        (self.settings.lease_ms >> 1).min(LONGEST_SILENCE_MS)
    }

    /// Queues the tasks of silent nodes again that may run twice.
    pub(super) fn overtake(&mut self, now: Now) {
        let is_silent = |slot: &&super::Slot| {
            slot.is_told && !slot.is_gone() && self.silence() < now.ms.saturating_sub(slot.renewed)
        };
        let mut found: Vec<(u64, Vec<AttemptId>)> = Vec::new();
        for slot in self.slots.values().filter(is_silent) {
            let Some(campaign) = self.campaigns.get(&slot.row.campaign) else { continue };
            if !campaign.spec.may_run_twice || campaign.facts.ending.is_some() {
                continue;
            }
            let share = slot.row.share;
            let is_wanted = |id: &&AttemptId| {
                let row = campaign.tasks.get(&id.task);
                let has_copy = row.is_some_and(|row| row.cancel || row.live.is_some());
                campaign.is_current(share, **id) && !has_copy
            };
            let ids: Vec<AttemptId> = slot.attempts.keys().filter(is_wanted).copied().collect();
            if !ids.is_empty() {
                found.push((share, ids));
            }
        }
        for (share, ids) in found {
            self.overtake_slot(share, &ids);
        }
    }

    fn overtake_slot(&mut self, share: u64, ids: &[AttemptId]) {
        let Some(slot) = self.slots.get(&share) else { return };
        let Some(campaign) = self.campaigns.get_mut(&slot.row.campaign) else { return };
        for id in ids {
            let Some(row) = campaign.displace(id.task) else { continue };
            let row = TaskRow { state: TaskState::Queued, priority: AGAIN, share: None, ..row };
            self.dirty.tasks.insert((id.campaign, id.task), row.clone());
            campaign.place(row);
        }
        let (id, node) = (slot.row.campaign, slot.row.node.clone());
        let tasks = counted(crate::model::count(ids), "task");
        let text = format!(
            "slot {share} on {node} is silent: {tasks} of it may run twice and begin again"
        );
        let (node, code) = (Some(node), "node-silent");
        self.dirty.notes.push(Note { campaign: id, task: None, node, code, text });
        self.dirty.settle.insert(id);
    }

    /// Makes attempts that a slot still has the attempts of their tasks again, where none began since.
    pub(super) fn take_back(&mut self, share: u64) {
        let Some(slot) = self.slots.get(&share).filter(|slot| slot.is_open()) else { return };
        let Some(campaign) = self.campaigns.get_mut(&slot.row.campaign) else { return };
        if !campaign.spec.may_run_twice {
            return;
        }
        for (id, held) in slot.attempts.iter().filter(|(_, held)| held.is_listed) {
            let row = campaign.tasks.get(&id.task);
            let is_free = row.is_some_and(|row| {
                row.state == TaskState::Queued && row.attempt == id.attempt && !row.cancel
            });
            if !is_free {
                continue;
            }
            let Some(row) = campaign.displace(id.task) else { continue };
            let has_begun = held.begun.is_some();
            let state = if has_begun { TaskState::Running } else { TaskState::Assigned };
            let row = TaskRow { state, share: Some(share), ..row };
            self.dirty.tasks.insert((id.campaign, id.task), row.clone());
            campaign.place(row);
            self.dirty.settle.insert(id.campaign);
        }
    }

    /// Orders slots to end attempts of a task that became final.
    pub(super) fn tell_losers(&mut self, campaign: u64, task: u64) {
        let may_run_twice =
            self.campaigns.get(&campaign).is_some_and(|campaign| campaign.spec.may_run_twice);
        if !may_run_twice {
            return;
        }
        let attempt = |attempt| AttemptId { campaign, task, attempt };
        let range = attempt(0)..=attempt(u64::MAX);
        for slot in self.slots.values_mut().filter(|slot| slot.row.campaign == campaign) {
            if slot.is_gone() || slot.attempts.range(range.clone()).next().is_none() {
                continue;
            }
            slot.row.order += 1;
            self.dirty.slots.insert(slot.row.share);
            self.dirty.wake.insert(slot.row.node.clone());
        }
    }

    /// Attempts in the slots of each work whose tasks go on without them. They have their slots to
    /// themselves, so the resource manager is told of them.
    pub(super) fn overtaken(&self) -> std::collections::BTreeMap<u64, u64> {
        let mut overtaken = std::collections::BTreeMap::new();
        for slot in self.slots.values().filter(|slot| slot.row.state != SlotState::Gone) {
            let campaign = self.campaigns.get(&slot.row.campaign);
            let Some(campaign) = campaign.filter(|campaign| campaign.spec.may_run_twice) else {
                continue;
            };
            let lives = |id: &&AttemptId| {
                campaign.tasks.contains_key(&id.task) && !campaign.is_current(slot.row.share, **id)
            };
            let count = crate::model::count(slot.attempts.keys().filter(lives));
            *overtaken.entry(slot.row.work).or_default() += count;
        }
        overtaken
    }
}
