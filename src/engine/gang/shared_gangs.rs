//! Gangs that share nodes with other work: their places in the calendar, node by node.
//!
//! Design: requests and time, section 3.6.

use std::collections::BTreeMap;

use super::Slot;
use super::calendar::{Calendar, CalendarGroup};
use super::fit::{NodeBatch, NodeLoad};
use super::kinds::NodeKind;
use super::node_time::{CalendarSpot, NodeTime};
use super::planner::GangPlanner;
use super::request::{GangRequest, total};
use super::supply::{PlacementSet, SpacePart, Stock};
use super::timeline::NEVER;
use super::windows::StartTimes;
use crate::engine::draft::Draft;
use crate::model::{Millis, NodeIx, Place, count};

/// Most moments at which a gang is tried node by node.
const TRIES: usize = 64;

/// Most looks at nodes in a cycle for the best places. Further gangs have places on empty nodes only,
/// and further single requests start on the node that is fullest now.
pub(super) const LOOKS: u64 = 2_000_000;

/// Nodes for a gang at a moment, in batches.
#[derive(Default)]
struct SharedStock {
    batches: Vec<NodeBatch>,
    /// Nodes of each batch.
    spots: Vec<BatchSpots>,
}

/// Nodes of a batch.
enum BatchSpots {
    /// Nodes by their place in the calendar.
    Nodes(Vec<usize>),
    /// Empty nodes of a group.
    Empty(CalendarGroup),
}

/// Places of nodes by kind, list of windows, free space at the start and the least during the stay;
/// or the number of empty nodes of a group.
type SharedShelves =
    BTreeMap<(NodeKind, usize, u64, u64, Option<(CalendarGroup, u64)>), Vec<usize>>;

/// A node, and the number of processes of each chunk on it.
type LoadedSpot = (CalendarSpot, Vec<(usize, u64)>);

/// Start and end of a stay.
type StaySpan = (Millis, Millis);

/// Space that a chunk, or a packed gang, needs to start somewhere.
struct ChunkNeed<'r> {
    /// Qshares that count as a unit.
    amount: u64,
    /// Units that a node may add at most.
    most_per_node: u64,
    /// Units in all.
    units: u64,
    suits: Box<dyn Fn(NodeKind) -> bool + 'r>,
}

impl GangPlanner {
    /// The earliest start of a gang that shares nodes, and the amount on each node.
    pub(super) fn shared_opening(
        &mut self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
    ) -> Option<(Millis, Vec<(CalendarSpot, u64)>)> {
        let mut looks = self.looks;
        let opening = self.search_shared(draft, request, &mut looks);
        self.looks = looks;
        opening
    }

    fn search_shared(
        &self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
        looks: &mut u64,
    ) -> Option<(Millis, Vec<(CalendarSpot, u64)>)> {
        let calendar = self.calendar.as_ref().filter(|_| *looks < LOOKS)?;
        let times = StartTimes::new(draft, &self.kinds.windows, request.job, calendar.now);
        let moments = self.shared_moments(draft, calendar, request, &times, looks);
        moments.into_iter().take(TRIES).find_map(|at| {
            *looks += count(calendar.nodes());
            let span = (at, times.end(at));
            let spots = request.domains().find_map(|set| {
                let stock = |is_longer: bool| {
                    let may_use = |place: usize, node: &NodeTime| {
                        is_usable_then(draft, request, place, node)
                            && (request.list.is_some() || node.is_shared_at(at))
                            && (is_longer || span.1 <= node.until)
                    };
                    let free = |node: &NodeTime, _| {
                        (node.space.least(at, at + 1), node.space.least(at, span.1))
                    };
                    let is_open = |_, list: usize| times.allow(list, at);
                    let mut shelves = self.nodes_in_use(request, set, (may_use, free, is_open));
                    if request.list.is_none() {
                        self.add_empty(&mut shelves, request, set, (span, is_longer), is_open);
                    }
                    self.shared_stock(request, shelves)
                };
                self.assign_shared(request, stock, span)
            })?;
            let amount = |processes: Vec<(usize, u64)>| {
                processes.iter().map(|(chunk, each)| each * request.pieces[*chunk].size).sum()
            };
            Some((at, spots.into_iter().map(|(spot, load)| (spot, amount(load))).collect()))
        })
    }

