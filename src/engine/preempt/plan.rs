//! Chooses the machine on which to make room, and the shares that go.

use std::cmp::Reverse;

use super::courses::{Course, Courses};
use super::donors::Donors;
use super::rank::{self, EvictionRank};
use super::right::Claim;
use super::vain::{Extent, Left};
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
pub(super) struct Tier {
    /// In the contested pool squatters go before residents (decision D1).
    pub is_resident: bool,
    /// A job above its own count before one that only belongs to a user or class above theirs.
    pub is_within_count: bool,
    /// A job that stays above need before one that does not.
    pub becomes_needy: bool,
}

/// What a plan costs; the least is best. The machine comes last so that no two plans ever tie.
type Cost = (Option<Tier>, Millis, usize, QShares, MachineIx);

/// So many plans are compared, if they cost so much the same that not even the first is clearly
/// the best.
const ENOUGH_PLANS: u64 = 64;
/// Once there is a plan, at most so many shares more are looked at for a better one. What is left
/// then is dearer share by share: only where the plan takes several could one with fewer cost less.
const ENOUGH_LOOKS: u32 = 1024;
/// Once the best plan is known, others are looked for until there are so many: they are told of,
/// and change nothing.
const TOLD_PLANS: u64 = 4;
/// And no longer than for so many shares more.
const LAST_LOOKS: u32 = 64;
/// After so many shares without a plan it is found out on which machines there may be one at all.
const VAIN_LOOKS: u32 = 256;
/// If there are no more than so many, all of them are looked at, and nothing else.
const FEW_MACHINES: usize = 64;

/// The cheapest way to make room for one nshare of `job`, if there is any legal one: the best
/// worst tier, then the least work lost, the fewest victims, the least room beyond what is needed.
///
/// Where there is none, says whether most of the job's own class was looked at in vain.
pub(super) fn best_plan(draft: &Draft<'_>, donors: &Donors, job: usize) -> Result<Plan, InVain> {
    let site = Site::new(draft, job);
    if let Some(plan) = site.room_to_come() {
        return Ok(plan);
    }
    let mut claim = Claim::new(draft, donors.reach(), job);
    let extent = claim.extent();
    let left = extent.as_ref().and_then(|extent| donors.vain().left_for(draft, extent, job));
    if let Some(Left { machines, was_wide }) = left {
        let courses = Courses::default();
        let mut search = Search::new(site, &courses);
        search.look_at_all(&mut claim, machines);
        return search.outcome().ok_or(InVain { is_wide: was_wide, extent });
    }
    let mut courses = donors.courses(draft, &claim, job);
    courses.leave_out_vain(|machine| {
        let order = site.order_on(machine)?;
        Some(draft.rooms.lacking(machine, order.qshares()))
    });
    let mut search = Search::new(site, &courses);
    for course in courses.in_turn() {
        if search.follow(&mut claim, course) {
            break;
        }
    }
    search.outcome().ok_or(InVain { is_wide: courses.is_wide, extent })
}

/// A search that found no plan.
pub(super) struct InVain {
    /// Whether it looked at most of the beneficiary's own class.
    pub is_wide: bool,
    /// How far its claim reached, if that can be compared.
    pub extent: Option<Extent>,
}

/// Where a beneficiary could be.
struct Site<'d, 'a> {
    draft: &'d Draft<'a>,
    job: usize,
    policy: &'a Policy,
    pools: &'d [PoolIx],
}

/// A search for the cheapest plan.
struct Search<'d, 'a> {
    site: Site<'d, 'a>,
    courses: &'d Courses<'d>,
    /// For each machine whether it was looked at, or need not be.
    seen: Vec<bool>,
    /// On how many machines enough might go.
    tried: u64,
    /// For how many of them a plan was made.
    plans: u64,
    /// How many shares were looked at before there was a plan.
    vain_looks: u32,
    /// The best plan, and the best of the others.
    ranked: Vec<(Cost, Plan)>,
}

impl<'d, 'a> Site<'d, 'a> {
    fn new(draft: &'d Draft<'a>, job: usize) -> Site<'d, 'a> {
        let policy = &draft.snapshot.class_of(draft.job(job)).policy;
        Site { draft, job, policy, pools: draft.pools_for(job) }
    }

    /// The order of a share on `machine`; `None` if the machine will not do.
    fn order_on(&self, machine: MachineIx) -> Option<Order> {
        let (draft, work) = (self.draft, self.draft.job(self.job));
        let is_legal = draft.rooms.is_schedulable(machine)
            && self.pools.contains(&draft.rooms.pool(machine))
            && work.may_use(machine);
        if !is_legal {
            return None;
        }
        let whole = draft.rooms.order(machine);
        match self.policy {
            Policy::FairShare { .. } | Policy::FixedShare => {
                (work.order.qshares() <= whole).then_some(work.order)
            }
            Policy::Reserve => {
                draft.machines_within_reach(self.job).contains(&whole.0).then_some(())?;
                u32::try_from(whole.0).ok().and_then(Order::new)
            }
        }
    }

