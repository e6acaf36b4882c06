//! Asks before something is done to work that runs.

use std::io::{self, IsTerminal, Write};

use super::failure::{Exit, Failure};
use super::output::print;

/// Shows what would come of it, and asks whoever sits at the terminal. A script must have agreed
/// before: `otherwise` tells it how.
///
/// # Errors
///
/// If nobody agrees.
pub fn ask(impact: &str, otherwise: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Refused, format!("{impact}\n{otherwise}")));
    }
    print(impact)?;
    let mut error = io::stderr().lock();
    write!(error, "proceed? [y/N] ")?;
    error.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Refused, "nothing was done")),
    }
}
