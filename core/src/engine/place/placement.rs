//! Chooses the node for a share.

use std::collections::BTreeSet;

use super::list_cursors::ListCursors;
use crate::engine::capacity::DemandByOrder;
use crate::engine::draft::Draft;
use crate::engine::gang::uses_claim;
use crate::model::{ClassPolicy, JobIx, NodeIx, Order, PoolIx};

/// Finds a node with space for an nshare of `job` now, and the order that the share will have.
///
/// Fair-share work goes to its class's pool or, if that has no space, to the pools in it, by search
/// order. Other work goes to its own pool only: it can never be a squatter.
pub(super) fn find_space(
    draft: &Draft<'_>,
    job: JobIx,
    demand: &DemandByOrder,
) -> Option<(NodeIx, Order)> {
    let (class, order) = (draft.class_of(job), draft.jobs[job].order);
    if draft.jobs[job].is_restricted && !has_space_on_list(draft, job) {
        return None;
    }
    match class.policy {
        ClassPolicy::FairShare { .. } => {
            let mut pools = draft.pools.searched_from(class.pool).iter();
            let node =
                pools.find_map(|&pool| best_fit(draft, job, pool, demand, &BTreeSet::new()))?;
            Some((node, order))
        }
        ClassPolicy::FixedShare => {
            let nowhere = BTreeSet::new();
            let taken = draft.services.get(&draft.job(job).service).unwrap_or(&nowhere);
            let place = |avoid: &BTreeSet<NodeIx>| best_fit(draft, job, class.pool, demand, avoid);
            let claimed = || {
                if draft.claims.is_empty() { None } else { beside_claims(draft, job, place) }
            };
            let node = expected_node(draft, job).or_else(claimed);
            let node = node.or_else(|| place(taken)).or_else(|| place(&nowhere))?;
            Some((node, order))
        }
        ClassPolicy::Reserve => empty_node(draft, job, class.pool),
    }
}

/// A node on which `job` is expected, if it is still free: on another node it might be in the way of a
/// gang that was decided on.
fn expected_node(draft: &Draft<'_>, job: JobIx) -> Option<NodeIx> {
    let order = draft.jobs[job].order.qshares();
    let is_free = |node: &NodeIx| {
        order <= draft.spaces.usable(*node)
            && draft.spaces.is_schedulable(*node)
            && draft.may_use(job, *node)
    };
    draft.expected_on.get(&job)?.iter().copied().find(is_free)
}

/// The node that `place` finds among nodes that no waiting gang needs. An older job may use other
/// nodes, too, but not for nothing.
fn beside_claims(
    draft: &Draft<'_>,
    job: JobIx,
    place: impl Fn(&BTreeSet<NodeIx>) -> Option<NodeIx>,
) -> Option<NodeIx> {
    let claimed = draft.claims.nodes().filter(|&node| uses_claim(draft, job, node));
    let claimed: BTreeSet<NodeIx> = claimed.collect();
    let taken = draft.services.get(&draft.job(job).service);
    let avoid = taken.map_or_else(|| claimed.clone(), |taken| taken | &claimed);
    place(&avoid).or_else(|| place(&claimed))
}

/// True if a node on the list of `job` has space for an nshare of it, or for a reservation of its
/// size. Usually no such node exists, and a list is much shorter than that of all nodes.
fn has_space_on_list(draft: &Draft<'_>, job: JobIx) -> bool {
    let list = draft.job(job).nodes.as_ref();
    list.is_some_and(|list| ListCursors::has_space(draft, list, draft.jobs[job].order))
}

/// The node on which the share costs larger requests least. Ties go to the node with the least free
/// space, then to a node in use, then by name.
fn best_fit(
    draft: &Draft<'_>,
    job: JobIx,
    pool: PoolIx,
    demand: &DemandByOrder,
    avoid: &BTreeSet<NodeIx>,
) -> Option<NodeIx> {
    let order = draft.jobs[job].order.qshares().0;
    let matrix = draft.spaces.matrix(pool);
    let list = draft.job(job).nodes.as_ref().filter(|_| draft.jobs[job].is_restricted);
    if let Some(list) = list {
        let listed = ListCursors::set_of(draft, list);
        let may_take = |node: NodeIx| draft.is_open_to(job, node) && !avoid.contains(&node);
        return matrix.cheapest(order, demand, |alike| alike.first_in(&listed, may_take));
    }
    let may_take = |node: NodeIx| draft.may_use(job, node) && !avoid.contains(&node);
    matrix.cheapest(order, demand, |alike| alike.first(may_take))
}

/// The smallest empty node of a size that suits a reservation.
fn empty_node(draft: &Draft<'_>, job: JobIx, pool: PoolIx) -> Option<(NodeIx, Order)> {
    let orders = draft.nodes_within_reach(job);
    let may_take = |node: NodeIx| draft.may_use(job, node);
    let node = draft.spaces.matrix(pool).smallest_whole(&orders, |alike| alike.first(may_take))?;
    let order = u32::try_from(draft.spaces.order(node).0).ok().and_then(Order::new)?;
    Some((node, order))
}
