//! What the resource manager is told: one work for each memory step of a campaign.

use super::Book;
use super::campaigns::{Campaign, Step};
use super::rows::{CampaignState, SlotRow, SlotState};
use super::slots::Slot;
use crate::model::Name;

/// The work of a memory step.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedWork {
    /// Its number.
    pub work: u64,
    /// Its owner.
    pub user: String,
    /// Its class. `None`: the default of the resource manager.
    pub class: Option<String>,
    /// Memory of each process, in MiB.
    pub memory_mb: u64,
    /// Tasks at a time in a process.
    pub threads: u64,
    /// Tasks that are not final; those of a silent node that begin again count twice.
    pub remaining: u64,
    /// The most processes. `None`: as many as there are.
    pub max: Option<u64>,
    /// Whether it may get no more processes.
    pub is_frozen: bool,
    /// Whether it ends, with no process to be added.
    pub is_completing: bool,
    /// Whether a process of it has ever begun a task.
    pub has_begun: bool,
    /// Whether it may not be preempted.
    pub is_kept: bool,
    /// The mean time of a task, in milliseconds; 0 while it is not known.
    pub time_per_item_ms: u64,
    /// When it was submitted, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// The only nodes it may use. Empty: any.
    pub nodes: Vec<String>,
    /// Its slots.
    pub slots: Vec<PublishedSlot>,
}

/// A slot, as the resource manager is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedSlot {
    /// Its share.
    pub share: u64,
    /// Its node.
    pub node: Name,
    /// Its state.
    pub state: SlotState,
    /// Time from its order to its first task, so far or in all, in milliseconds.
    pub initialization_ms: u64,
    /// Time of its tasks that would be lost with it, in milliseconds.
    pub investment_ms: u64,
}

impl Book {
    /// All work at time `now`, by campaign and step.
    pub fn publication(&mut self, now: u64) -> Vec<PublishedWork> {
        let mut slots: std::collections::BTreeMap<u64, Vec<PublishedSlot>> =
            std::collections::BTreeMap::new();
        for slot in self.slots.values() {
            slots.entry(slot.row.work).or_default().push(published(slot, now));
        }
        let (times, overtaken) = (self.running_times(now), self.overtaken());
        let mut all = Vec::new();
        for campaign in self.campaigns.values_mut() {
            let (ended, ended_ms) = (campaign.facts.ended, campaign.facts.ended_ms);
            let running = times.get(&campaign.facts.id).map(Vec::as_slice).unwrap_or_default();
            let mean = campaign.measure.tell(ended, ended_ms, running.iter().copied());
            for step in &campaign.steps {
                let Some(number) = step.work.number else { continue };
                let slots = slots.remove(&number).unwrap_or_default();
                let more = overtaken.get(&number).copied().unwrap_or(0);
                let work = work(campaign, step, number, mean, slots);
                all.push(PublishedWork { remaining: work.remaining + more, ..work });
            }
        }
        all
    }

    /// Takes the number from the work of a slot that is gone, if the work may have one slot only: to the
    /// resource manager it is over with its process, and gets no other one. Tasks that are left get
    /// another number.
    pub(super) fn end_kept_work(&mut self, row: &SlotRow) {
        let campaign = self.campaigns.get_mut(&row.campaign);
        let Some(campaign) = campaign.filter(|campaign| campaign.spec.keep) else { return };
        let step = campaign.step_mut(row.step);
        if step.slots == 0 && step.work.number == Some(row.work) {
            step.work.number = None;
            self.dirty.works.insert((row.campaign, row.step), step.work);
        }
    }

    /// Shares of slots that are gone. A full publication tells them so, named or not.
    pub fn gone(&self) -> Vec<u64> {
        let gone = self.slots.values().filter(|slot| slot.is_gone());
        gone.map(|slot| slot.row.share).collect()
    }

    /// How long the running tasks of each campaign have run, in milliseconds.
    fn running_times(&self, now: u64) -> std::collections::BTreeMap<u64, Vec<u64>> {
        let mut times: std::collections::BTreeMap<u64, Vec<u64>> =
            std::collections::BTreeMap::new();
        for slot in self.slots.values().filter(|slot| !slot.is_gone()) {
            let begun = slot.attempts.values().filter_map(|held| held.begun);
            let running = begun.map(|begun| now.saturating_sub(begun));
            times.entry(slot.row.campaign).or_default().extend(running);
        }
        times
    }
}

fn work(
    campaign: &Campaign,
    step: &Step,
    number: u64,
    time_per_item_ms: u64,
    slots: Vec<PublishedSlot>,
) -> PublishedWork {
    PublishedWork {
        work: number,
        user: campaign.facts.owner.clone(),
        class: campaign.spec.class.clone(),
        memory_mb: step.work.memory_mb,
        threads: campaign.spec.lanes,
        remaining: campaign.remaining(step),
        max: if campaign.spec.keep { Some(1) } else { campaign.spec.max },
        is_frozen: campaign.is_frozen(),
        is_completing: campaign.facts.state == CampaignState::Cancelling
            || campaign.remaining(step) == 0,
        has_begun: campaign.facts.has_begun,
        is_kept: campaign.spec.keep,
        time_per_item_ms,
        submitted_ms: campaign.facts.submitted_ms,
        nodes: campaign.spec.nodes.clone(),
        slots,
    }
}

fn published(slot: &Slot, now: u64) -> PublishedSlot {
    let so_far = now.saturating_sub(slot.ordered);
    PublishedSlot {
        share: slot.row.share,
        node: slot.row.node.clone(),
        state: slot.row.state,
        initialization_ms: slot.prepared_ms.unwrap_or(so_far),
        investment_ms: if slot.is_gone() { 0 } else { slot.investment(now) },
    }
}
