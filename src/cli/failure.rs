//! Failures of commands, and their exit status for the shell.

use std::fmt;
use std::process::ExitCode;

/// Cause of a failure. Scripts rely on the numbers; clap itself ends with 2 for a wrong command
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Refused | Exit::Gone => 1,
            Exit::Unreachable => 3,
            Exit::Unauthorised => 4,
            Exit::NotFound => 5,
            Exit::Conflict => 6,
            Exit::Configuration => 78,
            Exit::Status(status) => status,
        })
    }
}

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// Exit status of the process.
    pub exit: Exit,
    /// Message for the caller. `None`: the command has printed it.
    pub error: Option<anyhow::Error>,
}

impl Failure {
    /// A failure that ends with `exit` and says `message`.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Failure {
        Failure { exit, error: Some(anyhow::anyhow!("{message}")) }
    }

    /// True if the store has dropped the requested item.
    pub fn is_gone(&self) -> bool {
        self.exit == Exit::Gone
    }

    /// A failure that ends with `exit`, after output that says it all.
    pub fn silent(exit: Exit) -> Failure {
        Failure { exit, error: None }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure { exit: Exit::Refused, error: Some(error.into()) }
    }
}
