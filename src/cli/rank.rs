//! The hidden commands of a gang's ranks: `rank-server FILE`, and `rank-shell FILE HOST COMMAND…`. Slots and
//! their wrappers call them.

use std::ffi::OsString;
use std::path::Path;

use anyhow::anyhow;

use super::failure::{Failure, FailureKind};
use crate::rank;

/// Name of the command that serves a rank.
pub const SERVER: &str = "rank-server";

/// Name of the command that starts a program at another rank.
pub const SHELL: &str = "rank-shell";

/// Exit status of `ssh` for its own failures.
const OWN_FAILURE: u8 = 255;

/// Runs the command in `arguments`, without the commands of people: each rank has a server, and starts must be
/// quick.
///
/// # Errors
///
/// If it fails, or with the exit status of the program.
pub fn run_alone(arguments: &[OsString]) -> Result<(), Failure> {
    let exit = FailureKind::Status(OWN_FAILURE);
    let failed = |error: anyhow::Error| Failure { exit, error: Some(error) };
    let file = arguments.get(2).map(Path::new);
    let file = file.ok_or_else(|| failed(anyhow!("the file of the ranks is not named")))?;
    if arguments.get(1).is_some_and(|word| word == SERVER) {
        return rank::serve(file).map_err(|error| failed(error.into()));
    }
    let words: Option<Vec<String>> =
        arguments.iter().skip(3).map(|word| Some(word.to_str()?.to_owned())).collect();
    let words = words.ok_or_else(|| failed(anyhow!("an argument is not UTF-8")))?;
    match rank::shell(file, &words).map_err(|error| failed(error.into()))? {
        0 => Ok(()),
        status => Err(Failure::silent(FailureKind::Status(status))),
    }
}
