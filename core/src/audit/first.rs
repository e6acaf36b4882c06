//! Checks that all jobs that are owed a first process have a process, if all of them could (I8).
//!
//! The planner's own tests are not used. Fluid shares decide which jobs are owed a process
//! ([`super::owed`]), and a found arrangement proves that they could have it ([`super::arrange`]).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::arrange::{MayMove, TRIES, is_arrangeable};
use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::{Entity, ReceiptedShare};
use super::owed::{Group, Owed, Rest, group_of, groups};
use super::quiescence::is_at_rest;
use super::shapes::{is_adapting, is_legal, sized_shape};
use crate::engine::{Declined, VictimRule};
use crate::model::JobIx;

/// No job that is owed a process ends the cycle with neither a process nor a promise. The rule
/// holds if all jobs that are owed a process could have it at the same time. In an idle cluster
/// evenness comes first if not all jobs could.
///
/// Jobs whose search was put off are exempt, and groups in which a job adapts its size: it gives
/// nothing until that is over. A cycle that preempted anything is exempt as well: a
/// job's space may have to be freed before the next job can have its own. Terminating shares still
/// occupy their space, and promises theirs. Processes have to be moved only in an idle cluster,
/// with defragmentation on, and from a single node.
pub(super) fn check_first(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    if ledger.victims.iter().any(|victim| is_taken_by_peer(ledger, victim)) {
        return;
    }
    for (&group, owed) in &ledger.owed.jobs {
        let starving = owed.iter().copied().filter(|&place| is_starving(ledger, place));
        let starving: Vec<JobIx> = starving.collect();
        if starving.is_empty() || has_adapting(ledger, group) || !goes_first(ledger, group, owed) {
            continue;
        }
        for place in starving {
            if is_at_rest(ledger) && !is_one_node_away(ledger, group, owed, place) {
                continue;
            }
            let (id, all) = (ledger.jobs[place].job.id, owed.len());
            let detail = format!(
                "job {id} is owed a process and has nothing, though all {all} that are owed one could have one"
            );
            findings.push(Rule::Starving.finding(detail));
        }
    }
}

/// True if a job of `group` adapts its size.
fn has_adapting(ledger: &Ledger<'_>, group: Group) -> bool {
    let mut adapting = ledger.jobs.iter().filter(|line| is_adapting(line.job));
    adapting.any(|line| group_of(ledger, line) == group)
}

/// True if first processes come before all else. In general this holds if the `owed` jobs could
/// have a process each at the same time, while jobs that may be owed their process keep it. In an
/// idle cluster it holds if all jobs could have a process, by first fit.
fn goes_first(ledger: &Ledger<'_>, group: Group, owed: &BTreeSet<JobIx>) -> bool {
    if !is_at_rest(ledger) {
        let perhaps = ledger.perhaps_owed.jobs.get(&group).into_iter().flatten();
        let keepers =
            perhaps.filter(|place| 0 < ledger.jobs[**place].held && !owed.contains(place));
        let items = owed.iter().chain(keepers).copied();
        return is_arrangeable(ledger, group, items, TRIES, MayMove::None);
    }
    // Promises and starting processes have their places already, which first fit would not know.
    let schedule = ledger.schedule;
    if !schedule.promises.is_empty() || !schedule.expansions.is_empty() {
        return false;
    }
    let places = groups(ledger).remove(&group).unwrap_or_default();
    let all =
        places.into_iter().filter(|place| ledger.owed.is_startable[*place] || owed.contains(place));
    is_arrangeable(ledger, group, all, 0, MayMove::All)
}

/// True if the job at `place` could have a process beside all processes of `owed` jobs, if only
/// jobs on a single node are moved. No node is cleared for a moved process.
fn is_one_node_away(
    ledger: &Ledger<'_>,
    group: Group,
    owed: &BTreeSet<JobIx>,
    place: JobIx,
) -> bool {
    let line = &ledger.jobs[place];
    let items = || owed.iter().copied().filter(|&job| job == place || 0 < ledger.jobs[job].has());
    let is_enough = |moves| is_arrangeable(ledger, group, items(), TRIES, moves);
    let mut nodes = ledger.nodes_with_ix().filter(|(ix, _)| ledger.would_take(line, *ix).is_some());
    is_enough(MayMove::None) || nodes.any(|(ix, _)| is_enough(MayMove::From(ix)))
}

