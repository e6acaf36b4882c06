//! What Of: finds nodes for the targets that How Much computed.
//!
//! Promises come first, then needy jobs, then all jobs below their target, the least served first.
//! [`fill`] comes last in the cycle: any free space that is left goes to a job that can use it.
//!
//! Design: "What Of"; architecture section 6: best fit by free order, whole nodes last, a
//! fixed-share service spreads over nodes before it stacks.

mod list_cursors;
mod placement;

use std::collections::BTreeSet;

use super::capacity::DemandByOrder;
use super::draft::Draft;
use super::gang::{place_gangs, uses_claim};
use super::snapshot::Promise;
use super::water_filling::{Service, Turn};
use crate::model::{ClassPolicy, JobIx, NShares, NodeIx, Precedence, QShares};
pub(super) use list_cursors::ListCursors;
use placement::find_space;

/// Places targets in free space, without preempting anything.
pub(super) fn place_shares(draft: &mut Draft<'_>) {
    let open = enter_promises(draft);
    // All nodes of a gang have to be free at once, so gangs come before what can use any node.
    place_gangs(draft);
    let open = redeem_promises(draft, open);
    for priority in draft.priorities() {
        redeem_elsewhere(draft, &open, priority);
        place_fixed(draft, priority);
        let jobs = draft.jobs_of(priority, ClassPolicy::is_preemptable);
        let needy: Vec<JobIx> = jobs.iter().copied().filter(|&job| draft.is_needy(job)).collect();
        draft.water_fill_by_holdings(&needy, Turn::ByStart, Draft::shortfall_while_needy, serve);
        draft.water_fill_by_holdings(&jobs, Turn::ByStart, Draft::shortfall, serve);
    }
}

/// Gives all free space that is left to the least served jobs below their caps, targets ignored: no
/// usable memory stays idle. Shares beyond a target are the first to be preempted when a job below
/// its target needs the space.
pub(super) fn fill(draft: &mut Draft<'_>) {
    fill_for(draft, |_, _| true);
}

/// Gives space that jobs with legal sizes returned to fixed-share work below its target.
pub(super) fn place_returned(draft: &mut Draft<'_>) {
    if !draft.elastic.is_empty() {
        for priority in draft.priorities() {
            place_fixed(draft, priority);
        }
    }
}

/// Gives the space that jobs with legal sizes left over to other jobs.
pub(super) fn fill_rest(draft: &mut Draft<'_>) {
    if !draft.elastic.is_empty() {
        fill_for(draft, |draft, job| !draft.jobs[job].is_elastic);
    }
}

/// Gives free space to the jobs for which `is_meant` is true.
fn fill_for(draft: &mut Draft<'_>, is_meant: impl Fn(&Draft<'_>, JobIx) -> bool) {
    for priority in draft.priorities() {
        let mut jobs = draft.jobs_of(priority, ClassPolicy::is_preemptable);
        jobs.retain(|&job| is_meant(draft, job));
        if has_space_for_any(draft, &jobs) {
            draft.water_fill_by_holdings(&jobs, Turn::ByFinish, Draft::below_cap, serve);
        }
    }
}

/// True if some node has space for an nshare of at least a single job in `jobs`. A full cluster has
/// none, so a hundred thousand jobs need not be tried.
fn has_space_for_any(draft: &Draft<'_>, jobs: &[JobIx]) -> bool {
    let pools = draft.snapshot.topology.pools.places();
    let most = pools.map(|pool| draft.spaces.usable_in(pool).1).max().unwrap_or_default();
    jobs.iter().any(|&job| draft.jobs[job].order.qshares() <= most)
}

/// Places an nshare of `job`, if there is free space for it. Returns the node.
pub(super) fn place_one(
    draft: &mut Draft<'_>,
    job: JobIx,
    demand: &DemandByOrder,
) -> Option<NodeIx> {
    let (node, order) = find_space(draft, job, demand)?;
    draft.expand(job, node, order);
    Some(node)
}

/// Places an nshare of `job`, which is fair-share work. Nothing is preempted meanwhile. So if a job
/// that may use any node finds no space, no job of its class and order does.
fn serve(draft: &mut Draft<'_>, job: JobIx, demand: &DemandByOrder) -> Service {
    if place_one(draft, job, demand).is_some() {
        Service::Served
    } else if !draft.jobs[job].is_restricted {
        Service::RefusedForAll
    } else {
        Service::Refused
    }
}

/// Places jobs that cannot be preempted, in order of their arrival: no such job has a claim against
/// another.
///
/// Work whose reservation has not opened yet does not start: free space is promised to it.
fn place_fixed(draft: &mut Draft<'_>, priority: Precedence) {
    let no_other = DemandByOrder::default();
    for job in draft.jobs_of(priority, |policy| !policy.is_preemptable()) {
        if draft.opening_of(job).is_some() {
            while NShares(0) < draft.shortfall(job)
                && let Some((node, order)) = find_space(draft, job, &no_other)
            {
                draft.promise(job, node, order);
            }
            continue;
        }
        while NShares(0) < draft.shortfall(job) && place_one(draft, job, &no_other).is_some() {}
    }
}

