//! Gangs that are preempted: as a whole, and only where no other plan makes space.
//!
//! Design: requests and time, section 3.5: a gang is a single nshare.

use super::{Taker, is_paid};
use crate::engine::draft::Draft;
use crate::engine::schedule::VictimRule;
use crate::engine::share_table::ShareIx;
use crate::model::{ClassPolicy, JobIx, Millis, NShares, NodeIx, Order, QShares};

/// A gang whose end makes space for a process.
pub(in crate::engine) struct WholeGang {
    /// Node of the process.
    pub node: NodeIx,
    /// Size of the process.
    pub order: Order,
    /// All processes of the gang.
    pub victims: Vec<ShareIx>,
    /// Right of the job that gets the space.
    pub rule: VictimRule,
}

/// The gang whose end costs least work, among the gangs that `job` may take and that make space for a
/// process of it. A job may take gangs of lower priority, and below its target gangs of peers that
/// are not paid for.
pub(in crate::engine) fn cheapest_gang_for(draft: &Draft<'_>, job: JobIx) -> Option<WholeGang> {
    let taker = Taker::of(draft, job);
    let mut cheapest: Option<(Millis, WholeGang)> = None;
    for &gang in draft.gangs.iter().filter(|&&gang| NShares(0) < draft.jobs[gang].held) {
        let class = draft.class_of(gang);
        let priority = draft.precedence(gang);
        let is_lower = class.policy.is_preemptable() && taker.priority < priority;
        let is_peer = class.policy.is_preemptable()
            && taker.is_among_peers
            && taker.priority == priority
            && NShares(0) < draft.shortfall(job)
            && !draft.jobs[gang].is_due
            && !is_paid(draft.snapshot, &draft.job(gang).gang);
        if !is_lower && !is_peer || draft.jobs[gang].has_stepped {
            continue;
        }
        let held = draft.shares.held_by(gang);
        let loss = held.map(|(_, share)| share.loss).fold(0, Millis::saturating_add);
        if cheapest.as_ref().is_some_and(|(least, _)| *least <= loss) {
            continue;
        }
        let Some((node, order)) = space_after(draft, job, gang) else { continue };
        let victims = draft.shares.held_by(gang).map(|(victim, _)| victim).collect();
        let rule = if is_lower { draft.rule_over_lower(job) } else { VictimRule::Turn };
        cheapest = Some((loss, WholeGang { node, order, victims, rule }));
    }
    cheapest.map(|(_, gang)| gang)
}

/// The first node of `gang` on which a process of `job` fits once the gang is gone, and its size.
fn space_after(draft: &Draft<'_>, job: JobIx, gang: JobIx) -> Option<(NodeIx, Order)> {
    let is_reserve = draft.class_of(job).policy == ClassPolicy::Reserve;
    let mut nodes = draft.shares.held_by(gang).map(|(_, share)| share.node());
    nodes.find_map(|node| {
        let whole = draft.spaces.order(node);
        let order = if is_reserve {
            u32::try_from(whole.0).ok().and_then(Order::new)?
        } else {
            draft.jobs[job].order
        };
        let is_in_reach = !is_reserve || draft.nodes_within_reach(job).contains(&whole.0);
        let is_legal = draft.spaces.is_schedulable(node)
            && draft.pools_for(job).contains(&draft.spaces.pool(node))
            && draft.may_use(job, node)
            && is_in_reach;
        let on_node = draft.shares.held_by(gang).filter(|(_, share)| share.node() == node);
        let freed: QShares = on_node.map(|(_, share)| share.order.qshares()).sum();
        let freed = freed + draft.spaces.closed_by(node, gang);
        let missing = draft.spaces.missing_for(node, order.qshares());
        (is_legal && missing <= freed).then_some((node, order))
    })
}
