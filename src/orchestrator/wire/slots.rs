//! The slots of a node, as people see them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::exchange::AttemptId;
use super::rung::Rung;

/// The slots of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeSlots {
    /// The name of the node.
    pub node: String,
    /// Enforcement of memory limits on the node.
    pub limits: Rung,
    /// Only user whose work can run on the node. Absent: the node can run work of several users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<String>,
    /// Silence of the agent, in milliseconds. 0: the agent waits for an answer.
    pub silent_ms: u64,
    /// Slots that are not gone, by share.
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
    /// Owner of the campaign, who is also the user of the slot's processes.
    pub user: String,
    /// Stage of the slot: `ordered`, `starting`, `preparing`, `working`, `idle` or `stopping`.
    pub state: String,
    /// Memory of the share, in MiB: the limit.
    pub memory_mb: u64,
    /// Highest measured memory of a task in the slot, in MiB. Absent: not measured yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_mb: Option<u64>,
    /// Tasks that run in the slot.
    pub running: Vec<SlotTask>,
    /// Tasks that wait in the slot.
    pub waiting: u64,
}

/// A task that runs in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotTask {
    /// Attempt of the task.
    pub task: AttemptId,
    /// Time at which the task began, in milliseconds since the epoch.
    pub since_ms: u64,
}
