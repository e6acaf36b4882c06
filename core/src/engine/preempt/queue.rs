//! Search for the cheapest node of a request: a lazy queue for each kind of request.
//!
//! A kind is a class, an order and some rights. Its queue holds nodes by a lower bound of the cost
//! there: first a rough bound, then a close bound. A node is costed anew for the request unless a
//! known plan is cheaper. The cost of the plan found is the next bound; a node without a plan is
//! dropped.
//!
//! That is exact because costs only rise within a cycle. Requests of a kind come least served
//! first, a side only loses (`keeps.rs`), and nodes with more free space are entered again. If a
//! request is worse off than the request before, its queue is filled anew.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::budget::{self, Worth};
use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::keeps::Keeps;
use super::offers::{Offer, Offers};
use super::plan::{Cost, Plan, Plans};
use super::relocate::Tried;
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::GroupIx;
use crate::engine::report::Declined;
use crate::engine::schedule::VictimRule;
use crate::engine::share_table::ShareIx;
use crate::model::{ClassIx, ClassPolicy, IxVec, JobIx, Millis, NShares, NodeIx, QShares};

/// State that requests of a cycle share.
pub(super) struct Reclaim {
    pub keeps: Keeps,
    /// Results of searches that move shares.
    pub tried: Tried,
    offers: Offers,
    queues: BTreeMap<Kind, Queue>,
    /// Quanta by which the space of each node falls short of [`BEYOND`].
    claimed: IxVec<NodeIx, QShares>,
    /// Nodes whose space grew, in order of time.
    grown: Vec<NodeIx>,
    /// Number of changes so far: a share preempted, or space promised or used.
    changes: usize,
    /// For each job, the number of changes at its last failed search.
    failed: IxVec<JobIx, Option<usize>>,
    /// Failed searches among the other jobs of a user. The key is the user within a class, the
    /// order and the rights. The value is the job's quanta and the number of changes.
    own: BTreeMap<(GroupIx, u64, u16), (u64, usize)>,
    /// The jobs that had their turn in this cycle, or were put off.
    had_turn: BTreeSet<JobIx>,
}

/// Kind of a request, with equal candidates: class, order and rights. The user belongs to it if the
/// user may not take from all sides. The job belongs to it if it lists its nodes. The last part is
/// the loss limit in an idle cluster.
pub(super) type Kind = (ClassIx, u64, u16, Option<GroupIx>, Option<JobIx>, Option<Millis>);

/// Holdings of the class and user of a request. A result holds for all requests of its kind that
/// are no worse off.
pub(super) type RequestStanding = (u64, u64);

/// Jobs that a plan may take from.
#[derive(Clone, Copy)]
pub(super) enum Donors {
    All,
    LowerPriorities,
}

/// An offer, the list it belongs to, and its index there.
type NextOffer = (Offer, (GroupIx, bool), usize);

/// More quanta than any node has.
pub(super) const BEYOND: QShares = QShares(1 << 32);

/// Precision of a lower bound of the cost on a node. Most nodes never need a close bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    /// The cost of a single process.
    Rough,
    /// The cost of as many processes as the request needs.
    Close,
}

/// Nodes where a kind of request might find space.
struct Queue {
    /// Of the request that asked last.
    standing: RequestStanding,
    /// Next offer of each user that might lose a process, and of a further user in each class. The
    /// search enters the users of a class by their first offer, and most of them never.
    offers: BinaryHeap<Reverse<NextOffer>>,
    /// For each class with such users: true if last processes count, and how many users were entered.
    entered: IxVec<ClassIx, Option<(bool, usize)>>,
    /// For each node, the quanta that its users offer there.
    offered: IxVec<NodeIx, QShares>,
    /// Nodes by a lower bound of the cost.
    heap: BinaryHeap<Reverse<(Cost, Precision)>>,
    /// Number of entries of `grown` that the queue has read.
    seen: usize,
}

impl Reclaim {
    pub(super) fn new(draft: &Draft<'_>) -> Reclaim {
        let nodes = draft.snapshot.nodes_with_ix();
        let claimed = nodes.map(|(ix, _)| draft.spaces.missing_for(ix, BEYOND)).collect();
        Reclaim {
            keeps: Keeps::new(draft),
            tried: Tried::default(),
            offers: Offers::new(draft),
            queues: BTreeMap::new(),
            claimed,
            grown: Vec::new(),
            changes: 0,
            failed: IxVec::filled(None, draft.jobs.len()),
            own: BTreeMap::new(),
            had_turn: BTreeSet::new(),
        }
    }

