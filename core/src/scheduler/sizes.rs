//! Sizes of shares: of whole nodes, and of work that could not be understood.

use std::collections::BTreeMap;

use super::jobs::JobRecord;
use super::nodes::{NodeKey, NodeRecord};
use super::shares::ShareRecord;
use super::{Scheduler, UnattributedShare};
use crate::model::{ClassPolicy, Order, QShares, Topology};

impl Scheduler {
    /// Sizes each reservation to the whole of its node, which may have grown or shrunk.
    pub(super) fn measure_reservations(&mut self) {
        if !self.topology.classes.iter().any(|class| class.policy == ClassPolicy::Reserve) {
            return;
        }
        // In an unchanged snapshot, only a change of the node changes the order.
        let is_all_new = self.nodes.have_changed();
        for job in self.jobs.values_mut().filter(|job| is_all_new || !job.is_unchanged()) {
            if job.policy(&self.topology) != Some(&ClassPolicy::Reserve) {
                continue;
            }
            let order_now =
                |share: &ShareRecord| whole(&self.nodes[share.node]).unwrap_or(share.order);
            if job.shares.iter().all(|share| share.order == order_now(share)) {
                continue;
            }
            for share in job.shares.iter_mut() {
                share.order = order_now(share);
            }
        }
    }

    /// Space on each node taken by work that could not be understood.
    pub(super) fn limbo_by_node(&self) -> BTreeMap<NodeKey, QShares> {
        let mut taken: BTreeMap<NodeKey, QShares> = BTreeMap::new();
        for share in self.limbo.values() {
            *taken.entry(share.node).or_default() += self.size_of(share);
        }
        taken
    }

    /// Size of a share in limbo: all of its node if its memory is unknown.
    fn size_of(&self, share: &UnattributedShare) -> QShares {
        let node = &self.nodes[share.node];
        let quantum = self.topology.pools[node.pool].quantum;
        let order = share.memory.and_then(|memory| quantum.order_of_work(memory));
        order.map_or(node.order, Order::qshares)
    }
}

/// Order of a share of `job` on `node`. A reservation has the whole node; a job without a class
/// has the order of its memory in the node's pool.
pub(super) fn jobs_order(job: &JobRecord, topology: &Topology, node: &NodeRecord) -> Order {
    let quantum = topology.pools[node.pool].quantum;
    let declared = quantum.order_of_work(job.spec.memory);
    let order = match (&job.admission, job.policy(topology)) {
        (Ok(admission), Some(ClassPolicy::Reserve)) => whole(node).or(Some(admission.order)),
        (Ok(admission), _) => Some(admission.order),
        (Err(_), _) => declared,
    };
    order.or(Order::new(1)).expect("one is an order")
}

/// Order of the whole node; `None` if it has less than a quantum, or has not reported.
pub(super) fn whole(node: &NodeRecord) -> Option<Order> {
    u32::try_from(node.order.0).ok().and_then(Order::new)
}
