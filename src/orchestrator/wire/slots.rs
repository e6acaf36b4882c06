//! The slots of one node, for people who look at it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::exchange::AttemptId;
use super::rung::Rung;

/// The slots of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeSlots {
    /// The name of the node.
    pub node: String,
    /// How memory limits are enforced there.
    pub limits: Rung,
    /// The only user whose work can run there. Absent: it can run several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<String>,
    /// Since when its agent is silent, in milliseconds. 0: it waits for an answer.
    pub silent_ms: u64,
    /// Its slots that are not gone, by share.
    pub slots: Vec<NodeSlot>,
}

/// A slot of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeSlot {
    /// The number of the share.
    pub share: u64,
    /// The number of the campaign.
    pub campaign: u64,
    /// The name of the campaign.
    pub name: String,
    /// The owner of the campaign, who the slot runs as.
    pub user: String,
    /// The stage of its life: `ordered`, `starting`, `preparing`, `working`, `idle` or `stopping`.
    pub state: String,
    /// The memory of its share, in MiB: the limit.
    pub memory_mb: u64,
    /// The most memory that a task of it was seen to use, in MiB. Absent: none was measured yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_mb: Option<u64>,
    /// Tasks that run in it.
    pub running: Vec<SlotTask>,
    /// Tasks that wait in it.
    pub waiting: u64,
}

/// A task that runs in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotTask {
    /// Its attempt.
    pub task: AttemptId,
    /// Since when it runs, in milliseconds since the epoch.
    pub since_ms: u64,
}
