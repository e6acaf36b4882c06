//! Eviction of shares that may not stay on their node, as opposed to preemption.
//!
//! This table says which event evicts which kind of job (decision D7, I06):
//!
//! | event | fair-share work | other jobs | services | arbitrary processes | reservations |
//! |---|---|---|---|---|---|
//! | vary off | evicted | stays | stays | stays | stays |
//! | node death | purged | purged | purged | purged | stays |
//! | node lost, by an operator | purged | purged | purged | purged | stays |
//! | blacklisting | evicted | evicted | evicted | stays | stays |
//!
//! An evicted share leaves when the orchestrator confirms its end. A purged share is gone at once,
//! and its removal is repeated until the orchestrator has confirmed it. Design: "Preemption vs
//! Eviction", "Blacklists and Whitelists".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::command::{CommandError, CommandOutcome};
use super::jobs::JobRecord;
use super::nodes::{NodeKey, NodeTable};
use super::shares::ShareRecord;
use super::sizes::jobs_order;
use super::view::Removal;
use crate::model::{
    ClassPolicy, JobId, JobKind, Name, Order, QShares, ResourceClass, ShareId, SharePhase, Topology,
};

impl Scheduler {
    /// Removes the shares of nodes that died, except reservations.
    pub(super) fn lose_dead_nodes(&mut self) {
        if !self.nodes.has_silent() {
            return;
        }
        let settings = &self.topology.settings;
        let dead = self.nodes.bury(settings.mass_loss_percent, settings.node_stability);
        if dead.is_empty() {
            return;
        }
        self.quiescence.stir();
        let is_lost = |share: &ShareRecord| dead.contains(&share.node);
        let mut refunds = Vec::new();
        for job in self.jobs.values_mut().filter(|job| job.spec.kind != JobKind::Reservation) {
            if job.shares.iter().any(is_lost) {
                for share in job.shares.take(is_lost) {
                    job.purge(share);
                }
                refunds.extend(job.break_gang(&self.topology, self.cycle));
            }
        }
        for refund in &refunds {
            self.pay_back(refund);
        }
    }

    /// Forgets names that most likely are no nodes: long dead, with heartbeats in at most a single interval,
    /// and unused.
    pub(super) fn forget_passing_names(&mut self) {
        let passing = self.nodes.passing_names(self.topology.settings.node_stability);
        if passing.is_empty() {
            return;
        }
        let in_use = self.nodes_in_use();
        for node in passing.into_iter().filter(|node| !in_use.contains(node)) {
            self.forget_node(node);
        }
    }

    /// Forgets nodes that are gone for good.
    ///
    /// # Errors
    ///
    /// If a node is unknown, reports, or has anything booked; then no node is forgotten.
    pub(super) fn forget_nodes(
        &mut self,
        nodes: &[String],
    ) -> Result<CommandOutcome, CommandError> {
        self.nodes.check_known(nodes)?;
        self.nodes.check_silent(nodes)?;
        let in_use = self.nodes_in_use();
        let is_used =
            |name: &&String| self.nodes.find(name).is_some_and(|node| in_use.contains(&node));
        let used: Vec<String> = nodes.iter().filter(is_used).cloned().collect();
        if !used.is_empty() {
            return Err(CommandError::StillInUse(used));
        }
        let distinct: BTreeSet<&String> = nodes.iter().collect();
        for name in distinct {
            let node = self.nodes.find(name).expect("checked above");
            self.forget_node(node);
        }
        Ok(CommandOutcome { changed: nodes.to_vec() })
    }

    fn forget_node(&mut self, node: NodeKey) {
        let name = self.nodes.forget_node(node);
        self.crowded.remove(&node);
        self.forgotten.push(name);
        // Cached views and snapshots refer to the node by its row.
        self.drop_cached_views();
    }

