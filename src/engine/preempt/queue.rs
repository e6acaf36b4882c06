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
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::budget::{self, Worth};
use super::eligibility::Entitlement;
use super::feasible::Feasible;
use super::keeps::Keeps;
use super::plan::{Cost, EvictionClass, Plan, plan_on};
use crate::engine::draft::Draft;
use crate::engine::report::HeldBack;
use crate::engine::schedule::{Considered, PreemptionRule, RunnerUp};
use crate::engine::shares::Holding;
use crate::model::{MachineIx, Millis, Policy, QShares, count};

/// What is kept from request to request within a cycle.
pub(super) struct Reclaim {
    pub keeps: Keeps,
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
    /// The jobs that would take the last process of one to which it is owed.
    blocked: BTreeSet<usize>,
}

/// A kind of request: its class, its order, its rights, and its user where that may not take from
/// everybody.
type Kind = (usize, u64, u8, Option<usize>);

/// The machines where a kind of request might find room.
struct Queue {
    /// What the class and user held for whose request the offers were listed: they hold for all that are
    /// no worse off.
    built_for: (u64, u64),
    /// After how many touches that was.
    built: usize,
    /// What the class and user held that asked last.
    standing: (u64, u64),
    /// What might go from each machine, the cheapest first.
    offers: Vec<Offer>,
    /// The next of them that is not in the heap.
    next: usize,
    /// By a lower bound of the cost.
    heap: BinaryHeap<Reverse<Cost>>,
    /// So many touches are taken into account.
    seen: usize,
}

/// What might go from one machine.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    /// Room there costs no less.
    pub bound: Cost,
    /// No more than this goes.
    pub amount: QShares,
}

impl Offer {
    pub(super) fn machine(&self) -> MachineIx {
        self.bound.4
    }
}

impl Reclaim {
    pub(super) fn new(draft: &Draft<'_>) -> Reclaim {
        Reclaim {
            keeps: Keeps::new(draft),
            queues: BTreeMap::new(),
            touched: Vec::new(),
            failed: vec![None; draft.jobs.len()],
            own: BTreeMap::new(),
            asked: BTreeSet::new(),
            blocked: BTreeSet::new(),
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

    /// Whether only the last process of a job to which it is owed might go for `job`.
    pub(super) fn is_blocked(&self, job: usize) -> bool {
        self.blocked.contains(&job)
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
            let (class, order) = (draft.entities.class_of(job), draft.jobs[job].order.qshares().0);
            let user = draft.entities.group_of(job);
            let barred = entitlement.is_barred().then_some(user);
            let standing = (draft.held.classes[class.0], draft.held.groups[user]);
            let kind = (class.0, order, entitlement.rights(), barred);
            let touched = self.touched.len();
            let queue = self
                .queues
                .entry(kind)
                .or_insert_with(|| Queue::new(draft, &entitlement, standing, touched));
            if is_less(standing, queue.built_for) {
                *queue = Queue::new(draft, &entitlement, standing, touched);
            } else if is_less(standing, queue.standing) {
                queue.begin_again();
            }
            queue.standing = standing;
            let own = (user, order, entitlement.rights());
            let state = (draft.held.jobs[job], self.touched.len());
            let is_known =
                self.own.get(&own).is_some_and(|known| known.0 <= state.0 && known.1 == state.1);
            let mut plans = Plans::default();
            if !is_known && !own_plans(draft, &feasible, &mut entitlement, &mut plans) {
                self.own.insert(own, state);
            }
            queue.search(draft, (&feasible, &mut entitlement), &self.touched, &mut plans);
            plans
        };
        if entitlement.is_blocked.get() {
            self.blocked.insert(job);
        }
        found.best(&feasible).ok_or(None)
    }
}

/// Whether the class or user of a request is worse off than another was.
fn is_less(standing: (u64, u64), other: (u64, u64)) -> bool {
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
    feasible: &Feasible<'_, '_>,
    entitlement: &mut Entitlement<'_, '_>,
    plans: &mut Plans,
) -> bool {
    let mut machines = BTreeSet::new();
    for &peer in draft.entities.members(draft.entities.group_of(feasible.job)) {
        draft.effort.search();
        let may_give = 0 < draft.jobs[peer].held
            && entitlement.rule(peer, draft.jobs[peer].order.qshares().0).is_some();
        if may_give {
            machines.extend(draft.shares.held_by(peer).map(|(_, share)| share.machine()));
        }
    }
    for &machine in &machines {
        plans.consider(draft, feasible, entitlement, machine);
    }
    !machines.is_empty()
}

impl Queue {
    /// The queue for all requests that are entitled alike, the class and user of the first of which hold
    /// so much.
    fn new(
        draft: &Draft<'_>,
        entitlement: &Entitlement<'_, '_>,
        standing: (u64, u64),
        touched: usize,
    ) -> Queue {
        let offers = offers(draft, entitlement);
        let heap = BinaryHeap::new();
        Queue {
            built_for: standing,
            built: touched,
            standing,
            offers,
            next: 0,
            heap,
            seen: touched,
        }
    }

