//! Checks that all jobs get their turn if the search for space takes several cycles.

use std::collections::BTreeSet;

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use crate::engine::Declined;
use crate::model::JobId;

/// A job that is put off has this as its reason. If a job is put off again, only jobs that were put
/// off before are put off, and fewer than then. So its turn comes, in any course of events.
pub(super) fn check_turns(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let before: BTreeSet<JobId> = ledger.snapshot.put_off.iter().copied().collect();
    let now: BTreeSet<JobId> = ledger.schedule.put_off.iter().copied().collect();
    for &job in &now {
        let line = ledger.place(job).map(|place| &ledger.jobs[place]);
        if line.is_none_or(|line| line.report.held_back != Some(Declined::NextCycle)) {
            findings.push(
                Rule::LostTurn
                    .finding(format!("job {job} is put off, and its report does not say so")),
            );
        }
    }
    if now.is_disjoint(&before) {
        return;
    }
    if !now.is_subset(&before) || now.len() == before.len() {
        let (still, was) = (now.intersection(&before).count(), before.len());
        let detail = format!("{still} of {was} jobs are put off again, with {} in all", now.len());
        findings.push(Rule::LostTurn.finding(detail));
    }
}