    /// Room that comes of shares that are leaving, and that nobody waits for.
    fn room_to_come(&self) -> Option<Plan> {
        let rooms = &self.draft.rooms;
        let least = self.draft.job(self.job).order;
        let order_on = |machine| {
            let order = self.order_on(machine)?;
            (rooms.lacking(machine, order.qshares()) == QShares(0)).then_some((machine, order))
        };
        let machines = self.pools.iter().flat_map(|&pool| rooms.with_room_to_come(pool, least));
        let (machine, order) = machines.filter_map(|mut all| all.find_map(order_on)).min()?;
        let considered = Considered::default();
        Some(Plan { machine, order, victims: Vec::new(), loss: 0, considered })
    }

    /// How many machines would do, whatever is on them.
    fn machines(&self) -> u64 {
        let (draft, work) = (self.draft, self.draft.job(self.job));
        let rooms = &draft.rooms;
        if work.machines.is_none() && *self.policy != Policy::Reserve {
            return self.pools.iter().map(|&pool| rooms.count_of_size(pool, work.order)).sum();
        }
        let all = self.pools.iter().flat_map(|&pool| rooms.schedulable(pool));
        count(all.filter(|&machine| self.order_on(machine).is_some()))
    }
}

impl<'d, 'a> Search<'d, 'a> {
    fn new(site: Site<'d, 'a>, courses: &'d Courses<'d>) -> Search<'d, 'a> {
        let seen = vec![false; site.draft.snapshot.machines.len()];
        Search { site, courses, seen, tried: 0, plans: 0, vain_looks: 0, ranked: Vec::new() }
    }

    /// Looks at the machines of the shares in `course`. Says whether no other plan can be better
    /// than the best there is.
    fn follow(&mut self, claim: &mut Claim<'_, '_>, course: Course<'_>) -> bool {
        let (mut looks, mut last_looks) = (ENOUGH_LOOKS, LAST_LOOKS);
        let tier = Some(course.tier);
        for prey in course {
            if self.ranked.is_empty() {
                self.vain_looks += 1;
                if self.vain_looks == VAIN_LOOKS && self.rule_out(claim) {
                    return true;
                }
            }
            // The least that a plan can cost from here on.
            let least = (tier, prey.loss, 1, QShares(0), prey.machine);
            let is_known = self.ranked.first().is_some_and(|(cost, _)| *cost <= least);
            let is_told = TOLD_PLANS <= self.tried || last_looks == 0;
            let is_enough = ENOUGH_PLANS <= self.tried && !self.ranked.is_empty();
            if is_enough || looks == 0 || (is_known && is_told) {
                return true;
            }
            last_looks -= u32::from(is_known);
            looks -= u32::from(!self.ranked.is_empty());
            if self.seen[prey.machine.0] || !claim.is_within_reach(prey.holding.job, prey.order.0) {
                continue;
            }
            let Some((order, missing)) = self.needed_on(prey.machine) else {
                self.seen[prey.machine.0] = true;
                continue;
            };
            claim.reset();
            if claim.rule(prey.holding.job, prey.order.0).is_some() {
                self.seen[prey.machine.0] = true;
                self.look_at(claim, prey.machine, order, missing, (tier, prey.loss));
            }
        }
        false
    }

    /// Leaves out the machines on which all that might go is too little. Where few are left, looks
    /// at all of them, and says that this was all.
    fn rule_out(&mut self, claim: &mut Claim<'_, '_>) -> bool {
        let draft = self.site.draft;
        claim.reset();
        let mut open = Vec::new();
        for machine in (0..self.seen.len()).map(MachineIx) {
            if self.seen[machine.0] {
                continue;
            }
            let Some(order) = self.site.order_on(machine) else { continue };
            let missing = draft.rooms.lacking(machine, order.qshares());
            if is_enough_within_reach(draft, claim, machine, missing) {
                open.push(machine);
            } else {
                self.seen[machine.0] = true;
            }
        }
        let are_few = open.len() <= FEW_MACHINES;
        if are_few {
            self.look_at_all(claim, open);
        }
        are_few
    }

    /// Looks at each of `machines` that will do.
    fn look_at_all(
        &mut self,
        claim: &mut Claim<'_, '_>,
        machines: impl IntoIterator<Item = MachineIx>,
    ) {
        for machine in machines {
            if let Some(order) = self.site.order_on(machine) {
                let missing = self.site.draft.rooms.lacking(machine, order.qshares());
                claim.reset();
                self.look_at(claim, machine, order, missing, (None, 0));
            }
        }
    }

    /// The order of a share on `machine`, and how much would have to go; `None` if the machine will
    /// not do, or there is not as much on it that might be had.
    fn needed_on(&self, machine: MachineIx) -> Option<(Order, QShares)> {
        let order = self.site.order_on(machine)?;
        let missing = self.site.draft.rooms.lacking(machine, order.qshares());
        let is_too_little = self.courses.most_on(machine).is_some_and(|most| most < missing);
        (!is_too_little).then_some((order, missing))
    }

