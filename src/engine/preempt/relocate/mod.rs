//! Clears a machine by moving what is on it, where it cannot be cleared by right alone.
//!
//! Two machines of 4, each full of one user's processes of 1, and a third user who needs 4 in one
//! piece: to clear either machine would leave its user with nothing, so neither may be cleared,
//! though 2, 2 and 4 would be just. This is one plan in two steps: on the machine that is cleared
//! shares go by right as far as that reaches ([`Entitlement`]); every other one starts again elsewhere,
//! in room that is free, or else in room that the same request makes there by right. All of the plan
//! is found before any of it is done.
//!
//! Only in a cluster at rest, with defragmentation on, after all that can be had by right alone, and
//! for two kinds of work: for starved work, and for work in whose way only the last process of a job
//! stands to which it is owed. To move is to restart, which work that may get on soon is spared.
//!
//! Why it ends. What is moved has as many processes of the same order as before, so no amount falls
//! but by right. Within a cycle a request keeps what it was promised. Across cycles it is as
//! [`super::history`] says.

mod housing;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::budget::{self, is_at_rest};
use super::eligibility::Entitlement;
use super::feasible::Feasible;
use super::plan::{self, EvictionRank};
use super::queue::{BEYOND, Kind, Reclaim, Standing, is_less, kind, standing};
use super::{due, put_off};
use crate::engine::draft::Draft;
use crate::engine::report::CapBound;
use crate::engine::schedule::{Considered, PreemptionRule, RunnerUp};
use crate::engine::serve::{Service, Turn};
use crate::engine::shares::Holding;
use crate::model::{ClassIx, MachineIx, Millis, Order, PoolIx, QShares, count};
use housing::Housing;

/// So many machines are tried for one beneficiary, those first on which the least has to be moved.
const TRIED: usize = 32;

/// And so many kinds of requests at a time, the least served first.
const TRIED_KINDS: usize = 16;

/// Makes room for the least served of `jobs` that have nothing and for whom it can be made. Says
/// whether there was one: then somebody else may find by right what was not there before.
pub(super) fn relocate(draft: &mut Draft<'_>, reclaim: &mut Reclaim, jobs: &[usize]) -> bool {
    if !is_at_rest(draft) || !draft.snapshot.topology.settings.defragmentation {
        return false;
    }
    let candidates: Vec<usize> = jobs.iter().copied().filter(|&job| 0 < due(draft, job)).collect();
    let mut sites = Sites { free: free_room(draft), of_classes: BTreeMap::new() };
    let (mut is_done, mut tried) = (false, 0);
    draft.serve_by_holdings(
        &candidates,
        Turn::ByFinish,
        |draft, job| due(draft, job).min(1),
        |draft, job, _| {
            if is_done {
                return Service::Served;
            }
            if draft.effort.is_spent() {
                if draft.is_starved(job) {
                    put_off(draft, reclaim, job);
                }
                return Service::Refused;
            }
            if TRIED_KINDS <= tried {
                return Service::Refused;
            }
            let standing = standing(draft, job);
            let entitlement = Entitlement::new(draft, &reclaim.keeps, job);
            let kind = kind(draft, &entitlement, draft.is_starved(job));
            let Some(loss) = reclaim.tried.least_loss(kind, standing) else {
                return Service::Refused;
            };
            if let Some(held_back) = budget::objection_to(draft, job, loss) {
                draft.jobs[job].held_back = Some(held_back);
                return Service::Refused;
            }
            tried += 1;
            // Nothing changes until a plan is found.
            let plan = best_plan(draft, reclaim, job, &mut sites);
            let loss = plan.as_ref().map(|plan| plan.loss);
            reclaim.tried.0.insert(kind, (standing, loss));
            let Some(plan) = plan else { return Service::Refused };
            if let Some(held_back) = budget::objection_to(draft, job, plan.loss) {
                draft.jobs[job].held_back = Some(held_back);
                return Service::Refused;
            }
            draft.jobs[job].held_back = None;
            plan.carry_out(draft, reclaim, job);
            is_done = true;
            Service::Served
        },
    );
    is_done
}

/// What moving costs at least for kinds of requests that were tried in this cycle: the work that is lost;
/// `None` if there is no plan.
#[derive(Debug, Default)]
pub(super) struct Tried(BTreeMap<Kind, (Standing, Option<Millis>)>);

