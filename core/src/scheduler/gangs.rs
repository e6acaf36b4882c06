//! State of gangs: ranks and sizes of their shares, their start, and their end with a lost node.
//!
//! Design: requests and time, sections 2 "Shares" and 3.5 "Losses of nodes".

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Scheduler;
use super::jobs::JobRecord;
use super::nodes::{NodeKey, NodeTable};
use super::sizes::whole;
use super::tracked_job::TrackedJob;
use super::view::Removal;
use crate::engine::{CycleSchedule, JobReport, PaidTurn, TurnAccount, TurnIncome};
use crate::model::{
    ClassIx, ClassPolicy, Elasticity, Millis, Name, Order, QShares, Shape, SharePhase, Topology,
    UserIx, count,
};

impl Scheduler {
    /// Gives the shares of gangs their ranks, where an earlier version issued them, and their
    /// sizes. On an exclusive node the share of the lowest rank fills the node.
    pub(super) fn measure_gangs(&mut self) {
        if !self.topology.classes.iter().any(|class| class.gangs.are_allowed) {
            return;
        }
        let is_all_new = self.nodes.have_changed();
        let (topology, nodes) = (&self.topology, &self.nodes);
        for job in self.jobs.values_mut().filter(|job| is_all_new || !job.is_unchanged()) {
            let Some(shape) = job.gang() else { continue };
            if job.shares.is_empty() {
                continue;
            }
            let ranks = ranks(job);
            let orders = orders(job, shape, &ranks, topology, nodes);
            let is_as_before =
                job.shares.iter().zip(&ranks).zip(&orders).all(|((share, rank), order)| {
                    share.rank == Some(*rank) && share.order == *order
                });
            if is_as_before {
                continue;
            }
            for ((share, rank), order) in job.shares.iter_mut().zip(ranks).zip(orders) {
                share.rank = Some(rank);
                share.order = order;
            }
            let size = count(job.shares.iter());
            job.gang.size.get_or_insert(size);
        }
    }
}

impl TrackedJob {
    /// Notes if a gang started in this cycle, or waits. Returns what its user gets back if it was
    /// preempted.
    pub(super) fn note_gang(&mut self, cycle: u64, report: &JobReport) -> Option<Refund> {
        let has_new = self.last.has_grown;
        let progress = self.gang;
        if progress.size.is_some() && report.held.0 == 0 && !self.last.preemptions.is_empty() {
            // Preempted as a whole: it waits anew.
            self.gang.size = None;
            self.gang.started = None;
            return self.end_turn(cycle, true);
        }
        let is_waiting =
            progress.size.is_none() && report.held.0 == 0 && report.held.0 < report.demand.0;
        if has_new {
            self.gang.size = Some(report.held.0);
            self.gang.waits_since = None;
        } else if is_waiting && progress.waits_since.is_none() {
            self.gang.waits_since = Some(cycle);
        }
        None
    }
}

impl JobRecord {
    /// The shape of the job, if it is a gang.
    pub(super) fn gang(&self) -> Option<&Shape> {
        self.spec.shape.as_deref().filter(|shape| shape.is_gang())
    }

    /// True if time decides on the job.
    pub(super) fn has_times(&self) -> bool {
        self.spec.shape.as_deref().is_some_and(Shape::has_times)
    }

    /// Ends a gang that lost a process with its node: its other processes have to leave. A gang that
    /// cannot be preempted is not started again; the user of another gets back what the turn cost.
    pub(super) fn break_gang(&mut self, topology: &Topology, cycle: u64) -> Option<Refund> {
        let shape = self.gang()?;
        if shape.elasticity == Some(Elasticity::Malleable) {
            return None;
        }
        let is_preemptable = self.policy(topology).is_some_and(ClassPolicy::is_preemptable);
        for share in self.shares.iter_mut().filter(|share| share.state == SharePhase::Held) {
            share.state = SharePhase::Leaving;
            share.removal = Some(Removal::GangBroken);
        }
        self.last.has_shrunk = true;
        if is_preemptable {
            self.gang.size = None;
            self.gang.started = None;
        } else {
            self.is_spent = true;
        }
        self.end_turn(cycle, true)
    }
}

/// Savings of a user for the gangs in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnSavings {
    /// Qshare-milliseconds at the start of cycle `since`.
    pub base: i64,
    /// Cycle of the last change.
    pub since: u64,
    /// Qshare-milliseconds earned in a millisecond.
    pub rate: i64,
    /// The most that the account may hold.
    pub most: i64,
}

/// Qshare-milliseconds that go back to the account of a user in a class.
#[derive(Clone, Debug)]
pub(super) struct Refund {
    class: Name,
    user: Name,
    amount: i64,
}

/// Accounts by class and user.
pub(super) type TurnRecord = BTreeMap<(Name, Name), TurnSavings>;

impl Scheduler {
    /// The accounts of users with gangs, as the engine sees them.
    pub(super) fn turn_accounts(&self) -> Vec<TurnAccount> {
        let users = &self.users.places().names;
        let account = |((class, user), savings): (&(Name, Name), &TurnSavings)| {
            let TurnSavings { base, since, rate, most } = *savings;
            let class = self.topology.class_named(class)?;
            let user = users.as_slice().binary_search(user).ok().map(UserIx)?;
            Some(TurnAccount { class, user, base, since, rate, most })
        };
        self.turns.iter().filter_map(account).collect()
    }