    /// The state for a trial on `draft`, with the same turns and deals.
    pub(super) fn anew(&self, draft: &Draft<'_>) -> Reclaim {
        let (keeps, had_turn) = (self.keeps.clone(), self.had_turn.clone());
        Reclaim { keeps, had_turn, ..Reclaim::new(draft) }
    }

    /// Notes that `job` has its turn. True if it had none before in this cycle.
    pub(super) fn take_turn(&mut self, job: JobIx) -> bool {
        self.had_turn.insert(job)
    }

    /// Notes that nothing was found for `job`.
    pub(super) fn note_failed(&mut self, job: JobIx) {
        self.failed[job] = Some(self.changes);
    }

    /// True if a search for `job` would only repeat a failed search.
    pub(super) fn has_failed(&self, job: JobIx) -> bool {
        self.failed[job] == Some(self.changes)
    }

    /// Notes that `holding` was preempted under `rule`, for the job at `taker`.
    pub(super) fn note_taken(
        &mut self,
        draft: &Draft<'_>,
        holding: ShareIx,
        rule: VictimRule,
        taker: JobIx,
    ) {
        let share = draft.shares.at(holding);
        if rule.is_taking() && rule != VictimRule::Priority {
            self.keeps.note_giver(holding.job);
            self.keeps.note_taker(taker);
        }
        self.keeps.lose(draft, holding.job, share.order.qshares().0);
        // The first victims of a node do not always cost least, so the next plan may be cheaper.
        self.note_used(draft, share.node());
    }

    /// Notes that space on `node` was freed or given away.
    pub(super) fn note_used(&mut self, draft: &Draft<'_>, node: NodeIx) {
        self.changes += 1;
        let claimed = draft.spaces.missing_for(node, BEYOND);
        if claimed < self.claimed[node] {
            self.grown.push(node);
        }
        self.claimed[node] = claimed;
    }

    /// Returns the cheapest plan for a process of `job`. It has the best worst eviction class, then
    /// the least work lost, the fewest victims, and the least space beyond the need. The error is
    /// the reason to decline; `None` if the rules allow no plan.
    pub(super) fn best_plan(
        &mut self,
        draft: &Draft<'_>,
        job: JobIx,
        donors: Donors,
    ) -> Result<Plan, Option<Declined>> {
        let feasible = Feasible::new(draft, job);
        if let Some(plan) = feasible.space_to_come().filter(|_| !self.keeps.has_given(job)) {
            return Ok(plan);
        }
        let mut eligibility = Eligibility::new(draft, &self.keeps, job);
        if !match donors {
            Donors::All => eligibility.is_eligible(),
            Donors::LowerPriorities => eligibility.spare_peers(),
        } {
            return Err(None);
        }
        if let (false, Worth::Nothing(held_back)) =
            (eligibility.reaches_worse_priorities(), budget::worth(draft, job))
        {
            return Err(Some(held_back));
        }
        let mut plans = Plans::default();
        if draft.jobs[job].is_restricted || draft.class_of(job).policy == ClassPolicy::Reserve {
            for node in feasible.suitable() {
                plans.consider(draft, &feasible, &mut eligibility, node);
            }
            return plans.best(&feasible).ok_or(None);
        }
        let user = draft.entities.group_of(job);
        let standing = standing(draft, job);
        let kind = kind(draft, &eligibility, false);
        let grown = self.grown.len();
        let begin = || Queue::new(draft, (&self.offers, &eligibility), standing, grown);
        let queue = self.queues.entry(kind).or_insert_with(begin);
        if is_less(standing, queue.standing) {
            *queue = begin();
        }
        queue.standing = standing;
        let own = (user, draft.jobs[job].order.qshares().0, eligibility.rights());
        let state = (draft.held.jobs[job], self.changes);
        let is_known =
            self.own.get(&own).is_some_and(|known| known.0 <= state.0 && known.1 == state.1);
        let may_own_give = !is_known && may_own_give(draft, &eligibility);
        if !is_known && !may_own_give {
            self.own.insert(own, state);
        }
        queue.enter_grown(draft, &self.offers, (&feasible, &eligibility), &self.grown);
        let (mut costed, mut own_costed) = (Vec::new(), 0);
        for wants_runner_up in [false, true] {
            plans.wants_runner_up = wants_runner_up;
            let request = (&feasible, &mut eligibility);
            queue.search(draft, &self.offers, request, &mut costed, &mut plans);
            if may_own_give {
                let request = (&feasible, &mut eligibility);
                own_plans(draft, &self.offers, request, &mut own_costed, &mut plans);
            }
            // A plan that is not carried out needs no runner-up.
            if plans.first().is_none_or(|plan| budget::objection(draft, job, plan).is_some()) {
                break;
            }
        }
        queue.heap.extend(costed);
        plans.best(&feasible).ok_or(None)
    }
}

