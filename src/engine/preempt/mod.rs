//! Preemption and defragmentation: one mechanism with two triggers.
//!
//! A share is taken back only for a named beneficiary, on a machine where the room made suffices
//! for one nshare of it, and only from worse priorities or from somebody who is afterwards still
//! better off than it was ([`eligibility`] has the exact rule). So every preemption ends in a placed
//! nshare of somebody who was behind, and a surplus nobody can use stays where it is. The room is
//! promised to the beneficiary until it arrives.
//!
//! Where that clears no machine for somebody who has nothing, what is in the way may be moved:
//! [`relocate`](mod@relocate).
//!
//! [`budget`] says what one more nshare is worth, [`history`] why this comes to an end.
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
mod relocate;
#[cfg(test)]
mod tests;

pub use budget::is_steady;
pub use history::MEMORY_AFTER;
pub(super) use history::Takings;

use std::collections::BTreeSet;

use super::draft::{Draft, JobDraft};
use super::nodepool::OrdersWanted;
use super::report::HeldBack;
use super::schedule::PreemptionRule;
use super::serve::{Service, Turn};
use super::shares::Holding;
use super::what_of::place_one;
use crate::model::{ClassPolicy, JobId};
use budget::is_at_rest;
use plan::EvictionRank;
use queue::Reclaim;
use relocate::relocate;

/// Takes back what a job may not hold any more: its declared maximum fell below what it has.
///
/// The only preemption without a beneficiary. Work that cannot be preempted keeps what it has
/// (decision D6).
pub(super) fn shed_beyond_maximum(draft: &mut Draft<'_>) {
    for ix in 0..draft.jobs.len() {
        let JobDraft { held, may_keep, .. } = draft.jobs[ix];
        let excess = held.saturating_sub(may_keep);
        if excess == 0 || !draft.class_of(ix).policy.is_preemptable() {
            continue;
        }
        let shares = draft.shares.held_by(ix);
        let mut ranked: Vec<(EvictionRank, Holding)> =
            shares.map(|(holding, share)| (EvictionRank::of(draft, share), holding)).collect();
        ranked.sort_unstable();
        for (_, victim) in ranked.into_iter().zip(0..excess).map(|(ranked, _)| ranked) {
            draft.preempt(victim, PreemptionRule::NoLongerAllowed, None);
        }
    }
}

/// Makes room for whoever is below its count and could not be placed, and in a cluster at rest for
/// whoever could use more: better priorities first; among equals holders of nothing, then the
/// least served.
///
/// A search may be too long for one cycle. The jobs that it did not come to are put off, and come first
/// in the next one; and not before all of them had their turn does the search begin anew. So every job
/// has its turn, however much is searched for others.
pub(super) fn make_room(draft: &mut Draft<'_>) {
    let mut reclaim = Reclaim::new(draft);
    let late: BTreeSet<JobId> = draft.snapshot.put_off.iter().copied().collect();
    if !late.is_empty() {
        let is_late = |draft: &Draft<'_>, job: usize| late.contains(&draft.jobs[job].id);
        make_room_for_those(draft, &mut reclaim, is_late);
        // That was their turn, also where free room was enough for them.
        if draft.put_off.is_empty() {
            for job in (0..draft.jobs.len()).filter(|&job| is_late(draft, job)) {
                reclaim.take_turn(job);
            }
        }
    }
    if draft.put_off.is_empty() {
        make_room_for_those(draft, &mut reclaim, |_, _| true);
    } else {
        tell_the_others(draft, &late);
    }
    draft.put_off.sort_unstable();
}

