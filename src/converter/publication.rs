//! A publication of the orchestrator, checked: all the work it knows, at one moment.

use std::collections::BTreeMap;

use crate::model::{JobId, JobSpec, Mebibytes, Name, ShareFacts, ShareId};
use crate::scheduler::books::{self, Books};

/// Everything the orchestrator knows, in full: what is absent is over.
///
/// Design: "Incoming Work".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publication {
    /// Grows with every publication of one orchestrator.
    pub sequence: u64,
    /// All work, by number.
    pub work: BTreeMap<JobId, Work>,
    /// Live processes of work that could not be understood: whoever they belong to, they take
    /// space.
    pub limbo: BTreeMap<ShareId, LimboProcess>,
}

impl Publication {
    /// What the orchestrator has shown of the work in `books`, as far as they tell. Work that never
    /// was theirs is missing, and so are processes that are gone: neither makes a difference.
    pub fn of_books(books: &Books) -> Publication {
        let work = books.jobs.iter().map(|job| (job.spec.id, Work::of_book(job)));
        let limbo = books.limbo.iter().map(|share| {
            let (node, memory) = (share.node.clone(), share.memory);
            (share.id, LimboProcess { node, memory })
        });
        Publication { sequence: 0, work: work.collect(), limbo: limbo.collect() }
    }
}

/// A process nobody can say more of than that it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimboProcess {
    /// The node it runs on.
    pub node: Name,
    /// Its memory, if that could be made out.
    pub memory: Option<Mebibytes>,
}

/// One request for work, as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// What was asked for, and how far it has come.
    pub spec: JobSpec,
    /// Whether it wants anything of us.
    pub state: WorkState,
    /// Its processes, by the number of the share each runs in.
    pub processes: BTreeMap<ShareId, Process>,
}

impl Work {
    fn of_book(job: &books::Job) -> Work {
        let shown = job.shares.iter().chain(&job.purged).filter(|share| share.is_seen);
        let processes = shown.map(|share| {
            let (node, facts) = (share.node.clone(), share.facts);
            (share.id, Process { node, is_gone: false, facts })
        });
        let is_completing = job.spec.facts.is_completing;
        Work {
            spec: job.spec.clone(),
            state: if is_completing { WorkState::Completing } else { WorkState::Schedulable },
            processes: processes.collect(),
        }
    }

    /// What differs from `before` that never changes about a request, as the orchestrator calls
    /// it. `None` if it is the same request, whatever has become of it.
    pub fn changed_field(&self, before: &Work) -> Option<&'static str> {
        let (old, new) = (&before.spec, &self.spec);
        let is_same = [
            ("kind", old.kind == new.kind),
            ("user", old.user == new.user),
            ("class", old.class == new.class),
            ("memory_mb", old.memory == new.memory),
            ("threads", old.threads == new.threads),
            ("submitted_ms", old.submitted == new.submitted),
            ("nodes", old.machines == new.machines),
            ("service_id", old.service == new.service),
        ];
        is_same.iter().find(|(_, is_same)| !is_same).map(|(field, _)| *field)
    }
}

/// Where a request is in its life, as far as it concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkState {
    /// Not ready to be scheduled yet.
    NotReady,
    /// To be scheduled.
    Schedulable,
    /// Ending: keeps what it has until its processes exit.
    Completing,
    /// Over.
    Completed,
}

/// A process in a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The node it runs on.
    pub node: Name,
    /// Whether it has ended.
    pub is_gone: bool,
    /// What is known of it.
    pub facts: ShareFacts,
}
