//! The configuration: what is in effect, what was, and what another one would come to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which configuration is meant. With neither a text nor a generation, the daemon reads again the
/// file that it was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigRequest {
    /// What the file is called; messages and the record name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it says: a whole file, in TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// One that was in effect before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Why, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a configuration comes to, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigPlan {
    /// The generation in effect once this was answered.
    pub generation: u64,
    /// Whether it was done; else it was only looked at, or there is nothing to change.
    pub applied: bool,
    /// The settings that differ from those in effect.
    pub changes: Vec<ConfigChange>,
    /// Nodes that have reported and change their pool.
    pub moved: Vec<NodeMove>,
    /// What it means for work. Absent before the first schedule since the start: the books do not
    /// know yet what is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<ConfigImpact>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// A setting that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigChange {
    /// Its key, "scheduler.quantum".
    pub setting: String,
    /// What it is, as in the file; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether it takes effect only when the daemon is started again.
    pub at_restart: bool,
}

/// A node that changes its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeMove {
    /// Which.
    pub node: String,
    /// The pool it is in.
    pub from: String,
    /// The pool it is to be in.
    pub to: String,
}

/// What a configuration means for work. Lists name at most a thousand jobs; the sums count all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigImpact {
    /// The cycle that it is seen in.
    pub cycle: u64,
    /// How many shares have to go that would stay without it.
    pub shares_evicted: u64,
    /// Whose, and why.
    pub evicted: Vec<JobEviction>,
    /// How many shares stay until their work is done, though no longer allowed where they are.
    pub shares_parked: u64,
    /// Whose.
    pub parked: Vec<JobParked>,
    /// Work that is refused, and was not.
    pub refused: Vec<JobRefused>,
    /// Nodes that get no work until such shares have left them.
    pub blacklisted: Vec<String>,
}

/// Shares of a job that have to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobEviction {
    /// Whose.
    pub job: u64,
    /// How many.
    pub shares: u64,
    /// Why.
    pub why: super::RemovalReason,
}

/// Shares of a job that stay where they are no longer allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobParked {
    /// Whose.
    pub job: u64,
    /// How many.
    pub shares: u64,
}

/// A job that is no longer considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobRefused {
    /// Which.
    pub job: u64,
    /// Why.
    pub reason: String,
}

/// The configuration in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigInfo {
    /// Its number; every other configuration has a higher one.
    pub generation: u64,
    /// What the file was called.
    pub name: String,
    /// The file that is read at the start and on SIGHUP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Every setting.
    pub settings: Vec<ConfigSetting>,
    /// The settings that differ from those the daemon was started with, and take effect when it is
    /// started again.
    pub waiting_for_restart: Vec<String>,
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigSetting {
    /// Its key.
    pub setting: String,
    /// Its value, as in the file; absent if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Who set it: a line of the file, a variable, a flag, or nobody.
    pub origin: String,
}

/// The configurations there were, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigHistory {
    /// The one in effect.
    pub generation: u64,
    /// All on record.
    pub generations: Vec<ConfigGeneration>,
}

/// A configuration there was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigGeneration {
    /// Its number.
    pub generation: u64,
    /// Since when, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The last cycle before it.
    pub cycle: u64,
    /// How it came: `start`, `apply`, `reread` or `return`.
    pub source: String,
    /// What the file was called.
    pub name: String,
    /// Why, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the file said; only where one generation was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