    /// Forgets what was found for requests that are better off than the next.
    fn begin_again(&mut self) {
        self.next = 0;
        self.heap.clear();
        self.seen = self.built;
    }

    /// Finds the two best plans.
    fn search(
        &mut self,
        draft: &Draft<'_>,
        (feasible, entitlement): (&Feasible<'_, '_>, &mut Entitlement<'_, '_>),
        touched: &[MachineIx],
        plans: &mut Plans,
    ) {
        let order = draft.jobs[feasible.job].order.qshares();
        for &machine in &touched[self.seen..] {
            if feasible.order_on(machine).is_some() {
                self.heap.push(Reverse((None, 0, 0, QShares(0), machine)));
            }
        }
        self.seen = touched.len();
        let mut found = Vec::new();
        loop {
            while let Some(offer) = self.offers.get(self.next) {
                if self.heap.peek().is_some_and(|Reverse(first)| *first < offer.bound) {
                    break;
                }
                self.next += 1;
                draft.effort.search();
                let machine = offer.machine();
                if feasible.order_on(machine).is_some()
                    && draft.rooms.lacking(machine, order) <= offer.amount
                {
                    self.heap.push(Reverse(offer.bound));
                }
            }
            let Some(&Reverse(bound)) = self.heap.peek() else { break };
            if plans.are_complete(&bound) {
                break;
            }
            self.heap.pop();
            if self.heap.peek() == Some(&Reverse(bound)) {
                continue;
            }
            match plans.consider(draft, feasible, entitlement, bound.4) {
                Some(cost) if bound < cost => self.heap.push(Reverse(cost)),
                Some(cost) => found.push(Reverse(cost)),
                None => {}
            }
        }
        self.heap.extend(found);
    }
}

/// What might go from each machine to `entitlement`, each process for itself, the cheapest first.
pub(super) fn offers(draft: &Draft<'_>, entitlement: &Entitlement<'_, '_>) -> Vec<Offer> {
    const NOTHING: (QShares, EvictionClass, Millis) =
        (QShares(0), EvictionClass::WORST, Millis::MAX);
    let mut on_machines = vec![NOTHING; draft.snapshot.machines.len()];
    for group in 0..draft.entities.groups().len() {
        let members = draft.entities.members(group);
        let first = members.first().copied();
        if !first.is_some_and(|job| entitlement.reaches(job)) {
            continue;
        }
        for &job in members.iter().filter(|&&job| 0 < draft.jobs[job].held) {
            // Mostly all processes of a job are of one order.
            let mut last = (QShares(0), false);
            for (_, share) in draft.shares.held_by(job) {
                let quanta = share.order.qshares();
                if last.0 != quanta {
                    last = (quanta, entitlement.might_take(job, quanta.0));
                }
                if last.1 {
                    let (amount, class, loss) = &mut on_machines[share.machine().0];
                    *amount += quanta;
                    *class = EvictionClass::of(entitlement, job, share.is_resident).min(*class);
                    *loss = share.loss.min(*loss);
                }
            }
        }
    }
    let offers =
        on_machines.into_iter().enumerate().filter(|(_, (amount, ..))| QShares(0) < *amount);
    let mut offers: Vec<Offer> = offers
        .map(|(ix, (amount, class, loss))| Offer {
            bound: (Some(class), loss, 1, QShares(0), MachineIx(ix)),
            amount,
        })
        .collect();
    offers.sort_unstable_by_key(|offer| offer.bound);
    offers
}
