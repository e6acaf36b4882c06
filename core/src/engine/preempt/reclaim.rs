//! Search for the cheapest plan of a request, and the state that the searches of a cycle share.

use std::collections::BTreeMap;

use super::budget::{self, Worth};
use super::eligibility::{CommonRights, Eligibility};
use super::feasible::Feasible;
use super::keeps::Keeps;
use super::offers::Offers;
use super::plan::{Plan, Plans};
use super::queue::{Queue, RequestStanding, is_less};
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
    /// Nodes whose space grew, in order of time, and what was claimed before.
    grown: Vec<(NodeIx, QShares)>,
    /// Number of changes so far: a share preempted, or space promised or used.
    changes: usize,
    /// For each job, the number of changes at its last failed search.
    failed: IxVec<JobIx, Option<usize>>,
    /// Searches of each class that found no plan, for requests that depend on common facts alone.
    found_nothing: IxVec<ClassIx, Vec<FailedSearch>>,
    own: OwnSearches,
    /// True for jobs that had their turn in this cycle, or were put off.
    had_turn: IxVec<JobIx, bool>,
}

/// Kind of a request, with equal candidates but for sides that are barred: class, order, rights, and
/// the loss limit in an idle cluster.
pub(super) type Kind = (ClassIx, u64, CommonRights, Option<Millis>);

/// A search that found no plan.
#[derive(Clone)]
struct FailedSearch {
    rights: CommonRights,
    order: u64,
    standing: RequestStanding,
    /// Number of changes before it.
    changes: usize,
    /// True if a larger request might find something.
    may_do_for_more: bool,
}

impl FailedSearch {
    /// The request of `eligibility`, as if nothing were found for it.
    fn of(draft: &Draft<'_>, eligibility: &Eligibility<'_, '_>, changes: usize) -> FailedSearch {
        let job = eligibility.requester;
        FailedSearch {
            rights: eligibility.rights(),
            order: draft.jobs[job].order.qshares().0,
            standing: standing(draft, job),
            changes,
            may_do_for_more: true,
        }
    }

    /// True if `request`, of the same class, would find nothing either: its user is no worse off, it
    /// has no further rights, and it is as large, or larger where that does not help.
    fn proves(&self, request: &FailedSearch) -> bool {
        self.changes == request.changes
            && self.rights.include(request.rights)
            && (self.order == request.order
                || (self.order < request.order && !self.may_do_for_more))
            && !is_less(request.standing, self.standing)
    }
}

/// Jobs that a plan may take from.
#[derive(Clone, Copy)]
pub(super) enum Donors {
    All,
    LowerPriorities,
}

/// More quanta than any node has.
pub(super) const BEYOND: QShares = QShares(1 << 32);

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
            found_nothing: IxVec::filled(Vec::new(), draft.snapshot.topology.classes.len()),
            own: OwnSearches::default(),
            had_turn: IxVec::filled(false, draft.jobs.len()),
        }
    }

    /// The state for a trial on `draft`, with the same turns and deals.
    pub(super) fn anew(&self, draft: &Draft<'_>) -> Reclaim {
        let (keeps, had_turn) = (self.keeps.clone(), self.had_turn.clone());
        Reclaim { keeps, had_turn, ..Reclaim::new(draft) }
    }

    /// Notes that `job` has its turn. True if it had none before in this cycle.
    pub(super) fn take_turn(&mut self, job: JobIx) -> bool {
        !std::mem::replace(&mut self.had_turn[job], true)
    }

    /// Notes that nothing was found for `job`.
    pub(super) fn note_failed(&mut self, job: JobIx) {
        self.failed[job] = Some(self.changes);
    }

    /// True if a search for `job` would only repeat a failed search.
    pub(super) fn has_failed(&mut self, draft: &Draft<'_>, job: JobIx) -> bool {
        if self.failed[job] == Some(self.changes) {
            return true;
        }
        let known = &self.found_nothing[draft.entities.class_of(job)];
        if known.is_empty() || !is_like_others(draft, job) {
            return false;
        }
        let eligibility = Eligibility::new(draft, &self.keeps, job);
        let request = FailedSearch::of(draft, &eligibility, self.changes);
        if !known.iter().any(|known| known.proves(&request))
            || self.own.may_give(draft, &eligibility, self.changes)
        {
            return false;
        }
        self.take_turn(job);
        self.note_failed(job);
        true
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
        self.note_used(draft, share.node());
    }

    /// Notes that space on `node` was freed or given away.
    pub(super) fn note_used(&mut self, draft: &Draft<'_>, node: NodeIx) {
        self.changes += 1;
        let claimed = draft.spaces.missing_for(node, BEYOND);
        let before = std::mem::replace(&mut self.claimed[node], claimed);
        if claimed < before {
            self.grown.push((node, before));
        }
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
        let standing = standing(draft, job);
        let kind = kind(draft, &eligibility);
        let seen = self.grown.len();
        let begin = || Queue::new(draft, (&self.offers, &eligibility), standing, seen);
        let queue = self.queues.entry(kind).or_insert_with(begin);
        let grown = (&self.grown[..], &self.claimed);
        queue.serve(draft, (&self.offers, &feasible, &eligibility), standing, grown);
        let may_own_give = self.own.may_give(draft, &eligibility, self.changes);
        let mut own_costed = 0;
        for wants_runner_up in [false, true] {
            plans.wants_runner_up = wants_runner_up;
            let request = (&feasible, &mut eligibility);
            queue.search(draft, &self.offers, request, &mut plans);
            if may_own_give {
                let request = (&feasible, &mut eligibility);
                own_plans(draft, &self.offers, request, &mut own_costed, &mut plans);
            }
            // A plan that is not carried out needs no runner-up.
            if plans.first().is_none_or(|plan| budget::objection(draft, job, plan).is_some()) {
                break;
            }
        }
        queue.conclude();
        // Without the bar, there might be a plan.
        if plans.first().is_none() && !eligibility.is_barred() && is_like_others(draft, job) {
            let failed = FailedSearch::of(draft, &eligibility, self.changes);
            let may_do_for_more = plans.may_do_for_more;
            let known = &mut self.found_nothing[draft.entities.class_of(job)];
            known.retain(|known| known.changes == self.changes);
            known.push(FailedSearch { may_do_for_more, ..failed });
        }
        plans.best(&feasible).ok_or(None)
    }
}

