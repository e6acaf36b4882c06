//! Counts fair-share gangs together with the other jobs of their priority.
//!
//! A gang in its turn takes from its peers only what they hold beyond their targets, and the targets
//! depend on the gang. So gangs are counted first, then all other jobs, and then each gang is given
//! nodes. If a gang has to use other nodes, or finds none, all of that is counted again.

use super::node_lists::NodeListCapacity;
use super::sizes;
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::gang::{GangPlanner, TurnChoices};
use crate::model::JobIx;

/// Counts the fair-share `gangs` of a priority, and its other jobs.
pub(super) fn count(
    draft: &mut Draft<'_>,
    space: &mut EmptyCluster,
    listed: &mut NodeListCapacity,
    planner: &mut GangPlanner,
    (gangs, others): (&[JobIx], &[JobIx]),
) {
    let mut choices = TurnChoices::default();
    let is_waiting = |&job: &JobIx| draft.jobs[job].held < draft.jobs[job].demand.cap.nshares;
    if !gangs.iter().any(is_waiting) {
        planner.decide_turns(draft, space, listed, gangs, &choices);
        sizes::count(draft, space, listed, others);
        return;
    }
    let plans = draft.gang_plans.len();
    loop {
        let cells = (space.clone(), listed.clone());
        let targets = (draft.jobs.clone(), draft.targets.clone());
        let reasons = (draft.gang_reasons.clone(), draft.illegal_targets.clone());
        let next_change = draft.next_change;
        let before = planner.progress();
        planner.decide_turns(draft, space, listed, gangs, &choices);
        sizes::count(draft, space, listed, others);
        if planner.confirm_turns(draft, plans, &before, &mut choices) {
            return;
        }
        (*space, *listed) = cells;
        (draft.jobs, draft.targets) = targets;
        (draft.gang_reasons, draft.illegal_targets) = reasons;
        draft.next_change = next_change;
        draft.gang_plans.truncate(plans);
        planner.restore(before);
    }
}
