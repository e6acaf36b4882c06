//! Nodes: what agents report of them, and what we show of them.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ItemProblem, NextWindow, ShareState, is_false};

/// True for a preference that is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_usual(preference: &i32) -> bool {
    *preference == 0
}

/// A node's heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The node's name.
    pub node: String,
    /// Memory it offers, in MiB. At least 1.
    pub memory_mb: u64,
    /// Memory free for use at the moment, in MiB. Only for monitoring; no decision depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_mb: Option<u64>,
    /// True if the node wants no new processes; the present ones stay.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quiesced: bool,
    /// Tags of the node. Keys that the configuration does not list in `reported_tags` are ignored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Incarnation of the node's agent; a new incarnation starts a new sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Sequence number; grows with every heartbeat of an incarnation. A replayed heartbeat does not
    /// count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Time of sending by the agent's clock, in milliseconds since the epoch. Used only to report
    /// that the clock is off; decisions use the time of receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ms: Option<i64>,
}

/// Heartbeats of many nodes. A bad entry is refused alone; the daemon accepts the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBatch {
    /// Heartbeats, an entry for each node.
    pub nodes: Vec<Heartbeat>,
}

/// Distinguishes a [`HeartbeatBatch`] from a single [`Heartbeat`].
#[derive(Debug, Deserialize)]
pub struct HeartbeatProbe {
    /// Present if the body has a field `nodes` with any value.
    pub nodes: Option<IgnoredAny>,
}

/// A [`HeartbeatBatch`] with unparsed entries: a bad entry does not affect the rest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatEnvelope<'a> {
    /// Unparsed text of each entry.
    #[serde(borrow)]
    pub nodes: Vec<&'a RawValue>,
}

/// Result of heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// Number of accepted heartbeats.
    pub accepted: u64,
    /// Refused heartbeats, each with its problem; at most 1,000 of them.
    pub refused: Vec<ItemProblem>,
    /// Number of refused heartbeats beyond the listed ones.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub refused_unlisted: u64,
}

/// State of a node: it gets shares, or a reason why it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// The node gets shares.
    Up,
    /// The node has not reported since the daemon started.
    Awaited,
    /// The node's heartbeats stopped.
    Dead,
    /// An administrator took it out of scheduling.
    VariedOff,
    /// The node's agent wants no new processes, or two agents report under the node's name.
    Quiesced,
    /// The node holds shares that the configuration no longer allows.
    Blacklisted,
    /// The node is in maintenance, or will be so soon that work has to leave.
    Maintenance,
}

impl NodeState {
    /// Returns the state as a word, the same in JSON and text.
    pub fn word(self) -> &'static str {
        match self {
            NodeState::Up => "up",
            NodeState::Awaited => "awaited",
            NodeState::Dead => "dead",
            NodeState::VariedOff => "varied-off",
            NodeState::Quiesced => "quiesced",
            NodeState::Blacklisted => "blacklisted",
            NodeState::Maintenance => "maintenance",
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: String,
    /// The nodepool it is in.
    pub pool: String,
    /// States of the node: `up` alone, or every reason why it gets no share.
    pub states: Vec<NodeState>,
    /// Memory it reported.
    pub memory_mb: u64,
    /// Memory of a qshare on this node.
    pub quantum_mb: u64,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
    /// Qshares in use, by terminating shares too.
    pub used: u64,
    /// Qshares left.
    pub free: u64,
    /// Tags of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Gangs use nodes of higher preference first. Absent: 0.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub preference: i32,
    /// The advance reservation or maintenance of the node that is open, or opens next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_window: Option<NextWindow>,
    /// Heartbeats missed in a row.
    pub missed_heartbeats: u32,
    /// Reason why the node was varied off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vary_off_reason: Option<String>,
    /// Possible faults of the node, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The shares on it.
    pub shares: Vec<NodeShare>,
}

/// A share, as its node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeShare {
    /// Number of the share's job.
    pub job: u64,
    /// Number of the share.
    pub share: u64,
    /// Size of the share in qshares.
    pub order: u64,
    /// Size of the share in memory.
    pub memory_mb: u64,
    /// State: held, or terminating.
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

/// Shares by node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Occupancy {
    /// The cycle this is from.
    pub cycle: u64,
    /// Nodes, a line for each, by name.
    pub nodes: Vec<OccupancyLine>,
}

/// Occupied and free memory of a node, and its shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OccupancyLine {
    /// The node's name.
    pub node: String,
    /// The nodepool it is in.
    pub pool: String,
    /// States, as in [`NodeInfo`].
    pub states: Vec<NodeState>,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
    /// Qshares taken.
    pub used: u64,
    /// Qshares left.
    pub free: u64,
    /// Memory of a qshare on this node.
    pub quantum_mb: u64,
    /// The shares on it.
    pub shares: Vec<NodeShare>,
}
