//! Jobs that work with legal sizes only: they grow and shrink in steps from one legal size to the
//! next.
//!
//! Within a cycle such a job collects space process by process, like any other, as promises. At the
//! end of the cycle the promises that make a whole step, and whose space is free, become shares. A
//! job that lost processes gives up more, down to the next legal size.
//!
//! Design: requests and time, section 3.7 "Legal sizes" and "Adapting"; seed 002.

use super::draft::Draft;
use super::preempt::EvictionRank;
use super::schedule::VictimRule;
use super::share_table::ShareIx;
use super::snapshot::{Job, Promise};
use crate::model::{Shape, SharePhase};

/// The shape of `job`, if its number of processes is bound to legal sizes.
pub(super) fn sizes_of(job: &Job) -> Option<&Shape> {
    job.shape.as_deref().filter(|shape| shape.is_elastic())
}

/// The largest size that a job of `shape` may have with at most `most` processes; 0 if that is
/// below its minimum.
pub(super) fn legal_at_most(shape: &Shape, most: u64) -> u64 {
    let legal = shape.legal_sizes.at_most(most).unwrap_or(0);
    if legal < shape.min_processes { 0 } else { legal }
}

/// The smallest size of at least `least` that a job of `shape` may have.
pub(super) fn legal_at_least(shape: &Shape, least: u64) -> Option<u64> {
    shape.legal_sizes.at_least(least.max(shape.min_processes))
}

/// The most processes that a job of `shape` can use if it could use `most` of any size.
pub(super) fn legal_cap(shape: &Shape, most: u64) -> u64 {
    match legal_at_most(shape, most) {
        0 if 0 < most => legal_at_least(shape, 1).unwrap_or(0),
        legal => legal,
    }
}

/// True while the job changes its size: new processes have not initialized, or old ones have not
/// exited. Until then it gets no other size, except for work of higher priority.
pub(super) fn is_adapting(job: &Job) -> bool {
    job.shares.iter().any(|share| share.state == SharePhase::Leaving || !share.facts.is_initialized)
}

/// Completes the steps of all jobs with legal sizes.
pub(super) fn settle(draft: &mut Draft<'_>) {
    for job in draft.elastic.clone() {
        if let Some(shape) = sizes_of(draft.job(job)) {
            shrink(draft, job, shape);
            grow(draft, job, shape);
        }
    }
}

/// Preempts processes down to a legal size, if the job lost some or may have fewer.
fn shrink(draft: &mut Draft<'_>, job: usize, shape: &Shape) {
    let held = draft.jobs[job].held;
    let legal = legal_at_most(shape, held);
    if draft.job(job).facts.is_completing || legal == held {
        return;
    }
    let shares = draft.shares.held_by(job);
    let mut ranked: Vec<(EvictionRank, ShareIx)> =
        shares.map(|(holding, share)| (EvictionRank::of(draft, share), holding)).collect();
    ranked.sort_unstable();
    for (_, victim) in ranked.into_iter().zip(legal..held).map(|(ranked, _)| ranked) {
        draft.preempt(victim, VictimRule::NoLongerAllowed, None);
    }
}

/// Turns promises into shares, as far as they make a legal size and their space is free. The rest is
/// kept if it may complete a further step.
fn grow(draft: &mut Draft<'_>, job: usize, shape: &Shape) {
    let id = draft.jobs[job].id;
    let own = draft.promises.iter().filter(|promise| promise.job == id);
    let own: Vec<Promise> = own.copied().collect();
    if own.is_empty() {
        return;
    }
    for promise in &own {
        draft.withdraw(job, *promise);
    }
    let held = draft.jobs[job].held;
    let (mut free, mut later) = (Vec::new(), Vec::new());
    for promise in own {
        if promise.order.qshares() <= draft.spaces.usable(promise.node) {
            free.push(promise);
        } else {
            later.push(promise);
        }
        draft.promise(job, promise.node, promise.order);
    }
    let most = held + crate::model::count(&free);
    let legal = legal_at_most(shape, most).max(held);
    let rest = free.split_off(usize::try_from(legal - held).unwrap_or(usize::MAX).min(free.len()));
    for promise in free {
        draft.withdraw(job, promise);
        draft.expand_now(job, promise.node, promise.order, None);
    }
    // Space for a part of a step is kept only if the target allows the whole step.
    let given = draft.jobs[job].given;
    let kept =
        legal_at_least(shape, legal + 1).filter(|next| *next <= given).map_or(0, |_| given - legal);
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    for promise in later.into_iter().chain(rest).skip(kept) {
        draft.withdraw(job, promise);
    }
}
