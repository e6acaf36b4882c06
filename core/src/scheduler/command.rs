//! Commands of administrators.

use crate::model::{JobId, JobSpec, Name, ShareId, Topology, Window};

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
    /// Keep nodes for some work, or for none, for a span of time.
    Reserve {
        /// The window.
        window: Box<Window>,
        /// True if it is entered although work that stays is in the way; the work stays.
        is_forced: bool,
    },
    /// Remove a window.
    Unreserve {
        /// Name of the window.
        name: Name,
    },
    /// Accept or refuse urgent work in the next cycle.
    Urgent(Box<JobSpec>),
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
    /// Another window has the name.
    #[error(
        "there is another reservation or maintenance `{0}`; delete it first, or give another name"
    )]
    WindowExists(Name),
    /// A window without length.
    #[error("`{0}` does not end after its start")]
    WindowEndsBeforeStart(Name),
    /// A window of the past.
    #[error("`{0}` would be over already")]
    WindowIsOver(Name),
    /// Two windows at the same time on the same node.
    #[error(
        "`{0}` keeps some of these nodes at the same time; choose other nodes, or another time"
    )]
    WindowsCollide(Name),
    /// Work that stays is on the nodes when the window opens.
    #[error("work that stays would still be there: {}; choose other nodes, or repeat with force", list_shares(.0))]
    WindowBlocked(Vec<ShareId>),
    /// No more windows can be kept.
    #[error("there are {most} reservations and maintenances; delete some first")]
    TooManyWindows {
        /// The most that there can be.
        most: usize,
    },
    /// Nothing is planned yet since the start.
    #[error(
        "nothing is planned yet after the start, so nothing urgent is decided; ask again in a moment"
    )]
    NotPlanning,
    /// Another job has the number of an urgent request.
    #[error("job {0} is known, and not as urgent work; give the urgent job a number of its own")]
    JobIsKnown(JobId),
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

fn list_shares(shares: &[ShareId]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = shares.iter().take(SHOWN).map(|id| format!("share {id}")).collect();
    match shares.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn list_unknown(nodes: &[UnknownNode]) -> String {
    let describe = |node: &UnknownNode| match &node.nearest {
        Some(nearest) => format!("`{}` (did you mean `{nearest}`?)", node.name),
        None => format!("`{}`", node.name),
    };
    nodes.iter().map(describe).collect::<Vec<_>>().join(", ")
}
