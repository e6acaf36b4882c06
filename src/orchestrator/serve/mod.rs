//! Routes of the orchestrator, and their document.
//!
//! Reads go to the database by connections of their own; all other requests go to the owner of the
//! book. The document is at `/orchestrator/openapi.json`, apart from the document of the resource
//! manager.

mod admission;
mod adoption;
mod advice;
mod caller;
mod campaigns;
mod clusters;
mod events;
mod extend;
mod filed;
mod gangs;
mod grid;
mod hub;
mod metrics;
mod nodes;
mod output;
mod output_away;
mod pages;
mod problem;
mod state;
mod stats;
mod tasks;
mod why;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::packing;

pub use caller::OrchestratorCaller;
pub use pages::pages;
pub use problem::Failed;
pub use state::{OrchestratorPhase, ServeState, Sight};
pub use stats::stats_of;

/// Most campaigns of a user that are not final.
pub const MAX_LIVE: u64 = 2000;

/// Title, description and tags of the `OpenAPI` document.
#[derive(OpenApi)]
#[openapi(
    info(title = "apportion orchestrator", description = "Campaigns of tasks, and the nodes that run them. Answers of more than 4 KiB are compressed for \
                       callers that send `Accept-Encoding: gzip`; the output of tasks is not."),
    tags(
        (name = "campaigns", description = "Submitting, watching and ending campaigns."),
        (name = "tasks", description = "Single tasks and their output."),
        (name = "nodes", description = "Requests of agents, and the nodes that run slots."),
        (name = "health", description = "For programs that watch the orchestrator."),
    )
)]
struct OrchestratorDocument;

/// All routes, with no gate in front. The gate in front has to put an `Identity` into each request.
pub fn routes(state: ServeState) -> Router {
    let (routes, document) = OpenApiRouter::with_openapi(OrchestratorDocument::openapi())
        .routes(routes!(campaigns::post_campaign, campaigns::get_campaigns))
        .routes(routes!(campaigns::get_campaign))
        .routes(routes!(admission::get_admission))
        .routes(routes!(admission::post_try))
        .routes(routes!(campaigns::get_spec))
        .routes(routes!(campaigns::put_state))
        .routes(routes!(campaigns::post_resubmit))
        .routes(routes!(stats::get_stats))
        .routes(routes!(why::get_why))
        .routes(routes!(events::get_events))
        .routes(routes!(grid::get_grid))
        .routes(routes!(filed::get_filed, filed::put_filed))
        .routes(routes!(filed::delete_filed))
        .routes(routes!(grid::get_node))
        .routes(routes!(grid::post_leases))
        .routes(routes!(clusters::get_status))
        .routes(routes!(clusters::put_cluster))
        .routes(routes!(clusters::get_forecasts))
        .routes(routes!(tasks::get_tasks, extend::post_tasks))
        .routes(routes!(tasks::get_task))
        .routes(routes!(tasks::post_cancel))
        .routes(routes!(tasks::post_signal))
        .routes(routes!(nodes::post_exchange))
        .routes(routes!(nodes::get_stdin))
        .routes(routes!(nodes::post_lost))
        .routes(routes!(adoption::get_adoption, adoption::post_adoption))
        .routes(routes!(metrics::get_metrics))
        .layer(packing())
        // Events are a stream: compression would hold them back.
        .routes(routes!(output::get_output))
        .routes(routes!(output::post_chunk))
        .split_for_parts();
    let document = Bytes::from(document.to_json().unwrap_or_default());
    let json = HeaderValue::from_static("application/json");
    let show = move || async move { ([(header::CONTENT_TYPE, json)], document) };
    routes.route("/orchestrator/openapi.json", get(show)).with_state(state)
}

/// All routes and pages behind a gate of their own, for an orchestrator that runs alone.
pub fn gated(state: ServeState) -> Router {
    let gate = middleware::from_fn_with_state(state.clone(), caller::gate);
    // `route_layer`: the gate has to know which route it is.
    let metrics = Router::new().route("/metrics", get(metrics::get_metrics));
    let metrics = metrics.with_state(state.clone());
    routes(state.clone()).merge(metrics).merge(pages::site(state)).route_layer(gate)
}
