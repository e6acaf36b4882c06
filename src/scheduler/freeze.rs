//! The books, as the engine sees them: one snapshot a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::jobs::{Admission, Booked, JobBook};
use super::machines::{ByNode, Machines, NodeIx};
use super::shares::ShareBook;
use super::users::UserPlaces;
use crate::engine::{Job, Machine, Promise, Share, Snapshot};
use crate::model::{JobId, MachineIx, Millis, Order, QShares};

/// Room promised to a job, by a place that lasts longer than a snapshot's.
#[derive(Clone, Debug)]
pub(super) struct BookedPromise {
    pub job: JobId,
    pub node: NodeIx,
    pub order: Order,
}

/// Turns places in the books into places in the snapshot.
struct Places<'a> {
    books: &'a Machines,
    machines: ByNode<MachineIx>,
    users: UserPlaces,
}

impl Scheduler {
    /// All that the next cycle may look at. Nodes in `blacklisted` get no work.
    pub(super) fn freeze(&self, blacklisted: &BTreeSet<NodeIx>) -> Snapshot {
        let mut limbo = self.limbo_by_node();
        let mut admitted: Vec<((Millis, JobId), &Booked, Admission)> =
            Vec::with_capacity(self.jobs.len());
        for job in self.jobs.values() {
            if let Ok(admission) = &job.admission {
                admitted.push((job.age(), job, *admission));
            } else {
                for share in job.shares.iter() {
                    *limbo.entry(share.node).or_default() += share.order.qshares();
                }
            }
        }
        admitted.sort_by_key(|(age, ..)| *age);
        let places = Places {
            books: &self.machines,
            machines: self.machines.places(),
            users: self.users.places(admitted.iter().map(|(_, job, _)| job.user)),
        };
        let jobs = admitted.into_iter().map(|(_, job, admission)| places.job(job, admission));
        let jobs = jobs.collect();
        let promises = self.promises.iter().map(|promise| Promise {
            job: promise.job,
            machine: places.machines[promise.node],
            order: promise.order,
        });
        Snapshot {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            machines: Arc::new(self.freeze_machines(&limbo, blacklisted)),
            promises: promises.collect(),
            calm: self.calm.freeze(),
            users: Arc::new(places.users.names),
            jobs: Arc::new(jobs),
        }
    }

    fn freeze_machines(
        &self,
        limbo: &BTreeMap<NodeIx, QShares>,
        blacklisted: &BTreeSet<NodeIx>,
    ) -> Vec<Machine> {
        let machines = self.machines.by_name().map(|(node, machine)| Machine {
            name: machine.report.name.clone(),
            order: machine.order,
            pool: machine.pool,
            state: machine.state(blacklisted.contains(&node)),
            limbo: limbo.get(&node).copied().unwrap_or_default(),
        });
        machines.collect()
    }
}

impl Places<'_> {
    fn job(&self, job: &JobBook, admission: Admission) -> Job {
        let spec = &job.spec;
        let mut machines: Vec<MachineIx> = spec
            .machines
            .iter()
            .filter_map(|name| Some(self.machines[self.books.find(name)?]))
            .collect();
        machines.sort_unstable();
        machines.dedup();
        Job {
            id: spec.id,
            user: self.users.of(job.user),
            class: admission.class,
            kind: spec.kind,
            order: admission.order,
            submitted: spec.submitted,
            threads: spec.threads,
            service: spec.service,
            machines: (!spec.machines.is_empty()).then_some(machines),
            facts: spec.facts,
            behind_since: job.behind_since,
            is_spent: job.is_spent,
            shares: job.shares.iter().map(|share| self.share(share)).collect(),
        }
    }

    fn share(&self, share: &ShareBook) -> Share {
        Share {
            id: share.id,
            machine: self.machines[share.node],
            order: share.order,
            state: share.state,
            facts: share.facts,
        }
    }
}
