//! What one search looks at: the shares that might be taken, those most willingly given first, of
//! those the cheapest first.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, btree_set};
use std::ops::Bound;

use super::stand::Tiers;
use super::victims::Tier;
use crate::engine::shares::{Brief, large, small};
use crate::model::{MachineIx, Millis, QShares};

/// So many of a list are put in order when it is first read.
const FIRST_IN_ORDER: usize = 64;
/// And so many times as many each time when that was too few.
const THEN_TIMES: usize = 3;
/// At most so many of one list are passed over at once.
const PASSED_OVER: usize = 16;

/// A share that could be taken, as far as its own facts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prey {
    /// The work lost with it.
    pub loss: Millis,
    // Small, as there are so many.
    machine: u32,
    order: u32,
    place: u32,
    user: u32,
}

/// Shares of a class that are of one tier and of similar orders.
#[derive(Debug)]
pub(super) struct PreyOfTier {
    pub tier: Tier,
    /// None of them is smaller.
    pub least_order: u64,
    /// Those that were of this tier when the list was made.
    first: LazyOrder,
    /// Those that have come to be of it since.
    late: BTreeSet<Prey>,
}

/// A list that is put in order as far as it is read: of thousands of shares most searches see a few.
#[derive(Debug)]
struct LazyOrder {
    entries: RefCell<Vec<Prey>>,
    /// So many are in order, and none of the others belongs before one of them.
    in_order: Cell<usize>,
}

/// Shares of one tier to look at, the cheapest first.
pub(super) struct Course<'d> {
    pub tier: Tier,
    tiers: &'d Tiers,
    /// The next of each list, with the place of what is left of it. Whether one belongs there and is
    /// still to be had is seen when its turn comes.
    next: BinaryHeap<Reverse<(Prey, usize)>>,
    left: Vec<Left<'d>>,
}

/// What comes next in a course.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A share to look at.
    Look(Prey),
    /// All that is left loses so much or more, which is too much.
    Beyond(Millis),
    /// Nothing is left.
    End,
}

/// What a search looks at.
pub(super) struct Courses<'d> {
    /// Of what tier each share is now.
    tiers: &'d Tiers,
    lists: Vec<(Tier, List<'d>)>,
    /// Whether so many of the beneficiary's own class might give that all of it is looked at.
    pub is_wide: bool,
    /// Whether only few are asked, one by one.
    pub are_few: bool,
}

