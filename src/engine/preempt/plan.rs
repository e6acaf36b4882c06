//! Chooses the machine on which to make room.

use std::collections::BTreeSet;

use super::courses::{Course, Courses, Step};
use super::donors::Donors;
use super::price::{self, Worth};
use super::right::Claim;
use super::site::Site;
use super::vain::{Doubt, Extent, Left, Verdict};
use super::victims::{
    There, Tier, Victim, choose_victims, is_enough_within_reach, least_loss_by_right, least_loss_on,
};
use crate::engine::draft::Draft;
use crate::engine::report::HeldBack;
use crate::engine::schedule::{Considered, RunnerUp};
use crate::model::{MachineIx, Millis, Order, QShares, count};

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
/// After so many shares without a plan, or more in a large cluster, it is found out on which machines
/// there may be one at all.
const VAIN_LOOKS: usize = 256;
/// So many machines are ruled out, or not, in the time of one look.
const MACHINES_A_LOOK: usize = 4;
/// If there are no more than so many, all of them are looked at, and nothing else.
const FEW_MACHINES: usize = 64;

/// The cheapest way to make room for one nshare of `job`, if there is any legal one that may be worth
/// it: the best worst tier, then the least work lost, the fewest victims, the least room beyond what
/// is needed.
pub(super) fn best_plan(draft: &Draft<'_>, donors: &Donors, job: usize) -> Result<Plan, NoPlan> {
    let site = Site::new(draft, job);
    if let Some(plan) = site.room_to_come() {
        return Ok(plan);
    }
    let mut claim = Claim::new(draft, donors.reach(), job);
    let limit = match price::worth(draft, job) {
        _ if claim.reaches_worse_priorities() => None,
        Worth::Anything => None,
        Worth::UpTo(limit) => Some(limit),
        Worth::Nothing(held_back) => return Err(NoPlan::held_back(held_back)),
    };
    let extent = claim.extent(limit);
    let left = extent.as_ref().and_then(|extent| donors.vain().left_for(draft, extent));
    if let Some(left) = left {
        let mut search = Search::new(site, limit);
        if search.is_told_by(donors, &mut claim, &left) {
            return search.judged(limit, left.is_wide, None);
        }
        claim.reset();
    }
    let courses = donors.courses(draft, &claim, job);
    let mut search = Search::new(site, limit);
    search.follow_all(&mut claim, &courses);
    let is_wide = courses.is_wide;
    let verdict = extent.and_then(|extent| search.verdict(extent, is_wide)).map(Box::new);
    search.judged(limit, is_wide, verdict)
}

/// That there is no plan, or none that is worth it.
pub(super) struct NoPlan {
    /// Why none that is right would be carried out; `None` if none is right.
    pub held_back: Option<HeldBack>,
    /// Whether most of the beneficiary's own class was looked at.
    pub is_wide: bool,
    /// What others may know of it, if it can be compared.
    pub verdict: Option<Box<Verdict>>,
}

impl NoPlan {
    fn held_back(held_back: HeldBack) -> NoPlan {
        NoPlan { held_back: Some(held_back), is_wide: false, verdict: None }
    }
}

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
struct Search<'d, 'a> {
    site: Site<'d, 'a>,
    /// What may be lost at most, if that is limited.
    limit: Option<Millis>,
    /// What was not looked at as it is too dear loses no less.
    least_left: Option<Millis>,
    /// Where no plan can be worth it, with the best tier of what might go.
    too_dear_on: Vec<(Option<Tier>, MachineIx)>,
    /// Where enough might go that may be worth it, as far as users and classes go, with the best tier of
    /// it, and the least that is lost there.
    in_doubt: Vec<(Option<Tier>, Doubt)>,
    /// All was looked at that may be worth it and takes nothing of this tier, or a worse one; `None` if
    /// that was all.
    seen_before: Option<Tier>,
    /// For each machine whether it was looked at, or need not be.
    seen: Vec<bool>,
    /// On how many machines enough might go.
    tried: u64,
    /// For how many of them a plan was made.
    plans: u64,
    /// How many shares were looked at before there was a plan.
    vain_looks: usize,
    /// The best plan, and the best of the others.
    ranked: Vec<(Cost, Plan)>,
}

impl<'d, 'a> Search<'d, 'a> {
    fn new(site: Site<'d, 'a>, limit: Option<Millis>) -> Search<'d, 'a> {
        Search {
            site,
            limit,
            least_left: None,
            too_dear_on: Vec::new(),
            in_doubt: Vec::new(),
            seen_before: None,
            seen: Vec::new(),
            tried: 0,
            plans: 0,
            vain_looks: 0,
            ranked: Vec::new(),
        }
    }

