//! The ideal cluster that How Much gives away: every machine empty but for what cannot move.
//!
//! Design: "Virtual Machines". The design's three tables are here one per pool: holes by size, in
//! whole machines and in partial ones; the nshares of an order are their weighted sum.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use super::{OrdersWanted, Pools};
use crate::engine::snapshot::Snapshot;
use crate::model::{Order, PoolIx, QShares};

/// What is left to be counted, per pool.
#[derive(Clone, Debug)]
pub(in crate::engine) struct CountSpace {
    pools: Vec<Holes>,
}

/// How many holes of each size one pool has, by size: those in machines with something on them before
/// whole machines. There are few sizes, so they are a list; of some there may be none left.
#[derive(Clone, Debug, Default)]
struct Holes(Vec<(Hole, u64)>);

/// What is left of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct Hole {
    pub size: u64,
    /// Whether it is all of the machine.
    pub is_whole: bool,
}

/// There was room for fewer nshares of some order than were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Shortage {
    pub found: u64,
    pub asked: u64,
}

impl CountSpace {
    /// All schedulable machines, less what cannot be preempted on each.
    pub(in crate::engine) fn new(snapshot: &Snapshot) -> CountSpace {
        let fixed = immovable(snapshot);
        let mut pools = vec![Holes::default(); snapshot.topology.pools.len()];
        for (ix, machine) in
            snapshot.machines_with_ix().filter(|(_, machine)| machine.state.is_schedulable())
        {
            let taken = fixed[ix.0];
            let size = machine.order.saturating_sub(taken).0;
            pools[machine.pool.0].put(Hole { size, is_whole: taken == QShares(0) }, 1);
        }
        CountSpace { pools }
    }

    /// Takes one nshare of `order` from `pool` or, if there is no room in it, from the pools in it.
    /// Says whether there was room.
    pub(in crate::engine) fn take(
        &mut self,
        pools: &Pools,
        pool: PoolIx,
        order: Order,
        wanted: &OrdersWanted,
    ) -> bool {
        let searched = pools.searched_from(pool);
        searched.iter().any(|&pool| self.pools[pool.0].take(order, wanted, None))
    }

    /// Takes all that is `asked` of each pool, in nshares, or says what there is too little of.
    ///
    /// The innermost pools first, as their work can go nowhere else, and in each the largest orders
    /// first, as they fit into the fewest holes.
    pub(in crate::engine) fn take_all(
        &mut self,
        pools: &Pools,
        asked: &[OrdersWanted],
        wanted: &OrdersWanted,
    ) -> Result<(), Shortage> {
        let mut innermost_first: Vec<PoolIx> = (0..self.pools.len()).map(PoolIx).collect();
        innermost_first.sort_by_key(|pool| Reverse(pools.depth(*pool)));
        for pool in innermost_first {
            for &(order, nshares) in asked[pool.0].0.iter().rev() {
                let mut found = 0;
                for &pool in pools.searched_from(pool) {
                    found += self.pools[pool.0].take_many(order, nshares - found, wanted);
                }
                if found < nshares {
                    return Err(Shortage { found, asked: nshares });
                }
            }
        }
        Ok(())
    }

    /// Takes one nshare of `order` from `pool` itself, from a hole like `liked` if there is one.
    /// Says whether there was room.
    pub(in crate::engine) fn take_local(
        &mut self,
        pool: PoolIx,
        order: Order,
        liked: Option<Hole>,
    ) -> bool {
        self.pools[pool.0].take(order, &OrdersWanted::default(), liked)
    }

    /// Takes an empty machine of `pool` whose order is in `orders`: one like `liked` if there is
    /// one, else the smallest. Says whether there was one.
    pub(in crate::engine) fn take_whole(
        &mut self,
        pool: PoolIx,
        orders: RangeInclusive<u64>,
        liked: Option<Hole>,
    ) -> bool {
        let holes = &mut self.pools[pool.0];
        let liked = liked.map(|hole| Hole { is_whole: true, ..hole });
        let liked = liked.filter(|hole| holes.has(hole));
        let Some(hole) = liked.or_else(|| holes.smallest_whole(orders)) else { return false };
        holes.remove(hole, 1);
        true
    }

