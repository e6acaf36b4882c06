//! Forwarding leases: the time for which a cluster may run tasks that were forwarded to it.
//!
//! The cluster counts its lease from a reading of its own clock. The router sends the latest
//! reading back with each renewal, so a renewal that is under way for long renews nothing. The
//! router counts from the moment at which it sent a reading, which is later. It waits for the
//! lease, then for slots of that cluster that its orchestrator cannot reach, and some more.

/// Wait beyond all leases, in milliseconds: the cluster checks its leases at intervals.
const RESERVE_MS: u64 = 10_000;

/// Times after which no task of a batch can run on its cluster, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingLease {
    /// Lease of the batch on its cluster.
    pub lease_ms: u64,
    /// Lease of the cluster's slots: a slot that gets no cancellation ends after it.
    pub slot_lease_ms: u64,
    /// Time that a task has between its signal and its end.
    pub grace_ms: u64,
    /// Time for which slots go on after the end of their lease. 0: they end with it.
    pub unheard_ms: u64,
}

impl ForwardingLease {
    /// Returns the silence after which the tasks can be sent elsewhere. A hundredth more allows for
    /// clocks of different speed.
    pub fn patience_ms(&self) -> u64 {
        let leases = self.lease_ms.saturating_add(self.slot_lease_ms);
        let hundredth = leases.saturating_add(self.unheard_ms).checked_div(100).unwrap_or(0);
        [self.grace_ms, self.unheard_ms, hundredth, RESERVE_MS]
            .into_iter()
            .fold(leases, u64::saturating_add)
    }

    /// True if no task of the batch can run on its cluster. `sent_ms`: the time of the last message
    /// that may have renewed the lease. `now_ms`: the time. Both by the router's clock.
    pub fn is_over(&self, sent_ms: u64, now_ms: u64) -> bool {
        self.patience_ms() < now_ms.saturating_sub(sent_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_router_waits_for_all_leases_the_grace_and_some_more() {
        let rows = [
            ((600_000, 600_000, 30_000, 0), 1_252_000),
            ((600_000, 600_000, 30_000, 50_000), 1_302_500),
            ((5000, 5000, 1000, 0), 21_100),
            ((0, 0, 0, 0), 10_000),
            ((u64::MAX, 1, 1, 1), u64::MAX),
        ];
        for ((lease_ms, slot_lease_ms, grace_ms, unheard_ms), expected) in rows {
            let lease = ForwardingLease { lease_ms, slot_lease_ms, grace_ms, unheard_ms };
            assert_eq!(lease.patience_ms(), expected, "{lease:?}");
        }
        let times = (5000, 5000, 1000);
        let (lease_ms, slot_lease_ms, grace_ms) = times;
        let lease = ForwardingLease { lease_ms, slot_lease_ms, grace_ms, unheard_ms: 0 };
        assert!(!lease.is_over(1000, 22_100) && lease.is_over(1000, 22_101));
        assert!(!lease.is_over(9000, 1000), "a clock that stands still ends nothing");
    }

    proptest! {
        /// Oracle: a timeline of both sides. The clock of the cluster differs, and runs up to a
        /// hundredth slower. Its orchestrator stops at any time, so slots end by their own leases.
        #[test]
        fn a_task_ends_on_its_cluster_before_it_is_sent_elsewhere(
            lease_ms in 1000_u64..1_000_000,
            slot_lease_ms in 1000_u64..1_000_000,
            grace_ms in 0_u64..600_000,
            unheard_ms in 0_u64..600_000,
            offset in 0_u64..1_000_000_000,
            slower in 0_u64..100,
            read in 0_u64..1_000_000,
            way in 0_u64..20_000,
            stopped in 0_u64..3_000_000,
        ) {
            let there = |time: u64| offset + time - (time * slower).checked_div(10_000).unwrap();
            // Slots get the end within half a second.
            let last_word = there(stopped).min(there(read) + lease_ms + 500);
            let end = last_word + slot_lease_ms + unheard_ms + grace_ms;
            let lease = ForwardingLease { lease_ms, slot_lease_ms, grace_ms, unheard_ms };
            let sent = read + way;
            let elsewhere = sent + lease.patience_ms() + 1;
            prop_assert!(lease.is_over(sent, elsewhere));
            prop_assert!(end < there(elsewhere), "{end} {}", there(elsewhere));
        }
    }
}
