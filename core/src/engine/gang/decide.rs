//! Decides which gangs start, which wait, and why.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calendar::length_of;
use super::counted_anew::make_cells;
use super::fit::FitLack;
use super::planner::GangPlanner;
use super::request::{GangRequest, gang_request, total};
use super::supply::{PlacementSet, SpacePart};
use super::{GangPlan, Slot, gang_shape, least_start};
use crate::engine::bisect::largest;
use crate::engine::capacity::{EmptyCluster, NodePiece};
use crate::engine::draft::Draft;
use crate::engine::snapshot::Promise;
use crate::engine::target::{AllotmentLedger, NodeListCapacity};
use crate::engine::wait_reason::{GangLack, GangNodes, WaitReason};
use crate::model::{Elasticity, JobIx, NShares, Name, NodeIx, QShares};

/// Most times that a gang is tried while single requests move out of its way.
const MOVES_MAX: usize = 4;

impl GangPlanner {
    /// Decides on the gang at `job`: sets its target, and notes its plan, or the reason why it
    /// waits.
    pub(in crate::engine) fn decide(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        ledger: &mut AllotmentLedger,
        job: JobIx,
    ) {
        let snapshot = draft.snapshot;
        let gang = &snapshot.jobs[job];
        let Some(shape) = gang_shape(gang) else { return };
        let held = draft.jobs[job].held;
        let holds: u64 = draft.shares.held_by(job).map(|(_, share)| share.order.qshares().0).sum();
        let entities = Arc::clone(&draft.entities);
        let goal = draft.jobs[job].demand.cap.nshares;
        draft.jobs[job].target = held.min(goal);
        if goal <= held {
            let held = gang.held().map(|share| (share.rank, share.order.qshares().0));
            let mut ranked: Vec<(Option<u32>, u64)> = held.collect();
            ranked.sort_unstable();
            let stays = ranked.into_iter().zip(0..goal.0).map(|((_, amount), _)| amount).sum();
            entities.add(&mut draft.targets, job, stays);
            return;
        }
        let promised = self.promises.remove(&gang.id).unwrap_or_default();
        let known = self.known_inability(draft, job).filter(|_| holds == 0 && promised.is_empty());
        if let Some(reason) = known {
            draft.gang_reasons.insert(job, reason);
            return;
        }
        let mut request = gang_request(draft, &self.kinds, (job, shape), (goal - held).0);
        self.set_stay(draft, &mut request);
        for promise in &promised {
            self.release(draft, &request, promise);
        }
        // Promised nodes of its own may have been in its way.
        self.set_stay(draft, &mut request);
        if request.is_timed() {
            self.lengths.insert(length_of(draft, job));
        }
        draft.note_times(job, request.until);
        let outcome = self.outcome_in((space, listed), draft, &mut request, &promised);
        match outcome.and_then(|plan| self.in_time(draft, job, request.until).map(|()| plan)) {
            Ok((slots, is_promised)) => {
                let amount: u64 = slots.iter().map(|slot| slot.order.qshares().0).sum();
                if let Err(refusal) = ledger.grant(draft, job, QShares(amount)) {
                    draft.jobs[job].refusal = Some(refusal);
                    entities.add(&mut draft.targets, job, holds);
                    return;
                }
                draft.jobs[job].target = held + NShares(crate::model::count(&slots));
                entities.add(&mut draft.targets, job, holds + amount);
                self.use_slots(draft, space, listed, request.pool, &slots);
                self.start(&request, &slots);
                self.claim_released((space, listed), draft, &promised, &slots);
                draft.gang_plans.push(GangPlan { job, slots, is_promised });
            }
            Err(reason) => {
                self.note_inability(job, reason);
                entities.add(&mut draft.targets, job, holds);
                self.claim_released((space, listed), draft, &promised, &[]);
                self.note_wait((space, listed), draft, (ledger, &request), reason);
            }
        }
    }

