//! A second opinion: checks a finished schedule against the rules. It shares no code with the
//! phases that made the schedule.
//!
//! The audit is not a second planner. It recounts the cluster from the snapshot and the schedule
//! and checks the outcome against the invariants. Of the report it believes only what the report
//! alone can state: the targets, the pure fair shares and the reasons.
//!
//! Every rule is exact in one direction: a finding means that an invariant was broken, in any order
//! of the phases. Sometimes the order matters and the outcome does not show it. Then a rule uses
//! the bound that is kindest to the planner, and its documentation says which.
//!
//! Fairness is judged from the invariants, by another method than the planner's:
//!
//! - [`owed`]: which jobs are owed a process, by weighted max-min in exact fractions ([`fluid`]);
//! - [`arrange`]: if all of them could have a process, by a limited search (used by [`first`]);
//! - [`envy`]: if a side could spare a place, by the best of all sets of its processes;
//! - [`price`], [`preemption`], [`moves`]: if a preemption was right, cheap enough and had a purpose.
//!
//! Gangs are judged apart, by matchings on single nodes ([`gang`]).
//!
//! Runs after every cycle in tests and simulations, and on demand in production.

mod arrange;
mod cap;
mod conservation;
mod counts;
mod envy;
mod finding;
mod first;
mod fluid;
mod gang;
mod ledger;
mod lines;
mod moves;
mod names;
mod owed;
mod placement;
mod preemption;
mod price;
mod quiescence;
mod report;
mod shapes;
#[cfg(test)]
pub(super) mod tests;
mod turns;

pub use finding::{Finding, Rule};

use crate::engine::{CycleSchedule, Effort, Snapshot};
use ledger::Ledger;

/// Check of a rule; appends its findings.
type RuleCheck = fn(&Ledger<'_>, &mut Vec<Finding>);

/// All rules: forbidden actions first, missing actions last.
const CHECKS: &[RuleCheck] = &[
    placement::check_commitment,
    placement::check_promised_space,
    placement::check_nodes,
    placement::check_pools,
    placement::check_squatters,
    placement::check_node_lists,
    placement::check_orders,
    placement::check_ended_work,
    gang::places::check_ranks,
    gang::places::check_tags,
    gang::places::check_orders,
    gang::places::check_exclusive,
    gang::places::check_place,
    gang::places::check_spans,
    gang::whole::check_whole,
    gang::sizes::check_sizes,
    gang::claims::check_claims,
    gang::earned::check_earned,
    gang::earned::check_paid,
    gang::calendar::check_windows,
    gang::calendar::check_notice,
    gang::calendar::check_heads,
    gang::calendar::check_overruns,
    gang::calendar::check_starts,
    placement::check_caps,
    placement::check_allotments,
    preemption::check_victims,
    preemption::check_receipts,
    preemption::check_policies,
    preemption::check_limits,
    preemption::check_priorities,
    preemption::check_payment,
    preemption::check_superfluous,
    preemption::check_pairs,
    gang::whole::check_victims,
    gang::whole::check_vain,
    first::check_last,
    moves::check_passes,
    moves::check_moves,
    moves::check_promises,
    gang::whole::check_promises,
    price::check_prices,
    quiescence::check_holds,
    turns::check_turns,
    preemption::check_donors,
    counts::check_capacity,
    counts::check_caps,
    counts::check_evenness,
    conservation::check_idle_room,
    conservation::check_requests,
    gang::waiting::check_idle,
    gang::waiting::check_never,
    gang::waiting::check_reasons,
    gang::reserved::check_way,
    first::check_first,
    envy::check_priorities,
    envy::check_envy,
    report::check_holdings,
    report::check_caps,
    report::check_reasons,
    report::check_accounts,
];

/// Returns a finding for every rule that `schedule` breaks, given the cluster in `snapshot`.
///
/// A schedule cannot be recounted if it names things that do not exist, or if its report is not
/// about the snapshot's jobs. Then only these findings are returned.
pub fn audit(snapshot: &Snapshot, schedule: &CycleSchedule) -> Vec<Finding> {
    audit_with(snapshot, schedule, &Effort::default())
}

/// Audits like [`audit`], and reports each rule to `effort` as a phase.
pub fn audit_with(snapshot: &Snapshot, schedule: &CycleSchedule, effort: &Effort) -> Vec<Finding> {
    let ledger = match Ledger::open(snapshot, schedule) {
        Ok(ledger) => ledger,
        Err(findings) => return findings,
    };
    let mut findings = Vec::new();
    effort.end_phase();
    gang::urgent::check_taken(&ledger, &mut findings);
    // Urgent work is decided before all else, and the rest of the cycle follows from that.
    let Some((snapshot, schedule)) = gang::urgent::rest(&ledger) else {
        check_all(&ledger, effort, &mut findings);
        return findings;
    };
    match Ledger::open(&snapshot, &schedule) {
        Ok(ledger) => check_all(&ledger, effort, &mut findings),
        Err(mut unknown) => findings.append(&mut unknown),
    }
    findings
}

/// Checks all rules of an ordinary cycle.
fn check_all(ledger: &Ledger<'_>, effort: &Effort, findings: &mut Vec<Finding>) {
    for check in CHECKS {
        effort.end_phase();
        check(ledger, findings);
    }
}
