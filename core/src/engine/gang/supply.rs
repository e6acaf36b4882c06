//! Space for gangs on the nodes of a pool, by kind of node.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use super::calendar::{GroupLimit, GroupLimits};
use super::fit::NodeBatch;
use super::kinds::{Kinds, NodeKind};
use super::request::GangRequest;
use crate::engine::capacity::NodeSet;
use crate::model::{Name, NodeIx, Shape};

/// Space of a node for a gang, in qshares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    /// Free space once all that leaves is gone, and all that the gang may take back.
    pub available: u64,
    /// Free space now.
    pub usable: u64,
}

/// Nodes with the same space, in the order in which gangs use them: by kind, then nodes with
/// nothing to be taken back, then nodes whose next window is nearest, then by space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shelf {
    kind: NodeKind,
    is_in_use: bool,
    /// List of windows: nodes whose windows begin sooner come first.
    windows: usize,
    available: u64,
    usable: u64,
}

impl Shelf {
    /// Space of each node.
    fn space(&self) -> Space {
        Space { available: self.available, usable: self.usable }
    }

    /// The shelf of nodes of which `amount` is taken.
    fn without(self, amount: u64) -> Shelf {
        let available = self.available.saturating_sub(amount);
        let usable = self.usable.saturating_sub(amount).min(available);
        Shelf { is_in_use: usable < available, available, usable, ..self }
    }

    fn of(kinds: &Kinds, node: NodeIx, Space { available, usable }: Space) -> Shelf {
        let usable = usable.min(available);
        let is_in_use = usable < available;
        let windows = kinds.windows.list_of(node.0);
        Shelf { kind: kinds.of(node.0), is_in_use, windows, available, usable }
    }
}

/// A placement set: a key, and the value that all nodes of the set have.
pub(super) type PlacementSet = (Name, Name);

/// Place of a shelf among the shelves of a supply, counted from 1.
type ShelfPlace = NonZeroU32;

/// Nodes by kind and space.
#[derive(Clone, Debug, Default)]
pub(super) struct Supply {
    /// Places of the shelves that have nodes, in the order of their use.
    places: BTreeMap<Shelf, ShelfPlace>,
    /// Shelves by place. Some may have no nodes any more.
    shelves: Vec<(Shelf, NodeSet)>,
    /// Places of shelves without nodes.
    empty: Vec<ShelfPlace>,
    /// Shelf of each node, by the place of the node.
    shelf_of: Vec<Option<ShelfPlace>>,
    /// Space that was taken from nodes that did not have it. What is returned pays for it first.
    short: BTreeMap<NodeIx, u64>,
    /// Nodes without an index, by kind: their size is unknown.
    unheard: BTreeMap<NodeKind, u64>,
}

/// A move of nodes from a shelf to another, as `amount` of each is taken.
struct ShelfMove {
    before: ShelfPlace,
    amount: u64,
    after: ShelfPlace,
}

/// Moves between shelves with which another move is compared, to carry out both at once.
const MOVES_COMPARED: usize = 8;

/// Shelves with which the shelf of a node is compared before all shelves are searched.
const SHELVES_COMPARED: usize = 16;

/// Part of the space of a node that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpacePart {
    /// Space that can be had.
    Available,
    /// Space that is free now.
    Usable,
}

/// Limits on the nodes of a gang beside the tags of its chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'b> {
    pub set: Option<&'b PlacementSet>,
    /// The only nodes that the gang may use, ascending.
    pub list: Option<&'b [NodeIx]>,
    /// Nodes that the gang may not use.
    pub without: &'b BTreeSet<NodeIx>,
    /// Limits by windows and the calendar for each group of nodes. `None` means none.
    pub limits: Option<&'b GroupLimits>,
}

impl Bounds<'_> {
    fn allow(&self, node: NodeIx) -> bool {
        !self.without.contains(&node)
            && self.list.is_none_or(|list| list.binary_search(&node).is_ok())
    }
}

/// Groups of nodes for a gang, and the shelf of each.
pub(super) struct Stock {
    pub groups: Vec<NodeBatch>,
    shelves: Vec<Option<Shelf>>,
}

impl Stock {
    /// Groups without names of nodes.
    pub(super) fn of(groups: Vec<NodeBatch>) -> Stock {
        let shelves = vec![None; groups.len()];
        Stock { groups, shelves }
    }
}

