//! A client's transport to the daemon, for every kind of address: plain HTTP, TLS or a unix socket.
//! Used by the command line and by the agent.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{self, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};

use super::dial::Dialer;
use crate::auth::tls::TlsError;

/// Longest wait for a connection. A daemon that listens accepts sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Base address at a unix socket: the path of a request counts, the host does not.
const AT_SOCKET: &str = "http://localhost/";

/// Transport to a daemon.
#[derive(Debug)]
pub struct Transport {
    base: Url,
    http: reqwest::Client,
    /// For `https`.
    dialer: Option<Dialer>,
    patience: Duration,
}

/// Reason why a transport cannot be set up.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TransportError {
    #[error("name the authority that vouches for the daemon, with --ca or APPORTION_CA")]
    NoAuthority,
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot set up HTTP")]
    Http(#[from] reqwest::Error),
}

/// Reason why a request has no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The request timed out.
    Late,
    /// The daemon cannot be reached, for this reason.
    Broken(String),
}

/// Reason why there is no token to send.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum NoToken {
    #[error("cannot read the token in {}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error(
        "{} can be read by every local user, so the token is no secret; chmod 600 it, and replace the token",
        file.display()
    )]
    Open { file: PathBuf },
    #[error(
        "{} holds no token: one line is expected, of letters, digits and signs, without blanks",
        file.display()
    )]
    Empty { file: PathBuf },
    #[error("a token is not sent to {host} unencrypted; use https")]
    Unencrypted { host: String },
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> NoAnswer {
        if error.is_timeout() {
            NoAnswer::Late
        } else if is_no_http(&error) {
            NoAnswer::Broken(
                "the server there does not speak HTTP; if it speaks TLS, write https".to_owned(),
            )
        } else {
            NoAnswer::Broken(innermost(&error))
        }
    }
}

impl Transport {
    /// Sets up the transport to the daemon at `url`. `https` needs a certificate in `authority`
    /// that vouches for the daemon. `patience` is the longest wait for an answer.
    ///
    /// # Errors
    ///
    /// If HTTP or TLS cannot be set up, or `https` has no authority.
    ///
    /// # Panics
    ///
    /// Never: the constant address for sockets is valid.
    pub fn new(
        url: &Url,
        authority: Option<&Path>,
        patience: Duration,
    ) -> Result<Transport, TransportError> {
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT.min(patience))
            .timeout(patience)
            .redirect(reqwest::redirect::Policy::none());
        let (mut base, mut dialer) = (url.clone(), None);
        match (url.scheme(), authority) {
            ("unix", _) => {
                http = http.unix_socket(url.path());
                base = Url::parse(AT_SOCKET).expect("it is an address");
            }
            ("https", Some(authority)) => dialer = Some(Dialer::trusting(authority)?),
            ("https", None) => return Err(TransportError::NoAuthority),
            _ => {}
        }
        Ok(Transport { base, http: http.build()?, dialer, patience })
    }

    /// Builds a request for `path`.
    pub fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> RequestBuilder {
        self.http.request(method, self.url(path, query))
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Sends `request` with `token`, and returns the answer.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub async fn exchange(
        &self,
        mut request: RequestBuilder,
        token: Option<&HeaderValue>,
    ) -> Result<Response, NoAnswer> {
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token.clone());
        }
        let Some(dialer) = &self.dialer else { return Ok(request.send().await?) };
        match tokio::time::timeout(self.patience, dialer.send(request.build()?)).await {
            Ok(answer) => answer.map_err(|error| NoAnswer::Broken(innermost(&error))),
            Err(_) => Err(NoAnswer::Late),
        }
    }
}

/// Builds the header that shows the token in `file` to the daemon at `url`. Plain HTTP to another
/// host is refused, as the network could read the token. A newline after the token is dropped.
///
/// # Errors
///
/// If the file holds no token, or the token would be readable on its way.
pub fn token_for(url: &Url, file: &Path) -> Result<HeaderValue, NoToken> {
    let host = url.host_str().unwrap_or_default();
    if url.scheme() == "http" && !is_here(host) {
        return Err(NoToken::Unencrypted { host: host.to_owned() });
    }
    let unreadable = |source| NoToken::Unreadable { file: file.to_owned(), source };
    // The open file is checked, so that no other file can take its place in between.
    let mut opened = File::open(file).map_err(unreadable)?;
    if is_open(&opened.metadata().map_err(unreadable)?) {
        return Err(NoToken::Open { file: file.to_owned() });
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(unreadable)?;
    let empty = || NoToken::Empty { file: file.to_owned() };
    let token = text.strip_suffix('\n').unwrap_or(&text);
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(empty());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| empty())?;
    value.set_sensitive(true);
    Ok(value)
}

/// True if bytes for `host` stay on this computer.
fn is_here(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// True if every user of this computer may access the file.
fn is_open(file: &Metadata) -> bool {
    file.permissions().mode() & 0o007 != 0
}

/// True if the answer is not HTTP.
fn is_no_http(error: &dyn std::error::Error) -> bool {
    let mut causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_parse))
}

/// The cause behind the causes: "Connection refused" rather than "error sending request".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn paths_go_below_the_base_and_are_escaped() {
        let to = |url: &str| {
            Transport::new(&url.parse().unwrap(), None, Duration::from_secs(1)).unwrap()
        };
        let cases = [
            ("http://head:7070", "http://head:7070/v1/jobs/7/why"),
            ("http://head/rm/", "http://head/rm/v1/jobs/7/why"),
        ];
        for (base, url) in cases {
            assert_eq!(to(base).url(&["v1", "jobs", "7", "why"], &[]).as_str(), url);
        }
        let query = [("user", "a&b=c"), ("class", "x")];
        let url = to("http://head").url(&["v1", "jobs"], &query);
        assert_eq!(url.as_str(), "http://head/v1/jobs?user=a%26b%3Dc&class=x");
    }

    #[test]
    fn a_token_is_one_line_and_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let here = "http://127.0.0.1:7070".parse().unwrap();
        let read_with = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let shown = token_for(&here, &file).map_err(|error| error.to_string())?;
            assert!(shown.is_sensitive());
            Ok::<_, String>(shown.to_str().unwrap().to_owned())
        };
        assert_eq!(read_with("secret-1\n", 0o600), Ok("Bearer secret-1".to_owned()));
        assert_eq!(read_with("secret-1", 0o640), Ok("Bearer secret-1".to_owned()));
        for text in ["", "\n", "two words\n", "one\ntwo\n", "ends badly\r\n", "end\r\n"] {
            assert!(read_with(text, 0o600).unwrap_err().contains("holds no token"), "{text:?}");
        }
        assert!(read_with("secret-1\n", 0o644).unwrap_err().contains("chmod 600"));
        fs::remove_file(&file).unwrap();
        let gone = token_for(&here, &file).unwrap_err().to_string();
        assert!(gone.contains("cannot read the token"), "{gone}");
    }

    #[test]
    fn a_token_leaves_this_node_only_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "secret\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        for (url, is_shown) in [
            ("http://127.0.0.1:7070", true),
            ("http://[::1]:7070", true),
            ("http://localhost:7070", true),
            ("unix:///run/apportion/admin.sock", true),
            ("https://head:7070", true),
            ("http://head:7070", false),
            ("http://10.0.0.1:7070", false),
            ("http://localhost.evil.example", false),
        ] {
            assert_eq!(token_for(&url.parse().unwrap(), &file).is_ok(), is_shown, "{url}");
        }
    }
}
