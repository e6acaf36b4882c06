//! Counts of waiting jobs by reason, with the age of the oldest job and a remedy.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::ShownAnswer;
use super::table::Column::{Left, Right};
use super::table::{fitted, memory};
use super::text::TextStyle;
use crate::api::wire::{JobInfo, JobPage};
use crate::model::span;

/// Waiting jobs by reason, the reason with most processes first.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    cycle: u64,
    jobs: u64,
    reasons: Vec<ReasonCount>,
}

/// Jobs that wait for the same reason.
#[derive(Debug, Serialize)]
pub(super) struct ReasonCount {
    reason: String,
    jobs: u64,
    /// Number of them without a share.
    without_shares: u64,
    /// Processes that they could use and have not got.
    processes: u64,
    /// The same in qshares.
    qshares: u64,
    /// The same in memory, as it is declared.
    memory_mb: u64,
    /// The oldest of them, and how long ago that was submitted.
    oldest_job: u64,
    oldest_ms: u64,
    unblocked_by: &'static str,
}

impl Summary {
    /// Counts the waiting jobs on `page` by reason.
    pub(super) fn of(page: &JobPage, now_ms: u64) -> Summary {
        let waiting = || page.jobs.iter().filter_map(|job| Some((job.reason.as_ref()?, job)));
        let mut groups: BTreeMap<&str, Vec<&JobInfo>> = BTreeMap::new();
        for (reason, job) in waiting() {
            groups.entry(&reason.code).or_default().push(job);
        }
        let mut reasons: Vec<ReasonCount> =
            groups.into_iter().map(|(code, jobs)| counted(code, &jobs, now_ms)).collect();
        reasons.sort_by(|one, other| {
            (other.processes, other.jobs, &one.reason).cmp(&(
                one.processes,
                one.jobs,
                &other.reason,
            ))
        });
        Summary { cycle: page.cycle, jobs: crate::model::count(waiting()), reasons }
    }
}

fn counted(code: &str, jobs: &[&JobInfo], now_ms: u64) -> ReasonCount {
    let lacks = |job: &JobInfo| job.sums.wanted.saturating_sub(job.sums.held);
    let oldest = jobs.iter().min_by_key(|job| (job.submitted_ms, job.id));
    ReasonCount {
        reason: code.to_owned(),
        jobs: crate::model::count(jobs.iter()),
        without_shares: crate::model::count(jobs.iter().filter(|job| job.sums.held == 0)),
        processes: jobs.iter().map(|job| lacks(job)).sum(),
        qshares: jobs.iter().map(|job| lacks(job).saturating_mul(job.order.unwrap_or(0))).sum(),
        memory_mb: jobs.iter().map(|job| lacks(job).saturating_mul(job.memory_mb)).sum(),
        oldest_job: oldest.map_or(0, |job| job.id),
        oldest_ms: oldest.map_or(0, |job| now_ms.saturating_sub(job.submitted_ms)),
        unblocked_by: unblocked_by(code),
    }
}

/// Returns the remedy for a reason; `apportion why` has it for each job with its numbers.
fn unblocked_by(code: &str) -> &'static str {
    match code {
        "impossible" => "a larger node, or asking for less",
        "no_machine_up" => "a node that comes back",
        "over_allotment" => "its user's other jobs ending, or more allotment",
        "initialization_cap" => "its first processes initializing",
        "doubling" => "the next cycles, in each of which it doubles",
        "prediction" => "nothing: it ends before more would help",
        "completing" | "spent" => "nothing: it ends",
        "frozen" => "its owner, as its growth is stopped",
        "maximum" => "a larger declared maximum",
        "fair_share_used" => "others needing less",
        "nothing_left" => "higher priorities and fixed jobs needing less",
        "waiting_for_exits" => "terminating processes, ending",
        "too_dear" => "free space, or waiting longer",
        "too_late" => "free space",
        "next_cycle" => "the next cycle",
        "quiet_stop" => "free space, or a change of demand or supply",
        "fragmented" => "processes ending on one node",
        _ => "another class, user or size",
    }
}

impl ShownAnswer for Summary {
    type Entry = ReasonCount;

    fn entries(&self) -> &[ReasonCount] {
        &self.reasons
    }

    fn name(reason: &ReasonCount) -> String {
        reason.reason.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        if self.reasons.is_empty() {
            return "Nothing waits.".to_owned();
        }
        let columns = [
            Left("REASON"),
            Right("JOBS"),
            Right("WITHOUT"),
            Right("PROCESSES"),
            Right("MEMORY"),
            Right("OLDEST"),
            Right("JOB"),
            Left("UNBLOCKED BY"),
        ];
        let rows = self.reasons.iter().map(|reason| {
            [
                reason.reason.clone(),
                reason.jobs.to_string(),
                reason.without_shares.to_string(),
                reason.processes.to_string(),
                memory(reason.memory_mb),
                span(reason.oldest_ms),
                reason.oldest_job.to_string(),
                reason.unblocked_by.to_owned(),
            ]
        });
        fitted(columns, rows, look, &["WITHOUT", "JOB", "MEMORY", "OLDEST"])
    }
}
