//! Claims: space that waiting gangs keep from younger work that stays.
//!
//! Claims are found anew in each cycle. Work that can be preempted is not concerned. A gang that
//! waits for work without an end claims nothing, as it may wait for ever.
//!
//! Design: requests and time, section 3.4.

use std::collections::BTreeSet;
use std::iter;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use super::decide::{amounts_by_node, pieces};
use super::fit::{Fitting, Piece};
use super::planner::GangPlanner;
use super::request::{GangRequest, gang_request};
use super::supply::{PlacementSet, SpacePart, Supply};
use super::{Claim, Slot, Taker, gang_shape};
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::share_table::{large, small};
use crate::engine::snapshot::Promise;
use crate::engine::target::NodeListCapacity;
use crate::model::{JobId, JobIx, NShares, NodeIx, count, floor_div};

/// Most waiting gangs of a priority that claim nodes.
const CLAIMS_MAX: usize = 100;

impl GangPlanner {
    /// Claims the nodes that the gang could use, as many as it needs: younger work that stays may
    /// not use them. Older single requests that probably use some of them can go elsewhere, as they may
    /// for a younger gang.
    pub(super) fn claim(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        request: &GangRequest<'_>,
    ) {
        let claimants: usize = self.claimants.values().map(BTreeSet::len).sum();
        if CLAIMS_MAX <= claimants {
            return;
        }
        self.waiting.push(request.job);
        let are_open = !self.chooses_nodes() && self.may_give_back_expected();
        let may_wait = self.may_wait_for_ends(request);
        // Requests without an end may be in the way, and go elsewhere.
        let is_blocked = !may_wait && are_open;
        if is_blocked {
            self.give_back_all_ending(draft);
        }
        let none_stays = BTreeSet::new();
        if are_open {
            self.give_back_expected(draft, &none_stays);
        }
        let may_wait = may_wait || (is_blocked && self.may_wait_for_ends(request));
        let mut claims = if may_wait && holds_now(draft, request.job) {
            self.possible_claims(draft, request)
        } else {
            Vec::new()
        };
        if are_open {
            self.take_expected(&none_stays);
        }
        if is_blocked {
            self.take_all_ending(draft);
        }
        if are_open {
            let (moves, stuck) = self.find_moves(draft, request.pool, &amounts_of(&claims));
            self.make_moves(draft, moves);
            // The gang claims nodes beside requests that stay.
            if !stuck.is_empty() {
                if is_blocked {
                    self.give_back_all_ending(draft);
                }
                claims = self.possible_claims(draft, request);
                if is_blocked {
                    self.take_all_ending(draft);
                }
            }
        }
        self.enter_claims(draft, space, listed, claims);
    }

    /// Notes claims of a gang, and takes their space from younger work that stays.
    fn enter_claims(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        claims: Vec<Claim>,
    ) {
        let Some(first) = claims.first() else { return };
        // A gang uses nodes of its own pool only.
        let pool = draft.spaces.pool(first.node);
        self.claimants.entry(pool).or_default().insert(first.job);
        draft.claims.add_all(&claims);
        self.take_claims(draft, space, listed, &claims);
        self.claims.extend(claims);
    }

