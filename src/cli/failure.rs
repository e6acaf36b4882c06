//! Failures of commands, and their exit status for the shell.

use std::fmt;
use std::process::ExitCode;

/// Cause of a failure. Scripts rely on the numbers; clap itself ends with 2 for a wrong command
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Refused, or a check failed.
    Refused,
    /// No daemon answered.
    Unreachable,
    /// The caller lacks the right.
    Unauthorised,
    /// The named thing does not exist.
    NotFound,
    /// Another change came first.
    Conflict,
    /// The store has dropped it.
    Gone,
    /// The daemon's configuration is wrong. The number tells systemd not to start it again.
    Configuration,
    /// The exit status of a program that ran for this command.
    Status(u8),
}

impl From<FailureKind> for ExitCode {
    fn from(exit: FailureKind) -> ExitCode {
        ExitCode::from(match exit {
            FailureKind::Refused | FailureKind::Gone => 1,
            FailureKind::Unreachable => 3,
            FailureKind::Unauthorised => 4,
            FailureKind::NotFound => 5,
            FailureKind::Conflict => 6,
            FailureKind::Configuration => 78,
            FailureKind::Status(status) => status,
        })
    }
}

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// Exit status of the process.
    pub exit: FailureKind,
    /// Message for the caller. `None`: the command has printed it.
    pub error: Option<anyhow::Error>,
}

impl Failure {
    /// A failure that ends with `exit` and says `message`.
    pub fn new(exit: FailureKind, message: impl fmt::Display) -> Failure {
        Failure { exit, error: Some(anyhow::anyhow!("{message}")) }
    }

    /// True if the store has dropped the requested item.
    pub fn is_gone(&self) -> bool {
        self.exit == FailureKind::Gone
    }

    /// A failure that ends with `exit`, after output that says it all.
    pub fn silent(exit: FailureKind) -> Failure {
        Failure { exit, error: None }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure { exit: FailureKind::Refused, error: Some(error.into()) }
    }
}
