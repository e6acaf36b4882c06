//! Computes the targets of jobs that cannot be preempted: their demand, up to the user's allotment.
//!
//! Design: "How Much", "Allotment"; decision D10: grants of the same cycle count; D6: such a job
//! keeps its shares even above its maximum.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::node_lists::NodeListCapacity;
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::{CountRefusal, Draft, JobDraft};
use crate::engine::gang::GangPlanner;
use crate::model::{
    ClassPolicy, JobIx, JobKind, Mebibytes, NShares, NodeIx, Order, QShares, Quantum,
};

/// Memory that cannot be preempted, by user, over all trees. Indexed by the user's place in the
/// snapshot.
#[derive(Debug)]
pub(in crate::engine) struct AllotmentLedger {
    usual: Vec<Mebibytes>,
    /// Memory of urgent work, which has an allotment of its own.
    urgent: Vec<Mebibytes>,
}

impl AllotmentLedger {
    pub(super) fn new(draft: &Draft<'_>) -> AllotmentLedger {
        let nothing = vec![Mebibytes(0); draft.snapshot.users.len()];
        let mut ledger = AllotmentLedger { usual: nothing.clone(), urgent: nothing };
        for ix in draft.jobs.places() {
            if !draft.class_of(ix).policy.is_preemptable() {
                let shares = draft.shares.of_job(ix).iter();
                let amount = shares.map(|share| share.order.qshares()).sum();
                ledger.held_mut(draft, ix).0 += quantum_of(draft, ix).memory_of(amount).0;
            }
        }
        ledger
    }

    /// Memory held by the user of the job at `ix` that counts like the job.
    fn held_mut(&mut self, draft: &Draft<'_>, ix: JobIx) -> &mut Mebibytes {
        let is_urgent = draft.class_of(ix).is_urgent;
        let amounts = if is_urgent { &mut self.urgent } else { &mut self.usual };
        &mut amounts[draft.entities.user_of(ix).0]
    }

    fn held(&self, draft: &Draft<'_>, ix: JobIx) -> Mebibytes {
        let amounts = if draft.class_of(ix).is_urgent { &self.urgent } else { &self.usual };
        amounts[draft.entities.user_of(ix).0]
    }

    /// Amount that the job's user may still get, in quanta of the job's pool; `None` if there is no
    /// allotment.
    fn left(&self, draft: &Draft<'_>, ix: JobIx) -> Option<u64> {
        let held = self.held(draft, ix);
        let left = Mebibytes(allotment_of(draft, ix)?.0.saturating_sub(held.0));
        Some(quantum_of(draft, ix).order_of_node(left).0)
    }

    /// Adds `amount` to the holdings of the job's user if the allotment allows it.
    pub(in crate::engine) fn grant(
        &mut self,
        draft: &Draft<'_>,
        ix: JobIx,
        amount: QShares,
    ) -> Result<(), CountRefusal> {
        self.test(draft, ix, amount)?;
        let asks = quantum_of(draft, ix).memory_of(amount);
        let held = self.held_mut(draft, ix);
        held.0 = held.0.saturating_add(asks.0);
        Ok(())
    }