    /// Notes the reason why a gang does not start, and keeps nodes for it if it waits for some.
    fn note_wait(
        &mut self,
        spaces: (&mut EmptyCluster, &mut NodeListCapacity),
        draft: &mut Draft<'_>,
        (ledger, request): (&AllotmentLedger, &GangRequest<'_>),
        reason: WaitReason,
    ) {
        let job = request.job;
        let waits = matches!(
            reason,
            WaitReason::GangLacks(GangLack { of: GangNodes::Available, .. })
                | WaitReason::BehindOlderGang { .. }
                | WaitReason::TooEarly { .. }
        );
        let least = total(&request.pieces);
        if waits && let Err(refusal) = ledger.test(draft, job, QShares(least)) {
            draft.jobs[job].refusal = Some(refusal);
            return;
        }
        // A gang that began once and would grow keeps no younger work waiting.
        let has_begun = NShares(0) < draft.jobs[job].held || draft.job(job).gang.size.is_some();
        let reason =
            if waits && !has_begun { self.wait(spaces, draft, request, reason) } else { reason };
        if let WaitReason::DeadlineUnreachable { starts: Some(starts), .. } = reason {
            // The earliest start moves on with the time.
            draft.change_expected_at(starts + 1);
        }
        draft.gang_reasons.insert(job, reason);
    }

    /// True if the ideal cluster has the space of all slots left. What was counted on nodes like them
    /// is counted elsewhere.
    pub(super) fn finds_cells(
        &mut self,
        draft: &Draft<'_>,
        space: &mut EmptyCluster,
        listed: &NodeListCapacity,
        slots: &[Slot],
    ) -> bool {
        let amounts = amounts_by_node(slots);
        // Claims are counted, too, and stay where they are.
        if self.are_claims_taken() {
            has_cells(draft, space, listed, &amounts)
        } else {
            make_cells(draft, space, listed, (&amounts, &mut self.counted_anew))
        }
    }

    /// The outcome for a gang, if the ideal cluster has the space of its slots left: work of higher
    /// priority, and older requests, may have been counted on it.
    ///
    /// Without a calendar, single requests were counted and have no nodes yet. If the gang finds none
    /// beside the nodes that they will probably use, it may use these, and the requests go elsewhere.
    pub(super) fn outcome_in(
        &mut self,
        (space, listed): (&mut EmptyCluster, &NodeListCapacity),
        draft: &mut Draft<'_>,
        request: &mut GangRequest<'_>,
        promised: &[Promise],
    ) -> Result<(Vec<Slot>, bool), WaitReason> {
        let may_move = !self.chooses_nodes() && self.may_give_back_expected();
        let before = may_move.then(|| request.clone());
        let lack = match self.outcome(draft, request, promised) {
            Ok((slots, _)) if !self.finds_cells(draft, space, listed, &slots) => {
                let (found, needed) = (0, crate::model::count(&slots));
                WaitReason::GangLacks(GangLack {
                    of: GangNodes::Available,
                    chunk: None,
                    found,
                    needed,
                })
            }
            // Beside older claims, too, nodes may be there that a request is only expected on.
            Err(
                lack @ (WaitReason::GangLacks(GangLack { of: GangNodes::Available, .. })
                | WaitReason::BehindOlderGang { .. }),
            ) => lack,
            outcome => return outcome,
        };
        let Some(before) = before else { return Err(lack) };
        let first = std::mem::replace(request, before.clone());
        // Requests that find no other node stay, and the gang is tried beside them.
        let mut staying = BTreeSet::new();
        for _ in 0..MOVES_MAX {
            self.give_back_expected(draft, &staying);
            let outcome = self.outcome(draft, request, promised);
            self.take_expected(&staying);
            let Ok((slots, is_promised)) = outcome else { break };
            if !self.finds_cells(draft, space, listed, &slots) {
                break;
            }
            let amounts = amounts_by_node(&slots);
            let (moves, stuck) = self.find_moves(draft, request.pool, &amounts);
            if stuck.is_empty() {
                self.make_moves(draft, moves);
                return Ok((slots, is_promised));
            }
            staying.extend(stuck);
            request.clone_from(&before);
        }
        *request = first;
        Err(lack)
    }

    /// Slots for all that the gang asks for, and true if they were promised before; or the reason
    /// why it waits.
    pub(super) fn outcome(
        &self,
        draft: &mut Draft<'_>,
        request: &mut GangRequest<'_>,
        promised: &[Promise],
    ) -> Result<(Vec<Slot>, bool), WaitReason> {
        let kept = self.kept_promises(draft, request, promised);
        if let Some(kept) = kept {
            // As much may be free elsewhere, while the promised nodes are still in use.
            let has_sets = self.choose_sets(draft, request).is_ok();
            let elsewhere = self.slots(request, SpacePart::Usable).ok().filter(|_| has_sets);
            return Ok(elsewhere.map_or((kept, true), |slots| (slots, false)));
        }
        if request.shape.elasticity == Some(Elasticity::Moldable) {
            // The smallest size decides if the gang can ever start, and where.
            let most = request.pieces[0].count;
            request.pieces[0].count = request.shape.min_processes.clamp(1, most);
            self.choose_sets(draft, request)?;
            request.pieces[0].count = most;
            self.choose_size(draft, request)?;
        } else {
            self.choose_sets(draft, request)?;
        }
        match self.slots(request, SpacePart::Available) {
            Ok(slots) if self.are_usable(request, &slots) => Ok((slots, false)),
            // Nodes of another kind, or another set, may be free, and then nothing is taken back.
            Ok(slots) => Ok((self.slots(request, SpacePart::Usable).unwrap_or(slots), false)),
            Err(lack) => Err(self.reason_to_wait(draft, request, lack)),
        }
    }

    /// True if all slots have their space now.
    fn are_usable(&self, request: &GangRequest<'_>, slots: &[Slot]) -> bool {
        let supply = &self.supply[&request.pool];
        let mut amounts = amounts_by_node(slots).into_iter();
        amounts.all(|(node, amount)| amount <= supply.space(node).usable)
    }

    /// Slots of the promises, if the gang was promised all it asks for and nothing spoiled it.
    fn kept_promises(
        &self,
        draft: &Draft<'_>,
        request: &mut GangRequest<'_>,
        promised: &[Promise],
    ) -> Option<Vec<Slot>> {
        if promised.is_empty() {
            return None;
        }
        let mut slots: Vec<Slot> = promised
            .iter()
            .filter_map(|it| Some(Slot { rank: it.rank?, node: it.node, order: it.order }))
            .collect();
        slots.sort_unstable_by_key(|slot| slot.rank);
        let needed: u64 = request.pieces.iter().map(|piece| piece.count).sum();
        // A moldable gang was promised the size at which it starts.
        let is_moldable = request.shape.elasticity == Some(Elasticity::Moldable);
        let count = crate::model::count(&slots);
        if is_moldable && count < needed {
            request.pieces[0].count = count;
        } else if count != needed {
            return None;
        }
        let supply = &self.supply[&request.pool];
        let mut amounts: BTreeMap<NodeIx, u64> = BTreeMap::new();
        for (slot, rank) in slots.iter().zip(request.first_rank..) {
            let chunk = request.shape.chunk_of(rank).unwrap_or(0);
            let tags = &request.shape.chunks.get(chunk)?.tags;
            let has_tags = self.kinds.tags(self.kinds.of(slot.node.0)).satisfy(tags);
            let may_use = request.list.is_none_or(|list| list.binary_search(&slot.node).is_ok());
            // Time goes by: a window may be too near by now.
            let is_open = request.limits.as_ref().is_none_or(|limits| {
                let group = (self.kinds.of(slot.node.0), self.kinds.windows.list_of(slot.node.0));
                limits.get(&group).is_some_and(|limit| limit.is_open)
            });
            if u64::from(slot.rank) != rank || !has_tags || !may_use || !is_open {
                return None;
            }
            *amounts.entry(slot.node).or_default() += slot.order.qshares().0;
        }
        let fits = |(node, amount): (&NodeIx, &u64)| {
            let is_whole = !request.shape.is_exclusive || *amount == draft.spaces.order(*node).0;
            is_whole && *amount <= supply.space(*node).available
        };
        amounts.iter().all(fits).then_some(slots)
    }

    /// Finds the sets that could hold the gang with its present processes.
    pub(super) fn choose_sets(
        &self,
        draft: &Draft<'_>,
        request: &mut GangRequest<'_>,
    ) -> Result<(), WaitReason> {
        let NShares(held) = request.held;
        let grow = |request: &mut GangRequest<'_>, more: u64, less: u64| {
            // Only a gang of a single chunk changes its size.
            if let [only] = &mut request.pieces[..] {
                only.count = only.count.saturating_add(more) - less;
            }
        };
        grow(request, held, 0);
        let chosen = self.choose_configured_sets(draft, request);
        grow(request, 0, held);
        chosen?;
        let pools = &self.pools[&request.pool];
        if request.sets.is_empty() && Arc::ptr_eq(&pools.up, &pools.configured) {
            // All nodes are up, and the gang was tested on them.
            return Ok(());
        }
        let is_up = |set: Option<&PlacementSet>| self.test((&pools.up, None), request, set, true);
        let mut best: Option<FitLack> = None;
        for set in request.domains() {
            match is_up(set) {
                Ok(()) => return Ok(()),
                Err(lack) => best = Some(better(best, lack)),
            }
        }
        best.map_or(Ok(()), |lack| Err(lack_of(GangNodes::Up, lack)))
    }

