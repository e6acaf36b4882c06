//! The real cluster that What Of and preemption work on: the shares on each node, and the usable
//! part of the rest.

use std::ops::Range;

use super::matrix::{Alike, Cell, Matrix};
use super::node_set::NodeSet;
use crate::engine::fairness_tree::{FairnessTree, GroupIx};
use crate::engine::share_table::{ShareIx, ShareTable, large, small};
use crate::engine::snapshot::Snapshot;
use crate::model::{IxVec, JobIx, Millis, NodeIx, Order, PoolIx, QShares};

/// Facts of a share that a scan of its node needs.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct ScannedShare {
    /// Group of its job's class and user, as in [`FairnessTree`].
    user: u32,
    /// Size of the share; 0 once it is terminating.
    order: u32,
    /// Work lost if the share is preempted.
    loss: Millis,
}

impl ScannedShare {
    /// Group of its job's class and user.
    pub(in crate::engine) fn user(self) -> GroupIx {
        GroupIx(large(self.user))
    }

    /// Size of the share; 0 once it is terminating.
    pub(in crate::engine) fn order(self) -> QShares {
        QShares(u64::from(self.order))
    }

    /// Work lost if the share is preempted.
    pub(in crate::engine) fn loss(self) -> Millis {
        self.loss
    }
}

/// A [`ShareIx`] in half the memory, as there are many.
#[derive(Clone, Copy, Debug)]
struct PackedShareIx {
    job: u32,
    share: u32,
}

impl PackedShareIx {
    fn holding(self) -> ShareIx {
        ShareIx { job: JobIx(large(self.job)), share: large(self.share) }
    }
}

/// The space of every node, and the capacity matrix that finds nodes by it.
#[derive(Clone, Debug)]
pub(in crate::engine) struct SpaceIndex {
    by_node: IxVec<NodeIx, NodeSpace>,
    /// Shares held when the cycle began, node by node.
    held_shares: Vec<PackedShareIx>,
    /// Facts of each share in `held_shares`: a scan of a node need not fetch them from the jobs.
    facts_of_shares: Vec<ScannedShare>,
    by_pool: IxVec<PoolIx, PoolSpaces>,
    /// Number of changes after which a node had more space than before.
    gains: u64,
}

/// The schedulable nodes of a pool by free space, at three points in time.
#[derive(Clone, Debug, Default)]
struct PoolSpaces {
    /// Free space that is usable now.
    now: Matrix<NodeSet>,
    /// Future free space of the nodes with terminating shares, if it is not 0.
    to_come: Matrix<NodeSet>,
    /// Free space if all preemptable shares were gone, as at the start of the cycle.
    ideal: Matrix<u64>,
}

#[derive(Clone, Debug)]
struct NodeSpace {
    pool: PoolIx,
    is_schedulable: bool,
    order: QShares,
    /// Occupied space, terminating shares included.
    used: QShares,
    /// Space occupied by terminating shares.
    leaving: QShares,
    /// Space of shares that no job can preempt, and of shares without a class, at the start of the
    /// cycle.
    immovable: QShares,
    /// Space promised to jobs that wait for it.
    promised: QShares,
    /// Space that no job may use, as an exclusive gang has the node.
    closed: QShares,
    /// The exclusive gang on the node, by its place in the snapshot.
    closed_by: Option<JobIx>,
    /// Range of its shares in [`SpaceIndex::held_shares`].
    holdings: Range<usize>,
}

impl NodeSpace {
    fn free(&self) -> QShares {
        self.order.saturating_sub(self.used)
    }

    /// Free space after all terminating shares have exited, less all promises.
    fn coming(&self) -> QShares {
        self.order
            .saturating_sub(self.used - self.leaving)
            .saturating_sub(self.promised + self.closed)
    }

    /// Space usable now: free, and not needed to keep a promise.
    fn usable(&self) -> QShares {
        self.free().min(self.coming())
    }

    /// Cell of the node if `free` of it is free.
    fn cell(&self, free: QShares) -> Cell {
        Cell { order: self.order.0, free: free.0 }
    }