/// Cycles within which the planner has to give a first process.
const PATIENCE: u64 = 3;

/// True if the job at `place` could have a process and has had nothing for `PATIENCE` cycles. False
/// while its search is put off.
fn is_starving(ledger: &Ledger<'_>, place: JobIx) -> bool {
    let line = &ledger.jobs[place];
    let is_put_off = line.report.held_back == Some(Declined::NextCycle)
        || ledger.schedule.put_off.contains(&line.job.id);
    // A job that adapts gets nothing until that is over, and some jobs cannot use a single process.
    let may_start =
        sized_shape(line.job).is_none_or(|shape| is_legal(shape, 1) && !is_adapting(line.job));
    let quiescence = &ledger.snapshot.quiescence;
    let waited = ledger.snapshot.behind_cycles(line.job).max(quiescence.quiet_cycles);
    let has_nothing = ledger.owed.is_startable[place] && line.has() == 0;
    has_nothing && may_start && !is_put_off && PATIENCE <= waited
}

/// Unless the cluster is idle, no peer takes the last process of a job or user that is owed a
/// process. A moved job has another process instead. In an idle cluster evenness may come first.
///
/// Higher priorities may take all of a job. A job with legal sizes may then have no such size left.
/// A gang in its turn takes before higher priorities take the rest. What is owed beside such gangs
/// is a part of the space that they leave.
pub(super) fn check_last(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    if is_at_rest(ledger) {
        return;
    }
    let mut robbed: BTreeMap<JobIx, bool> = BTreeMap::new();
    for victim in ledger.victims.iter().filter(|victim| is_taken_by_peer(ledger, victim)) {
        if !ledger.jobs[victim.donor].is_gang() && !is_excused(ledger, victim) {
            *robbed.entry(victim.donor).or_insert(true) &= victim.receipt.rule == VictimRule::Turn;
        }
    }
    let beside_turns = OnceCell::new();
    for (donor, is_for_turns) in robbed {
        let owed = if is_for_turns {
            beside_turns.get_or_init(|| Owed::new(ledger, Rest::BesideTurns))
        } else {
            &ledger.owed
        };
        let line = &ledger.jobs[donor];
        let is_user_empty = ledger.standing(Entity::User(line.user)).has() == 0;
        let is_owed =
            owed.contains(ledger, donor) || (is_user_empty && owed.users.contains(&line.user));
        let group = group_of(ledger, line);
        let owed = owed.jobs.get(&group);
        let goes_first = || owed.is_some_and(|owed| goes_first(ledger, group, owed));
        if line.has() == 0 && is_owed && goes_first() {
            let detail = format!("job {} is owed a process, and its last was taken", line.job.id);
            findings.push(Rule::LastTaken.finding(detail));
        }
    }
}

/// True if higher priorities took from the job of `victim`, too, and may have taken its last process.
fn is_excused(ledger: &Ledger<'_>, victim: &ReceiptedShare<'_>) -> bool {
    let donor = victim.donor;
    let mut lost = ledger.victims.iter().filter(|other| other.donor == donor);
    let is_first = victim.receipt.rule == VictimRule::Turn;
    (is_first || sized_shape(ledger.jobs[donor].job).is_some())
        && lost.any(|other| other.receipt.rule == VictimRule::Priority)
}

/// True if `victim` was preempted for a job of its own group (tree of pools and priority), and not
/// moved.
pub(super) fn is_taken_by_peer(ledger: &Ledger<'_>, victim: &ReceiptedShare<'_>) -> bool {
    let is_peer = victim.beneficiary.is_some_and(|taker| {
        let taker = &ledger.jobs[taker];
        taker.is_fair_share()
            && group_of(ledger, taker) == group_of(ledger, &ledger.jobs[victim.donor])
    });
    is_peer && victim.receipt.rule != VictimRule::Relocation
}
