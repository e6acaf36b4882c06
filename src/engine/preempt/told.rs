//! Searches that begin with what others found: what was looked at in vain is not looked at again.

use super::courses::{Courses, Prey};
use super::plan::{Cost, Plan, plan_on};
use super::right::Claim;
use super::search::Search;
use super::vain::{Below, DOUBTS, Doubt, Exhausted, Extent, Verdict, is_plan_below};
use super::victims::{Tier, least_loss_within, least_worst_tier};
use crate::engine::nodepool::MachineSet;
use crate::model::{MachineIx, Millis};

impl Search<'_, '_> {
    /// Looks where alone something may be found that may be worth it, if `known` holds for as much work
    /// as may be lost. Says whether nothing was found, and nothing else is to be looked at.
    pub(super) fn is_told_by(&mut self, claim: &mut Claim<'_, '_>, known: &Verdict) -> bool {
        if !known.extent.may_lose_all_of(self.limit) {
            return false;
        }
        let limit = self.limit;
        let (own, least_own) =
            self.donors.machines_of_peers(self.site.draft, claim, self.site.job, limit);
        if let Some((tier, machine)) = known.sooner {
            // Whether what others give more willingly would do here, too.
            self.plan_for(claim, machine);
            let is_held_back = |((worst, loss, ..), _): &(Cost, Plan)| {
                *worst <= Some(tier) && limit.is_some_and(|limit| limit < *loss)
            };
            if !self.ranked.first().is_some_and(is_held_back) {
                return false;
            }
        }
        let may_lose = |doubt: &&Doubt| limit.is_none_or(|limit| doubt.least_within <= limit);
        for doubt in known.open_to(limit).iter().filter(may_lose) {
            self.plan_for(claim, doubt.machine);
        }
        for machine in own {
            self.plan_for(claim, machine);
        }
        let too_dear = known.least_beyond(limit).into_iter().chain(known.least_left);
        self.least_left = too_dear.chain(least_own).min();
        !self.has_affordable()
    }

    /// Makes a plan for `machine`, if there is one.
    fn plan_for(&mut self, claim: &mut Claim<'_, '_>, machine: MachineIx) {
        let draft = self.site.draft;
        let Some(order) = self.site.order_on(machine) else { return };
        let missing = draft.rooms.lacking(machine, order.qshares());
        claim.reset();
        let plan = plan_on(draft, claim, machine, order, missing);
        self.rank(plan);
    }

    /// Goes on where the search ended that `known` came of: looks at what was in doubt, and at what was
    /// too dear and is not now. Says whether that was enough.
    pub(super) fn goes_on_from(
        &mut self,
        claim: &mut Claim<'_, '_>,
        courses: &Courses<'_>,
        known: &Verdict,
    ) -> bool {
        let limit = self.limit;
        let (own, least_own) =
            self.donors.machines_of_peers(self.site.draft, claim, self.site.job, limit);
        self.seen = known.seen.clone();
        if let Some((_, machine)) = known.sooner {
            self.plan_for(claim, machine);
        }
        let open = known.open_to(limit);
        self.look_at_doubts(claim, known.sooner, open);
        self.look_at_all(claim, own.into_iter().map(|machine| (None, machine)));
        self.follow_rest(claim, courses, |tier| {
            let is_known = known.seen_before.is_none_or(|seen_before| tier < seen_before);
            is_known.then_some(known.extent.limit.unwrap_or(Millis::MAX))
        });
        let dear = &known.in_doubt[open.len()..];
        if self.has_affordable() {
            let worst = self.ranked[0].0.0;
            if let Some(tier) = worst.filter(|_| courses.first_tier() < worst) {
                self.look_for_better(claim, courses, (tier, dear));
            }
            if self.has_affordable() {
                // Any that is found there would do, and need not be the cheapest.
                return self.ranked[0].0.0 == worst;
            }
        }
        self.in_doubt.extend(dear);
        let known_left = known.least_left.filter(|_| known.extent.may_lose_all_of(limit));
        let too_dear = dear.first().map(|doubt| doubt.least_loss);
        let others = too_dear.into_iter().chain(known_left).chain(least_own);
        self.least_left = others.chain(self.least_left).min();
        true
    }

