//! Plays scenarios and suites against the scheduler alone, in virtual time, and shows what came of
//! it.

use std::time::Instant;

use super::args::{Simulate, SimulationReport, Variant};
use super::failure::{Failure, FailureKind};
use super::joblog;
use super::output::{complain, show};
use super::table::{Column, table};
use crate::sim::measure::{JobSpread, RunReport};
use crate::sim::recorded::{self, PlayedDocument};
use crate::sim::survey::scale::{self, Milliseconds, ScaleFigures};
use crate::sim::survey::{self, ByLevel, Survey};
use crate::sim::systemtest;

/// Exit status for a wrong command line, as clap has it.
const USED_WRONGLY: u8 = 2;

/// Runs the command.
///
/// # Errors
///
/// If a file makes no sense, a run broke a rule of its model, or the audit found a fault in a
/// suite. A recorded scenario counts as played in any case.
pub fn run(args: &Simulate) -> Result<(), Failure> {
    let report = if args.json { SimulationReport::Json } else { args.report };
    if args.joblog.is_given() {
        return joblog::run(&args.joblog, report);
    }
    let as_json = report == SimulationReport::Json;
    if report == SimulationReport::Html {
        let message = "only a job log has a report in HTML: --swf FILE or --sacct FILE";
        return Err(Failure::new(FailureKind::Status(USED_WRONGLY), message));
    }
    if let Some(file) = &args.recorded {
        return Ok(show(&recorded::play_file(file)?, as_json, scenario)?);
    }
    if let Some(clusters) = args.survey {
        let survey = survey::run(clusters, args.seed, args.scenarios.as_deref())?;
        show(&survey, as_json, surveyed)?;
        return judged(survey.audit_findings);
    }
    let begun = Instant::now();
    let clock = || begun.elapsed();
    if let Some(size) = args.scale {
        let outcome = scale::run(size, args.seed, args.cycles, &clock);
        show(&outcome.figures, as_json, scaled)?;
        objections(&outcome.findings);
        return judged(outcome.figures.audit_findings);
    }
    let (Some(suite), Some(draws)) = (&args.systemtest, &args.draws) else {
        unreachable!("clap asks for one of the workloads, and for draws with a suite")
    };
    let variant = match args.variant {
        Variant::Plain => systemtest::SuiteVariant::Plain,
        Variant::Mixed => systemtest::SuiteVariant::Mixed,
    };
    let outcome = systemtest::run_files(suite, draws, variant, &clock)?;
    show(&outcome.report, as_json, figures)?;
    objections(&outcome.findings);
    judged(outcome.report.audit_findings)
}

/// Tells of what the audit found.
fn objections(findings: &[String]) {
    for finding in findings {
        complain(&format!("audit: {finding}"));
    }
}

/// A run that the audit objects to is a check that failed.
fn judged(audit_findings: u64) -> Result<(), Failure> {
    if audit_findings == 0 { Ok(()) } else { Err(Failure::silent(FailureKind::Refused)) }
}

/// Renders a played scenario, a line for each job and cycle.
fn scenario(document: &PlayedDocument) -> String {
    let rows = document.cycles.iter().flat_map(|cycle| {
        cycle.jobs.iter().map(|job| {
            let nodes = job.nodes.iter().map(|(node, shares)| format!("{node}×{shares}"));
            [
                cycle.cycle.to_string(),
                job.id.to_string(),
                job.order.map_or_else(|| "-".to_owned(), |order| order.to_string()),
                job.cap.to_string(),
                job.given.to_string(),
                job.held.to_string(),
                job.pending_removes.to_string(),
                nodes.collect::<Vec<_>>().join(" "),
                job.reason.clone().unwrap_or_default(),
            ]
        })
    });
    let columns = [
        Column::Right("CYCLE"),
        Column::Right("JOB"),
        Column::Right("ORDER"),
        Column::Right("CAP"),
        Column::Right("GIVEN"),
        Column::Right("HELD"),
        Column::Right("LEAVING"),
        Column::Left("NODES"),
        Column::Left("WHY NOT MORE"),
    ];
    let findings = document
        .cycles
        .iter()
        .flat_map(|cycle| cycle.audit.iter().map(move |finding| (cycle.cycle, finding)))
        .map(|(cycle, finding)| {
            format!("\naudit, cycle {cycle}: {}: {}", finding.rule, finding.detail)
        });
    format!("{}\n{}{}", document.name, table(columns, rows), findings.collect::<String>())
}

