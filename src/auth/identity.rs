//! Identity of a caller: its origin, its role, and its name in the audit log.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::role::{Permission, Role};
use crate::model::Name;

/// The other end of a connection, as the kernel reports it. No name service is asked, and no header
/// is trusted, since any client can write a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP, from this address.
    Tcp {
        /// Address and port of the client.
        address: SocketAddr,
        /// True if the connection is encrypted.
        is_tls: bool,
    },
    /// Over the unix socket.
    Local {
        /// The user of the process.
        uid: u32,
        /// Primary group of the process.
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

/// Nodes that an agent may report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeScope {
    /// Any node: no tokens are configured.
    All,
    /// These, letter by letter.
    Only(Arc<BTreeSet<String>>),
}

impl NodeScope {
    /// None.
    pub fn none() -> NodeScope {
        NodeScope::Only(Arc::default())
    }

    /// True if `node` belongs to the set.
    pub fn contain(&self, node: &str) -> bool {
        match self {
            NodeScope::All => true,
            NodeScope::Only(names) => names.contains(node),
        }
    }
}

/// A caller that is authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name in the audit log: the name of a token, or of a user of this computer.
    pub name: Name,
    /// Role of the caller. `None`: no tokens are configured, so every role is granted.
    pub role: Option<Role>,
    /// The user that it submits campaigns as; `*` for any. `None`: it is not known by its token.
    pub user: Option<Name>,
    /// The nodes it may report.
    pub nodes: NodeScope,
    /// Origin of the request.
    pub peer: Peer,
}

impl Identity {
    /// Identity of every TCP client while no tokens are configured.
    pub fn unidentified(peer: Peer) -> Identity {
        let name = Name::new_static("anybody");
        Identity { name, role: None, user: None, nodes: NodeScope::All, peer }
    }

    /// True if `rule` permits the request.
    pub fn may(&self, rule: Permission) -> bool {
        match (rule, self.role) {
            // A submitter may read all that a reader may read.
            (Permission::Only(roles), Some(Role::Submitter)) => roles.contains(&Role::Reader),
            (Permission::Only(roles), Some(role)) => roles.contains(&role),
            (Permission::Submit, Some(role)) => {
                let is_local = matches!(self.peer, Peer::Local { .. }) && self.user.is_none();
                matches!(role, Role::Submitter | Role::Operator) || is_local && role == Role::Reader
            }
            (Permission::Open | Permission::Terse | Permission::Authenticated, _)
            | (Permission::Only(_) | Permission::Submit, None) => true,
        }
    }

    /// The orchestrator in the daemon's own process.
    pub fn own_orchestrator() -> Identity {
        let name = Name::new_static("orchestrator");
        let (role, nodes) = (Some(Role::Orchestrator), NodeScope::none());
        Identity { name, role, user: None, nodes, peer: Peer::Inside }
    }

    /// Returns the caller as the audit log names it.
    pub fn actor(&self) -> Actor {
        Actor { who: self.name.to_string(), origin: self.peer.to_string() }
    }
}

/// The author of an action, for the audit log.
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
