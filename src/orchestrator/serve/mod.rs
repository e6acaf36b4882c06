//! Routes of the orchestrator, and their document.
//!
//! Reading goes to the database by a connection of its own; everything else goes to the owner of the
//! book. The document is at `/orchestrator/openapi.json`; that of the resource manager does not know
//! of it.

mod advice;
mod caller;
mod campaigns;
mod events;
mod grid;
mod hub;
mod nodes;
mod output;
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

pub use caller::Caller;
pub use pages::pages;
pub use problem::Failed;
pub use state::{ServeState, Sight};

/// Live campaigns that one user may have.
pub const MAX_LIVE: u64 = 2000;

/// What the document says besides the routes.
#[derive(OpenApi)]
#[openapi(
    info(title = "apportion orchestrator", description = "Campaigns of tasks, and the nodes that run them."),
    tags(
        (name = "campaigns", description = "Submitting, watching and ending campaigns."),
        (name = "tasks", description = "Single tasks and their output."),
        (name = "nodes", description = "What agents of nodes ask for."),
    )
)]
struct Document;

/// All routes, with no gate in front. The gate in front has to put an `Identity` into each request.
pub fn routes(state: ServeState) -> Router {
    let (routes, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(campaigns::post_campaign, campaigns::get_campaigns))
        .routes(routes!(campaigns::get_campaign))
        .routes(routes!(campaigns::get_spec))
        .routes(routes!(campaigns::put_state))
        .routes(routes!(campaigns::post_resubmit))
        .routes(routes!(stats::get_stats))
        .routes(routes!(why::get_why))
        .routes(routes!(events::get_events))
        .routes(routes!(grid::get_grid))
        .routes(routes!(tasks::get_tasks))
        .routes(routes!(tasks::get_task))
        .routes(routes!(tasks::post_cancel))
        .routes(routes!(tasks::post_signal))
        .routes(routes!(output::get_output))
        .routes(routes!(nodes::post_exchange))
        .routes(routes!(nodes::get_stdin))
        .routes(routes!(nodes::post_lost))
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
    routes(state.clone()).merge(pages::site(state)).route_layer(gate)
}
