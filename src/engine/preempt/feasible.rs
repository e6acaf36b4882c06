//! Nodes that a request may use.

use super::plan::Plan;
use crate::engine::draft::Draft;
use crate::engine::schedule::Alternatives;
use crate::model::{ClassPolicy, MachineIx, Order, PoolIx, QShares, count};

/// Nodes that a request may use.
#[derive(Clone, Copy)]
pub(super) struct Feasible<'d, 'a> {
    pub draft: &'d Draft<'a>,
    pub job: usize,
    policy: &'a ClassPolicy,
    pools: &'d [PoolIx],
}

impl<'d, 'a> Feasible<'d, 'a> {
    pub(super) fn new(draft: &'d Draft<'a>, job: usize) -> Feasible<'d, 'a> {
        let policy = &draft.class_of(job).policy;
        Feasible { draft, job, policy, pools: draft.pools_for(job) }
    }

    /// Returns the order of a share on `machine`; `None` if the request may not use that node.
    pub(super) fn order_on(&self, machine: MachineIx) -> Option<Order> {
        let (draft, least) = (self.draft, self.draft.jobs[self.job].order);
        let is_legal = draft.rooms.is_schedulable(machine)
            && self.pools.contains(&draft.rooms.pool(machine))
            && draft.may_use(self.job, machine);
        if !is_legal {
            return None;
        }
        let whole = draft.rooms.order(machine);
        match self.policy {
            ClassPolicy::FairShare { .. } | ClassPolicy::FixedShare => {
                (least.qshares() <= whole).then_some(least)
            }
            ClassPolicy::Reserve => {
                draft.machines_within_reach(self.job).contains(&whole.0).then_some(())?;
                u32::try_from(whole.0).ok().and_then(Order::new)
            }
        }
    }

    /// Returns a plan that waits for terminating shares, if their space is promised to no job.
    pub(super) fn room_to_come(&self) -> Option<Plan> {
        let rooms = &self.draft.rooms;
        let least = self.draft.jobs[self.job].order;
        let order_on = |machine| {
            let order = self.order_on(machine)?;
            (rooms.lacking(machine, order.qshares()) == QShares(0)).then_some((machine, order))
        };
        let machines = self.pools.iter().flat_map(|&pool| rooms.with_room_to_come(pool, least));
        let (machine, order) = machines.filter_map(|mut all| all.find_map(order_on)).min()?;
        let considered = Alternatives::default();
        Some(Plan { machine, order, victims: Vec::new(), loss: 0, considered })
    }

    /// Iterates over the nodes that the request may use, as if they were empty.
    pub(super) fn suitable(&self) -> impl Iterator<Item = MachineIx> {
        let draft = self.draft;
        // A list is short, and the nodes are many.
        let list = draft.jobs[self.job].is_confined.then(|| draft.job(self.job).machines.iter());
        let all = list.is_none().then(|| self.in_scheduling());
        let listed = list.into_iter().flatten().flatten().copied();
        listed.chain(all.into_iter().flatten()).filter(|&machine| self.order_on(machine).is_some())
    }

    /// Iterates over the nodes in scheduling that the request's class may use, of any size.
    pub(super) fn in_scheduling(&self) -> impl Iterator<Item = MachineIx> {
        self.pools.iter().flat_map(|&pool| self.draft.rooms.schedulable(pool))
    }

    /// Counts the nodes that the request may use, as if they were empty.
    pub(super) fn machines(&self) -> u64 {
        let (draft, work) = (self.draft, &self.draft.jobs[self.job]);
        let rooms = &draft.rooms;
        if !work.is_confined && *self.policy != ClassPolicy::Reserve {
            return self.pools.iter().map(|&pool| rooms.count_of_size(pool, work.order)).sum();
        }
        count(self.suitable())
    }
}
