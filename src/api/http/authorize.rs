//! The gate that every request goes through: who is it, may they, and is it their own will?
//!
//! Whoever is refused learns that and nothing else; why stands in the log and in the audit log.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use reqwest::Url;

use crate::access::{Actor, Credential, Identity, Peer, READ, Refusal, Rule, rule};
use crate::api::http::error::{ApiError, Code};
use crate::api::http::json::shortened;
use crate::api::http::login::{login_address, session_of};
use crate::api::metrics::client_stats::Client;
use crate::api::state::{ApiState, AuditNote};

/// Who makes this request.
#[derive(Clone, Debug)]
pub struct Caller(pub Identity);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, ApiError> {
        // Nobody gets to a handler past the gate; without it nothing is done.
        let identity = parts.extensions.get::<Identity>().cloned();
        identity.map(Caller).ok_or_else(|| ApiError::new(Code::NotKnown, NOT_KNOWN))
    }
}

const NOT_KNOWN: &str = "say who you are: with a token, or at the unix socket";
/// The name of a caller that is not known.
const STRANGER: &str = "-";
pub(crate) const OTHER_HOST: &str = "without tokens the daemon answers to addresses and local names only: ask it as 127.0.0.1 or localhost";
const FOREIGN_HOST: Refusal = Refusal::Unknown("asked for under another host's name", None);
pub(in crate::api) const NOT_ALLOWED: &str = "this is for others";

/// Lets pass who may, and counts who asked.
pub async fn gate(state: &ApiState, request: Request, next: Next) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        return ApiError::new(Code::NotKnown, NOT_KNOWN).into_response();
    };
    let identity = state.gatekeeper.identify(peer, credential(request.headers()));
    let client = Client::of(&identity, peer);
    let response = let_in(state, request, next, peer, identity).await;
    state.clients.answered(client, response.status());
    response
}

async fn let_in(
    state: &ApiState,
    mut request: Request,
    next: Next,
    peer: Peer,
    identity: Result<Identity, Refusal>,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let rule = rule(request.method().as_str(), route);
    let asks_for_more = rule == Rule::Terse && request.uri().query().is_some();
    let rule = if asks_for_more { READ } else { rule };
    if matches!(rule, Rule::Open | Rule::Terse) {
        if let Ok(identity) = identity {
            request.extensions_mut().insert(identity);
        }
        return next.run(request).await;
    }
    let (by, refusal) = match identity {
        Ok(identity) if is_rebound(request.headers(), &identity) => {
            record(state, request.method(), request.uri(), identity.actor(), &FOREIGN_HOST);
            return ApiError::new(Code::NotAllowed, OTHER_HOST).into_response();
        }
        Ok(identity) => {
            let is_theirs = is_own_will(&request, &identity);
            match state.gatekeeper.admit(&identity, rule) {
                Ok(()) if is_theirs => {
                    request.extensions_mut().insert(identity);
                    return next.run(request).await;
                }
                Ok(()) => (identity.actor(), Refusal::NotAllowed),
                Err(refusal) => (identity.actor(), refusal),
            }
        }
        Err(refusal) => (stranger(&refusal, peer), refusal),
    };
    refused(state, &request, by, &refusal)
}

/// How somebody who is not let in stands on record.
pub(in crate::api) fn stranger(refusal: &Refusal, peer: Peer) -> Actor {
    let who = match refusal {
        Refusal::Unknown(_, Some(name)) => name.clone(),
        Refusal::Unknown(_, None) | Refusal::NotAllowed | Refusal::TooOften(_) => {
            STRANGER.to_owned()
        }
    };
    Actor { who, origin: peer.to_string() }
}

/// Puts a refusal on record, and says no more than that it is one.
fn refused(state: &ApiState, request: &Request, by: Actor, refusal: &Refusal) -> Response {
    record(state, request.method(), request.uri(), by, refusal);
    let is_page = *request.method() == Method::GET && wants_page(request.headers());
    match refusal {
        Refusal::Unknown(..) if request.headers().contains_key("hx-request") => {
            // A page that is open wants its live part. Asked for as a whole, it leads to the form.
            let mut response = ApiError::new(Code::NotKnown, NOT_KNOWN).into_response();
            response.headers_mut().insert("hx-refresh", HeaderValue::from_static("true"));
            response
        }
        Refusal::Unknown(..) if is_page => see(&login_address(request.uri())),
        Refusal::Unknown(..) => ApiError::new(Code::NotKnown, NOT_KNOWN).into_response(),
        Refusal::NotAllowed => ApiError::new(Code::NotAllowed, NOT_ALLOWED).into_response(),
        Refusal::TooOften(wait) => {
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
    refusal: &Refusal,
) {
    let why = match refusal {
        Refusal::Unknown(why, _) => *why,
        Refusal::NotAllowed => "not allowed",
        Refusal::TooOften(_) => "too often",
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

/// What the headers show. A token goes before a session.
pub(crate) fn credential(headers: &HeaderMap) -> Credential<'_> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let value = value.to_str().unwrap_or_default();
        return match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                Credential::Token(token.trim())
            }
            _ => Credential::Unreadable,
        };
    }
    session_of(headers).map_or(Credential::Nothing, Credential::Session)
}

