//! Applies a schedule to the scheduler's state, and builds the view for readers.
//!
//! Design: "Dispatch".

use std::sync::Arc;

use super::Scheduler;
use super::freeze::PromiseRecord;
use super::gangs::TurnSavings;
use super::jobs::JobRecord;
use super::nodes::NodeRecord;
use super::shared_list::SharedList;
use super::shares::{ShareList, ShareRecord};
use super::tracked_job::{Age, TrackedJob};
use super::view::{
    ClassView, JobView, Planned, Refusal, Removal, ShareView, ShareViews, View, Waiting,
};
use crate::engine::{CycleSchedule, Expansion, Job, JobAccount, JobReport, VictimRule};
use crate::model::{
    JobId, NShares, Name, QShares, Quantum, ShareFacts, ShareId, SharePhase, count,
};

impl Scheduler {
    /// Applies the engine's decisions. Returns true if a job began or ceased to wait.
    pub(super) fn apply(&mut self, schedule: &CycleSchedule) -> bool {
        for preemption in &schedule.preemptions {
            let job =
                self.jobs.get_mut(preemption.job).expect("the engine preempts work that exists");
            let removal = match preemption.rule {
                VictimRule::Window => Removal::Window,
                VictimRule::ClassClosed => Removal::ClassClosed,
                VictimRule::Overrun => Removal::Overrun,
                VictimRule::NoLongerAllowed
                | VictimRule::Urgent
                | VictimRule::Priority
                | VictimRule::FairShare
                | VictimRule::Defragmentation
                | VictimRule::FirstShare
                | VictimRule::Turn
                | VictimRule::Envy
                | VictimRule::Relocation => Removal::Preempted,
            };
            if removal == Removal::Overrun {
                (job.is_spent, job.gang.is_overrun) = (true, true);
            }
            job.evict_share(preemption.share, removal);
            job.last.preemptions.push(*preemption);
        }
        self.settle_turns(schedule);
        let has_changed = self.start_shares(schedule);
        self.quiescence.remember(schedule, &self.put_off);
        let places = self.nodes.places();
        let promises = schedule.promises.iter().map(|promise| PromiseRecord {
            rank: promise.rank,
            job: promise.job,
            node: places.node(promise.node),
            order: promise.order,
        });
        self.promises = promises.collect();
        self.put_off.clone_from(&schedule.put_off);
        has_changed
    }

    /// Gives all jobs their new shares, and records their reports.
    fn start_shares(&mut self, schedule: &CycleSchedule) -> bool {
        let places = self.nodes.places();
        let numbered = schedule.expansions.iter().zip(self.next_share..).enumerate();
        let mut expansions = ByJob::new(
            numbered.map(|(place, (expansion, number))| (expansion.job, (ShareId(number), place))),
        );
        let beneficiaries = schedule.preemptions.iter().filter_map(|receipt| receipt.beneficiary);
        let mut beneficiaries = ByJob::new(beneficiaries.map(|job| (job, ())));
        let mut reports = schedule.report.jobs.iter().peekable();
        let mut last_reports = Reports::of(self.planned.as_deref());
        let (mut has_changed, mut refunds) = (false, Vec::new());
        let now = self.time();
        for (age, job) in self.jobs.by_age_mut() {
            // On refused work the engine does not report.
            let Some(report) = reports.next_if(|report| report.job == age.1) else { continue };
            let new = expansions.of(report.job);
            if !new.is_empty() {
                let job: &mut JobRecord = job;
                job.last.has_grown = true;
                let stays = |job: &JobRecord| {
                    job.policy(&self.topology).is_some_and(|policy| !policy.is_preemptable())
                };
                if job.gang.started.is_none() && stays(job) {
                    job.gang.started = now;
                }
                job.shares.make_space(new.len());
                for &(_, (id, place)) in new {
                    let Expansion { node, order, rank, .. } = schedule.expansions[place];
                    job.shares.insert(ShareRecord {
                        rank,
                        id,
                        node: places.node(node),
                        order,
                        state: SharePhase::Held,
                        removal: None,
                        is_seen: false,
                        facts: ShareFacts::default(),
                    });
                }
            }
            if job.gang().is_some() {
                refunds.extend(job.note_gang(self.cycle, report));
            }
            let has_got_space = !beneficiaries.of(report.job).is_empty();
            let last = last_reports.of_age(age);
            has_changed |= job.note_report(self.cycle, report, last, has_got_space);
        }
        assert!(reports.next().is_none(), "the engine reports on all work, oldest first");
        for refund in &refunds {
            self.pay_back(refund);
        }
        self.next_share += count(&schedule.expansions);
        has_changed
    }