    /// Claims nodes for older gangs that wait: the nodes that were promised to a gang which starts
    /// on `slots` instead, or not at all.
    pub(super) fn claim_released(
        &mut self,
        (space, listed): (&mut EmptyCluster, &mut NodeListCapacity),
        draft: &mut Draft<'_>,
        promised: &[Promise],
        slots: &[Slot],
    ) {
        let is_used = |node: NodeIx| slots.iter().any(|slot| slot.node == node);
        let released: BTreeSet<NodeIx> =
            promised.iter().map(|promise| promise.node).filter(|node| !is_used(*node)).collect();
        // With a calendar, a gang that waits has its start.
        if released.is_empty() || self.calendar.is_some() {
            return;
        }
        for job in self.waiting.clone() {
            let snapshot = draft.snapshot;
            let Some(shape) = gang_shape(&snapshot.jobs[job]) else { continue };
            let NShares(goal) = draft.jobs[job].demand.cap.nshares;
            let mut request = gang_request(draft, &self.kinds, (job, shape), goal);
            // The gang waits as before: the request takes the size and the sets with which it waits.
            let waits = self.outcome(draft, &mut request, &[]).is_err();
            let wanted: u64 = request.pieces.iter().map(|piece| piece.count).sum();
            let known = count(self.claims.iter().filter(|claim| claim.job == job));
            let lacks = wanted.saturating_sub(known);
            if lacks == 0 || (waits && !self.may_wait_for_ends(&request)) || !holds_now(draft, job)
            {
                continue;
            }
            let claims = self.possible_claims(draft, &request).into_iter();
            let claims = claims.filter(|claim| released.contains(&claim.node));
            let claims: Vec<Claim> = claims.zip(0..lacks).map(|(claim, _)| claim).collect();
            self.enter_claims(draft, space, listed, claims);
        }
    }

    /// True if the gang could start once all work with an end has ended.
    fn may_wait_for_ends(&self, request: &GangRequest<'_>) -> bool {
        request.domains().any(|set| self.may_start_in(request, set))
    }

    fn may_start_in(&self, request: &GangRequest<'_>, set: Option<&PlacementSet>) -> bool {
        let ending = &self.pools[&request.pool].ending;
        self.test((ending, None), request, set, true).is_ok()
    }

    /// The claims of a gang in the set in which it can claim most.
    fn possible_claims(&self, draft: &Draft<'_>, request: &GangRequest<'_>) -> Vec<Claim> {
        // What older gangs leave of their nodes is claimed, too: work that stays there would be in
        // the way later.
        let promised = self.promised_to_givers(draft, request);
        let with_promised = |supply: &Arc<Supply>| {
            let mut supply = Arc::clone(supply);
            for &(node, amount) in &promised {
                Arc::make_mut(&mut supply).give_back(&self.kinds, node, amount, 0);
            }
            supply
        };
        let supply = with_promised(&self.unclaimed[&request.pool]);
        let left = with_promised(&self.supply[&request.pool]);
        let mut best: Option<(u64, Vec<Claim>)> = None;
        for set in request.domains().filter(|set| self.may_start_in(request, *set)) {
            let claims = self.partial_claims((&supply, &left), request, set);
            let amount = claims.iter().map(|claim| claim.amount).sum();
            if best.as_ref().is_none_or(|(most, _)| *most < amount) {
                best = Some((amount, claims));
            }
        }
        best.map(|(_, claims)| claims).unwrap_or_default()
    }

    /// Space that is promised to gangs which the gang of `request` may preempt once they started. Such
    /// a gang is no more in the way of a claim than other work that can be preempted.
    fn promised_to_givers(
        &self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
    ) -> Vec<(NodeIx, u64)> {
        let taker = Taker::of(draft, request.job);
        let gives =
            |id: &JobId| draft.place_of(*id).is_some_and(|job| taker.may_take_from(draft, job));
        let of_givers = self.promises.iter().filter(|(id, _)| gives(id));
        let promises = of_givers.flat_map(|(_, promises)| promises);
        // Nodes out of service are no part of the supply.
        let promises = promises.filter(|promise| draft.spaces.is_schedulable(promise.node));
        promises.map(|promise| (promise.node, promise.order.qshares().0)).collect()
    }

