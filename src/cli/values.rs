//! Parsers of argument values that several commands take.

use std::net::SocketAddr;

use reqwest::Url;

/// Parses the address of a daemon; without a scheme it is HTTP, and a path is a socket.
pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    const FORMS: &str =
        "write HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:///PATH/TO/SOCKET";
    let text = match text {
        path if path.starts_with('/') => format!("unix://{path}"),
        address if address.contains("://") => address.to_owned(),
        // A daemon that needs TLS says so in its answer.
        address => ["http", address].join("://"),
    };
    let url: Url = text.parse().map_err(|error| format!("{error}; {FORMS}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "unix" if !url.has_host() && url.path().len() > 1 => Ok(url),
        _ => Err(FORMS.to_owned()),
    }
}

/// Parses an address and a port. The configuration decides if other machines may reach it.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, 127.0.0.1:7070".to_owned())
}

/// Parses a time that is not negative, such as 30s or 2m.
pub(super) fn parse_span(text: &str) -> Result<std::time::Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "write a time such as 30s or 2m".to_owned())?;
    std::time::Duration::try_from(span).map_err(|_| "time does not run backwards".to_owned())
}

/// Parses the number of a job.
pub(super) fn parse_job(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a job has a number; `apportion queue` shows it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ways_that_there_are_will_do() {
        for (url, will_do) in [
            ("http://head:7070", true),
            ("https://head", true),
            ("unix:///run/apportion/admin.sock", true),
            ("unix://admin.sock", false),
            ("head:7070", true),
            ("127.0.0.1:7070", true),
            ("/run/apportion/admin.sock", true),
            ("http://", false),
            ("head:port", false),
            ("ftp://head", false),
            ("", false),
        ] {
            assert_eq!(parse_url(url).is_ok(), will_do, "{url}");
        }
    }
}
