//! The dashboard: what the API tells, as pages for people.
//!
//! Pages are built from the same published view and the same wire types as the answers of the API,
//! so the two cannot disagree. Without JavaScript, pages are links and tables. With it, a page
//! follows a stream of announcements and requests its own live part again. An unchanged part is
//! answered with a 304. Of a large map only the changed nodes are sent.
//!
//! ```text
//!  board ──► watcher ──► past (samples, moments, latest events; bounded, in memory)
//!    │                     │
//!    └──────► pages ◄──────┘        live: one stream a page · assets: compiled in
//! ```

mod account;
mod assets;
mod calendar;
mod chart;
mod classes;
mod configuration;
mod events;
mod fairness;
mod frame;
mod job;
mod jobs;
mod live;
mod looks;
mod map;
mod moment;
mod node;
mod nodes;
mod overview;
mod palette;
mod past;
mod problems;
mod refill;
mod reservations;
mod rows;
mod samples;
mod search;
mod sort;
mod tell;
mod topology;
mod users;
mod vary;
mod watcher;
pub(crate) mod words;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::api::{ApiState, Published, in_turn};
use crate::scheduler::View;

use palette::Palette;
use past::SharedNotes;

// The frame, for pages of other modules.
pub(crate) use assets::asset;
pub(crate) use frame::{Ask, Nothing, Page, PageError, PageQuery, Site, in_parts};
pub(crate) use problems::for_people;

/// Source of all pages: the state of the API, and notes of the past.
#[derive(Clone, Debug)]
pub struct Dashboard {
    api: ApiState,
    past: Arc<SharedNotes>,
}

impl Dashboard {
    /// A dashboard of the daemon that `api` is a part of.
    pub fn new(api: ApiState) -> Dashboard {
        Dashboard { api, past: Arc::new(SharedNotes::default()) }
    }

    /// Returns the view that a request selects: the present, or the cluster after a past cycle.
    fn seen(&self, ask: &Ask) -> Arc<Published> {
        let latest = self.api.latest();
        match ask.past() {
            None => latest,
            Some(past) => Arc::new(latest.of_past(past)),
        }
    }

    /// Returns the colours of users on a page that shows `view`.
    fn palette(&self, view: &View, ask: &Ask) -> Arc<Palette> {
        if ask.past().is_none() {
            return self.past.notes().palette(view);
        }
        let now = self.past.notes().palette(&self.api.latest().view);
        Arc::new(Palette::of_users(view, &now))
    }

    /// Notes what happens, for as long as it is polled.
    pub async fn watch(self) {
        refill::resumed(&self.api).await;
        let (api, past) = (&self.api, &*self.past);
        let last = api.latest().last_event;
        let before =
            async { tokio::join!(refill::preempted(api, past, last), refill::samples(api, past)) };
        tokio::join!(watcher::watch(api, past, last), before);
    }

    /// Returns the routes of all pages. Merged with the routes of the API, they pass the same
    /// checks.
    ///
    /// For the role `reader`, but for `POST /nodes/vary`, which is an act of an `operator`.
    /// The navigation names the pages of campaigns if it `has_campaigns`.
    pub fn routes(self, has_campaigns: bool) -> Router<ApiState> {
        let dear = Router::new()
            .route("/", get(overview::page))
            .route("/topology", get(topology::page))
            .route(CHANGES, get(topology::changes))
            .route("/topology/node", get(topology::spot_words))
            .route("/fairness", get(fairness::page))
            .route("/search", get(search::page))
            .route("/jobs", get(jobs::page))
            .route("/jobs/{id}", get(job::page))
            .route("/classes", get(classes::page))
            .route("/classes/{name}", get(classes::one))
            .route("/users", get(users::page))
            .route("/users/{name}", get(users::one))
            .route("/nodes", get(nodes::page))
            .route(VARY, post(vary::act).get(vary::preview))
            .route("/node/{name}", get(node::page))
            .route("/calendar", get(calendar::page))
            .route("/reservations", get(reservations::page))
            .route("/events", get(events::page))
            .route("/config", get(configuration::page))
            .route("/errors", get(problems::all))
            .route("/errors/{code}", get(problems::one))
            .route("/history", get(chart::history))
            .layer(middleware::from_fn_with_state(self.clone(), when_resumed));
        let cheap =
            Router::new().route("/live", get(live::stream)).route("/assets/{name}", get(asset));
        let in_turn = middleware::from_fn_with_state(self.api.clone(), in_turn);
        let at_cycle = middleware::from_fn_with_state(self.clone(), moment::at_cycle);
        let dear =
            finished(dear).layer(in_turn).layer(at_cycle).layer(middleware::from_fn(harmless));
        let all = dear.merge(finished(cheap)).with_state(self);
        all.layer(Extension(Site::beside(has_campaigns)))
    }
}

/// Answers with parts of pages, security headers and compression, as pages repeat the same words.
/// Streams stay as they are.
fn finished(pages: Router<Dashboard>) -> Router<Dashboard> {
    pages
        .layer(middleware::from_fn(in_parts))
        .layer(middleware::from_fn(harmless))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
}

/// Answers with a notice while the daemon still loads its state from the store.
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

/// Address of the changed nodes of a large map.
const CHANGES: &str = "/topology/changes";

/// Address of the form that takes nodes out and puts them back.
const VARY: &str = "/nodes/vary";

/// Content policy: a page loads and runs only content of this daemon, and no other site frames it.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// Adds the security headers to each answer.
pub(crate) async fn harmless(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    make_harmless(response.headers_mut());
    response
}

fn make_harmless(headers: &mut HeaderMap) {
    let harmless = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in harmless {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
