//! Jobs that work with legal sizes only: they grow and shrink in steps from a legal size to the
//! next.
//!
//! Within a cycle such a job collects space process by process, like any other, as promises. At the
//! end of the cycle the promises that make a whole step, and whose space is free, become shares. A
//! job that lost processes gives up more, down to the next legal size.
//!
//! Design: requests and time, section 3.7 "Legal sizes" and "Adapting"; seed 002.

use std::collections::{BTreeMap, BTreeSet};

use super::capacity::DemandByOrder;
use super::draft::{Draft, JobDraft};
use super::fairness_tree::Level;
use super::place::place_one;
use super::preempt::EvictionRank;
use super::schedule::VictimRule;
use super::share_table::ShareIx;
use super::snapshot::{Job, Promise, Share};
use crate::model::{JobIx, Millis, NShares, NodeIx, QShares, Shape, SharePhase, count};

/// The shape of `job`, if its number of processes is bound to legal sizes.
pub(super) fn sizes_of(job: &Job) -> Option<&Shape> {
    job.shape.as_deref().filter(|shape| shape.is_elastic())
}

/// The largest size that a job of `shape` may have with at most `most` processes; 0 if that is
/// below its minimum.
pub(super) fn legal_at_most(shape: &Shape, most: NShares) -> NShares {
    let legal = shape.legal_sizes.at_most(most.0).unwrap_or(0);
    NShares(if legal < shape.min_processes { 0 } else { legal })
}

/// The smallest size of at least `least` that a job of `shape` may have.
pub(super) fn legal_at_least(shape: &Shape, least: NShares) -> Option<NShares> {
    shape.legal_sizes.at_least(least.0.max(shape.min_processes)).map(NShares)
}

/// The most processes that a job of `shape` can use if it could use `most` of any size.
pub(super) fn legal_cap(shape: &Shape, most: NShares) -> NShares {
    match legal_at_most(shape, most) {
        NShares(0) if NShares(0) < most => legal_at_least(shape, NShares(1)).unwrap_or_default(),
        legal => legal,
    }
}

/// Longest initialization of a new process that keeps its job from another change of size. An
/// orchestrator that never confirms must not make a job immune.
pub const ADAPTING: Millis = 600_000;

/// True while the job changes its size: new processes have not initialized, or old ones have not
/// exited. Until then it gets no other size, except for work of higher priority.
pub(super) fn is_adapting(job: &Job) -> bool {
    let is_beginning =
        |share: &Share| !share.facts.is_initialized && share.facts.initialization < ADAPTING;
    job.shares.iter().any(|share| share.state == SharePhase::Leaving || is_beginning(share))
}

/// The smallest number of processes that `job` can work with.
pub(super) fn least_size(draft: &Draft<'_>, job: JobIx) -> NShares {
    let shape = if draft.jobs[job].is_elastic { sizes_of(draft.job(job)) } else { None };
    shape.and_then(|shape| legal_at_least(shape, NShares(1))).unwrap_or(NShares(1))
}

/// True if `job` lost processes and has no legal size now.
pub(super) fn is_between_sizes(draft: &Draft<'_>, job: JobIx) -> bool {
    draft.jobs[job].is_elastic && NShares(0) < excess_of_size(draft, job)
}

/// Processes of `job` beyond the largest legal size that it reaches.
pub(super) fn excess_of_size(draft: &Draft<'_>, job: JobIx) -> NShares {
    let held = draft.jobs[job].held;
    sizes_of(draft.job(job)).map_or(NShares(0), |shape| held - legal_at_most(shape, held))
}

/// Starts the whole steps of all jobs with legal sizes, and returns space that makes no step.
pub(super) fn begin_steps(draft: &mut Draft<'_>) {
    for job in draft.elastic.clone() {
        if let Some(shape) = sizes_of(draft.job(job)) {
            grow(draft, job, shape);
        }
    }
}

/// Brings all jobs with legal sizes to such a size, once nothing more is taken from them.
pub(super) fn settle(draft: &mut Draft<'_>) {
    for job in draft.elastic.clone() {
        if let Some(shape) = sizes_of(draft.job(job)) {
            shrink(draft, job, shape);
            grow(draft, job, shape);
        }
    }
}

/// Preempts processes down to a legal size, if the job lost some or may have fewer.
fn shrink(draft: &mut Draft<'_>, job: JobIx, shape: &Shape) {
    let held = draft.jobs[job].held;
    let legal = legal_at_most(shape, held);
    if draft.job(job).facts.is_completing || legal == held {
        return;
    }
    let shares = draft.shares.held_by(job);
    let mut ranked: Vec<(EvictionRank, ShareIx)> =
        shares.map(|(holding, share)| (EvictionRank::of(draft, share), holding)).collect();
    ranked.sort_unstable();
    for (_, victim) in ranked.into_iter().zip(legal.0..held.0).map(|(ranked, _)| ranked) {
        draft.preempt(victim, VictimRule::NoLongerAllowed, None);
    }
}

/// Gives free space to jobs with legal sizes, a whole step at a time, the user with the least first.
pub(super) fn fill_steps(draft: &mut Draft<'_>) {
    for priority in draft.priorities() {
        let is_meant = |&job: &JobIx| draft.precedence(job) == priority;
        let mut jobs: Vec<JobIx> = draft.elastic.iter().copied().filter(is_meant).collect();
        while !jobs.is_empty() {
            jobs.sort_by_key(|&job| draft.entities.at(&draft.held, Level::User, job));
            let served = jobs.iter().position(|&job| fill_step(draft, job));
            // What one step leaves is smaller, so jobs that found nothing find nothing later.
            match served {
                Some(served) => drop(jobs.drain(..served)),
                None => break,
            }
        }
    }
}