impl Supply {
    /// Nodes with their space, ascending.
    pub(super) fn of(kinds: &Kinds, nodes: impl Iterator<Item = (NodeIx, Space)>) -> Supply {
        let mut supply = Supply::default();
        supply.shelf_of.reserve(kinds.nodes());
        for (node, space) in nodes {
            let shelf = Shelf::of(kinds, node, space);
            // Few shelves come in turn.
            let known = supply.shelves.iter().zip(1..).take(SHELVES_COMPARED);
            let known = known
                .filter(|((known, _), _)| *known == shelf)
                .find_map(|(_, place)| ShelfPlace::new(place));
            let place = known.unwrap_or_else(|| supply.place_of(shelf));
            supply.nodes_at(place).insert(node);
            supply.shelf_of.resize(node.0, None);
            supply.shelf_of.push(Some(place));
        }
        supply
    }

    /// A supply of `nodes`, ascending: `known` itself, if it has just these.
    pub(super) fn like<I: Iterator<Item = (NodeIx, Space)>>(
        known: &Arc<Supply>,
        kinds: &Kinds,
        nodes: impl Fn() -> I,
    ) -> Arc<Supply> {
        if known.is_of(nodes()) {
            return Arc::clone(known);
        }
        Arc::new(Supply::of(kinds, nodes()))
    }

    /// True if the supply has just these nodes, ascending, and all that it knows is their space.
    fn is_of(&self, nodes: impl Iterator<Item = (NodeIx, Space)>) -> bool {
        let all = self.shelf_of.iter().zip(0..);
        let own =
            all.filter_map(|(place, node)| Some((NodeIx(node), self.shelf((*place)?).space())));
        self.unheard.is_empty() && self.short.is_empty() && own.eq(nodes)
    }

    fn shelf(&self, place: ShelfPlace) -> &Shelf {
        &self.shelves[index(place)].0
    }

    fn nodes_at(&mut self, place: ShelfPlace) -> &mut NodeSet {
        &mut self.shelves[index(place)].1
    }

