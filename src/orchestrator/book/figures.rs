//! Counts of the campaigns, tasks, slots and nodes in the book.

use std::collections::BTreeMap;

use super::Book;
use super::rows::TaskState;
use crate::model::count;

/// Counts by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Campaigns that are not final.
    pub campaigns: BTreeMap<&'static str, u64>,
    /// Their tasks.
    pub tasks: BTreeMap<&'static str, u64>,
    /// Slots.
    pub slots: BTreeMap<&'static str, u64>,
    /// Nodes that reported since the start.
    pub nodes: u64,
}

impl Book {
    /// Counts campaigns, tasks, slots and nodes.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures { nodes: count(&self.nodes), ..Figures::default() };
        for campaign in self.campaigns.values() {
            let facts = &campaign.facts;
            *figures.campaigns.entry(facts.state.word()).or_default() += 1;
            let in_state = |state| count(campaign.tasks.values().filter(|row| row.state == state));
            let known = [
                (TaskState::Assigned, in_state(TaskState::Assigned)),
                (TaskState::Running, in_state(TaskState::Running)),
                (TaskState::Done, facts.done),
                (TaskState::Failed, facts.failed),
                (TaskState::Cancelled, facts.cancelled),
                (TaskState::Dropped, facts.dropped),
            ];
            let others: u64 = known.iter().map(|(_, number)| number).sum();
            let queued = (TaskState::Queued, campaign.spec.tasks.count.saturating_sub(others));
            for (state, number) in known.into_iter().chain([queued]) {
                *figures.tasks.entry(state.word()).or_default() += number;
            }
        }
        for slot in self.slots.values() {
            *figures.slots.entry(slot.row.state.word()).or_default() += 1;
        }
        figures
    }
}
