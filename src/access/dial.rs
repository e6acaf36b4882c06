//! The other end of TLS: what a client of ours does to reach a daemon by `https`.
//!
//! It trusts the authority it is told of and no other: certificates of head nodes come from the
//! site, and what the system trusts besides is of no use here.

use std::path::Path;
use std::sync::Arc;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use reqwest::{Body, Request, Response, Url};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tls::{TlsError, certificates, provider};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("no certificate is given for `{0}`")]
    NoName(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Request(#[from] reqwest::Error),
}

/// Makes connections by TLS.
#[derive(Clone, Debug)]
pub struct Dialer {
    config: Arc<ClientConfig>,
}

impl Dialer {
    /// Trusts the certificates in the file `authority`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or what is in it is no certificate.
    pub fn trusting(authority: &Path) -> Result<Dialer, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots
                .add(certificate)
                .map_err(|source| TlsError::Authority { path: authority.to_owned(), source })?;
        }
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Dialer { config: Arc::new(config) })
    }

    /// Sends `request` over a connection of its own.
    ///
    /// # Errors
    ///
    /// If the host cannot be reached, or shows a certificate that is not trusted, or does not answer
    /// as HTTP.
    pub async fn send(&self, request: Request) -> Result<Response, DialError> {
        let (host, port) = place(request.url());
        let no_name = || DialError::NoName(host.clone());
        let name = ServerName::try_from(host.clone()).map_err(|_| no_name())?;
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(name, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer, whose last bytes it brings.
        tokio::spawn(connection);
        let url = request.url().clone();
        let mut request = axum::http::Request::<Body>::try_from(request)?;
        let authority = url.authority().rsplit('@').next().unwrap_or_default();
        if let Ok(authority) = authority.parse() {
            request.headers_mut().insert(axum::http::header::HOST, authority);
        }
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        if let Ok(path) = format!("{}{query}", url.path()).parse() {
            *request.uri_mut() = path;
        }
        let answer = sender.send_request(request).await?;
        Ok(Response::from(answer.map(Body::wrap)))
    }
}

/// Where it goes: `[::1]` is the address `::1`.
fn place(url: &Url) -> (String, u16) {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    (host, url.port_or_known_default().unwrap_or(443))
}
