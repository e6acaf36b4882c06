//! Exchanges with agents: enters the reports of nodes, and builds the orders for their slots.

use std::collections::BTreeSet;

use super::campaigns::Campaign;
use super::ends::{end_word, ended, is_failure, state_of};
use super::gangs::GANG_LINGER_MS;
use super::rows::{AttemptRow, Note, SlotState, TaskState};
use super::slots::Held;
use super::{Book, Now, attempt_of};
use crate::model::{Name, count};
use crate::orchestrator::wire::{
    AttemptId, Exchange, NewTask, Reason, Rung, SlotOrder, SlotReport, SlotStage, SlotStart,
    SlotStop, StopReason,
};

/// Reason to refuse a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeRefusal {
    /// A later exchange of the same life was there before.
    #[error("exchange {number} comes after exchange {last} of the same life; send higher numbers")]
    Old {
        /// Number of the refused exchange.
        number: u64,
        /// The highest number so far.
        last: u64,
    },
    /// The machine has booted, and a lease of forwarded tasks was not renewed since.
    #[error(
        "leases of forwarded tasks wait for their renewal after a reboot of this machine; slots go on, \
         report again in some seconds"
    )]
    InDoubt,
}

/// The orders for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAnswer {
    /// Orders for every slot of the node. Tasks have no parameter yet.
    pub slots: Vec<SlotOrder>,
    /// True if the answer contains something that the node does not know.
    pub has_news: bool,
}

