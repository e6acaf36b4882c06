//! How Much: computes the target of every job, in nshares, for an ideal cluster.
//!
//! Higher priorities are counted first; each gets what higher ones left. Design: "How Much",
//! "Priority vs Weight".

mod bulk;
mod fair_share;
mod fixed;
mod node_lists;
mod owed;
#[cfg(test)]
mod tests;

use super::capacity::EmptyCluster;
use super::draft::Draft;
use crate::model::ClassPolicy;
use fixed::AllotmentLedger;
use node_lists::NodeListCapacity;

pub(super) use fixed::orders_that_suit;

/// Computes all targets: afterwards [`JobDraft::given`](super::draft::JobDraft) is final.
pub(super) fn set_targets(draft: &mut Draft<'_>) {
    let mut space = EmptyCluster::new(&draft.spaces);
    let mut listed = NodeListCapacity::new(draft);
    let mut ledger = AllotmentLedger::new(draft);
    for priority in draft.priorities() {
        // Whole nodes before parts of them: a part taken would spoil the node.
        for policy in [ClassPolicy::Reserve, ClassPolicy::FixedShare] {
            for job in draft.jobs_of(priority, |other| *other == policy) {
                draft.effort.step();
                fixed::count(draft, &mut space, &mut listed, &mut ledger, job);
            }
        }
        let jobs = draft.jobs_of(priority, ClassPolicy::is_preemptable);
        fair_share::count(draft, &mut space, &mut listed, &jobs);
        listed.keep_for(draft, priority);
    }
}
