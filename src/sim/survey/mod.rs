//! A survey of small saturated clusters: how justly, quietly and fully each is shared.
//!
//! Clusters are drawn from a seed as scenarios of the recorded shape, and played like recorded
//! scenarios. The figures are read from the played document, by code that knows nothing of the
//! engine. The same figures can therefore be taken from outside, with the files that [`run`]
//! writes.
//!
//! ```text
//! cluster ─► recorded::player ─┬► ending ─► owed, envy, idle ─┬► Survey
//!                              └► history ────────────────────┘
//! ```
//!
//! [`scale`] plays a single large cluster instead of many small clusters.

mod cluster;
mod ending;
mod envy;
mod fluid;
mod history;
mod idle;
mod owed;
pub mod scale;

use std::fs;
use std::path::Path;

use serde::Serialize;

use self::ending::FinalState;
use self::envy::{Envy, EnvyLevel, LEVELS};
use self::history::PlayHistory;
use self::owed::Starving;
use super::count;
use super::error::SimError;
use super::recorded::scenario::Scenario;
use super::recorded::{PlayedDocument, player};

/// Most audit findings that are reported of a single cluster.
const TOLD_FINDINGS: usize = 4;

/// Figures of a survey, summed over its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Seed from which the clusters were drawn.
    pub seed: u64,
    /// Number of clusters played.
    pub clusters: u64,
    /// Jobs in all of them.
    pub jobs: u64,
    /// Users with nothing at the end, although weighted max-min owes them one of their processes.
    /// Counted only where all users that are owed a process could have it.
    pub owed_users: Tally,
    /// Jobs with nothing at the end, counted likewise.
    pub owed_jobs: Tally,
    /// The users among them where every job, owed or not, could have a process.
    pub owed_users_all_fit: Tally,
    /// Jobs of `owed_jobs` where every job could have a process.
    pub owed_jobs_all_fit: Tally,
    /// Jobs that hold nothing at the end, although their target was a process and every job could
    /// have a process.
    pub counted_jobs: Tally,
    /// Jobs that hold nothing at the end, though some side could spare space for them.
    pub zero_share_jobs: u64,
    /// Jobs that hold nothing at the end and could use something.
    pub zero_share_all: u64,
    /// Clusters in which a job could have places of a better-off side at the end.
    pub envy_cases: ByLevel,
    /// Pairs of such a job and such a side.
    pub envies: ByLevel,
    /// Jobs that lost processes, were promised some in the same cycle, and did not get them: once for
    /// each time, from 3 cycles after the last event on.
    pub moved_and_less: Tally,
    /// Processes terminated, in any cycle.
    pub evictions: u64,
    /// Evictions of jobs that are promised as many in the same cycle.
    pub passed_through: u64,
    /// Of these, of jobs that were moved.
    pub passed_through_moved: u64,
    /// Processes terminated when nothing had happened for 20 cycles, except processes that waiting
    /// had to pay for.
    pub quiet_evictions: u64,
    /// Processes that waiting had to pay for then: more was lost than the class allows.
    pub quiet_evictions_paid: u64,
    /// Qshares free at the end that a job could fill at once.
    pub idle_usable_qshares: u64,
    /// Jobs that the engine's preemption stop held back, over all cycles.
    pub net_strikes: u64,
    /// Rules that schedules broke, in any cycle.
    pub audit_findings: u64,
    /// The clusters in which something is not as it should be.
    pub cases: Vec<Case>,
}

/// Occurrences of an event, and the number of clusters with an occurrence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Clusters with an occurrence.
    pub clusters: u64,
    /// Occurrences in all clusters together.
    pub all: u64,
}

/// Counts by the level at which two sides are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByLevel {
    /// Between classes.
    pub class: u64,
    /// Between users of a single class.
    pub user: u64,
    /// Between jobs of a single user in a single class.
    pub job: u64,
}

/// A cluster to look into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Index of the cluster.
    pub cluster: u64,
    /// Descriptions of the faults.
    pub what: Vec<String>,
}

/// Plays the first `clusters` clusters of `seed`. Writes each as a bare scenario into the folder
/// `scenarios`, if the caller gives a folder.
///
/// # Errors
///
/// If the folder or a file cannot be written.
///
/// # Panics
///
/// If a cluster was drawn that cannot be played.
pub fn run(clusters: u64, seed: u64, scenarios: Option<&Path>) -> Result<Survey, SimError> {
    if let Some(folder) = scenarios {
        fs::create_dir_all(folder).map_err(SimError::writing(folder))?;
    }
    let mut survey = Survey { seed, ..Survey::default() };
    for index in 0..clusters {
        let scenario = cluster::scenario(seed, index);
        if let Some(folder) = scenarios {
            write(&scenario, &folder.join(format!("cluster-{index:03}.json")))?;
        }
        let played = player::play(&scenario).expect("clusters are drawn well-formed");
        survey.enter(index, &scenario, &played);
    }
    Ok(survey)
}

fn write(scenario: &Scenario, path: &Path) -> Result<(), SimError> {
    let mut text = serde_json::to_string_pretty(scenario).expect("a scenario is plain data");
    text.push('\n');
    fs::write(path, text).map_err(SimError::writing(path))
}

