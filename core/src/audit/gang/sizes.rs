//! Checks numbers of processes of jobs that can work with certain numbers only.

use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::lines::JobLine;
use crate::audit::shapes::{gang_shape, is_adapting, is_chosen, is_legal, sized_shape};

/// The number of processes of a job is legal, and at least its minimum, whenever the planner
/// changes it. Processes that exit on their own are no change. Space may be promised for a part of
/// a step: the step itself begins when all its space is free.
///
/// A job that adapts to its last change does not grow.
pub(in crate::audit) fn check_sizes(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in ledger.jobs.iter().filter(|line| line.job.shape.is_some() && !line.has_ended()) {
        let sized = sized_shape(line.job);
        if let Some(shape) = sized.or_else(|| gang_shape(line.job).filter(|it| is_chosen(it))) {
            let is_changed = 0 < line.expanded + line.lost;
            let size = line.holds();
            if is_changed && 0 < size && !is_legal(shape, size) {
                let detail = format!("job {} has {size} processes", line.job.id);
                findings.push(Rule::IllegalSize.finding(detail));
            }
        }
        // The owner of an evolving gang knows when its processes are ready for more.
        if sized.is_some() && grows_while_adapting(line) {
            let detail = format!("job {} adapts, and grows to {}", line.job.id, line.has());
            findings.push(Rule::IllegalSize.finding(detail));
        }
    }
}

fn grows_while_adapting(line: &JobLine<'_>) -> bool {
    0 < line.expanded && is_adapting(line.job)
}
