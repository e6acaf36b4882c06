//! Campaigns: submitting, listing, showing, suspending, resuming, cancelling, submitting again.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::MAX_LIVE;
use super::admission::{admit, check_change};
use super::caller::OrchestratorCaller;
use super::gangs::gang_of;
use super::grid::lease_in;
use super::problem::Failed;
use super::state::{ServeState, Sight};
use crate::model::{memory_text, nearest};
use crate::orchestrator::book::{Event, FaultRow, INIT_FAILS, MAX_STEPS, TaskState};
use crate::orchestrator::drive;
use crate::orchestrator::spec::{CampaignSpec, MAX_STDIN, SpecProblem, mebibytes, short};
use crate::orchestrator::store::{CampaignInfo, NoteInfo, StoreReader};
use crate::orchestrator::wire::{
    AvoidedNode, CampaignDetail, CampaignPage, CampaignSummary, NoteLine, Resubmit, Resubmitted,
    StateChange, Stdin, Submitted, WantedState,
};

/// Bytes of a submission, without its standard input: a million lines of some length.
pub(super) const MAX_BODY: usize = 512 * 1024 * 1024;
/// Most notes in the answer about a campaign.
const NOTES: u32 = 50;

/// Query of a submission.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SubmitQuery {
    /// Number of bytes at the end of the body that are the standard input of the tasks.
    stdin: Option<usize>,
}

/// Submits a campaign: a JSON object with the fields of a campaign file. The object may have
/// `lines` or `items`, and `user` for callers that may choose. With `?stdin=N` the last N bytes of
/// the body are the standard input of each task. With a `lease` (`for_ms`, `boot`, `as_of_ms`) the
/// campaign is cancelled unless `POST /v1/grid/leases` renews it. With the header `idempotency-key`, the same key of
/// the same user again is answered with the first campaign.
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
    caller: OrchestratorCaller,
    query: Query<SubmitQuery>,
    request: Request,
) -> Result<(StatusCode, Json<Submitted>), Failed> {
    let key = key_of(&request);
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
    let lease = lease_in(&state, &mut document)?;
    if query.stdin.is_some() {
        document.insert("stdin_length".to_owned(), Value::from(rest.len()));
    }
    // Two campaigns at once must not both be the last that a user may have.
    let _turn = state.turn().await;
    let (spec, params, record) = admit(&state, &owner, document).await?;
    check_cluster(&state.sight, &spec).await?;
    let is_kept = matches!(spec.task.stdin, Stdin::Kept { .. });
    let stdin = is_kept.then(|| rest.to_vec());
    if MAX_LIVE <= state.reader().await?.get()?.live(&owner).await? {
        return Err(Failed::too_many(&owner, MAX_LIVE));
    }
    for number in &spec.after {
        if state.reader().await?.get()?.campaign(*number).await?.is_none() {
            let message = format!("there is no campaign {number}");
            let remedy = "`apportion campaign list` shows the numbers";
            return Err(vec![SpecProblem::new("after", message, remedy)].into());
        }
    }
    let tasks = spec.tasks.count;
    let submit = Box::new(drive::Submit { owner, uid, spec, params, stdin, key, record, lease });
    let id = state.ask(|reply| drive::BookRequest::Submit(submit, caller.by(), reply)).await?;
    Ok((StatusCode::CREATED, Json(Submitted { id, tasks })))
}

/// Returns the idempotency key of a request.
pub(super) fn key_of(request: &Request) -> Option<String> {
    let key = request.headers().get("idempotency-key")?.to_str().ok()?;
    Some(key.chars().take(128).collect())
}

/// Selection of campaigns.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only campaigns of this user.
    user: Option<String>,
    /// Only campaigns from this number on.
    first: Option<u64>,
    /// Only campaigns up to this number.
    last: Option<u64>,
    /// Limit of campaigns, the newest first: 100 by default, 1,000 at most.
    limit: Option<u32>,
}

/// Campaigns, the newest first.
#[utoipa::path(get, path = "/v1/campaigns", tag = "campaigns", params(ListQuery),
    responses((status = 200, body = CampaignPage)))]
