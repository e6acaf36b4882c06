//! State of the decisions on gangs in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calendar::{Calendar, length_of};
use super::decide::{amounts_by_node, pieces};
use super::expected::ExpectedShare;
use super::kinds::{Kinds, UNKNOWN_SIZE};
use super::pool_supplies::{PoolSupplies, endless_space, supplies};
use super::request::GangRequest;
use super::singles::EqualSingle;
use super::supply::{Space, Supply};
use super::{Claim, Slot, Taker, gang_shape};
use crate::engine::capacity::{EmptyCluster, NodePiece};
use crate::engine::draft::{Draft, JobDraft};
use crate::engine::snapshot::{Node, Promise};
use crate::engine::target::NodeListCapacity;
use crate::engine::wait_reason::{GangLack, GangNodes, WaitReason};
use crate::model::{JobId, JobIx, Millis, NodeIx, PoolIx, Precedence};

/// Decisions on the gangs of a cycle.
#[derive(Debug)]
pub(in crate::engine) struct GangPlanner {
    pub(super) kinds: Kinds,
    pub(super) pools: BTreeMap<PoolIx, PoolSupplies>,
    /// Space for gangs of the current priority, by pool; claims taken out.
    pub(super) supply: BTreeMap<PoolIx, Arc<Supply>>,
    /// The same, as if no gang had claimed anything. Until a gang claims some, both are the same object.
    pub(super) unclaimed: BTreeMap<PoolIx, Arc<Supply>>,
    /// Space that single requests of this cycle will probably use.
    pub(super) expected: Vec<ExpectedShare>,
    /// Space that decisions of this cycle used, by node.
    pub(super) used: BTreeMap<NodeIx, u64>,
    /// Claims of this cycle.
    pub(super) claims: Vec<Claim>,
    /// Gangs that wait for nodes, the oldest first.
    pub(super) waiting: Vec<JobIx>,
    /// Gangs that claim something, by pool.
    pub(super) claimants: BTreeMap<PoolIx, BTreeSet<JobIx>>,
    /// Pieces that the claims took from the ideal cluster, each of a number of nodes.
    pub(super) claimed_pieces: Vec<(NodePiece, u64)>,
    /// Space that the claims took from the nodes of lists.
    pub(super) claimed_on_lists: Vec<(NodeIx, u64)>,
    /// Nodes where new processes that stay will probably go, by service.
    pub(super) services: BTreeMap<u64, BTreeSet<NodeIx>>,
    /// Promises of the last cycle to gangs, by job.
    pub(super) promises: BTreeMap<JobId, Vec<Promise>>,
    /// Calendar of work that stays; `None` if nothing depends on the time.
    pub(super) calendar: Option<Calendar>,
    /// Lengths of requests that were decided on; `None` for an unknown length.
    pub(super) lengths: BTreeSet<Option<Millis>>,
    /// Single requests of this priority for which no node was left.
    pub(super) refused: BTreeSet<EqualSingle>,
    /// Looks at nodes of this cycle for the best places.
    pub(super) looks: u64,
    /// How often all was counted anew in this cycle.
    pub(super) counted_anew: u64,
    /// The latest gang that lacks nodes which are configured, or up, and the reason. Equal gangs come
    /// in turn, and lack the same.
    pub(super) unable: Option<(JobIx, WaitReason)>,
}

impl GangPlanner {
    /// Prepares the decisions of a cycle; `None` if there is no gang.
    pub(in crate::engine) fn new(draft: &Draft<'_>) -> Option<GangPlanner> {
        let gangs = &draft.gangs;
        let snapshot = draft.snapshot;
        let has_edges = !snapshot.windows.is_empty() || !snapshot.hours.is_empty();
        let is_timed = snapshot.now.is_some() && (has_edges || has_times(draft));
        if gangs.is_empty() && !is_timed {
            return None;
        }
        let timed = draft.jobs.places().filter(|_| is_timed);
        let asking = gangs.iter().copied().chain(timed);
        let of_gangs: BTreeSet<PoolIx> = asking.map(|job| draft.class_of(job).pool).collect();
        Some(GangPlanner::of_pools(draft, &of_gangs))
    }

