//! What people follow campaigns by: figures, events, and the nodes that run their slots.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CampaignSummary, Rung};

/// How values are spread: half of them are not above `p50`, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spread {
    /// How many values there are. 0: nothing is known, and the others are 0 too.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// Nineteen of twenty are not above it.
    pub p95: u64,
    /// The largest.
    pub max: u64,
}

/// The figures of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignStats {
    /// Its counts.
    pub campaign: CampaignSummary,
    /// Memory of its slots, in MiB.
    pub memory_mb: u64,
    /// Memory that attempts used, in MiB, of at most 10,000 attempts with the highest task numbers.
    pub rss_mb: Spread,
    /// Times of the same attempts, in milliseconds.
    pub ms: Spread,
    /// Attempts that have ended.
    pub attempts: u64,
    /// Attempts that ended and were followed by another one: ended attempts less final tasks.
    pub repeated: u64,
    /// Failed tasks of a million that ended, done or failed.
    pub failed_ppm: u64,
    /// Repeated attempts of a million attempts that ended.
    pub repeated_ppm: u64,
    /// Tasks done in the last hour before the last end; the hour is shorter if the campaign is.
    pub done_lately: u64,
    /// How long that hour was, in milliseconds.
    pub lately_ms: u64,
    /// When its last attempt ended, in milliseconds since the epoch. Absent: none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end_ms: Option<u64>,
    /// Time until it has no task left at that rate, in milliseconds. Absent: it has none left, or no
    /// task was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// Its attempts by node, of at most 10,000 attempts with the highest task numbers.
    pub nodes: Vec<NodeStats>,
}

/// The attempts of a campaign on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeStats {
    /// The name of the node.
    pub node: String,
    /// Attempts that have not ended.
    pub open: u64,
    /// Attempts that were done.
    pub done: u64,
    /// Attempts that ended otherwise.
    pub other: u64,
    /// The mean time of those that were done, in milliseconds; 0 while none was.
    pub mean_ms: u64,
}

/// Something that happened to a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignEvent {
    /// Its number. Numbers grow.
    pub sequence: u64,
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The campaign.
    pub campaign: u64,
    /// The owner of the campaign.
    pub user: String,
    /// The task, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// The node, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A stable word.
    pub code: String,
    /// A sentence; empty for callers that are neither owner nor operator.
    pub text: String,
}

/// Events of campaigns, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignEvents {
    /// The events.
    pub events: Vec<CampaignEvent>,
    /// The number to ask with as `since` for what comes next.
    pub sequence: u64,
    /// Whether there are more already.
    pub more: bool,
}

/// The nodes that run slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grid {
    /// The nodes, by name: those whose agents run work.
    pub nodes: Vec<GridNode>,
}

/// A node that runs slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GridNode {
    /// Its name.
    pub node: String,
    /// How memory limits are enforced there.
    pub limits: Rung,
    /// The only user whose work can run there. Absent: it can run several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<String>,
    /// Slots that are not gone.
    pub slots: u64,
    /// Attempts that run.
    pub running: u64,
    /// Memory of its slots, in MiB.
    pub used_mb: u64,
    /// Memory of the node, in MiB, as the resource manager has it. Absent: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Memory that the resource manager can still give out there, in MiB. Absent: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_mb: Option<u64>,
    /// Since when its agent is silent, in milliseconds. 0: it waits for an answer.
    pub silent_ms: u64,
}

/// Why a campaign has the slots that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignWhy {
    /// The resource manager's sentence about each work of the campaign; one of ours if it has none.
    pub sentences: Vec<String>,
    /// What can be done about it, a sentence each.
    pub hints: Vec<String>,
}
