//! Reasons why a simulation cannot run, or why its result cannot be trusted.

use std::io;
use std::path::{Path, PathBuf};

use super::world::{ProcessIx, WorkIx};
use crate::model::{Millis, ShareId};

/// An error that ends a simulation without a result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A file or folder cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("write {}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// A file says something that makes no sense here.
    #[error("{}: {place}: {problem}; {remedy}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Place in the file.
        place: String,
        /// Description of the fault.
        problem: String,
        /// Remedy: the text that would be right.
        remedy: String,
    },
    /// The run broke a rule of the model: its figures would mean nothing.
    #[error("at {at} ms the run broke a rule of the model: {violation}")]
    Violated {
        /// Virtual time of the violation.
        at: Millis,
        /// The broken rule, with its numbers.
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

/// A fault in a file, found by code that does not know the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Place in the file.
    pub place: String,
    /// Description of the fault.
    pub problem: String,
    /// Remedy: the text that would be right.
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
    /// The scheduler put a process where there is no space, draining processes included.
    #[error(
        "node {node} is over-committed: a process of {asks} qshares was put where {free} are free"
    )]
    Overcommitted {
        /// The node.
        node: String,
        /// Qshares that the process needs.
        asks: u64,
        /// Free qshares of the node.
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
    #[error("{work} holds {held} processes and may hold {nodes}")]
    OverNodes {
        /// The job.
        work: WorkIx,
        /// Processes that the job holds.
        held: u64,
        /// Most processes that the job may hold.
        nodes: u64,
    },
    /// A process is said to have done more than it had thread time for.
    #[error("{process} worked {worked} ms of thread time in {had} ms")]
    Overworked {
        /// The process.
        process: ProcessIx,
        /// Useful, lost and initializing.
        worked: Millis,
        /// Threads times the time it was held.
        had: Millis,
    },
    /// The run did not come to an end.
    #[error("{left} jobs are not complete after 60 days")]
    Unfinished {
        /// Jobs that are not complete.
        left: u64,
    },
    /// The processes' useful time is not the items' time.
    #[error("processes did {useful} ms of useful work, the items take {items} ms")]
    WorkNotConserved {
        /// Useful time of all processes.
        useful: Millis,
        /// Time of all items.
        items: Millis,
    },
}
