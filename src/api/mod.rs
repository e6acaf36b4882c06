//! HTTP: what the orchestrator, agents, administrators and the curious talk to.
//!
//! The `OpenAPI` document is built from the routes themselves. Readers are served from the latest
//! published view and never wait for a cycle. Writers send parsed requests to the thread that owns
//! the scheduler. Every failure is an RFC 9457 problem with a stable code.

pub(crate) mod admin;
mod board;
pub(crate) mod config;
mod event_log;
mod events;
pub(crate) mod explain;
mod feed;
mod health;
pub(crate) mod hours;
pub(crate) mod http;
mod ingest;
mod limits;
#[expect(clippy::float_arithmetic, reason = "figures for people; nothing is decided by them")]
mod metrics;
mod node_list;
mod owner_request;
mod past_cycles;
mod published;
pub(crate) mod queries;
pub(crate) mod reservations;
mod state;
mod urgent;
mod urgent_rate;
pub mod wire;

pub use board::ViewPublisher;
pub use event_log::{PastEvent, PastEvents, PastEventsRead};
pub(crate) use events::read as events_since;
pub use explain::why::{why, why_by_node};
pub use feed::diff_events;
pub use hours::CivilTime;
pub use http::authorize::Caller;
pub(crate) use http::authorize::OTHER_HOST;
pub use http::compression::SharedJson;
pub(crate) use http::compression::packing;
pub use http::costly::in_turn;
pub use http::error::{ApiError, Code};
pub(crate) use http::origin::{credential, is_rebound, is_same_origin_post};
pub(crate) use http::session_cookie::session_of;
pub(crate) use http::theme::theme_of;
pub use ingest::absence::AbsentSums;
pub use ingest::heartbeat_inbox::HeartbeatInbox;
pub use ingest::publication_reader::{PublicationReader, Taken};
pub use ingest::publishers::Publisher;
pub use limits::Limits;
pub(crate) use metrics::metrics_text;
pub use metrics::{Meters, RereadOutcome};
pub use owner_request::{AuditNote, ConfigAsk, ConfigRefusal, Request, UrgentReply};
pub use past_cycles::{CyclesOnRecord, FromRecord, NoPastCycle, PastCycles, PastView, Record};
pub use published::{CycleSpans, Published, ScheduleText};
pub use state::ApiState;

use std::any::Any;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::FutureExt;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Parts of the document besides the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "apportion",
        description = "A cluster resource manager: jobs and nodes in, a schedule and its reasons out. Answers \
                       of more than 4 KiB are packed if the client sends `Accept-Encoding: gzip`; streams are not.",
    ),
    tags(
        (name = "orchestrator", description = "All jobs in, the schedule out."),
        (name = "agents", description = "Heartbeats of nodes."),
        (name = "administration", description = "Nodes out of scheduling and back; the configuration."),
        (name = "queries", description = "State of the cluster, and its reasons."),
        (name = "health", description = "Checks for monitoring of the daemon."),
    ),
    components(schemas(wire::Heartbeat))
)]
struct Document;

/// Content type of answers that are served as ready text.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// No browser guesses what an answer is: what names it holds comes from outside.
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// All routes, with their document at `/openapi.json`. The same checks hold for `pages`, and for the
/// routes `beside` them, which have limits of their own.
pub fn router(state: ApiState, pages: Router<ApiState>, beside: Router) -> Router {
    let (routes, document) = documented(&state).split_for_parts();
    // Served as text: the document's tree takes many times as much memory.
    let document = Bytes::from(http::openapi::completed(&document).to_string());
    // Of forms; other bodies have limits of their own. Not tower-http's limit: it answers by itself,
    // and not with a problem.
    let body_limit = || DefaultBodyLimit::max(state.limits.body);
    let login = get(http::login::get_login).post(http::login::post_login);
    routes
        .route(
            "/openapi.json",
            get(move || async move { ([(header::CONTENT_TYPE, JSON)], document) }).layer(packing()),
        )
        .route("/login", login.layer(body_limit()))
        .route("/logout", post(http::login::post_logout))
        .merge(pages.layer(body_limit()))
        .merge(beside.with_state(()))
        .method_not_allowed_fallback(no_such_method)
        .fallback(no_such_path)
        .layer(middleware::from_fn_with_state(state.clone(), checked))
        .with_state(state)
}

/// Runs the common steps of every request, from the outside in: the count, the check for a single
/// meaning, the gate, and the pace of the body. All are in a single layer, as axum copies
/// everything below a layer for every request.
async fn checked(
    State(state): State<ApiState>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    let counted = metrics::Counted::begin(&request);
    let through = async |request| {
        let passed =
            http::authorize::gate(&state, http::body_rate::enforce_min_rate(request), next);
        AssertUnwindSafe(passed).catch_unwind().await.unwrap_or_else(panicked)
    };
    let mut response = reject_ambiguous_framing(request, through).await;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    counted.end(state.board.meters(), response.status());
    response
}