/// Starts the processes of the next step of `job`, if there is free space for all of them. A step
/// that waits for its space grows to the next legal size, and waits on.
fn fill_step(draft: &mut Draft<'_>, job: JobIx) -> bool {
    let Some(shape) = sizes_of(draft.job(job)) else { return false };
    let JobDraft { held, promised, is_adapting, demand, .. } = draft.jobs[job];
    let has = held + promised;
    let next = legal_at_least(shape, has + NShares(1)).filter(|next| *next <= demand.cap.nshares);
    let Some(next) = next.filter(|_| !is_adapting) else { return false };
    let no_other = DemandByOrder::default();
    let before = draft.promises.len();
    while draft.jobs[job].promised < next - held {
        if place_one(draft, job, &no_other).is_none() {
            break;
        }
    }
    let is_whole = draft.jobs[job].promised == next - held;
    if is_whole && NShares(0) < promised {
        return true;
    }
    let new: Vec<Promise> = draft.promises[before..].to_vec();
    for promise in &new {
        draft.withdraw(job, *promise);
    }
    is_whole && begin_step(draft, job, &new)
}

/// Starts the processes of a step if the space of all of them is free. Their promises are withdrawn
/// already.
fn begin_step(draft: &mut Draft<'_>, job: JobIx, step: &[Promise]) -> bool {
    let mut amounts: BTreeMap<NodeIx, QShares> = BTreeMap::new();
    for promise in step {
        *amounts.entry(promise.node).or_default() += promise.order.qshares();
    }
    let is_free = |(node, amount): (&NodeIx, &QShares)| *amount <= draft.spaces.usable(*node);
    let are_free = amounts.iter().all(is_free);
    for promise in step.iter().filter(|_| are_free) {
        draft.expand_now(job, promise.node, promise.order, None);
        draft.jobs[job].has_stepped = true;
    }
    are_free
}

/// Turns promises into shares, once the space of all of them is free. Promises that make no whole
/// step go back.
fn grow(draft: &mut Draft<'_>, job: JobIx, shape: &Shape) {
    let mut step = withdraw_all(draft, job);
    let held = draft.jobs[job].held;
    let legal = legal_at_most(shape, held + NShares(count(&step))).max(held);
    step.truncate(large(legal - held));
    if draft.jobs[job].is_adapting || !begin_step(draft, job, &step) {
        promise_steps(draft, job, shape, &step);
    }
}

/// Returns the promises to a job with legal sizes that make no whole step, now that it lost some.
/// Returns their nodes.
pub(super) fn give_back_rest(draft: &mut Draft<'_>, job: JobIx) -> Vec<NodeIx> {
    let Some(shape) = sizes_of(draft.job(job)) else { return Vec::new() };
    let step = withdraw_all(draft, job);
    let kept = promise_steps(draft, job, shape, &step);
    step[kept..].iter().map(|promise| promise.node).collect()
}

/// Withdraws all promises to a job, and returns them in the order in which they are worth keeping.
/// Space for which processes were taken back comes first: else they would go in vain. Then comes space
/// that is free now, then space that was made first.
fn withdraw_all(draft: &mut Draft<'_>, job: JobIx) -> Vec<Promise> {
    let id = draft.jobs[job].id;
    let own = draft.promises.iter().filter(|promise| promise.job == id);
    let own: Vec<Promise> = own.copied().collect();
    if own.is_empty() {
        return own;
    }
    for promise in &own {
        draft.withdraw(job, *promise);
    }
    let for_it = draft.preemptions.iter().filter(|it| it.beneficiary == Some(id));
    let cleared: BTreeSet<NodeIx> = for_it.map(|preemption| preemption.node).collect();
    let (paid, own): (Vec<Promise>, Vec<Promise>) =
        own.into_iter().partition(|promise| cleared.contains(&promise.node));
    let mut used: BTreeMap<NodeIx, QShares> = BTreeMap::new();
    let is_free = |promise: &Promise| {
        let used = used.entry(promise.node).or_default();
        let is_free = *used + promise.order.qshares() <= draft.spaces.usable(promise.node);
        if is_free {
            *used += promise.order.qshares();
        }
        is_free
    };
    let (free, awaited): (Vec<Promise>, Vec<Promise>) = own.into_iter().partition(is_free);
    paid.into_iter().chain(free).chain(awaited).collect()
}

/// Promises as much of `step` as makes whole steps. Returns the number of promises.
fn promise_steps(draft: &mut Draft<'_>, job: JobIx, shape: &Shape, step: &[Promise]) -> usize {
    // A job between two sizes will shrink, and then needs more for a whole step.
    let least = legal_at_most(shape, draft.jobs[job].held);
    let next = legal_at_most(shape, least + NShares(count(step))).max(least);
    let kept = large(next - least);
    for promise in &step[..kept] {
        draft.promise(job, promise.node, promise.order);
    }
    kept
}

/// A number of processes as a length. No job has more processes than fit into memory.
fn large(nshares: NShares) -> usize {
    usize::try_from(nshares.0).unwrap_or(usize::MAX)
}