pub(super) async fn get_campaigns(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
    query: Query<ListQuery>,
) -> Result<Json<CampaignPage>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let limit = query.limit.unwrap_or(100).clamp(1, 1000);
    let mut campaigns = Vec::new();
    let range = query.first.unwrap_or(0)..=query.last.unwrap_or(u64::MAX >> 1);
    for info in reader.campaigns(query.user.as_deref(), range, limit).await? {
        campaigns.push(summarise(reader, &info).await?);
    }
    Ok(Json(CampaignPage { campaigns }))
}

/// A campaign in full.
#[utoipa::path(get, path = "/v1/campaigns/{id}", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = CampaignDetail), (status = 404, description = "no such campaign")))]
pub(super) async fn get_campaign(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
) -> Result<Json<CampaignDetail>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let info = known(reader.campaign(id).await?, id)?;
    let works: Vec<_> = reader.works(id).await?;
    let memory_mb = works.first().map_or(0, |work| work.memory_mb);
    let spec = reader.spec(&info.row).await?;
    let notes =
        if caller.may_touch(&info.row.owner) { reader.notes(id, NOTES).await? } else { Vec::new() };
    let campaign = summarise(reader, &info).await?;
    let mut admission = reader.admission(id).await?;
    let (faults, suspicious) = reader.faults(id).await?;
    drop(reading);
    if let Some(record) = admission.as_mut().filter(|_| !caller.may_touch(&info.row.owner)) {
        record.asked = None;
        record.rules.iter_mut().for_each(|rule| rule.changes.clear());
    }
    Ok(Json(CampaignDetail {
        campaign,
        gang: gang_of(&state, id, &spec).await?,
        memory_mb,
        admission,
        suspicious,
        avoided: faults.into_iter().map(avoided).collect(),
        waits_for: info.row.waits_for.iter().copied().collect(),
        epilogue: info.row.epilogue.filter(|_| !info.row.state.is_final()),
        opens_ms: info.row.opens_ms.filter(|_| !info.row.state.is_final()),
        may_run_twice: spec.may_run_twice,
        on_unheard: if spec.task.finishes_unheard { "finish" } else { "stop" }.to_owned(),
        works: works.iter().filter_map(|work| work.number).collect(),
        notes: notes.into_iter().map(note).collect(),
    }))
}

/// The specification of a campaign, for its owner and operators.
#[utoipa::path(get, path = "/v1/campaigns/{id}/spec", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = serde_json::Value), (status = 403, description = "the campaign of another user")))]
pub(super) async fn get_spec(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
) -> Result<Json<CampaignSpec>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let info = known(reader.campaign(id).await?, id)?;
    caller.check_touch(&info.row.owner)?;
    let spec = reader.spec(&info.row).await?;
    Ok(Json((*spec).clone()))
}

/// Suspends, resumes or cancels a campaign.
#[utoipa::path(put, path = "/v1/campaigns/{id}/state", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    request_body = StateChange,
    responses((status = 204, description = "it is on record"), (status = 403, description = "the campaign of another user")))]
pub(super) async fn put_state(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
    Json(change): Json<StateChange>,
) -> Result<StatusCode, Failed> {
    change_state(&state, &caller, id, &change).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Brings a campaign into another state, if `caller` may.
pub(super) async fn change_state(
    state: &ServeState,
    caller: &OrchestratorCaller,
    id: u64,
    change: &StateChange,
) -> Result<(), Failed> {
    check_owner(state, caller, id).await?;
    let (event, act) = match change.state {
        WantedState::Suspended => {
            (Event::Suspended { campaign: id, at_once: change.now }, "suspend")
        }
        WantedState::Running => (Event::Resumed(id), "resume"),
        WantedState::Cancelled => (Event::Cancelled(id), "cancel"),
    };
    let detail = format!("campaign {id}");
    state.ask(|reply| drive::BookRequest::Act(event, caller.by(), act, detail, reply)).await
}

/// Queues tasks again that failed or were cancelled.
#[utoipa::path(post, path = "/v1/campaigns/{id}/resubmit", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    request_body = Resubmit,
    responses((status = 200, body = Resubmitted), (status = 403, description = "the campaign of another user")))]
