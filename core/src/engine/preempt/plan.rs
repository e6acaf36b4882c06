//! Plans: space for a process of a request on a node, and its cost.

use std::cmp::Reverse;

use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::keeps::Keeps;
use crate::engine::draft::Draft;
use crate::engine::gang::uses_claim;
use crate::engine::schedule::{Alternatives, NextBest, VictimRule};
use crate::engine::share_table::{PackedShare, ShareIx, large, small};
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

/// Lower bound of the cost on a node, packed: a cycle may have millions. It compares as the cost does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CostBound {
    /// All that comes before the loss, as bits.
    class: u8,
    loss: Millis,
    victims: u16,
    node: u32,
}

impl CostBound {
    /// Packs `cost`. A bound has no overshoot, and more victims than can be counted are many.
    pub(super) fn new(cost: &Cost) -> CostBound {
        let worst = cost.worst.map_or([false; 4], |worst| {
            [true, worst.is_resident, worst.is_within_target, worst.becomes_needy]
        });
        let bits = [cost.is_too_dear, cost.uses_claim].into_iter().chain(worst);
        CostBound {
            class: bits.fold(0, |class, bit| class << 1 | u8::from(bit)),
            loss: cost.loss,
            victims: u16::try_from(cost.victims).unwrap_or(u16::MAX),
            node: small(cost.node.0),
        }
    }

    pub(super) fn node(self) -> NodeIx {
        NodeIx(large(self.node))
    }

