//! Everything an administrator can ask for.

use crate::model::Topology;

/// An administrative act. Takes effect in the next cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take nodes out of scheduling; their fair-share work is evicted, other work stays.
    VaryOff {
        /// Which nodes; all of them must be known.
        nodes: Vec<String>,
        /// Why, for whoever looks at the node next.
        reason: String,
    },
    /// Put nodes back into scheduling.
    VaryOn {
        /// Which nodes; all of them must be known.
        nodes: Vec<String>,
    },
    /// These nodes are dead: their work is given up, but for reservations.
    NodesLost {
        /// Which nodes; all of them must be known and silent.
        nodes: Vec<String>,
        /// How that is known.
        reason: String,
    },
    /// These nodes are gone for good: nothing is said of them any more.
    ForgetNodes {
        /// Which nodes; all of them must be known and silent, with nothing booked there.
        nodes: Vec<String>,
        /// Why.
        reason: String,
    },
    /// Replace the configuration. Work whose class or pool it no longer has is blacklisted where
    /// it is until it leaves.
    Reconfigure(Box<Topology>),
}

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The nodes whose state it changed; the others were already so.
    pub changed: Vec<String>,
}

/// Why a command was refused. Nothing of it was done.
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
    /// Something is booked on some nodes.
    #[error(
        "something is still booked on {}; `apportion node show` says what. If the node is dead, `apportion node lost` gives its work up; what was given up stays until the orchestrator confirms it",
        .0.join(", ")
    )]
    StillInUse(Vec<String>),
}

/// A name that no node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNode {
    /// As asked for.
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
