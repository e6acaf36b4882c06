//! Space for gangs on nodes: empty, without the work that stays for good, and in this cycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Taker;
use super::kinds::Kinds;
use super::supply::{Space, Supply};
use crate::engine::draft::Draft;
use crate::engine::share_table::ShareIx;
use crate::engine::snapshot::Node;
use crate::model::{JobIx, JobKind, NodeIx, PoolIx, QShares};

/// Nodes of a pool under three conditions that do not depend on the gang. Equal supplies
/// are the same object: all three, if all nodes are up and no service runs.
#[derive(Debug, Default)]
pub(super) struct PoolSupplies {
    /// Nodes that the configuration knows, empty.
    pub(super) configured: Arc<Supply>,
    /// Nodes that are up, empty.
    pub(super) up: Arc<Supply>,
    /// Nodes that are up, once all work that ends has ended.
    pub(super) ending: Arc<Supply>,
}

/// True if the processes of `job` stay for good.
pub(super) fn is_endless(draft: &Draft<'_>, job: JobIx) -> bool {
    !draft.class_of(job).policy.is_preemptable() && draft.jobs[job].kind != JobKind::Job
}

/// Space of processes that never end by themselves, by node; promised space included.
pub(super) fn endless_space(draft: &Draft<'_>) -> BTreeMap<NodeIx, u64> {
    let mut endless: BTreeMap<NodeIx, u64> = BTreeMap::new();
    for (ix, node) in draft.snapshot.nodes_with_ix() {
        if QShares(0) < node.limbo {
            *endless.entry(ix).or_default() += node.limbo.0;
        }
    }
    for promise in &draft.snapshot.promises {
        if draft.place_of(promise.job).is_some_and(|job| is_endless(draft, job)) {
            *endless.entry(promise.node).or_default() += promise.order.qshares().0;
        }
    }
    for job in draft.jobs.places().filter(|&job| is_endless(draft, job)) {
        for (_, share) in draft.shares.held_by(job) {
            *endless.entry(share.node()).or_default() += share.order.qshares().0;
        }
    }
    endless
}

/// Space for gangs with the rights of `taker` on the nodes of `pools`. Of the shares that it may
/// take, those stay that `keeps` names.
pub(super) fn supplies(
    draft: &Draft<'_>,
    kinds: &Kinds,
    pools: &BTreeMap<PoolIx, PoolSupplies>,
    taker: Taker,
    keeps: impl Fn(ShareIx) -> bool,
) -> BTreeMap<PoolIx, Arc<Supply>> {
    let mut staying = vec![0_u64; draft.snapshot.nodes.len()];
    let gives = |job: JobIx| taker.may_take_from(draft, job);
    for job in draft.jobs.places() {
        let is_given = gives(job);
        for (holding, share) in draft.shares.held_by(job) {
            if !is_given || keeps(holding) {
                staying[share.node().0] += share.order.qshares().0;
            }
        }
    }
    let mut promised = vec![(0_u64, 0_u64); draft.snapshot.nodes.len()];
    for promise in &draft.snapshot.promises {
        let amount = promise.order.qshares().0;
        let job = draft.place_of(promise.job);
        let on_node = &mut promised[promise.node.0];
        on_node.1 += amount;
        let is_kept = promise.rank.is_some() || job.is_some_and(|job| !gives(job));
        if is_kept {
            on_node.0 += amount;
        }
    }
    let in_use = |ix: NodeIx, node: &Node| {
        node.limbo.0 + staying[ix.0] + promised[ix.0].0 + draft.spaces.closed(ix).0
    };
    let space = |(ix, node): (NodeIx, &Node)| {
        let available = node.order.0.saturating_sub(in_use(ix, node));
        let usable = draft.spaces.usable(ix).0.saturating_sub(promised[ix.0].1);
        (ix, Space { available, usable })
    };
    let supply_of = |(&pool, known): (&PoolIx, &PoolSupplies)| {
        let is_there = |node: &Node| node.pool == pool && node.state.is_schedulable();
        let nodes = || draft.snapshot.nodes_with_ix().filter(|(_, node)| is_there(node));
        let mut supply = Supply::like(&known.up, kinds, || nodes().map(space));
        for (ix, node) in nodes() {
            let lack = in_use(ix, node).saturating_sub(node.order.0);
            if 0 < lack {
                Arc::make_mut(&mut supply).owe(ix, lack);
            }
        }
        (pool, supply)
    };
    pools.iter().map(supply_of).collect()
}
