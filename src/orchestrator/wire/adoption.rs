//! Attempts that nodes report and an older copy of the database does not know.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::exchange::AttemptId;

/// State of the database, and the attempts that it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Adoption {
    /// True if the database is an older copy. Then the orchestrator assigns nothing.
    pub set_back: bool,
    /// Number of nodes that reported since the start of the orchestrator.
    pub nodes: u64,
    /// Attempts on nodes that the database does not know, and that it can adopt.
    pub attempts: Vec<FoundAttempt>,
    /// Attempts on nodes whose campaigns the database does not know. Their slots are stopped.
    pub strange: Vec<FoundAttempt>,
}

/// An attempt that a node reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundAttempt {
    /// The attempt.
    pub task: AttemptId,
    /// The node.
    pub node: String,
}

/// A request to adopt attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// The reason, for the record.
    pub reason: String,
}
