//! Commands of administrators.

use crate::model::Topology;

/// An administrative act. Takes effect in the next cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Take nodes out of scheduling; their fair-share work is evicted, other work stays.
    VaryOff {
        /// Names of the nodes; all of them must be known.
        nodes: Vec<String>,
        /// Reason, shown with the node.
        reason: String,
    },
    /// Put nodes back into scheduling.
    VaryOn {
        /// Names of the nodes; all of them must be known.
        nodes: Vec<String>,
    },
    /// These nodes are dead: their work is given up, but for reservations.
    NodesLost {
        /// Names of the nodes; all of them must be known and silent.
        nodes: Vec<String>,
        /// Evidence of the loss, for the audit log.
        reason: String,
    },
    /// Forget nodes that are gone for good.
    ForgetNodes {
        /// Names of the nodes; all of them must be known and silent, without shares or promises.
        nodes: Vec<String>,
        /// Reason, for the audit log.
        reason: String,
    },
    /// Replace the configuration. Work whose class or pool it no longer has is blacklisted where
    /// it is until it leaves.
    Reconfigure(Box<Topology>),
}

/// Effect of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Nodes whose state the command changed; other named nodes were already in that state.
    pub changed: Vec<String>,
}

/// Reason for refusing a command. A refused command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Some nodes never reported; with, for each, the nearest name that did.
    #[error("unknown node {}", list_unknown(.0))]
    UnknownNodes(Vec<UnknownNode>),
    /// No node was named.
    #[error("no node named; name at least one")]
    NoNodes,
    /// Some nodes report.
    #[error("{} still reports; stop its agent first, or vary it off", .0.join(", "))]
    StillReporting(Vec<String>),
    /// Shares, promises or unconfirmed losses remain on some nodes.
    #[error(
        "shares remain on {}; `apportion node show` lists them. If the node is dead, run `apportion node lost`; a lost share remains until the orchestrator confirms its end",
        .0.join(", ")
    )]
    StillInUse(Vec<String>),
}

/// A name that no node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNode {
    /// Name as requested.
    pub name: String,
    /// The node with the most similar name, if any is similar.
    pub nearest: Option<String>,
}

fn list_unknown(nodes: &[UnknownNode]) -> String {
    let describe = |node: &UnknownNode| match &node.nearest {
        Some(nearest) => format!("`{}` (did you mean `{nearest}`?)", node.name),
        None => format!("`{}`", node.name),
    };
    nodes.iter().map(describe).collect::<Vec<_>>().join(", ")
}
