//! Application of the resource manager's schedule to slots.

use std::collections::{BTreeMap, BTreeSet};

use super::campaigns::Campaign;
use super::rows::{Note, SlotRow, SlotState};
use super::slots::Slot;
use super::{Book, Now};
use crate::model::Name;
use crate::orchestrator::wire::StopReason;

/// Shares of a work in the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobShares {
    /// The number of the work.
    pub work: u64,
    /// All shares of the work, including new shares.
    pub shares: Vec<HeldShare>,
    /// Shares that are new.
    pub added: BTreeSet<u64>,
    /// Shares that are terminating.
    pub removed: Vec<TerminatingShare>,
}

/// A share that the work may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldShare {
    /// Number of the share.
    pub share: u64,
    /// Node of the share.
    pub node: Name,
    /// Rank of the share in its gang. `None`: it belongs to no gang.
    pub rank: Option<u64>,
    /// Memory of the share, in MiB.
    pub memory_mb: u64,
}

/// A terminating share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminatingShare {
    /// Number of the share.
    pub share: u64,
    /// Node of the share.
    pub node: Name,
    /// Cause of the stop.
    pub why: StopReason,
    /// True if the resource manager declared the node dead because its agent is silent.
    pub has_died: bool,
}

impl Book {
    /// Orders new slots, stops slots of terminating shares, and forgets slots that the schedule no
    /// longer names.
    pub(super) fn obey(&mut self, publication: Option<u64>, jobs: Vec<JobShares>, now: Now) {
        let mut works = BTreeMap::new();
        for campaign in self.campaigns.values() {
            for step in campaign.all_steps() {
                if let Some(number) = step.work.number {
                    works.insert(number, (campaign.facts.id, step.work.step));
                }
            }
        }
        let mut named = BTreeSet::new();
        for job in jobs {
            let place = works.get(&job.work).copied();
            for removed in &job.removed {
                named.insert(removed.share);
                let is_known = self.slots.contains_key(&removed.share);
                if let (false, Some(place)) = (is_known, place) {
                    let (share, node) = (removed.share, removed.node.clone());
                    let unknown = HeldShare { share, node, rank: None, memory_mb: 0 };
                    self.order_slot(job.work, place, unknown, true, now);
                }
                let drains = removed.has_died && self.finishes_unheard(removed.share);
                if let Some(slot) = self.slots.get_mut(&removed.share) {
                    slot.is_lost |= removed.has_died;
                }
                self.stop_slot(removed.share, removed.why, drains, now);
            }
            for held in job.shares {
                named.insert(held.share);
                let is_known = self.slots.contains_key(&held.share);
                if let (false, Some(place)) = (is_known, place) {
                    let may_run = !job.added.contains(&held.share);
                    self.order_slot(job.work, place, held, may_run, now);
                }
            }
        }
        self.forget(publication, &named);
    }

    /// True if a slot goes on to the end of its tasks while its node is unreachable.
    fn finishes_unheard(&self, share: u64) -> bool {
        let slot = self.slots.get(&share);
        let campaign = slot.and_then(|slot| self.campaigns.get(&slot.row.campaign));
        campaign.is_some_and(|campaign| campaign.spec.task.finishes_unheard)
    }

    /// Enters a slot that the book does not know. A slot that `may_run` was known before the
    /// database was set back: its node is ordered to stop it, and the book waits for the end.
    fn order_slot(
        &mut self,
        work: u64,
        (campaign, step): (u64, u64),
        held: HeldShare,
        may_run: bool,
        now: Now,
    ) {
        let HeldShare { share, node, rank, memory_mb } = held;
        let has_gang = self.campaigns.get(&campaign).is_some_and(|it| it.spec.gang.is_some());
        let malleable = self.campaigns.get(&campaign).filter(|it| it.is_malleable() && !may_run);
        let rank = malleable.map_or(rank, Campaign::free_rank);
        let row = SlotRow {
            share,
            node: node.clone(),
            campaign,
            step,
            work,
            state: SlotState::Ordered,
            order: 1,
            acked: 0,
            boot: None,
            stop: None,
            drains: false,
            rank: rank.filter(|_| has_gang),
            memory_mb: Some(memory_mb).filter(|size| has_gang && 0 < *size),
        };
        let mut slot = Slot::new(row, now.ms);
        slot.is_told = may_run;
        self.adopt(slot);
        self.dirty.slots.insert(share);
        self.dirty.settle.insert(campaign);
        let is_barred = self.is_barred(&node);
        let is_wanted = !is_barred
            && self.campaigns.get(&campaign).is_some_and(|it| {
                it.may_use(&node) && (it.has_queued() && it.may_begin() || it.wants_copies())
            })
            && (rank.is_some() || !has_gang);
        if may_run || !is_wanted {
            self.stop_slot(share, StopReason::Finished, false, now);
        } else {
            self.dirty.wake.insert(node);
        }
    }

    /// Forgets slots that were published as gone, and that a schedule made since then does not name.
    fn forget(&mut self, publication: Option<u64>, named: &BTreeSet<u64>) {
        let is_past = |slot: &&Slot| {
            slot.is_gone()
                && !named.contains(&slot.row.share)
                && slot.gone_in.is_some_and(|told| Some(told) <= publication)
        };
        let past: Vec<u64> =
            self.slots.values().filter(is_past).map(|slot| slot.row.share).collect();
        for share in past {
            let Some(slot) = self.slots.remove(&share) else { continue };
            if let Some(shares) = self.by_node.get_mut(&slot.row.node) {
                shares.remove(&share);
            }
            self.dirty.forgotten.insert(share);
        }
    }

    /// Notes the refusals of the resource manager, once for each sentence.
    pub(super) fn refused(&mut self, sentences: &BTreeMap<u64, String>) {
        for campaign in self.campaigns.values_mut() {
            let sentence = campaign
                .all_steps()
                .filter_map(|step| step.work.number)
                .find_map(|number| sentences.get(&number));
            if campaign.refused.as_ref() == sentence {
                continue;
            }
            campaign.refused = sentence.cloned();
            if let Some(sentence) = sentence {
                let text = format!("the resource manager refuses its work: {sentence}");
                let id = campaign.facts.id;
                let note = Note { campaign: id, task: None, node: None, code: "refused", text };
                self.dirty.notes.push(note);
            }
        }
    }

    /// Records the publication that declared shares gone.
    pub(super) fn published(&mut self, sequence: u64, gone: &[u64]) {
        for share in gone {
            if let Some(slot) = self.slots.get_mut(share).filter(|slot| slot.is_gone()) {
                slot.gone_in.get_or_insert(sequence);
            }
        }
    }
}