impl Survey {
    /// Adds the figures of a single cluster.
    fn enter(&mut self, cluster: u64, scenario: &Scenario, played: &PlayedDocument) {
        let ending = FinalState::new(scenario, played);
        let mut what = self.objections(played);
        what.extend(self.enter_history(&PlayHistory::new(scenario, played)));
        let idle = idle::usable_qshares(&ending);
        if 0 < idle {
            what.push(format!("idle though a job could use it: {idle} qshares"));
        }
        self.clusters += 1;
        self.jobs += count(ending.jobs.len());
        self.idle_usable_qshares += idle;
        self.net_strikes += played.cycles.iter().map(|cycle| cycle.net_strikes).sum::<u64>();
        let envies = envy::envies(&ending);
        what.extend(self.enter_starving(&ending, &envies));
        what.extend(LEVELS.into_iter().filter_map(|level| self.envy_at(level, &envies)));
        if !what.is_empty() {
            self.cases.push(Case { cluster, what });
        }
    }

    /// Counts jobs and users with nothing, and describes the jobs and users that should have
    /// something.
    fn enter_starving(&mut self, ending: &FinalState, envies: &[Envy]) -> Vec<String> {
        let mut what = Vec::new();
        let Starving { users, jobs, could_all_owed, could_all } = owed::starving(ending);
        if could_all_owed {
            self.owed_users.enter(users.len());
            self.owed_jobs.enter(jobs.len());
        }
        if could_all {
            self.owed_users_all_fit.enter(users.len());
            self.owed_jobs_all_fit.enter(jobs.len());
            let is_counted =
                |job: &&ending::FinalJob| job.held == 0 && 0 < job.cap && 0 < job.given;
            self.counted_jobs.enter(ending.jobs.iter().filter(is_counted).count());
        }
        if could_all_owed && !users.is_empty() {
            what.push(format!("owed a process and with nothing: {}", users.join(", ")));
        }
        if could_all_owed && !jobs.is_empty() {
            what.push(format!("owed a process and with nothing: {}", numbered(&jobs)));
        }
        let at_zero = ending.jobs.iter().filter(|job| job.held == 0);
        let at_zero = at_zero.filter(|job| ending.has_unmet_demand(job));
        let at_zero: Vec<u64> = at_zero.map(|job| job.id).collect();
        let is_envious = |job: &&u64| envies.iter().any(|envy| envy.job == **job);
        let placeable: Vec<u64> = at_zero.iter().filter(is_envious).copied().collect();
        self.zero_share_all += count(at_zero.len());
        self.zero_share_jobs += count(placeable.len());
        if !placeable.is_empty() {
            let jobs = numbered(&placeable);
            what.push(format!("with nothing, though space could be made: {jobs}"));
        }
        what
    }

    /// Counts processes that were taken, and describes the processes that should not have been
    /// taken.
    fn enter_history(&mut self, history: &PlayHistory) -> Vec<String> {
        let PlayHistory { preempted, passed, moved, late, late_paid, moved_and_less } = history;
        self.evictions += preempted;
        self.passed_through += passed;
        self.passed_through_moved += moved;
        self.quiet_evictions += late;
        self.quiet_evictions_paid += late_paid;
        self.moved_and_less.enter(moved_and_less.len());
        let mut what = Vec::new();
        if 0 < *late {
            what.push(format!("evicted after 20 quiet cycles: {late} in all"));
        }
        let moves = moved_and_less.iter();
        what.extend(moves.map(|(cycle, job)| {
            format!("job {job} ended with less than it was promised in cycle {cycle}")
        }));
        what
    }

    /// Counts the audit's findings, and returns the first of them as text.
    fn objections(&mut self, played: &PlayedDocument) -> Vec<String> {
        let findings = played.cycles.iter().flat_map(|cycle| {
            cycle.audit.iter().map(|finding| {
                format!("audit, cycle {}: {}: {}", cycle.cycle, finding.rule, finding.detail)
            })
        });
        let mut findings: Vec<String> = findings.collect();
        self.audit_findings += count(findings.len());
        findings.truncate(TOLD_FINDINGS);
        findings
    }

    /// Counts the envy at `level`, and describes the first case.
    fn envy_at(&mut self, level: EnvyLevel, envies: &[Envy]) -> Option<String> {
        let here = || envies.iter().filter(|envy| envy.level == level);
        let first = here().next()?;
        let pairs = here().count();
        *self.envy_cases.at(level) += 1;
        *self.envies.at(level) += count(pairs);
        Some(format!("{level} envy, {pairs} in all: {first}"))
    }
}

impl Tally {
    fn enter(&mut self, here: usize) {
        self.clusters += u64::from(0 < here);
        self.all += count(here);
    }
}

impl ByLevel {
    fn at(&mut self, level: EnvyLevel) -> &mut u64 {
        match level {
            EnvyLevel::Class => &mut self.class,
            EnvyLevel::User => &mut self.user,
            EnvyLevel::Job => &mut self.job,
        }
    }
}

fn numbered(jobs: &[u64]) -> String {
    jobs.iter().map(|job| format!("job {job}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
