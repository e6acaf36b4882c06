//! Turns: gangs of fair-share work save up for the nodes that they need at once.
//!
//! A gang that needs no more than its fair share starts like a gang of fixed work. A larger gang
//! has to wait until its user's account covers the rest: what the gang needs for its whole
//! duration, less what it earns meanwhile. It pays at its start. Until its paid time is over, its peers do not preempt
//! it. A gang that is not due may start in space that no other job can use; that is not paid for.
//!
//! Without a clock, time is the number of the cycle times the publication period.
//!
//! Design: requests and time, section 3.7.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::GangPlan;
use super::decide::{has_cells, has_cells_for};
use super::planner::GangPlanner;
use super::request::{gang_request, qshares_of_gang, total};
use super::supply::SpacePart;
use super::turn_choices::TurnChoices;
use super::{Slot, Taker, gang_shape};
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::snapshot::{GangProgress, PaidTurn, Snapshot, TurnAccount};
use crate::engine::target::NodeListCapacity;
use crate::engine::wait_reason::{GangLack, GangNodes, WaitReason};
use crate::model::{ClassIx, JobId, Millis, NodeIx, QShares, Shape, UserIx, ceil_div, count};

/// Cost of a gang, and the savings of its user.
struct Price {
    /// Qshares that the gang needs at once.
    asks: u64,
    /// Fair share of the gang, in qshares.
    deserves: u64,
    /// Duration of the gang, if it is known.
    duration: Option<Millis>,
    /// Qshare-milliseconds on the account of the user.
    balance: i64,
}

/// The bill of a gang that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnBill {
    /// The gang.
    pub job: JobId,
    /// Price that its user pays, and the cycles paid for.
    pub turn: PaidTurn,
}

/// Income of a user who has gangs in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnIncome {
    /// The class.
    pub class: ClassIx,
    /// The user.
    pub user: UserIx,
    /// Qshare-milliseconds earned in a millisecond: the fair shares of all the user's gangs.
    pub rate: i64,
    /// The most that the account may hold.
    pub most: i64,
}

impl TurnAccount {
    /// Qshare-milliseconds on the account in `cycle`, if a cycle takes `period`.
    pub fn balance(&self, cycle: u64, period: Millis) -> i64 {
        let time = cycle.saturating_sub(self.since).saturating_mul(period);
        let earned = self.rate.saturating_mul(signed(time));
        self.base.saturating_add(earned).min(self.most)
    }
}

impl Price {
    fn of(draft: &Draft<'_>, job: usize, asks: u64) -> Price {
        let snapshot = draft.snapshot;
        let declared = gang_shape(draft.job(job)).and_then(|shape| shape.duration);
        let (class, user) = (draft.entities.class_of(job), draft.entities.user_of(job));
        let account = snapshot.turns.iter().find(|turn| (turn.class, turn.user) == (class, user));
        let period = snapshot.topology.settings.publication_period;
        Price {
            asks,
            deserves: draft.jobs[job].pure_fair_share.min(asks),
            duration: draft.class_of(job).gangs.duration(declared),
            balance: account.map_or(0, |account| account.balance(snapshot.cycle, period)),
        }
    }

    /// Qshare-milliseconds that are missing until the gang is due; `None` if it never is.
    fn missing(&self) -> Option<i64> {
        if self.asks <= self.deserves {
            return Some(0);
        }
        let rest = signed(self.asks - self.deserves).saturating_mul(signed(self.duration?));
        Some(rest.saturating_sub(self.balance).max(0))
    }

    /// Qshare-milliseconds that the whole duration costs.
    fn total(&self) -> i64 {
        signed(self.asks).saturating_mul(signed(self.duration.unwrap_or(0)))
    }
}

/// Turns of a cycle that begin beyond the share of the gang.
#[derive(Default)]
struct TurnsBegun {
    /// Classes with such a turn. Turns are kept apart: a class begins a single turn at a time.
    classes: BTreeSet<ClassIx>,
    /// Users, each in a class, for whose oldest gang savings are kept. The oldest spends first.
    saving: BTreeSet<(ClassIx, UserIx)>,
    /// Qshares that each user earns in a millisecond: the fair shares of all the user's gangs.
    incomes: BTreeMap<(ClassIx, UserIx), u64>,
}

