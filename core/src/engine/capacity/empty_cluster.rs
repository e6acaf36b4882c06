//! The ideal cluster that How Much divides: every node empty except for shares that cannot be
//! preempted.
//!
//! Design: "Virtual Machines". Holds a copy of the ideal counts of the capacity matrix ([`Matrix`])
//! for each pool. Takings from the copy leave the matrix as it is.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use super::matrix::{Cell, Matrix};
use super::{DemandByOrder, Pools, SpaceIndex};
use crate::model::{Order, PoolIx, QShares};

/// Distinct pieces with which another one is compared, to take equal ones at once.
const PIECES_COMPARED: usize = 16;

/// Space that is not part of any target yet, by pool.
#[derive(Clone, Debug)]
pub(in crate::engine) struct EmptyCluster {
    pools: Vec<Matrix<u64>>,
}

/// An amount of a node, by the cell of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct NodePiece {
    pub pool: PoolIx,
    pub cell: Cell,
    /// Size of the piece, in qshares.
    pub amount: u64,
}

/// Requested nshares of an order, or amount of a list, and the smaller number for which there was
/// space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Shortage {
    pub found: u64,
    pub requested: u64,
}

impl EmptyCluster {
    /// All schedulable nodes, less the shares on each that cannot be preempted.
    pub(in crate::engine) fn new(spaces: &SpaceIndex) -> EmptyCluster {
        EmptyCluster { pools: spaces.ideal_counts().cloned().collect() }
    }

    /// Takes an nshare of `order` from `pool` or, if it has no space, from the pools in it. Returns
    /// false if there is no space.
    pub(in crate::engine) fn take(
        &mut self,
        pools: &Pools,
        pool: PoolIx,
        order: Order,
        demand: &DemandByOrder,
    ) -> bool {
        let searched = pools.searched_from(pool);
        searched.iter().any(|&pool| take(&mut self.pools[pool.0], order, demand, None))
    }

    /// True if every order would find space for its nshares in `requested`, for each pool, if it were
    /// the only order. If false, [`EmptyCluster::take_all`] is certain to fail.
    pub(in crate::engine) fn has_space_for_each(
        &self,
        pools: &Pools,
        requested: &[DemandByOrder],
    ) -> bool {
        let all = (0..self.pools.len()).map(PoolIx).zip(requested);
        let mut orders = all.flat_map(|(pool, requested)| {
            requested.0.iter().map(move |requested| (pool, requested))
        });
        orders.all(|(pool, &(order, nshares))| {
            let searched = pools.searched_from(pool).iter();
            nshares <= searched.map(|pool| self.pools[pool.0].nshares(order)).sum()
        })
    }

    /// Takes all that is `requested` of each pool, in nshares, or returns the shortage.
    ///
    /// Serves the innermost pools first, as their jobs can go nowhere else. In each pool it serves
    /// the largest orders first, as they fit into the fewest free pieces.
    pub(in crate::engine) fn take_all(
        &mut self,
        pools: &Pools,
        requested: &[DemandByOrder],
        demand: &DemandByOrder,
    ) -> Result<(), Shortage> {
        let mut innermost_first: Vec<PoolIx> = (0..self.pools.len()).map(PoolIx).collect();
        innermost_first.sort_by_key(|pool| Reverse(pools.depth(*pool)));
        for pool in innermost_first {
            for &(order, nshares) in requested[pool.0].0.iter().rev() {
                let mut found = 0;
                for &pool in pools.searched_from(pool) {
                    found += take_many(&mut self.pools[pool.0], order, nshares - found, demand);
                }
                if found < nshares {
                    return Err(Shortage { found, requested: nshares });
                }
            }
        }
        Ok(())
    }

    /// Takes an nshare of `order` from `pool` itself, from a node like `liked` if there is any.
    /// Returns false if there is no space.
    pub(in crate::engine) fn take_local(
        &mut self,
        pool: PoolIx,
        order: Order,
        liked: Option<Cell>,
    ) -> bool {
        take(&mut self.pools[pool.0], order, &DemandByOrder::default(), liked)
    }

