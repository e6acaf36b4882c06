//! Leases of slots: the book gives up a slot whose node is silent for too long.

use super::{Book, Now};
use crate::model::Name;

/// Wait for a silent slot beyond its lease and its grace, in milliseconds.
const RESERVE_MS: u64 = 10_000;

/// Longest break between two checks of the leases, in milliseconds. Checks run twice a second.
/// After a longer break, the orchestrator itself stood still.
const LONGEST_BREAK_MS: u64 = 3_000;

impl Book {
    /// Returns the silence after which the book gives up a slot, in milliseconds since its last
    /// renewal. The node ends the slot after lease and grace. A hundredth more allows for clocks of
    /// different speed.
    pub fn patience(&self, grace_ms: u64) -> u64 {
        let lease = self.settings.lease_ms;
        let hundredth = lease.checked_div(100).unwrap_or(0);
        lease.saturating_add(grace_ms).saturating_add(hundredth).saturating_add(RESERVE_MS)
    }

    /// Gives up slots whose leases ran out. A pause of the orchestrator does not count as silence
    /// of a node: reports may wait to be read.
    pub(super) fn expire(&mut self, now: Now) {
        let pause = now.ms.saturating_sub(self.looked);
        self.looked = now.ms;
        if LONGEST_BREAK_MS < pause {
            for slot in self.slots.values_mut() {
                slot.renewed = slot.renewed.saturating_add(pause);
            }
        }
        self.overtake(now);
        self.note_late_tasks(now);
        self.retest(now);
        self.give_up_unasked(now);
        let is_over = |slot: &&super::Slot| {
            let campaign = self.campaigns.get(&slot.row.campaign);
            if campaign.is_some_and(|campaign| campaign.spec.task.finishes_unheard) {
                // The slot goes on, however long. It ends only by its node, another boot, or an
                // operator.
                return false;
            }
            let grace = campaign.map_or(0, |campaign| campaign.spec.task.grace_ms);
            let silent = now.ms.saturating_sub(slot.renewed);
            slot.is_told && !slot.is_gone() && self.patience(grace) < silent
        };
        let over: Vec<u64> =
            self.slots.values().filter(is_over).map(|slot| slot.row.share).collect();
        for share in over {
            self.lose_slot(share, "its lease ran out, and its node is silent", now);
        }
    }

    /// Gives up all slots of a node that an operator declared lost.
    pub(super) fn lose_node(&mut self, node: &Name, now: Now) {
        let shares: Vec<u64> = self.by_node.get(node).into_iter().flatten().copied().collect();
        for share in shares {
            self.lose_slot(share, "an operator says that its node is lost", now);
        }
    }
}
