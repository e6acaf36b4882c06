//! The figures by which schedulers are compared, taken from the world alone. MODEL section 9.
//!
//! Free of any scheduler's internals: [`MeasureLedger`] gets, cycle by cycle, the need and the
//! holdings of jobs. The only place in this crate that reckons in floating point, because it
//! decides nothing.

mod fairness;
mod fluid_share;
mod report;
mod wants;

pub use fluid_share::{FluidShares, JobClaim, fluid_shares};
pub use report::{FairnessError, JobSpread, RunReport};
pub use wants::Need;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use self::fairness::Fairness;
use crate::model::{Millis, floor_div};
use crate::sim::count;
use crate::sim::world::{INITIALIZATION, WorkIx};

/// Amounts of qshares closer than this are equal: far above what rounding adds up to.
const TOLERANCE: f64 = 1e-9;

/// The time between two cycles.
pub const CYCLE: Millis = 10_000;

/// Time in milliseconds without an event after which the cluster counts as settled.
const SETTLING: Millis = 120_000;

/// Processes of each order that fit on the empty cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Of [`Slots::SMALL`].
    pub small: u64,
    /// Of [`Slots::LARGE`].
    pub large: u64,
}

impl Slots {
    /// The order of the small processes.
    pub const SMALL: u64 = 2;
    /// The order of the large processes. The model's rules of fitting assume two large processes on
    /// a node, or a large and a small process.
    pub const LARGE: u64 = 3;

    /// Counts the processes that fit on nodes of these sizes, in qshares.
    pub fn of(nodes: &[u64]) -> Slots {
        let fitting = |order| nodes.iter().map(|&node| floor_div(node, order)).sum();
        Slots {
            small: fitting(const { nonzero(Slots::SMALL) }),
            large: fitting(const { nonzero(Slots::LARGE) }),
        }
    }
}

const fn nonzero(order: u64) -> NonZeroU64 {
    NonZeroU64::new(order).expect("orders start at 1")
}

/// Constant facts of a job that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The job.
    pub work: WorkIx,
    /// The job's user in the job's class.
    pub party: usize,
    /// Index of the job's class.
    pub class: usize,
    /// The weight of its class.
    pub weight: u64,
    /// The order of its processes.
    pub order: u64,
    /// Time of submission.
    pub submitted: Millis,
}

/// A job in a single cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredJob {
    /// The job.
    pub subject: Subject,
    /// Need of the job, as of the tell step.
    pub need: Need,
    /// Processes that the job holds after the schedule was applied.
    pub held: u64,
}

impl MeasuredJob {
    fn held_qshares(&self) -> u64 {
        self.held * self.subject.order
    }
}

/// A single cycle.
#[derive(Clone, Debug)]
pub struct MeasuredCycle<'a> {
    /// Time of the cycle.
    pub now: Millis,
    /// Every job that was submitted and not reported complete.
    pub lines: &'a [MeasuredJob],
    /// Qshares of each node that are neither held nor draining.
    pub free: &'a [u64],
    /// Processes preempted.
    pub preempted: u64,
    /// True if the beneficiaries' waiting had paid for all work that was lost.
    pub is_paid: bool,
    /// True after a submission, a completion, a voluntary exit or a first initialization.
    pub had_news: bool,
}

/// Sums and counts of a run.
#[derive(Debug)]
pub struct MeasureLedger {
    capacity: u64,
    by_cap: Fairness,
    by_demand: Fairness,
    watches: BTreeMap<WorkIx, JobTrack>,
    longest_zero: Millis,
    longest_zero_owed: Millis,
    last_change: Millis,
    settled_preempting_cycles: u64,
    settled_paid_cycles: u64,
    preempted: u64,
    /// Qshares times cycles.
    held: u64,
    /// Qshares times cycles.
    idle_usable: u64,
    /// Qshares times cycles.
    unheld: f64,
}

