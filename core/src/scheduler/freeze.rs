//! The engine's snapshot of the scheduler's state, built once a cycle.
//!
//! Parts without changes are taken over from the last cycle's snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::jobs::Admission;
use super::nodes::{NodeKey, NodeTable};
use super::shares::ShareRecord;
use super::tracked_job::TrackedJob;
use super::users::UserPlaces;
use crate::engine::{Job, Node, Promise, Share, Snapshot};
use crate::model::{IxVec, JobId, JobSpec, NodeIx, Order, QShares, Tags};

/// Most lists of nodes by tags that are kept when their last job is gone.
const TAG_LISTS_MAX: usize = 1000;

/// Space promised to a job, by a place that lasts longer than a snapshot's.
#[derive(Clone, Debug)]
pub(super) struct PromiseRecord {
    pub job: JobId,
    pub node: NodeKey,
    pub order: Order,
    pub rank: Option<u32>,
}

/// Nodes in the last cycle's snapshot, with the facts that are not in their own records.
#[derive(Clone, Debug)]
pub(super) struct CachedNodes {
    nodes: Arc<IxVec<NodeIx, Node>>,
    limbo: BTreeMap<NodeKey, QShares>,
    blacklisted: BTreeSet<NodeKey>,
    in_maintenance: BTreeSet<NodeKey>,
}

/// Translates indices of the scheduler into rows of the snapshot.
struct SnapshotRows<'a> {
    nodes: &'a NodeTable,
    users: &'a UserPlaces,
    tag_lists: &'a BTreeMap<Tags, Arc<[NodeIx]>>,
}

impl Scheduler {
    /// Builds the next cycle's snapshot. Nodes in `blacklisted` and `in_maintenance` get no new
    /// shares.
    pub(super) fn freeze(
        &mut self,
        blacklisted: BTreeSet<NodeKey>,
        in_maintenance: BTreeSet<NodeKey>,
    ) -> Snapshot {
        let have_tags_changed = self.nodes.take_changed_tags();
        if have_tags_changed || !self.are_places_as_before() {
            self.jobs.values_mut().for_each(TrackedJob::drop_cached);
            self.tag_lists.clear();
        }
        self.list_tagged_nodes();
        let mut limbo = self.limbo_by_node();
        let places = SnapshotRows {
            nodes: &self.nodes,
            users: self.users.places(),
            tag_lists: &self.tag_lists,
        };
        let mut jobs = IxVec::with_capacity(self.jobs.len());
        for job in self.jobs.values() {
            if job.is_unchanged() || job.admission.is_ok() {
                jobs.push(job.frozen(|job| places.job(job)));
            } else {
                for share in job.shares.iter() {
                    *limbo.entry(share.node).or_default() += share.order.qshares();
                }
            }
        }
        let promises = self.promises.iter().map(|promise| Promise {
            rank: promise.rank,
            job: promise.job,
            node: self.nodes.places().of(promise.node),
            order: promise.order,
        });
        Snapshot {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            promises: promises.collect(),
            turns: self.turn_accounts(),
            put_off: self.put_off.clone(),
            quiescence: self.quiescence.freeze(),
            users: Arc::clone(&self.users.places().names),
            jobs: Arc::new(jobs),
            now: self.time(),
            windows: self.freeze_windows(),
            hours: self.freeze_hours(),
            nodes: self.freeze_nodes(limbo, blacklisted, in_maintenance),
        }
    }

    /// Lists the nodes of all tags that jobs without a cached snapshot ask for. All jobs that ask for
    /// the same share one list.
    fn list_tagged_nodes(&mut self) {
        if TAG_LISTS_MAX < self.tag_lists.len() {
            self.tag_lists.clear();
        }
        let new = self.jobs.values().filter(|job| !job.is_unchanged() && !job.spec.tags.is_empty());
        for job in new {
            if !self.tag_lists.contains_key(&job.spec.tags) {
                let rows = self.nodes.rows_with(&job.spec.tags);
                self.tag_lists.insert(job.spec.tags.clone(), rows);
            }
        }
    }

    /// True if all nodes and users have the row that they had in the last snapshot. The number of
    /// nodes suffices as a test: a forgotten node drops all caches.
    fn are_places_as_before(&self) -> bool {
        self.planned.as_deref().is_some_and(|last| {
            last.snapshot.nodes.len() == self.nodes.len()
                && last.snapshot.users == self.users.places().names
        })
    }

