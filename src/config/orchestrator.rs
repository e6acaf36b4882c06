//! The orchestrator of the daemon's own process, as configured.

use std::path::PathBuf;
use std::time::Duration;

use super::section::Section;
use super::value::{duration, flag, path};

/// A slot is given up no later than that after its node fell silent.
const LONGEST_LEASE: Duration = Duration::from_hours(168);
/// A shorter lease ends slots whenever the network pauses.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The shortest time between two publications.
const SHORTEST: Duration = Duration::from_millis(10);

/// The orchestrator in the daemon's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrchestratorSettings {
    /// Whether there is one.
    pub enabled: bool,
    /// Its `SQLite` file; relative to the working directory.
    pub state: PathBuf,
    /// The least time between two publications.
    pub publish_every: Duration,
    /// How long slots go on when they cannot reach it.
    pub lease: Duration,
    /// How long a slot without a task stays.
    pub linger: Duration,
}

impl Default for OrchestratorSettings {
    fn default() -> OrchestratorSettings {
        OrchestratorSettings {
            enabled: false,
            state: PathBuf::from("orchestrator.db"),
            publish_every: Duration::from_secs(1),
            lease: Duration::from_mins(10),
            linger: Duration::from_secs(2),
        }
    }
}

pub(super) fn read_orchestrator(mut section: Section<'_>) -> OrchestratorSettings {
    let defaults = OrchestratorSettings::default();
    let settings = OrchestratorSettings {
        enabled: section.or("enabled", &flag(), defaults.enabled),
        state: section.or("state", &path(), defaults.state),
        publish_every: section.or(
            "publish_every",
            &duration(SHORTEST..=Duration::from_secs(30)),
            defaults.publish_every,
        ),
        lease: section.or("lease", &duration(SHORTEST_LEASE..=LONGEST_LEASE), defaults.lease),
        linger: section.or(
            "linger",
            &duration(Duration::ZERO..=Duration::from_hours(1)),
            defaults.linger,
        ),
    };
    section.finish();
    settings
}
