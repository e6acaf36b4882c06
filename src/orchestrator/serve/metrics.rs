//! Metrics of the orchestrator for Prometheus.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::problem::Failed;
use super::state::ServeState;
use crate::api::metrics_text;
use crate::orchestrator::drive;

/// All metrics of the orchestrator: in `OpenMetrics` for callers that accept it, else in Prometheus' older
/// text format. Where the orchestrator runs alone they are at `/metrics` too.
#[utoipa::path(get, path = "/orchestrator/metrics", tag = "health",
    responses((status = 200, body = String), (status = 503, description = "the orchestrator has stopped")))]
pub(super) async fn get_metrics(
    State(state): State<ServeState>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let figures = state.ask(drive::BookRequest::Count).await?;
    let text = state.meters.encode(&figures).unwrap_or_default();
    Ok(metrics_text(&headers, text))
}
