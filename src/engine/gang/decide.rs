//! Decides which gangs start, which wait, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ask::{Asking, asking};
use super::fit::FitLack;
use super::planner::GangPlanner;
use super::supply::{Ground, PlacementSet};
use super::{GangPlan, Slot, gang_shape, least_start};
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::report::{GangLack, GangNodes, WaitReason};
use crate::engine::snapshot::Promise;
use crate::engine::target::{AllotmentLedger, NodeListCapacity};
use crate::model::{Elasticity, Name, NodeIx, QShares};

impl GangPlanner {
    /// Decides on the gang at `job`: sets its target, and notes its plan, or the reason why it
    /// waits.
    pub(in crate::engine) fn decide(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        ledger: &mut AllotmentLedger,
        job: usize,
    ) {
        let snapshot = draft.snapshot;
        let gang = &snapshot.jobs[job];
        let Some(shape) = gang_shape(gang) else { return };
        let held = draft.jobs[job].held;
        let holds: u64 = draft.shares.held_by(job).map(|(_, share)| share.order.qshares().0).sum();
        let entities = Arc::clone(&draft.entities);
        let goal = draft.jobs[job].demand.cap.nshares.0;
        draft.jobs[job].given = held.min(goal);
        if goal <= held {
            let held = gang.held().map(|share| (share.rank, share.order.qshares().0));
            let mut ranked: Vec<(Option<u32>, u64)> = held.collect();
            ranked.sort_unstable();
            let stays = ranked.into_iter().zip(0..goal).map(|((_, amount), _)| amount).sum();
            entities.add(&mut draft.given, job, stays);
            return;
        }
        let promised = self.promises.remove(&gang.id).unwrap_or_default();
        let mut asking = asking(draft, job, shape, goal - held);
        for promise in &promised {
            self.release(draft, &asking, promise);
        }
        match self.outcome(draft, &mut asking, &promised) {
            Ok((slots, _)) if !has_cells(draft, space, listed, &slots) => {
                entities.add(&mut draft.given, job, holds);
                let (found, needed) = (0, crate::model::count(&slots));
                let lack = GangLack { of: GangNodes::Available, chunk: None, found, needed };
                draft.gang_reasons.insert(job, WaitReason::GangLacks(lack));
            }
            Ok((slots, is_promised)) => {
                let amount: u64 = slots.iter().map(|slot| slot.order.qshares().0).sum();
                if let Err(refusal) = ledger.grant(draft, job, QShares(amount)) {
                    draft.jobs[job].refusal = Some(refusal);
                    entities.add(&mut draft.given, job, holds);
                    return;
                }
                draft.jobs[job].given = held + crate::model::count(&slots);
                entities.add(&mut draft.given, job, holds + amount);
                self.use_slots(draft, space, listed, asking.pool, &slots);
                draft.gang_plans.push(GangPlan { job, slots, is_promised });
            }
            Err(reason) => {
                entities.add(&mut draft.given, job, holds);
                let least: u64 =
                    asking.pieces.iter().map(|piece| piece.count.saturating_mul(piece.size)).sum();
                let waits = matches!(
                    reason,
                    WaitReason::GangLacks(GangLack { of: GangNodes::Available, .. })
                        | WaitReason::BehindOlderGang { .. }
                );
                if waits && let Err(refusal) = ledger.test(draft, job, QShares(least)) {
                    draft.jobs[job].refusal = Some(refusal);
                    return;
                }
                draft.gang_reasons.insert(job, reason);
                if waits {
                    self.claim(draft, space, listed, &asking);
                }
            }
        }
    }

    /// Slots for all that the gang asks for, and true if they were promised before; or the reason
    /// why it waits.
    pub(super) fn outcome(
        &self,
        draft: &mut Draft<'_>,
        asking: &mut Asking<'_>,
        promised: &[Promise],
    ) -> Result<(Vec<Slot>, bool), WaitReason> {
        let kept = self.kept_promises(draft, asking, promised);
        if let Some(kept) = kept {
            // As much may be free elsewhere, while the promised nodes are still in use.
            let has_sets = self.choose_sets(draft, asking).is_ok();
            let elsewhere = self.slots(asking, Ground::Usable).filter(|_| has_sets);
            return Ok(elsewhere.map_or((kept, true), |slots| (slots, false)));
        }
        if asking.shape.elasticity == Some(Elasticity::Moldable) {
            // The smallest size decides if the gang can ever start, and where.
            let most = asking.pieces[0].count;
            asking.pieces[0].count = asking.shape.min_processes.clamp(1, most);
            self.choose_sets(draft, asking)?;
            asking.pieces[0].count = most;
            self.mold(draft, asking)?;
        } else {
            self.choose_sets(draft, asking)?;
        }
        match self.slots(asking, Ground::Available) {
            Some(slots) => Ok((slots, false)),
            None => Err(self.reason_to_wait(draft, asking)),
        }
    }