    /// Slots for a gang that shares nodes and starts now, within `set`.
    pub(super) fn shared_slots(
        &self,
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
        part: SpacePart,
    ) -> Option<Vec<Slot>> {
        let calendar = self.calendar.as_ref()?;
        let limits = request.limits.as_ref()?;
        let supply = self.supply.get(&request.pool)?;
        let span = (calendar.now, request.until);
        let may_use = |place: usize, node: &NodeTime| {
            let name = NodeIx(place);
            !node.is_unnamed
                && !request.without.contains(&name)
                && request.list.is_none_or(|list| list.binary_search(&name).is_ok())
        };
        let free = |node: &NodeTime, place: usize| {
            let space = supply.space(NodeIx(place));
            let now = match part {
                SpacePart::Available => space.available,
                SpacePart::Usable => space.usable,
            };
            (now, now.min(node.space.least(span.0, span.1)))
        };
        let is_open = |kind: NodeKind, list: usize| {
            limits.get(&(kind, list)).is_some_and(|limit| limit.is_open)
        };
        let stock = |is_longer: bool| {
            let in_use = |place: usize, node: &NodeTime| {
                let is_long = is_longer || span.1 <= node.until;
                span.0 < node.until && is_long && may_use(place, node)
            };
            let mut shelves = self.nodes_in_use(request, set, (in_use, free, is_open));
            let empty =
                |place: usize, node: &NodeTime| node.until <= span.0 && may_use(place, node);
            let mut left: BTreeMap<CalendarGroup, u64> = BTreeMap::new();
            for (shelf, mut places) in self.nodes_in_use(request, set, (empty, free, is_open)) {
                places.retain(|&place| {
                    let group = calendar.nodes()[place].group;
                    let least = || calendar.left(&group).map_or(0, |it| it.least(span.0, span.1));
                    let left = left.entry(group).or_insert_with(least);
                    let is_left = 0 < *left;
                    *left = left.saturating_sub(1);
                    is_left
                });
                if !places.is_empty() {
                    shelves.entry(shelf).or_default().append(&mut places);
                }
            }
            self.shared_stock(request, shelves)
        };
        let spots = self.assign_shared(request, stock, span)?;
        let mut of_chunk: Vec<Vec<(NodeIx, u64)>> = vec![Vec::new(); request.pieces.len()];
        for (spot, processes) in spots {
            let CalendarSpot::Node(place) = spot else { return None };
            for (chunk, each) in processes {
                of_chunk[chunk].push((NodeIx(place), each));
            }
        }
        Some(self.slots_on(request, of_chunk))
    }

    /// Assigns nodes to all processes. If work would be on a node for longer than older requests
    /// leave it, only nodes that are in use for longer anyway are taken.
    fn assign_shared(
        &self,
        request: &GangRequest<'_>,
        stock: impl Fn(bool) -> SharedStock,
        (from, to): StaySpan,
    ) -> Option<Vec<LoadedSpot>> {
        let calendar = self.calendar.as_ref()?;
        [true, false].into_iter().find_map(|is_longer| {
            let SharedStock { batches, spots } = stock(is_longer);
            let stock = Stock::of(batches);
            let loads = request.fitting(&stock).assign().ok()?;
            let spots = loaded_spots(spots, loads);
            let nodes = spots.iter().map(|(spot, _)| *spot);
            calendar.leaves_nodes(nodes, from, to).then_some(spots)
        })
    }