    fn freeze_nodes(
        &mut self,
        limbo: BTreeMap<NodeKey, QShares>,
        blacklisted: BTreeSet<NodeKey>,
        in_maintenance: BTreeSet<NodeKey>,
    ) -> Arc<IxVec<NodeIx, Node>> {
        let is_as_before = |last: &&CachedNodes| {
            !self.nodes.have_changed()
                && last.limbo == limbo
                && last.blacklisted == blacklisted
                && last.in_maintenance == in_maintenance
        };
        if let Some(last) = self.frozen_nodes.as_ref().filter(is_as_before) {
            return Arc::clone(&last.nodes);
        }
        let nodes = self.nodes.by_name().map(|(node, record)| Node {
            tags: Arc::clone(&record.tags),
            preference: record.preference,
            name: record.report.name.clone(),
            order: record.order,
            pool: record.pool,
            state: record.state(blacklisted.contains(&node), in_maintenance.contains(&node)),
            limbo: limbo.get(&node).copied().unwrap_or_default(),
        });
        let nodes = Arc::new(nodes.collect());
        let frozen = CachedNodes { nodes: Arc::clone(&nodes), limbo, blacklisted, in_maintenance };
        if let Some(last) = self.frozen_nodes.replace(frozen) {
            let burdened =
                last.limbo.into_keys().chain(last.blacklisted).chain(last.in_maintenance);
            burdened.for_each(|node| self.nodes.note_unseen(node));
        }
        nodes
    }
}

impl CachedNodes {
    /// True if limbo shares, a blacklisting or maintenance, which the node's own record does not contain,
    /// affected the node.
    pub(super) fn has_extra_constraint(&self, node: NodeKey) -> bool {
        self.limbo.contains_key(&node)
            || self.blacklisted.contains(&node)
            || self.in_maintenance.contains(&node)
    }
}

impl SnapshotRows<'_> {
    /// Work that is not refused, as the engine sees it.
    fn job(&self, job: &TrackedJob) -> Job {
        let spec = &job.spec;
        let Admission { class, order, .. } =
            *job.admission.as_ref().expect("the engine sees no refused work");
        Job {
            gang: job.gang,
            shape: spec.shape.clone(),
            id: spec.id,
            user: self.users.of(job.user),
            class,
            kind: spec.kind,
            order,
            submitted: spec.submitted,
            threads: spec.threads,
            service: spec.service,
            nodes: self.allowed(spec),
            facts: spec.facts,
            behind_since: job.behind_since(),
            is_spent: job.is_spent,
            shares: job.shares.iter().map(|share| self.share(share)).collect(),
        }
    }

    /// Rows of the only nodes that the job may use, by its list, its tags and its exceptions. `None`
    /// means any.
    fn allowed(&self, spec: &JobSpec) -> Option<Arc<[NodeIx]>> {
        let listed = self.listed(spec);
        let places = self.nodes.places();
        let excepted = spec.except_nodes.iter().filter_map(|name| self.nodes.find(name));
        let excepted: BTreeSet<NodeIx> = excepted.map(|node| places.of(node)).collect();
        // A name without a node excepts none. The list is built anew once the node is there.
        if excepted.is_empty() {
            return listed;
        }
        let is_left = |node: &NodeIx| !excepted.contains(node);
        Some(match listed {
            Some(listed) => listed.iter().copied().filter(is_left).collect(),
            None => (0..self.nodes.by_name().len()).map(NodeIx).filter(is_left).collect(),
        })
    }

    /// Rows of the only nodes that the job may use, by its list and its tags. `None` means any.
    fn listed(&self, spec: &JobSpec) -> Option<Arc<[NodeIx]>> {
        let tagged = self.tag_lists.get(&spec.tags).filter(|_| !spec.tags.is_empty());
        if spec.nodes.is_empty() {
            return tagged.cloned();
        }
        let places = self.nodes.places();
        let named = |name: &String| Some(places.of(self.nodes.find(name)?));
        let has_tags = |node: &NodeIx| tagged.is_none_or(|list| list.binary_search(node).is_ok());
        let mut listed: Vec<NodeIx> =
            spec.nodes.iter().filter_map(named).filter(has_tags).collect();
        listed.sort_unstable();
        listed.dedup();
        Some(listed.into())
    }

    fn share(&self, share: &ShareRecord) -> Share {
        Share {
            rank: share.rank,
            id: share.id,
            node: self.nodes.places().of(share.node),
            order: share.order,
            state: share.state,
            facts: share.facts,
        }
    }
}
