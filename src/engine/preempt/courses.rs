//! What one search looks at: the shares that might be taken, those most willingly given first, of
//! those the cheapest first; and where it is of no use to look.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque, btree_set};

use super::victims::Tier;
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
    /// The next of each list, with the place of what is left of it.
    next: BinaryHeap<Reverse<(Prey, usize)>>,
    lists: Vec<btree_set::Iter<'d, Prey>>,
    few: VecDeque<Prey>,
}

/// What a search looks at.
#[derive(Default)]
pub(super) struct Courses<'d> {
    pub by_tier: BTreeMap<Tier, Vec<&'d BTreeSet<Prey>>>,
    /// Shares of those that are looked at one by one.
    pub few: Vec<(Tier, Prey)>,
    /// What those who may be asked hold on each machine, class by class; empty if they are the few.
    pub amounts: Vec<&'d [QShares]>,
    /// Whether so many of the beneficiary's own class might give that all of it is looked at.
    pub is_wide: bool,
}

impl<'d> Courses<'d> {
    /// Leaves out the machines on which all that belongs to those who may be asked is too little.
    /// `lacking` says how much would have to go from one, if it would do at all.
    pub(super) fn leave_out_vain(&mut self, lacking: impl Fn(MachineIx) -> Option<QShares>) {
        // Where more than the few might be asked it is left to `most_on`.
        if !self.amounts.is_empty() {
            return;
        }
        // Each user's are in that order already, which a stable sort makes use of.
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
            let of_tier = few.iter().filter(|(other, _)| *other == tier);
            Course::new(
                tier,
                lists.map(|prey| prey.iter()).collect(),
                of_tier.map(|(_, prey)| *prey).collect(),
            )
        })
    }
}

impl<'d> Course<'d> {
    fn new(
        tier: Tier,
        mut lists: Vec<btree_set::Iter<'d, Prey>>,
        few: VecDeque<Prey>,
    ) -> Course<'d> {
        let firsts = lists.iter_mut().enumerate();
        let next = firsts.filter_map(|(place, list)| Some(Reverse((*list.next()?, place))));
        Course { tier, next: next.collect(), lists, few }
    }
}

impl Iterator for Course<'_> {
    type Item = Prey;

    fn next(&mut self) -> Option<Prey> {
        let Some(mut next) = self.next.peek_mut() else { return self.few.pop_front() };
        let Reverse((prey, place)) = *next;
        if self.few.front().is_some_and(|few| *few < prey) {
            return self.few.pop_front();
        }
        match self.lists[place].next() {
            Some(after) => *next = Reverse((*after, place)),
            None => drop(PeekMut::pop(next)),
        }
        Some(prey)
    }
}
