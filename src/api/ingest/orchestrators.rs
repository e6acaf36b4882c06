//! The accepted orchestrator, and the hand-over to another.

use axum::Json;
use axum::extract::State;
use tokio::sync::oneshot;

use crate::api::admin::reason_in;
use crate::api::http::authorize::Caller;
use crate::api::http::error::ApiError;
use crate::api::http::extract::JsonBody;
use crate::api::ingest::publishers::{Publisher, check_name};
use crate::api::owner_request::{AuditNote, Request};
use crate::api::state::{ApiState, stopping};
use crate::api::wire;

/// The accepted orchestrator, and the refused ones.
#[utoipa::path(get, path = "/v1/orchestrators", tag = "queries", responses((status = 200, body = wire::Orchestrators)))]
pub async fn get_orchestrators(State(state): State<ApiState>) -> Json<wire::Orchestrators> {
    let mut intake = state.intake().await;
    let publishers = intake.publishers();
    let refused = publishers.refused().iter().map(|(name, count)| wire::RefusedOrchestrator {
        publisher: name.clone(),
        publications: *count,
    });
    Json(wire::Orchestrators {
        publisher: publishers.current().map(|current| current.name.clone()),
        epoch: publishers.current().map(|current| current.epoch),
        publication: state.latest().publication,
        refused: refused.collect(),
    })
}

/// Lets another orchestrator publish, or any. Work and shares stay as they are.
#[utoipa::path(
    post,
    path = "/v1/orchestrators/hand-over",
    tag = "administration",
    request_body = wire::HandOver,
    responses(
        (status = 200, description = "done, and on record", body = wire::Orchestrators),
        (status = 400, description = "no reason, or no name; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_hand_over(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<wire::HandOver>,
) -> Result<Json<wire::Orchestrators>, ApiError> {
    let reason = reason_in(&request.reason, &state.limits)?;
    if let Some(name) = &request.to {
        check_name(name, "/to", state.limits.string)?;
    }
    let publisher = request.to.map(|name| Publisher { name, epoch: 0 });
    {
        let mut intake = state.intake().await;
        let whom = publisher.as_ref().map_or("any orchestrator", |publisher| &publisher.name);
        let note = AuditNote {
            by: caller.actor(),
            act: "orchestrator hand-over".to_owned(),
            detail: format!("to {whom}: {reason}"),
            outcome: "done".to_owned(),
        };
        remember(&state, publisher.clone(), Some(note)).await?;
        intake.publishers().hand_over(publisher);
        // Another orchestrator has a sequence of its own.
        intake.reset();
    }
    Ok(get_orchestrators(State(state)).await)
}

/// Stores the accepted orchestrator.
///
/// # Errors
///
/// If the scheduler has stopped.
pub(in crate::api) async fn remember(
    state: &ApiState,
    publisher: Option<Publisher>,
    note: Option<AuditNote>,
) -> Result<(), ApiError> {
    let (reply, answer) = oneshot::channel();
    state.room().await?.send(Request::Publisher { publisher, note, reply });
    answer.await.map_err(|_| stopping())
}
