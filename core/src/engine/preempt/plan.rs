//! Plans: space for a process of a request on a node, and its cost.

use std::cmp::Reverse;

use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::keeps::Keeps;
use crate::engine::capacity::ScannedShare;
use crate::engine::draft::Draft;
use crate::engine::gang::uses_claim;
use crate::engine::schedule::{Alternatives, NextBest, VictimRule};
use crate::engine::share_table::{PackedShare, ShareIx};
use crate::model::{JobIx, Millis, NShares, NodeIx, Order, QShares, ShareId, count};

/// Space for a process of a request on a node.
pub(super) struct Plan {
    pub node: NodeIx,
    /// The order of the share to come.
    pub order: Order,
    /// Least rank first; none of them superfluous.
    pub victims: Vec<Victim>,
    /// Work lost with the victims.
    pub loss: Millis,
    /// Alternatives to the plan.
    pub considered: Alternatives,
}

/// Cost of a plan; the least is best. Fields compare in the order in which they are declared; the
/// node comes last so that no two plans ever tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// True if the loss exceeds the limit of an idle cluster.
    pub is_too_dear: bool,
    /// True if a younger gang claims the space, and work that stays would use it.
    pub uses_claim: bool,
    /// Eviction class of the last victim; `None` if the plan exceeds the limit.
    pub worst: Option<EvictionClass>,
    /// Work that is lost.
    pub loss: Millis,
    pub victims: usize,
    /// Freed space beyond the missing quanta.
    pub overshoot: QShares,
    pub node: NodeIx,
}

impl Cost {
    /// Returns the least cost on `node`: nothing is lost.
    pub(super) fn nothing(node: NodeIx) -> Cost {
        let (worst, overshoot) = (None, QShares(0));
        let is_too_dear = false;
        Cost { is_too_dear, uses_claim: false, worst, loss: 0, victims: 0, overshoot, node }
    }

    /// Returns the same cost, marked as too dear if it exceeds `limit`.
    pub(super) fn within(self, limit: Option<Millis>) -> Cost {
        if limit.is_some_and(|limit| limit < self.loss) {
            return Cost { is_too_dear: true, worst: None, ..self };
        }
        self
    }
}

/// A share that goes.
#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub holding: ShareIx,
    pub rule: VictimRule,
    class: EvictionClass,
    rank: EvictionRank,
    pub order: QShares,
    /// Work lost with the share.
    pub loss: Millis,
}

/// Eviction class of a share, compared before the work at stake. The least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionClass {
    /// In the contested pool borrowers go before residents (decision D1).
    is_resident: bool,
    /// A job above its own target goes before a job whose user or class alone is above target.
    is_within_target: bool,
    /// A job that stays above its minimum goes before a job that does not.
    becomes_needy: bool,
}

impl EvictionClass {
    /// Of a share of `job`, in its own pool or not.
    pub(super) fn of(
        draft: &Draft<'_>,
        keeps: &Keeps,
        job: JobIx,
        is_resident: bool,
    ) -> EvictionClass {
        EvictionClass {
            is_resident,
            is_within_target: keeps.amounts.jobs[job] <= draft.targets.jobs[job],
            becomes_needy: draft
                .becomes_needy_with(job, keeps.nshares[job].saturating_sub(NShares(1))),
        }
    }
}

/// Rank of a share within its eviction class: the least goes first.
///
/// Fields compare in the order in which they are declared, so the declaration *is* the policy. The
/// number comes last so that no two shares ever tie. Design: "Interlude: Preemption"; decision D1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct EvictionRank {
    /// A share still initializing goes before any that has finished.
    is_initialized: bool,
    /// Time at stake: initialization so far, or investment once initialized.
    at_stake: Millis,
    /// A deeper nodepool goes first.
    pool_depth: Reverse<u32>,
    /// The newest goes first.
    share: Reverse<ShareId>,
}

impl EvictionRank {
    pub(in crate::engine) fn of(draft: &Draft<'_>, share: &PackedShare) -> EvictionRank {
        EvictionRank {
            is_initialized: share.is_initialized,
            at_stake: share.at_stake,
            pool_depth: Reverse(draft.pools.depth(draft.spaces.pool(share.node()))),
            share: Reverse(share.id),
        }
    }
}

