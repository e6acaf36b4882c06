//! Single tasks: listing, showing, cancelling, sending signals.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::advice::{OverMemory, over_memory};
use super::caller::OrchestratorCaller;
use super::campaigns::{check_owner, check_tasks, known};
use super::problem::Failed;
use super::state::ServeState;
use super::stats::memory_of;
use crate::orchestrator::book::{AttemptRow, CampaignState, Event, TaskRow, TaskState};
use crate::orchestrator::drive;
use crate::orchestrator::spec::{CampaignSpec, GangSpec};
use crate::orchestrator::store::{CampaignInfo, StoreReader};
use crate::orchestrator::wire::{
    AttemptInfo, Reason, SignalRequest, TaskInfo, TaskList, signal_number,
};

/// Selection of tasks.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TasksQuery {
    /// Only tasks in this state.
    state: Option<String>,
    /// Only tasks after this number.
    after: Option<u64>,
    /// Limit of tasks: 100 by default, 1,000 at most.
    limit: Option<u32>,
    /// True to return each task with its attempts.
    attempts: Option<bool>,
}

/// Lists the touched tasks of a campaign, by number. All other tasks are queued, or were cancelled
/// with the campaign. Texts of attempts are for the owner and operators.
#[utoipa::path(get, path = "/v1/campaigns/{id}/tasks", tag = "tasks",
    params(("id" = u64, Path, description = "the number of the campaign"), TasksQuery),
    responses((status = 200, body = TaskList), (status = 410, description = "folded: only counts are left")))]
pub(super) async fn get_tasks(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
    query: Query<TasksQuery>,
) -> Result<Json<TaskList>, Failed> {
    let wanted = query.state.as_deref();
    let wanted = wanted.map(|word| {
        TaskState::from_word(word).ok_or_else(|| {
            let words = TaskState::ALL.map(TaskState::word).join(", ");
            Failed::bad(format!("state: no such state; states are {words}"))
        })
    });
    let wanted = wanted.transpose()?;
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let campaign = known(reader.campaign(id).await?, id)?;
    check_tasks(&campaign)?;
    let (after, limit) = (query.after.unwrap_or(0), query.limit.unwrap_or(100).clamp(1, 1000));
    let tasks = reader.tasks(id, wanted, after, limit).await?;
    let mut list = TaskList { tasks: tasks.iter().map(info).collect() };
    let spec = reader.spec(&campaign.row).await?;
    for task in &mut list.tasks {
        task.rank = rank_in(&spec, task.task);
    }
    if query.attempts == Some(true)
        && let (Some(first), Some(last)) = (tasks.first(), tasks.last())
    {
        let may_read = caller.may_touch(&campaign.row.owner);
        let mut rows = Vec::new();
        if wanted.is_some() {
            // Tasks in one state may lie far apart, with many attempts of other tasks between.
            for task in &tasks {
                rows.extend(reader.attempts(id, task.task).await?);
            }
        } else {
            rows = reader.attempts_between(id, first.task, last.task).await?;
        }
        let mut by_task: BTreeMap<u64, Vec<AttemptInfo>> = BTreeMap::new();
        for row in rows {
            by_task.entry(row.id.task).or_default().push(attempt(row, may_read));
        }
        for task in &mut list.tasks {
            task.attempts = by_task.remove(&task.task).unwrap_or_default();
        }
    }
    Ok(Json(list))
}

/// A task with its attempts. Its parameter and texts are for its owner and operators.
#[utoipa::path(get, path = "/v1/campaigns/{id}/tasks/{task}", tag = "tasks",
    params(("id" = u64, Path, description = "the number of the campaign"),
        ("task" = u64, Path, description = "the number of the task")),
    responses((status = 200, body = TaskInfo), (status = 404, description = "no such task"),
        (status = 410, description = "folded: only counts are left")))]
pub(super) async fn get_task(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((id, task)): Path<(u64, u64)>,
) -> Result<Json<TaskInfo>, Failed> {
    task_of(&state, &caller, id, task).await.map(Json)
}

/// Returns the position of a task among the tasks of its campaign.
pub(super) async fn position_of(
    reader: &mut StoreReader,
    campaign: &CampaignInfo,
    task: u64,
) -> Result<u64, Failed> {
    check_tasks(campaign)?;
    let spec = reader.spec(&campaign.row).await?;
    position_in(&spec, campaign, task)
}

fn position_in(spec: &CampaignSpec, campaign: &CampaignInfo, task: u64) -> Result<u64, Failed> {
    let absent = || {
        let (id, total) = (campaign.row.id, campaign.row.total);
        Failed::absent(format!("campaign {id} has no task {task}; it has {total}"))
    };
    spec.tasks.position(task).ok_or_else(absent)
}

/// Returns the facts about a task that `caller` may see.
pub(super) async fn task_of(
    state: &ServeState,
    caller: &OrchestratorCaller,
    id: u64,
    task: u64,
) -> Result<TaskInfo, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let campaign = known(reader.campaign(id).await?, id)?;
    check_tasks(&campaign)?;
    let spec = reader.spec(&campaign.row).await?;
    let position = position_in(&spec, &campaign, task)?;
    let row = reader.task(id, task).await?;
    let mut shown = row.as_ref().map_or_else(|| untouched(&campaign, task, position), info);
    shown.may_run_twice = spec.may_run_twice;
    shown.rank = rank_in(&spec, task);
    let may_read = caller.may_touch(&campaign.row.owner);
    if may_read {
        shown.param = reader.param(id, position).await?;
    }
    let attempts = reader.attempts(id, task).await?;
    drop(reading);
    if let (true, Some(row), Some(last)) = (may_read, &row, attempts.last()) {
        shown.advice = advice_on(state, row, last).await?;
    }
    shown.attempts = attempts.into_iter().map(|row| attempt(row, may_read)).collect();
    Ok(shown)
}

