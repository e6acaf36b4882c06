//! How Much: computes the target of every job, in nshares, for an ideal cluster.
//!
//! Higher priorities are counted first; each gets what higher ones left. Design: "How Much",
//! "Priority vs Weight".

mod arrangement;
mod bulk;
mod fair_share;
mod fixed;
mod node_lists;
mod owed;
mod sizes;
#[cfg(test)]
mod tests;
mod turns;

use super::capacity::EmptyCluster;
use super::draft::Draft;
use super::gang::{CalendarLeaves, GangPlanner, note_windows};
use crate::model::{ClassPolicy, JobIx, Precedence};

pub(super) use fixed::{AllotmentLedger, orders_that_suit};
pub(super) use node_lists::NodeListCapacity;

/// Jobs of `priority` that cannot be preempted, in the order in which they are counted.
fn staying_jobs(draft: &Draft<'_>, priority: Precedence) -> Vec<JobIx> {
    // Whole nodes before parts of them: a part taken would spoil the node. Urgent work has the first
    // claim; where it was promised space, even before urgent work that lost its nodes.
    let mut jobs = draft.jobs_of(priority, |policy| *policy == ClassPolicy::Reserve);
    jobs.append(&mut draft.jobs_of(priority, |policy| *policy == ClassPolicy::FixedShare));
    let is_promised = |job: JobIx| {
        let promises = &draft.snapshot.promises;
        promises.iter().any(|promise| promise.job == draft.jobs[job].id)
    };
    let turn = |job: JobIx| {
        let is_urgent = draft.class_of(job).is_urgent;
        (!is_urgent, is_urgent && !is_promised(job))
    };
    jobs.sort_by_cached_key(|&job| turn(job));
    jobs
}

/// Computes all targets: afterwards [`JobDraft::target`](super::draft::JobDraft) is final.
pub(super) fn set_targets(draft: &mut Draft<'_>) {
    let mut space = EmptyCluster::new(&draft.spaces);
    let mut listed = NodeListCapacity::new(draft);
    let mut ledger = AllotmentLedger::new(draft);
    note_windows(draft);
    let mut gangs = GangPlanner::new(draft);
    if gangs.as_ref().is_some_and(GangPlanner::chooses_nodes) {
        draft.leaves = Some(CalendarLeaves::new(draft));
    }
    let mut priorities = draft.priorities().into_iter().peekable();
    while let Some(priority) = priorities.next() {
        if let Some(gangs) = &mut gangs {
            gangs.begin(draft, &mut space, &mut listed, priority);
        }
        for job in staying_jobs(draft, priority) {
            draft.effort.step();
            match &mut gangs {
                Some(gangs) if draft.jobs[job].is_gang => {
                    gangs.decide(draft, &mut space, &mut listed, &mut ledger, job);
                }
                Some(planner) => {
                    let with = (&mut ledger, Some(&mut *planner));
                    fixed::count(draft, &mut space, &mut listed, with, job);
                    if !planner.chooses_nodes() {
                        planner.note_target(draft, job);
                    }
                }
                None => fixed::count(draft, &mut space, &mut listed, (&mut ledger, None), job),
            }
        }
        if let Some(gangs) = &mut gangs {
            gangs.end(&mut space, &mut listed);
        }
        let jobs = draft.jobs_of(priority, ClassPolicy::is_preemptable);
        fair_share::remember_pure_fair_shares(draft, &space, &jobs);
        if let Some(planner) = &mut gangs {
            let (whole, others): (Vec<JobIx>, Vec<JobIx>) =
                jobs.into_iter().partition(|&job| draft.jobs[job].is_gang);
            turns::count(draft, &mut space, &mut listed, planner, (&whole, &others));
        } else {
            sizes::count(draft, &mut space, &mut listed, &jobs);
        }
        if priorities.peek().is_some() {
            listed.keep_for(draft, priority);
        }
    }
    if let Some(gangs) = &gangs {
        gangs.note_moments(draft);
        gangs.tell_expected(draft);
        draft.tell_openings();
    }
}
