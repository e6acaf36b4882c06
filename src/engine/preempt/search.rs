//! A search for the cheapest plan: share by share, those most willingly given first, of those the
//! cheapest first, each as a reason to look at its machine.

use super::courses::{Course, Courses, Prey, Step};
use super::donors::Donors;
use super::plan::{Cost, NoPlan, Plan, plan_on};
use super::right::Claim;
use super::site::Site;
use super::vain::{Doubt, Verdict};
use super::victims::{
    There, Tier, is_enough_within_reach, least_loss_by_right, least_loss_on, least_worst_tier,
};
use crate::engine::nodepool::MachineSet;
use crate::engine::report::HeldBack;
use crate::engine::schedule::{Considered, RunnerUp};
use crate::model::{MachineIx, Millis, Order, QShares, count};

/// So many plans are compared, if they cost so much the same that not even the first is clearly
/// the best.
const ENOUGH_PLANS: u64 = 64;
/// Once there is a plan, at most so many shares more are looked at for a better one: shares that might go,
/// from machines that were not looked at. What is left then is dearer share by share: only where the plan
/// takes several could one with fewer cost less.
const ENOUGH_LOOKS: u32 = 1024;
/// Once the best plan is known, others are looked for until there are so many: they are told of,
/// and change nothing.
const TOLD_PLANS: u64 = 4;
/// And no longer than for so many shares more.
const LAST_LOOKS: u32 = 64;
/// If there are no more than so many, all of them are looked at, and nothing else.
const FEW_MACHINES: usize = 64;

/// What is to be seen on a machine that would do.
struct Look {
    machine: MachineIx,
    /// The order of the share to come.
    order: Order,
    /// How much would have to go.
    missing: QShares,
    there: There,
}

/// How far the shares of one tier were looked at.
enum Followed {
    /// All of them.
    ToTheEnd,
    /// As far as they may be worth it; and it is not known that no other tier need be looked at.
    ToTheLimit,
    /// No other plan can be better than the best there is.
    Enough,
    /// All machines were looked at that may do.
    Everywhere,
}

/// A search for the cheapest plan.
pub(super) struct Search<'d, 'a> {
    pub site: Site<'d, 'a>,
    pub donors: &'d Donors,
    /// What may be lost at most, if that is limited.
    pub limit: Option<Millis>,
    /// What was not looked at as it is too dear loses no less.
    pub least_left: Option<Millis>,
    /// Where no plan can be worth it, with the best tier of what might go.
    too_dear_on: Vec<(Option<Tier>, MachineIx)>,
    /// Where enough might go, as far as users and classes go.
    pub in_doubt: Vec<Doubt>,
    /// All was looked at that may be worth it and takes nothing of this tier, or a worse one; `None` if
    /// that was all.
    pub seen_before: Option<Tier>,
    /// The machines that were looked at, or need not be.
    pub seen: MachineSet,
    /// The only machines on which enough might go, as far as users and classes go, once all were looked
    /// through.
    pub possible: Option<Vec<MachineIx>>,
    /// Whether shares that are cheaper, or given more willingly, may not have been looked at.
    pub is_partial: bool,
    /// On how many machines enough might go.
    tried: u64,
    /// For how many of them a plan was made.
    plans: u64,
    /// How many shares were looked at before there was a plan.
    vain_looks: usize,
    /// The best plan, and the best of the others.
    pub ranked: Vec<(Cost, Plan)>,
}

impl<'d, 'a> Search<'d, 'a> {
    pub(super) fn new(
        site: Site<'d, 'a>,
        donors: &'d Donors,
        limit: Option<Millis>,
    ) -> Search<'d, 'a> {
        Search {
            site,
            donors,
            limit,
            least_left: None,
            too_dear_on: Vec::new(),
            in_doubt: Vec::new(),
            seen_before: None,
            seen: MachineSet::default(),
            possible: None,
            is_partial: false,
            tried: 0,
            plans: 0,
            vain_looks: 0,
            ranked: Vec::new(),
        }
    }

