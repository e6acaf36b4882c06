//! Campaigns: submitting, listing, showing, suspending, resuming, cancelling, submitting again.

use axum::Json;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::MAX_LIVE;
use super::caller::Caller;
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::book::{Event, INIT_FAILS, TaskState};
use crate::orchestrator::drive;
use crate::orchestrator::spec::{CampaignSpec, MAX_STDIN};
use crate::orchestrator::store::{CampaignInfo, NoteInfo};
use crate::orchestrator::wire::{
    CampaignDetail, CampaignPage, CampaignSummary, NoteLine, Resubmit, Resubmitted, StateChange,
    Stdin, Submitted, WantedState,
};

/// Bytes of a submission, without its standard input: a million lines of some length.
const MAX_BODY: usize = 512 * 1024 * 1024;
/// Notes that are shown with a campaign.
const NOTES: u32 = 50;

/// What a submission says besides its body.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SubmitQuery {
    /// How many bytes at the end of the body are the standard input of the tasks.
    stdin: Option<usize>,
}

/// Submits a campaign: a JSON object with the fields of a campaign file, `lines` or `items` besides,
/// and `user` for callers that may choose. With `?stdin=N` the last N bytes of the body are the
/// standard input of each task. With the header `idempotency-key`, the same key of the same user
/// again is answered with the campaign that it made.
#[utoipa::path(
    post,
    path = "/v1/campaigns",
    tag = "campaigns",
    params(SubmitQuery),
    request_body = serde_json::Value,
    responses((status = 201, body = Submitted), (status = 422, description = "every problem at once"))
)]
pub(super) async fn post_campaign(
    State(state): State<ServeState>,
    caller: Caller,
    query: Query<SubmitQuery>,
    request: Request,
) -> Result<(StatusCode, Json<Submitted>), Failed> {
    let key = request.headers().get("idempotency-key");
    let key = key.and_then(|key| key.to_str().ok()).map(|key| key.chars().take(128).collect());
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY).await;
    let body = body.map_err(|error| Failed::bad(format!("the body cannot be read: {error}")))?;
    let stdin = query.stdin.filter(|length| 0 < *length).unwrap_or(0);
    if MAX_STDIN < stdin || body.len() < stdin {
        return Err(Failed::bad("stdin: is longer than the body or 64 MiB; send less"));
    }
    let (document, rest) = body.split_at(body.len() - stdin);
    let mut document: Map<String, Value> = serde_json::from_slice(document)
        .map_err(|error| Failed::bad(format!("the body is no JSON object: {error}")))?;
    let wanted = document.remove("user").and_then(|user| user.as_str().map(str::to_owned));
    let (owner, uid) = caller.owner(wanted.as_deref())?;
    if query.stdin.is_some() {
        document.insert("stdin_length".to_owned(), Value::from(rest.len()));
    }
    let (spec, params) = CampaignSpec::read(document)?;
    let is_kept = matches!(spec.task.stdin, Stdin::Kept { .. });
    let stdin = is_kept.then(|| rest.to_vec());
    if MAX_LIVE <= state.reader().await?.get()?.live(&owner).await? {
        return Err(Failed::too_many(&owner, MAX_LIVE));
    }
    let tasks = spec.tasks.count;
    let submit = Box::new(drive::Submit { owner, uid, spec, params, stdin, key });
    let id = state.ask(|reply| drive::Request::Submit(submit, caller.by(), reply)).await?;
    Ok((StatusCode::CREATED, Json(Submitted { id, tasks })))
}

/// Which campaigns.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Those of this user only.
    user: Option<String>,
    /// How many at most, the newest first; 100 unless it is said, 1,000 at most.
    limit: Option<u32>,
}

/// Campaigns, the newest first.
#[utoipa::path(get, path = "/v1/campaigns", tag = "campaigns", params(ListQuery),
    responses((status = 200, body = CampaignPage)))]
pub(super) async fn get_campaigns(
    State(state): State<ServeState>,
    _: Caller,
    query: Query<ListQuery>,
) -> Result<Json<CampaignPage>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let limit = query.limit.unwrap_or(100).clamp(1, 1000);
    let mut campaigns = Vec::new();
    for info in reader.campaigns(query.user.as_deref(), limit).await? {
        let slots = in_slots(&reader.in_flight(info.row.id).await?);
        campaigns.push(summary(&info, slots));
    }
    Ok(Json(CampaignPage { campaigns }))
}

/// A campaign in full.
#[utoipa::path(get, path = "/v1/campaigns/{id}", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = CampaignDetail), (status = 404, description = "no such campaign")))]
pub(super) async fn get_campaign(
    State(state): State<ServeState>,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<CampaignDetail>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let info = known(reader.campaign(id).await?, id)?;
    let slots = in_slots(&reader.in_flight(id).await?);
    let works: Vec<_> = reader.works(id).await?;
    let memory_mb = works.first().map_or(0, |work| work.memory_mb);
    let notes =
        if caller.may_touch(&info.row.owner) { reader.notes(id, NOTES).await? } else { Vec::new() };
    Ok(Json(CampaignDetail {
        campaign: summary(&info, slots),
        memory_mb,
        works: works.iter().filter_map(|work| work.number).collect(),
        notes: notes.into_iter().map(note).collect(),
    }))
}

