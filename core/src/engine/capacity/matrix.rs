//! The capacity matrix: the nodes of a pool, by size and by free space.
//!
//! Design: "Virtual Machines"; architecture section 7. A cell is a node order and a free order.
//! Whole nodes are the diagonal, virtual machines the rest. The nshares that an order could get
//! alone are the weighted sum of the cells. For placing, a cell holds the set of its nodes. For
//! targets a cell holds only their number, so that counting begins with a copy of numbers.
//!
//! Only cells that have, or had, a node exist: a node of 4,096 quanta needs a single cell and not
//! 4,096. The cells are in search order: least free space first, then the largest node. So a whole
//! node comes after nodes in use with equal free space.
//!
//! The nodes of a pool differ in nothing else, as nodes have no tags. With tags, each set of tags
//! in the pool would get a matrix of its own. A job would then search the matrices that suit it.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use super::DemandByOrder;
use super::node_set::NodeSet;
use crate::model::NodeIx;

/// Size and free space of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Cell {
    /// The order of the node.
    pub order: u64,
    /// Free space of the node, at most `order`.
    pub free: u64,
}

impl Cell {
    /// True if the whole node is free.
    pub(in crate::engine) fn is_whole(self) -> bool {
        self.free == self.order
    }

    /// Key of cells that are equally good.
    fn kind(self) -> (u64, bool) {
        (self.free, self.is_whole())
    }

    /// Key of the search order. Cells of the same kind are adjacent in it.
    fn rank(self) -> (u64, Reverse<u64>) {
        (self.free, Reverse(self.order))
    }
}

/// Nodes of a cell, as a set or as a number.
pub(in crate::engine) trait Content: Default {
    /// Number of nodes in the cell.
    fn nodes(&self) -> u64;
}

impl Content for u64 {
    fn nodes(&self) -> u64 {
        *self
    }
}

impl Content for NodeSet {
    fn nodes(&self) -> u64 {
        self.len()
    }
}

/// The nodes of a pool, by cell.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Matrix<C> {
    /// Cells in search order. Empty cells stay: as nodes fill up, they are soon used again.
    cells: Vec<(Cell, C)>,
}

/// Cells of the same kind, with at least a single node in them.
#[derive(Debug)]
pub(in crate::engine) struct Alike<'m, C> {
    kind: (u64, bool),
    cells: &'m [(Cell, C)],
}

impl<C: Content> Matrix<C> {
    /// Mutable content of `cell`; inserts the cell if it does not exist.
    fn content(&mut self, cell: Cell) -> &mut C {
        let place = self.cells.binary_search_by_key(&cell.rank(), |(cell, _)| cell.rank());
        let place = place.unwrap_or_else(|place| {
            self.cells.insert(place, (cell, C::default()));
            place
        });
        &mut self.cells[place].1
    }

    /// Cells with at least `free` of free space, each with its nodes.
    fn cells_from(&self, free: u64) -> &[(Cell, C)] {
        &self.cells[self.cells.partition_point(|(cell, _)| cell.free < free)..]
    }