    /// Claims on the nodes of a set, chunk by chunk, in the order in which gangs use nodes. `left`:
    /// space that no older gang claims.
    fn partial_claims(
        &self,
        (supply, left): (&Supply, &Supply),
        request: &GangRequest<'_>,
        set: Option<&PlacementSet>,
    ) -> Vec<Claim> {
        let bounds = request.bounds(set);
        // Older gangs may have claimed all of it.
        if !left.has_any_space(&self.kinds, request.shape, set) {
            return Vec::new();
        }
        let stock = supply.stock(&self.kinds, request, bounds, SpacePart::Available);
        let counts = request.fitting(&stock).as_many_as_fit();
        let pieces = request.pieces.iter().zip(counts);
        let pieces: Vec<Piece> = pieces.map(|(piece, count)| Piece { count, ..*piece }).collect();
        let fitting = Fitting { pieces: &pieces, ..request.fitting(&stock) };
        let loads = fitting.assign().unwrap_or_default();
        let slots = self.name(supply, request, bounds, &stock, &loads);
        let claims = amounts_by_node(&slots).into_iter().map(|(node, amount)| {
            let amount = amount.min(left.space(node).available);
            Claim { job: request.job, node, amount }
        });
        claims.filter(|claim| 0 < claim.amount).collect()
    }

    /// Takes the space of the claims of a gang from everything that younger work that stays is
    /// counted on.
    pub(super) fn take_claims(
        &mut self,
        draft: &Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        claims: &[Claim],
    ) {
        let Some(pool) = claims.first().map(|claim| draft.spaces.pool(claim.node)) else { return };
        let amounts = amounts_of(claims);
        if let Some(supply) = self.supply.get_mut(&pool) {
            Arc::make_mut(supply).take_all(&self.kinds, &amounts);
        }
        space.take_like(pieces(draft, listed, &amounts), &mut self.claimed_pieces);
        for claim in claims {
            self.claimed_on_lists.push((claim.node, listed.take(claim.node, claim.amount)));
        }
    }

    /// The oldest gang without whose claims this gang could start.
    pub(super) fn older_claimant(
        &self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
    ) -> Option<JobId> {
        let first = *self.claimants.get(&request.pool)?.first()?;
        let supply = &self.unclaimed[&request.pool];
        let mut domains = request.domains();
        let limits = request.limits.as_ref();
        let fits = |set| self.test((supply, limits), request, set, false).is_ok();
        let would_fit = domains.any(fits);
        would_fit.then(|| draft.jobs[first].id)
    }

    /// The oldest gang that claims space in which `amount` for `job` would fit.
    pub(super) fn claimant_before(
        &self,
        draft: &Draft<'_>,
        job: JobIx,
        amount: u64,
    ) -> Option<JobId> {
        let supply = self.supply.get(&draft.class_of(job).pool)?;
        let would_fit = |claim: &&Claim| {
            draft.job(job).may_use(claim.node)
                && amount <= supply.space(claim.node).available + claim.amount
        };
        let claimants = self.claims.iter().filter(would_fit).map(|claim| claim.job);
        claimants.min().map(|claimant| draft.jobs[claimant].id)
    }
}

/// The amount of each claim, with its node.
fn amounts_of(claims: &[Claim]) -> Vec<(NodeIx, u64)> {
    claims.iter().map(|claim| (claim.node, claim.amount)).collect()
}

/// Space that is kept for waiting gangs. Gangs may claim every node several times, so all claims are
/// in a single allocation.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct NodeClaims {
    all: Vec<LinkedClaim>,
    /// Places of the first and the last claim on each node.
    ends: Vec<Option<(ClaimPlace, ClaimPlace)>>,
}

/// Place of a claim, counted from 1.
type ClaimPlace = NonZeroU32;

#[derive(Clone, Debug)]
struct LinkedClaim {
    gang: u32,
    /// Place of the next claim on the same node.
    next: Option<ClaimPlace>,
    amount: u64,
}

impl NodeClaims {
    /// True if no gang claims anything.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Claims on `node`, the oldest gang first: each gang, and the amount.
    pub(in crate::engine) fn on(&self, node: NodeIx) -> impl Iterator<Item = (JobIx, u64)> {
        let at = |place: ClaimPlace| &self.all[large(place.get() - 1)];
        let first = self.ends.get(node.0).copied().flatten().map(|(first, _)| at(first));
        let claims = iter::successors(first, move |claim| claim.next.map(at));
        claims.map(|claim| (JobIx(large(claim.gang)), claim.amount))
    }