    /// Takes a whole node of `pool` whose order is in `orders`. Prefers a node of the order of
    /// `liked`, else takes the smallest. Returns false if there is none.
    pub(in crate::engine) fn take_whole(
        &mut self,
        pool: PoolIx,
        orders: &RangeInclusive<u64>,
        liked: Option<Cell>,
    ) -> bool {
        let cells = &mut self.pools[pool.0];
        let liked = liked.and_then(|cell| cells.like(Cell { free: cell.order, ..cell }));
        let liked = liked.map(|(cell, _)| cell);
        let smallest = || cells.smallest_whole(orders, |alike| alike.first_cell());
        let Some(cell) = liked.or_else(|| smallest().map(|(cell, _)| cell)) else { return false };
        cells.take_of(cell, cell.free, 1);
        true
    }

    /// Takes an amount from each of several nodes: from a node like it, else from a node of the same
    /// size, else from any. Nodes that are alike go together, in the order of the first of them. Adds
    /// what it took to `taken`. Returns false if no node had so much for one of them.
    pub(in crate::engine) fn take_like(
        &mut self,
        nodes: impl Iterator<Item = NodePiece>,
        taken: &mut Vec<(NodePiece, u64)>,
    ) -> bool {
        let mut has_all = true;
        for (piece, mut left) in counted(nodes) {
            while 0 < left {
                let Some((from, there)) = self.source_of(piece) else {
                    has_all = false;
                    break;
                };
                let moved = there.min(left);
                self.pools[piece.pool.0].take_of(from, piece.amount, moved);
                taken.push((NodePiece { cell: from, ..piece }, moved));
                left -= moved;
            }
        }
        has_all
    }

    /// The cell of which the piece is taken, and the number of nodes that may be taken of it before
    /// the choice is another one.
    fn source_of(&self, piece: NodePiece) -> Option<(Cell, u64)> {
        let NodePiece { pool, cell, amount } = piece;
        let cells = &self.pools[pool.0];
        if let Some(alike) = cells.like(cell).filter(|(cell, _)| amount <= cell.free) {
            return Some(alike);
        }
        let any = cells.alike_from(amount);
        let mut any = any.filter_map(|alike| alike.first_cell()).map(|(cell, _)| cell);
        let first = any.next()?;
        Some((any.find(|other| other.order == cell.order).unwrap_or(first), 1))
    }

    /// Returns what [`EmptyCluster::take_like`] took, the last piece first.
    pub(in crate::engine) fn give_back(&mut self, mut taken: Vec<(NodePiece, u64)>) {
        while let Some((NodePiece { pool, cell, amount }, nodes)) = taken.pop() {
            self.pools[pool.0].give_back(cell, amount, nodes);
        }
    }

    /// Nshares of `order` that fit into all pools if no other order is taken.
    pub(in crate::engine) fn nshares(&self, order: Order) -> u64 {
        self.pools.iter().map(|pool| pool.nshares(order.qshares().0)).sum()
    }

    /// All space left in `pool` and the pools in it.
    pub(in crate::engine) fn total(&self, pools: &Pools, pool: PoolIx) -> QShares {
        let searched = pools.searched_from(pool).iter();
        QShares(searched.map(|pool| self.pools[pool.0].total()).sum())
    }

    /// Largest free piece in `pool` itself.
    pub(in crate::engine) fn largest_local(&self, pool: PoolIx) -> QShares {
        QShares(self.pools[pool.0].largest())
    }

    /// Largest free piece in `pool` and the pools in it.
    pub(in crate::engine) fn largest(&self, pools: &Pools, pool: PoolIx) -> QShares {
        let searched = pools.searched_from(pool).iter();
        searched.map(|pool| self.largest_local(*pool)).max().unwrap_or_default()
    }
}

/// Equal pieces, counted, in the order of the first of them. With many distinct pieces, a piece may
/// come twice.
fn counted(pieces: impl Iterator<Item = NodePiece>) -> Vec<(NodePiece, u64)> {
    let mut counted: Vec<(NodePiece, u64)> = Vec::new();
    for piece in pieces {
        let mut latest = counted.iter_mut().rev().take(PIECES_COMPARED);
        match latest.find(|(known, _)| *known == piece) {
            Some((_, nodes)) => *nodes += 1,
            None => counted.push((piece, 1)),
        }
    }
    counted
}