    /// Succeeds if the allotment of the job's user allows `amount` more.
    pub(in crate::engine) fn test(
        &self,
        draft: &Draft<'_>,
        ix: JobIx,
        amount: QShares,
    ) -> Result<(), CountRefusal> {
        let quantum = quantum_of(draft, ix);
        let held = self.held(draft, ix);
        let asks = quantum.memory_of(amount);
        match allotment_of(draft, ix) {
            Some(allotment) if allotment.0 < held.0.saturating_add(asks.0) => {
                Err(CountRefusal::OverAllotment {
                    allotment: quantum.order_of_node(allotment),
                    held: quantum.order_of_node(held),
                    asks: amount,
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Undoes [`AllotmentLedger::grant`].
    fn revoke(&mut self, draft: &Draft<'_>, ix: JobIx, amount: Order) {
        self.held_mut(draft, ix).0 -= quantum_of(draft, ix).memory_of(amount.qshares()).0;
    }
}

/// Allotment of the user of the job at `ix`, for work like the job.
fn allotment_of(draft: &Draft<'_>, ix: JobIx) -> Option<Mebibytes> {
    let topology = &draft.snapshot.topology;
    let user = &draft.snapshot.users[draft.entities.user_of(ix)];
    if draft.class_of(ix).is_urgent {
        topology.urgent_allotment_of(user)
    } else {
        topology.allotment_of(user)
    }
}

fn quantum_of(draft: &Draft<'_>, ix: JobIx) -> Quantum {
    draft.snapshot.topology.pools[draft.class_of(ix).pool].quantum
}

/// Sets the target of a job: its holdings, plus as much as its cap, the user's allotment and its
/// own pool allow. A fixed-share job takes part of a node, a reservation a whole node.
pub(super) fn count(
    draft: &mut Draft<'_>,
    space: &mut EmptyCluster,
    listed: &mut NodeListCapacity,
    (ledger, gangs): (&mut AllotmentLedger, Option<&mut GangPlanner>),
    ix: JobIx,
) {
    if draft.is_overrun(ix) {
        draft.jobs[ix].target = NShares(0);
        return;
    }
    let mut timed = gangs.filter(|gangs| gangs.chooses_nodes());
    let promised = timed.as_ref().map(|gangs| gangs.promised_nodes(draft, ix));
    let mut promised = promised.into_iter().flatten();
    let class = draft.class_of(ix);
    let JobDraft { order, held, demand, .. } = draft.jobs[ix];
    let (mut amount, mut target) = (order, held);
    while target < demand.cap.nshares {
        if class.policy == ClassPolicy::Reserve {
            amount = largest_within_allotment(draft, ledger, ix);
            draft.jobs[ix].largest_node = amount.qshares();
        }
        if let Err(refusal) = ledger.grant(draft, ix, amount.qshares()) {
            draft.jobs[ix].refusal = Some(refusal);
            break;
        }
        let asks = order.qshares().0;
        let promised = promised.next();
        let chosen = match &mut timed {
            Some(gangs) if promised.is_none() => {
                let node = gangs.node_for(draft, ix, asks);
                if node.is_none() {
                    gangs.wait_for_node(draft, ix, asks);
                }
                Some(node)
            }
            Some(_) | None => None,
        };
        let node = promised.or(chosen.flatten());
        if chosen == Some(None) || !take(draft, space, listed, (ix, amount), node) {
            ledger.revoke(draft, ix, amount);
            let left = space.largest_local(class.pool);
            let left = listed.list_of(ix).map_or(left, |list| listed.largest(list).min(left));
            draft.jobs[ix].refusal = Some(CountRefusal::NothingLeft { left });
            break;
        }
        if let Some((gangs, node)) = timed.as_mut().zip(chosen.flatten()) {
            let is_whole = class.policy == ClassPolicy::Reserve;
            let amount = if is_whole { draft.spaces.order(node).0 } else { asks };
            gangs.choose_node(draft, ix, (node, amount));
        }
        target += NShares(1);
    }
    draft.jobs[ix].target = target;
    // Shares count at their actual size: a reservation has the whole of its node.
    let holds: u64 = draft.shares.held_by(ix).map(|(_, share)| share.order.qshares().0).sum();
    let entities = Arc::clone(&draft.entities);
    entities.add(&mut draft.targets, ix, holds + (target - held).of_order(order).0);
}

/// Takes space for another nshare of the job at `ix`, if possible on a node like `chosen`; for a
/// reservation, a node no larger than `most`. Returns false if the pool, or the job's node list, has
/// no such space.
fn take(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    listed: &mut NodeListCapacity,
    (ix, most): (JobIx, Order),
    chosen: Option<NodeIx>,
) -> bool {
    let (class, order) = (draft.class_of(ix), draft.jobs[ix].order);
    let orders = order.qshares().0..=most.qshares().0;
    let takes_whole = class.policy == ClassPolicy::Reserve;
    let of_list = || {
        if takes_whole { listed.whole_node_for(ix, &orders) } else { listed.node_for(ix, order) }
    };
    let node = chosen.or_else(of_list);
    if listed.has_list(ix) && node.is_none() {
        return false;
    }
    let cell = node.map(|node| listed.cell(node));
    let is_counted = if takes_whole {
        space.take_whole(class.pool, &orders, cell)
    } else {
        space.take_local(class.pool, order, cell)
    };
    if let Some((node, cell)) = node.zip(cell).filter(|_| is_counted) {
        listed.take(node, if takes_whole { cell.free } else { order.qshares().0 });
    }
    is_counted
}

/// Largest node that suits a reservation and that its user's allotment still allows. This size is
/// charged, as the node that the reservation will get is not known yet.
fn largest_within_allotment(draft: &Draft<'_>, ledger: &AllotmentLedger, ix: JobIx) -> Order {
    let suitable = orders_that_suit(draft, ix);
    let left = ledger.left(draft, ix).unwrap_or(u64::MAX);
    let pool = draft.class_of(ix).pool;
    let nodes = draft.snapshot.nodes_with_ix();
    let nodes = nodes.filter(|(at, node)| node.pool == pool && draft.may_use(ix, *at));
    let orders = nodes.map(|(_, node)| node.order.0);
    let largest = orders.filter(|order| suitable.contains(order) && *order <= left).max();
    let largest = largest.and_then(|order| u32::try_from(order).ok()).and_then(Order::new);
    largest.unwrap_or(draft.jobs[ix].order)
}

/// The node sizes that suit the reservation at `ix`. Exactly the requested size; for unmanaged
/// reservations, up to the configured overage more.
///
/// Design: "Scheduling Policies", RESERVE: no promotion to a larger node.
pub(in crate::engine) fn orders_that_suit(draft: &Draft<'_>, ix: JobIx) -> RangeInclusive<u64> {
    let JobDraft { kind, order, .. } = draft.jobs[ix];
    let QShares(order) = order.qshares();
    let overage = match kind {
        JobKind::Reservation => {
            let overage = draft.snapshot.topology.settings.reserve_overage;
            quantum_of(draft, ix).order_of_node(overage).0
        }
        JobKind::Job | JobKind::Service | JobKind::ArbitraryProcess => 0,
    };
    order..=order.saturating_add(overage)
}
