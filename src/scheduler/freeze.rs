//! The books, as the engine sees them: one snapshot a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::jobs::{Admission, JobBook, ShareBook};
use crate::engine::{Job, Machine, Promise, Share, Snapshot};
use crate::model::{JobId, MachineIx, MachineState, Order, UserIx};

/// Room promised to a job, by names that last longer than a snapshot.
#[derive(Clone, Debug)]
pub(super) struct BookedPromise {
    pub job: JobId,
    pub node: String,
    pub order: Order,
}

/// Turns names into places.
struct Places<'a> {
    machines: BTreeMap<&'a str, MachineIx>,
    users: BTreeMap<&'a str, UserIx>,
}

impl Scheduler {
    /// All that the next cycle may look at.
    pub(super) fn freeze(&self) -> Snapshot {
        let admitted =
            || self.jobs.values().filter_map(|job| Some((job, job.admission.as_ref().ok()?)));
        let users: BTreeSet<&str> = admitted().map(|(job, _)| job.spec.user.as_str()).collect();
        let names = self.machines.by_name.keys().map(String::as_str);
        let places = Places {
            machines: names.enumerate().map(|(ix, name)| (name, MachineIx(ix))).collect(),
            users: users.iter().enumerate().map(|(ix, &user)| (user, UserIx(ix))).collect(),
        };
        let mut jobs: Vec<Job> =
            admitted().map(|(job, admission)| places.job(job, *admission)).collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        let promises = self.promises.iter().filter_map(|promise| {
            let machine = *places.machines.get(promise.node.as_str())?;
            Some(Promise { job: promise.job, machine, order: promise.order })
        });
        Snapshot {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            machines: Arc::new(self.freeze_machines()),
            promises: promises.collect(),
            calm: self.calm.freeze(),
            users: Arc::new(users.into_iter().map(str::to_owned).collect()),
            jobs: Arc::new(jobs),
        }
    }

    fn freeze_machines(&self) -> Vec<Machine> {
        let mut limbo = self.limbo_by_node();
        let refused = self.jobs.values().filter(|job| job.admission.is_err());
        for share in refused.flat_map(|job| job.shares.values()) {
            *limbo.entry(share.node.as_str()).or_default() += share.order.qshares();
        }
        let blacklisted = self.blacklisted_nodes();
        let machines = self.machines.by_name.iter().map(|(name, machine)| Machine {
            name: name.clone(),
            order: machine.order,
            pool: machine.pool,
            state: MachineState {
                is_awaited: machine.is_awaited,
                is_dead: machine.is_dead,
                is_varied_off: self.machines.vary_off_reason(name).is_some(),
                is_quiesced: machine.report.is_quiesced,
                is_blacklisted: blacklisted.contains(name.as_str()),
            },
            limbo: limbo.get(name.as_str()).copied().unwrap_or_default(),
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
            .filter_map(|name| self.machines.get(name.as_str()).copied())
            .collect();
        machines.sort_unstable();
        machines.dedup();
        Job {
            id: spec.id,
            user: self.users[spec.user.as_str()],
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
            shares: job.shares.iter().map(|(&id, share)| self.share(id, share)).collect(),
        }
    }

    fn share(&self, id: crate::model::ShareId, share: &ShareBook) -> Share {
        Share {
            id,
            machine: self.machines[share.node.as_str()],
            order: share.order,
            state: share.state,
            facts: share.facts,
        }
    }
}
