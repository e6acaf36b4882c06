//! Checks the reasons that hold a job back, and tells if the cluster is idle.

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::JobLine;
use super::price::{is_first_free, most, prices};
use crate::engine::{CapBound, Declined};
use crate::model::Millis;

/// Cycles without any news of any job after which a cluster is idle.
const REST: u64 = 2;

/// The reason that holds a job back is true. Unless the cluster is idle, only its turn may hold
/// back a job that has nothing and whose first process is free. In an idle cluster evenness may go
/// first, which [`super::first`] judges.
pub(super) fn check_holds(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for (place, line) in ledger.jobs.with_ix() {
        let Some(held_back) = line.report.held_back else { continue };
        let is_true = match held_back {
            Declined::TooDear { loss, limit } => is_true_price(ledger, line, loss, limit),
            Declined::TooLate => {
                line.report.cap.bound == CapBound::Prediction && !is_at_rest(ledger)
            }
            Declined::Quiet { .. } => is_stopped(ledger),
            // Otherwise there would be no search in the next cycle.
            Declined::NextCycle => {
                !ledger.schedule.put_off.is_empty()
                    || !ledger.schedule.preemptions.is_empty()
                    || ledger.schedule.next_change == Some(ledger.snapshot.cycle + 1)
            }
        };
        let may_have_nothing =
            held_back == Declined::NextCycle || is_at_rest(ledger) || !is_first_free(ledger, place);
        if !is_true || (line.ceiling() == 0 && !may_have_nothing) {
            let detail = format!("job {} says {held_back}", line.job.id);
            findings.push(Rule::FalseHold.finding(detail));
        }
    }
}

/// True if a loss of `loss` is too expensive for `line`'s job, and `limit` is a limit that it may
/// have. Unless the cluster is idle, the planner may use a lower limit: the next process that ends
/// makes space at no loss.
pub(super) fn is_true_price(
    ledger: &Ledger<'_>,
    line: &JobLine<'_>,
    loss: Millis,
    limit: Millis,
) -> bool {
    let is_right = if is_at_rest(ledger) {
        prices(ledger, line).contains(&limit)
    } else {
        limit <= most(ledger, line)
    };
    is_right && limit < loss
}

/// True if there has been no news for so long that holdings decide.
pub(super) fn is_at_rest(ledger: &Ledger<'_>) -> bool {
    ledger.snapshot.quiescence.rest_cycles >= REST
}

fn is_stopped(ledger: &Ledger<'_>) -> bool {
    let quiescence = &ledger.snapshot.quiescence;
    ledger.snapshot.topology.settings.quiet_stop.is_some_and(|stop| quiescence.quiet_cycles >= stop)
}
