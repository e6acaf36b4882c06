//! The demo's side of HTTP: typed requests to the daemon, every failure counted.
//!
//! The daemon is in the same process, but the client uses only HTTP. A failed request is not
//! repeated: its caller sends the same facts again soon, as agents and orchestrators do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ETAG, IF_NONE_MATCH};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::api::wire::{self, HeartbeatAnswer, ItemProblem, PublicationAnswer};

/// Longer than any request takes that is not a long poll.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time that a long poll waits.
const POLL: Duration = Duration::from_secs(5);

/// Pause after a poll that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// Talks to the daemon. Copies share their count of failures.
#[derive(Clone, Debug)]
pub(super) struct DemoClient {
    http: reqwest::Client,
    base: String,
    failures: Arc<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    count: AtomicU64,
    first: Mutex<Option<String>>,
}

impl DemoClient {
    /// A client of the daemon at `base`, such as `http://127.0.0.1:7070`.
    ///
    /// # Errors
    ///
    /// If HTTP cannot be set up at all.
    pub fn new(base: String) -> reqwest::Result<DemoClient> {
        // No proxy, even if the environment names it: the daemon is on this machine.
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(DemoClient { http, base, failures: Arc::default() })
    }

    /// Number of failed requests, including refused parts of requests.
    pub fn failures(&self) -> u64 {
        self.failures.count.load(Ordering::Relaxed)
    }

    /// Text of the first failure.
    pub fn first_failure(&self) -> Option<String> {
        self.failures.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets the document at `path`; `None` on failure.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        self.answer(path, self.http.get(self.url(path))).await
    }

    /// Asks for an act; `None` if that failed.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Option<T> {
        self.answer(path, self.http.post(self.url(path)).json(body)).await
    }

    /// Publishes all work.
    pub async fn publish(&self, publication: &wire::Publication) {
        let path = "/v1/publication";
        let request = self.http.put(self.url(path)).json(publication);
        if let Some(answer) = self.answer::<PublicationAnswer>(path, request).await {
            self.count_refused(path, answer.refused.iter().chain(&answer.warnings));
        }
    }

    /// Sends a heartbeat, or a batch of heartbeats.
    pub async fn beat(&self, heartbeats: &impl Serialize) {
        let path = "/v1/heartbeats";
        if let Some(answer) = self.post::<HeartbeatAnswer>(path, heartbeats).await {
            self.count_refused(path, &answer.refused);
        }
    }

    /// Waits for a schedule other than `known`; returns it with its tag. `None` if the schedule
    /// stays the same for a while, or the request fails.
    pub async fn next_schedule(
        self,
        known: Option<String>,
    ) -> (Option<wire::Schedule>, Option<String>) {
        let path = format!("/v1/schedule?wait={}s", POLL.as_secs());
        let mut request = self.http.get(self.url(&path)).timeout(POLL + PATIENCE);
        if let Some(known) = &known {
            request = request.header(IF_NONE_MATCH, known);
        }
        let Some(response) = self.checked(&path, request.send().await).await else {
            sleep(PAUSE).await;
            return (None, known);
        };
        if response.status() == StatusCode::NOT_MODIFIED {
            return (None, known);
        }
        let name =
            response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        (self.read(&path, response).await, name)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn answer<T: DeserializeOwned>(&self, path: &str, request: RequestBuilder) -> Option<T> {
        let response = self.checked(path, request.timeout(PATIENCE).send().await).await?;
        self.read(path, response).await
    }

    /// The response, unless there is none or it is an error.
    async fn checked(&self, path: &str, sent: reqwest::Result<Response>) -> Option<Response> {
        match sent {
            Ok(response)
                if response.status().is_client_error() || response.status().is_server_error() =>
            {
                let status = response.status();
                let problem = response.text().await.unwrap_or_default();
                self.count(format!("{path}: {status}: {problem}"));
                None
            }
            Ok(response) => Some(response),
            Err(error) => {
                self.count(format!("{path}: {error}"));
                None
            }
        }
    }

    async fn read<T: DeserializeOwned>(&self, path: &str, response: Response) -> Option<T> {
        let read = response.json().await;
        read.inspect_err(|error| self.count(format!("{path}: {error}"))).ok()
    }

    fn count_refused<'a>(&self, path: &str, refused: impl IntoIterator<Item = &'a ItemProblem>) {
        for problem in refused {
            self.count(format!("{path}: {}", problem.detail));
        }
    }

    fn count(&self, what: String) {
        self.failures.count.fetch_add(1, Ordering::Relaxed);
        self.failures.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }
}
