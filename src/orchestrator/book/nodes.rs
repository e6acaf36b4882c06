//! Nodes, as their agents reported them last.

use super::Book;
use crate::model::{Name, count};
use crate::orchestrator::wire::Rung;

/// A node that runs slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name of the node.
    pub node: Name,
    /// Enforcement of memory limits on the node.
    pub limits: Rung,
    /// Only user whose work can run on the node.
    pub only_user: Option<Name>,
    /// Slots that are not gone.
    pub slots: u64,
    /// Attempts that run.
    pub running: u64,
    /// Memory of the slots, in MiB.
    pub used_mb: u64,
    /// Silence of the agent, in milliseconds. 0: the agent waits for an answer.
    pub silent_ms: u64,
}

/// A node as the book tracks it.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub boot: String,
    pub life: String,
    pub number: u64,
    pub limits: Option<Rung>,
    pub only_user: Option<Name>,
    /// Address for other nodes, as the agent reported it last.
    pub address: Option<String>,
    /// True if the agent waits for an answer.
    pub is_waiting: bool,
    /// Time of the last exchange, by the clock of the book.
    pub heard: u64,
    /// Gone shares of the last report that the book does not know, each with its last result's
    /// number.
    pub unknown_gone: Vec<(u64, u64)>,
    /// True if the answer to the last report has news that no slot shows.
    pub has_news: bool,
}

impl Node {
    /// Returns the silence of the agent, in milliseconds at time `now`. 0: the agent waits for an
    /// answer.
    pub(super) fn silent_ms(&self, now: u64) -> u64 {
        if self.is_waiting { 0 } else { now.saturating_sub(self.heard) }
    }
}

impl Book {
    /// Every node whose agent has reported since the start, by name, at time `now`.
    pub fn nodes(&self, now: u64) -> Vec<NodeFacts> {
        let heard = self.nodes.iter().filter_map(|(name, node)| Some((name, node, node.limits?)));
        let facts = heard.map(|(name, node, limits)| {
            let shares = self.by_node.get(name).into_iter().flatten();
            let slots = shares.filter_map(|share| self.slots.get(share));
            let live: Vec<&super::Slot> = slots.filter(|slot| !slot.is_gone()).collect();
            let begun = |slot: &&super::Slot| {
                count(slot.attempts.values().filter(|held| held.begun.is_some()))
            };
            let memory = |slot: &&super::Slot| {
                let campaign = self.campaigns.get(&slot.row.campaign)?;
                Some(campaign.memory_of_slot(&slot.row))
            };
            NodeFacts {
                node: name.clone(),
                limits,
                only_user: node.only_user.clone(),
                slots: count(&live),
                running: live.iter().map(begun).sum(),
                used_mb: live.iter().filter_map(memory).sum(),
                silent_ms: node.silent_ms(now),
            }
        });
        facts.collect()
    }
}
