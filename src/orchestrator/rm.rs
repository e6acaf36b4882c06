//! The resource manager, as its client: publication out, schedule in, and nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;

use super::book::{JobShares, PublishedWork, RemovedShare, SlotState};
use super::way::{Answer, Question, Way};
use super::wire::StopReason;
use crate::access::{NoToken, Transport, TransportError};
use crate::api::wire::{
    ClassList, NodeInfo, NodeList, Problem, Process, ProcessState, Publication, PublicationAnswer,
    RemovalReason, Schedule, WhyBrief, Work, WorkKind, WorkState,
};
use crate::model::Name;

/// How long one poll of the schedule waits, in seconds.
const POLL: &str = "30s";
/// Longer than a poll takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);

/// The way to the resource manager.
#[derive(Clone, Debug)]
pub struct RmOptions {
    /// Its address.
    pub url: Url,
    /// The authority that vouches for it, where the address is `https`.
    pub authority: Option<PathBuf>,
    /// The file with a token of the role orchestrator. It is read anew for every request.
    pub token_file: Option<PathBuf>,
}

/// Why the resource manager did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RmError {
    /// There is no way to it.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// There is no token to show.
    #[error(transparent)]
    Token(#[from] NoToken),
    /// It does not answer.
    #[error("the resource manager does not answer: {0}")]
    Silent(String),
    /// It refuses.
    #[error("the resource manager refuses: {0}")]
    Refused(String),
}

/// A client of the resource manager.
#[derive(Debug)]
pub struct Rm(Way);

/// A schedule, as the book needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// The last publication that it takes into account.
    pub publication: Option<u64>,
    /// The shares of each work.
    pub jobs: Vec<JobShares>,
    /// The name of the schedule, to ask for another one.
    pub name: Option<String>,
}

impl Rm {
    /// A client of the resource manager that `options` name.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client, or not in this way.
    pub fn new(options: RmOptions) -> Result<Rm, RmError> {
        let transport = Transport::new(&options.url, options.authority.as_deref(), PATIENCE)?;
        Ok(Rm(Way::Network(Box::new(transport), Box::new(options))))
    }

    /// A client of the resource manager in this process, by all its routes.
    pub fn inside(routes: Router) -> Rm {
        Rm(Way::Inside(routes))
    }

    /// Publishes all work. Returns what was refused: the number of the work, and a sentence.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses the publication as a whole.
    pub async fn publish(
        &self,
        publication: &Publication,
    ) -> Result<BTreeMap<u64, String>, RmError> {
        let silent = |error: serde_json::Error| RmError::Silent(error.to_string());
        let body = Some(serde_json::to_vec(publication).map_err(silent)?);
        let path = &["v1", "publication"];
        let question = Question { method: Method::PUT, path, body, ..Question::default() };
        let answer = self.ask(question).await?;
        let answer: PublicationAnswer = serde_json::from_slice(&answer.body).map_err(silent)?;
        let number = |pointer: &str| {
            let index = pointer.strip_prefix("/work/")?.split('/').next()?;
            publication.work.get(index.parse::<usize>().ok()?).map(|work| work.id)
        };
        let refused = answer.refused.into_iter();
        Ok(refused.filter_map(|item| Some((number(&item.pointer)?, item.detail))).collect())
    }

    /// Waits for another schedule than the one called `known`. `None`: there is no other one yet.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses.
    pub async fn next_schedule(&self, known: Option<&str>) -> Result<Option<NewSchedule>, RmError> {
        let path = &["v1", "schedule"];
        let question = Question { path, query: &[("wait", POLL)], known, ..Question::default() };
        let Answer { status, name, body } = self.ask(question).await?;
        if status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let schedule: Schedule =
            serde_json::from_slice(&body).map_err(|error| RmError::Silent(error.to_string()))?;
        let publication = schedule.publication;
        Ok(Some(NewSchedule { publication, jobs: shares_of(schedule), name }))
    }

    /// Why work has what it has, in a sentence.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses.
    pub async fn why(&self, work: u64) -> Result<WhyBrief, RmError> {
        let (work, query) = (work.to_string(), [("depth", "sentence")]);
        self.read(&["v1", "jobs", &work, "why"], &query).await
    }

