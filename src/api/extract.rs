//! What handlers take in: bodies, parameters and paths, refused as problems when they do not fit.

use axum::body::{Bytes, HttpBody, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Version, header};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;

use super::error::{ApiError, Code};
use super::json::{self, shortened};
use super::pace::TooSlow;
use super::state::ApiState;

/// Where all the work of a cluster comes.
const PUBLICATION: &str = "/v1/publication";
/// The largest body anywhere else: heartbeats of 50,000 nodes.
const BRIEF_BODY: usize = 8 << 20;

/// A body that says it is JSON, not read yet.
#[derive(Debug)]
pub struct JsonText(pub Bytes);

impl FromRequest<ApiState> for JsonText {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<JsonText, ApiError> {
        check_content_type(request.headers())?;
        let most = bytes_max(request.uri().path(), state.limits.body);
        let body = request.into_body();
        // What is announced need not be waited for.
        let announced = body.size_hint().lower();
        if most < usize::try_from(announced).unwrap_or(usize::MAX) {
            return Err(too_large(most, state.limits.body));
        }
        to_bytes(body, most).await.map(JsonText).map_err(|error| {
            if because_of::<LengthLimitError>(&error) {
                too_large(most, state.limits.body)
            } else if because_of::<TooSlow>(&error) {
                ApiError::new(Code::TooSlow, TooSlow.to_string())
            } else {
                tracing::debug!(%error, "a body did not arrive");
                let detail = "the body did not arrive whole, or in chunks that are none; nothing was changed";
                ApiError::new(Code::BadTransport, detail)
            }
        })
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
    // JSON is UTF-8, whether that is said or not.
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

/// How large a body may be: all the work of a cluster may be much, everything else is little.
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

/// Whether an `E` is among the causes of `error`.
fn because_of<E: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(<dyn std::error::Error>::is::<E>)
}

/// Refuses a request for two hosts or for none, which two readers would understand in two ways.
///
/// # Errors
///
/// If it is one of those.
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
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Params(params)),
            Err(rejection) => {
                Err(ApiError::new(Code::BadParameter, in_plain_words(&rejection.body_text())))
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
                Err(ApiError::new(Code::BadParameter, in_plain_words(&rejection.body_text())))
            }
        }
    }
}

/// What axum says, without the names of Rust's types and of its own steps.
fn in_plain_words(message: &str) -> String {
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
            assert_eq!(in_plain_words(said), told);
        }
    }
}
