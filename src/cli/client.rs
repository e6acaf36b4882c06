//! The daemon, as the command line talks to it.
//!
//! Every failure becomes one sentence that says what to do, and the exit status that scripts rely
//! on. The client does not retry: the calling person or script knows better when to ask again.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::{Failure, FailureKind};
use super::remote::Remote;
use super::table::plain;
use super::up::with_own;
use crate::api::wire::{JobPage, Problem};
use crate::client::{NoAnswer, Transport, token_for};

/// A daemon that is busy answers within a cycle.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The code of a daemon that does not know who asks.
const NOT_KNOWN: &str = "T009";

/// The largest page that the daemon gives.
const PAGE: &str = "1000";

/// Problems of one request in a message; the message counts the rest.
const PROBLEMS_SHOWN: usize = 10;

/// A daemon.
#[derive(Debug)]
pub struct DaemonClient {
    /// Address as messages show it.
    shown: Url,
    transport: Transport,
    /// Header with the caller's token.
    token: Option<HeaderValue>,
}

impl DaemonClient {
    /// The daemon that `remote` names.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client at all, or not in this way.
    pub fn new(remote: &Remote) -> Result<DaemonClient, Failure> {
        let Remote { url, trust, .. } = remote;
        let trust = with_own(trust, url);
        let transport = Transport::new(url, trust.ca.as_deref(), ANSWER_TIMEOUT)?;
        let token = trust.token_file.as_deref().map(|file| token_for(url, file)).transpose()?;
        Ok(DaemonClient { shown: url.clone(), transport, token })
    }

    /// Returns the resource at `path`.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        self.send(self.transport.request(Method::GET, path, query)).await
    }

    /// Returns the text at `path`, unparsed.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn text(&self, path: &[&str]) -> Result<String, Failure> {
        let body = self.bytes(self.transport.request(Method::GET, path, &[])).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The answer to `body`, sent to `path`.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(self.transport.request(Method::POST, path, &[]).json(body)).await
    }

    /// The answer to `body`, put at `path`.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(self.transport.request(Method::PUT, path, &[]).json(body)).await
    }

    /// The answer to a request to delete what is at `path`.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Failure> {
        self.send(self.transport.request(Method::DELETE, path, &[])).await
    }

    /// Has something done that has no answer.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn act(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<(), Failure> {
        self.bytes(self.transport.request(method, path, &[]).json(body)).await.map(|_| ())
    }

    /// The answer to a body of bytes, sent to `path` with a key that makes a repetition harmless.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn send_bytes<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: Vec<u8>,
        key: &str,
    ) -> Result<T, Failure> {
        let request = self.transport.request(Method::POST, path, query);
        let request = request.header("content-type", "application/json");
        self.send(request.header("idempotency-key", key).body(body)).await
    }

    /// Returns all jobs that `query` selects, page after page. Pages may be of different cycles if
    /// a cycle ends meanwhile; the answer names the first.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn jobs(&self, query: &[(&str, &str)]) -> Result<JobPage, Failure> {
        let query = [query, &[("limit", PAGE)]].concat();
        let mut all: JobPage = self.get(&["v1", "jobs"], &query).await?;
        while let Some(cursor) = all.next.take() {
            let query = [&query[..], &[("cursor", cursor.as_str())]].concat();
            let page: JobPage = self.get(&["v1", "jobs"], &query).await?;
            all.jobs.extend(page.jobs);
            // A daemon that answers with the same cursor again would keep us here for ever.
            all.next = page.next.filter(|next| *next != cursor);
        }
        Ok(all)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, Failure> {
        let body = self.bytes(request).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!(
                "what {} answers is none of our API ({error}); is it an apportion of this version?",
                self.shown
            );
            Failure::new(FailureKind::Refused, message)
        })
    }

    async fn bytes(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, Failure> {
        let response = self.transport.exchange(request, self.token.as_ref()).await;
        let response = response.map_err(|why| self.unreachable(why))?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(status, response).await);
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(error.into()))?;
        Ok(body.into())
    }

    fn unreachable(&self, why: NoAnswer) -> Failure {
        let base = &self.shown;
        let message = match why {
            NoAnswer::Late => format!("the daemon at {base} does not answer; look at its log"),
            NoAnswer::Broken(why) => format!(
                "cannot reach a daemon at {base} ({why}); start one with `apportion serve`, or name \
                 another with --url or APPORTION_URL"
            ),
        };
        Failure::new(FailureKind::Unreachable, message)
    }

    async fn refusal(&self, status: StatusCode, response: Response) -> Failure {
        let body = response.bytes().await.unwrap_or_default();
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if problem.code == NOT_KNOWN => {
                let hint = match self.token {
                    None => "--token-file or APPORTION_TOKEN_FILE names a file with a token",
                    Some(_) => "the token is not known there, or has expired",
                };
                Failure::new(exit_of(status), format!("{}; {hint}", sentence(&problem)))
            }
            Ok(problem) => Failure::new(exit_of(status), sentence(&problem)),
            // Not our words: something else listens there, or stands in between.
            Err(_) => Failure::new(
                FailureKind::Unreachable,
                format!(
                    "{} answers {status}, but not as an apportion does; name the daemon with --url \
                     or APPORTION_URL",
                    self.shown
                ),
            ),
        }
    }
}

fn exit_of(status: StatusCode) -> FailureKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => FailureKind::Unauthorised,
        StatusCode::NOT_FOUND => FailureKind::NotFound,
        StatusCode::GONE => FailureKind::Gone,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => FailureKind::Conflict,
        _ => FailureKind::Refused,
    }
}

/// Returns the daemon's description of a problem with its code, which the documentation lists.
fn sentence(problem: &Problem) -> String {
    let mut lines = vec![format!("{} ({})", plain(&problem.detail), plain(&problem.code))];
    // A single item usually says what the whole says.
    let mut items = problem.errors.iter().filter(|item| item.detail != problem.detail);
    let shown = items.by_ref().take(PROBLEMS_SHOWN);
    lines.extend(shown.map(|item| format!("  {}", plain(&item.detail))));
    let more = items.count();
    if 0 < more {
        lines.push(format!("  and {more} more"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::ItemProblem;

    #[test]
    fn a_problem_is_told_in_its_own_words() {
        let item = |n: usize| ItemProblem {
            pointer: format!("/nodes/{n}"),
            code: "P026".to_owned(),
            detail: format!("no node `n{n}`"),
        };
        let problem = Problem {
            kind: "/errors/P026".to_owned(),
            title: "unknown node".to_owned(),
            status: 404,
            detail: "some nodes are unknown; see `apportion nodes`".to_owned(),
            code: "P026".to_owned(),
            errors: (0..12).map(item).collect(),
        };
        let told = sentence(&problem);
        assert!(
            told.starts_with("some nodes are unknown; see `apportion nodes` (P026)\n  no node")
        );
        assert!(told.ends_with("  no node `n9`\n  and 2 more"), "{told}");
    }
}