    /// Finds the sets that could hold the gang if all their nodes were up.
    fn choose_configured_sets(
        &self,
        draft: &Draft<'_>,
        request: &mut GangRequest<'_>,
    ) -> Result<(), WaitReason> {
        let pools = &self.pools[&request.pool];
        let sets = self.sets(draft, request);
        if !sets.is_empty() {
            let may_span =
                request.shape.may_span.unwrap_or(draft.snapshot.topology.tagging.may_span);
            let mut best: Option<FitLack> = None;
            for set in sets {
                // Where the gang may span, a set counts only if its chunks are known to fit there.
                match self.test((&pools.configured, None), request, Some(&set), !may_span) {
                    Ok(()) => request.sets.push(set),
                    Err(lack) => best = Some(better(best, lack)),
                }
            }
            if let Some(lack) = best.filter(|_| request.sets.is_empty() && !may_span) {
                return Err(lack_of(GangNodes::OfOneSet, lack));
            }
        }
        if request.sets.is_empty() {
            self.test((&pools.configured, None), request, None, true)
                .map_err(|lack| lack_of(GangNodes::Configured, lack))?;
        }
        Ok(())
    }

    /// The placement sets of the gang, in the order in which they are tried: by key, then sets
    /// with the fewest nodes, then by name. A gang that grows stays in its sets.
    fn sets(&self, draft: &Draft<'_>, request: &GangRequest<'_>) -> Vec<PlacementSet> {
        let configured = &draft.snapshot.topology.tagging.sets;
        let keys: Vec<&Name> = request
            .shape
            .group_by
            .as_ref()
            .map_or_else(|| configured.iter().collect(), |key| vec![key]);
        let mut sets = Vec::new();
        for key in keys {
            let values =
                self.pools[&request.pool].configured.values(&self.kinds, key, request.list);
            let mut values: Vec<(u64, Name)> =
                values.into_iter().map(|(value, nodes)| (nodes, value)).collect();
            values.sort_unstable();
            let is_own = |value: &Name| {
                let mut own = request.held_on.iter().map(|node| &draft.snapshot.nodes[*node].tags);
                own.all(|tags| tags.value(key) == value.as_str())
            };
            values.retain(|(_, value)| is_own(value));
            sets.extend(values.into_iter().map(|(_, value)| (key.clone(), value)));
        }
        sets
    }

