//! Adoption of attempts after the database was restored from an older copy.

use axum::Json;
use axum::extract::State;

use super::caller::OrchestratorCaller;
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::drive;
use crate::orchestrator::wire::{Adopt, Adoption};

/// Returns the attempts on nodes that the database does not know, if the database is an older copy.
#[utoipa::path(get, path = "/v1/adoption", tag = "nodes", responses((status = 200, body = Adoption)))]
pub(super) async fn get_adoption(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
) -> Result<Json<Adoption>, Failed> {
    state.ask(drive::BookRequest::Adoption).await.map(Json)
}

/// Takes over the attempts and results of nodes that an older copy of the database does not know. After
/// that the orchestrator assigns and publishes again.
#[utoipa::path(post, path = "/v1/adoption", tag = "nodes", request_body = Adopt,
    responses((status = 200, body = Adoption)))]
pub(super) async fn post_adoption(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Json(body): Json<Adopt>,
) -> Result<Json<Adoption>, Failed> {
    let ask = |reply| drive::BookRequest::Adopt(caller.by(), body.reason, reply);
    state.ask(ask).await.map(Json)
}
