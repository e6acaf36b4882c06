//! The schedule in the making: the only thing a cycle mutates.
//!
//! Each act of a phase is a method ([`Draft::expand`], [`Draft::preempt`], [`Draft::promise`], …)
//! that keeps free space, holdings and the outcome consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::capacity::{DemandByOrder, Pools, SpaceIndex};
use super::demand;
use super::effort::Effort;
use super::fairness_tree::{Amounts, FairnessTree};
use super::gang::{CalendarLeaves, GangPlan, NodeClaims, gang_shape, leaves_claims};
pub(super) use super::job_draft::{CountRefusal, JobDraft};
use super::place::ListCursors;
use super::precedence::reserved_work;
use super::preempt::Takings;
use super::report::{CapBound, StartEstimate};
use super::schedule::{Alternatives, Expansion, Preemption, VictimRule};
use super::share_table::{ShareIx, ShareTable};
use super::snapshot::{Job, Promise, Share, Snapshot};
use super::target::orders_that_suit;
use super::wait_reason::WaitReason;
use super::water_filling::{Participant, Service, Turn, WaterFill};
use crate::model::{
    ClassPolicy, IxVec, JobId, JobIx, Millis, NShares, NodeIx, Order, PoolIx, Precedence, QShares,
    ResourceClass,
};

/// Jobs fetched from memory at a time.
const PREFETCH_JOBS: usize = 16;

/// Working state of a cycle.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub snapshot: &'a Snapshot,
    pub pools: Pools,
    pub entities: Arc<FairnessTree>,
    pub spaces: SpaceIndex,
    pub shares: ShareTable,
    /// State of each job, in the order of the snapshot.
    pub jobs: IxVec<JobIx, JobDraft>,
    /// Target of each entity, in qshares.
    pub targets: Amounts,
    /// Amount that each entity holds, in qshares: promises included, terminating shares excluded.
    pub held: Amounts,
    pub expansions: Vec<Expansion>,
    pub preemptions: Vec<Preemption>,
    pub promises: Vec<Promise>,
    /// The lowest priority of fair-share work that was promised space so far; `None` before.
    pub lowest_promised: Option<Precedence>,
    /// The nodes that hold fixed-share processes, by the service of the job.
    pub services: BTreeMap<u64, BTreeSet<NodeIx>>,
    /// Preemptions by donor and beneficiary, both recent and of this cycle.
    pub takings: Takings,
    /// The jobs that list the only nodes they may use, oldest first.
    pub confined: Vec<JobIx>,
    /// The jobs for which space is to be searched in the next cycle first.
    pub put_off: Vec<JobId>,
    /// Work in its advance reservation, by place: the opening of the reservation.
    pub reserved: BTreeMap<JobIx, Millis>,
    /// The gangs, oldest first.
    pub gangs: Vec<JobIx>,
    /// The jobs that work with legal sizes only, oldest first.
    pub elastic: Vec<JobIx>,
    /// Plans of gangs that start in this cycle, or are promised space.
    pub gang_plans: Vec<GangPlan>,
    /// Reasons of the gangs that wait.
    pub gang_reasons: BTreeMap<JobIx, WaitReason>,
    /// Nodes that the calendar leaves for work that stays; `None` if nothing depends on the time.
    pub leaves: Option<CalendarLeaves>,
    /// Memory of the nodes of lists that are full.
    pub list_cursors: ListCursors,
    /// Expected starts of waiting gangs.
    pub start_estimates: BTreeMap<JobIx, StartEstimate>,
    /// Targets before they were rounded to a legal size.
    pub illegal_targets: BTreeMap<JobIx, NShares>,
    /// Space that is kept for waiting gangs, by node: the gang, and the amount.
    pub claims: NodeClaims,
    /// Nodes on which single requests are expected to find free space, beside what gangs need.
    pub expected_on: BTreeMap<JobIx, BTreeSet<NodeIx>>,
    /// Free space of each node that such requests will probably use.
    pub expected_space: BTreeMap<NodeIx, QShares>,
    /// Space that work that stays got in this cycle, by node; kept while there are claims.
    pub newly_kept: BTreeMap<NodeIx, QShares>,
    /// Next cycle that decides otherwise even if nothing happens.
    pub next_change: Option<u64>,
    /// First moment at which this snapshot may be planned otherwise.
    pub valid_until: Option<Millis>,
    /// Progress of this cycle.
    pub effort: Effort,
    /// The places of the jobs in the snapshot, by number.
    by_number: Vec<JobIx>,
}

