//! How a browser says who it is: a form that takes a token, and a cookie that stands for it.
//!
//! The cookie cannot be read by scripts, is sent by our own pages only, and is worth nothing once the
//! token is revoked. Pages without a session lead here and, after it, back.

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use reqwest::Url;
use serde::Deserialize;

use crate::access::{Peer, Refusal, SESSION_LIFE};
use crate::api::http::authorize::{is_same_site, record, see, stranger};
use crate::api::state::{ApiState, AuditNote};

const COOKIE: &str = "apportion_session";
const PATH: &str = "/login";
/// A longer way back than any of our pages has.
const NEXT_MAX: usize = 1000;

/// Where to go after logging in.
#[derive(Debug, Default, Deserialize)]
pub struct Way {
    #[serde(default)]
    next: String,
}

/// What the form sends.
#[derive(Deserialize)]
pub struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

/// The form.
pub async fn get_login(
    State(state): State<ApiState>,
    way: Result<Query<Way>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let next = way.map(|Query(way)| way.next).unwrap_or_default();
    if state.gatekeeper.wants_tokens() { page(StatusCode::OK, &next, "") } else { see(safe(&next)) }
}

/// Opens a session for whoever has a token.
pub async fn post_login(
    State(state): State<ApiState>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    form: Result<Form<Login>, axum::extract::rejection::FormRejection>,
) -> Response {
    let Ok(Form(Login { token, next })) = form else {
        return page(StatusCode::BAD_REQUEST, "", "The form did not arrive; try again.");
    };
    let is_ours = is_same_site(&headers, false);
    let opened = if is_ours {
        state.gatekeeper.log_in(peer, token.trim())
    } else {
        Err(Refusal::NotAllowed)
    };
    match opened {
        Ok((identity, secret)) if state.gatekeeper.wants_tokens() => {
            state.note(AuditNote {
                by: identity.actor(),
                act: "login".to_owned(),
                detail: String::new(),
                outcome: "done".to_owned(),
            });
            let life = SESSION_LIFE.as_secs();
            let mut response = see(safe(&next));
            set_cookie(&mut response, secret.reveal(), life, peer);
            response
        }
        Ok(_) => see(safe(&next)),
        Err(refusal) => {
            let by = stranger(&refusal, peer);
            record(&state, &Method::POST, &Uri::from_static(PATH), by, &refusal);
            let message = if is_ours {
                "This token is not valid."
            } else {
                "That did not come from this page; send it from here."
            };
            page(StatusCode::FORBIDDEN, &next, message)
        }
    }
}

/// Ends the session.
pub async fn post_logout(
    State(state): State<ApiState>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    if !is_same_site(&headers, false) {
        return page(StatusCode::FORBIDDEN, "", "");
    }
    if let Some(secret) = session_of(&headers) {
        state.gatekeeper.log_out(secret);
    }
    let mut response = see(PATH);
    set_cookie(&mut response, "", 0, peer);
    response
}

/// The session that a browser shows.
pub(crate) fn session_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    });
    pairs.next()
}

fn set_cookie(response: &mut Response, value: &str, life: u64, peer: Peer) {
    let is_tls = matches!(peer, Peer::Tcp { is_tls: true, .. });
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// The form's address for a browser that wanted `uri`.
pub(in crate::api) fn login_address(uri: &Uri) -> String {
    let wanted = uri.path_and_query().map_or("/", |wanted| wanted.as_str());
    let mut address = Url::parse("http://here/").expect("a plain address");
    address.query_pairs_mut().append_pair("next", safe(wanted));
    format!("{PATH}?{}", address.query().unwrap_or_default())
}

/// A way back that leads to one of our own pages, or to the first of them.
fn safe(next: &str) -> &str {
    let is_ours = next.starts_with('/')
        && !next.starts_with("//")
        && next.len() <= NEXT_MAX
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours { next } else { "/" }
}

fn page(status: StatusCode, next: &str, message: &str) -> Response {
    let next = escaped(safe(next));
    let message = escaped(message);
    let html = include_str!("login.html").replace("{next}", &next).replace("{message}", &message);
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        // Not `no-referrer`: with that, browsers do not say of the form that it is ours.
        (header::REFERRER_POLICY, "same-origin"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    ];
    (status, headers, html).into_response()
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_leads_to_our_own_pages_only() {
        for (next, expected) in [
            ("/jobs?user=ann", "/jobs?user=ann"),
            ("", "/"),
            ("//evil.example/", "/"),
            ("/\\evil.example/", "/"),
            ("https://evil.example/", "/"),
            ("/a\r\nset-cookie: b", "/"),
        ] {
            assert_eq!(safe(next), expected, "{next}");
        }
        let wanted = Uri::from_static("/jobs?user=ann&class=x");
        assert_eq!(login_address(&wanted), "/login?next=%2Fjobs%3Fuser%3Dann%26class%3Dx");
    }

    #[test]
    fn a_session_is_found_among_other_cookies_and_by_its_own_name_only() {
        for (cookies, expected) in [
            ("a=b; apportion_session=abc; c=d", Some("abc")),
            ("xapportion_session=abc", None),
            ("apportion_session", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_static(cookies));
            assert_eq!(session_of(&headers), expected, "{cookies}");
        }
    }
}