    /// Nodes of the calendar that `may_use` names. `free` is the free space at the start, and the
    /// least during the stay.
    fn nodes_in_use(
        &self,
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
        (may_use, free, is_open): (
            impl Fn(usize, &NodeTime) -> bool,
            impl Fn(&NodeTime, usize) -> (u64, u64),
            impl Fn(NodeKind, usize) -> bool,
        ),
    ) -> SharedShelves {
        let least = request.pieces.iter().map(|piece| piece.size).min().unwrap_or(1);
        let mut shelves = SharedShelves::new();
        let mut known: BTreeMap<(NodeKind, usize), bool> = BTreeMap::new();
        let nodes = self.calendar.iter().flat_map(|calendar| calendar.nodes().iter().enumerate());
        for (place, node) in nodes.filter(|(_, node)| node.group.0 == request.pool) {
            let (_, kind, list) = node.group;
            let suits = || self.is_in_set(kind, set) && is_open(kind, list);
            if *known.entry((kind, list)).or_insert_with(suits) && may_use(place, node) {
                let (at_start, during) = free(node, place);
                if least <= during {
                    let shelf = (kind, list, at_start, during, None);
                    shelves.entry(shelf).or_default().push(place);
                }
            }
        }
        shelves
    }

    /// Adds the nodes that are empty for all of a stay. Of these, nodes that become empty at its
    /// start are known by name if `is_longer`.
    fn add_empty(
        &self,
        shelves: &mut SharedShelves,
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
        ((from, to), is_longer): (StaySpan, bool),
        is_open: impl Fn(NodeKind, usize) -> bool,
    ) {
        let Some(calendar) = &self.calendar else { return };
        let mut named: BTreeMap<CalendarGroup, u64> = BTreeMap::new();
        for places in shelves.values().filter(|_| is_longer) {
            for &place in places.iter().filter(|place| calendar.nodes()[**place].until <= from) {
                *named.entry(calendar.nodes()[place].group).or_default() += 1;
            }
        }
        for group @ (_, kind, list) in calendar.groups_of(request.pool) {
            let nodes = calendar.left(&group).map_or(0, |left| left.least(from, to));
            let nodes = nodes.saturating_sub(named.get(&group).copied().unwrap_or(0));
            if 0 < nodes && self.is_in_set(kind, set) && is_open(kind, list) {
                let empty = Some((group, nodes));
                shelves.insert((kind, list, kind.order, kind.order, empty), Vec::new());
            }
        }
    }

    /// Nodes in the order of their use: by kind, then by windows, the fullest first.
    fn shared_stock(&self, request: &GangRequest<'_>, shelves: SharedShelves) -> SharedStock {
        let mut stock = SharedStock::default();
        for ((kind, _, _, free, empty), places) in shelves {
            let suits = self.suits(request, kind);
            if !suits.contains(&true) {
                continue;
            }
            let (nodes, spots) = match empty {
                Some((group, nodes)) => (nodes, BatchSpots::Empty(group)),
                None => (count(&places), BatchSpots::Nodes(places)),
            };
            stock.batches.push(NodeBatch { nodes, free, suits });
            stock.spots.push(spots);
        }
        stock
    }

    fn is_in_set(&self, kind: NodeKind, set: Option<&PlacementSet>) -> bool {
        set.is_none_or(|(key, value)| self.kinds.tags(kind).get(key) == Some(value))
    }

    /// For each chunk, true if nodes of `kind` have its tags.
    fn suits(&self, request: &GangRequest<'_>, kind: NodeKind) -> Vec<bool> {
        let tags = self.kinds.tags(kind);
        request.shape.chunks.iter().map(|chunk| tags.satisfy(&chunk.tags)).collect()
    }

