//! Counts work that cannot be preempted: what is asked for, up to the user's allotment.
//!
//! Design: "How Much", "Allotment"; decision D10: grants of the same cycle count; D6: what such
//! work has, it keeps, whatever its maximum says.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::listed::Listed;
use crate::engine::draft::{CountRefusal, Draft};
use crate::engine::nodepool::CountSpace;
use crate::engine::snapshot::{Job, Snapshot};
use crate::model::{Mebibytes, Order, Policy, QShares, Quantum, UserIx, WorkKind};

/// What each user holds of memory that cannot be preempted, over all trees.
#[derive(Debug)]
pub(super) struct AllotmentLedger(BTreeMap<UserIx, Mebibytes>);

impl AllotmentLedger {
    pub(super) fn new(snapshot: &Snapshot) -> AllotmentLedger {
        let mut held: BTreeMap<UserIx, Mebibytes> = BTreeMap::new();
        for job in
            snapshot.jobs.iter().filter(|job| !snapshot.class_of(job).policy.is_preemptable())
        {
            let amount = job.shares.iter().map(|share| share.order.qshares()).sum();
            held.entry(job.user).or_default().0 += quantum_of(snapshot, job).memory_of(amount).0;
        }
        AllotmentLedger(held)
    }

    /// What the job's user may still be given, in the quanta of the job's pool; `None` if there is no
    /// allotment.
    fn left(&self, snapshot: &Snapshot, job: &Job) -> Option<u64> {
        let allotment = snapshot.topology.allotment_of(&snapshot.users[job.user.0])?;
        let held = self.0.get(&job.user).map_or(0, |held| held.0);
        let left = Mebibytes(allotment.0.saturating_sub(held));
        Some(quantum_of(snapshot, job).order_of_machine(left).0)
    }

    /// Enters `amount` for the job's user if the allotment allows it.
    fn grant(&mut self, snapshot: &Snapshot, job: &Job, amount: Order) -> Result<(), CountRefusal> {
        let quantum = quantum_of(snapshot, job);
        let held = self.0.entry(job.user).or_default();
        let asks = quantum.memory_of(amount.qshares());
        match snapshot.topology.allotment_of(&snapshot.users[job.user.0]) {
            Some(allotment) if allotment.0 < held.0.saturating_add(asks.0) => {
                Err(CountRefusal::OverAllotment {
                    allotment: quantum.order_of_machine(allotment),
                    held: quantum.order_of_machine(*held),
                    asks: amount.qshares(),
                })
            }
            Some(_) | None => {
                held.0 = held.0.saturating_add(asks.0);
                Ok(())
            }
        }
    }

    /// Takes back what [`AllotmentLedger::grant`] entered.
    fn revoke(&mut self, snapshot: &Snapshot, job: &Job, amount: Order) {
        let held = self.0.entry(job.user).or_default();
        held.0 -= quantum_of(snapshot, job).memory_of(amount.qshares()).0;
    }
}

fn quantum_of(snapshot: &Snapshot, job: &Job) -> Quantum {
    let pool = snapshot.class_of(job).pool;
    snapshot.topology.pools[pool.0].quantum
}

/// Counts a request: what it has, and as many more as its cap, the user's allotment and its own pool
/// allow. A fixed-share request takes part of a machine, a reservation the whole of one.
pub(super) fn count(
    draft: &mut Draft<'_>,
    space: &mut CountSpace,
    listed: &mut Listed,
    ledger: &mut AllotmentLedger,
    ix: usize,
) {
    let (snapshot, job) = (draft.snapshot, draft.job(ix));
    let class = snapshot.class_of(job);
    let line = &mut draft.jobs[ix];
    let mut amount = job.order;
    line.given = line.held;
    while line.given < line.demand.cap.nshares.0 {
        if class.policy == Policy::Reserve {
            amount = largest_within_allotment(snapshot, ledger, job);
            line.largest_machine = amount.qshares().0;
        }
        if let Err(refusal) = ledger.grant(snapshot, job, amount) {
            line.refusal = Some(refusal);
            break;
        }
        if !take(snapshot, space, listed, ix, amount) {
            ledger.revoke(snapshot, job, amount);
            let left = space.largest_local(class.pool);
            let left = listed.largest(ix).map_or(left, |listed| listed.min(left));
            line.refusal = Some(CountRefusal::NothingLeft { left });
            break;
        }
        line.given += 1;
    }
    // What it holds is as large as it is: a reservation has the whole of its machine.
    let held: u64 = job.held().map(|share| share.order.qshares().0).sum();
    let given = held + job.order.qshares().0 * (line.given - line.held);
    let entities = Arc::clone(&draft.entities);
    entities.add(&mut draft.given, ix, given);
}

/// Takes room for one nshare more of the job at `ix`; for a reservation a machine no larger than
/// `most`. Says whether there was any: where there may be any, and on a machine it may use.
fn take(
    snapshot: &Snapshot,
    space: &mut CountSpace,
    listed: &mut Listed,
    ix: usize,
    most: Order,
) -> bool {
    let job = &snapshot.jobs[ix];
    let class = snapshot.class_of(job);
    let orders = job.order.qshares().0..=most.qshares().0;
    let takes_whole = class.policy == Policy::Reserve;
    let machine = if takes_whole {
        listed.whole_machine_for(ix, &orders)
    } else {
        listed.machine_for(ix, job.order)
    };
    if listed.has_list(ix) && machine.is_none() {
        return false;
    }
    let cell = machine.map(|machine| listed.cell(machine));
    let is_counted = if takes_whole {
        space.take_whole(class.pool, &orders, cell)
    } else {
        space.take_local(class.pool, job.order, cell)
    };
    if let Some((machine, cell)) = machine.zip(cell).filter(|_| is_counted) {
        listed.take(machine, if takes_whole { cell.free } else { job.order.qshares().0 });
    }
    is_counted
}

/// The largest machine that suits a reservation and that its user's allotment still allows. It is
/// what is granted: which of those that suit the reservation will get is not known yet.
fn largest_within_allotment(snapshot: &Snapshot, ledger: &AllotmentLedger, job: &Job) -> Order {
    let suitable = orders_that_suit(snapshot, job);
    let left = ledger.left(snapshot, job).unwrap_or(u64::MAX);
    let pool = snapshot.class_of(job).pool;
    let machines = snapshot.machines_with_ix();
    let machines = machines.filter(|(ix, machine)| machine.pool == pool && job.may_use(*ix));
    let orders = machines.map(|(_, machine)| machine.order.0);
    let largest = orders.filter(|order| suitable.contains(order) && *order <= left).max();
    largest.and_then(|order| u32::try_from(order).ok()).and_then(Order::new).unwrap_or(job.order)
}

/// The orders of the machines a reservation may have: exactly what it asks for, or with
/// unmanaged reservations up to the configured overage more.
///
/// Design: "Scheduling Policies", RESERVE: no promotion to a larger machine.
pub(in crate::engine) fn orders_that_suit(snapshot: &Snapshot, job: &Job) -> RangeInclusive<u64> {
    let QShares(order) = job.order.qshares();
    let overage = match job.kind {
        WorkKind::Reservation => {
            quantum_of(snapshot, job).order_of_machine(snapshot.topology.settings.reserve_overage).0
        }
        WorkKind::Job | WorkKind::Service | WorkKind::ArbitraryProcess => 0,
    };
    order..=order.saturating_add(overage)
}