/// State of a job that is kept from cycle to cycle.
#[derive(Clone, Copy, Debug)]
struct JobTrack {
    useful: u64,
    /// The unbroken time without a process that it is in.
    zero: Option<Zero>,
}

#[derive(Clone, Copy, Debug)]
struct Zero {
    since: Millis,
    owed: Millis,
}

/// Totals over whole jobs and processes, known when the run is over.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// End of the last item.
    pub makespan: Millis,
    /// For every job, from its submission to the end of its last item.
    pub turnarounds: Vec<Millis>,
    /// For every job, its turnaround and the least that could be.
    pub bounds: Vec<TurnaroundBound>,
    /// Time of all items.
    pub useful: Millis,
    /// Threads times the time processes were held.
    pub thread_time: Millis,
    /// Time spent on items that came back.
    pub lost: Millis,
}

/// The least turnaround a job could have, alone on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnaroundBound {
    /// Duration of the job's longest item.
    pub longest_item: Millis,
    /// All its items.
    pub total: Millis,
    /// Threads of as many processes as it may have at a time.
    pub threads: u64,
}

impl TurnaroundBound {
    fn millis(self) -> f64 {
        real(INITIALIZATION) + real(self.longest_item).max(real(self.total) / real(self.threads))
    }
}

impl MeasureLedger {
    /// A ledger without entries for a cluster with nodes of these sizes, in qshares.
    pub fn new(nodes: &[u64]) -> MeasureLedger {
        let slots = Slots::of(nodes);
        MeasureLedger {
            capacity: nodes.iter().sum(),
            by_cap: Fairness::new(Need::cap, slots),
            by_demand: Fairness::new(Need::demand, slots),
            watches: BTreeMap::new(),
            longest_zero: 0,
            longest_zero_owed: 0,
            last_change: 0,
            settled_preempting_cycles: 0,
            settled_paid_cycles: 0,
            preempted: 0,
            held: 0,
            idle_usable: 0,
            unheld: 0.0,
        }
    }

    /// Adds a single cycle: its state holds until the next cycle.
    pub fn enter(&mut self, cycle: &MeasuredCycle<'_>) {
        let held: u64 = cycle.lines.iter().map(MeasuredJob::held_qshares).sum();
        self.held += held;
        self.by_cap.enter(cycle.lines);
        self.by_demand.enter(cycle.lines);
        self.unheld += (self.by_cap.fluid.total() - real(held)).max(0.0);
        self.idle_usable += idle_usable(cycle.lines, cycle.free);
        let mut has_changed = false;
        for line in cycle.lines {
            has_changed |= self.watch(line, cycle.now);
        }
        self.enter_preemptions(cycle, has_changed);
    }

    /// Follows a single job; returns true if the number of processes that the job can use has
    /// changed.
    fn watch(&mut self, line: &MeasuredJob, now: Millis) -> bool {
        let Subject { work, party, order, submitted, .. } = line.subject;
        let useful = line.need.useful();
        let watch = self
            .watches
            .entry(work)
            .or_insert(JobTrack { useful, zero: Some(Zero { since: submitted, owed: 0 }) });
        if 0 < line.held {
            if let Some(zero) = watch.zero.take() {
                self.longest_zero = self.longest_zero.max(now - zero.since);
            }
        } else {
            let zero = watch.zero.get_or_insert(Zero { since: now, owed: 0 });
            if real(order) <= self.by_cap.shortfall(party) + TOLERANCE {
                zero.owed += CYCLE;
            }
            self.longest_zero_owed = self.longest_zero_owed.max(zero.owed);
        }
        std::mem::replace(&mut watch.useful, useful) != useful
    }

    fn enter_preemptions(&mut self, cycle: &MeasuredCycle<'_>, has_changed: bool) {
        self.preempted += cycle.preempted;
        if cycle.had_news || has_changed {
            self.last_change = cycle.now;
        }
        if 0 < cycle.preempted && SETTLING <= cycle.now - self.last_change {
            let cycles = if cycle.is_paid {
                &mut self.settled_paid_cycles
            } else {
                &mut self.settled_preempting_cycles
            };
            *cycles += 1;
        }
    }

