//! Whether the daemon lives, and whether it is of use yet.

use axum::extract::State;

use super::error::{ApiError, Code};
use super::state::ApiState;
use super::wire;

/// Whether the daemon answers at all.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, body = String)))]
pub async fn get_livez() -> &'static str {
    "ok"
}

/// Whether there is a schedule to be had.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = String), (status = 503, body = wire::Problem)))]
pub async fn get_readyz(State(state): State<ApiState>) -> Result<&'static str, ApiError> {
    if state.latest().is_ready {
        return Ok("ok");
    }
    Err(ApiError::new(Code::NotReady, "waiting for the first publication since the start"))
}
