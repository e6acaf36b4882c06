//! What administrators ask for, and what came of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::is_false;

/// Take nodes out of scheduling: their fair-share work is evicted, other work stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VaryOff {
    /// Names or host lists: `node[01-03]`. All of them must be known, or nothing is done.
    pub nodes: Vec<String>,
    /// Why, for whoever looks at the node next.
    pub reason: String,
    /// Whether only to say what would come of it.
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
    /// How that is known, for the audit log.
    pub reason: String,
    /// Whether only to say what would come of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// Put nodes back into scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VaryOn {
    /// Names or host lists: `node[01-03]`. All of them must be known, or nothing is done.
    pub nodes: Vec<String>,
    /// Whether only to say what would come of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// What came, or would come, of varying nodes off or on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VaryAnswer {
    /// The nodes whose state changes.
    pub changed: Vec<String>,
    /// The nodes that were so already.
    pub unchanged: Vec<String>,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What it means for work.
    pub impact: Impact,
    /// What else to know of these nodes: that one is dead, say.
    pub notes: Vec<String>,
}

/// What taking nodes out means for the work on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Impact {
    /// Shares that are evicted.
    pub shares_evicted: u64,
    /// The jobs they belong to.
    pub jobs: Vec<u64>,
    /// Shares that stay until their work is done.
    pub kept: u64,
}
