//! Turns: gangs of fair-share work save up for the nodes that they need at once.
//!
//! A gang that needs no more than its fair share starts like a gang of fixed work. A larger gang
//! has to wait until its user's account covers the rest: what the gang needs for its whole
//! duration, less what it earns meanwhile. It pays at its start. Until its paid time is over, its peers do not preempt
//! it. A gang that is not due may start in space that no other job can use; that is not paid for, until
//! the gang falls due while it runs.
//!
//! Without a clock, time is the number of the cycle times the publication period.
//!
//! Design: requests and time, section 3.7.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::GangPlan;
use super::counted_anew::make_cells;
use super::decide::pieces;
use super::planner::GangPlanner;
use super::request::{gang_request, qshares_of_gang, total};
use super::supply::SpacePart;
use super::turn_choices::TurnChoices;
use super::{Slot, Taker, gang_shape};
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::job_draft::JobDraft;
use crate::engine::snapshot::{GangProgress, PaidTurn, Snapshot, TurnAccount};
use crate::engine::target::NodeListCapacity;
use crate::engine::wait_reason::{GangLack, GangNodes, WaitReason};
use crate::model::{
    ClassIx, JobId, JobIx, Millis, NShares, NodeIx, QShares, Shape, UserIx, ceil_div, count,
    floor_div,
};

/// Cost of a gang, and the savings of its user.
#[derive(Clone, Copy)]
struct Price {
    /// Qshares that the gang needs at once.
    asks: u64,
    /// Qshares that the gang holds and has paid for, if it grows.
    held: u64,
    /// Fair share of the gang, in qshares.
    fair_share: u64,
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
    fn of(draft: &Draft<'_>, job: JobIx, asks: u64) -> Price {
        let snapshot = draft.snapshot;
        let declared = gang_shape(draft.job(job)).and_then(|shape| shape.duration);
        let (class, user) = (draft.entities.class_of(job), draft.entities.user_of(job));
        let account = snapshot.turns.iter().find(|turn| (turn.class, turn.user) == (class, user));
        let period = snapshot.topology.settings.publication_period;
        Price {
            asks,
            held: 0,
            fair_share: draft.jobs[job].pure_fair_share.0.min(asks),
            duration: draft.class_of(job).gangs.duration(declared),
            balance: account.map_or(0, |account| account.balance(snapshot.cycle, period)),
        }
    }

    /// The price of `asks` more qshares, for a gang in its turn: until the end of that.
    fn of_growth(draft: &Draft<'_>, job: JobIx, asks: u64) -> Price {
        let duration = draft.job(job).gang.turn.map(|turn| time_left(draft.snapshot, turn));
        let (held, fair_share) = (held_by(draft, job), draft.jobs[job].pure_fair_share.0);
        Price { held, fair_share, duration, ..Price::of(draft, job, asks) }
    }

    /// True if the gang needs no more than its fair share.
    fn is_within_share(&self) -> bool {
        self.held + self.asks <= self.fair_share
    }

