//! Ranks of a gang: rank 0 starts programs at the other ranks, as `mpirun` does over `ssh`.
//!
//! ```text
//!  slot of rank 0 ─► mpirun ─► wrapper ─► rank-shell ──TCP──► rank-server ◄── slot of rank 2
//!                                                                └─► sh -c COMMAND
//! ```
//!
//! The slot of each rank listens before the gang begins, so that all ports are known. The slot of a
//! rank other than 0 starts [`serve`] with this listener as its standard input. [`shell()`] finds the
//! rank of a host, and both sides prove that they know the secret of the campaign before the server
//! starts a command. Output and commands are not encrypted, like the traffic of MPI itself.

mod file;
mod listen;
mod message;
mod proof;
mod server;
mod shell;

pub use file::{RankFiles, prepare, replace};
pub use listen::RankListener;
pub use server::serve;
pub use shell::shell;

use std::io;
use std::path::PathBuf;

/// Reason why a rank cannot be served, or a command cannot be started at it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RankError {
    #[error("cannot read the ranks of the gang in {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("standard input is no listener; only a slot starts this command")]
    Listener(#[source] io::Error),
    #[error("no host is named; write a host and a command, as for ssh")]
    NoHost,
    #[error("`{host}` is no node of this gang; its nodes are {nodes}")]
    NoNode { host: String, nodes: String },
    #[error("{host} is rank 0, which starts programs at other ranks and serves none")]
    Leader { host: String },
    #[error(
        "cannot reach rank {rank} on {host} at {address}; `apportion agent --address` there names an \
         address that other nodes reach"
    )]
    Unreachable { rank: u64, host: String, address: String, source: io::Error },
    #[error("rank {rank} on {host} does not know the secret of this gang")]
    Foreign { rank: u64, host: String },
    #[error("the connection to rank {rank} on {host} broke off")]
    Broken { rank: u64, host: String, source: io::Error },
    #[error("cannot start the command")]
    Start(#[source] io::Error),
}