/// Enters the promises of the last cycle that are still good. A promise is dropped if its job is
/// gone, at its cap, or may not use the node any more. Promises to gangs follow from their plans.
fn enter_promises(draft: &mut Draft<'_>) -> Vec<(JobIx, Promise)> {
    let mut open = Vec::new();
    for &promise in draft.snapshot.promises.iter().filter(|promise| promise.rank.is_none()) {
        if let Some(job) = beneficiary(draft, promise) {
            draft.promise(job, promise.node, promise.order);
            open.push((job, promise));
        }
    }
    open
}

/// Turns `open` promises into shares, if the promised space is free now. Returns the promises that
/// may be kept on another node. A gang may have withdrawn some.
fn redeem_promises(
    draft: &mut Draft<'_>,
    mut open: Vec<(JobIx, Promise)>,
) -> Vec<(JobIx, Promise)> {
    if !draft.gangs.is_empty() {
        let mut kept = draft.promises.clone();
        open.retain(|(_, promise)| {
            let place = kept.iter().position(|other| other == promise);
            place.map(|place| kept.swap_remove(place)).is_some()
        });
    }
    // Promises whose space is free come first, so that no job is sent elsewhere while its own space
    // is free.
    open.retain(|&(job, promise)| {
        draft.withdraw(job, promise);
        let is_free = promise.order.qshares() <= draft.spaces.usable(promise.node)
            && draft.opening_of(job).is_none();
        if is_free {
            draft.expand(job, promise.node, promise.order);
        } else {
            draft.promise(job, promise.node, promise.order);
        }
        !is_free
    });
    // Beside the other promises of a node, a gang took what it needs and no more.
    let cleared = nodes_cleared_for_gangs(draft);
    open.retain(|(job, promise)| {
        draft.opening_of(*job).is_none() && !cleared.contains(&promise.node)
    });
    open
}

/// Turns `open` promises to jobs of `priority` into shares on other nodes, if there is free space
/// that no waiting gang claims. Promises that must wait are kept. Free space goes to higher
/// priorities first: for a lower priority space is cleared already.
///
/// A job with legal sizes begins whole steps, so its promises move only if all of them can.
fn redeem_elsewhere(draft: &mut Draft<'_>, open: &[(JobIx, Promise)], priority: Precedence) {
    for &(job, promise) in open {
        if draft.precedence(job) == priority && !draft.jobs[job].is_elastic {
            move_promise(draft, job, promise);
        }
    }
    for job in draft.elastic.clone() {
        if draft.precedence(job) == priority && !draft.jobs[job].is_adapting {
            move_step(draft, job, open.iter().filter(|(of, _)| *of == job).map(|(_, it)| *it));
        }
    }
}

/// Moves all of these promises to a job, or none.
fn move_step(draft: &mut Draft<'_>, job: JobIx, step: impl Iterator<Item = Promise>) {
    let mut moved = Vec::new();
    for promise in step {
        if let Some(new) = move_promise(draft, job, promise) {
            moved.push((promise, new));
            continue;
        }
        for (old, new) in moved {
            draft.withdraw(job, new);
            draft.promise(job, old.node, old.order);
        }
        return;
    }
}

/// Gives a job free space in place of a promise. Returns the space, if there is some.
fn move_promise(draft: &mut Draft<'_>, job: JobIx, promise: Promise) -> Option<Promise> {
    let (node, order) = find_space(draft, job, &DemandByOrder::default())?;
    if uses_claim(draft, job, node) {
        return None;
    }
    draft.withdraw(job, promise);
    draft.expand(job, node, order);
    Some(Promise { node, order, ..promise })
}

/// Nodes where a gang takes processes back in this cycle.
fn nodes_cleared_for_gangs(draft: &Draft<'_>) -> BTreeSet<NodeIx> {
    if draft.gangs.is_empty() {
        return BTreeSet::new();
    }
    let for_gangs = draft.preemptions.iter().filter(|preemption| {
        let beneficiary = preemption.beneficiary.and_then(|job| draft.place_of(job));
        beneficiary.is_some_and(|job| draft.jobs[job].is_gang)
    });
    for_gangs.map(|preemption| preemption.node).collect()
}

/// The job of a promise that is still good.
fn beneficiary(draft: &Draft<'_>, promise: Promise) -> Option<JobIx> {
    let job = draft.place_of(promise.job)?;
    let work = draft.job(job);
    let is_due = match draft.snapshot.class_of(work).policy {
        ClassPolicy::FairShare { .. } => draft.could_have_more(job),
        ClassPolicy::FixedShare => NShares(0) < draft.shortfall(job),
        // A reservation takes whole nodes, and this node may have another size now.
        ClassPolicy::Reserve => {
            let whole = draft.spaces.order(promise.node);
            NShares(0) < draft.shortfall(job)
                && promise.order.qshares() == whole
                && draft.nodes_within_reach(job).contains(&whole.0)
        }
    };
    // The calendar may leave the node no longer: a window may be too near by now.
    let is_left = draft.leaves.as_ref().is_none_or(|leaves| leaves.leave(job, promise.node));
    let is_legal =
        draft.spaces.is_schedulable(promise.node) && work.may_use(promise.node) && is_left;
    // The node may have shrunk since, or its owner may have started other work on it.
    let still_fits = draft.spaces.missing_for(promise.node, promise.order.qshares()) == QShares(0);
    (is_due && is_legal && still_fits).then_some(job)
}
