//! Clears a node by moving shares, if preemption by the rules cannot clear it.
//!
//! Example: two nodes of 4 are full of processes of 1, each of a single user, and a third user
//! needs a process of 4. To clear either node would leave its user with nothing, so neither may be
//! cleared, though 2, 2 and 4 would be just. A plan has two steps. On the cleared node, shares are
//! preempted as far as the rules allow ([`Eligibility`]). Every other share starts again elsewhere:
//! in free space, or in space that the same request may take there. The whole plan is found before
//! any of it is done.
//!
//! Shares are moved only in an idle cluster with defragmentation on, after all plans without moves.
//! Two kinds of jobs may ask: a starved job, and a job with only the last, owed process of another
//! job in its way. A move restarts a process, so jobs that may soon progress are spared.
//!
//! Moves come to an end for three reasons. A job with moved shares keeps its number of processes of
//! that order, so holdings fall by the rules only. Within a cycle a request keeps its promise.
//! Across cycles [`super::history`] holds.

mod housing;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::budget::{self, is_at_rest};
use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::plan::{self, EvictionRank};
use super::queue::{RequestStanding, is_less};
use super::reclaim::{BEYOND, Kind, Reclaim, kind, standing};
use super::{due, put_off};
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::GroupIx;
use crate::engine::report::CapBound;
use crate::engine::schedule::{Alternatives, NextBest, VictimRule};
use crate::engine::share_table::ShareIx;
use crate::engine::water_filling::{Service, Turn};
use crate::model::{ClassIx, JobIx, Millis, NShares, NodeIx, Order, QShares, count};
use housing::{HomeKind, Housing};

/// Nodes tried for a beneficiary, by the amount to move, least first.
const TRIED: usize = 32;

/// Kinds of requests tried at a time, the least served first.
const TRIED_KINDS: usize = 16;