/// Qshares that each entity holds.
fn held_amounts(
    entities: &FairnessTree,
    shares: &ShareTable,
    jobs: &IxVec<JobIx, JobDraft>,
) -> Amounts {
    let mut held = entities.no_amounts();
    for job in jobs.places() {
        let qshares = shares.held_by(job).map(|(_, share)| share.order.qshares().0).sum();
        entities.add(&mut held, job, qshares);
    }
    held
}

impl<'a> Draft<'a> {
    /// Builds the state at the start of a cycle, with the default effort.
    #[cfg(test)]
    pub(super) fn new(snapshot: &'a Snapshot) -> Draft<'a> {
        Draft::with(snapshot, &Effort::default())
    }

    /// Builds the state at the start of a cycle.
    pub(super) fn with(snapshot: &'a Snapshot, effort: &Effort) -> Draft<'a> {
        let promised = demand::promised(snapshot);
        let mut shares = ShareTable::with_space_for(&snapshot.jobs);
        let mut jobs: IxVec<JobIx, JobDraft> = IxVec::with_capacity(snapshot.jobs.len());
        let mut services: BTreeMap<u64, BTreeSet<NodeIx>> = BTreeMap::new();
        let mut belongs = IxVec::with_capacity(snapshot.jobs.len());
        let (mut confined, mut gangs, mut elastic) = (Vec::new(), Vec::new(), Vec::new());
        // Jobs and their shares are scattered in memory. Counting the shares of a few jobs first
        // loads them in parallel, before they are read job by job.
        for few in snapshot.jobs.as_slice().chunks(PREFETCH_JOBS) {
            effort.step();
            let held: Vec<NShares> = few.iter().map(|job| job.nshares_held()).collect();
            for (job, held) in few.iter().zip(held) {
                shares.enter(job);
                belongs.push((job.class, job.user));
                let is_single = gang_shape(job).is_none();
                if is_single && snapshot.class_of(job).policy == ClassPolicy::FixedShare {
                    let nodes = job.shares.iter().map(|share| share.node);
                    services.entry(job.service).or_default().extend(nodes);
                }
                let ix = JobIx(jobs.len());
                confined.extend(job.nodes.is_some().then_some(ix));
                let promised = promised.get(&job.id).copied().unwrap_or_default();
                let draft = JobDraft::new(snapshot, job, held, promised);
                gangs.extend(draft.is_gang.then_some(ix));
                elastic.extend(draft.is_elastic.then_some(ix));
                jobs.push(draft);
            }
        }
        let entities = Arc::new(FairnessTree::new(snapshot, belongs));
        let mut by_number: Vec<JobIx> = jobs.places().collect();
        // The numbers are nearly sorted already, as most jobs got them in this order.
        by_number.sort_by_key(|&ix| jobs[ix].id);
        let place_of = |job| place_in(&jobs, &by_number, job);
        Draft {
            takings: Takings::new(&entities, &snapshot.quiescence.takings, place_of),
            snapshot,
            pools: Pools::new(&snapshot.topology),
            held: held_amounts(&entities, &shares, &jobs),
            spaces: SpaceIndex::new(snapshot, &entities, &mut shares),
            shares,
            jobs,
            targets: entities.no_amounts(),
            entities,
            expansions: Vec::new(),
            preemptions: Vec::new(),
            promises: Vec::new(),
            lowest_promised: None,
            services,
            confined,
            put_off: Vec::new(),
            reserved: reserved_work(snapshot),
            gangs,
            elastic,
            gang_plans: Vec::new(),
            gang_reasons: BTreeMap::new(),
            leaves: None,
            list_cursors: ListCursors::default(),
            start_estimates: BTreeMap::new(),
            illegal_targets: BTreeMap::new(),
            claims: NodeClaims::default(),
            expected_on: BTreeMap::new(),
            expected_space: BTreeMap::new(),
            newly_kept: BTreeMap::new(),
            next_change: None,
            valid_until: None,
            effort: effort.at_rest(snapshot.quiescence.rest_cycles),
            by_number,
        }
    }

    /// The place of a job in the snapshot.
    pub(super) fn place_of(&self, job: JobId) -> Option<JobIx> {
        place_in(&self.jobs, &self.by_number, job)
    }

    /// The job at place `ix` of the snapshot. Facts that loops over many jobs need are in
    /// [`Draft::jobs`], too.
    pub(super) fn job(&self, ix: JobIx) -> &'a Job {
        &self.snapshot.jobs[ix]
    }

    /// The class of the job at `ix`.
    pub(super) fn class_of(&self, ix: JobIx) -> &'a ResourceClass {
        &self.snapshot.topology.classes[self.entities.class_of(ix)]
    }

