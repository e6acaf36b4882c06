//! A survey of small saturated clusters: how justly, quietly and fully each is shared in the end.
//!
//! Clusters are drawn from a seed as scenarios of the recorded shape, and played as those are. What
//! is measured is read off what the play shows, by code that knows nothing of the engine: so the
//! same can be measured from outside, with the files that [`run`] writes.
//!
//! ```text
//! cluster ─► recorded::player ─► ending ─► envy, idle ─► Survey
//! ```

mod cluster;
mod ending;
mod envy;
mod idle;

use std::fs;
use std::path::Path;

use serde::Serialize;

use self::ending::Ending;
use self::envy::Level;
use super::count;
use super::error::SimError;
use super::recorded::scenario::Scenario;
use super::recorded::{Cycle, Document, player};

/// The cycles at the end in which nothing should move any more.
const QUIET_CYCLES: usize = 20;
/// The most that is told of one cluster.
const TOLD_OF_A_CLUSTER: usize = 8;

/// What a survey found, summed over its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// What the clusters were drawn from.
    pub seed: u64,
    /// How many clusters were played.
    pub clusters: u64,
    /// Jobs in all of them.
    pub jobs: u64,
    /// Jobs that hold nothing at the end and envy another.
    pub zero_share_jobs: u64,
    /// Jobs that hold nothing at the end and could use something.
    pub zero_share_all: u64,
    /// Clusters in which someone envies someone at the end.
    pub envy_cases: EnvyCases,
    /// Processes told to leave in the last 20 cycles, when nothing had changed for long.
    pub quiet_evictions: u64,
    /// Qshares free at the end that a job could fill at once.
    pub idle_usable_qshares: u64,
    /// How often the engine fell back on its safety net.
    pub net_strikes: u64,
    /// Rules that schedules broke, in any cycle.
    pub audit_findings: u64,
    /// The clusters in which something is not as it should be.
    pub cases: Vec<Case>,
}

/// Clusters with envy, by where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvyCases {
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
    fn enter(&mut self, cluster: u64, scenario: &Scenario, played: &Document) {
        let ending = Ending::new(scenario, played);
        let envies = envy::envies(&ending);
        let mut what: Vec<String> = envies.iter().map(ToString::to_string).collect();

        let has_envy = |level| u64::from(envies.iter().any(|envy| envy.level == level));
        self.envy_cases.class += has_envy(Level::Class);
        self.envy_cases.user += has_envy(Level::User);
        self.envy_cases.job += has_envy(Level::Job);
        let mut at_zero: Vec<u64> =
            envies.iter().filter(|envy| envy.is_of_zero).map(|envy| envy.job).collect();
        at_zero.sort_unstable();
        at_zero.dedup();
        self.zero_share_jobs += count(at_zero.len());
        let is_at_zero = |job: &&ending::Job| job.held == 0 && ending.has_unmet_demand(job);
        self.zero_share_all += count(ending.jobs.iter().filter(is_at_zero).count());

        let last = played.cycles.len().saturating_sub(QUIET_CYCLES);
        let quiet_evictions = played.cycles[last..].iter().map(evictions).sum();
        let idle = idle::usable_qshares(&ending);
        for (figure, text) in [
            (quiet_evictions, "processes told to leave in the last cycles"),
            (idle, "qshares idle that a job could use"),
        ] {
            if 0 < figure {
                what.insert(0, format!("{figure} {text}"));
            }
        }
        let findings = played.cycles.iter().flat_map(|cycle| {
            cycle.audit.iter().map(|finding| {
                format!("audit, cycle {}: {}: {}", cycle.cycle, finding.rule, finding.detail)
            })
        });
        let findings: Vec<String> = findings.collect();

        self.clusters += 1;
        self.jobs += count(ending.jobs.len());
        self.quiet_evictions += quiet_evictions;
        self.idle_usable_qshares += idle;
        self.net_strikes += played.cycles.iter().map(net_strikes).sum::<u64>();
        self.audit_findings += count(findings.len());
        what.splice(0..0, findings);
        if !what.is_empty() {
            if TOLD_OF_A_CLUSTER < what.len() {
                let more = what.len() - TOLD_OF_A_CLUSTER;
                what.truncate(TOLD_OF_A_CLUSTER);
                what.push(format!("and {more} more"));
            }
            self.cases.push(Case { cluster, what });
        }
    }
}

/// Processes told to leave in a cycle.
fn evictions(cycle: &Cycle) -> u64 {
    cycle.jobs.iter().map(|job| count(job.shrunken.len())).sum()
}

/// How often the engine's safety net held it back in a cycle: it has none.
fn net_strikes(_: &Cycle) -> u64 {
    0
}