    /// Nodes with at least `free` of free space, in search order.
    pub(super) fn alike_from(&self, free: u64) -> impl Iterator<Item = Alike<'_, C>> {
        let kinds = self.cells_from(free).chunk_by(|(one, _), (next, _)| one.kind() == next.kind());
        let alike = kinds.map(|cells| Alike { kind: cells[0].0.kind(), cells });
        alike.filter(|alike| alike.cells.iter().any(|(_, content)| 0 < content.nodes()))
    }

    /// Applies `take` to the nodes whose use for an nshare of `order` costs larger requests least,
    /// and returns its result. Ties go to the least free space, then to nodes in use. If `take`
    /// returns `None`, the next best nodes are tried.
    pub(in crate::engine) fn cheapest<T>(
        &self,
        order: u64,
        demand: &DemandByOrder,
        take: impl Fn(Alike<'_, C>) -> Option<T>,
    ) -> Option<T> {
        least_fragmenting(self.alike_from(order), |alike| demand.damage(alike.free(), order), take)
    }

    /// Applies `take` to the smallest whole nodes whose order is in `orders`, until it returns a
    /// result.
    pub(in crate::engine) fn smallest_whole<T>(
        &self,
        orders: &RangeInclusive<u64>,
        take: impl Fn(Alike<'_, C>) -> Option<T>,
    ) -> Option<T> {
        let alike = self.alike_from(*orders.start());
        let alike = alike.take_while(|alike| alike.free() <= *orders.end());
        alike.filter(Alike::is_whole).find_map(take)
    }

    /// Free space on all nodes.
    pub(super) fn total(&self) -> u64 {
        self.cells.iter().map(|(cell, content)| cell.free * content.nodes()).sum()
    }

    /// Free space on the node with the most.
    pub(super) fn largest(&self) -> u64 {
        let filled = self.cells.iter().rfind(|(_, content)| 0 < content.nodes());
        filled.map_or(0, |(cell, _)| cell.free)
    }

    /// Nshares of `order` that fit if no other order is taken.
    pub(super) fn nshares(&self, order: u64) -> u64 {
        let fit = |cell: &Cell| cell.free.checked_div(order).unwrap_or(0);
        self.cells_from(order).iter().map(|(cell, content)| fit(cell) * content.nodes()).sum()
    }

    /// Number of nodes in each cell that is not empty.
    #[cfg(test)]
    pub(super) fn filled(&self) -> Vec<(Cell, u64)> {
        let cells = self.cells.iter().map(|(cell, content)| (*cell, content.nodes()));
        cells.filter(|(_, nodes)| 0 < *nodes).collect()
    }

    /// Number of nodes of at least `order`, free or not.
    pub(super) fn nodes_of_size(&self, order: u64) -> u64 {
        let large = self.cells.iter().filter(|(cell, _)| order <= cell.order);
        large.map(|(_, content)| content.nodes()).sum()
    }
}

impl Matrix<u64> {
    /// Adds `nodes` nodes to `cell`.
    pub(super) fn put(&mut self, cell: Cell, nodes: u64) {
        *self.content(cell) += nodes;
    }

    /// Takes `amount` of each of `nodes` nodes in `cell`.
    ///
    /// # Panics
    ///
    /// If there are fewer nodes: the caller lost track of the cells.
    pub(super) fn take_of(&mut self, cell: Cell, amount: u64, nodes: u64) {
        let there = self.content(cell);
        *there = there.checked_sub(nodes).expect("nodes that are used are there");
        self.put(Cell { free: cell.free - amount, ..cell }, nodes);
    }

    /// Returns `amount` to each of `nodes` nodes that were in `cell` before it was taken; to other
    /// nodes of that size if their rest was taken meanwhile.
    pub(super) fn give_back(&mut self, cell: Cell, amount: u64, nodes: u64) {
        let rest = Cell { free: cell.free - amount, ..cell };
        let is_like = |other: &Cell| other.order == cell.order && other.free + amount <= cell.order;
        let mut left = nodes;
        while 0 < left {
            let filled = || self.cells.iter().filter(|(_, nodes)| 0 < *nodes);
            let same = filled().find(|(other, _)| *other == rest).copied();
            let other = || filled().rfind(|(other, _)| is_like(other)).map(|(cell, _)| (*cell, 1));
            let Some((from, there)) = same.or_else(other) else { return };
            let moved = there.min(left);
            *self.content(from) -= moved;
            self.put(Cell { free: from.free + amount, ..from }, moved);
            left -= moved;
        }
    }

    /// A cell of the same kind as `cell` that is not empty, and its number of nodes.
    pub(super) fn like(&self, cell: Cell) -> Option<(Cell, u64)> {
        let mut alike = self.alike_from(cell.free).take_while(|alike| alike.free() == cell.free);
        alike.find(|alike| alike.kind == cell.kind())?.first_cell()
    }
}

impl Matrix<NodeSet> {
    /// Puts `node` into `cell`. It must be in no cell yet.
    pub(super) fn insert(&mut self, node: NodeIx, cell: Cell) {
        self.content(cell).insert(node);
    }

    /// Moves `node` from cell `from` to cell `to`; `None` stands for no cell.
    pub(super) fn move_node(&mut self, node: NodeIx, from: Option<Cell>, to: Option<Cell>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.content(from).remove(node);
        }
        if let Some(to) = to {
            self.insert(node, to);
        }
    }

    /// The nodes with at least `free` of free space, cell by cell; in each cell by name.
    pub(super) fn nodes_from(
        &self,
        free: u64,
    ) -> impl Iterator<Item = impl Iterator<Item = NodeIx>> {
        self.cells_from(free).iter().map(|(_, nodes)| nodes.iter())
    }
}

