//! Preemption and defragmentation: a common mechanism with two triggers.
//!
//! A share is preempted only for a named beneficiary, on a node where the freed space fits a
//! process of it. The victim has lower priority, or is afterwards still better off than the
//! beneficiary was ([`eligibility`] has the exact rule). So every preemption ends in a placed
//! process of a job that was behind, and an unusable surplus stays with its holder. The space is
//! promised to the beneficiary until it is free.
//!
//! If that clears no node for a job that holds nothing, the shares in the way may be moved:
//! [`relocate`](mod@relocate).
//!
//! [`budget`] limits the work that a further process may cost. [`history`] shows why preemption
//! comes to an end.
//!
//! Design: "Interlude: Preemption", "Defragmentation"; decisions D1, D2, D4, D5;
//! `core-study.md` section 3, rules R, E, L and Z with holders of nothing first.

mod arrangement;
mod budget;
mod eligibility;
mod feasible;
mod history;
mod keeps;
mod offers;
mod plan;
mod queue;
mod reclaim;
mod relocate;
#[cfg(test)]
mod tests;
mod whole_steps;

pub use budget::is_steady;
pub use history::MEMORY_AFTER;
pub(super) use history::Takings;
pub(super) use plan::{EvictionRank, spare_superfluous};

use std::collections::{BTreeMap, BTreeSet};

use super::capacity::DemandByOrder;
use super::draft::{Draft, JobDraft};
use super::gang::cheapest_gang_for;
use super::place::place_one;
use super::report::Declined;
use super::schedule::{Alternatives, Preemption, VictimRule};
use super::share_table::{PackedShare, ShareIx};
use super::sizes::{give_back_rest, is_between_sizes};
use super::snapshot::Promise;
use super::water_filling::{Service, Turn};
use crate::model::{ClassPolicy, JobId, JobIx, NShares, NodeIx, Order, QShares};
use budget::is_at_rest;
use feasible::Feasible;
use reclaim::{Donors, Reclaim};
use relocate::relocate;
use whole_steps::{make_space_for_steps, single_steps};

/// Takes back what can be preempted on nodes that go into maintenance, and in classes that close.
/// Work that stays and overran is ended, if its class says so. A gang goes as a whole.
///
/// This preemption has no beneficiary.
pub(super) fn clear_in_time(draft: &mut Draft<'_>) {
    end_overruns(draft);
    if draft.snapshot.windows.is_empty() && draft.snapshot.hours.is_empty() {
        return;
    }
    for ix in draft.jobs.places() {
        if !draft.class_of(ix).policy.is_preemptable() {
            continue;
        }
        let is_over =
            |share: &PackedShare| draft.snapshot.node(share.node()).state.is_in_maintenance;
        let there = draft.shares.held_by(ix).filter(|(_, share)| is_over(share));
        let is_closed = draft.snapshot.is_closed(draft.job(ix).class);
        let mut victims: Vec<ShareIx> = there.map(|(holding, _)| holding).collect();
        if is_closed || (draft.jobs[ix].is_gang && !victims.is_empty()) {
            victims = draft.shares.held_by(ix).map(|(holding, _)| holding).collect();
        }
        for victim in victims {
            let rule = if is_closed { VictimRule::ClassClosed } else { VictimRule::Window };
            draft.preempt(victim, rule, None);
        }
    }
}

/// Takes back all shares of jobs that run longer than they declared.
fn end_overruns(draft: &mut Draft<'_>) {
    for ix in draft.jobs.places() {
        if draft.is_overrun(ix) {
            let victims: Vec<ShareIx> =
                draft.shares.held_by(ix).map(|(holding, _)| holding).collect();
            for victim in victims {
                draft.preempt(victim, VictimRule::Overrun, None);
            }
        }
    }
}

