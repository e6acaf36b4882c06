//! Expected contents of the orchestrator's database.

use std::collections::BTreeMap;
use std::sync::Arc;

use apportion::orchestrator::book::{
    AttemptRow, CampaignRow, Effect, Saved, SlotRow, TaskRow, WorkRow,
};
use apportion::orchestrator::spec::CampaignSpec;
use apportion::orchestrator::wire::AttemptId;

#[derive(Clone, Debug, Default)]
pub struct Rows {
    next: u64,
    pub campaigns: BTreeMap<u64, CampaignRow>,
    works: BTreeMap<(u64, u64), WorkRow>,
    tasks: BTreeMap<(u64, u64), TaskRow>,
    attempts: BTreeMap<AttemptId, AttemptRow>,
    slots: BTreeMap<u64, SlotRow>,
}

impl Rows {
    pub fn keep(&mut self, effects: &[Effect]) {
        for effect in effects.iter().cloned() {
            match effect {
                Effect::Next(next) => self.next = next,
                Effect::Campaign(row) => drop(self.campaigns.insert(row.id, row)),
                Effect::Work(row) => drop(self.works.insert((row.campaign, row.step), row)),
                Effect::Task(row) => drop(self.tasks.insert((row.campaign, row.task), row)),
                Effect::Attempt(row) => drop(self.attempts.insert(row.id, row)),
                Effect::Slot(row) => drop(self.slots.insert(row.share, row)),
                Effect::SlotForgotten(share) => drop(self.slots.remove(&share)),
                Effect::Note(_)
                | Effect::Fault(_)
                | Effect::Lease(_)
                | Effect::LeaseForgotten(_)
                | Effect::Filed(_)
                | Effect::Suspect(..)
                | Effect::Wake(_)
                | Effect::Publish => {}
            }
        }
    }

    /// Returns the rows that a start reads back.
    pub fn saved(&self, specs: &BTreeMap<u64, Arc<CampaignSpec>>) -> Saved {
        let live = |id: &u64| self.campaigns.get(id).is_some_and(|row| !row.state.is_final());
        let campaigns = self.campaigns.values().filter(|row| live(&row.id));
        let is_beyond = |row: &TaskRow| {
            let at = specs[&row.campaign].tasks.position(row.task).unwrap();
            self.campaigns[&row.campaign].taken <= at
        };
        let tasks = self.tasks.values().filter(|row| live(&row.campaign));
        Saved {
            interruptions: (0, 0),
            next: self.next,
            campaigns: campaigns.map(|row| (row.clone(), Arc::clone(&specs[&row.id]))).collect(),
            works: self.works.values().copied().collect(),
            tasks: tasks.filter(|row| !row.state.is_final() || is_beyond(row)).cloned().collect(),
            attempts: self.attempts.values().filter(|row| row.result.is_none()).cloned().collect(),
            slots: self.slots.values().cloned().collect(),
            faults: Vec::new(),
            leases: Vec::new(),
            filed: Vec::new(),
            next_filed: 1,
        }
    }
}