/// Whether a change is what its sender wants: a page elsewhere can make a browser send things, with
/// the session in it, or from this very machine. A token has to be put there on purpose.
pub(crate) fn is_own_will(request: &Request, identity: &Identity) -> bool {
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let needs_none = identity.role.is_none();
    let is_session = || matches!(credential(request.headers()), Credential::Session(_));
    is_safe || !(needs_none || is_session()) || is_same_site(request.headers(), needs_none)
}

/// Whether a browser says that one of our own pages made it send this, or it is no browser that
/// sends. Where nobody needs to log in, our own address has to be one of this machine: any name could
/// be made to lead here.
pub(in crate::api) fn is_same_site(headers: &HeaderMap, needs_none: bool) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    if text(header::HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| !["same-origin", "none"].contains(&site))
    {
        return false;
    }
    let Some(origin) = text(header::ORIGIN) else { return true };
    let host = text(header::HOST).unwrap_or_default();
    let Ok(origin) = origin.parse::<Url>() else { return false };
    let is_here = origin.authority() == host;
    is_here && (!needs_none || is_this_machine(&origin))
}

/// Whether the request was meant for another name. Any site can have its name lead to this machine; a
/// browser then lets its pages read what is answered. Where tokens are asked for they protect.
pub(crate) fn is_rebound(headers: &HeaderMap, identity: &Identity) -> bool {
    let is_open = identity.role.is_none() && matches!(identity.peer, Peer::Tcp { .. });
    let host = || headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    is_open && host().is_some_and(|host| !is_own_name(host))
}

/// Whether `host`, with or without a port, is an address or a local name: no one outside can have those
/// lead elsewhere, and then here.
fn is_own_name(host: &str) -> bool {
    // Nearly all requests, at a tenth of the price: a word without a dot, or an address.
    let word = host.split_once(':').map_or(host, |(name, _)| name);
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_word && !host.contains(['@', '/', '.']) || host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let Ok(url) = format!("http://{host}").parse::<Url>() else { return false };
    let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_address = name.parse::<IpAddr>().is_ok();
    is_address || !name.contains('.') || name.ends_with(".localhost")
}

fn is_this_machine(origin: &Url) -> bool {
    let host = origin.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    host == "localhost" || is_loopback
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_elsewhere_cannot_make_a_browser_change_anything() {
        let cases = [
            ("", "head:7070", "", true, "no browser"),
            ("http://head:7070", "head:7070", "same-origin", true, "our own page"),
            ("https://head:7070", "head:7070", "", true, "our own page, by TLS"),
            ("https://evil.example", "head:7070", "cross-site", false, "another page"),
            ("https://evil.example", "head:7070", "", false, "another page, old browser"),
            ("", "head:7070", "cross-site", false, "a form elsewhere"),
            ("", "head:7070", "same-site", false, "another service of the site"),
            ("null", "head:7070", "", false, "a page from nowhere"),
            ("http://head:7071", "head:7070", "", false, "another port"),
            ("https://head.example", "head.example", "", true, "no port at all"),
            ("http://evil.example", "127.0.0.1:7070", "", false, "another page, by our address"),
        ];
        for (origin, host, fetch, expected, what) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in [("origin", origin), ("host", host), ("sec-fetch-site", fetch)] {
                if !value.is_empty() {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(is_same_site(&headers, false), expected, "{what}");
        }
    }

    /// A name that was ours a moment ago, or will be, leads to this machine as well.
    #[test]
    fn where_nobody_logs_in_only_this_machine_s_own_names_count() {
        for (host, expected) in [
            ("127.0.0.1:7070", true),
            ("localhost:7070", true),
            ("[::1]:7070", true),
            ("localhost", true),
            ("rebound.example:7070", false),
            ("localhost.rebound.example", false),
        ] {
            let mut headers = HeaderMap::new();
            let origin = format!("http://{host}");
            headers.insert("origin", HeaderValue::from_str(&origin).unwrap());
            headers.insert("host", HeaderValue::from_static(host));
            assert_eq!(is_same_site(&headers, true), expected, "{host}");
        }
    }

    #[test]
    fn a_foreign_name_that_leads_here_reads_nothing() {
        for (host, expected) in [
            ("127.0.0.1:7070", true),
            ("LOCALHOST:7070", true),
            ("apportion.localhost:7070", true),
            ("[::1]:7070", true),
            ("10.0.0.7:7070", true),
            ("head:7070", true),
            ("rebound.example:7070", false),
            ("rebound.example.", false),
            ("head.", false),
            ("127.0.0.1.rebound.example", false),
            ("127.0.0.1@rebound.example", false),
            ("", false),
        ] {
            assert_eq!(is_own_name(host), expected, "{host}");
        }
    }
}
