//! Events of nodes and clusters: listing, filing, closing.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::caller::OrchestratorCaller;
use super::problem::Failed;
use super::state::ServeState;
use crate::model::is_hidden;
use crate::orchestrator::book::FaultRow;
use crate::orchestrator::drive::BookRequest;
use crate::orchestrator::wire::{
    CampaignFault, EventClass, FiledNumber, GridEventList, NewGridEvent,
};

/// Most bytes of a name.
const MAX_NAME: usize = 255;
/// Most bytes of a sentence.
const MAX_TEXT: usize = 4096;

/// Lists events of nodes and clusters, the newest first, and the nodes that campaigns avoid.
#[utoipa::path(get, path = "/v1/grid/events", tag = "nodes",
    responses((status = 200, body = GridEventList)))]
pub(super) async fn get_filed(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
) -> Result<Json<GridEventList>, Failed> {
    let (events, faults) = state.reader().await?.get()?.filed().await?;
    Ok(Json(GridEventList { events, faults: faults.into_iter().map(fault).collect() }))
}

fn fault(row: FaultRow) -> CampaignFault {
    let FaultRow { campaign, node, code, opened_ms, parent, text, .. } = row;
    CampaignFault { campaign, node: node.to_string(), code, opened_ms, parent, text }
}

/// Files an event. While an event of the class `node` or `cluster` is open, no task begins there; tasks that run
/// end by themselves. If an event of the same node or cluster is open, the answer is its number.
#[utoipa::path(put, path = "/v1/grid/events", tag = "nodes", request_body = NewGridEvent,
    responses((status = 201, body = FiledNumber), (status = 400, description = "the parent is not open, or a field is wrong")))]
pub(super) async fn put_filed(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Json(event): Json<NewGridEvent>,
) -> Result<(StatusCode, Json<FiledNumber>), Failed> {
    check(&event)?;
    let id = state.ask(|reply| BookRequest::File(event, caller.by(), reply)).await?;
    let id = id.map_err(|refused| Failed::bad(refused.to_string()))?;
    Ok((StatusCode::CREATED, Json(FiledNumber { id })))
}

fn check(event: &NewGridEvent) -> Result<(), Failed> {
    let is_log = event.class == EventClass::Log;
    match event.class {
        EventClass::Node | EventClass::Cluster | EventClass::Log => {}
        EventClass::Task | EventClass::Campaign | EventClass::Notify => {
            return Err(Failed::bad("class: write `node`, `cluster` or `log`"));
        }
    }
    let is_name = event.name.len() <= MAX_NAME && !event.name.chars().any(is_hidden);
    if !is_name || (event.name.is_empty() && !is_log) {
        return Err(Failed::bad("name: write the name of a node or cluster"));
    }
    if MAX_TEXT < event.text.len() || event.text.trim().is_empty() {
        return Err(Failed::bad("text: write a sentence of 4,096 bytes at most"));
    }
    Ok(())
}

/// Closes an event, the events that it caused, and the faults of campaigns that belong to it.
#[utoipa::path(delete, path = "/v1/grid/events/{id}", tag = "nodes",
    params(("id" = u64, Path, description = "the number of the event")),
    responses((status = 204, description = "it is on record"), (status = 404, description = "no such event is open")))]
pub(super) async fn delete_filed(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
) -> Result<StatusCode, Failed> {
    if state.ask(|reply| BookRequest::Close(id, caller.by(), reply)).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Failed::absent(format!("no event {id} is open; `apportion fault list`")))
    }
}
