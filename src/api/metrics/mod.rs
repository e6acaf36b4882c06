//! What a Prometheus scrapes.
//!
//! Gauges are made from the latest published picture at every scrape ([`cluster`]): nothing is
//! booked twice, and what is gone from the cluster is gone from the metrics. What adds up over time
//! is counted where it happens ([`meters`]). No label has more values than the configuration has
//! names: neither users nor jobs nor nodes are labels.

mod classic;
pub(in crate::api) mod client_stats;
mod cluster;
mod meters;
pub(in crate::api) mod page;
mod past;

pub use meters::{Meters, Reread};

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
    /// It came.
    pub fn begin(request: &Request) -> Counted {
        let route = Route(request.extensions().get::<MatchedPath>().cloned());
        Counted { began: Instant::now(), method: method_name(request.method()), route }
    }

    /// It was answered.
    pub fn end(self, meters: &Meters, status: StatusCode) {
        let Counted { began, method, route } = self;
        meters.request(route, method, status, began.elapsed());
    }
}

/// Anybody can make up methods.
fn method_name(method: &Method) -> &'static str {
    let known = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::HEAD];
    let names = ["GET", "PUT", "POST", "DELETE", "HEAD"];
    known.iter().zip(names).find(|(one, _)| *one == method).map_or("other", |(_, name)| name)
}
