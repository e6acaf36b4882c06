//! Cycles of a cluster in one of five situations, from a burst of jobs to an idle cluster.

use std::time::Duration;

use serde::Serialize;

use super::cluster::{self, ClusterShape, JobStream};
use super::drive::{self, Ramp};
use super::measure::{Measured, Played, evictions, planned};
use crate::engine;
use crate::scheduler::{Scheduler, View};
use crate::sim::systemtest::Clock;

/// Cycles of churn before the timed cycles, so that jobs have every age.
const WARM_UP: u64 = 8;

/// The situation that cycles are timed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CycleRegime {
    /// The first cycle of an empty cluster to which all jobs have come at once; with a fresh
    /// scheduler each time.
    Burst,
    /// Cycles of a settled cluster without any news.
    Steady,
    /// Cycles of a settled cluster of whose jobs 1 % are replaced before each.
    Churn,
    /// Cycles without any news of a cluster whose nodes are filled for good, while all its jobs wait.
    Waiting,
    /// A settled and therefore full cluster with as many jobs again that get nothing. A cycle is
    /// here [`engine::plan`] on its snapshot, alone. The plan evaluates each job, gives it its
    /// reason, and cannot reuse anything of an earlier cycle.
    Blocked,
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleOptions {
    /// The cluster.
    pub shape: ClusterShape,
    /// Situation of the cluster.
    pub regime: CycleRegime,
    /// Number of timed cycles. At least 1.
    pub cycles: u64,
    /// For how many cycles at most it may settle first. At least 1.
    pub ramp_cycles: u64,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleOutcome {
    /// The figures.
    pub figures: CycleFigures,
    /// The first findings of the engine's audit, as text.
    pub findings: Vec<String>,
}

/// Figures of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CycleFigures {
    /// The situation.
    pub regime: CycleRegime,
    /// Seed from which the cluster was drawn.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of jobs, without the blocked jobs.
    pub jobs: u64,
    /// Their users.
    pub users: u64,
    /// The smallest allocation.
    pub quantum_mb: u64,
    /// Number of timed cycles.
    pub cycles: u64,
    /// For how many cycles it settled before.
    pub ramp_cycles: u64,
    /// True if nothing changed any more after those cycles. Always true in a burst, which has none.
    pub is_settled: bool,
    /// All the rest.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Times cycles as `options` say.
pub fn run(options: &CycleOptions, clock: Clock<'_>) -> CycleOutcome {
    let CycleOptions { shape, regime, cycles, .. } = *options;
    let (settling, played) = match regime {
        CycleRegime::Burst => (Settling { cycles: 0, is_settled: true }, burst(options, clock)),
        CycleRegime::Steady => steady(options, clock),
        CycleRegime::Waiting => waiting(options, clock),
        CycleRegime::Churn => churn(options, clock),
        CycleRegime::Blocked => blocked(options, clock),
    };
    let (measured, findings) = played.measure(clock);
    let figures = CycleFigures {
        regime,
        seed: shape.seed,
        nodes: shape.nodes,
        jobs: shape.jobs,
        users: shape.users,
        quantum_mb: shape.quantum.memory().0,
        cycles,
        ramp_cycles: settling.cycles,
        is_settled: settling.is_settled,
        measured,
    };
    CycleOutcome { figures, findings }
}

/// Course of the cluster's settling before the measurement.
struct Settling {
    cycles: u64,
    is_settled: bool,
}

impl Settling {
    fn of(ramp: &Ramp) -> Settling {
        Settling { cycles: ramp.cycles, is_settled: ramp.is_settled }
    }
}

fn burst(options: &CycleOptions, clock: Clock<'_>) -> Played {
    let CycleOptions { shape, cycles, .. } = options;
    let begun = clock();
    let (scheduler, _) = drive::loaded(shape, cluster::topology(shape.quantum));
    let recorded = clock().saturating_sub(begun);
    first_cycles(&scheduler, *cycles, recorded, clock)
}

/// Times the first cycle of `scheduler`, `cycles` times.
pub(super) fn first_cycles(
    scheduler: &Scheduler,
    cycles: u64,
    recorded: Duration,
    clock: Clock<'_>,
) -> Played {
    let mut timing = Timing::default();
    let mut last = None;
    for _ in 0..cycles {
        let mut scheduler = scheduler.clone();
        let view = timing.cycle(&mut scheduler, clock);
        timing.quiet_evictions += evictions(&view);
        last = Some((scheduler, view));
    }
    timing.records.push(recorded);
    let (scheduler, view) = last.expect("at least one cycle is timed");
    timing.end(scheduler, view)
}

fn steady(options: &CycleOptions, clock: Clock<'_>) -> (Settling, Played) {
    let (scheduler, _, ramp) = settled(options);
    quiet_cycles(scheduler, ramp, options.cycles, clock)
}

fn waiting(options: &CycleOptions, clock: Clock<'_>) -> (Settling, Played) {
    let mut scheduler = drive::waiting_jobs(&options.shape);
    let ramp = drive::ramp_to_quiet(&mut scheduler, options.ramp_cycles);
    quiet_cycles(scheduler, ramp, options.cycles, clock)
}

/// Times `cycles` cycles without any news after `ramp`.
fn quiet_cycles(
    mut scheduler: Scheduler,
    ramp: Ramp,
    cycles: u64,
    clock: Clock<'_>,
) -> (Settling, Played) {
    let (settling, mut view) = (Settling::of(&ramp), ramp.view);
    let mut timing = Timing::default();
    for _ in 0..cycles {
        timing.record(clock, || drive::confirm(&mut scheduler, &view));
        view = timing.cycle(&mut scheduler, clock);
        timing.quiet_evictions += evictions(&view);
    }
    (settling, timing.end(scheduler, view))
}

fn churn(options: &CycleOptions, clock: Clock<'_>) -> (Settling, Played) {
    let (mut scheduler, mut jobs, ramp) = settled(options);
    let (settling, mut view) = (Settling::of(&ramp), ramp.view);
    let mut replaced = |scheduler: &mut Scheduler, view: &View| {
        drive::confirm(scheduler, view);
        drive::replace(scheduler, view, &mut jobs);
    };
    for _ in 0..WARM_UP {
        replaced(&mut scheduler, &view);
        view = scheduler.schedule();
    }
    let mut timing = Timing::default();
    for _ in 0..options.cycles {
        timing.record(clock, || replaced(&mut scheduler, &view));
        view = timing.cycle(&mut scheduler, clock);
    }
    (settling, timing.end(scheduler, view))
}

fn blocked(options: &CycleOptions, clock: Clock<'_>) -> (Settling, Played) {
    let (mut scheduler, _, first) = settled(options);
    let mut timing = Timing::default();
    timing.record(clock, || {
        drive::confirm(&mut scheduler, &first.view);
        drive::block(&mut scheduler, &options.shape);
    });
    // The arrival itself is news. After it targets decide instead of holdings, and the earlier jobs
    // rearrange themselves once more.
    let second = drive::ramp(&mut scheduler, options.ramp_cycles);
    let settling = Settling {
        cycles: first.cycles + second.cycles,
        is_settled: first.is_settled && second.is_settled,
    };
    drive::confirm(&mut scheduler, &second.view);
    let view = timing.cycle(&mut scheduler, clock);
    timing.quiet_evictions += evictions(&view);
    timing.cycles.clear();
    for _ in 0..options.cycles {
        let begun = clock();
        let schedule = engine::plan(&planned(&view).snapshot);
        timing.cycles.push(clock().saturating_sub(begun));
        drop(schedule);
    }
    (settling, timing.end(scheduler, view))
}

/// Builds the cluster after all jobs have got their shares, and the jobs that may come later. Only
/// blocked jobs use the queue's classes, which have no effect on the other jobs.
fn settled(options: &CycleOptions) -> (Scheduler, JobStream, Ramp) {
    let CycleOptions { shape, regime, ramp_cycles, .. } = options;
    let topology = match regime {
        CycleRegime::Blocked => cluster::topology_with_queue(shape.quantum),
        CycleRegime::Burst | CycleRegime::Steady | CycleRegime::Churn | CycleRegime::Waiting => {
            cluster::topology(shape.quantum)
        }
    };
    let (mut scheduler, jobs) = drive::loaded(shape, topology);
    let ramp = drive::ramp(&mut scheduler, *ramp_cycles);
    (scheduler, jobs, ramp)
}

/// Times and counts of the cycles so far.
#[derive(Default)]
struct Timing {
    cycles: Vec<Duration>,
    /// The last whole cycle in the scheduler.
    schedule: Duration,
    records: Vec<Duration>,
    evictions: u64,
    quiet_evictions: u64,
}

impl Timing {
    /// Times the recording of events before a cycle.
    fn record(&mut self, clock: Clock<'_>, tell: impl FnOnce()) {
        let begun = clock();
        tell();
        self.records.push(clock().saturating_sub(begun));
    }

    /// Times a cycle. The caller drops the results of the cycle before, outside the time.
    fn cycle(&mut self, scheduler: &mut Scheduler, clock: Clock<'_>) -> View {
        let begun = clock();
        let view = scheduler.schedule();
        let time = clock().saturating_sub(begun);
        self.cycles.push(time);
        self.schedule = time;
        self.evictions += evictions(&view);
        view
    }

    fn end(self, scheduler: Scheduler, view: View) -> Played {
        let Timing { cycles, schedule, records, evictions, quiet_evictions } = self;
        Played { scheduler, view, cycles, schedule, records, evictions, quiet_evictions }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::model::{Mebibytes, Quantum};

    fn play(regime: CycleRegime, ramp_cycles: u64) -> CycleOutcome {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = ClusterShape { nodes: 12, jobs: 20, users: 2, quantum, seed: 1 };
        // Every reading is a millisecond after the reading before it.
        let readings = Cell::new(0);
        let clock = || Duration::from_millis(readings.replace(readings.get() + 1));
        run(&CycleOptions { shape, regime, cycles: 4, ramp_cycles }, &clock)
    }

    #[test]
    fn cycles_are_timed_by_the_clock_that_is_handed_in() {
        use CycleRegime::{Blocked, Burst, Churn, Steady, Waiting};
        for regime in [Burst, Steady, Waiting, Churn, Blocked] {
            let CycleOutcome { figures, findings } = play(regime, 60);
            assert_eq!(findings, Vec::<String>::new(), "{regime:?}");
            let measured = figures.measured;
            assert_eq!(measured.cycle_ms.median.to_bits(), 1.0_f64.to_bits(), "{regime:?}");
            assert_eq!(measured.ratio, Some(1.0), "{regime:?}");
            assert!(figures.is_settled, "{regime:?}");
        }
    }

    #[test]
    fn nothing_moves_in_a_settled_cluster() {
        let measured = play(CycleRegime::Steady, 60).figures.measured;
        assert_eq!((measured.evictions, measured.quiet_evictions), (0, 0));
        assert!(measured.capacity_qshares < measured.used_qshares + 4);
    }

    #[test]
    fn churn_moves_something_that_was_called_for() {
        let measured = play(CycleRegime::Churn, 60).figures.measured;
        assert_eq!(measured.quiet_evictions, 0);
        assert!(0 < measured.shares_held);
    }

    #[test]
    fn blocked_jobs_get_a_reason_each_and_nothing_else() {
        let steady = play(CycleRegime::Steady, 60).figures.measured;
        let blocked = play(CycleRegime::Blocked, 60).figures.measured;
        assert_eq!(blocked.shares_held, steady.shares_held);
        assert_eq!(blocked.jobs_waiting, steady.jobs_waiting + 20);
        assert_eq!(blocked.evictions, 0);
    }

    #[test]
    fn jobs_wait_while_nodes_are_filled_for_good() {
        let measured = play(CycleRegime::Waiting, 60).figures.measured;
        assert_eq!((measured.evictions, measured.jobs_waiting, measured.shares_held), (0, 20, 12));
        assert_eq!(measured.capacity_qshares, measured.used_qshares);
    }

    #[test]
    fn a_ramp_that_was_cut_short_is_told() {
        let figures = play(CycleRegime::Steady, 2).figures;
        assert_eq!((figures.ramp_cycles, figures.is_settled), (2, false));
    }
}
