//! The engine's snapshot of the scheduler's state, built once a cycle.
//!
//! Parts without changes are taken over from the last cycle's snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::booked::Booked;
use super::jobs::Admission;
use super::machines::{Machines, NodeIx};
use super::shares::ShareBook;
use super::users::UserPlaces;
use crate::engine::{Job, Machine, Promise, Share, Snapshot};
use crate::model::{JobId, MachineIx, Order, QShares};

/// Room promised to a job, by a place that lasts longer than a snapshot's.
#[derive(Clone, Debug)]
pub(super) struct BookedPromise {
    pub job: JobId,
    pub node: NodeIx,
    pub order: Order,
}

/// Nodes in the last cycle's snapshot, with the facts that are not in their own records.
#[derive(Clone, Debug)]
pub(super) struct FrozenMachines {
    machines: Arc<Vec<Machine>>,
    limbo: BTreeMap<NodeIx, QShares>,
    blacklisted: BTreeSet<NodeIx>,
}

/// Translates indices of the scheduler into rows of the snapshot.
struct SnapshotRows<'a> {
    machines: &'a Machines,
    users: &'a UserPlaces,
}

impl Scheduler {
    /// Builds the next cycle's snapshot. Nodes in `blacklisted` get no new shares.
    pub(super) fn freeze(&mut self, blacklisted: BTreeSet<NodeIx>) -> Snapshot {
        if !self.are_places_as_before() {
            self.jobs.values_mut().for_each(Booked::thaw);
        }
        let mut limbo = self.limbo_by_node();
        let places = SnapshotRows { machines: &self.machines, users: self.users.places() };
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for job in self.jobs.values() {
            if job.is_as_frozen() || job.admission.is_ok() {
                jobs.push(job.frozen(|job| places.job(job)));
            } else {
                for share in job.shares.iter() {
                    *limbo.entry(share.node).or_default() += share.order.qshares();
                }
            }
        }
        let promises = self.promises.iter().map(|promise| Promise {
            job: promise.job,
            machine: self.machines.places().of(promise.node),
            order: promise.order,
        });
        Snapshot {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            promises: promises.collect(),
            put_off: self.put_off.clone(),
            calm: self.calm.freeze(),
            users: Arc::clone(&self.users.places().names),
            jobs: Arc::new(jobs),
            machines: self.freeze_machines(limbo, blacklisted),
        }
    }

    /// True if all nodes and users have the row that they had in the last snapshot. The number of
    /// nodes suffices as a test: a forgotten node drops all caches.
    fn are_places_as_before(&self) -> bool {
        self.planned.as_deref().is_some_and(|last| {
            last.snapshot.machines.len() == self.machines.len()
                && last.snapshot.users == self.users.places().names
        })
    }

    fn freeze_machines(
        &mut self,
        limbo: BTreeMap<NodeIx, QShares>,
        blacklisted: BTreeSet<NodeIx>,
    ) -> Arc<Vec<Machine>> {
        let is_as_before = |last: &&FrozenMachines| {
            !self.machines.have_changed() && last.limbo == limbo && last.blacklisted == blacklisted
        };
        if let Some(last) = self.frozen_machines.as_ref().filter(is_as_before) {
            return Arc::clone(&last.machines);
        }
        let machines = self.machines.by_name().map(|(node, machine)| Machine {
            name: machine.report.name.clone(),
            order: machine.order,
            pool: machine.pool,
            state: machine.state(blacklisted.contains(&node)),
            limbo: limbo.get(&node).copied().unwrap_or_default(),
        });
        let machines = Arc::new(machines.collect());
        let frozen = FrozenMachines { machines: Arc::clone(&machines), limbo, blacklisted };
        if let Some(last) = self.frozen_machines.replace(frozen) {
            let burdened = last.limbo.into_keys().chain(last.blacklisted);
            burdened.for_each(|node| self.machines.note_unseen(node));
        }
        machines
    }
}

impl FrozenMachines {
    /// True if limbo shares or a blacklisting, which the node's own record does not contain,
    /// affected the node.
    pub(super) fn is_burdened(&self, node: NodeIx) -> bool {
        self.limbo.contains_key(&node) || self.blacklisted.contains(&node)
    }
}

impl SnapshotRows<'_> {
    /// Work that is not refused, as the engine sees it.
    fn job(&self, job: &Booked) -> Job {
        let spec = &job.spec;
        let Admission { class, order, .. } =
            *job.admission.as_ref().expect("the engine sees no refused work");
        let places = self.machines.places();
        let named = |name: &String| Some(places.of(self.machines.find(name)?));
        let mut machines: Vec<MachineIx> = spec.machines.iter().filter_map(named).collect();
        machines.sort_unstable();
        machines.dedup();
        Job {
            id: spec.id,
            user: self.users.of(job.user),
            class,
            kind: spec.kind,
            order,
            submitted: spec.submitted,
            threads: spec.threads,
            service: spec.service,
            machines: (!spec.machines.is_empty()).then_some(machines),
            facts: spec.facts,
            behind_since: job.behind_since(),
            is_spent: job.is_spent,
            shares: job.shares.iter().map(|share| self.share(share)).collect(),
        }
    }

    fn share(&self, share: &ShareBook) -> Share {
        Share {
            id: share.id,
            machine: self.machines.places().of(share.node),
            order: share.order,
            state: share.state,
            facts: share.facts,
        }
    }
}
