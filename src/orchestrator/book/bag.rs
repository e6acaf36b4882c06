//! The queue of a campaign: a cursor over its range, and the tasks that are queued again.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::model::count;
use crate::orchestrator::spec::TaskRange;

/// Priority of a task that was never begun and came back.
pub const RETURNED: u8 = 40;
/// Priority of a task that has saved what it had.
pub const CHECKPOINTED: u8 = 30;
/// Priority of a task that was interrupted or has another try.
pub const AGAIN: u8 = 20;
/// Priority of a task that was never touched.
pub const UNTOUCHED: u8 = 10;
/// Priority of a task that asked for the end of the queue.
pub const LAST: u8 = 0;

/// The untouched tasks of a campaign. They take no space, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The numbers of the tasks.
    pub range: TaskRange,
    /// Positions that have been passed.
    pub taken: u64,
    /// Positions that may be passed.
    pub limit: u64,
    /// Tasks beyond the cursor that were touched by other means, by position.
    pub skipped: BTreeSet<u64>,
}

impl Cursor {
    /// Returns the number of untouched tasks.
    pub fn left(&self) -> u64 {
        self.left_below(self.limit)
    }

    /// Returns the number of untouched tasks at positions below `end`.
    pub fn left_below(&self, end: u64) -> u64 {
        let end = end.min(self.limit);
        if end <= self.taken {
            return 0;
        }
        (end - self.taken).saturating_sub(count(self.skipped.range(self.taken..end)))
    }

    /// Takes the next untouched task.
    pub fn take(&mut self) -> Option<u64> {
        while self.taken < self.limit {
            let position = self.taken;
            self.taken += 1;
            if !self.skipped.remove(&position) {
                return self.range.at(position);
            }
        }
        None
    }

    /// True if `task` is untouched and can still be taken.
    pub fn holds(&self, task: u64) -> bool {
        let position = self.range.position(task);
        position
            .is_some_and(|at| self.taken <= at && at < self.limit && !self.skipped.contains(&at))
    }

    /// Touches an untouched task out of turn.
    pub fn skip(&mut self, task: u64) {
        if let Some(position) = self.range.position(task).filter(|at| self.taken <= *at) {
            self.skipped.insert(position);
        }
    }
}

/// Tasks of a memory step that are queued again: higher priority first, then by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQueue(BTreeSet<(Reverse<u8>, u64)>);

impl TaskQueue {
    /// Queues a task.
    pub fn put(&mut self, priority: u8, task: u64) {
        self.0.insert((Reverse(priority), task));
    }

    /// Takes a task out, wherever it stands.
    pub fn remove(&mut self, priority: u8, task: u64) {
        self.0.remove(&(Reverse(priority), task));
    }

    /// Takes the first task, if it goes before tasks of priority `over`.
    pub fn take_over(&mut self, over: Option<u8>) -> Option<u64> {
        let (Reverse(priority), task) = *self.0.first()?;
        if over.is_some_and(|over| priority <= over) {
            return None;
        }
        self.remove(priority, task);
        Some(task)
    }

    /// Returns the number of queued tasks.
    pub fn len(&self) -> u64 {
        count(&self.0)
    }

    /// Priority and number of all tasks that are queued, first to last.
    pub fn entries(&self) -> Vec<(u8, u64)> {
        self.0.iter().map(|(Reverse(priority), task)| (*priority, *task)).collect()
    }

    /// All tasks that are queued, first to last.
    pub fn tasks(&self) -> Vec<u64> {
        self.0.iter().map(|(_, task)| *task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_passes_what_was_touched_before() {
        let range = TaskRange { first: 10, step: 5, count: 4 };
        let mut cursor = Cursor { range, taken: 0, limit: 4, skipped: BTreeSet::new() };
        cursor.skip(15);
        assert!(cursor.holds(10) && !cursor.holds(15) && !cursor.holds(11) && !cursor.holds(30));
        assert_eq!(cursor.left(), 3);
        assert_eq!([0, 1, 2, 3, 9].map(|end| cursor.left_below(end)), [0, 1, 1, 2, 3]);
        let taken: Vec<u64> = std::iter::from_fn(|| cursor.take()).collect();
        assert_eq!((taken, cursor.left()), (vec![10, 20, 25], 0));
        // A touched task behind the limit takes no place before it.
        let cut = Cursor { range, taken: 0, limit: 2, skipped: BTreeSet::from([3]) };
        assert_eq!(cut.left(), 2);
    }

    #[test]
    fn untouched_tasks_stand_between_the_others() {
        let mut queue = TaskQueue::default();
        for (priority, task) in [(LAST, 1), (AGAIN, 9), (AGAIN, 3), (RETURNED, 12)] {
            queue.put(priority, task);
        }
        let mut taken = Vec::new();
        while let Some(task) = queue.take_over(Some(UNTOUCHED)) {
            taken.push(task);
        }
        assert_eq!((taken, queue.len()), (vec![12, 3, 9], 1));
        assert_eq!(queue.take_over(None), Some(1));
    }
}
