//! Chooses the machine on which to make room, and the shares that go.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::rank::{self, EvictionRank};
use super::right::Claim;
use crate::engine::draft::Draft;
use crate::engine::nodepool::Holding;
use crate::engine::schedule::{Considered, PreemptionRule, RunnerUp};
use crate::model::{MachineIx, Millis, Order, Policy, PoolIx, QShares, count};

/// Room for one nshare of a beneficiary on one machine, and what it costs.
pub(super) struct Plan {
    pub machine: MachineIx,
    /// The order of the share to come.
    pub order: Order,
    /// Least rank first; none of them superfluous.
    pub victims: Vec<Victim>,
    /// The work lost with them.
    pub loss: Millis,
    /// What else could be done.
    pub considered: Considered,
}

/// A share that goes.
#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub holding: Holding,
    pub rule: PreemptionRule,
    tier: Tier,
    rank: EvictionRank,
    order: QShares,
    /// The work lost with it.
    pub loss: Millis,
}

/// How willingly a share is taken, before its investment is looked at. The least goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tier {
    /// In the contested pool squatters go before residents (decision D1).
    is_resident: bool,
    /// A job above its own count before one that only belongs to a user or class above theirs.
    is_within_count: bool,
    /// A job that stays above need before one that does not.
    becomes_needy: bool,
}

/// What a plan costs; the least is best. The machine comes last so that no two plans ever tie.
type Cost = (Option<Tier>, Millis, usize, QShares, MachineIx);

/// The cheapest way to make room for one nshare of `job`, if there is any legal one: the best
/// worst tier, then the least work lost, the fewest victims, the least room beyond what is needed.
pub(super) fn best_plan(draft: &Draft<'_>, job: usize) -> Option<Plan> {
    let work = draft.job(job);
    let class = draft.snapshot.class_of(work);
    let pools: &[PoolIx] = match class.policy {
        Policy::FairShare { .. } => draft.pools.searched_from(class.pool),
        Policy::FixedShare | Policy::Reserve => std::slice::from_ref(&class.pool),
    };
    let mut claim = Claim::new(draft, job);
    let donors = claim.donors();
    let shares = donors.iter().flat_map(|&donor| draft.job(donor).held());
    // Machines on which nothing may be taken and nothing is leaving need not be looked at.
    let mut machines: BTreeSet<MachineIx> = shares.map(|share| share.machine).collect();
    machines.extend(pools.iter().flat_map(|&pool| draft.rooms.emptying(pool)));
    let may_use = |machine: &MachineIx| {
        draft.rooms.is_schedulable(*machine)
            && pools.contains(&draft.rooms.pool(*machine))
            && work.may_use(*machine)
    };
    let mut plans = 0;
    // The best plan, and the best of the others.
    let mut ranked: Vec<(Cost, Plan)> = Vec::with_capacity(3);
    for machine in machines.into_iter().filter(may_use) {
        let Some(order) = order_on(draft, job, &class.policy, machine) else { continue };
        claim.reset();
        let missing = draft.rooms.lacking(machine, order.qshares());
        let Some(plan) = plan_on(draft, &mut claim, machine, order, missing) else { continue };
        plans += 1;
        ranked.push(plan);
        ranked.sort_by_key(|(cost, _)| *cost);
        ranked.truncate(2);
    }
    let mut ranked = ranked.into_iter().map(|(_, plan)| plan);
    let best = ranked.next()?;
    let runner_up = ranked.next().map(|plan| RunnerUp {
        machine: plan.machine,
        victims: count(&plan.victims),
        loss: plan.loss,
    });
    let all = pools.iter().flat_map(|&pool| draft.rooms.schedulable(pool)).filter(may_use);
    let suitable = all.filter(|ix| order_on(draft, job, &class.policy, *ix).is_some());
    Some(Plan { considered: Considered { machines: count(suitable), plans, runner_up }, ..best })
}

/// The order of a share of `job` on `machine`; `None` if the machine will not do.
fn order_on(draft: &Draft<'_>, job: usize, policy: &Policy, machine: MachineIx) -> Option<Order> {
    let whole = draft.rooms.order(machine);
    match policy {
        Policy::FairShare { .. } | Policy::FixedShare => {
            let order = draft.job(job).order;
            (order.qshares() <= whole).then_some(order)
        }
        Policy::Reserve => {
            draft.machines_within_reach(job).contains(&whole.0).then_some(())?;
            u32::try_from(whole.0).ok().and_then(Order::new)
        }
    }
}

