//! `apportion up --detach`: the same in the background, in a session of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::super::failure::{Failure, FailureKind};
use super::super::output::print;
use super::folder::Folder;

/// Starts `apportion up` with `arguments` in the background, and waits until it says that it is ready.
///
/// # Errors
///
/// If it ends before; with what it said.
pub fn start(folder: &Folder, arguments: &[OsString]) -> Result<(), Failure> {
    let log = folder.at("up.log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.arg("up").args(arguments).arg("--in-background");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn()?;
    let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    let mut is_ready = false;
    for line in lines.into_iter().flatten() {
        let line = line?;
        print(&line)?;
        is_ready = line.starts_with("next: ");
        if is_ready {
            break;
        }
    }
    if is_ready {
        return Ok(());
    }
    let status = child.wait()?;
    let says = fs::read_to_string(&log).unwrap_or_default();
    let says = says.trim().trim_start_matches("error: ").to_owned();
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Err(Failure::new(code.map_or(FailureKind::Refused, FailureKind::Status), says))
}