    fn cell_now(&self) -> Cell {
        self.cell(self.usable())
    }

    /// Cell of the node after its terminating shares have exited; `None` if it has none, or nothing
    /// would be free.
    fn future_cell(&self) -> Option<Cell> {
        let coming = self.coming();
        (QShares(0) < self.leaving && QShares(0) < coming).then(|| self.cell(coming))
    }

    fn ideal_cell(&self) -> Cell {
        self.cell(self.order.saturating_sub(self.immovable))
    }
}

impl PoolSpaces {
    fn enter(&mut self, node: NodeIx, space: &NodeSpace) {
        self.now.insert(node, space.cell_now());
        self.to_come.move_node(node, None, space.future_cell());
        self.ideal.put(space.ideal_cell(), 1);
    }
}

impl SpaceIndex {
    /// Builds the nodes of `snapshot` with all `shares` on them. Marks each share that is in the
    /// pool of its job's class.
    pub(in crate::engine) fn new(
        snapshot: &Snapshot,
        entities: &FairnessTree,
        shares: &mut ShareTable,
    ) -> SpaceIndex {
        let mut spaces: Vec<NodeSpace> = snapshot
            .nodes
            .iter()
            .map(|node| NodeSpace {
                pool: node.pool,
                is_schedulable: node.state.is_schedulable(),
                order: node.order,
                used: node.limbo,
                leaving: QShares(0),
                immovable: node.limbo,
                promised: QShares(0),
                closed: QShares(0),
                closed_by: None,
                holdings: 0..0,
            })
            .collect();
        let (held_shares, facts_of_shares) =
            take_in_shares(snapshot, entities, shares, &mut spaces);
        let mut by_pool: IxVec<PoolIx, PoolSpaces> = IxVec::default();
        by_pool.resize_with(snapshot.topology.pools.len(), PoolSpaces::default);
        for (ix, space) in spaces.iter().enumerate().filter(|(_, space)| space.is_schedulable) {
            by_pool[space.pool].enter(NodeIx(ix), space);
        }
        SpaceIndex { by_node: spaces.into(), held_shares, facts_of_shares, by_pool, gains: 0 }
    }

    /// Changes a node, and moves it to its new cells.
    fn change(&mut self, node: NodeIx, change: impl FnOnce(&mut NodeSpace)) {
        let space = &mut self.by_node[node];
        let before = (space.cell_now(), space.future_cell());
        let usable = space.usable();
        change(space);
        self.gains += u64::from(usable < space.usable());
        if space.is_schedulable {
            let pool = &mut self.by_pool[space.pool];
            pool.now.move_node(node, Some(before.0), Some(space.cell_now()));
            pool.to_come.move_node(node, before.1, space.future_cell());
        }
    }

    /// Number of changes after which a node had more usable space than before.
    pub(in crate::engine) fn gains(&self) -> u64 {
        self.gains
    }

    /// Puts a new share on `node`.
    ///
    /// # Panics
    ///
    /// If the share does not fit: the caller lost track of the free space.
    pub(in crate::engine) fn occupy(&mut self, node: NodeIx, amount: QShares) {
        assert!(
            amount <= self.by_node[node].free(),
            "a share is placed where there is space for it"
        );
        self.change(node, |space| space.used += amount);
    }

    /// Marks a held share as terminating.
    pub(in crate::engine) fn leave(&mut self, node: NodeIx, holding: ShareIx, amount: QShares) {
        let there = self.by_node[node].holdings.clone();
        let mut there =
            self.held_shares[there.clone()].iter().zip(&mut self.facts_of_shares[there]);
        let place = there.find(|(kept, facts)| kept.holding() == holding && 0 < facts.order);
        let (_, facts) = place.expect("a share leaves once");
        facts.order = 0;
        let there = self.by_node[node].holdings.clone();
        let mut left = self.held_shares[there.clone()].iter().zip(&self.facts_of_shares[there]);
        let is_shared =
            left.any(|(kept, facts)| kept.holding().job == holding.job && 0 < facts.order);
        self.change(node, |space| {
            space.leaving += amount;
            if space.closed_by == Some(holding.job) {
                space.closed = if is_shared { space.closed + amount } else { QShares(0) };
            }
        });
    }

