//! The daemon, as the command line talks to it.
//!
//! Every failure becomes one sentence that says what to do, and the exit status that scripts rely
//! on. Nothing is retried: the person or the script that asked knows better when to ask again.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{self, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::Remote;
use super::failure::{Exit, Failure};
use super::table::plain;
use crate::access::Dialer;
use crate::api::wire::{JobPage, Problem};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A daemon that is busy answers within a cycle.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The code of a daemon that does not know who asks.
const NOT_KNOWN: &str = "T009";

/// The largest page that the daemon gives.
const PAGE: &str = "1000";

/// So many problems of one request are shown; the rest are counted.
const PROBLEMS_SHOWN: usize = 10;

/// A daemon.
#[derive(Debug)]
pub struct Client {
    base: Url,
    /// What messages call the daemon.
    shown: Url,
    http: reqwest::Client,
    /// For `https`.
    dialer: Option<Dialer>,
    /// What says who we are.
    token: Option<HeaderValue>,
}

/// Why there is no answer.
enum NoAnswer {
    /// It does not come.
    Late,
    /// Nobody could be reached, for this reason.
    Broken(String),
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> NoAnswer {
        if error.is_timeout() { NoAnswer::Late } else { NoAnswer::Broken(innermost(&error)) }
    }
}

impl Client {
    /// The daemon that `remote` names.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client at all, or not in this way.
    pub fn new(remote: &Remote) -> Result<Client, Failure> {
        let Remote { url, trust, .. } = remote;
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        let (mut base, mut dialer) = (url.clone(), None);
        match (url.scheme(), &trust.ca) {
            ("unix", _) => {
                http = http.unix_socket(url.path());
                base = "http://localhost/".parse()?;
            }
            ("https", Some(ca)) => dialer = Some(Dialer::trusting(ca)?),
            ("https", None) => {
                let message =
                    "name the authority that vouches for the daemon, with --ca or APPORTION_CA";
                return Err(Failure::new(Exit::Refused, message));
            }
            _ => {}
        }
        let token = trust.token_file.as_deref().map(|file| token_in(file, url)).transpose()?;
        Ok(Client { base, shown: url.clone(), http: http.build()?, dialer, token })
    }

    /// What is at `path`.
    ///
    /// # Errors
    ///
    /// If the daemon cannot be reached or refuses.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        self.send(self.http.get(self.url(path, query))).await
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
        self.send(self.http.post(self.url(path, &[])).json(body)).await
    }

    /// All the work that `query` selects, page after page. Pages are of different cycles where
    /// one ends in between; the answer names the first.
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

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, Failure> {
        let response = self.exchange(request).await.map_err(|why| self.unreachable(why))?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(status, response).await);
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(error.into()))?;
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!(
                "what {} answers is none of our API ({error}); is it an apportion of this version?",
                self.shown
            );
            Failure::new(Exit::Refused, message)
        })
    }

    /// The answer to `request`, whichever way leads to the daemon.
    async fn exchange(&self, mut request: reqwest::RequestBuilder) -> Result<Response, NoAnswer> {
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token.clone());
        }
        let Some(dialer) = &self.dialer else { return Ok(request.send().await?) };
        match tokio::time::timeout(ANSWER_TIMEOUT, dialer.send(request.build()?)).await {
            Ok(answer) => answer.map_err(|error| NoAnswer::Broken(innermost(&error))),
            Err(_) => Err(NoAnswer::Late),
        }
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
        Failure::new(Exit::Unreachable, message)
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
                Exit::Unreachable,
                format!(
                    "{} answers {status}, but not as an apportion does; name the daemon with --url \
                     or APPORTION_URL",
                    self.shown
                ),
            ),
        }
    }
}

/// The token in `file`, to be shown to the daemon at `url`: not where others could read it on its
/// way.
fn token_in(file: &Path, url: &Url) -> Result<HeaderValue, Failure> {
    let refused = |message: String| Failure::new(Exit::Refused, message);
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| refused(format!("cannot read the token in {shown}: {error}")))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if url.scheme() == "http" && !is_here {
        let message = format!("a token is not sent to {host} unencrypted; use https");
        return Err(refused(message));
    }
    let value = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
    let mut value = value.map_err(|_| refused(format!("what is in {shown} is no token")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn exit_of(status: StatusCode) -> Exit {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Unauthorised,
        StatusCode::NOT_FOUND => Exit::NotFound,
        StatusCode::GONE => Exit::Gone,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Exit::Conflict,
        _ => Exit::Refused,
    }
}

/// What the daemon says is wrong, with its code for whoever looks it up.
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

/// The cause behind the causes: "Connection refused" rather than "error sending request".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::args::Trust;
    use super::*;
    use crate::api::wire::ItemProblem;

    fn client(url: &str) -> Client {
        Client::new(&Remote { url: url.parse().unwrap(), json: false, trust: Trust::default() })
            .unwrap()
    }

    #[test]
    fn paths_go_below_the_base_and_are_escaped() {
        let cases = [
            ("http://head:7070", "http://head:7070/v1/jobs/7/why"),
            ("http://head/rm/", "http://head/rm/v1/jobs/7/why"),
        ];
        for (base, url) in cases {
            assert_eq!(client(base).url(&["v1", "jobs", "7", "why"], &[]).as_str(), url);
        }
        let url = client("http://head").url(&["v1", "jobs"], &[("user", "a&b=c"), ("class", "x")]);
        assert_eq!(url.as_str(), "http://head/v1/jobs?user=a%26b%3Dc&class=x");
    }

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
