//! Adding tasks to a campaign.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::admission::check_change;
use super::caller::OrchestratorCaller;
use super::campaigns::{MAX_BODY, check_owner, key_of};
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::drive;
use crate::orchestrator::extend::Extend;
use crate::orchestrator::spec::read_more;
use crate::orchestrator::wire::AddedTasks;

/// Adds tasks at the end of a campaign that has not ended: a JSON object with `count` where its tasks
/// are numbers, and with `lines` or `items` where each has an entry. With the header
/// `idempotency-key`, the same key again is answered with the tasks that it added.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{id}/tasks",
    tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    request_body = serde_json::Value,
    responses((status = 201, body = AddedTasks), (status = 403, description = "the campaign of another user"),
        (status = 409, description = "the campaign takes no more tasks"),
        (status = 422, description = "every problem at once"))
)]
pub(super) async fn post_tasks(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
    request: Request,
) -> Result<(StatusCode, Json<AddedTasks>), Failed> {
    let info = check_owner(&state, &caller, id).await?;
    let key = key_of(&request);
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY).await;
    let body = body.map_err(|error| Failed::bad(format!("the body cannot be read: {error}")))?;
    let document: Map<String, Value> = serde_json::from_slice(&body)
        .map_err(|error| Failed::bad(format!("the body is no JSON object: {error}")))?;
    let (count, params) = read_more(document)?;
    let spec = state.reader().await?.get()?.spec(&info.row).await?;
    let total = info.row.total.saturating_add(count);
    check_change(&state, &info.row.owner, &spec, (Some(total), None)).await?;
    let extend = Box::new(Extend { campaign: id, count, params, key });
    let added = state.ask(|reply| drive::BookRequest::Extend(extend, caller.by(), reply)).await?;
    Ok((StatusCode::CREATED, Json(added?)))
}
