//! Times cycles and the daemon, and shows what they took.

pub mod args;
mod orchestrator;

use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use self::args::{Bench, CycleBenchArgs, Daemon, LoadBenchArgs, PlaceBenchArgs, Regime, Size};
use super::failure::{Failure, FailureKind};
use super::output::{complain, show};
use super::table::{Column, table};
use super::wait;
use crate::bench::cluster::ClusterShape;
use crate::bench::{
    DurationSpread, Measured, Parts, cycle, daemon, gangs, grid, load, place, slot,
};
use crate::model::{Mebibytes, Quantum};

/// Timed cycles where cycles are short.
const CYCLES: u64 = 20;
/// Timed cycles where each does the whole of the work.
const FEW_CYCLES: u64 = 5;
/// The smallest allocation of the cluster under load.
const QUANTUM: Mebibytes = Mebibytes(15 << 10);
/// Jobs of each user.
const JOBS_A_USER: u64 = 10;

/// Runs the command.
///
/// # Errors
///
/// If the audit found something, or if the daemon cannot be measured.
pub fn run(action: &Bench) -> Result<(), Failure> {
    match action {
        Bench::Cycle(args) => run_cycle(args),
        Bench::Place(args) => run_place(args),
        Bench::Daemon(args) => wait(Builder::new_multi_thread(), run_daemon(args)),
        Bench::Load(args) => wait(Builder::new_multi_thread(), run_load(args)),
        Bench::Slot(args) => run_slot(args),
        Bench::Grid(args) => run_grid(args),
        Bench::Orchestrator(args) => wait(Builder::new_multi_thread(), orchestrator::run(args)),
        Bench::BareExchange(args) => {
            wait(Builder::new_multi_thread(), orchestrator::serve_bare(args))
        }
        Bench::Bare => wait(Builder::new_multi_thread(), async {
            let listening = |address| complain(&format!("listening at {address}"));
            Ok(load::serve_bare(listening).await?)
        }),
    }
}

fn run_cycle(args: &CycleBenchArgs) -> Result<(), Failure> {
    let (regime, cycles) = match args.regime {
        Regime::Gangs => return run_gangs(args),
        Regime::Burst => (cycle::CycleRegime::Burst, FEW_CYCLES),
        Regime::Steady => (cycle::CycleRegime::Steady, CYCLES),
        Regime::Waiting => (cycle::CycleRegime::Waiting, CYCLES),
        Regime::Churn => (cycle::CycleRegime::Churn, CYCLES),
        Regime::Blocked => (cycle::CycleRegime::Blocked, FEW_CYCLES),
    };
    let options = cycle::CycleOptions {
        shape: shape(args.size, args.seed),
        regime,
        cycles: args.cycles.unwrap_or(cycles),
        ramp_cycles: args.ramp_cycles,
    };
    let begun = Instant::now();
    let cycle::CycleOutcome { figures, findings } = cycle::run(&options, &|| begun.elapsed());
    show(&figures, args.size.json, cycled)?;
    if !figures.is_settled {
        complain(&format!(
            "warning: not settled after {} cycles, so the figures are of a cluster in motion; allow \
             more with --ramp-cycles",
            figures.ramp_cycles
        ));
    }
    judged(&figures.measured, &findings)
}

fn run_gangs(args: &CycleBenchArgs) -> Result<(), Failure> {
    let Size { nodes, jobs, .. } = args.size;
    let options = gangs::GangOptions { nodes, jobs, cycles: args.cycles.unwrap_or(FEW_CYCLES) };
    let begun = Instant::now();
    let all = gangs::run(&options, &|| begun.elapsed());
    let figures: Vec<_> = all.iter().map(|(figures, _)| figures.clone()).collect();
    show(&figures, args.size.json, |figures| planned_gangs(figures))?;
    let findings = all.iter().flat_map(|(_, findings)| findings);
    for finding in findings.clone() {
        complain(&format!("audit: {finding}"));
    }
    if findings.count() == 0 { Ok(()) } else { Err(Failure::silent(FailureKind::Refused)) }
}

