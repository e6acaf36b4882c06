//! Outcome of a policy: every run, and every job that never ran.

use super::filler::FillerUse;
use super::profile::Placement;
use crate::model::Millis;

/// A run of a job, from start to end or to its preemption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRun {
    /// Index of the job.
    pub job: usize,
    /// Start, from the first submission.
    pub start: Millis,
    /// End.
    pub end: Millis,
    /// True if the job was preempted: it begins anew.
    pub is_lost: bool,
    /// Nodes, and the number of processes on each.
    pub place: Placement,
}

/// Outcome of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// Every run, by start.
    pub runs: Vec<JobRun>,
    /// Jobs that did not run for a reason of this policy: index and reason. Jobs that fit no empty
    /// cluster are not among them.
    pub waiting: Vec<(usize, String)>,
    /// Use of memory by the endless job that fills what the jobs leave; `None` without such a job.
    pub filler: Option<FillerUse>,
}
