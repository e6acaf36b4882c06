//! Attempts that nodes report and an older copy of the database does not know: finds them in the
//! reports and builds their rows.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{AttemptRow, SlotRow, SlotState, TaskRow, TaskState};
use super::{CampaignRow, Effect, Saved};
use crate::model::Name;
use crate::orchestrator::spec::{CampaignSpec, GangSpec};
use crate::orchestrator::wire::{AttemptId, Exchange, SlotReport};

/// Attempts found in the reports of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Attempts that the database does not know and can take, with their nodes.
    pub attempts: Vec<(AttemptId, Name)>,
    /// Attempts of campaigns that it does not know, with their nodes.
    pub strange: Vec<(AttemptId, Name)>,
    /// Effects that store the attempts of `attempts`, with their tasks and slots.
    pub effects: Vec<Effect>,
}

/// Looks through the last report of each node for what `saved` does not know. Numbers up to `used` belong
/// to work of the resource manager.
pub fn find(saved: &Saved, reports: &BTreeMap<Name, Exchange>, used: u64, wall_ms: u64) -> Found {
    let mut search = AdoptionSearch::new(saved, wall_ms);
    let mut last = used;
    for (node, report) in reports {
        for slot in &report.slots {
            last = ids(slot).map(|id| id.campaign).fold(last, u64::max);
            search.slot(node, &report.boot, slot);
        }
    }
    let mut found = search.found;
    if saved.next <= last {
        found.effects.push(Effect::Next(last + 1));
    }
    found
}

/// The attempts that a report names.
fn ids(slot: &SlotReport) -> impl Iterator<Item = AttemptId> {
    let running = slot.running.iter().map(|one| one.task);
    let ended = slot.results.iter().map(|result| result.task);
    slot.held.iter().copied().chain(running).chain(ended)
}

struct AdoptionSearch<'a> {
    campaigns: BTreeMap<u64, (&'a CampaignRow, &'a CampaignSpec)>,
    works: BTreeMap<u64, u64>,
    slots: BTreeMap<u64, &'a SlotRow>,
    tasks: BTreeMap<(u64, u64), &'a TaskRow>,
    open: BTreeSet<AttemptId>,
    wall_ms: u64,
    found: Found,
}

impl<'a> AdoptionSearch<'a> {
    fn new(saved: &'a Saved, wall_ms: u64) -> AdoptionSearch<'a> {
        let campaigns = saved.campaigns.iter();
        let works = saved.works.iter().filter(|work| work.step == 0);
        AdoptionSearch {
            campaigns: campaigns.map(|(row, spec)| (row.id, (row, &**spec))).collect(),
            works: works.filter_map(|work| Some((work.campaign, work.number?))).collect(),
            slots: saved.slots.iter().map(|slot| (slot.share, slot)).collect(),
            tasks: saved.tasks.iter().map(|task| ((task.campaign, task.task), task)).collect(),
            open: saved.attempts.iter().map(|row| row.id).collect(),
            wall_ms,
            found: Found::default(),
        }
    }

    /// Finds unknown attempts in the report of a slot.
    fn slot(&mut self, node: &Name, boot: &str, report: &SlotReport) {
        let mut all = BTreeSet::new();
        for id in ids(report).filter(|id| !self.open.contains(id)) {
            if !self.campaigns.contains_key(&id.campaign) {
                self.found.strange.push((id, node.clone()));
            } else if let Some(task) = self.task(id, report) {
                self.found.effects.push(Effect::Task(task));
                all.insert(id);
            }
        }
        let known = self.slots.get(&report.share).copied().cloned();
        let Some(row) = known.or_else(|| self.new_slot(node, boot, report)) else { return };
        // The node does not repeat results that the lost copy acknowledged.
        let before = report.results.first().map_or(0, |result| result.number.saturating_sub(1));
        let (acked, order) = (row.acked.max(before), row.order.max(report.seen_order));
        self.found.effects.push(Effect::Slot(SlotRow { order, acked, ..row }));
        for id in all {
            self.found.attempts.push((id, node.clone()));
            let (share, assigned_ms) = (report.share, self.wall_ms);
            let node = node.clone();
            let attempt = AttemptRow { id, share, node, assigned_ms, result: None, ended_ms: None };
            self.found.effects.push(Effect::Attempt(attempt));
        }
    }

    /// A slot that has something of a campaign that is known.
    fn new_slot(&self, node: &Name, boot: &str, report: &SlotReport) -> Option<SlotRow> {
        let mut campaigns = ids(report).map(|id| id.campaign);
        let campaign = campaigns.find(|campaign| self.campaigns.contains_key(campaign))?;
        let (_, spec) = self.campaigns.get(&campaign)?;
        let task = ids(report).find(|id| id.campaign == campaign).map(|id| id.task);
        let rank = task.filter(|_| spec.gang.is_some()).map(GangSpec::rank_of);
        Some(SlotRow {
            share: report.share,
            node: node.clone(),
            campaign,
            step: 0,
            // The first work of a campaign has its number.
            work: self.works.get(&campaign).copied().unwrap_or(campaign),
            state: SlotState::Working,
            order: 0,
            acked: 0,
            boot: Some(boot.to_owned()),
            stop: None,
            drains: false,
            rank,
            memory_mb: None,
        })
    }

    /// The row of a task with this attempt. `None`: it is final, or has a later attempt.
    fn task(&self, id: AttemptId, report: &SlotReport) -> Option<TaskRow> {
        let (campaign, spec) = self.campaigns.get(&id.campaign)?;
        let position = spec.tasks.position(id.task)?;
        let known = self.tasks.get(&(id.campaign, id.task)).copied().cloned();
        let is_untouched = campaign.taken <= position && position < campaign.limit;
        let row =
            known.or_else(|| is_untouched.then(|| TaskRow::untouched(id.campaign, id.task)))?;
        if row.state.is_final() || id.attempt < row.attempt {
            return None;
        }
        let is_running = report.running.iter().any(|one| one.task == id);
        let state = if is_running { TaskState::Running } else { TaskState::Assigned };
        Some(TaskRow { state, attempt: id.attempt, share: Some(report.share), ..row })
    }
}
