//! Request of a gang, and the nodes that a supply has for it.

use std::collections::{BTreeMap, BTreeSet};

use super::calendar::GroupLimits;
use super::decide::{amounts_by_node, better};
use super::fit::{FitLack, Fitting, NodeLoad, Piece};
use super::kinds::{Kinds, SuitingChunks};
use super::planner::GangPlanner;
use super::supply::{Bounds, PlacementSet, SpacePart, Stock, Supply};
use super::timeline::NEVER;
use super::windows::Rights;
use super::{Slot, gang_shape};
use crate::engine::draft::Draft;
use crate::model::{JobIx, Millis, NShares, NodeIx, Order, Place, PoolIx, Shape};

/// A gang that asks for nodes.
#[derive(Clone)]
pub(super) struct GangRequest<'d> {
    pub(super) job: JobIx,
    pub(super) pool: PoolIx,
    pub(super) shape: &'d Shape,
    pub(super) pieces: Vec<Piece>,
    /// Chunks whose tags the nodes of each kind have.
    pub(super) suits: SuitingChunks,
    /// Rank of the first new process.
    pub(super) first_rank: u64,
    pub(super) list: Option<&'d [NodeIx]>,
    /// Nodes of the present processes.
    pub(super) held_on: BTreeSet<NodeIx>,
    /// Number of present processes.
    pub(super) held: NShares,
    /// Nodes that may get no further process of the gang.
    pub(super) without: BTreeSet<NodeIx>,
    /// Placement sets of which any would do; empty if all nodes of the pool would do.
    pub(super) sets: Vec<PlacementSet>,
    /// Start of its stay if it gets nodes now: now, or the opening of its reservation.
    pub(super) soonest: Millis,
    /// End of that stay; [`NEVER`] if it is not known.
    pub(super) until: Millis,
    /// Rights on reserved nodes.
    pub(super) rights: Rights<'d>,
    /// Spans in which its class is open; `None` if it is always open.
    pub(super) hours: Option<&'d [(Millis, Millis)]>,
    /// Limits by windows and the calendar. `None` if nothing depends on the time.
    pub(super) limits: Option<GroupLimits>,
}

impl GangRequest<'_> {
    pub(super) fn domains(&self) -> impl Iterator<Item = Option<&PlacementSet>> {
        let whole = self.sets.is_empty().then_some(None);
        self.sets.iter().map(Some).chain(whole)
    }

    pub(super) fn bounds<'b>(&'b self, set: Option<&'b PlacementSet>) -> Bounds<'b> {
        Bounds { set, list: self.list, without: &self.without, limits: self.limits.as_ref() }
    }

    /// End of its stay if it starts at `from`.
    pub(super) fn end_from(&self, from: Millis) -> Millis {
        if self.until == NEVER {
            return NEVER;
        }
        from.saturating_add(self.until - self.soonest)
    }

    /// True if the calendar decides about the request.
    pub(super) fn is_timed(&self) -> bool {
        self.limits.is_some()
    }

    pub(super) fn fitting<'f>(&'f self, stock: &'f Stock) -> Fitting<'f> {
        Fitting { pieces: &self.pieces, groups: &stock.groups, place: self.shape.place }
    }
}

/// The chunks of a gang, in quanta of its class.
fn pieces(draft: &Draft<'_>, job: JobIx, shape: &Shape) -> Vec<Piece> {
    let quantum = draft.snapshot.topology.pools[draft.class_of(job).pool].quantum;
    let largest = draft.jobs[job].order;
    let chunks = shape.chunks.iter().map(|chunk| Piece {
        count: chunk.count,
        size: quantum.order_of_work(chunk.memory).unwrap_or(largest).qshares().0,
    });
    chunks.collect()
}

/// Qshares that all processes of a gang need, the rest of exclusive nodes not counted.
pub(in crate::engine) fn qshares_of_gang(draft: &Draft<'_>, job: JobIx) -> u64 {
    let shape = gang_shape(draft.job(job));
    shape.map_or(0, |shape| total(&pieces(draft, job, shape)))
}

/// Qshares of all pieces.
pub(super) fn total(pieces: &[Piece]) -> u64 {
    let sizes = pieces.iter().map(|piece| piece.count.saturating_mul(piece.size));
    sizes.fold(0, u64::saturating_add)
}

/// Request of a gang: `new` processes beside its present processes.
pub(super) fn gang_request<'d>(
    draft: &Draft<'d>,
    kinds: &Kinds,
    (job, shape): (JobIx, &'d Shape),
    new: u64,
) -> GangRequest<'d> {
    let mut pieces = pieces(draft, job, shape);
    if let [only] = &mut pieces[..] {
        only.count = new;
    }
    let held_on: BTreeSet<NodeIx> = draft.job(job).held().map(|share| share.node).collect();
    let pool = draft.class_of(job).pool;
    let without = match shape.place {
        Place::Scatter => held_on.clone(),
        Place::Pack if !held_on.is_empty() => {
            draft.spaces.schedulable(pool).filter(|node| !held_on.contains(node)).collect()
        }
        Place::Free | Place::Pack => BTreeSet::new(),
    };
    GangRequest {
        job,
        pool,
        shape,
        pieces,
        suits: kinds.suiting(shape),
        held: draft.jobs[job].held,
        held_on,
        first_rank: draft.job(job).held().filter_map(|share| share.rank).max().map_or(0, next),
        list: draft.job(job).nodes.as_deref(),
        without,
        sets: Vec::new(),
        soonest: 0,
        until: NEVER,
        rights: Rights::of(draft, job),
        hours: draft.snapshot.hours.get(&draft.job(job).class).map(Vec::as_slice),
        limits: None,
    }
}

