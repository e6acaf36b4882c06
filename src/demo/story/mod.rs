//! The story in the terminal: the events on the cluster, line by line, with reasons.
//!
//! The source is the orchestrator, and the daemon's answers over HTTP. The story is calm: frequent
//! events are gathered for a while and summed up, and a job's growth or wait is a single line.

mod gather;
mod joins;
mod teller;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use self::gather::{CompletionBatch, PreemptionBatch, Submissions};
use self::joins::Joins;
pub(super) use self::teller::Teller;
use self::teller::{counted, numbered, tenths};
use super::orchestrator::{Completed, DemoOrchestrator, Stopped};
use super::report::DemoReport;
use super::workload::WorkRequest;
use crate::api::wire::{self, PreemptionInfo, VaryAnswer, WorkKind};
use crate::model::{Mebibytes, count, fold_hostlist, span, thousands};

/// Time for which submissions, preemptions and completions are gathered.
const GATHERING: Duration = Duration::from_secs(2);

/// A job that has not grown for this long has grown as far as it goes for now.
const GROWN: Duration = Duration::from_millis(700);

/// A growth to fewer processes than this is not worth a line.
const REMARKABLE: u64 = 12;

/// A job that has had nothing for this long is waiting.
const WAITING: Duration = Duration::from_millis(1500);

/// The story so far.
#[derive(Debug)]
pub(super) struct Story {
    teller: Teller,
    jobs: BTreeMap<u64, WatchedJob>,
    joins: Joins,
    submissions: Submissions,
    takings: PreemptionBatch,
    completions: CompletionBatch,
    /// Time of the last pause.
    paused: Duration,
}

/// A job, and the lines about it so far.
#[derive(Debug)]
struct WatchedJob {
    request: WorkRequest,
    since: Duration,
    /// Each time it held more than ever before: how much.
    steps: Vec<u64>,
    grown: Duration,
    /// True if the story has a line about its growth.
    is_growth_told: bool,
    /// The reason in the last line about its wait.
    waits_for: Option<String>,
}

impl Story {
    /// Builds a story that is written to `out`.
    pub fn new(out: Box<dyn Write + Send>, has_colour: bool, width: usize) -> Story {
        Story {
            teller: Teller::new(out, has_colour, width),
            jobs: BTreeMap::new(),
            joins: Joins::default(),
            submissions: Submissions::default(),
            takings: PreemptionBatch::default(),
            completions: CompletionBatch::default(),
            paused: Duration::ZERO,
        }
    }

    /// Says something as it is.
    pub fn plain(&mut self, line: &str) {
        self.teller.plain(line);
    }

    /// All nodes reported.
    pub fn ready(&mut self, at: Duration, status: &wire::Status) {
        let memory = status.shares.schedulable_mb.div_euclid(1024);
        let nodes = status.nodes.total;
        let text = format!(
            "{nodes} of {nodes} nodes checked in: {} GB to share, in quanta of 15 GB",
            thousands(memory)
        );
        self.teller.tell(at, "ready", &text);
    }

    /// The workload begins anew.
    pub fn round(&mut self, at: Duration, number: u64) {
        let text = format!("hour {}: the same users come again, with other jobs", number + 1);
        self.teller.tell(at, "again", &text);
    }

    /// Work was submitted.
    pub fn submit(&mut self, at: Duration, job: u64, request: &WorkRequest) {
        let watched = WatchedJob {
            request: request.clone(),
            since: at,
            steps: Vec::new(),
            grown: at,
            is_growth_told: false,
            waits_for: None,
        };
        self.jobs.insert(job, watched);
        if request.kind == WorkKind::Job {
            self.joins.submit(at, &request.work.class, &request.work.user);
        }
        self.submissions.add(at, job, request);
    }

    /// Work is done.
    pub fn complete(&mut self, completed: Completed) {
        if let Some(WatchedJob { request, .. }) = self.jobs.remove(&completed.job)
            && request.kind == WorkKind::Job
        {
            self.completions.add(completed.job, &request, completed.took);
        }
    }

