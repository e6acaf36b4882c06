//! Jobs that work with legal sizes only: they grow and shrink in steps from a legal size to the
//! next.
//!
//! Within a cycle such a job collects space process by process, like any other, as promises. At the
//! end of the cycle the promises that make a whole step, and whose space is free, become shares. A
//! job that lost processes gives up more, down to the next legal size.
//!
//! Design: requests and time, section 3.7 "Legal sizes" and "Adapting"; seed 002.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::preempt::EvictionRank;
use super::schedule::VictimRule;
use super::share_table::ShareIx;
use super::snapshot::{Job, Promise, Share};
use crate::model::{Millis, NodeIx, QShares, Shape, SharePhase};

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

/// Longest initialization of a new process that keeps its job from another change of size. An
/// orchestrator that never confirms must not make a job immune.
const ADAPTING: Millis = 600_000;

/// True while the job changes its size: new processes have not initialized, or old ones have not
/// exited. Until then it gets no other size, except for work of higher priority.
pub(super) fn is_adapting(job: &Job) -> bool {
    let is_beginning =
        |share: &Share| !share.facts.is_initialized && share.facts.initialization < ADAPTING;
    job.shares.iter().any(|share| share.state == SharePhase::Leaving || is_beginning(share))
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

/// Turns promises into shares, once the space of all of them is free, as far as they make a legal
/// size. What is left over goes back.
fn grow(draft: &mut Draft<'_>, job: usize, shape: &Shape) {
    let id = draft.jobs[job].id;
    let own = draft.promises.iter().filter(|promise| promise.job == id);
    let own: Vec<Promise> = own.copied().collect();
    if own.is_empty() || draft.jobs[job].is_adapting {
        return;
    }
    let mut amounts: BTreeMap<NodeIx, QShares> = BTreeMap::new();
    for promise in &own {
        draft.withdraw(job, *promise);
        *amounts.entry(promise.node).or_default() += promise.order.qshares();
    }
    let is_free = |(node, amount): (&NodeIx, &QShares)| *amount <= draft.spaces.usable(*node);
    let are_free = amounts.iter().all(is_free);
    for promise in &own {
        draft.promise(job, promise.node, promise.order);
    }
    if !are_free {
        return;
    }
    let held = draft.jobs[job].held;
    let legal = legal_at_most(shape, held + crate::model::count(&own)).max(held);
    let mut begins = legal - held;
    for promise in own {
        draft.withdraw(job, promise);
        if 0 < begins {
            begins -= 1;
            draft.expand_now(job, promise.node, promise.order, None);
        }
    }
}
