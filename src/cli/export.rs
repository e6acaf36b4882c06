//! A campaign as lines for other programs: every task that was touched, with its attempts.

use clap::{Args, ValueEnum};

use super::failure::Failure;
use super::one_campaign::OneArgs;
use super::output::{OutputReader, say};
use crate::orchestrator::wire::{AttemptInfo, Reason, TaskInfo, TaskList};

/// Tasks in an answer.
const PAGE: &str = "1000";

/// The columns of `csv`.
const COLUMNS: &str = "campaign,task,state,reason,attempt,node,share,assigned_ms,ended_ms,why,exit,signal,ms,cpu_ms,peak_mb,rss_mb";

/// End of the help of `campaign export`.
pub const EXPORT_EXAMPLES: &str = "\
Examples:
  apportion campaign export 9 > campaign-9.jsonl
  apportion campaign export 9 --format csv > campaign-9.csv

A line of jsonl is a task with its attempts; one of csv is an attempt.
Tasks that no slot ever had are left out: `campaign show` counts them.";

/// Form of the exported tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A task a line, in JSON
    Jsonl,
    /// An attempt a line, with a line of names first
    Csv,
}

/// Writes all tasks of a campaign to standard output.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The campaign.
    #[command(flatten)]
    pub one: OneArgs,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub format: ExportFormat,
}

/// Writes page after page.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses, or standard output cannot be written.
pub async fn run(args: &ExportArgs) -> Result<(), Failure> {
    let orchestrator = args.one.place.open()?;
    let id = orchestrator.campaign(&args.one.campaign).await?.to_string();
    let mut after = 0;
    if args.format == ExportFormat::Csv && say(&format!("{COLUMNS}\n"))? == OutputReader::Gone {
        return Ok(());
    }
    loop {
        let last = after.to_string();
        let query = [("after", last.as_str()), ("limit", PAGE), ("attempts", "true")];
        let list: TaskList = orchestrator.get(&["v1", "campaigns", &id, "tasks"], &query).await?;
        let Some(last) = list.tasks.last() else { return Ok(()) };
        after = last.task;
        let mut text = String::new();
        for task in &list.tasks {
            match args.format {
                ExportFormat::Jsonl => text.extend([serde_json::to_string(task)?.as_str(), "\n"]),
                ExportFormat::Csv => csv(&mut text, task),
            }
        }
        if say(&text)? == OutputReader::Gone {
            return Ok(());
        }
    }
}

/// Writes a line for each attempt, and a single line for a task without attempts. Names of nodes
/// have no comma.
fn csv(text: &mut String, task: &TaskInfo) {
    let reason = task.reason.as_deref().unwrap_or_default();
    let head = format!("{},{},{},{reason}", task.campaign, task.task, task.state);
    if task.attempts.is_empty() {
        text.extend([head.as_str(), &",".repeat(12), "\n"]);
    }
    for attempt in &task.attempts {
        text.extend([head.as_str(), ",", &cells(attempt).join(","), "\n"]);
    }
}

fn cells(attempt: &AttemptInfo) -> [String; 12] {
    let result = attempt.result.as_ref();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let why = result.map(|result| Reason::word(result.why)).unwrap_or_default();
    [
        attempt.attempt.to_string(),
        attempt.node.clone(),
        attempt.share.to_string(),
        attempt.assigned_ms.to_string(),
        number(attempt.ended_ms),
        why.to_owned(),
        number(result.and_then(|result| result.exit.map(u64::from))),
        number(result.and_then(|result| result.signal.map(u64::from))),
        number(result.map(|result| result.ms)),
        number(result.map(|result| result.cpu_ms)),
        number(result.map(|result| result.peak_mb)),
        number(result.map(|result| result.rss_mb)),
    ]
}
