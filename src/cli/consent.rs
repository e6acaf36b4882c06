//! Asks before something is done to work that runs.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::failure::{Failure, FailureKind};
use super::output::{complain, print, show};

/// Advice for scripts, which have to agree beforehand.
const OTHERWISE: &str = "nothing was done; say --yes to do it, or --dry-run to only look";

/// True if a person at a terminal can be asked.
pub fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Shows on standard output what would come of it, and asks at the terminal. A script must have agreed
/// before.
///
/// # Errors
///
/// If the answer is not yes, or there is no terminal.
pub fn ask<T: Serialize>(
    preview: &T,
    as_json: bool,
    render: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    if !can_ask() {
        show(preview, as_json, render)?;
        return Err(Failure::new(FailureKind::Refused, OTHERWISE));
    }
    // A program on standard output gets the outcome alone.
    if as_json {
        complain(&render(preview));
    } else {
        print(&render(preview))?;
    }
    let mut error = io::stderr().lock();
    write!(error, "proceed? [y/N] ")?;
    error.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(FailureKind::Refused, "nothing was done")),
    }
}
