//! Checks that every job, share and node named in the schedule exists.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use crate::engine::{CycleSchedule, Expansion, Preemption, Promise, Snapshot};
use crate::model::{JobId, JobIx, NodeIx};

/// Findings for the names in the schedule that do not exist.
pub(super) fn unknown_names(
    snapshot: &Snapshot,
    schedule: &CycleSchedule,
    places: &BTreeMap<JobId, JobIx>,
) -> Vec<Finding> {
    let jobs = schedule.report.jobs.iter().map(|line| line.job);
    if !jobs.eq(snapshot.jobs.iter().map(|job| job.id)) {
        let detail = "the report's jobs are not the snapshot's, in their order".to_owned();
        return vec![Rule::ReportJobs.finding(detail)];
    }
    let mut findings = Vec::new();
    let mut look = |job: &JobId, node: &NodeIx| {
        if !places.contains_key(job) {
            findings.push(Rule::UnknownName.finding(format!("there is no job {job}")));
        }
        if node.0 >= snapshot.nodes.len() {
            findings.push(Rule::UnknownName.finding(format!("there is no node {}", node.0)));
        }
    };
    for Expansion { job, node, .. } in &schedule.expansions {
        look(job, node);
    }
    for Promise { job, node, .. } in &schedule.promises {
        look(job, node);
    }
    for preemption in &schedule.preemptions {
        look(&preemption.job, &preemption.node);
        if let Some(beneficiary) = &preemption.beneficiary {
            look(beneficiary, &preemption.node);
        }
    }
    for Preemption { job, share, .. } in &schedule.preemptions {
        let shares = places.get(job).map(|&place| &snapshot.jobs[place].shares);
        if shares.is_some_and(|shares| shares.iter().all(|known| known.id != *share)) {
            findings.push(Rule::UnknownName.finding(format!("job {job} has no share {share}")));
        }
    }
    findings
}
