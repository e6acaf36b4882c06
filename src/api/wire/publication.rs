//! Publications of the orchestrator: all jobs that it knows, in full, every time.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ChunkPlace, ChunkRequest, ElasticityWord, ItemProblem, SizeRule, is_false, is_zero};
use crate::api::http::json::Object;

/// All jobs of the orchestrator. An absent job without processes is over. Absent processes keep
/// their space until they are published as `gone`, their job as `completed`, or all with `full:
/// true`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Sequence number; grows by 1 with every publication. A gap means lost publications and causes
    /// a warning. The same number again must carry the same content.
    pub sequence: u64,
    /// Confirms that this is all: what is absent is over, its processes too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub full: bool,
    /// Name of the orchestrator. After the first named publication, other orchestrators are
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Incarnation of the orchestrator: a higher number takes over and begins its sequence anew, a
    /// lower number is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// All jobs, each once.
    pub work: Vec<Work>,
}

/// A [`Publication`] with unparsed jobs: a bad job does not affect the rest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicationEnvelope<'a> {
    /// Sequence number, as in [`Publication`].
    pub sequence: u64,
    /// Confirmation that this is all, as in [`Publication`].
    #[serde(default)]
    pub full: bool,
    /// Name of the orchestrator, as in [`Publication`].
    #[serde(default)]
    pub publisher: Option<String>,
    /// Incarnation, as in [`Publication`].
    #[serde(default)]
    pub epoch: Option<u64>,
    /// Unparsed text of each job.
    #[serde(borrow)]
    pub work: Vec<&'a RawValue>,
}

/// Number of a job that is not valid otherwise.
#[derive(Debug, Deserialize)]
pub struct WorkNumber {
    /// Number of the job, as in [`Work`].
    pub id: u64,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Number of the job, given by the orchestrator and never used again.
    pub id: u64,
    /// Kind of the job.
    pub kind: WorkKind,
    /// Name of the user who submitted the job.
    pub user: String,
    /// Resource class. Absent: the default class for this kind of job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Memory of each process, in MiB. At least 1. Required without `chunks`, absent with them.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub memory_mb: Option<u64>,
    /// Number of work items that a process works on at a time. At least 1.
    #[serde(default = "one")]
    pub threads: u64,
    /// State of the job.
    pub state: WorkState,
    /// Number of unfinished work items, including items in progress. Absent: 1, for a job without
    /// items.
    #[serde(default = "one")]
    pub remaining: u64,
    /// The most processes it may have, at least 1. Absent: as many as it can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u64>,
    /// True if the job may get no further processes, as too many of its processes failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// True if a process of the job has ever initialized.
    #[serde(default, skip_serializing_if = "is_false")]
    pub running: bool,
    /// Mean time of a work item, in milliseconds. Absent or not above 0: not known.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_millis")]
    pub time_per_item_ms: Option<i64>,
    /// Time of submission, in milliseconds since the epoch: it decides the job's age among its
    /// peers.
    pub submitted_ms: u64,
    /// The only nodes it may use. Empty or absent: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Nodes that get no further process of it, each named once. The owner may change them at any
    /// time; processes that are there stay. Empty or absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except_nodes: Vec<String>,
    /// Tags that a node must have, all of them; a tag that a node lacks has the value `false`. Empty
    /// or absent: any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Number of the service that the job is an instance of, from 1. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_id: Option<u64>,
    /// Chunks of a gang, in the order of the ranks of its processes: 1 to 64. All processes start
    /// together, or none. Kind `job` only; `memory_mb`, `max_processes` and `tags` are absent then.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given_objects")]
    #[schema(value_type = Option<Vec<ChunkRequest>>)]
    pub chunks: Option<Vec<ChunkRequest>>,
    /// How the processes of the chunks are spread over nodes. Absent: `free`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<ChunkPlace>,
    /// True if the nodes of the gang are to run nothing else. They are charged in full.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Key of a tag of which all nodes of the gang must have the same value. Absent: the configured
    /// placement sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// True if several values may be used where no single value could ever do. Absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<bool>,
    /// Owner of decisions on the number of processes. Absent: `rigid` with chunks; without chunks
    /// processes come and go independently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elasticity: Option<ElasticityWord>,
    /// Fewest processes that the job can work with; with a single chunk at most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_processes: u64,
    /// Numbers of processes that the job can work with; with a single chunk at most. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legal_sizes: Option<SizeRule>,
    /// The longest that the job runs, from its start. Absent: as configured for the class.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_millis")]
    pub duration_ms: Option<i64>,
    /// Earliest start, in milliseconds since the epoch, in every class. Absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_millis")]
    pub not_before_ms: Option<i64>,
    /// Latest end, in milliseconds since the epoch: the job is not started if it would not be over
    /// by then. Without effect on fair-share work. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_millis")]
    pub deadline_ms: Option<i64>,
    /// Name of the advance reservation in which the job runs, and nowhere else. Without effect on
    /// fair-share work, which may use reserved nodes. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Processes of the job; for a reservation, its shares. Each is in a share of the schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "objects")]
    pub processes: Vec<Process>,
}

