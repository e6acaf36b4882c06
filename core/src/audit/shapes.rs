//! Facts of jobs with a shape, from the snapshot alone.
//!
//! A gang is a job with chunks: its processes start in the same cycle, or none does.

use crate::engine::{Job, Share};
use crate::model::{Elasticity, Millis, ProcessLimit, Shape, SharePhase};

/// Shape of `job`, if the job is a gang.
pub(super) fn gang_shape(job: &Job) -> Option<&Shape> {
    job.shape.as_deref().filter(|shape| shape.is_gang())
}

/// Shape of `job`, if its number of processes is bound to sizes while it runs.
pub(super) fn sized_shape(job: &Job) -> Option<&Shape> {
    job.shape.as_deref().filter(|shape| shape.is_elastic())
}

/// Longest initialization of a new process that keeps its job from another change of size.
const ADAPTING: Millis = 600_000;

/// True if the number of processes is bound to sizes and the last change of it is not over: a
/// process initializes, and has for less than `ADAPTING`, or a process has yet to exit.
pub(super) fn is_adapting(job: &Job) -> bool {
    let is_beginning =
        |share: &Share| !share.facts.is_initialized && share.facts.initialization < ADAPTING;
    let is_changing = |share: &Share| share.state == SharePhase::Leaving || is_beginning(share);
    sized_shape(job).is_some() && job.shares.iter().any(is_changing)
}

/// True if the owner of the gang may change its number of processes.
pub(super) fn is_evolving(shape: &Shape) -> bool {
    shape.elasticity == Some(Elasticity::Evolving)
}

/// True if the number of processes may change after the start.
pub(super) fn is_resizable(shape: &Shape) -> bool {
    matches!(shape.elasticity, Some(Elasticity::Evolving | Elasticity::Malleable))
}

/// True if the planner chooses the number of processes of the gang.
pub(super) fn is_chosen(shape: &Shape) -> bool {
    matches!(shape.elasticity, Some(Elasticity::Moldable | Elasticity::Malleable))
}

/// Most processes that a gang could start with.
pub(super) fn wish(job: &Job, shape: &Shape) -> u64 {
    let asked = shape.processes();
    if is_chosen(shape) {
        return shape.legal_sizes.at_most(asked).unwrap_or(0);
    }
    match job.facts.limit {
        ProcessLimit::AtMost(most) if is_evolving(shape) => most,
        ProcessLimit::AtMost(_) | ProcessLimit::Unlimited | ProcessLimit::Frozen => asked,
    }
}

/// Fewest processes with which a gang starts whose number the planner chooses.
pub(super) fn fewest_at_start(shape: &Shape) -> Option<u64> {
    let fewest = shape.legal_sizes.at_least(shape.min_processes.max(1));
    fewest.filter(|_| is_chosen(shape))
}

/// True if a gang may start with `size` processes.
pub(super) fn may_start_with(job: &Job, shape: &Shape, size: u64) -> bool {
    if is_chosen(shape) { is_legal(shape, size) } else { size == wish(job, shape) }
}

/// True if a job of this shape can work with `size` processes.
pub(super) fn is_legal(shape: &Shape, size: u64) -> bool {
    let most = if shape.is_gang() { shape.processes() } else { u64::MAX };
    (shape.min_processes.max(1)..=most).contains(&size) && shape.legal_sizes.allow(size)
}

/// Processes that a gang could use. A gang that has started keeps its number, unless its owner
/// or the planner may change it.
pub(super) fn useful_of_gang(job: &Job, shape: &Shape) -> u64 {
    if job.gang.size.is_none() || is_resizable(shape) {
        wish(job, shape)
    } else {
        job.nshares_held().0
    }
}