    /// Number of claims.
    pub(in crate::engine) fn count(&self) -> usize {
        self.all.len()
    }

    /// The nodes with claims on them.
    pub(in crate::engine) fn nodes(&self) -> impl Iterator<Item = NodeIx> {
        let nodes = self.ends.iter().zip(0..).filter(|(ends, _)| ends.is_some());
        nodes.map(|(_, place)| NodeIx(place))
    }

    fn add_all(&mut self, claims: &[Claim]) {
        self.all.reserve(claims.len());
        let nodes = claims.iter().map(|claim| claim.node.0 + 1).max().unwrap_or(0);
        self.ends.resize(self.ends.len().max(nodes), None);
        for &Claim { job, node, amount } in claims {
            self.all.push(LinkedClaim { gang: small(job.0), next: None, amount });
            let Some(place) = ClaimPlace::new(small(self.all.len())) else { continue };
            match &mut self.ends[node.0] {
                Some((_, last)) => {
                    self.all[large(last.get() - 1)].next = Some(place);
                    *last = place;
                }
                ends @ None => *ends = Some((place, place)),
            }
        }
    }
}

/// True if a waiting gang keeps nodes from younger work in this cycle: for the hold limit of its
/// class, then not for as long, and so on.
fn holds_now(draft: &mut Draft<'_>, job: JobIx) -> bool {
    let (cycle, rules) = (draft.snapshot.cycle, &draft.class_of(job).gangs);
    let since = draft.job(job).gang.waits_since.unwrap_or(cycle);
    let period = draft.snapshot.topology.settings.publication_period;
    let limit = NonZeroU64::new(period).map_or(0, |period| floor_div(rules.hold_limit, period));
    let limit = NonZeroU64::new(limit).unwrap_or(NonZeroU64::MIN);
    let phase = floor_div(cycle.saturating_sub(since), limit);
    draft.change_expected_in(since + (phase + 1).saturating_mul(limit.get()));
    phase.is_multiple_of(2)
}

/// True if a process of the job at `ix` on `node` leaves the space that older gangs claim there.
/// Work that can be preempted may use that space meanwhile.
pub(in crate::engine) fn leaves_claims(draft: &Draft<'_>, ix: JobIx, node: NodeIx) -> bool {
    let claims = draft.claims.on(node);
    let class = draft.class_of(ix);
    let age = |job: JobIx| (draft.precedence(job), job);
    let older = claims.filter(|(claimant, _)| age(*claimant) < age(ix));
    let claimed: u64 = older.map(|(_, amount)| amount).sum();
    class.policy.is_preemptable() || claimed == 0 || leaves(draft, ix, node, claimed)
}

/// True if a process of the job at `ix` on `node` would stay in space that some gang claims, older or
/// younger.
pub(in crate::engine) fn uses_claim(draft: &Draft<'_>, ix: JobIx, node: NodeIx) -> bool {
    let claimed = claimed_on(draft, node);
    0 < claimed && !draft.class_of(ix).policy.is_preemptable() && !leaves(draft, ix, node, claimed)
}

/// Space of `node` that gangs claim, in qshares.
pub(super) fn claimed_on(draft: &Draft<'_>, node: NodeIx) -> u64 {
    draft.claims.on(node).map(|(_, amount)| amount).sum()
}

/// True if a process of the job at `ix` on `node` leaves `claimed` for gangs.
fn leaves(draft: &Draft<'_>, ix: JobIx, node: NodeIx, claimed: u64) -> bool {
    let needed = draft.jobs[ix].order.qshares().0;
    let newly_kept = draft.newly_kept.get(&node).map_or(0, |kept| kept.0);
    claimed + needed + newly_kept <= draft.spaces.ideal(node).free
}
