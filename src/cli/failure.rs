//! Why a command did not do what it was asked, and what the shell gets to see of it.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed. Scripts rely on the numbers; clap itself ends with 2 for a command line
/// that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Refused, or a check failed.
    Refused,
    /// No daemon answered.
    Unreachable,
    /// Who asks may not.
    Unauthorised,
    /// What it is about does not exist.
    NotFound,
    /// Something else came first.
    Conflict,
    /// It is not kept any more.
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
    /// How the process ends.
    pub exit: Exit,
    /// What to say. `None`: it has been said.
    pub error: Option<anyhow::Error>,
}

impl Failure {
    /// A failure that ends with `exit` and says `message`.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Failure {
        Failure { exit, error: Some(anyhow::anyhow!("{message}")) }
    }

    /// Whether what was asked for is not kept any more.
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
