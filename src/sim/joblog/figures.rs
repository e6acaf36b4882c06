//! Figures of a replay: waits, slowdowns and use of memory under each policy.
//!
//! Everything is counted in whole milliseconds and thousandths, so that every machine gives the same.

use std::collections::BTreeMap;

use super::cluster::ReplayCluster;
use super::outcome::ReplayOutcome;
use super::requests::{NeverFits, ReplayJob};
use crate::model::{Millis, Name, counted, memory_text};
use crate::sim::count;

/// Run time below which a slowdown says nothing, in milliseconds: bounded slowdown counts with 10 s.
/// D. Feitelson and L. Rudolph, "Metrics and benchmarking for parallel job scheduling", 1998.
pub const SLOWDOWN_BOUND: Millis = 10_000;

/// Points of a course over time.
const COURSE_POINTS: u64 = 240;

/// Points of a cumulative curve.
const CURVE_POINTS: u64 = 200;

/// Jobs that a reason names as examples.
const EXAMPLES: usize = 3;

/// Mean and quantiles of a quantity. Quantiles are values that occurred (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReplaySpread {
    /// Mean, rounded down.
    pub mean: u64,
    /// Median.
    pub median: u64,
    /// 95th percentile.
    pub p95: u64,
    /// Maximum.
    pub max: u64,
}

impl ReplaySpread {
    /// The spread of `values`, in any order.
    pub fn of(mut values: Vec<u64>) -> ReplaySpread {
        values.sort_unstable();
        ReplaySpread {
            mean: mean(&values),
            median: quantile(&values, 50, 100),
            p95: quantile(&values, 95, 100),
            max: values.last().copied().unwrap_or(0),
        }
    }
}

/// The value of rank `part`/`whole` in sorted `values`; 0 of none.
fn quantile(values: &[u64], part: u64, whole: u64) -> u64 {
    let rank = count(values.len()).saturating_mul(part).div_ceil(whole.max(1));
    let at = usize::try_from(rank.saturating_sub(1)).unwrap_or(usize::MAX);
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn mean(values: &[u64]) -> u64 {
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    let mean = sum.checked_div(u128::from(count(values.len()))).unwrap_or(0);
    u64::try_from(mean).unwrap_or(u64::MAX)
}

/// Mean wait and slowdown of a user's jobs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UserFigures {
    /// User.
    pub user: Name,
    /// Jobs that ran.
    pub jobs: u64,
    /// Mean wait in milliseconds.
    pub mean_wait_ms: u64,
    /// Mean bounded slowdown in thousandths.
    pub mean_slowdown_milli: u64,
}

/// Jobs that never ran for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NeverRan {
    /// Reason in words.
    pub reason: String,
    /// Number of jobs.
    pub jobs: u64,
    /// Numbers of the first of them.
    pub examples: Vec<Name>,
}

/// Figures of the fair-share work that fills what the jobs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FillFigures {
    /// Memory that it held, of all memory that the jobs left until the last end, in thousandths.
    pub filled_milli: u64,
    /// Processes that were preempted.
    pub preempted: u64,
    /// Time that they had run, in milliseconds.
    pub lost_ms: Millis,
}

/// Figures of a policy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PolicyFigures {
    /// Name of the policy.
    pub policy: &'static str,
    /// Jobs that ran to their end.
    pub jobs: u64,
    /// Wait in milliseconds: from submission to the start of the run that ended.
    pub wait_ms: ReplaySpread,
    /// Bounded slowdown in thousandths.
    pub slowdown_milli: ReplaySpread,
    /// Memory held by runs that ended, of the memory of all nodes until the last end, in
    /// thousandths.
    pub utilisation_milli: u64,
    /// From the first submission to the last end, in milliseconds.
    pub makespan_ms: Millis,
    /// Processes that were preempted.
    pub preempted: u64,
    /// Time that they had run, in milliseconds.
    pub lost_ms: Millis,
    /// Fair-share work that filled what the jobs left; `None` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled: Option<FillFigures>,
    /// Jobs that never ran.
    pub never_ran: Vec<NeverRan>,
    /// Users by number of jobs, most first.
    pub users: Vec<UserFigures>,
    /// Memory in use over time in thousandths of all, in equal parts of [`ReplayFigures::span_ms`].
    pub course_milli: Vec<u64>,
    /// Waits in ascending order, each reached by an equal part of the jobs.
    pub wait_curve_ms: Vec<u64>,
}

