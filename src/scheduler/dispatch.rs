//! A schedule, entered in the books; and the books, as readers see them.
//!
//! Design: "Dispatch".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::freeze::BookedPromise;
use super::jobs::{JobBook, ShareBook};
use super::view::{ClassView, JobView, NodeView, Planned, Removal, ShareView, View, Waiting};
use crate::engine::{Account, Schedule, Snapshot};
use crate::model::{
    JobId, MachineState, NShares, Order, QShares, Quantum, ShareFacts, ShareId, ShareState, count,
};

impl Scheduler {
    /// Enters what the engine decided. Says whether a job began to wait, or no longer does.
    pub(super) fn apply(&mut self, snapshot: &Snapshot, schedule: &Schedule) -> bool {
        let name_of = |machine: crate::model::MachineIx| snapshot.machine(machine).name.clone();
        for preemption in &schedule.preemptions {
            let job =
                self.jobs.get_mut(&preemption.job).expect("the engine preempts work that exists");
            job.evict_share(preemption.share, Removal::Preempted);
            job.last.preemptions.push(*preemption);
        }
        for expansion in &schedule.expansions {
            let share = ShareBook {
                node: name_of(expansion.machine),
                order: expansion.order,
                state: ShareState::Held,
                removal: None,
                is_seen: false,
                facts: ShareFacts::default(),
            };
            let job =
                self.jobs.get_mut(&expansion.job).expect("the engine expands work that exists");
            job.shares.insert(ShareId(self.next_share), share);
            job.last.has_grown = true;
            self.next_share += 1;
        }
        let beneficiaries: BTreeSet<JobId> =
            schedule.preemptions.iter().filter_map(|receipt| receipt.beneficiary).collect();
        let (cycle, mut has_changed) = (self.cycle, false);
        for report in &schedule.report.jobs {
            let job =
                self.jobs.get_mut(&report.job).expect("the engine reports on work that exists");
            has_changed |= job.note_report(cycle, *report, beneficiaries.contains(&report.job));
        }
        self.calm.remember(schedule);
        let promises = schedule.promises.iter();
        self.promises = promises
            .map(|promise| BookedPromise {
                job: promise.job,
                node: name_of(promise.machine),
                order: promise.order,
            })
            .collect();
        has_changed
    }

    /// The books as they are now, without planning.
    pub fn view(&self) -> View {
        let mut jobs: Vec<JobView> = self.jobs.values().map(|job| self.job_view(job)).collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        View {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            nodes: Arc::new(self.node_views()),
            jobs: Arc::new(jobs),
            classes: Arc::new(self.class_views()),
            varied_off: self
                .machines
                .varied_off()
                .map(|(node, why)| (node.to_owned(), why.to_owned()))
                .collect(),
            lost_held_back: self.machines.held_back().map(str::to_owned).collect(),
            planned: self.planned.clone(),
            next_share: ShareId(self.next_share),
        }
    }

    fn node_views(&self) -> Vec<NodeView> {
        let mut on_node: BTreeMap<&str, Vec<(JobId, ShareId, Order, ShareState)>> = BTreeMap::new();
        for (&id, job) in &self.jobs {
            for (&share_id, share) in &job.shares {
                on_node.entry(share.node.as_str()).or_default().push((
                    id,
                    share_id,
                    share.order,
                    share.state,
                ));
            }
        }
        let limbo = self.limbo_by_node();
        let blacklisted = self.blacklisted_nodes();
        let nodes = self.machines.by_name.iter().map(|(name, machine)| {
            let pool = &self.topology.pools[machine.pool.0];
            let vary_off_reason = self.machines.vary_off_reason(name);
            let shares = on_node.remove(name.as_str()).unwrap_or_default();
            NodeView {
                name: name.clone(),
                pool: pool.name.clone(),
                quantum: pool.quantum,
                memory: machine.report.memory,
                order: machine.order,
                used: shares.iter().map(|(_, _, order, _)| order.qshares()).sum::<QShares>()
                    + limbo.get(name.as_str()).copied().unwrap_or_default(),
                state: MachineState {
                    is_awaited: machine.is_awaited,
                    is_dead: machine.is_dead,
                    is_varied_off: vary_off_reason.is_some(),
                    is_quiesced: machine.report.is_quiesced,
                    is_blacklisted: blacklisted.contains(name.as_str()),
                },
                missed: machine.missed,
                vary_off_reason: vary_off_reason.map(str::to_owned),
                shares,
            }
        });
        nodes.collect()
    }

    fn job_view(&self, job: &JobBook) -> JobView {
        let (spec, report) = (&job.spec, job.last.report);
        let admission = job.admission.as_ref().ok();
        let quantum = |share: &ShareBook| match (admission, self.machines.by_name.get(&share.node))
        {
            (Some(admission), _) => admission.quantum,
            (None, Some(machine)) => self.topology.pools[machine.pool.0].quantum,
            (None, None) => self.topology.pools[0].quantum,
        };
        let shares = |book: &BTreeMap<ShareId, ShareBook>| {
            book.iter().map(|(&id, share)| share_view(id, share, quantum(share))).collect()
        };
        JobView {
            id: spec.id,
            user: spec.user.clone(),
            class: spec.class.clone(),
            kind: spec.kind,
            memory: spec.memory,
            order: admission.map(|admission| admission.order),
            quantum: admission.map(|admission| admission.quantum),
            threads: spec.threads,
            submitted: spec.submitted,
            facts: spec.facts,
            wanted: report.map_or(NShares(0), |report| report.wanted),
            cap: report.map(|report| report.cap),
            pure_fair_share: report.map_or(QShares(0), |report| report.pure_fair_share),
            given: report.map_or(NShares(0), |report| report.given),
            promised: report.map_or(NShares(0), |report| report.promised),
            behind_since: job.behind_since,
            held_back: report.and_then(|report| report.held_back),
            disposition: job.disposition(),
            reason: match &job.admission {
                Err(refusal) => Some(Waiting::Refused(refusal.clone())),
                Ok(_) => report.and_then(|report| report.reason).map(Waiting::Engine),
            },
            shares: shares(&job.shares),
            purged: shares(&job.purged),
            preemptions: job.last.preemptions.clone(),
        }
    }

    fn class_views(&self) -> Vec<ClassView> {
        let planned = self.planned.as_deref();
        let classes = self.topology.classes.iter().enumerate().map(|(ix, class)| {
            let jobs = self.jobs.values().filter(|job| job.spec.class == class.name);
            let account =
                planned.and_then(|planned| planned.schedule.report.classes.get(ix).copied());
            ClassView {
                name: class.name.clone(),
                jobs: count(jobs),
                account: account.unwrap_or_default(),
                users: planned.map(|planned| user_accounts(planned, ix)).unwrap_or_default(),
            }
        });
        classes.collect()
    }
}

fn user_accounts(planned: &Planned, class: usize) -> Vec<(String, Account)> {
    let of_class = planned.schedule.report.users.iter().filter(|user| user.class.0 == class);
    of_class.map(|user| (planned.snapshot.users[user.user.0].clone(), user.account)).collect()
}

fn share_view(id: ShareId, share: &ShareBook, quantum: Quantum) -> ShareView {
    ShareView {
        id,
        node: share.node.clone(),
        order: share.order,
        memory: quantum.memory_of(share.order.qshares()),
        state: share.state,
        removal: share.removal,
        is_seen: share.is_seen,
        facts: share.facts,
    }
}
