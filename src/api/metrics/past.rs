//! Changes from a published view to the next that metrics count.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::published::Published;
use crate::model::{JobId, Millis, Name, ShareId, SharePhase};
use crate::scheduler::{JobView, Removal, View};

/// Since when things are as they are.
#[derive(Debug, Default)]
pub(super) struct PastStates {
    /// Terminating processes.
    leaving: HashMap<ShareId, Instant>,
    /// Processes that died with their node, until the orchestrator has seen it.
    purged: HashSet<ShareId>,
    /// All jobs, each with the time since which it holds nothing, if it does.
    work: HashMap<JobId, Option<Instant>>,
    /// Expected starts of waiting jobs, as they were published. The planner does not know them.
    estimates: HashMap<JobId, ToldStarts>,
}

/// The first and the last published start of a job that waits, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToldStarts {
    first: Millis,
    last: Millis,
}

/// Difference of a start from the published estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartError {
    /// The estimate: `first` or `last`.
    pub told: &'static str,
    /// Direction of the difference: `late` or `early`. A start at its estimate is late by 0.
    pub start: &'static str,
    /// Size of the difference.
    pub error: Duration,
}

impl StartError {
    /// Every estimate and every direction.
    pub const ALL: [(&'static str, &'static str); 4] =
        [("first", "late"), ("first", "early"), ("last", "late"), ("last", "early")];

    fn of(told: &'static str, estimate: Millis, started: Millis) -> StartError {
        let start = if estimate <= started { "late" } else { "early" };
        StartError { told, start, error: Duration::from_millis(started.abs_diff(estimate)) }
    }
}

/// Amounts to count.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CycleCounts {
    /// Result of the cycle; `None` if there was none.
    pub result: Option<&'static str>,
    /// Rule and lost work, for every preempted process.
    pub preempted: Vec<(&'static str, Duration)>,
    /// Reason, for every process that was evicted or lost.
    pub evicted: Vec<&'static str>,
    /// Time to exit, for every process that has exited.
    pub exited: Vec<Duration>,
    /// Class and waiting time, for every job that got its first process.
    pub waited: Vec<(Name, Duration)>,
    /// Differences from the first and the last estimate, for every job that started after one.
    pub start_errors: Vec<StartError>,
}

impl CycleCounts {
    /// Every rule that a process can be taken back by.
    pub const RULES: [&'static str; 7] = [
        "no_longer_allowed",
        "priority",
        "fair_share",
        "defragmentation",
        "first_share",
        "envy",
        "relocation",
    ];
    /// Every reason for which a process can be evicted or lost.
    pub const EVICTIONS: [&'static str; 4] =
        ["varied_off", "blacklisted", "node_died", "withdrawn"];
}

impl PastStates {
    /// Returns the changes up to `at`, when `now` was published after `before`.
    pub fn step(&mut self, before: &Published, now: &Published, at: Instant) -> CycleCounts {
        let mut step = CycleCounts::default();
        let (before, now) = (&before.view, &now.view);
        let is_planned = before.cycle < now.cycle;
        let schedule = now.planned.as_ref().filter(|_| is_planned).map(|planned| &planned.schedule);
        step.result = Some(match schedule {
            None => "not_planned",
            Some(schedule) if schedule.expansions.is_empty() && schedule.preemptions.is_empty() => {
                "unchanged"
            }
            Some(_) => "changed",
        });
        step.preempted = schedule.map_or_else(Vec::new, |schedule| {
            let taken = schedule.preemptions.iter();
            taken.map(|one| (one.rule.code(), Duration::from_millis(one.loss))).collect()
        });
        if !Arc::ptr_eq(&before.jobs, &now.jobs) {
            self.look_at_exits(now, at, &mut step);
            self.count_waits(now, at, &mut step);
            self.count_start_errors(now, &mut step);
        }
        step
    }

    fn look_at_exits(&mut self, now: &View, at: Instant, step: &mut CycleCounts) {
        let mut leaving = HashMap::new();
        let shares = now.jobs.iter().flat_map(|job| &job.shares);
        for share in shares.filter(|share| share.state == SharePhase::Leaving) {
            let since = self.leaving.remove(&share.id).unwrap_or_else(|| {
                step.evicted.extend(share.removal.and_then(eviction));
                at
            });
            leaving.insert(share.id, since);
        }
        let gone = std::mem::replace(&mut self.leaving, leaving);
        step.exited = gone.into_values().map(|since| at.saturating_duration_since(since)).collect();
        let purged = now.jobs.iter().flat_map(|job| &job.purged).map(|share| share.id);
        let purged: HashSet<ShareId> = purged.collect();
        let new = purged.difference(&self.purged).map(|_| "node_died");
        step.evicted.extend(new);
        self.purged = purged;
    }

    fn count_waits(&mut self, now: &View, at: Instant, step: &mut CycleCounts) {
        let mut work = HashMap::with_capacity(now.jobs.len());
        for job in now.jobs.iter().filter(|job| job.order.is_some()) {
            let before = self.work.remove(&job.id);
            let since = is_waiting(job).then(|| before.flatten().unwrap_or(at));
            work.insert(job.id, since);
            let began = match before {
                Some(since) => since,
                // A job that already runs when it is first published did not wait for the
                // scheduler.
                None => (!job.shares.iter().any(|share| share.is_seen)).then_some(at),
            };
            if let (false, Some(began)) = (job.shares.is_empty(), began) {
                let class = now.topology.class_named(&job.class).map(|_| job.class.clone());
                let wait = at.saturating_duration_since(began);
                step.waited.extend(class.map(|class| (class, wait)));
            }
        }
        self.work = work;
    }
}

impl PastStates {
    /// Keeps the estimates of jobs that wait, and compares a start with them. An estimate that is
    /// withdrawn meanwhile stays the last.
    fn count_start_errors(&mut self, now: &View, step: &mut CycleCounts) {
        let time = now.planned.as_deref().and_then(|planned| planned.snapshot.now);
        let mut estimates = HashMap::new();
        for job in now.jobs.iter() {
            let before = self.estimates.get(&job.id).copied();
            let told = job.start_estimate.map(|estimate| estimate.at);
            if job.shares.is_empty() {
                let first = before.map(|before| before.first).or(told);
                let last = told.or(before.map(|before| before.last));
                let kept = first.zip(last).map(|(first, last)| ToldStarts { first, last });
                estimates.extend(kept.map(|kept| (job.id, kept)));
            } else if let (Some(ToldStarts { first, last }), Some(started)) =
                (before, job.started.or(time))
            {
                step.start_errors.push(StartError::of("first", first, started));
                step.start_errors.push(StartError::of("last", last, started));
            }
        }
        self.estimates = estimates;
    }
}

fn is_waiting(job: &JobView) -> bool {
    job.shares.is_empty() && job.reason.is_some()
}

/// Preemptions are counted by their rule, and what died with its node when it is purged.
fn eviction(removal: Removal) -> Option<&'static str> {
    match removal {
        Removal::VariedOff => Some("varied_off"),
        Removal::Blacklisted => Some("blacklisted"),
        Removal::Withdrawn => Some("withdrawn"),
        Removal::Window => Some("window"),
        Removal::ClassClosed => Some("class_closed"),
        Removal::Overrun => Some("overrun"),
        Removal::GangBroken => Some("gang_broken"),
        Removal::Preempted | Removal::NodeDied => None,
    }
}
