//! The ideal cluster for gangs whose nodes are known: what was counted so far, arranged anew.
//!
//! Nodes of the ideal cluster have no names. A request may be counted on a node like a node that a
//! gang needs, while another node is left. The gang has its nodes if all the rest can be counted
//! beside them.

use std::collections::BTreeMap;

use super::decide::has_cells;
use crate::engine::capacity::{Cell, DemandByOrder, EmptyCluster, NodePiece};
use crate::engine::draft::Draft;
use crate::engine::job_draft::JobDraft;
use crate::engine::target::NodeListCapacity;
use crate::model::{ClassPolicy, JobIx, NShares, NodeIx};

/// Most times in a cycle that all is counted anew.
const TRIES_MAX: u64 = 16;

/// True if the ideal cluster has these amounts left, each on a node of its own. If what was counted
/// is in their way and can be arranged otherwise, it is arranged so. `tries`: how often that was
/// tried in the cycle.
pub(super) fn make_cells(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    listed: &NodeListCapacity,
    (amounts, tries): (&[(NodeIx, u64)], &mut u64),
) -> bool {
    if has_cells(draft, space, listed, amounts) {
        return true;
    }
    if TRIES_MAX <= *tries {
        return false;
    }
    *tries += 1;
    let Some(mut anew) = counted_anew(draft, amounts) else { return false };
    let has_cells = has_cells(draft, &mut anew, listed, amounts);
    if has_cells {
        *space = anew;
    }
    has_cells
}

/// Amounts by node.
type NodeAmounts = BTreeMap<NodeIx, u64>;

/// The ideal cluster less all that was counted in it so far, arranged so that it has `amounts` left;
/// `None` if no such arrangement was found. Requests are counted after gangs, the largest first, as
/// that leaves most.
fn counted_anew(draft: &Draft<'_>, amounts: &[(NodeIx, u64)]) -> Option<EmptyCluster> {
    let of_gangs = amounts_of_gangs(draft);
    let requests = requests(draft)?;
    // Space of a node that gangs leave.
    let left_of = |node: NodeIx| {
        let cell = draft.spaces.ideal(node);
        let free = cell.free.checked_sub(of_gangs.get(&node).copied().unwrap_or(0));
        free.map(|free| Cell { free, ..cell })
    };
    let piece = |node: NodeIx, cell: Cell, amount: u64| {
        let pool = draft.spaces.pool(node);
        (amount <= cell.free).then_some(NodePiece { pool, cell, amount })
    };
    let gangs =
        of_gangs.iter().map(|(&node, &amount)| piece(node, draft.spaces.ideal(node), amount));
    let gangs = gangs.collect::<Option<Vec<NodePiece>>>()?;
    let own = amounts.iter().map(|&(node, amount)| piece(node, left_of(node)?, amount));
    let own = own.collect::<Option<Vec<NodePiece>>>()?;
    let mut space = EmptyCluster::new(&draft.spaces);
    let mut taken = Vec::new();
    let fits = space.take_like(gangs.into_iter(), &mut Vec::new())
        && space.take_like(own.into_iter(), &mut taken)
        && space.take_all(&draft.pools, &requests, &DemandByOrder::default()).is_ok();
    space.give_back(taken);
    fits.then_some(space)
}

/// Amounts that gangs were counted with so far. Held nodes of work that stays are not free in the
/// ideal cluster.
fn amounts_of_gangs(draft: &Draft<'_>) -> NodeAmounts {
    let mut amounts = NodeAmounts::new();
    let slots = draft.gang_plans.iter().flat_map(|plan| &plan.slots);
    for slot in slots {
        *amounts.entry(slot.node).or_default() += slot.order.qshares().0;
    }
    let is_counted = |job: JobIx| {
        let JobDraft { target, held, .. } = draft.jobs[job];
        NShares(0) < held && held <= target && draft.class_of(job).policy.is_preemptable()
    };
    for &job in draft.gangs.iter().filter(|job| is_counted(**job)) {
        for (_, share) in draft.shares.held_by(job) {
            *amounts.entry(share.node()).or_default() += share.order.qshares().0;
        }
    }
    amounts
}

/// Processes of single requests that were counted so far, by pool; `None` if some of them are
/// reservations, which take whole nodes.
fn requests(draft: &Draft<'_>) -> Option<Vec<DemandByOrder>> {
    let mut requests = vec![DemandByOrder::default(); draft.snapshot.topology.pools.len()];
    for job in draft.jobs.places().filter(|job| !draft.jobs[*job].is_gang) {
        let JobDraft { target, held, order, .. } = draft.jobs[job];
        let class = draft.class_of(job);
        let counted = match class.policy {
            ClassPolicy::FairShare { .. } => target,
            ClassPolicy::FixedShare | ClassPolicy::Reserve => target.saturating_sub(held),
        };
        if counted == NShares(0) {
            continue;
        }
        if class.policy == ClassPolicy::Reserve {
            return None;
        }
        requests[class.pool.0].add_many(order.qshares().0, counted.0);
    }
    Some(requests)
}