/// Returns the kind of the request of `eligibility`.
pub(super) fn kind(draft: &Draft<'_>, eligibility: &Eligibility<'_, '_>) -> Kind {
    let job = eligibility.requester;
    let (class, order) = (draft.entities.class_of(job), draft.jobs[job].order.qshares().0);
    (class, order, eligibility.rights(), eligibility.limit)
}

/// Returns the holdings of the class and user of `job`.
pub(super) fn standing(draft: &Draft<'_>, job: JobIx) -> RequestStanding {
    let (class, user) = (draft.entities.class_of(job), draft.entities.group_of(job));
    (draft.held.classes[class], draft.held.groups[user])
}

/// True if the result of a search depends only on facts that requests have in common.
fn is_like_others(draft: &Draft<'_>, job: JobIx) -> bool {
    let has_common_nodes = draft.claims.is_empty() && draft.leaves.is_none();
    has_common_nodes
        && draft.gangs.is_empty()
        && !draft.jobs[job].is_restricted
        && draft.class_of(job).policy != ClassPolicy::Reserve
        && !draft.reserved.contains_key(&job)
}

/// Failed searches among the other jobs of a user. The key is the user within a class, and the
/// rights. The value is the order of the request, the job's quanta and the number of changes.
#[derive(Default)]
struct OwnSearches(BTreeMap<(GroupIx, CommonRights), (u64, u64, usize)>);

impl OwnSearches {
    /// True if another job of the requester's user might lose a process to it.
    fn may_give(
        &mut self,
        draft: &Draft<'_>,
        eligibility: &Eligibility<'_, '_>,
        changes: usize,
    ) -> bool {
        let job = eligibility.requester;
        let user = draft.entities.group_of(job);
        let (order, has) = (draft.jobs[job].order.qshares().0, draft.held.jobs[job]);
        let key = (user, eligibility.rights());
        // A larger order, or more quanta, make a request no better.
        let known = self.0.get(&key);
        if known.is_some_and(|known| known.0 <= order && known.1 <= has && known.2 == changes) {
            return false;
        }
        let mut jobs = draft.entities.members(user).iter();
        let may_give = jobs.any(|&job| {
            draft.effort.search();
            NShares(0) < draft.jobs[job].held
                && eligibility.rule(job, draft.jobs[job].order.qshares().0).is_some()
        });
        // Another job might not be barred.
        if !may_give && !eligibility.is_barred() {
            self.0.insert(key, (order, has, changes));
        }
        may_give
    }
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
        if plans.are_complete(&offer.cost()) {
            break;
        }
        *seen += 1;
        let node = offer.node();
        let Some(order) = feasible.order_on(node) else { continue };
        let missing = draft.spaces.missing_for(node, order.qshares());
        let bound = offers.bound(draft, eligibility.keeps, offer.cost(), missing);
        if bound.is_some_and(|bound| !plans.are_complete(&bound.within(eligibility.limit))) {
            plans.consider(draft, feasible, eligibility, node);
        }
    }
}
