//! The slots of a node, as people see them.

use super::slots::Slot;
use super::{Book, Now};
use crate::model::count;
use crate::orchestrator::wire::{NodeSlot, NodeSlots, SlotTask};

impl Book {
    /// The slots of `node` at time `now`, by share. `None`: its agent has not reported since the start.
    pub fn slots_on(&self, node: &str, now: Now) -> Option<NodeSlots> {
        let known = self.nodes.get(node)?;
        let shares = self.by_node.get(node).into_iter().flatten();
        let slots = shares.filter_map(|share| self.slots.get(share)).filter(|slot| !slot.is_gone());
        Some(NodeSlots {
            node: node.to_owned(),
            limits: known.limits?,
            only_user: known.only_user.as_ref().map(ToString::to_string),
            silent_ms: known.silent_ms(now.ms),
            slots: slots.filter_map(|slot| self.told(slot, now)).collect(),
        })
    }

    fn told(&self, slot: &Slot, now: Now) -> Option<NodeSlot> {
        let campaign = self.campaigns.get(&slot.row.campaign)?;
        let running = slot.attempts.iter().filter_map(|(id, held)| {
            let ms = now.ms.saturating_sub(held.begun?);
            Some(SlotTask { task: *id, since_ms: now.wall_ms.saturating_sub(ms) })
        });
        let running: Vec<SlotTask> = running.collect();
        Some(NodeSlot {
            share: slot.row.share,
            campaign: slot.row.campaign,
            name: campaign.spec.task.name.clone(),
            user: campaign.facts.owner.clone(),
            state: slot.row.state.word().to_owned(),
            memory_mb: campaign.memory_of_slot(&slot.row),
            used_mb: (0 < slot.used_mb).then_some(slot.used_mb),
            waiting: count(&slot.attempts).saturating_sub(count(&running)),
            running,
        })
    }
}
