//! Play of a single large saturated cluster: finds the cycle from which on it is quiet, and the
//! cost of a cycle.
//!
//! Drives the scheduler itself, without a scenario, which would be too long to write down. Exits
//! are confirmed in the cycle after the request. A job runs as soon as a cycle has shown a process
//! of it.

mod cluster;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use self::cluster::{DrawnCluster, DrawnJob};
use super::ending::{self, FinalState};
use super::idle;
use crate::audit;
use crate::model::{JobFacts, Millis, Order, ShareFacts, ShareId, SharePhase};
use crate::scheduler::{JobView, NodeView, Scheduler, SchedulerEvent, ShareView, View};
use crate::sim::count;
use crate::sim::systemtest::Clock;

/// The cycles at the end in which nothing should move any more.
pub const QUIET_CYCLES: u64 = 20;
/// Cycles between two audits: an audit takes longer than the cycle that it checks.
pub const AUDITED_EVERY: u64 = 20;
/// The fewest cycles that say anything: jobs arrive in the first 8 and grow, and the last 20 should
/// be quiet.
pub const FEWEST_CYCLES: u64 = 40;
/// Milliseconds that a cycle adds to the loss of each process.
const INVESTED_A_CYCLE: Millis = 10_000;
/// Most audit findings that are kept as text.
const FINDINGS_KEPT: usize = 10;

/// Size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleSize {
    /// Number of nodes. At least 1.
    pub nodes: u64,
    /// Number of jobs. At least 1.
    pub jobs: u64,
}

/// Result of a play.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub figures: ScaleFigures,
    /// The first findings of the engine's audit, as text.
    pub findings: Vec<String>,
}

/// Figures of a play.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScaleFigures {
    /// Seed from which the cluster was drawn.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of cycles played.
    pub cycles: u64,
    /// Processes preempted, in all cycles.
    pub preempted: u64,
    /// The last cycle with a preemption, counted from 1; `None` if no cycle had any.
    pub last_preempting_cycle: Option<u64>,
    /// Processes preempted in the last 20 cycles, when nothing had changed for long.
    pub quiet_evictions: u64,
    /// Qshares free at the end that a job could fill at once.
    pub idle_usable_qshares: u64,
    /// Jobs that the engine's preemption stop held back, over all cycles.
    pub net_strikes: u64,
    /// Duration of a cycle in the scheduler.
    pub cycle_ms: Milliseconds,
    /// Cycles that were audited: every 20th.
    pub audited_cycles: u64,
    /// Rules that their schedules broke.
    pub audit_findings: u64,
}

/// Durations in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Milliseconds {
    /// Half of the times are no longer.
    pub median: f64,
    /// The longest.
    pub max: f64,
}

/// Plays the cluster of this size and `seed` for `cycles` cycles.
pub fn run(size: ScaleSize, seed: u64, cycles: u64, clock: Clock<'_>) -> Outcome {
    let DrawnCluster { topology, nodes, jobs } = cluster::cluster(size, seed);
    let mut scheduler = Scheduler::new(topology, ShareId(1));
    for report in nodes {
        scheduler.record(SchedulerEvent::NodeReported(report));
    }
    let mut outcome = Outcome::default();
    let mut times = Vec::new();
    let mut last: Option<View> = None;
    for cycle in 1..=cycles {
        for job in last.iter().flat_map(|view| view.jobs.iter()) {
            tell(&mut scheduler, job, &jobs);
        }
        for job in jobs.iter().filter(|job| job.arrival == cycle) {
            scheduler.record(SchedulerEvent::JobArrived(job.spec.clone()));
        }
        let begun = clock();
        let view = scheduler.schedule();
        times.push(clock().saturating_sub(begun));
        outcome.enter(&view, cycles);
        last = Some(view);
    }
    let ScaleSize { nodes, jobs } = size;
    let idle_usable_qshares = last.map_or(0, |view| idle::usable_qshares(&ending(&view)));
    let cycle_ms = milliseconds(times);
    outcome.figures = ScaleFigures {
        seed,
        nodes,
        jobs,
        cycles,
        idle_usable_qshares,
        cycle_ms,
        ..outcome.figures
    };
    outcome
}

