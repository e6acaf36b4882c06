//! Drives the scheduler against the world: a cycle every ten virtual seconds, with exactly the
//! facts that the model reveals. MODEL section 3.

use std::collections::BTreeMap;
use std::time::Duration;

use super::suite::Suite;
use super::{Clock, RunOutcome};
use crate::audit;
use crate::model::{
    JobFacts, JobId, JobKind, JobSpec, Millis, NodeIx, NodeReport, PoolIx, ShareFacts, ShareId,
    SharePhase, Tags,
};
use crate::scheduler::{Scheduler, SchedulerEvent, View};
use crate::sim::count;
use crate::sim::error::{SimError, Violation};
use crate::sim::measure::{
    CYCLE, MeasureLedger, MeasuredCycle, MeasuredJob, Need, RunReport, Slots, Subject, Totals,
    TurnaroundBound,
};
use crate::sim::world::{ProcessIx, SimWork, Stage, WorkIx, World, WorldNews};

/// A run that takes longer in virtual time has failed.
const LONGEST: Millis = 60 * 24 * 3_600_000;

/// Most audit findings that are kept as text.
const FINDINGS_KEPT: usize = 10;

/// A process as the scheduler knows it.
#[derive(Clone, Debug)]
struct ShareSeat {
    share: ShareId,
    node: usize,
    /// Facts that were last reported to the scheduler.
    told: Option<ShareFacts>,
}

/// A single run.
pub(super) struct Driver<'a> {
    suite: &'a Suite,
    clock: Clock<'a>,
    world: World,
    scheduler: Scheduler,
    subjects: Vec<Subject>,
    /// For every job, the facts that were last reported to the scheduler.
    told: Vec<Option<JobFacts>>,
    /// For every process, in the order in which they were started.
    seats: Vec<ShareSeat>,
    processes: BTreeMap<ShareId, ProcessIx>,
    node_named: BTreeMap<&'a str, usize>,
    /// Qshares neither held nor draining, for every node.
    free: Vec<u64>,
    ledger: MeasureLedger,
    totals: Totals,
    deciding: Duration,
    audit_findings: u64,
    findings: Vec<String>,
}

/// A job's number for the scheduler; they start at 1.
fn job_id(work: WorkIx) -> JobId {
    JobId(count(work.0) + 1)
}

fn work_ix(job: JobId) -> WorkIx {
    WorkIx(usize::try_from(job.0 - 1).expect("we numbered the jobs ourselves"))
}