fn documented(state: &ApiState) -> OpenApiRouter<ApiState> {
    let acts = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(ingest::publications::put_publication))
        .routes(routes!(ingest::publications::post_publication_reset))
        .routes(routes!(ingest::orchestrators::post_hand_over))
        .routes(routes!(ingest::heartbeats::post_heartbeats))
        .routes(routes!(admin::post_vary_off))
        .routes(routes!(admin::post_vary_on))
        .routes(routes!(admin::post_nodes_lost))
        .routes(routes!(admin::post_nodes_forget))
        .routes(routes!(reservations::post_reservation, reservations::get_reservations))
        .routes(routes!(reservations::get_reservation, reservations::delete_reservation))
        .routes(routes!(urgent::post_urgent))
        .routes(routes!(config::post_plan))
        .routes(routes!(config::post_apply))
        // Shared by all clients, and packed once.
        .routes(routes!(queries::get_nodes));
    let looks = OpenApiRouter::default()
        .routes(routes!(config::get_config))
        .routes(routes!(config::get_generations))
        .routes(routes!(config::get_generation))
        .routes(routes!(queries::get_node))
        .routes(routes!(queries::get_jobs))
        .routes(routes!(queries::get_job))
        .routes(routes!(queries::get_why))
        .routes(routes!(queries::get_classes))
        .routes(routes!(queries::get_users))
        .routes(routes!(queries::get_load))
        .routes(routes!(queries::get_occupancy))
        .routes(routes!(queries::get_status))
        .routes(routes!(queries::get_cycles))
        .routes(routes!(ingest::orchestrators::get_orchestrators))
        .routes(routes!(queries::get_clients));
    // Only long polls and streams may exceed the time limit.
    let turns = || middleware::from_fn_with_state(state.clone(), in_turn);
    let brief = acts.merge(looks.layer(packing()).layer(turns()));
    let brief = brief.layer(middleware::from_fn_with_state(state.clone(), resumed_in_time));
    let health = OpenApiRouter::default()
        .routes(routes!(health::get_livez))
        .routes(routes!(health::get_readyz))
        .routes(routes!(health::get_healthz))
        .merge(
            OpenApiRouter::default()
                .routes(routes!(metrics::page::get_metrics))
                .layer(packing())
                .layer(turns()),
        );
    let health = health.layer(middleware::from_fn_with_state(state.clone(), healthy_in_time));
    brief
        .merge(health)
        .merge(OpenApiRouter::default().routes(routes!(events::get_events)).layer(packing()))
        .routes(routes!(ingest::publications::get_schedule))
}

/// Makes requests wait while the scheduler's state is being restored from the store. The time limit
/// includes the wait.
async fn resumed_in_time(
    State(state): State<ApiState>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    let resumed = async {
        if state.latest().is_resuming && !is_resumed(&state).await {
            return ApiError::new(Code::Stopping, "the daemon stops before its state is restored")
                .into_response();
        }
        next.run(request).await
    };
    in_time(&state, resumed).await
}

/// Waits for the restored state; `false` if the daemon stops before.
async fn is_resumed(state: &ApiState) -> bool {
    let mut changes = state.board.changes();
    while state.latest().is_resuming {
        let is_over = tokio::select! {
            changed = changes.changed() => changed.is_err(),
            () = state.stop.cancelled() => true,
        };
        if is_over {
            return false;
        }
    }
    true
}

async fn healthy_in_time(
    State(state): State<ApiState>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    in_time(&state, next.run(request)).await
}

/// Ends requests that take too long, including requests whose client never finishes sending.
async fn in_time(state: &ApiState, response: impl Future<Output = Response>) -> Response {
    let limit = state.limits.time;
    tokio::time::timeout(limit, response).await.unwrap_or_else(|_| {
        let detail = format!(
            "not done within {} s; if it was a change, ask whether it was made",
            limit.as_secs()
        );
        ApiError::new(Code::TimedOut, detail).into_response()
    })
}

/// Passes on requests that have a single meaning. An ambiguous request ends the connection, and so
/// does a chunked request. The chunked request may have had a length besides: then the next bytes
/// may be another client's.
async fn reject_ambiguous_framing(
    request: axum::extract::Request,
    next: impl AsyncFnOnce(axum::extract::Request) -> Response,
) -> Response {
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let checked = http::extract::check_host(request.version(), request.headers());
    let is_bad = checked.is_err();
    let mut response = match checked {
        Ok(()) => next(request).await,
        Err(error) => error.into_response(),
    };
    if is_bad || is_chunked {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

async fn no_such_path(uri: Uri) -> ApiError {
    let path = http::json::shortened(uri.path());
    ApiError::new(
        Code::NoSuchPath,
        format!("there is nothing at `{path}`; /openapi.json lists what there is"),
    )
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let path = http::json::shortened(uri.path());
    ApiError::new(
        Code::NoSuchMethod,
        format!("`{path}` has no method {method}; the header `allow` lists those it has"),
    )
}

/// Answers for a handler that panicked. The scheduler's state is in another thread and unharmed.
#[expect(clippy::needless_pass_by_value, reason = "`catch_unwind` hands it over")]
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(message, "a request panicked");
    ApiError::new(Code::Internal, "internal error; it is in the log").into_response()
}
