//! Forwarding leases, on both sides.
//!
//! A campaign that another orchestrator forwarded here has a lease: unless its sender renews it, the
//! campaign is cancelled. The lease ends at a moment of this machine's clock, which goes on over
//! restarts. At the end, no event comes before the cancellation, so no task begins after it.
//!
//! After a reboot of the machine, the clock does not tell how much of a lease is over. The campaign is then in
//! doubt until its sender renews the lease, as the sender renews none that it has given up. Meanwhile no node is
//! answered: its slots go on for as long as they may without this orchestrator, which the sender waits for. A
//! campaign that is not renewed in time is cancelled before any node gets it.
//!
//! A batch that was forwarded to another cluster has the lease that it was sent with.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::history;
use super::rows::Ending;
use super::{Book, Now};

/// A lease is stored again once it was renewed by this part of its length. The stored end is
/// never later than the true end.
const STORED_PART: u64 = 8;

/// Longest time of doubt after a reboot, in milliseconds. The sender makes several passes in it.
const LONGEST_DOUBT_MS: u64 = 60_000;
/// The doubt lasts for this part of the lease of slots at most, so that they do not end in it.
const DOUBT_PART: u64 = 4;

/// A lease of a campaign, or of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRow {
    /// Number of the campaign or batch.
    pub number: u64,
    /// Length of the lease, in milliseconds.
    pub lease_ms: u64,
    /// End of the lease, in milliseconds since this machine's boot. 0 for a batch, and for an end
    /// before this boot.
    pub until_ms: u64,
}

/// Leases of campaigns that were forwarded here.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    /// Lease of each campaign, and its stored end.
    rows: BTreeMap<u64, (LeaseRow, u64)>,
    /// Ends of the leases, with their campaigns.
    due: BTreeSet<(u64, u64)>,
    /// Campaigns whose leases began before a reboot, and were not renewed since.
    in_doubt: BTreeSet<u64>,
}

impl Leases {
    pub(super) fn put(&mut self, row: LeaseRow) {
        if let Some((old, _)) = self.rows.insert(row.number, (row, row.until_ms)) {
            self.due.remove(&(old.until_ms, old.number));
        }
        self.due.insert((row.until_ms, row.number));
    }

    /// True if a campaign has a lease.
    pub(super) fn has(&self, campaign: u64) -> bool {
        self.rows.contains_key(&campaign)
    }

    /// Puts a lease from the record. A lease of another boot is in doubt from `now` on.
    pub(super) fn put_again(&mut self, row: LeaseRow, now: u64, slot_lease_ms: u64) {
        if 0 < row.until_ms {
            return self.put(row);
        }
        let part = slot_lease_ms.checked_div(DOUBT_PART).unwrap_or(0);
        let until_ms = now.saturating_add(part.min(LONGEST_DOUBT_MS));
        self.put(LeaseRow { until_ms, ..row });
        self.in_doubt.insert(row.number);
    }

    /// Forgets the lease of a campaign. Returns true if it had a lease.
    pub(super) fn forget(&mut self, campaign: u64) -> bool {
        let Some((row, _)) = self.rows.remove(&campaign) else { return false };
        self.due.remove(&(row.until_ms, campaign));
        self.in_doubt.remove(&campaign);
        true
    }
}

impl Book {
    /// Gives a new campaign its lease.
    pub(super) fn lease(&mut self, row: LeaseRow) {
        if self.campaigns.contains_key(&row.number) {
            self.leases.put(row);
            self.dirty.leases.insert(row.number, Some(row));
        }
    }

    /// Renews the leases of campaigns, as of a moment of this machine's clock. An older moment
    /// changes nothing.
    pub(super) fn renew(&mut self, campaigns: &[u64], as_of_ms: u64) {
        for campaign in self.renewable(campaigns) {
            let Some((row, stored)) = self.leases.rows.get_mut(&campaign) else { continue };
            let until_ms = as_of_ms.saturating_add(row.lease_ms);
            let is_in_doubt = self.leases.in_doubt.remove(&campaign);
            if until_ms <= row.until_ms && !is_in_doubt {
                continue;
            }
            self.leases.due.remove(&(row.until_ms, campaign));
            self.leases.due.insert((until_ms, campaign));
            row.until_ms = until_ms;
            let part = row.lease_ms.checked_div(STORED_PART).unwrap_or(0);
            if is_in_doubt || part <= until_ms.saturating_sub(*stored) {
                *stored = until_ms;
                self.dirty.leases.insert(campaign, Some(*row));
            }
        }
    }

    /// Those of the campaigns that have a lease and are not being cancelled.
    pub fn renewable(&self, campaigns: &[u64]) -> Vec<u64> {
        let goes_on = |id: &u64| {
            let campaign = self.campaigns.get(id);
            self.leases.has(*id) && campaign.is_some_and(|campaign| campaign.facts.ending.is_none())
        };
        campaigns.iter().copied().filter(goes_on).collect()
    }

    /// True if a lease is in doubt, so that no node may be answered.
    pub fn is_in_doubt(&self) -> bool {
        !self.leases.in_doubt.is_empty()
    }

    /// Cancels campaigns whose leases have ended.
    pub(super) fn end_leases(&mut self, now: Now) {
        while let Some((until_ms, campaign)) = self.leases.due.first().copied() {
            if now.ms < until_ms {
                return;
            }
            self.leases.due.pop_first();
            self.leases.in_doubt.remove(&campaign);
            let is_live = self.campaigns.get(&campaign).is_some_and(|it| it.facts.ending.is_none());
            if !is_live {
                continue;
            }
            let text =
                "the cluster that forwarded it did not renew its lease; its tasks are cancelled";
            self.dirty.notes.push(history(campaign, "lease", text));
            self.cancel(campaign, Ending::Cancelled);
        }
    }
}
