//! Malleable gangs: campaigns whose number of nodes changes while their program runs.
//!
//! A rank is a slot, and several slots may be on the same node. The program begins on the slot with
//! the lowest share, which is rank 0, once all open slots are ready and their number is legal. Slots
//! that come later get the next free rank, and serve rank 0. A rank that ends, by any cause,
//! leaves the gang, which goes on. Only the end of rank 0 gives a verdict.
//!
//! The order for the slot of rank 0 has the ranks that serve it. It is a state, not a message: the
//! slot compares it with its files, so an order may be lost or repeated.

use super::bag::AGAIN;
use super::campaigns::Campaign;
use super::rows::{Note, TaskRow, TaskState};
use super::slots::Slot;
use super::{Book, Now, attempt_of};
use crate::model::count;
use crate::orchestrator::spec::{GangSizes, GangSpec};
use crate::orchestrator::wire::{GangResize, RankPlace, StopReason, TaskResult};

impl Campaign {
    /// True if the campaign is a gang whose number of nodes varies.
    pub(super) fn is_malleable(&self) -> bool {
        self.sizes().is_some()
    }

    fn sizes(&self) -> Option<&GangSizes> {
        self.spec.gang.as_ref()?.sizes.as_ref()
    }

    /// The lowest rank without a slot. `None`: the gang has as many slots as it may have.
    pub(super) fn free_rank(&self) -> Option<u64> {
        let most = self.spec.gang.as_ref()?.nodes;
        (0..most).find(|rank| !self.ranks.contains_key(rank))
    }

    /// The current attempt of rank 0, with its share.
    fn leader(&self) -> Option<(&TaskRow, u64)> {
        let row = self.begun_ranks().find(|row| GangSpec::rank_of(row.task) == 0)?;
        Some((row, row.share?))
    }
}

impl Book {
    /// The slot of rank 0, while its program is not to end.
    fn leading(&self, campaign: &Campaign) -> Option<&Slot> {
        let (row, share) = campaign.leader()?;
        let goes_on = campaign.facts.verdict.is_none() && !row.cancel;
        self.slots.get(&share).filter(|slot| slot.is_open() && goes_on)
    }

    /// Shares that have an attempt of the gang and go on, in the order of their ranks.
    fn members(&self, campaign: &Campaign) -> Vec<u64> {
        let is_member = |share: &u64| {
            self.slots.get(share).is_some_and(|slot| slot.is_open() && !slot.attempts.is_empty())
        };
        campaign.ranks.values().copied().filter(is_member).collect()
    }

    /// Members that serve rank 0: it was told of them, or their attempts have begun.
    fn servers(&self, campaign: &Campaign) -> Vec<u64> {
        let told = campaign.told.as_ref();
        let has_begun = |share: &u64| {
            let mut held = self.slots.get(share).into_iter().flat_map(|it| it.attempts.values());
            held.any(|held| held.begun.is_some())
        };
        let serves = |share: &u64| told.is_none_or(|told| told.contains(share)) || has_begun(share);
        self.members(campaign).into_iter().filter(serves).collect()
    }

    /// The places of the ranks that a new attempt of `rank` knows of. Only rank 0 is told of changes.
    pub(super) fn malleable_places(
        &self,
        campaign: &Campaign,
        rank: u64,
    ) -> Option<Vec<RankPlace>> {
        let told = campaign.told.clone().filter(|_| rank == 0);
        let shares = told.unwrap_or_else(|| self.members(campaign));
        shares.into_iter().map(|share| self.place_of(share)).collect()
    }

    /// Begins a malleable gang, or gives new slots of a running gang their ranks.
    pub(super) fn assign_malleable(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        if !campaign.may_begin() || campaign.facts.verdict.is_some() {
            return;
        }
        let is_idle = |share: &u64| {
            let slot = self.slots.get(share);
            slot.is_some_and(|slot| slot.attempts.is_empty() && self.is_ready(slot))
        };
        if let Some(leader) = self.leading(campaign).map(|slot| slot.row.share) {
            let idle = campaign.ranks.values().copied().filter(is_idle);
            let joins: Vec<u64> = idle.collect();
            let apart = joins.iter().find_map(|share| self.unreachable(&[*share, leader]));
            match apart {
                Some(share) if share != leader => self.stop_unreachable(share, now),
                Some(_) | None => self.start_ranks(id, &joins, now),
            }
            return;
        }
        if campaign.begun_ranks().next().is_some() {
            return;
        }
        let is_open = |share: &u64| self.slots.get(share).is_some_and(Slot::is_open);
        let mut open: Vec<u64> = campaign.ranks.values().copied().filter(is_open).collect();
        open.sort_unstable();
        let size = count(&open);
        let is_legal =
            campaign.sizes().is_some_and(|it| it.min_nodes <= size && it.legal().allow(size));
        if !is_legal || !open.iter().all(is_idle) {
            return;
        }
        if let Some(share) = self.unreachable(&open) {
            return self.stop_unreachable(share, now);
        }
        self.number_ranks(id, &open);
        self.start_ranks(id, &open, now);
    }