impl Book {
    /// Checks that a report is not older than the last report.
    ///
    /// # Errors
    ///
    /// If it is.
    pub fn check(&self, node: &str, report: &Exchange) -> Result<(), ExchangeRefusal> {
        if self.is_in_doubt() {
            return Err(ExchangeRefusal::InDoubt);
        }
        let known = self.nodes.get(node).filter(|known| known.life == report.life);
        match known {
            Some(known) if report.number < known.number => {
                Err(ExchangeRefusal::Old { number: report.number, last: known.number })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Enters a report.
    pub(super) fn hear(&mut self, name: &Name, report: Exchange, now: Now) {
        let node = self.nodes.entry(name.clone()).or_default();
        node.boot.clone_from(&report.boot);
        node.life.clone_from(&report.life);
        node.number = report.number;
        (node.limits, node.heard) = (Some(report.limits), now.ms);
        node.only_user = report.only_user.as_deref().map(Name::from);
        node.address.clone_from(&report.address);
        (node.is_waiting, node.has_news) = (true, false);
        node.unknown_gone.clear();
        let shares: Vec<u64> = self.shares_of(name);
        for share in &shares {
            if let Some(slot) = self.slots.get_mut(share) {
                slot.is_listed = false;
            }
        }
        for slot in report.slots {
            if shares.contains(&slot.share) {
                self.hear_slot(slot, &report.boot, now);
            } else if slot.state == SlotStage::Gone
                && let Some(node) = self.nodes.get_mut(name)
            {
                let last = slot.results.last().map_or(0, |result| result.number);
                node.unknown_gone.push((slot.share, last));
            }
        }
        for share in shares {
            self.judge(share, &report.boot, now);
        }
    }

    fn shares_of(&self, node: &str) -> Vec<u64> {
        self.by_node.get(node).map(|shares| shares.iter().copied().collect()).unwrap_or_default()
    }

    /// Ends a slot that did not survive a boot of its node, or that its node may not start.
    fn judge(&mut self, share: u64, boot: &str, now: Now) {
        let Some(slot) = self.slots.get(&share).filter(|slot| !slot.is_gone()) else { return };
        if slot.row.boot.as_deref().is_some_and(|known| known != boot) {
            self.lose_slot(share, "the node has booted", now);
            return;
        }
        if slot.is_told || slot.is_reported {
            return;
        }
        let (Some(node), Some(campaign)) =
            (self.nodes.get(&slot.row.node), self.campaigns.get(&slot.row.campaign))
        else {
            return;
        };
        let owner = campaign.facts.owner.as_str();
        let problem = match &node.only_user {
            _ if campaign.spec.needs_kernel_limit && !node.limits.is_some_and(Rung::is_kernel) => {
                "the node has no limit that the kernel enforces".to_owned()
            }
            Some(user) if user != owner => format!("the node runs work of {user} only"),
            Some(_) | None => return,
        };
        self.prepare_failed(share, "no-limit-or-user", &problem);
        self.end_slot(share, &BTreeSet::new(), now);
    }

    fn hear_slot(&mut self, report: SlotReport, boot: &str, now: Now) {
        let share = report.share;
        let Some(slot) = self.slots.get_mut(&share) else { return };
        (slot.is_listed, slot.is_reported, slot.is_told) = (true, true, true);
        if slot.is_gone() {
            return;
        }
        let before = slot.row.clone();
        slot.row.boot.get_or_insert_with(|| boot.to_owned());
        slot.seen_order = report.seen_order;
        slot.signals.retain(|(order, _)| report.seen_order < *order);
        let has_moved = slot.port != report.port;
        (slot.prepared_ms, slot.port) = (report.prepared_ms, report.port);
        let mut ended = Vec::new();
        let running = report.running.iter().map(|one| one.rss_mb);
        let used_mb = running.chain(report.results.iter().map(|result| result.rss_mb)).max();
        slot.used_mb = slot.used_mb.max(used_mb.unwrap_or(0));
        for result in report.results {
            // Numbers between are on record elsewhere, or were never written down.
            if slot.row.acked < result.number {
                slot.row.acked = result.number;
                ended.push(result);
            }
        }
        slot.attempts.values_mut().for_each(|held| held.is_listed = false);
        for id in &report.held {
            if let Some(held) = slot.attempts.get_mut(id) {
                held.is_listed = true;
            }
        }
        if slot.row.stop.is_none() {
            slot.row.state = state_of(report.state);
        }
        slot.want = if slot.is_open() { report.want } else { 0 };
        let (campaign, wants) = (slot.row.campaign, 0 < slot.want);
        if slot.row != before || has_moved {
            self.dirty.slots.insert(share);
            self.dirty.settle.insert(campaign);
        }
        let running: BTreeSet<AttemptId> = report.running.iter().map(|one| one.task).collect();
        for one in &report.running {
            let since = |ms: u64| now.ms.saturating_sub(ms);
            self.begun(share, one.task, since(one.ms), since(one.unsaved_ms), one.has_saved);
        }
        self.take_back(share);
        for result in ended {
            self.first_begun(share, result.why != Reason::Returned);
            self.dirty.slots.insert(share);
            self.end_attempt(share, result, now);
        }
        if report.state == SlotStage::Gone {
            if let Some(end) = report.end.filter(|end| is_failure(*end)) {
                let text = report.text.unwrap_or_else(|| "the slot could not be prepared".into());
                self.prepare_failed(share, end_word(end), &text);
            }
            self.end_slot(share, &running, now);
        } else if wants && self.is_deaf(share) {
            let text = "the agent of the node is of an earlier version, whose slots do not listen for \
                        the other ranks; update it";
            self.prepare_failed(share, "no-port", text);
            self.stop_slot(share, StopReason::VariedOff, false, now);
        } else if wants {
            self.hungry.insert((campaign, share));
            self.dirty.settle.insert(campaign);
        }
    }

    /// True if the slot is for a rank of a gang, and does not listen for further ranks.
    fn is_deaf(&self, share: u64) -> bool {
        let slot = self.slots.get(&share);
        slot.is_some_and(|slot| slot.row.rank.is_some() && slot.port.is_none())
    }

    /// Enters that an attempt runs.
    fn begun(&mut self, share: u64, id: AttemptId, begun: u64, unsaved: u64, has_saved: bool) {
        let Some(slot) = self.slots.get_mut(&share) else { return };
        let Some(held) = slot.attempts.get_mut(&id) else { return };
        let is_new = held.begun.is_none();
        *held = Held { is_listed: true, begun: Some(begun), unsaved_since: unsaved, has_saved };
        if !is_new {
            return;
        }
        if let Some(task) =
            self.campaigns.get_mut(&id.campaign).and_then(|c| c.tasks.get_mut(&id.task))
            && task.state == TaskState::Assigned
            && attempt_of(task) == id
        {
            task.state = TaskState::Running;
            self.dirty.tasks.insert((id.campaign, id.task), task.clone());
        }
        if self.campaigns.get(&id.campaign).is_some_and(Campaign::is_malleable) {
            self.dirty.settle.insert(id.campaign);
        }
        self.first_begun(share, true);
    }

    /// Enters that a slot has begun a task: it could be prepared.
    fn first_begun(&mut self, share: u64, has_begun: bool) {
        let Some(slot) = self.slots.get(&share).filter(|_| has_begun) else { return };
        let Some(campaign) = self.campaigns.get_mut(&slot.row.campaign) else { return };
        let facts = &mut campaign.facts;
        let prepared = slot.prepared_ms.unwrap_or(facts.prepared_ms);
        if !facts.has_begun || 0 < facts.init_fails {
            (facts.has_begun, facts.init_fails, facts.prepared_ms) = (true, 0, prepared);
            self.dirty.settle.insert(slot.row.campaign);
        }
    }

    /// Counts a slot that could not be prepared. After three in a row the campaign is frozen.
    pub(super) fn prepare_failed(&mut self, share: u64, code: &'static str, text: &str) {
        let Some(slot) = self.slots.get(&share) else { return };
        let Some(campaign) = self.campaigns.get_mut(&slot.row.campaign) else { return };
        campaign.facts.init_fails += 1;
        let id = slot.row.campaign;
        let node = Some(slot.row.node.clone());
        let text = format!("slot {share} on {}: {text}", slot.row.node);
        self.dirty.notes.push(Note { campaign: id, task: None, node, code, text });
        self.dirty.settle.insert(id);
    }

    /// Enters that nothing of a slot can run any more. Attempts that it had begun are lost.
    pub(super) fn end_slot(&mut self, share: u64, begun: &BTreeSet<AttemptId>, now: Now) {
        let Some(slot) = self.slots.get_mut(&share).filter(|slot| !slot.is_gone()) else { return };
        slot.row.state = SlotState::Gone;
        slot.want = 0;
        let row = slot.row.clone();
        let left: Vec<(AttemptId, Held)> =
            slot.attempts.iter().map(|(id, held)| (*id, *held)).collect();
        for (id, held) in left {
            let why = if begun.contains(&id) { Reason::Lost } else { Reason::Returned };
            self.end_attempt(share, ended(id, &held, why, now), now);
        }
        self.count_slot(&row, false);
        self.end_kept_work(&row);
        self.hungry.remove(&(row.campaign, share));
        self.dirty.slots.insert(share);
        self.dirty.settle.insert(row.campaign);
        self.dirty.publish = true;
    }

    /// Gives up a slot whose node cannot report its end: all its attempts are lost.
    pub(super) fn lose_slot(&mut self, share: u64, why: &str, now: Now) {
        let Some(slot) = self.slots.get(&share).filter(|slot| !slot.is_gone()) else { return };
        let (campaign, node) = (slot.row.campaign, slot.row.node.clone());
        let text = format!("slot {share} on {node} is lost: {why}");
        let note = Note { campaign, task: None, node: Some(node), code: "slot-lost", text };
        self.dirty.notes.push(note);
        let all = slot.attempts.keys().copied().collect();
        self.end_slot(share, &all, now);
    }

    /// Gives queued tasks to slots of a campaign whose agents wait for an answer.
    pub(super) fn assign_waiting(&mut self, id: u64, now: Now) {
        if self.campaigns.get(&id).is_some_and(|campaign| campaign.spec.gang.is_some()) {
            return self.assign_gang(id, now);
        }
        let hungry = self.hungry.range((id, 0)..=(id, u64::MAX));
        let shares: Vec<u64> = hungry.map(|(_, share)| *share).collect();
        for share in shares {
            self.assign(share, now);
        }
    }

    fn assign(&mut self, share: u64, now: Now) {
        let bound = self.bounded(share, u64::MAX);
        let Some(slot) = self.slots.get_mut(&share).filter(|slot| slot.is_open()) else { return };
        let Some(campaign) = self.campaigns.get_mut(&slot.row.campaign) else { return };
        let is_waiting = self.nodes.get(&slot.row.node).is_some_and(|node| node.is_waiting);
        let (step, queued) = (slot.row.step, campaign.queued(slot.row.step));
        if !is_waiting || !campaign.may_begin() || queued == 0 || campaign.waits_for_router() {
            return;
        }
        // Groups shrink with the queue, so that no slot hoards tasks that another slot could begin.
        // A slot gets half of an even share. At the end of the queue, each free lane gets a single
        // task.
        let free = campaign.spec.lanes.saturating_sub(count(&slot.attempts));
        let half = queued.checked_div(campaign.slots.max(1).saturating_mul(2)).unwrap_or(0);
        let give = slot.want.min(half.max(free)).min(bound);
        for _ in 0..give {
            let Some(task) = campaign.take(step) else { break };
            let row = campaign.tasks.remove(&task);
            let mut row = row.unwrap_or_else(|| campaign.fresh(task));
            (row.state, row.step) = (TaskState::Assigned, step);
            row.attempt += 1;
            (row.share, row.live) = (Some(share), None);
            let id = attempt_of(&row);
            slot.attempts.insert(id, Held::default());
            slot.want -= 1;
            let node = slot.row.node.clone();
            let assigned_ms = now.wall_ms;
            let attempt = AttemptRow { id, share, node, assigned_ms, result: None, ended_ms: None };
            self.open.insert(id, attempt.clone());
            self.dirty.attempts.insert(id, attempt);
            self.dirty.tasks.insert((id.campaign, task), row.clone());
            campaign.place(row);
            self.dirty.campaigns.insert(id.campaign);
        }
        if 0 < give {
            slot.row.order += 1;
            self.dirty.slots.insert(share);
            self.dirty.wake.insert(slot.row.node.clone());
        }
        if slot.want == 0 {
            let campaign = slot.row.campaign;
            self.hungry.remove(&(campaign, share));
        }
    }

    /// Recalls unstarted attempts for slots without an attempt, when no task is queued. A forwarded
    /// campaign gets no more tasks, so its slots without an attempt end and free their memory.
    pub(super) fn rebalance(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        if campaign.has_queued() || !campaign.may_begin() || campaign.spec.gang.is_some() {
            return;
        }
        let lanes = usize::try_from(campaign.spec.lanes).unwrap_or(usize::MAX);
        let hungry = self.hungry.range((id, 0)..=(id, u64::MAX));
        let is_idle = |share: &u64| {
            self.slots.get(share).is_some_and(|slot| slot.attempts.is_empty() && slot.is_open())
        };
        let idle: Vec<u64> = hungry.map(|(_, share)| *share).filter(is_idle).collect();
        if idle.is_empty() {
            return;
        }
        let mut spare: Vec<(u64, AttemptId)> = Vec::new();
        let mut called = 0;
        for (share, slot) in self.slots.iter().filter(|(_, slot)| slot.row.campaign == id) {
            called += slot.recall.len();
            let waiting = slot.attempts.iter().filter(|(id, held)| {
                held.begun.is_none() && held.is_listed && !slot.recall.contains(id)
            });
            let over = slot.attempts.len().saturating_sub(lanes).saturating_sub(slot.recall.len());
            spare.extend(waiting.rev().take(over).map(|(id, _)| (*share, *id)));
        }
        if spare.is_empty() && called == 0 && self.leases.has(id) && !campaign.wants_copies() {
            for share in idle {
                self.stop_slot(share, StopReason::Finished, false, now);
            }
            return;
        }
        for (share, attempt) in spare.into_iter().take(idle.len().saturating_sub(called)) {
            let Some(slot) = self.slots.get_mut(&share) else { continue };
            slot.recall.insert(attempt);
            slot.row.order += 1;
            self.dirty.slots.insert(share);
            self.dirty.wake.insert(slot.row.node.clone());
        }
    }

    /// Orders a slot to stop. A slot that no node knows of is gone at once.
    pub(super) fn stop_slot(&mut self, share: u64, why: StopReason, drains: bool, now: Now) {
        let drains = drains || self.waits_for_leader(share, now);
        let Some(slot) = self.slots.get_mut(&share) else { return };
        if !slot.is_told {
            self.end_slot(share, &BTreeSet::new(), now);
            return;
        }
        if slot.stop(why, drains) {
            let (campaign, node) = (slot.row.campaign, slot.row.node.clone());
            self.hungry.remove(&(campaign, share));
            self.dirty.slots.insert(share);
            self.dirty.wake.insert(node);
            self.dirty.publish = true;
            if self.campaigns.get(&campaign).is_some_and(Campaign::is_malleable) {
                self.dirty.settle.insert(campaign);
            }
        }
    }

    /// The orders for a node, as they are now.
    pub fn answer(&self, name: &str) -> NodeAnswer {
        let mut answer = NodeAnswer::default();
        let node = self.nodes.get(name);
        for share in self.by_node.get(name).into_iter().flatten() {
            let Some(slot) = self.slots.get(share) else { continue };
            if slot.is_gone() {
                if slot.is_listed {
                    let (order, acked) = (slot.row.order, slot.row.acked);
                    let forget = true;
                    answer.slots.push(SlotOrder {
                        share: *share,
                        order,
                        acked,
                        forget,
                        ..SlotOrder::default()
                    });
                    answer.has_news = true;
                }
                continue;
            }
            let order = self.order(*share);
            answer.has_news |= slot.seen_order < order.order && slot.is_reported
                || order.start.is_some()
                || !order.tasks.is_empty();
            answer.slots.push(order);
        }
        for (share, acked) in node.map(|node| &node.unknown_gone).into_iter().flatten() {
            let order =
                SlotOrder { share: *share, acked: *acked, forget: true, ..SlotOrder::default() };
            answer.slots.push(order);
            answer.has_news = true;
        }
        answer.has_news |= node.is_some_and(|node| node.has_news);
        answer
    }

    fn order(&self, share: u64) -> SlotOrder {
        let mut order = SlotOrder { share, ..SlotOrder::default() };
        let Some(slot) = self.slots.get(&share) else { return order };
        (order.order, order.acked) = (slot.row.order, slot.row.acked);
        let Some(campaign) = self.campaigns.get(&slot.row.campaign) else { return order };
        let spec = campaign.facts.spec;
        // An overtaken attempt is not sent again: its task goes on in another slot.
        let unknown = slot
            .attempts
            .iter()
            .filter(|(id, held)| !held.is_listed && campaign.is_meant(share, **id));
        let is_gang = campaign.spec.gang.is_some();
        let task = |(id, _): (&AttemptId, &Held)| {
            let gang = self.rank_start(campaign, id.task);
            // After a restart, a rank waits until the book knows the places of all ranks again.
            let is_whole = gang.is_some() || !is_gang;
            is_whole.then_some(NewTask { task: *id, spec, param: None, gang })
        };
        order.tasks = unknown.filter_map(task).collect();
        order.recall = slot.recall.iter().copied().collect();
        let cancelled = |id: &&AttemptId| campaign.tasks.get(&id.task).is_none_or(|row| row.cancel);
        order.cancel = slot.attempts.keys().filter(cancelled).copied().collect();
        order.signals = slot.signals.iter().map(|(_, signal)| *signal).collect();
        order.resize = self.resize_of(campaign, slot);
        let grace = campaign.spec.task.grace_ms;
        order.stop = slot.row.stop.map(|why| {
            let by_ms = (!slot.row.drains).then_some(grace);
            SlotStop { by_ms, why }
        });
        if !slot.is_reported && slot.row.stop.is_none() {
            let young = campaign.spec.task.checkpoint.and_then(|checkpoint| checkpoint.young);
            order.start = Some(SlotStart {
                campaign: campaign.facts.id,
                user: campaign.facts.owner.clone(),
                uid: campaign.facts.uid,
                memory_mb: campaign.memory_of_slot(&slot.row),
                lanes: campaign.spec.lanes,
                spec,
                // The slots of a gang wait for each other.
                linger_ms: if is_gang { GANG_LINGER_MS } else { self.settings.linger_ms },
                interruption_ms: young.map(|_| self.interruption_ms()),
                needs_kernel_limit: campaign.spec.needs_kernel_limit,
                listens: is_gang,
            });
        }
        order
    }

    /// Enters that the answer to the last report of a node leaves: leases of its slots are renewed.
    pub(super) fn answered(&mut self, name: &Name, now: u64) {
        for share in self.shares_of(name) {
            let Some(slot) = self.slots.get_mut(&share) else { continue };
            if slot.is_listed || !slot.is_reported {
                (slot.is_told, slot.renewed) = (true, now);
            }
            let campaign = slot.row.campaign;
            self.hungry.remove(&(campaign, share));
        }
        if let Some(node) = self.nodes.get_mut(name) {
            (node.is_waiting, node.has_news) = (false, false);
            node.unknown_gone.clear();
        }
    }
}