impl<C> Alike<'_, C> {
    /// Free space of each node.
    pub(in crate::engine) fn free(&self) -> u64 {
        self.kind.0
    }

    /// True if each node is wholly free.
    pub(in crate::engine) fn is_whole(&self) -> bool {
        self.kind.1
    }
}

impl Alike<'_, u64> {
    /// The first cell that is not empty, and its number of nodes.
    pub(super) fn first_cell(&self) -> Option<(Cell, u64)> {
        self.cells.iter().copied().find(|(_, nodes)| 0 < *nodes)
    }
}

impl Alike<'_, NodeSet> {
    /// The first node, by name, that is in `list` and that `may_take` allows.
    pub(in crate::engine) fn first_in(
        &self,
        list: &NodeSet,
        may_take: impl Fn(NodeIx) -> bool,
    ) -> Option<NodeIx> {
        self.cells.iter().filter_map(|(_, nodes)| nodes.first_in(list, &may_take)).min()
    }

    /// The first node, by name, that `may_take` allows.
    pub(in crate::engine) fn first(&self, may_take: impl Fn(NodeIx) -> bool) -> Option<NodeIx> {
        let mut first: Option<NodeIx> = None;
        for (_, nodes) in self.cells {
            let mut earlier =
                nodes.iter().take_while(|node| first.is_none_or(|first| *node < first));
            first = earlier.find(|node| may_take(*node)).or(first);
        }
        first
    }
}

