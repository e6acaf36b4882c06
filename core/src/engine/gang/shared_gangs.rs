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
use super::timeline::{NEVER, Timeline};
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

/// Nodes that older requests leave until the end of a stay, less the nodes by name that the stay may
/// use longer.
struct Leftover<'c> {
    calendar: &'c Calendar,
    /// End of the stay.
    to: Millis,
    /// Groups of which nodes by name were retained.
    groups: BTreeMap<CalendarGroup, Timeline>,
}

impl<'c> Leftover<'c> {
    fn new(calendar: &'c Calendar, to: Millis) -> Leftover<'c> {
        Leftover { calendar, to, groups: BTreeMap::new() }
    }

    /// Retains of `shelves` as many nodes as may all be in use until the end of the stay. To the
    /// count, the use of a node goes on where it ends now.
    fn retain(&mut self, shelves: &mut SharedShelves) {
        let (calendar, to) = (self.calendar, self.to);
        for places in shelves.values_mut() {
            let until = |place: usize| calendar.nodes()[place].until.max(calendar.now);
            let mut alike: BTreeMap<(CalendarGroup, Millis), u64> = BTreeMap::new();
            for &place in places.iter().filter(|place| until(**place) < to) {
                *alike.entry((calendar.nodes()[place].group, until(place))).or_default() += 1;
            }
            for ((group, from), nodes) in &mut alike {
                *nodes = self.nodes(*group, *from).min(*nodes);
                if let Some(left) = self.groups.get_mut(group) {
                    left.take(*from, to, *nodes);
                }
            }
            places.retain(|&place| {
                let key = (calendar.nodes()[place].group, until(place));
                alike.get_mut(&key).is_none_or(|nodes| {
                    let is_left = 0 < *nodes;
                    *nodes = nodes.saturating_sub(1);
                    is_left
                })
            });
        }
        shelves.retain(|_, places| !places.is_empty());
    }

    /// Nodes of a group that are left from `from` on.
    fn nodes(&mut self, group: CalendarGroup, from: Millis) -> u64 {
        let left = || {
            let left = self.calendar.left(&group).cloned();
            left.unwrap_or_else(|| Timeline::whole(self.calendar.now, 0))
        };
        self.groups.entry(group).or_insert_with(left).least(from, self.to)
    }
}

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
                    let mut leftover = Leftover::new(calendar, span.1);
                    leftover.retain(&mut shelves);
                    if request.list.is_none() {
                        self.add_empty(&mut shelves, request, set, (&mut leftover, at), is_open);
                    }
                    GangPlanner::shared_stock(request, shelves)
                };
                assign_shared(request, stock)
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
            let mut empty = self.nodes_in_use(request, set, (empty, free, is_open));
            let mut leftover = Leftover::new(calendar, span.1);
            leftover.retain(&mut shelves);
            leftover.retain(&mut empty);
            for (shelf, mut places) in empty {
                shelves.entry(shelf).or_default().append(&mut places);
            }
            GangPlanner::shared_stock(request, shelves)
        };
        let spots = assign_shared(request, stock)?;
        let mut of_chunk: Vec<Vec<(NodeIx, u64)>> = vec![Vec::new(); request.pieces.len()];
        for (spot, processes) in spots {
            let CalendarSpot::Node(place) = spot else { return None };
            for (chunk, each) in processes {
                of_chunk[chunk].push((NodeIx(place), each));
            }
        }
        Some(self.slots_on(request, of_chunk))
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

    /// Adds the nodes without a name that are empty from `from` on for all of a stay.
    fn add_empty(
        &self,
        shelves: &mut SharedShelves,
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
        (leftover, from): (&mut Leftover<'_>, Millis),
        is_open: impl Fn(NodeKind, usize) -> bool,
    ) {
        let Some(calendar) = &self.calendar else { return };
        for group @ (_, kind, list) in calendar.groups_of(request.pool) {
            let nodes = leftover.nodes(group, from);
            if 0 < nodes && self.is_in_set(kind, set) && is_open(kind, list) {
                let empty = Some((group, nodes));
                shelves.insert((kind, list, kind.order, kind.order, empty), Vec::new());
            }
        }
    }

    /// Nodes in the order of their use: by kind, then by windows, the fullest first.
    fn shared_stock(request: &GangRequest<'_>, shelves: SharedShelves) -> SharedStock {
        let mut stock = SharedStock::default();
        for ((kind, _, _, free, empty), places) in shelves {
            let suits = request.suits.on(kind);
            if suits.is_empty() {
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
        // Nodes that are kept for gangs that share none have no name yet.
        let counted = calendar.moments(&self.kinds, request.pool);
        let edges = times.edges().iter().copied().chain(counted).chain([soon]);
        let edges = edges.filter(|edge| soon <= *edge);
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
                let all = request.pieces.len();
                let suits = move |kind| request.suits.on(kind).has_all(all);
                let amount = total(&request.pieces);
                vec![ChunkNeed { amount, most_per_node: 1, units: 1, suits: Box::new(suits) }]
            }
            Place::Free | Place::Scatter => {
                let is_scattered = request.shape.place == Place::Scatter;
                let need = |(piece, chunk): (&'r super::fit::Piece, &'r crate::model::Chunk)| {
                    let suits = |kind| self.kinds.tags(kind).satisfy(&chunk.tags);
                    // A node with space for more may hold processes of several chunks.
                    let alone = || total(&request.pieces).div_ceil(piece.size.max(1));
                    let most_per_node = if is_scattered { 1 } else { alone() };
                    let (amount, units) = (piece.size, piece.count);
                    ChunkNeed { amount, most_per_node, units, suits: Box::new(suits) }
                };
                chunks.map(need).collect()
            }
        }
    }
}

/// Assigns nodes to all processes: of all nodes that older requests leave, or only of nodes that are in
/// use for as long anyway and of empty nodes.
fn assign_shared(
    request: &GangRequest<'_>,
    stock: impl Fn(bool) -> SharedStock,
) -> Option<Vec<LoadedSpot>> {
    [true, false].into_iter().find_map(|is_longer| {
        let SharedStock { batches, spots } = stock(is_longer);
        let stock = Stock::of(batches);
        let loads = request.fitting(&stock).assign().ok()?;
        Some(loaded_spots(spots, loads))
    })
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
