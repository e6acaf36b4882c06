//! Urgent work: accepted with all its space, or refused, at once.
//!
//! The decision comes before all else in its cycle. So urgent work has the first claim on free
//! space, and the rest of the cycle is planned as if the space had been promised before. Space that
//! is taken back returns when its processes have exited. Until then it stays promised, like the
//! space of any gang.
//!
//! Design: requests and time, section 3.8.

mod remedies;
mod search;
mod supply;

use std::sync::Arc;

use super::planner::GangPlanner;
use super::request::gang_request;
use super::{Taker, gang_shape, least_start};
use crate::engine::bisect::largest;
use crate::engine::draft::Draft;
use crate::engine::effort::Effort;
use crate::engine::plan_with;
use crate::engine::report::CapBound;
use crate::engine::schedule::{Alternatives, CycleSchedule, Preemption, VictimRule};
use crate::engine::share_table::ShareIx;
use crate::engine::snapshot::{Promise, Snapshot};
use crate::engine::wait_reason::{GangLack, GangNodes, WaitReason};
use crate::model::{
    Chunk, Elasticity, JobId, JobIx, Mebibytes, Order, Shape, SharePhase, Tags, count,
};
use search::RemedySearch;

/// Reason for which urgent work is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentRefusal {
    /// The space that is free, and that may be taken back, does not suffice.
    NoSpace(GangLack),
    /// An obstacle that no space removes.
    Waits(WaitReason),
}

/// Space for an urgent job.
struct UrgentPlan {
    promises: Vec<Promise>,
    /// Shares that go for it.
    victims: Vec<ShareIx>,
}

/// Plans a cycle that begins with the decisions on `urgent` jobs, one after the other.
///
/// # Errors
///
/// If the last of them cannot have all its space. No schedule is made then.
pub fn plan_urgent(
    snapshot: &Snapshot,
    urgent: &[JobId],
    effort: &Effort,
) -> Result<CycleSchedule, UrgentRefusal> {
    let mut after = snapshot.clone();
    let mut preemptions = Vec::new();
    for job in urgent {
        let draft = Draft::with(&after, effort);
        let plan = find_plan(&draft, *job)?;
        preemptions.extend(receipts(&draft, *job, &plan));
        after = carry_out(&draft, &plan);
    }
    let mut schedule = plan_with(&after, effort);
    for job in urgent {
        check_complete(&after, &schedule, *job)?;
    }
    preemptions.append(&mut schedule.preemptions);
    Ok(CycleSchedule { preemptions, ..schedule })
}

/// Succeeds if the schedule gives an urgent job all that its plan promised.
fn check_complete(
    after: &Snapshot,
    schedule: &CycleSchedule,
    job: JobId,
) -> Result<(), UrgentRefusal> {
    let planned = count(after.promises.iter().filter(|promise| promise.job == job));
    let started = schedule.expansions.iter().filter(|new| new.job == job);
    let promised = schedule.promises.iter().filter(|promise| promise.job == job);
    if planned <= count(started) + count(promised) {
        return Ok(());
    }
    let report = schedule.report.jobs.iter().find(|report| report.job == job);
    let reason = report.and_then(|report| report.reason);
    let lack = GangLack { of: GangNodes::Available, chunk: None, found: 0, needed: planned };
    Err(reason.map_or(UrgentRefusal::NoSpace(lack), refusal))
}

/// A reason to wait, as a reason to refuse.
fn refusal(reason: WaitReason) -> UrgentRefusal {
    if let WaitReason::GangLacks(lack) = reason
        && lack.of == GangNodes::Available
    {
        return UrgentRefusal::NoSpace(lack);
    }
    UrgentRefusal::Waits(reason)
}

/// Finds space for all processes of an urgent job.
fn find_plan(draft: &Draft<'_>, id: JobId) -> Result<UrgentPlan, UrgentRefusal> {
    let no_space = |needed| {
        let lack = GangLack { of: GangNodes::Available, chunk: None, found: 0, needed };
        UrgentRefusal::NoSpace(lack)
    };
    let Some(job) = draft.place_of(id) else { return Err(no_space(0)) };
    let cap = draft.jobs[job].demand.cap;
    let new = cap.nshares.saturating_sub(draft.jobs[job].held).0;
    if new == 0 || cap.bound == CapBound::Closed {
        return Err(UrgentRefusal::Waits(WaitReason::Capped {
            bound: cap.bound,
            cap: cap.nshares,
        }));
    }
    let single = single_shape(draft, job, new);
    let gang = gang_shape(draft.job(job));
    let mut planner = GangPlanner::for_request(draft, job);
    planner.look_from(draft, Taker { priority: draft.precedence(job), is_among_peers: false });
    let mut request = gang_request(draft, &planner.kinds, (job, gang.unwrap_or(&single)), new);
    planner.set_stay(draft, &mut request);
    planner.ignore_bookings(&mut request);
    planner.in_time(draft, job, request.until).map_err(refusal)?;
    let is_moldable = gang.is_some_and(|gang| gang.elasticity == Some(Elasticity::Moldable));
    let most = new;
    if is_moldable {
        // Work is lost for the smallest size at most.
        let least = least_start(request.shape, &draft.class_of(job).gangs, u64::MAX);
        let least = request.shape.legal_sizes.at_least(least).unwrap_or(most);
        request.pieces[0].count = least.min(most);
    }
    planner.choose_sets(draft, &mut request).map_err(refusal)?;
    let mut search = RemedySearch::new(draft, planner, request);
    if is_moldable {
        search.ask_for_free(most);
    }
    let Some(slots) = search.find() else { return Err(refusal(search.lack())) };
    let is_gang = gang.is_some();
    let promise = |slot: super::Slot| Promise {
        job: id,
        node: slot.node,
        order: slot.order,
        rank: is_gang.then_some(slot.rank),
    };
    let promises = slots.into_iter().map(promise).collect();
    Ok(UrgentPlan { promises, victims: search.victims() })
}

