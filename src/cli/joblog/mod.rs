//! `apportion simulate --swf`: a cluster's own past under several policies, side by side.

pub mod args;
mod chart;
mod page;
mod plain_report;
mod progress_bar;
mod reader;

use serde::Serialize;

use super::args::SimulationReport;
use super::failure::{Failure, FailureKind};
use super::output::{print, show};
use super::settings;
use crate::model::{Steps, Topology};
use crate::sim::joblog::{
    self, JobLog, LogNode, LogNote, MemoryBasis, NodeSources, ReplayCluster, ReplayFigures, SizeBy,
    sacct, swf,
};
use args::JobLogArgs;

/// All that a report says.
#[derive(Debug, Serialize)]
struct JobLogReport {
    /// Name of the log.
    log: String,
    /// Rows that were left out or changed.
    notes: Vec<LogNote>,
    /// Sentences on how the numbers of the log were read.
    readings: Vec<String>,
    #[serde(flatten)]
    figures: ReplayFigures,
}

/// Replays a log and reports.
///
/// # Errors
///
/// If a file cannot be read or makes no sense, or no node is known.
pub fn run(args: &JobLogArgs, form: SimulationReport) -> Result<(), Failure> {
    let log = read_log(args)?;
    let machines = read_machines(args)?;
    let topology = read_topology(args)?;
    let usual = machines.as_ref().map(|_| MemoryBasis::Node);
    let rules = args.size_rules(usual);
    let has_memory = log.rows.iter().any(|row| row.memory.is_some());
    let sources = NodeSources {
        topology: topology.as_ref(),
        options: &args.node_options(),
        machines: machines.as_deref(),
        header: log.header,
        needs_memory: rules.by != SizeBy::Processors && has_memory,
    };
    let nodes = sources.nodes()?;
    let cluster = ReplayCluster::new(topology, args.quantum, &nodes, &args.class_rules())?;
    let mut requests = joblog::requests(&log, &cluster, rules)?;
    if args.exact_times {
        requests.request_run_times();
    }
    let steps = Steps::default();
    let policies = args.policies();
    let figures = progress_bar::shown(&steps, requests.jobs.len() * policies.len(), || {
        joblog::replay(&cluster, &requests.jobs, &policies, &steps)
    });
    let report = JobLogReport {
        log: file_name(&log.file),
        notes: log.notes,
        readings: requests.readings,
        figures,
    };
    match form {
        SimulationReport::Html => Ok(print(&page::render(&report)?)?),
        SimulationReport::Json => Ok(show(&report, true, plain_report::render)?),
        SimulationReport::Text => Ok(show(&report, false, plain_report::render)?),
    }
}

/// The last part of a path.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn read_log(args: &JobLogArgs) -> Result<JobLog, Failure> {
    match (&args.swf, &args.sacct) {
        (Some(path), _) => Ok(swf::parse(&path.display().to_string(), &reader::text(path)?)?),
        (None, Some(path)) => Ok(sacct::parse(&path.display().to_string(), &reader::text(path)?)?),
        (None, None) => Err(Failure::new(FailureKind::NotFound, "no job log is named")),
    }
}

/// The file of machines that is named, or lies beside the log.
fn read_machines(args: &JobLogArgs) -> Result<Option<Vec<LogNode>>, Failure> {
    let beside = || args.swf.as_deref().and_then(reader::machines_beside);
    let Some(path) = args.machines.clone().or_else(beside) else { return Ok(None) };
    let text = reader::text(&path)?;
    Ok(Some(joblog::parse_machines(&path.display().to_string(), &text)?))
}

fn read_topology(args: &JobLogArgs) -> Result<Option<Topology>, Failure> {
    let Some(path) = &args.config else { return Ok(None) };
    let (_, config) = settings::load(path, &[], FailureKind::Refused)?;
    Ok(Some(config.topology))
}
