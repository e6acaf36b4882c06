//! Nodes of gangs in their turn, once all targets are known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::amounts_by_node;
use super::place::expected_victims;
use super::planner::GangPlanner;
use super::pool_supplies::supplies;
use super::request::{GangRequest, gang_request};
use super::supply::SpacePart;
use super::{GangPlan, Slot, Taker, gang_shape};
use crate::engine::draft::{Draft, JobDraft};
use crate::engine::preempt::EvictionRank;
use crate::engine::share_table::ShareIx;
use crate::engine::snapshot::Promise;
use crate::engine::wait_reason::WaitReason;
use crate::model::{JobId, JobIx, NShares, NodeIx, count};

/// Counts after which a gang that needs other nodes again waits for the next cycle.
const ROUNDS: usize = 4;

/// Outcomes that are set for gangs, as other nodes turned out to be needed for them.
#[derive(Debug, Default)]
pub(in crate::engine) struct TurnChoices {
    /// Slots of a gang, or the reason why it finds none, by the place of the job.
    outcomes: BTreeMap<JobIx, Result<Vec<Slot>, WaitReason>>,
    rounds: usize,
}

/// State of the planner before gangs are counted.
#[derive(Debug)]
pub(in crate::engine) struct PlannerProgress {
    used: BTreeMap<NodeIx, u64>,
    promises: BTreeMap<JobId, Vec<Promise>>,
}

impl TurnChoices {
    /// The outcome that is set for `job`, like an outcome of the planner.
    pub(super) fn of(&self, job: JobIx) -> Option<Result<(Vec<Slot>, bool), WaitReason>> {
        let outcome = self.outcomes.get(&job)?;
        Some(outcome.clone().map(|slots| (slots, false)))
    }
}

impl GangPlanner {
    /// State that [`GangPlanner::restore`] brings back.
    pub(in crate::engine) fn progress(&self) -> PlannerProgress {
        PlannerProgress { used: self.used.clone(), promises: self.promises.clone() }
    }

    /// Undoes decisions on turns.
    pub(in crate::engine) fn restore(&mut self, before: PlannerProgress) {
        (self.used, self.promises) = (before.used, before.promises);
    }

    /// True if every gang counted since `before`, from the plan `first` on, can have its nodes.
    /// Otherwise `choices` change.
    pub(in crate::engine) fn confirm_turns(
        &mut self,
        draft: &mut Draft<'_>,
        first: usize,
        before: &PlannerProgress,
        choices: &mut TurnChoices,
    ) -> bool {
        let plans: Vec<GangPlan> = draft.gang_plans[first..].to_vec();
        let Some(taker) = plans.first().map(|plan| Taker::of(draft, plan.job)) else { return true };
        // Gangs of fixed work take first, which leaves less that peers can give.
        let gone = expected_victims(draft, &draft.gang_plans[..first]);
        let surplus = surplus(draft, taker, &gone);
        let keeps = |holding| !surplus.contains(&holding);
        self.supply = supplies(draft, &self.kinds, &self.pools, taker, keeps);
        for (&node, &amount) in &before.used {
            self.take_from_supply(draft, node, amount);
        }
        self.unclaimed = self.supply.clone();
        self.take_expected(&BTreeSet::new());
        choices.rounds += 1;
        let mut are_confirmed = true;
        for plan in plans {
            let Some(shape) = gang_shape(draft.job(plan.job)) else { continue };
            let mut request =
                gang_request(draft, &self.kinds, (plan.job, shape), count(&plan.slots));
            for promise in before.promises.get(&draft.jobs[plan.job].id).into_iter().flatten() {
                self.release(draft, &request, promise);
            }
            let slots = if self.can_have(draft, &plan.slots) {
                plan.slots
            } else {
                are_confirmed = false;
                let mut outcome = self.choose(draft, &mut request);
                if ROUNDS < choices.rounds && outcome.is_ok() {
                    outcome = Err(self.reason_to_wait(draft, &request, None));
                }
                choices.outcomes.insert(plan.job, outcome.clone());
                outcome.unwrap_or_default()
            };
            for (node, amount) in amounts_by_node(&slots) {
                self.take_from_supply(draft, node, amount);
            }
        }
        are_confirmed
    }

    /// Slots in space that is free, or that peers give up.
    fn choose(
        &self,
        draft: &Draft<'_>,
        request: &mut GangRequest<'_>,
    ) -> Result<Vec<Slot>, WaitReason> {
        self.choose_sets(draft, request)?;
        let free = self.slots(request, SpacePart::Usable).ok();
        let slots = free.map_or_else(|| self.slots(request, SpacePart::Available), Ok);
        slots.map_err(|lack| self.reason_to_wait(draft, request, lack))
    }

    fn can_have(&self, draft: &Draft<'_>, slots: &[Slot]) -> bool {
        amounts_by_node(slots).into_iter().all(|(node, amount)| {
            let supply = self.supply.get(&draft.spaces.pool(node));
            supply.is_some_and(|supply| amount <= supply.space(node).available)
        })
    }

    fn take_from_supply(&mut self, draft: &Draft<'_>, node: NodeIx, amount: u64) {
        if let Some(supply) = self.supply.get_mut(&draft.spaces.pool(node)) {
            Arc::make_mut(supply).take(&self.kinds, node, amount);
        }
    }
}

/// Shares that a gang may take once the `gone` shares are: all of lower priorities and of unpaid
/// gangs, and of peers shares beyond their targets.
pub(super) fn surplus(
    draft: &Draft<'_>,
    taker: Taker,
    gone: &BTreeSet<ShareIx>,
) -> BTreeSet<ShareIx> {
    let mut gives = BTreeSet::new();
    for job in draft.jobs.places().filter(|&job| taker.may_take_from(draft, job)) {
        let JobDraft { held, target, is_gang, is_adapting, .. } = draft.jobs[job];
        let is_peer = draft.precedence(job) == taker.priority && !is_gang;
        let most = match (is_peer, is_adapting) {
            (false, _) => held,
            (true, false) => held.saturating_sub(target),
            (true, true) => NShares(0),
        };
        let all = draft.shares.held_by(job);
        let lost = count(draft.shares.held_by(job).filter(|(holding, _)| gone.contains(holding)));
        let most = most.saturating_sub(NShares(lost));
        let held = all.filter(|(holding, _)| !gone.contains(holding));
        let mut ranked: Vec<(EvictionRank, ShareIx)> =
            held.map(|(holding, share)| (EvictionRank::of(draft, share), holding)).collect();
        ranked.sort_unstable();
        gives.extend(ranked.into_iter().zip(0..most.0).map(|((_, holding), _)| holding));
    }
    gives
}
