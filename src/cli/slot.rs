//! The hidden commands of slots and of their tasks.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, Parser};

use super::failure::{Failure, FailureKind};
use crate::orchestrator::wire::{AttemptId, Channel};
use crate::slot::wire::ReadRequest;
use crate::slot::{self, ProcessChange, SlotAct, UserIdentity};

/// End of the help of `checkpoint`.
pub const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  apportion checkpoint                             in the script of a task, after it saved
  trap 'save && apportion checkpoint' USR1         when it is asked to save

The same without this command: touch \"$APPORTION_CHECKPOINT_DIR/done\". A task that is ended loses what
it did since then, and no more.";

/// Runs a slot, or reads the state of a dead slot. Agents call it.
#[derive(Debug, Args)]
pub struct SlotArgs {
    /// The folder of the slot
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Become this user first: UID:GID:GROUP,GROUP
    #[arg(long, value_name = "IDENTITY")]
    pub r#become: Option<UserIdentity>,
    /// Join this cgroup first
    #[arg(long, value_name = "DIR")]
    pub join: Vec<PathBuf>,
    /// Leave programs with the setuid bit their effect
    #[arg(long)]
    pub allow_setuid: bool,
    /// Allow so many more processes and threads than its user has now
    #[arg(long, value_name = "N")]
    pub more_processes: Option<u64>,
    /// Report a dead slot
    #[arg(long, conflicts_with_all = ["read", "clear"])]
    pub report: bool,
    /// With --report: results behind this number only
    #[arg(long, value_name = "N", default_value_t = 0, requires = "report")]
    pub acked: u64,
    /// Read output that a dead slot kept: CAMPAIGN.TASK.ATTEMPT.out or .err
    #[arg(long, value_name = "STREAM", value_parser = parse_stream, conflicts_with = "clear")]
    pub read: Option<(AttemptId, Channel)>,
    /// With --read: from this byte on
    #[arg(long, value_name = "N", default_value_t = 0, requires = "read")]
    pub from: u64,
    /// Remove all that is in the folder of a dead slot
    #[arg(long)]
    pub clear: bool,
}

fn parse_stream(text: &str) -> Result<(AttemptId, Channel), String> {
    let form = || "write CAMPAIGN.TASK.ATTEMPT.out or .err".to_owned();
    let parts: Vec<&str> = text.split('.').collect();
    let [campaign, task, attempt, channel] = parts.as_slice() else { return Err(form()) };
    let number = |text: &str| text.parse().map_err(|_| form());
    let channel = match *channel {
        "out" => Channel::Out,
        "err" => Channel::Err,
        _ => return Err(form()),
    };
    let (campaign, task, attempt) = (number(campaign)?, number(task)?, number(attempt)?);
    Ok((AttemptId { campaign, task, attempt }, channel))
}

/// The name of the command.
pub const NAME: &str = "slot";

/// The command alone.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    args: SlotArgs,
}

/// Runs the slot's command line without the commands of people: each share has a slot, so a slot
/// must cost little.
///
/// # Errors
///
/// If the flags are wrong, or it fails.
pub fn run_alone(arguments: &[OsString]) -> Result<(), Failure> {
    let words = arguments.iter().take(1).chain(arguments.iter().skip(2));
    let alone = Alone::try_parse_from(words);
    run(&alone.map_err(|error| Failure::new(FailureKind::Refused, error))?.args)
}

/// Runs the slot, or does what else is asked in its folder.
///
/// # Errors
///
/// If that fails.
pub fn run(args: &SlotArgs) -> Result<(), Failure> {
    let change = ProcessChange {
        identity: args.r#become.clone(),
        cgroups: args.join.clone(),
        allows_setuid: args.allow_setuid,
        more_processes: args.more_processes,
    };
    let act = match args.read {
        _ if args.report => SlotAct::Report(args.acked),
        _ if args.clear => SlotAct::Clear,
        Some((task, channel)) => {
            SlotAct::Read(ReadRequest { request: 0, task, channel, from: args.from })
        }
        None => SlotAct::Run,
    };
    Ok(slot::run(&args.folder, &change, &act)?)
}

/// Confirms a checkpoint of the task that calls it.
///
/// # Errors
///
/// If no task calls it, or its folder for checkpoints cannot be written.
pub fn checkpoint() -> Result<(), Failure> {
    let folder = std::env::var_os("APPORTION_CHECKPOINT_DIR").ok_or_else(|| {
        anyhow!("APPORTION_CHECKPOINT_DIR is not set; only tasks have checkpoints to confirm")
    })?;
    let folder = PathBuf::from(folder);
    let done = folder.join("done");
    let write = || {
        fs::create_dir_all(&folder)?;
        // A new file has a new time, also where a clock is coarse.
        let new = folder.join(format!("done.{}", std::process::id()));
        fs::write(&new, "")?;
        fs::rename(&new, &done)
    };
    write().with_context(|| format!("cannot write {}", done.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_an_attempt_and_a_channel() {
        let task = AttemptId { campaign: 9, task: 17, attempt: 2 };
        assert_eq!(parse_stream("9.17.2.err"), Ok((task, Channel::Err)));
        for text in ["9.17.2", "9.17.2.log", "../9.17.2.out", "9.17.-2.out", ""] {
            assert!(parse_stream(text).is_err(), "{text}");
        }
    }
}
