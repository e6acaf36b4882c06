//! Extractors of bodies, parameters and paths for handlers. Bad input is refused as a problem.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Version, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::api::http::body_rate::BodyTooSlow;
use crate::api::http::error::{ApiError, Code};
use crate::api::http::json::{self, shortened};
use crate::api::state::ApiState;

/// Path of publications, which carry all jobs of a cluster.
const PUBLICATION: &str = "/v1/publication";
/// The largest body anywhere else: heartbeats of 50,000 nodes.
const BRIEF_BODY: usize = 8 << 20;
/// Bytes of a piece: a body that comes in parts is kept in such pieces until it is whole.
const PIECE: usize = 256 << 10;

/// A body with the content type of JSON, not read yet.
#[derive(Debug)]
pub struct JsonText(pub Bytes);

impl FromRequest<ApiState> for JsonText {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<JsonText, ApiError> {
        check_content_type(request.headers())?;
        let most = bytes_max(request.uri().path(), state.limits.body);
        let body = request.into_body();
        // A body that is announced as too large is refused before it arrives.
        let announced = body.size_hint().lower();
        if most < usize::try_from(announced).unwrap_or(usize::MAX) {
            return Err(too_large(most, state.limits.body));
        }
        let gathered = gather(body, most).await.map_err(|error| {
            if because_of::<BodyTooSlow>(&error) {
                ApiError::new(Code::BodyTooSlow, BodyTooSlow.to_string())
            } else {
                tracing::debug!(%error, "a body did not arrive");
                let detail = "the body did not arrive whole, or in chunks that are none; nothing was changed";
                ApiError::new(Code::BadTransport, detail)
            }
        })?;
        gathered.map(JsonText).ok_or_else(|| too_large(most, state.limits.body))
    }
}

/// Collects `body`; `None` if it has more than `most` bytes.
///
/// Frames are copied, as they share buffers with data that is dropped. The copies go into pieces of
/// equal size. A growing buffer would leave earlier blocks behind, in which the next flood does not
/// fit.
async fn gather(mut body: Body, most: usize) -> Result<Option<Bytes>, axum::Error> {
    let (mut first, mut pieces, mut length) = (None, Vec::<Vec<u8>>::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame?.into_data() else { continue };
        if most - length < part.len() {
            return Ok(None);
        }
        length += part.len();
        if pieces.is_empty() && first.is_none() {
            first = Some(part);
            continue;
        }
        if let Some(first) = first.take() {
            put(&first, &mut pieces);
        }
        put(&part, &mut pieces);
    }
    if let Some(whole) = first {
        return Ok(Some(whole));
    }
    if let [_] = pieces.as_slice() {
        return Ok(pieces.pop().map(Bytes::from));
    }
    let mut whole = Vec::with_capacity(length);
    for piece in pieces {
        whole.extend_from_slice(&piece);
    }
    Ok(Some(Bytes::from(whole)))
}

/// Copies `part` to the end of `pieces`, all but the last of which are full.
fn put(mut part: &[u8], pieces: &mut Vec<Vec<u8>>) {
    while !part.is_empty() {
        let room = pieces.last().map_or(0, |piece| PIECE - piece.len());
        let (fits, rest) = part.split_at(room.min(part.len()));
        if let Some(piece) = pieces.last_mut() {
            piece.extend_from_slice(fits);
        }
        if !rest.is_empty() {
            pieces.push(Vec::with_capacity(PIECE));
        }
        part = rest;
    }
}

/// A body that is JSON and a `T`.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<ApiState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<JsonBody<T>, ApiError> {
        let JsonText(text) = JsonText::from_request(request, state).await?;
        Ok(JsonBody(json::read_body(&text, |_| Code::BadValue)?))
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let encoding = value(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity");
    let content_type = value(header::CONTENT_TYPE).unwrap_or_default();
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|part| part.eq_ignore_ascii_case("application/json"));
    // JSON is UTF-8, with or without a charset in the content type.
    let is_utf_8 = |charset: &str| charset.trim_matches('"').eq_ignore_ascii_case("utf-8");
    let mut charsets = parts.filter_map(|part| part.split_once('=')).filter_map(|(name, value)| {
        name.trim().eq_ignore_ascii_case("charset").then_some(value.trim())
    });
    let sent = match (content_type, encoding) {
        (_, Some(encoding)) => format!("the content encoding is `{}`", shortened(encoding)),
        ("", None) => "no content type is given".to_owned(),
        _ if is_json && charsets.all(is_utf_8) => return Ok(()),
        _ => format!("the content type is `{}`", shortened(content_type)),
    };
    let detail = format!(
        "{sent}; send JSON in UTF-8, `Content-Type: application/json`, without a content encoding; nothing was changed"
    );
    Err(ApiError::new(Code::NotJsonType, detail))
}

