//! The two ways to the resource manager: over the network, and through its routes in this process.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, header};
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use tower_service::Service;

use super::rm::{PATIENCE, RmError, RmOptions};
use crate::auth::Peer;
use crate::client::{NoAnswer, Transport, token_for};

/// Bytes of an answer through the routes.
const MAX_ANSWER: usize = 1 << 30;

/// A way to the resource manager.
#[derive(Debug)]
pub(super) enum RmWay {
    /// By its address.
    Network(Box<Transport>, Box<RmOptions>),
    /// Through its routes, as the orchestrator in its own process.
    Inside(Router),
}

/// A request to the resource manager.
#[derive(Debug, Default)]
pub(super) struct Question<'a> {
    /// The method; `GET` by default.
    pub method: Method,
    /// The parts of the path.
    pub path: &'a [&'a str],
    /// The parameters.
    pub query: &'a [(&'a str, &'a str)],
    /// The body, in JSON.
    pub body: Option<Vec<u8>>,
    /// Entity tag of the answer that the caller has already.
    pub known: Option<&'a str>,
}

/// An answer of the resource manager.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Entity tag of the answer.
    pub name: Option<String>,
    /// The body.
    pub body: Bytes,
}

impl RmWay {
    /// Sends a question and returns the answer.
    ///
    /// # Errors
    ///
    /// If the resource manager does not answer.
    pub async fn ask(&self, question: Question<'_>) -> Result<Answer, RmError> {
        let asked = async {
            match self {
                RmWay::Network(transport, options) => over(transport, options, question).await,
                RmWay::Inside(routes) => through(routes.clone(), question).await,
            }
        };
        let late = |_| RmError::Silent("no answer in time".to_owned());
        tokio::time::timeout(PATIENCE, asked).await.map_err(late)?
    }
}

async fn over(
    transport: &Transport,
    options: &RmOptions,
    question: Question<'_>,
) -> Result<Answer, RmError> {
    let token = options.token_file.as_deref();
    let token = token.map(|file| token_for(&options.url, file)).transpose()?;
    let Question { method, path, query, body, known } = question;
    let mut request = transport.request(method, path, query);
    if let Some(known) = known {
        request = request.header(IF_NONE_MATCH, known);
    }
    if let Some(body) = body {
        request = request.header(CONTENT_TYPE, "application/json").body(body);
    }
    let answer = transport.exchange(request, token.as_ref()).await;
    let response = answer.map_err(|why| match why {
        NoAnswer::Late => RmError::Silent("no answer in time".to_owned()),
        NoAnswer::Broken(why) => RmError::Silent(why),
    })?;
    let (status, name) = (response.status(), name_in(response.headers()));
    let body = response.bytes().await.map_err(|error| RmError::Silent(error.to_string()))?;
    Ok(Answer { status, name, body })
}

async fn through(mut routes: Router, question: Question<'_>) -> Result<Answer, RmError> {
    let silent = |error: axum::Error| RmError::Silent(error.to_string());
    let Question { method, path, query, body, known } = question;
    let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let uri = format!("/{}?{}", path.join("/"), pairs.join("&"));
    let mut request = Request::builder().method(method).uri(uri).header(header::HOST, "localhost");
    if let Some(known) = known {
        request = request.header(IF_NONE_MATCH, known);
    }
    if let Some(body) = &body {
        request = request.header(CONTENT_TYPE, "application/json");
        request = request.header(header::CONTENT_LENGTH, body.len());
    }
    let request = request.extension(Peer::Inside).body(Body::from(body.unwrap_or_default()));
    let request = request.map_err(axum::Error::new).map_err(silent)?;
    let response = match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let (status, name) = (response.status(), name_in(response.headers()));
    let body = axum::body::to_bytes(response.into_body(), MAX_ANSWER).await.map_err(silent)?;
    Ok(Answer { status, name, body })
}

fn name_in(headers: &HeaderMap) -> Option<String> {
    headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned)
}