/// Takes back what a job may not hold any more: its declared maximum fell below what it has.
///
/// This preemption alone has no beneficiary. A job that cannot be preempted keeps its shares
/// (decision D6), except an evolving gang: its owner asked for fewer. Its highest ranks go.
pub(super) fn shed_beyond_maximum(draft: &mut Draft<'_>) {
    for ix in draft.jobs.places() {
        let JobDraft { held, may_keep, is_gang, .. } = draft.jobs[ix];
        let excess = held.saturating_sub(may_keep);
        if excess == NShares(0) || !(is_gang || draft.class_of(ix).policy.is_preemptable()) {
            continue;
        }
        if is_gang {
            shed_highest_ranks(draft, ix, excess);
            continue;
        }
        let shares = draft.shares.held_by(ix);
        let mut ranked: Vec<(EvictionRank, ShareIx)> =
            shares.map(|(holding, share)| (EvictionRank::of(draft, share), holding)).collect();
        ranked.sort_unstable();
        for (_, victim) in ranked.into_iter().zip(0..excess.0).map(|(ranked, _)| ranked) {
            draft.preempt(victim, VictimRule::NoLongerAllowed, None);
        }
    }
}

/// Preempts so many processes of a gang, the highest ranks first.
fn shed_highest_ranks(draft: &mut Draft<'_>, ix: JobIx, excess: NShares) {
    let held = draft.shares.held_by(ix).map(|(holding, _)| holding);
    let mut ranked: Vec<(Option<u32>, ShareIx)> =
        held.map(|holding| (draft.share(holding).rank, holding)).collect();
    ranked.sort_unstable();
    for (_, victim) in ranked.into_iter().rev().zip(0..excess.0).map(|(ranked, _)| ranked) {
        draft.preempt(victim, VictimRule::NoLongerAllowed, None);
    }
}

/// Makes space for jobs below target that could not be placed, and in an idle cluster for jobs
/// below their demand. Higher priorities go first; among equals, jobs that hold nothing, then the
/// least served.
///
/// A search may be too long for a cycle. Jobs that it did not reach are put off, and come first in
/// the next cycle. The search starts anew only after each of them had its turn. So every job has
/// its turn, however long the search for other jobs takes.
pub(super) fn make_space(draft: &mut Draft<'_>) {
    let mut reclaim = Reclaim::new(draft);
    let late: BTreeSet<JobId> = draft.snapshot.put_off.iter().copied().collect();
    if !late.is_empty() {
        let is_late = |draft: &Draft<'_>, job: JobIx| late.contains(&draft.jobs[job].id);
        make_space_for_those(draft, &mut reclaim, is_late);
        // Late jobs had their turn, even if free space was enough for them.
        if draft.put_off.is_empty() {
            for job in draft.jobs.places().filter(|&job| is_late(draft, job)) {
                reclaim.take_turn(job);
            }
        }
    }
    if draft.put_off.is_empty() {
        make_space_for_those(draft, &mut reclaim, |_, _| true);
    } else {
        tell_the_others(draft, &late);
    }
    if draft.put_off.is_empty() && draft.effort.is_spent() {
        // All jobs had their turn, but some may take more: the search starts anew, though nothing
        // may happen until then.
        let is_cut = |job: JobIx| draft.jobs[job].held_back == Some(Declined::NextCycle);
        if draft.jobs.places().any(is_cut) {
            draft.change_expected_in(draft.snapshot.cycle + 1);
        }
    }
    draft.put_off.sort_unstable();
}