    /// True if the node list of the job at `ix`, if any, and older gangs leave `node` to the job.
    pub(super) fn is_in_reach(&self, ix: JobIx, node: NodeIx) -> bool {
        (!self.jobs[ix].is_restricted || self.job(ix).may_use(node))
            && (self.claims.is_empty() || leaves_claims(self, ix, node))
    }

    /// True if gangs and the calendar leave `node` to the job at `ix`, its node list aside.
    pub(super) fn is_open_to(&self, ix: JobIx, node: NodeIx) -> bool {
        (self.claims.is_empty() || leaves_claims(self, ix, node))
            && self.leaves.as_ref().is_none_or(|it| it.leave(ix, node))
    }

    /// True if the job at `ix` may use `node` now.
    pub(super) fn may_use(&self, ix: JobIx, node: NodeIx) -> bool {
        (!self.jobs[ix].is_restricted || self.job(ix).may_use(node)) && self.is_open_to(ix, node)
    }

    /// Lowers the target of `job` to `target` nshares.
    pub(super) fn lower_target(&mut self, job: JobIx, target: NShares) {
        let less = self.jobs[job].target.saturating_sub(target);
        let amount = less.of_order(self.jobs[job].order).0;
        self.jobs[job].target -= less;
        let entities = Arc::clone(&self.entities);
        entities.remove(&mut self.targets, job, amount);
    }

    /// Notes that the same snapshot may be planned otherwise from `moment` on.
    pub(super) fn change_expected_at(&mut self, moment: Millis) {
        self.valid_until = Some(self.valid_until.map_or(moment, |until| until.min(moment)));
    }

    /// Notes that `cycle` may decide otherwise even if nothing happens until then.
    pub(super) fn change_expected_in(&mut self, cycle: u64) {
        self.next_change = Some(self.next_change.map_or(cycle, |next| next.min(cycle)));
    }

    /// The pools that the job at `ix` may be placed in, in search order. A job that is not
    /// fair-share uses its own pool only: it can never be a squatter.
    pub(super) fn pools_for(&self, ix: JobIx) -> &[PoolIx] {
        let class = self.class_of(ix);
        match class.policy {
            ClassPolicy::FairShare { .. } => self.pools.searched_from(class.pool),
            ClassPolicy::FixedShare | ClassPolicy::Reserve => std::slice::from_ref(&class.pool),
        }
    }

    /// The orders of the nodes that the reservation `ix` may have now.
    pub(super) fn nodes_within_reach(&self, ix: JobIx) -> RangeInclusive<u64> {
        let suitable = orders_that_suit(self, ix);
        *suitable.start()..=self.jobs[ix].largest_node.0.min(*suitable.end())
    }