    /// Qshare-milliseconds that are missing until the gang is due; `None` if it never is.
    fn missing(&self) -> Option<i64> {
        if self.is_within_share() {
            return Some(0);
        }
        let beyond = signed(self.asks).saturating_sub(signed(self.fair_share));
        let rest = beyond.saturating_mul(signed(self.duration?));
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
    fn of_promises(draft: &Draft<'_>, gangs: &[JobIx]) -> TurnsBegun {
        let promises = &draft.snapshot.promises;
        let asks = |job: JobIx| -> u64 {
            let own = promises.iter().filter(|promise| promise.job == draft.jobs[job].id);
            own.map(|promise| promise.order.qshares().0).sum()
        };
        let is_beyond = |&&job: &&JobIx| {
            let promised = asks(job);
            0 < promised && draft.jobs[job].pure_fair_share.0 < promised + held_by(draft, job)
        };
        let promised = gangs.iter().filter(is_beyond);
        let classes = promised.map(|&job| draft.entities.class_of(job)).collect();
        let incomes = rates(draft, gangs.iter().copied());
        TurnsBegun { classes, saving: BTreeSet::new(), incomes }
    }

    fn may_begin(&self, draft: &Draft<'_>, job: JobIx) -> bool {
        let account = account_of(draft, job);
        !self.classes.contains(&account.0) && !self.saving.contains(&account)
    }

    /// Notes that a gang saves up, and when it will be due. A gang that is never due keeps no
    /// savings from younger ones.
    fn save(&mut self, draft: &mut Draft<'_>, job: JobIx, price: &Price) {
        let (fair_share, asks) = (QShares(price.fair_share), QShares(price.held + price.asks));
        draft.gang_reasons.insert(job, WaitReason::Earning { fair_share, asks });
        if price.missing().is_some() {
            self.saving.insert(account_of(draft, job));
        }
        self.expect(draft, job, price);
    }

    /// Notes when a gang will be due, if ever.
    fn expect(&self, draft: &mut Draft<'_>, job: JobIx, price: &Price) {
        let Some(missing) = price.missing() else { return };
        let account = account_of(draft, job);
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
    /// keep what they have; gangs that are due are counted whole, running gangs first.
    pub(in crate::engine) fn decide_turns(
        &mut self,
        draft: &mut Draft<'_>,
        space: &mut EmptyCluster,
        listed: &mut NodeListCapacity,
        gangs: &[JobIx],
        choices: &TurnChoices,
    ) {
        let Some(&first) = gangs.first() else { return };
        for &job in gangs {
            if let Some(turn) =
                draft.job(job).gang.turn.filter(|_| NShares(0) < draft.jobs[job].held)
                && is_paid(draft.snapshot, &draft.job(job).gang)
            {
                count_held(draft, (&mut *space, &mut *listed), job, &mut self.counted_anew);
                draft.change_expected_in(turn.until);
            }
        }
        let mut begun = TurnsBegun::of_promises(draft, gangs);
        decide_unpaid(
            draft,
            (&mut *space, &mut *listed),
            gangs,
            (&mut begun, &mut self.counted_anew),
        );
        self.find_supply(draft, Taker::of(draft, first));
        for &job in gangs {
            draft.effort.step();
            let JobDraft { held, target, demand, .. } = draft.jobs[job];
            let is_over = demand.cap.nshares <= held;
            // A gang that grows has to be in its turn already.
            let may_grow = target == held && is_paid(draft.snapshot, &draft.job(job).gang);
            if is_over || NShares(0) < held && !may_grow {
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
        (job, shape): (JobIx, &Shape),
        (choices, begun): (&TurnChoices, &mut TurnsBegun),
    ) {
        let JobDraft { id, held, demand, .. } = draft.jobs[job];
        let promised = self.promises.remove(&id).unwrap_or_default();
        let mut request =
            gang_request(draft, &self.kinds, (job, shape), (demand.cap.nshares - held).0);
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
        let price = if held == NShares(0) {
            Price::of(draft, job, asks)
        } else {
            Price::of_growth(draft, job, asks)
        };
        let class = draft.entities.class_of(job);
        let is_within_share = price.is_within_share();
        let (slots, is_promised) = match outcome {
            Ok((slots, _)) if !self.finds_cells(draft, space, listed, &slots) => {
                let (found, needed) = (0, count(&slots));
                let lack = GangLack { of: GangNodes::Available, chunk: None, found, needed };
                draft.gang_reasons.insert(job, WaitReason::GangLacks(lack));
                return;
            }
            // A turn that was promised has come, even if the fair share is smaller now.
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
        draft.jobs[job].target = held + NShares(count(&slots));
        draft.jobs[job].has_stepped = NShares(0) < held;
        entities.add(&mut draft.targets, job, asks);
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
        // A gang that was preempted in this cycle waits for the next.
        let is_waiting = |job: &JobIx| {
            draft.job(*job).held().next().is_none()
                && draft.jobs[*job].promised == NShares(0)
                && draft.class_of(*job).policy.is_preemptable()
                && draft.gang_reasons.get(job).is_some_and(is_in_time)
        };
        let waiting: Vec<JobIx> = draft.gangs.iter().copied().filter(is_waiting).collect();
        if waiting.is_empty() {
            return;
        }
        let Some(mut planner) = GangPlanner::new(draft) else { return };
        for job in waiting {
            let Some(shape) = gang_shape(draft.job(job)) else { continue };
            planner.set_usable(draft);
            let mut request = gang_request(
                draft,
                &planner.kinds,
                (job, shape),
                draft.jobs[job].demand.cap.nshares.0,
            );
            if planner.choose_sets(draft, &mut request).is_err() {
                continue;
            }
            let Ok(slots) = planner.slots(&request, SpacePart::Usable) else { continue };
            for Slot { rank, node, order } in slots {
                draft.expand_now(job, node, order, Some(rank));
            }
            draft.gang_reasons.remove(&job);
        }
    }
}

/// Counts the nodes of a gang, if work of higher priority left them to it. True if it did. `tries`:
/// how often all was counted anew.
fn count_held(
    draft: &mut Draft<'_>,
    (space, listed): (&mut EmptyCluster, &mut NodeListCapacity),
    job: JobIx,
    tries: &mut u64,
) -> bool {
    let mut amounts: BTreeMap<NodeIx, u64> = BTreeMap::new();
    for (_, share) in draft.shares.held_by(job) {
        *amounts.entry(share.node()).or_default() += share.order.qshares().0;
    }
    let amounts: Vec<(NodeIx, u64)> = amounts.into_iter().collect();
    if !make_cells(draft, space, listed, (&amounts, tries)) {
        return false;
    }
    draft.jobs[job].target = draft.jobs[job].held;
    let entities = Arc::clone(&draft.entities);
    entities.add(&mut draft.targets, job, amounts.iter().map(|(_, amount)| amount).sum());
    space.take_like(pieces(draft, listed, &amounts), &mut Vec::new());
    for (node, amount) in amounts {
        listed.take(node, amount);
    }
    true
}

/// Decides on gangs that run unpaid. Once its user has saved enough, such a gang pays, as if it started
/// now, and keeps its nodes. An older gang of the user that waits spends first.
fn decide_unpaid(
    draft: &mut Draft<'_>,
    (space, listed): (&mut EmptyCluster, &mut NodeListCapacity),
    gangs: &[JobIx],
    (begun, tries): (&mut TurnsBegun, &mut u64),
) {
    let mut waiting: BTreeSet<(ClassIx, UserIx)> = BTreeSet::new();
    for &job in gangs {
        if draft.jobs[job].held == NShares(0) {
            waiting.insert(account_of(draft, job));
            continue;
        }
        if draft.job(job).gang.turn.is_some() {
            continue;
        }
        let price = Price::of(draft, job, held_by(draft, job));
        let is_within_share = price.is_within_share();
        let is_first = begun.may_begin(draft, job) && !waiting.contains(&account_of(draft, job));
        let is_due = is_within_share || is_first && price.missing() == Some(0);
        if !is_due {
            begun.expect(draft, job, &price);
        } else if count_held(draft, (&mut *space, &mut *listed), job, tries) {
            draft.jobs[job].is_due = true;
            draft.change_expected_in(draft.snapshot.cycle + 1);
            if !is_within_share {
                begun.classes.insert(draft.entities.class_of(job));
            }
        }
    }
}

/// Time for which a turn is paid, from this cycle on, in milliseconds.
fn time_left(snapshot: &Snapshot, turn: PaidTurn) -> Millis {
    let cycles = turn.until.saturating_sub(snapshot.cycle);
    cycles.saturating_mul(snapshot.topology.settings.publication_period)
}

/// Qshares that the job holds.
fn held_by(draft: &Draft<'_>, job: JobIx) -> u64 {
    draft.shares.held_by(job).map(|(_, share)| share.order.qshares().0).sum()
}

/// Bills of the gangs that started in this cycle or fell due while they ran, and incomes of all users with gangs.
pub(in crate::engine) fn accounts(draft: &Draft<'_>) -> (Vec<TurnBill>, Vec<TurnIncome>) {
    let mut bills = Vec::new();
    let mut incomes: BTreeMap<(ClassIx, UserIx), TurnIncome> = BTreeMap::new();
    let snapshot = draft.snapshot;
    let period = snapshot.topology.settings.publication_period;
    let mut started: BTreeMap<JobId, u64> = BTreeMap::new();
    for new in draft.expansions.iter().filter(|new| new.rank.is_some()) {
        *started.entry(new.job).or_default() += new.order.qshares().0;
    }
    let is_fair = |job: &JobIx| draft.class_of(*job).policy.is_preemptable();
    let gangs: Vec<JobIx> = draft.gangs.iter().copied().filter(is_fair).collect();
    let (rates, longest) = (rates(draft, gangs.iter().copied()), longest(draft, &gangs));
    for &job in &gangs {
        let held = held_by(draft, job);
        let late = (draft.jobs[job].is_due && 0 < held).then_some(held);
        let asks = started.get(&draft.jobs[job].id).map(|more| more + held).or(late);
        let paid = draft.job(job).gang.turn.filter(|_| 0 < held && late.is_none());
        let mut price =
            Price::of(draft, job, asks.unwrap_or_else(|| qshares_of_gang(draft, job).max(held)));
        let (class, user) = account_of(draft, job);
        let rate = signed(rates.get(&(class, user)).copied().unwrap_or(0));
        let income =
            incomes.entry((class, user)).or_insert(TurnIncome { class, user, rate, most: 0 });
        let duration = draft.class_of(job).gangs.max_duration.or(longest);
        income.most = income.most.max(Price { duration, ..price }.total());
        if asks.is_some() && NShares(0) < draft.jobs[job].target {
            if let Some(turn) = paid {
                price.duration = Some(time_left(snapshot, turn));
            }
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

/// Qshares that each user earns in a millisecond: the part of the user's fair share for the gangs. The
/// fair shares of many jobs, each rounded down, may add up to nothing.
fn rates(
    draft: &Draft<'_>,
    gangs: impl Iterator<Item = JobIx>,
) -> BTreeMap<(ClassIx, UserIx), u64> {
    let mut all: BTreeMap<(ClassIx, UserIx), (u64, (QShares, u64))> = BTreeMap::new();
    for job in gangs {
        let (gangs, share) = all.entry(account_of(draft, job)).or_default();
        (*gangs, *share) = (*gangs + 1, draft.jobs[job].users_fair_share);
    }
    let rate = |(gangs, (share, jobs)): (u64, (QShares, u64))| {
        NonZeroU64::new(jobs).map_or(0, |jobs| floor_div(share.0.saturating_mul(gangs), jobs))
    };
    all.into_iter().map(|(account, gangs)| (account, rate(gangs))).collect()
}

/// The longest that any gang runs, as far as it is known. So long a user may have to save.
fn longest(draft: &Draft<'_>, gangs: &[JobIx]) -> Option<Millis> {
    let duration = |&job: &JobIx| {
        let declared = gang_shape(draft.job(job)).and_then(|shape| shape.duration);
        draft.class_of(job).gangs.duration(declared)
    };
    gangs.iter().filter_map(duration).max()
}

/// True if the gang has paid for this cycle: its peers do not preempt it.
pub(in crate::engine) fn is_paid(snapshot: &Snapshot, gang: &GangProgress) -> bool {
    gang.turn.is_some_and(|turn| snapshot.cycle < turn.until)
}

/// The class and the user whose account pays for the gang at `job`.
fn account_of(draft: &Draft<'_>, job: JobIx) -> (ClassIx, UserIx) {
    (draft.entities.class_of(job), draft.entities.user_of(job))
}

/// An amount as a number with a sign.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
