//! The dashboard: what the API tells, as pages for people.
//!
//! Pages are made here, from the same published picture and through the same wire types as the
//! answers of the API, so that they cannot disagree. Without JavaScript they are links and tables.
//! With it a page follows one stream that says that there is something new, and asks for its own
//! live part again; what has not changed is answered with a 304, and of a large map only the nodes are
//! sent that changed.
//!
//! ```text
//!  board ──► watcher ──► past (samples, moments, latest events; bounded, in memory)
//!    │                     │
//!    └──────► pages ◄──────┘        live: one stream a page · assets: compiled in
//! ```

mod account;
mod assets;
mod chart;
mod classes;
mod configuration;
mod events;
mod frame;
mod job;
mod jobs;
mod live;
mod looks;
mod map;
mod node;
mod nodes;
mod overview;
mod past;
mod rows;
mod samples;
mod tell;
mod topology;
mod users;
mod vary;
mod watcher;
pub(crate) mod words;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::api::{ApiState, in_turn};

use past::Past;

// The frame, for pages that others make.
pub(crate) use assets::asset;
pub(crate) use frame::{Ask, Asked, Nothing, Page, PageError, Site, in_parts};

/// What makes pages: the API's state, and what was noted of the past.
#[derive(Clone, Debug)]
pub struct Dashboard {
    api: ApiState,
    past: Arc<Past>,
}

impl Dashboard {
    /// A dashboard of the daemon that `api` is a part of.
    pub fn new(api: ApiState) -> Dashboard {
        Dashboard { api, past: Arc::new(Past::default()) }
    }

    /// Notes what happens, for as long as it is polled.
    pub async fn watch(self) {
        watcher::watch(&self.api, &self.past).await;
    }

    /// All pages. They are to be merged with the API's routes, whose checks then hold for them too.
    ///
    /// For the role `reader`, but for `POST /nodes/vary`, which is an act of an `operator`.
    /// The navigation names the pages of campaigns if it `has_campaigns`.
    pub fn routes(self, has_campaigns: bool) -> Router<ApiState> {
        let dear = Router::new()
            .route("/", get(overview::page))
            .route("/topology", get(topology::page))
            .route("/topology/changes", get(topology::changes))
            .route("/jobs", get(jobs::page))
            .route("/jobs/{id}", get(job::page))
            .route("/classes", get(classes::page))
            .route("/classes/{name}", get(classes::one))
            .route("/users", get(users::page))
            .route("/users/{name}", get(users::one))
            .route("/nodes", get(nodes::page))
            .route(VARY, post(vary::act).get(vary::preview))
            .route("/node/{name}", get(node::page))
            .route("/events", get(events::page))
            .route("/config", get(configuration::page))
            .route("/history", get(chart::history))
            .layer(middleware::from_fn_with_state(self.clone(), when_resumed));
        let cheap =
            Router::new().route("/live", get(live::stream)).route("/assets/{name}", get(asset));
        let in_turn = middleware::from_fn_with_state(self.api.clone(), in_turn);
        let all = finished(dear).layer(in_turn).merge(finished(cheap)).with_state(self);
        all.layer(Extension(Site::beside(has_campaigns)))
    }
}

/// Has pages sent in parts, harmless and packed: they are mostly the same words again and again. Streams
/// are left as they are.
fn finished(pages: Router<Dashboard>) -> Router<Dashboard> {
    pages
        .layer(middleware::from_fn(in_parts))
        .layer(middleware::from_fn(harmless))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
}

/// While the books are still on their way from the record there is nothing to show but that.
async fn when_resumed(
    State(dashboard): State<Dashboard>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    if dashboard.api.latest().is_resuming {
        return frame::not_yet().into_response();
    }
    next.run(request).await
}

/// Where nodes are taken out and put back.
const VARY: &str = "/nodes/vary";

/// A page loads and runs only what comes from here, and is shown in no other's frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// Has pages load and run only what comes from here.
pub(crate) async fn harmless(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
