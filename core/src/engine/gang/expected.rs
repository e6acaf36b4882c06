//! Nodes that single requests will probably use. Without a calendar they have none yet when gangs
//! are decided on: they are counted, and choose their nodes later in the cycle.
//!
//! Design: requests and time, section 3.4.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::claimed_on;
use super::planner::GangPlanner;
use super::pool_supplies::is_endless;
use super::supply::Space;
use crate::engine::draft::{CountRefusal, Draft, JobDraft};
use crate::engine::wait_reason::WaitReason;
use crate::model::{ClassPolicy, JobIx, NShares, NodeIx, PoolIx, QShares};

/// Most single requests whose nodes are left open for a gang.
const EXPECTED_MAX: usize = 1000;

/// A process of a single request, and the node that it will probably use.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedShare {
    pub job: JobIx,
    pub pool: PoolIx,
    pub node: NodeIx,
    /// Size, in qshares.
    pub amount: u64,
    /// True if the space is free now.
    pub is_usable: bool,
}

impl GangPlanner {
    /// Notes where a job that stays will probably go, of which the target is set and the node is
    /// not chosen yet. If the job gets nothing because of a claim, that is its reason to wait.
    pub(in crate::engine) fn note_target(&mut self, draft: &mut Draft<'_>, job: JobIx) {
        let JobDraft { target, held, order, refusal, .. } = draft.jobs[job];
        let class = draft.class_of(job);
        let amount = match class.policy {
            ClassPolicy::Reserve => draft.jobs[job].largest_node.max(order.qshares()).0,
            ClassPolicy::FixedShare | ClassPolicy::FairShare { .. } => order.qshares().0,
        };
        if target <= held && matches!(refusal, Some(CountRefusal::NothingLeft { .. })) {
            if let Some(older) = self.claimant_before(draft, job, amount) {
                draft.gang_reasons.insert(job, WaitReason::BehindOlderGang { job: older });
            }
            return;
        }
        if target <= held {
            return;
        }
        let promised = draft.snapshot.promises.iter().filter(|it| it.job == draft.jobs[job].id);
        let new = target.saturating_sub(held + NShares(crate::model::count(promised)));
        let service = draft.job(job).service;
        for _ in 0..new.0 {
            let Some(supply) = self.supply.get(&class.pool) else { return };
            // A service spreads over nodes before it stacks.
            let is_apart = |node| {
                let mut known =
                    draft.services.get(&service).into_iter().chain(self.services.get(&service));
                class.policy != ClassPolicy::FixedShare || known.all(|nodes| !nodes.contains(&node))
            };
            let may_use = |node| draft.may_use(job, node);
            let node = supply
                .best_fit(amount, |node| may_use(node) && is_apart(node))
                .or_else(|| supply.best_fit(amount, may_use));
            if let Some(node) = node {
                self.expect(draft, job, node, amount);
            }
        }
    }

    /// Notes that a process of the job at `job` will probably go to `node`.
    pub(super) fn expect(&mut self, draft: &Draft<'_>, job: JobIx, node: NodeIx, amount: u64) {
        let pool = draft.class_of(job).pool;
        let usable = self.supply.get(&pool).map_or(0, |supply| supply.space(node).usable);
        let share = ExpectedShare { job, pool, node, amount, is_usable: amount <= usable };
        self.expected.push(share);
        self.enter(draft, share);
    }

    /// Tells where single requests are expected to find free space: gangs are decided on beside that.
    pub(in crate::engine) fn tell_expected(&self, draft: &mut Draft<'_>) {
        for share in self.expected.iter().filter(|share| share.is_usable) {
            draft.expected_on.entry(share.job).or_default().insert(share.node);
            *draft.expected_space.entry(share.node).or_default() += QShares(share.amount);
        }
    }

    /// Takes the space of an expected share from everything that later gangs are tried on.
    fn enter(&mut self, draft: &Draft<'_>, share: ExpectedShare) {
        self.take_share(share);
        self.services.entry(draft.job(share.job).service).or_default().insert(share.node);
        self.take_ending(draft, share);
    }

    /// Returns the space of an expected share that is moved.
    fn leave(&mut self, draft: &Draft<'_>, share: ExpectedShare) {
        self.give_back_share(draft, share);
        self.give_back_ending(draft, share);
    }

    /// Takes the space of an expected share without an end from the space that gangs may wait for.
    fn take_ending(&mut self, draft: &Draft<'_>, share: ExpectedShare) {
        let ExpectedShare { job, pool, node, amount, .. } = share;
        let pools = self.pools.get_mut(&pool).filter(|_| is_endless(draft, job));
        if let Some(pools) = pools {
            Arc::make_mut(&mut pools.ending).take(&self.kinds, node, amount);
        }
    }

