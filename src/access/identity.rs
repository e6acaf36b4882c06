//! Who talks to us: where from, as what, and how it is called on record.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::role::{Role, Rule};
use crate::model::Name;

/// The other end of a connection, as the kernel tells it. No name service is asked, and no header
/// that anybody could write is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP, from this address.
    Tcp {
        /// Its address.
        address: SocketAddr,
        /// Whether it is encrypted.
        is_tls: bool,
    },
    /// Over the unix socket.
    Local {
        /// The user of the process.
        uid: u32,
        /// Its primary group.
        gid: u32,
        /// The process, where the kernel says.
        pid: Option<i32>,
    },
    /// The orchestrator in the daemon's own process: over no connection.
    Inside,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp { address, is_tls: true } => write!(f, "tls {address}"),
            Peer::Tcp { address, is_tls: false } => write!(f, "tcp {address}"),
            Peer::Local { pid: Some(pid), .. } => write!(f, "socket pid {pid}"),
            Peer::Local { pid: None, .. } => f.write_str("socket"),
            Peer::Inside => f.write_str("inside"),
        }
    }
}

/// The nodes that an agent speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Any: nobody has to say who they are.
    All,
    /// These, letter by letter.
    Only(Arc<BTreeSet<String>>),
}

impl Nodes {
    /// None.
    pub fn none() -> Nodes {
        Nodes::Only(Arc::default())
    }

    /// Whether `node` is one of them.
    pub fn contain(&self, node: &str) -> bool {
        match self {
            Nodes::All => true,
            Nodes::Only(names) => names.contains(node),
        }
    }
}

/// Somebody who is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What it is called on record: the name of a token, or of a user of this machine.
    pub name: Name,
    /// `None`: every one, for nobody has to say who they are.
    pub role: Option<Role>,
    /// The user that it submits campaigns as; `*` for any. `None`: it is not known by its token.
    pub user: Option<Name>,
    /// The nodes it may report.
    pub nodes: Nodes,
    /// Where it comes from.
    pub peer: Peer,
}

impl Identity {
    /// Whoever it is, where nobody has to say.
    pub fn anybody(peer: Peer) -> Identity {
        let name = Name::new_static("anybody");
        Identity { name, role: None, user: None, nodes: Nodes::All, peer }
    }

    /// Whether it may do what `rule` is about.
    pub fn may(&self, rule: Rule) -> bool {
        match (rule, self.role) {
            // A submitter may see whatever readers may.
            (Rule::Only(roles), Some(Role::Submitter)) => roles.contains(&Role::Reader),
            (Rule::Only(roles), Some(role)) => roles.contains(&role),
            (Rule::Submit, Some(role)) => {
                let is_local = matches!(self.peer, Peer::Local { .. }) && self.user.is_none();
                matches!(role, Role::Submitter | Role::Operator) || is_local && role == Role::Reader
            }
            (Rule::Open | Rule::Terse | Rule::Anybody, _)
            | (Rule::Only(_) | Rule::Submit, None) => true,
        }
    }

    /// The orchestrator in the daemon's own process.
    pub fn own_orchestrator() -> Identity {
        let name = Name::new_static("orchestrator");
        let (role, nodes) = (Some(Role::Orchestrator), Nodes::none());
        Identity { name, role, user: None, nodes, peer: Peer::Inside }
    }

    /// How it stands on record.
    pub fn actor(&self) -> Actor {
        Actor { who: self.name.to_string(), origin: self.peer.to_string() }
    }
}

/// Who did something, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The name of a token, or of a user of this machine.
    pub who: String,
    /// From where.
    pub origin: String,
}

impl Actor {
    /// The daemon itself, on a signal or at a start.
    pub fn daemon(origin: &str) -> Actor {
        Actor { who: "daemon".to_owned(), origin: origin.to_owned() }
    }
}