/// Figures of all policies.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReplayFigures {
    /// Jobs that were replayed.
    pub jobs: u64,
    /// Their users.
    pub users: u64,
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Memory of the cluster that jobs can use, in MiB.
    pub memory_mib: u64,
    /// From the first submission to the last.
    pub submitted_over_ms: Millis,
    /// From the first submission to the last end under any policy.
    pub span_ms: Millis,
    /// Each policy.
    pub policies: Vec<PolicyFigures>,
}

/// Adds up what each policy made of `jobs`.
pub(super) fn figures(
    cluster: &ReplayCluster,
    jobs: &[ReplayJob],
    outcomes: &[(&'static str, ReplayOutcome)],
) -> ReplayFigures {
    let ends = outcomes.iter().flat_map(|(_, outcome)| outcome.runs.iter().map(|run| run.end));
    let submitted = jobs.last().map_or(0, |job| job.submitted);
    let span = ends.max().unwrap_or(0).max(1);
    let users: std::collections::BTreeSet<&Name> = jobs.iter().map(|job| &job.user).collect();
    let policies = outcomes
        .iter()
        .map(|(policy, outcome)| PolicyCounter { cluster, jobs, outcome, span }.figures(policy));
    ReplayFigures {
        jobs: count(jobs.len()),
        users: count(users.len()),
        nodes: count(cluster.nodes.len()),
        memory_mib: cluster.usable(),
        submitted_over_ms: submitted,
        span_ms: span,
        policies: policies.collect(),
    }
}

/// Counts the runs of a policy.
struct PolicyCounter<'a> {
    cluster: &'a ReplayCluster,
    jobs: &'a [ReplayJob],
    outcome: &'a ReplayOutcome,
    span: Millis,
}

impl PolicyCounter<'_> {
    fn figures(&self, policy: &'static str) -> PolicyFigures {
        let done = || self.outcome.runs.iter().filter(|run| !run.is_lost);
        let lost = || self.outcome.runs.iter().filter(|run| run.is_lost);
        let mut waits = Vec::new();
        let mut slowdowns = Vec::new();
        let mut users: BTreeMap<&Name, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for run in done() {
            let job = &self.jobs[run.job];
            let wait = run.start.saturating_sub(job.submitted);
            let slowdown = bounded_slowdown(wait, job.runs);
            waits.push(wait);
            slowdowns.push(slowdown);
            let user = users.entry(&job.user).or_default();
            user.0.push(wait);
            user.1.push(slowdown);
        }
        let makespan = done().map(|run| run.end).max().unwrap_or(0);
        let held: u128 = done()
            .map(|run| self.mib_of(run.job).saturating_mul(u128::from(run.end - run.start)))
            .sum();
        let offered = u128::from(self.cluster.usable()) * u128::from(makespan);
        waits.sort_unstable();
        let points = 0..=CURVE_POINTS;
        let lost_ms = lost().map(|run| {
            let processes = self.jobs[run.job].processes;
            (run.end - run.start).saturating_mul(processes)
        });
        PolicyFigures {
            policy,
            jobs: count(waits.len()),
            utilisation_milli: milli(held, offered),
            makespan_ms: makespan,
            preempted: lost().map(|run| self.jobs[run.job].processes).sum(),
            lost_ms: lost_ms.fold(0, Millis::saturating_add),
            filled: self.outcome.filler.map(|usage| FillFigures {
                filled_milli: milli(usage.held, offered.saturating_sub(held)),
                preempted: usage.preempted,
                lost_ms: usage.lost,
            }),
            never_ran: self.never_ran(),
            users: user_figures(users),
            course_milli: self.course(),
            wait_curve_ms: points.map(|point| quantile(&waits, point, CURVE_POINTS)).collect(),
            wait_ms: ReplaySpread::of(waits),
            slowdown_milli: ReplaySpread::of(slowdowns),
        }
    }

    /// Memory of a job's processes in MiB, in whole quanta.
    fn mib_of(&self, ix: usize) -> u128 {
        let job = &self.jobs[ix];
        let quantum = self.cluster.classes[job.class].quantum.memory().0;
        u128::from(job.all_quanta()) * u128::from(quantum)
    }

    /// Memory in use over time, lost runs included.
    fn course(&self) -> Vec<u64> {
        let points = usize::try_from(COURSE_POINTS).unwrap_or(1);
        let border = |point: u64| {
            let at = u128::from(self.span) * u128::from(point);
            u64::try_from(at.checked_div(u128::from(COURSE_POINTS)).unwrap_or(0))
                .unwrap_or(u64::MAX)
        };
        let mut held = vec![0_u128; points];
        for run in &self.outcome.runs {
            let memory = self.mib_of(run.job);
            let first = u128::from(run.start) * u128::from(COURSE_POINTS);
            let first = first.checked_div(u128::from(self.span)).unwrap_or(0);
            let first = u64::try_from(first).unwrap_or(0);
            for (point, held) in
                (0..COURSE_POINTS).zip(&mut held).skip(usize::try_from(first).unwrap_or(0))
            {
                let (from, to) = (border(point).max(run.start), border(point + 1).min(run.end));
                if run.end <= border(point) {
                    break;
                }
                *held += memory * u128::from(to.saturating_sub(from));
            }
        }
        let usable = u128::from(self.cluster.usable());
        let part = |(point, held): (u64, u128)| {
            milli(held, usable * u128::from(border(point + 1) - border(point)))
        };
        (0..COURSE_POINTS).zip(held).map(part).collect()
    }

    /// Jobs that never ran, by reason.
    fn never_ran(&self) -> Vec<NeverRan> {
        let mut by_reason: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let (mut too_large, mut too_many) = (None, None);
        for (ix, job) in self.jobs.iter().enumerate() {
            match job.never {
                None => {}
                Some(NeverFits::TooLarge { asks, largest }) => {
                    let (jobs, most) = too_large.get_or_insert((Vec::new(), (asks, largest)));
                    jobs.push(ix);
                    *most = (*most).max((asks, largest));
                }
                Some(NeverFits::TooMany { asks, fit }) => {
                    let (jobs, most) = too_many.get_or_insert((Vec::new(), (asks, fit)));
                    jobs.push(ix);
                    *most = (*most).max((asks, fit));
                }
            }
        }
        if let Some((jobs, (asks, largest))) = too_large {
            let (asks, largest) = (memory_text(asks), memory_text(largest));
            let reason =
                format!("a process asks for up to {asks}, and the largest node has {largest}");
            by_reason.insert(reason, jobs);
        }
        if let Some((jobs, (asks, fit))) = too_many {
            let asks = counted(asks, "process");
            let reason = format!("up to {asks} at once, and the empty cluster has space for {fit}");
            by_reason.insert(reason, jobs);
        }
        for (ix, reason) in &self.outcome.waiting {
            by_reason.entry(reason.clone()).or_default().push(*ix);
        }
        let never = by_reason.into_iter().map(|(reason, jobs)| NeverRan {
            reason,
            jobs: count(jobs.len()),
            examples: jobs.iter().take(EXAMPLES).map(|ix| self.jobs[*ix].number.clone()).collect(),
        });
        never.collect()
    }
}

/// Means of each user, most jobs first.
fn user_figures(users: BTreeMap<&Name, (Vec<u64>, Vec<u64>)>) -> Vec<UserFigures> {
    let user = |(user, (waits, slowdowns)): (&Name, (Vec<u64>, Vec<u64>))| UserFigures {
        user: user.clone(),
        jobs: count(waits.len()),
        mean_wait_ms: mean(&waits),
        mean_slowdown_milli: mean(&slowdowns),
    };
    let mut users: Vec<UserFigures> = users.into_iter().map(user).collect();
    users.sort_by(|one, other| other.jobs.cmp(&one.jobs).then_with(|| one.user.cmp(&other.user)));
    users
}

/// Bounded slowdown in thousandths, rounded down: never below 1.
pub fn bounded_slowdown(wait: Millis, runs: Millis) -> u64 {
    let whole = u128::from(wait) + u128::from(runs);
    milli(whole, u128::from(runs.max(SLOWDOWN_BOUND))).max(1000)
}

/// `part` of `whole` in thousandths, rounded down.
fn milli(part: u128, whole: u128) -> u64 {
    let milli = part.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    u64::try_from(milli).unwrap_or(u64::MAX)
}
