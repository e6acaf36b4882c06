//! What is left on each machine, for work that may only use those it lists.
//!
//! The ideal cluster of [`CountSpace`](crate::engine::nodepool::CountSpace) has sizes and no names:
//! that it has room somewhere is not enough for such work. What cannot be preempted for it stays
//! where it is, so that is known machine by machine, and so is what is counted for work that will
//! not move once it is there. Where fair-share work goes is decided later: what is counted for it
//! is held against its own list and all that reach further, which never count too little for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::engine::cap::maximum;
use crate::engine::draft::Draft;
use crate::engine::nodepool::{Cell, Shortage};
use crate::engine::serve::Seat;
use crate::engine::shares::Holding;
use crate::engine::snapshot::{Job, Share};
use crate::model::{MachineIx, NShares, Order, Policy, QShares};

/// The lists of all work that has one, and what is left on every machine.
pub(super) struct Listed {
    machines: Vec<Spot>,
    lists: Vec<List>,
    /// For each job of the snapshot, its list.
    list_of: Vec<Option<usize>>,
    /// What is counted in this cycle for each job that has a list and is of the priority at hand.
    counted: BTreeMap<usize, u64>,
}

/// A machine, in scheduling or not.
struct Spot {
    /// How large it is, and what of it nothing stays on.
    cell: Cell,
    /// The lists that it is on, ascending.
    lists: Vec<usize>,
}

/// Machines that some work is confined to.
struct List {
    /// Those of them that are in scheduling and in the pools of the work, ascending.
    machines: Vec<MachineIx>,
    /// What is left on all of them.
    left: u64,
    /// What is counted of fair-share work that may only be on them, but for what is there already
    /// and therefore not left.
    expected: u64,
    /// The lists with all its machines, itself among them.
    wider: Vec<usize>,
}

impl Listed {
    pub(super) fn new(draft: &Draft<'_>) -> Listed {
        let snapshot = draft.snapshot;
        let machines = (0..snapshot.machines.len()).map(MachineIx);
        let machines = machines.map(|ix| Spot { cell: draft.rooms.ideal(ix), lists: Vec::new() });
        let mut machines: Vec<Spot> = machines.collect();
        let mut places: BTreeMap<Vec<MachineIx>, usize> = BTreeMap::new();
        let mut list_of = vec![None; snapshot.jobs.len()];
        for &job in &draft.confined {
            let next = places.len();
            let list = usable_of_list(draft, draft.job(job));
            list_of[job] = list.map(|list| *places.entry(list).or_insert(next));
        }
        let mut lists: Vec<(Vec<MachineIx>, usize)> = places.into_iter().collect();
        lists.sort_unstable_by_key(|(_, place)| *place);
        for (list, place) in &lists {
            for machine in list {
                machines[machine.0].lists.push(*place);
            }
        }
        let wider: Vec<Vec<usize>> =
            lists.iter().map(|(list, _)| lists_with_all(&machines, list)).collect();
        let lists = lists.into_iter().zip(wider).map(|((list, _), wider)| List {
            left: list.iter().map(|machine| machines[machine.0].cell.free).sum(),
            machines: list,
            expected: 0,
            wider,
        });
        Listed { lists: lists.collect(), machines, list_of, counted: BTreeMap::new() }
    }

    /// Whether anybody has a list.
    pub(super) fn has_lists(&self) -> bool {
        !self.lists.is_empty()
    }

    pub(super) fn has_list(&self, job: usize) -> bool {
        self.list_of[job].is_some()
    }

    /// The largest piece left for `job`; `None` if it has no list.
    pub(super) fn largest(&self, job: usize) -> Option<QShares> {
        self.list_of[job]?;
        Some(QShares(self.holes(job).map(|(size, _)| size).max().unwrap_or(0)))
    }

    /// How many nshares of `order` its machines could hold at most; `None` if it has no list.
    pub(super) fn most(&self, job: usize, order: Order) -> Option<u64> {
        self.list_of[job]?;
        Some(self.holes(job).map(|(size, _)| QShares(size).nshares(order).0).sum())
    }

