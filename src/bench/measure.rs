//! Evaluation of timed cycles: figures, and a second opinion on the last of them.
//!
//! The audit and everything else that is not part of a cycle runs after it, outside its time.

use std::hint::black_box;
use std::time::Duration;

use serde::Serialize;

use super::bare;
use super::process::MeasuredProcess;
use super::times::{DurationSpread, median, milliseconds, ratio};
use crate::audit;
use crate::converter::update_from;
use crate::engine;
use crate::model::{SharePhase, count};
use crate::scheduler::{Planned, Scheduler, View};
use crate::sim::systemtest::Clock;

/// Number of timings of a part. Odd, so that there is a middle.
const REPEATS: usize = 3;
/// Most audit findings that are kept as text.
const FINDINGS_KEPT: usize = 10;

/// Figures of timed cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Time of a cycle: all of `Scheduler::schedule`, unless the regime says otherwise.
    pub cycle_ms: DurationSpread,
    /// Times of the parts of a cycle.
    pub parts_ms: Parts,
    /// Time of a pass that reads every machine and every job once: the lower bound.
    pub bare_pass_ms: f64,
    /// Number of such passes in the time of a cycle, by the medians; `None` if the pass was too
    /// short to measure.
    pub ratio: Option<f64>,
    /// Peak memory of this process up to here; `None` if the system does not report it.
    pub peak_rss_mb: Option<f64>,
    /// Space of all machines together.
    pub capacity_qshares: u64,
    /// Space that is in use at the end.
    pub used_qshares: u64,
    /// Shares held at the end.
    pub shares_held: u64,
    /// Jobs that have less than they want at the end, each with its reason.
    pub jobs_waiting: u64,
    /// Processes preempted or evicted in the timed cycles.
    pub evictions: u64,
    /// Processes evicted without any news as a cause: there should be none.
    pub quiet_evictions: u64,
    /// Rules that the last schedule broke.
    pub audit_findings: u64,
}

/// Times of the parts of a cycle, and of the steps before and after it; milliseconds.
///
/// All but the first are of the last timed cycle and of its result, so that they can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Median time of recording the events since the last cycle.
    pub record: f64,
    /// All of it, that once.
    pub schedule: f64,
    /// Deciding: the engine alone, from scratch, on the same snapshot. Longer than the whole if the
    /// scheduler did not need the engine.
    pub plan: f64,
    /// Building the view for readers, if nothing in it has changed.
    pub view: f64,
    /// The rest of it: building the snapshot, applying the schedule, and rebuilding the changed
    /// parts of the view.
    pub freeze_apply: f64,
    /// After it: the update for the orchestrator, before it becomes JSON.
    pub update: f64,
}

/// Timed cycles.
#[derive(Debug)]
pub(super) struct Played {
    /// The scheduler after the cycles.
    pub scheduler: Scheduler,
    /// The last of them.
    pub view: View,
    /// Times of the cycles.
    pub cycles: Vec<Duration>,
    /// The last whole cycle in the scheduler.
    pub schedule: Duration,
    /// Times of recording events before each cycle.
    pub records: Vec<Duration>,
    pub evictions: u64,
    pub quiet_evictions: u64,
}

impl Played {
    /// Returns the figures, and the first findings of the audit as text.
    pub fn measure(self, clock: Clock<'_>) -> (Measured, Vec<String>) {
        // Read first: the code below takes memory of its own.
        let peak_rss_mb = MeasuredProcess::own().peak_rss_mb();
        let planned = planned(&self.view);
        let cycle = median(self.cycles.clone());
        let bare = bare::pass(&planned.snapshot, clock);
        let parts_ms = self.parts(planned, clock);
        let findings = audit::audit(&planned.snapshot, &planned.schedule);
        let (nodes, jobs) = (&self.view.nodes, &self.view.jobs);
        let held = |state: &SharePhase| *state == SharePhase::Held;
        let states = nodes.iter().flat_map(|node| node.shares.iter().map(|share| &share.3));
        let measured = Measured {
            cycle_ms: DurationSpread::of(self.cycles),
            parts_ms,
            bare_pass_ms: milliseconds(bare),
            ratio: ratio(cycle, bare),
            peak_rss_mb,
            capacity_qshares: nodes.iter().map(|node| node.order.0).sum(),
            used_qshares: nodes.iter().map(|node| node.used.0).sum(),
            shares_held: count(states.copied().filter(held)),
            jobs_waiting: count(jobs.iter().filter(|job| job.reason.is_some())),
            evictions: self.evictions,
            quiet_evictions: self.quiet_evictions,
            audit_findings: count(&findings),
        };
        let findings = findings.iter().take(FINDINGS_KEPT).map(ToString::to_string);
        (measured, findings.collect())
    }

    fn parts(&self, planned: &Planned, clock: Clock<'_>) -> Parts {
        let plan = timed(clock, || engine::plan(black_box(&planned.snapshot)));
        let view = timed(clock, || self.scheduler.view());
        let update = timed(clock, || update_from(black_box(&self.view)));
        let schedule = self.schedule;
        Parts {
            record: milliseconds(median(self.records.clone())),
            schedule: milliseconds(schedule),
            plan: milliseconds(plan),
            view: milliseconds(view),
            freeze_apply: milliseconds(schedule.saturating_sub(plan).saturating_sub(view)),
            update: milliseconds(update),
        }
    }
}

/// Measures `part`. Its result is dropped outside the measured time.
fn timed<T>(clock: Clock<'_>, part: impl Fn() -> T) -> Duration {
    let times = (0..REPEATS).map(|_| {
        let begun = clock();
        let made = black_box(part());
        let time = clock().saturating_sub(begun);
        drop(made);
        time
    });
    median(times.collect())
}

/// The question and the answer of the cycle that `view` was taken after.
pub(super) fn planned(view: &View) -> &Planned {
    view.planned.as_ref().expect("it was taken after a cycle")
}

/// Processes preempted or evicted in the cycle of `view`.
pub(super) fn evictions(view: &View) -> u64 {
    count(&planned(view).schedule.preemptions)
}
