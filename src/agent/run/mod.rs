//! The part of an agent that runs work: slots as the orchestrator orders them.
//!
//! ```text
//!  orchestrator ◄── head ── runner ──► keeper (one a slot) ──► slot ──► tasks
//!                            │            └► ladder, spool, records
//!                            └► relay (one a reader of output)
//! ```
//!
//! The answer of an exchange is the target state of every slot; the runner establishes it. The
//! agent itself handles no path or file of a user; processes of that user do. A slot survives the
//! agent, and the next agent finds it by its record, its process and its socket.

mod address;
mod bounds;
mod ending;
mod head;
mod inputs;
mod keeper;
mod known;
mod ladder;
mod levels;
mod node;
mod records;
mod relay;
mod retention;
mod runner;
mod spool;
mod sweep;
mod users;

use std::net::IpAddr;
use std::path::PathBuf;

use reqwest::Url;

pub use self::ending::end_slots;
pub use self::ladder::{Ladder, UnusedRung};
pub use self::records::ProcessIdentity;
pub use self::runner::Runner;
pub use self::users::{LocalAccount, LocalUsers, UserRules};

use crate::orchestrator::wire::Rung;

/// Settings for running work.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Address of the orchestrator.
    pub orchestrator: Url,
    /// The certificate of the authority that vouches for it, for `https`.
    pub authority: Option<PathBuf>,
    /// The file with the agent's token.
    pub token_file: Option<PathBuf>,
    /// The name of the node.
    pub node: String,
    /// Address of the node for other nodes. `None`: the address from which this node reaches the
    /// orchestrator.
    pub address: Option<IpAddr>,
    /// The folder for slots and their output.
    pub spool: PathBuf,
    /// Rules for the users that may run work.
    pub users: UserRules,
    /// The best way of limits to use; `None`: the best there is.
    pub limits: Option<Rung>,
    /// True if programs with the setuid bit keep their effect in tasks.
    pub allow_setuid: bool,
    /// The most processes and threads of a slot.
    pub max_processes: u32,
}

/// Reason why an agent cannot run work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RunError {
    #[error("{0}")]
    Users(String),
    #[error("cannot make the spool {}; name another with --spool", path.display())]
    Spool { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Records(String),
    #[error("cannot find the program of this process")]
    Program(#[source] std::io::Error),
    #[error(transparent)]
    Facts(#[from] super::FactsError),
    #[error(transparent)]
    Transport(#[from] crate::client::TransportError),
}
