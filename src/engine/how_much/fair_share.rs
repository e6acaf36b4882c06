//! Counts fair-share work: weighted shares for classes, equal ones for the users of a class and
//! for the jobs of a user.
//!
//! Design: "How Much"; architecture section 5. Counting is water-filling, one nshare at a time, as
//! long as the ideal cluster still has a hole of its order; so what is counted could be placed if
//! nothing stood in the way, nobody is more than one nshare behind a peer by weight, and no
//! rounding can bury the small.
//!
//! Where there is room for all anyway, all get what they could use, and nobody needs to be served in
//! turn.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::listed::Listed;
use crate::engine::cap::maximum;
use crate::engine::draft::{CountRefusal, Draft};
use crate::engine::nodepool::CountSpace;
use crate::engine::serve::{Seat, Service, Walk};
use crate::model::{ClassIx, NShares, Order, PoolIx, QShares, floor_div};

/// Counts `jobs`, the fair-share work of one priority, from what better priorities left in
/// `space`. What is left there afterwards means nothing if the priority `is_last`.
pub(super) fn count(
    draft: &mut Draft<'_>,
    space: &mut CountSpace,
    listed: &mut Listed,
    jobs: &[usize],
    is_last: bool,
) {
    remember_pure_fair_shares(draft, space, jobs);
    count_what_stays_anyway(draft, jobs);
    note_where_nothing_is_left(draft, space, listed, jobs);
    // Trees share no machines, so they can be counted one after the other; within one, what larger
    // requests lose by a hole is known.
    let mut by_tree: BTreeMap<PoolIx, Vec<usize>> = BTreeMap::new();
    for &job in jobs {
        let pool = draft.snapshot.class_of(draft.job(job)).pool;
        by_tree.entry(draft.pools.top(pool)).or_default().push(job);
    }
    for jobs in by_tree.values() {
        let seats: Vec<Seat> = jobs.iter().map(|&job| seat(draft, listed, job)).collect();
        if is_last && have_all_room(draft, space, listed, &seats) {
            enter(draft, seats.into_iter().map(|seat| (seat, seat.room_to_grow)));
        } else {
            count_in_turn(draft, space, listed, seats);
        }
    }
}

/// Whether there is room for all `seats`, in whatever turn they are served and whatever holes they
/// take: a share of order 3 costs those of order 2 at most two places. Who lists machines is not
/// looked at so roughly.
fn have_all_room(draft: &Draft<'_>, space: &CountSpace, listed: &Listed, seats: &[Seat]) -> bool {
    let mut asked: BTreeMap<(PoolIx, Order), u64> = BTreeMap::new();
    for seat in seats.iter().filter(|seat| 0 < seat.room_to_grow) {
        if listed.has_list(seat.job) {
            return false;
        }
        let pool = draft.snapshot.class_of(draft.job(seat.job)).pool;
        let nshares = asked.entry((pool, seat.order)).or_default();
        *nshares = nshares.saturating_add(seat.room_to_grow);
    }
    asked.keys().all(|&(pool, order)| {
        let competes =
            |other| draft.pools.is_within(other, pool) || draft.pools.is_within(pool, other);
        let places = |other: Order| {
            let rounded_up = QShares(other.qshares().0 + order.qshares().0 - 1);
            rounded_up.nshares(order).0
        };
        let taken = asked.iter().filter(|((other, _), _)| competes(*other));
        let taken = taken.map(|((_, other), nshares)| nshares.saturating_mul(places(*other)));
        taken.fold(0, u64::saturating_add) <= space.nshares(&draft.pools, pool, order)
    })
}

