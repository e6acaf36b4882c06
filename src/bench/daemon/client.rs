//! The peers of the daemon for a benchmark: their requests, and the expected answers.
//!
//! Unlike a real agent or orchestrator it gives up at the first failure, which makes the
//! measurement meaningless.

use reqwest::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use super::BenchError;
use crate::api::wire::{self, HeartbeatAnswer, HeartbeatBatch, PublicationAnswer, Status};
use crate::model::count;

/// Talks to the daemon.
#[derive(Clone, Debug)]
pub(super) struct BenchClient {
    http: reqwest::Client,
    base: String,
}

impl BenchClient {
    /// A client of the daemon at `address`.
    ///
    /// # Errors
    ///
    /// If HTTP cannot be set up at all.
    pub fn new(address: &str) -> reqwest::Result<BenchClient> {
        // No proxy, even if the environment names it: the daemon is on this machine.
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(BenchClient { http, base: format!("http://{address}") })
    }

    /// Nodes report.
    pub async fn beat(&self, batch: &HeartbeatBatch) -> Result<(), BenchError> {
        let action = "accept heartbeats";
        let request = self.http.post(self.url("/v1/heartbeats")).json(batch);
        let HeartbeatAnswer { accepted, .. } = self.answer(action, request).await?;
        all(action, accepted, count(&batch.nodes))
    }

    /// Publishes all work: `sent` jobs, as JSON.
    pub async fn publish(&self, publication: Vec<u8>, sent: u64) -> Result<(), BenchError> {
        let action = "accept a publication";
        let request = self
            .http
            .put(self.url("/v1/publication"))
            .header(CONTENT_TYPE, "application/json")
            .body(publication);
        let PublicationAnswer { accepted, .. } = self.answer(action, request).await?;
        all(action, accepted, sent)
    }

    /// Asks for the status of the daemon.
    pub async fn status(&self) -> Result<Status, BenchError> {
        self.answer("report its status", self.http.get(self.url("/v1/status"))).await
    }

    /// Waits for a schedule other than `known`; returns its text and its tag. `None` if the daemon
    /// had none for a while.
    pub async fn next_schedule(
        &self,
        known: Option<&HeaderValue>,
    ) -> Result<Option<(Vec<u8>, Option<HeaderValue>)>, BenchError> {
        let mut request = self.http.get(self.url("/v1/schedule?wait=30s"));
        if let Some(known) = known {
            request = request.header(IF_NONE_MATCH, known);
        }
        let response = request.send().await.map_err(failed(SERVE))?;
        if [StatusCode::NOT_MODIFIED, StatusCode::SERVICE_UNAVAILABLE].contains(&response.status())
        {
            return Ok(None);
        }
        let response = checked(SERVE, response).await?;
        let name = response.headers().get(ETAG).cloned();
        let text = response.bytes().await.map_err(failed(SERVE))?;
        Ok(Some((text.to_vec(), name)))
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        action: &'static str,
        request: RequestBuilder,
    ) -> Result<T, BenchError> {
        let response = request.send().await.map_err(failed(action))?;
        checked(action, response).await?.json().await.map_err(failed(action))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

const SERVE: &str = "serve a schedule";

/// A schedule as it was served.
///
/// # Errors
///
/// If it is none.
pub(super) fn read_schedule(text: &[u8]) -> Result<wire::Schedule, BenchError> {
    serde_json::from_slice(text).map_err(|error| BenchError::Refused {
        action: SERVE,
        status: StatusCode::OK,
        problem: error.to_string(),
    })
}

async fn checked(action: &'static str, response: Response) -> Result<Response, BenchError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem = response.text().await.unwrap_or_default();
    Err(BenchError::Refused { action, status, problem })
}

fn failed(action: &'static str) -> impl FnOnce(reqwest::Error) -> BenchError {
    move |source| BenchError::Request { action, source }
}

fn all(action: &'static str, accepted: u64, sent: u64) -> Result<(), BenchError> {
    if accepted == sent { Ok(()) } else { Err(BenchError::Incomplete { action, accepted, sent }) }
}