    /// Looks at the machines of the shares in `courses`, those of the best tier first: in each tier as
    /// far as they may be worth it, and then until it is known whether there is any plan that takes
    /// nothing of a worse one. Who gives less willingly is spared where others would do, however much
    /// that costs. Of tiers better than `from` it is known that nothing comes of them.
    pub(super) fn follow_all(
        &mut self,
        claim: &mut Claim<'_, '_>,
        courses: &Courses<'_>,
        from: Option<Tier>,
    ) {
        self.is_partial = from.is_some();
        for mut course in courses.in_turn().filter(|course| from <= Some(course.tier)) {
            match self.follow(claim, &mut course, courses.are_few) {
                Followed::ToTheEnd | Followed::ToTheLimit => {
                    self.look_beyond(claim, &mut course, courses.are_few);
                }
                Followed::Enough => {
                    self.seen_before = Some(course.tier);
                    return;
                }
                Followed::Everywhere => {
                    self.look_at_the_dear(claim, None);
                    return;
                }
            }
        }
    }

    /// The same, but only as far as they may be worth it, and only at those that lose more than is known
    /// to be looked at already.
    pub(super) fn follow_rest(
        &mut self,
        claim: &mut Claim<'_, '_>,
        courses: &Courses<'_>,
        known_to: impl Fn(Tier) -> Option<Millis>,
    ) {
        self.is_partial = true;
        for mut course in courses.in_turn_beyond(known_to) {
            match self.follow(claim, &mut course, courses.are_few) {
                Followed::ToTheEnd | Followed::ToTheLimit => {}
                Followed::Enough => {
                    self.seen_before = Some(course.tier);
                    return;
                }
                Followed::Everywhere => return,
            }
        }
    }

    /// Looks for any plan that takes nothing of a worse tier than `course`, whatever it costs, if none is
    /// known.
    fn look_beyond(&mut self, claim: &mut Claim<'_, '_>, course: &mut Course<'_>, are_few: bool) {
        self.look_at_the_dear(claim, Some(course.tier));
        let limit = self.limit.take();
        while limit.is_some() && !self.is_settled(course.tier) {
            let Step::Look(prey) = self.next_in(claim, course) else { break };
            self.vain_looks += usize::from(!are_few);
            if self.vain_looks == self.donors.patience && self.rule_out(claim) {
                break;
            }
            self.look_for(claim, course.tier, prey);
        }
        self.limit = limit;
    }

    /// Looks where it was too dear, until there is a plan that takes nothing of a worse tier than
    /// `until`.
    fn look_at_the_dear(&mut self, claim: &mut Claim<'_, '_>, until: Option<Tier>) {
        let limit = self.limit.take();
        let known = self.in_doubt.len();
        for (tier, machine) in std::mem::take(&mut self.too_dear_on) {
            if until.is_some_and(|until| self.is_settled(until)) {
                break;
            }
            self.look_at_all(claim, [(tier, machine)]);
        }
        self.in_doubt.truncate(known);
        self.limit = limit;
    }

    /// Whether the best plan takes nothing of a worse tier than `tier`.
    fn is_settled(&self, tier: Tier) -> bool {
        self.ranked.first().is_some_and(|((worst, ..), _)| *worst <= Some(tier))
    }

    /// Looks at the machines of the shares in `course`. Of few shares each is looked at.
    fn follow(
        &mut self,
        claim: &mut Claim<'_, '_>,
        course: &mut Course<'_>,
        are_few: bool,
    ) -> Followed {
        let (mut looks, mut last_looks) = (ENOUGH_LOOKS, LAST_LOOKS);
        let tier = Some(course.tier);
        // Whoever gives more willingly at too high a price is not spared for others.
        if self
            .ranked
            .first()
            .is_some_and(|((worst, ..), _)| *worst < tier && !self.has_affordable())
        {
            return Followed::Enough;
        }
        loop {
            let prey = match self.next_in(claim, course) {
                Step::Look(prey) => prey,
                Step::Beyond(loss) => return self.stop_at_limit(course.tier, loss),
                Step::End => return Followed::ToTheEnd,
            };
            let has_affordable = self.has_affordable();
            if !has_affordable && !are_few {
                self.vain_looks += 1;
                if self.vain_looks == self.donors.patience && self.rule_out(claim) {
                    return Followed::Everywhere;
                }
            }
            // The least that a plan can cost from here on.
            let least = (tier, prey.loss, 1, QShares(0), prey.machine());
            let is_known = has_affordable && self.ranked[0].0 <= least;
            let is_told = TOLD_PLANS <= self.tried || last_looks == 0;
            // One of a worse tier is not compared with these.
            let is_settled = has_affordable && self.is_settled(course.tier);
            let is_enough = ENOUGH_PLANS <= self.tried && is_settled;
            if is_enough || looks == 0 || (is_known && is_told) {
                return Followed::Enough;
            }
            last_looks -= u32::from(is_known);
            looks -= u32::from(is_settled);
            self.look_for(claim, course.tier, prey);
        }
    }

