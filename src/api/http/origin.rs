//! Checks that a sender intends its request: tokens, sessions, and requests that foreign pages
//! cause.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use url::Url;

use crate::api::http::session_cookie::session_of;
use crate::auth::{Credential, Identity, Peer};

/// Returns the credential in the headers. A token goes before a session.
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

/// True if the sender intends the change. A foreign page can make a browser send requests, with the
/// session in it, or from this very node. A token has to be added on purpose.
pub(crate) fn is_same_origin_post(request: &Request, identity: &Identity) -> bool {
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let needs_none = identity.role.is_none();
    let is_session = || matches!(credential(request.headers()), Credential::Session(_));
    is_safe || !(needs_none || is_session()) || is_same_site(request.headers(), needs_none)
}

/// True if a browser says that a page of this daemon caused the request, or if the sender is no
/// browser. Without log-in, the daemon's address must belong to this node: any name could be made
/// to lead here.
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
    is_here && (!needs_none || is_this_node(&origin))
}

/// True if the request was meant for another name. Any site can make its name lead to this node; a
/// browser then lets the site's pages read the answers. Required tokens protect against that.
pub(crate) fn is_rebound(headers: &HeaderMap, identity: &Identity) -> bool {
    let is_open = identity.role.is_none() && matches!(identity.peer, Peer::Tcp { .. });
    let host = || headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    is_open && host().is_some_and(|host| !is_own_name(host))
}

/// True if `host`, with or without a port, is an address or a local name. No outsider can make
/// these lead elsewhere, and then here.
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

fn is_this_node(origin: &Url) -> bool {
    let host = origin.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    host == "localhost" || is_loopback
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

    /// A name that was the daemon's a moment ago, or will be, leads to this node as well.
    #[test]
    fn without_log_in_only_local_names_count() {
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