/// Returns the kind of the request of `eligibility`. With `with_own`, the kind includes its user if
/// other jobs of the user may lose shares to it.
pub(super) fn kind(draft: &Draft<'_>, eligibility: &Eligibility<'_, '_>, with_own: bool) -> Kind {
    let job = eligibility.requester;
    let (class, user) = (draft.entities.class_of(job), draft.entities.group_of(job));
    let has_others = with_own && draft.held.jobs[job] < draft.held.groups[user];
    let is_apart = has_others || eligibility.is_barred();
    let order = draft.jobs[job].order.qshares().0;
    let confined = draft.jobs[job].is_restricted.then_some(job);
    let apart = is_apart.then_some(user);
    (class, order, eligibility.rights(), apart, confined, eligibility.limit)
}

/// Returns the holdings of the class and user of `job`.
pub(super) fn standing(draft: &Draft<'_>, job: JobIx) -> RequestStanding {
    let (class, user) = (draft.entities.class_of(job), draft.entities.group_of(job));
    (draft.held.classes[class], draft.held.groups[user])
}

/// True if the class or user of a request is worse off than that of `other`.
pub(super) fn is_less(standing: RequestStanding, other: RequestStanding) -> bool {
    standing.0 < other.0 || standing.1 < other.1
}

/// True if another job of the requester's user might lose a process to it.
fn may_own_give(draft: &Draft<'_>, eligibility: &Eligibility<'_, '_>) -> bool {
    let user = draft.entities.group_of(eligibility.requester);
    let mut jobs = draft.entities.members(user).iter();
    jobs.any(|&job| {
        draft.effort.search();
        NShares(0) < draft.jobs[job].held
            && eligibility.rule(job, draft.jobs[job].order.qshares().0).is_some()
    })
}

/// Makes plans for the nodes of its user's other jobs, which give to it alone at that level. `seen`
/// of these nodes were looked at before.
fn own_plans(
    draft: &Draft<'_>,
    offers: &Offers,
    (feasible, eligibility): (&Feasible<'_, '_>, &mut Eligibility<'_, '_>),
    seen: &mut usize,
    plans: &mut Plans,
) {
    let user = draft.entities.group_of(feasible.job);
    let of_user = (user, !eligibility.gives_first_processes());
    for &offer in &offers.of(draft, eligibility.keeps, of_user)[*seen..] {
        if plans.are_complete(&offer.cost) {
            break;
        }
        *seen += 1;
        let node = offer.cost.node;
        let Some(order) = feasible.order_on(node) else { continue };
        let missing = draft.spaces.missing_for(node, order.qshares());
        let bound = offers.bound(draft, eligibility.keeps, offer.cost, missing);
        if bound.is_some_and(|bound| !plans.are_complete(&bound.within(eligibility.limit))) {
            plans.consider(draft, feasible, eligibility, node);
        }
    }
}

impl Queue {
    /// Builds the queue for all requests with equal rights. `standing` is that of the first.
    fn new(
        draft: &Draft<'_>,
        (offers, eligibility): (&Offers, &Eligibility<'_, '_>),
        standing: RequestStanding,
        grown: usize,
    ) -> Queue {
        let classes = draft.snapshot.topology.classes.len();
        let mut queue = Queue {
            standing,
            offers: BinaryHeap::new(),
            entered: IxVec::filled(None, classes),
            offered: IxVec::filled(QShares(0), draft.snapshot.nodes.len()),
            heap: BinaryHeap::new(),
            seen: grown,
        };
        for class in (0..classes).map(ClassIx) {
            let with_last =
                offers.usual_job(class).map(|job| eligibility.reaches_last_processes(job));
            queue.entered[class] = with_last.map(|with_last| (with_last, 0));
            queue.enter_next(draft, (offers, eligibility), class);
        }
        queue
    }

    /// Enters the next user of `class` that might lose a process.
    fn enter_next(
        &mut self,
        draft: &Draft<'_>,
        (offers, eligibility): (&Offers, &Eligibility<'_, '_>),
        class: ClassIx,
    ) {
        // The answer is the same for all users of another class.
        let own_class = draft.entities.class_of(eligibility.requester);
        let is_reached = |job| class == own_class || eligibility.reaches(job);
        let is_reached = offers.usual_job(class).is_some_and(is_reached);
        let Some((with_last, count)) = self.entered[class].as_mut().filter(|_| is_reached) else {
            return;
        };
        let users = offers.users(draft, eligibility.keeps, (class, *with_last));
        for &user in &users[*count..] {
            draft.effort.search();
            *count += 1;
            let of_user = (user, *with_last);
            let first = offers.of(draft, eligibility.keeps, of_user).first();
            if let Some(first) = first.filter(|_| eligibility.reaches_user(user)) {
                self.offers.push(Reverse((*first, of_user, 0)));
                return;
            }
        }
    }