    /// The names of nodes that were forgotten since this was last asked.
    pub fn take_forgotten(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.forgotten)
    }

    /// Nodes with shares, promises, or losses without confirmation.
    fn nodes_in_use(&self) -> BTreeSet<NodeKey> {
        let jobs = self.jobs.values();
        let shares = jobs.flat_map(|job| job.shares.iter().chain(job.purged.iter()));
        let promised = self.promises.iter().map(|promise| promise.node);
        let limbo = self.limbo.values().map(|share| share.node);
        shares.map(|share| share.node).chain(promised).chain(limbo).collect()
    }

    /// Withdraws shares without a published process on nodes with more booked than they have, the
    /// newest first. An unexpected process was published on such a node. The orchestrator may have
    /// started the withdrawn share all the same. Its space is therefore free once its end is
    /// confirmed.
    pub(super) fn withdraw_what_does_not_fit(&mut self) {
        if self.crowded.is_empty() {
            return;
        }
        let mut used = self.limbo_by_node();
        used.retain(|node, _| self.crowded.contains(node));
        let shares = self.jobs.values().flat_map(|job| job.shares.iter());
        for share in shares.filter(|share| self.crowded.contains(&share.node)) {
            *used.entry(share.node).or_default() += share.order.qshares();
        }
        let mut over: BTreeMap<NodeKey, QShares> = BTreeMap::new();
        for (node, used) in used {
            let record = &self.nodes[node];
            // Of a node that has yet to report nothing is known.
            if record.order < used && !record.is_awaited {
                over.insert(node, used - record.order);
            }
        }
        self.crowded = over.keys().copied().collect();
        if over.is_empty() {
            return;
        }
        let jobs = self.jobs.values();
        let unseen = jobs.flat_map(|job| {
            let its = job.shares.iter().filter(|share| !share.is_seen);
            let its = its.filter(|share| over.contains_key(&share.node));
            its.map(|share| (share.id, job.spec.id, share.node, share.order, share.state))
        });
        let mut unseen: Vec<(ShareId, JobId, NodeKey, Order, SharePhase)> = unseen.collect();
        unseen.sort_unstable_by_key(|(share, ..)| std::cmp::Reverse(*share));
        for (share, job, node, order, state) in unseen {
            let Some(over) = over.get_mut(&node).filter(|over| QShares(0) < **over) else {
                continue;
            };
            *over = QShares(over.0.saturating_sub(order.qshares().0));
            if state == SharePhase::Held
                && let Some(job) = self.jobs.get_mut(job)
            {
                job.evict_share(share, Removal::Withdrawn);
            }
        }
    }

    /// Restores the purged shares of a node that is back. An unconfirmed process may still run
    /// there, and takes its space until the orchestrator confirms its end.
    pub(super) fn recount_lost(&mut self, node: NodeKey) {
        for job in self.jobs.values_mut().filter(|job| !job.purged.is_empty()) {
            for share in job.purged.take(|share| share.node == node) {
                job.shares.insert(share);
            }
        }
    }

    /// Evicts fair-share jobs from nodes that are varied off, and evictable kinds of jobs from
    /// blacklisted nodes.
    pub(super) fn evict_what_may_not_stay(&mut self, blacklisted: &BTreeSet<NodeKey>) {
        let (nodes, topology) = (&self.nodes, &self.topology);
        if nodes.varied_off().is_empty() && blacklisted.is_empty() {
            return;
        }
        // Shares of a job unchanged since the last cycle were evicted then, or may stay.
        let mut refunds = Vec::new();
        let is_all_new = nodes.have_changed() || !blacklisted.is_empty();
        for job in self.jobs.values_mut().filter(|job| is_all_new || !job.is_unchanged()) {
            if job.policy(topology).is_some_and(ClassPolicy::is_preemptable) {
                job.evict(Removal::VariedOff, |share| nodes[share.node].vary_off_reason.is_some());
            }
            if matches!(job.spec.kind, JobKind::Job | JobKind::Service) {
                job.evict(Removal::Blacklisted, |share| blacklisted.contains(&share.node));
            }
            if job.gang().is_some() && job.last.has_shrunk {
                refunds.extend(job.break_gang(topology, self.cycle));
            }
        }
        for refund in &refunds {
            self.pay_back(refund);
        }
    }

    /// Nodes with shares that the configuration does not allow there. Such a node gets no new share
    /// until the shares have exited.
    pub(super) fn blacklisted_nodes(&self) -> BTreeSet<NodeKey> {
        self.misplaced().map(|(_, share)| share.node).collect()
    }

    /// The shares that configuration does not allow where they are, each with its job.
    pub(super) fn misplaced(&self) -> impl Iterator<Item = (JobId, &ShareRecord)> {
        // Most work may be anywhere, and there may be much of it.
        let is_everywhere: Vec<bool> = self
            .topology
            .classes
            .iter()
            .map(|class| may_be_anywhere(&self.topology, class))
            .collect();
        let is_bound = move |job: &JobRecord| {
            job.admission.as_ref().map_or(true, |admission| !is_everywhere[admission.class.0])
        };
        let is_misplaced = |job: &JobRecord, share: &ShareRecord| {
            !is_allowed_on(&self.topology, &self.nodes, job, share.node)
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

    /// Replaces the configuration: admits all jobs again, and assigns all nodes to their pools.
    pub(super) fn reconfigure(&mut self, topology: Topology) {
        self.topology = Arc::new(topology);
        self.nodes.replace_all(&self.topology);
        self.promises.clear();
        for job in self.jobs.values_mut() {
            job.admit_anew(&self.topology);
            let order_on = |node| jobs_order(job, &self.topology, &self.nodes[node]);
            let orders: Vec<Order> = job.shares.iter().map(|share| order_on(share.node)).collect();
            for (share, order) in job.shares.iter_mut().zip(orders) {
                share.order = order;
            }
        }
        self.jobs.count_anew();
    }
}

/// True if jobs of `class` may run on any node.
fn may_be_anywhere(topology: &Topology, class: &ResourceClass) -> bool {
    let mut pools = topology.pools.places();
    match class.policy {
        ClassPolicy::FairShare { .. } => pools.all(|pool| topology.is_within(pool, class.pool)),
        ClassPolicy::FixedShare | ClassPolicy::Reserve => pools.all(|pool| pool == class.pool),
    }
}

/// True if `job` may run on `node`: a fair-share job in its class's pool or a pool inside it, other
/// jobs in their class's pool only.
fn is_allowed_on(topology: &Topology, nodes: &NodeTable, job: &JobRecord, node: NodeKey) -> bool {
    let Ok(admission) = &job.admission else { return false };
    let record = &nodes[node];
    let class = &topology.classes[admission.class];
    match class.policy {
        ClassPolicy::FairShare { .. } => topology.is_within(record.pool, class.pool),
        ClassPolicy::FixedShare | ClassPolicy::Reserve => record.pool == class.pool,
    }
}

impl JobRecord {
    /// Marks a share as leaving.
    pub(super) fn evict_share(&mut self, id: ShareId, removal: Removal) {
        let share = self.shares.get_mut(id).expect("an evicted share exists");
        share.state = SharePhase::Leaving;
        share.removal = Some(removal);
        self.last.has_shrunk = true;
    }

    /// Keeps a removed share for the report that it died with its node.
    fn purge(&mut self, share: ShareRecord) {
        let share =
            ShareRecord { state: SharePhase::Leaving, removal: Some(Removal::NodeDied), ..share };
        self.purged.insert(share);
        self.is_spent |= self.spec.kind != JobKind::Job;
        self.last.has_shrunk = true;
    }
}