/// Plans made for a request.
#[derive(Default)]
pub(super) struct Plans {
    /// True if the search goes on for the second best.
    pub wants_runner_up: bool,
    made: u64,
    best: Option<(Cost, Plan)>,
    runner_up: Option<(Cost, Plan)>,
}

impl Plans {
    /// Makes a plan for `node`, keeps it if it is among the two best, and returns its cost.
    pub(super) fn consider(
        &mut self,
        draft: &Draft<'_>,
        feasible: &Feasible<'_, '_>,
        eligibility: &mut Eligibility<'_, '_>,
        node: NodeIx,
    ) -> Option<Cost> {
        draft.effort.search();
        let order = feasible.order_on(node)?;
        eligibility.reset();
        let missing = draft.spaces.missing_for(node, order.qshares());
        if missing == QShares(0) && eligibility.has_given() {
            return None;
        }
        let found = plan_on(draft, eligibility, node, order, missing);
        eligibility.reset();
        let (cost, plan) = found?;
        let is_known =
            |known: &Option<(Cost, Plan)>| known.as_ref().is_some_and(|(k, _)| *k == cost);
        if is_known(&self.best) || is_known(&self.runner_up) {
            return Some(cost);
        }
        self.made += 1;
        if self.best.as_ref().is_none_or(|(known, _)| cost < *known) {
            self.runner_up = self.best.replace((cost, plan));
        } else if self.runner_up.as_ref().is_none_or(|(known, _)| cost < *known) {
            self.runner_up = Some((cost, plan));
        }
        Some(cost)
    }

    /// True if no plan that costs `bound` or more would be the wanted plan.
    pub(super) fn are_complete(&self, bound: &Cost) -> bool {
        let known = if self.wants_runner_up { &self.runner_up } else { &self.best };
        known.as_ref().is_some_and(|(cost, _)| cost < bound)
    }

    /// The best plan so far.
    pub(super) fn first(&self) -> Option<&Plan> {
        self.best.as_ref().map(|(_, plan)| plan)
    }

    /// The best plan, with its alternatives.
    pub(super) fn best(self, feasible: &Feasible<'_, '_>) -> Option<Plan> {
        let runner_up = self.runner_up.map(|(_, plan)| NextBest {
            node: plan.node,
            victims: count(&plan.victims),
            loss: plan.loss,
        });
        let (_, plan) = self.best?;
        let considered = Alternatives { nodes: feasible.nodes(), plans: self.made, runner_up };
        Some(Plan { considered, ..plan })
    }
}

/// Returns the best plan on a node: space for a share of `order`, for which `missing` quanta have
/// to go.
pub(super) fn plan_on(
    draft: &Draft<'_>,
    eligibility: &mut Eligibility<'_, '_>,
    node: NodeIx,
    order: Order,
    missing: QShares,
) -> Option<(Cost, Plan)> {
    let victims = choose_victims(draft, eligibility, node, missing)?;
    let freed: QShares = victims.iter().map(|victim| victim.order).sum();
    let worst = victims.iter().map(|victim| victim.class).max();
    let loss = victims.iter().map(|victim| victim.loss).fold(0, Millis::saturating_add);
    let overshoot = freed.saturating_sub(missing);
    let uses_claim = uses_claim(draft, eligibility.requester, node);
    let victim_count = victims.len();
    let cost = Cost { worst, loss, victims: victim_count, overshoot, ..Cost::nothing(node) };
    let cost = Cost { uses_claim, ..cost }.within(eligibility.limit);
    let considered = Alternatives::default();
    Some((cost, Plan { node, order, victims, loss, considered }))
}

