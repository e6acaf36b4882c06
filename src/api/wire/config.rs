//! Configuration: the settings in effect, earlier generations, and the effect of a new file.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Selects a configuration. With neither a text nor a generation, the daemon reads again the file
/// that it was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigRequest {
    /// Name of the file, for messages and the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text of the file: a whole configuration in TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Number of a configuration that was in effect before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Reason for the change, for the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Effect of a configuration, applied or only planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigPlan {
    /// The generation in effect once this was answered.
    pub generation: u64,
    /// True if the configuration was applied. False if it was only checked, or if nothing changes.
    pub applied: bool,
    /// Settings that differ from the settings in effect.
    pub changes: Vec<ConfigChange>,
    /// Nodes that have reported and change their pool.
    pub moved: Vec<NodeMove>,
    /// Effect on jobs. Absent before the first schedule since the start: the scheduler does not
    /// know yet which processes run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<ConfigImpact>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// A setting that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigChange {
    /// Key of the setting, "scheduler.quantum".
    pub setting: String,
    /// Value in effect, as in the file; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// New value, as in the file; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// True if the setting takes effect only when the daemon is started again.
    pub at_restart: bool,
}

/// A node that changes its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeMove {
    /// Name of the node.
    pub node: String,
    /// The pool it is in.
    pub from: String,
    /// The pool it is to be in.
    pub to: String,
}

/// Effect of a configuration on jobs. Lists name at most a thousand jobs; the sums count all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigImpact {
    /// The cycle that it is seen in.
    pub cycle: u64,
    /// Number of shares that are evicted and would stay without the change.
    pub shares_evicted: u64,
    /// Jobs of these shares, and why they are evicted.
    pub evicted: Vec<JobEviction>,
    /// Work lost with them, in milliseconds of their processes.
    #[serde(default)]
    pub work_lost_ms: u64,
    /// Number of shares that stay until their processes exit, though no longer allowed on their
    /// nodes.
    pub shares_parked: u64,
    /// Jobs of these shares.
    pub parked: Vec<JobParked>,
    /// Jobs that are refused and were not before.
    pub refused: Vec<JobRefused>,
    /// Nodes that get no shares until such shares have left them.
    pub blacklisted: Vec<String>,
}

/// Shares of a job that have to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobEviction {
    /// Number of the job.
    pub job: u64,
    /// Number of shares.
    pub shares: u64,
    /// Reason for the eviction.
    pub why: super::RemovalReason,
}

/// Shares of a job that stay where they are no longer allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobParked {
    /// Number of the job.
    pub job: u64,
    /// Number of shares.
    pub shares: u64,
}

/// A job that is no longer considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobRefused {
    /// Number of the job.
    pub job: u64,
    /// Reason for the refusal.
    pub reason: String,
}

/// The configuration in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigInfo {
    /// Number of this configuration; each later configuration has a higher number.
    pub generation: u64,
    /// Name of the file at the time.
    pub name: String,
    /// The file that is read at the start and on SIGHUP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Every setting.
    pub settings: Vec<ConfigSetting>,
    /// Settings that were changed since the daemon's start and take effect at the next start.
    pub waiting_for_restart: Vec<String>,
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigSetting {
    /// Key of the setting.
    pub setting: String,
    /// Value, as in the file; absent if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Source of the value: a line of the file, a variable, a flag, or the default.
    pub origin: String,
}

/// The configurations there were, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigHistory {
    /// Number of the generation in effect.
    pub generation: u64,
    /// All generations in the store.
    pub generations: Vec<ConfigGeneration>,
}

/// A configuration there was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigGeneration {
    /// Number of this generation.
    pub generation: u64,
    /// Since when, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The last cycle before it.
    pub cycle: u64,
    /// Cause: `start`, `apply`, `reread` or `return`.
    pub source: String,
    /// Name of the file at the time.
    pub name: String,
    /// Reason for the change, if the caller named a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Text of the file; only if the request names a generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
