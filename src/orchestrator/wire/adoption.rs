//! What nodes have that an older copy of the database does not know.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::exchange::AttemptId;

/// Whether the database is an older copy, and what it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Adoption {
    /// Whether it is an older copy. Then the orchestrator assigns nothing.
    pub set_back: bool,
    /// How many nodes have reported since its start.
    pub nodes: u64,
    /// Attempts on nodes that the database does not know, and that can be taken over.
    pub attempts: Vec<FoundAttempt>,
    /// Attempts on nodes of campaigns that it does not know. Their slots are stopped.
    pub strange: Vec<FoundAttempt>,
}

/// An attempt that a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundAttempt {
    /// The attempt.
    pub task: AttemptId,
    /// The node.
    pub node: String,
}

/// Why it is adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// The reason, for the record.
    pub reason: String,
}
