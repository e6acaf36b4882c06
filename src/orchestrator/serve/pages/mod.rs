//! Pages of campaigns, tasks and nodes in the frame of the dashboard, from the facts of the API.
//!
//! [`pages`] fit into any site, also a site with pages of its own; [`site`] is a complete site.

mod act;
mod campaign;
mod draw;
mod grid;
mod list;
mod node;
mod task;

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::middleware;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::stream;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use super::problem::Failed;
use super::state::ServeState;
use crate::dashboard::{PageError, Site, asset, harmless, in_parts};

/// The section of the navigation.
const SECTION: &str = "/campaigns";
/// The site of an orchestrator that runs alone.
const SITE: Site =
    Site { sections: &[("Campaigns", SECTION)], document: "/orchestrator/openapi.json" };
/// Shortest time between two messages of a stream.
const PACE: Duration = Duration::from_millis(500);
/// Longest time between two messages of a stream.
const BEAT: Duration = Duration::from_secs(10);

/// The pages, with no gate in front.
pub fn pages(state: ServeState) -> Router {
    Router::new()
        .route("/campaigns", get(list::page))
        .route("/grid", get(grid::page))
        .route("/campaigns/on/{node}", get(node::page))
        .route("/campaigns/{id}", get(campaign::page))
        .route("/campaigns/{id}/state", post(act::change))
        .route("/campaigns/{id}/task", get(task::find))
        .route("/campaigns/{id}/tasks/{task}", get(task::page))
        .layer(middleware::from_fn(in_parts))
        .layer(middleware::from_fn(harmless))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .with_state(state)
}

/// Returns the pages as a site of their own, with assets, the stream and a first page.
pub fn site(state: ServeState) -> Router {
    let around = Router::new()
        .route("/", get(|| async { Redirect::to(SECTION) }))
        .route("/live", get(live))
        .route("/assets/{name}", get(asset))
        .layer(middleware::from_fn(harmless))
        .with_state(state.clone());
    pages(state).layer(Extension(SITE)).merge(around)
}

/// Streams a message after each change, until the orchestrator stops or the browser leaves the page.
async fn live(State(state): State<ServeState>) -> impl IntoResponse {
    let sight = state.sight.clone();
    let messages = stream::unfold((sight, true), |(mut sight, is_first)| async move {
        if !is_first {
            let (stop, commits) = (sight.stop.clone(), &mut sight.commits);
            tokio::select! {
                () = stop.cancelled() => return None,
                () = async {
                    tokio::time::sleep(PACE).await;
                    // If no owner commits any more, the stop is due.
                    let _ = tokio::time::timeout(BEAT, commits.changed()).await;
                } => {}
            }
        }
        let change = *sight.commits.borrow_and_update();
        let data = format!(r#"{{"cycle":{change},"word":"change"}}"#);
        let message = sse::Event::default().event("cycle").id(change.to_string()).data(data);
        Some((Ok::<_, Infallible>(message), (sight, false)))
    });
    Sse::new(messages)
}

impl From<Failed> for PageError {
    fn from(failed: Failed) -> PageError {
        let (status, sentence) = failed.told();
        PageError::Refused { status, sentence }
    }
}