    /// Looks at the machines of the shares in `courses`, those of the best tier first: in each tier as
    /// far as they may be worth it.
    fn follow_all(&mut self, claim: &mut Claim<'_, '_>, courses: &Courses<'_, '_>) {
        self.seen = vec![false; self.site.draft.snapshot.machines.len()];
        let mut too_dear = Vec::new();
        for mut course in courses.in_turn() {
            match self.follow(claim, &mut course, courses.are_few) {
                Followed::ToTheEnd => {}
                Followed::ToTheLimit => too_dear.push(course),
                Followed::Enough => {
                    self.seen_before = Some(course.tier);
                    break;
                }
                Followed::Everywhere => break,
            }
        }
        let best = self.ranked.first().map(|(cost, _)| *cost);
        let Some((worst, ..)) = best.filter(|_| self.has_affordable()) else { return };
        // Who gives less willingly is spared where others would do, however much that costs.
        (self.limit, self.tried) = (None, 0);
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let others = std::mem::take(&mut self.too_dear_on);
        for (_, machine) in &others {
            self.seen[machine.0] = false;
        }
        let better = others.into_iter().filter(|(tier, _)| *tier < worst);
        self.look_at_all(claim, better.map(|(_, machine)| machine));
        for mut course in too_dear {
            let _ = self.follow(claim, &mut course, courses.are_few);
        }
        self.in_doubt = in_doubt;
    }

    /// Looks where alone something may be found. Says whether that was enough.
    fn is_told_by(&mut self, donors: &Donors, claim: &mut Claim<'_, '_>, left: &Left) -> bool {
        let limit = self.limit;
        let (own, least_own) =
            donors.machines_of_peers(self.site.draft, claim, self.site.job, limit);
        let least_left = left.least_loss.into_iter().chain(least_own).min();
        if let Some((tier, machine)) = left.sooner {
            // Whether what others give more willingly would do here, too.
            self.limit = None;
            self.look_at_all(claim, [machine]);
            let is_held_back = |((worst, loss, ..), _): &(Cost, Plan)| {
                *worst <= Some(tier) && limit.is_some_and(|limit| limit < *loss)
            };
            if !self.ranked.first().is_some_and(is_held_back) {
                return false;
            }
        }
        // Where nothing is too dear elsewhere, what is too dear here is the best there is.
        self.limit = limit.filter(|_| least_left.is_some());
        let machines = left.machines.iter().copied().chain(own);
        self.look_at_all(claim, machines.collect::<BTreeSet<MachineIx>>());
        self.least_left = self.least_left.into_iter().chain(least_left).min();
        // What is worth it here is to be compared with what others did not look at, as they would not
        // have it.
        least_left.is_none() || !self.has_affordable()
    }

    /// What others may know of a search of which nothing came.
    fn verdict(&self, extent: Extent, is_wide: bool) -> Option<Verdict> {
        let sooner = match self.ranked.first() {
            Some(((worst, loss, .., machine), _)) => {
                let is_known = self.seen_before.is_none_or(|tier| *worst < Some(tier));
                let is_too_dear = extent.limit.is_some_and(|limit| limit < *loss);
                Some((worst.filter(|_| is_known && is_too_dear)?, *machine))
            }
            None => None,
        };
        // On a machine where the best is of a worse tier nobody finds anything else.
        let best = sooner.map(|(tier, _)| tier);
        let in_doubt = self.in_doubt.iter().filter(|(tier, _)| best.is_none() || *tier <= best);
        let in_doubt = in_doubt.map(|(_, doubt)| *doubt).collect();
        Some(Verdict { extent, is_wide, least_left: self.least_left, sooner, in_doubt })
    }

