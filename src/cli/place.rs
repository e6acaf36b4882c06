//! Address of the orchestrator, and the client for it.

use std::time::Duration;

use clap::Args;
use reqwest::header::HeaderValue;
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::remote::{Remote, Trust};
use super::up::{orchestrator_beside, with_own};
use super::user_name::own_name;
use super::values::parse_url;
use crate::client::{NoAnswer, Transport, token_for};
use crate::orchestrator::wire::{CampaignPage, TaskInfo};

/// Output of a task may last as long as the task.
const STREAM: Duration = Duration::from_hours(24 * 365);

/// The orchestrator to talk to, and how to show its answer.
#[derive(Clone, Debug, Args)]
pub struct OrchestratorArgs {
    /// The orchestrator's address; without it, the orchestrator of `apportion up` if the daemon is
    /// that of `apportion up`, or else the daemon's address
    #[arg(long, value_name = "URL", env = "APPORTION_ORCHESTRATOR", value_parser = parse_url)]
    pub orchestrator: Option<Url>,
    /// The daemon's address; without it, the daemon of `apportion up`
    #[arg(
        long,
        env = "APPORTION_URL",
        default_value = "http://127.0.0.1:7070",
        value_parser = parse_url
    )]
    pub url: Url,
    /// Show the answer in JSON, as the API gives it
    #[arg(long)]
    pub json: bool,
    /// The caller's token, and the authority it trusts.
    #[command(flatten)]
    pub trust: Trust,
}

/// A client of the orchestrator.
#[derive(Debug)]
pub struct Orchestrator {
    client: DaemonClient,
    transport: Transport,
    token: Option<HeaderValue>,
    url: Url,
}

impl OrchestratorArgs {
    /// A client of the orchestrator.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client, or not in this way.
    pub fn open(&self) -> Result<Orchestrator, Failure> {
        let url = self.found();
        let client = DaemonClient::new(&self.remote(&url))?;
        let trust = with_own(&self.trust, &url);
        let transport = Transport::new(&url, trust.ca.as_deref(), STREAM)?;
        let token = trust.token_file.as_deref();
        let token = token.map(|file| token_for(&url, file)).transpose()?;
        Ok(Orchestrator { client, transport, token, url })
    }

    /// A client of the resource manager.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client, or not in this way.
    pub fn manager(&self) -> Result<DaemonClient, Failure> {
        DaemonClient::new(&self.remote(&self.url))
    }

    /// True if the orchestrator cannot know by itself which user asks.
    pub fn has_no_credential(&self) -> bool {
        let url = self.found();
        self.trust.token_file.is_none() && url.scheme() != "unix"
    }

    /// True if the caller named an orchestrator, or it runs beside the daemon of `apportion up`.
    pub fn knows_orchestrator(&self) -> bool {
        self.orchestrator.is_some() || orchestrator_beside(&self.url).is_some()
    }

    /// Returns the address of the orchestrator.
    fn found(&self) -> Url {
        let named = self.orchestrator.clone();
        named.or_else(|| orchestrator_beside(&self.url)).unwrap_or_else(|| self.url.clone())
    }

    fn remote(&self, url: &Url) -> Remote {
        Remote { url: url.clone(), json: self.json, trust: self.trust.clone() }
    }
}

/// A failure with a hint, if the daemon has no orchestrator.
fn hinted(failure: Failure) -> Failure {
    let told = failure.error.as_ref().map(ToString::to_string).unwrap_or_default();
    if failure.exit == FailureKind::NotFound && told.contains("there is nothing at") {
        let message = "no orchestrator runs there; start one with `apportion orchestrator run`, or name another \
                       with --orchestrator or APPORTION_ORCHESTRATOR";
        return Failure::new(FailureKind::NotFound, message);
    }
    failure
}

