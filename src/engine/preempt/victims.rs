//! Chooses the shares that go from one machine.

use std::cmp::Reverse;

use super::losses::{Candidate, least_loss};
use super::rank::{self, EvictionRank};
use super::right::Claim;
use super::stand::{Stand, Tiers};
use crate::engine::draft::Draft;
use crate::engine::schedule::PreemptionRule;
use crate::engine::shares::Holding;
use crate::model::{MachineIx, Millis, QShares, count};

/// A share that goes.
#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub holding: Holding,
    pub rule: PreemptionRule,
    pub tier: Tier,
    rank: EvictionRank,
    pub order: QShares,
    /// The work lost with it.
    pub loss: Millis,
}

/// How willingly a share is taken, before its investment is looked at. The least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tier {
    /// In the contested pool squatters go before residents (decision D1).
    pub is_resident: bool,
    /// A job above its own count before one that only belongs to a user or class above theirs.
    pub is_within_count: bool,
    /// A job that stays above need before one that does not.
    pub becomes_needy: bool,
}

impl Tier {
    /// So many there are.
    const COUNT: usize = 8;

    /// Its number: better ones have less.
    pub(super) fn number(self) -> u8 {
        let Tier { is_resident, is_within_count, becomes_needy } = self;
        (u8::from(is_resident) << 2) | (u8::from(is_within_count) << 1) | u8::from(becomes_needy)
    }

    /// The one with this number.
    pub(super) fn numbered(number: u8) -> Tier {
        let [is_resident, is_within_count, becomes_needy] = [4, 2, 1].map(|bit| number & bit != 0);
        Tier { is_resident, is_within_count, becomes_needy }
    }
}

/// What of enough room on one machine is known beforehand: of the shares that might go, as far as
/// their users and classes go.
pub(super) struct There {
    /// At least so many of them have to go.
    pub victims: usize,
    /// And then at least so much too much goes.
    pub overshoot: QShares,
    /// No less work is lost.
    pub loss: Millis,
}

/// Whether `missing` might go from `machine`, as far as users and classes go.
pub(super) fn is_enough_within_reach(
    draft: &Draft<'_>,
    claim: &Claim<'_, '_>,
    machine: MachineIx,
    missing: QShares,
) -> bool {
    let mut amount = QShares(0);
    draft.rooms.tenants(machine).iter().any(|tenant| {
        if tenant.order().0 <= claim.reach_to(tenant.user()) {
            amount += tenant.order();
        }
        missing <= amount
    }) || missing == QShares(0)
}

impl There {
    /// `None` if they do not come to `missing`.
    pub(super) fn on(
        draft: &Draft<'_>,
        claim: &Claim<'_, '_>,
        machine: MachineIx,
        missing: QShares,
    ) -> Option<There> {
        let (mut amount, mut largest, mut one_enough) = (QShares(0), 1, None);
        let (mut cheapest, mut cheapest_alone) = (Millis::MAX, Millis::MAX);
        for tenant in draft.rooms.tenants(machine) {
            let order = tenant.order();
            if claim.reach_to(tenant.user()) < order.0 || order == QShares(0) {
                continue;
            }
            amount += order;
            largest = largest.max(order.0);
            cheapest = cheapest.min(tenant.loss());
            if missing <= order {
                cheapest_alone = cheapest_alone.min(tenant.loss());
                one_enough = Some(one_enough.map_or(order, |least: QShares| least.min(order)));
            }
        }
        if amount < missing {
            return None;
        }
        let (victims, overshoot) = match one_enough {
            _ if missing == QShares(0) => {
                return Some(There { victims: 0, overshoot: QShares(0), loss: 0 });
            }
            Some(order) => (1, order - missing),
            None => {
                (usize::try_from(missing.0.div_ceil(largest)).unwrap_or(usize::MAX), QShares(0))
            }
        };
        let together = cheapest.saturating_mul(count(0..victims.max(2)));
        Some(There { victims, overshoot, loss: cheapest_alone.min(together) })
    }

    /// At least so much work is lost, if with one share it is `loss` or more: with each, unless `only_one`
    /// of them need be like that.
    pub(super) fn least_loss(&self, loss: Millis, only_one: bool) -> Millis {
        let alike = if only_one { self.victims.min(1) } else { self.victims };
        self.loss.max(loss.saturating_mul(count(0..alike)))
    }
}