    /// Gives the open slots the first ranks, in their order. The slots that are about to go get the
    /// ranks behind.
    fn number_ranks(&mut self, id: u64, open: &[u64]) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let left = campaign.ranks.values().copied().filter(|share| !open.contains(share));
        let all: Vec<u64> = open.iter().copied().chain(left).collect();
        campaign.ranks = (0..).zip(all).collect();
        for (rank, share) in &campaign.ranks {
            if let Some(slot) = self.slots.get_mut(share)
                && slot.row.rank != Some(*rank)
            {
                slot.row.rank = Some(*rank);
                self.dirty.slots.insert(*share);
            }
        }
    }

    /// Gives the slots attempts of their ranks.
    fn start_ranks(&mut self, id: u64, shares: &[u64], now: Now) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let mut rows: Vec<TaskRow> = Vec::new();
        while let Some(task) = campaign.cursor.take() {
            let row = campaign.fresh(task);
            self.dirty.tasks.insert((id, task), row.clone());
            campaign.place(row);
        }
        for share in shares {
            let rank = self.slots.get(share).and_then(|slot| slot.row.rank);
            let Some(task) = rank.map(GangSpec::task_of) else { continue };
            let is_queued = |row: &TaskRow| row.state == TaskState::Queued;
            if !campaign.tasks.get(&task).is_some_and(is_queued) {
                continue;
            }
            let Some(row) = campaign.displace(task) else { continue };
            let (state, share, attempt) = (TaskState::Assigned, Some(*share), row.attempt + 1);
            let row = TaskRow { state, share, attempt, cancel: false, ..row };
            campaign.place(row.clone());
            rows.push(row);
        }
        for row in rows {
            self.begin_rank(row, now);
        }
        self.dirty.campaigns.insert(id);
    }

    /// Enters that a rank other than 0 has left its gang. The gang goes on without it.
    pub(super) fn leave_gang(&mut self, share: u64, result: TaskResult, now: Now) {
        let id = result.task;
        let Some(campaign) = self.campaigns.get_mut(&id.campaign) else { return };
        if let Some(row) = campaign.displace(id.task) {
            let (state, reason, priority) = (TaskState::Queued, Some(result.why), AGAIN);
            let row = TaskRow { state, share: None, cancel: false, reason, priority, ..row };
            self.dirty.tasks.insert((id.campaign, id.task), row.clone());
            campaign.place(row);
        }
        let slot = self.slots.get_mut(&share);
        let node = slot.as_ref().map(|slot| slot.row.node.clone());
        let place = node.as_ref().map_or("?", |node| node.as_str());
        let (rank, ending) = (GangSpec::rank_of(id.task), result.ending());
        let text = format!("rank {rank} on {place}: {ending}; the gang goes on without it");
        let note =
            Note { campaign: id.campaign, task: Some(id.task), node, code: "gang-less", text };
        self.dirty.notes.push(note);
        if let Some(slot) = slot.filter(|slot| slot.is_open()) {
            // A server never ends by itself, so its node gets no other attempt at once.
            slot.is_lost = true;
            self.stop_slot(share, StopReason::VariedOff, false, now);
        }
        self.close_attempt(result, now);
    }

    /// Stops rank 0 if shares that were taken leave the gang below its minimum. A gang that lost slots
    /// goes on, and its program decides.
    pub(super) fn keep_minimum(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        let Some(sizes) = campaign.sizes() else { return };
        let Some(leader) = self.leading(campaign).map(|slot| slot.row.share) else { return };
        // A slot whose attempt has not begun cannot take the place of one that goes.
        if sizes.min_nodes <= count(self.servers(campaign)) {
            return;
        }
        let mut slots = campaign.ranks.values().filter_map(|share| self.slots.get(share));
        let taken = slots.find_map(|slot| {
            let is_taken = !slot.is_lost && !slot.attempts.is_empty();
            Some((slot.row.stop.filter(|_| is_taken)?, slot.row.drains))
        });
        if let Some((why, drains)) = taken {
            self.stop_slot(leader, why, drains, now);
        }
    }

    /// Brings the ranks that rank 0 is told of up to date. A smaller number is told at once, a larger
    /// number if it is legal.
    pub(super) fn tell_size(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get(&id).filter(|it| it.is_malleable()) else { return };
        let Some(leader) = self.leading(campaign).map(|slot| slot.row.share) else {
            if let Some(campaign) = self.campaigns.get_mut(&id) {
                campaign.told = None;
            }
            return;
        };
        let members = self.members(campaign);
        if members.iter().any(|share| self.place_of(*share).is_none()) {
            // After a restart, all nodes have to report first.
            return;
        }
        let (told, mut new) = (campaign.told.as_ref(), self.servers(campaign));
        let is_legal = campaign.sizes().is_some_and(|sizes| sizes.legal().allow(count(&new)));
        if let Some(told) = told.filter(|_| !is_legal) {
            new.retain(|share| told.contains(share));
        }
        if told == Some(&new) {
            return;
        }
        if let Some(campaign) = self.campaigns.get_mut(&id) {
            campaign.told = Some(new);
        }
        if let Some(slot) = self.slots.get_mut(&leader) {
            slot.row.order += 1;
            self.dirty.slots.insert(leader);
            self.dirty.wake.insert(slot.row.node.clone());
        }
    }

    /// The part of an order that tells rank 0 of the ranks. `None`: the slot is of another rank, or
    /// nothing is to be told.
    pub(super) fn resize_of(&self, campaign: &Campaign, slot: &Slot) -> Option<GangResize> {
        let shares = campaign.told.as_ref()?;
        let (row, share) = campaign.leader()?;
        if share != slot.row.share || !slot.is_open() {
            return None;
        }
        let places = shares.iter().map(|share| self.place_of(*share));
        Some(GangResize { task: attempt_of(row), ranks: places.collect::<Option<_>>()? })
    }
}