    /// Everything left in `pool` and the pools in it.
    pub(in crate::engine) fn total(&self, pools: &Pools, pool: PoolIx) -> QShares {
        let holes = pools.searched_from(pool).iter().map(|pool| &self.pools[pool.0]);
        QShares(holes.flat_map(Holes::sizes).map(|(size, machines)| size * machines).sum())
    }

    /// The largest piece left in `pool` itself.
    pub(in crate::engine) fn largest_local(&self, pool: PoolIx) -> QShares {
        QShares(self.pools[pool.0].sizes().map(|(size, _)| size).max().unwrap_or(0))
    }

    /// The largest piece left in `pool` and the pools in it.
    pub(in crate::engine) fn largest(&self, pools: &Pools, pool: PoolIx) -> QShares {
        let holes = pools.searched_from(pool).iter().map(|pool| &self.pools[pool.0]);
        QShares(holes.flat_map(Holes::sizes).map(|(size, _)| size).max().unwrap_or(0))
    }
}

impl Holes {
    fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.left().map(|(hole, machines)| (hole.size, machines))
    }

    /// Those that there are any of.
    fn left(&self) -> impl Iterator<Item = (Hole, u64)> {
        self.0.iter().copied().filter(|(_, machines)| 0 < *machines)
    }

    fn place(&self, hole: &Hole) -> Result<usize, usize> {
        self.0.binary_search_by_key(hole, |(hole, _)| *hole)
    }

    /// How many holes like `hole` there are.
    fn machines(&self, hole: &Hole) -> u64 {
        self.place(hole).map_or(0, |place| self.0[place].1)
    }

    fn has(&self, hole: &Hole) -> bool {
        0 < self.machines(hole)
    }

    /// Takes `order` from a hole like `liked`; else from the one whose use costs larger requests
    /// least; then from the smallest; then rather from a machine in use than from a whole one.
    fn take(&mut self, order: Order, wanted: &OrdersWanted, liked: Option<Hole>) -> bool {
        let order = u64::from(order.get());
        let liked = liked.filter(|hole| order <= hole.size && self.has(hole));
        let Some(hole) = liked.or_else(|| self.cheapest(order, wanted)) else { return false };
        self.remove(hole, 1);
        self.put(Hole { size: hole.size - order, is_whole: false }, 1);
        true
    }

    /// Takes so many `nshares` of `order`, as if one by one. Returns for how many there was room.
    fn take_many(&mut self, order: u64, nshares: u64, wanted: &OrdersWanted) -> u64 {
        let mut missing = nshares;
        while 0 < missing
            && let Some(hole) = self.cheapest(order, wanted)
        {
            let damage = wanted.damage(hole.size, order);
            // What is left of it is the next to be taken from as long as that costs no more than it
            // did here: no other costs less, and none that costs as much is smaller.
            let (mut left, mut taken) = (hole.size - order, 1);
            while order <= left && taken < missing && wanted.damage(left, order) <= damage {
                left -= order;
                taken += 1;
            }
            // All holes like it are alike. `missing` is at least `taken`, so this is one of them at least.
            let machines = self.machines(&hole).min(missing.checked_div(taken).unwrap_or(0));
            self.remove(hole, machines);
            self.put(Hole { size: left, is_whole: false }, machines);
            missing -= machines * taken;
        }
        nshares - missing
    }

    fn cheapest(&self, order: u64, wanted: &OrdersWanted) -> Option<Hole> {
        let holes = self.left().map(|(hole, _)| hole).skip_while(|hole| hole.size < order);
        least_damage(holes, |hole| wanted.damage(hole.size, order), Some)
    }

    fn smallest_whole(&self, orders: RangeInclusive<u64>) -> Option<Hole> {
        let mut holes = self.left().map(|(hole, _)| hole);
        holes.find(|hole| hole.is_whole && orders.contains(&hole.size))
    }

    fn put(&mut self, hole: Hole, machines: u64) {
        if hole.size == 0 {
            return;
        }
        match self.place(&hole) {
            Ok(place) => self.0[place].1 += machines,
            Err(place) => self.0.insert(place, (hole, machines)),
        }
    }

    fn remove(&mut self, hole: Hole, machines: u64) {
        let place = self.place(&hole).expect("a hole that is taken exists");
        self.0[place].1 -= machines;
    }
}