impl Tried {
    /// The least that it costs for requests of `kind` that are no worse off than `standing` says.
    fn least_loss(&self, kind: Kind, standing: Standing) -> Option<Millis> {
        match self.0.get(&kind) {
            Some((known, loss)) if !is_less(standing, *known) => *loss,
            _ => Some(0),
        }
    }
}

/// How much would have to go from a machine.
type Lack = (QShares, MachineIx);

/// What is known of the machines before anything is moved, for all who ask.
struct Sites {
    /// Room that may be given away now, on all machines together.
    free: QShares,
    /// The machines in scheduling for work of a class, the one first from which the least has to go,
    /// whatever it asks for. Known of those that were asked about.
    of_classes: BTreeMap<ClassIx, Vec<MachineIx>>,
}

impl Sites {
    /// The machines on which work of `site` could be, and some on which it could not, as it may not use them
    /// or they are too small: the one first from which the least has to go.
    fn by_lack(&mut self, site: &Feasible<'_, '_>) -> Cow<'_, [MachineIx]> {
        let (draft, job) = (site.draft, site.job);
        let ranked = |machines: &mut dyn Iterator<Item = MachineIx>| {
            let mut machines: Vec<MachineIx> = machines.collect();
            machines.sort_by_cached_key(|&ix| (draft.rooms.lacking(ix, BEYOND), ix));
            machines
        };
        if draft.jobs[job].is_confined {
            return Cow::Owned(ranked(&mut site.suitable()));
        }
        let of_class = self.of_classes.entry(draft.entities.class_of(job));
        Cow::Borrowed(of_class.or_insert_with(|| ranked(&mut site.in_scheduling())))
    }
}

/// Room that may be given away now, on all machines together.
fn free_room(draft: &Draft<'_>) -> QShares {
    let pools = (0..draft.snapshot.topology.pools.len()).map(PoolIx);
    pools.map(|pool| draft.rooms.usable_in(pool).0).sum()
}

/// Room for one nshare of a beneficiary on one machine.
struct Plan {
    machine: MachineIx,
    order: Order,
    /// What goes from there, by right or to be moved; none of them superfluous.
    victims: Vec<Victim>,
    /// Where what is moved goes.
    housing: Housing,
    /// The work that is lost, with what is moved as well.
    loss: Millis,
    /// What else could be done.
    considered: Considered,
}

/// A share that goes.
#[derive(Clone, Copy)]
struct Victim {
    holding: Holding,
    /// [`PreemptionRule::Relocation`] if it is moved.
    rule: PreemptionRule,
    order: Order,
    rank: EvictionRank,
    /// The work lost with it.
    loss: Millis,
}

/// What a plan costs; the least is best: rather free room than more victims, then the least work
/// lost, the fewest victims, the least room beyond what is needed. The machine comes last so that
/// no two plans ever tie.
type Cost = (bool, Millis, usize, QShares, MachineIx);

/// The cheapest way to make room for one nshare of `job` by moving what is in the way, if any is
/// found. No more can be moved than there is room for, free or to be had by right.
fn best_plan(draft: &Draft<'_>, reclaim: &Reclaim, job: usize, sites: &mut Sites) -> Option<Plan> {
    let mut search = Search::new(draft, reclaim, job);
    let is_blocked = || search.claim.is_blocked_by(|other| may_help(draft, job, other));
    if !draft.is_starved(job) && !is_blocked() {
        return None;
    }
    let free = sites.free;
    if free == QShares(0) && search.prey.is_empty() {
        return None;
    }
    let order = draft.jobs[job].order;
    let by_right: QShares = search.prey.values().copied().sum();
    let site = Feasible::new(draft, job);
    let is_suitable = |machine: &MachineIx| site.order_on(*machine).is_some();
    let lacking = |machine| draft.rooms.lacking(machine, order.qshares());
    let with_prey = search.prey.iter().filter(|(machine, _)| is_suitable(machine));
    let with_prey = with_prey.filter_map(|(&machine, &prey)| {
        let to_move = lacking(machine).saturating_sub(prey);
        (to_move <= free + (by_right - prey)).then_some((to_move, machine))
    });
    let by_lack = sites.by_lack(&site);
    let others = by_lack.iter().map(|&machine| (lacking(machine), machine));
    let others = others.take_while(|(missing, _)| *missing <= free + by_right);
    let others = others.filter(|(_, machine)| !search.prey.contains_key(machine));
    let others = others.filter(|(_, machine)| is_suitable(machine)).take(TRIED);
    let mut open: Vec<Lack> = with_prey.chain(others).collect();
    open.sort_unstable();
    open.truncate(TRIED);
    let cleared: Vec<(MachineIx, Vec<Victim>)> = open
        .into_iter()
        .filter_map(|(_, machine)| Some((machine, search.clear(machine, order)?)))
        .collect();
    let mut plans = search.plans(&cleared, order, false);
    if plans.is_empty() {
        plans = search.plans(&cleared, order, true);
    }
    plans.sort_unstable_by_key(|(cost, _)| *cost);
    let found = count(&plans);
    let mut plans = plans.into_iter();
    let (_, best) = plans.next()?;
    let runner_up = plans.next().map(|((_, loss, victims, ..), other)| RunnerUp {
        machine: other.machine,
        victims: count(0..victims),
        loss,
    });
    Some(Plan {
        considered: Considered { machines: site.machines(), plans: found, runner_up },
        ..best
    })
}

