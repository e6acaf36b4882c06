//! A remote cluster: another orchestrator, by its public routes.

use std::ops::RangeInclusive;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{NoAnswer, NoToken, Transport, TransportError, token_for};
use crate::config::ClusterSettings;
use crate::orchestrator::wire::{Grid, HeadClock, LeaseRenewal, Submitted, TaskInfo, TaskList};

/// Longest wait for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that output is followed.
const LONGEST_STREAM: Duration = Duration::from_hours(24);
/// Longest wait for the begin of output: a cluster waits for its node for 40 s.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(45);
/// Most tasks in an answer.
const PAGE: usize = 200;

/// Reason why a cluster did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The cluster cannot be reached in this way.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] NoToken),
    /// The cluster does not answer.
    #[error("the cluster does not answer: {0}")]
    Silent(String),
    /// The cluster refuses the request.
    #[error("the cluster refuses: {0}")]
    Refused(String),
}

/// A remote cluster.
#[derive(Debug)]
pub struct RemoteCluster {
    transport: Transport,
    /// The same for output, which may be followed for long.
    streams: Transport,
    url: Url,
    settings: ClusterSettings,
}

impl RemoteCluster {
    /// Builds the client of a cluster.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client in this way.
    pub fn new(settings: &ClusterSettings) -> Result<RemoteCluster, RemoteError> {
        let url = Url::parse(&settings.url);
        let url = url.map_err(|error| RemoteError::Silent(error.to_string()))?;
        let transport = Transport::new(&url, settings.authority.as_deref(), PATIENCE)?;
        let streams = Transport::new(&url, settings.authority.as_deref(), LONGEST_STREAM)?;
        Ok(RemoteCluster { transport, streams, url, settings: settings.clone() })
    }

    /// The settings of the cluster.
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    /// The nodes of the cluster that run slots, with their memory.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or refuses.
    pub async fn snapshot(&self) -> Result<Grid, RemoteError> {
        read(self.ask(Method::GET, &["v1", "grid"], &[], None).await?).await
    }

    /// Submits a child campaign and returns its number. The same `key` is submitted once.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or refuses.
    pub async fn submit(&self, key: &str, document: &Value) -> Result<u64, RemoteError> {
        let body = Some((Some(key), document));
        let answer = self.ask(Method::POST, &["v1", "campaigns"], &[], body).await?;
        Ok(read::<Submitted>(answer).await?.id)
    }

    /// Renews the leases of child campaigns, as of a reading of the cluster's clock.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or refuses.
    pub async fn renew(&self, clock: &HeadClock, campaigns: Vec<u64>) -> Result<(), RemoteError> {
        let (boot, as_of_ms) = (clock.boot.clone(), clock.ms);
        let renewal = json!(LeaseRenewal { boot, as_of_ms, campaigns });
        let body = Some((None, &renewal));
        self.ask(Method::POST, &["v1", "grid", "leases"], &[], body).await.map(drop)
    }

    /// Asks the cluster to end a task. The task is withdrawn once the cluster says that it is
    /// cancelled.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or refuses.
    pub async fn withdraw(&self, child: u64, task: u64) -> Result<(), RemoteError> {
        let (child, task) = (child.to_string(), task.to_string());
        let path = ["v1", "campaigns", &child, "tasks", &task, "cancel"];
        self.ask(Method::POST, &path, &[], None).await.map(drop)
    }

    /// Touched tasks of a child campaign in a range of numbers, with their attempts.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or refuses.
    pub async fn results(
        &self,
        child: u64,
        tasks: RangeInclusive<u64>,
    ) -> Result<Vec<TaskInfo>, RemoteError> {
        let (child, limit) = (child.to_string(), PAGE.to_string());
        let path = ["v1", "campaigns", &child, "tasks"];
        let (mut found, mut after) = (Vec::new(), tasks.start().saturating_sub(1));
        loop {
            let from = after.to_string();
            let query = [("after", from.as_str()), ("limit", &limit), ("attempts", "true")];
            let page: TaskList = read(self.ask(Method::GET, &path, &query, None).await?).await?;
            after = page.tasks.last().map_or(after, |task| task.task);
            let is_last = page.tasks.len() < PAGE || *tasks.end() <= after;
            found.extend(page.tasks);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// The output of a task of a child campaign, as it comes. `query` selects it, as in the route of the cluster.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or refuses.
    pub async fn output(
        &self,
        child: u64,
        task: u64,
        query: &[(&str, &str)],
    ) -> Result<Response, RemoteError> {
        let (child, task) = (child.to_string(), task.to_string());
        let path = ["v1", "campaigns", &child, "tasks", &task, "output"];
        let request = self.streams.request(Method::GET, &path, query);
        let answer = tokio::time::timeout(OUTPUT_PATIENCE, self.send(&self.streams, request)).await;
        answer.unwrap_or_else(|_| Err(RemoteError::Silent("it takes too long".to_owned())))
    }

    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<(Option<&str>, &Value)>,
    ) -> Result<Response, RemoteError> {
        let mut request = self.transport.request(method, path, query);
        if let Some((key, document)) = body {
            request = key.into_iter().fold(request, |it, key| it.header("idempotency-key", key));
            request = request.json(document);
        }
        self.send(&self.transport, request).await
    }

    async fn send(
        &self,
        transport: &Transport,
        request: RequestBuilder,
    ) -> Result<Response, RemoteError> {
        let token = self.settings.token_file.as_deref();
        let token = token.map(|file| token_for(&self.url, file)).transpose()?;
        let answer = transport.exchange(request, token.as_ref()).await;
        let answer = answer.map_err(|error| match error {
            NoAnswer::Late => RemoteError::Silent("it takes too long".to_owned()),
            NoAnswer::Broken(why) => RemoteError::Silent(why),
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.unwrap_or_default();
        let text = format!("{status}: {}", crate::orchestrator::spec::short(&text));
        // A conflict is about the reading of the clock; the next pass has another.
        Err(if status.is_server_error() || status == StatusCode::CONFLICT {
            RemoteError::Silent(text)
        } else {
            RemoteError::Refused(text)
        })
    }
}

async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, RemoteError> {
    answer.json().await.map_err(|error| RemoteError::Silent(error.to_string()))
}
