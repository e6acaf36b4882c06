//! The client's end of TLS: connections to a daemon by `https`, kept for the next request.
//!
//! A client trusts the authority that it is given and no other: certificates of head nodes come from
//! the site, and the certificates of the system are of no use here.

use std::path::Path;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use reqwest::{Body, Request, Response};
use rustls::{ClientConfig, RootCertStore};

use crate::auth::tls::{TlsError, certificates, provider};

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error(transparent)]
    Connection(#[from] Error),
    #[error(transparent)]
    Request(#[from] reqwest::Error),
}

/// Connections by TLS. Copies share them.
#[derive(Clone, Debug)]
pub struct Dialer {
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

impl Dialer {
    /// Trusts the certificates in the file `authority`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds something else than certificates.
    pub fn trusting(authority: &Path) -> Result<Dialer, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots
                .add(certificate)
                .map_err(|source| TlsError::Authority { path: authority.to_owned(), source })?;
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Dialer { client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    /// Sends `request` over a connection that is open, or over a new one.
    ///
    /// # Errors
    ///
    /// If the host cannot be reached, shows a certificate that is not trusted, or does not answer as
    /// HTTP.
    pub async fn send(&self, request: Request) -> Result<Response, DialError> {
        let request = axum::http::Request::<Body>::try_from(request)?;
        let answer = self.client.request(request).await?;
        Ok(Response::from(answer.map(Body::wrap)))
    }
}
