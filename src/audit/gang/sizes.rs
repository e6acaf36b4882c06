//! Checks numbers of processes of jobs that can work with certain numbers only.

use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::lines::JobLine;
use crate::audit::shapes::{gang_shape, is_chosen, is_legal, is_resizable, sized_shape};
use crate::model::{Millis, count};

/// Longest initialization of a new process that keeps its job from another change of size.
const ADAPTING: Millis = 600_000;

/// The number of processes of a job is legal, and at least its minimum, whenever the planner
/// changes it. Processes that exit on their own are no change.
///
/// A job that adapts to its last change does not grow: a process of it still initializes, and
/// has for less than `ADAPTING`.
pub(in crate::audit) fn check_sizes(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in ledger.jobs.iter().filter(|line| line.job.shape.is_some() && !line.has_ended()) {
        let sized = sized_shape(line.job);
        if let Some(shape) = sized.or_else(|| gang_shape(line.job).filter(|it| is_chosen(it))) {
            let is_changed = 0 < line.expanded + line.lost;
            let now = Some(line.holds()).filter(|_| is_changed);
            let later = Some(line.has()).filter(|_| 0 < line.expanded + line.promised);
            let mut sizes = now.into_iter().chain(later).filter(|size| 0 < *size);
            if let Some(size) = sizes.find(|size| !is_legal(shape, *size)) {
                let detail = format!("job {} has {size} processes", line.job.id);
                findings.push(Rule::IllegalSize.finding(detail));
            }
        }
        if line.job.shape.as_deref().is_some_and(is_resizable) && grows_while_adapting(ledger, line)
        {
            let detail = format!("job {} adapts, and grows to {}", line.job.id, line.has());
            findings.push(Rule::IllegalSize.finding(detail));
        }
    }
}

fn grows_while_adapting(ledger: &Ledger<'_>, line: &JobLine<'_>) -> bool {
    let promises = ledger.snapshot.promises.iter();
    let before = count(promises.filter(|promise| promise.job == line.job.id));
    let mut held = line.job.held();
    line.held + before < line.has()
        && held.any(|share| !share.facts.is_initialized && share.facts.initialization < ADAPTING)
}