impl<'a> Driver<'a> {
    pub fn new(suite: &'a Suite, clock: Clock<'a>) -> Driver<'a> {
        let free: Vec<u64> = suite.nodes.iter().map(|node| node.order.0).collect();
        let mut scheduler = Scheduler::new(suite.topology.clone(), ShareId(1));
        for node in &suite.nodes {
            let report = NodeReport {
                tags: Tags::default(),
                name: node.name.as_str().into(),
                memory: node.memory,
                is_quiesced: false,
            };
            scheduler.record(SchedulerEvent::NodeReported(report));
        }
        Driver {
            suite,
            clock,
            world: World::new(suite.works.clone()),
            scheduler,
            subjects: subjects(suite),
            told: vec![None; suite.works.len()],
            seats: Vec::new(),
            processes: BTreeMap::new(),
            node_named: suite
                .nodes
                .iter()
                .enumerate()
                .map(|(ix, node)| (node.name.as_str(), ix))
                .collect(),
            ledger: MeasureLedger::new(&free),
            free,
            totals: Totals::default(),
            deciding: Duration::ZERO,
            audit_findings: 0,
            findings: Vec::new(),
        }
    }

    /// Plays to the end.
    pub fn run(mut self) -> Result<RunOutcome, SimError> {
        for now in (0..=LONGEST).step_by(usize::try_from(CYCLE).expect("a cycle is short")) {
            self.world.advance(now);
            let news = self.world.tell();
            self.tell(&news)?;
            if self.world.is_over() {
                return self.close();
            }
            self.cycle(&news)?;
        }
        let left = self.world.works().filter(|&work| self.world.ended(work).is_none()).count();
        Err(self.violated(Violation::Unfinished { left: count(left) }))
    }

    /// Plays a cycle from the tell step on.
    fn cycle(&mut self, news: &WorldNews) -> Result<(), SimError> {
        let needs: Vec<(WorkIx, Need)> =
            self.world.active().iter().map(|&work| (work, self.need(work))).collect();
        let begun = (self.clock)();
        let view = self.scheduler.schedule();
        self.deciding += (self.clock)().saturating_sub(begun);
        self.audit(&view);

        let preempted = self.apply_preemptions(&view)?;
        self.apply_starts(&view)?;
        self.world.settle();

        let mut lines = Vec::with_capacity(needs.len());
        for (work, need) in needs {
            let held = count(self.world.held(work).len());
            if let Some(nodes) = need.nodes.filter(|&nodes| nodes < held) {
                return Err(self.violated(Violation::OverNodes { work, held, nodes }));
            }
            lines.push(MeasuredJob { subject: self.subjects[work.0], need, held });
        }
        let had_news =
            [&news.arrived, &news.first_initialized].iter().any(|works| !works.is_empty())
                || !news.left.is_empty()
                || !news.completed.is_empty();
        let now = self.world.now();
        let is_paid = is_paid(&view);
        let free = &self.free;
        self.ledger.enter(&MeasuredCycle {
            now,
            lines: &lines,
            free,
            preempted,
            is_paid,
            had_news,
        });
        Ok(())
    }

    /// Reports new facts to the scheduler. Unchanged facts are not repeated.
    fn tell(&mut self, news: &WorldNews) -> Result<(), SimError> {
        for &process in &news.drained {
            self.tell_exit(process);
        }
        for &process in &news.left {
            self.enter_end(process, 0)?;
            self.tell_exit(process);
        }
        for (work, processes) in &news.completed {
            for &process in processes {
                self.enter_end(process, 0)?;
                self.vacate(process);
            }
            self.scheduler.record(SchedulerEvent::JobCompleted { job: job_id(*work) });
        }
        for &work in &news.arrived {
            let facts = self.world.job_facts(work);
            self.told[work.0] = Some(facts);
            self.scheduler.record(SchedulerEvent::JobArrived(spec(
                work,
                &self.suite.works[work.0],
                facts,
            )));
        }
        for &work in self.world.active() {
            let facts = self.world.job_facts(work);
            if self.told[work.0].replace(facts) != Some(facts) {
                self.scheduler.record(SchedulerEvent::JobChanged { job: job_id(work), facts });
            }
            for &process in self.world.held(work) {
                let facts = self.world.process_facts(process);
                let seat = &mut self.seats[process.0];
                if seat.told.replace(facts) != Some(facts) {
                    let node = self.suite.nodes[seat.node].name.clone();
                    let seen = SchedulerEvent::ShareSeen {
                        job: job_id(work),
                        share: seat.share,
                        node: node.into(),
                        facts,
                    };
                    self.scheduler.record(seen);
                }
            }
        }
        Ok(())
    }

    fn tell_exit(&mut self, process: ProcessIx) {
        let job = job_id(self.world.work_of(process));
        self.scheduler
            .record(SchedulerEvent::ShareExited { job, share: self.seats[process.0].share });
        self.vacate(process);
    }

    /// Frees the space of a process that is gone.
    fn vacate(&mut self, process: ProcessIx) {
        let ShareSeat { share, node, .. } = self.seats[process.0];
        self.free[node] += self.subjects[self.world.work_of(process).0].order;
        self.processes.remove(&share);
    }

    fn apply_preemptions(&mut self, view: &View) -> Result<u64, SimError> {
        let leaving = view
            .jobs
            .iter()
            .flat_map(|job| &job.shares)
            .filter(|share| share.state == SharePhase::Leaving);
        let mut preempted = 0;
        for share in leaving {
            // Shares that drain already are listed until they are gone.
            let process = self.processes.get(&share.id).copied();
            if let Some(process) =
                process.filter(|&process| self.world.stage(process) != Stage::Draining)
            {
                let lost = self.world.preempt(process);
                self.totals.lost += lost;
                self.enter_end(process, lost)?;
                preempted += 1;
            }
        }
        Ok(preempted)
    }

    fn apply_starts(&mut self, view: &View) -> Result<(), SimError> {
        for job in view.jobs.iter() {
            for share in job.shares.iter().filter(|share| share.state == SharePhase::Held) {
                if !self.processes.contains_key(&share.id) {
                    self.start(work_ix(job.id), share.id, &share.node)?;
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, work: WorkIx, share: ShareId, node: &str) -> Result<(), SimError> {
        let Some(&ix) = self.node_named.get(node) else {
            return Err(self.violated(Violation::NoSuchNode { share, node: node.to_owned() }));
        };
        let (asks, free) = (self.subjects[work.0].order, self.free[ix]);
        let Some(left) = free.checked_sub(asks) else {
            return Err(self.violated(Violation::Overcommitted {
                node: node.to_owned(),
                asks,
                free,
            }));
        };
        self.free[ix] = left;
        self.processes.insert(share, self.world.start(work));
        self.seats.push(ShareSeat { share, node: ix, told: None });
        Ok(())
    }

    /// Enters how a process spent its threads' time, now that it is no longer held.
    fn enter_end(&mut self, process: ProcessIx, lost: Millis) -> Result<(), SimError> {
        let spent = self.world.spent(process);
        self.totals.useful += spent.useful;
        self.totals.thread_time += spent.total;
        let worked = spent.useful + spent.initializing + lost;
        if spent.total < worked {
            return Err(self.violated(Violation::Overworked { process, worked, had: spent.total }));
        }
        Ok(())
    }

    /// Need of a job, for the measure. MODEL section 7.
    fn need(&self, work: WorkIx) -> Need {
        let facts = self.world.job_facts(work);
        let held = self.world.held(work);
        Need {
            remaining: facts.remaining,
            threads: self.world.work(work).threads,
            nodes: self.world.work(work).nodes,
            is_running: facts.is_running,
            time_per_item: facts.time_per_item.unwrap_or(0),
            held: count(held.len()),
            has_initialized: held
                .iter()
                .any(|&process| self.world.stage(process) == Stage::Working),
        }
    }

    fn audit(&mut self, view: &View) {
        let Some(planned) = &view.planned else {
            return;
        };
        for finding in audit::audit(&planned.snapshot, &planned.schedule) {
            self.audit_findings += 1;
            if self.findings.len() < FINDINGS_KEPT {
                self.findings.push(format!("at {} ms: {finding}", self.world.now()));
            }
        }
    }

    /// Adds everything up.
    fn close(mut self) -> Result<RunOutcome, SimError> {
        let items: Millis = self.suite.works.iter().flat_map(|work| &work.items).sum();
        if items != self.totals.useful {
            return Err(
                self.violated(Violation::WorkNotConserved { useful: self.totals.useful, items })
            );
        }
        for work in self.world.works() {
            let ended = self.world.ended(work).expect("a run is over when every job has ended");
            self.totals.makespan = self.totals.makespan.max(ended);
            self.totals.turnarounds.push(ended - self.world.work(work).submitted);
            self.totals.bounds.push(self.bound(work));
        }
        let report = RunReport {
            items_total: self.suite.works.iter().map(|work| count(work.items.len())).sum(),
            items_done: self.world.works().map(|work| self.world.items_done(work)).sum(),
            audit_findings: self.audit_findings,
            scheduler_s: self.deciding.as_secs_f64(),
            ..self.ledger.report(&self.totals)
        };
        Ok(RunOutcome { report, findings: self.findings })
    }

    fn bound(&self, work: WorkIx) -> TurnaroundBound {
        let orders: Vec<u64> = self.suite.nodes.iter().map(|node| node.order.0).collect();
        let slots = Slots::of(&orders);
        let fitting =
            if self.subjects[work.0].order == Slots::LARGE { slots.large } else { slots.small };
        let work = self.world.work(work);
        TurnaroundBound {
            longest_item: work.items.iter().copied().max().unwrap_or(0),
            total: work.items.iter().sum(),
            threads: work.threads.get() * work.nodes.unwrap_or(fitting).min(fitting),
        }
    }

    fn violated(&self, violation: Violation) -> SimError {
        SimError::Violated { at: self.world.now(), violation }
    }
}

/// Constant facts of each job, for the measure.
fn subjects(suite: &Suite) -> Vec<Subject> {
    let quantum = suite.topology.pools[PoolIx(0)].quantum;
    let mut parties = BTreeMap::new();
    let mut subjects = Vec::with_capacity(suite.works.len());
    for (ix, work) in suite.works.iter().enumerate() {
        let class =
            suite.topology.class_named(&work.class).expect("a suite has the classes of its jobs");
        let order = quantum.order_of_work(work.memory).expect("a suite's jobs have orders");
        let new_party = parties.len();
        subjects.push(Subject {
            work: WorkIx(ix),
            party: *parties.entry((class, &work.user)).or_insert(new_party),
            class: class.0,
            weight: u64::from(suite.topology.classes[class].policy.weight()),
            order: order.qshares().0,
            submitted: work.submitted,
        });
    }
    subjects
}

/// A job as reported to the scheduler. Its age is its submission time, to the millisecond.
fn spec(ix: WorkIx, work: &SimWork, facts: JobFacts) -> JobSpec {
    JobSpec {
        shape: None,
        tags: Tags::default(),
        id: job_id(ix),
        user: work.user.as_str().into(),
        class: work.class.as_str().into(),
        kind: JobKind::Job,
        memory: work.memory,
        threads: work.threads.get(),
        submitted: work.submitted,
        nodes: Vec::new(),
        except_nodes: Vec::new(),
        service: 0,
        facts,
    }
}

/// True if waiting had paid for all work that was lost. Each process that a job gains pays for the
/// loss on its machine with the job's waiting time. The job held a share and was under its target
/// for that time; it has the credit of a job that has hardly begun.
fn is_paid(view: &View) -> bool {
    const CREDIT: Millis = 300_000;
    let Some(planned) = &view.planned else { return false };
    let schedule = &planned.schedule;
    let mut losses: BTreeMap<(JobId, NodeIx), Millis> = BTreeMap::new();
    for receipt in &schedule.preemptions {
        let Some(taker) = receipt.beneficiary else { return false };
        *losses.entry((taker, receipt.node)).or_default() += receipt.loss;
    }
    let period = view.topology.settings.publication_period;
    losses.into_iter().all(|((taker, node), loss)| {
        let job = planned.snapshot.jobs.iter().find(|job| job.id == taker);
        job.is_some_and(|job| {
            let promises = schedule.promises.iter();
            let gained = promises.filter(|one| one.job == taker && one.node == node).count();
            let waited = planned.snapshot.behind_cycles(job) * period * job.threads;
            job.nshares_held().0 > 0 && loss <= (waited + CREDIT) * count(gained.max(1))
        })
    })
}
