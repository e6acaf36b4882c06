//! Finds the cheapest machine for a request: one lazy queue for each kind of request.
//!
//! A kind is a class, an order and some rights. Its queue holds machines by a lower bound of what
//! room there costs. The first is costed anew for the request: if it is still what it was, it is the
//! cheapest of all; if it became dearer, it goes back; if it became impossible, it is dropped.
//!
//! That is exact because costs only rise within a cycle. Requests of a kind come least served first,
//! a side only loses (`keeps.rs`), and where room changes, `touched` says so. A queue whose request
//! is worse off than the one before is filled anew.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::budget::{self, Worth};
use super::eligibility::Entitlement;
use super::feasible::Feasible;
use super::keeps::Keeps;
use super::offers::Offers;
use super::plan::{Cost, Plan, plan_on};
use super::relocate::Tried;
use crate::engine::draft::Draft;
use crate::engine::report::HeldBack;
use crate::engine::schedule::{Considered, PreemptionRule, RunnerUp};
use crate::engine::shares::Holding;
use crate::model::{MachineIx, Millis, Policy, QShares, count};

/// What is kept from request to request within a cycle.
pub(super) struct Reclaim {
    pub keeps: Keeps,
    /// What was found by moving.
    pub tried: Tried,
    offers: Offers,
    queues: BTreeMap<Kind, Queue>,
    /// The machines where something left or was earmarked, in turn.
    touched: Vec<MachineIx>,
    /// For each job, after how many touches nothing was found for it.
    failed: Vec<Option<usize>>,
    /// For a user within a class, an order and rights: with how many quanta a job found nothing that its
    /// user's other jobs might give, and after how many touches.
    own: BTreeMap<(usize, u64, u8), (u64, usize)>,
    /// The jobs that had their turn in this cycle, or were put off.
    asked: BTreeSet<usize>,
}

/// A kind of request, for which the same may go: its class, its order, its rights; its user, where the
/// user may not take from all; the job itself, where that lists its machines; and what it may cost in a
/// cluster at rest.
pub(super) type Kind = (usize, u64, u8, Option<usize>, Option<usize>, Option<Millis>);

/// What the class and user of a request hold: what is found for it holds for all of its kind that are no
/// worse off.
pub(super) type Standing = (u64, u64);

/// An offer by its cost: of whose offers, and its place there.
type NextOffer = (Cost, (usize, bool), usize);

/// The machines where a kind of request might find room.
struct Queue {
    /// Of the request that asked last.
    standing: Standing,
    /// The next offer of each user that might give something.
    offers: BinaryHeap<Reverse<NextOffer>>,
    /// For each machine, whether a plan was made for it, or none was right.
    is_tried: Vec<bool>,
    /// Machines by a lower bound of the cost; before they are tried with the user that offers something.
    heap: BinaryHeap<Reverse<(Cost, Option<usize>)>>,
    /// So many touches are taken into account.
    seen: usize,
}

impl Reclaim {
    pub(super) fn new(draft: &Draft<'_>) -> Reclaim {
        Reclaim {
            keeps: Keeps::new(draft),
            tried: Tried::default(),
            offers: Offers::new(draft),
            queues: BTreeMap::new(),
            touched: Vec::new(),
            failed: vec![None; draft.jobs.len()],
            own: BTreeMap::new(),
            asked: BTreeSet::new(),
        }
    }

    /// Notes that it is the turn of `job`. Says whether it had none before in this cycle.
    pub(super) fn take_turn(&mut self, job: usize) -> bool {
        self.asked.insert(job)
    }

    /// Notes that nothing was found for `job`.
    pub(super) fn note_failed(&mut self, job: usize) {
        self.failed[job] = Some(self.touched.len());
    }

    /// Whether to search for `job` would only repeat what found nothing.
    pub(super) fn has_failed(&self, job: usize) -> bool {
        self.failed[job] == Some(self.touched.len())
    }

    /// Notes that `holding` was taken under `rule`, for the job at `taker`.
    pub(super) fn note_taken(
        &mut self,
        draft: &Draft<'_>,
        holding: Holding,
        rule: PreemptionRule,
        taker: usize,
    ) {
        let share = draft.shares.at(holding);
        if rule.is_taking() && rule != PreemptionRule::Priority {
            self.keeps.note_giver(holding.job);
            self.keeps.note_taker(taker);
        }
        self.keeps.lose(draft, holding.job, share.order.qshares().0);
        self.touched.push(share.machine());
    }

    /// Notes that room on `machine` was given away.
    pub(super) fn note_used(&mut self, machine: MachineIx) {
        self.touched.push(machine);
    }

