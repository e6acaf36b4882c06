//! The scheduler of this project, driven through a job log in virtual time.
//!
//! A cycle follows on arrivals and ends, at most once in each publication period. So a job waits for
//! the next cycle, as it does under the daemon. Durations go along with each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster::ReplayCluster;
use super::filler::Filler;
use super::outcome::{JobRun, ReplayOutcome};
use super::profile::Placement;
use super::requests::ReplayJob;
use crate::model::{
    Chunk, JobFacts, JobId, JobKind, JobSpec, Millis, NodeReport, ProcessLimit, Shape, ShareFacts,
    ShareId, SharePhase, Steps, Tags,
};
use crate::scheduler::{JobView, Scheduler, SchedulerEvent, View, Waiting};
use crate::sim::count;

/// Cycles without a start, beyond the longest claim, after which waiting jobs wait for
/// ever.
const PATIENCE: u64 = 50;

/// Plays all jobs.
pub(super) fn play(cluster: &ReplayCluster, jobs: &[ReplayJob], steps: &Steps) -> ReplayOutcome {
    let mut live = LiveReplay::new(cluster, jobs);
    let mut cycle = 0;
    loop {
        let view = live.cycle(cycle, steps);
        match live.next_cycle(cycle, &view) {
            Some(next) => cycle = next,
            None => return live.close(&view),
        }
    }
}

/// A job that is known to the scheduler.
#[derive(Debug, Default)]
struct KnownJob {
    /// Index of its present run.
    run: Option<usize>,
    /// Shares of that run, with their nodes.
    shares: BTreeMap<ShareId, usize>,
    /// Terminating shares.
    leaving: BTreeSet<ShareId>,
}

/// A replay in progress.
struct LiveReplay<'a> {
    cluster: &'a ReplayCluster,
    jobs: &'a [ReplayJob],
    node_named: BTreeMap<&'a str, usize>,
    scheduler: Scheduler,
    period: Millis,
    now: Millis,
    /// Index of the next job to arrive.
    next_arrival: usize,
    /// Jobs that arrived and have not ended.
    known: BTreeMap<usize, KnownJob>,
    /// Ends of present runs, with the index of the job.
    ends: BTreeSet<(Millis, usize)>,
    /// Shares whose exit the next cycle reports.
    exits: Vec<(JobId, ShareId)>,
    last: Option<View>,
    /// The endless job that fills what the jobs leave.
    filler: Option<Filler>,
    /// True if any class of the jobs may lose shares for fairness.
    is_preemptable: bool,
    /// True if the last cycle started or ended a share.
    was_busy: bool,
    /// Cycle of the last start or end.
    last_busy: u64,
    outcome: ReplayOutcome,
}

