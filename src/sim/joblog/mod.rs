//! Replay of a job log: what a cluster's own past would have been under several policies.
//!
//! ```text
//! swf, sacct ─► JobLog ─┐
//! options, nodes ─► ReplayCluster ─► requests ─► batch (three policies), live (the scheduler) ─► figures
//! ```
//!
//! All policies see the same nodes, requests and durations. Sizes count in quanta, times in whole
//! milliseconds from the first submission; no clock is read. The module takes text, not files.

mod batch;
mod cluster;
mod figures;
mod filler;
mod live;
mod log;
mod nodes;
mod outcome;
mod profile;
mod requests;
pub mod sacct;
pub mod swf;
#[cfg(test)]
mod tests;

pub use cluster::{ClassRules, ReplayClass, ReplayCluster, ReplayNode, ReplayedAs};
pub use figures::{
    FillFigures, NeverRan, PolicyFigures, ReplayFigures, ReplaySpread, SLOWDOWN_BOUND, UserFigures,
    bounded_slowdown,
};
pub use filler::FillerUse;
pub use log::{
    JobLog, JobLogError, LogHeader, LogMemory, LogNote, LogRow, MemoryBasis, MemoryUnit, NodeSplit,
};
pub use nodes::{LogNode, NodeOptions, NodeSources, NodeValue, node_value, parse_machines};
pub use outcome::{JobRun, ReplayOutcome};
pub use profile::Placement;
pub use requests::{NeverFits, ReplayJob, ReplayRequests, SizeBy, SizeRules, requests};

use crate::model::Steps;

/// A policy that a log can be replayed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// The scheduler of this project.
    Apportion,
    /// Conservative backfill.
    Conservative,
    /// EASY backfill.
    Easy,
    /// First come, first served.
    Fcfs,
}

impl ReplayPolicy {
    /// Every policy.
    pub const ALL: [ReplayPolicy; 4] = [
        ReplayPolicy::Apportion,
        ReplayPolicy::Conservative,
        ReplayPolicy::Easy,
        ReplayPolicy::Fcfs,
    ];

    /// Name of the policy in options and reports.
    pub fn word(self) -> &'static str {
        match self {
            ReplayPolicy::Apportion => "apportion",
            ReplayPolicy::Conservative => "conservative",
            ReplayPolicy::Easy => "easy",
            ReplayPolicy::Fcfs => "fcfs",
        }
    }

    /// Plays `jobs`, and counts each that ends in `steps`.
    pub fn play(self, cluster: &ReplayCluster, jobs: &[ReplayJob], steps: &Steps) -> ReplayOutcome {
        match self {
            ReplayPolicy::Apportion => live::play(cluster, jobs, steps),
            ReplayPolicy::Conservative => batch::conservative(cluster, jobs, steps),
            ReplayPolicy::Easy => batch::easy(cluster, jobs, steps),
            ReplayPolicy::Fcfs => batch::first_come(cluster, jobs, steps),
        }
    }
}

/// Plays `jobs` under each of `policies`, side by side. Every job that ends is counted in `steps`.
pub fn replay(
    cluster: &ReplayCluster,
    jobs: &[ReplayJob],
    policies: &[ReplayPolicy],
    steps: &Steps,
) -> ReplayFigures {
    let outcomes = std::thread::scope(|scope| {
        let play = |policy: &ReplayPolicy| {
            let policy = *policy;
            (policy.word(), scope.spawn(move || policy.play(cluster, jobs, steps)))
        };
        let playing: Vec<_> = policies.iter().map(play).collect();
        let end = |(word, thread): (&'static str, std::thread::ScopedJoinHandle<'_, _>)| {
            (word, thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        };
        playing.into_iter().map(end).collect::<Vec<(&'static str, ReplayOutcome)>>()
    });
    figures::figures(cluster, jobs, &outcomes)
}
