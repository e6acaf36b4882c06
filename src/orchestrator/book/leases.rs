//! When a slot is given up whose node is silent.

use super::{Book, Now};
use crate::model::Name;

/// How much longer than its lease a slot is waited for, in milliseconds, besides its grace.
const RESERVE_MS: u64 = 10_000;

/// Leases are looked after twice a second. After a longer break than this one, in milliseconds, the
/// orchestrator itself stood still.
const LONGEST_BREAK_MS: u64 = 3_000;

impl Book {
    /// How long after the last renewal a slot is given up, in milliseconds. Its node ends it after
    /// the lease and the grace; a hundredth more is for clocks that do not go alike.
    pub fn patience(&self, grace_ms: u64) -> u64 {
        let lease = self.settings.lease_ms;
        let hundredth = lease.checked_div(100).unwrap_or(0);
        lease.saturating_add(grace_ms).saturating_add(hundredth).saturating_add(RESERVE_MS)
    }

    /// Gives up slots whose leases ran out. Time in which the orchestrator stood still is no silence
    /// of a node: reports of it may wait to be read.
    pub(super) fn expire(&mut self, now: Now) {
        let pause = now.ms.saturating_sub(self.looked);
        self.looked = now.ms;
        if LONGEST_BREAK_MS < pause {
            for slot in self.slots.values_mut() {
                slot.renewed = slot.renewed.saturating_add(pause);
            }
        }
        self.overtake(now);
        let is_over = |slot: &&super::Slot| {
            let campaign = self.campaigns.get(&slot.row.campaign);
            if campaign.is_some_and(|campaign| campaign.spec.task.finishes_unheard) {
                // It goes on, however long. Its node, another boot, or an operator says that it is gone.
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

    /// Gives up all slots of a node, as an operator says that nothing runs there any more.
    pub(super) fn lose_node(&mut self, node: &Name, now: Now) {
        let shares: Vec<u64> = self.by_node.get(node).into_iter().flatten().copied().collect();
        for share in shares {
            self.lose_slot(share, "an operator says that its node is lost", now);
        }
    }
}
