//! A job's work items: the remaining items, the order of service, the returned items.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use super::ProcessIx;
use super::process::Assignment;
use crate::model::{Mebibytes, Millis, ProcessLimit};
use crate::sim::count;

/// A job as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimWork {
    /// Name of the job in its suite.
    pub name: String,
    /// Name of the user who submits the job.
    pub user: String,
    /// To which class.
    pub class: String,
    /// Memory of each process.
    pub memory: Mebibytes,
    /// Items that a process works on at a time.
    pub threads: NonZeroU64,
    /// The most processes at a time; `None` means no limit.
    pub nodes: Option<u64>,
    /// Time of submission.
    pub submitted: Millis,
    /// The time of each item, in the order in which they are served. Never empty.
    pub items: Vec<Millis>,
}

impl SimWork {
    /// `nodes` as the scheduler gets it.
    pub fn limit(&self) -> ProcessLimit {
        self.nodes.map_or(ProcessLimit::Unlimited, ProcessLimit::AtMost)
    }
}

/// Progress of a job.
#[derive(Debug)]
pub(super) struct WorkProgress {
    pub work: SimWork,
    /// The first item that was never started.
    next: usize,
    /// Items that came back: they take their old place again, ahead of all never started.
    returned: BTreeSet<usize>,
    is_done: Vec<bool>,
    finished: u64,
    /// Sum over finished items, each once, of its own time.
    finished_time: Millis,
    /// True if any process of the job ever initialized.
    pub has_initialized: bool,
    /// Number of processes the job ever had: the number of the next process.
    pub processes_created: u64,
    /// Processes of the job that are neither draining nor gone, by number.
    pub held: Vec<ProcessIx>,
    /// End of the job's last item.
    pub ended: Option<Millis>,
}

impl WorkProgress {
    pub fn new(work: SimWork) -> WorkProgress {
        WorkProgress {
            is_done: vec![false; work.items.len()],
            work,
            next: 0,
            returned: BTreeSet::new(),
            finished: 0,
            finished_time: 0,
            has_initialized: false,
            processes_created: 0,
            held: Vec::new(),
            ended: None,
        }
    }

    /// Takes the next item of the queue, if any.
    pub fn pull(&mut self) -> Option<usize> {
        self.returned.pop_first().or_else(|| {
            let item = self.next;
            (item < self.work.items.len()).then(|| self.next += 1).map(|()| item)
        })
    }

    /// True if a thread that asks now gets nothing.
    pub fn is_queue_empty(&self) -> bool {
        self.returned.is_empty() && self.next == self.work.items.len()
    }

    /// Puts an item back that was in progress; the time spent on it is lost.
    pub fn give_back(&mut self, item: usize) {
        assert!(
            !self.is_done[item] && self.returned.insert(item),
            "an item in progress is in no queue"
        );
    }

    /// Enters that an item ended at `now`.
    ///
    /// # Panics
    ///
    /// If it was done before: every item is done exactly once (MODEL section 10).
    pub fn finish(&mut self, item: usize, now: Millis) {
        assert!(!std::mem::replace(&mut self.is_done[item], true), "an item is done once");
        self.finished += 1;
        self.finished_time += self.work.items[item];
        if self.finished == count(self.work.items.len()) {
            self.ended = Some(now);
        }
    }

    /// Items not finished, including the items in progress.
    pub fn remaining(&self) -> u64 {
        count(self.work.items.len()) - self.finished
    }

    /// Items finished.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Mean time of an item as seen at `now`; 0 while no time is known. Counts finished items, and
    /// items in progress that already took longer than the finished items. MODEL section 5.
    pub fn time_per_item(
        &self,
        in_progress: impl Iterator<Item = Assignment>,
        now: Millis,
    ) -> Millis {
        let mean = |sum: u64, of: u64| sum.checked_div(of).unwrap_or(0);
        let finished_mean = mean(self.finished_time, self.finished);
        let (mut late, mut late_time) = (0, 0);
        for spent in in_progress.map(|assignment| now - assignment.since) {
            if finished_mean < spent {
                late += 1;
                late_time += spent;
            }
        }
        mean(late * mean(late_time, late) + self.finished * finished_mean, late + self.finished)
    }
}
