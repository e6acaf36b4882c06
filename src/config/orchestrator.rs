//! The orchestrator of the daemon's own process, as configured.

use std::path::PathBuf;
use std::time::Duration;

use super::admission::AdmissionSettings;
use super::problem::{Code, ConfigProblem, ValuePlace};
use super::section::Section;
use super::value::{duration, flag, number, optional_name, optional_path, path};

/// A slot is given up no later than that after its node fell silent.
const LONGEST_LEASE: Duration = Duration::from_hours(168);
/// A shorter lease ends slots whenever the network pauses.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The shortest time between two publications.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest time that something is kept, in days: a hundred years.
const MAX_DAYS: i64 = 36_500;
/// The most rows of tasks that are kept.
const MAX_ROWS: i64 = 1_000_000_000;

/// Retention of finished campaigns and their tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignRetention {
    /// Days after the end of a campaign that its tasks and attempts are kept. Only counts are left then.
    pub days: u64,
    /// Rows of tasks and attempts of finished campaigns that are kept; the campaigns that finished
    /// first are deleted first.
    pub rows: u64,
    /// Days after the end of a campaign that the campaign itself is kept, not fewer than `days`. Acts are kept
    /// as long.
    pub campaign_days: u64,
}

impl Default for CampaignRetention {
    fn default() -> CampaignRetention {
        CampaignRetention { days: 30, rows: 5_000_000, campaign_days: 400 }
    }
}

impl CampaignRetention {
    /// Returns the reason why this retention is invalid: campaigns would be deleted before their
    /// tasks.
    pub fn fault(self) -> Option<String> {
        let (days, campaign_days) = (self.days, self.campaign_days);
        let fault = || format!("{campaign_days} days are fewer than the {days} days of its tasks");
        (campaign_days < days).then(fault)
    }
}

/// The orchestrator in the daemon's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrchestratorSettings {
    /// True if the daemon runs an orchestrator.
    pub enabled: bool,
    /// The orchestrator's `SQLite` file; relative to the working directory.
    pub state: PathBuf,
    /// The least time between two publications.
    pub publish_every: Duration,
    /// Time that slots go on without reaching the orchestrator.
    pub lease: Duration,
    /// Time that a slot without a task stays.
    pub linger: Duration,
    /// Retention of campaigns and their tasks.
    pub retention: CampaignRetention,
    /// Class of test campaigns. `None`: they have the class that they name.
    pub test_class: Option<String>,
    /// Folder of admission rules that are programs. `None`: there are none.
    pub admission: Option<PathBuf>,
    /// Program that is told of each event of campaigns. `None`: none is.
    pub notify: Option<PathBuf>,
    /// Admission rules of the file, in order. Their verdicts come before the verdicts of the folder.
    pub rules: Vec<AdmissionSettings>,
}

impl Default for OrchestratorSettings {
    fn default() -> OrchestratorSettings {
        OrchestratorSettings {
            enabled: false,
            state: PathBuf::from("orchestrator.db"),
            publish_every: Duration::from_secs(1),
            lease: Duration::from_mins(10),
            linger: Duration::from_secs(2),
            retention: CampaignRetention::default(),
            test_class: None,
            admission: None,
            notify: None,
            rules: Vec::new(),
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
        retention: read_retention(&mut section, defaults.retention),
        admission: section.or("admission", &optional_path(), defaults.admission),
        notify: section.or("notify", &optional_path(), defaults.notify),
        test_class: section.or("test_class", &optional_name(), defaults.test_class),
        rules: Vec::new(),
    };
    section.finish();
    settings
}

fn read_retention(section: &mut Section<'_>, defaults: CampaignRetention) -> CampaignRetention {
    let days = number(1..=MAX_DAYS);
    let tasks = section.default_to("retention_days", &days, &defaults.days);
    let rows = section.or("retention_rows", &number(0..=MAX_ROWS), defaults.rows);
    let campaigns = section.default_to("campaign_retention_days", &days, &defaults.campaign_days);
    let place = campaigns.place().or(tasks.place()).cloned();
    let (days, campaign_days) = (tasks.or(defaults.days), campaigns.or(defaults.campaign_days));
    let retention = CampaignRetention { days, rows, campaign_days };
    if let Some(fault) = retention.fault() {
        let path = "orchestrator.campaign_retention_days";
        let place = place.unwrap_or(ValuePlace::File(0..0));
        let problem = ConfigProblem::new(Code::Range, path, &place, format!("{path}: {fault}"));
        section.complain(problem.remedy("raise it, or lower orchestrator.retention_days"));
    }
    retention
}