    /// Promises space on `node`.
    pub(in crate::engine) fn promise(&mut self, node: NodeIx, amount: QShares) {
        self.change(node, |space| space.promised += amount);
    }

    /// Frees promised space on `node`.
    pub(in crate::engine) fn withdraw_promise(&mut self, node: NodeIx, amount: QShares) {
        self.change(node, |space| space.promised -= amount);
    }

    /// The node's pool.
    pub(in crate::engine) fn pool(&self, node: NodeIx) -> PoolIx {
        self.by_node[node].pool
    }

    /// True if new shares may be placed on `node`.
    pub(in crate::engine) fn is_schedulable(&self, node: NodeIx) -> bool {
        self.by_node[node].is_schedulable
    }

    /// Size of `node`.
    pub(in crate::engine) fn order(&self, node: NodeIx) -> QShares {
        self.by_node[node].order
    }

    /// Space on `node` that is usable now.
    pub(in crate::engine) fn usable(&self, node: NodeIx) -> QShares {
        self.by_node[node].usable()
    }

    /// Space on `node` that no job may use, as an exclusive gang has the node.
    pub(in crate::engine) fn closed(&self, node: NodeIx) -> QShares {
        self.by_node[node].closed
    }

    /// Space of `node` that is closed for as long as the exclusive gang `job` is there.
    pub(in crate::engine) fn closed_by(&self, node: NodeIx, job: JobIx) -> QShares {
        let space = &self.by_node[node];
        if space.closed_by == Some(job) { space.closed } else { QShares(0) }
    }

    /// Space that must still be freed for `needed` to fit, after all terminating shares have exited
    /// and with all promises kept. Includes the deficit of a node that shrank below its use.
    pub(in crate::engine) fn missing_for(&self, node: NodeIx, needed: QShares) -> QShares {
        let space = &self.by_node[node];
        let in_use = space.used - space.leaving + space.promised + space.closed;
        (in_use + needed).saturating_sub(space.order)
    }

    /// Shares on `node` that were held when the cycle began and are not terminating.
    pub(in crate::engine) fn held_shares(
        &self,
        node: NodeIx,
    ) -> impl Iterator<Item = (ShareIx, ScannedShare)> {
        let there = self.by_node[node].holdings.clone();
        let there = self.held_shares[there].iter().zip(self.facts_of_shares(node).iter().copied());
        let there = there.filter(|(_, facts)| 0 < facts.order);
        there.map(|(place, facts)| (place.holding(), facts))
    }

    /// Facts of the shares that were on `node` when the cycle began.
    pub(in crate::engine) fn facts_of_shares(&self, node: NodeIx) -> &[ScannedShare] {
        &self.facts_of_shares[self.by_node[node].holdings.clone()]
    }

    /// Cell of `node` if all preemptable shares were gone.
    pub(in crate::engine) fn ideal(&self, node: NodeIx) -> Cell {
        self.by_node[node].ideal_cell()
    }

    /// Counts of the schedulable nodes of each pool by cell, if all preemptable shares were gone.
    pub(in crate::engine) fn ideal_counts(&self) -> impl Iterator<Item = &Matrix<u64>> {
        self.by_pool.iter().map(|pool| &pool.ideal)
    }

    /// The schedulable nodes of `pool` by usable space.
    pub(in crate::engine) fn matrix(&self, pool: PoolIx) -> &Matrix<NodeSet> {
        &self.by_pool[pool].now
    }