    /// The machine on the list of `job` with the least room of those that have enough for `order`.
    pub(super) fn machine_for(&self, job: usize, order: Order) -> Option<MachineIx> {
        let order = order.qshares().0;
        let fitting = self.holes(job).filter(|(size, _)| order <= *size);
        fitting.min().map(|(_, machine)| machine)
    }

    /// The smallest machine on the list of `job` of an order in `orders` that nothing has to stay on.
    pub(super) fn whole_machine_for(
        &self,
        job: usize,
        orders: &RangeInclusive<u64>,
    ) -> Option<MachineIx> {
        let is_whole = |&(size, machine): &(u64, MachineIx)| {
            size == self.machines[machine.0].cell.order && orders.contains(&size)
        };
        self.holes(job).filter(is_whole).min().map(|(_, machine)| machine)
    }

    /// How large `machine` is, and what is left of it.
    pub(super) fn cell(&self, machine: MachineIx) -> Cell {
        self.machines[machine.0].cell
    }

    /// Notes that `amount` of `machine` is nobody else's any more.
    pub(super) fn take(&mut self, machine: MachineIx, amount: u64) {
        let machine = &mut self.machines[machine.0];
        let amount = amount.min(machine.cell.free);
        machine.cell.free -= amount;
        for &list in &machine.lists {
            self.lists[list].left -= amount;
        }
    }

    /// Whether all who are confined to the machines of `job`, or to some of them, would still have
    /// room with one nshare of `order` more of it; and so for every list that reaches further.
    pub(super) fn has_room(&self, job: usize, order: Order) -> bool {
        let Some(list) = self.list_of[job] else { return true };
        let order = order.qshares().0;
        let mut wider = self.lists[list].wider.iter().map(|&list| &self.lists[list]);
        wider.all(|list| list.expected + order <= list.left)
    }

    /// Whether all who are confined would still have room with so many nshares more for each of the
    /// seats, which is what [`Listed::has_room`] would have said on the way. If not, what there is
    /// too little of, where it is scarcest.
    pub(super) fn has_room_for_all(
        &self,
        gains: impl Iterator<Item = (Seat, u64)>,
    ) -> Result<(), Shortage> {
        if !self.has_lists() {
            return Ok(());
        }
        let mut asked = vec![0; self.lists.len()];
        for (Seat { job, order, .. }, nshares) in gains.filter(|(_, nshares)| 0 < *nshares) {
            let wider = self.list_of[job].map_or(&[][..], |list| &self.lists[list].wider);
            for &list in wider {
                asked[list] += NShares(nshares).of_order(order).0;
            }
        }
        let lists = self.lists.iter().zip(asked);
        let shortages = lists.map(|(List { left, expected, .. }, asked)| Shortage {
            found: left.saturating_sub(*expected),
            asked,
        });
        let scarcest = shortages.filter(|short| short.found < short.asked).min_by(|one, other| {
            let part =
                |one: &Shortage, other: &Shortage| u128::from(one.found) * u128::from(other.asked);
            part(one, other).cmp(&part(other, one))
        });
        scarcest.map_or(Ok(()), Err)
    }

    /// Notes that so many nshares are counted for each of the seats, which are fair-share work.
    pub(super) fn expect_all(&mut self, gains: impl Iterator<Item = (Seat, u64)>) {
        if !self.has_lists() {
            return;
        }
        for (Seat { job, order, .. }, nshares) in gains.filter(|(_, nshares)| 0 < *nshares) {
            let Some(list) = self.list_of[job] else { continue };
            let amount = NShares(nshares).of_order(order).0;
            *self.counted.entry(job).or_default() += amount;
            self.change_expected(list, |expected| expected + amount);
        }
    }