/// A search for a plan for one beneficiary.
struct Search<'d, 'a> {
    draft: &'d Draft<'a>,
    beneficiary: usize,
    claim: Entitlement<'d, 'a>,
    /// How much belongs to those that might give something, by machine.
    prey: BTreeMap<MachineIx, QShares>,
    /// For shares of an order, once it was asked, where room for them may be taken, the cheapest first.
    homes: BTreeMap<Order, Rc<[MachineIx]>>,
}

impl<'d, 'a> Search<'d, 'a> {
    fn new(draft: &'d Draft<'a>, reclaim: &'d Reclaim, beneficiary: usize) -> Search<'d, 'a> {
        let claim = Entitlement::new(draft, &reclaim.keeps, beneficiary);
        let mut prey: BTreeMap<MachineIx, QShares> = BTreeMap::new();
        for group in 0..draft.entities.groups().len() {
            if !claim.reaches_user(group) {
                continue;
            }
            let members = draft.entities.members(group);
            for &job in members.iter().filter(|&&job| 0 < draft.jobs[job].held) {
                let order = draft.jobs[job].order.qshares();
                if claim.rule(job, order.0).is_some() {
                    for (_, share) in draft.shares.held_by(job) {
                        *prey.entry(share.machine()).or_default() += share.order.qshares();
                    }
                }
            }
        }
        Search { draft, beneficiary, claim, prey, homes: BTreeMap::new() }
    }

    /// The shares that have to go from `machine` so that one of `order` fits: by right as far as
    /// that reaches, then such as may be moved.
    fn clear(&mut self, machine: MachineIx, order: Order) -> Option<Vec<Victim>> {
        self.draft.effort.search();
        let missing = self.draft.rooms.lacking(machine, order.qshares());
        self.claim.reset();
        let (mut victims, mut rest) = (Vec::new(), Vec::new());
        let mut freed = QShares(0);
        for victim in self.shares_on(machine) {
            match self.claim.rule(victim.holding.job, victim.order.qshares().0) {
                Some(_) if missing <= freed => break,
                Some(rule) => {
                    self.claim.take(victim.holding.job, victim.order.qshares().0);
                    freed += victim.order.qshares();
                    victims.push(Victim { rule, ..victim });
                }
                None => rest.push(victim),
            }
        }
        // What can start again in free room goes first; of that a process that only stays as it is owed to
        // its job.
        let nothing = Housing::default();
        rest.sort_by_cached_key(|&victim| {
            let (job, quanta) = (victim.holding.job, victim.order.qshares().0);
            let has_home = self.free_home(machine, victim, &nothing).is_some();
            (!has_home, !self.claim.would_go_but_is_owed(job, quanta))
        });
        for victim in rest {
            if freed < missing && self.may_move(victim) {
                freed += victim.order.qshares();
                victims.push(victim);
            }
        }
        (missing <= freed).then(|| spare_superfluous(victims, missing))
    }