fn plan_on(
    draft: &Draft<'_>,
    claim: &mut Claim<'_, '_>,
    machine: MachineIx,
    order: Order,
    missing: QShares,
) -> Option<(Cost, Plan)> {
    let victims = choose_victims(draft, claim, machine, missing)?;
    let freed: QShares = victims.iter().map(|victim| victim.order).sum();
    let worst = victims.iter().map(|victim| victim.tier).max();
    let loss = victims.iter().map(|victim| victim.loss).fold(0, Millis::saturating_add);
    let overshoot = freed.saturating_sub(missing);
    let cost = (worst, loss, victims.len(), overshoot, machine);
    let considered = Considered::default();
    Some((cost, Plan { machine, order, victims, loss, considered }))
}

/// The shares on `machine` that free `missing` qshares, least rank first, superfluous ones spared.
fn choose_victims(
    draft: &Draft<'_>,
    claim: &mut Claim<'_, '_>,
    machine: MachineIx,
    missing: QShares,
) -> Option<Vec<Victim>> {
    if missing == QShares(0) {
        return Some(Vec::new());
    }
    let mut candidates: Vec<Victim> = draft
        .rooms
        .holdings(machine)
        .filter_map(|holding| candidate(draft, claim, holding))
        .collect();
    candidates.sort_unstable_by_key(|victim| (victim.tier, victim.rank));
    if let Some(victims) = take_in_turn(claim, &candidates, missing) {
        return Some(victims);
    }
    // One large share may do where the small ones before it use the claim up; and whoever may give
    // only as part of a surplus must give while there is one.
    claim.reset();
    candidates.sort_by_key(|victim| (Reverse(victim.order), Reverse(victim.tier)));
    if let Some(victims) = take_in_turn(claim, &candidates, missing) {
        return Some(victims);
    }
    // Or small ones from several sides where a large one of one side is too much.
    claim.reset();
    candidates.reverse();
    take_in_turn(claim, &candidates, missing)
}

/// Takes candidates one after the other until `missing` is free. What is taken counts against its
/// owner when the next is tested.
fn take_in_turn(
    claim: &mut Claim<'_, '_>,
    candidates: &[Victim],
    missing: QShares,
) -> Option<Vec<Victim>> {
    let mut victims = Vec::new();
    let mut freed = QShares(0);
    for candidate in candidates {
        if missing <= freed {
            break;
        }
        if let Some(rule) = claim.rule(candidate.holding.job, candidate.order.0) {
            claim.take(candidate.holding.job, candidate.order.0);
            freed += candidate.order;
            victims.push(Victim { rule, ..*candidate });
        }
    }
    (missing <= freed).then(|| spare_superfluous(victims, freed, missing))
}

fn candidate(draft: &Draft<'_>, claim: &Claim<'_, '_>, holding: Holding) -> Option<Victim> {
    let share = draft.share(holding);
    let order = share.order.qshares();
    let rule = claim.rule(holding.job, order.0)?;
    let pool = draft.snapshot.class_of(draft.job(holding.job)).pool;
    let tier = Tier {
        is_resident: pool == draft.rooms.pool(share.machine),
        is_within_count: !claim.is_above_count(holding.job),
        becomes_needy: claim.becomes_needy(holding.job),
    };
    let loss = share.facts.investment.saturating_add(share.facts.initialization);
    Some(Victim { holding, rule, tier, rank: rank::of(draft, holding), order, loss })
}

/// Gives back, the dearest first, whoever is not needed after all: a later victim may have made
/// enough room alone.
fn spare_superfluous(victims: Vec<Victim>, mut freed: QShares, missing: QShares) -> Vec<Victim> {
    let mut kept: Vec<Victim> = Vec::with_capacity(victims.len());
    for victim in victims.into_iter().rev() {
        let without = freed - victim.order;
        if missing <= without {
            freed = without;
        } else {
            kept.push(victim);
        }
    }
    kept.reverse();
    kept
}
