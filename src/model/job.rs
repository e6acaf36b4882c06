//! Work, as the orchestrator describes it.

use std::num::NonZeroU64;

use super::{JobId, Mebibytes, Millis, Name, ceil_div};

/// What kind of work a request is. The policy of its class says how it is scheduled; the kind says
/// what happens to it when a process exits or a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// Many interchangeable processes that work through items.
    Job,
    /// One process that serves others. Restarted by its owner, never by us.
    Service,
    /// One process of any kind, started by us ("managed reservation").
    ArbitraryProcess,
    /// Room for a user, with nothing started in it ("unmanaged"). Never evicted.
    Reservation,
}

/// What never changes about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Its number.
    pub id: JobId,
    /// Whose fair share or allotment it draws on.
    pub user: Name,
    /// The class it was submitted to.
    pub class: Name,
    /// What kind of work it is.
    pub kind: WorkKind,
    /// Memory of each process.
    pub memory: Mebibytes,
    /// Work items that one process works on at a time. At least 1.
    pub threads: u64,
    /// When it was submitted, in milliseconds since the epoch: its age among its peers.
    pub submitted: Millis,
    /// Names of the only nodes it may use. Empty means any.
    pub machines: Vec<String>,
    /// What service it is an instance of: instances of one service go to different nodes while
    /// there are any. 0 for work that is none.
    pub service: u64,
    /// What changes, as first reported.
    pub facts: JobFacts,
}

/// The most processes a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLimit {
    /// As many as it can use.
    Unlimited,
    /// So many.
    AtMost(u64),
    /// No more than it holds: its owner saw too many failures and stopped its growth.
    Frozen,
}

/// What changes about a request while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Work items not finished, those in progress included.
    pub remaining: u64,
    /// The most processes it may have.
    pub limit: ProcessLimit,
    /// Whether a process of it has ever initialized.
    pub is_running: bool,
    /// Mean time of one work item. `None` or 0 while nothing is known.
    pub time_per_item: Option<Millis>,
    /// Whether it is ending: it keeps what it has until its processes exit, and gets nothing more.
    pub is_completing: bool,
}

impl JobFacts {
    /// Mean time of one work item, where anything is known.
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
