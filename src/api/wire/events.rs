//! Events: every change that an orchestrator or an operator acts upon, in order.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NodeState, PreemptionRule, Reason, RemovalReason};

/// Some events, in order and without a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events; none if there are no new ones.
    pub events: Vec<Event>,
    /// Value of `since` for the next request.
    pub sequence: u64,
    /// True if a next request gets further events at once.
    pub more: bool,
}

/// A change that a cycle made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Number of the event: 1 more than that of the event before.
    pub sequence: u64,
    /// The cycle.
    pub cycle: u64,
    /// Time of the cycle, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Kind and content of the event.
    #[serde(flatten)]
    pub what: FeedEvent,
}

/// Kind and content of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FeedEvent {
    /// Shares to start a process in.
    Added {
        /// The shares, by job.
        shares: Vec<AddedShare>,
    },
    /// Shares to give up.
    Removed {
        /// The shares, by job.
        shares: Vec<RemovedShare>,
    },
    /// Jobs that are not considered at all.
    Refused {
        /// The jobs.
        work: Vec<RefusedWork>,
    },
    /// Nodes that are new, or that changed their state or size.
    Nodes {
        /// The nodes, by name.
        nodes: Vec<ChangedNode>,
    },
    /// A command of an administrator.
    Administration {
        /// Name of the command: `vary-off`.
        action: String,
        /// To which nodes; empty where it is not about nodes.
        nodes: Vec<String>,
        /// Reason, if the administrator named a reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl FeedEvent {
    /// Parses `body` as an event of `kind`. The derived parser accepts every kind, but first builds
    /// a tree of the whole body, at several times the cost. Thousands of shares or nodes may come
    /// at once, so their kinds are parsed directly.
    ///
    /// # Errors
    ///
    /// If it is not of that kind.
    pub fn read(kind: &str, body: &str) -> serde_json::Result<FeedEvent> {
        match kind {
            "added" => {
                serde_json::from_str(body).map(|Shares { shares }| FeedEvent::Added { shares })
            }
            "removed" => {
                serde_json::from_str(body).map(|Shares { shares }| FeedEvent::Removed { shares })
            }
            "nodes" => serde_json::from_str(body).map(|Nodes { nodes }| FeedEvent::Nodes { nodes }),
            _ => serde_json::from_str(body),
        }
    }
}

/// Fields of an event of shares besides its kind.
#[derive(Deserialize)]
struct Shares<T> {
    shares: Vec<T>,
}

/// Fields of an event of nodes besides its kind.
#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<ChangedNode>,
}

/// A share to start a process in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedShare {
    /// Number of the share's job.
    pub job: u64,
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Memory of the share.
    pub memory_mb: u64,
}

/// A share to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedShare {
    /// Number of the share's job.
    pub job: u64,
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// True if the share's node died: no process is left to stop, only an entry to delete.
    pub purge: bool,
    /// Reason for the removal.
    pub reason: RemovalReason,
    /// Under which rule it was preempted. Absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<PreemptionRule>,
    /// For which job it was preempted. Absent where it was for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneficiary: Option<u64>,
}

/// A job that is not considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedWork {
    /// Number of the job.
    pub job: u64,
    /// Reason for the refusal.
    pub reason: Reason,
}

/// A node that is new or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedNode {
    /// Name of the node.
    pub node: String,
    /// Present states of the node.
    pub states: Vec<NodeState>,
    /// States before the change. Absent for a new node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states_before: Option<Vec<NodeState>>,
    /// Memory it reported.
    pub memory_mb: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_by_its_kind_is_what_its_type_reads() {
        let bodies = [
            r#"{"kind":"added","shares":[{"job":1,"share":2,"node":"n1","memory_mb":3}]}"#,
            r#"{"kind":"removed","shares":[{"job":1,"share":2,"node":"n1","purge":true,"reason":"node_died"}]}"#,
            r#"{"kind":"nodes","nodes":[{"node":"n1","states":["up"],"memory_mb":3}]}"#,
            r#"{"kind":"refused","work":[{"job":1,"reason":{"code":"unknown_class","sentence":"no"}}]}"#,
            r#"{"kind":"administration","action":"vary-off","nodes":["n1"],"reason":"fan"}"#,
        ];
        for body in bodies {
            let plain: FeedEvent = serde_json::from_str(body).unwrap();
            let kind = plain.kind();
            assert_eq!(FeedEvent::read(kind, body).unwrap(), plain, "{kind}");
            assert_eq!(serde_json::to_string(&plain).unwrap(), body);
        }
        assert!(FeedEvent::read("nodes", bodies[0]).is_err());
    }
}