impl GangPlanner {
    /// Slots on the first set that has all nodes, or on the whole pool. If there are none, what the
    /// gang lacks; `None` if some of the nodes may not be used for reasons of their own.
    pub(super) fn slots(
        &self,
        request: &GangRequest<'_>,
        pool_supplies: SpacePart,
    ) -> Result<Vec<Slot>, Option<FitLack>> {
        let mut is_known = request.without.is_empty();
        let mut best: Option<FitLack> = None;
        for set in request.domains() {
            match self.slots_in(request, set, pool_supplies) {
                Ok(slots) => return Ok(slots),
                Err(Some(lack)) => best = Some(better(best, lack)),
                Err(None) => is_known = false,
            }
        }
        Err(best.filter(|_| is_known))
    }

    /// Slots on the nodes of a set. If there are none, what the gang lacks; `None` if it would keep
    /// older work waiting.
    fn slots_in(
        &self,
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
        pool_supplies: SpacePart,
    ) -> Result<Vec<Slot>, Option<FitLack>> {
        let supply = &self.supply[&request.pool];
        let bounds = request.bounds(set);
        let stock = supply.stock(&self.kinds, request, bounds, pool_supplies);
        let loads = request.fitting(&stock).assign().map_err(Some)?;
        let slots = self.name(supply, request, bounds, &stock, &loads);
        if self.leaves_bookings(request, &slots) {
            return Ok(slots);
        }
        if request.is_timed() && !request.shape.is_exclusive {
            return self.shared_slots(request, set, pool_supplies).ok_or(None);
        }
        // Some nodes in use would be in use for too long: without them.
        let without = self.without_long_stays(request);
        let bounds = Bounds { without: &without, ..bounds };
        let stock = supply.stock(&self.kinds, request, bounds, pool_supplies);
        let loads = request.fitting(&stock).assign().map_err(|_| None)?;
        let slots = self.name(supply, request, bounds, &stock, &loads);
        self.leaves_bookings(request, &slots).then_some(slots).ok_or(None)
    }

    /// True if no older gang starts later because a gang starts on `slots` now.
    fn leaves_bookings(&self, request: &GangRequest<'_>, slots: &[Slot]) -> bool {
        self.calendar.as_ref().is_none_or(|calendar| {
            !request.is_timed()
                || !calendar.has_bookings()
                || calendar.leaves_bookings(&amounts_by_node(slots), request.until)
        })
    }

    /// Nodes that the request may not use, because older gangs would start later.
    fn without_long_stays(&self, request: &GangRequest<'_>) -> BTreeSet<NodeIx> {
        let calendar = self.calendar.iter();
        let spared = calendar.flat_map(|it| it.nodes_to_spare(request.pool, request.until));
        request.without.iter().copied().chain(spared).collect()
    }

    /// Gives names to nodes and ranks to processes.
    pub(super) fn name(
        &self,
        supply: &Supply,
        request: &GangRequest<'_>,
        bounds: Bounds<'_>,
        stock: &Stock,
        loads: &[NodeLoad],
    ) -> Vec<Slot> {
        let groups = 0..stock.groups.len();
        let mut names: Vec<_> = groups.map(|group| supply.nodes_of(stock, group, bounds)).collect();
        let mut of_chunk: Vec<Vec<(NodeIx, u64)>> = vec![Vec::new(); request.pieces.len()];
        for load in loads {
            let nodes = usize::try_from(load.nodes).unwrap_or(usize::MAX);
            for node in names[load.group].by_ref().take(nodes) {
                for &(chunk, processes) in &load.processes {
                    of_chunk[chunk].push((node, processes));
                }
            }
        }
        self.slots_on(request, of_chunk)
    }

    /// Slots on these nodes, each with its number of processes, by chunk. Ranks follow the chunks,
    /// and within a chunk the names.
    pub(super) fn slots_on(
        &self,
        request: &GangRequest<'_>,
        of_chunk: Vec<Vec<(NodeIx, u64)>>,
    ) -> Vec<Slot> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut rank = request.first_rank;
        let is_exclusive = request.shape.is_exclusive;
        let mut filled: BTreeMap<NodeIx, (usize, u64)> = BTreeMap::new();
        for (chunk, mut nodes) in of_chunk.into_iter().enumerate() {
            nodes.sort_unstable();
            let size = request.pieces[chunk].size;
            for (node, processes) in nodes {
                for _ in 0..processes {
                    if is_exclusive {
                        filled.entry(node).or_insert((slots.len(), 0)).1 += size;
                    }
                    slots.push(Slot { rank: small(rank), node, order: order(size) });
                    rank += 1;
                }
            }
        }
        for (node, (first, amount)) in filled {
            let whole = self.kinds.of(node.0).order;
            let own = slots[first].order.qshares().0;
            slots[first].order = order(own + whole.saturating_sub(amount));
        }
        slots
    }

    /// Tests if the gang fits on nodes of `supply` within `limits`. If `is_lenient`, it fails only
    /// where no packing at all can do.
    pub(super) fn test(
        &self,
        (supply, limits): (&Supply, Option<&GroupLimits>),
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
        is_lenient: bool,
    ) -> Result<(), FitLack> {
        let bounds = Bounds { without: &BTreeSet::new(), limits, ..request.bounds(set) };
        let stock = supply.stock(&self.kinds, request, bounds, SpacePart::Available);
        let fitting = request.fitting(&stock);
        match fitting.test_all() {
            Err(lack) if !is_lenient || fitting.is_proof(&lack) => Err(lack),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn next(rank: u32) -> u64 {
    u64::from(rank) + 1
}

fn small(rank: u64) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

fn order(size: u64) -> Order {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    Order::new(size).unwrap_or(Order::MIN)
}