/// Serves `seats`, the least served first, as long as there is room for anybody.
fn count_in_turn(
    draft: &mut Draft<'_>,
    space: &mut CountSpace,
    listed: &mut Listed,
    seats: Vec<Seat>,
) {
    let entities = Arc::clone(&draft.entities);
    let pools: Vec<PoolIx> =
        draft.snapshot.topology.classes.iter().map(|class| class.pool).collect();
    let walk = Walk::new(&entities, seats, &draft.given, &draft.held);
    let counted = walk.serve_least_first(|&Seat { job, order, .. }, wanted| {
        if !listed.has_room(job, order) {
            return Service::Refused;
        }
        let pool = pools[entities.class_of(job).0];
        // What one of this class and order does not find there is none of.
        if !space.take(&draft.pools, pool, order, wanted) {
            return Service::RefusedAlike;
        }
        listed.expect(job, order);
        Service::Served
    });
    let counted: Vec<(Seat, u64)> = counted.collect();
    enter(draft, counted.into_iter());
}

/// Enters how many nshares are counted for each.
fn enter(draft: &mut Draft<'_>, counted: impl Iterator<Item = (Seat, u64)>) {
    let entities = Arc::clone(&draft.entities);
    for (Seat { job, order, .. }, nshares) in counted {
        draft.jobs[job].given += nshares;
        entities.add(&mut draft.given, job, NShares(nshares).of_order(order).0);
    }
}

/// How far a job may be counted: to its cap, and no further than the machines it lists could hold.
fn seat(draft: &Draft<'_>, listed: &Listed, job: usize) -> Seat {
    let order = draft.job(job).order;
    let below_cap = draft.jobs[job].demand.cap.nshares.0.saturating_sub(draft.jobs[job].given);
    let room_to_grow = listed.most(job, order).map_or(below_cap, |most| most.min(below_cap));
    Seat { job, order, room_to_grow }
}

/// Shares on machines that take no new work, but keep what they have, are counted for whoever
/// holds them: their space is not in `space`, and nobody could use it. Not beyond a job's declared
/// maximum: what is above that goes, wherever it is, and nothing may come in its place.
fn count_what_stays_anyway(draft: &mut Draft<'_>, jobs: &[usize]) {
    let entities = Arc::clone(&draft.entities);
    for &job in jobs {
        let work = draft.job(job);
        let most = maximum(work).unwrap_or(u64::MAX);
        let stays = work.held().filter(|share| !draft.rooms.is_schedulable(share.machine));
        let orders: Vec<u64> =
            stays.zip(0..most).map(|(share, _)| share.order.qshares().0).collect();
        for order in orders {
            draft.jobs[job].given += 1;
            entities.add(&mut draft.given, job, order);
        }
    }
}

/// Notes for each job whether one nshare of it would fit at all into what is left for its priority.
fn note_where_nothing_is_left(
    draft: &mut Draft<'_>,
    space: &CountSpace,
    listed: &Listed,
    jobs: &[usize],
) {
    let mut largest: BTreeMap<PoolIx, QShares> = BTreeMap::new();
    for &job in jobs {
        let work = draft.job(job);
        let pool = draft.snapshot.class_of(work).pool;
        let largest = *largest.entry(pool).or_insert_with(|| space.largest(&draft.pools, pool));
        let largest = listed.largest(job).map_or(largest, |listed| listed.min(largest));
        if largest < work.order.qshares() {
            draft.jobs[job].refusal = Some(CountRefusal::NothingLeft { left: largest });
        }
    }
}

/// What each job would have if every class, user and job of this priority could use its part:
/// the space left for the class's pools, divided by weight, then equally, then equally.
///
/// Design: "Defragmentation", "deserved shares"; decision D4: schedulable capacity only.
fn remember_pure_fair_shares(draft: &mut Draft<'_>, space: &CountSpace, jobs: &[usize]) {
    let entities = &draft.entities;
    let mut jobs_of_user = vec![0; entities.groups().len()];
    let mut users_of_class: BTreeMap<ClassIx, u64> = BTreeMap::new();
    for &job in jobs {
        let jobs = &mut jobs_of_user[entities.group_of(job)];
        if *jobs == 0 {
            *users_of_class.entry(entities.class_of(job)).or_default() += 1;
        }
        *jobs += 1;
    }
    let classes: BTreeSet<ClassIx> = users_of_class.keys().copied().collect();
    let of_user: BTreeMap<ClassIx, u64> = users_of_class
        .iter()
        .map(|(&class, &users)| (class, divide(class_share(draft, space, class, &classes), users)))
        .collect();
    for &job in jobs {
        let (class, group) = (draft.entities.class_of(job), draft.entities.group_of(job));
        draft.jobs[job].pure_fair_share = divide(of_user[&class], jobs_of_user[group]);
    }
}

