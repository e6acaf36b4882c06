//! Publication to the resource manager: a work for each memory step of a campaign.

use super::Book;
use super::campaigns::{Campaign, EARLY_STEP, Step};
use super::rows::{CampaignState, SlotRow, SlotState};
use super::slots::Slot;
use crate::model::Name;
use crate::orchestrator::spec::{CampaignSpec, CampaignTimes, GangSpec};

/// The work of a memory step.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedWork {
    /// Number of the work.
    pub work: u64,
    /// Owner of the work.
    pub user: String,
    /// Class of the work. `None`: the default of the resource manager.
    pub class: Option<String>,
    /// Memory of each process, in MiB.
    pub memory_mb: u64,
    /// Tasks at a time in a process.
    pub threads: u64,
    /// Number of tasks that are not final. A task of a silent node that begins again counts twice.
    pub remaining: u64,
    /// Limit of processes. `None`: no limit.
    pub max: Option<u64>,
    /// True if the work gets no further process.
    pub is_frozen: bool,
    /// True if the work ends, and no process is to be added.
    pub is_completing: bool,
    /// True if a process of the work has ever begun a task.
    pub has_begun: bool,
    /// True if the work may not be preempted.
    pub is_kept: bool,
    /// The mean time of a task, in milliseconds; 0 while it is not known.
    pub time_per_item_ms: u64,
    /// Time of the submission, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// Only nodes that the work may use. Empty: any node.
    pub nodes: Vec<String>,
    /// Nodes that get no further process of the work, as its campaign avoids them.
    pub except_nodes: Vec<String>,
    /// Gang of the work: its processes start together. `None`: they come and go by themselves.
    pub gang: Option<GangSpec>,
    /// Times of the work. A gang that declares no length runs as long as its limit lets it.
    pub times: CampaignTimes,
    /// Slots of the work.
    pub slots: Vec<PublishedSlot>,
}

/// A slot, as published to the resource manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedSlot {
    /// Share of the slot.
    pub share: u64,
    /// Node of the slot.
    pub node: Name,
    /// State of the slot.
    pub state: SlotState,
    /// Time from its order to its first task, so far or in all, in milliseconds.
    pub initialization_ms: u64,
    /// Task time that the end of the slot would lose, in milliseconds.
    pub investment_ms: u64,
}

impl Book {
    /// All work at time `now`, by campaign and step.
    pub fn publication(&mut self, now: u64) -> Vec<PublishedWork> {
        let mut slots: std::collections::BTreeMap<u64, Vec<PublishedSlot>> =
            std::collections::BTreeMap::new();
        for slot in self.slots.values() {
            let campaign = self.campaigns.get(&slot.row.campaign);
            slots.entry(slot.row.work).or_default().push(published(slot, campaign, now));
        }
        let (times, overtaken) = (self.running_times(now), self.overtaken());
        let barred: Vec<String> = self.barred_nodes().map(str::to_owned).collect();
        let is_held = self.is_held();
        let mut all = Vec::new();
        for campaign in self.campaigns.values_mut() {
            let (ended, ended_ms) = (campaign.facts.ended, campaign.facts.ended_ms);
            let running = times.get(&campaign.facts.id).map(Vec::as_slice).unwrap_or_default();
            let mean = campaign.measure.tell(ended, ended_ms, running.iter().copied());
            for step in campaign.all_steps() {
                let Some(number) = step.work.number else { continue };
                let slots = slots.remove(&number).unwrap_or_default();
                let late = if step.work.step == 0 { campaign.late } else { 0 };
                let more = overtaken.get(&number).copied().unwrap_or(0) + late;
                let work = work(campaign, step, number, mean, slots);
                let remaining = work.remaining + more;
                let is_frozen = work.is_frozen || is_held || campaign.waits_for_router();
                let except_nodes = with(work.except_nodes, &barred);
                all.push(PublishedWork { remaining, is_frozen, except_nodes, ..work });
            }
        }
        all
    }

    /// Takes the number from the work of a gone slot, if the work may have a single slot only, or is
    /// a gang of fixed size. For the resource manager such a work is over with its processes, and gets no further
    /// process. Remaining tasks get another number.
    pub(super) fn end_kept_work(&mut self, row: &SlotRow) {
        let campaign = self.campaigns.get_mut(&row.campaign);
        let ends_with_slots =
            |it: &&mut Campaign| it.spec.keep || it.spec.gang.is_some() && !it.is_malleable();
        let Some(campaign) = campaign.filter(ends_with_slots) else { return };
        let step = campaign.step_mut(row.step);
        if step.slots == 0 && step.work.number == Some(row.work) {
            step.work.number = None;
            self.dirty.works.insert((row.campaign, row.step), step.work);
        }
    }

    /// Returns the shares of gone slots. A full publication declares them gone, named or not.
    pub fn gone(&self) -> Vec<u64> {
        let gone = self.slots.values().filter(|slot| slot.is_gone());
        gone.map(|slot| slot.row.share).collect()
    }

    /// Returns the running tasks' times of each campaign so far, in milliseconds.
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

/// Nodes with further nodes, each once and in order.
fn with(mut nodes: Vec<String>, more: &[String]) -> Vec<String> {
    nodes.extend_from_slice(more);
    nodes.sort_unstable();
    nodes.dedup();
    nodes
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
        class: class_of(&campaign.spec, step.work.step),
        memory_mb: step.work.memory_mb,
        threads: campaign.spec.lanes,
        remaining: campaign.remaining(step),
        max: campaign.most_slots(),
        is_frozen: campaign.is_frozen(),
        is_completing: campaign.facts.state == CampaignState::Cancelling
            || campaign.remaining(step) == 0,
        has_begun: campaign.facts.has_begun,
        is_kept: campaign.spec.keep,
        time_per_item_ms,
        submitted_ms: campaign.facts.submitted_ms,
        nodes: campaign.spec.nodes.clone(),
        except_nodes: campaign.excepted_nodes().map(ToString::to_string).collect(),
        gang: campaign.spec.gang.clone(),
        times: times_of(&campaign.spec),
        slots,
    }
}

/// The class of a step: early tasks have their own.
fn class_of(spec: &CampaignSpec, step: u64) -> Option<String> {
    let early = spec.first.as_ref().filter(|_| step == EARLY_STEP);
    early.map(|early| early.class.clone()).or_else(|| spec.class.clone())
}

fn times_of(spec: &CampaignSpec) -> CampaignTimes {
    let limit = spec.task.time_limit_ms.filter(|_| spec.gang.is_some());
    CampaignTimes { duration_ms: spec.times.duration_ms.or(limit), ..spec.times.clone() }
}

fn published(slot: &Slot, campaign: Option<&Campaign>, now: u64) -> PublishedSlot {
    let is_copy = |id| campaign.is_some_and(|campaign| campaign.is_copy(id));
    let so_far = now.saturating_sub(slot.ordered);
    PublishedSlot {
        share: slot.row.share,
        node: slot.row.node.clone(),
        state: slot.row.state,
        initialization_ms: slot.prepared_ms.unwrap_or(so_far),
        investment_ms: if slot.is_gone() { 0 } else { slot.investment(now, is_copy) },
    }
}
