//! Checks the loss caused for another process: how much work of its peers may be lost (I11).

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::{JobLine, ReceiptedShare};
use super::preemption::{excess_over_target, plans, promises_of};
use crate::model::{JobIx, Millis, NodeIx};

/// Nshares below which a job has credit, and the credit in thread time.
const CREDIT: (u64, Millis) = (8, 300_000);

/// For each new process, a job that holds something may destroy limited work of its peers. The
/// limit is the larger of its class's loss limit and the cost of its waiting. A job that holds
/// nothing, and is owed a process or has a target, gets its first process at any loss. A moved job
/// loses work like any other victim.
///
/// Several processes on a node are judged together, and the first is taken to be the most
/// expensive.
pub(super) fn check_prices(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut by_job: BTreeMap<JobIx, Vec<(NodeIx, Vec<&ReceiptedShare<'_>>)>> = BTreeMap::new();
    for ((ix, taker), victims) in plans(ledger) {
        by_job.entry(taker).or_default().push((ix, victims));
    }
    for (taker, plans) in by_job {
        let line = &ledger.jobs[taker];
        let limit = most(ledger, line);
        let is_first = line.floor() == 0 && is_first_free(ledger, taker);
        let mut has_free = is_first;
        for (ix, mut victims) in plans {
            let priority = line.priority;
            victims.retain(|victim| ledger.jobs[victim.donor].priority == priority);
            let nshares = promises_of(ledger, taker, ix).max(1);
            if is_first && promises_of(ledger, taker, ix) == 0 {
                // This is space for jobs that are moved out of the way of its first process.
                continue;
            }
            let loss = victims
                .iter()
                .fold(0, |sum: Millis, victim| sum.saturating_add(victim.receipt.loss));
            if loss <= limit.saturating_mul(nshares) {
                continue;
            }
            let paid = loss.saturating_sub(if has_free {
                first(line, &victims, excess_over_target(ledger, ix))
            } else {
                0
            });
            if has_free && paid <= limit.saturating_mul(nshares - 1) {
                has_free = false;
                continue;
            }
            let (id, name) = (line.job.id, ledger.name(ix));
            let detail = format!(
                "job {id} destroys {loss} ms on {name} for {nshares} processes, of which each may cost {limit}"
            );
            findings.push(Rule::TooDear.finding(detail));
        }
    }
}

/// True if the job at `place` gets its first process at any loss.
pub(super) fn is_first_free(ledger: &Ledger<'_>, place: JobIx) -> bool {
    let line = &ledger.jobs[place];
    let is_fixed = !line.is_fair_share();
    is_fixed || 0 < line.report.target.0 || ledger.owed.contains(ledger, place)
}

/// Most that can have been lost for a first process of `line`'s job. The process needs every
/// victim. So all victims but the smallest are together smaller than the process plus the node's
/// overhang.
fn first(line: &JobLine<'_>, victims: &[&ReceiptedShare<'_>], excess_over_target: u64) -> Millis {
    let mut orders: Vec<u64> =
        victims.iter().map(|victim| victim.share.order.qshares().0).collect();
    orders.sort_unstable();
    let mut sum = 0;
    let needed = orders.into_iter().take_while(|order| {
        let is_needed = sum < line.order() + excess_over_target;
        sum += order;
        is_needed
    });
    let needed = needed.count();
    let mut losses: Vec<Millis> = victims.iter().map(|victim| victim.receipt.loss).collect();
    losses.sort_unstable_by(|one, other| other.cmp(one));
    losses.into_iter().take(needed).fold(0, Millis::saturating_add)
}

/// Loss limit for another process of `line`'s job, which already has something.
pub(super) fn most(ledger: &Ledger<'_>, line: &JobLine<'_>) -> Millis {
    prices(ledger, line).into_iter().fold(0, Millis::max)
}

/// Loss limits with and without the credit of a job that has hardly begun. The right limit depends
/// on the moment in the cycle.
pub(super) fn prices(ledger: &Ledger<'_>, line: &JobLine<'_>) -> [Millis; 2] {
    let (begun, credit) = CREDIT;
    let period = ledger.snapshot.topology.settings.publication_period;
    let behind = ledger.snapshot.behind_cycles(line.job);
    let waited = behind.saturating_mul(period).saturating_mul(line.job.threads);
    let credit = if line.floor() < begun { credit } else { 0 };
    let granted = line.class.cap_rules.loss_limit;
    [waited.saturating_add(credit), waited].map(|paid| paid.max(granted))
}
