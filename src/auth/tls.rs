//! TLS: the certificate we show, read again when it is renewed.
//!
//! 1.3 and 1.2, with `ring` as the one crypto library.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::token::{TokenFileError, read_private};

/// Reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TlsError {
    #[error("cannot read certificates from {}", path.display())]
    Certificates { path: PathBuf, source: pem::Error },
    #[error("there is no certificate in {}; it has to be PEM, the daemon's certificate first", path.display())]
    Empty { path: PathBuf },
    #[error(transparent)]
    KeyFile(#[from] TokenFileError),
    #[error("there is no private key in {}; it has to be PEM", path.display())]
    Key { path: PathBuf, source: pem::Error },
    #[error("the certificate in {} and the key do not match", path.display())]
    Mismatch { path: PathBuf, source: rustls::Error },
    #[error("cannot use {} as an authority", path.display())]
    Authority { path: PathBuf, source: rustls::Error },
    #[error("cannot set up TLS")]
    Setup(#[from] rustls::Error),
    #[error("cannot reach {host}")]
    Unreachable { host: String, source: io::Error },
}

/// The certificate we show, and where it is read from.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the chain of certificates, ours first, and the key.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or holds no certificate or key, or if certificate and key do not
    /// match.
    pub fn open(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let current = ArcSwap::from_pointee(config(certificate, key)?);
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// Reads both files again. New connections see the new certificate.
    ///
    /// # Errors
    ///
    /// See [`Tls::open`]; the earlier certificate stays in use.
    pub fn reread(&self) -> Result<(), TlsError> {
        self.current.store(Arc::new(config(&self.certificate, &self.key)?));
        Ok(())
    }

    /// For the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

fn config(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let chain = certificates(certificate)?;
    let text = read_private(key)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|source| TlsError::Mismatch { path: certificate.to_owned(), source })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads the certificates of a file, which holds at least a single certificate.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Certificates { path: path.to_owned(), source };
    let read = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let chain = read.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if chain.is_empty() {
        return Err(TlsError::Empty { path: path.to_owned() });
    }
    Ok(chain)
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