    /// Looks whether others give more willingly than those of tier `worst`, at whatever price: for any plan
    /// that takes nothing of that tier, or of a worse one. It may be where somebody found it `too_dear`.
    fn look_for_better(
        &mut self,
        claim: &mut Claim<'_, '_>,
        courses: &Courses<'_>,
        (worst, too_dear): (Tier, &[Doubt]),
    ) {
        // Nearly always one is found soon: to ask of what tiers nothing comes would take longer.
        let prey = courses.in_turn().take_while(|course| course.tier < worst).flatten();
        let too_dear = too_dear.iter().map(|doubt| (doubt.machine, None));
        let mut looked_at = MachineSet::default();
        for (machine, prey) in too_dear.chain(prey.map(|prey| (prey.machine(), Some(prey)))) {
            if self.ranked.first().is_some_and(|(cost, _)| cost.0 < Some(worst)) {
                return;
            }
            let may_go = |prey: Prey| prey.order().0 <= claim.reach_to(prey.user());
            if !looked_at.contains(machine) && prey.is_none_or(may_go) {
                looked_at.include(machine);
                self.look_for_better_on(claim, worst, machine);
            }
        }
    }

    /// Makes a plan for `machine`, if there may be one that takes nothing of tier `worst` or a worse one.
    fn look_for_better_on(&mut self, claim: &mut Claim<'_, '_>, worst: Tier, machine: MachineIx) {
        let draft = self.site.draft;
        let Some(order) = self.site.order_on(machine) else { return };
        let missing = draft.rooms.lacking(machine, order.qshares());
        claim.reset();
        let given = (&*claim, self.donors.tiers());
        let least = least_worst_tier(draft, given, machine, missing);
        if least.is_some_and(|least| least < worst) {
            self.plan_for(claim, machine);
        }
    }

    /// Looks at machines in doubt, but not where only shares of worse tiers than what is found `sooner` may
    /// be worth it, if that holds here, too.
    fn look_at_doubts(
        &mut self,
        claim: &mut Claim<'_, '_>,
        sooner: Option<(Tier, MachineIx)>,
        doubts: &[Doubt],
    ) {
        let tier = sooner.map(|(tier, _)| tier).filter(|tier| {
            let is_as_good = |((worst, ..), _): &(Cost, Plan)| *worst <= Some(*tier);
            self.ranked.first().is_some_and(is_as_good) && !self.has_affordable()
        });
        let draft = self.site.draft;
        for doubt in doubts {
            if let Some((tier, limit)) = tier.zip(self.limit) {
                let candidate = |user, order, loss| claim.candidate(user, order, loss);
                let order = draft.jobs[self.site.job].order.qshares();
                let missing = draft.rooms.lacking(doubt.machine, order);
                let there = (doubt.machine, missing);
                let is_open = |of: Tier, loss: Millis| of <= tier && loss <= limit;
                let least = least_loss_within(draft, there, is_open, candidate);
                let least_within = least.unwrap_or(Millis::MAX);
                if limit < least_within {
                    self.in_doubt.push(Doubt { least_within, ..*doubt });
                    continue;
                }
            }
            self.look_at_all(claim, [(None, doubt.machine)]);
        }
    }

