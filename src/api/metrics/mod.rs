//! Metrics for Prometheus.
//!
//! Gauges are computed from the latest published view at every scrape ([`cluster`]). So no value is
//! kept twice, and a thing that left the cluster leaves the metrics. Sums over time are counted
//! where things happen ([`meters`]). A label has at most as many values as the configuration has
//! names: users, jobs and nodes are no labels.

mod classic;
pub(in crate::api) mod client_stats;
mod cluster;
mod gangs;
mod meters;
pub(in crate::api) mod page;
mod past;

pub use meters::{Meters, RereadOutcome};

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use self::meters::Route;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `text`, which is `OpenMetrics`, as an answer in the format that `headers` accept.
pub(crate) fn metrics_text(headers: &HeaderMap, text: String) -> Response {
    let is_open = headers
        .get_all(header::ACCEPT)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("application/openmetrics-text"));
    let (kind, text) =
        if is_open { (OPEN_METRICS, text) } else { (CLASSIC, classic::classic(&text)) };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// A request that is counted and timed by its route: `/v1/jobs/{id}`, not `/v1/jobs/7`.
#[derive(Debug)]
pub struct Counted {
    began: Instant,
    method: &'static str,
    route: Route,
}

impl Counted {
    /// Begins with the arrival of a request.
    pub fn begin(request: &Request) -> Counted {
        let route = Route(request.extensions().get::<MatchedPath>().cloned());
        Counted { began: Instant::now(), method: method_name(request.method()), route }
    }

    /// Counts the answer.
    pub fn end(self, meters: &Meters, status: StatusCode) {
        let Counted { began, method, route } = self;
        meters.request(route, method, status, began.elapsed());
    }
}

/// Returns the name of a known method, else "other": clients can make up methods.
fn method_name(method: &Method) -> &'static str {
    let known = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::HEAD];
    let names = ["GET", "PUT", "POST", "DELETE", "HEAD"];
    known.iter().zip(names).find(|(one, _)| *one == method).map_or("other", |(_, name)| name)
}