impl TurnsBegun {
    /// Turns that were promised, of which the gang has not started yet.
    fn of_promises(draft: &Draft<'_>, gangs: &[usize]) -> TurnsBegun {
        let promises = &draft.snapshot.promises;
        let asks = |job: usize| -> u64 {
            let own = promises.iter().filter(|promise| promise.job == draft.jobs[job].id);
            own.map(|promise| promise.order.qshares().0).sum()
        };
        let is_beyond = |&&job: &&usize| draft.jobs[job].pure_fair_share < asks(job);
        let promised = gangs.iter().filter(is_beyond);
        let classes = promised.map(|&job| draft.entities.class_of(job)).collect();
        let mut incomes: BTreeMap<(ClassIx, UserIx), u64> = BTreeMap::new();
        for &job in gangs {
            *incomes.entry(account_of(draft, job)).or_default() += draft.jobs[job].pure_fair_share;
        }
        TurnsBegun { classes, saving: BTreeSet::new(), incomes }
    }

    fn may_begin(&self, draft: &Draft<'_>, job: usize) -> bool {
        let account = account_of(draft, job);
        !self.classes.contains(&account.0) && !self.saving.contains(&account)
    }

    /// Notes that a gang saves up, and when it will be due. A gang that is never due keeps no
    /// savings from younger ones.
    fn save(&mut self, draft: &mut Draft<'_>, job: usize, price: &Price) {
        let (deserves, asks) = (QShares(price.deserves), QShares(price.asks));
        draft.gang_reasons.insert(job, WaitReason::Earning { deserves, asks });
        let Some(missing) = price.missing() else { return };
        let account = account_of(draft, job);
        self.saving.insert(account);
        let period = draft.snapshot.topology.settings.publication_period;
        let income = self.incomes.get(&account).copied().unwrap_or(0).saturating_mul(period);
        if let Some((missing, income)) = u64::try_from(missing).ok().zip(NonZeroU64::new(income)) {
            let cycles = ceil_div(missing, income).max(1);
            draft.change_expected_in(draft.snapshot.cycle.saturating_add(cycles));
        }
    }
}

impl GangPlanner {
    /// Decides on the fair-share gangs of a priority, before its other jobs are counted. Paid gangs
    /// keep what they have; gangs that are due are counted whole.
    pub(in crate::engine) fn decide_turns(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        gangs: &[usize],
        choices: &TurnChoices,
    ) {
        let Some(&first) = gangs.first() else { return };
        self.find_supply(draft, Taker::of(draft, first));
        let entities = Arc::clone(&draft.entities);
        for &job in gangs {
            if 0 < draft.jobs[job].held && is_paid(draft.snapshot, &draft.job(job).gang) {
                let mut amounts: BTreeMap<NodeIx, u64> = BTreeMap::new();
                for (_, share) in draft.shares.held_by(job) {
                    *amounts.entry(share.node()).or_default() += share.order.qshares().0;
                }
                // Work of higher priority may have been counted on its nodes.
                if !has_cells_for(draft, space, listed, &amounts) {
                    continue;
                }
                draft.jobs[job].given = draft.jobs[job].held;
                entities.add(&mut draft.given, job, amounts.values().sum());
                for (node, amount) in amounts {
                    space.take_like(draft.spaces.pool(node), listed.cell(node), amount);
                    listed.take(node, amount);
                }
            }
        }
        let mut begun = TurnsBegun::of_promises(draft, gangs);
        for &job in gangs {
            draft.effort.step();
            let is_over = draft.jobs[job].demand.cap.nshares.0 <= draft.jobs[job].held;
            if 0 < draft.jobs[job].held || is_over {
                continue;
            }
            if let Some(shape) = gang_shape(draft.job(job)) {
                self.decide_turn(draft, space, listed, (job, shape), (choices, &mut begun));
            }
        }
    }

    /// Decides on a waiting gang.
    fn decide_turn(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        (job, shape): (usize, &Shape),
        (choices, begun): (&TurnChoices, &mut TurnsBegun),
    ) {
        let id = draft.jobs[job].id;
        let promised = self.promises.remove(&id).unwrap_or_default();
        let mut request = gang_request(draft, job, shape, draft.jobs[job].demand.cap.nshares.0);
        for promise in &promised {
            self.release(draft, &request, promise);
        }
        let least = total(&request.pieces);
        let outcome = match choices.of(job) {
            Some(outcome) => outcome,
            None => self.outcome_in((space, listed), draft, &mut request, &promised),
        };
        let amount = |slots: &[Slot]| slots.iter().map(|slot| slot.order.qshares().0).sum();
        let asks = outcome.as_ref().map_or(least, |(slots, _)| amount(slots));
        let price = Price::of(draft, job, asks);
        let class = draft.entities.class_of(job);
        let is_within_share = asks <= price.deserves;
        let (slots, is_promised) = match outcome {
            Ok((slots, _)) if !has_cells(draft, space, listed, &slots) => {
                let (found, needed) = (0, count(&slots));
                let lack = GangLack { of: GangNodes::Available, chunk: None, found, needed };
                draft.gang_reasons.insert(job, WaitReason::GangLacks(lack));
                return;
            }
            // A turn that was promised has come, even if its user now deserves less.
            Ok(plan) if !promised.is_empty() || is_within_share => plan,
            Ok(plan) if price.missing() == Some(0) && begun.may_begin(draft, job) => plan,
            Ok(_) => {
                begun.save(draft, job, &price);
                return;
            }
            Err(reason) => {
                draft.gang_reasons.insert(job, reason);
                return;
            }
        };
        if !is_within_share {
            begun.classes.insert(class);
        }
        let entities = Arc::clone(&draft.entities);
        draft.jobs[job].given = count(&slots);
        entities.add(&mut draft.given, job, asks);
        self.use_slots(draft, space, listed, request.pool, &slots);
        draft.gang_plans.push(GangPlan { job, slots, is_promised });
    }

