//! A schedule, entered in the books; and the books, as readers see them.
//!
//! Design: "Dispatch".

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scheduler;
use super::freeze::BookedPromise;
use super::jobs::{Booked, JobBook};
use super::machines::{ByNode, NodeIx};
use super::pictures::Pictures;
use super::shares::{ShareBook, Shares};
use super::view::{
    ClassView, JobView, NodeView, Planned, Removal, ShareOnNode, ShareView, View, Waiting,
};
use crate::engine::{Account, Schedule};
use crate::model::{
    JobId, Millis, NShares, Name, QShares, Quantum, ShareFacts, ShareId, ShareState,
};

impl Scheduler {
    /// Enters what the engine decided. Says whether a job began to wait, or no longer does.
    pub(super) fn apply(&mut self, schedule: &Schedule) -> bool {
        let nodes: Vec<NodeIx> = self.machines.by_name().map(|(node, _)| node).collect();
        for preemption in &schedule.preemptions {
            let job =
                self.jobs.get_mut(&preemption.job).expect("the engine preempts work that exists");
            job.evict_share(preemption.share, Removal::Preempted);
            job.last.preemptions.push(*preemption);
        }
        for expansion in &schedule.expansions {
            let share = ShareBook {
                id: ShareId(self.next_share),
                node: nodes[expansion.machine.0],
                order: expansion.order,
                state: ShareState::Held,
                removal: None,
                is_seen: false,
                facts: ShareFacts::default(),
            };
            let job =
                self.jobs.get_mut(&expansion.job).expect("the engine expands work that exists");
            job.shares.insert(share);
            job.last.has_grown = true;
            self.next_share += 1;
        }
        let beneficiaries: BTreeSet<JobId> =
            schedule.preemptions.iter().filter_map(|receipt| receipt.beneficiary).collect();
        let (cycle, mut has_changed) = (self.cycle, false);
        let books = self.jobs.values_mut().filter(|job| job.admission.is_ok());
        let mut books: Vec<((Millis, JobId), &mut Booked)> =
            books.map(|job| (job.age(), job)).collect();
        books.sort_by_key(|(age, _)| *age);
        for ((_, job), report) in books.into_iter().zip(&schedule.report.jobs) {
            assert_eq!(job.spec.id, report.job, "the engine reports on all work, oldest first");
            has_changed |= job.note_report(cycle, *report, beneficiaries.contains(&report.job));
        }
        self.calm.remember(schedule);
        let promises = schedule.promises.iter();
        self.promises = promises
            .map(|promise| BookedPromise {
                job: promise.job,
                node: nodes[promise.machine.0],
                order: promise.order,
            })
            .collect();
        has_changed
    }

    /// Has the next view drawn from scratch, for those who doubt that what is taken over from the last
    /// one is right.
    pub fn forget_pictures(&mut self) {
        self.jobs.values_mut().for_each(Booked::discard_picture);
        self.last_view = None;
    }

    /// The books as they are now, without planning.
    pub fn view(&self) -> View {
        let mut jobs: Vec<((Millis, JobId), &Booked)> =
            self.jobs.values().map(|job| (job.age(), job)).collect();
        jobs.sort_by_key(|(age, _)| *age);
        let pictures = jobs.into_iter().map(|(_, job)| job.picture(|book| self.job_view(book)));
        View {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            nodes: Arc::new(self.node_views()),
            jobs: Arc::new(pictures.collect()),
            classes: Arc::new(self.class_views()),
            varied_off: self
                .machines
                .varied_off()
                .map(|(node, why)| (node.clone(), why.to_owned()))
                .collect(),
            lost_held_back: self.machines.held_back(),
            planned: self.planned.clone(),
            next_share: ShareId(self.next_share),
        }
    }

    /// Of nodes that are as they were the pictures are those of the last cycle.
    fn node_views(&self) -> Pictures<NodeView> {
        let all = || {
            self.jobs.iter().flat_map(|(&id, job)| job.shares.iter().map(move |share| (id, share)))
        };
        let mut counts = ByNode::new(&self.machines, 0);
        for (_, share) in all() {
            counts[share.node] += 1;
        }
        let mut shares = counts.map(Vec::with_capacity);
        for (job, share) in all() {
            shares[share.node].push((job, share.id, share.order, share.state));
        }
        let limbo = self.limbo_by_node();
        let blacklisted = self.blacklisted_nodes();
        let last = self.last_view.iter().flat_map(|view| view.nodes.shared());
        let mut last = last.peekable();
        let nodes = self.machines.by_name().map(|(node, machine)| {
            let pool = &self.topology.pools[machine.pool.0];
            let shares: Vec<ShareOnNode> = std::mem::take(&mut shares[node]);
            let drawn = NodeView {
                name: machine.report.name.clone(),
                pool: pool.name.clone(),
                quantum: pool.quantum,
                memory: machine.report.memory,
                order: machine.order,
                used: shares.iter().map(|(_, _, order, _)| order.qshares()).sum::<QShares>()
                    + limbo.get(&node).copied().unwrap_or_default(),
                state: machine.state(blacklisted.contains(&node)),
                missed: machine.missed,
                vary_off_reason: machine.vary_off_reason.clone(),
                shares,
            };
            let known = last.next_if(|known| known.name == drawn.name);
            known.filter(|known| ***known == drawn).map_or_else(|| Arc::new(drawn), Arc::clone)
        });
        nodes.collect()
    }

    fn job_view(&self, job: &JobBook) -> JobView {
        let (spec, report) = (&job.spec, job.last.report);
        let admission = job.admission.as_ref().ok();
        let shares = |book: &Shares| {
            let views = book.iter().map(|share| {
                let machine = &self.machines[share.node];
                let quantum = self.topology.pools[machine.pool.0].quantum;
                let quantum = admission.map_or(quantum, |admission| admission.quantum);
                share_view(share, machine.report.name.clone(), quantum)
            });
            views.collect()
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
        let classes = self.topology.classes.iter().map(|class| ClassView {
            name: class.name.clone(),
            jobs: 0,
            account: Account::default(),
            users: Vec::new(),
        });
        let mut views: Vec<ClassView> = classes.collect();
        for job in self.jobs.values() {
            let class = match &job.admission {
                Ok(admission) => Some(admission.class),
                Err(_) => self.topology.class_named(&job.spec.class),
            };
            if let Some(class) = class {
                views[class.0].jobs += 1;
            }
        }
        if let Some(Planned { snapshot, schedule }) = self.planned.as_deref() {
            for (view, account) in views.iter_mut().zip(&schedule.report.classes) {
                view.account = *account;
            }
            for user in &schedule.report.users {
                // The configuration may have fewer classes since.
                if let Some(view) = views.get_mut(user.class.0) {
                    view.users.push((snapshot.users[user.user.0].clone(), user.account));
                }
            }
        }
        views
    }
}

fn share_view(share: &ShareBook, node: Name, quantum: Quantum) -> ShareView {
    ShareView {
        id: share.id,
        node,
        order: share.order,
        memory: quantum.memory_of(share.order.qshares()),
        state: share.state,
        removal: share.removal,
        is_seen: share.is_seen,
        facts: share.facts,
    }
}
