//! Copies of the last tasks: free slots of a campaign in the mode `finalise` begin the oldest running
//! tasks again. The first success counts, and the other attempt is ended as superseded.
//!
//! A copy is an attempt with the highest number of its task, while [`TaskRow::live`] names the
//! attempt in the slot of the task. A task gets a single copy for each attempt that counts. If the attempt that
//! counts fails, the copy takes its place; if the copy fails, nothing changes.

use super::campaigns::Campaign;
use super::modes::rules_of;
use super::rows::{AttemptRow, TaskRow, TaskState};
use super::slots::Held;
use super::tries::LOST_LIMIT;
use super::{Book, Now, attempt_of, tries};
use crate::model::{Name, count};
use crate::orchestrator::wire::{AttemptId, TaskResult};

/// A task is late after this many medians. It then gets a slot for its copy, if there is space.
const LATE_MEDIANS: u64 = 3;

/// A running task without a copy.
#[derive(Clone, Debug)]
struct Lone {
    task: u64,
    begun: u64,
    share: u64,
    node: Name,
}

impl Campaign {
    /// True if an attempt is a copy of the attempt that counts.
    pub(super) fn is_copy(&self, id: AttemptId) -> bool {
        let row = self.tasks.get(&id.task);
        row.is_some_and(|row| row.live.is_some() && row.attempt == id.attempt)
    }

    /// True if a task may get a copy. A task that has used up its tries gets none: copies of a task
    /// that always fails would replace each other for ever.
    fn is_lone(&self, row: &TaskRow) -> bool {
        let is_sound =
            row.tries <= self.spec.retries && row.losses < LOST_LIMIT && row.resubmits == 0;
        row.live.is_none() && !row.cancel && is_sound
    }

    /// True if a free slot should begin a copy.
    pub(super) fn wants_copies(&self) -> bool {
        rules_of(self.spec.mode).has_copies
            && self.may_begin()
            && !self.has_queued()
            && self.tasks.values().any(|row| self.is_lone(row))
    }
}

impl Book {
    /// Running tasks of a campaign without a copy, the oldest first.
    fn lone_tasks(&self, campaign: &Campaign) -> Vec<Lone> {
        let slots = self.slots.values().filter(|slot| {
            slot.row.campaign == campaign.facts.id && slot.row.stop.is_none() && !slot.is_gone()
        });
        let of_slot = |slot: &super::Slot| {
            let (share, node) = (slot.row.share, slot.row.node.clone());
            let begun = slot.attempts.iter().filter_map(|(id, held)| Some((*id, held.begun?)));
            let lone = begun.filter(|(id, _)| {
                let row = campaign.tasks.get(&id.task);
                campaign.is_current(share, *id) && row.is_some_and(|row| campaign.is_lone(row))
            });
            let lone =
                lone.map(|(id, begun)| Lone { task: id.task, begun, share, node: node.clone() });
            lone.collect::<Vec<_>>()
        };
        let mut lone: Vec<Lone> = slots.flat_map(of_slot).collect();
        lone.sort_by_key(|one| (one.begun, one.task));
        lone
    }