    /// Drops every cached snapshot and view, so that the next cycle builds all of them anew. Needed
    /// when a node's row becomes free, and for tests of the caches.
    pub fn drop_cached_views(&mut self) {
        self.jobs.values_mut().for_each(TrackedJob::forget);
        self.nodes.forget();
        self.frozen_nodes = None;
        self.last_view = None;
    }

    /// Builds the view of the current state, without planning.
    pub fn view(&self) -> View {
        let mut reports = Reports::of(self.planned.as_deref());
        let jobs = self.jobs.by_age().map(|(age, job)| {
            let report = reports.of_age(age);
            job.picture(|job| self.job_view(job, report.filter(|_| job.is_reported())))
        });
        let jobs: SharedList<JobView> = jobs.collect();
        View {
            cycle: self.cycle,
            topology: Arc::clone(&self.topology),
            nodes: Arc::new(self.node_views(&jobs)),
            classes: Arc::new(self.class_views()),
            jobs: Arc::new(jobs),
            varied_off: self.varied_off(),
            windows: Arc::new(self.windows().map(Arc::clone).collect()),
            hours: Arc::clone(&self.clock.hours),
            lost_held_back: self.nodes.held_back(),
            planned: self.planned.clone(),
            next_share: ShareId(self.next_share),
            urgent: Arc::clone(&self.verdicts),
        }
    }

    /// Every node that is varied off, with the reason.
    fn varied_off(&self) -> Vec<(Name, String)> {
        let nodes = self.nodes.varied_off().iter().map(|&node| &self.nodes[node]);
        let reason = |record: &NodeRecord| record.vary_off_reason.clone();
        nodes.filter_map(|record| Some((record.report.name.clone(), reason(record)?))).collect()
    }

    /// Builds the view of `job` from its state and the last cycle's `report`.
    fn job_view(&self, job: &TrackedJob, report: Option<&JobReport>) -> JobView {
        let spec = &job.spec;
        let admission = job.admission.as_ref().ok();
        let shares = |record: &ShareList| -> ShareViews {
            if record.is_empty() {
                return ShareViews::default();
            }
            let views = record.iter().map(|share| {
                let node = &self.nodes[share.node];
                let quantum = self.topology.pools[node.pool].quantum;
                let quantum = admission.map_or(quantum, |admission| admission.quantum);
                share_view(share, node.report.name.clone(), quantum)
            });
            views.collect()
        };
        JobView {
            shape: spec.shape.clone(),
            id: spec.id,
            user: spec.user.clone(),
            class: spec.class.clone(),
            kind: spec.kind,
            memory: spec.memory,
            except_nodes: spec.except_nodes.clone(),
            tags: spec.tags.clone(),
            order: admission.map(|admission| admission.order),
            quantum: admission.map(|admission| admission.quantum),
            threads: spec.threads,
            submitted: spec.submitted,
            facts: spec.facts,
            demand: report.map_or(NShares(0), |report| report.demand),
            cap: report.map(|report| report.cap),
            pure_fair_share: report.map_or(QShares(0), |report| report.pure_fair_share),
            target: report.map_or(NShares(0), |report| report.target),
            promised: report.map_or(NShares(0), |report| report.promised),
            behind_since: job.behind_since(),
            held_back: report.and_then(|report| report.held_back),
            disposition: job.disposition(),
            start_estimate: report.and_then(|report| report.start_estimate),
            started: job.gang.started,
            reason: match &job.admission {
                Err(refusal) => Some(Waiting::Refused(Refusal::clone(refusal))),
                Ok(_) => report.and_then(|report| report.reason).map(Waiting::Engine),
            },
            shares: job.share_views(shares),
            purged: shares(&job.purged),
            preemptions: job.last.preemptions.clone(),
            urgent: job.urgent.clone(),
        }
    }