/// The figures of a suite.
fn figures(report: &RunReport) -> String {
    let percent = |value: f64| format!("{value:.3} %");
    let seconds = |value: f64| format!("{value:.1} s");
    let spread = |spread: &JobSpread, unit: &str| {
        let JobSpread { mean, median, p95, max } = spread;
        format!(
            "mean {mean:.2}{unit}, median {median:.2}{unit}, p95 {p95:.2}{unit}, max {max:.2}{unit}"
        )
    };
    let fairness = &report.fairness_error_pct;
    let rows = [
        ["items done", &format!("{} of {}", report.items_done, report.items_total)],
        ["makespan", &seconds(report.makespan_s)],
        ["turnaround", &spread(&report.turnaround_s, " s")],
        ["slowdown", &spread(&report.slowdown, "")],
        ["held", &percent(report.held_pct)],
        ["useful", &percent(report.useful_pct)],
        ["processes preempted", &report.preempted.to_string()],
        ["work lost", &seconds(report.lost_item_s)],
        ["fairness error, by caps", &percent(fairness.cap)],
        ["  whole processes only", &percent(fairness.cap_whole)],
        ["fairness error, by demand", &percent(fairness.demand)],
        ["  whole processes only", &percent(fairness.demand_whole)],
        ["longest time without a process", &seconds(report.longest_zero_s)],
        ["  while one was owed", &seconds(report.longest_zero_owed_s)],
        ["settled cycles that preempted", &report.settled_preempting_cycles.to_string()],
        ["  paid for by waiting", &report.settled_paid_cycles.to_string()],
        ["idle and usable", &percent(report.idle_usable_pct)],
        ["not held though deserved", &percent(report.unheld_pct)],
        ["audit findings", &report.audit_findings.to_string()],
        ["time in the scheduler", &seconds(report.scheduler_s)],
        ["time in all", &seconds(report.wall_s)],
    ];
    let rows = rows.map(|row| row.map(str::to_owned));
    table([Column::Left("FIGURE"), Column::Left("VALUE")], rows)
}

/// The figures of a survey, and the clusters to look into.
fn surveyed(survey: &Survey) -> String {
    let ByLevel { class, user, job } = survey.envy_cases;
    let rows = [
        ("clusters", survey.clusters),
        ("jobs", survey.jobs),
        ("users owed a process and with nothing", survey.owed_users.all),
        ("  in clusters", survey.owed_users.clusters),
        ("jobs owed a process and with nothing", survey.owed_jobs.all),
        ("  in clusters", survey.owed_jobs.clusters),
        ("users with nothing where every job could have one", survey.owed_users_all_fit.all),
        ("  in clusters", survey.owed_users_all_fit.clusters),
        ("jobs with nothing where every job could have one", survey.owed_jobs_all_fit.all),
        ("  in clusters", survey.owed_jobs_all_fit.clusters),
        ("jobs counted and with nothing", survey.counted_jobs.all),
        ("jobs with nothing though space could be made", survey.zero_share_jobs),
        ("jobs with nothing", survey.zero_share_all),
        ("clusters with envy between classes", class),
        ("  between users", user),
        ("  between jobs", job),
        ("pairs with envy between classes", survey.envies.class),
        ("  between users", survey.envies.user),
        ("  between jobs", survey.envies.job),
        ("jobs that ended with less than they were promised", survey.moved_and_less.all),
        ("  in clusters", survey.moved_and_less.clusters),
        ("processes evicted", survey.evictions),
        ("  of jobs that were promised as many", survey.passed_through),
        ("  of these, moved", survey.passed_through_moved),
        ("  after 20 quiet cycles", survey.quiet_evictions),
        ("  then, paid for by waiting", survey.quiet_evictions_paid),
        ("qshares idle and usable", survey.idle_usable_qshares),
        ("strikes of the safety net", survey.net_strikes),
        ("audit findings", survey.audit_findings),
    ];
    let rows = rows.map(|(figure, value)| [figure.to_owned(), value.to_string()]);
    let cases = survey.cases.iter().flat_map(|case| {
        case.what.iter().map(|what| format!("\ncluster {}: {what}", case.cluster))
    });
    let figures = table([Column::Left("FIGURE"), Column::Right("VALUE")], rows);
    format!("{figures}\n{}", cases.collect::<String>())
}

/// Renders the figures of a large cluster.
fn scaled(figures: &ScaleFigures) -> String {
    let Milliseconds { median, max } = figures.cycle_ms;
    let last = figures.last_preempting_cycle;
    let rows = [
        ("nodes", figures.nodes.to_string()),
        ("jobs", figures.jobs.to_string()),
        ("cycles", figures.cycles.to_string()),
        ("processes preempted", figures.preempted.to_string()),
        ("  last in cycle", last.map_or_else(|| "-".to_owned(), |cycle| cycle.to_string())),
        ("  in the last 20 cycles", figures.quiet_evictions.to_string()),
        ("qshares idle and usable", figures.idle_usable_qshares.to_string()),
        ("strikes of the safety net", figures.net_strikes.to_string()),
        ("time of a cycle", format!("median {median:.1} ms, max {max:.1} ms")),
        ("cycles audited", figures.audited_cycles.to_string()),
        ("audit findings", figures.audit_findings.to_string()),
    ];
    let rows = rows.map(|(figure, value)| [figure.to_owned(), value]);
    table([Column::Left("FIGURE"), Column::Left("VALUE")], rows)
}