    /// The shares on `machine` that do not leave, the cheapest to lose first.
    fn shares_on(&self, machine: MachineIx) -> Vec<Victim> {
        let shares = self.draft.rooms.held_shares(machine).map(|(holding, tenant)| Victim {
            holding,
            rule: PreemptionRule::Relocation,
            order: self.draft.shares.at(holding).order,
            rank: EvictionRank::of(self.draft, self.draft.shares.at(holding)),
            loss: tenant.loss(),
        });
        let mut shares: Vec<Victim> = shares.collect();
        shares.sort_unstable_by_key(|victim| victim.rank);
        shares
    }

    /// Whether a share may be moved: it is a peer's, and its job may start another in its place. One
    /// that holds more than its cap would not get it back, nor would one that is ending.
    fn may_move(&self, victim: Victim) -> bool {
        let (draft, job) = (self.draft, victim.holding.job);
        let (class, own) = [job, self.beneficiary].map(|ix| draft.class_of(ix)).into();
        let cap = draft.jobs[job].demand.cap;
        job != self.beneficiary
            && may_help(draft, self.beneficiary, job)
            && class.policy.is_preemptable()
            && class.priority == own.priority
            && victim.order == draft.jobs[job].order
            && draft.has(job) <= cap.nshares.0
            && !matches!(cap.bound, CapBound::Completing | CapBound::Spent)
    }

    /// The plans to clear these machines: with free room for what is moved, or also with such as is
    /// made elsewhere by right.
    fn plans(
        &mut self,
        cleared: &[(MachineIx, Vec<Victim>)],
        order: Order,
        makes_room: bool,
    ) -> Vec<(Cost, Plan)> {
        let mut plans = Vec::new();
        for (machine, victims) in cleared {
            let (machine, victims) = (*machine, victims.clone());
            let Some(housing) = self.house(machine, &victims, makes_room) else { continue };
            let freed: QShares = victims.iter().map(|victim| victim.order.qshares()).sum();
            let missing = self.draft.rooms.lacking(machine, order.qshares());
            let all = || victims.iter().chain(housing.victims.values().flatten());
            let loss = all().map(|victim| victim.loss).fold(0, Millis::saturating_add);
            let overshoot = freed.saturating_sub(missing);
            let cost = (makes_room, loss, all().count(), overshoot, machine);
            let considered = Considered::default();
            plans.push((cost, Plan { machine, order, victims, housing, loss, considered }));
        }
        plans
    }

    /// Sets the claim back to where only these of `victims` are taken that go by right.
    fn recall<'v>(&mut self, victims: impl Iterator<Item = &'v Victim>) {
        self.claim.reset();
        for victim in victims.filter(|victim| victim.rule != PreemptionRule::Relocation) {
            self.claim.take(victim.holding.job, victim.order.qshares().0);
        }
    }
}

/// Whether to move a process of `job` may make room for one of `beneficiary`: where one goes that is no
/// smaller, and that the beneficiary may use, it could go itself.
fn may_help(draft: &Draft<'_>, beneficiary: usize, job: usize) -> bool {
    let [own, theirs] = [beneficiary, job].map(|ix| draft.class_of(ix).pool);
    draft.jobs[job].order < draft.jobs[beneficiary].order
        || draft.jobs[beneficiary].is_confined
        || !draft.pools.is_within(theirs, own)
}

impl Plan {
    /// Clears the machine for `job`, and starts again elsewhere what is moved.
    fn carry_out(self, draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: usize) {
        let elsewhere = self.housing.victims.into_values().flatten();
        for victim in self.victims.into_iter().chain(elsewhere) {
            draft.preempt(victim.holding, victim.rule, Some((job, self.considered)));
            reclaim.note_taken(draft, victim.holding, victim.rule, job);
        }
        for home in self.housing.homes {
            if home.is_free {
                draft.expand(home.job, home.machine, home.order);
            } else {
                draft.promise(home.job, home.machine, home.order);
            }
            reclaim.note_used(draft, home.machine);
        }
        draft.promise(job, self.machine, self.order);
        reclaim.note_used(draft, self.machine);
    }
}

/// Gives back, the last first, whoever is not needed after all: those who would be moved before
/// those who go by right, and of each the dearest first.
fn spare_superfluous(victims: Vec<Victim>, missing: QShares) -> Vec<Victim> {
    plan::spare_superfluous(victims, |victim| victim.order.qshares(), missing)
}