/// Makes space for the jobs for which `is_meant` is true.
fn make_space_for_those(
    draft: &mut Draft<'_>,
    reclaim: &mut Reclaim,
    is_meant: impl Fn(&Draft<'_>, JobIx) -> bool,
) {
    for priority in draft.priorities() {
        let mut fixed = draft.jobs_of(priority, |policy| !policy.is_preemptable());
        fixed.retain(|job| is_meant(draft, *job));
        for job in fixed {
            while NShares(0) < draft.shortfall(job) && make_space_for(draft, reclaim, job) {}
        }
        let mut jobs = draft.jobs_of(priority, ClassPolicy::is_preemptable);
        jobs.retain(|job| is_meant(draft, *job));
        // A job with a new promise has more than before, and may now lose a process. So rounds go
        // on until a round finds nothing. Every other round uses up shares or space, so the loop
        // ends.
        while make_space_for_least_served(draft, reclaim, &jobs) || relocate(draft, reclaim, &jobs)
        {
        }
        make_space_for_steps(draft, reclaim, &jobs);
    }
}

/// Runs a round over `jobs`. True if it made space for a job.
fn make_space_for_least_served(
    draft: &mut Draft<'_>,
    reclaim: &mut Reclaim,
    jobs: &[JobIx],
) -> bool {
    let done = |draft: &Draft<'_>| draft.promises.len() + draft.expansions.len();
    let before = done(draft);
    // A job that lost a share in this cycle may find free space left for it.
    let mut serve = |draft: &mut Draft<'_>, job, demand: &DemandByOrder| {
        if reclaim.has_failed(draft, job) {
            return Service::Refused;
        }
        if let Some(node) = place_one(draft, job, demand) {
            reclaim.note_used(draft, node);
            return Service::Served;
        }
        if make_space_for(draft, reclaim, job) { Service::Served } else { Service::Refused }
    };
    let empty_handed: Vec<JobIx> =
        jobs.iter().copied().filter(|&job| draft.has(job) == NShares(0)).collect();
    draft.water_fill_by_holdings(
        &empty_handed,
        Turn::ByFinish,
        |draft, job| due(draft, job).min(NShares(1)),
        &mut serve,
    );
    draft.water_fill_by_holdings(jobs, Turn::ByFinish, due, &mut serve);
    before < done(draft)
}

/// Returns the processes that `job` may take from other jobs: an owed first process, up to its
/// target, and in an idle cluster up to its demand.
fn due(draft: &Draft<'_>, job: JobIx) -> NShares {
    let due = due_of_any_size(draft, job);
    if NShares(0) < due && draft.jobs[job].is_elastic {
        due.min(single_steps(draft, job))
    } else {
        due
    }
}

/// The same for all jobs, even for a job that grows by several processes at a time.
fn due_of_any_size(draft: &Draft<'_>, job: JobIx) -> NShares {
    // It has to shrink first.
    if is_between_sizes(draft, job) {
        return NShares(0);
    }
    let due = if is_at_rest(draft) { draft.below_cap(job) } else { draft.shortfall(job) };
    due.max(NShares(u64::from(draft.is_starved(job))))
}

/// Leaves the search for `job` to the next cycle. The job has its turn there if it had none here.
fn put_off(draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: JobIx) {
    draft.jobs[job].held_back = Some(Declined::NextCycle);
    if reclaim.take_turn(job) {
        draft.put_off.push(draft.jobs[job].id);
    }
}

/// Notes the reason `next_cycle` for each job that waits behind jobs put off before it.
fn tell_the_others(draft: &mut Draft<'_>, late: &BTreeSet<JobId>) {
    for job in draft.jobs.places() {
        if NShares(0) < due(draft, job) && !late.contains(&draft.jobs[job].id) {
            draft.jobs[job].held_back = Some(Declined::NextCycle);
        }
    }
}

/// Preempts a whole gang for a process of `job`, and promises the space. True if it did.
fn take_gang(draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: JobIx) -> bool {
    if draft.gangs.is_empty() {
        return false;
    }
    let Some(gang) = cheapest_gang_for(draft, job) else { return false };
    for victim in gang.victims {
        draft.preempt(victim, gang.rule, Some((job, Alternatives::default())));
        reclaim.note_taken(draft, victim, gang.rule, job);
    }
    draft.promise(job, gang.node, gang.order);
    reclaim.note_used(draft, gang.node);
    true
}

