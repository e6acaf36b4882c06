//! Frequent events: gathered for a while, then summed up in a single line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::gigabytes;
use super::teller::{counted, listed, numbered};
use crate::api::wire::WorkKind;
use crate::demo::workload::WorkRequest;
use crate::model::{Millis, count, span, thousands};

/// Most flows of preemption that are named, the largest first.
const FLOWS_NAMED: usize = 4;

/// Time for which the requests of a new submission are gathered.
const INTRODUCING: Duration = Duration::from_millis(400);

/// Work submitted. A new submission is introduced, later requests of it are summed up.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    introduced: BTreeSet<u64>,
    new: BTreeMap<u64, Vec<(u64, WorkRequest)>>,
    /// Time of the first new request.
    new_since: Option<Duration>,
    more: BTreeMap<String, Vec<u64>>,
    more_items: u64,
}

impl Submissions {
    pub fn add(&mut self, at: Duration, job: u64, request: &WorkRequest) {
        let is_new = !self.introduced.contains(&request.submission);
        if is_new {
            self.new_since.get_or_insert(at);
            self.new.entry(request.submission).or_default().push((job, request.clone()));
        } else {
            self.more.entry(request.work.user.clone()).or_default().push(job);
            self.more_items += count(&request.work.items);
        }
    }

    /// Returns a line for each new submission, once its requests have probably all arrived.
    pub fn introduce(&mut self, at: Duration) -> Vec<String> {
        if self.new_since.is_none_or(|since| at < since + INTRODUCING) {
            return Vec::new();
        }
        self.new_since = None;
        let new = std::mem::take(&mut self.new);
        self.introduced.extend(new.keys());
        new.values().map(|submission| introduction(submission)).collect()
    }

    /// Returns the line for the later requests, if any.
    pub fn tell(&mut self) -> Option<String> {
        let more = std::mem::take(&mut self.more);
        if more.is_empty() {
            return None;
        }
        let jobs = more.into_iter().map(|(user, jobs)| format!("{user} {}", numbered("job", jobs)));
        let items = counted(std::mem::take(&mut self.more_items), "item", "items");
        Some(format!("more of the same: {}; {items}", jobs.collect::<Vec<_>>().join(", ")))
    }
}

/// Returns the line for a new submission, which has at least a request.
fn introduction(submission: &[(u64, WorkRequest)]) -> String {
    let numbers = |what| numbered(what, submission.iter().map(|(job, _)| *job));
    let Some((_, WorkRequest { kind, work, .. })) = submission.first() else {
        return String::new();
    };
    let (user, class, memory) = (&work.user, &work.class, gigabytes(work.memory));
    match kind {
        WorkKind::Job => {
            let items: u64 = submission.iter().map(|(_, request)| count(&request.work.items)).sum();
            let items = counted(items, "item", "items");
            format!("{user}, class {class}: {}, {memory} a process, {items}", numbers("job"))
        }
        WorkKind::Service => {
            format!("{user}, class {class}: {}, {memory} each", numbers("service"))
        }
        WorkKind::ArbitraryProcess => {
            format!("{user}, class {class}: {} of {memory}", numbers("process"))
        }
        WorkKind::Reservation => {
            format!("{user}, class {class}: {}, a whole node of {memory}", numbers("reservation"))
        }
    }
}

/// Processes preempted, by rule.
#[derive(Debug, Default)]
pub(super) struct PreemptionBatch {
    by_rule: BTreeMap<String, RulePreemptions>,
}

#[derive(Debug, Default)]
struct RulePreemptions {
    /// Processes by the user who lost them and the user who gets the space.
    flows: BTreeMap<(String, String), Flow>,
    lost: Millis,
}

#[derive(Debug, Default)]
struct Flow {
    processes: u64,
    beneficiaries: BTreeSet<u64>,
}

impl PreemptionBatch {
    /// Enters a process of `victim` that was preempted for `beneficiary`, a job and its user.
    pub fn add(
        &mut self,
        rule: &str,
        victim: String,
        beneficiary: Option<(u64, String)>,
        lost: Millis,
    ) {
        let taking = self.by_rule.entry(rule.replace('_', " ")).or_default();
        taking.lost += lost;
        let (job, user) = beneficiary.unzip();
        let flow = taking.flows.entry((victim, user.unwrap_or_default())).or_default();
        flow.processes += 1;
        flow.beneficiaries.extend(job);
    }

    /// Returns the lines for the gathered preemptions.
    pub fn tell(&mut self) -> Vec<String> {
        std::mem::take(&mut self.by_rule)
            .into_iter()
            .map(|(rule, taking)| taking.line(&rule))
            .collect()
    }
}

impl RulePreemptions {
    fn line(self, rule: &str) -> String {
        let total: u64 = self.flows.values().map(|flow| flow.processes).sum();
        let mut flows = Vec::from_iter(self.flows);
        flows.sort_by_key(|(_, flow)| std::cmp::Reverse(flow.processes));
        let others: u64 = flows.iter().skip(FLOWS_NAMED).map(|(_, flow)| flow.processes).sum();
        let mut parts: Vec<String> = flows
            .into_iter()
            .take(FLOWS_NAMED)
            .map(|((victim, user), flow)| flow.describe(&victim, &user))
            .collect();
        if others > 0 {
            parts.push(format!("{others} more"));
        }
        let processes = counted(total, "process goes", "processes go");
        let lost = if self.lost == 0 {
            "no work lost".to_owned()
        } else {
            format!("{} of work lost", span(self.lost))
        };
        format!("{processes} ({rule}): {}; {lost}", parts.join(", "))
    }
}

impl Flow {
    fn describe(&self, victim: &str, user: &str) -> String {
        let processes = thousands(self.processes);
        let jobs = numbered("job", self.beneficiaries.iter().copied());
        match user {
            "" => format!("{processes} of {victim}"),
            user => format!("{processes} of {victim} for {user}'s {jobs}"),
        }
    }
}

/// Jobs done.
#[derive(Debug, Default)]
pub(super) struct CompletionBatch {
    jobs: Vec<u64>,
    users: BTreeSet<String>,
    items: u64,
    longest: Millis,
}

impl CompletionBatch {
    pub fn add(&mut self, job: u64, request: &WorkRequest, took: Millis) {
        self.jobs.push(job);
        self.users.insert(request.work.user.clone());
        self.items += count(&request.work.items);
        self.longest = self.longest.max(took);
    }

    /// Returns the line for the gathered completions, if any.
    pub fn tell(&mut self) -> Option<String> {
        let CompletionBatch { jobs, users, items, longest } = std::mem::take(self);
        if jobs.is_empty() {
            return None;
        }
        let (jobs, users) = (numbered("job", jobs), listed(&Vec::from_iter(users)));
        let items = counted(items, "item", "items");
        Some(format!("{jobs} of {users}: {items}, within {}", span(longest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemptions_are_told_by_who_for_whom() {
        let mut takings = PreemptionBatch::default();
        for job in [9, 10] {
            takings.add("fair_share", "ann".to_owned(), Some((job, "bob".to_owned())), 61_000);
        }
        takings.add("fair_share", "ann".to_owned(), Some((4, "ann".to_owned())), 0);
        takings.add("no_longer_allowed", "bob".to_owned(), None, 0);
        assert_eq!(
            takings.tell(),
            [
                "3 processes go (fair share): 2 of ann for bob's jobs 9-10, 1 of ann for ann's job 4; 2m 2s of work lost",
                "1 process goes (no longer allowed): 1 of bob; no work lost",
            ]
        );
        assert!(takings.tell().is_empty());
    }
}
