//! Scripts, styles and images of the pages. All of them are part of the binary, so a cluster
//! without internet has them too.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::frame::{is_known, tag_of};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Every asset: name, type, content.
const ASSETS: [(&str, &str, &str); 6] = [
    ("dashboard.css", STYLE, include_str!("../../assets/dashboard.css")),
    ("dashboard.js", SCRIPT, include_str!("../../assets/dashboard.js")),
    ("htmx.min.js", SCRIPT, include_str!("../../assets/htmx.min.js")),
    ("uplot.min.js", SCRIPT, include_str!("../../assets/uplot.min.js")),
    ("uplot.min.css", STYLE, include_str!("../../assets/uplot.min.css")),
    ("mark.svg", "image/svg+xml", include_str!("../../assets/mark.svg")),
];

/// Serves an asset. Browsers revalidate it each time, because another version of the daemon serves
/// other content under the same name.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, content)) = ASSETS.iter().find(|(asset, ..)| *asset == name) else {
        return (StatusCode::NOT_FOUND, "no such asset\n").into_response();
    };
    let tag = tag_of(content);
    let common = [(header::ETAG, tag.as_str()), (header::CACHE_CONTROL, "no-cache")];
    if is_known(&headers, &tag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(header::CONTENT_TYPE, *kind)], *content).into_response()
}