    /// Moments after now at which each chunk by itself has enough space for all of the stay.
    fn shared_moments(
        &self,
        draft: &Draft<'_>,
        calendar: &Calendar,
        request: &GangRequest<'_>,
        times: &StartTimes<'_>,
        looks: &mut u64,
    ) -> Vec<Millis> {
        let needs = self.needs(request);
        let soon = (calendar.now + 1).max(times.not_before());
        // The moment, the need, and the change of the units that can start from then on.
        let mut changes: Vec<(Millis, usize, i64)> = Vec::new();
        let nodes = calendar.nodes().iter().enumerate();
        for (place, node) in nodes.filter(|(_, node)| node.group.0 == request.pool) {
            let (_, kind, _) = node.group;
            if !is_usable_then(draft, request, place, node) {
                continue;
            }
            for (of, need) in needs.iter().enumerate().filter(|(_, need)| (need.suits)(kind)) {
                let most = kind.order.checked_div(need.amount).unwrap_or(0);
                for units in 1..=most.min(need.most_per_node) {
                    *looks += 1;
                    let from = soon.max(node.from);
                    let starts = node.space.starts(units * need.amount, times.length(), from);
                    for (first, last) in starts {
                        changes.push((first, of, 1));
                        if last < NEVER {
                            changes.push((last + 1, of, -1));
                        }
                    }
                }
            }
        }
        let edges = times.edges().iter().copied().chain([soon]).filter(|edge| soon <= *edge);
        changes.extend(edges.map(|edge| (edge, 0, 0)));
        changes.sort_unstable();
        let mut units = vec![0_i64; needs.len()];
        let mut moments = Vec::new();
        for at_once in changes.chunk_by(|one, other| one.0 == other.0) {
            for (_, of, change) in at_once {
                units[*of] += change;
            }
            let has = |(need, units): (&ChunkNeed<'_>, &i64)| {
                i64::try_from(need.units).is_ok_and(|needed| needed <= *units)
            };
            if needs.iter().zip(&units).all(has) {
                moments.push(at_once[0].0);
            }
        }
        moments
    }

    /// Needs of each chunk by itself; a packed gang needs a single node for all chunks.
    fn needs<'r>(&'r self, request: &'r GangRequest<'_>) -> Vec<ChunkNeed<'r>> {
        let chunks = request.pieces.iter().zip(&request.shape.chunks);
        match request.shape.place {
            Place::Pack => {
                let suits = |kind| self.suits(request, kind).iter().all(|suits| *suits);
                let amount = total(&request.pieces);
                vec![ChunkNeed { amount, most_per_node: 1, units: 1, suits: Box::new(suits) }]
            }
            Place::Free | Place::Scatter => {
                let is_scattered = request.shape.place == Place::Scatter;
                let need = |(piece, chunk): (&'r super::fit::Piece, &'r crate::model::Chunk)| {
                    let suits = |kind| self.kinds.tags(kind).satisfy(&chunk.tags);
                    let most_per_node = if is_scattered { 1 } else { piece.count };
                    let (amount, units) = (piece.size, piece.count);
                    ChunkNeed { amount, most_per_node, units, suits: Box::new(suits) }
                };
                chunks.map(need).collect()
            }
        }
    }
}

/// True if the gang may be on a node later.
fn is_usable_then(
    draft: &Draft<'_>,
    request: &GangRequest<'_>,
    place: usize,
    node: &NodeTime,
) -> bool {
    let name = NodeIx(place);
    if node.is_unnamed {
        return request.list.is_none();
    }
    draft.snapshot.node(name).state.is_up()
        && !request.without.contains(&name)
        && request.list.is_none_or(|list| list.binary_search(&name).is_ok())
}

/// The nodes of each load.
fn loaded_spots(spots: Vec<BatchSpots>, loads: Vec<NodeLoad>) -> Vec<LoadedSpot> {
    let mut nodes: Vec<Box<dyn Iterator<Item = CalendarSpot>>> = spots
        .into_iter()
        .map(|spots| -> Box<dyn Iterator<Item = CalendarSpot>> {
            match spots {
                BatchSpots::Nodes(nodes) => Box::new(nodes.into_iter().map(CalendarSpot::Node)),
                BatchSpots::Empty(group) => Box::new(std::iter::repeat(CalendarSpot::Whole(group))),
            }
        })
        .collect();
    let mut loaded = Vec::new();
    for load in loads {
        let taken = usize::try_from(load.nodes).unwrap_or(usize::MAX);
        for spot in nodes[load.group].by_ref().take(taken) {
            loaded.push((spot, load.processes.clone()));
        }
    }
    loaded
}