    /// Slots of the promises, if the gang was promised all it asks for and nothing spoiled it.
    fn kept_promises(
        &self,
        draft: &Draft<'_>,
        asking: &mut Asking<'_>,
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
        let asked: u64 = asking.pieces.iter().map(|piece| piece.count).sum();
        // A moldable gang was promised the size at which it starts.
        let is_moldable = asking.shape.elasticity == Some(Elasticity::Moldable);
        let count = crate::model::count(&slots);
        if is_moldable && count < asked {
            asking.pieces[0].count = count;
        } else if count != asked {
            return None;
        }
        let supply = &self.supply[&asking.pool];
        let mut amounts: BTreeMap<NodeIx, u64> = BTreeMap::new();
        for (slot, rank) in slots.iter().zip(asking.first_rank..) {
            let chunk = asking.shape.chunk_of(rank).unwrap_or(0);
            let tags = &asking.shape.chunks.get(chunk)?.tags;
            let has_tags = self.kinds.tags(self.kinds.of(slot.node.0)).satisfy(tags);
            let may_use = asking.list.is_none_or(|list| list.binary_search(&slot.node).is_ok());
            if u64::from(slot.rank) != rank || !has_tags || !may_use {
                return None;
            }
            *amounts.entry(slot.node).or_default() += slot.order.qshares().0;
        }
        let fits = |(node, amount): (&NodeIx, &u64)| {
            let is_whole = !asking.shape.is_exclusive || *amount == draft.spaces.order(*node).0;
            is_whole && *amount <= supply.space(*node).available
        };
        amounts.iter().all(fits).then_some(slots)
    }

    /// Finds the sets that could hold the gang.
    pub(super) fn choose_sets(
        &self,
        draft: &Draft<'_>,
        asking: &mut Asking<'_>,
    ) -> Result<(), WaitReason> {
        let grounds = &self.grounds[&asking.pool];
        let sets = self.sets(draft, asking);
        let lack_of = |of: GangNodes, lack: FitLack| {
            let FitLack { chunk, found, needed, .. } = lack;
            WaitReason::GangLacks(GangLack { of, chunk, found, needed })
        };
        if !sets.is_empty() {
            let may_span =
                asking.shape.may_span.unwrap_or(draft.snapshot.topology.tagging.may_span);
            let mut best: Option<FitLack> = None;
            for set in sets {
                // Where the gang may span, a set counts only if its chunks are known to fit there.
                match self.test(&grounds.configured, asking, Some(&set), !may_span) {
                    Ok(()) => asking.sets.push(set),
                    Err(lack) => best = Some(better(best, lack)),
                }
            }
            if let Some(lack) = best.filter(|_| asking.sets.is_empty() && !may_span) {
                return Err(lack_of(GangNodes::OfOneSet, lack));
            }
        }
        if asking.sets.is_empty() {
            self.test(&grounds.configured, asking, None, true)
                .map_err(|lack| lack_of(GangNodes::Configured, lack))?;
        }
        let is_up = |set: Option<&PlacementSet>| self.test(&grounds.up, asking, set, true);
        let mut best: Option<FitLack> = None;
        for set in asking.domains() {
            match is_up(set) {
                Ok(()) => return Ok(()),
                Err(lack) => best = Some(better(best, lack)),
            }
        }
        best.map_or(Ok(()), |lack| Err(lack_of(GangNodes::Up, lack)))
    }

    /// The placement sets of the gang, in the order in which they are tried: by key, then those
    /// with the fewest nodes, then by name.
    fn sets(&self, draft: &Draft<'_>, asking: &Asking<'_>) -> Vec<PlacementSet> {
        let configured = &draft.snapshot.topology.tagging.sets;
        let keys: Vec<&Name> = asking
            .shape
            .group_by
            .as_ref()
            .map_or_else(|| configured.iter().collect(), |key| vec![key]);
        let mut sets = Vec::new();
        for key in keys {
            let values =
                self.grounds[&asking.pool].configured.values(&self.kinds, key, asking.list);
            let mut values: Vec<(u64, Name)> =
                values.into_iter().map(|(value, nodes)| (nodes, value)).collect();
            values.sort_unstable();
            sets.extend(values.into_iter().map(|(_, value)| (key.clone(), value)));
        }
        sets
    }