    /// Looks at the machines of the shares in `course`. Of few shares each is looked at.
    fn follow(
        &mut self,
        claim: &mut Claim<'_, '_>,
        course: &mut Course<'_, '_, '_>,
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
            let prey = match course.next_within(self.limit) {
                Step::Look(prey) => prey,
                Step::Beyond(loss) => return self.stop_at_limit(tier, loss),
                Step::End => return Followed::ToTheEnd,
            };
            let has_affordable = self.has_affordable();
            if !has_affordable && !are_few {
                self.vain_looks += 1;
                if self.vain_looks == self.patience() && self.rule_out(claim) {
                    return Followed::Everywhere;
                }
            }
            // The least that a plan can cost from here on.
            let least = (tier, prey.loss, 1, QShares(0), prey.machine());
            let is_known = has_affordable && self.ranked[0].0 <= least;
            let is_told = TOLD_PLANS <= self.tried || last_looks == 0;
            // One of a worse tier is not compared with these.
            let is_settled = has_affordable && self.ranked[0].0.0 <= tier;
            let is_enough = ENOUGH_PLANS <= self.tried && is_settled;
            if is_enough || looks == 0 || (is_known && is_told) {
                return Followed::Enough;
            }
            last_looks -= u32::from(is_known);
            looks -= u32::from(is_settled);
            let (machine, holding, order) = (prey.machine(), prey.holding(), prey.order());
            if self.seen[machine.0] || !claim.is_within_reach(holding.job, order.0) {
                continue;
            }
            let Some(look) = self.look(claim, machine) else {
                self.seen[machine.0] = true;
                continue;
            };
            claim.reset();
            if claim.rule(holding.job, order.0).is_some() {
                self.seen[machine.0] = true;
                self.compare(claim, look, (tier, prey.loss));
            }
        }
    }

    /// After so many looks in vain it is found out on which machines there may be a plan at all: when
    /// that is no more work than has been done.
    fn patience(&self) -> usize {
        VAIN_LOOKS.max(self.seen.len().div_ceil(MACHINES_A_LOOK))
    }

    /// Whether the best plan may be worth it. Where none is, all is looked at that may be: others are told
    /// what was seen.
    fn has_affordable(&self) -> bool {
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
    fn stop_at_limit(&mut self, tier: Option<Tier>, loss: Millis) -> Followed {
        self.note_too_dear(loss);
        let is_enough = self.has_affordable() && self.ranked[0].0.0 <= tier;
        if is_enough { Followed::Enough } else { Followed::ToTheLimit }
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
            if let Some(look) = self.look(claim, machine) {
                self.compare(claim, look, (None, 0));
            }
        }
    }

    /// What is to be seen on `machine`; `None` if it will not do, or not enough might go.
    fn look(&self, claim: &Claim<'_, '_>, machine: MachineIx) -> Option<Look> {
        let draft = self.site.draft;
        let order = self.site.order_on(machine)?;
        let missing = draft.rooms.lacking(machine, order.qshares());
        let there = There::on(draft, claim, machine, missing)?;
        Some(Look { machine, order, missing, there })
    }

    /// Makes a plan for a machine, unless it would not be among the best two, or worth it: no share
    /// that might go from there is of a better tier, or of this one and cheaper, than the given.
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
            return;
        }
        let least = (tier, there.least_loss(loss), there.victims, there.overshoot, machine);
        if self.ranked.get(1).is_some_and(|(cost, _)| *cost <= least) {
            // Nor would it be if it took only what is too dear, and thus has not been seen.
            if self.limit.is_some() {
                self.too_dear_on.push((None, machine));
            }
            self.in_doubt.push((tier, Doubt { machine, least_loss: least_there }));
            return;
        }
        claim.reset();
        let plan = plan_on(draft, claim, machine, order, missing);
        self.plans += u64::from(plan.is_some());
        if plan.as_ref().is_some_and(|(_, plan)| self.may_lose(plan.loss)) {
            self.in_doubt.push((tier, Doubt { machine, least_loss: least_there }));
        } else {
            self.note_no_plan_on(claim, machine, missing, tier);
        }
        self.ranked.extend(plan);
        self.ranked.sort_by_key(|(cost, _)| *cost);
        self.ranked.truncate(2);
    }

    /// Notes that there is no plan for a machine that may be worth it, though as far as users and
    /// classes go there might be one.
    fn note_no_plan_on(
        &mut self,
        claim: &mut Claim<'_, '_>,
        machine: MachineIx,
        missing: QShares,
        tier: Option<Tier>,
    ) {
        claim.reset();
        match least_loss_by_right(self.site.draft, claim, machine, missing) {
            Some(least_loss) if self.may_lose(least_loss) => {
                self.in_doubt.push((tier, Doubt { machine, least_loss }));
            }
            Some(loss) => self.note_too_dear(loss),
            None => {}
        }
    }

    /// The best plan, if it is worth it; else why there is none, with what others may know of it.
    fn judged(
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::nodepool::Holding;
    use crate::engine::preempt::right::Reach;

    /// How many machines would do for `job`, and of those on which something has to go the one on
    /// which room costs least, with whose shares go: found by trying all of them.
    pub(in super::super) fn try_all(
        draft: &Draft<'_>,
        job: usize,
    ) -> (u64, Option<(MachineIx, Vec<Holding>)>) {
        let site = Site::new(draft, job);
        let reach = Reach::new(draft);
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