    /// The cheapest way to make room for one process of `job`: the best worst eviction class, then the
    /// least work lost, the fewest victims, the least room beyond what is needed. Else why there is
    /// none that is carried out, if there is a reason other than that none is right.
    pub(super) fn best_plan(
        &mut self,
        draft: &Draft<'_>,
        job: usize,
    ) -> Result<Plan, Option<HeldBack>> {
        let feasible = Feasible::new(draft, job);
        if let Some(plan) = feasible.room_to_come().filter(|_| !self.keeps.has_given(job)) {
            return Ok(plan);
        }
        let mut entitlement = Entitlement::new(draft, &self.keeps, job);
        if !entitlement.is_entitled() {
            return Err(None);
        }
        if let (false, Worth::Nothing(held_back)) =
            (entitlement.reaches_worse_priorities(), budget::worth(draft, job))
        {
            return Err(Some(held_back));
        }
        let found = if draft.jobs[job].is_confined || draft.class_of(job).policy == Policy::Reserve
        {
            let mut plans = Plans::default();
            for machine in feasible.suitable() {
                plans.consider(draft, &feasible, &mut entitlement, machine);
            }
            plans
        } else {
            let (order, user) = (draft.jobs[job].order.qshares().0, draft.entities.group_of(job));
            let standing = standing(draft, job);
            let kind = kind(draft, &entitlement, false);
            let touched = self.touched.len();
            let begin = || Queue::new(draft, (&self.offers, &entitlement), standing, touched);
            let queue = self.queues.entry(kind).or_insert_with(begin);
            if is_less(standing, queue.standing) {
                *queue = begin();
            }
            queue.standing = standing;
            let own = (user, order, entitlement.rights());
            let state = (draft.held.jobs[job], self.touched.len());
            let is_known =
                self.own.get(&own).is_some_and(|known| known.0 <= state.0 && known.1 == state.1);
            let mut plans = Plans::default();
            let request = (&feasible, &mut entitlement);
            queue.search(draft, &self.offers, request, &self.touched, &mut plans);
            if !is_known && !own_plans(draft, &self.offers, &feasible, &mut entitlement, &mut plans)
            {
                self.own.insert(own, state);
            }
            plans
        };
        found.best(&feasible).ok_or(None)
    }
}

/// The kind of the request of `entitlement`; with its user where that has other jobs, which may give it
/// something, or without.
pub(super) fn kind(draft: &Draft<'_>, entitlement: &Entitlement<'_, '_>, with_own: bool) -> Kind {
    let job = entitlement.requester;
    let (class, user) = (draft.entities.class_of(job), draft.entities.group_of(job));
    let has_others = with_own && draft.held.jobs[job] < draft.held.groups[user];
    let is_apart = has_others || entitlement.is_barred();
    let order = draft.jobs[job].order.qshares().0;
    let confined = draft.jobs[job].is_confined.then_some(job);
    let apart = is_apart.then_some(user);
    (class.0, order, entitlement.rights(), apart, confined, entitlement.limit)
}

/// What the class and user of `job` hold.
pub(super) fn standing(draft: &Draft<'_>, job: usize) -> Standing {
    let (class, user) = (draft.entities.class_of(job), draft.entities.group_of(job));
    (draft.held.classes[class.0], draft.held.groups[user])
}

/// Whether the class or user of a request is worse off than another was.
pub(super) fn is_less(standing: Standing, other: Standing) -> bool {
    standing.0 < other.0 || standing.1 < other.1
}

/// The plans made for one request.
#[derive(Default)]
struct Plans {
    made: u64,
    best: Option<(Cost, Plan)>,
    runner_up: Option<(Cost, Plan)>,
}

impl Plans {
    /// Makes a plan for `machine`, and keeps it if it is one of the two best. Says what it costs.
    fn consider(
        &mut self,
        draft: &Draft<'_>,
        feasible: &Feasible<'_, '_>,
        entitlement: &mut Entitlement<'_, '_>,
        machine: MachineIx,
    ) -> Option<Cost> {
        draft.effort.search();
        let order = feasible.order_on(machine)?;
        entitlement.reset();
        let missing = draft.rooms.lacking(machine, order.qshares());
        if missing == QShares(0) && entitlement.has_given() {
            return None;
        }
        let found = plan_on(draft, entitlement, machine, order, missing);
        entitlement.reset();
        let (cost, plan) = found?;
        let is_known =
            |known: &Option<(Cost, Plan)>| known.as_ref().is_some_and(|(k, _)| *k == cost);
        if is_known(&self.best) || is_known(&self.runner_up) {
            return Some(cost);
        }
        self.made += 1;
        if self.best.as_ref().is_none_or(|(known, _)| cost < *known) {
            self.runner_up = self.best.replace((cost, plan));
        } else if self.runner_up.as_ref().is_none_or(|(known, _)| cost < *known) {
            self.runner_up = Some((cost, plan));
        }
        Some(cost)
    }

    /// Whether a plan that costs no less than `bound` would be none of the two best.
    fn are_complete(&self, bound: &Cost) -> bool {
        self.runner_up.as_ref().is_some_and(|(cost, _)| cost < bound)
    }

    /// The best of them, with what else could be done.
    fn best(self, feasible: &Feasible<'_, '_>) -> Option<Plan> {
        let runner_up = self.runner_up.map(|(_, plan)| RunnerUp {
            machine: plan.machine,
            victims: count(&plan.victims),
            loss: plan.loss,
        });
        let (_, plan) = self.best?;
        let considered = Considered { machines: feasible.machines(), plans: self.made, runner_up };
        Some(Plan { considered, ..plan })
    }
}

