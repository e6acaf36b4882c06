//! Carries out the plans of gangs: all processes of a gang start in this cycle, or all their space
//! is promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::amounts_by_node;
use super::turn_choices::surplus;
use super::{GangPlan, Slot, Taker};
use crate::engine::draft::Draft;
use crate::engine::preempt::{EvictionRank, spare_superfluous};
use crate::engine::schedule::{Alternatives, VictimRule};
use crate::engine::share_table::ShareIx;
use crate::engine::snapshot::Promise;
use crate::engine::wait_reason::{GangLack, GangNodes, WaitReason};
use crate::model::{JobIx, NodeIx, QShares, count};

/// Space that is taken back for a gang.
#[derive(Default)]
struct Clearance {
    /// The only shares that may go, if the gang takes from peers.
    surplus: Option<BTreeSet<ShareIx>>,
    /// Promises to single processes, by node.
    single: BTreeMap<NodeIx, Vec<Promise>>,
    victims: BTreeSet<ShareIx>,
    /// Space of the victims, by node.
    freed: BTreeMap<NodeIx, QShares>,
    /// Promises to work of lower priority, each with its job.
    withdrawn: Vec<(JobIx, Promise)>,
}

/// Starts the gangs that were decided on, or promises them space.
pub(in crate::engine) fn place_gangs(draft: &mut Draft<'_>) {
    for plan in std::mem::take(&mut draft.gang_plans) {
        let amounts = amounts_by_node(&plan.slots);
        if is_free(draft, &plan.slots) && draft.opening_of(plan.job).is_none() {
            for Slot { rank, node, order } in plan.slots {
                draft.expand_rank(plan.job, node, order, Some(rank));
            }
            continue;
        }
        let taker = Taker::of(draft, plan.job);
        let gone = BTreeSet::new();
        let surplus = taker.is_among_peers.then(|| surplus(draft, taker, &gone));
        let mut clearance = Clearance { surplus, ..Clearance::default() };
        // Space that is promised to a gang stays promised.
        for promise in draft.promises.iter().filter(|promise| promise.rank.is_none()) {
            clearance.single.entry(promise.node).or_default().push(*promise);
        }
        let mut cleared = amounts
            .iter()
            .map(|(node, amount)| clear(draft, plan.job, &mut clearance, *node, QShares(*amount)));
        if cleared.all(|is_clear| is_clear) {
            promise_all(draft, plan, clearance);
        } else {
            give_up(draft, &plan, count(&amounts));
        }
    }
}

/// Shares that will go for `plans`, if nothing changes them.
pub(super) fn expected_victims(draft: &Draft<'_>, plans: &[GangPlan]) -> BTreeSet<ShareIx> {
    let mut gone = BTreeSet::new();
    for plan in plans.iter().filter(|plan| !is_free(draft, &plan.slots)) {
        let taker = Taker::of(draft, plan.job);
        let surplus = taker.is_among_peers.then(|| surplus(draft, taker, &gone));
        let mut clearance = Clearance { surplus, ..Clearance::default() };
        let amounts = amounts_by_node(&plan.slots);
        let clear = |(node, amount): &(NodeIx, u64)| {
            clear(draft, plan.job, &mut clearance, *node, QShares(*amount))
        };
        if amounts.iter().all(clear) {
            gone.append(&mut clearance.victims);
        }
    }
    gone
}

/// True if all slots have their space now, beside single requests.
fn is_free(draft: &Draft<'_>, slots: &[Slot]) -> bool {
    let amounts = amounts_by_node(slots);
    let is_free =
        |(node, amount)| beside_requests(draft, node, QShares(amount)) <= draft.spaces.usable(node);
    amounts.into_iter().all(is_free)
}

/// An amount of a node, with the free space there that single requests will use. They are placed
/// after gangs, and a gang was decided on beside them.
fn beside_requests(draft: &Draft<'_>, node: NodeIx, amount: QShares) -> QShares {
    amount + draft.expected_space.get(&node).copied().unwrap_or_default()
}