/// Returns the shares on `node` that free `missing` quanta, least rank first, none superfluous.
fn choose_victims(
    draft: &Draft<'_>,
    eligibility: &mut Eligibility<'_, '_>,
    node: NodeIx,
    missing: QShares,
) -> Option<Vec<Victim>> {
    if missing == QShares(0) {
        return Some(Vec::new());
    }
    let there = draft.spaces.held_shares(node).filter_map(|(holding, facts)| {
        Some((holding, facts, eligibility.rule(holding.job, facts.order().0)?))
    });
    let there: Vec<(ShareIx, ScannedShare, VictimRule)> = there.collect();
    // Each share taken makes the next harder to take. So a sum that is too small stays too small.
    if there.iter().map(|(_, facts, _)| facts.order()).sum::<QShares>() < missing {
        return None;
    }
    let candidates = there.into_iter().map(|(holding, facts, rule)| {
        let share = draft.shares.at(holding);
        let class = EvictionClass::of(draft, eligibility.keeps, holding.job, share.is_resident);
        let rank = EvictionRank::of(draft, share);
        Victim { holding, rule, class, rank, order: facts.order(), loss: facts.loss() }
    });
    let mut candidates: Vec<Victim> = candidates.collect();
    candidates.sort_unstable_by_key(|victim| (victim.class, victim.rank));
    let most = eligibility.limit.unwrap_or(Millis::MAX);
    let beyond = |victims: &Vec<Victim>| loss_of(victims).saturating_sub(most);
    let mut best = take_in_turn(eligibility, &candidates, missing);
    let is_enough =
        |best: &Option<Vec<Victim>>| best.as_ref().is_some_and(|best| beyond(best) == 0);
    // A large share may do where small shares before it use up what the rules allow, or cost too much.
    if !is_enough(&best) {
        eligibility.reset();
        candidates.sort_by_key(|victim| (Reverse(victim.order), victim.class, victim.rank));
        let other = take_in_turn(eligibility, &candidates, missing);
        best = best.into_iter().chain(other).min_by_key(beyond);
    }
    // Small shares of several sides may do where a large share of a single side is too much.
    if !is_enough(&best) {
        eligibility.reset();
        candidates.sort_by_key(|victim| (victim.order, victim.class, victim.rank));
        let other = take_in_turn(eligibility, &candidates, missing);
        best = best.into_iter().chain(other).min_by_key(beyond);
    }
    best
}

/// Returns the work lost with `victims`.
fn loss_of(victims: &[Victim]) -> Millis {
    victims.iter().map(|victim| victim.loss).fold(0, Millis::saturating_add)
}

/// Takes candidates in turn until `missing` is free. Each share taken counts against its owner in
/// the next test.
fn take_in_turn(
    eligibility: &mut Eligibility<'_, '_>,
    candidates: &[Victim],
    missing: QShares,
) -> Option<Vec<Victim>> {
    let mut victims = Vec::new();
    let mut freed = QShares(0);
    for candidate in candidates {
        if missing <= freed {
            break;
        }
        if let Some(rule) = eligibility.rule(candidate.holding.job, candidate.order.0) {
            eligibility.take(candidate.holding.job, candidate.order.0);
            freed += candidate.order;
            victims.push(Victim { rule, ..*candidate });
        }
    }
    (missing <= freed).then(|| spare_superfluous(victims, |victim| victim.order, missing))
}

/// Spares each superfluous victim, the last first: a later victim may have freed enough alone.
/// `size` returns the quanta of a victim.
pub(in crate::engine) fn spare_superfluous<V>(
    victims: Vec<V>,
    size: impl Fn(&V) -> QShares,
    missing: QShares,
) -> Vec<V> {
    let mut freed: QShares = victims.iter().map(&size).sum();
    let mut kept: Vec<V> = Vec::with_capacity(victims.len());
    for victim in victims.into_iter().rev() {
        let without = freed - size(&victim);
        if missing <= without {
            freed = without;
        } else {
            kept.push(victim);
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(is_initialized: bool, at_stake: Millis, depth: u32, share: u64) -> EvictionRank {
        EvictionRank {
            is_initialized,
            at_stake,
            pool_depth: Reverse(depth),
            share: Reverse(ShareId(share)),
        }
    }

    #[test]
    fn the_least_invested_go_first() {
        let in_order = [
            rank(false, 5, 0, 9), // initializing, whatever its number
            rank(false, 60, 0, 1),
            rank(true, 5, 2, 3), // two pools down
            rank(true, 5, 0, 4), // newer
            rank(true, 5, 0, 3),
            rank(true, 900, 2, 2),
        ];
        assert!(in_order.is_sorted());
    }
}
