//! What one search looks at: the shares that might be taken, those most willingly given first, of
//! those the cheapest first; and where it is of no use to look.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque, btree_set};

use super::plan::Tier;
use crate::engine::nodepool::Holding;
use crate::model::{MachineIx, Millis, QShares};

/// A share that could be taken, as far as its own facts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prey {
    /// The work lost with it.
    pub loss: Millis,
    pub machine: MachineIx,
    pub order: QShares,
    pub holding: Holding,
}

/// Shares of one tier to look at, the cheapest first.
pub(super) struct Course<'d> {
    pub tier: Tier,
    lists: BinaryHeap<Reverse<List<'d>>>,
    few: VecDeque<Prey>,
}

/// Shares in order, by the first of them.
struct List<'d> {
    first: Prey,
    rest: btree_set::Iter<'d, Prey>,
}

/// What a search looks at.
pub(super) struct Courses<'d> {
    pub by_tier: BTreeMap<Tier, Vec<&'d BTreeSet<Prey>>>,
    /// Shares of those that are looked at one by one.
    pub few: Vec<(Tier, Prey)>,
    /// What is on each machine of the classes of which more may go than the few.
    pub amounts: Vec<&'d [QShares]>,
    /// Whether so many of the beneficiary's own class might give that all of it is looked at.
    pub is_wide: bool,
}

impl<'d> Courses<'d> {
    /// Leaves out the machines on which not enough belongs to anybody who might be asked. `lacking`
    /// says how much would have to go from one, if it would do at all.
    pub(super) fn leave_out_vain(&mut self, lacking: impl Fn(MachineIx) -> Option<QShares>) {
        // Where more than the few might be asked it is left to `most_on`.
        if !self.amounts.is_empty() {
            return;
        }
        // Stable, as it is made of parts that are in order.
        self.few.sort_by_key(|(_, prey)| prey.machine);
        let by_machine = self.few.chunk_by(|(_, one), (_, other)| one.machine == other.machine);
        let is_enough = |there: &&[(Tier, Prey)]| {
            let most: QShares = there.iter().map(|(_, prey)| prey.order).sum();
            lacking(there[0].1.machine).is_some_and(|lacking| lacking <= most)
        };
        self.few = by_machine.filter(is_enough).flatten().copied().collect();
    }

    /// No more than this may go from `machine`, where that is known.
    pub(super) fn most_on(&self, machine: MachineIx) -> Option<QShares> {
        let amounts = self.amounts.iter().map(|amounts| amounts[machine.0]);
        (!self.amounts.is_empty()).then(|| amounts.sum())
    }

    /// One course a tier, the most willing first.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = Course<'d>> + use<'_, 'd> {
        let mut few = self.few.clone();
        few.sort_unstable();
        let mut tiers: BTreeSet<Tier> = self.by_tier.keys().copied().collect();
        tiers.extend(few.iter().map(|(tier, _)| *tier));
        tiers.into_iter().map(move |tier| {
            let lists = self.by_tier.get(&tier).into_iter().flatten();
            let of_tier = |(other, _): &&(Tier, Prey)| *other == tier;
            let few = few.iter().filter(of_tier).map(|(_, prey)| *prey).collect();
            Course {
                tier,
                lists: lists.filter_map(|prey| List::new(prey.iter())).map(Reverse).collect(),
                few,
            }
        })
    }
}

impl<'d> List<'d> {
    fn new(mut prey: btree_set::Iter<'d, Prey>) -> Option<List<'d>> {
        Some(List { first: *prey.next()?, rest: prey })
    }
}

impl Iterator for Course<'_> {
    type Item = Prey;

    fn next(&mut self) -> Option<Prey> {
        let Some(mut list) = self.lists.peek_mut() else { return self.few.pop_front() };
        let first = list.0.first;
        if self.few.front().is_some_and(|few| *few < first) {
            return self.few.pop_front();
        }
        match list.0.rest.next() {
            Some(next) => list.0.first = *next,
            None => drop(PeekMut::pop(list)),
        }
        Some(first)
    }
}

impl PartialEq for List<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.first == other.first
    }
}

impl Eq for List<'_> {}

impl PartialOrd for List<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for List<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.first.cmp(&other.first)
    }
}
