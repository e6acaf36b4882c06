//! Nodes that a request may use.

use super::plan::Plan;
use crate::engine::draft::Draft;
use crate::engine::gang::uses_claim;
use crate::engine::schedule::Alternatives;
use crate::model::{ClassPolicy, JobIx, NodeIx, Order, PoolIx, QShares, count};

/// Nodes that a request may use.
#[derive(Clone, Copy)]
pub(super) struct Feasible<'d, 'a> {
    pub draft: &'d Draft<'a>,
    pub job: JobIx,
    policy: &'a ClassPolicy,
    pools: &'d [PoolIx],
}

impl<'d, 'a> Feasible<'d, 'a> {
    pub(super) fn new(draft: &'d Draft<'a>, job: JobIx) -> Feasible<'d, 'a> {
        let policy = &draft.class_of(job).policy;
        Feasible { draft, job, policy, pools: draft.pools_for(job) }
    }

    /// Returns the order of a share on `node`; `None` if the request may not use that node.
    pub(super) fn order_on(&self, node: NodeIx) -> Option<Order> {
        let (draft, least) = (self.draft, self.draft.jobs[self.job].order);
        let is_legal = draft.spaces.is_schedulable(node)
            && self.pools.contains(&draft.spaces.pool(node))
            && draft.may_use(self.job, node);
        if !is_legal {
            return None;
        }
        let whole = draft.spaces.order(node);
        match self.policy {
            ClassPolicy::FairShare { .. } | ClassPolicy::FixedShare => {
                (least.qshares() <= whole).then_some(least)
            }
            ClassPolicy::Reserve => {
                draft.nodes_within_reach(self.job).contains(&whole.0).then_some(())?;
                u32::try_from(whole.0).ok().and_then(Order::new)
            }
        }
    }

    /// Returns a plan that waits for terminating shares, if their space is promised to no job. Space
    /// that no gang claims goes first.
    pub(super) fn space_to_come(&self) -> Option<Plan> {
        let beside_claims = |node| !uses_claim(self.draft, self.job, node);
        let has_claims = !self.draft.claims.is_empty();
        let unclaimed = has_claims.then(|| self.first_space_to_come(beside_claims)).flatten();
        let (node, order) = unclaimed.or_else(|| self.first_space_to_come(|_| true))?;
        let considered = Alternatives::default();
        Some(Plan { node, order, victims: Vec::new(), loss: 0, considered })
    }

    fn first_space_to_come(&self, is_usable: impl Fn(NodeIx) -> bool) -> Option<(NodeIx, Order)> {
        let spaces = &self.draft.spaces;
        let least = self.draft.jobs[self.job].order;
        let order_on = |node| {
            let order = self.order_on(node).filter(|_| is_usable(node))?;
            (spaces.missing_for(node, order.qshares()) == QShares(0)).then_some((node, order))
        };
        let nodes = self.pools.iter().flat_map(|&pool| spaces.with_space_to_come(pool, least));
        nodes.filter_map(|mut all| all.find_map(order_on)).min()
    }

    /// Iterates over the nodes that the request may use, as if they were empty.
    pub(super) fn suitable(&self) -> impl Iterator<Item = NodeIx> {
        let draft = self.draft;
        // A list is short, and the nodes are many.
        let list = draft.jobs[self.job].is_restricted.then(|| draft.job(self.job).listed());
        let all = list.is_none().then(|| self.in_scheduling());
        let listed = list.into_iter().flatten().copied();
        listed.chain(all.into_iter().flatten()).filter(|&node| self.order_on(node).is_some())
    }

    /// Iterates over the nodes in scheduling that the request's class may use, of any size.
    pub(super) fn in_scheduling(&self) -> impl Iterator<Item = NodeIx> {
        self.pools.iter().flat_map(|&pool| self.draft.spaces.schedulable(pool))
    }

    /// Counts the nodes that the request may use, as if they were empty.
    pub(super) fn nodes(&self) -> u64 {
        let (draft, work) = (self.draft, &self.draft.jobs[self.job]);
        let spaces = &draft.spaces;
        if !work.is_restricted && *self.policy != ClassPolicy::Reserve {
            return self.pools.iter().map(|&pool| spaces.count_of_size(pool, work.order)).sum();
        }
        count(self.suitable())
    }
}
