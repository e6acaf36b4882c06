//! Refusals: a caller learns only that it is refused; the logs have the reason.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::api::http::error::{ApiError, Code};
use crate::api::http::json::shortened;
use crate::api::http::session_cookie::login_address;
use crate::api::owner_request::AuditNote;
use crate::api::state::ApiState;
use crate::auth::{AccessRefusal, Actor, Peer};

pub(in crate::api) const NOT_KNOWN: &str = "say who you are: with a token, or at the unix socket";

/// The name of a caller that is not known.
pub(in crate::api) const STRANGER: &str = "-";

pub(in crate::api) const NOT_ALLOWED: &str = "this is for others";

/// Returns the name of a refused caller for the audit log.
pub(in crate::api) fn stranger(refusal: &AccessRefusal, peer: Peer) -> Actor {
    let who = match refusal {
        AccessRefusal::Unknown(_, Some(name)) => name.clone(),
        AccessRefusal::Unknown(_, None)
        | AccessRefusal::NotAllowed
        | AccessRefusal::TooOften(_) => STRANGER.to_owned(),
    };
    Actor { who, origin: peer.to_string() }
}

/// Records a refusal, and answers only that the request is refused.
pub(in crate::api) fn refused(
    state: &ApiState,
    request: &Request,
    by: Actor,
    refusal: &AccessRefusal,
) -> Response {
    record(state, request.method(), request.uri(), by, refusal);
    let is_page = *request.method() == Method::GET && wants_page(request.headers());
    match refusal {
        AccessRefusal::Unknown(..) if request.headers().contains_key("hx-request") => {
            // An open page asks for its live part. A refresh of the whole page leads to the form.
            let mut response = ApiError::new(Code::NotKnown, NOT_KNOWN).into_response();
            response.headers_mut().insert("hx-refresh", HeaderValue::from_static("true"));
            response
        }
        AccessRefusal::Unknown(..) if is_page => see(&login_address(request.uri())),
        AccessRefusal::Unknown(..) => ApiError::new(Code::NotKnown, NOT_KNOWN).into_response(),
        AccessRefusal::NotAllowed => ApiError::new(Code::NotAllowed, NOT_ALLOWED).into_response(),
        AccessRefusal::TooOften(wait) => {
            let wait = wait.as_secs().saturating_add(1);
            let detail = "more requests than this role is allowed; the header `retry-after` says when to go on";
            let mut response = ApiError::new(Code::TooOften, detail).into_response();
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
            response
        }
    }
}

/// Puts a refusal into the audit log, unless there were too many lately.
pub(in crate::api) fn record(
    state: &ApiState,
    method: &Method,
    uri: &Uri,
    by: Actor,
    refusal: &AccessRefusal,
) {
    let why = match refusal {
        AccessRefusal::Unknown(why, _) => *why,
        AccessRefusal::NotAllowed => "not allowed",
        AccessRefusal::TooOften(_) => "too often",
    };
    let what = format!("{method} {}", shortened(uri.path()));
    note_refusal(state, by, "request", &what, why);
}

/// The same for anything else that is refused to `by`.
pub(in crate::api) fn note_refusal(
    state: &ApiState,
    by: Actor,
    act: &str,
    detail: &str,
    why: &str,
) {
    let Actor { who, origin } = &by;
    let name = Some(who.as_str()).filter(|who| *who != STRANGER);
    let Some(dropped) = state.gatekeeper.may_record_refusal(name, Instant::now()) else {
        tracing::debug!(who, origin, act, detail, why, "refused");
        return;
    };
    tracing::warn!(who, origin, act, detail, why, "refused");
    let before = match dropped {
        0 => String::new(),
        dropped => format!("; {dropped} others before it are not here"),
    };
    state.note(AuditNote {
        by,
        act: act.to_owned(),
        detail: detail.to_owned(),
        outcome: format!("refused: {why}{before}"),
    });
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Sends a browser elsewhere.
pub(in crate::api) fn see(address: &str) -> Response {
    let address = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}
