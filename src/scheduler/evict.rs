//! What may not stay where it is: eviction, as opposed to preemption.
//!
//! One table says which event takes which kind of work (decision D7, I06):
//!
//! | event | fair-share work | other jobs | services | arbitrary processes | reservations |
//! |---|---|---|---|---|---|
//! | vary off | evicted | stays | stays | stays | stays |
//! | node death | purged | purged | purged | purged | stays |
//! | blacklisting | evicted | evicted | evicted | stays | stays |
//!
//! Evicted work leaves when the orchestrator confirms it; purged work is gone at once, and the
//! orchestrator is told until it has seen it. Design: "Preemption vs Eviction", "Blacklists and
//! Whitelists".

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scheduler;
use super::jobs::JobBook;
use super::jobs_order;
use super::machines::{Machines, NodeIx};
use super::shares::ShareBook;
use super::view::Removal;
use crate::model::{
    JobId, Order, Policy, PoolIx, ResourceClass, ShareId, ShareState, Topology, WorkKind,
};

impl Scheduler {
    /// Takes the work of nodes that died off the books, all but reservations.
    pub(super) fn purge_dead_nodes(&mut self) {
        let dead = self.machines.bury(self.topology.settings.mass_loss_percent);
        if dead.is_empty() {
            return;
        }
        self.calm.stir();
        let is_lost = |share: &ShareBook| dead.contains(&share.node);
        for job in self.jobs.values_mut().filter(|job| job.spec.kind != WorkKind::Reservation) {
            if job.shares.iter().any(is_lost) {
                for share in job.shares.take(is_lost) {
                    job.purge(share);
                }
            }
        }
    }

    /// A node is back: what was purged on it and not confirmed may still be running there, and
    /// takes its space until the orchestrator says that it has gone.
    pub(super) fn recount_purged(&mut self, node: NodeIx) {
        for job in self.jobs.values_mut().filter(|job| !job.purged.is_empty()) {
            for share in job.purged.take(|share| share.node == node) {
                job.shares.insert(share);
            }
        }
    }

    /// Evicts fair-share work from machines that are varied off, and from blacklisted machines
    /// what may be evicted from them.
    pub(super) fn evict_what_may_not_stay(&mut self, blacklisted: &BTreeSet<NodeIx>) {
        let (machines, topology) = (&self.machines, &self.topology);
        if machines.varied_off().is_empty() && blacklisted.is_empty() {
            return;
        }
        // What the last cycle saw and nobody touched since was evicted then, or may stay.
        let is_all_new = machines.have_changed() || !blacklisted.is_empty();
        for job in self.jobs.values_mut().filter(|job| is_all_new || !job.is_as_frozen()) {
            if job.policy(topology).is_some_and(Policy::is_preemptable) {
                job.evict(Removal::VariedOff, |share| {
                    machines[share.node].vary_off_reason.is_some()
                });
            }
            if matches!(job.spec.kind, WorkKind::Job | WorkKind::Service) {
                job.evict(Removal::Blacklisted, |share| blacklisted.contains(&share.node));
            }
        }
    }

    /// Machines with shares on them that configuration does not allow: until those have left, the
    /// machine gets no work.
    pub(super) fn blacklisted_nodes(&self) -> BTreeSet<NodeIx> {
        self.misplaced().map(|(_, share)| share.node).collect()
    }

    /// The shares that configuration does not allow where they are, each with its job.
    pub(super) fn misplaced(&self) -> impl Iterator<Item = (JobId, &ShareBook)> {
        // Most work may be anywhere, and there may be much of it.
        let is_everywhere: Vec<bool> = self
            .topology
            .classes
            .iter()
            .map(|class| may_be_anywhere(&self.topology, class))
            .collect();
        let is_bound = move |job: &JobBook| {
            job.admission.as_ref().map_or(true, |admission| !is_everywhere[admission.class.0])
        };
        let is_misplaced = |job: &JobBook, share: &ShareBook| {
            !may_be_at(&self.topology, &self.machines, job, share.node)
        };
        let strays = self.jobs.values().filter(move |job| {
            job.has_strays(|job| {
                is_bound(job) && job.shares.iter().any(|share| is_misplaced(job, share))
            })
        });
        strays.flat_map(move |job| {
            let shares = job.shares.iter().filter(move |share| is_misplaced(job, share));
            shares.map(|share| (job.spec.id, share))
        })
    }

    /// Replaces the configuration: every request is admitted anew, every machine finds its pool.
    pub(super) fn reconfigure(&mut self, topology: Topology) {
        self.topology = Arc::new(topology);
        self.machines.replace_all(&self.topology);
        self.promises.clear();
        for job in self.jobs.values_mut() {
            job.admit_anew(&self.topology);
            let order_on = |node| jobs_order(job, &self.topology, &self.machines[node]);
            let orders: Vec<Order> = job.shares.iter().map(|share| order_on(share.node)).collect();
            for (share, order) in job.shares.iter_mut().zip(orders) {
                share.order = order;
            }
        }
        self.jobs.count_anew();
    }
}

/// Whether work of `class` may be on any node.
fn may_be_anywhere(topology: &Topology, class: &ResourceClass) -> bool {
    let mut pools = (0..topology.pools.len()).map(PoolIx);
    match class.policy {
        Policy::FairShare { .. } => pools.all(|pool| topology.is_within(pool, class.pool)),
        Policy::FixedShare | Policy::Reserve => pools.all(|pool| pool == class.pool),
    }
}

/// Whether `job` may be on `node` at all: fair-share work in its class's pool or a pool in it,
/// other work in its class's pool only.
fn may_be_at(topology: &Topology, machines: &Machines, job: &JobBook, node: NodeIx) -> bool {
    let Ok(admission) = &job.admission else { return false };
    let machine = &machines[node];
    let class = &topology.classes[admission.class.0];
    match class.policy {
        Policy::FairShare { .. } => topology.is_within(machine.pool, class.pool),
        Policy::FixedShare | Policy::Reserve => machine.pool == class.pool,
    }
}

impl JobBook {
    /// Marks one share as leaving.
    pub(super) fn evict_share(&mut self, id: ShareId, removal: Removal) {
        let share = self.shares.get_mut(id).expect("a share that is told to leave exists");
        share.state = ShareState::Leaving;
        share.removal = Some(removal);
        self.last.has_shrunk = true;
    }

    /// Remembers to say of a share that was taken off the books that it died with its node.
    fn purge(&mut self, share: ShareBook) {
        let share =
            ShareBook { state: ShareState::Leaving, removal: Some(Removal::NodeDied), ..share };
        self.purged.insert(share);
        self.is_spent |= self.spec.kind != WorkKind::Job;
        self.last.has_shrunk = true;
    }
}