/// What `take` makes of the first of `holes` that costs least of those of which it makes something;
/// those after one that costs nothing are not looked at.
pub(in crate::engine) fn least_damage<T, U>(
    holes: impl Iterator<Item = T>,
    damage: impl Fn(&T) -> u64,
    take: impl Fn(T) -> Option<U>,
) -> Option<U> {
    let mut cheapest: Option<(u64, U)> = None;
    for hole in holes {
        let damage = damage(&hole);
        if cheapest.as_ref().is_some_and(|(least, _)| *least <= damage) {
            continue;
        }
        let Some(taken) = take(hole) else { continue };
        if damage == 0 {
            return Some(taken);
        }
        cheapest = Some((damage, taken));
    }
    cheapest.map(|(_, taken)| taken)
}

/// What on each machine cannot be preempted, whoever asks.
pub(in crate::engine) fn immovable(snapshot: &Snapshot) -> Vec<QShares> {
    let mut taken: Vec<QShares> = snapshot.machines.iter().map(|machine| machine.limbo).collect();
    let jobs = snapshot.jobs.iter().filter(|job| !snapshot.class_of(job).policy.is_preemptable());
    for share in jobs.flat_map(|job| &job.shares) {
        taken[share.machine.0] += share.order.qshares();
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::engine::audit::tests::{APART, SUB, Scene, TOP};
    use crate::model::count;

    /// So many nshares of an order.
    type Asked<'a> = &'a [(u64, u64)];

    fn order(order: u32) -> Order {
        Order::new(order).unwrap()
    }

    fn holes<const N: usize>(holes: [(u64, bool, u64); N]) -> Holes {
        let holes = holes.map(|(size, is_whole, machines)| (Hole { size, is_whole }, machines));
        let mut holes = Holes(holes.to_vec());
        holes.0.sort_unstable();
        holes
    }

    /// The table printed in the design, order 1 to 4: what each order could get, alone.
    #[test]
    fn nshares_match_the_design_example() {
        let whole_and_partial =
            holes([(1, true, 2), (3, true, 1), (4, true, 4), (1, false, 1), (2, false, 2)]);
        let nshares = [1, 2, 3, 4].map(|size| {
            let mut holes = whole_and_partial.clone();
            (0..100).take_while(|_| holes.take(order(size), &OrdersWanted::default(), None)).count()
        });
        assert_eq!(nshares, [26, 11, 5, 4]);
        let at_once = [1, 2, 3, 4]
            .map(|size| whole_and_partial.clone().take_many(size, 100, &OrdersWanted::default()));
        assert_eq!(at_once, [26, 11, 5, 4]);
    }

    /// An order-3 share on an order-5 machine leaves a virtual machine of order 2.
    #[test]
    fn a_taken_machine_leaves_a_virtual_one() {
        let mut left = holes([(5, true, 1)]);
        assert!(left.take(order(3), &OrdersWanted::default(), None));
        assert_eq!(left.left().collect::<Vec<_>>(), holes([(2, false, 1)]).0);
    }

    #[test]
    fn the_hole_is_taken_that_costs_larger_requests_least() {
        let mut left = holes([(3, true, 1), (5, true, 1)]);
        let mut wanted = OrdersWanted::default();
        wanted.add(3);
        assert!(left.take(order(2), &wanted, None));
        let after = holes([(3, true, 1), (3, false, 1)]);
        assert_eq!(
            left.left().collect::<Vec<_>>(),
            after.0,
            "the 5 leaves a 3; the 3 would have left nothing"
        );
    }

    /// What is to be counted on a machine that is known takes a hole like that machine's, if there
    /// is one and it has the room; else any.
    #[test]
    fn a_hole_is_taken_like_the_one_that_is_known() {
        let like = |size| Some(Hole { size, is_whole: true });
        let cases = [
            (like(5), holes([(1, true, 1), (3, true, 1), (3, false, 1)])),
            (like(4), holes([(1, true, 1), (1, false, 1), (5, true, 1)])), // there is none
            (like(1), holes([(1, true, 1), (1, false, 1), (5, true, 1)])), // too small
        ];
        for (liked, after) in cases {
            let mut left = holes([(1, true, 1), (3, true, 1), (5, true, 1)]);
            assert!(left.take(order(2), &OrdersWanted::default(), liked));
            assert_eq!(left.left().collect::<Vec<_>>(), after.0, "{liked:?}");
        }
    }

    #[test]
    fn a_whole_machine_is_taken_like_the_one_that_is_known() {
        let like = |size| Some(Hole { size, is_whole: false });
        let cases = [(like(4), 3), (like(5), 4), (None, 4)];
        for (liked, left) in cases {
            let pools = vec![holes([(3, true, 1), (4, true, 1)])];
            let mut space = CountSpace { pools };
            assert!(space.take_whole(PoolIx(0), 3..=4, liked));
            assert_eq!(space.largest_local(PoolIx(0)), QShares(left), "{liked:?}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_hole_that_is_used_up() {
        let mut left = holes([(2, true, 1)]);
        assert!(left.take(order(2), &OrdersWanted::default(), None));
        assert_eq!(left.left().next(), None);
        assert_eq!(CountSpace { pools: vec![left] }.largest_local(PoolIx(0)), QShares(0));
    }

    #[test]
    fn many_are_taken_as_if_one_by_one() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2_000 {
            let mut draw = |least: u64, most: u64| random.random_range(least..=most);
            let mut at_once = Holes::default();
            for _ in 0..draw(1, 5) {
                at_once.put(Hole { size: draw(1, 20), is_whole: draw(0, 1) == 0 }, draw(1, 4));
            }
            let mut wanted = OrdersWanted::default();
            for _ in 0..draw(0, 3) {
                wanted.add(draw(1, 9));
            }
            let (size, nshares) = (u32::try_from(draw(1, 6)).unwrap(), draw(1, 40));
            let mut in_turn = at_once.clone();
            let taken = (0..nshares).take_while(|_| in_turn.take(order(size), &wanted, None));
            let taken = count(taken);
            assert_eq!(at_once.take_many(u64::from(size), nshares, &wanted), taken);
            assert!(at_once.left().eq(in_turn.left()), "{at_once:?} {in_turn:?}");
        }
    }

    /// A machine of 4 in a pool, and of 3 in two pools within it: what is asked of it, and of the one
    /// of those that is searched first.
    #[test]
    fn all_is_taken_or_it_is_said_what_there_is_too_little_of() {
        let mut scene = Scene::new(&[4, 3, 3]);
        scene.machine(1).pool = SUB;
        scene.machine(2).pool = APART;
        Arc::make_mut(&mut scene.snapshot.topology).pools[APART.0].parent = Some(TOP);
        let pools = Pools::new(&scene.snapshot.topology);
        let cases: [(Asked<'_>, Asked<'_>, Result<(), Shortage>); 5] = [
            (&[(1, 10)], &[], Ok(())),
            (&[(1, 11)], &[], Err(Shortage { found: 10, asked: 11 })),
            (&[(1, 1), (3, 3)], &[], Ok(())), // the larger first
            (&[(1, 1), (4, 2)], &[], Err(Shortage { found: 1, asked: 2 })),
            (&[(1, 7)], &[(3, 1)], Ok(())), // what can be nowhere else first
        ];
        assert_eq!(pools.searched_from(TOP), [TOP, SUB, APART]);
        for (outside, within, expected) in cases {
            let mut asked = vec![OrdersWanted::default(); scene.snapshot.topology.pools.len()];
            for (pool, orders) in [(TOP, outside), (SUB, within)] {
                for &(order, nshares) in orders {
                    asked[pool.0].add_many(order, nshares);
                }
            }
            let mut space = CountSpace::new(&scene.snapshot);
            let taken = space.take_all(&pools, &asked, &OrdersWanted::default());
            assert_eq!(taken, expected, "{outside:?} {within:?}");
        }
    }

    #[test]
    fn of_holes_that_cost_the_same_the_first_is_taken() {
        let cost = |costs: [u64; 3]| least_damage(0..3, |hole| costs[*hole], Some);
        assert_eq!(cost([2, 1, 1]), Some(1));
        assert_eq!(cost([2, 2, 2]), Some(0));
        let others = |hole| (hole != 1).then_some(hole);
        assert_eq!(least_damage(0..3, |hole| [2, 0, 1][*hole], others), Some(2));
    }
}
