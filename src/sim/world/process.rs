//! A single process: its threads, and the use of their time.

use super::WorkIx;
use crate::model::Millis;

/// An item that a thread works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub item: usize,
    pub since: Millis,
}

/// Stage in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not yet ready for items.
    Initializing,
    /// Ready for items, or at work.
    Working,
    /// Preempted; its exit is reported at the next tell, and its space is taken until then.
    Draining,
    /// Gone.
    Gone,
}

/// A process.
#[derive(Debug)]
pub(super) struct WorldProcess {
    pub work: WorkIx,
    /// Number of the process in its job, in order of creation.
    pub number: u64,
    pub stage: Stage,
    pub started: Millis,
    /// The item of each thread; empty before initialization.
    pub threads: Vec<Option<Assignment>>,
    /// Time of the items it finished.
    pub useful: Millis,
}

impl WorldProcess {
    /// Items in progress.
    pub fn in_progress(&self) -> impl Iterator<Item = Assignment> {
        self.threads.iter().flatten().copied()
    }

    /// Time spent on items in progress: the loss of a preemption.
    pub fn investment(&self, now: Millis) -> Millis {
        self.in_progress().map(|assignment| now - assignment.since).sum()
    }
}
