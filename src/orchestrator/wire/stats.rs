//! Progress of campaigns for people: figures, events, and the nodes that run slots.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::grid_events::EventClass;
use super::{CampaignSummary, GridCluster, HeadClock, Rung};

/// Spread of values: half of them are not above `p50`, 95 % are not above `p95`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spread {
    /// Number of values. 0: no value is known, and all figures are 0.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// The value that 95 % of the values do not exceed.
    pub p95: u64,
    /// The largest.
    pub max: u64,
}

/// The figures of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignStats {
    /// Counts of the campaign.
    pub campaign: CampaignSummary,
    /// Memory of the slots, in MiB.
    pub memory_mb: u64,
    /// Memory that attempts used, in MiB, of at most 10,000 attempts with the highest task numbers.
    pub rss_mb: Spread,
    /// Times of the same attempts, in milliseconds.
    pub ms: Spread,
    /// Attempts that have ended.
    pub attempts: u64,
    /// Attempts that ended before a further attempt of the same task: ended attempts less final
    /// tasks.
    pub repeated: u64,
    /// Failed tasks of a million that ended, done or failed.
    pub failed_ppm: u64,
    /// Repeated attempts of a million attempts that ended.
    pub repeated_ppm: u64,
    /// Tasks done in the last hour before the last end; the hour is shorter if the campaign is.
    pub done_lately: u64,
    /// Length of that hour, in milliseconds.
    pub lately_ms: u64,
    /// Time at which the last attempt ended, in milliseconds since the epoch. Absent: no attempt
    /// has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end_ms: Option<u64>,
    /// Time until no task is left at that rate, in milliseconds. Absent: no task is left, or no
    /// task was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// Attempts by node, of at most 10,000 attempts with the highest task numbers.
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
    /// Mean time of the attempts that were done, in milliseconds; 0 until an attempt is done.
    pub mean_ms: u64,
}

/// An event of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignEvent {
    /// Number of the event. Numbers grow.
    pub sequence: u64,
    /// Time of the event, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The campaign.
    pub campaign: u64,
    /// The owner of the campaign.
    pub user: String,
    /// Task, if the event concerns a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// Node, if the event concerns a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Subject of the event: `task`, `node`, `notify` or `campaign`.
    #[serde(default = "of_campaign")]
    pub class: EventClass,
    /// A stable word.
    pub code: String,
    /// A sentence; empty for callers that are neither owner nor operator.
    pub text: String,
}

/// Subject of an event of an orchestrator that names none.
fn of_campaign() -> EventClass {
    EventClass::Campaign
}

/// Events of campaigns, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignEvents {
    /// The events.
    pub events: Vec<CampaignEvent>,
    /// Number to send as `since` to get the next events.
    pub sequence: u64,
    /// True if more events exist already.
    pub more: bool,
}

/// The nodes that run slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grid {
    /// The clock by which forwarded campaigns are leased. Absent: this version knows no leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<HeadClock>,
    /// The clusters of the grid as the last pass of the router saw them, the router's own first.
    /// Empty: no other cluster is configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<GridCluster>,
    /// Sentence of the open event for which no task begins in this cluster. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Nodes whose agents run work, by name.
    pub nodes: Vec<GridNode>,
}

/// A node that runs slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GridNode {
    /// Name of the node.
    pub node: String,
    /// Enforcement of memory limits on the node.
    pub limits: Rung,
    /// Only user whose work can run on the node. Absent: the node can run work of several users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<String>,
    /// Slots that are not gone.
    pub slots: u64,
    /// Attempts that run.
    pub running: u64,
    /// Memory of the slots, in MiB.
    pub used_mb: u64,
    /// Memory of the node at the resource manager, in MiB. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Free memory of the node at the resource manager, in MiB. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_mb: Option<u64>,
    /// Silence of the agent, in milliseconds. 0: the agent waits for an answer.
    pub silent_ms: u64,
}

/// Reasons for the number of a campaign's slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignWhy {
    /// The resource manager's sentence about each work of the campaign. Without a work, the
    /// orchestrator's own sentence.
    pub sentences: Vec<String>,
    /// Remedies, a sentence each.
    pub hints: Vec<String>,
}
