//! The configuration, shown, tried out and changed while the daemon runs.
//!
//! The thread that owns the scheduler answers: only that thread knows the settings in effect.

use axum::Json;
use axum::extract::State;
use tokio::sync::oneshot;

use crate::api::http::authorize::Caller;
use crate::api::http::error::{ApiError, Code, RequestFault};
use crate::api::http::extract::{JsonBody, PathPart};
use crate::api::owner_request::{ConfigAsk, Request};
use crate::api::state::ApiState;
use crate::api::wire::{
    self, ConfigGeneration, ConfigHistory, ConfigInfo, ConfigPlan, ConfigRequest,
};
use crate::model::is_hidden;

/// The configuration in effect, setting by setting, with the source of each.
#[utoipa::path(get, path = "/v1/config", tag = "administration",
    responses((status = 200, body = ConfigInfo)))]
pub async fn get_config(State(state): State<ApiState>) -> Result<Json<ConfigInfo>, ApiError> {
    Ok(Json(ask(&state, ConfigAsk::Show).await?))
}

/// The configurations there were.
#[utoipa::path(get, path = "/v1/config/generations", tag = "administration",
    responses((status = 200, body = ConfigHistory)))]
pub async fn get_generations(
    State(state): State<ApiState>,
) -> Result<Json<ConfigHistory>, ApiError> {
    Ok(Json(ask(&state, ConfigAsk::History).await?))
}

/// An earlier configuration, with the text of its file.
#[utoipa::path(get, path = "/v1/config/generations/{generation}", tag = "administration",
    params(("generation" = u64, Path, description = "its number")),
    responses(
        (status = 200, body = ConfigGeneration),
        (status = 404, description = "not on record", body = wire::Problem),
        (status = 422, description = "it is not what was put on record", body = wire::Problem),
    ))]
pub async fn get_generation(
    State(state): State<ApiState>,
    PathPart(generation): PathPart<u64>,
) -> Result<Json<ConfigGeneration>, ApiError> {
    let asked = |reply| ConfigAsk::Generation { generation, reply };
    Ok(Json(ask(&state, asked).await??))
}

/// Plans a configuration: its effect on settings, nodes and jobs. Changes nothing.
#[utoipa::path(post, path = "/v1/config/plan", tag = "administration",
    request_body = ConfigRequest,
    responses(
        (status = 200, body = ConfigPlan),
        (status = 404, description = "no such generation", body = wire::Problem),
        (status = 422, description = "it is wrong", body = wire::Problem),
    ))]
pub async fn post_plan(
    State(state): State<ApiState>,
    JsonBody(request): JsonBody<ConfigRequest>,
) -> Result<Json<ConfigPlan>, ApiError> {
    check(&request, state.limits.string)?;
    Ok(Json(ask(&state, |reply| ConfigAsk::Plan { request, reply }).await??))
}

/// Puts a configuration into effect and into the store, in a single cycle, or refuses all of it.
#[utoipa::path(post, path = "/v1/config/apply", tag = "administration",
    request_body = ConfigRequest,
    responses(
        (status = 200, body = ConfigPlan),
        (status = 404, description = "no such generation; nothing was changed", body = wire::Problem),
        (status = 422, description = "it is wrong; nothing was changed", body = wire::Problem),
    ))]
pub async fn post_apply(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<ConfigRequest>,
) -> Result<Json<ConfigPlan>, ApiError> {
    check(&request, state.limits.string)?;
    let by = caller.actor();
    let plan = ask(&state, |reply| ConfigAsk::Apply { request, by, reply }).await??;
    state.reread_access(caller.actor()).await?;
    Ok(Json(plan))
}

async fn ask<T>(
    state: &ApiState,
    asked: impl FnOnce(oneshot::Sender<T>) -> ConfigAsk,
) -> Result<T, ApiError> {
    let (reply, answer) = oneshot::channel();
    state.room().await?.send(Request::Configuration(asked(reply)));
    answer.await.map_err(|_| crate::api::state::stopping())
}

/// Refuses a request with both a text and a generation. Refuses a reason or name that is not a
/// single line.
fn check(request: &ConfigRequest, bytes_max: usize) -> Result<(), RequestFault> {
    if request.text.is_some() && request.generation.is_some() {
        let detail = "give a `text` or a `generation`, not both";
        return Err(RequestFault::new(Code::BadValue, "/generation", detail));
    }
    let lines = [("/reason", &request.reason, bytes_max), ("/name", &request.name, 4096)];
    for (pointer, line, most) in lines {
        let line = line.as_deref().unwrap_or("-");
        if line.is_empty() || most < line.len() || line.contains(is_hidden) {
            let detail = format!("is one line of 1 to {most} bytes");
            return Err(RequestFault::new(Code::BadValue, pointer, detail));
        }
    }
    Ok(())
}