    /// Gives copies of running tasks to free slots, if the mode of the campaign makes copies.
    pub(super) fn make_copies(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id).filter(|campaign| campaign.wants_copies())
        else {
            return;
        };
        let hungry = self.hungry.range((id, 0)..=(id, u64::MAX));
        let is_free = |share: &u64| {
            let slot = self.slots.get(share).filter(|slot| slot.is_open());
            slot.is_some_and(|slot| {
                let is_waiting = self.nodes.get(&slot.row.node).is_some_and(|it| it.is_waiting);
                is_waiting && 0 < self.bounded(slot.row.share, 1)
            })
        };
        let free: Vec<u64> = hungry.map(|(_, share)| *share).filter(is_free).collect();
        if free.is_empty() {
            return;
        }
        let mut lone = self.lone_tasks(campaign);
        for share in free {
            self.copy_to(share, &mut lone, now);
        }
    }

    /// Begins copies in the free lanes of a slot: of tasks on other nodes first.
    fn copy_to(&mut self, share: u64, lone: &mut Vec<Lone>, now: Now) {
        let Some(slot) = self.slots.get_mut(&share) else { return };
        let Some(campaign) = self.campaigns.get_mut(&slot.row.campaign) else { return };
        let lanes = campaign.spec.lanes.saturating_sub(count(&slot.attempts));
        let memory_mb = campaign.memory_of_slot(&slot.row);
        for _ in 0..lanes.min(slot.want) {
            let fits = |one: &Lone| {
                let row = campaign.tasks.get(&one.task);
                one.share != share
                    && row.is_some_and(|row| campaign.memory_of(row.step) <= memory_mb)
            };
            let elsewhere = |one: &Lone| fits(one) && one.node != slot.row.node;
            let found = lone.iter().position(elsewhere).or_else(|| lone.iter().position(fits));
            let Some(found) = found else { break };
            let one = lone.remove(found);
            let Some(row) = campaign.tasks.get_mut(&one.task) else { continue };
            row.live = Some(row.attempt);
            row.attempt += 1;
            let id = AttemptId { attempt: row.attempt, ..attempt_of(row) };
            self.dirty.tasks.insert((id.campaign, id.task), row.clone());
            slot.attempts.insert(id, Held::default());
            slot.want -= 1;
            slot.row.order += 1;
            let (node, assigned_ms) = (slot.row.node.clone(), now.wall_ms);
            let attempt = AttemptRow {
                id,
                share,
                node: node.clone(),
                assigned_ms,
                result: None,
                ended_ms: None,
            };
            self.open.insert(id, attempt.clone());
            self.dirty.attempts.insert(id, attempt);
            self.dirty.slots.insert(share);
            self.dirty.wake.insert(node);
        }
    }

    /// Enters the end of an attempt of a task, if the task goes on with another attempt. Returns
    /// false if the end concerns the task.
    pub(super) fn end_twin(&mut self, share: u64, result: &TaskResult, now: Now) -> bool {
        let id = result.task;
        let Some(campaign) = self.campaigns.get_mut(&id.campaign) else { return false };
        let row = campaign.tasks.get(&id.task).filter(|row| row.live.is_some() && !row.cancel);
        let Some(row) = row.filter(|_| campaign.facts.ending.is_none()) else { return false };
        let mut next = row.clone();
        tries::enter(&mut next, result, &campaign.spec, None);
        if next.state == TaskState::Done {
            return false;
        }
        if campaign.is_current(share, id) {
            let copy = AttemptId { attempt: row.attempt, ..id };
            let Some(place) = self.open.get(&copy).map(|attempt| attempt.share) else {
                return false;
            };
            let slot = self.slots.get(&place).filter(|slot| !slot.is_gone());
            let Some(held) = slot.and_then(|slot| slot.attempts.get(&copy)) else { return false };
            let begun = held.begun.is_some();
            let state = if begun { TaskState::Running } else { TaskState::Assigned };
            let TaskRow { tries, losses, resubmits, .. } = next;
            let row = campaign.displace(id.task).map(|row| TaskRow {
                state,
                share: Some(place),
                live: None,
                tries,
                losses,
                resubmits,
                ..row
            });
            if let Some(row) = row {
                self.dirty.tasks.insert((id.campaign, id.task), row.clone());
                campaign.place(row);
            }
        } else if !campaign.is_copy(id) {
            return false;
        }
        self.close_attempt(result.clone(), now);
        true
    }

    /// Tells the resource manager of late tasks, if their number changed: each can use a slot for a
    /// copy.
    pub(super) fn note_late_tasks(&mut self, now: Now) {
        let campaigns = self.campaigns.values();
        let copying = campaigns.filter(|it| rules_of(it.spec.mode).has_copies);
        let late: Vec<(u64, u64)> =
            copying.map(|it| (it.facts.id, self.late_tasks(it, now))).collect();
        for (id, late) in late {
            let Some(campaign) = self.campaigns.get_mut(&id) else { continue };
            if campaign.late != late {
                campaign.late = late;
                self.dirty.publish = true;
            }
        }
    }

    /// Number of running tasks without a copy that take longer than three medians, while no task is
    /// queued.
    fn late_tasks(&self, campaign: &Campaign, now: Now) -> u64 {
        let limit = campaign.lengths.median().saturating_mul(LATE_MEDIANS);
        if limit == 0 || !campaign.wants_copies() {
            return 0;
        }
        let is_late = |one: &Lone| limit < now.ms.saturating_sub(one.begun);
        count(self.lone_tasks(campaign).into_iter().filter(is_late))
    }
}
