//! Compression of long answers for clients that accept gzip.
//!
//! An answer that is the same for many clients ([`SharedJson`]) is packed once; every other answer
//! as it is sent ([`packing`]). A short answer goes out unpacked: it fits into a few packets either
//! way.

use std::convert::Infallible;
use std::io::{self, Write};

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::OnceCell;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};

/// Answers longer than this are packed, in bytes.
const LONG: u16 = 4096;

/// Packs long answers as they are sent. Streams are left as they are, or news would wait in them.
pub(crate) fn packing() -> CompressionLayer<And<SizeAbove, NotForContentType>> {
    let layer = CompressionLayer::new().quality(CompressionLevel::Fastest);
    layer.compress_when(SizeAbove::new(LONG.into()).and(NotForContentType::SSE))
}

/// `Vary` header of answers that may be packed.
pub(in crate::api) const VARIES: (HeaderName, HeaderValue) =
    (header::VARY, HeaderValue::from_static("accept-encoding"));

/// True if the client accepts gzip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptsGzip(bool);

impl<S: Send + Sync> FromRequestParts<S> for AcceptsGzip {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<AcceptsGzip, Infallible> {
        Ok(AcceptsGzip::said_in(&parts.headers))
    }
}

impl AcceptsGzip {
    fn said_in(headers: &HeaderMap) -> AcceptsGzip {
        let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
        let mut codings =
            values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        AcceptsGzip(codings.any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            // A weight of 0, however it is written, is a refusal.
            let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            is_gzip
                && weight.is_none_or(|weight| weight.contains(|digit| matches!(digit, '1'..='9')))
        }))
    }
}

/// JSON that is the same for all clients.
#[derive(Debug, Default)]
pub struct SharedJson {
    plain: Bytes,
    packed: OnceCell<Bytes>,
}

impl From<Vec<u8>> for SharedJson {
    fn from(json: Vec<u8>) -> SharedJson {
        Bytes::from(json).into()
    }
}

impl From<Bytes> for SharedJson {
    fn from(plain: Bytes) -> SharedJson {
        SharedJson { plain, packed: OnceCell::new() }
    }
}

impl SharedJson {
    /// Returns the text, not packed.
    pub fn plain(&self) -> &Bytes {
        &self.plain
    }

    /// Builds an answer, packed if the text is long and the client accepts gzip.
    pub async fn answer(&self, unpacks: AcceptsGzip) -> Response {
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if unpacks.0
            && usize::from(LONG) < self.plain.len()
            && let Some(packed) = self.packed().await
        {
            let gzip = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return ([json, VARIES, gzip], packed).into_response();
        }
        ([json, VARIES], self.plain.clone()).into_response()
    }

    /// Packs the text at the first request for it; a request that comes meanwhile waits for the
    /// same result.
    async fn packed(&self) -> Option<Bytes> {
        let plain = self.plain.clone();
        let pack = move || async move {
            // With ten thousand jobs packing takes long enough to hold up other requests.
            let packed = tokio::task::spawn_blocking(move || gzip(&plain));
            packed.await.map_err(io::Error::other)?
        };
        let packed = self.packed.get_or_try_init(pack).await;
        packed.inspect_err(|error| tracing::error!(%error, "not packed")).ok().cloned()
    }
}

fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(plain)?;
    packed.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_accepts_gzip_can_unpack_it() {
        for (said, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("deflate , gzip ; q=1", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("br", false),
            ("gzipped", false),
            ("", false),
        ] {
            let headers =
                HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(said))]);
            assert_eq!(AcceptsGzip::said_in(&headers), AcceptsGzip(expected), "{said}");
        }
        assert_eq!(AcceptsGzip::said_in(&HeaderMap::new()), AcceptsGzip(false));
    }
}