/// A list of shares of one tier.
#[derive(Clone, Copy)]
enum List<'d> {
    /// Of some of these the tier has changed since they were listed, or they were taken.
    OfClass(&'d PreyOfTier),
    /// The cheapest first.
    OfFew(&'d [(Tier, Prey)]),
}

/// What is left of a list.
enum Left<'d> {
    First(&'d PreyOfTier, usize),
    Late(btree_set::Range<'d, Prey>),
    OfFew(std::slice::Iter<'d, (Tier, Prey)>),
}

impl Prey {
    /// The share at `place` among all shares, of `user` within a class.
    pub(super) fn new(share: &Brief, place: usize, user: usize) -> Prey {
        Prey {
            loss: share.loss,
            machine: small(share.machine().0),
            order: share.order.get(),
            place: small(place),
            user: small(user),
        }
    }

    /// Nothing that loses so much comes after it.
    fn last_of(loss: Millis) -> Prey {
        Prey { loss, machine: u32::MAX, order: u32::MAX, place: u32::MAX, user: u32::MAX }
    }

    pub(super) fn machine(&self) -> MachineIx {
        MachineIx(large(self.machine))
    }

    pub(super) fn order(&self) -> QShares {
        QShares(u64::from(self.order))
    }

    /// Its place among all shares.
    pub(super) fn place(&self) -> usize {
        large(self.place)
    }

    /// Whose it is, within a class.
    pub(super) fn user(&self) -> usize {
        large(self.user)
    }
}

impl LazyOrder {
    fn get(&self, place: usize) -> Option<Prey> {
        if self.in_order.get() <= place {
            self.order_beyond(place)?;
        }
        self.entries.borrow().get(place).copied()
    }

    /// The place of the first that is not `known`: those that are come first.
    fn first_not(&self, known: impl Fn(&Prey) -> bool) -> usize {
        let mut place = self.entries.borrow()[..self.in_order.get()].partition_point(&known);
        while self.in_order.get() <= place && self.get(place).is_some_and(|prey| known(&prey)) {
            place += 1;
        }
        place
    }

    /// Puts more in order, so that `place` is; `None` if there is no such place.
    #[cold]
    fn order_beyond(&self, place: usize) -> Option<()> {
        let mut entries = self.entries.borrow_mut();
        if entries.len() <= place {
            return None;
        }
        let known = self.in_order.get();
        let more = (known * (THEN_TIMES - 1)).max(FIRST_IN_ORDER).max(place + 1 - known);
        let rest = &mut entries[known..];
        let more = if more < rest.len() {
            rest.select_nth_unstable(more);
            more
        } else {
            rest.len()
        };
        rest[..more].sort_unstable();
        self.in_order.set(known + more);
        Some(())
    }
}

impl PreyOfTier {
    /// These shares, which are all of `tier` and none smaller than `least_order`, in any order.
    pub(super) fn new(tier: Tier, least_order: u64, shares: Vec<Prey>) -> PreyOfTier {
        let first = LazyOrder { entries: RefCell::new(shares), in_order: Cell::new(0) };
        PreyOfTier { tier, least_order, first, late: BTreeSet::new() }
    }

    /// Enters a share that was not of this tier when the list was made.
    pub(super) fn insert(&mut self, prey: Prey) {
        self.late.insert(prey);
    }

    /// Takes out a share that was not of this tier when the list was made. Of those that were it is
    /// seen that they no longer are.
    pub(super) fn remove(&mut self, prey: &Prey) {
        self.late.remove(prey);
    }

    /// Any one of it that `is_there`.
    pub(super) fn any(&self, is_there: impl Fn(&Prey) -> bool) -> Option<Prey> {
        let first = self.first.entries.borrow().iter().find(|prey| is_there(prey)).copied();
        first.or_else(|| self.late.first().copied())
    }
}

impl<'d> Courses<'d> {
    /// Nothing to look at yet.
    pub(super) fn new(tiers: &'d Tiers) -> Courses<'d> {
        Courses { tiers, lists: Vec::new(), is_wide: false, are_few: true }
    }

    /// Adds a list of a class.
    pub(super) fn add(&mut self, prey: &'d PreyOfTier) {
        self.are_few = false;
        self.lists.push((prey.tier, List::OfClass(prey)));
    }

    /// Adds shares of those that are looked at one by one, by tier, of each the cheapest first.
    pub(super) fn add_few(&mut self, shares: &'d [(Tier, Prey)]) {
        let by_tier = shares.chunk_by(|(one, _), (other, _)| one == other);
        self.lists.extend(by_tier.map(|shares| (shares[0].0, List::OfFew(shares))));
    }

    /// Has all been added.
    pub(super) fn sorted(mut self) -> Courses<'d> {
        self.lists.sort_by_key(|(tier, _)| *tier);
        self
    }

    /// One course a tier, the most willing first.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = Course<'d>> {
        self.in_turn_beyond(|_| None)
    }

    /// The same, but of each tier only what loses more than `known_to` says, if that says anything.
    pub(super) fn in_turn_beyond(
        &self,
        known_to: impl Fn(Tier) -> Option<Millis>,
    ) -> impl Iterator<Item = Course<'d>> {
        let by_tier = self.lists.chunk_by(|(one, _), (other, _)| one == other);
        let by_tier = by_tier.map(move |lists| (lists, known_to(lists[0].0)));
        let by_tier = by_tier.filter(|(_, known_to)| *known_to != Some(Millis::MAX));
        by_tier.map(|(lists, known_to)| Course::new(self.tiers, lists, known_to))
    }

    /// No share is of a better tier.
    pub(super) fn first_tier(&self) -> Option<Tier> {
        self.lists.first().map(|(tier, _)| *tier)
    }
}

impl<'d> Course<'d> {
    /// `lists` are all of one tier, and there is one at least. What loses no more than `known_to` is left
    /// out.
    fn new(tiers: &'d Tiers, lists: &[(Tier, List<'d>)], known_to: Option<Millis>) -> Course<'d> {
        let mut left = Vec::with_capacity(2 * lists.len());
        let is_known = |prey: &Prey| known_to.is_some_and(|known_to| prey.loss <= known_to);
        for (_, list) in lists {
            match list {
                List::OfClass(prey) => {
                    left.push(Left::First(prey, prey.first.first_not(is_known)));
                    let late = known_to
                        .map_or(Bound::Unbounded, |loss| Bound::Excluded(Prey::last_of(loss)));
                    left.push(Left::Late(prey.late.range((late, Bound::Unbounded))));
                }
                List::OfFew(shares) => {
                    let known = shares.partition_point(|(_, prey)| is_known(prey));
                    left.push(Left::OfFew(shares[known..].iter()));
                }
            }
        }
        let firsts = left.iter_mut().enumerate();
        let next = firsts.filter_map(|(place, left)| Some(Reverse((left.next()?, place))));
        Course { tier: lists[0].0, tiers, next: next.collect(), left }
    }

    /// The next that `is_of_use`, if it loses no more than `limit`; else it stays the next.
    pub(super) fn next_within(
        &mut self,
        limit: Option<Millis>,
        is_of_use: impl Fn(&Prey) -> bool,
    ) -> Step {
        let Course { tier, tiers, next, left } = self;
        let is_too_dear = |prey: &Prey| limit.is_some_and(|limit| limit < prey.loss);
        let is_of_use = |prey: &Prey| tiers.is_of(prey.place(), *tier) && is_of_use(prey);
        while let Some(mut first) = next.peek_mut() {
            let Reverse((prey, place)) = *first;
            if is_too_dear(&prey) {
                return Step::Beyond(prey.loss);
            }
            // Most are of no use: what is passed over at once is not compared with other lists.
            let is_stop = |prey: &Prey| is_too_dear(prey) || is_of_use(prey);
            match left[place].next_stop(is_stop) {
                Some(after) => *first = Reverse((after, place)),
                None => drop(PeekMut::pop(first)),
            }
            if is_of_use(&prey) {
                return Step::Look(prey);
            }
        }
        Step::End
    }
}

