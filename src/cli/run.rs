//! Command that runs a task attached: its output here, its exit status ours.

use std::io::IsTerminal;
use std::path::Path;

use clap::Args;
use serde_json::{Map, Value};

use super::attached::{end_with_output, follow, has_ended, is_final, told, watch};
use super::failure::{Failure, FailureKind};
use super::place::OrchestratorArgs;
use super::run_gang;
use super::submit::{CampaignFlags, check, complete, send, stdin};

/// End of the help of `run`.
pub const EXAMPLES: &str = "\
Examples:
  apportion run --memory 4GB -- ./crunch input1
  printf 'b\\na\\n' | apportion run -- sort
  apportion run --nodes 4 --exclusive -- mpirun ./hello
  apportion run --nodes 4 --every-node -- sh -c 'echo $APPORTION_RANK of $APPORTION_RANKS'

Exit status: that of the program; 128 and the number of the signal that ended it; 124 over its time
limit, 125 not run, 126 not executable, 127 not found, 137 over its memory

The first Ctrl-C sends INT, a second one within 2 s cancels. If this command dies, the task goes on.";

/// Arguments of `run`, for a single task.
#[derive(Debug, Args)]
pub struct TaskRunArgs {
    /// Settings of the task.
    #[command(flatten)]
    pub asked: CampaignFlags,
    /// Submit it, say its name, and leave
    #[arg(long)]
    pub detach: bool,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Runs a task to its end.
///
/// # Errors
///
/// With the exit status of the task, if that is not 0; if it was not run, with 125.
pub async fn run(args: &TaskRunArgs) -> Result<(), Failure> {
    let status = Box::pin(attached(args)).await.map_err(|failure| {
        let is_ours = [FailureKind::Unreachable, FailureKind::Unauthorised].contains(&failure.exit);
        let exit = if is_ours { failure.exit } else { FailureKind::Status(125) };
        Failure { exit, ..failure }
    })?;
    if status == 0 { Ok(()) } else { Err(Failure::silent(FailureKind::Status(status))) }
}

async fn attached(args: &TaskRunArgs) -> Result<u8, Failure> {
    let mut document = Map::new();
    document.insert("command".to_owned(), Value::from(args.command.clone()));
    let is_piped = !std::io::stdin().is_terminal() && !is_null();
    let stdin = if is_piped { stdin(Some(Path::new("-")), &mut document)? } else { None };
    complete(&args.asked, &args.place, &mut document)?;
    let (spec, _) = check(&document, "", None)?;
    let orchestrator = args.place.open()?;
    let submitted = send(&orchestrator, &document, stdin.as_deref()).await?;
    let task = (submitted.id, 1);
    if args.detach {
        super::task::say(&format!("task {}.1", submitted.id))?;
        return Ok(0);
    }
    if let Some(gang) = &spec.gang {
        // Rank 0 alone has output of its own, unless the program runs everywhere.
        let shown = if gang.every_node { gang.nodes } else { 1 };
        return run_gang::attached(&orchestrator, submitted.id, shown).await;
    }
    let mut followed = 0;
    loop {
        let (out, err) = (
            follow(&orchestrator, task, "out", followed),
            follow(&orchestrator, task, "err", followed),
        );
        let ended = watch(&orchestrator, task, followed, has_ended);
        let streams = async { tokio::join!(out, err) };
        let info = Box::pin(end_with_output(ended, streams)).await?;
        followed = info.attempt;
        if is_final(&info) {
            return Ok(told(&info));
        }
    }
}

/// True if standard input is `/dev/null`, so that no input is sent.
fn is_null() -> bool {
    use std::os::unix::fs::MetadataExt;
    let (input, null) = (std::fs::metadata("/proc/self/fd/0"), std::fs::metadata("/dev/null"));
    input.is_ok_and(|input| null.is_ok_and(|null| input.rdev() == null.rdev() && input.rdev() != 0))
}
