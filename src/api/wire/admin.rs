//! Requests of administrators that vary nodes, and the answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::is_false;

/// Take nodes out of scheduling: their fair-share processes are evicted, other processes stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VaryOff {
    /// Names or host lists: `node[01-03]`. All of them must be known, or nothing is done.
    pub nodes: Vec<String>,
    /// Reason, for the next reader of the node's entry.
    pub reason: String,
    /// True: only reports the effect and changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Confirms that taking out every node there is is meant so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
}

/// Nodes that are dead, or gone for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodesGone {
    /// Names or host lists: `node[01-03]`. All of them must be known and silent, or nothing is done.
    pub nodes: Vec<String>,
    /// Evidence that the nodes are dead, for the audit log.
    pub reason: String,
    /// True: only reports the effect and changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// Put nodes back into scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VaryOn {
    /// Names or host lists: `node[01-03]`. All of them must be known, or nothing is done.
    pub nodes: Vec<String>,
    /// True: only reports the effect and changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// Effect of varying nodes off or on, done or only planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VaryAnswer {
    /// The nodes whose state changes.
    pub changed: Vec<String>,
    /// The nodes that were so already.
    pub unchanged: Vec<String>,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Effect on jobs.
    pub impact: Impact,
    /// Further remarks on these nodes, for example that a node is dead.
    pub notes: Vec<String>,
}

/// Effect of taking nodes out on the jobs that hold shares there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Impact {
    /// Shares that are evicted.
    pub shares_evicted: u64,
    /// The jobs they belong to.
    pub jobs: Vec<u64>,
    /// Shares that stay until their processes exit.
    pub kept: u64,
    /// The work that is lost with evicted and preempted shares, in milliseconds of their processes.
    #[serde(default)]
    pub work_lost_ms: u64,
    /// Shares on other nodes that are preempted in the same cycle, to make space.
    #[serde(default)]
    pub preempted: u64,
    /// Jobs that hold fewer shares after that cycle, even with new shares elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<JobBelow>,
}

/// A job that an act leaves with fewer shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobBelow {
    /// Number of the job.
    pub job: u64,
    /// Shares that the job holds before.
    pub holds: u64,
    /// Shares that the job holds afterwards.
    pub keeps: u64,
}
