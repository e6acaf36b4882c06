//! Nodepools in a cycle: the tree of pools, the space for targets, and the free space for
//! placement.
//!
//! Design: "`NodePool`". [`Pools`] says which pools a job may use. [`SpaceIndex`] is the cluster that
//! What Of and preemption work on. [`EmptyCluster`] is the ideal cluster that How Much divides into
//! targets. The free space of both is in the capacity matrix (`matrix.rs`). It is built from the
//! nodes in every cycle, so errors do not accumulate.

mod empty_cluster;
mod matrix;
mod node_set;
mod node_space;

pub(super) use empty_cluster::{EmptyCluster, NodePiece, Shortage};
pub(super) use matrix::Cell;
pub(super) use node_set::NodeSet;
pub(super) use node_space::{ScannedShare, SpaceIndex};

use crate::model::{IxVec, PoolIx, Topology};

/// The pool tree, with its queries precomputed for a cycle.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    depth: IxVec<PoolIx, u32>,
    top: IxVec<PoolIx, PoolIx>,
    /// For each pool, itself and all pools in it, in search order.
    search: IxVec<PoolIx, Vec<PoolIx>>,
}

impl Pools {
    pub(super) fn new(topology: &Topology) -> Pools {
        let pools = || topology.pools.places();
        let search = pools().map(|pool| {
            let mut order = Vec::new();
            descend(topology, pool, &mut order);
            order
        });
        Pools {
            depth: pools().map(|pool| topology.depth_of(pool)).collect(),
            top: pools().map(|pool| topology.top_of(pool)).collect(),
            search: search.collect(),
        }
    }

    /// Nesting depth of `pool`.
    pub(super) fn depth(&self, pool: PoolIx) -> u32 {
        self.depth[pool]
    }

    /// The top-level pool above `pool`.
    pub(super) fn top(&self, pool: PoolIx) -> PoolIx {
        self.top[pool]
    }

    /// `pool` and all pools in it, in search order.
    pub(super) fn searched_from(&self, pool: PoolIx) -> &[PoolIx] {
        &self.search[pool]
    }

    /// True if `inner` is `outer` or lies in it.
    pub(super) fn is_within(&self, inner: PoolIx, outer: PoolIx) -> bool {
        self.search[outer].contains(&inner)
    }
}

/// Own pool first, then each subpool with all its subpools, by search order.
fn descend(topology: &Topology, pool: PoolIx, order: &mut Vec<PoolIx>) {
    order.push(pool);
    let mut children: Vec<(u32, PoolIx)> = topology
        .pools
        .with_ix()
        .filter(|(_, candidate)| candidate.parent == Some(pool))
        .map(|(ix, child)| (child.search_order, ix))
        .collect();
    children.sort_unstable();
    for (_, child) in children {
        descend(topology, child, order);
    }
}

/// Number of requests of each order with unmet demand; it decides the value of a free piece.
///
/// Few orders are in demand at a time, so they are a list, by order.
#[derive(Clone, Debug, Default)]
pub(super) struct DemandByOrder(Vec<(u64, u64)>);

impl DemandByOrder {
    /// Adds a request of `order`.
    pub(super) fn add(&mut self, order: u64) {
        self.add_many(order, 1);
    }

    /// Adds `requests` requests of `order`.
    pub(super) fn add_many(&mut self, order: u64, requests: u64) {
        match self.0.binary_search_by_key(&order, |(order, _)| *order) {
            Ok(place) => self.0[place].1 = self.0[place].1.saturating_add(requests),
            Err(place) => self.0.insert(place, (order, requests)),
        }
    }

    /// Removes a request of `order`.
    ///
    /// # Panics
    ///
    /// If there is none: the caller lost track of the requests.
    pub(super) fn remove(&mut self, order: u64) {
        let place = self.0.binary_search_by_key(&order, |(order, _)| *order);
        let place = place.expect("a request that leaves was counted");
        self.0[place].1 -= 1;
        if self.0[place].1 == 0 {
            self.0.remove(place);
        }
    }

    /// Adds all requests of `others`.
    pub(super) fn add_all(&mut self, others: &DemandByOrder) {
        for (order, requests) in &others.0 {
            self.add_many(*order, *requests);
        }
    }

    /// Removes all requests of `others`.
    ///
    /// # Panics
    ///
    /// If `others` has requests that are not here: the caller lost track of them.
    pub(super) fn remove_all(&mut self, others: &DemandByOrder) {
        for (order, requests) in &others.0 {
            let place = self.0.binary_search_by_key(order, |(order, _)| *order);
            self.0[place.expect("requests that leave were counted")].1 -= requests;
        }
        self.0.retain(|(_, requests)| 0 < *requests);
    }

    /// The orders in demand, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(order, _)| *order)
    }

    /// Fragmentation cost: qshares that larger requests lose if `order` is taken from a free piece
    /// of size `hole`.
    ///
    /// An order-2 share in a free piece of 5 still leaves space for an order-3 share and costs
    /// nothing. In a free piece of 3 it costs the order-3 share its place.
    pub(super) fn damage(&self, hole: u64, order: u64) -> u64 {
        let fit = |space: u64, larger: u64| space.checked_div(larger).unwrap_or(0);
        let larger = self.0.iter().map(|(larger, _)| *larger).skip_while(|larger| *larger <= order);
        larger
            .take_while(|larger| *larger <= hole)
            .map(|larger| larger * (fit(hole, larger) - fit(hole - order, larger)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns: orders in demand, free piece, order taken from it, and the cost.
    #[test]
    fn damage_is_the_room_that_larger_requests_lose() {
        let cases: [(&[u64], u64, u64, u64); 7] = [
            (&[3], 5, 2, 0),
            (&[3], 3, 2, 3),
            (&[3, 3], 3, 2, 3), // the hole is lost to one of them only
            (&[3], 6, 1, 3),
            (&[2, 3], 3, 1, 3), // one of 2 still fits
            (&[2, 3, 4], 4, 1, 6),
            (&[1, 2, 5], 4, 2, 0), // none is larger that would have fitted
        ];
        for (orders, hole, order, damage) in cases {
            let mut demand = DemandByOrder::default();
            for &order in orders {
                demand.add(order);
            }
            assert_eq!(demand.damage(hole, order), damage, "{orders:?} {hole} {order}");
        }
    }
}
