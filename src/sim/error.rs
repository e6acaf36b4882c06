//! Why a simulation could not be run, or cannot be believed.

use std::io;
use std::path::{Path, PathBuf};

use super::world::{ProcessIx, WorkIx};
use crate::model::{Millis, ShareId};

/// What kept a simulation from giving a result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A file or folder cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file says something that makes no sense here.
    #[error("{}: {place}: {problem}; {remedy}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is wrong.
        problem: String,
        /// What would be right.
        remedy: String,
    },
    /// The run broke a rule of the model: its figures would mean nothing.
    #[error("at {at} ms the run broke a rule of the model: {violation}")]
    Violated {
        /// When, in virtual time.
        at: Millis,
        /// Which rule, and how.
        violation: Violation,
    },
}

impl SimError {
    /// Reads all of `path`.
    pub(super) fn reading(path: &Path) -> impl FnOnce(io::Error) -> SimError {
        let path = path.to_owned();
        move |source| SimError::Read { path, source }
    }

    /// Writes `path`.
    pub(super) fn writing(path: &Path) -> impl FnOnce(io::Error) -> SimError {
        let path = path.to_owned();
        move |source| SimError::Write { path, source }
    }

    /// A place in `path` that makes no sense.
    pub(super) fn malformed(path: &Path, flaw: Flaw) -> SimError {
        let Flaw { place, problem, remedy } = flaw;
        SimError::Malformed { path: path.to_owned(), place, problem, remedy }
    }
}

/// What is wrong in a file whose name the finder does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Where in the file.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub remedy: String,
}

impl Flaw {
    /// A flaw at `place`.
    pub(super) fn new(
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Flaw {
        Flaw { place: place.into(), problem: problem.into(), remedy: remedy.into() }
    }
}

/// A rule of the model that a run broke. MODEL section 10.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The scheduler put a process where there is no room, draining processes included.
    #[error(
        "node {node} is over-committed: a process of {asks} qshares was put where {free} are free"
    )]
    Overcommitted {
        /// The node.
        node: String,
        /// What the process needs.
        asks: u64,
        /// What was there.
        free: u64,
    },
    /// The scheduler put a process on a node that does not exist.
    #[error("share {share} is on node {node}, which does not exist")]
    NoSuchNode {
        /// The share.
        share: ShareId,
        /// The node.
        node: String,
    },
    /// A job has more processes than its file allows.
    #[error("{work} holds {held} processes and may hold {machines}")]
    OverMachines {
        /// Which job.
        work: WorkIx,
        /// What it holds.
        held: u64,
        /// What it may hold.
        machines: u64,
    },
    /// A process is said to have done more than it had thread time for.
    #[error("{process} worked {worked} ms of thread time in {had} ms")]
    Overworked {
        /// Which process.
        process: ProcessIx,
        /// Useful, lost and initializing.
        worked: Millis,
        /// Threads times the time it was held.
        had: Millis,
    },
    /// The run did not come to an end.
    #[error("{left} jobs are not complete after 60 days")]
    Unfinished {
        /// How many jobs are left.
        left: u64,
    },
    /// The processes' useful time is not the items' time.
    #[error("processes did {useful} ms of useful work, the items take {items} ms")]
    WorkNotConserved {
        /// What processes did.
        useful: Millis,
        /// What the items take.
        items: Millis,
    },
}