fn run_slot(args: &args::SlotBenchArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let options = slot::SlotOptions { tasks: args.tasks, lanes: args.lanes };
    let figures = slot::run(options, &|| begun.elapsed())?;
    Ok(show(&figures, args.json, |figures| {
        let idle = figures.idle_anonymous_kb.map_or("-".to_owned(), |kb| format!("{kb} KB"));
        let wakeups = figures.idle_wakeups_per_second;
        let wakeups = wakeups.map_or("-".to_owned(), |wakeups| format!("{wakeups:.1}"));
        format!(
            "a bare loop starts  {:>7.0} a second, one at a time\n\
             a slot starts       {:>7.0} a second, {} at a time: {:.2} of the bare loop\n\
             an idle slot has    {idle:>7} of its own, and wakes up {wakeups} times a second",
            figures.bare_per_second, figures.slot_per_second, figures.lanes, figures.ratio
        )
    })?)
}

fn run_grid(args: &args::GridBenchArgs) -> Result<(), Failure> {
    let args::GridBenchArgs { clusters, campaigns, passes, json } = *args;
    let begun = Instant::now();
    let figures =
        grid::run(&grid::GridOptions { clusters, campaigns, passes }, &|| begun.elapsed());
    Ok(show(&figures, json, |figures| routed(figures))?)
}

/// Figures of passes of the router.
fn routed(all: &[grid::GridFigures]) -> String {
    let columns = [
        Column::Left("POLICY"),
        Column::Right("CLUSTERS"),
        Column::Right("CAMPAIGNS"),
        Column::Right("PASS"),
        Column::Right("LONGEST"),
        Column::Right("GOAL"),
        Column::Right("SENT"),
    ];
    let row = |figures: &grid::GridFigures| {
        [
            figures.policy.clone(),
            figures.clusters.to_string(),
            figures.campaigns.to_string(),
            format!("{:.1} ms", figures.pass_ms.median),
            format!("{:.1} ms", figures.pass_ms.max),
            format!("{} ms", figures.goal_ms),
            figures.sent.to_string(),
        ]
    };
    table(columns, all.iter().map(row))
}

fn run_place(args: &PlaceBenchArgs) -> Result<(), Failure> {
    let Size { nodes, jobs, quantum, json, .. } = args.size;
    let users = users(args.size);
    let options = place::PlaceOptions { nodes, jobs, users, quantum, cycles: args.cycles };
    let begun = Instant::now();
    let place::PlaceOutcome { figures, findings } = place::run(&options, &|| begun.elapsed());
    show(&figures, json, placed)?;
    judged(&figures.measured, &findings)
}

async fn run_daemon(args: &Daemon) -> Result<(), Failure> {
    let figures = daemon::run(&shape(args.size, args.seed), args.starts).await?;
    Ok(show(&figures, args.size.json, served)?)
}

async fn run_load(args: &LoadBenchArgs) -> Result<(), Failure> {
    let LoadBenchArgs { nodes, jobs, seconds, json } = *args;
    let users = jobs.div_ceil(JOBS_A_USER);
    let shape = ClusterShape {
        nodes,
        jobs,
        users,
        quantum: Quantum::new(QUANTUM).expect("not nothing"),
        seed: 1,
    };
    let options = load::LoadOptions { shape, time: Duration::from_secs(seconds) };
    let figures = load::run(&options).await?;
    Ok(show(&figures, json, loaded)?)
}

fn shape(size: Size, seed: u64) -> ClusterShape {
    let Size { nodes, jobs, quantum, .. } = size;
    ClusterShape { nodes, jobs, users: users(size), quantum, seed }
}

fn users(size: Size) -> u64 {
    size.users.unwrap_or(size.jobs.div_ceil(JOBS_A_USER))
}

/// Fails if the audit objects: figures of a wrong schedule have no value.
fn judged(measured: &Measured, findings: &[String]) -> Result<(), Failure> {
    for finding in findings {
        complain(&format!("audit: {finding}"));
    }
    if measured.audit_findings == 0 { Ok(()) } else { Err(Failure::silent(FailureKind::Refused)) }
}