/// Shape of single processes: a chunk that may go anywhere.
fn single_shape(draft: &Draft<'_>, job: JobIx, new: u64) -> Shape {
    let quantum = draft.snapshot.topology.pools[draft.class_of(job).pool].quantum;
    let memory: Mebibytes = quantum.memory_of(draft.jobs[job].order.qshares());
    let chunk = Chunk { count: new, memory, tags: Tags::default() };
    Shape { chunks: vec![chunk], ..Shape::default() }
}

/// Receipts of the shares that go.
fn receipts(draft: &Draft<'_>, id: JobId, plan: &UrgentPlan) -> Vec<Preemption> {
    let receipt = |victim: &ShareIx| {
        let share = draft.share(*victim);
        Preemption {
            share: share.id,
            job: draft.jobs[victim.job].id,
            node: share.node,
            beneficiary: Some(id),
            rule: VictimRule::Urgent,
            loss: share.loss(),
            considered: Alternatives::default(),
        }
    };
    plan.victims.iter().map(receipt).collect()
}

/// The state in which the victims leave and the space is promised. Promises to other work that are
/// in the way are dropped; the promises of a gang, all together.
fn carry_out(draft: &Draft<'_>, plan: &UrgentPlan) -> Snapshot {
    let mut after = draft.snapshot.clone();
    let jobs = Arc::make_mut(&mut after.jobs);
    for victim in &plan.victims {
        let job = Arc::make_mut(&mut jobs[victim.job]);
        job.shares[victim.share].state = SharePhase::Leaving;
    }
    let mut space: Vec<u64> = draft.snapshot.nodes.iter().map(|node| node.order.0).collect();
    for (ix, node) in draft.snapshot.nodes_with_ix() {
        let closed = draft.spaces.closed(ix);
        space[ix.0] = space[ix.0].saturating_sub(node.limbo.0 + closed.0);
    }
    for job in after.jobs.iter() {
        for share in job.held() {
            let space = &mut space[share.node.0];
            *space = space.saturating_sub(share.order.qshares().0);
        }
    }
    let promises = draft.snapshot.promises.iter();
    let (kept, others): (Vec<Promise>, Vec<Promise>) =
        promises.partition(|promise| is_urgent(draft, promise.job));
    for promise in kept.iter().chain(&plan.promises) {
        let space = &mut space[promise.node.0];
        *space = space.saturating_sub(promise.order.qshares().0);
    }
    let mut is_left = |promise: &Promise| take(&mut space[promise.node.0], promise.order);
    let dropped: Vec<bool> = others.iter().map(|promise| !is_left(promise)).collect();
    let is_broken = |promise: &Promise| {
        let mut all = others.iter().zip(&dropped);
        promise.rank.is_some() && all.any(|(other, dropped)| *dropped && other.job == promise.job)
    };
    let rest = others.iter().zip(&dropped).filter(|(it, dropped)| !**dropped && !is_broken(it));
    let rest: Vec<Promise> = rest.map(|(promise, _)| *promise).collect();
    after.promises = kept.into_iter().chain(plan.promises.iter().copied()).chain(rest).collect();
    after
}

/// Takes `order` from `space`; false if there is less.
fn take(space: &mut u64, order: Order) -> bool {
    let left = space.checked_sub(order.qshares().0);
    *space = left.unwrap_or(*space);
    left.is_some()
}

/// True if the job is urgent.
fn is_urgent(draft: &Draft<'_>, job: JobId) -> bool {
    draft.place_of(job).is_some_and(|job| draft.class_of(job).is_urgent)
}

impl RemedySearch<'_, '_> {
    /// Asks for as many processes as free space allows, at most `most`, and at least as many as
    /// before.
    fn ask_for_free(&mut self, most: u64) {
        let least = self.request.pieces[0].count;
        let sizes = &self.request.shape.legal_sizes;
        let mut fits = |size: u64| {
            self.request.pieces[0].count = size;
            size <= least || self.fits()
        };
        let size = largest(most, &mut fits);
        let size = sizes.at_most(size).filter(|size| least <= *size).unwrap_or(least);
        self.request.pieces[0].count = size;
    }
}