/// Returns advice about a task that failed as it was over its memory; no advice about any other
/// task.
async fn advice_on(
    state: &ServeState,
    row: &TaskRow,
    last: &AttemptRow,
) -> Result<Vec<String>, Failed> {
    let result = last.result.as_ref().filter(|result| result.why == Reason::Memory);
    let Some(result) = result.filter(|_| row.state == TaskState::Failed) else {
        return Ok(Vec::new());
    };
    let limits = {
        let nodes = state.ask(drive::BookRequest::Nodes).await?;
        nodes.into_iter().find(|facts| facts.node == last.node).map(|facts| facts.limits)
    };
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let works = reader.works(row.campaign).await?;
    let limit = works.iter().find(|work| work.step == row.step).or(works.first());
    let others = memory_of(&reader.samples(row.campaign).await?);
    Ok(over_memory(OverMemory {
        task: (row.campaign, row.task),
        node: &last.node,
        result,
        limit_mb: limit.map_or(0, |work| work.memory_mb),
        limits,
        others,
    }))
}

/// Cancels a task.
#[utoipa::path(post, path = "/v1/campaigns/{id}/tasks/{task}/cancel", tag = "tasks",
    params(("id" = u64, Path, description = "the number of the campaign"),
        ("task" = u64, Path, description = "the number of the task")),
    responses((status = 204, description = "it is on record")))]
pub(super) async fn post_cancel(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((id, task)): Path<(u64, u64)>,
) -> Result<StatusCode, Failed> {
    check_tasks(&check_owner(&state, &caller, id).await?)?;
    let (event, detail) = (Event::TaskCancelled(id, task), format!("task {id}.{task}"));
    let ask = |reply| drive::BookRequest::Act(event, caller.by(), "cancel task", detail, reply);
    state.ask(ask).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a signal to a task that runs.
#[utoipa::path(post, path = "/v1/campaigns/{id}/tasks/{task}/signal", tag = "tasks",
    params(("id" = u64, Path, description = "the number of the campaign"),
        ("task" = u64, Path, description = "the number of the task")),
    request_body = SignalRequest,
    responses((status = 204, description = "the order to the node is on record")))]
pub(super) async fn post_signal(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((id, task)): Path<(u64, u64)>,
    Json(body): Json<SignalRequest>,
) -> Result<StatusCode, Failed> {
    check_tasks(&check_owner(&state, &caller, id).await?)?;
    let signal = signal_number(&body.signal);
    let signal = signal.ok_or_else(|| Failed::bad("signal: write a name such as `USR1`"))?;
    let event = Event::TaskSignalled(id, task, signal);
    let detail = format!("task {id}.{task}: signal {signal}");
    let ask = |reply| drive::BookRequest::Act(event, caller.by(), "signal task", detail, reply);
    state.ask(ask).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The rank of a task; `None` if its campaign has no gang.
fn rank_in(spec: &CampaignSpec, task: u64) -> Option<u64> {
    spec.gang.as_ref().map(|_| GangSpec::rank_of(task))
}

pub(super) fn info(row: &TaskRow) -> TaskInfo {
    TaskInfo {
        campaign: row.campaign,
        task: row.task,
        state: row.state.word().to_owned(),
        attempt: row.attempt,
        tries: row.tries,
        losses: row.losses,
        may_run_twice: false,
        rank: None,
        reason: row.reason.map(|reason: Reason| reason.word().to_owned()),
        param: None,
        advice: Vec::new(),
        attempts: Vec::new(),
    }
}

/// Builds the facts of an untouched task from its campaign.
fn untouched(campaign: &CampaignInfo, task: u64, position: u64) -> TaskInfo {
    let is_cut = campaign.row.limit <= position;
    let state = match campaign.row.state {
        _ if !is_cut => TaskState::Queued,
        CampaignState::Cancelling | CampaignState::Cancelled => TaskState::Cancelled,
        CampaignState::Waiting
        | CampaignState::Running
        | CampaignState::Suspended
        | CampaignState::Finishing
        | CampaignState::Done
        | CampaignState::Failed => {
            if campaign.row.dropped == 0 {
                TaskState::Cancelled
            } else {
                TaskState::Dropped
            }
        }
    };
    TaskInfo {
        campaign: campaign.row.id,
        task,
        state: state.word().to_owned(),
        attempt: 0,
        tries: 0,
        losses: 0,
        may_run_twice: false,
        rank: None,
        reason: None,
        param: None,
        advice: Vec::new(),
        attempts: Vec::new(),
    }
}

fn attempt(row: AttemptRow, may_read: bool) -> AttemptInfo {
    let mut result = row.result;
    if let Some(result) = result.as_mut().filter(|_| !may_read) {
        (result.tail, result.error) = (String::new(), String::new());
    }
    AttemptInfo {
        attempt: row.id.attempt,
        share: row.share,
        node: row.node.to_string(),
        assigned_ms: row.assigned_ms,
        ended_ms: row.ended_ms,
        result,
    }
}