/// The result of `take` for the least damaging of `holes` for which it returns a result; the first
/// of them on ties. The search ends early at a result without damage.
fn least_fragmenting<T, U>(
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::model::count;

    /// The nodes, each with its cell, as a plain list.
    type Model = [Cell];

    fn matrices(nodes: &Model) -> (Matrix<NodeSet>, Matrix<u64>) {
        let (mut sets, mut counts) = (Matrix::default(), Matrix::default());
        for (ix, cell) in nodes.iter().enumerate() {
            sets.insert(NodeIx(ix), *cell);
            counts.put(*cell, 1);
        }
        (sets, counts)
    }

    fn check_sums<C: Content>(matrix: &Matrix<C>, nodes: &Model) {
        let free = || nodes.iter().map(|cell| cell.free);
        assert_eq!(matrix.total(), free().sum::<u64>());
        assert_eq!(matrix.largest(), free().max().unwrap_or(0));
        for order in 1..14 {
            let fit = |free: u64| free.checked_div(order).unwrap();
            assert_eq!(matrix.nshares(order), free().map(fit).sum::<u64>(), "{order}");
            let large = nodes.iter().filter(|cell| order <= cell.order);
            assert_eq!(matrix.nodes_of_size(order), count(large), "{order}");
        }
    }

    /// Compares the node found for an order, and the whole node found, with a scan of the nodes
    /// that are not refused.
    fn check_searches(
        matrix: &Matrix<NodeSet>,
        counts: &Matrix<u64>,
        nodes: &Model,
        (order, demand, refused): (u64, &DemandByOrder, &BTreeSet<usize>),
    ) {
        let allowed = || (0..nodes.len()).filter(|ix| !refused.contains(ix));
        let may_take = |node: NodeIx| !refused.contains(&node.0);
        let rank = |ix: &usize| {
            let Cell { free, order: size } = nodes[*ix];
            (demand.damage(free, order), free, free == size, *ix)
        };
        let best = allowed().filter(|ix| order <= nodes[*ix].free).min_by_key(rank);
        let found = matrix.cheapest(order, demand, |alike| alike.first(may_take));
        assert_eq!(found, best.map(NodeIx));
        let orders = order..=order + 3;
        let suits = |ix: &usize| nodes[*ix].is_whole() && orders.contains(&nodes[*ix].order);
        let best = allowed().filter(suits).min_by_key(|ix| (nodes[*ix].order, *ix));
        let found = matrix.smallest_whole(&orders, |alike| alike.first(may_take));
        assert_eq!(found, best.map(NodeIx));
        // If no node is refused, the counts give a cell of the same kind as the node found.
        if refused.is_empty() {
            let of_kind = |alike: Alike<'_, u64>| alike.first_cell().map(|(cell, _)| cell.kind());
            let node = matrix.cheapest(order, demand, |alike| alike.first(may_take));
            let kind = node.map(|node| nodes[node.0].kind());
            assert_eq!(counts.cheapest(order, demand, of_kind), kind);
        }
    }

    /// Compares with scans of a plain list of nodes, after random moves.
    #[test]
    fn what_is_asked_of_the_matrix_is_what_a_look_at_all_nodes_says() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..200 {
            let mut draw = |least: u64, most: u64| random.random_range(least..=most);
            let cell = |order: u64, free: u64| Cell { order, free: free.min(order) };
            let mut nodes: Vec<Cell> =
                (0..draw(0, 12)).map(|_| cell(draw(0, 12), draw(0, 12))).collect();
            let (mut matrix, mut counts) = matrices(&nodes);
            for _ in 0..20 {
                let demand = (0..draw(0, 3)).fold(DemandByOrder::default(), |mut demand, _| {
                    demand.add(draw(1, 9));
                    demand
                });
                let most = if draw(0, 1) == 0 { 0 } else { 6 };
                let refused = (0..draw(0, most)).map(|_| usize::try_from(draw(0, 11)).unwrap());
                let refused = refused.collect();
                check_searches(&matrix, &counts, &nodes, (draw(1, 6), &demand, &refused));
                let Some(last) = count(&nodes).checked_sub(1) else { break };
                let moved = usize::try_from(draw(0, last)).unwrap();
                let (from, to) = (nodes[moved], cell(nodes[moved].order, draw(0, 12)));
                matrix.move_node(NodeIx(moved), Some(from), Some(to));
                if to.free < from.free {
                    counts.take_of(from, from.free - to.free, 1);
                } else {
                    counts = matrices(&nodes).1;
                    *counts.content(from) -= 1;
                    counts.put(to, 1);
                }
                nodes[moved] = to;
                check_sums(&matrix, &nodes);
                check_sums(&counts, &nodes);
                let (fresh, fresh_counts) = matrices(&nodes);
                assert_eq!(matrix.filled(), fresh.filled());
                assert_eq!(counts.clone().filled(), fresh_counts.filled());
            }
        }
    }

    /// Nodes of 4 TB with a quantum of 1 GB, beside nodes of a quarter of that.
    #[test]
    fn there_are_as_many_cells_as_there_are_sizes_and_rooms() {
        let nodes = [(4096, 4096), (4096, 4096), (4096, 17), (1024, 1024), (1024, 17), (4096, 0)];
        let nodes = nodes.map(|(order, free)| Cell { order, free });
        let distinct: BTreeSet<(u64, u64)> = nodes.iter().map(|c| (c.order, c.free)).collect();
        let (sets, counts) = matrices(&nodes);
        assert_eq!((sets.cells.len(), counts.cells.len()), (distinct.len(), distinct.len()));
        assert_eq!(counts.nshares(4096), 2);
        assert_eq!(counts.nshares(1), 2 * 4096 + 1024 + 2 * 17);
    }

    #[test]
    fn of_holes_that_cost_the_same_the_first_is_taken() {
        let cost = |costs: [u64; 3]| least_fragmenting(0..3, |hole| costs[*hole], Some);
        assert_eq!(cost([2, 1, 1]), Some(1));
        assert_eq!(cost([2, 2, 2]), Some(0));
        let others = |hole| (hole != 1).then_some(hole);
        assert_eq!(least_fragmenting(0..3, |hole| [2, 0, 1][*hole], others), Some(2));
    }
}
