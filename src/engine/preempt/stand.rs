//! How willingly jobs give: how each stands, and of what tier each of their shares therefore is.

use super::victims::Tier;
use crate::engine::draft::Draft;

/// How a job stands as a donor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    /// What it holds.
    pub held: u64,
    /// Whether that is no more than what was counted for it.
    pub is_within_count: bool,
    /// Whether it is needy with one nshare less.
    becomes_needy: bool,
}

impl Stand {
    pub(super) fn of(draft: &Draft<'_>, job: usize) -> Stand {
        Stand {
            held: draft.held.jobs[job],
            is_within_count: draft.held.jobs[job] <= draft.given.jobs[job],
            becomes_needy: draft.becomes_needy_with(job, draft.has(job).saturating_sub(1)),
        }
    }

    /// Whether its shares are of the same tiers as those of one that stands like `other`.
    pub(super) fn is_alike(self, other: Stand) -> bool {
        (self.is_within_count, self.becomes_needy) == (other.is_within_count, other.becomes_needy)
    }

    /// The tier of its shares, of those that are residents or of the others.
    pub(super) fn tier(self, is_resident: bool) -> Tier {
        let Stand { is_within_count, becomes_needy, .. } = self;
        Tier { is_resident, is_within_count, becomes_needy }
    }
}

/// Of what tier each share is now, by its place among all shares. A byte each, as every search asks this
/// of hundreds.
#[derive(Debug)]
pub(super) struct Tiers(Vec<u8>);

/// Stands for a share that is on its way out.
const GONE: u8 = u8::MAX;

impl Tiers {
    /// Those of the shares of jobs that stand like this, in order.
    pub(super) fn new(draft: &Draft<'_>, stands: &[Stand]) -> Tiers {
        let shares = stands.iter().enumerate().flat_map(|(job, stand)| {
            draft.shares.of_job(job).iter().map(move |share| {
                if share.is_held { stand.tier(share.is_resident).number() } else { GONE }
            })
        });
        Tiers(shares.collect())
    }

    /// So many shares, all of `tier`.
    #[cfg(test)]
    pub(super) fn all_of(tier: Tier, shares: usize) -> Tiers {
        Tiers(vec![tier.number(); shares])
    }

    /// Whether the share at `place` is of `tier` now, and still to be had.
    #[inline]
    pub(super) fn is_of(&self, place: usize, tier: Tier) -> bool {
        self.0[place] == tier.number()
    }

    /// The tier of the share at `place` now, if it is still to be had.
    pub(super) fn of(&self, place: usize) -> Option<Tier> {
        Some(self.0[place]).filter(|number| *number != GONE).map(Tier::numbered)
    }

    /// Notes that the share at `place` is of `tier` from now on.
    pub(super) fn note(&mut self, place: usize, tier: Tier) {
        self.0[place] = tier.number();
    }

    /// Notes that the share at `place` was taken.
    pub(super) fn note_gone(&mut self, place: usize) {
        self.0[place] = GONE;
    }
}
