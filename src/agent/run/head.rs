//! Client of the orchestrator: the agent connects, and never listens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Method, Response, StatusCode, Url};

use crate::api::wire::Problem;
use crate::client::{LONG_BODY, NoAnswer, Transport, pack, token_for, unpack};
use crate::orchestrator::wire::{ChunkAnswer, ChunkQuery, Exchange, ExchangeAnswer};

/// The longest that the orchestrator may wait with its answer.
pub const LONGEST_WAIT: Duration = Duration::from_secs(25);

/// Longest time for an answer, the wait included.
const PATIENCE: Duration = Duration::from_secs(40);

/// The longest answer, in bytes: 64 slots with 50 tasks each and long parameters.
const MAX_ANSWER: usize = 256 << 20;

/// The orchestrator.
#[derive(Debug)]
pub struct Head {
    transport: Transport,
    url: Url,
    token_file: Option<PathBuf>,
    node: String,
}

impl Head {
    /// The orchestrator at `url`, for the node `node`.
    ///
    /// # Errors
    ///
    /// If there is no way to it.
    pub fn new(
        url: Url,
        authority: Option<&Path>,
        token_file: Option<PathBuf>,
        node: String,
    ) -> Result<Head, crate::client::TransportError> {
        let transport = Transport::new(&url, authority, PATIENCE)?;
        Ok(Head { transport, url, token_file, node })
    }

    /// Sends the state of the slots, and returns their target state. The orchestrator answers at
    /// once, or waits up to `wait` for news.
    ///
    /// # Errors
    ///
    /// If there is no answer, with the reason for people.
    pub async fn exchange(
        &self,
        said: &Exchange,
        wait: Option<Duration>,
    ) -> Result<ExchangeAnswer, String> {
        let path = ["v1", "nodes", &self.node, "exchange"];
        let wait = wait.map(|wait| format!("{}ms", wait.as_millis()));
        let query: Vec<(&str, &str)> = wait.iter().map(|wait| ("wait", wait.as_str())).collect();
        let request = self.transport.request(Method::POST, &path, &query);
        let request =
            request.header(CONTENT_TYPE, "application/json").header(ACCEPT_ENCODING, "gzip");
        let said = serde_json::to_vec(said).map_err(|error| error.to_string())?;
        let request = if LONG_BODY < said.len() {
            let packed = pack(&said).map_err(|error| error.to_string())?;
            request.header(CONTENT_ENCODING, "gzip").body(packed)
        } else {
            request.body(said)
        };
        let body = self.answer(request).await?;
        serde_json::from_slice(&body)
            .map_err(|error| format!("{} answers, but not as an orchestrator: {error}", self.url))
    }

    /// Sends a part of an output. Returns true if more of it is wanted.
    ///
    /// # Errors
    ///
    /// See [`Head::exchange`].
    pub async fn send_output(
        &self,
        request: u64,
        query: &ChunkQuery,
        bytes: Vec<u8>,
    ) -> Result<bool, String> {
        let number = request.to_string();
        let path = ["v1", "nodes", &self.node, "output", &number];
        let from = query.from.to_string();
        let mut pairs = vec![("from", from.as_str())];
        if query.end {
            pairs.push(("end", "true"));
        }
        let problem = query.problem.and_then(|problem| serde_json::to_value(problem).ok());
        if let Some(word) = problem.as_ref().and_then(|problem| problem.as_str()) {
            pairs.push(("problem", word));
        }
        let request = self.transport.request(Method::POST, &path, &pairs).body(bytes);
        let body = self.answer(request).await?;
        let answer: ChunkAnswer =
            serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        Ok(answer.wanted)
    }

    /// The kept standard input of a specification.
    ///
    /// # Errors
    ///
    /// See [`Head::exchange`].
    pub async fn stdin(&self, spec: u64) -> Result<Vec<u8>, String> {
        let number = spec.to_string();
        let path = ["v1", "nodes", &self.node, "stdin", &number];
        self.answer(self.transport.request(Method::GET, &path, &[])).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, String> {
        let token = self.token_file.as_deref().map(|file| token_for(&self.url, file)).transpose();
        let token = token.map_err(|error| error.to_string())?;
        let unreachable = |why: NoAnswer| {
            let why = match why {
                NoAnswer::Late => "it does not answer".to_owned(),
                NoAnswer::Broken(why) => why,
            };
            format!("cannot reach an orchestrator at {} ({why})", self.url)
        };
        let response = self.transport.exchange(request, token.as_ref()).await;
        let response = response.map_err(unreachable)?;
        let status = response.status();
        let coding = response.headers().get(CONTENT_ENCODING);
        let is_packed = coding.is_some_and(|coding| coding == "gzip");
        let body = read(response).await?;
        let body = if is_packed {
            unpack(&body, MAX_ANSWER).map_err(|error| error.to_string())?
        } else {
            body
        };
        if status.is_success() { Ok(body) } else { Err(self.refusal(status, &body)) }
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> String {
        let says = serde_json::from_slice::<Problem>(body)
            .map_or_else(|_| String::new(), |problem| format!(": {}", problem.detail));
        match status {
            StatusCode::NOT_FOUND => format!("{} has no orchestrator{says}", self.url),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                format!("the token is not valid for node {}{says}", self.node)
            }
            _ => format!("the orchestrator answers {status}{says}"),
        }
    }
}

/// The body, unless it is too long.
async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| error.to_string())? {
        body.extend_from_slice(&part);
        if body.len() > MAX_ANSWER {
            return Err(format!("the answer has more than {MAX_ANSWER} bytes"));
        }
    }
    Ok(body)
}