    /// Prepares decisions on gangs in some pools.
    pub(super) fn of_pools(draft: &Draft<'_>, of_gangs: &BTreeSet<PoolIx>) -> GangPlanner {
        let shapes = draft.gangs.iter().filter_map(|&job| gang_shape(draft.job(job)));
        let kinds = Kinds::new(draft.snapshot, shapes);
        let endless = endless_space(draft);
        let mut pools: BTreeMap<PoolIx, PoolSupplies> = BTreeMap::new();
        for &pool in of_gangs {
            let all = |amount| Space { available: amount, usable: amount };
            let size =
                |node: &Node| if node.state.is_awaited { UNKNOWN_SIZE } else { node.order.0 };
            let nodes = || draft.snapshot.nodes_with_ix().filter(|(_, node)| node.pool == pool);
            let up = || nodes().filter(|(_, node)| node.state.is_up());
            let ending = |(ix, node): (NodeIx, &Node)| {
                let endless = endless.get(&ix).copied().unwrap_or(0);
                (ix, all(size(node).saturating_sub(endless)))
            };
            let empty = |(ix, node): (NodeIx, &Node)| (ix, all(size(node)));
            let mut configured = Supply::of(&kinds, nodes().map(empty));
            for (kind, nodes) in kinds.unheard(pool) {
                configured.add_unheard(kind, nodes);
            }
            let configured = Arc::new(configured);
            let all_up = Supply::like(&configured, &kinds, || up().map(empty));
            let ending = Supply::like(&all_up, &kinds, || up().map(ending));
            pools.insert(pool, PoolSupplies { configured, up: all_up, ending });
        }
        let mut promises: BTreeMap<JobId, Vec<Promise>> = BTreeMap::new();
        for promise in draft.snapshot.promises.iter().filter(|promise| promise.rank.is_some()) {
            promises.entry(promise.job).or_default().push(*promise);
        }
        GangPlanner {
            kinds,
            pools,
            supply: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            expected: Vec::new(),
            used: BTreeMap::new(),
            claims: Vec::new(),
            waiting: Vec::new(),
            claimants: BTreeMap::new(),
            claimed_pieces: Vec::new(),
            claimed_on_lists: Vec::new(),
            services: BTreeMap::new(),
            promises,
            calendar: Calendar::new(draft),
            lengths: BTreeSet::new(),
            refused: BTreeSet::new(),
            looks: 0,
            counted_anew: 0,
            unable: None,
        }
    }

    /// Begins the decisions of a priority: finds the space that its gangs may have, and takes the
    /// claims of higher priorities out of the ideal cluster.
    pub(in crate::engine) fn begin(
        &mut self,
        draft: &Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        priority: Precedence,
    ) {
        let taker = Taker { priority, is_among_peers: false };
        self.find_supply(draft, taker);
        self.refused.clear();
        if let Some(calendar) = &mut self.calendar {
            calendar.find_ends(draft, &self.kinds, taker);
        }
        let claims = self.claims.clone();
        for of_gang in claims.chunk_by(|one, next| one.job == next.job) {
            self.take_claims(draft, space, listed, of_gang);
        }
    }

    /// Finds the space that gangs with the rights of `taker` may have, less what decisions of this
    /// cycle used.
    pub(super) fn find_supply(&mut self, draft: &Draft<'_>, taker: Taker) {
        self.supply = supplies(draft, &self.kinds, &self.pools, taker, |_| false);
        for (&node, &amount) in &self.used {
            if let Some(supply) = self.supply.get_mut(&draft.spaces.pool(node)) {
                Arc::make_mut(supply).take(&self.kinds, node, amount);
            }
        }
        self.unclaimed = self.supply.clone();
        self.take_expected(&BTreeSet::new());
    }

    /// The reason why the gang at `job` cannot start on any nodes that are up, if that is known of an
    /// equal gang.
    pub(super) fn known_inability(&self, draft: &Draft<'_>, job: JobIx) -> Option<WaitReason> {
        let (other, reason) = self.unable?;
        let facts = |job: JobIx| {
            let spec = draft.job(job);
            let JobDraft { held, demand, .. } = draft.jobs[job];
            (held, demand.cap.nshares, spec.class, &spec.nodes, &spec.shape)
        };
        (!self.chooses_nodes() && facts(job) == facts(other)).then_some(reason)
    }