/// Takes back the space, and promises it.
fn promise_all(draft: &mut Draft<'_>, plan: GangPlan, clearance: Clearance) {
    let taker = Taker::of(draft, plan.job);
    for (job, promise) in clearance.withdrawn {
        draft.withdraw(job, promise);
    }
    for victim in clearance.victims {
        let is_peer = draft.precedence(victim.job) == taker.priority;
        let rule = if is_peer { VictimRule::Turn } else { draft.rule_over_lower(plan.job) };
        draft.preempt(victim, rule, Some((plan.job, Alternatives::default())));
    }
    for Slot { rank, node, order } in plan.slots {
        draft.promise_rank(plan.job, node, order, Some(rank));
    }
}

/// Adds to `clearance` what has to go from `node` for `amount` to fit. False if the gang may not
/// take so much.
fn clear(
    draft: &Draft<'_>,
    gang: JobIx,
    clearance: &mut Clearance,
    node: NodeIx,
    amount: QShares,
) -> bool {
    let mut missing = draft.spaces.missing_for(node, beside_requests(draft, node, amount));
    let taker = Taker::of(draft, gang);
    // A gang that goes leaves all its nodes.
    missing = missing.saturating_sub(clearance.freed.get(&node).copied().unwrap_or_default());
    for promise in clearance.single.get(&node).into_iter().flatten() {
        if missing == QShares(0) {
            break;
        }
        let job = draft.place_of(promise.job);
        let Some(job) = job.filter(|&job| taker.may_take_from(draft, job)) else { continue };
        missing = missing.saturating_sub(promise.order.qshares());
        clearance.withdrawn.push((job, *promise));
    }
    let there = draft.spaces.held_shares(node);
    let there = there.filter(|(holding, _)| !clearance.victims.contains(holding));
    let mut there: Vec<(EvictionRank, ShareIx, QShares)> = there
        .map(|(holding, facts)| {
            let rank = EvictionRank::of(draft, draft.shares.at(holding));
            (rank, holding, facts.order())
        })
        .collect();
    there.sort_unstable_by_key(|(rank, ..)| *rank);
    let (mut freed, mut victims) = (QShares(0), Vec::new());
    for (_, holding, order) in there {
        if missing <= freed {
            break;
        }
        if may_go(draft, taker, clearance, holding) {
            let is_first =
                victims.iter().all(|(victim, _): &(ShareIx, _)| victim.job != holding.job);
            let closed =
                if is_first { draft.spaces.closed_by(node, holding.job) } else { QShares(0) };
            freed += order + closed;
            victims.push((holding, order + closed));
        }
    }
    if freed < missing {
        return false;
    }
    for (victim, _) in spare_superfluous(victims, |(_, order)| *order, missing) {
        clearance.take(draft, victim);
    }
    true
}

/// True if a share may go. Peers keep their targets.
fn may_go(draft: &Draft<'_>, taker: Taker, clearance: &Clearance, holding: ShareIx) -> bool {
    match &clearance.surplus {
        Some(surplus) => surplus.contains(&holding),
        None => taker.may_take_from(draft, holding.job),
    }
}

impl Clearance {
    /// Adds a share; of a gang, all shares.
    fn take(&mut self, draft: &Draft<'_>, victim: ShareIx) {
        let is_gang = draft.jobs[victim.job].is_gang;
        let gang = is_gang.then(|| draft.shares.held_by(victim.job).map(|(holding, _)| holding));
        for holding in gang.into_iter().flatten().chain([victim]) {
            if self.victims.insert(holding) {
                let share = draft.shares.at(holding);
                let closed = draft.spaces.closed_by(share.node(), victim.job);
                *self.freed.entry(share.node()).or_insert(closed) += share.order.qshares();
            }
        }
    }
}

/// Leaves a gang waiting whose nodes another job got in this cycle.
fn give_up(draft: &mut Draft<'_>, plan: &GangPlan, nodes: u64) {
    let amount = plan.slots.iter().map(|slot| slot.order.qshares().0).sum();
    let entities = Arc::clone(&draft.entities);
    entities.remove(&mut draft.targets, plan.job, amount);
    draft.jobs[plan.job].target = draft.jobs[plan.job].held;
    let lack = GangLack { of: GangNodes::Available, chunk: None, found: 0, needed: nodes };
    draft.gang_reasons.insert(plan.job, WaitReason::GangLacks(lack));
}
