//! Work, as the orchestrator describes it.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::{JobId, JobTimes, Mebibytes, Millis, Name, Shape, Tags, ceil_div};

/// Kind of a job. The policy of its class decides its scheduling. The kind decides the consequences
/// of a process exit or a node's death.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Many interchangeable processes that work through items.
    Job,
    /// A single process that serves other jobs. The orchestrator restarts it, never the scheduler.
    Service,
    /// A single process of any kind ("managed reservation").
    ArbitraryProcess,
    /// Space for a user, with nothing started in it ("unmanaged"). Never evicted.
    Reservation,
}

/// Properties of a job that never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Number of the job.
    pub id: JobId,
    /// User whose fair share or allotment the job uses.
    pub user: Name,
    /// The class it was submitted to.
    pub class: Name,
    /// Kind of the job.
    pub kind: JobKind,
    /// Memory of each process; of a gang, memory of its largest process.
    pub memory: Mebibytes,
    /// Work items that a process works on at a time. At least 1.
    pub threads: u64,
    /// Time of submission, in milliseconds since the epoch; decides the job's age among its peers.
    pub submitted: Millis,
    /// Names of the only nodes it may use. Empty means any.
    pub nodes: Vec<String>,
    /// Names of nodes that get no further process of it. Its owner may change them.
    pub except_nodes: Vec<Name>,
    /// Number of the service of which the job is an instance; 0 for no service. Instances of a
    /// service go to different nodes while there are any.
    pub service: u64,
    /// Tags that a node must have for its processes.
    pub tags: Tags,
    /// Chunks, sizes and duration; `None` for independent processes.
    pub shape: Option<Arc<Shape>>,
    /// Facts that change, as first reported.
    pub facts: JobFacts,
}

/// The most processes a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLimit {
    /// No limit beyond the job's demand.
    Unlimited,
    /// At most this many processes.
    AtMost(u64),
    /// No more than it holds: its owner saw too many failures and stopped its growth.
    Frozen,
}

/// Facts of a job that change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Number of unfinished work items, items in progress included.
    pub remaining: u64,
    /// The most processes it may have.
    pub limit: ProcessLimit,
    /// True if a process of the job has ever initialized.
    pub is_running: bool,
    /// Mean time of a work item. `None` or 0 if unknown.
    pub time_per_item: Option<Millis>,
    /// True if the job is ending: it keeps its shares until their processes exit, and gets no more.
    pub is_completing: bool,
}

impl JobSpec {
    /// The times that the owner of the job may change.
    pub fn times(&self) -> JobTimes {
        self.shape.as_deref().map(Shape::times).unwrap_or_default()
    }

    /// Replaces these times.
    pub fn set_times(&mut self, times: JobTimes) {
        let shape = self.shape.take();
        self.shape = shape.as_deref().unwrap_or(&Shape::default()).with_times(times).map(Arc::new);
    }
}

impl JobFacts {
    /// Mean time of a work item, if known.
    pub fn known_time_per_item(&self) -> Option<NonZeroU64> {
        self.time_per_item.and_then(NonZeroU64::new)
    }

    /// The processes that the work left would keep busy, `threads` items each, up to the declared
    /// maximum.
    pub fn useful_processes(&self, threads: u64) -> u64 {
        let threads = NonZeroU64::new(threads).unwrap_or(NonZeroU64::MIN);
        let work_left = ceil_div(self.remaining, threads);
        match self.limit {
            ProcessLimit::AtMost(limit) => work_left.min(limit),
            ProcessLimit::Unlimited | ProcessLimit::Frozen => work_left,
        }
    }
}