    /// Shelves with their nodes, in the order of their use.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&Shelf, &NodeSet)> {
        self.places.iter().map(|(shelf, place)| (shelf, &self.shelves[index(*place)].1))
    }

    /// The place of a shelf, which may be new.
    fn place_of(&mut self, shelf: Shelf) -> ShelfPlace {
        if let Some(place) = self.places.get(&shelf) {
            return *place;
        }
        let place = self.empty.pop().unwrap_or_else(|| {
            self.shelves.push((shelf, NodeSet::default()));
            let last = u32::try_from(self.shelves.len()).unwrap_or(u32::MAX);
            ShelfPlace::new(last).unwrap_or(ShelfPlace::MAX)
        });
        self.shelves[index(place)].0 = shelf;
        self.places.insert(shelf, place);
        place
    }

    /// Forgets a shelf if it has no nodes.
    fn forget_empty(&mut self, place: ShelfPlace) {
        let (shelf, nodes) = &self.shelves[index(place)];
        if nodes.len() == 0 && self.places.remove(shelf).is_some() {
            self.empty.push(place);
        }
    }

    /// Adds listed nodes that never reported.
    pub(super) fn add_unheard(&mut self, kind: NodeKind, nodes: u64) {
        *self.unheard.entry(kind).or_default() += nodes;
    }

    /// Space of a node; nothing for a node that is not in the supply.
    pub(super) fn space(&self, node: NodeIx) -> Space {
        let place = self.shelf_of.get(node.0).copied().flatten();
        place.map_or_else(Space::default, |place| self.shelf(place).space())
    }

    /// Enters a node, or changes its space.
    pub(super) fn set(&mut self, kinds: &Kinds, node: NodeIx, space: Space) {
        if self.shelf_of.len() <= node.0 {
            self.shelf_of.resize(node.0 + 1, None);
        }
        let after = self.place_of(Shelf::of(kinds, node, space));
        match self.shelf_of[node.0].replace(after) {
            Some(before) => {
                self.carry(before, after, &[node]);
                self.forget_empty(before);
            }
            None => self.nodes_at(after).insert(node),
        }
    }

    /// Takes `amount` of a node.
    pub(super) fn take(&mut self, kinds: &Kinds, node: NodeIx, amount: u64) {
        let Space { available, usable } = self.space(node);
        self.owe(node, amount.saturating_sub(available));
        let (available, usable) = (available.saturating_sub(amount), usable.saturating_sub(amount));
        self.set(kinds, node, Space { available, usable });
    }

    /// Takes an amount of each of several nodes. Nodes of a shelf move together.
    pub(super) fn take_all(&mut self, kinds: &Kinds, amounts: &[(NodeIx, u64)]) {
        let mut moves: Vec<(ShelfMove, Vec<NodeIx>)> = Vec::new();
        for &(node, amount) in amounts {
            let Some(before) = self.shelf_of.get(node.0).copied().flatten() else {
                self.take(kinds, node, amount);
                continue;
            };
            self.owe(node, amount.saturating_sub(self.shelf(before).available));
            // A gang uses few kinds of nodes, in turn.
            let latest = moves.iter().enumerate().rev().take(MOVES_COMPARED);
            let mut latest =
                latest.filter(|(_, (it, _))| it.before == before && it.amount == amount);
            let known = latest.next().map(|(place, _)| place);
            let place = known.unwrap_or_else(|| {
                let after = self.place_of(self.shelf(before).without(amount));
                moves.push((ShelfMove { before, amount, after }, Vec::new()));
                moves.len() - 1
            });
            let (shelves, nodes) = &mut moves[place];
            self.shelf_of[node.0] = Some(shelves.after);
            nodes.push(node);
        }
        for (shelves, nodes) in &moves {
            self.carry(shelves.before, shelves.after, nodes);
        }
        for (shelves, _) in moves {
            self.forget_empty(shelves.before);
        }
    }

    /// Moves nodes from a shelf to another.
    fn carry(&mut self, before: ShelfPlace, after: ShelfPlace, nodes: &[NodeIx]) {
        if before == after {
            return;
        }
        let others = self.nodes_at(before);
        for node in nodes {
            others.remove(*node);
        }
        let others = self.nodes_at(after);
        for node in nodes {
            others.insert(*node);
        }
    }

    /// Returns `amount` to a node, `usable` of it free now.
    pub(super) fn give_back(&mut self, kinds: &Kinds, node: NodeIx, amount: u64, usable: u64) {
        let space = self.space(node);
        let short = self.short.entry(node).or_default();
        let paid = amount.min(*short);
        *short -= paid;
        let available = space.available + amount - paid;
        self.set(kinds, node, Space { available, usable: space.usable + usable });
    }

    /// Notes that `amount` more than a node has is in use or promised.
    pub(super) fn owe(&mut self, node: NodeIx, amount: u64) {
        if 0 < amount {
            *self.short.entry(node).or_default() += amount;
        }
    }

    /// Values of `key` on nodes within `list`, each with its number of nodes.
    pub(super) fn values(
        &self,
        kinds: &Kinds,
        key: &Name,
        list: Option<&[NodeIx]>,
    ) -> BTreeMap<Name, u64> {
        let mut values: BTreeMap<Name, u64> = BTreeMap::new();
        let mut add = |kind: NodeKind, nodes: u64| {
            if let Some(value) = kinds.tags(kind).get(key) {
                *values.entry(value.clone()).or_default() += nodes;
            }
        };
        for (shelf, nodes) in self.in_order() {
            add(shelf.kind, count_within(nodes, list));
        }
        for (kind, nodes) in self.unheard.iter().filter(|_| list.is_none()) {
            add(*kind, *nodes);
        }
        values.retain(|_, nodes| 0 < *nodes);
        values
    }

    /// Groups of the nodes that a gang may use within `bounds`, in the order of their use.
    pub(super) fn stock(
        &self,
        kinds: &Kinds,
        request: &GangRequest<'_>,
        bounds: Bounds<'_>,
        pool_supplies: SpacePart,
    ) -> Stock {
        let most = self.places.len() + self.unheard.len();
        let (groups, shelves) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut stock = Stock { groups, shelves };
        let least = request.pieces.iter().map(|piece| piece.size).min().unwrap_or(1);
        let is_in_set = |kind: NodeKind| {
            bounds.set.is_none_or(|(key, value)| kinds.tags(kind).get(key) == Some(value))
        };
        let mut limits: BTreeMap<(NodeKind, usize), GroupLimit> = BTreeMap::new();
        for (shelf, nodes) in self.in_order() {
            let free = match pool_supplies {
                SpacePart::Available => shelf.available,
                SpacePart::Usable => shelf.usable,
            };
            let is_enough =
                if request.shape.is_exclusive { free == shelf.kind.order } else { least <= free };
            if free < least || !is_enough || !is_in_set(shelf.kind) {
                continue;
            }
            let suits = request.suits.on(shelf.kind);
            if suits.is_empty() {
                continue;
            }
            let count = match bounds.list {
                None if bounds.without.is_empty() => nodes.len(),
                _ => crate::model::count(nodes.iter().filter(|node| bounds.allow(*node))),
            };
            let count = match bounds.limits {
                Some(all) => within_limit(all, &mut limits, shelf, count),
                None => count,
            };
            if 0 < count {
                stock.groups.push(NodeBatch { nodes: count, free, suits });
                stock.shelves.push(Some(*shelf));
            }
        }
        for (kind, nodes) in self.unheard.iter().filter(|_| bounds.list.is_none()) {
            if is_in_set(*kind) {
                let suits = request.suits.on(*kind);
                stock.groups.push(NodeBatch { nodes: *nodes, free: kind.order, suits });
                stock.shelves.push(None);
            }
        }
        stock
    }

    /// True if a node of `set` that suits a chunk of `shape` has any space.
    pub(super) fn has_any_space(
        &self,
        kinds: &Kinds,
        shape: &Shape,
        set: Option<&PlacementSet>,
    ) -> bool {
        self.places.keys().filter(|shelf| 0 < shelf.available).any(|shelf| {
            let tags = kinds.tags(shelf.kind);
            set.is_none_or(|(key, value)| tags.get(key) == Some(value))
                && shape.chunks.iter().any(|chunk| tags.satisfy(&chunk.tags))
        })
    }

    /// The nodes of a group of `stock`, by name.
    pub(super) fn nodes_of(
        &self,
        stock: &Stock,
        group: usize,
        bounds: Bounds<'_>,
    ) -> impl Iterator<Item = NodeIx> {
        let nodes = stock.shelves[group].and_then(|shelf| self.places.get(&shelf));
        let nodes = nodes.map(|place| &self.shelves[index(*place)].1);
        nodes.into_iter().flat_map(NodeSet::iter).filter(move |node| bounds.allow(*node))
    }

    /// The node with the least space of at least `amount` for which `may_use` is true, if possible
    /// a node in use, then by kind. Nodes with so much free now come first.
    pub(super) fn best_fit(&self, amount: u64, may_use: impl Fn(NodeIx) -> bool) -> Option<NodeIx> {
        let find = |space: fn(&Shelf) -> u64| {
            let shelves = self.in_order().filter(|(shelf, _)| amount <= space(shelf));
            let nodes = shelves.filter_map(|(shelf, nodes)| {
                let first = nodes.iter().find(|&node| may_use(node))?;
                Some((space(shelf), shelf.kind.order == space(shelf), shelf.kind, first))
            });
            nodes.min().map(|(.., node)| node)
        };
        find(|shelf| shelf.usable).or_else(|| find(|shelf| shelf.available))
    }
}

/// A place as an index.
fn index(place: ShelfPlace) -> usize {
    usize::try_from(place.get() - 1).unwrap_or(usize::MAX)
}

/// Part of `count` nodes of a shelf that a gang may use. The calendar limits nodes that are free of
/// work that stays; nodes in use are tried by name.
fn within_limit(
    all: &GroupLimits,
    left: &mut BTreeMap<(NodeKind, usize), GroupLimit>,
    shelf: &Shelf,
    count: u64,
) -> u64 {
    let group = (shelf.kind, shelf.windows);
    let Some(limit) = all.get(&group) else { return 0 };
    let left = left.entry(group).or_insert(*limit);
    if !left.is_open {
        return 0;
    }
    if shelf.available < shelf.kind.order {
        return count;
    }
    let count = count.min(left.free);
    left.free -= count;
    count
}

/// Number of `nodes` that are in `list`.
fn count_within(nodes: &NodeSet, list: Option<&[NodeIx]>) -> u64 {
    match list {
        None => nodes.len(),
        Some(list) => {
            let is_listed = |node: &NodeIx| list.binary_search(node).is_ok();
            crate::model::count(nodes.iter().filter(is_listed))
        }
    }
}