    /// Builds the report; figures that the ledger cannot know are zero.
    pub fn report(&self, totals: &Totals) -> RunReport {
        let turnarounds: Vec<f64> = totals.turnarounds.iter().map(|&time| seconds(time)).collect();
        let slowdown = |(&time, bound): (&Millis, &TurnaroundBound)| real(time) / bound.millis();
        let slowdowns = totals.turnarounds.iter().zip(&totals.bounds).map(slowdown).collect();
        let offered = real(self.capacity) * real(totals.makespan);
        let of_capacity = |qshare_cycles: f64| percent(qshare_cycles * real(CYCLE), offered);
        RunReport {
            makespan_s: seconds(totals.makespan),
            turnaround_s: spread(turnarounds),
            slowdown: spread(slowdowns),
            held_pct: of_capacity(real(self.held)),
            useful_pct: percent(real(totals.useful), real(totals.thread_time)),
            preempted: self.preempted,
            lost_item_s: seconds(totals.lost),
            fairness_error_pct: FairnessError {
                cap: self.by_cap.error_pct(self.capacity, self.by_cap.shortfall),
                cap_whole: self.by_cap.error_pct(self.capacity, self.by_cap.whole_shortfall),
                demand: self.by_demand.error_pct(self.capacity, self.by_demand.shortfall),
                demand_whole: self
                    .by_demand
                    .error_pct(self.capacity, self.by_demand.whole_shortfall),
            },
            longest_zero_s: seconds(self.longest_zero),
            longest_zero_owed_s: seconds(self.longest_zero_owed),
            settled_preempting_cycles: self.settled_preempting_cycles,
            settled_paid_cycles: self.settled_paid_cycles,
            idle_usable_pct: of_capacity(real(self.idle_usable)),
            unheld_pct: of_capacity(self.unheld),
            ..RunReport::default()
        }
    }
}

/// Free qshares that jobs below their cap could fill at once. Nodes are filled in ascending order
/// of free space. A node takes a large process if it fits and is wanted, then small processes.
fn idle_usable(lines: &[MeasuredJob], free: &[u64]) -> u64 {
    let unmet = |order: u64| -> u64 {
        let of_order = lines.iter().filter(|line| line.subject.order == order);
        of_order.map(|line| line.need.cap().saturating_sub(line.held)).sum()
    };
    let (mut small, mut large) = (unmet(Slots::SMALL), unmet(Slots::LARGE));
    let mut holes: Vec<u64> = free.iter().copied().filter(|&hole| 0 < hole).collect();
    holes.sort_unstable();
    let mut filled = 0;
    for mut hole in holes {
        if Slots::LARGE <= hole && 0 < large {
            large -= 1;
            hole -= Slots::LARGE;
            filled += Slots::LARGE;
        }
        while Slots::SMALL <= hole && 0 < small {
            small -= 1;
            hole -= Slots::SMALL;
            filled += Slots::SMALL;
        }
    }
    filled
}

fn spread(mut figures: Vec<f64>) -> JobSpread {
    figures.sort_by(f64::total_cmp);
    let jobs = figures.len();
    let Some(&max) = figures.last() else {
        return JobSpread::default();
    };
    let half = jobs >> 1;
    let median = if jobs.is_multiple_of(2) {
        f64::midpoint(figures[half - 1], figures[half])
    } else {
        figures[half]
    };
    // The nearest rank, counted from 1: ceil(0.95 n).
    let p95 = figures[(jobs * 95).div_ceil(100) - 1];
    JobSpread { mean: figures.iter().sum::<f64>() / real(count(jobs)), median, p95, max }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

fn seconds(time: Millis) -> f64 {
    real(time) / 1000.0
}

/// Converts a whole number to a real number. Exact below 2^53; larger numbers are rounded, which is
/// enough for a figure.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures have fewer digits")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