    /// Sets the size at which a moldable gang starts: the largest legal size that fits now, and at
    /// least what its patience asks for.
    fn choose_size(
        &self,
        draft: &mut Draft<'_>,
        request: &mut GangRequest<'_>,
    ) -> Result<(), WaitReason> {
        let rules = &draft.class_of(request.job).gangs;
        let gang = &draft.snapshot.jobs[request.job].gang;
        let failures =
            gang.waits_since.map_or(0, |since| draft.snapshot.cycle.saturating_sub(since));
        let sizes = &request.shape.legal_sizes;
        let most = request.pieces[0].count;
        let least = sizes.at_least(least_start(request.shape, rules, failures)).unwrap_or(most);
        if request.shape.min_processes.max(1) < least {
            draft.change_expected_in(draft.snapshot.cycle + 1);
        }
        // The smallest size at which it starts now decides which sets could ever hold it.
        request.pieces[0].count = least.min(most);
        request.sets.clear();
        if let Err(reason) = self.choose_sets(draft, request) {
            // At its minimum it could start, so it waits until it accepts less.
            let WaitReason::GangLacks(lack) = reason else { return Err(reason) };
            let lack = GangLack { of: GangNodes::Available, ..lack };
            return Err(WaitReason::GangLacks(lack));
        }
        // A gang that fits at a size fits at all smaller sizes.
        let fits = |size: u64| {
            request.pieces[0].count = size;
            size < least || self.slots(request, SpacePart::Available).is_ok()
        };
        let low = largest(most, fits);
        let size = sizes.at_most(low).filter(|size| least <= *size);
        request.pieces[0].count = size.unwrap_or(least.min(most));
        Ok(())
    }