    /// The names of all classes.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses.
    pub async fn classes(&self) -> Result<Vec<String>, RmError> {
        let list: ClassList = self.read(&["v1", "classes"], &[]).await?;
        Ok(list.classes.into_iter().map(|class| class.name).collect())
    }

    /// All nodes.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, RmError> {
        let list: NodeList = self.read(&["v1", "nodes"], &[]).await?;
        Ok(list.nodes)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, RmError> {
        let answer = self.ask(Question { path, query, ..Question::default() }).await?;
        serde_json::from_slice(&answer.body).map_err(|error| RmError::Silent(error.to_string()))
    }

    async fn ask(&self, question: Question<'_>) -> Result<Answer, RmError> {
        let answer = self.0.ask(question).await?;
        let status = answer.status;
        if !status.is_client_error() && !status.is_server_error() {
            return Ok(answer);
        }
        let problem = serde_json::from_slice::<Problem>(&answer.body);
        let detail = problem.map_or_else(|_| status.to_string(), |problem| problem.detail);
        Err(RmError::Refused(detail))
    }
}

/// The shares of each work of a schedule, in the words of the book.
pub fn shares_of(schedule: Schedule) -> Vec<JobShares> {
    let of_job = |job: crate::api::wire::ScheduledJob| JobShares {
        work: job.id,
        added: job.added.iter().map(|share| share.share).collect(),
        shares: job
            .shares
            .into_iter()
            .chain(job.added)
            .map(|share| (share.share, Name::from(share.node)))
            .collect(),
        removed: job
            .removed
            .into_iter()
            .map(|removed| RemovedShare {
                share: removed.share,
                node: Name::from(removed.node),
                has_died: removed.purge,
                why: match removed.reason {
                    RemovalReason::Preempted | RemovalReason::Withdrawn => StopReason::Preempted,
                    RemovalReason::VariedOff
                    | RemovalReason::Blacklisted
                    | RemovalReason::NodeDied => StopReason::VariedOff,
                },
            })
            .collect(),
    };
    schedule.jobs.into_iter().map(of_job).collect()
}

/// A publication of all `work`, under the name and epoch of this orchestrator.
pub fn publication(
    sequence: u64,
    publisher: &str,
    epoch: u64,
    work: Vec<PublishedWork>,
) -> Publication {
    Publication {
        sequence,
        full: true,
        publisher: Some(publisher.to_owned()),
        epoch: Some(epoch),
        work: work.into_iter().map(request_for).collect(),
    }
}

fn request_for(work: PublishedWork) -> Work {
    let state = if work.is_completing {
        WorkState::Completing
    } else if work.has_begun {
        WorkState::Running
    } else {
        WorkState::Schedulable
    };
    let signed = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
    let process = |slot: super::book::PublishedSlot| Process {
        share: slot.share,
        node: slot.node.to_string(),
        state: match slot.state {
            SlotState::Ordered | SlotState::Starting => ProcessState::Starting,
            SlotState::Preparing => ProcessState::Initializing,
            SlotState::Working | SlotState::Idle => ProcessState::Running,
            SlotState::Stopping => ProcessState::Stopping,
            SlotState::Gone => ProcessState::Gone,
        },
        initialization_ms: signed(slot.initialization_ms),
        investment_ms: signed(slot.investment_ms),
    };
    Work {
        id: work.work,
        kind: if work.is_kept { WorkKind::ArbitraryProcess } else { WorkKind::Job },
        user: work.user,
        class: work.class,
        memory_mb: work.memory_mb,
        threads: work.threads,
        state,
        remaining: work.remaining,
        max_processes: work.max.filter(|_| !work.is_frozen),
        frozen: work.is_frozen,
        running: work.has_begun,
        time_per_item_ms: (0 < work.time_per_item_ms).then(|| signed(work.time_per_item_ms)),
        submitted_ms: work.submitted_ms,
        nodes: work.nodes,
        service_id: None,
        processes: work.slots.into_iter().map(process).collect(),
    }
}
