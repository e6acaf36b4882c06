//! A checked publication of the orchestrator: all the jobs it knows, at one moment.

use std::collections::BTreeMap;

use crate::model::{JobId, JobSpec, Mebibytes, Name, Shape, ShareFacts, ShareId};
use crate::scheduler::checkpoint::{self, SchedulerState};

/// All that the orchestrator knows, in full: an absent job has ended.
///
/// Design: "Incoming Work".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedPublication {
    /// Sequence number; grows with each publication of an orchestrator.
    pub sequence: u64,
    /// All work, by number.
    pub work: BTreeMap<JobId, PublishedJob>,
    /// Live processes whose job cannot be parsed; each takes space all the same.
    pub limbo: BTreeMap<ShareId, LimboProcess>,
}

impl CheckedPublication {
    /// Rebuilds the publication that led to `state`, for comparison with the next. Jobs that the
    /// scheduler never took in are missing, and so are ended processes. Neither leads to an event.
    pub fn of_state(state: &SchedulerState) -> CheckedPublication {
        let work = state.jobs.iter().map(|job| (job.spec.id, PublishedJob::of_saved(job)));
        let limbo = state.limbo.iter().map(|share| {
            let (node, memory) = (share.node.clone(), share.memory);
            (share.id, LimboProcess { node, memory })
        });
        CheckedPublication { sequence: 0, work: work.collect(), limbo: limbo.collect() }
    }
}

/// A running process whose job could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimboProcess {
    /// The node it runs on.
    pub node: Name,
    /// Memory of the process, if it could be parsed.
    pub memory: Option<Mebibytes>,
}

/// A job, as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedJob {
    /// Request of the job and its current facts.
    pub spec: JobSpec,
    /// State of the job.
    pub state: JobState,
    /// Processes of the job, by share number.
    pub processes: BTreeMap<ShareId, PublishedProcess>,
}

impl PublishedJob {
    fn of_saved(job: &checkpoint::SavedJob) -> PublishedJob {
        let shown = job.shares.iter().chain(&job.purged).filter(|share| share.is_seen);
        let processes = shown.map(|share| {
            let (node, facts) = (share.node.clone(), share.facts);
            (share.id, PublishedProcess { node, is_gone: false, facts })
        });
        let is_completing = job.spec.facts.is_completing;
        PublishedJob {
            spec: job.spec.clone(),
            state: if is_completing { JobState::Completing } else { JobState::Schedulable },
            processes: processes.collect(),
        }
    }

    /// Returns the wire name of the first permanent field that differs from `before`. `None` if
    /// both are the same job, in any state.
    pub fn changed_field(&self, before: &PublishedJob) -> Option<&'static str> {
        let (old, new) = (&before.spec, &self.spec);
        let shape = changed_shape(old.shape.as_deref(), new.shape.as_deref());
        let is_same = [
            ("kind", old.kind == new.kind),
            ("user", old.user == new.user),
            ("class", old.class == new.class),
            (shape.unwrap_or_default(), shape.is_none()),
            ("memory_mb", old.memory == new.memory),
            ("threads", old.threads == new.threads),
            ("submitted_ms", old.submitted == new.submitted),
            ("nodes", old.nodes == new.nodes),
            ("tags", old.tags == new.tags),
            ("service_id", old.service == new.service),
        ];
        is_same.iter().find(|(_, is_same)| !is_same).map(|(field, _)| *field)
    }
}

/// Returns the wire name of the first field of a shape that differs and may not. The owner may
/// change the times.
fn changed_shape(old: Option<&Shape>, new: Option<&Shape>) -> Option<&'static str> {
    if old == new {
        return None;
    }
    let none = Shape::default();
    let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
    let is_same = [
        ("chunks", old.chunks == new.chunks),
        ("place", old.place == new.place),
        ("exclusive", old.is_exclusive == new.is_exclusive),
        ("group_by", old.group_by == new.group_by),
        ("span", old.may_span == new.may_span),
        ("elasticity", old.elasticity == new.elasticity),
        ("min_processes", old.min_processes == new.min_processes),
        ("legal_sizes", old.legal_sizes == new.legal_sizes),
        ("reservation", old.reservation == new.reservation),
    ];
    is_same.iter().find(|(_, is_same)| !is_same).map(|(field, _)| *field)
}

/// State of a job, in the terms of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
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
pub struct PublishedProcess {
    /// The node it runs on.
    pub node: Name,
    /// True if the process has ended.
    pub is_gone: bool,
    /// Known facts of the process.
    pub facts: ShareFacts,
}
