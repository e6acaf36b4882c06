//! Urgent work: a request, and the decision on it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer to an urgent request that is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UrgentAnswer {
    /// Number of the job.
    pub job: u64,
    /// Decision on the request. A refused request gets a problem instead.
    pub verdict: UrgentWord,
    /// Nodes that are promised, an entry for each process, by rank. A process starts as soon as the
    /// processes that have to go have exited.
    pub promised: Vec<PromisedNode>,
    /// Shares that have to go for it.
    pub preempted: Vec<UrgentLoss>,
    /// Cycle of the decision.
    pub cycle: u64,
}

/// Decision on an urgent request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UrgentWord {
    /// All processes have their nodes.
    Accepted,
}

/// A node that an urgent job is promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromisedNode {
    /// Name of the node.
    pub node: String,
    /// Rank of the process, from 0.
    pub rank: u32,
}

/// A share that has to go for an urgent job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UrgentLoss {
    /// Job of the share.
    pub job: u64,
    /// Number of the share.
    pub share: u64,
    /// Node of the share.
    pub node: String,
    /// Work lost with the share, in milliseconds.
    pub loss_ms: u64,
}