    /// Makes a plan for `machine`, unless it would not be among the best two: no share that might go
    /// from there is of a better tier, or of this one and cheaper, than `least`.
    fn look_at(
        &mut self,
        claim: &mut Claim<'_, '_>,
        machine: MachineIx,
        order: Order,
        missing: QShares,
        (tier, loss): (Option<Tier>, Millis),
    ) {
        let draft = self.site.draft;
        let there = There::on(draft, claim, machine, missing);
        if there.amount < missing {
            return;
        }
        self.tried += 1;
        let loss = loss.saturating_mul(count(0..there.victims));
        let least = (tier, loss, there.victims, there.overshoot, machine);
        if self.ranked.get(1).is_some_and(|(cost, _)| *cost <= least) {
            return;
        }
        if let Some(plan) = plan_on(draft, claim, machine, order, missing) {
            self.plans += 1;
            self.ranked.push(plan);
            self.ranked.sort_by_key(|(cost, _)| *cost);
            self.ranked.truncate(2);
        }
    }

    fn outcome(self) -> Option<Plan> {
        let Search { site, plans, ranked, .. } = self;
        let mut ranked = ranked.into_iter().map(|(_, plan)| plan);
        let best = ranked.next()?;
        let runner_up = ranked.next().map(|plan| RunnerUp {
            machine: plan.machine,
            victims: count(&plan.victims),
            loss: plan.loss,
        });
        let considered = Considered { machines: site.machines(), plans, runner_up };
        Some(Plan { considered, ..best })
    }
}

/// The shares on one machine that might go, as far as their users and classes go.
struct There {
    /// What they come to.
    amount: QShares,
    /// At least so many of them have to go.
    victims: usize,
    /// And then at least so much too much goes.
    overshoot: QShares,
}

/// Whether `missing` might go from `machine`, as far as users and classes go.
fn is_enough_within_reach(
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
    fn on(draft: &Draft<'_>, claim: &Claim<'_, '_>, machine: MachineIx, missing: QShares) -> There {
        let (mut amount, mut largest, mut one_enough) = (QShares(0), 1, None);
        for tenant in draft.rooms.tenants(machine) {
            let order = tenant.order();
            if claim.reach_to(tenant.user()) < order.0 || order == QShares(0) {
                continue;
            }
            amount += order;
            largest = largest.max(order.0);
            if missing <= order && one_enough.is_none_or(|least| order < least) {
                one_enough = Some(order);
            }
        }
        let (victims, overshoot) = match one_enough {
            _ if missing == QShares(0) => (0, QShares(0)),
            Some(order) => (1, order - missing),
            None => {
                (usize::try_from(missing.0.div_ceil(largest)).unwrap_or(usize::MAX), QShares(0))
            }
        };
        There { amount, victims, overshoot }
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
    let held = draft.rooms.holdings(machine);
    let mut candidates: Vec<Victim> =
        held.filter_map(|(holding, order)| candidate(draft, claim, holding, order)).collect();
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

fn candidate(
    draft: &Draft<'_>,
    claim: &Claim<'_, '_>,
    holding: Holding,
    order: QShares,
) -> Option<Victim> {
    let rule = claim.rule(holding.job, order.0)?;
    let share = draft.share(holding);
    let tier = Tier {
        is_resident: draft.is_resident(holding),
        is_within_count: !claim.is_above_count(holding.job),
        becomes_needy: claim.becomes_needy(holding.job),
    };
    Some(Victim { holding, rule, tier, rank: rank::of(draft, holding), order, loss: share.loss() })
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
pub(super) mod tests {
    use super::*;
    use crate::engine::preempt::right::Reach;

    /// How many machines would do for `job`, and of those on which something has to go the one on
    /// which room costs least, with whose shares go: found by trying all of them.
    pub(in super::super) fn try_all(
        draft: &Draft<'_>,
        job: usize,
    ) -> (u64, Option<(MachineIx, Vec<Holding>)>) {
        let site = Site::new(draft, job);
        let reach = Reach::new(&draft.entities);
        let mut claim = Claim::new(draft, &reach, job);
        let machines = draft.snapshot.machines_with_ix();
        let suitable: Vec<(MachineIx, Order)> =
            machines.filter_map(|(ix, _)| Some((ix, site.order_on(ix)?))).collect();
        let plans = suitable.iter().filter_map(|&(machine, order)| {
            claim.reset();
            let missing = draft.rooms.lacking(machine, order.qshares());
            let plan = plan_on(draft, &mut claim, machine, order, missing)?;
            (missing > QShares(0)).then_some(plan)
        });
        let best = plans.min_by_key(|(cost, _)| *cost);
        let victims = |plan: Plan| plan.victims.into_iter().map(|victim| victim.holding).collect();
        (count(&suitable), best.map(|(_, plan)| (plan.machine, victims(plan))))
    }
}