/// The best tier of which something has to go so that `missing` is free on `machine`, or of a worse one,
/// as far as users and classes go; `None` if enough cannot go.
pub(super) fn least_worst_tier(
    draft: &Draft<'_>,
    (claim, tiers): (&Claim<'_, '_>, &Tiers),
    machine: MachineIx,
    missing: QShares,
) -> Option<Tier> {
    let mut amounts = [QShares(0); Tier::COUNT];
    for (holding, tenant) in draft.rooms.held_shares(machine) {
        let is_within_reach = tenant.order().0 <= claim.reach_to(tenant.user());
        let tier = tiers.of(draft.shares.place_of(holding)).filter(|_| is_within_reach);
        if let Some(tier) = tier {
            amounts[usize::from(tier.number())] += tenant.order();
        }
    }
    let mut freed = QShares(0);
    (0..).zip(amounts).find_map(|(number, amount)| {
        freed += amount;
        (missing <= freed).then(|| Tier::numbered(number))
    })
}

/// At least so much work is lost with room on `machine`, as far as users and classes go; `None` if
/// there is none to be had.
pub(super) fn least_loss_on(
    draft: &Draft<'_>,
    claim: &Claim<'_, '_>,
    machine: MachineIx,
    missing: QShares,
) -> Option<Millis> {
    let there = draft.rooms.tenants(machine).iter();
    let there =
        there.filter_map(|tenant| claim.candidate(tenant.user(), tenant.order(), tenant.loss()));
    least_loss(there, missing)
}

/// The same, of shares of which each might go by right.
pub(super) fn least_loss_by_right(
    draft: &Draft<'_>,
    claim: &Claim<'_, '_>,
    machine: MachineIx,
    missing: QShares,
) -> Option<Millis> {
    let there = candidates(draft, claim, machine).filter_map(|victim| {
        let user = draft.entities.group_of(victim.holding.job);
        claim.candidate(user, victim.order, victim.loss)
    });
    least_loss(there, missing)
}

/// The least work that is lost with room on `machine` if only shares go of which `is_open` says so, by
/// tier and by the work lost with each; `None` if there is none to be had. `candidate` says of a user's
/// share of so many qshares and with so much work what might go.
pub(super) fn least_loss_within(
    draft: &Draft<'_>,
    (machine, missing): (MachineIx, QShares),
    is_open: impl Fn(Tier, Millis) -> bool,
    candidate: impl Fn(usize, QShares, Millis) -> Option<Candidate>,
) -> Option<Millis> {
    let pool = draft.rooms.pool(machine);
    let there = draft.rooms.held_shares(machine).filter_map(|(Holding { job, .. }, tenant)| {
        let share = candidate(tenant.user(), tenant.order(), tenant.loss())?;
        let tier = || {
            let class = draft.entities.class_of(job);
            let is_resident = draft.snapshot.topology.classes[class.0].pool == pool;
            Stand::of(draft, job).tier(is_resident)
        };
        is_open(tier(), share.loss).then_some(share)
    });
    least_loss(there, missing)
}

/// The shares on `machine` that free `missing` qshares, least rank first, superfluous ones spared.
pub(super) fn choose_victims(
    draft: &Draft<'_>,
    claim: &mut Claim<'_, '_>,
    machine: MachineIx,
    missing: QShares,
) -> Option<Vec<Victim>> {
    if missing == QShares(0) {
        return Some(Vec::new());
    }
    let mut candidates: Vec<Victim> = candidates(draft, claim, machine).collect();
    // Each taken makes it harder to take the next: what is too little one by one stays too little.
    if candidates.iter().map(|victim| victim.order).sum::<QShares>() < missing {
        return None;
    }
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
    (missing <= freed).then(|| spare_superfluous(victims, |victim| victim.order, missing))
}

/// The shares on `machine` each of which might go.
fn candidates(
    draft: &Draft<'_>,
    claim: &Claim<'_, '_>,
    machine: MachineIx,
) -> impl Iterator<Item = Victim> {
    draft.rooms.held_shares(machine).filter_map(move |(holding, tenant)| {
        let order = tenant.order();
        if claim.reach_to(tenant.user()) < order.0 {
            return None;
        }
        let rule = claim.rule(holding.job, order.0)?;
        let share = draft.shares.at(holding);
        let tier = Tier {
            is_resident: share.is_resident,
            is_within_count: !claim.is_above_count(holding.job),
            becomes_needy: claim.becomes_needy(holding.job),
        };
        let rank = rank::of(draft, share);
        Some(Victim { holding, rule, tier, rank, order, loss: tenant.loss() })
    })
}

/// Gives back, the last first, whoever is not needed after all: a later victim, of so many qshares
/// as `size` says, may have made enough room alone.
pub(super) fn spare_superfluous<V>(
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

    /// Tiers are counted by number, and plans are compared by tier: both have to say the same.
    #[test]
    fn tiers_are_numbered_from_the_best_to_the_worst() {
        let numbers = 0..u8::try_from(Tier::COUNT).unwrap();
        let tiers: Vec<Tier> = numbers.clone().map(Tier::numbered).collect();
        assert!(tiers.is_sorted_by(|better, worse| better < worse), "{tiers:?}");
        assert!(tiers.iter().map(|tier| tier.number()).eq(numbers));
    }
}
