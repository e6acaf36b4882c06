//! Health of the daemon: is it alive, and is a schedule available.

use std::fmt::Write;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::api::http::error::{ApiError, Code};
use crate::api::state::ApiState;
use crate::api::wire;

/// Silence after which the scheduler counts as stuck. A cycle takes less, and between cycles the
/// scheduler reports every second.
const SILENT_MAX: Duration = Duration::from_mins(1);

/// Answers `ok` as long as the daemon answers at all.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, body = String)))]
pub async fn get_livez() -> &'static str {
    "ok"
}

/// Answers `ok` if a schedule is available. `?verbose` lists all checks.
#[utoipa::path(get, path = "/readyz", tag = "health",
    params(("verbose" = Option<String>, Query, description = "a line for each check")),
    responses((status = 200, body = String), (status = 503, body = wire::Problem)))]
pub async fn get_readyz(State(state): State<ApiState>, RawQuery(query): RawQuery) -> Response {
    let checks = checks(&state);
    let query = query.unwrap_or_default();
    if query.split('&').any(|part| part.split('=').next() == Some("verbose")) {
        return verbose(&checks);
    }
    match checks.into_iter().find(|check| !check.holds) {
        None => "ok".into_response(),
        Some(check) => ApiError::new(Code::NotReady, check.says).into_response(),
    }
}

/// The same, under the name that is guessed first.
#[utoipa::path(get, path = "/healthz", tag = "health",
    params(("verbose" = Option<String>, Query, description = "a line for each check")),
    responses((status = 200, body = String), (status = 503, body = wire::Problem)))]
pub async fn get_healthz(state: State<ApiState>, query: RawQuery) -> Response {
    get_readyz(state, query).await
}

/// A condition that must hold before a schedule is available.
struct Check {
    name: &'static str,
    holds: bool,
    says: String,
}

fn checks(state: &ApiState) -> [Check; 3] {
    let published = state.latest();
    let cycle = published.view.cycle;
    let silent = state.board.unresponsive_for();
    let (is_resumed, is_ready) = (!published.is_resuming, published.is_ready);
    [
        Check {
            name: "books",
            holds: is_resumed,
            says: if is_resumed { "there" } else { "on their way from the record" }.to_owned(),
        },
        Check {
            name: "scheduler",
            holds: silent < SILENT_MAX,
            says: format!("last seen to live {} s ago", silent.as_secs()),
        },
        Check {
            name: "schedule",
            holds: is_ready,
            says: if is_ready {
                format!("that of cycle {cycle}")
            } else {
                "waiting for the first publication since the start, and the first cycle after it"
                    .to_owned()
            },
        },
    ]
}

fn verbose(checks: &[Check]) -> Response {
    let mut text = String::new();
    for Check { name, holds, says } in checks {
        let sign = if *holds { '+' } else { '-' };
        writeln!(text, "[{sign}] {name}: {says}").expect("a string takes everything");
    }
    let is_ready = checks.iter().all(|check| check.holds);
    text.push_str(if is_ready { "ready\n" } else { "not ready\n" });
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text).into_response()
}