    /// Sets the size at which a moldable gang starts: the largest legal size that fits now, and at
    /// least what its patience asks for.
    fn mold(&self, draft: &mut Draft<'_>, asking: &mut Asking<'_>) -> Result<(), WaitReason> {
        let rules = &draft.class_of(asking.job).gangs;
        let gang = &draft.snapshot.jobs[asking.job].gang;
        let failures =
            gang.waits_since.map_or(0, |since| draft.snapshot.cycle.saturating_sub(since));
        let sizes = &asking.shape.legal_sizes;
        let most = asking.pieces[0].count;
        let least = sizes.at_least(least_start(asking.shape, rules, failures)).unwrap_or(most);
        if asking.shape.min_processes.max(1) < least {
            draft.change_expected_in(draft.snapshot.cycle + 1);
        }
        // The smallest size at which it starts now decides which sets could ever hold it.
        asking.pieces[0].count = least.min(most);
        asking.sets.clear();
        if let Err(reason) = self.choose_sets(draft, asking) {
            // At its minimum it could start, so it waits until it accepts less.
            let WaitReason::GangLacks(lack) = reason else { return Err(reason) };
            let lack = GangLack { of: GangNodes::Available, ..lack };
            return Err(WaitReason::GangLacks(lack));
        }
        let mut fits = |size: u64| {
            asking.pieces[0].count = size;
            self.slots(asking, Ground::Available).is_some()
        };
        // A gang that fits at a size fits at all smaller sizes.
        let (mut low, mut high) = (least.saturating_sub(1), most + 1);
        while 1 < high - low {
            let middle = low + ((high - low) >> 1);
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        let size = sizes.at_most(low).filter(|size| least <= *size);
        asking.pieces[0].count = size.unwrap_or(least.min(most));
        Ok(())
    }

    /// The reason why a gang that could be held by the nodes that are up waits.
    fn reason_to_wait(&self, draft: &Draft<'_>, asking: &Asking<'_>) -> WaitReason {
        let supply = &self.supply[&asking.pool];
        let mut best: Option<FitLack> = None;
        for set in asking.domains() {
            if let Err(lack) = self.test(supply, asking, set, false) {
                best = Some(better(best, lack));
            }
        }
        if let Some(job) = self.older_claimant(draft, asking) {
            return WaitReason::BehindOlderGang { job };
        }
        let needed = asking.pieces.iter().map(|piece| piece.count).sum();
        let lack = best.unwrap_or(FitLack { chunk: None, found: 0, needed, is_uncertain: true });
        let FitLack { chunk, found, needed, .. } = lack;
        WaitReason::GangLacks(GangLack { of: GangNodes::Available, chunk, found, needed })
    }
}

/// True if the ideal cluster has the space of all slots left: work of higher priority may have been
/// counted on it.
pub(super) fn has_cells(
    draft: &Draft<'_>,
    space: &EmptyCluster,
    listed: &NodeListCapacity,
    slots: &[Slot],
) -> bool {
    has_cells_for(draft, space, listed, &amounts_by_node(slots))
}

/// True if the ideal cluster has these amounts left, each on a node of its own.
pub(super) fn has_cells_for(
    draft: &Draft<'_>,
    space: &EmptyCluster,
    listed: &NodeListCapacity,
    amounts: &BTreeMap<NodeIx, u64>,
) -> bool {
    let mut space = space.clone();
    amounts.iter().all(|(&node, &amount)| {
        let pool = draft.spaces.pool(node);
        space.take_like(pool, listed.cell(node), amount).is_some()
    })
}

/// Space of slots on each node.
pub(super) fn amounts_by_node(slots: &[Slot]) -> BTreeMap<NodeIx, u64> {
    let mut amounts: BTreeMap<NodeIx, u64> = BTreeMap::new();
    for slot in slots {
        *amounts.entry(slot.node).or_default() += slot.order.qshares().0;
    }
    amounts
}

/// The lack of the nodes that could hold more.
fn better(best: Option<FitLack>, lack: FitLack) -> FitLack {
    best.filter(|best| lack.found <= best.found).unwrap_or(lack)
}
