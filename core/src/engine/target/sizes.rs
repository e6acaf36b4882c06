//! Targets of jobs that work with legal sizes only: rounded down, and the rest goes to other jobs.
//!
//! Design: requests and time, section 3.7 "Legal sizes".

use super::fair_share;
use super::node_lists::NodeListCapacity;
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::sizes::{legal_at_most, sizes_of};
use crate::model::{JobIx, NShares};

/// Rounds in which what a rounded job leaves goes to other jobs.
const ROUNDS: usize = 4;

/// Counts `jobs`, the fair-share jobs of a priority, like [`fair_share::count`], with legal targets.
pub(super) fn count(
    draft: &mut Draft<'_>,
    space: &mut EmptyCluster,
    listed: &mut NodeListCapacity,
    jobs: &[JobIx],
) {
    let is_counted = |job: &JobIx| jobs.binary_search(job).is_ok();
    let elastic: Vec<JobIx> = draft.elastic.iter().copied().filter(is_counted).collect();
    if elastic.is_empty() {
        fair_share::count(draft, space, listed, jobs);
        return;
    }
    for round in 0..ROUNDS {
        let before = (space.clone(), listed.clone(), draft.jobs.clone(), draft.targets.clone());
        fair_share::count(draft, space, listed, jobs);
        let is_legal = |&job: &JobIx| {
            let target = draft.jobs[job].target;
            sizes_of(draft.job(job)).is_none_or(|shape| legal_at_most(shape, target) == target)
        };
        let illegal: Vec<JobIx> = elastic.iter().copied().filter(|job| !is_legal(job)).collect();
        if illegal.is_empty() {
            return;
        }
        let counted: Vec<NShares> = illegal.iter().map(|&job| draft.jobs[job].target).collect();
        if round + 1 < ROUNDS {
            (*space, *listed, draft.jobs, draft.targets) = before;
        }
        for (job, counted) in illegal.into_iter().zip(counted) {
            let shape = sizes_of(draft.job(job));
            let legal = shape.map_or(counted, |shape| legal_at_most(shape, counted));
            draft.jobs[job].most = legal;
            draft.illegal_targets.insert(job, counted);
            if round + 1 == ROUNDS {
                draft.lower_target(job, legal);
            }
        }
    }
}
