//! Log-in of browsers: a form that takes a token, and a cookie that stands for it.
//!
//! Scripts cannot read the cookie, only pages of this daemon send it, and it ends with its token.
//! Pages without a session lead here and, after the log-in, back.

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::api::http::origin::is_same_site;
use crate::api::http::refuse::{record, see, stranger};
use crate::api::http::session_cookie::{PATH, safe, session_of, set_cookie};
use crate::api::http::theme::theme_of;
use crate::api::owner_request::AuditNote;
use crate::api::state::ApiState;
use crate::auth::{AccessRefusal, Peer, SESSION_LIFE};

/// Address to go to after the log-in.
#[derive(Debug, Default, Deserialize)]
pub struct LoginQuery {
    #[serde(default)]
    next: String,
}

/// Fields of the form.
#[derive(Deserialize)]
pub struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

/// The form.
pub async fn get_login(
    State(state): State<ApiState>,
    headers: HeaderMap,
    query: Result<Query<LoginQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let next = query.map(|Query(query)| query.next).unwrap_or_default();
    if state.gatekeeper.wants_tokens() {
        page(StatusCode::OK, &headers, &next, "")
    } else {
        see(safe(&next))
    }
}

/// Opens a session for a caller with a token.
pub async fn post_login(
    State(state): State<ApiState>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    form: Result<Form<Login>, axum::extract::rejection::FormRejection>,
) -> Response {
    let Ok(Form(Login { token, next })) = form else {
        return page(StatusCode::BAD_REQUEST, &headers, "", "The form did not arrive; try again.");
    };
    let is_ours = is_same_site(&headers, false);
    let opened = if is_ours {
        state.gatekeeper.log_in(peer, token.trim())
    } else {
        Err(AccessRefusal::NotAllowed)
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
            page(StatusCode::FORBIDDEN, &headers, &next, message)
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
        return page(StatusCode::FORBIDDEN, &headers, "", "");
    }
    if let Some(secret) = session_of(&headers) {
        state.gatekeeper.log_out(secret);
    }
    let mut response = see(PATH);
    set_cookie(&mut response, "", 0, peer);
    response
}

/// Style of all pages, within the form: without a session no other file is served.
const STYLE: &str = include_str!("../../../assets/dashboard.css");
const MARK: &str = include_str!("../../../assets/mark.svg");

fn page(status: StatusCode, headers: &HeaderMap, next: &str, message: &str) -> Response {
    let theme = match theme_of(headers) {
        "" => String::new(),
        theme => format!(" data-theme=\"{theme}\""),
    };
    let hours = SESSION_LIFE.as_secs().div_euclid(3_600).to_string();
    let mark = MARK.replace("<svg ", "<svg width=\"22\" height=\"22\" aria-hidden=\"true\" ");
    let html = include_str!("login.html")
        .replace("{style}", STYLE)
        .replace("{mark}", &mark)
        .replace("{theme}", &theme)
        .replace("{hours}", &hours)
        .replace("{next}", &escaped(safe(next)))
        .replace("{message}", &escaped(message));
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        // Not `no-referrer`: with that, browsers would not reveal that the form is the daemon's.
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