/// Withdraws promises to jobs of lower priority from a node, where that makes space for a process of
/// `job`, and promises the space to `job`. True if it did.
fn take_promises(draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: JobIx) -> bool {
    let own = draft.precedence(job);
    if draft.lowest_promised.is_none_or(|lowest| lowest <= own) {
        return false;
    }
    // A late job had its turn before higher priorities. No process goes for it in vain.
    let taken_for = |it: &Preemption| it.beneficiary.map(|job| (it.node, job));
    let paid: BTreeSet<(NodeIx, JobId)> = draft.preemptions.iter().filter_map(taken_for).collect();
    let mut by_node: BTreeMap<NodeIx, Vec<(JobIx, Promise)>> = BTreeMap::new();
    let is_open =
        |promise: &&Promise| promise.rank.is_none() && !paid.contains(&(promise.node, promise.job));
    for promise in draft.promises.iter().filter(is_open) {
        let other = draft.place_of(promise.job);
        let is_lower = |other: &JobIx| {
            own < draft.precedence(*other) && draft.class_of(*other).policy.is_preemptable()
        };
        if let Some(other) = other.filter(is_lower) {
            by_node.entry(promise.node).or_default().push((other, *promise));
        }
    }
    let site = Feasible::new(draft, job);
    let quanta = |(_, promise): &(JobIx, Promise)| promise.order.qshares();
    let found = by_node.into_iter().find_map(|(node, promises)| {
        let order = site.order_on(node)?;
        let missing = draft.spaces.missing_for(node, order.qshares());
        let all: QShares = promises.iter().map(quanta).sum();
        (missing <= all).then(|| (node, order, spare_superfluous(promises, quanta, missing)))
    });
    let Some((node, order, withdrawn)) = found else { return false };
    let mut losers: BTreeMap<JobIx, Order> = BTreeMap::new();
    for (other, promise) in withdrawn {
        draft.withdraw(other, promise);
        losers.insert(other, promise.order);
    }
    for (other, order) in losers {
        for node in give_back_rest(draft, other) {
            reclaim.note_used(draft, node);
        }
        // A promise of this cycle is no part of what the job keeps.
        while draft.has(other) < reclaim.keeps.nshares[other] {
            reclaim.keeps.lose(draft, other, order.qshares().0);
        }
    }
    draft.promise(job, node, order);
    reclaim.note_used(draft, node);
    true
}

/// Makes space for a process of `job` on a node and promises it. True if it did; else the job keeps
/// the reason, if there is a plan that is not carried out.
fn make_space_for(draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: JobIx) -> bool {
    if reclaim.has_failed(draft, job) {
        return false;
    }
    if draft.effort.is_spent() {
        put_off(draft, reclaim, job);
        return false;
    }
    reclaim.take_turn(job);
    let found = reclaim.best_plan(draft, job, Donors::All).and_then(|plan| {
        let Some(held_back) = budget::objection(draft, job, &plan) else { return Ok(plan) };
        // Only peers have a price.
        let over_lower = reclaim.best_plan(draft, job, Donors::LowerPriorities);
        over_lower.map_err(|_| Some(held_back))
    });
    let plan = match found {
        Ok(plan) => plan,
        Err(_) if take_gang(draft, reclaim, job) || take_promises(draft, reclaim, job) => {
            return true;
        }
        Err(held_back) => {
            draft.jobs[job].held_back = held_back.or(draft.jobs[job].held_back);
            reclaim.note_failed(job);
            return false;
        }
    };
    draft.jobs[job].held_back = None;
    for victim in plan.victims {
        draft.preempt(victim.holding, victim.rule, Some((job, plan.considered)));
        reclaim.note_taken(draft, victim.holding, victim.rule, job);
    }
    draft.promise(job, plan.node, plan.order);
    reclaim.note_used(draft, plan.node);
    true
}
