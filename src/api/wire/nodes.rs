//! Nodes: what agents report of them, and what we show of them.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ItemProblem, ShareState, is_false};

/// One node's sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The node's name.
    pub node: String,
    /// Memory it offers, in MiB. At least 1.
    pub memory_mb: u64,
    /// Memory that nobody uses at the moment, in MiB. For whoever watches; nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_mb: Option<u64>,
    /// Whether it wants no new work; what is there stays.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quiesced: bool,
    /// Names one life of the node's agent; a new one starts a new sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Grows with every heartbeat of one life. A replayed one is no sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// When it was sent, by the agent's clock, in milliseconds since the epoch. Only to say that the
    /// clock is off; what counts is when it was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ms: Option<i64>,
}

/// Many nodes' signs of life. One bad entry does not spoil the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBatch {
    /// One entry a node.
    pub nodes: Vec<Heartbeat>,
}

/// Tells a [`HeartbeatBatch`] from a single [`Heartbeat`].
#[derive(Debug, Deserialize)]
pub struct HeartbeatProbe {
    /// Whether there is a field `nodes`, whatever is in it.
    pub nodes: Option<IgnoredAny>,
}

/// A [`HeartbeatBatch`] whose entries are not read yet, so that a bad one spoils no other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatEnvelope<'a> {
    /// One text an entry.
    #[serde(borrow)]
    pub nodes: Vec<&'a RawValue>,
}

/// What was made of heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// How many count as signs of life.
    pub accepted: u64,
    /// The others, each with its problem; at most 1,000 of them.
    pub refused: Vec<ItemProblem>,
    /// How many more are refused.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub refused_unlisted: u64,
}

/// Whether a node gets work, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It gets work.
    Up,
    /// It has not reported since the daemon started.
    Awaited,
    /// Its heartbeats stopped.
    Dead,
    /// An administrator took it out of scheduling.
    VariedOff,
    /// Its agent wants no new work, or two agents report as it.
    Quiesced,
    /// It holds shares that configuration no longer allows.
    Blacklisted,
}

impl NodeState {
    /// As it is written everywhere.
    pub fn word(self) -> &'static str {
        match self {
            NodeState::Up => "up",
            NodeState::Awaited => "awaited",
            NodeState::Dead => "dead",
            NodeState::VariedOff => "varied-off",
            NodeState::Quiesced => "quiesced",
            NodeState::Blacklisted => "blacklisted",
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// The nodepool it is in.
    pub pool: String,
    /// What holds of it: `up` alone, or every reason why it gets no work.
    pub states: Vec<NodeState>,
    /// Memory it reported.
    pub memory_mb: u64,
    /// One qshare here.
    pub quantum_mb: u64,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
    /// Qshares taken, by shares that are leaving too.
    pub used: u64,
    /// Qshares left.
    pub free: u64,
    /// Heartbeats missed in a row.
    pub missed_heartbeats: u32,
    /// Why it was varied off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vary_off_reason: Option<String>,
    /// What looks wrong about it, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The shares on it.
    pub shares: Vec<NodeShare>,
}

/// A share, as its node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeShare {
    /// Whose it is.
    pub job: u64,
    /// Its number.
    pub share: u64,
    /// Its size in qshares.
    pub order: u64,
    /// Its size in memory.
    pub memory_mb: u64,
    /// Whether it is on its way out.
    pub state: ShareState,
}

/// Nodes, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// The cycle this is from.
    pub cycle: u64,
    /// The nodes.
    pub nodes: Vec<NodeInfo>,
}

/// Who is where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Occupancy {
    /// The cycle this is from.
    pub cycle: u64,
    /// One line a node, by name.
    pub nodes: Vec<OccupancyLine>,
}

/// What is taken of a node, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OccupancyLine {
    /// The node's name.
    pub node: String,
    /// The nodepool it is in.
    pub pool: String,
    /// As in [`NodeInfo`].
    pub states: Vec<NodeState>,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
    /// Qshares taken.
    pub used: u64,
    /// Qshares left.
    pub free: u64,
    /// One qshare here.
    pub quantum_mb: u64,
    /// The shares on it.
    pub shares: Vec<NodeShare>,
}