    /// The next of `course` that might go from a machine that was not looked at.
    fn next_in(&self, claim: &Claim<'_, '_>, course: &mut Course<'_>) -> Step {
        let effort = &self.site.draft.effort;
        course.next_within(self.limit, |prey| {
            effort.search();
            !self.seen.contains(prey.machine()) && prey.order().0 <= claim.reach_to(prey.user())
        })
    }

    /// Looks at the machine of `prey`, which is of `tier`, if that may go.
    fn look_for(&mut self, claim: &mut Claim<'_, '_>, tier: Tier, prey: Prey) {
        let (machine, order) = (prey.machine(), prey.order());
        let Some(look) = self.look(claim, machine) else {
            self.seen.include(machine);
            return;
        };
        claim.reset();
        if claim.rule(self.site.draft.shares.job_at(prey.place()), order.0).is_some() {
            self.seen.include(machine);
            self.compare(claim, look, (Some(tier), prey.loss));
        }
    }

    /// Whether the best plan may be worth it. Where none is, all is looked at that may be: others are told
    /// what was seen.
    pub(super) fn has_affordable(&self) -> bool {
        self.ranked.first().is_some_and(|((_, loss, ..), _)| self.may_lose(*loss))
    }

    /// Whether so much work may be lost.
    fn may_lose(&self, loss: Millis) -> bool {
        self.limit.is_none_or(|limit| loss <= limit)
    }

    /// Notes that what loses so much or more was not looked at.
    fn note_too_dear(&mut self, loss: Millis) {
        self.least_left = Some(self.least_left.map_or(loss, |least| least.min(loss)));
    }

    /// All others of `tier` lose so much, which is too much. Where there is a plan that takes nothing
    /// of a worse one, that is enough.
    fn stop_at_limit(&mut self, tier: Tier, loss: Millis) -> Followed {
        self.note_too_dear(loss);
        let is_enough = self.has_affordable() && self.is_settled(tier);
        if is_enough { Followed::Enough } else { Followed::ToTheLimit }
    }

    /// Leaves out the machines on which all that might go is too little. Where few are left, looks
    /// at all of them, and says that this was all.
    fn rule_out(&mut self, claim: &mut Claim<'_, '_>) -> bool {
        let draft = self.site.draft;
        claim.reset();
        let (mut open, mut possible) = (Vec::new(), Vec::new());
        for (machine, _) in draft.snapshot.machines_with_ix() {
            let Some(order) = self.site.order_on(machine) else { continue };
            draft.effort.search();
            let missing = draft.rooms.lacking(machine, order.qshares());
            let is_enough = is_enough_within_reach(draft, claim, machine, missing);
            if is_enough {
                possible.push(machine);
            }
            if is_enough && !self.seen.contains(machine) {
                open.push(machine);
            } else {
                self.seen.include(machine);
            }
        }
        self.possible = Some(possible);
        let are_few = open.len() <= FEW_MACHINES;
        if are_few {
            self.look_at_all(claim, open.into_iter().map(|machine| (None, machine)));
        }
        are_few
    }

    /// Looks at each of `machines` that will do, with the best tier of what might go there, if that is
    /// known.
    pub(super) fn look_at_all(
        &mut self,
        claim: &mut Claim<'_, '_>,
        machines: impl IntoIterator<Item = (Option<Tier>, MachineIx)>,
    ) {
        for (tier, machine) in machines {
            self.seen.include(machine);
            if let Some(look) = self.look(claim, machine) {
                self.compare(claim, look, (tier, 0));
            }
        }
    }

    /// What is to be seen on `machine`; `None` if it will not do, or not enough might go.
    fn look(&self, claim: &Claim<'_, '_>, machine: MachineIx) -> Option<Look> {
        let draft = self.site.draft;
        draft.effort.search();
        let order = self.site.order_on(machine)?;
        let missing = draft.rooms.lacking(machine, order.qshares());
        let there = There::on(draft, claim, machine, missing)?;
        Some(Look { machine, order, missing, there })
    }

