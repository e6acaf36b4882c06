//! Many small heaps in a single allocation: the users of each class, the jobs of each user.

use std::ops::Range;

/// Bits of a tie that hold the member's place.
const PLACE_BITS: u32 = 32;
/// Bits of a tie that hold the order. Larger orders count as the largest that fits.
const ORDER_BITS: u32 = 31;

/// Rank of a member among its peers; the greatest is served next. All users weigh the same, and so
/// do all jobs, so two numbers are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Complement of the amount that the member will have once it is served: the less, the higher
    /// the rank.
    untagged: u64,
    /// Larger order first, then the member that already holds the space, then the earlier place.
    tie: u64,
}

impl Rank {
    /// Rank of the member at `place`, which must be below 2^32. `tag` is the amount that it will
    /// have once it is served.
    pub(super) fn new(tag: u64, order: u64, is_incumbent: bool, place: usize) -> Rank {
        let place = u32::try_from(place).expect("fewer than 2^32 take part");
        let order = order.min((1 << ORDER_BITS) - 1);
        let tie =
            order << (PLACE_BITS + 1) | u64::from(is_incumbent) << PLACE_BITS | u64::from(!place);
        Rank { untagged: !tag, tie }
    }

    /// Amount that the member will have once it is served.
    #[cfg(test)]
    fn tag(self) -> u64 {
        !self.untagged
    }

    /// Place of the member in its list.
    pub(super) fn place(self) -> usize {
        let place = !self.tie & ((1 << PLACE_BITS) - 1);
        usize::try_from(place).expect("it was made from one")
    }
}

/// For each owner a heap of its members.
#[derive(Clone, Debug, Default)]
pub(super) struct Heaps {
    ranks: Vec<Rank>,
    of_owners: Vec<Range<usize>>,
}

impl Heaps {
    /// Builds a heap of its members for each of `owners` owners, ranked by `rank`. Also returns the
    /// members, owner by owner; the places in the ranks are places in that list.
    pub(super) fn new<T: Copy>(
        owners: usize,
        members: &[(usize, T)],
        rank: impl Fn(usize, &T) -> Rank,
    ) -> (Heaps, Vec<T>) {
        let mut of_owners = vec![0..0; owners];
        for (owner, _) in members {
            of_owners[*owner].end += 1;
        }
        let mut start = 0;
        for range in &mut of_owners {
            let members = range.end;
            *range = start..start;
            start += members;
        }
        let mut sorted: Vec<T> = members.iter().map(|(_, member)| *member).collect();
        for (owner, member) in members {
            sorted[of_owners[*owner].end] = *member;
            of_owners[*owner].end += 1;
        }
        let mut ranks: Vec<Rank> =
            sorted.iter().enumerate().map(|(place, member)| rank(place, member)).collect();
        for range in &of_owners {
            put_in_order(&mut ranks[range.clone()]);
        }
        (Heaps { ranks, of_owners }, sorted)
    }

    /// The members of `owner`: the greatest first, the rest in any order.
    pub(super) fn members(&self, owner: usize) -> &[Rank] {
        &self.ranks[self.of_owners[owner].clone()]
    }

    /// Ranks the first member of `owner` anew.
    pub(super) fn replace_first(&mut self, owner: usize, rank: Rank) {
        let heap = &mut self.ranks[self.of_owners[owner].clone()];
        heap[0] = rank;
        sift_down(heap, 0);
    }

    /// Takes the first member of `owner` out.
    pub(super) fn remove_first(&mut self, owner: usize) {
        let range = &mut self.of_owners[owner];
        range.end -= 1;
        let (first, last) = (range.start, range.end);
        self.ranks.swap(first, last);
        sift_down(&mut self.ranks[first..last], 0);
    }

    /// Ranks the members of `owner` anew; members without a rank are removed.
    pub(super) fn rank_anew(&mut self, owner: usize, mut rank: impl FnMut(Rank) -> Option<Rank>) {
        let range = &mut self.of_owners[owner];
        let mut kept = range.start;
        for place in range.clone() {
            if let Some(rank) = rank(self.ranks[place]) {
                self.ranks[kept] = rank;
                kept += 1;
            }
        }
        range.end = kept;
        put_in_order(&mut self.ranks[range.clone()]);
    }
}

/// Makes a heap of unordered ranks.
fn put_in_order(heap: &mut [Rank]) {
    for place in (0..heap.len()).rev() {
        sift_down(heap, place);
    }
}

/// Moves the item at `place` down to its position in the heap.
fn sift_down(heap: &mut [Rank], mut place: usize) {
    loop {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        let greater = match (heap.get(left), heap.get(right)) {
            (Some(one), Some(other)) if one < other => right,
            (Some(_), _) => left,
            (None, _) => return,
        };
        if heap[greater] <= heap[place] {
            return;
        }
        heap.swap(place, greater);
        place = greater;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each criterion decides before all later criteria.
    #[test]
    fn who_has_less_goes_first_then_the_larger_order_the_incumbent_and_the_first() {
        let in_turn = [
            Rank::new(0, 1, false, 9),
            Rank::new(2, 3, false, 8),
            Rank::new(2, 2, true, 7),
            Rank::new(2, 2, false, 0),
            Rank::new(2, 2, false, 1),
            Rank::new(u64::MAX, u64::MAX, true, 0),
        ];
        assert!(in_turn.is_sorted_by(|one, next| one > next));
        assert_eq!(in_turn.map(Rank::place), [9, 8, 7, 0, 1, 0]);
        assert_eq!(in_turn.map(Rank::tag), [0, 2, 2, 2, 2, u64::MAX]);
    }

    /// Two owners with members in any order, between them an owner without members.
    #[test]
    fn members_come_out_in_turn() {
        let rank = |tag, place| Rank::new(tag, 1, false, place);
        let served = [5, 3, 8, 1, 9, 2, 7, 3];
        let members: Vec<(usize, Rank)> = served
            .iter()
            .enumerate()
            .map(|(place, served)| (2 * (place % 2), rank(*served, place)))
            .collect();
        let (mut heaps, _) = Heaps::new(3, &members, |_, rank| *rank);
        assert!(heaps.members(1).is_empty());
        heaps.replace_first(0, rank(6, 0)); // the 5 at place 0
        let drained = [0, 2].map(|owner| {
            let mut drained = Vec::new();
            while let Some(first) = heaps.members(owner).first() {
                drained.push((first.tag(), first.place()));
                heaps.remove_first(owner);
            }
            drained
        });
        assert_eq!(drained[0], [(6, 0), (7, 6), (8, 2), (9, 4)]);
        assert_eq!(drained[1], [(1, 3), (2, 5), (3, 1), (3, 7)]);
    }
}