/// The specification of a campaign, for its owner and operators.
#[utoipa::path(get, path = "/v1/campaigns/{id}/spec", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = serde_json::Value), (status = 403, description = "another's")))]
pub(super) async fn get_spec(
    State(state): State<ServeState>,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<CampaignSpec>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let info = known(reader.campaign(id).await?, id)?;
    caller.check_touch(&info.row.owner)?;
    let spec = reader.spec(info.row.spec).await?;
    Ok(Json((*spec).clone()))
}

/// Suspends, resumes or cancels a campaign.
#[utoipa::path(put, path = "/v1/campaigns/{id}/state", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    request_body = StateChange,
    responses((status = 204, description = "it is on record"), (status = 403, description = "another's")))]
pub(super) async fn put_state(
    State(state): State<ServeState>,
    caller: Caller,
    Path(id): Path<u64>,
    Json(change): Json<StateChange>,
) -> Result<StatusCode, Failed> {
    check_owner(&state, &caller, id).await?;
    let (event, act) = match change.state {
        WantedState::Suspended => {
            (Event::Suspended { campaign: id, at_once: change.now }, "suspend")
        }
        WantedState::Running => (Event::Resumed(id), "resume"),
        WantedState::Cancelled => (Event::Cancelled(id), "cancel"),
    };
    let detail = format!("campaign {id}");
    state.ask(|reply| drive::Request::Act(event, caller.by(), act, detail, reply)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Queues tasks again that failed or were cancelled.
#[utoipa::path(post, path = "/v1/campaigns/{id}/resubmit", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    request_body = Resubmit,
    responses((status = 200, body = Resubmitted), (status = 403, description = "another's")))]
pub(super) async fn post_resubmit(
    State(state): State<ServeState>,
    caller: Caller,
    Path(id): Path<u64>,
    Json(body): Json<Resubmit>,
) -> Result<Json<Resubmitted>, Failed> {
    check_owner(&state, &caller, id).await?;
    let wanted = [(body.failed, TaskState::Failed), (body.cancelled, TaskState::Cancelled)];
    let mut states: Vec<TaskState> =
        wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, state)| state).collect();
    if body.task.is_some() && states.is_empty() {
        states = vec![TaskState::Failed, TaskState::Cancelled, TaskState::Done];
    }
    if states.is_empty() {
        return Err(Failed::bad("say `failed`, `cancelled` or `task`"));
    }
    let (by, task) = (caller.by(), body.task);
    let ask = |reply| drive::Request::Resubmit { campaign: id, states, task, by, reply };
    let tasks = state.ask(ask).await?;
    Ok(Json(Resubmitted { tasks }))
}

/// The campaign, or the problem that there is none.
pub(super) fn known(info: Option<CampaignInfo>, id: u64) -> Result<CampaignInfo, Failed> {
    let absent = || Failed::absent(format!("there is no campaign {id}; `apportion campaign list`"));
    info.ok_or_else(absent)
}

/// Refuses callers that may not touch a campaign.
pub(super) async fn check_owner(
    state: &ServeState,
    caller: &Caller,
    id: u64,
) -> Result<CampaignInfo, Failed> {
    let info = state.reader().await?.get()?.campaign(id).await?;
    let info = known(info, id)?;
    caller.check_touch(&info.row.owner)?;
    Ok(info)
}

/// Tasks that slots have, and tasks that are queued again.
fn in_slots(counts: &std::collections::BTreeMap<String, u64>) -> (u64, u64) {
    let of = |state: TaskState| counts.get(state.word()).copied().unwrap_or(0);
    (of(TaskState::Assigned) + of(TaskState::Running), of(TaskState::Queued))
}

fn summary(info: &CampaignInfo, (running, _): (u64, u64)) -> CampaignSummary {
    let row = &info.row;
    let finals = row.done + row.failed + row.cancelled + row.dropped;
    CampaignSummary {
        id: row.id,
        name: info.name.clone(),
        user: row.owner.clone(),
        state: row.state.word().to_owned(),
        frozen: INIT_FAILS <= row.init_fails && !row.state.is_final(),
        submitted_ms: row.submitted_ms,
        tasks: info.total,
        queued: info.total.saturating_sub(finals).saturating_sub(running),
        running,
        done: row.done,
        failed: row.failed,
        cancelled: row.cancelled,
        dropped: row.dropped,
        mean_ms: row.ended_ms.checked_div(row.ended).unwrap_or(0),
        rss_mb: row.rss_mb,
    }
}

fn note(note: NoteInfo) -> NoteLine {
    let NoteInfo { at_ms, task, node, code, text, .. } = note;
    NoteLine { at_ms, task, node, code, text }
}
