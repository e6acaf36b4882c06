//! What depends on for how long nothing has changed: which evidence counts, what room may cost, who
//! may not take back, and when taking ends.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Rule};
use super::ledger::{Entity, JobLine, Ledger};
use super::preemption::{plans, promises_of};
use crate::engine::{CapBound, HeldBack, PreemptionRule};
use crate::model::{JobId, Millis};

/// Cycles without any news of work after which a cluster is at rest.
const REST: u64 = 2;
/// Quiet cycles after which also those who have nothing may not take back.
const BINDS_ALL: u64 = 12;
/// Quiet cycles after which counts decide no more, in a cluster at rest, but for those who have
/// nothing.
const COUNTS: u64 = 6;
/// Quiet cycles after which the loss limit holds.
const LAST_CALL: u64 = 11;
/// Nshares below which a job has credit, and how much thread time that is.
const CREDIT: (u64, Millis) = (4, 300_000);

/// Holdings alone decide, and work is moved, only in a cluster at rest; what is beyond all counts is
/// given to those who have nothing only in one that is not; and counts decide for those who have
/// something only until holdings have for a while.
pub(super) fn check_moments(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for victim in &ledger.victims {
        let is_wrong = match victim.receipt.rule {
            PreemptionRule::Envy | PreemptionRule::Relocation => !is_at_rest(ledger),
            PreemptionRule::FirstShare => is_at_rest(ledger),
            PreemptionRule::FairShare | PreemptionRule::Defragmentation => {
                let has_something = |place: usize| 0 < ledger.jobs[place].floor();
                victim.beneficiary.is_some_and(has_something) && are_counts_over(ledger)
            }
            PreemptionRule::NoLongerAllowed | PreemptionRule::Priority => false,
        };
        if is_wrong {
            let cycles = ledger.snapshot.calm.rest_cycles;
            let (share, rule) = (victim.share.id, victim.receipt.rule);
            let detail = format!("share {share} as {rule:?}, {cycles} cycles after the last news");
            findings.push(Rule::WrongMoment.finding(detail));
        }
    }
}

/// A job that has something destroys no more of its peers' work than is allowed for each nshare it
/// gets.
///
/// Several nshares on one machine are judged together, and a job that had nothing when the cycle
/// began is not judged: its first is free.
pub(super) fn check_prices(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for ((ix, beneficiary), victims) in plans(ledger) {
        let line = &ledger.jobs[beneficiary];
        let Some([limit, _]) = limits(ledger, line).filter(|_| 0 < line.floor()) else { continue };
        let nshares = promises_of(ledger, beneficiary, ix).max(1);
        let peers =
            victims.iter().filter(|victim| is_among_peers(ledger, victim.donor, beneficiary));
        let loss = peers.fold(0, |sum: Millis, victim| sum.saturating_add(victim.receipt.loss));
        if limit.saturating_mul(nshares) < loss {
            let (id, name) = (line.job.id, ledger.name(ix));
            let detail = format!("job {id} destroys {loss} ms on {name} and may {limit}");
            findings.push(Rule::TooDear.finding(detail));
        }
    }
}

/// Nobody takes from a side that took, directly or through others, from his own; who has nothing may
/// for a while. Whoever is moved loses nothing by it.
pub(super) fn check_memory(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let remembered = ledger.snapshot.calm.takings.iter().map(|taking| (taking.from, taking.by));
    let gave = takings(ledger, remembered);
    for victim in &ledger.victims {
        let Some(beneficiary) = victim.beneficiary else { continue };
        let is_excepted = ledger.jobs[beneficiary].floor() == 0 && !binds_all(ledger);
        let is_taken = victim.receipt.rule != PreemptionRule::Relocation;
        let is_bound =
            is_taken && is_among_peers(ledger, victim.donor, beneficiary) && !is_excepted;
        if is_bound && is_barred(ledger, &gave, beneficiary, victim.donor) {
            let (share, id) = (victim.share.id, ledger.jobs[beneficiary].job.id);
            let detail = format!("share {share} for job {id}");
            findings.push(Rule::TakenBack.finding(detail));
        }
    }
}

/// After the quiet stop only work that has nothing takes from its peers.
pub(super) fn check_stop(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    if !is_stopped(ledger) {
        return;
    }
    for victim in &ledger.victims {
        let Some(beneficiary) = victim.beneficiary else { continue };
        let line = &ledger.jobs[beneficiary];
        if is_among_peers(ledger, victim.donor, beneficiary) && 0 < line.floor() {
            let (share, id) = (victim.share.id, line.job.id);
            let detail = format!("share {share} for job {id}, which has {}", line.floor());
            findings.push(Rule::NotStopped.finding(detail));
        }
    }
}