    /// The reason why a gang that could be held by the nodes that are up waits. `lack`: what it lacks
    /// in the supply, if that is known.
    pub(super) fn reason_to_wait(
        &self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
        lack: Option<FitLack>,
    ) -> WaitReason {
        let supply = &self.supply[&request.pool];
        let mut best = lack;
        for set in request.domains().filter(|_| lack.is_none()) {
            let limits = request.limits.as_ref();
            if let Err(lack) = self.test((supply, limits), request, set, false) {
                best = Some(better(best, lack));
            }
        }
        if let Some(job) = self.older_claimant(draft, request) {
            return WaitReason::BehindOlderGang { job };
        }
        let needed = request.pieces.iter().map(|piece| piece.count).sum();
        let lack = best.unwrap_or(FitLack { chunk: None, found: 0, needed, is_uncertain: true });
        let FitLack { chunk, found, needed, .. } = lack;
        WaitReason::GangLacks(GangLack { of: GangNodes::Available, chunk, found, needed })
    }
}

/// True if the ideal cluster has these amounts left, each on a node of its own. The cluster is
/// unchanged afterwards.
pub(super) fn has_cells(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    listed: &NodeListCapacity,
    amounts: &[(NodeIx, u64)],
) -> bool {
    let mut taken = Vec::new();
    let has_all = space.take_like(pieces(draft, listed, amounts), &mut taken);
    space.give_back(taken);
    has_all
}

/// Amounts of nodes, as pieces of the ideal cluster. Whole nodes come before parts of nodes like
/// them.
pub(super) fn pieces(
    draft: &Draft<'_>,
    listed: &NodeListCapacity,
    amounts: &[(NodeIx, u64)],
) -> impl Iterator<Item = NodePiece> {
    let piece = |&(node, amount): &(NodeIx, u64)| NodePiece {
        pool: draft.spaces.pool(node),
        cell: listed.cell(node),
        amount,
    };
    let mut pieces: Vec<NodePiece> = amounts.iter().map(piece).collect();
    pieces.sort_by_key(|piece| Reverse(piece.amount));
    pieces.into_iter()
}

/// Space of slots on each node, by node.
pub(super) fn amounts_by_node(slots: &[Slot]) -> Vec<(NodeIx, u64)> {
    let mut amounts: Vec<(NodeIx, u64)> =
        slots.iter().map(|slot| (slot.node, slot.order.qshares().0)).collect();
    // A few ascending runs: a stable sort joins them.
    amounts.sort_by_key(|(node, _)| *node);
    amounts.dedup_by(|next, sum| {
        let is_same = next.0 == sum.0;
        if is_same {
            sum.1 += next.1;
        }
        is_same
    });
    amounts
}

/// The lack of `of` as a reason to wait.
fn lack_of(of: GangNodes, lack: FitLack) -> WaitReason {
    let FitLack { chunk, found, needed, .. } = lack;
    WaitReason::GangLacks(GangLack { of, chunk, found, needed })
}

/// The lack of the nodes that could hold more.
pub(super) fn better(best: Option<FitLack>, lack: FitLack) -> FitLack {
    best.filter(|best| lack.found <= best.found).unwrap_or(lack)
}