/// A figure and its value.
type NamedFigure = (&'static str, String);

/// Figures of cycles.
fn cycled(figures: &cycle::CycleFigures) -> String {
    let what = match figures.regime {
        cycle::CycleRegime::Burst => "burst",
        cycle::CycleRegime::Steady => "steady",
        cycle::CycleRegime::Waiting => "waiting",
        cycle::CycleRegime::Churn => "churn",
        cycle::CycleRegime::Blocked => "blocked",
    };
    let rows = vec![
        ("regime", what.to_owned()),
        ("nodes", figures.nodes.to_string()),
        ("jobs", figures.jobs.to_string()),
        ("users", figures.users.to_string()),
        ("quantum", format!("{} MB", figures.quantum_mb)),
        ("cycles to settle", figures.ramp_cycles.to_string()),
        ("cycles timed", figures.cycles.to_string()),
    ];
    render(rows.into_iter().chain(measured(&figures.measured)))
}

/// Figures of a cycle that places.
fn placed(figures: &place::PlaceFigures) -> String {
    let rows = vec![
        ("nodes", figures.nodes.to_string()),
        ("requests", figures.jobs.to_string()),
        ("users", figures.users.to_string()),
        ("cycles timed", figures.cycles.to_string()),
    ];
    render(rows.into_iter().chain(measured(&figures.measured)))
}

/// Figures of plans with gangs.
fn planned_gangs(all: &[gangs::GangFigures]) -> String {
    let case = |figures: &gangs::GangFigures| match figures.case {
        gangs::GangCase::Waiting => "gangs that wait",
        gangs::GangCase::Impossible => "gangs that can never start",
        gangs::GangCase::EqualImpossible => "equal gangs, never",
        gangs::GangCase::SingleNodes => "exclusive nodes",
        gangs::GangCase::Wide => "a gang on every node",
        gangs::GangCase::Room => "room on half the nodes",
        gangs::GangCase::Timed => "gangs with a duration",
        gangs::GangCase::Tagged => "jobs with tags",
        gangs::GangCase::Untagged => "jobs without tags",
    };
    let columns = [
        Column::Left("CASE"),
        Column::Right("JOBS"),
        Column::Right("PLAN"),
        Column::Right("BARE PASS"),
        Column::Right("RATIO"),
        Column::Right("STARTED"),
        Column::Right("PREEMPTED"),
    ];
    let rows = all.iter().map(|figures| {
        [
            case(figures).to_owned(),
            figures.jobs.to_string(),
            milliseconds(figures.plan_ms.median),
            milliseconds(figures.bare_pass_ms),
            figures.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.0}")),
            figures.started.to_string(),
            figures.preempted.to_string(),
        ]
    });
    table(columns, rows)
}

/// Figures of the daemon.
fn served(figures: &daemon::DaemonFigures) -> String {
    let megabytes = |bytes: Option<u64>| known(bytes.map(|bytes| bytes >> 20), "MB");
    render([
        ("nodes", figures.nodes.to_string()),
        ("jobs published", figures.jobs.to_string()),
        ("users", figures.users.to_string()),
        ("quantum", format!("{} MB", figures.quantum_mb)),
        ("publication to schedule", milliseconds(figures.schedule_ms)),
        ("  publication answered", milliseconds(figures.answer_ms)),
        ("  planning", milliseconds(figures.plan_ms)),
        ("  putting on record", milliseconds(figures.store_ms)),
        ("jobs with a share", figures.jobs_placed.to_string()),
        ("jobs that want more", figures.jobs_waiting.to_string()),
        ("shares held", figures.shares_held.to_string()),
        ("processor time", seconds(figures.cpu_s)),
        ("  since the publication", seconds(figures.publication_cpu_s)),
        ("peak memory", peak(figures.peak_rss_mb)),
        ("written to disks", megabytes(figures.written_bytes)),
        ("size of the store", megabytes(figures.store_bytes)),
        ("killed and started again", figures.starts.to_string()),
        ("  start to schedule", milliseconds(figures.start_ms.median)),
        ("    longest", milliseconds(figures.start_ms.max)),
        ("  start to all answers", milliseconds(figures.resumed_ms.median)),
    ])
}