/// Reports the changes of a job since the last cycle: terminated processes have exited, the other
/// processes work.
fn tell(scheduler: &mut Scheduler, job: &JobView, known: &[DrawnJob]) {
    let at = usize::try_from(job.id.0 - 1).expect("it was numbered by its position");
    let DrawnJob { initialization, time_per_item, .. } = known[at];
    if !job.facts.is_running && !job.shares.is_empty() {
        let facts = JobFacts { is_running: true, time_per_item: Some(time_per_item), ..job.facts };
        scheduler.record(SchedulerEvent::JobChanged { job: job.id, facts });
    }
    for ShareView { id, node, state, facts, .. } in &job.shares {
        let (job, share, node) = (job.id, *id, node.clone());
        let investment = facts.investment + INVESTED_A_CYCLE;
        let facts = ShareFacts { is_initialized: true, initialization, investment };
        scheduler.record(match state {
            SharePhase::Held => SchedulerEvent::ShareSeen { job, share, node, facts },
            SharePhase::Leaving => SchedulerEvent::ShareExited { job, share },
        });
    }
}

impl Outcome {
    /// Adds the decisions of one of `cycles`.
    fn enter(&mut self, view: &View, cycles: u64) {
        let planned = view.planned.as_ref().expect("a cycle was planned");
        let preempted = count(planned.schedule.preemptions.len());
        let figures = &mut self.figures;
        figures.preempted += preempted;
        figures.net_strikes += planned.schedule.report.net_strikes;
        if 0 < preempted {
            figures.last_preempting_cycle = Some(view.cycle);
        }
        if cycles < view.cycle + QUIET_CYCLES {
            figures.quiet_evictions += preempted;
        }
        if view.cycle.is_multiple_of(AUDITED_EVERY) {
            let findings = audit::audit(&planned.snapshot, &planned.schedule);
            figures.audited_cycles += 1;
            figures.audit_findings += count(findings.len());
            let left = FINDINGS_KEPT.saturating_sub(self.findings.len());
            let shown = findings.iter().take(left);
            self.findings.extend(shown.map(|finding| format!("cycle {}: {finding}", view.cycle)));
        }
    }
}

/// Reads the end of a play, as the survey measures it. Every class may go everywhere.
fn ending(view: &View) -> FinalState {
    let is_open_to = vec![true; view.topology.classes.len()];
    let node = |node: &NodeView| ending::FinalNode {
        name: node.name.to_string(),
        order: node.order.0,
        is_open_to: is_open_to.clone(),
        free: node.order.0 - node.used.0,
        is_emptying: node.shares.iter().any(|&(_, _, _, state)| state == SharePhase::Leaving),
    };
    let at: BTreeMap<&str, usize> =
        view.nodes.iter().enumerate().map(|(ix, node)| (node.name.as_str(), ix)).collect();
    let job = |job: &JobView| {
        let mut shares = BTreeMap::new();
        for share in job.shares.iter().filter(|share| share.state == SharePhase::Held) {
            *shares.entry(at[share.node.as_str()]).or_default() += 1;
        }
        ending::FinalJob {
            id: job.id.0,
            class: view.topology.class_named(&job.class).expect("it was drawn from these").0,
            user: job.user.to_string(),
            order: u64::from(job.order.map_or(0, Order::get)),
            cap: job.cap.map_or(0, |cap| cap.nshares.0),
            given: job.target.0,
            held: job.held().0,
            shares,
        }
    };
    let mut ending = FinalState { classes: Vec::new(), nodes: Vec::new(), jobs: Vec::new() };
    ending.nodes.extend(view.nodes.iter().map(node));
    ending.jobs.extend(view.jobs.iter().map(job));
    for class in &view.topology.classes {
        let weight = u64::from(class.policy.weight());
        ending.classes.push(ending::FinalClass { name: class.name.to_string(), weight });
    }
    ending
}

#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
fn milliseconds(mut times: Vec<Duration>) -> Milliseconds {
    times.sort_unstable();
    let middle = times.len().saturating_sub(1).div_euclid(2);
    let [median, max] = [times.get(middle), times.last()]
        .map(|time| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0));
    Milliseconds { median, max }
}

#[cfg(test)]
mod tests;
