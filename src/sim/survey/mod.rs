//! A survey of small saturated clusters: how justly, quietly and fully each is shared in the end.
//!
//! Clusters are drawn from a seed as scenarios of the recorded shape, and played as those are. What
//! is measured is read off what the play shows, by code that knows nothing of the engine: so the
//! same can be measured from outside, with the files that [`run`] writes.
//!
//! ```text
//! cluster ─► recorded::player ─► ending ─► envy, idle ─► Survey
//! ```
//!
//! [`scale`] plays one large cluster instead of many small ones.

mod cluster;
mod ending;
mod envy;
mod idle;
pub mod scale;

use std::fs;
use std::path::Path;

use serde::Serialize;

use self::ending::Ending;
use self::envy::{Envy, LEVELS, Level, Verdict};
use super::count;
use super::error::SimError;
use super::recorded::scenario::Scenario;
use super::recorded::{Cycle, Document, player};

/// The cycles at the end in which nothing should move any more.
const QUIET_CYCLES: usize = 20;
/// How many of the audit's findings are told of one cluster.
const TOLD_FINDINGS: usize = 4;

/// What a survey found, summed over its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// What the clusters were drawn from.
    pub seed: u64,
    /// How many clusters were played.
    pub clusters: u64,
    /// Jobs in all of them.
    pub jobs: u64,
    /// Jobs that hold nothing at the end, though room could be made for them.
    pub zero_share_jobs: u64,
    /// Jobs that hold nothing at the end and could use something.
    pub zero_share_all: u64,
    /// Clusters in which someone envies someone at the end, in a way that could be cured.
    pub envy_cases: ByLevel,
    /// Processes told to leave in the last 20 cycles, when nothing had changed for long.
    pub quiet_evictions: u64,
    /// Qshares free at the end that a job could fill at once.
    pub idle_usable_qshares: u64,
    /// How often the engine's safety net struck, in any cycle.
    pub net_strikes: u64,
    /// Rules that schedules broke, in any cycle.
    pub audit_findings: u64,
    /// Clusters in which someone is behind someone by more than one process at the end, where no
    /// plan that takes only from those who are better off makes room.
    pub envy_beyond_reach: ByLevel,
    /// The clusters in which something is not as it should be.
    pub cases: Vec<Case>,
}

/// Clusters, by where two ways part in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByLevel {
    /// Between classes.
    pub class: u64,
    /// Between users of one class.
    pub user: u64,
    /// Between jobs of one user in one class.
    pub job: u64,
}

/// A cluster to look into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Which.
    pub cluster: u64,
    /// What is not as it should be.
    pub what: Vec<String>,
}

/// Plays the first `clusters` clusters of `seed`. Writes each as a bare scenario into the folder
/// `scenarios`, if there is one to write to.
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
    /// Adds what one cluster came to.
    fn enter(&mut self, cluster: u64, scenario: &Scenario, played: &Document) {
        let ending = Ending::new(scenario, played);
        let Verdict { envies, placeable, beyond_reach } = envy::verdict(&ending);
        let at_zero: Vec<u64> = ending
            .jobs
            .iter()
            .filter(|job| job.held == 0 && ending.has_unmet_demand(job))
            .map(|job| job.id)
            .collect();
        let starving: Vec<u64> =
            at_zero.iter().filter(|job| placeable.contains(job)).copied().collect();
        let end = &played.cycles[played.cycles.len().saturating_sub(QUIET_CYCLES)..];
        let quiet_evictions: u64 = end.iter().map(evictions).sum();
        let idle = idle::usable_qshares(&ending);

        self.clusters += 1;
        self.jobs += count(ending.jobs.len());
        self.zero_share_jobs += count(starving.len());
        self.zero_share_all += count(at_zero.len());
        self.quiet_evictions += quiet_evictions;
        self.idle_usable_qshares += idle;
        self.net_strikes += played.cycles.iter().map(|cycle| cycle.net_strikes).sum::<u64>();
        for level in LEVELS.into_iter().filter(|level| has(*level, &beyond_reach)) {
            *self.envy_beyond_reach.at(level) += 1;
        }

        let mut what = self.objections(played);
        if 0 < quiet_evictions {
            what.push(format!("evicted in the last cycles: {quiet_evictions} in all"));
        }
        if 0 < idle {
            what.push(format!("idle though a job could use it: {idle} qshares"));
        }
        if !starving.is_empty() {
            let jobs = starving.iter().map(|job| format!("job {job}")).collect::<Vec<_>>();
            what.push(format!("with nothing, though room could be made: {}", jobs.join(", ")));
        }
        what.extend(LEVELS.into_iter().filter_map(|level| self.envy_at(level, &envies)));
        if !what.is_empty() {
            self.cases.push(Case { cluster, what });
        }
    }

    /// Counts what the audit found, and tells the first of it.
    fn objections(&mut self, played: &Document) -> Vec<String> {
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

    /// Counts a cluster with envy at `level`, and tells of it.
    fn envy_at(&mut self, level: Level, envies: &[Envy]) -> Option<String> {
        let here = || envies.iter().filter(|envy| envy.level == level);
        let greatest = envy::greatest(here().cloned())?;
        *self.envy_cases.at(level) += 1;
        Some(match here().count() {
            1 => format!("{level} envy of 1 job: {greatest}"),
            jobs => format!("{level} envy of {jobs} jobs, the greatest: {greatest}"),
        })
    }
}

impl ByLevel {
    fn at(&mut self, level: Level) -> &mut u64 {
        match level {
            Level::Class => &mut self.class,
            Level::User => &mut self.user,
            Level::Job => &mut self.job,
        }
    }
}

/// Processes told to leave in a cycle.
fn evictions(cycle: &Cycle) -> u64 {
    cycle.jobs.iter().map(|job| count(job.shrunken.len())).sum()
}

fn has(level: Level, envies: &[Envy]) -> bool {
    envies.iter().any(|envy| envy.level == level)
}

#[cfg(test)]
mod tests;
