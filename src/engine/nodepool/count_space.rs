//! The ideal cluster that How Much gives away: every machine empty but for what cannot move.
//!
//! Design: "Virtual Machines". The design's three tables are here per pool: `whole` and `partial`
//! machines by order, and the nshares of an order as their weighted sum.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{OrdersWanted, Pools};
use crate::engine::snapshot::Snapshot;
use crate::model::{Order, PoolIx, QShares};

/// What is left to be counted, per pool.
#[derive(Clone, Debug)]
pub(in crate::engine) struct CountSpace {
    pools: Vec<Holes>,
}

/// The holes of one pool, by size. Never holds an entry of none.
#[derive(Clone, Debug, Default)]
struct Holes {
    /// Machines with nothing on them.
    whole: BTreeMap<u64, u64>,
    /// What is left of the others.
    partial: BTreeMap<u64, u64>,
}

/// What is left of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Hole {
    pub size: u64,
    /// Whether it is all of the machine.
    pub is_whole: bool,
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
            let holes = &mut pools[machine.pool.0];
            let table = if taken == QShares(0) { &mut holes.whole } else { &mut holes.partial };
            put(table, machine.order.saturating_sub(taken).0);
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
        let whole = &mut self.pools[pool.0].whole;
        let liked = liked.map(|hole| hole.size).filter(|size| whole.contains_key(size));
        let smallest = whole.range(orders).next().map(|(&size, _)| size);
        let Some(size) = liked.or(smallest) else { return false };
        remove(whole, size);
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
        self.whole.iter().chain(&self.partial).map(|(&size, &machines)| (size, machines))
    }

    /// Takes `order` from a hole like `liked`; else from the one whose use costs larger requests
    /// least; then from the smallest; then rather from a machine in use than from a whole one.
    fn take(&mut self, order: Order, wanted: &OrdersWanted, liked: Option<Hole>) -> bool {
        let order = u64::from(order.get());
        let hole = |is_whole| move |(&size, _): (&u64, &u64)| Hole { size, is_whole };
        let partial = self.partial.range(order..).map(hole(false));
        let whole = self.whole.range(order..).map(hole(true));
        let cheapest = partial.chain(whole).min_by_key(|&hole| {
            (liked != Some(hole), wanted.damage(hole.size, order), hole.size, hole.is_whole)
        });
        let Some(Hole { size, is_whole }) = cheapest else { return false };
        remove(if is_whole { &mut self.whole } else { &mut self.partial }, size);
        put(&mut self.partial, size - order);
        true
    }
}

fn put(table: &mut BTreeMap<u64, u64>, size: u64) {
    if size > 0 {
        *table.entry(size).or_default() += 1;
    }
}

fn remove(table: &mut BTreeMap<u64, u64>, size: u64) {
    let machines = table.get_mut(&size).expect("a hole that is taken exists");
    *machines -= 1;
    if *machines == 0 {
        table.remove(&size);
    }
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
    use super::*;

    fn order(order: u32) -> Order {
        Order::new(order).unwrap()
    }

    /// The table printed in the design, order 1 to 4: what each order could get, alone.
    #[test]
    fn nshares_match_the_design_example() {
        let holes = Holes {
            whole: BTreeMap::from([(1, 2), (3, 1), (4, 4)]),
            partial: BTreeMap::from([(1, 1), (2, 2)]),
        };
        let nshares = [1, 2, 3, 4].map(|size| {
            let mut holes = holes.clone();
            (0..100).take_while(|_| holes.take(order(size), &OrdersWanted::default(), None)).count()
        });
        assert_eq!(nshares, [26, 11, 5, 4]);
    }

    /// An order-3 share on an order-5 machine leaves a virtual machine of order 2.
    #[test]
    fn a_taken_machine_leaves_a_virtual_one() {
        let mut holes = Holes { whole: BTreeMap::from([(5, 1)]), partial: BTreeMap::new() };
        assert!(holes.take(order(3), &OrdersWanted::default(), None));
        assert_eq!((holes.whole.len(), holes.partial), (0, BTreeMap::from([(2, 1)])));
    }

    #[test]
    fn the_hole_is_taken_that_costs_larger_requests_least() {
        let mut holes = Holes { whole: BTreeMap::from([(3, 1), (5, 1)]), partial: BTreeMap::new() };
        let mut wanted = OrdersWanted::default();
        wanted.add(3);
        assert!(holes.take(order(2), &wanted, None));
        assert_eq!(
            holes.partial,
            BTreeMap::from([(3, 1)]),
            "the 5 leaves a 3; the 3 would have left nothing"
        );
    }
}