    /// Enters incomes and bills of a cycle. An account without income is closed, with all that is on it.
    pub(super) fn settle_turns(&mut self, schedule: &CycleSchedule) {
        if self.turns.is_empty() && schedule.incomes.is_empty() {
            return;
        }
        let period = self.topology.settings.publication_period;
        let users = Arc::clone(&self.users.places().names);
        let before = std::mem::take(&mut self.turns);
        for income in &schedule.incomes {
            let TurnIncome { class, user, rate, most } = *income;
            let name = &self.topology.classes[class].name;
            let key = (name.clone(), users[user].clone());
            let savings = before.get(&key).copied();
            let savings = match savings {
                Some(known) if (known.rate, known.most) == (rate, most) => known,
                known => {
                    let base = known.map_or(0, |known| known.balance(self.cycle, period));
                    TurnSavings { base, since: self.cycle, rate, most }
                }
            };
            self.turns.insert(key, savings);
        }
        for bill in &schedule.bills {
            if let Some(job) = self.jobs.get_mut(bill.job) {
                // A gang that grows pays for all of its processes from now on.
                let left = job.end_turn(self.cycle, false);
                job.gang.turn = Some(bill.turn);
                let refund = Refund {
                    class: job.spec.class.clone(),
                    user: job.spec.user.clone(),
                    amount: bill.turn.price.saturating_neg(),
                };
                left.iter().chain([&refund]).for_each(|refund| self.pay_back(refund));
            }
        }
    }

    /// Enters a refund, if its account is still open.
    pub(super) fn pay_back(&mut self, refund: &Refund) {
        let Refund { class, user, amount } = refund;
        let period = self.topology.settings.publication_period;
        if let Some(savings) = self.turns.get_mut(&(class.clone(), user.clone())) {
            savings.base = savings.balance(self.cycle, period).saturating_add(*amount);
            savings.since = self.cycle;
        }
    }
}

impl TurnSavings {
    /// Qshare-milliseconds on the account in `cycle`, if a cycle takes `period`.
    pub fn balance(&self, cycle: u64, period: Millis) -> i64 {
        let TurnSavings { base, since, rate, most } = *self;
        let (class, user) = (ClassIx(0), UserIx(0));
        TurnAccount { class, user, base, since, rate, most }.balance(cycle, period)
    }
}

impl JobRecord {
    /// Ends the paid turn of a gang. What it paid for the cycles from `cycle` on goes back; all of
    /// it if the gang was taken.
    pub(super) fn end_turn(&mut self, cycle: u64, is_taken: bool) -> Option<Refund> {
        let PaidTurn { from, until, price } = self.gang.turn.take()?;
        let (left, all) = (until.saturating_sub(cycle), until.saturating_sub(from));
        let part = i128::from(price) * i128::from(left);
        let part = part.checked_div(i128::from(all)).unwrap_or(0);
        let amount = if is_taken { price } else { i64::try_from(part).unwrap_or(price) };
        let (class, user) = (self.spec.class.clone(), self.spec.user.clone());
        (0 < amount).then_some(Refund { class, user, amount })
    }
}

/// Rank of each share. Shares without a rank are from before ranks were kept: their numbers ascend
/// with their ranks.
fn ranks(job: &JobRecord) -> Vec<u32> {
    let known: Option<Vec<u32>> = job.shares.iter().map(|share| share.rank).collect();
    known.unwrap_or_else(|| (0..).take(job.shares.iter().len()).collect())
}

/// Size of each share.
fn orders(
    job: &JobRecord,
    shape: &Shape,
    ranks: &[u32],
    topology: &Topology,
    nodes: &NodeTable,
) -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::with_capacity(ranks.len());
    let mut taken: BTreeMap<NodeKey, (u32, usize, QShares)> = BTreeMap::new();
    for (place, (share, rank)) in job.shares.iter().zip(ranks).enumerate() {
        let chunk = shape.chunk_of(u64::from(*rank)).unwrap_or(0);
        let memory = shape.chunks.get(chunk).map_or(job.spec.memory, |chunk| chunk.memory);
        let quantum = topology.pools[nodes[share.node].pool].quantum;
        let order = quantum.order_of_work(memory).unwrap_or(share.order);
        orders.push(order);
        let lowest = taken.entry(share.node).or_insert((*rank, place, QShares(0)));
        lowest.2 += order.qshares();
        if *rank < lowest.0 {
            (lowest.0, lowest.1) = (*rank, place);
        }
    }
    if shape.is_exclusive {
        for (node, (_, place, amount)) in taken {
            let Some(node) = whole(&nodes[node]) else { continue };
            let own = orders[place].qshares();
            let fill = (own + node.qshares()).saturating_sub(amount).max(own);
            let fill = u32::try_from(fill.0).ok().and_then(Order::new);
            orders[place] = fill.unwrap_or(orders[place]);
        }
    }
    orders
}