    /// Starts gangs that are not due, or that were counted nowhere, in space that no other job of
    /// this cycle could use.
    pub(in crate::engine) fn start_unpaid(draft: &mut Draft<'_>) {
        let is_in_time = |reason: &WaitReason| {
            matches!(
                reason,
                WaitReason::Earning { .. }
                    | WaitReason::GangLacks(GangLack { of: GangNodes::Available, .. })
            )
        };
        let is_waiting = |job: &usize| {
            draft.jobs[*job].held == 0
                && draft.jobs[*job].promised == 0
                && draft.class_of(*job).policy.is_preemptable()
                && draft.gang_reasons.get(job).is_some_and(is_in_time)
        };
        let waiting: Vec<usize> = draft.gangs.iter().copied().filter(is_waiting).collect();
        if waiting.is_empty() {
            return;
        }
        let Some(mut planner) = GangPlanner::new(draft) else { return };
        for job in waiting {
            let Some(shape) = gang_shape(draft.job(job)) else { continue };
            planner.set_usable(draft);
            let mut request = gang_request(draft, job, shape, draft.jobs[job].demand.cap.nshares.0);
            if planner.choose_sets(draft, &mut request).is_err() {
                continue;
            }
            let Some(slots) = planner.slots(&request, SpacePart::Usable) else { continue };
            for Slot { rank, node, order } in slots {
                draft.expand_now(job, node, order, Some(rank));
            }
            draft.gang_reasons.remove(&job);
        }
    }
}

/// Bills of the gangs that started in this cycle, and incomes of all users with gangs.
pub(in crate::engine) fn accounts(draft: &Draft<'_>) -> (Vec<TurnBill>, Vec<TurnIncome>) {
    let mut bills = Vec::new();
    let mut incomes: BTreeMap<(ClassIx, UserIx), TurnIncome> = BTreeMap::new();
    let snapshot = draft.snapshot;
    let period = snapshot.topology.settings.publication_period;
    let mut started: BTreeMap<JobId, u64> = BTreeMap::new();
    for new in draft.expansions.iter().filter(|new| new.rank.is_some()) {
        *started.entry(new.job).or_default() += new.order.qshares().0;
    }
    for &job in &draft.gangs {
        if !draft.class_of(job).policy.is_preemptable() {
            continue;
        }
        let asks = started.get(&draft.jobs[job].id).copied();
        let held: u64 = draft.shares.held_by(job).map(|(_, share)| share.order.qshares().0).sum();
        let price =
            Price::of(draft, job, asks.unwrap_or_else(|| qshares_of_gang(draft, job).max(held)));
        let (class, user) = (draft.entities.class_of(job), draft.entities.user_of(job));
        let income = TurnIncome { class, user, rate: 0, most: 0 };
        let income = incomes.entry((class, user)).or_insert(income);
        income.rate = income.rate.saturating_add(signed(draft.jobs[job].pure_fair_share));
        income.most = income.most.max(price.total());
        if asks.is_some() && 0 < draft.jobs[job].given {
            let cycles = price
                .duration
                .zip(NonZeroU64::new(period))
                .map_or(0, |(duration, period)| ceil_div(duration, period));
            let from = snapshot.cycle;
            let until = from.saturating_add(cycles);
            let turn = PaidTurn { from, until, price: price.total() };
            bills.push(TurnBill { job: draft.jobs[job].id, turn });
        }
    }
    (bills, incomes.into_values().collect())
}

/// True if the gang has paid for this cycle: its peers do not preempt it.
pub(in crate::engine) fn is_paid(snapshot: &Snapshot, gang: &GangProgress) -> bool {
    gang.turn.is_some_and(|turn| snapshot.cycle < turn.until)
}

/// The class and the user whose account pays for the gang at `job`.
fn account_of(draft: &Draft<'_>, job: usize) -> (ClassIx, UserIx) {
    (draft.entities.class_of(job), draft.entities.user_of(job))
}

/// An amount as a number with a sign.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