/// The part of its pools that `class` deserves beside those of `classes` that compete for them.
fn class_share(
    draft: &Draft<'_>,
    space: &CountSpace,
    class: ClassIx,
    classes: &BTreeSet<ClassIx>,
) -> u64 {
    let pool_of = |class: ClassIx| draft.snapshot.topology.classes[class.0].pool;
    let pool = pool_of(class);
    let competes = |other: &ClassIx| {
        let other = pool_of(*other);
        draft.pools.is_within(other, pool) || draft.pools.is_within(pool, other)
    };
    let weights =
        classes.iter().copied().filter(competes).map(|class| draft.entities.weight(class)).sum();
    divide(space.total(&draft.pools, pool).0.saturating_mul(draft.entities.weight(class)), weights)
}

fn divide(amount: u64, parts: u64) -> u64 {
    NonZeroU64::new(parts).map_or(0, |parts| floor_div(amount, parts))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::engine::audit::tests::{ANN, BOB, FAIR, HEAVY, SUB, Scene};
    use crate::model::MachineIx;

    const INNER: ClassIx = ClassIx(3);

    /// Machines of two pools, and work that asks for about as much as there is.
    fn scene(random: &mut ChaCha8Rng) -> Scene {
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        let machines = draw(1, 5);
        let orders: Vec<u64> = (0..machines).map(|_| draw(1, 9)).collect();
        let mut scene = Scene::new(&orders);
        for machine in 0..orders.len() {
            if draw(0, 2) == 0 {
                scene.machine(machine).pool = SUB;
            }
        }
        for _ in 0..draw(1, 5) {
            let user = if draw(0, 1) == 0 { ANN } else { BOB };
            let class = match draw(0, 2) {
                0 => FAIR,
                1 => HEAVY,
                _ => INNER,
            };
            let order = u32::try_from(draw(1, 4)).unwrap();
            let job = scene.job(user, class, order, draw(1, 3));
            if draw(0, 9) == 0 {
                scene.edit(job).machines = Some(vec![MachineIx(0)]);
            }
        }
        scene
    }

    /// How many nshares are counted for each job, and whether it was known beforehand that there
    /// are enough for all.
    fn count_all(scene: &Scene, is_last: bool) -> (Vec<u64>, bool) {
        let mut draft = Draft::new(&scene.snapshot);
        let mut space = CountSpace::new(&scene.snapshot);
        let mut listed = Listed::new(&draft);
        let jobs: Vec<usize> = (0..scene.snapshot.jobs.len()).collect();
        let seats: Vec<Seat> = jobs.iter().map(|&job| seat(&draft, &listed, job)).collect();
        let is_known = have_all_room(&draft, &space, &listed, &seats);
        count(&mut draft, &mut space, &mut listed, &jobs, is_last);
        (draft.jobs.iter().map(|job| job.given).collect(), is_known)
    }

    #[test]
    fn where_there_is_room_for_all_they_get_what_they_would_get_in_turn() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut known = 0;
        for _ in 0..2_000 {
            let scene = scene(&mut random);
            let (in_turn, is_known) = count_all(&scene, false);
            known += usize::from(is_known);
            assert_eq!(count_all(&scene, true).0, in_turn);
        }
        assert!((200..1_800).contains(&known), "known in {known} cases");
    }
}
