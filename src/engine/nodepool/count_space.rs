//! The ideal cluster that How Much gives away: every machine empty but for what cannot move.
//!
//! Design: "Virtual Machines". The design's three tables are here per pool: `whole` and `partial`
//! machines by order, and the nshares of an order as their weighted sum.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{OrdersWanted, Pools};
use crate::engine::snapshot::Snapshot;
use crate::model::{MachineIx, Order, PoolIx, QShares};

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

impl CountSpace {
    /// All schedulable machines, less what cannot be preempted on each.
    pub(in crate::engine) fn new(snapshot: &Snapshot) -> CountSpace {
        let mut fixed: Vec<QShares> =
            snapshot.machines.iter().map(|machine| machine.limbo).collect();
        let immovable =
            snapshot.jobs.iter().filter(|job| !snapshot.class_of(job).policy.is_preemptable());
        for share in immovable.flat_map(|job| &job.shares) {
            fixed[share.machine.0] += share.order.qshares();
        }
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
        searched.iter().any(|&pool| self.pools[pool.0].take(order, wanted))
    }

    /// Takes one nshare of `order` from `pool` itself. Says whether there was room.
    pub(in crate::engine) fn take_local(&mut self, pool: PoolIx, order: Order) -> bool {
        self.pools[pool.0].take(order, &OrdersWanted::default())
    }

    /// Takes the smallest empty machine of `pool` whose order is in `orders`. Says whether there
    /// was one.
    pub(in crate::engine) fn take_whole(
        &mut self,
        pool: PoolIx,
        orders: RangeInclusive<u64>,
    ) -> bool {
        let whole = &mut self.pools[pool.0].whole;
        let Some(size) = whole.range(orders).next().map(|(&size, _)| size) else { return false };
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

    /// Takes `order` from the hole whose use costs larger requests least; then from the smallest;
    /// then rather from a machine in use than from a whole one.
    fn take(&mut self, order: Order, wanted: &OrdersWanted) -> bool {
        let order = u64::from(order.get());
        let partial = self.partial.range(order..).map(|(&size, _)| (size, false));
        let whole = self.whole.range(order..).map(|(&size, _)| (size, true));
        let cheapest = partial
            .chain(whole)
            .min_by_key(|&(size, is_whole)| (wanted.damage(size, order), size, is_whole));
        let Some((size, is_whole)) = cheapest else { return false };
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

/// How many nshares of `order` the listed machines could hold at best, were they empty.
pub(in crate::engine) fn listed_capacity(
    snapshot: &Snapshot,
    machines: &[MachineIx],
    order: Order,
) -> u64 {
    let usable = machines
        .iter()
        .map(|&ix| snapshot.machine(ix))
        .filter(|machine| machine.state.is_schedulable());
    usable.map(|machine| machine.order.nshares(order).0).sum()
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
            (0..100).take_while(|_| holes.take(order(size), &OrdersWanted::default())).count()
        });
        assert_eq!(nshares, [26, 11, 5, 4]);
    }

    /// An order-3 share on an order-5 machine leaves a virtual machine of order 2.
    #[test]
    fn a_taken_machine_leaves_a_virtual_one() {
        let mut holes = Holes { whole: BTreeMap::from([(5, 1)]), partial: BTreeMap::new() };
        assert!(holes.take(order(3), &OrdersWanted::default()));
        assert_eq!((holes.whole.len(), holes.partial), (0, BTreeMap::from([(2, 1)])));
    }

    #[test]
    fn the_hole_is_taken_that_costs_larger_requests_least() {
        let mut holes = Holes { whole: BTreeMap::from([(3, 1), (5, 1)]), partial: BTreeMap::new() };
        let mut wanted = OrdersWanted::default();
        wanted.add(3);
        assert!(holes.take(order(2), &wanted));
        assert_eq!(
            holes.partial,
            BTreeMap::from([(3, 1)]),
            "the 5 leaves a 3; the 3 would have left nothing"
        );
    }
}
