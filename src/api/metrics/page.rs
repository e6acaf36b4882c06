//! The page that a Prometheus reads.

use std::fmt;
use std::time::Instant;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

use super::cluster::Cluster;
use super::meters::PREFIX;
use super::metrics_text;
use crate::api::http::error::{ApiError, Code};
use crate::api::state::ApiState;

/// All metrics: in `OpenMetrics` if the client accepts it, else in Prometheus' older text format.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String)))]
pub async fn get_metrics(
    State(state): State<ApiState>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // With a hundred thousand jobs the work takes long enough to hold up other requests.
    let made = tokio::task::spawn_blocking(move || open_metrics(&state)).await;
    let text = made.ok().and_then(Result::ok).ok_or_else(|| {
        ApiError::new(Code::Internal, "the metrics could not be made: internal error, see the log")
    })?;
    Ok(metrics_text(&headers, text))
}

fn open_metrics(state: &ApiState) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Cluster {
        published: state.latest(),
        heartbeats: state.heartbeats.log().heartbeat_ages(Instant::now()),
    }));
    let mut text = String::new();
    encode_registry(&mut text, &registry)?;
    state.board.meters().encode(&mut text)?;
    encode_eof(&mut text)?;
    Ok(text)
}
