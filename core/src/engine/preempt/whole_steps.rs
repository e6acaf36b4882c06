//! Makes space for the next legal size of a job, or takes nothing from other jobs.
//!
//! Space for a part of the step would be of no use to the job. So the step is tried on a copy of the
//! cycle, and counts only if all its processes have space.
//!
//! Design: requests and time, section 3.3 "complete plans only"; section 3.7 "Legal sizes".

use std::collections::BTreeSet;

use super::reclaim::Reclaim;
use super::{due_of_any_size, make_space_for, put_off};
use crate::engine::capacity::DemandByOrder;
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::GroupIx;
use crate::engine::place::place_one;
use crate::engine::sizes::{legal_at_least, sizes_of};
use crate::model::{JobIx, LegalSizes, NShares, count};

/// Most steps of a single process that are told at once.
const STEPS_MAX: usize = 64;

/// Step for which no space was found: group of the job, size of a process, and number of processes.
type FailedStep = (GroupIx, u64, NShares);

/// Processes that `job` can get one at a time, each of which makes a legal size.
pub(super) fn single_steps(draft: &Draft<'_>, job: JobIx) -> NShares {
    let Some(shape) = sizes_of(draft.job(job)) else { return NShares::MAX };
    let NShares(has) = draft.has(job);
    if shape.legal_sizes == LegalSizes::Any && shape.min_processes <= has + 1 {
        return NShares::MAX;
    }
    let sizes =
        (has + 1..).map(NShares).take_while(|&size| legal_at_least(shape, size) == Some(size));
    NShares(count(sizes.take(STEPS_MAX)))
}

/// The next legal size of `job`.
fn next_size(draft: &Draft<'_>, job: JobIx) -> Option<NShares> {
    legal_at_least(sizes_of(draft.job(job))?, draft.has(job) + NShares(1))
}

/// Makes space for the steps of `jobs`, oldest first.
pub(super) fn make_space_for_steps(draft: &mut Draft<'_>, reclaim: &mut Reclaim, jobs: &[JobIx]) {
    let mut failed: BTreeSet<FailedStep> = BTreeSet::new();
    for &job in jobs {
        while single_steps(draft, job) == NShares(0)
            && make_space_for_step(draft, reclaim, job, &mut failed)
        {
            failed.clear();
        }
    }
}

/// Makes space for the next step of `job`. True if it did.
fn make_space_for_step(
    draft: &mut Draft<'_>,
    reclaim: &mut Reclaim,
    job: JobIx,
    failed: &mut BTreeSet<FailedStep>,
) -> bool {
    let has = draft.has(job);
    let due = has + due_of_any_size(draft, job);
    let Some(next) = next_size(draft, job).filter(|next| *next <= due) else { return false };
    let step = (draft.entities.group_of(job), draft.jobs[job].order.qshares().0, next - has);
    if failed.contains(&step) {
        return false;
    }
    if draft.effort.is_spent() {
        put_off(draft, reclaim, job);
        return false;
    }
    let before = draft.clone();
    let mut trial = reclaim.anew(draft);
    let no_other = DemandByOrder::default();
    while draft.has(job) < next {
        if let Some(node) = place_one(draft, job, &no_other) {
            trial.note_used(draft, node);
        } else if !make_space_for(draft, &mut trial, job) {
            break;
        }
    }
    if next <= draft.has(job) {
        *reclaim = trial;
        return true;
    }
    let (effort, held_back) = (draft.effort.clone(), draft.jobs[job].held_back);
    *draft = before;
    draft.effort = effort;
    draft.jobs[job].held_back = held_back;
    failed.insert(step);
    false
}