    fn give_back_ending(&mut self, draft: &Draft<'_>, share: ExpectedShare) {
        let ExpectedShare { job, pool, node, amount, .. } = share;
        let pools = self.pools.get_mut(&pool).filter(|_| is_endless(draft, job));
        if let Some(pools) = pools {
            Arc::make_mut(&mut pools.ending).give_back(&self.kinds, node, amount, amount);
        }
    }

    /// Takes the space of all expected shares without an end from the space that gangs may wait for.
    pub(super) fn take_all_ending(&mut self, draft: &Draft<'_>) {
        for share in self.expected.clone() {
            self.take_ending(draft, share);
        }
    }

    /// Returns that space, as if all of these shares could go elsewhere.
    pub(super) fn give_back_all_ending(&mut self, draft: &Draft<'_>) {
        for share in self.expected.clone() {
            self.give_back_ending(draft, share);
        }
    }

    /// True if the nodes of single requests are open, and few enough to leave them so for a gang.
    pub(super) fn may_give_back_expected(&self) -> bool {
        (1..=EXPECTED_MAX).contains(&self.expected.len())
    }

    /// Takes the expected space of all single requests but the `staying` ones again.
    pub(super) fn take_expected(&mut self, staying: &BTreeSet<usize>) {
        for share in self.moving(staying) {
            self.take_share(share);
        }
    }

    /// Returns all expected space of single requests but the `staying` ones, as if they could go
    /// elsewhere.
    pub(super) fn give_back_expected(&mut self, draft: &Draft<'_>, staying: &BTreeSet<usize>) {
        for share in self.moving(staying) {
            self.give_back_share(draft, share);
        }
    }

    fn moving(&self, staying: &BTreeSet<usize>) -> Vec<ExpectedShare> {
        let expected = self.expected.iter().enumerate();
        expected.filter(|(place, _)| !staying.contains(place)).map(|(_, share)| *share).collect()
    }

    fn take_share(&mut self, share: ExpectedShare) {
        let ExpectedShare { pool, node, amount, .. } = share;
        self.change_supply(pool, |supply, kinds| supply.take(kinds, node, amount));
    }

    fn give_back_share(&mut self, draft: &Draft<'_>, share: ExpectedShare) {
        let ExpectedShare { pool, node, amount, .. } = share;
        let usable = draft.spaces.usable(node).0.min(amount);
        self.change_supply(pool, |supply, kinds| supply.give_back(kinds, node, amount, usable));
    }

    /// Finds nodes for the requests that are in the way of a gang, the youngest first. `of_gang`: its
    /// amount on each node, ascending. Also returns the requests that find no node: an older request
    /// would wait because of the gang. A request with free space needs such space elsewhere: it goes
    /// wherever space is free, and claims would not keep it off. Claims do not concern a gang that can
    /// be preempted, but the requests that it moves.
    pub(super) fn find_moves(
        &self,
        draft: &Draft<'_>,
        pool: PoolIx,
        of_gang: &[(NodeIx, u64)],
    ) -> (Vec<(usize, NodeIx)>, Vec<usize>) {
        let (mut moves, mut stuck) = (Vec::new(), Vec::new());
        let Some(supply) = self.supply.get(&pool) else { return (moves, stuck) };
        let has_claims = self.are_claims_taken();
        let lack = |&(node, amount): &(NodeIx, u64)| {
            (node, amount.saturating_sub(supply.space(node).available))
        };
        let mut lacking: BTreeMap<NodeIx, u64> = of_gang.iter().map(lack).collect();
        let mut taken: BTreeMap<NodeIx, u64> = BTreeMap::new();
        for (place, expected) in self.expected.iter().enumerate().rev() {
            let ExpectedShare { job, node, amount, is_usable, .. } = *expected;
            let Some(lack) = lacking.get_mut(&node).filter(|lack| 0 < **lack) else { continue };
            let has_space = |node: NodeIx| {
                let taken = taken.get(&node).copied().unwrap_or(0);
                let gang = of_gang.binary_search_by_key(&node, |(node, _)| *node);
                let gang = gang.map_or(0, |place| of_gang[place].1);
                let Space { available, usable } = supply.space(node);
                let left = if is_usable { usable } else { available };
                let kept = if has_claims { 0 } else { claimed_on(draft, node) };
                draft.may_use(job, node) && amount + taken + gang + kept <= left
            };
            let Some(other) = supply.best_fit(amount, has_space) else {
                stuck.push(place);
                continue;
            };
            *lack = lack.saturating_sub(amount);
            *taken.entry(other).or_default() += amount;
            moves.push((place, other));
        }
        (moves, stuck)
    }

    pub(super) fn make_moves(&mut self, draft: &Draft<'_>, moves: Vec<(usize, NodeIx)>) {
        for (place, other) in moves {
            let share = self.expected[place];
            let moved = ExpectedShare { node: other, ..share };
            self.leave(draft, share);
            self.expected[place] = moved;
            self.enter(draft, moved);
        }
    }
}