    /// Looks for the best plan, but not among the tiers of which others know that nothing comes; tells
    /// others of those of which it found that out.
    pub(super) fn go_through(
        &mut self,
        claim: &mut Claim<'_, '_>,
        courses: &Courses<'_>,
        extent: Option<&Extent>,
    ) {
        let known =
            extent.and_then(|extent| self.donors.vain().exhausted_for(self.site.draft, extent));
        if let Some(known) = &known {
            self.look_below(claim, known);
        }
        match known.as_ref().map(|known| known.below) {
            None => self.follow_all(claim, courses, None),
            Some(Below::Tier(tier)) => self.follow_all(claim, courses, Some(tier)),
            Some(Below::Any) => {}
        }
        let exhausted = extent.and_then(|extent| self.exhausted(claim, extent, known.as_deref()));
        if let Some(exhausted) = exhausted {
            self.donors.vain().note_exhausted(exhausted);
        }
    }

    /// Looks where alone there may be a plan that takes nothing but of the tiers that are `exhausted`:
    /// whatever it costs.
    fn look_below(&mut self, claim: &mut Claim<'_, '_>, exhausted: &Exhausted) {
        let (own, _) = self.donors.machines_of_peers(self.site.draft, claim, self.site.job, None);
        let limit = self.limit.take();
        let machines = exhausted.in_doubt.iter().copied().chain(own);
        self.look_at_all(claim, machines.map(|machine| (None, machine)));
        self.limit = limit;
    }

    /// What others may know of the tiers of which nothing came, if it is more than was `known`: of all
    /// that are better than that of the best plan, or of all that there are, if it was found out where
    /// alone something might come of them.
    fn exhausted(
        &self,
        claim: &Claim<'_, '_>,
        extent: &Extent,
        known: Option<&Exhausted>,
    ) -> Option<Exhausted> {
        let of_best = || self.ranked.first().and_then(|((worst, ..), _)| worst.map(Below::Tier));
        let below = match &self.possible {
            // To look at so many is more work than to search, whatever tiers are known to be exhausted.
            Some(possible) if DOUBTS < possible.len() => None,
            Some(_) => Some(Below::Any),
            None => of_best(),
        };
        let below = below.filter(|below| known.is_none_or(|known| known.below < *below))?;
        let extent = Extent { limit: None, ..extent.clone() };
        let candidate = |user, order, loss| claim.candidate(user, order, loss);
        let doubted = known.into_iter().flat_map(|known| known.in_doubt.iter().copied());
        let seen = self.in_doubt.iter().map(|doubt| doubt.machine).chain(doubted);
        let is_in_doubt = |machine: &MachineIx| {
            is_plan_below(self.site.draft, &extent, (*machine, below), candidate)
        };
        let in_doubt = match &self.possible {
            Some(possible) => possible.iter().copied().filter(is_in_doubt).collect(),
            None => seen.filter(is_in_doubt).collect(),
        };
        Some(Exhausted { extent, below, in_doubt })
    }

    /// What others may know of a search of which nothing came.
    pub(super) fn verdict(
        &mut self,
        claim: &Claim<'_, '_>,
        extent: Extent,
        is_wide: bool,
    ) -> Option<Verdict> {
        let sooner = match self.ranked.first() {
            Some(((worst, loss, .., machine), _)) => {
                let is_known = self.seen_before.is_none_or(|tier| *worst < Some(tier));
                let is_too_dear = extent.limit.is_some_and(|limit| limit < *loss);
                Some((worst.filter(|_| is_known && is_too_dear)?, *machine))
            }
            None => None,
        };
        let mut in_doubt: Vec<Doubt> = std::mem::take(&mut self.in_doubt);
        let candidate = |user, order, loss| claim.candidate(user, order, loss);
        for doubt in in_doubt.iter_mut().filter(|doubt| doubt.least_within == doubt.least_loss) {
            *doubt = doubt.within(self.site.draft, (&extent, sooner), candidate);
        }
        in_doubt.sort_unstable();
        in_doubt.dedup();
        Some(Verdict {
            extent,
            is_wide,
            least_left: self.least_left,
            sooner,
            seen_before: self.seen_before,
            in_doubt,
            seen: std::mem::take(&mut self.seen),
        })
    }
}
