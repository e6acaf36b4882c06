//! What can be followed: every change that an orchestrator or an operator acts upon, in order.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NodeState, PreemptionRule, Reason, RemovalReason};

/// Some events, in order and without a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events; none if there are no new ones.
    pub events: Vec<Event>,
    /// What to ask `since` the next time.
    pub sequence: u64,
    /// Whether there are more to be had at once.
    pub more: bool,
}

/// Something that came about in a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number: one more than that of the event before.
    pub sequence: u64,
    /// The cycle.
    pub cycle: u64,
    /// When that ran, in milliseconds since the epoch.
    pub at_ms: i64,
    /// What came about.
    #[serde(flatten)]
    pub what: Happening,
}

/// What came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Happening {
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
    /// Work that is not considered at all.
    Refused {
        /// The work.
        work: Vec<RefusedWork>,
    },
    /// Nodes that are new, or whose state or size is another.
    Nodes {
        /// The nodes, by name.
        nodes: Vec<ChangedNode>,
    },
    /// Something an administrator did.
    Administration {
        /// What, in a word: `vary-off`.
        action: String,
        /// To which nodes; empty where it is not about nodes.
        nodes: Vec<String>,
        /// Why, where a reason was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl Happening {
    /// What `body` says, which is of this kind. Any would be read by its own type too, but not before
    /// all of it is a tree of words and numbers, which takes several times as much: for what comes
    /// one by one that is nothing, and thousands of shares come at once.
    ///
    /// # Errors
    ///
    /// If it is not of that kind.
    pub fn read(kind: &str, body: &str) -> serde_json::Result<Happening> {
        match kind {
            "added" => {
                serde_json::from_str(body).map(|Shares { shares }| Happening::Added { shares })
            }
            "removed" => {
                serde_json::from_str(body).map(|Shares { shares }| Happening::Removed { shares })
            }
            "nodes" => serde_json::from_str(body).map(|Nodes { nodes }| Happening::Nodes { nodes }),
            _ => serde_json::from_str(body),
        }
    }
}

/// What an event of shares has besides its kind.
#[derive(Deserialize)]
struct Shares<T> {
    shares: Vec<T>,
}

/// What an event of nodes has besides its kind.
#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<ChangedNode>,
}

/// A share to start a process in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedShare {
    /// Whose it is.
    pub job: u64,
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Its memory.
    pub memory_mb: u64,
}

/// A share to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedShare {
    /// Whose it is.
    pub job: u64,
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Whether its node died: there is nothing to stop, only an entry to delete.
    pub purge: bool,
    /// Why it has to go.
    pub reason: RemovalReason,
    /// Under which rule it was preempted. Absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<PreemptionRule>,
    /// For which job it was preempted. Absent where it was for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneficiary: Option<u64>,
}

/// Work that is not considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedWork {
    /// The work.
    pub job: u64,
    /// Why.
    pub reason: Reason,
}

/// A node that is new or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedNode {
    /// Its name.
    pub node: String,
    /// What holds of it now.
    pub states: Vec<NodeState>,
    /// What held before. Absent: it is new.
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
            let plain: Happening = serde_json::from_str(body).unwrap();
            let kind = plain.kind();
            assert_eq!(Happening::read(kind, body).unwrap(), plain, "{kind}");
            assert_eq!(serde_json::to_string(&plain).unwrap(), body);
        }
        assert!(Happening::read("nodes", bodies[0]).is_err());
    }
}