/// Takes `order` from a node like `liked`; else from the node whose use costs larger requests
/// least. Returns false if there is no such node.
fn take(
    cells: &mut Matrix<u64>,
    order: Order,
    demand: &DemandByOrder,
    liked: Option<Cell>,
) -> bool {
    let order = order.qshares().0;
    let liked = liked.filter(|cell| order <= cell.free).and_then(|cell| cells.like(cell));
    let liked = liked.map(|(cell, _)| cell);
    let cheapest = || cells.cheapest(order, demand, |alike| alike.first_cell());
    let Some(cell) = liked.or_else(|| cheapest().map(|(cell, _)| cell)) else { return false };
    cells.take_of(cell, order, 1);
    true
}

/// Takes at most `nshares` nshares of `order`, with the same result as taking them in turn. Returns
/// the number taken.
fn take_many(cells: &mut Matrix<u64>, order: u64, nshares: u64, demand: &DemandByOrder) -> u64 {
    let mut missing = nshares;
    while 0 < missing
        && let Some((cell, nodes)) = cells.cheapest(order, demand, |alike| alike.first_cell())
    {
        let damage = demand.damage(cell.free, order);
        // The rest of this node stays the next choice as long as taking from it costs no more than
        // here. No other piece costs less, and no piece of equal cost is smaller.
        let (mut left, mut taken) = (cell.free - order, 1);
        while order <= left && taken < missing && demand.damage(left, order) <= damage {
            left -= order;
            taken += 1;
        }
        // All nodes in the cell are equal. `missing` is at least `taken`, so the division gives at
        // least 1.
        let nodes = nodes.min(missing.checked_div(taken).unwrap_or(0));
        cells.take_of(cell, cell.free - left, nodes);
        missing -= nodes * taken;
    }
    nshares - missing
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::audit::tests::{ANN, APART, FAIR, FIXED, SUB, Scene, TOP};
    use crate::engine::draft::Draft;
    use crate::engine::place::place_shares;
    use crate::model::count;

    /// Pairs of an order and a number of nshares.
    type Requested<'a> = &'a [(u64, u64)];

    fn order(order: u32) -> Order {
        Order::new(order).unwrap()
    }

    /// Cells from triples of node order, free space and number of nodes.
    fn cells<const N: usize>(nodes: [(u64, u64, u64); N]) -> Matrix<u64> {
        let mut cells = Matrix::default();
        for (order, free, nodes) in nodes {
            cells.put(Cell { order, free }, nodes);
        }
        cells
    }

    /// Node order, free space and number of nodes, for each cell with free space.
    fn left(cells: &Matrix<u64>) -> Vec<(u64, u64, u64)> {
        let cells = cells.filled().into_iter().filter(|(cell, _)| 0 < cell.free);
        cells.map(|(cell, nodes)| (cell.order, cell.free, nodes)).collect()
    }

    fn take_any(cells: &mut Matrix<u64>, size: u32) -> bool {
        take(cells, order(size), &DemandByOrder::default(), None)
    }

    /// The table printed in the design, orders 1 to 4: the nshares that each order could get alone.
    #[test]
    fn nshares_match_the_design_example() {
        let whole_and_partial = cells([(1, 1, 2), (3, 3, 1), (4, 4, 4), (4, 1, 1), (3, 2, 2)]);
        let nshares = [1, 2, 3, 4].map(|order| whole_and_partial.nshares(order));
        assert_eq!(nshares, [26, 11, 5, 4]);
        let in_turn = [1, 2, 3, 4].map(|size| {
            let mut cells = whole_and_partial.clone();
            count((0..100).take_while(|_| take_any(&mut cells, size)))
        });
        assert_eq!(in_turn, nshares);
        let at_once = [1, 2, 3, 4].map(|size| {
            take_many(&mut whole_and_partial.clone(), size, 100, &DemandByOrder::default())
        });
        assert_eq!(at_once, nshares);
    }

    /// An order-3 share on an order-5 node leaves a virtual machine of order 2.
    #[test]
    fn a_taken_node_leaves_a_virtual_one() {
        let mut cells = cells([(5, 5, 1)]);
        assert!(take_any(&mut cells, 3));
        assert_eq!(left(&cells), [(5, 2, 1)]);
    }

    #[test]
    fn the_hole_is_taken_that_costs_larger_requests_least() {
        let mut cells = cells([(3, 3, 1), (5, 5, 1)]);
        let mut demand = DemandByOrder::default();
        demand.add(3);
        assert!(take(&mut cells, order(2), &demand, None));
        assert_eq!(
            left(&cells),
            [(5, 3, 1), (3, 3, 1)],
            "the 5 leaves a 3; the 3 would have left nothing"
        );
    }

    /// A target on a known node takes a piece like that node's, if there is any and it is large
    /// enough; else any piece.
    #[test]
    fn a_hole_is_taken_like_the_one_that_is_known() {
        let like = |order, free| Some(Cell { order, free });
        let cases = [
            (like(5, 5), [(6, 3, 1), (5, 3, 1), (4, 4, 1), (3, 3, 1)]),
            (like(4, 4), [(6, 3, 1), (4, 2, 1), (5, 5, 1), (3, 3, 1)]),
            (like(7, 3), [(6, 1, 1), (4, 4, 1), (5, 5, 1), (3, 3, 1)]), // of another size
            (like(7, 4), [(6, 1, 1), (4, 4, 1), (5, 5, 1), (3, 3, 1)]), // there is none
            (like(6, 1), [(6, 1, 1), (4, 4, 1), (5, 5, 1), (3, 3, 1)]), // too small
        ];
        for (liked, after) in cases {
            let mut before = cells([(6, 3, 1), (4, 4, 1), (5, 5, 1), (3, 3, 1)]);
            assert!(take(&mut before, order(2), &DemandByOrder::default(), liked));
            assert_eq!(left(&before), left(&cells(after)), "{liked:?}");
        }
    }

    #[test]
    fn a_whole_node_is_taken_like_the_one_that_is_known() {
        let like = |order| Some(Cell { order, free: 1 });
        let cases = [(like(4), 3), (like(5), 4), (None, 4)];
        for (liked, left) in cases {
            let pools = vec![cells([(3, 3, 1), (4, 4, 1)])];
            let mut space = EmptyCluster { pools };
            assert!(space.take_whole(PoolIx(0), &(3..=4), liked));
            assert_eq!(space.largest_local(PoolIx(0)), QShares(left), "{liked:?}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_hole_that_is_used_up() {
        let mut cells = cells([(2, 2, 1)]);
        assert!(take_any(&mut cells, 2));
        assert_eq!(left(&cells), []);
        assert_eq!(EmptyCluster { pools: vec![cells] }.largest_local(PoolIx(0)), QShares(0));
    }

    /// The ideal cluster equals a scan of all nodes and jobs, after any placements, preemptions and
    /// targets of this cycle.
    #[test]
    fn counting_begins_with_a_copy_of_what_the_matrix_has() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..300 {
            let mut draw = |least: u64, most: u64| random.random_range(least..=most);
            let orders: Vec<u64> = (0..draw(1, 6)).map(|_| draw(0, 9)).collect();
            let mut scene = Scene::new(&orders);
            for node in 0..orders.len() {
                let state = &mut scene.node(node).state;
                state.is_varied_off = draw(0, 5) == 0;
                scene.node(node).pool = if draw(0, 2) == 0 { SUB } else { TOP };
                scene.node(node).limbo = QShares(draw(0, 5).saturating_sub(3));
            }
            for _ in 0..draw(0, 5) {
                let class = [FAIR, FIXED][usize::try_from(draw(0, 1)).unwrap()];
                let job = scene.job(ANN, class, u32::try_from(draw(1, 3)).unwrap(), 9);
                let node = usize::try_from(draw(0, count(&orders) - 1)).unwrap();
                scene.hold(job, draw(0, 2), node);
            }
            let snapshot = &scene.snapshot;
            let mut fresh = vec![Matrix::default(); snapshot.topology.pools.len()];
            for (ix, node) in snapshot.nodes_with_ix() {
                let fixed = snapshot.jobs.iter().filter(|job| job.class == FIXED);
                let there = fixed.flat_map(|job| &job.shares).filter(|share| share.node == ix);
                let taken: QShares = there.map(|share| share.order.qshares()).sum();
                let free = node.order.saturating_sub(taken + node.limbo).0;
                if node.state.is_schedulable() {
                    fresh[node.pool.0].put(Cell { order: node.order.0, free }, 1);
                }
            }
            let fresh: Vec<_> = fresh.iter().map(left).collect();
            let mut draft = Draft::new(snapshot);
            let copy = |draft: &Draft<'_>| EmptyCluster::new(&draft.spaces);
            let seen = |space: &EmptyCluster| -> Vec<_> { space.pools.iter().map(left).collect() };
            assert_eq!(seen(&copy(&draft)), fresh);
            place_shares(&mut draft);
            let mut space = copy(&draft);
            while space.take(&draft.pools, TOP, order(1), &DemandByOrder::default()) {}
            assert_eq!(seen(&copy(&draft)), fresh);
        }
    }

    #[test]
    fn many_are_taken_as_if_one_by_one() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2_000 {
            let mut draw = |least: u64, most: u64| random.random_range(least..=most);
            let mut at_once = Matrix::default();
            for _ in 0..draw(1, 5) {
                let order = draw(1, 20);
                at_once.put(Cell { order, free: draw(1, order) }, draw(1, 4));
            }
            let mut demand = DemandByOrder::default();
            for _ in 0..draw(0, 3) {
                demand.add(draw(1, 9));
            }
            let (size, nshares) = (u32::try_from(draw(1, 6)).unwrap(), draw(1, 40));
            let mut in_turn = at_once.clone();
            let taken = (0..nshares).take_while(|_| take(&mut in_turn, order(size), &demand, None));
            let taken = count(taken);
            assert_eq!(take_many(&mut at_once, u64::from(size), nshares, &demand), taken);
            assert_eq!(left(&at_once), left(&in_turn));
        }
    }

    /// A node of 4 in a pool, and a node of 3 in each of two pools within it. Columns: the orders
    /// requested of the outer pool, and of the inner pool that is searched first.
    #[test]
    fn all_is_taken_or_it_is_said_what_there_is_too_little_of() {
        let mut scene = Scene::new(&[4, 3, 3]);
        scene.node(1).pool = SUB;
        scene.node(2).pool = APART;
        Arc::make_mut(&mut scene.snapshot.topology).pools[APART].parent = Some(TOP);
        let pools = Pools::new(&scene.snapshot.topology);
        let cases: [(Requested<'_>, Requested<'_>, Result<(), Shortage>); 5] = [
            (&[(1, 10)], &[], Ok(())),
            (&[(1, 11)], &[], Err(Shortage { found: 10, requested: 11 })),
            (&[(1, 1), (3, 3)], &[], Ok(())), // the larger first
            (&[(1, 1), (4, 2)], &[], Err(Shortage { found: 1, requested: 2 })),
            (&[(1, 7)], &[(3, 1)], Ok(())), // what can be nowhere else first
        ];
        assert_eq!(pools.searched_from(TOP), [TOP, SUB, APART]);
        for (outside, within, expected) in cases {
            let mut requested = vec![DemandByOrder::default(); scene.snapshot.topology.pools.len()];
            for (pool, orders) in [(TOP, outside), (SUB, within)] {
                for &(order, nshares) in orders {
                    requested[pool.0].add_many(order, nshares);
                }
            }
            let mut space = EmptyCluster::new(&Draft::new(&scene.snapshot).spaces);
            let taken = space.take_all(&pools, &requested, &DemandByOrder::default());
            assert_eq!(taken, expected, "{outside:?} {within:?}");
        }
    }
}