pub(super) async fn post_resubmit(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
    Json(body): Json<Resubmit>,
) -> Result<Json<Resubmitted>, Failed> {
    let info = check_owner(&state, &caller, id).await?;
    check_tasks(&info)?;
    let wanted = [(body.failed, TaskState::Failed), (body.cancelled, TaskState::Cancelled)];
    let mut states: Vec<TaskState> =
        wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, state)| state).collect();
    if body.task.is_some() && states.is_empty() {
        states = vec![TaskState::Failed, TaskState::Cancelled, TaskState::Done];
    }
    if body.suspicious {
        if !states.is_empty() {
            return Err(Failed::bad("suspicious: is alone; ask for other tasks by themselves"));
        }
        states = vec![TaskState::Done];
    }
    if states.is_empty() {
        return Err(Failed::bad("name `failed`, `cancelled`, `suspicious` or `task`"));
    }
    let memory_mb = body.memory.as_deref().map(memory_in).transpose()?;
    if let Some(memory_mb) = memory_mb {
        if body.cancelled {
            return Err(Failed::bad("memory: is for tasks that began; ask without `cancelled`"));
        }
        check_memory(&state, id, memory_mb).await?;
        let spec = state.reader().await?.get()?.spec(&info.row).await?;
        check_change(&state, &info.row.owner, &spec, (None, Some(memory_mb))).await?;
    }
    let (by, task) = (caller.by(), body.task);
    let which = drive::Which { states, task, is_suspicious: body.suspicious, memory_mb };
    let ask = |reply| drive::BookRequest::Resubmit { campaign: id, which, by, reply };
    let tasks = state.ask(ask).await?;
    Ok(Json(Resubmitted { tasks }))
}

fn memory_in(text: &str) -> Result<u64, Failed> {
    let remedy = "write a size with its unit, such as `6GB` or `512MB`";
    mebibytes(text)
        .filter(|size| 0 < *size)
        .ok_or_else(|| Failed::bad(format!("memory: `{}` does not fit; {remedy}", short(text))))
}