/// Makes room for the jobs of which `is_meant` says so.
fn make_room_for_those(
    draft: &mut Draft<'_>,
    reclaim: &mut Reclaim,
    is_meant: impl Fn(&Draft<'_>, usize) -> bool,
) {
    for priority in draft.priorities() {
        let mut fixed = draft.jobs_of(priority, |policy| !policy.is_preemptable());
        fixed.retain(|job| is_meant(draft, *job));
        for job in fixed {
            while draft.shortfall(job) > 0 && make_room_for(draft, reclaim, job) {}
        }
        let mut jobs = draft.jobs_of(priority, ClassPolicy::is_preemptable);
        jobs.retain(|job| is_meant(draft, *job));
        // Whoever was promised room has more than before, and may now be the one to give: so until
        // a round finds nothing. Every round but the last uses up shares or room, so it ends.
        while make_room_for_least_served(draft, reclaim, &jobs) || relocate(draft, reclaim, &jobs) {
        }
    }
}

/// One round over `jobs`. Says whether room was made for anybody.
fn make_room_for_least_served(
    draft: &mut Draft<'_>,
    reclaim: &mut Reclaim,
    jobs: &[usize],
) -> bool {
    let done = |draft: &Draft<'_>| draft.promises.len() + draft.expansions.len();
    let before = done(draft);
    // Who lost something in this cycle may find that a hole is left for it.
    let mut serve = |draft: &mut Draft<'_>, job, wanted: &OrdersWanted| {
        if let Some(machine) = place_one(draft, job, wanted) {
            reclaim.note_used(draft, machine);
            return Service::Served;
        }
        if make_room_for(draft, reclaim, job) { Service::Served } else { Service::Refused }
    };
    let empty_handed: Vec<usize> =
        jobs.iter().copied().filter(|&job| draft.has(job) == 0).collect();
    draft.serve_by_holdings(
        &empty_handed,
        Turn::ByFinish,
        |draft, job| due(draft, job).min(1),
        &mut serve,
    );
    draft.serve_by_holdings(jobs, Turn::ByFinish, due, &mut serve);
    before < done(draft)
}

/// How many nshares `job` may take from others: a first one that is owed to it, up to its count, and in
/// a cluster at rest up to its cap.
fn due(draft: &Draft<'_>, job: usize) -> u64 {
    let due = if is_at_rest(draft) { draft.below_cap(job) } else { draft.shortfall(job) };
    due.max(u64::from(draft.is_starved(job)))
}

/// Leaves it to the next cycle to search for `job`, which has its turn there if it had none here.
fn put_off(draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: usize) {
    draft.jobs[job].held_back = Some(HeldBack::NextCycle);
    if reclaim.take_turn(job) {
        draft.put_off.push(draft.jobs[job].id);
    }
}

/// Says of all who wait for others that were put off before them that they do.
fn tell_the_others(draft: &mut Draft<'_>, late: &BTreeSet<JobId>) {
    for job in 0..draft.jobs.len() {
        if 0 < due(draft, job) && !late.contains(&draft.jobs[job].id) {
            draft.jobs[job].held_back = Some(HeldBack::NextCycle);
        }
    }
}

/// Makes room for one nshare of `job` on one machine and promises it. Says whether it could; where
/// it might have but did not, the job remembers why.
fn make_room_for(draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: usize) -> bool {
    if reclaim.has_failed(job) {
        return false;
    }
    if draft.effort.is_spent() {
        put_off(draft, reclaim, job);
        return false;
    }
    reclaim.take_turn(job);
    let plan = match reclaim.best_plan(draft, job) {
        Ok(plan) => plan,
        Err(held_back) => {
            draft.jobs[job].held_back = held_back.or(draft.jobs[job].held_back);
            reclaim.note_failed(job);
            return false;
        }
    };
    draft.jobs[job].held_back = budget::objection(draft, job, &plan);
    if draft.jobs[job].held_back.is_some() {
        reclaim.note_failed(job);
        return false;
    }
    for victim in plan.victims {
        draft.preempt(victim.holding, victim.rule, Some((job, plan.considered)));
        reclaim.note_taken(draft, victim.holding, victim.rule, job);
    }
    draft.promise(job, plan.machine, plan.order);
    reclaim.note_used(draft, plan.machine);
    true
}
