//! Bulk step of target counting: its result is what counting in turn would reach anyway.
//!
//! Until a job is refused, counting in turn does not depend on the free space (`water_filling/bulk.rs`).
//! So the bulk step chooses a share up to which there should be space for all jobs. To verify it,
//! the amounts at that share are taken, the largest orders first, as that leaves the most space. If
//! they do not fit, a lower share is tried. Counting in turn would pass through the same state,
//! except that the free pieces left here may be larger.
//!
//! A job with a node list is refused, too, if its nodes have no space for more of such work. Free
//! space only ever shrinks: if all jobs have space in the end, none was refused on the way.

use std::collections::BTreeSet;

use super::arrangement::Arrangement;
use super::node_lists::NodeListCapacity;
use crate::engine::capacity::{DemandByOrder, EmptyCluster, Shortage};
use crate::engine::draft::Draft;
use crate::engine::water_filling::{Claim, Participant, WaterFill, WaterLevel};
use crate::model::{ClassIx, PoolIx, QShares};

/// Trials of a share for each bulk step.
const BISECTIONS: u32 = 4;
/// Parts of a pool's size; each trial aims to fill a number of them.
const PARTS: u64 = 1 << 10;
/// Safety margin of the next trial: it aims below the part that was found by 1/2^CAUTION of it.
const COUNT_MARGIN: u32 = 6;
/// If jobs with node lists have space for less than 1/SCARCE of the amount, the bulk step stops. A
/// job would soon be refused, so that serving in turn costs less than another trial.
const TOO_SCARCE: u64 = 2;

/// Raises the jobs in `walk` to a share for which there is space in `space`. Jobs with a node list
/// also need space on the listed nodes.
pub(super) fn count_at_once(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    (listed, named): (&mut NodeListCapacity, &mut Option<Arrangement>),
    walk: &mut WaterFill,
) {
    let pools = &draft.pools;
    walk.refuse(|class, order| space.largest(pools, pool_of(draft, class)).0 < order);
    if listed.has_lists() {
        walk.refuse_seats(|seat| !listed.has_space(seat.job, seat.order));
    }
    let claims = walk.claims();
    let mut parts = PARTS;
    for _ in 0..BISECTIONS {
        let mut ahead = walk.clone();
        ahead.raise_to(highest_waterline(draft, space, &claims, parts));
        let gains = || ahead.served_since(walk);
        let is_scarce = |short: &Shortage| short.found.saturating_mul(TOO_SCARCE) < short.requested;
        let among_confined = listed.has_space_for_all(gains());
        if among_confined.as_ref().is_err_and(is_scarce) {
            return;
        }
        let arranged = among_confined.and_then(|()| arrange(draft, named.as_ref(), gains()));
        let taken = arranged.and_then(|arranged| {
            take_all(draft, space, gains(), ahead.unmet_demand()).map(|()| arranged)
        });
        let Err(Shortage { found, requested }) = taken.map(|arranged| *named = arranged) else {
            listed.expect_all(gains());
            *walk = ahead;
            return;
        };
        let filled = parts.saturating_mul(found).checked_div(requested).unwrap_or(0);
        parts = filled.saturating_sub((filled >> COUNT_MARGIN) + 1);
    }
}

/// Arranges `gains` beside the targets so far, if some job of the tree lists nodes.
fn arrange(
    draft: &Draft<'_>,
    named: Option<&Arrangement>,
    gains: impl Iterator<Item = (Participant, u64)>,
) -> Result<Option<Arrangement>, Shortage> {
    let Some(mut named) = named.cloned() else { return Ok(None) };
    named.take_all(draft, gains)?;
    Ok(Some(named))
}

/// Takes space for the nshares of all `gains`, which belong to a single tree; `demand` is the
/// demand that remains. If there is too little space, none is taken.
fn take_all(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    gains: impl Iterator<Item = (Participant, u64)>,
    demand: &DemandByOrder,
) -> Result<(), Shortage> {
    let requested = requests_by_pool(draft, gains);
    let mut left = space.clone();
    left.take_all(&draft.pools, &requested, demand)?;
    *space = left;
    Ok(())
}

/// Takes space for the whole demand of `seats`. Returns false, and takes none, if there is too
/// little.
pub(super) fn take_whole_demand(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    (listed, named): (&mut NodeListCapacity, Option<&Arrangement>),
    seats: &[Participant],
) -> bool {
    let all = || seats.iter().map(|seat| (*seat, seat.space_to_grow));
    let has_space = space.has_space_for_each(&draft.pools, &requests_by_pool(draft, all()))
        && listed.has_space_for_all(all()).is_ok()
        && arrange(draft, named, all()).is_ok()
        && take_all(draft, space, all(), &DemandByOrder::default()).is_ok();
    if has_space {
        listed.expect_all(all());
    }
    has_space
}

/// Requested nshares of each order in each pool.
fn requests_by_pool(
    draft: &Draft<'_>,
    seats: impl Iterator<Item = (Participant, u64)>,
) -> Vec<DemandByOrder> {
    let mut requested = vec![DemandByOrder::default(); draft.snapshot.topology.pools.len()];
    for (seat, nshares) in seats.filter(|(_, nshares)| 0 < *nshares) {
        let pool = pool_of(draft, draft.entities.class_of(seat.job));
        requested[pool.0].add_many(seat.order.qshares().0, nshares);
    }
    requested
}

/// Highest waterline at which `parts` parts of each pool suffice, judged by sizes alone.
fn highest_waterline(
    draft: &Draft<'_>,
    space: &EmptyCluster,
    claims: &[Claim],
    parts: u64,
) -> WaterLevel {
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
    let (mut low, mut high) = (WaterLevel::LOWEST, highest.unwrap_or(WaterLevel::LOWEST));
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
    draft.snapshot.topology.classes[class].pool
}
