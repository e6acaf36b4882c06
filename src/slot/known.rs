//! Attempts that a slot was given. They are kept for the life of the slot, so that no attempt
//! begins twice.
//!
//! Tasks come in groups of neighbours, and a group takes as much memory as a single task. So a slot
//! that works through millions of tasks stays small.

use std::collections::BTreeMap;

use crate::orchestrator::wire::AttemptId;

/// Attempts, as ranges of tasks.
#[derive(Debug, Default)]
pub(super) struct KnownAttempts {
    /// For a campaign and a number of an attempt: the first task of each range, and the last.
    ranges: BTreeMap<(u64, u64), BTreeMap<u64, u64>>,
}

impl KnownAttempts {
    /// Adds an attempt. Returns true if it is new.
    pub fn insert(&mut self, id: AttemptId) -> bool {
        let ranges = self.ranges.entry((id.campaign, id.attempt)).or_default();
        let task = id.task;
        let before = at_or_before(ranges, task);
        if before.is_some_and(|(_, last)| task <= last) {
            return false;
        }
        let joins = before.filter(|(_, last)| last.checked_add(1) == Some(task));
        let first = joins.map_or(task, |(first, _)| first);
        let behind = task.checked_add(1).and_then(|next| ranges.remove(&next));
        ranges.insert(first, behind.unwrap_or(task));
        true
    }

    /// True if the slot was given the attempt.
    pub fn contains(&self, id: AttemptId) -> bool {
        let ranges = self.ranges.get(&(id.campaign, id.attempt));
        let range = ranges.and_then(|ranges| at_or_before(ranges, id.task));
        range.is_some_and(|(_, last)| id.task <= last)
    }
}

/// The last range that begins with `task` or before.
fn at_or_before(ranges: &BTreeMap<u64, u64>, task: u64) -> Option<(u64, u64)> {
    ranges.range(..=task).next_back().map(|(first, last)| (*first, *last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(task: u64, attempt: u64) -> AttemptId {
        AttemptId { campaign: 9, task, attempt }
    }

    fn ranges(known: &KnownAttempts) -> usize {
        known.ranges.values().map(BTreeMap::len).sum()
    }

    #[test]
    fn an_attempt_is_new_once() {
        let mut known = KnownAttempts::default();
        let mut model = std::collections::BTreeSet::new();
        // Each residue twice, in an order that joins ranges on both sides.
        for step in 0..400_u64 {
            let (task, attempt) = (step * 37 % 101, 1 + step % 2);
            assert_eq!(known.contains(id(task, attempt)), model.contains(&(task, attempt)));
            assert_eq!(known.insert(id(task, attempt)), model.insert((task, attempt)), "{task}");
        }
        assert_eq!(ranges(&known), 2);
        assert!(known.insert(id(u64::MAX, 1)) && !known.insert(id(u64::MAX, 1)));
        assert!(known.insert(AttemptId { campaign: 8, task: 5, attempt: 1 }));
    }

    #[test]
    fn groups_of_neighbours_take_the_room_of_one() {
        let mut known = KnownAttempts::default();
        for group in 0..100 {
            assert!((0..50).all(|task| known.insert(id(group * 500 + task, 1))));
        }
        assert_eq!(ranges(&known), 100);
    }
}
