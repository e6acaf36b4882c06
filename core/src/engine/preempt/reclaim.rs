//! Search for the cheapest plan of a request, and the state that the searches of a cycle share.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::{self, Worth};
use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::keeps::Keeps;
use super::offers::Offers;
use super::plan::{Plan, Plans};
use super::queue::{Queue, RequestStanding};
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
    /// Failed searches among the other jobs of a user. The key is the user within a class, the
    /// order and the rights. The value is the job's quanta and the number of changes.
    own: BTreeMap<(GroupIx, u64, u16), (u64, usize)>,
    /// The jobs that had their turn in this cycle, or were put off.
    had_turn: BTreeSet<JobIx>,
}

/// Kind of a request, with equal candidates but for sides that are barred: class, order, rights, and
/// the loss limit in an idle cluster.
pub(super) type Kind = (ClassIx, u64, u16, Option<Millis>);

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
        let user = draft.entities.group_of(job);
        let standing = standing(draft, job);
        let kind = kind(draft, &eligibility);
        let seen = self.grown.len();
        let begin = || Queue::new(draft, (&self.offers, &eligibility), standing, seen);
        let queue = self.queues.entry(kind).or_insert_with(begin);
        let grown = (&self.grown[..], &self.claimed);
        queue.serve(draft, (&self.offers, &feasible, &eligibility), standing, grown);
        let own = (user, draft.jobs[job].order.qshares().0, eligibility.rights());
        let state = (draft.held.jobs[job], self.changes);
        let is_known =
            self.own.get(&own).is_some_and(|known| known.0 <= state.0 && known.1 == state.1);
        let may_own_give = !is_known && may_own_give(draft, &eligibility);
        if !is_known && !may_own_give {
            self.own.insert(own, state);
        }
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