    /// Notes that the gang at `job` waits, for equal gangs after it.
    pub(super) fn note_inability(&mut self, job: JobIx, reason: WaitReason) {
        let is_lasting =
            |of| matches!(of, GangNodes::Configured | GangNodes::OfOneSet | GangNodes::Up);
        if let WaitReason::GangLacks(GangLack { of, .. }) = reason
            && is_lasting(of)
        {
            self.unable = Some((job, reason));
        }
    }

    /// Changes the space of a pool, with claims and without: a single time while both are the same object.
    pub(super) fn change_supply(&mut self, pool: PoolIx, change: impl Fn(&mut Supply, &Kinds)) {
        match (self.supply.get_mut(&pool), self.unclaimed.get_mut(&pool)) {
            (Some(supply), Some(unclaimed)) if Arc::ptr_eq(supply, unclaimed) => {
                *unclaimed = Arc::default();
                change(Arc::make_mut(supply), &self.kinds);
                *unclaimed = Arc::clone(supply);
            }
            (supply, unclaimed) => {
                for supply in supply.into_iter().chain(unclaimed) {
                    change(Arc::make_mut(supply), &self.kinds);
                }
            }
        }
    }

    /// Takes space of nodes for good.
    fn take(&mut self, pool: PoolIx, amounts: &[(NodeIx, u64)]) {
        self.change_supply(pool, |supply, kinds| supply.take_all(kinds, amounts));
        for &(node, amount) in amounts {
            *self.used.entry(node).or_default() += amount;
        }
    }

    /// Takes the space that is free now as the only supply.
    pub(super) fn set_usable(&mut self, draft: &Draft<'_>) {
        let pools: Vec<PoolIx> = self.pools.keys().copied().collect();
        for pool in pools {
            let supply = self.supply.entry(pool).or_default();
            for node in draft.spaces.schedulable(pool) {
                let usable = draft.spaces.usable(node).0;
                Arc::make_mut(supply).set(&self.kinds, node, Space { available: usable, usable });
            }
        }
    }

    /// True while gangs are decided on beside claims: until the decisions on work that stays end.
    pub(super) fn are_claims_taken(&self) -> bool {
        !self.claimed_pieces.is_empty()
    }

    /// Ends the decisions on work that stays. Claims do not concern work that can be preempted.
    pub(in crate::engine) fn end(
        &mut self,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
    ) {
        space.give_back(std::mem::take(&mut self.claimed_pieces));
        listed.give_back(self.claimed_on_lists.drain(..));
    }

    /// Takes the space of a plan from everything that later jobs are counted on.
    pub(super) fn use_slots(
        &mut self,
        draft: &Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        pool: PoolIx,
        slots: &[Slot],
    ) {
        let mut amounts = amounts_by_node(slots);
        for (node, amount) in &mut amounts {
            draft.effort.step();
            let cell = listed.cell(*node);
            *amount = cell.order.min(*amount);
        }
        space.take_like(pieces(draft, listed, &amounts), &mut Vec::new());
        for &(node, amount) in &amounts {
            listed.take(node, amount);
        }
        self.take(pool, &amounts);
    }

    /// Enters in the calendar that a request starts on `slots`.
    pub(super) fn start(&mut self, request: &GangRequest<'_>, slots: &[Slot]) {
        if let Some(calendar) = self.calendar.as_mut().filter(|_| request.is_timed()) {
            for slot in slots {
                calendar.start_on(slot.node, slot.order.qshares().0, request.until);
            }
        }
    }

    /// Returns promised space to the supply while the gang is decided on.
    pub(super) fn release(
        &mut self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
        promise: &Promise,
    ) {
        let amount = promise.order.qshares().0;
        let usable = draft.spaces.usable(promise.node).0.min(amount);
        if let Some(calendar) = self.calendar.as_mut().filter(|_| request.is_timed()) {
            calendar.release(promise.node, amount, request.until);
        }
        if !draft.spaces.is_schedulable(promise.node) {
            return;
        }
        self.change_supply(request.pool, |supply, kinds| {
            supply.give_back(kinds, promise.node, amount, usable);
        });
    }
}

/// True if work that stays has a length or times of its own.
fn has_times(draft: &Draft<'_>) -> bool {
    let stays = |job: &JobIx| !draft.class_of(*job).policy.is_preemptable();
    draft.jobs.places().filter(stays).any(|job| {
        let shape = draft.job(job).shape.as_deref();
        length_of(draft, job).is_some()
            || shape.is_some_and(|it| it.not_before.is_some() || it.deadline.is_some())
    })
}