impl<'a> LiveReplay<'a> {
    fn new(cluster: &'a ReplayCluster, jobs: &'a [ReplayJob]) -> LiveReplay<'a> {
        let mut scheduler = Scheduler::new(cluster.topology.clone(), ShareId(1));
        for node in &cluster.nodes {
            scheduler.record(SchedulerEvent::NodeReported(NodeReport {
                tags: Tags::default(),
                name: node.name.clone(),
                memory: node.memory,
                is_quiesced: false,
            }));
        }
        let filler = Filler::new(cluster, job_id(jobs.len())).map(|(filler, spec)| {
            scheduler.record(SchedulerEvent::JobArrived(spec));
            filler
        });
        let nodes = cluster.nodes.iter().enumerate();
        LiveReplay {
            cluster,
            jobs,
            node_named: nodes.map(|(ix, node)| (node.name.as_str(), ix)).collect(),
            scheduler,
            period: cluster.topology.settings.publication_period.max(1),
            now: 0,
            next_arrival: 0,
            known: BTreeMap::new(),
            ends: BTreeSet::new(),
            exits: Vec::new(),
            last: None,
            filler,
            is_preemptable: cluster.classes.iter().any(|class| class.is_preemptable),
            was_busy: false,
            last_busy: 0,
            outcome: ReplayOutcome::default(),
        }
    }

    /// Reports what happened until this cycle, lets the scheduler decide, and applies it.
    fn cycle(&mut self, cycle: u64, steps: &Steps) -> View {
        self.now = cycle.saturating_mul(self.period);
        if let Some(filler) = &mut self.filler {
            filler.pass(self.now);
        }
        for (job, share) in std::mem::take(&mut self.exits) {
            self.scheduler.record(SchedulerEvent::ShareExited { job, share });
        }
        while let Some((_, ix)) = self.ends.first().copied().filter(|(at, _)| *at <= self.now) {
            self.ends.pop_first();
            self.known.remove(&ix);
            self.scheduler.record(SchedulerEvent::JobCompleted { job: job_id(ix) });
            steps.take();
        }
        while let Some(job) =
            self.jobs.get(self.next_arrival).filter(|job| job.submitted <= self.now)
        {
            let spec = self.spec(self.next_arrival, job);
            self.scheduler.record(SchedulerEvent::JobArrived(spec));
            self.known.insert(self.next_arrival, KnownJob::default());
            self.next_arrival += 1;
        }
        self.report_progress();
        // Cycles in which nothing can happen are not played, and count all the same.
        self.scheduler.resume_after_cycle(cycle);
        self.scheduler.record(SchedulerEvent::TimeIs { now: self.now });
        let view = self.scheduler.schedule();
        self.was_busy = self.apply(&view);
        if self.was_busy {
            self.last_busy = cycle;
        }
        self.last = Some(view.clone());
        view
    }

    /// Tells how much work each process of preemptable jobs would lose.
    fn report_progress(&mut self) {
        if !self.is_preemptable {
            return;
        }
        for (ix, job) in &self.known {
            let class = &self.cluster.classes[self.jobs[*ix].class];
            let Some(run) = job.run.filter(|_| class.is_preemptable) else { continue };
            let facts = ShareFacts {
                is_initialized: true,
                initialization: 0,
                investment: self.now.saturating_sub(self.outcome.runs[run].start),
            };
            for (share, node) in &job.shares {
                self.scheduler.record(SchedulerEvent::ShareSeen {
                    job: job_id(*ix),
                    share: *share,
                    node: self.cluster.nodes[*node].name.clone(),
                    facts,
                });
            }
        }
    }

    /// Takes over what the cycle changed; returns true if it changed anything.
    fn apply(&mut self, view: &View) -> bool {
        let before = self.last.take();
        let changed: Vec<&JobView> = match &before {
            Some(before) => {
                let key = |job: &JobView| (job.submitted, job.id);
                view.jobs.changed_since(&before.jobs, key).map(|(job, _)| job).collect()
            }
            None => view.jobs.iter().collect(),
        };
        let mut is_busy = false;
        for job in changed {
            is_busy |= self.apply_job(job);
        }
        is_busy
    }

    /// Takes over the shares of a job; returns true if any began or is to leave.
    fn apply_job(&mut self, view: &JobView) -> bool {
        if let Some(filler) = self.filler.as_mut().filter(|filler| filler.job == view.id) {
            let told = filler.apply(view, self.now);
            self.exits.extend(told.iter().map(|share| (view.id, *share)));
            return !told.is_empty();
        }
        let Some(ix) = job_ix(view.id) else { return false };
        let Some(known) = self.known.get_mut(&ix) else { return false };
        let mut is_busy = false;
        for share in view.shares.iter().filter(|share| share.state == SharePhase::Leaving) {
            if known.leaving.insert(share.id) {
                self.exits.push((view.id, share.id));
                is_busy = true;
            }
        }
        let leaves = |(share, _): (&ShareId, &usize)| known.leaving.contains(share);
        if let Some(run) = known.run.filter(|_| known.shares.iter().any(leaves)) {
            let run = &mut self.outcome.runs[run];
            self.ends.remove(&(run.end, ix));
            (run.end, run.is_lost) = (self.now, true);
            known.run = None;
        }
        let held = view.shares.iter().filter(|share| share.state == SharePhase::Held);
        let held: BTreeMap<ShareId, usize> = held
            .filter_map(|share| Some((share.id, *self.node_named.get(share.node.as_str())?)))
            .collect();
        let job = &self.jobs[ix];
        if known.run.is_none() && job.processes <= count(held.len()) {
            let end = self.now.saturating_add(job.runs);
            known.run = Some(self.outcome.runs.len());
            self.ends.insert((end, ix));
            let place = placement(held.values());
            self.outcome.runs.push(JobRun { job: ix, start: self.now, end, is_lost: false, place });
            is_busy = true;
        }
        known.shares = held;
        is_busy
    }

    /// The next cycle in which something can happen; `None` at the end.
    fn next_cycle(&self, cycle: u64, view: &View) -> Option<u64> {
        let at = |time: Millis| time.div_ceil(self.period).max(cycle + 1);
        let arrival = self.jobs.get(self.next_arrival).map(|job| at(job.submitted));
        let end = self.ends.first().map(|(time, _)| at(*time));
        if arrival.is_none() && end.is_none() {
            return self.is_hopeful(cycle).then_some(cycle + 1);
        }
        let schedule = view.planned.as_ref().map(|planned| &planned.schedule);
        let is_unsettled = schedule.is_some_and(|schedule| {
            !schedule.put_off.is_empty()
                || !schedule.preemptions.is_empty()
                || !schedule.promises.is_empty()
        });
        // The cycle after a start may start further jobs, so none is passed over before it.
        if self.was_busy || is_unsettled || !self.exits.is_empty() {
            return Some(cycle + 1);
        }
        let change = schedule.and_then(|schedule| schedule.next_change);
        // The scheduler numbers its cycles from 1.
        let change = change.map(|change| change.saturating_sub(1).max(cycle + 1));
        let until = schedule.and_then(|schedule| schedule.valid_until).map(at);
        [arrival, end, change, until].into_iter().flatten().min()
    }

    /// True while jobs wait that may start though no job runs: a claim of another may end.
    fn is_hopeful(&self, cycle: u64) -> bool {
        let classes = self.cluster.topology.classes.iter();
        let longest = classes.map(|class| class.gangs.hold_limit).max().unwrap_or(0);
        let patience = longest.div_ceil(self.period).saturating_mul(2).saturating_add(PATIENCE);
        let is_waiting = self.known.keys().any(|ix| self.jobs[*ix].never.is_none());
        is_waiting && cycle < self.last_busy.saturating_add(patience)
    }

    /// The request as the scheduler gets it.
    fn spec(&self, ix: usize, job: &ReplayJob) -> JobSpec {
        let memory = job.memory;
        let gang = Chunk { count: job.processes, memory, tags: Tags::default() };
        let shape = Shape {
            chunks: if 1 < job.processes { vec![gang] } else { Vec::new() },
            duration: Some(job.declared),
            ..Shape::default()
        };
        JobSpec {
            id: job_id(ix),
            user: job.user.clone(),
            class: self.cluster.classes[job.class].name.clone(),
            kind: JobKind::Job,
            memory,
            threads: 1,
            submitted: job.submitted,
            nodes: Vec::new(),
            except_nodes: Vec::new(),
            service: 0,
            tags: Tags::default(),
            shape: Some(Arc::new(shape)),
            facts: JobFacts {
                remaining: job.processes,
                limit: ProcessLimit::AtMost(job.processes),
                is_running: false,
                time_per_item: None,
                is_completing: false,
            },
        }
    }

    /// Notes why the jobs that are left did not run.
    fn close(mut self, view: &View) -> ReplayOutcome {
        for job in view.jobs.iter() {
            let ix = job_ix(job.id).filter(|ix| self.known.contains_key(ix));
            let Some(ix) = ix.filter(|ix| self.jobs[*ix].never.is_none()) else { continue };
            let reason = match &job.reason {
                Some(Waiting::Refused(refusal)) => refusal.to_string(),
                Some(Waiting::Engine(reason)) => reason.sentence(job.quantum),
                None => "waited to the end".to_owned(),
            };
            self.outcome.waiting.push((ix, reason));
        }
        self.outcome.filler = self.filler.map(|filler| filler.usage());
        self.outcome
    }
}

/// Number of a job for the scheduler; they start at 1.
fn job_id(ix: usize) -> JobId {
    JobId(count(ix).saturating_add(1))
}

fn job_ix(id: JobId) -> Option<usize> {
    usize::try_from(id.0).ok()?.checked_sub(1)
}

/// Nodes with the number of processes on each.
fn placement<'n>(nodes: impl Iterator<Item = &'n usize>) -> Placement {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for node in nodes {
        *counts.entry(*node).or_default() += 1;
    }
    counts.into_iter().collect()
}