    /// Enters a preempted process; `receipt` names the beneficiary, if the daemon gave it.
    pub fn preempt(
        &mut self,
        stopped: &Stopped,
        receipt: Option<&PreemptionInfo>,
        orchestrator: &DemoOrchestrator,
    ) {
        let user_of = |job: u64| orchestrator.request(job).map(|request| request.work.user.clone());
        let job = receipt.and_then(|receipt| receipt.beneficiary);
        let beneficiary = job.and_then(|job| Some((job, user_of(job)?)));
        let rule = receipt.map_or("preempted", |receipt| receipt.rule.code());
        self.takings.add(rule, user_of(stopped.job).unwrap_or_default(), beneficiary, stopped.lost);
    }

    /// Enters a new schedule, and the orchestrator's changes by it.
    pub fn schedule(
        &mut self,
        at: Duration,
        schedule: &wire::Schedule,
        orchestrator: &DemoOrchestrator,
    ) {
        for job in &schedule.jobs {
            let Some(watched) = self.jobs.get_mut(&job.id) else { continue };
            let held = orchestrator.held(job.id);
            if let Some(text) = watched.start(at, job, held) {
                self.teller.tell(at, "start", &text);
            }
            if let Some(text) = watched.wait(at, job) {
                self.teller.tell(at, "waiting", &text);
            }
        }
    }

    /// Enters demand, fair share and holdings of all parties.
    pub fn load(&mut self, at: Duration, load: &wire::Load) {
        for text in self.joins.look(at, load) {
            self.teller.tell(at, "fair", &text);
        }
    }

    /// Writes the gathered events, if it is time for that.
    pub fn pause(&mut self, at: Duration) {
        for text in self.submissions.introduce(at) {
            self.teller.tell(at, "submit", &text);
        }
        if at < self.paused + GATHERING {
            return;
        }
        self.paused = at;
        if let Some(text) = self.submissions.tell() {
            self.teller.tell(at, "submit", &text);
        }
        for text in self.takings.tell() {
            self.teller.tell(at, "preempt", &text);
        }
        for (&job, watched) in &mut self.jobs {
            if let Some(text) = watched.growth(at, job) {
                self.teller.tell(at, "grow", &text);
            }
        }
        if let Some(text) = self.completions.tell() {
            self.teller.tell(at, "done", &text);
        }
    }

    /// A node's agent stopped.
    pub fn silent(&mut self, at: Duration, node: &str, shares: u64) {
        let processes = counted(shares, "process", "processes");
        self.teller.tell(at, "silent", &format!("{node} stops reporting, with {processes} on it"));
    }

    /// The daemon counts a node as dead.
    pub fn dead(&mut self, at: Duration, node: &str, lost: &[Stopped]) {
        let jobs: BTreeSet<u64> = lost.iter().map(|stopped| stopped.job).collect();
        let text = if jobs.is_empty() {
            format!("{node} missed 4 heartbeats")
        } else {
            let processes = counted(count(lost), "process", "processes");
            let jobs = numbered("job", jobs);
            format!(
                "{node} missed 4 heartbeats: {processes} of {jobs} lost with it, to start again elsewhere"
            )
        };
        self.teller.tell(at, "dead", &text);
    }

    /// Nodes report again.
    pub fn back(&mut self, at: Duration, nodes: &[String]) {
        let text = format!(
            "{} reports again and gets work",
            fold_hostlist(nodes.iter().map(String::as_str))
        );
        self.teller.tell(at, "back", &text);
    }

    /// An administrator took nodes out.
    pub fn varied_off(&mut self, at: Duration, answer: &VaryAnswer, reason: &str) {
        let nodes = fold_hostlist(answer.changed.iter().map(String::as_str));
        let impact = &answer.impact;
        let evicted = counted(impact.shares_evicted, "process", "processes");
        let kept = impact.kept;
        let text = format!(
            "{nodes} taken out by hand (\"{reason}\"): {evicted} evicted, {kept} kept that nothing preempts"
        );
        self.teller.tell(at, "vary-off", &text);
    }

    /// An administrator put nodes back.
    pub fn varied_on(&mut self, at: Duration, answer: &VaryAnswer) {
        let nodes = fold_hostlist(answer.changed.iter().map(String::as_str));
        self.teller.tell(at, "vary-on", &format!("{nodes} put back by hand"));
    }

