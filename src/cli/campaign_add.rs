//! Adding tasks to a campaign.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::one_campaign::OneArgs;
use super::output::show;
use super::submit::{key, read_list};
use crate::model::counted;
use crate::orchestrator::wire::AddedTasks;

pub(super) const ADD_EXAMPLES: &str = "\
Examples:
  apportion campaign add 9 --each-line more.txt
  generate | apportion campaign add last --each-line -
  apportion campaign add 9 --array 500

A campaign that has ended, or is being cancelled, takes no more: submit a new one.";

/// Adds tasks.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The campaign
    #[command(flatten)]
    pub one: OneArgs,
    /// The tasks to add.
    #[command(flatten)]
    pub more: More,
}

/// Tasks to add to a campaign.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct More {
    /// Add this many tasks, numbered from the last task on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub array: Option<u64>,
    /// Add a task for each line of this file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub each_line: Option<PathBuf>,
    /// Add a task for each item of this JSON list
    #[arg(long, value_name = "FILE")]
    pub from_json: Option<PathBuf>,
}

/// Adds them.
///
/// # Errors
///
/// If a file cannot be read, or the orchestrator cannot be reached or refuses.
pub(super) async fn add(args: &AddArgs) -> Result<(), Failure> {
    let body = body(&args.more)?;
    let orchestrator = args.one.place.open()?;
    let id = orchestrator.campaign(&args.one.campaign).await?;
    let path = ["v1", "campaigns", &id.to_string(), "tasks"];
    let added: AddedTasks = orchestrator.send(&path, &body, &key()?).await?;
    let say = |told: &AddedTasks| {
        let more = counted(told.added, "task");
        format!("campaign {id}: {more} added from {id}.{} on, {} in all", told.first, told.tasks)
    };
    Ok(show(&added, args.one.place.json, say)?)
}

fn body(more: &More) -> Result<Value, Failure> {
    match (&more.each_line, &more.from_json) {
        (Some(path), _) => Ok(json!({ "lines": read_list("each_line", path)? })),
        (_, Some(path)) => Ok(json!({ "items": read_list("from_json", path)? })),
        (None, None) => Ok(json!({ "count": more.array })),
    }
}