impl Orchestrator {
    /// Returns the resource at `path`.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached or refuses.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        self.client.get(path, query).await.map_err(hinted)
    }

    /// The answer to `body`, sent to `path`.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached or refuses.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.client.post(path, body).await.map_err(hinted)
    }

    /// The answer to `body`, put at `path`.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached or refuses.
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.client.put(path, body).await.map_err(hinted)
    }

    /// Has something done that has no answer.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached or refuses.
    pub async fn act(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<(), Failure> {
        self.client.act(method, path, body).await.map_err(hinted)
    }

    /// Submits a document, with the standard input that goes with it.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached or refuses.
    pub async fn submit<T: DeserializeOwned>(
        &self,
        document: &impl Serialize,
        stdin: Option<&[u8]>,
        key: &str,
    ) -> Result<T, Failure> {
        let mut body = serde_json::to_vec(document)?;
        let length = stdin.map(|stdin| stdin.len().to_string());
        body.extend_from_slice(stdin.unwrap_or_default());
        let query: Vec<(&str, &str)> =
            length.iter().map(|length| ("stdin", length.as_str())).collect();
        self.client.send_bytes(&["v1", "campaigns"], &query, body, key).await.map_err(hinted)
    }

    /// The answer to `body`, sent to `path` with a key that makes a repeated request harmless.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached or refuses.
    pub async fn send<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        key: &str,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body)?;
        self.client.send_bytes(path, &[], body, key).await.map_err(hinted)
    }

    /// The output of a task, as it comes. `None`: there is none, or none can be had.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached.
    pub async fn output(
        &self,
        task: (u64, u64),
        query: &[(&str, &str)],
    ) -> Result<Result<Response, String>, Failure> {
        let (campaign, task) = (task.0.to_string(), task.1.to_string());
        let path = ["v1", "campaigns", &campaign, "tasks", &task, "output"];
        let request = self.transport.request(Method::GET, &path, query);
        let answer = self.transport.exchange(request, self.token.as_ref()).await;
        let answer = answer.map_err(|why| {
            let why = match why {
                NoAnswer::Late => "it does not answer".to_owned(),
                NoAnswer::Broken(why) => why,
            };
            Failure::new(FailureKind::Unreachable, format!("cannot reach {} ({why})", self.url))
        })?;
        if answer.status().is_success() {
            return Ok(Ok(answer));
        }
        let body = answer.bytes().await.unwrap_or_default();
        let problem = serde_json::from_slice::<crate::api::wire::Problem>(&body);
        Ok(Err(problem.map_or_else(|_| "no output".to_owned(), |problem| problem.detail)))
    }

    /// The number that `name` stands for: a number, or `last` for the newest campaign of the caller.
    ///
    /// # Errors
    ///
    /// If it is neither, or there is none.
    pub async fn campaign(&self, name: &str) -> Result<u64, Failure> {
        if name != "last" {
            let number = name.parse();
            return number.map_err(|_| {
                let message = format!("`{name}` is no campaign; write its number, or `last`");
                Failure::new(FailureKind::Refused, message)
            });
        }
        let user = own_name();
        // A prologue and an epilogue are newer than their campaign.
        let mut query = vec![("limit", "100")];
        if let Some(user) = &user {
            query.push(("user", user));
        }
        let page: CampaignPage = self.get(&["v1", "campaigns"], &query).await?;
        let own = page.campaigns.iter().find(|campaign| campaign.hook_of.is_none());
        let newest = own.map(|campaign| campaign.id);
        newest
            .ok_or_else(|| Failure::new(FailureKind::NotFound, "there is no campaign of yours yet"))
    }

    /// The campaign and task that `name` stands for, such as `9.17` or `last.1`.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub async fn task(&self, name: &str) -> Result<(u64, u64), Failure> {
        let bad = || {
            let message = format!("`{name}` is no task; write CAMPAIGN.TASK, such as 9.17");
            Failure::new(FailureKind::Refused, message)
        };
        let (campaign, task) = name.split_once('.').ok_or_else(bad)?;
        let task = task.parse().map_err(|_| bad())?;
        Ok((self.campaign(campaign).await?, task))
    }

    /// A task with its attempts.
    ///
    /// # Errors
    ///
    /// If the orchestrator cannot be reached, or there is no such task.
    pub async fn task_info(&self, (campaign, task): (u64, u64)) -> Result<TaskInfo, Failure> {
        let (campaign, task) = (campaign.to_string(), task.to_string());
        self.get(&["v1", "campaigns", &campaign, "tasks", &task], &[]).await
    }
}