/// Makes space for the least served of `jobs` for which a plan exists. True if there was such a
/// job: then the rules may allow new plans for other jobs.
pub(super) fn relocate(draft: &mut Draft<'_>, reclaim: &mut Reclaim, jobs: &[JobIx]) -> bool {
    if !is_at_rest(draft) || !draft.snapshot.topology.settings.defragmentation {
        return false;
    }
    let candidates: Vec<JobIx> =
        jobs.iter().copied().filter(|&job| NShares(0) < due(draft, job)).collect();
    let mut sites = Sites { free: free_space(draft), of_classes: BTreeMap::new() };
    let (mut is_done, mut tried) = (false, 0);
    draft.water_fill_by_holdings(
        &candidates,
        Turn::ByFinish,
        |draft, job| due(draft, job).min(NShares(1)),
        |draft, job, _| {
            // Nothing more is tried for any job.
            if is_done || TRIED_KINDS <= tried {
                return Service::RefusedForAll;
            }
            if draft.effort.is_spent() {
                if draft.is_starved(job) {
                    put_off(draft, reclaim, job);
                }
                return Service::Refused;
            }
            let standing = standing(draft, job);
            let eligibility = Eligibility::new(draft, &reclaim.keeps, job);
            let kind = tried_kind(draft, &eligibility);
            let Some(loss) = reclaim.tried.least_loss(kind, standing) else {
                return Service::Refused;
            };
            if let Some(held_back) = budget::objection_to(draft, job, loss) {
                draft.jobs[job].held_back = Some(held_back);
                return Service::Refused;
            }
            tried += 1;
            // The snapshot stays as it is until a plan is found.
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

/// Kind of a request for moves. The user belongs to it if the user may not take from all sides, or
/// if its other jobs may lose processes to a job with nothing. The job belongs to it if it lists its
/// nodes.
type TriedKind = (Kind, Option<GroupIx>, Option<JobIx>);

fn tried_kind(draft: &Draft<'_>, eligibility: &Eligibility<'_, '_>) -> TriedKind {
    let job = eligibility.requester;
    let user = draft.entities.group_of(job);
    let has_others = draft.is_starved(job) && draft.held.jobs[job] < draft.held.groups[user];
    let apart = (has_others || eligibility.is_barred()).then_some(user);
    let confined = draft.jobs[job].is_restricted.then_some(job);
    (kind(draft, eligibility), apart, confined)
}

/// Least loss by moves for the kinds of requests tried in this cycle; `None` if there is no plan.
#[derive(Debug, Default)]
pub(super) struct Tried(BTreeMap<TriedKind, (RequestStanding, Option<Millis>)>);

impl Tried {
    /// Returns the least loss for requests of `kind` that are no worse off than `standing`.
    fn least_loss(&self, kind: TriedKind, standing: RequestStanding) -> Option<Millis> {
        match self.0.get(&kind) {
            Some((known, loss)) if !is_less(standing, *known) => *loss,
            _ => Some(0),
        }
    }
}

/// Quanta that would have to go from a node, and the node.
type Lack = (QShares, NodeIx);

/// Facts about nodes before any share is moved, for all requests.
struct Sites {
    /// Free space that may be given away now, on all nodes together.
    free: QShares,
    /// Nodes in scheduling for jobs of a class, by the amount to clear, least first. Filled on use.
    of_classes: BTreeMap<ClassIx, Vec<NodeIx>>,
}

impl Sites {
    /// Returns the nodes for the job of `site`, by the amount to clear, least first. They include
    /// nodes that are too small or closed to the job.
    fn by_lack(&mut self, site: &Feasible<'_, '_>) -> Cow<'_, [NodeIx]> {
        let (draft, job) = (site.draft, site.job);
        let ranked = |nodes: &mut dyn Iterator<Item = NodeIx>| {
            let mut nodes: Vec<NodeIx> = nodes.collect();
            nodes.sort_by_cached_key(|&ix| (draft.spaces.missing_for(ix, BEYOND), ix));
            nodes
        };
        if draft.jobs[job].is_restricted {
            return Cow::Owned(ranked(&mut site.suitable()));
        }
        let of_class = self.of_classes.entry(draft.entities.class_of(job));
        Cow::Borrowed(of_class.or_insert_with(|| ranked(&mut site.in_scheduling())))
    }
}

/// Returns the free space that may be given away now, on all nodes together.
fn free_space(draft: &Draft<'_>) -> QShares {
    let pools = draft.snapshot.topology.pools.places();
    pools.map(|pool| draft.spaces.usable_in(pool).0).sum()
}

/// Space for a process of a beneficiary on a node.
struct MovePlan {
    node: NodeIx,
    order: Order,
    /// Shares of that node that are preempted or moved; none of them superfluous.
    victims: Vec<MoveVictim>,
    /// Places of the moved shares.
    housing: Housing,
    /// Work that is lost, by moves as well.
    loss: Millis,
    /// Alternatives to the plan.
    considered: Alternatives,
}

/// A share that goes.
#[derive(Clone, Copy)]
struct MoveVictim {
    holding: ShareIx,
    /// [`VictimRule::Relocation`] if it is moved.
    rule: VictimRule,
    order: Order,
    rank: EvictionRank,
    /// Work lost with the share.
    loss: Millis,
}

/// Cost of a plan; the least is best. Free space comes before further victims, then the least work
/// lost, the fewest victims, the least space beyond the need. The node comes last so that no two
/// plans ever tie.
type MoveCost = (bool, Millis, usize, QShares, NodeIx);

/// Returns the cheapest way to make space for a process of `job` by moving the shares in its way.
/// No more can be moved than fits into free space and into space that the rules allow to take.
fn best_plan(
    draft: &Draft<'_>,
    reclaim: &Reclaim,
    job: JobIx,
    sites: &mut Sites,
) -> Option<MovePlan> {
    let claim = Eligibility::new(draft, &reclaim.keeps, job);
    if !draft.is_starved(job) && !claim.is_blocked_by_owed() {
        return None;
    }
    let mut search = Search::new(claim);
    let free = sites.free;
    if free == QShares(0) && search.prey.is_empty() {
        return None;
    }
    let order = draft.jobs[job].order;
    let by_right: QShares = search.prey.values().copied().sum();
    let site = Feasible::new(draft, job);
    let is_suitable = |node: &NodeIx| site.order_on(*node).is_some();
    let missing_for = |node| draft.spaces.missing_for(node, order.qshares());
    let with_prey = search.prey.iter().filter(|(node, _)| is_suitable(node));
    let with_prey = with_prey.filter_map(|(&node, &prey)| {
        let to_move = missing_for(node).saturating_sub(prey);
        (to_move <= free + (by_right - prey)).then_some((to_move, node))
    });
    let by_lack = sites.by_lack(&site);
    let others = by_lack.iter().map(|&node| (missing_for(node), node));
    let others = others.take_while(|(missing, _)| *missing <= free + by_right);
    let others = others.filter(|(_, node)| !search.prey.contains_key(node));
    let others = others.filter(|(_, node)| is_suitable(node)).take(TRIED);
    let mut open: Vec<Lack> = with_prey.chain(others).collect();
    open.sort_unstable();
    open.truncate(TRIED);
    let cleared: Vec<(NodeIx, Vec<MoveVictim>)> =
        open.into_iter().filter_map(|(_, node)| Some((node, search.clear(node, order)?))).collect();
    let mut plans = search.plans(&cleared, order, false);
    if plans.is_empty() {
        plans = search.plans(&cleared, order, true);
    }
    plans.sort_unstable_by_key(|(cost, _)| *cost);
    let found = count(&plans);
    let mut plans = plans.into_iter();
    let (_, best) = plans.next()?;
    let runner_up = plans.next().map(|((_, loss, victims, ..), other)| NextBest {
        node: other.node,
        victims: count(0..victims),
        loss,
    });
    Some(MovePlan {
        considered: Alternatives { nodes: site.nodes(), plans: found, runner_up },
        ..best
    })
}

/// Search for a plan of a beneficiary.
struct Search<'d, 'a> {
    draft: &'d Draft<'a>,
    beneficiary: JobIx,
    claim: Eligibility<'d, 'a>,
    /// Quanta of jobs that might lose a process, by node.
    prey: BTreeMap<NodeIx, QShares>,
    /// For shares of an order, nodes where space may be taken, the cheapest first. Filled on use.
    homes: BTreeMap<Order, Rc<[NodeIx]>>,
}

impl<'d, 'a> Search<'d, 'a> {
    fn new(claim: Eligibility<'d, 'a>) -> Search<'d, 'a> {
        let (draft, beneficiary) = (claim.draft, claim.requester);
        let mut prey: BTreeMap<NodeIx, QShares> = BTreeMap::new();
        for group in draft.entities.groups().places() {
            if !claim.reaches_user(group) {
                continue;
            }
            let members = draft.entities.members(group);
            for &job in members.iter().filter(|&&job| NShares(0) < draft.jobs[job].held) {
                let order = draft.jobs[job].order.qshares();
                if claim.rule(job, order.0).is_some() {
                    for (_, share) in draft.shares.held_by(job) {
                        *prey.entry(share.node()).or_default() += share.order.qshares();
                    }
                }
            }
        }
        Search { draft, beneficiary, claim, prey, homes: BTreeMap::new() }
    }

    /// Returns the shares that have to go from `node` so that a share of `order` fits: as far as
    /// the rules allow, then shares that may be moved.
    fn clear(&mut self, node: NodeIx, order: Order) -> Option<Vec<MoveVictim>> {
        self.draft.effort.search();
        let missing = self.draft.spaces.missing_for(node, order.qshares());
        self.claim.reset();
        let (mut victims, mut rest) = (Vec::new(), Vec::new());
        let mut freed = QShares(0);
        for victim in self.shares_on(node) {
            match self.claim.rule(victim.holding.job, victim.order.qshares().0) {
                Some(_) if missing <= freed => break,
                Some(rule) => {
                    self.claim.take(victim.holding.job, victim.order.qshares().0);
                    freed += victim.order.qshares();
                    victims.push(MoveVictim { rule, ..victim });
                }
                None => rest.push(victim),
            }
        }
        // Shares that fit into free space go first, then shares for which space may be taken. Of these,
        // a process that stays only because it is owed to its job goes first.
        let stays_as_owed = |victim: &MoveVictim| {
            self.claim.would_go_but_is_owed(victim.holding.job, victim.order.qshares().0)
        };
        let is_owed: Vec<bool> = rest.iter().map(stays_as_owed).collect();
        let mut ranked: Vec<((HomeKind, bool), MoveVictim)> = Vec::new();
        for (victim, is_owed) in rest.into_iter().zip(is_owed).filter(|_| freed < missing) {
            ranked.push(((self.home_kind(node, victim), !is_owed), victim));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let rest = ranked.into_iter().map(|(_, victim)| victim);
        for victim in rest {
            if freed < missing && self.may_move(victim) {
                freed += victim.order.qshares();
                victims.push(victim);
            }
        }
        (missing <= freed).then(|| spare_superfluous(victims, missing))
    }

    /// Returns the shares on `node` that are not terminating, the cheapest first.
    fn shares_on(&self, node: NodeIx) -> Vec<MoveVictim> {
        let shares = self.draft.spaces.held_shares(node).map(|(holding, facts)| MoveVictim {
            holding,
            rule: VictimRule::Relocation,
            order: self.draft.shares.at(holding).order,
            rank: EvictionRank::of(self.draft, self.draft.shares.at(holding)),
            loss: facts.loss(),
        });
        let mut shares: Vec<MoveVictim> = shares.collect();
        shares.sort_unstable_by_key(|victim| victim.rank);
        shares
    }

    /// True if a share may be moved: it belongs to a peer, and its job may start another in its
    /// place. A job above its demand would not get it back, nor would a job that is ending. A job
    /// with legal sizes would have no such size meanwhile, and a gang is whole or not there.
    fn may_move(&self, victim: MoveVictim) -> bool {
        let (draft, job) = (self.draft, victim.holding.job);
        let (class, own) = [job, self.beneficiary].map(|ix| draft.class_of(ix)).into();
        let cap = draft.jobs[job].demand.cap;
        job != self.beneficiary
            && !draft.jobs[job].is_elastic
            && !draft.jobs[job].is_gang
            && may_help(draft, self.beneficiary, job)
            && class.policy.is_preemptable()
            && class.priority == own.priority
            && victim.order == draft.jobs[job].order
            && draft.has(job) <= cap.nshares
            && !matches!(
                cap.bound,
                CapBound::Completing
                    | CapBound::Spent
                    | CapBound::Closed
                    | CapBound::Overrun
                    | CapBound::TooEarly
            )
    }

    /// Returns the plans to clear these nodes. With `makes_space`, moved shares may also use space
    /// that the rules allow to take elsewhere.
    fn plans(
        &mut self,
        cleared: &[(NodeIx, Vec<MoveVictim>)],
        order: Order,
        makes_space: bool,
    ) -> Vec<(MoveCost, MovePlan)> {
        let mut plans = Vec::new();
        for (node, victims) in cleared {
            let (node, victims) = (*node, victims.clone());
            let Some(housing) = self.house(node, &victims, makes_space) else { continue };
            let freed: QShares = victims.iter().map(|victim| victim.order.qshares()).sum();
            let missing = self.draft.spaces.missing_for(node, order.qshares());
            let all = || victims.iter().chain(housing.victims.values().flatten());
            let loss = all().map(|victim| victim.loss).fold(0, Millis::saturating_add);
            let overshoot = freed.saturating_sub(missing);
            let cost = (makes_space, loss, all().count(), overshoot, node);
            let considered = Alternatives::default();
            plans.push((cost, MovePlan { node, order, victims, housing, loss, considered }));
        }
        plans
    }

    /// Resets the claim so that it counts the preempted shares of `victims`, and not the moved
    /// shares.
    fn recall<'v>(&mut self, victims: impl Iterator<Item = &'v MoveVictim>) {
        self.claim.reset();
        for victim in victims.filter(|victim| victim.rule != VictimRule::Relocation) {
            self.claim.take(victim.holding.job, victim.order.qshares().0);
        }
    }
}

/// True if moving a process of `job` may make space for `beneficiary`. If the process is no smaller
/// than the beneficiary's and its places are open to both, the beneficiary could go there itself.
fn may_help(draft: &Draft<'_>, beneficiary: JobIx, job: JobIx) -> bool {
    let [own, theirs] = [beneficiary, job].map(|ix| draft.class_of(ix).pool);
    draft.jobs[job].order < draft.jobs[beneficiary].order
        || draft.jobs[beneficiary].is_restricted
        || !draft.pools.is_within(theirs, own)
}

impl MovePlan {
    /// Clears the node for `job`, and starts the moved shares again elsewhere.
    fn carry_out(self, draft: &mut Draft<'_>, reclaim: &mut Reclaim, job: JobIx) {
        let elsewhere = self.housing.victims.into_values().flatten();
        for victim in self.victims.into_iter().chain(elsewhere) {
            draft.preempt(victim.holding, victim.rule, Some((job, self.considered)));
            reclaim.note_taken(draft, victim.holding, victim.rule, job);
        }
        for home in self.housing.homes {
            if home.is_free {
                draft.expand(home.job, home.node, home.order);
            } else {
                draft.promise(home.job, home.node, home.order);
            }
            reclaim.note_used(draft, home.node);
        }
        draft.promise(job, self.node, self.order);
        reclaim.note_used(draft, self.node);
    }
}

/// Spares each superfluous victim, the last first: moved shares before preempted shares, and of
/// each the dearest first.
fn spare_superfluous(victims: Vec<MoveVictim>, missing: QShares) -> Vec<MoveVictim> {
    plan::spare_superfluous(victims, |victim| victim.order.qshares(), missing)
}