/// Returns the limit of a body in bytes. A publication may be large; every other body is small.
fn bytes_max(path: &str, configured: usize) -> usize {
    if path == PUBLICATION { configured } else { configured.min(BRIEF_BODY) }
}

fn too_large(most: usize, configured: usize) -> ApiError {
    let whose = if most == configured {
        "the limit that `daemon.limits.body_bytes` sets in the configuration"
    } else {
        "the most that is taken here"
    };
    let detail = format!("the body has more than {most} bytes, {whose}; nothing was changed");
    ApiError::new(Code::TooLarge, detail)
}

/// True if an `E` is among the causes of `error`.
fn because_of<E: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(<dyn std::error::Error>::is::<E>)
}

/// Refuses a request for two hosts or for none, which two readers would understand in two ways.
///
/// # Errors
///
/// If the number of `Host` headers is not 1. HTTP versions other than 1.1 may omit the header.
pub fn check_host(version: Version, headers: &HeaderMap) -> Result<(), ApiError> {
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts == 1 || (hosts == 0 && version != Version::HTTP_11) {
        return Ok(());
    }
    let detail = format!("{hosts} `Host` headers; exactly one is allowed; nothing was changed");
    Err(ApiError::new(Code::BadTransport, detail))
}

/// The parameters after the question mark. Unknown ones are refused, if `T` refuses them.
#[derive(Debug)]
pub struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueryParams<T>, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(QueryParams(params)),
            Err(rejection) => {
                Err(ApiError::new(Code::BadParameter, reworded(&rejection.body_text())))
            }
        }
    }
}

/// The variable part of the path.
#[derive(Debug)]
pub struct PathPart<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathPart<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathPart<T>, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(part)) => Ok(PathPart(part)),
            Err(rejection) => {
                Err(ApiError::new(Code::BadParameter, reworded(&rejection.body_text())))
            }
        }
    }
}

/// Rewrites a message of axum without the names of Rust's types and of axum's own steps.
fn reworded(message: &str) -> String {
    let message = message
        .trim_start_matches("Failed to deserialize query string: ")
        .trim_start_matches("Invalid URL: ")
        .replace("Cannot parse `", "`")
        .replace("` to a `u64`", "` is no whole number from 0 on");
    shortened(&message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body in parts of any size arrives unchanged, up to the first byte above the limit.
    #[tokio::test]
    async fn a_body_in_parts_is_whole() {
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(3 * PIECE + 7).collect();
        for parts in [1, 100, PIECE - 1, PIECE, PIECE + 1, sent.len()] {
            for length in [0, 1, PIECE, PIECE + 1, sent.len()] {
                let sent = &sent[..length];
                let frames: Vec<_> = sent
                    .chunks(parts.max(length.div_ceil(500)).max(1))
                    .map(Bytes::copy_from_slice)
                    .collect();
                let body = || {
                    let frames = frames.clone().into_iter().map(Ok::<_, std::io::Error>);
                    Body::from_stream(futures_util::stream::iter(frames))
                };
                assert!(gather(body(), length).await.unwrap().is_some_and(|body| body == sent));
                if 0 < length {
                    assert_eq!(gather(body(), length - 1).await.unwrap(), None);
                }
            }
        }
    }

    #[test]
    fn parameters_are_refused_in_plain_words() {
        let cases = [
            ("Invalid URL: Cannot parse `abc` to a `u64`", "`abc` is no whole number from 0 on"),
            (
                "Failed to deserialize query string: evil: unknown field `evil`, expected `wait`",
                "evil: unknown field `evil`, expected `wait`",
            ),
        ];
        for (said, told) in cases {
            assert_eq!(reworded(said), told);
        }
    }
}
