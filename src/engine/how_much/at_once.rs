//! Counts at once what would be counted in turn anyway.
//!
//! Until somebody is refused, counting in turn does not depend on holes (`serve/raise.rs`). So a
//! share is chosen up to which there should be room for all; whether there is shows when what they
//! would then have is taken, the largest orders first, as that leaves the most room. If there is not,
//! a lower one is tried. Whatever is counted in this way is where counting in turn would have come
//! by, but that the holes left may be larger than if nshares of all orders had been taken in turn.

use std::collections::BTreeSet;

use crate::engine::draft::Draft;
use crate::engine::nodepool::{CountSpace, OrdersWanted, Shortage};
use crate::engine::serve::{Claim, Seat, Walk, Waterline};
use crate::model::{ClassIx, PoolIx, QShares};

/// How often a share is tried.
const TRIALS: u32 = 4;
/// A pool has so many parts, some of which are meant to be filled.
const PARTS: u64 = 1 << 10;
/// What was found is too much for the next trial by one part of so many: 2 to this power.
const CAUTION: u32 = 6;

/// Serves those in `walk` up to a share for which there is room in `space`.
pub(super) fn count_at_once(draft: &Draft<'_>, space: &mut CountSpace, walk: &mut Walk) {
    let pools = &draft.pools;
    walk.refuse(|class, order| space.largest(pools, pool_of(draft, class)).0 < order);
    let claims = walk.claims();
    let mut parts = PARTS;
    for _ in 0..TRIALS {
        let mut ahead = walk.clone();
        ahead.raise_to(highest_waterline(draft, space, &claims, parts));
        let asked = asked_of_pools(draft, ahead.served_since(walk));
        let mut left = space.clone();
        match left.take_all(pools, &asked, ahead.wanted()) {
            Ok(()) => {
                (*walk, *space) = (ahead, left);
                return;
            }
            Err(Shortage { found, asked }) => {
                let filled = parts.saturating_mul(found).checked_div(asked).unwrap_or(0);
                parts = filled.saturating_sub((filled >> CAUTION) + 1);
            }
        }
    }
}

/// How many nshares of each order are asked of each pool where the seats ask for so many.
pub(super) fn asked_of_pools(
    draft: &Draft<'_>,
    seats: impl Iterator<Item = (Seat, u64)>,
) -> Vec<OrdersWanted> {
    let mut asked = vec![OrdersWanted::default(); draft.snapshot.topology.pools.len()];
    for (seat, nshares) in seats.filter(|(_, nshares)| 0 < *nshares) {
        let pool = pool_of(draft, draft.entities.class_of(seat.job));
        asked[pool.0].add_many(seat.order.qshares().0, nshares);
    }
    asked
}

/// The highest waterline at which so many `parts` of each pool suffice, as far as sizes go.
fn highest_waterline(
    draft: &Draft<'_>,
    space: &CountSpace,
    claims: &[Claim],
    parts: u64,
) -> Waterline {
    let used: BTreeSet<PoolIx> = claims.iter().map(|claim| pool_of(draft, claim.class)).collect();
    let budgets = used.iter().map(|&pool| {
        let is_inside = |claim: &&Claim| draft.pools.is_within(pool_of(draft, claim.class), pool);
        let inside: Vec<Claim> = claims.iter().filter(is_inside).copied().collect();
        let QShares(total) = space.total(&draft.pools, pool);
        (total, total.saturating_mul(parts).checked_div(PARTS).unwrap_or(0), inside)
    });
    let budgets: Vec<(u64, u64, Vec<Claim>)> = budgets.collect();
    let suffices = |waterline| {
        budgets.iter().all(|(_, budget, inside)| {
            let most = inside.iter().map(|claim| claim.most(waterline));
            most.fold(0, u64::saturating_add) <= *budget
        })
    };
    let highest = budgets
        .iter()
        .flat_map(|(total, _, inside)| inside.iter().map(|claim| claim.high(*total)))
        .max();
    let (mut low, mut high) = (Waterline::LOWEST, highest.unwrap_or(Waterline::LOWEST));
    if suffices(high) {
        return high;
    }
    while let Some(middle) = low.middle(high) {
        if suffices(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn pool_of(draft: &Draft<'_>, class: ClassIx) -> PoolIx {
    draft.snapshot.topology.classes[class.0].pool
}
