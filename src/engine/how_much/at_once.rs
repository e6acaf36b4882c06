//! Counts at once what would be counted in turn anyway.
//!
//! Until somebody is refused, counting in turn does not depend on holes (`serve/raise.rs`). So a
//! share is chosen up to which there should be room for all; whether there is shows when what they
//! would then have is taken, the largest orders first, as that leaves the most room. If there is not,
//! a lower one is tried. Whatever is counted in this way is where counting in turn would have come
//! by, but that the holes left may be larger than if nshares of all orders had been taken in turn.
//!
//! Who is confined to some machines is refused, too, where these have no room for more of such work. As
//! room is only ever used up, nobody was refused on the way if there is room for all in the end.

use std::collections::BTreeSet;

use super::listed::Listed;
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
/// Where those confined to some machines have room for less than one part of so many, so little can
/// be counted at once before one of them is refused that turns cost less than another trial.
const SCARCE: u64 = 2;

/// Serves those in `walk` up to a share for which there is room in `space`, and for those who list
/// machines on these.
pub(super) fn count_at_once(
    draft: &Draft<'_>,
    space: &mut CountSpace,
    listed: &mut Listed,
    walk: &mut Walk,
) {
    let pools = &draft.pools;
    walk.refuse(|class, order| space.largest(pools, pool_of(draft, class)).0 < order);
    if listed.has_lists() {
        walk.refuse_seats(|seat| !listed.has_room(seat.job, seat.order));
    }
    let claims = walk.claims();
    let mut parts = PARTS;
    for _ in 0..TRIALS {
        let mut ahead = walk.clone();
        ahead.raise_to(highest_waterline(draft, space, &claims, parts));
        let gains = || ahead.served_since(walk);
        let is_scarce = |short: &Shortage| short.found.saturating_mul(SCARCE) < short.asked;
        let among_confined = listed.has_room_for_all(gains());
        if among_confined.as_ref().is_err_and(is_scarce) {
            return;
        }
        let taken = among_confined.and_then(|()| take_all(draft, space, gains(), ahead.wanted()));
        let Err(Shortage { found, asked }) = taken else {
            listed.expect_all(gains());
            *walk = ahead;
            return;
        };
        let filled = parts.saturating_mul(found).checked_div(asked).unwrap_or(0);
        parts = filled.saturating_sub((filled >> CAUTION) + 1);
    }
}

/// Takes room for so many nshares of all of `gains`, work of one tree, while others still want those
/// `wanted`. If there is too little, none is taken.
fn take_all(
    draft: &Draft<'_>,
    space: &mut CountSpace,
    gains: impl Iterator<Item = (Seat, u64)>,
    wanted: &OrdersWanted,
) -> Result<(), Shortage> {
    let asked = asked_of_pools(draft, gains);
    let mut left = space.clone();
    left.take_all(&draft.pools, &asked, wanted)?;
    *space = left;
    Ok(())
}

/// Takes room for all that `seats` could use. Says whether there is so much; if there is not, none is
/// taken.
pub(super) fn take_all_wanted(
    draft: &Draft<'_>,
    space: &mut CountSpace,
    listed: &mut Listed,
    seats: &[Seat],
) -> bool {
    let all = || seats.iter().map(|seat| (*seat, seat.room_to_grow));
    let has_room = space.has_room_for_each(&draft.pools, &asked_of_pools(draft, all()))
        && listed.has_room_for_all(all()).is_ok()
        && take_all(draft, space, all(), &OrdersWanted::default()).is_ok();
    if has_room {
        listed.expect_all(all());
    }
    has_room
}

/// How many nshares of each order are asked of each pool where the seats ask for so many.
fn asked_of_pools(
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
