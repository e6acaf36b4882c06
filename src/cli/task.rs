//! Single tasks: showing, output, cancelling, signals.

use std::io::Write;

use clap::{Args, Subcommand};
use reqwest::{Method, Response};
use serde_json::json;

use super::failure::{Failure, FailureKind};
use super::output::{print, show};
use super::place::{Orchestrator, OrchestratorArgs};
use super::table::{memory, plain};
use crate::orchestrator::wire::{AttemptInfo, Reason, TaskInfo};

const SHOW_EXAMPLES: &str = "\
Examples:
  apportion task show 9.17";

const LOGS_EXAMPLES: &str = "\
Examples:
  apportion task logs -f 9.17";

const CANCEL_EXAMPLES: &str = "\
Examples:
  apportion task cancel 9.17";

const SIGNAL_EXAMPLES: &str = "\
Examples:
  apportion task signal 9.17 USR1";

/// An action on a task.
#[derive(Debug, Subcommand)]
pub enum TaskAction {
    /// Show a task and its attempts
    #[command(after_help = SHOW_EXAMPLES)]
    Show(TaskArgs),
    /// Show the output of a task
    #[command(after_help = LOGS_EXAMPLES)]
    Logs(LogsArgs),
    /// End a task
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(TaskArgs),
    /// Send a signal to a task that runs
    #[command(after_help = SIGNAL_EXAMPLES)]
    Signal(SignalArgs),
}

/// Name of a task.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// The task's name, such as 9.17 or last.1
    #[arg(value_name = "CAMPAIGN.TASK")]
    pub task: String,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Shows output.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// The task
    #[command(flatten)]
    pub one: TaskArgs,
    /// Go on until the task ends
    #[arg(long, short)]
    pub follow: bool,
    /// Standard error, not standard output
    #[arg(long)]
    pub stderr: bool,
    /// The attempt; without it, the last
    #[arg(long, value_name = "N")]
    pub attempt: Option<u64>,
}

/// Sends a signal.
#[derive(Debug, Args)]
pub struct SignalArgs {
    /// The task
    #[command(flatten)]
    pub one: TaskArgs,
    /// The signal, such as USR1
    pub signal: String,
}

/// Runs the command.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses.
pub async fn run(action: &TaskAction) -> Result<(), Failure> {
    match action {
        TaskAction::Show(args) => {
            let orchestrator = args.place.open()?;
            let task = orchestrator.task(&args.task).await?;
            let info = orchestrator.task_info(task).await?;
            Ok(show(&info, args.place.json, shown)?)
        }
        TaskAction::Logs(args) => logs(args).await,
        TaskAction::Cancel(args) => {
            let orchestrator = args.place.open()?;
            let task = orchestrator.task(&args.task).await?;
            act(&orchestrator, task, "cancel", &json!({})).await
        }
        TaskAction::Signal(args) => {
            let orchestrator = args.one.place.open()?;
            let task = orchestrator.task(&args.one.task).await?;
            act(&orchestrator, task, "signal", &json!({ "signal": args.signal })).await
        }
    }
}

/// Asks for an act on a task.
pub(super) async fn act(
    orchestrator: &Orchestrator,
    (campaign, task): (u64, u64),
    act: &str,
    body: &serde_json::Value,
) -> Result<(), Failure> {
    let (campaign, task) = (campaign.to_string(), task.to_string());
    let path = ["v1", "campaigns", &campaign, "tasks", &task, act];
    orchestrator.act(Method::POST, &path, body).await
}

async fn logs(args: &LogsArgs) -> Result<(), Failure> {
    let orchestrator = args.one.place.open()?;
    let task = orchestrator.task(&args.one.task).await?;
    let attempt = args.attempt.map(|attempt| attempt.to_string());
    let mut query = vec![("channel", if args.stderr { "err" } else { "out" })];
    query.extend(args.follow.then_some(("follow", "true")));
    query.extend(attempt.iter().map(|attempt| ("attempt", attempt.as_str())));
    match orchestrator.output(task, &query).await? {
        Ok(output) => copy(output, &mut std::io::stdout()).await.map(|_| ()),
        Err(why) => Err(Failure::new(FailureKind::NotFound, plain(&why))),
    }
}

/// Copies output as it comes, and returns the number of bytes. A closed pipe ends the copy.
pub(super) async fn copy(mut output: Response, to: &mut impl Write) -> Result<u64, Failure> {
    let mut length = 0_u64;
    while let Some(chunk) = output.chunk().await? {
        length += u64::try_from(chunk.len()).unwrap_or(0);
        match to.write_all(&chunk).and_then(|()| to.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(length),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(length)
}

fn shown(info: &TaskInfo) -> String {
    // The last attempt has its own reason; a limit over several attempts is in the task alone.
    let reason = info.reason.as_deref().and_then(Reason::from_word);
    let reason = reason.filter(|reason| *reason == Reason::NodeKiller);
    let reason = reason.map(|reason| format!(": {}", reason.words())).unwrap_or_default();
    let rank = info.rank.map(|rank| format!(", rank {rank} of its gang")).unwrap_or_default();
    let (campaign, task) = (info.campaign, info.task);
    let mut lines = vec![format!("task {campaign}.{task}{rank}: {}{reason}", info.state)];
    lines.extend(info.param.as_ref().map(|param| format!("entry {}", plain(param))));
    if info.may_run_twice {
        lines.push(
            "it may run twice: where its node is silent it begins again, and one result counts"
                .to_owned(),
        );
    }
    for attempt in &info.attempts {
        lines.push(attempt_line(attempt));
        if let Some(result) = &attempt.result {
            let texts = [&result.error, &result.tail].into_iter().flat_map(|text| text.lines());
            lines.extend(texts.map(|line| format!("    {}", plain(line))));
        }
    }
    lines.extend(info.advice.iter().map(|sentence| plain(sentence)));
    lines.join("\n")
}

fn attempt_line(attempt: &AttemptInfo) -> String {
    let AttemptInfo { attempt: number, node, .. } = attempt;
    let node = plain(node);
    match &attempt.result {
        None => format!("  attempt {number} on {node}: not ended"),
        Some(result) => {
            let (ms, used) = (result.ms, memory(result.rss_mb));
            format!("  attempt {number} on {node}: {}, {ms} ms, {used}", result.ending())
        }
    }
}

/// Says a line about a task.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    Ok(print(&plain(text))?)
}