    /// The schedulable nodes of `pool` with at least `order` of usable space, least space first.
    /// Among equals, nodes in use come first.
    pub(in crate::engine) fn with_space(
        &self,
        pool: PoolIx,
        order: Order,
    ) -> impl Iterator<Item = Alike<'_, NodeSet>> {
        self.matrix(pool).alike_from(order.qshares().0)
    }

    /// The schedulable nodes of `pool` with terminating shares on which at least `order` will be
    /// free, cell by cell.
    pub(in crate::engine) fn with_space_to_come(
        &self,
        pool: PoolIx,
        order: Order,
    ) -> impl Iterator<Item = impl Iterator<Item = NodeIx>> {
        self.by_pool[pool].to_come.nodes_from(order.qshares().0)
    }

    /// The schedulable nodes of `pool`.
    pub(in crate::engine) fn schedulable(&self, pool: PoolIx) -> impl Iterator<Item = NodeIx> {
        self.matrix(pool).nodes_from(0).flatten()
    }

    /// Number of schedulable nodes of `pool` of at least `order`.
    pub(in crate::engine) fn count_of_size(&self, pool: PoolIx, order: Order) -> u64 {
        self.matrix(pool).nodes_of_size(order.qshares().0)
    }

    /// True if `pool` has any space that is usable now, or will be when all terminating shares have
    /// exited.
    pub(in crate::engine) fn has_any(&self, pool: PoolIx) -> bool {
        let PoolSpaces { now, to_come, .. } = &self.by_pool[pool];
        0 < now.largest() || 0 < to_come.largest()
    }

    /// Usable space on all schedulable nodes of `pool`, and on the node with the most.
    pub(in crate::engine) fn usable_in(&self, pool: PoolIx) -> (QShares, QShares) {
        let matrix = self.matrix(pool);
        (QShares(matrix.total()), QShares(matrix.largest()))
    }
}

/// Closes the rest of each node of an exclusive gang, some of whose processes there have ended.
fn close_nodes_of_exclusive_gangs(
    snapshot: &Snapshot,
    entities: &FairnessTree,
    shares: &ShareTable,
    spaces: &mut [NodeSpace],
) {
    for (ix, job) in snapshot.jobs.with_ix() {
        let is_exclusive =
            job.shape.as_deref().is_some_and(|shape| shape.is_gang() && shape.is_exclusive);
        if !is_exclusive {
            continue;
        }
        let is_immovable =
            !snapshot.topology.classes[entities.class_of(ix)].policy.is_preemptable();
        for (_, share) in shares.held_by(ix) {
            let space = &mut spaces[share.node().0];
            if space.closed_by.replace(ix).is_none() {
                space.closed = space.order.saturating_sub(space.used - space.leaving);
                space.immovable += if is_immovable { space.closed } else { QShares(0) };
            }
        }
    }
}

/// Adds the shares of all jobs to `spaces`. Returns the held shares node by node, on each node by
/// job and share, and the facts of each.
fn take_in_shares(
    snapshot: &Snapshot,
    entities: &FairnessTree,
    shares: &mut ShareTable,
    spaces: &mut [NodeSpace],
) -> (Vec<PackedShareIx>, Vec<ScannedShare>) {
    for job in snapshot.jobs.places() {
        let class = &snapshot.topology.classes[entities.class_of(job)];
        let is_immovable = !class.policy.is_preemptable();
        for share in shares.of_job_mut(job) {
            let space = &mut spaces[share.node().0];
            share.is_resident = space.pool == class.pool;
            space.used += share.order.qshares();
            if share.is_held {
                space.holdings.end += 1;
                space.immovable += if is_immovable { share.order.qshares() } else { QShares(0) };
            } else {
                space.leaving += share.order.qshares();
            }
        }
    }
    close_nodes_of_exclusive_gangs(snapshot, entities, shares, spaces);
    let mut held = 0;
    for space in spaces.iter_mut() {
        let shares = space.holdings.end;
        space.holdings = held..held;
        held += shares;
    }
    let mut held_shares = vec![PackedShareIx { job: 0, share: 0 }; held];
    let mut facts_of_shares = vec![ScannedShare { user: 0, order: 0, loss: 0 }; held];
    for job in snapshot.jobs.places() {
        let user = small(entities.group_of(job).0);
        for (ShareIx { job, share }, brief) in shares.held_by(job) {
            let next = &mut spaces[brief.node().0].holdings.end;
            held_shares[*next] = PackedShareIx { job: small(job.0), share: small(share) };
            facts_of_shares[*next] =
                ScannedShare { user, order: brief.order.get(), loss: brief.loss };
            *next += 1;
        }
    }
    (held_shares, facts_of_shares)
}