/// Makes plans for the machines of its own user's other jobs: those give to it alone at that level.
/// Says whether any of them might give.
fn own_plans(
    draft: &Draft<'_>,
    offers: &Offers,
    feasible: &Feasible<'_, '_>,
    entitlement: &mut Entitlement<'_, '_>,
    plans: &mut Plans,
) -> bool {
    let user = draft.entities.group_of(feasible.job);
    let mut jobs = draft.entities.members(user).iter();
    let may_give = jobs.any(|&job| {
        draft.effort.search();
        0 < draft.jobs[job].held
            && entitlement.rule(job, draft.jobs[job].order.qshares().0).is_some()
    });
    if !may_give {
        return false;
    }
    let of_user = (user, !entitlement.gives_first_processes());
    for &offer in offers.of(draft, entitlement.keeps, of_user) {
        if plans.are_complete(&offer) {
            break;
        }
        let machine = offer.machine;
        let Some(order) = feasible.order_on(machine) else { continue };
        let missing = draft.rooms.lacking(machine, order.qshares());
        let bound = offers.bound(draft, offer, missing);
        if bound.is_some_and(|bound| !plans.are_complete(&bound.within(entitlement.limit))) {
            plans.consider(draft, feasible, entitlement, machine);
        }
    }
    true
}

impl Queue {
    /// The queue for all requests that are entitled alike, the class and user of the first of which hold
    /// so much.
    fn new(
        draft: &Draft<'_>,
        (offers, entitlement): (&Offers, &Entitlement<'_, '_>),
        standing: Standing,
        touched: usize,
    ) -> Queue {
        let own_class = draft.entities.class_of(entitlement.requester);
        let mut other_class = None;
        let groups = draft.entities.groups().iter().enumerate();
        let first_offers = groups.filter_map(|(group, &(class, _))| {
            draft.effort.search();
            let &job = draft.entities.members(group).first()?;
            if draft.held.groups[group] == 0 {
                return None;
            }
            let is_reached = match other_class {
                // It is the same for all users of another class.
                Some((known, is_reached)) if known == class => is_reached,
                _ => entitlement.reaches(job),
            };
            other_class = (class != own_class).then_some((class, is_reached));
            if !is_reached {
                return None;
            }
            let of_group = (group, entitlement.reaches_last_processes(job));
            let first = offers.of(draft, entitlement.keeps, of_group).first()?;
            Some(Reverse((*first, of_group, 0)))
        });
        Queue {
            standing,
            offers: first_offers.collect(),
            is_tried: vec![false; draft.snapshot.machines.len()],
            heap: BinaryHeap::new(),
            seen: touched,
        }
    }

    /// Finds the two best plans.
    fn search(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, entitlement): (&Feasible<'_, '_>, &mut Entitlement<'_, '_>),
        touched: &[MachineIx],
        plans: &mut Plans,
    ) {
        for &machine in &touched[self.seen..] {
            if feasible.order_on(machine).is_some() {
                self.heap.push(Reverse((Cost::nothing(machine), None)));
            }
        }
        self.seen = touched.len();
        let mut found = Vec::new();
        loop {
            self.offer(draft, offers, (feasible, entitlement));
            let Some(&Reverse((bound, offerer))) = self.heap.peek() else { break };
            if plans.are_complete(&bound) {
                break;
            }
            self.heap.pop();
            let machine = bound.machine;
            if self.heap.peek() == Some(&Reverse((bound, None)))
                || offerer
                    .is_some_and(|user| self.is_tried[machine.0] || !entitlement.reaches_user(user))
            {
                continue;
            }
            self.is_tried[machine.0] = true;
            match plans.consider(draft, feasible, entitlement, machine) {
                Some(cost) if bound < cost => self.heap.push(Reverse((cost, None))),
                Some(cost) => found.push(Reverse((cost, None))),
                None => {}
            }
        }
        self.heap.extend(found);
    }

    /// Enters all machines that might be cheaper than the first.
    fn offer(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, entitlement): (&Feasible<'_, '_>, &Entitlement<'_, '_>),
    ) {
        while let Some(mut next) = self.offers.peek_mut() {
            let Reverse((bound, of_group, place)) = *next;
            if self.heap.peek().is_some_and(|Reverse((first, _))| *first < bound) {
                return;
            }
            draft.effort.search();
            if !entitlement.reaches_user(of_group.0) {
                PeekMut::pop(next);
                continue;
            }
            match offers.of(draft, entitlement.keeps, of_group).get(place + 1) {
                Some(following) => *next = Reverse((*following, of_group, place + 1)),
                None => drop(PeekMut::pop(next)),
            }
            let machine = bound.machine;
            if self.is_tried[machine.0] {
                continue;
            }
            let Some(order) = feasible.order_on(machine) else { continue };
            let missing = draft.rooms.lacking(machine, order.qshares());
            let bound = offers.bound(draft, bound, missing);
            let bound = bound.map(|bound| bound.within(entitlement.limit));
            self.heap.extend(bound.map(|bound| Reverse((bound, Some(of_group.0)))));
        }
    }
}
