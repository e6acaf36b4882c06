//! The plan on which machine room is made, and how one is found: by what others know, or by a search.

use super::donors::Donors;
use super::price::{self, Worth};
use super::right::Claim;
use super::search::Search;
use super::site::Site;
use super::vain::Verdict;
use super::victims::{Tier, Victim, choose_victims};
use crate::engine::draft::Draft;
use crate::engine::report::HeldBack;
use crate::engine::schedule::Considered;
use crate::model::{MachineIx, Millis, Order, QShares};

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
pub(super) type Cost = (Option<Tier>, Millis, usize, QShares, MachineIx);

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
    let known = extent.as_ref().and_then(|extent| donors.vain().known_to(draft, extent));
    if let Some(known) = &known {
        let mut search = Search::new(site, donors, limit);
        if search.is_told_by(&mut claim, known) {
            return search.judged(limit, known.is_wide, None);
        }
        claim.reset();
    }
    let courses = donors.courses(draft, &claim, job);
    let mut search = Search::new(site, donors, limit);
    let is_enough = known.is_some_and(|known| search.goes_on_from(&mut claim, &courses, &known));
    if !is_enough {
        claim.reset();
        search = Search::new(site, donors, limit);
        search.go_through(&mut claim, &courses, extent.as_ref());
    }
    let verdict =
        extent.and_then(|extent| search.verdict(&claim, extent, courses.is_wide)).map(Box::new);
    search.judged(limit, courses.is_wide, verdict)
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

/// The best that can be done on one machine: room for a share of `order`, for which `missing` has to go.
pub(super) fn plan_on(
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
    use crate::engine::preempt::right::Reach;
    use crate::engine::shares::Holding;
    use crate::model::count;

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