    /// Savings of users for gangs in the class of that name.
    fn turns_of(&self, class: &Name) -> Vec<(Name, TurnSavings)> {
        let own = self.turns.iter().filter(|((of, _), _)| of == class);
        own.map(|((_, user), savings)| (user.clone(), *savings)).collect()
    }

    /// Every class.
    fn class_views(&self) -> Vec<ClassView> {
        let classes = self.topology.classes.with_ix().map(|(ix, class)| ClassView {
            name: class.name.clone(),
            jobs: self.jobs.of_class(ix),
            account: JobAccount::default(),
            users: Vec::new(),
            turns: self.turns_of(&class.name),
        });
        let mut views: Vec<ClassView> = classes.collect();
        if let Some(Planned { snapshot, schedule }) = self.planned.as_deref() {
            for (view, account) in views.iter_mut().zip(&schedule.report.classes) {
                view.account = *account;
            }
            for user in &schedule.report.users {
                // The configuration may have fewer classes since.
                if let Some(view) = views.get_mut(user.class.0) {
                    view.users.push((snapshot.users[user.user].clone(), user.account));
                }
            }
        }
        views
    }
}

fn share_view(share: &ShareRecord, node: Name, quantum: Quantum) -> ShareView {
    ShareView {
        rank: share.rank,
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

/// Things found by whose they are.
struct ByJob<T> {
    /// Entries by job; the entries of a job in their own order.
    sorted: Vec<(JobId, T)>,
    /// Before which of them the last job asked for was.
    next: usize,
}

impl<T: Ord> ByJob<T> {
    fn new(things: impl Iterator<Item = (JobId, T)>) -> ByJob<T> {
        let mut sorted: Vec<(JobId, T)> = things.collect();
        sorted.sort_unstable();
        ByJob { sorted, next: 0 }
    }

    /// Returns the entries of `job`. Fast if jobs are requested in ascending order of numbers.
    fn of(&mut self, job: JobId) -> &[(JobId, T)] {
        let is_below = |place: usize| self.sorted.get(place).is_some_and(|(of, _)| *of < job);
        let is_expected = !is_below(self.next) && (self.next == 0 || is_below(self.next - 1));
        if !is_expected {
            self.next = self.sorted.partition_point(|(of, _)| *of < job);
        }
        let first = self.next;
        let its = self.sorted[first..].iter().take_while(|(of, _)| *of == job);
        self.next += its.count();
        &self.sorted[first..self.next]
    }
}

/// Reports of a cycle on all jobs, read in the order of age.
struct Reports<'a> {
    jobs: &'a [Arc<Job>],
    said: &'a [JobReport],
    next: usize,
}

impl<'a> Reports<'a> {
    fn of(planned: Option<&'a Planned>) -> Reports<'a> {
        planned.map_or(Reports { jobs: &[], said: &[], next: 0 }, |planned| Reports {
            jobs: planned.snapshot.jobs.as_slice(),
            said: planned.schedule.report.jobs.as_slice(),
            next: 0,
        })
    }

    /// Returns the report on the job of this age, which must be higher than that of the last call.
    fn of_age(&mut self, age: Age) -> Option<&'a JobReport> {
        loop {
            let report = self.said.get(self.next)?;
            // The common case needs no comparison of ages.
            if report.job == age.1 {
                self.next += 1;
                return Some(report);
            }
            let job = &self.jobs[self.next];
            if age < (job.submitted, job.id) {
                return None;
            }
            self.next += 1;
        }
    }
}