    /// The share that `holding` names.
    pub(super) fn share(&self, holding: ShareIx) -> &'a Share {
        &self.snapshot.jobs[holding.job].shares[holding.share]
    }

    /// Nshares of `job`: held plus promised.
    pub(super) fn has(&self, job: JobIx) -> NShares {
        self.jobs[job].held + self.jobs[job].promised
    }

    /// Nshares that `job` is below its target.
    pub(super) fn shortfall(&self, job: JobIx) -> NShares {
        self.below(job, self.jobs[job].target)
    }

    /// True if `job` has nothing, though a first process is owed to it and its cap allows a
    /// process.
    pub(super) fn is_starved(&self, job: JobIx) -> bool {
        self.jobs[job].is_owed && self.has(job) == NShares(0) && NShares(0) < self.below_cap(job)
    }

    /// Nshares that `job` is below both its target and the threshold under which a job is needy.
    pub(super) fn shortfall_while_needy(&self, job: JobIx) -> NShares {
        let threshold = NShares(self.snapshot.topology.settings.fragmentation_threshold);
        self.shortfall(job).min(threshold.saturating_sub(self.has(job)))
    }

    /// Nshares that `job` is below its cap.
    pub(super) fn below_cap(&self, job: JobIx) -> NShares {
        self.below(job, self.jobs[job].most)
    }

    /// True if `job` could have another nshare, be it after it has changed its size, or beyond its
    /// target of a legal size.
    pub(super) fn could_have_more(&self, job: JobIx) -> bool {
        self.has(job) < self.jobs[job].demand.cap.nshares
    }

    /// True if some job is below its target or its cap. Otherwise no space needs to be made.
    pub(super) fn has_unmet_demand(&self) -> bool {
        let asks = |job| NShares(0) < self.shortfall(job) || NShares(0) < self.below_cap(job);
        self.jobs.places().any(asks)
    }

    /// True if some space is free, becoming free, or held by a share that may be preempted. If
    /// false, no waiting job can get any space in this cycle.
    pub(super) fn has_space_to_free(&self) -> bool {
        let mut classes = self.snapshot.topology.classes.iter().zip(&self.held.classes);
        let mut pools = self.snapshot.topology.pools.places();
        classes.any(|(class, held)| class.policy.is_preemptable() && 0 < *held)
            || pools.any(|pool| self.spaces.has_any(pool))
    }

    /// Nshares that `job` may get until it has `nshares`. A job that is ending gets none, not even
    /// for shares preempted from it in this cycle. A gang gets no single process, and
    /// a job that changes its size gets none until that is done.
    fn below(&self, job: JobIx, nshares: NShares) -> NShares {
        let draft = &self.jobs[job];
        if draft.is_gang || draft.is_adapting {
            return NShares(0);
        }
        match draft.demand.cap.bound {
            CapBound::Completing
            | CapBound::Spent
            | CapBound::Closed
            | CapBound::Overrun
            | CapBound::TooEarly => NShares(0),
            CapBound::WorkLeft
            | CapBound::Maximum
            | CapBound::Frozen
            | CapBound::Initialization
            | CapBound::UnknownPace
            | CapBound::StartsOver
            | CapBound::Doubling
            | CapBound::Prediction => nshares.saturating_sub(self.has(job)),
        }
    }

    /// True if `job` is needy: below its target, its fair share and the threshold. The fair share
    /// of a job that cannot be preempted is its target.
    ///
    /// Design: "Defragmentation", decision D4: at the threshold is not needy.
    pub(super) fn is_needy(&self, job: JobIx) -> bool {
        if self.shortfall(job) == NShares(0) {
            return false;
        }
        if !self.class_of(job).policy.is_preemptable() {
            return true;
        }
        self.would_be_needy_with(job, self.has(job))
    }

    /// True if `job` with `nshares` nshares would be below its fair share and below the threshold.
    pub(super) fn would_be_needy_with(&self, job: JobIx, nshares: NShares) -> bool {
        let amount = nshares.of_order(self.jobs[job].order);
        nshares.0 < self.snapshot.topology.settings.fragmentation_threshold
            && amount < self.jobs[job].pure_fair_share
    }

    /// True if `job` would be needy if only `nshares` nshares were left to it.
    pub(super) fn becomes_needy_with(&self, job: JobIx, nshares: NShares) -> bool {
        nshares < self.jobs[job].target && self.would_be_needy_with(job, nshares)
    }

    /// Gives `job` a new share on `node`.
    pub(super) fn expand(&mut self, job: JobIx, node: NodeIx, order: Order) {
        self.expand_rank(job, node, order, None);
    }

    /// Gives `job` a new share on `node`; in a gang, with its rank. A job with legal sizes only is
    /// promised the space until a whole step is together.
    pub(super) fn expand_rank(
        &mut self,
        job: JobIx,
        node: NodeIx,
        order: Order,
        rank: Option<u32>,
    ) {
        if self.jobs[job].is_elastic {
            self.promise_rank(job, node, order, rank);
        } else {
            self.expand_now(job, node, order, rank);
        }
    }

    /// Gives `job` a new share on `node` at once.
    pub(super) fn expand_now(&mut self, job: JobIx, node: NodeIx, order: Order, rank: Option<u32>) {
        self.spaces.occupy(node, order.qshares());
        self.note_kept(job, node, i64::from(order.get()));
        self.jobs[job].held += NShares(1);
        self.entities.add(&mut self.held, job, order.qshares().0);
        if rank.is_none() && self.class_of(job).policy == ClassPolicy::FixedShare {
            self.services.entry(self.job(job).service).or_default().insert(node);
        }
        self.expansions.push(Expansion { job: self.jobs[job].id, node, order, rank });
    }

    /// Notes that `job` got or lost space on `node`, if it stays and there are claims.
    fn note_kept(&mut self, job: JobIx, node: NodeIx, amount: i64) {
        if !self.claims.is_empty() && !self.class_of(job).policy.is_preemptable() {
            let kept = self.newly_kept.entry(node).or_default();
            kept.0 = kept.0.saturating_add_signed(amount);
        }
    }

    /// Promises space on `node` to `job`: a single nshare, which counts as held from now on.
    pub(super) fn promise(&mut self, job: JobIx, node: NodeIx, order: Order) {
        self.promise_rank(job, node, order, None);
    }

    /// Promises space on `node` to `job`; in a gang, for its process of that rank.
    pub(super) fn promise_rank(
        &mut self,
        job: JobIx,
        node: NodeIx,
        order: Order,
        rank: Option<u32>,
    ) {
        self.spaces.promise(node, order.qshares());
        self.note_kept(job, node, i64::from(order.get()));
        self.jobs[job].promised += NShares(1);
        self.entities.add(&mut self.held, job, order.qshares().0);
        if rank.is_none() && self.class_of(job).policy.is_preemptable() {
            self.lowest_promised = self.lowest_promised.max(Some(self.precedence(job)));
        }
        self.promises.push(Promise { job: self.jobs[job].id, node, order, rank });
    }

    /// Frees the space of a promise.
    pub(super) fn withdraw(&mut self, job: JobIx, promise: Promise) {
        self.spaces.withdraw_promise(promise.node, promise.order.qshares());
        self.note_kept(job, promise.node, -i64::from(promise.order.get()));
        self.jobs[job].promised -= NShares(1);
        self.entities.remove(&mut self.held, job, promise.order.qshares().0);
        if let Some(place) = self.promises.iter().position(|kept| *kept == promise) {
            self.promises.remove(place);
        }
    }

    /// Preempts a share under `rule`, for `beneficiary`, together with the alternatives that were
    /// examined.
    pub(super) fn preempt(
        &mut self,
        holding: ShareIx,
        rule: VictimRule,
        beneficiary: Option<(JobIx, Alternatives)>,
    ) {
        let share = self.share(holding);
        if let Some((taker, _)) = beneficiary.filter(|_| rule.is_taking()) {
            self.takings.note(&self.entities, holding.job, taker);
        }
        self.spaces.leave(share.node, holding, share.order.qshares());
        self.shares.leave(holding);
        self.jobs[holding.job].held -= NShares(1);
        self.entities.remove(&mut self.held, holding.job, share.order.qshares().0);
        self.preemptions.push(Preemption {
            share: share.id,
            job: self.jobs[holding.job].id,
            node: share.node,
            beneficiary: beneficiary.map(|(job, _)| self.jobs[job].id),
            rule,
            loss: share.loss(),
            considered: beneficiary
                .map_or_else(Alternatives::default, |(_, considered)| considered),
        });
    }

    /// Serves `jobs` by their holdings, the least served first, each by at most the nshares that
    /// `growth` returns.
    pub(super) fn water_fill_by_holdings(
        &mut self,
        jobs: &[JobIx],
        turn: Turn,
        growth: impl Fn(&Draft<'a>, JobIx) -> NShares,
        mut serve: impl FnMut(&mut Draft<'a>, JobIx, &DemandByOrder) -> Service,
    ) {
        let seats = jobs.iter().map(|&job| Participant {
            job,
            order: self.jobs[job].order,
            space_to_grow: growth(self, job).0,
        });
        let mut walk = WaterFill::new(&self.entities, turn, seats, &self.held, &self.held);
        walk.serve_least_first(|seat, demand| {
            self.effort.step();
            serve(self, seat.job, demand)
        });
    }
}

/// Place in `jobs` of the job with that number. `by_number` lists the places sorted by job number.
fn place_in(jobs: &IxVec<JobIx, JobDraft>, by_number: &[JobIx], job: JobId) -> Option<JobIx> {
    let place = by_number.binary_search_by_key(&job, |&ix| jobs[ix].id).ok()?;
    Some(by_number[place])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tests::{ANN, BOB, FAIR, FIXED, Scene};
    use crate::model::SharePhase;

    /// A node of 4: the class and number of the processes on it, and if a process is terminating.
    #[test]
    fn where_all_that_is_taken_stays_there_is_no_room_to_be_had() {
        let cases = [
            (FIXED, 4, false, false),
            (FIXED, 3, false, true),
            (FIXED, 4, true, true),
            (FAIR, 4, false, true),
        ];
        for (class, processes, is_leaving, is_to_be_had) in cases {
            let mut scene = Scene::new(&[4]);
            let job = scene.running((ANN, class), 1, processes, 0);
            if is_leaving {
                scene.edit(job).shares[0].state = SharePhase::Leaving;
            }
            scene.job(BOB, FAIR, 1, 2);
            let draft = Draft::new(&scene.snapshot);
            assert!(draft.has_unmet_demand(), "Bob has nothing");
            assert_eq!(draft.has_space_to_free(), is_to_be_had, "{class:?} {processes}");
        }
    }

    /// The fair share is in qshares, the threshold in nshares. A job that has reached either is not
    /// needy: it may not take as a needy job, and may give.
    #[test]
    fn a_job_with_what_it_deserves_or_at_the_threshold_is_not_needy() {
        // Columns: processes of size 2, fair share, and if the job is needy.
        let cases = [
            (1, 3, true),
            (1, 2, false),
            (2, 5, true),
            (2, 4, false),
            (3, 7, false), // at the threshold
        ];
        for (held, fair_share, is_needy) in cases {
            let mut scene = Scene::new(&[8]);
            scene.settings().fragmentation_threshold = 3;
            scene.running((ANN, FAIR), 2, held, 0);
            let mut draft = Draft::new(&scene.snapshot);
            let job = JobIx(0);
            draft.jobs[job].target = NShares(4);
            draft.jobs[job].pure_fair_share = QShares(fair_share);
            let told = [draft.is_needy(job), draft.becomes_needy_with(job, NShares(held))];
            assert_eq!(told, [is_needy; 2], "{held} of {fair_share}");
        }
    }
}