    /// Sums up the play so far.
    pub fn summary(&mut self, at: Duration, report: &DemoReport) {
        let DemoReport { cycle_ms, fairness_error, .. } = report;
        let text = format!(
            "{} cycles, p99 {:.1} ms · {} · {} preempted, {} evicted · fairness error {fairness_error:.1} % · {} · {}",
            thousands(report.cycles),
            cycle_ms.p99,
            counted(report.shares_placed, "process placed", "processes placed"),
            thousands(report.preemptions),
            thousands(report.evictions),
            counted(report.audit_findings, "audit finding", "audit findings"),
            counted(report.http_errors, "HTTP error", "HTTP errors"),
        );
        self.teller.tell(at, "summary", &text);
    }

    /// Fairness of the demo, and the work that was lost for it.
    pub fn conclusion(&mut self, at: Duration, report: &DemoReport) {
        let DemoReport { fairness_error, work_done_ms: done, work_lost_ms: lost, .. } = report;
        let fair = format!(
            "while jobs asked for more than there is, users were {fairness_error:.1} % of the cluster short of their fair share, on average"
        );
        self.teller.tell(at, "fair", &fair);
        let per_mille = (lost * 1000).checked_div(lost + done).unwrap_or(0);
        let share = format!("{}.{} %", per_mille.div_euclid(10), per_mille % 10);
        let preempted = counted(report.preemptions, "process was", "processes were");
        let lost = match report.preemptions {
            0 => "no process was preempted, so no work was lost".to_owned(),
            _ => format!(
                "{preempted} preempted; {} of work has to be done again, {share} of all",
                span(*lost)
            ),
        };
        self.teller.tell(at, "lost", &lost);
        self.summary(at, report);
    }

    /// Reports audit findings and failed requests, if any.
    pub fn troubles(&mut self, at: Duration, report: &DemoReport) {
        for finding in &report.findings {
            self.teller.tell(at, "audit", finding);
        }
        if let Some(error) = &report.first_http_error {
            self.teller.tell(at, "http", error);
        }
    }
}

impl WatchedJob {
    /// Enters its present holdings. Its first processes are worth a line after a wait.
    fn start(&mut self, at: Duration, job: &wire::ScheduledJob, held: u64) -> Option<String> {
        if held <= self.most() {
            return None;
        }
        let is_awaited = self.steps.is_empty() && self.waits_for.is_some();
        self.steps.push(held);
        self.grown = at;
        is_awaited.then(|| {
            let nodes = fold_hostlist(job.shares.iter().map(|share| share.node.as_str()));
            let waited = tenths(at.saturating_sub(self.since));
            format!("{} on {nodes}, after {waited} s", named(job.id, &self.request))
        })
    }

    /// Returns the line about a long wait; repeated only with another reason.
    fn wait(&mut self, at: Duration, job: &wire::ScheduledJob) -> Option<String> {
        let is_waiting = self.steps.is_empty() && self.since + WAITING <= at;
        let reason = job.reason.as_ref().filter(|_| is_waiting)?;
        if self.waits_for.as_ref() == Some(&reason.code) {
            return None;
        }
        self.waits_for = Some(reason.code.clone());
        Some(format!("{}: {}", named(job.id, &self.request), reason.sentence))
    }

    /// Returns the line about its growth, once the growth has ended; `None` for a few processes.
    fn growth(&mut self, at: Duration, job: u64) -> Option<String> {
        if self.is_growth_told || self.most() < REMARKABLE || at < self.grown + GROWN {
            return None;
        }
        self.is_growth_told = true;
        let steps: Vec<String> = self.steps.iter().map(u64::to_string).collect();
        Some(format!("{}: {} processes", named(job, &self.request), steps.join(", ")))
    }

    /// The most processes it ever held.
    fn most(&self) -> u64 {
        self.steps.last().copied().unwrap_or(0)
    }
}

fn named(job: u64, request: &WorkRequest) -> String {
    let what = match request.kind {
        WorkKind::Job => "job",
        WorkKind::Service => "service",
        WorkKind::ArbitraryProcess => "process",
        WorkKind::Reservation => "reservation",
    };
    format!("{what} {job} of {} ({})", request.work.user, request.work.class)
}

fn gigabytes(memory: Mebibytes) -> String {
    format!("{} GB", memory.0.div_euclid(1024))
}