/// Figures of the daemon under load.
fn loaded(figures: &load::LoadFigures) -> String {
    let compared = |name, compared: &load::Compared| {
        let load::Compared { daemon_per_s, bare_per_s, ratio, daemon_ms, bare_ms, .. } = compared;
        let micros = |value: Option<f64>| known(value.map(|value| format!("{value:.1}")), "us");
        [
            (name, format!("{daemon_per_s:.0} a second")),
            ("  a bare handler", format!("{bare_per_s:.0} a second")),
            ("  ratio of the two", format!("{ratio:.2}")),
            ("  time of one, median", milliseconds(daemon_ms.median)),
            ("  of a bare one", milliseconds(bare_ms.median)),
            ("  time of one, 99 of 100", milliseconds(daemon_ms.p99)),
            ("  processor time of one", micros(compared.daemon_cpu_us)),
            ("  of a bare one", micros(compared.bare_cpu_us)),
        ]
    };
    let percent = |value: Option<f64>| known(value.map(|value| format!("{value:.1}")), "%");
    let millis = |value: Option<f64>| known(value.map(|value| format!("{value:.3}")), "ms");
    let load::Readers { alone_ms, with_readers_ms, ratio, reads_per_s, .. } = &figures.readers;
    let rows = vec![
        ("nodes", figures.nodes.to_string()),
        ("jobs", figures.jobs.to_string()),
        ("size of the schedule", format!("{} bytes", figures.schedule_bytes)),
    ];
    let rows = rows
        .into_iter()
        .chain(compared("single heartbeats", &figures.single_heartbeats))
        .chain(compared("batches of 1,000", &figures.batches))
        .chain(compared("polls, unchanged", &figures.unchanged_polls))
        .chain(compared("polls, whole schedule", &figures.whole_polls))
        .chain([
            ("10,000 agents at 10 s, of a core", percent(figures.agents.core_percent)),
            ("  without them", percent(figures.agents.idle_core_percent)),
            ("  of a bare handler", percent(figures.agents.bare_core_percent)),
            ("  heartbeats sent", format!("{:.0} a second", figures.agents.sent_per_s)),
            ("cycle and commit, median", milliseconds(alone_ms.median)),
            ("  with 200 readers at 1 s", milliseconds(with_readers_ms.median)),
            ("  ratio of the two", format!("{ratio:.2}")),
            ("  processor time of its thread", millis(figures.readers.alone_cpu_ms)),
            ("  with 200 readers", millis(figures.readers.with_readers_cpu_ms)),
            ("  reads", format!("{reads_per_s:.0} a second")),
        ]);
    render(rows)
}

fn measured(measured: &Measured) -> Vec<NamedFigure> {
    let DurationSpread { median, p99, max } = measured.cycle_ms;
    let Parts { record, schedule, plan, view, freeze_apply, update } = measured.parts_ms;
    let Measured { used_qshares, capacity_qshares, .. } = measured;
    vec![
        ("time of a cycle", milliseconds(median)),
        ("  99 of 100", milliseconds(p99)),
        ("  longest", milliseconds(max)),
        ("time of a bare pass", milliseconds(measured.bare_pass_ms)),
        ("ratio of the two", measured.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.0}"))),
        ("recording what happened", milliseconds(record)),
        ("the last cycle in all", milliseconds(schedule)),
        ("  planning from scratch", milliseconds(plan)),
        ("  making the view", milliseconds(view)),
        ("  the rest", milliseconds(freeze_apply)),
        ("making the update", milliseconds(update)),
        ("peak memory", peak(measured.peak_rss_mb)),
        ("qshares taken", format!("{used_qshares} of {capacity_qshares}")),
        ("shares held", measured.shares_held.to_string()),
        ("jobs that want more", measured.jobs_waiting.to_string()),
        ("processes evicted", measured.evictions.to_string()),
        ("  though nothing was new", measured.quiet_evictions.to_string()),
        ("audit findings", measured.audit_findings.to_string()),
    ]
}

fn render(rows: impl IntoIterator<Item = NamedFigure>) -> String {
    let rows = rows.into_iter().map(|(figure, value)| [figure.to_owned(), value]);
    table([Column::Left("FIGURE"), Column::Right("VALUE")], rows)
}

fn milliseconds(value: f64) -> String {
    // A quiet cycle takes a ten-thousandth of a busy cycle: three digits would show zero.
    if value < 0.1 { format!("{value:.6} ms") } else { format!("{value:.3} ms") }
}

fn seconds(value: Option<f64>) -> String {
    known(value.map(|value| format!("{value:.2}")), "s")
}

fn peak(value: Option<f64>) -> String {
    known(value.map(|value| format!("{value:.1}")), "MB")
}

/// A figure that this system does not provide is not zero.
fn known(value: Option<impl ToString>, unit: &str) -> String {
    value.map_or("-".to_owned(), |value| format!("{} {unit}", value.to_string()))
}
