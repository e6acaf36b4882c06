//! Remaining holdings of each side, out of its holdings when the search began.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::arrangement;
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::{Amounts, GroupIx};
use crate::engine::schedule::VictimRule;
use crate::engine::sizes::excess_of_size;
use crate::model::{IxVec, JobIx, NShares, PoolIx, Precedence};

/// Remaining holdings of each side, out of its holdings when the search began. A gain of this cycle
/// does not count before the next, so the cost of a plan only rises within a cycle.
#[derive(Clone, Debug)]
pub(super) struct Keeps {
    /// In quanta.
    pub amounts: Amounts,
    /// For each job, in processes.
    pub nshares: IxVec<JobIx, NShares>,
    /// For each job, what it did among its peers in this cycle.
    deals: IxVec<JobIx, Deal>,
    /// For each user of a class, true if a job of it is owed a first process.
    owed_users: IxVec<GroupIx, bool>,
    /// For each user of a class, the quanta that jobs between two legal sizes will give up.
    to_shed: IxVec<GroupIx, u64>,
    /// For a priority and a tree: true if all jobs there could have a process at once. Filled on
    /// use.
    one_for_all: RefCell<BTreeMap<(Precedence, PoolIx), bool>>,
}

/// Role of a job among its peers in a cycle: it does not both lose and take. So no process is
/// restarted only to pass its space on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deal {
    None,
    Gave,
    Took,
}

impl Keeps {
    pub(super) fn new(draft: &Draft<'_>) -> Keeps {
        let nshares = draft.jobs.places().map(|job| draft.has(job)).collect();
        let mut deals = IxVec::filled(Deal::None, draft.jobs.len());
        // A gang in its turn is a peer, and took what it needs before.
        let turns = draft.preemptions.iter().filter(|it| it.rule == VictimRule::Turn);
        for job in turns.filter_map(|it| draft.place_of(it.job)) {
            deals[job] = Deal::Gave;
        }
        let mut owed_users = IxVec::filled(false, draft.entities.groups().len());
        for job in draft.jobs.places().filter(|&job| draft.jobs[job].is_owed) {
            owed_users[draft.entities.group_of(job)] = true;
        }
        let mut to_shed = IxVec::filled(0, draft.entities.groups().len());
        for &job in &draft.elastic {
            let excess = excess_of_size(draft, job).of_order(draft.jobs[job].order);
            to_shed[draft.entities.group_of(job)] += excess.0;
        }
        let (amounts, one_for_all) = (draft.held.clone(), RefCell::default());
        Keeps { amounts, nshares, deals, owed_users, to_shed, one_for_all }
    }

    /// Quanta that jobs of the user of `job` will give up to come to legal sizes.
    pub(super) fn to_shed(&self, draft: &Draft<'_>, job: JobIx) -> u64 {
        self.to_shed[draft.entities.group_of(job)]
    }

    /// True if a first process is owed to the user of `job`, for this job or another.
    pub(super) fn is_user_owed(&self, draft: &Draft<'_>, job: JobIx) -> bool {
        self.owed_users[draft.entities.group_of(job)]
    }

    /// Notes that `job` took something from a peer.
    pub(super) fn note_taker(&mut self, job: JobIx) {
        self.deals[job] = Deal::Took;
    }

    /// Notes that a peer took something from `job`.
    pub(super) fn note_giver(&mut self, job: JobIx) {
        self.deals[job] = Deal::Gave;
    }

    /// True if `job` may lose no process to a peer in this cycle, because it took from a peer.
    pub(super) fn has_taken(&self, job: JobIx) -> bool {
        self.deals[job] == Deal::Took
    }

    /// True if `job` may take no process from a peer in this cycle, because it lost to a peer.
    pub(super) fn has_given(&self, job: JobIx) -> bool {
        self.deals[job] == Deal::Gave
    }

    /// Notes that `job` lost a process of so many quanta.
    pub(super) fn lose(&mut self, draft: &Draft<'_>, job: JobIx, quanta: u64) {
        draft.entities.remove(&mut self.amounts, job, quanta);
        self.nshares[job] -= NShares(1);
    }

    /// True if all fair-share jobs of the priority and tree of `job` could have a process at once.
    pub(super) fn is_there_one_for_all(&self, draft: &Draft<'_>, job: JobIx) -> bool {
        let class = draft.class_of(job);
        let (priority, tree) = (draft.precedence(job), draft.pools.top(class.pool));
        let mut known = self.one_for_all.borrow_mut();
        *known
            .entry((priority, tree))
            .or_insert_with(|| arrangement::is_possible(draft, priority, tree))
    }
}
