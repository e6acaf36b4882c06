//! Times the orchestrator, and shows what it took beside what it may take.

use std::time::Duration;

use super::super::failure::Failure;
use super::super::output::{complain, show};
use super::super::table::{Column, table};
use super::args::{BareExchange, OrchestratorBenchArgs, OrchestratorPart};
use super::known;
use crate::bench::orchestrator::{
    BareWork, Large, LargeFigures, OrchestratorFigures, OrchestratorOptions, StartFigures, Starts,
    run as measure, serve_bare as bare,
};

/// Measures what was asked for.
///
/// # Errors
///
/// If the orchestrator cannot be measured.
pub(super) async fn run(args: &OrchestratorBenchArgs) -> Result<(), Failure> {
    let starts = Starts { agents: args.agents, slots_each: args.slots, tasks: args.tasks };
    let large = Large {
        campaigns: args.campaigns,
        lines: args.lines,
        running: args.running,
        nodes: args.nodes,
        time: Duration::from_secs(args.seconds),
    };
    let options = OrchestratorOptions {
        starts: (args.only != Some(OrchestratorPart::Large)).then_some(starts),
        large: (args.only != Some(OrchestratorPart::Starts)).then_some(large),
    };
    let figures = measure(&options).await?;
    Ok(show(&figures, args.json, shown)?)
}

/// Serves what the orchestrator is compared with.
///
/// # Errors
///
/// If it cannot listen, or its database fails.
pub(super) async fn serve_bare(args: &BareExchange) -> Result<(), Failure> {
    let listening = |address| complain(&format!("listening at {address}"));
    let work = BareWork { tasks: args.tasks, slots: args.slots };
    Ok(bare(&args.state, work, listening).await?)
}

/// Cells of a row: the name, the figure, the compared figure, their ratio, and the goal.
type ComparedFigure = [String; 5];

fn shown(figures: &OrchestratorFigures) -> String {
    let starts = figures.starts.iter().flat_map(start_rows);
    let large = figures.large.iter().flat_map(large_rows);
    let columns = [
        Column::Left("WHAT"),
        Column::Right("FIGURE"),
        Column::Right("BARE"),
        Column::Right("RATIO"),
        Column::Left("GOAL"),
    ];
    table(columns, starts.chain(large))
}

fn row(what: impl Into<String>, figure: String, goal: &str) -> ComparedFigure {
    [what.into(), figure, String::new(), String::new(), goal.to_owned()]
}

fn start_rows(figures: &StartFigures) -> Vec<ComparedFigure> {
    let StartFigures { per_s, bare_per_s, ratio, cpu_us, bare_cpu_us, .. } = figures;
    let micros = |value: &Option<f64>| known(value.map(|value| format!("{value:.0}")), "us");
    let what = format!("{} tasks, {} slots", figures.tasks, figures.slots);
    vec![
        row(what, String::new(), ""),
        [
            "  started in a second".to_owned(),
            format!("{per_s:.0}"),
            format!("{bare_per_s:.0}"),
            format!("{ratio:.2}"),
            ">= 2000, ratio >= 0.50".to_owned(),
        ],
        [
            "  processor time of one".to_owned(),
            micros(cpu_us),
            micros(bare_cpu_us),
            String::new(),
            String::new(),
        ],
    ]
}

fn large_rows(figures: &LargeFigures) -> Vec<ComparedFigure> {
    let megabytes = |value: Option<f64>| known(value.map(|value| format!("{value:.0}")), "MB");
    let percent = |value: Option<f64>| known(value.map(|value| format!("{value:.1}")), "%");
    let disk = figures.submit_bytes.map(|bytes| bytes >> 20);
    let kilobytes = format!("{} KB", figures.publication_bytes >> 10);
    let LargeFigures { lines, campaigns, running, agents, .. } = figures;
    vec![
        row(format!("submission of {lines} lines"), String::new(), ""),
        row("  time", format!("{:.1} s", figures.submit_s), "<= 5 s"),
        row("  peak memory, orchestrator", megabytes(figures.submit_peak_mb), "<= 300 MB"),
        row("  peak memory, command", megabytes(figures.command_peak_mb), "<= 300 MB"),
        row("  on disk", known(disk, "MB"), "<= 20 MB"),
        row(format!("{campaigns} of them, {running} tasks run"), String::new(), ""),
        row("  peak memory", megabytes(figures.peak_mb), "<= 300 MB"),
        row("  restart to first exchange", format!("{:.0} ms", figures.restart_ms), "<= 2000 ms"),
        row("  peak memory after that", megabytes(figures.restarted_peak_mb), "<= 300 MB"),
        row(
            format!("{agents} agents wait, of a core"),
            percent(figures.idle_core_percent),
            "<= 5 %",
        ),
        row(
            format!("publication, {} slots", figures.publication_processes),
            kilobytes,
            "<= 2048 KB",
        ),
        row("  one a second, of a core", percent(figures.publication_core_percent), "<= 10 %"),
    ]
}
