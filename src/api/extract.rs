//! What handlers take in: bodies, parameters and paths, refused as problems when they do not fit.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::error::{ApiError, Code};
use super::json::{self, shortened};

/// A body that says it is JSON, not read yet.
#[derive(Debug)]
pub struct JsonText(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<JsonText, ApiError> {
        check_content_type(request.headers())?;
        Bytes::from_request(request, state)
            .await
            .map(JsonText)
            .map_err(|rejection| not_received(&rejection))
    }
}

/// A body that is JSON and a `T`.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, ApiError> {
        let JsonText(text) = JsonText::from_request(request, state).await?;
        Ok(JsonBody(json::read_body(&text, |_| Code::BadValue)?))
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_plain =
        headers.get(header::CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    if is_plain && media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "send JSON: `Content-Type: application/json`, without a content encoding";
    Err(ApiError::new(Code::NotJsonType, detail))
}

fn not_received(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = "more bytes than this daemon takes; the limit is `daemon.limits.body_bytes` in its configuration";
        return ApiError::new(Code::TooLarge, detail);
    }
    ApiError::new(Code::NotJson, format!("the body did not arrive: {rejection}"))
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