    pub(super) fn cost(self) -> Cost {
        let has = |bit: u8| self.class & 1 << bit != 0;
        let worst = has(3).then(|| EvictionClass {
            is_resident: has(2),
            is_within_target: has(1),
            becomes_needy: has(0),
        });
        Cost {
            is_too_dear: has(5),
            uses_claim: has(4),
            worst,
            loss: self.loss,
            victims: usize::from(self.victims),
            ..Cost::nothing(self.node())
        }
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
    /// True if a node might do for a larger request, though there is no plan for this request: it has
    /// enough processes that may go, each by itself, or space that is closed to a job that gave.
    pub may_do_for_more: bool,
    made: u64,
    best: Option<(Cost, Plan)>,
    runner_up: Option<(Cost, Plan)>,
}

impl Plans {
    /// Makes a plan for `node`, and keeps it if it is among the two best. Returns a lower bound of the
    /// cost for requests with the same rights or fewer; `None` if there is no plan for them.
    pub(super) fn consider(
        &mut self,
        draft: &Draft<'_>,
        feasible: &Feasible<'_, '_>,
        eligibility: &mut Eligibility<'_, '_>,
        node: NodeIx,
    ) -> Option<Cost> {
        draft.effort.search();
        eligibility.begin();
        let order = feasible.order_on(node)?;
        let missing = draft.spaces.missing_for(node, order.qshares());
        if missing == QShares(0) && eligibility.has_given() {
            // A larger request needs more than that.
            self.may_do_for_more = true;
            return None;
        }
        let (bound, found) = plan_on(draft, eligibility, node, order, missing);
        eligibility.reset();
        self.may_do_for_more |= bound.is_some();
        let Some((cost, plan)) = found else { return bound };
        let is_known =
            |known: &Option<(Cost, Plan)>| known.as_ref().is_some_and(|(k, _)| *k == cost);
        if is_known(&self.best) || is_known(&self.runner_up) {
            return bound;
        }
        self.made += 1;
        if self.best.as_ref().is_none_or(|(known, _)| cost < *known) {
            self.runner_up = self.best.replace((cost, plan));
        } else if self.runner_up.as_ref().is_none_or(|(known, _)| cost < *known) {
            self.runner_up = Some((cost, plan));
        }
        bound
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
/// to go; and a lower bound of the cost of any plan there. A plan is not always the cheapest on its
/// node, as its victims are taken in turn.
pub(super) fn plan_on(
    draft: &Draft<'_>,
    eligibility: &mut Eligibility<'_, '_>,
    node: NodeIx,
    order: Order,
    missing: QShares,
) -> (Option<Cost>, Option<(Cost, Plan)>) {
    let uses_claim = uses_claim(draft, eligibility.requester, node);
    let nothing = Cost { uses_claim, ..Cost::nothing(node) };
    let mut candidates = candidates_on(draft, eligibility, node);
    candidates.sort_unstable_by_key(|victim| (victim.class, victim.rank));
    // Each share taken makes the next harder to take. So a sum that is too small stays too small.
    let Some(bound) = bound(&candidates, missing, nothing, eligibility.limit) else {
        return (None, None);
    };
    let Some(victims) = choose_victims(eligibility, candidates, missing) else {
        return (Some(bound), None);
    };
    let freed: QShares = victims.iter().map(|victim| victim.order).sum();
    let worst = victims.iter().map(|victim| victim.class).max();
    let loss = loss_of(&victims);
    let overshoot = freed.saturating_sub(missing);
    let victim_count = victims.len();
    let cost = Cost { worst, loss, victims: victim_count, overshoot, ..nothing };
    let cost = cost.within(eligibility.limit);
    let considered = Alternatives::default();
    (Some(bound), Some((cost, Plan { node, order, victims, loss, considered })))
}

/// Returns the shares on `node` that may go, each by itself.
fn candidates_on(
    draft: &Draft<'_>,
    eligibility: &Eligibility<'_, '_>,
    node: NodeIx,
) -> Vec<Victim> {
    let there = draft.spaces.held_shares(node).filter_map(|(holding, facts)| {
        let rule = eligibility.rule(holding.job, facts.order().0)?;
        let share = draft.shares.at(holding);
        let class = EvictionClass::of(draft, eligibility.keeps, holding.job, share.is_resident);
        let rank = EvictionRank::of(draft, share);
        Some(Victim { holding, rule, class, rank, order: facts.order(), loss: facts.loss() })
    });
    there.collect()
}

/// Returns a lower bound of the cost of any plan with some of `candidates`, which are in order of
/// their eviction classes; `None` if they do not free `missing` quanta.
fn bound(
    candidates: &[Victim],
    missing: QShares,
    nothing: Cost,
    limit: Option<Millis>,
) -> Option<Cost> {
    if missing == QShares(0) {
        return Some(nothing);
    }
    let mut quanta = QShares(0);
    let worst = candidates.iter().find(|candidate| {
        quanta += candidate.order;
        missing <= quanta
    })?;
    let least_within = |class: EvictionClass| {
        let within = candidates.iter().take_while(|candidate| candidate.class <= class);
        let (losses, quanta) = within.map(|candidate| (candidate.loss, candidate.order)).unzip();
        least_for(&least_of(losses, quanta), missing)
    };
    let worst = worst.class;
    let (mut loss, mut victims) = least_within(worst)?;
    // A plan within the limit goes before all plans of better classes beyond it.
    if let (Some(last), true) = (candidates.last(), limit.is_some_and(|limit| limit < loss)) {
        (loss, victims) = least_within(last.class)?;
    }
    Some(Cost { worst: Some(worst), loss, victims, ..nothing }.within(limit))
}

/// For one process, for two, and so on: a lower bound of their loss, and an upper bound of their
/// quanta.
pub(super) fn least_of(
    mut losses: Vec<Millis>,
    mut quanta: Vec<QShares>,
) -> Vec<(Millis, QShares)> {
    losses.sort_unstable();
    quanta.sort_unstable_by_key(|quanta| Reverse(*quanta));
    let mut sums: (Millis, QShares) = (0, QShares(0));
    let all = losses.into_iter().zip(quanta).map(|(loss, quanta)| {
        sums = (sums.0.saturating_add(loss), sums.1 + quanta);
        sums
    });
    all.collect()
}

/// Returns a lower bound of the loss and the number of processes for `missing` quanta, by the sums of
/// [`least_of`].
pub(super) fn least_for(sums: &[(Millis, QShares)], missing: QShares) -> Option<(Millis, usize)> {
    let least = sums.iter().zip(1..).find(|((_, quanta), _)| missing <= *quanta);
    least.map(|(&(loss, _), victims)| (loss, victims))
}

/// Returns some of `candidates`, which are in order of class and rank, that free `missing` quanta,
/// least rank first, none superfluous. `None` if the rules do not allow so many.
fn choose_victims(
    eligibility: &mut Eligibility<'_, '_>,
    mut candidates: Vec<Victim>,
    missing: QShares,
) -> Option<Vec<Victim>> {
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
    fn a_packed_bound_compares_as_its_cost_does() {
        let bools = [false, true];
        let classes = bools.into_iter().flat_map(|is_resident| {
            bools.into_iter().flat_map(move |is_within_target| {
                bools.map(|becomes_needy| EvictionClass {
                    is_resident,
                    is_within_target,
                    becomes_needy,
                })
            })
        });
        let mut costs = Vec::new();
        for worst in classes.map(Some).chain([None]) {
            for (is_too_dear, uses_claim) in [(false, false), (false, true), (true, false)] {
                for (loss, victims, node) in
                    [(0, 1, 7), (0, 2, 3), (900, 0, 3), (Millis::MAX, 1, 8)]
                {
                    let nothing = Cost::nothing(NodeIx(node));
                    costs.push(Cost { is_too_dear, uses_claim, worst, loss, victims, ..nothing });
                }
            }
        }
        for one in &costs {
            assert_eq!(CostBound::new(one).cost(), *one);
            for other in &costs {
                assert_eq!(CostBound::new(one).cmp(&CostBound::new(other)), one.cmp(other));
            }
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
