//! Who goes first: the share with the least investment.
//!
//! Design: "Interlude: Preemption"; decision D1: the newest share goes first, by its number.

use std::cmp::Reverse;

use crate::engine::draft::Draft;
use crate::engine::shares::Brief;
use crate::model::{Millis, ShareId};

/// How readily a share is given up: the least goes first.
///
/// Fields compare in the order in which they are declared, so the declaration *is* the policy. The
/// number comes last so that no two shares ever tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionRank {
    /// A share still initializing goes before any that has finished.
    pub is_initialized: bool,
    /// Time at held: initialization so far, or investment once initialized.
    pub at_stake: Millis,
    /// A deeper nodepool goes first.
    pub pool_depth: Reverse<u32>,
    /// The newest goes first.
    pub share: Reverse<ShareId>,
}

/// The rank of a share.
pub(super) fn of(draft: &Draft<'_>, share: &Brief) -> EvictionRank {
    EvictionRank {
        is_initialized: share.is_initialized,
        at_stake: share.at_stake,
        pool_depth: Reverse(draft.pools.depth(draft.rooms.pool(share.machine()))),
        share: Reverse(share.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(is_initialized: bool, at_stake: Millis, depth: u32, share: u64) -> EvictionRank {
        EvictionRank {
            is_initialized,
            at_stake,
            pool_depth: Reverse(depth),
            share: Reverse(ShareId(share)),
        }
    }

    #[test]
    fn the_least_invested_go_first() {
        let in_order = [
            rank(false, 5, 0, 9), // initializing, whatever its number
            rank(false, 60, 0, 1),
            rank(true, 5, 2, 3), // two pools down
            rank(true, 5, 0, 4), // newer
            rank(true, 5, 0, 3),
            rank(true, 900, 2, 2),
        ];
        assert!(in_order.is_sorted());
    }
}
