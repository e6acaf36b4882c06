//! Client of the resource manager: publishes work, follows the schedule, and reads answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;

use super::book::{HeldShare, JobShares, PublishedWork, SlotState, TerminatingShare};
use super::spec::GangSpec;
use super::way::{Answer, Question, RmWay};
use super::wire::StopReason;
use crate::api::wire::{
    ChunkPlace, ChunkRequest, ClassList, ElasticityWord, NodeInfo, NodeList, Policy, Problem,
    Process, ProcessState, Publication, PublicationAnswer, RemovalReason, Schedule, SizeRule,
    WhyBrief, Work, WorkKind, WorkState,
};
use crate::client::{NoToken, Transport, TransportError};
use crate::model::Name;

/// Wait of a poll of the schedule, as a duration of the API.
const POLL: &str = "30s";
/// Timeout of an answer: longer than a poll takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);

/// The way to the resource manager.
#[derive(Clone, Debug)]
pub struct RmOptions {
    /// Address of the resource manager.
    pub url: Url,
    /// Certificate authority of the resource manager, if the address is `https`.
    pub authority: Option<PathBuf>,
    /// File with a token of the role orchestrator. Every request reads the file anew.
    pub token_file: Option<PathBuf>,
}

/// Reason why the resource manager did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum RmError {
    /// The resource manager cannot be reached.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The orchestrator has no token.
    #[error(transparent)]
    Token(#[from] NoToken),
    /// The resource manager does not answer.
    #[error("the resource manager does not answer: {0}")]
    Silent(String),
    /// The resource manager refuses the request.
    #[error("the resource manager refuses: {0}")]
    Refused(String),
}

/// Classes of work that names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultClasses {
    /// Class of preemptable work. `None`: such work names its class.
    pub fair_share: Option<String>,
    /// Class of work that is kept. `None`: as above.
    pub fixed_share: Option<String>,
}

/// A client of the resource manager.
#[derive(Debug)]
pub struct Rm(RmWay);

/// A schedule, as the book needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// The last publication that it takes into account.
    pub publication: Option<u64>,
    /// The shares of each work.
    pub jobs: Vec<JobShares>,
    /// Entity tag of the schedule, to ask for the next schedule.
    pub name: Option<String>,
}

impl Rm {
    /// Builds a client of the resource manager at the address in `options`.
    ///
    /// # Errors
    ///
    /// If this process cannot be a client, or not in this way.
    pub fn new(options: RmOptions) -> Result<Rm, RmError> {
        let transport = Transport::new(&options.url, options.authority.as_deref(), PATIENCE)?;
        Ok(Rm(RmWay::Network(Box::new(transport), Box::new(options))))
    }

    /// Builds a client of the resource manager in this process, by all its routes.
    pub fn inside(routes: Router) -> Rm {
        Rm(RmWay::Inside(routes))
    }

    /// Publishes all work. Returns the refused works by number, each with a sentence.
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

    /// Waits for another schedule than the schedule tagged `known`. `None`: the schedule is still
    /// the same.
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

    /// Returns the resource manager's reason for the shares of a work, in a sentence.
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

    /// The default classes.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses.
    pub async fn default_classes(&self) -> Result<DefaultClasses, RmError> {
        let list: ClassList = self.read(&["v1", "classes"], &[]).await?;
        let default = |policy: Policy| {
            let found =
                list.classes.iter().find(|class| class.is_default && class.policy == policy);
            found.map(|class| class.name.clone())
        };
        let (fair_share, fixed_share) = (default(Policy::FairShare), default(Policy::FixedShare));
        Ok(DefaultClasses { fair_share, fixed_share })
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

/// Converts the shares of each work of a schedule for the book.
pub fn shares_of(schedule: Schedule) -> Vec<JobShares> {
    let of_job = |job: crate::api::wire::ScheduledJob| JobShares {
        work: job.id,
        added: job.added.iter().map(|share| share.share).collect(),
        shares: job
            .shares
            .into_iter()
            .chain(job.added)
            .map(|share| HeldShare {
                share: share.share,
                node: Name::from(share.node),
                rank: share.rank.map(u64::from),
                memory_mb: share.memory_mb,
            })
            .collect(),
        removed: job
            .removed
            .into_iter()
            .map(|removed| TerminatingShare {
                share: removed.share,
                node: Name::from(removed.node),
                has_died: removed.purge,
                why: match removed.reason {
                    RemovalReason::Preempted
                    | RemovalReason::Withdrawn
                    | RemovalReason::Window
                    | RemovalReason::ClassClosed => StopReason::Preempted,
                    RemovalReason::Overrun => StopReason::TimeLimit,
                    RemovalReason::VariedOff
                    | RemovalReason::Blacklisted
                    | RemovalReason::NodeDied
                    | RemovalReason::GangBroken => StopReason::VariedOff,
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
    let chunk = |gang: &GangSpec| ChunkRequest {
        count: gang.nodes,
        memory_mb: work.memory_mb,
        tags: gang.tags.clone(),
    };
    let (gang, sizes) =
        (work.gang.as_ref(), work.gang.as_ref().and_then(|gang| gang.sizes.as_ref()));
    let most = gang.filter(|_| sizes.is_some()).map_or(work.max, |gang| Some(gang.nodes));
    let fixed = gang.filter(|_| sizes.is_none());
    let kind = if work.is_kept { WorkKind::ArbitraryProcess } else { WorkKind::Job };
    Work {
        class: work.class,
        // The chunks of a gang say how many processes it has, and how large they are.
        memory_mb: Some(work.memory_mb).filter(|_| fixed.is_none()),
        chunks: fixed.map(|gang| vec![chunk(gang)]),
        place: fixed.map(|_| ChunkPlace::Scatter),
        elasticity: sizes.map(|_| ElasticityWord::Malleable),
        // Chunks have the tags of a gang of fixed size.
        tags: gang.filter(|_| sizes.is_some()).map(|gang| gang.tags.clone()).unwrap_or_default(),
        min_processes: sizes.map_or(0, |sizes| sizes.min_nodes),
        legal_sizes: sizes.map(|sizes| SizeRule::from(&sizes.legal())),
        exclusive: gang.is_some_and(|gang| gang.exclusive),
        // A gang that asks for the same rack does not run in two.
        span: gang.filter(|gang| gang.group_by.is_some()).map(|_| false),
        group_by: gang.and_then(|gang| gang.group_by.clone()),
        duration_ms: work.times.duration_ms.map(signed),
        not_before_ms: work.times.not_before_ms.map(signed),
        deadline_ms: work.times.deadline_ms.map(signed),
        reservation: work.times.reservation,
        threads: work.threads,
        state,
        remaining: work.remaining,
        max_processes: most.filter(|_| !work.is_frozen && fixed.is_none()),
        frozen: work.is_frozen,
        running: work.has_begun,
        time_per_item_ms: (0 < work.time_per_item_ms && gang.is_none())
            .then(|| signed(work.time_per_item_ms)),
        nodes: work.nodes,
        except_nodes: work.except_nodes,
        processes: work.slots.into_iter().map(process).collect(),
        ..Work::of(work.work, kind, work.user, work.submitted_ms)
    }
}