impl Left<'_> {
    /// The next that `is_stop`, or one on the way there.
    fn next_stop(&mut self, is_stop: impl Fn(&Prey) -> bool) -> Option<Prey> {
        let mut next = self.next()?;
        for _ in 0..PASSED_OVER {
            if is_stop(&next) {
                break;
            }
            next = self.next()?;
        }
        Some(next)
    }

    fn next(&mut self) -> Option<Prey> {
        match self {
            Left::First(prey, place) => {
                *place += 1;
                prey.first.get(*place - 1)
            }
            Left::Late(prey) => prey.next().copied(),
            Left::OfFew(shares) => shares.next().map(|(_, prey)| *prey),
        }
    }
}

impl Iterator for Course<'_> {
    type Item = Prey;

    fn next(&mut self) -> Option<Prey> {
        match self.next_within(None, |_| true) {
            Step::Look(prey) => Some(prey),
            Step::Beyond(_) | Step::End => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prey(loss: Millis, place: u32) -> Prey {
        Prey { loss, machine: 0, order: 1, place, user: 0 }
    }

    /// More than are put in order at once, read in turn and from the middle.
    #[test]
    fn a_list_is_read_in_order_however_far() {
        let shares: Vec<Prey> = (0..1000).map(|job| prey(job * 7919 % 1000, 0)).collect();
        let lazy = |shares: &[Prey]| LazyOrder {
            entries: RefCell::new(shares.to_vec()),
            in_order: Cell::new(0),
        };
        let list = lazy(&shares);
        let read: Vec<Millis> =
            (0..).map_while(|place| list.get(place)).map(|prey| prey.loss).collect();
        assert!(read.into_iter().eq(0..1000));
        let list = lazy(&shares);
        for place in [700, 3, 699, 999, 1000] {
            let loss = list.get(place).map(|prey| prey.loss);
            assert_eq!(loss, u64::try_from(place).ok().filter(|place| *place < 1000));
        }
    }

    /// Some are gone, and of the others every third is of use, but none of many in a row.
    #[test]
    fn a_course_is_read_in_order_but_for_what_is_of_no_use() {
        let tier = Tier { is_resident: true, is_within_count: false, becomes_needy: false };
        let mut tiers = Tiers::all_of(tier, 1000);
        let is_gone = |place: usize| place.is_multiple_of(7);
        for place in (0..1000).filter(|place| is_gone(*place)) {
            tiers.note_gone(place);
        }
        let is_of_use =
            |prey: &Prey| prey.place.is_multiple_of(3) && !(100..200).contains(&prey.loss);
        let shares = |from: u32, to: u32| -> Vec<Prey> {
            (from..to).map(|place| prey(u64::from(place * 7919 % 500), place)).collect()
        };
        let mut list = PreyOfTier::new(tier, 1, shares(0, 600));
        for late in shares(600, 800) {
            list.insert(late);
        }
        let mut few: Vec<(Tier, Prey)> =
            shares(800, 1000).into_iter().map(|prey| (tier, prey)).collect();
        few.sort_unstable();
        let mut expected: Vec<Prey> = shares(0, 1000);
        expected.retain(|prey| is_of_use(prey) && !is_gone(prey.place()));
        expected.sort_unstable();
        for limit in [None, Some(0), Some(123), Some(499)] {
            let lists = [(tier, List::OfClass(&list)), (tier, List::OfFew(&few))];
            let mut course = Course::new(&tiers, &lists, None);
            let mut read = Vec::new();
            let end = loop {
                match course.next_within(limit, is_of_use) {
                    Step::Look(prey) => read.push(prey),
                    end @ (Step::Beyond(_) | Step::End) => break end,
                }
            };
            let within =
                expected.partition_point(|prey| limit.is_none_or(|most| prey.loss <= most));
            assert_eq!(read, expected[..within]);
            // Of what is of no use the first may be named, too.
            match end {
                Step::Beyond(loss) => {
                    let least = expected.get(within).map_or(Millis::MAX, |prey| prey.loss);
                    assert!(limit < Some(loss) && loss <= least, "{limit:?} {loss}");
                }
                Step::Look(_) | Step::End => assert_eq!(within, expected.len()),
            }
        }
    }

    /// Whoever has left the list says nothing of those who are still in it.
    #[test]
    fn any_of_a_list_is_one_that_is_still_in_it() {
        let tier = Tier { is_resident: true, is_within_count: false, becomes_needy: false };
        let mut list = PreyOfTier::new(tier, 1, vec![prey(1, 1), prey(2, 2)]);
        assert_eq!(list.any(|prey| prey.place != 1), Some(prey(2, 2)));
        assert_eq!(list.any(|_| false), None);
        list.insert(prey(3, 3));
        assert_eq!(list.any(|_| false), Some(prey(3, 3)));
        list.remove(&prey(3, 3));
        assert_eq!(list.any(|_| false), None);
    }
}
