//! Events of nodes and clusters, and classes of all events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Code of the event that the notify hook of the site fails.
pub const NOTIFY_FAILED: &str = "notify-failed";

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventClass {
    /// A cluster.
    Cluster,
    /// A node.
    Node,
    /// A task.
    Task,
    /// A campaign.
    Campaign,
    /// The notify hook of the site.
    Notify,
    /// A remark of an operator.
    Log,
}

impl EventClass {
    /// Every class, in the order of the declaration.
    pub const ALL: [EventClass; 6] = [
        EventClass::Cluster,
        EventClass::Node,
        EventClass::Task,
        EventClass::Campaign,
        EventClass::Notify,
        EventClass::Log,
    ];

    /// The word in the database, on the wire and in texts.
    pub fn word(self) -> &'static str {
        match self {
            EventClass::Cluster => "cluster",
            EventClass::Node => "node",
            EventClass::Task => "task",
            EventClass::Campaign => "campaign",
            EventClass::Notify => "notify",
            EventClass::Log => "log",
        }
    }

    /// The class of that word; `None` if there is no such word.
    pub fn from_word(word: &str) -> Option<EventClass> {
        EventClass::ALL.into_iter().find(|class| class.word() == word)
    }
}

/// An event of a node or a cluster. While it is open, no task begins there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GridEvent {
    /// Number of the event.
    pub id: u64,
    /// Subject of the event: `node`, `cluster`, or `log` for a remark without effect.
    pub class: EventClass,
    /// Name of the node or cluster. The cluster of this orchestrator is `local`.
    pub name: String,
    /// A stable word: `filed` by an operator, or `bad-node` for faults of several campaigns.
    pub code: String,
    /// The operator, or `apportion`.
    pub who: String,
    /// Time of its begin, in milliseconds since the epoch.
    pub opened_ms: u64,
    /// Time of its end, in milliseconds since the epoch. Absent: it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<u64>,
    /// The event that caused it, and closes it with itself. Absent: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// A sentence.
    pub text: String,
}

/// A node that a campaign avoids, among the events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignFault {
    /// The campaign.
    pub campaign: u64,
    /// The node.
    pub node: String,
    /// A stable word: `sink` or `failing`.
    pub code: String,
    /// Time since which the node is avoided, in milliseconds since the epoch.
    pub opened_ms: u64,
    /// The event of the node that closes it with itself. Absent: a retest does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// A sentence.
    pub text: String,
}

/// Events of nodes and clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GridEventList {
    /// Events that were filed, the newest first.
    pub events: Vec<GridEvent>,
    /// Nodes that campaigns avoid now.
    pub faults: Vec<CampaignFault>,
}

/// An event to be filed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGridEvent {
    /// Subject of the event: `node`, `cluster` or `log`.
    pub class: EventClass,
    /// Name of the node or cluster; may be empty for a remark.
    #[serde(default)]
    pub name: String,
    /// A sentence for other operators.
    pub text: String,
    /// The open event that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
}

/// Number of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FiledNumber {
    /// The number.
    pub id: u64,
}