    /// Makes a plan for a machine, unless it would not be among the best two, or worth it: no share
    /// that might go from there is of a better tier, or of this one and cheaper, than the given; of a
    /// search that is partial this holds for one of those that go.
    fn compare(
        &mut self,
        claim: &mut Claim<'_, '_>,
        Look { machine, order, missing, there }: Look,
        (tier, loss): (Option<Tier>, Millis),
    ) {
        self.tried += 1;
        let draft = self.site.draft;
        let mut least_there = there.loss;
        if self.limit.is_some() && self.may_lose(least_there) {
            least_there = least_loss_on(draft, claim, machine, missing).unwrap_or(Millis::MAX);
        }
        if !self.may_lose(least_there) {
            self.note_too_dear(least_there);
            self.too_dear_on.push((tier, machine));
            self.in_doubt.push(Doubt::new(machine, least_there));
            return;
        }
        let least_loss = there.least_loss(loss, self.is_partial);
        let least = (tier, least_loss, there.victims, there.overshoot, machine);
        let is_no_better = |(known, _): &(Cost, Plan)| {
            // Enough of this tier alone may not be there.
            let of_worse = || {
                let given = (&*claim, self.donors.tiers());
                let worst = least_worst_tier(draft, given, machine, missing)?;
                let least = (Some(worst), there.loss, there.victims, there.overshoot, machine);
                (tier < least.0).then_some(least)
            };
            *known <= least || (tier < known.0 && of_worse().is_some_and(|least| *known <= least))
        };
        if self.ranked.get(1).is_some_and(is_no_better) {
            // Nor would it be if it took only what is too dear, and thus has not been seen.
            if self.limit.is_some() {
                self.too_dear_on.push((None, machine));
            }
            self.in_doubt.push(Doubt::new(machine, least_there));
            return;
        }
        claim.reset();
        let plan = plan_on(draft, claim, machine, order, missing);
        if plan.as_ref().is_some_and(|(_, plan)| self.may_lose(plan.loss)) {
            self.in_doubt.push(Doubt::new(machine, least_there));
        } else {
            self.note_no_plan_on(claim, machine, missing);
        }
        self.rank(plan);
    }

    /// Keeps `plan` if it is among the best two, and is not known.
    pub(super) fn rank(&mut self, plan: Option<(Cost, Plan)>) {
        let plan = plan.filter(|(cost, _)| self.ranked.iter().all(|(known, _)| known != cost));
        self.plans += u64::from(plan.is_some());
        self.ranked.extend(plan);
        self.ranked.sort_by_key(|(cost, _)| *cost);
        self.ranked.truncate(2);
    }

    /// Notes that there is no plan for a machine that may be worth it, though as far as users and
    /// classes go there might be one.
    fn note_no_plan_on(&mut self, claim: &mut Claim<'_, '_>, machine: MachineIx, missing: QShares) {
        claim.reset();
        let least_loss = least_loss_by_right(self.site.draft, claim, machine, missing);
        let Some(least_loss) = least_loss else { return };
        self.in_doubt.push(Doubt::new(machine, least_loss));
        if !self.may_lose(least_loss) {
            self.note_too_dear(least_loss);
        }
    }

    /// The best plan, if it is worth it; else why there is none, with what others may know of it.
    pub(super) fn judged(
        self,
        limit: Option<Millis>,
        is_wide: bool,
        verdict: Option<Box<Verdict>>,
    ) -> Result<Plan, NoPlan> {
        let mut ranked = self.ranked.into_iter().map(|(_, plan)| plan);
        let best = ranked.next();
        let least = best.iter().map(|plan| plan.loss).chain(self.least_left).min();
        let too_dear = limit.zip(least).map(|(limit, loss)| HeldBack::TooDear { loss, limit });
        let Some(best) = best.filter(|best| limit.is_none_or(|limit| best.loss <= limit)) else {
            return Err(NoPlan { held_back: too_dear, is_wide, verdict });
        };
        let runner_up = ranked.next().map(|plan| RunnerUp {
            machine: plan.machine,
            victims: count(&plan.victims),
            loss: plan.loss,
        });
        let considered =
            Considered { machines: self.site.machines(), plans: self.plans, runner_up };
        Ok(Plan { considered, ..best })
    }
}