impl Work {
    /// A schedulable job of which every optional field is absent.
    pub fn of(id: u64, kind: WorkKind, user: String, submitted_ms: u64) -> Work {
        Work {
            id,
            kind,
            user,
            class: None,
            memory_mb: None,
            threads: one(),
            state: WorkState::Schedulable,
            remaining: one(),
            max_processes: None,
            frozen: false,
            running: false,
            time_per_item_ms: None,
            submitted_ms,
            nodes: Vec::new(),
            except_nodes: Vec::new(),
            tags: BTreeMap::new(),
            service_id: None,
            chunks: None,
            place: None,
            exclusive: false,
            group_by: None,
            span: None,
            elasticity: None,
            min_processes: 0,
            legal_sizes: None,
            duration_ms: None,
            not_before_ms: None,
            deadline_ms: None,
            reservation: None,
            processes: Vec::new(),
        }
    }
}

fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(item)| item).collect())
}

/// Parses a value that is there, which is not `null` then.
fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn given_objects<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    objects(deserializer).map(Some)
}

/// Parses a time in milliseconds. Accepts any number, also fractions and numbers beyond every
/// float. A later check judges the range, so a bad time does not spoil the rest of the job.
fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    millis_in(raw.get()).map_err(D::Error::custom)
}

fn maybe_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    if raw.get() == "null" {
        return Ok(None);
    }
    millis_in(raw.get()).map(Some).map_err(D::Error::custom)
}

fn millis_in(text: &str) -> Result<i64, String> {
    if let Ok(millis) = text.parse() {
        return Ok(millis);
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let number: f64 = text
        .parse()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(|| format!("invalid value: {text}, expected a number of milliseconds"))?;
    let beyond = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Ok(format!("{number:.0}").parse().unwrap_or(beyond))
}

fn one() -> u64 {
    1
}

/// Kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Many interchangeable processes that work through items.
    Job,
    /// A process that serves other processes.
    Service,
    /// A single process of any kind.
    ArbitraryProcess,
    /// Memory for a user, with no process in it.
    Reservation,
}

impl WorkKind {
    /// Every kind, in the order of legends.
    pub const ALL: [WorkKind; 4] =
        [WorkKind::Job, WorkKind::Service, WorkKind::ArbitraryProcess, WorkKind::Reservation];

    /// Returns the kind as a word for people.
    pub fn word(self) -> &'static str {
        match self {
            WorkKind::Job => "job",
            WorkKind::Service => "service",
            WorkKind::ArbitraryProcess => "process",
            WorkKind::Reservation => "reservation",
        }
    }
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    /// Not ready to be scheduled yet.
    Waiting,
    /// To be scheduled; nothing of it runs yet.
    Schedulable,
    /// To be scheduled, and running.
    Running,
    /// Ending: keeps what it has until its processes exit.
    Completing,
    /// Over.
    Completed,
}

/// A process, in a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// The number of the share it runs in.
    pub share: u64,
    /// The node it runs on.
    pub node: String,
    /// State of the process.
    pub state: ProcessState,
    /// Time spent initializing, so far or in all. Below 0: not known.
    #[serde(default, deserialize_with = "millis")]
    pub initialization_ms: i64,
    /// Work that would be lost with the process, in milliseconds. Below 0: not known.
    #[serde(default, deserialize_with = "millis")]
    pub investment_ms: i64,
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// Not started yet, or just.
    Starting,
    /// Preparing for work.
    Initializing,
    /// At work.
    Running,
    /// On its way out; still occupies its space.
    Stopping,
    /// Ended. Its space is free.
    Gone,
}

/// Result of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublicationAnswer {
    /// The publication's number.
    pub sequence: u64,
    /// Number of jobs that were accepted unchanged.
    pub accepted: u64,
    /// Refused jobs, each with its problem. The daemon keeps the earlier entry of each refused job.
    pub refused: Vec<ItemProblem>,
    /// Number of refused jobs beyond the first thousand, which are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_unlisted: u64,
    /// Warnings about accepted jobs that look wrong; the first thousand.
    pub warnings: Vec<ItemProblem>,
    /// Number of warnings beyond the listed ones.
    #[serde(default)]
    pub warnings_unlisted: u64,
    /// With `?wait=commit`: true once the publication is stored; false if a request's time was over
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<bool>,
}

/// Lets the numbers of publications begin anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicationReset {
    /// Reason, for the audit log.
    pub reason: String,
    /// True: only reports the effect and changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// Result of a reset of the sequence of publications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublicationResetAnswer {
    /// The last number that was taken in.
    pub last: Option<u64>,
    /// True if nothing was changed.
    pub dry_run: bool,
}

/// The accepted orchestrator, and the refused ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orchestrators {
    /// Name of the accepted orchestrator. Absent: none was named, and any may publish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Incarnation of the orchestrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The last stored publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u64>,
    /// Orchestrators whose publications were refused since the last hand-over or start.
    pub refused: Vec<RefusedOrchestrator>,
}

/// An orchestrator whose publications are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedOrchestrator {
    /// Name of the orchestrator as it calls itself; empty if it sends no name.
    pub publisher: String,
    /// Number of refused publications.
    pub publications: u64,
}

/// Lets another orchestrator publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// Name of the next orchestrator. Absent: the first orchestrator that sends a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Reason, for the audit log.
    pub reason: String,
}