/// A job that is said to be held back has something, or waits for its turn; and what is said to hold it
/// does.
pub(super) fn check_holds(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in &ledger.jobs {
        let Some(held_back) = line.report.held_back else { continue };
        let is_true = match held_back {
            HeldBack::TooDear { loss, limit: claimed } => {
                claimed < loss
                    && limits(ledger, line).is_some_and(|limits| limits.contains(&claimed))
            }
            HeldBack::TooLate => {
                line.report.cap.bound == CapBound::Prediction && !is_at_rest(ledger)
            }
            HeldBack::Quiet { .. } => is_stopped(ledger),
            // Else the next cycle would not go on.
            HeldBack::NextCycle => {
                !ledger.schedule.put_off.is_empty() || !ledger.schedule.preemptions.is_empty()
            }
        };
        let may_have_nothing = held_back == HeldBack::NextCycle;
        if !is_true || (line.ceiling() == 0 && !may_have_nothing) {
            let detail = format!("job {} says {held_back}", line.job.id);
            findings.push(Rule::FalseHold.finding(detail));
        }
    }
}

/// Whether there has been no news for long enough that holdings decide.
pub(super) fn is_at_rest(ledger: &Ledger<'_>) -> bool {
    ledger.snapshot.calm.rest_cycles >= REST
}

/// Whether counts decide no more for those who have something.
pub(super) fn are_counts_over(ledger: &Ledger<'_>) -> bool {
    let has_defragmentation = ledger.snapshot.topology.settings.defragmentation;
    has_defragmentation && is_at_rest(ledger) && ledger.snapshot.calm.quiet_cycles >= COUNTS
}

fn is_stopped(ledger: &Ledger<'_>) -> bool {
    let calm = &ledger.snapshot.calm;
    ledger.snapshot.topology.settings.quiet_stop.is_some_and(|stop| calm.quiet_cycles >= stop)
}

/// The most that may be lost for one more nshare of a job that has something: with the credit of one
/// that has hardly begun, and without, which depends on when in the cycle it was. `None` where
/// nothing is too dear.
fn limits(ledger: &Ledger<'_>, line: &JobLine<'_>) -> Option<[Millis; 2]> {
    if is_at_rest(ledger) {
        return None;
    }
    let is_last_call = ledger.snapshot.calm.quiet_cycles >= LAST_CALL;
    let granted = if is_last_call { line.class.cap_rules.loss_limit } else { 0 };
    let (begun, credit) = CREDIT;
    let waited = waited(ledger, line);
    let credit = if line.floor() < begun { credit } else { 0 };
    Some([waited.saturating_add(credit), waited].map(|paid| paid.max(granted)))
}

/// What the job's waiting has cost it, in thread time.
fn waited(ledger: &Ledger<'_>, line: &JobLine<'_>) -> Millis {
    let period = ledger.snapshot.topology.settings.publication_period;
    ledger.snapshot.behind_cycles(line.job).saturating_mul(period).saturating_mul(line.job.threads)
}

/// Whether also those who have nothing may not take back.
pub(super) fn binds_all(ledger: &Ledger<'_>) -> bool {
    ledger.snapshot.calm.quiet_cycles >= BINDS_ALL
}

/// Whom each side gave to.
pub(super) type Gave = BTreeMap<Entity, BTreeSet<Entity>>;

/// What `pairs` of giver and taker come to, at the levels that divide them.
pub(super) fn takings(
    ledger: &Ledger<'_>,
    pairs: impl IntoIterator<Item = (JobId, JobId)>,
) -> Gave {
    let mut gave = Gave::new();
    for (from, by) in pairs {
        let (Some(from), Some(by)) = (ledger.place(from), ledger.place(by)) else { continue };
        if let Some((giver, taker)) = ledger.dividing(from, by) {
            gave.entry(giver).or_default().insert(taker);
        }
    }
    gave
}

/// Whether the side of the job at `victim` took from that of the one at `beneficiary`.
pub(super) fn is_barred(
    ledger: &Ledger<'_>,
    gave: &Gave,
    beneficiary: usize,
    victim: usize,
) -> bool {
    let Some((theirs, ours)) = ledger.dividing(victim, beneficiary) else { return false };
    let (mut open, mut seen) = (vec![ours], BTreeSet::from([ours]));
    while let Some(side) = open.pop() {
        for &taker in gave.get(&side).into_iter().flatten() {
            if taker == theirs {
                return true;
            }
            if seen.insert(taker) {
                open.push(taker);
            }
        }
    }
    false
}

fn is_among_peers(ledger: &Ledger<'_>, one: usize, other: usize) -> bool {
    ledger.jobs[one].class.priority == ledger.jobs[other].class.priority
}
