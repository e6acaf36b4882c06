//! The page of a task: its state, its attempts, its last output.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::SECTION;
use super::campaign::on_silent_nodes;
use crate::dashboard::{Ask, Nothing, Page, PageError, PageQuery, words};
use crate::orchestrator::serve::caller::OrchestratorCaller;
use crate::orchestrator::serve::campaigns::known;
use crate::orchestrator::serve::problem::Failed;
use crate::orchestrator::serve::state::ServeState;
use crate::orchestrator::serve::tasks::task_of;
use crate::orchestrator::wire::{AttemptInfo, TaskInfo, TaskResult};

#[derive(Template)]
#[template(path = "campaign_task.html")]
struct TaskLive {
    info: TaskInfo,
    facts: Vec<(&'static str, String)>,
    attempts: Vec<AttemptLine>,
    text: String,
    /// What is said where there is no text.
    silence: &'static str,
    may_read: bool,
}

struct AttemptLine {
    attempt: u64,
    node: String,
    assigned_ms: u64,
    assigned: String,
    ending: String,
    ms: String,
    memory: String,
    cpu_ms: String,
}

/// Number of a task, typed into the form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Find {
    task: u64,
}

/// Leads to the page of a task whose number was typed.
pub(super) async fn find(Path(id): Path<u64>, PageQuery(find): PageQuery<Find>) -> Response {
    Redirect::to(&format!("/campaigns/{id}/tasks/{}", find.task)).into_response()
}

/// The page.
pub(super) async fn page(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((id, task)): Path<(u64, u64)>,
    ask: Ask,
) -> Result<Response, PageError> {
    let info = task_of(&state, &caller, id, task).await?;
    let (may_read, spec) = {
        let mut reading = state.reader().await?;
        let reader = reading.get()?;
        let campaign = known(reader.campaign(id).await.map_err(Failed::from)?, id)?;
        let spec = reader.spec(&campaign.row).await.map_err(Failed::from)?;
        (caller.may_touch(&campaign.row.owner), spec)
    };
    let last = info.attempts.last().and_then(|last| last.result.as_ref());
    let text = last.map(|result| format!("{}{}", result.error, result.tail)).unwrap_or_default();
    let silence = match info.state.as_str() {
        "failed" => "It wrote nothing to standard error.",
        _ => "Nothing is kept here: the end of standard error is kept if a task fails.",
    };
    let attempts = info.attempts.iter().rev().map(line).collect();
    let title = format!("Task {id}.{task}");
    let mut facts = facts(&info);
    facts.extend(on_silent_nodes(&spec));
    let live = TaskLive { info, facts, attempts, text, silence, may_read };
    Page { title: &title, section: SECTION, head: Nothing, live }.answer(&ask)
}

fn facts(info: &TaskInfo) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Attempts", info.attempt.to_string()),
        ("Attempts that failed", info.tries.to_string()),
        ("Attempts that were lost", info.losses.to_string()),
    ];
    facts.extend(info.rank.map(|rank| ("Rank in its gang", rank.to_string())));
    if let Some(ending) = info.ending() {
        facts.push(("The last attempt ended", ending));
    }
    if let Some(param) = &info.param {
        facts.push(("Entry", param.chars().take(500).collect()));
    }
    facts
}

fn line(attempt: &AttemptInfo) -> AttemptLine {
    let result = attempt.result.as_ref();
    let of = |value: fn(&TaskResult) -> String| result.map(value).unwrap_or_default();
    AttemptLine {
        attempt: attempt.attempt,
        node: attempt.node.clone(),
        assigned_ms: attempt.assigned_ms,
        assigned: words::time(i64::try_from(attempt.assigned_ms).unwrap_or(0)),
        ending: result.map_or_else(|| "not ended".to_owned(), TaskResult::ending),
        ms: of(|result| words::number(result.ms)),
        memory: of(|result| match result.rss_mb {
            0 => String::new(),
            used => words::memory(used),
        }),
        cpu_ms: of(|result| words::number(result.cpu_ms)),
    }
}