    /// Notes where the fair-share work of `priority`, which has been counted, is: worse priorities
    /// cannot have that room. What is on a machine that nobody lists is nothing to anybody.
    pub(super) fn keep_for(&mut self, draft: &Draft<'_>, priority: u32) {
        for (job, counted) in std::mem::take(&mut self.counted) {
            let Some(list) = self.list_of[job] else { continue };
            let machines = &self.lists[list].machines;
            let there = staying(draft.job(job));
            let there = there.filter(|share| machines.binary_search(&share.machine).is_ok());
            let there: u64 = there.map(|share| share.order.qshares().0).sum();
            self.change_expected(list, |expected| expected - there.min(counted));
        }
        let classes = &draft.snapshot.topology.classes;
        let machines = self.machines.iter().enumerate();
        let listed: Vec<MachineIx> = machines
            .filter(|(_, spot)| !spot.lists.is_empty())
            .map(|(ix, _)| MachineIx(ix))
            .collect();
        // Of whoever is to have less, what stays is to be seen from all that it has.
        let mut shrinking = BTreeSet::new();
        for machine in listed {
            for (Holding { job, .. }, tenant) in draft.rooms.held_shares(machine) {
                let class = &classes[draft.entities.class_of(job).0];
                if class.priority != priority || !class.policy.is_preemptable() {
                    continue;
                }
                let most = maximum(draft.job(job)).unwrap_or(u64::MAX);
                if draft.jobs[job].held <= most {
                    self.take(machine, tenant.order().0);
                } else {
                    shrinking.insert(job);
                }
            }
        }
        for share in shrinking.into_iter().flat_map(|job| staying(draft.job(job))) {
            self.take(share.machine, share.order.qshares().0);
        }
    }

    fn change_expected(&mut self, list: usize, change: impl Fn(u64) -> u64) {
        for place in 0..self.lists[list].wider.len() {
            let wider = self.lists[list].wider[place];
            self.lists[wider].expected = change(self.lists[wider].expected);
        }
    }

    /// What `job` could have on each machine of its list.
    fn holes(&self, job: usize) -> impl Iterator<Item = (u64, MachineIx)> {
        let list = self.list_of[job].map(|list| &self.lists[list]);
        let machines = list.into_iter().flat_map(|list| &list.machines);
        machines.map(|&machine| (self.free(machine), machine))
    }

    /// What is left of `machine` for those whose place is counted by machine: not what all who are
    /// confined to it and others need in any case.
    fn free(&self, machine: MachineIx) -> u64 {
        let Spot { cell, lists } = &self.machines[machine.0];
        let lists = lists.iter().map(|&list| &self.lists[list]);
        lists.map(|list| list.left.saturating_sub(list.expected)).fold(cell.free, u64::min)
    }
}

/// The shares of `job` but for those that are above its declared maximum: these leave in this cycle.
fn staying(job: &Job) -> impl Iterator<Item = &Share> {
    job.held().zip(0..maximum(job).unwrap_or(u64::MAX)).map(|(share, _)| share)
}

/// The machines that `job` lists, as far as it may be given anything there; `None` without a list.
fn usable_of_list(draft: &Draft<'_>, job: &Job) -> Option<Vec<MachineIx>> {
    let class = draft.snapshot.class_of(job);
    let is_usable = |machine: &MachineIx| {
        let pool = draft.rooms.pool(*machine);
        let is_in_reach = match class.policy {
            Policy::FairShare { .. } => draft.pools.is_within(pool, class.pool),
            Policy::FixedShare | Policy::Reserve => pool == class.pool,
        };
        is_in_reach && draft.rooms.is_schedulable(*machine)
    };
    Some(job.machines.as_ref()?.iter().copied().filter(is_usable).collect())
}

/// The lists that every machine of `list` is on. An empty one is in the way of nobody.
fn lists_with_all(machines: &[Spot], list: &[MachineIx]) -> Vec<usize> {
    let Some((first, others)) = list.split_first() else { return Vec::new() };
    let has_others = |place: &usize| {
        others.iter().all(|other| machines[other.0].lists.binary_search(place).is_ok())
    };
    machines[first.0].lists.iter().copied().filter(has_others).collect()
}
