//! The cookie that stands for a session, and the way to the log-in form and back.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use url::Url;

use crate::api::http::cookies::cookie;
use crate::auth::Peer;

const COOKIE: &str = "apportion_session";

pub(in crate::api) const PATH: &str = "/login";

/// Limit of the way back in bytes: no page of this daemon has a longer address.
const NEXT_MAX: usize = 1000;

/// The session that a browser shows.
pub(crate) fn session_of(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, COOKIE)
}

pub(in crate::api) fn set_cookie(response: &mut Response, value: &str, life: u64, peer: Peer) {
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

/// Returns `next` if it leads to a page of this daemon, else the first page.
pub(in crate::api) fn safe(next: &str) -> &str {
    let is_ours = next.starts_with('/')
        && !next.starts_with("//")
        && next.len() <= NEXT_MAX
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours { next } else { "/" }
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