    /// Enters nodes whose space grew since the last search.
    fn enter_grown(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, eligibility): (&Feasible<'_, '_>, &Eligibility<'_, '_>),
        grown: &[NodeIx],
    ) {
        for &node in &grown[self.seen..] {
            let Some(order) = feasible.order_on(node) else { continue };
            let missing = draft.spaces.missing_for(node, order.qshares());
            let bound = offers.least(draft, eligibility.keeps, node, missing);
            let bound =
                bound.map(|bound| Reverse((bound.within(eligibility.limit), Precision::Close)));
            self.heap.extend(bound);
        }
        self.seen = grown.len();
    }

    /// Finds the wanted plan. Nodes that were costed go to `costed`, with their next bounds.
    fn search(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, eligibility): (&Feasible<'_, '_>, &mut Eligibility<'_, '_>),
        costed: &mut Vec<Reverse<(Cost, Precision)>>,
        plans: &mut Plans,
    ) {
        loop {
            self.offer(draft, offers, (feasible, eligibility));
            let Some(&Reverse((bound, precision))) = self.heap.peek() else { break };
            if plans.are_complete(&bound) {
                break;
            }
            self.heap.pop();
            if self.heap.peek() == Some(&Reverse((bound, precision))) {
                continue;
            }
            if precision == Precision::Rough {
                self.heap.extend(close_bound(draft, offers, (feasible, eligibility), bound));
                continue;
            }
            let cost = plans.consider(draft, feasible, eligibility, bound.node);
            // Shares of its own user there may go for the next request, and at a lower cost. Space
            // to come, closed to a job that lost a share, may be gone by then.
            let is_free = || draft.spaces.missing_for(bound.node, QShares(1)) == QShares(0);
            if eligibility.has_own_on(bound.node) || (eligibility.has_given() && is_free()) {
                costed.push(Reverse((bound, Precision::Close)));
            } else if let Some(cost) = cost {
                // A smaller victim may do next, if the victim found here may no longer go.
                costed.push(Reverse((Cost { overshoot: QShares(0), ..cost }, Precision::Close)));
            }
        }
    }

    /// Enters all nodes that might be cheaper than the first.
    ///
    /// A node is entered by the offer that completes the missing space. Each plan for it needs a
    /// process of that offer, or of an offer that is no cheaper.
    fn offer(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, eligibility): (&Feasible<'_, '_>, &Eligibility<'_, '_>),
    ) {
        loop {
            let Some(mut next) = self.offers.peek_mut() else { return };
            let Reverse((offer, of_user, place)) = *next;
            if self.heap.peek().is_some_and(|Reverse((first, _))| *first < offer.cost) {
                return;
            }
            draft.effort.search();
            let is_reached = eligibility.reaches_user(of_user.0);
            let following = offers.of(draft, eligibility.keeps, of_user).get(place + 1);
            match following.filter(|_| is_reached) {
                Some(following) => {
                    *next = Reverse((*following, of_user, place + 1));
                    drop(next);
                }
                None => drop(PeekMut::pop(next)),
            }
            if place == 0 {
                let (class, _) = draft.entities.groups()[of_user.0];
                self.enter_next(draft, (offers, eligibility), class);
            }
            if !is_reached {
                continue;
            }
            let node = offer.cost.node;
            let Some(order) = feasible.order_on(node) else { continue };
            let missing = draft.spaces.missing_for(node, order.qshares()).max(QShares(1));
            let before = self.offered[node];
            let offered = before + offer.quanta;
            self.offered[node] = offered;
            if before < missing && missing <= offered {
                let bound = offer.cost.within(eligibility.limit);
                self.heap.push(Reverse((bound, Precision::Rough)));
            }
        }
    }
}

/// Returns the close bound of a node with a rough bound, if the node might do.
fn close_bound(
    draft: &Draft<'_>,
    offers: &Offers,
    (feasible, eligibility): (&Feasible<'_, '_>, &Eligibility<'_, '_>),
    rough: Cost,
) -> Option<Reverse<(Cost, Precision)>> {
    let order = feasible.order_on(rough.node)?;
    let missing = draft.spaces.missing_for(rough.node, order.qshares()).max(QShares(1));
    let bound = offers.bound(draft, eligibility.keeps, rough, missing)?;
    Some(Reverse((bound.within(eligibility.limit), Precision::Close)))
}