/// Refuses a class or a size of memory that the resource manager does not have. While the resource
/// manager is silent, nothing is refused.
async fn check_cluster(sight: &Sight, spec: &CampaignSpec) -> Result<(), Failed> {
    let mut problems = Vec::new();
    let classes = match sight.manager() {
        Ok(manager) => manager.classes().await,
        Err(silent) => Err(silent),
    };
    let first = spec.first.as_ref().map(|first| ("first_class", &first.class));
    for (field, class) in spec.class.iter().map(|class| ("class", class)).chain(first) {
        let Ok(classes) = &classes else { break };
        if classes.contains(class) {
            continue;
        }
        let near = nearest(class, classes.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let remedy = format!("{near}classes are {}", classes.join(", "));
        problems.push(SpecProblem::new(field, format!("`{}` is unknown", short(class)), remedy));
    }
    if let Some(largest) = sight.exceeded(spec.memory_mb).await {
        let (wanted, most) = beyond(spec.memory_mb, largest);
        let message = format!("{wanted} is more than the largest node has");
        let remedy = format!("ask for {most} at most");
        problems.push(SpecProblem::new("memory", message, remedy));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
}

/// Refuses memory that no node has, and a further size of memory if the campaign has [`MAX_STEPS`]
/// sizes.
async fn check_memory(state: &ServeState, id: u64, memory_mb: u64) -> Result<(), Failed> {
    let works = state.reader().await?.get()?.works(id).await?;
    let is_new = works.iter().all(|work| work.memory_mb != memory_mb);
    if is_new && MAX_STEPS <= crate::model::count(&works) {
        let detail =
            format!("memory: campaign {id} has {MAX_STEPS} sizes already; use a size of these");
        return Err(Failed::bad(detail));
    }
    match state.sight.exceeded(memory_mb).await {
        Some(largest) => {
            let (wanted, most) = beyond(memory_mb, largest);
            Err(Failed::bad(format!(
                "memory: {wanted} is more than the largest node has; ask for {most} at most"
            )))
        }
        None => Ok(()),
    }
}

/// Memory that is too much, in MiB, and the most there is, in one unit: in GB where that tells them apart. The
/// second is rounded down, so that it can be asked for.
fn beyond(wanted_mb: u64, largest_mb: u64) -> (String, String) {
    let (wanted, most) = (memory_text(wanted_mb), format!("{} GB", largest_mb >> 10));
    let is_plain = 1024 <= largest_mb && wanted != most && !wanted.ends_with("MB");
    if is_plain { (wanted, most) } else { (format!("{wanted_mb} MB"), format!("{largest_mb} MB")) }
}

/// The campaign, or the problem that there is none.
pub(super) fn known(info: Option<CampaignInfo>, id: u64) -> Result<CampaignInfo, Failed> {
    let absent = || Failed::absent(format!("there is no campaign {id}; `apportion campaign list`"));
    info.ok_or_else(absent)
}

/// Refuses callers that may not touch a campaign.
pub(super) async fn check_owner(
    state: &ServeState,
    caller: &OrchestratorCaller,
    id: u64,
) -> Result<CampaignInfo, Failed> {
    let info = state.reader().await?.get()?.campaign(id).await?;
    let info = known(info, id)?;
    caller.check_touch(&info.row.owner)?;
    Ok(info)
}

/// Refuses requests about the tasks of a folded campaign, of which only counts are left.
pub(super) fn check_tasks(info: &CampaignInfo) -> Result<(), Failed> {
    info.folded_ms.map_or(Ok(()), |folded_ms| Err(Failed::folded(info.row.id, folded_ms)))
}

/// Builds the line of a campaign.
pub(super) async fn summarise(
    reader: &mut StoreReader,
    info: &CampaignInfo,
) -> Result<CampaignSummary, Failed> {
    let counts = reader.in_flight(info.row.id).await?;
    let of = |state: TaskState| counts.get(state.word()).copied().unwrap_or(0);
    let running = of(TaskState::Assigned) + of(TaskState::Running);
    let away = if 0 < running { reader.away(info.row.id).await? } else { BTreeMap::new() };
    Ok(CampaignSummary { away, ..summary(info, running) })
}

/// A campaign, of which slots have `running` tasks.
fn summary(info: &CampaignInfo, running: u64) -> CampaignSummary {
    let row = &info.row;
    let finals = row.done + row.failed + row.cancelled + row.dropped;
    CampaignSummary {
        id: row.id,
        name: info.name.clone(),
        user: row.owner.clone(),
        state: row.state.word().to_owned(),
        frozen: INIT_FAILS <= row.init_fails && !row.state.is_final(),
        submitted_ms: row.submitted_ms,
        tasks: row.total,
        queued: row.total.saturating_sub(finals).saturating_sub(running),
        running,
        away: BTreeMap::new(),
        done: row.done,
        failed: row.failed,
        cancelled: row.cancelled,
        dropped: row.dropped,
        mean_ms: row.ended_ms.checked_div(row.ended).unwrap_or(0),
        rss_mb: row.rss_mb,
        hook_of: row.hook_of,
        folded_ms: info.folded_ms,
    }
}

fn avoided(row: FaultRow) -> AvoidedNode {
    let FaultRow { node, code, opened_ms, text, .. } = row;
    AvoidedNode { node: node.to_string(), code, since_ms: opened_ms, text }
}

fn note(note: NoteInfo) -> NoteLine {
    let NoteInfo { at_ms, task, node, code, text, .. } = note;
    NoteLine { at_ms, task, node, code, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_and_what_there_is_have_one_unit() {
        for (wanted, largest, expected) in [
            (900 << 10, 23_552, ("900 GB", "23 GB")),
            (900 << 20, 23_600, ("900 TB", "23 GB")),
            (23_553, 23_552, ("23553 MB", "23552 MB")),
            (1_000, 512, ("1000 MB", "512 MB")),
            (2_048, 512, ("2048 MB", "512 MB")),
        ] {
            let (one, other) = beyond(wanted, largest);
            assert_eq!((one.as_str(), other.as_str()), expected);
        }
    }
}
