//! What the orchestrator publishes: all the work it knows, in full, every time.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ItemProblem, is_false, is_zero};
use crate::api::http::json::Object;

/// All the work there is. What is absent and has no process is over; processes that are absent keep
/// their room until they are published as `gone`, their job as `completed`, or all with `full: true`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Grows by one with every publication. A gap is taken for publications that were lost, and said.
    /// The same number again must carry the same content.
    pub sequence: u64,
    /// Confirms that this is all: what is absent is over, its processes too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub full: bool,
    /// The name of the orchestrator. Once one said its name, publications of others are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Its incarnation: a higher one takes over and begins its numbers anew, a lower one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// All work, each request once.
    pub work: Vec<Work>,
}

/// A [`Publication`] whose work is not read yet, so that one bad item cannot spoil the others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicationEnvelope<'a> {
    /// As in [`Publication`].
    pub sequence: u64,
    /// As in [`Publication`].
    #[serde(default)]
    pub full: bool,
    /// As in [`Publication`].
    #[serde(default)]
    pub publisher: Option<String>,
    /// As in [`Publication`].
    #[serde(default)]
    pub epoch: Option<u64>,
    /// One text for each request for work.
    #[serde(borrow)]
    pub work: Vec<&'a RawValue>,
}

/// The number of a request for work that does not fit otherwise.
#[derive(Debug, Deserialize)]
pub struct WorkNumber {
    /// As in [`Work`].
    pub id: u64,
}

/// One request for work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Its number, given by the orchestrator and never used again.
    pub id: u64,
    /// What kind of work it is.
    pub kind: WorkKind,
    /// Who submitted it.
    pub user: String,
    /// The resource class. Absent: the default class for this kind of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Memory of each process, in MiB. At least 1.
    pub memory_mb: u64,
    /// Work items that one process works on at a time. At least 1.
    #[serde(default = "one")]
    pub threads: u64,
    /// Where it is in its life.
    pub state: WorkState,
    /// Work items not finished, those in progress included. Absent: one, for work without items.
    #[serde(default = "one")]
    pub remaining: u64,
    /// The most processes it may have, at least 1. Absent: as many as it can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u64>,
    /// Whether it may get no more processes than it has, for too many of them failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// Whether a process of it has ever initialized.
    #[serde(default, skip_serializing_if = "is_false")]
    pub running: bool,
    /// Mean time of one work item. Absent or not above 0: not known.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_millis")]
    pub time_per_item_ms: Option<i64>,
    /// When it was submitted, in milliseconds since the epoch: its age among its peers.
    pub submitted_ms: u64,
    /// The only nodes it may use. Empty or absent: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// What service it is an instance of, from 1. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_id: Option<u64>,
    /// Its processes; for a reservation, the room it has. Each is in a share of ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "objects")]
    pub processes: Vec<Process>,
}

fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(item)| item).collect())
}

/// A time in milliseconds. Any number is one, also a fraction, or one that no float can hold: whether
/// it can be a time is asked later, and costs nobody its place.
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

/// What kind of work a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Many interchangeable processes that work through items.
    Job,
    /// One process that serves others.
    Service,
    /// One process of any kind.
    ArbitraryProcess,
    /// Room for a user, with nothing started in it.
    Reservation,
}

impl WorkKind {
    /// Every kind, in the order of legends.
    pub const ALL: [WorkKind; 4] =
        [WorkKind::Job, WorkKind::Service, WorkKind::ArbitraryProcess, WorkKind::Reservation];

    /// What people call it.
    pub fn word(self) -> &'static str {
        match self {
            WorkKind::Job => "job",
            WorkKind::Service => "service",
            WorkKind::ArbitraryProcess => "process",
            WorkKind::Reservation => "reservation",
        }
    }
}

/// Where a request for work is in its life.
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
    /// Where it is in its life.
    pub state: ProcessState,
    /// Time spent initializing, so far or in all. Below 0: not known.
    #[serde(default, deserialize_with = "millis")]
    pub initialization_ms: i64,
    /// Work that would be lost with it. Below 0: not known.
    #[serde(default, deserialize_with = "millis")]
    pub investment_ms: i64,
}

/// Where a process is in its life.
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

/// What was made of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublicationAnswer {
    /// The publication's number.
    pub sequence: u64,
    /// How many requests for work were taken as they are.
    pub accepted: u64,
    /// The others, each with its problem. What was known of them before stays as it was.
    pub refused: Vec<ItemProblem>,
    /// How many more are refused: the first thousand are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_unlisted: u64,
    /// What was taken but looks wrong; the first thousand.
    pub warnings: Vec<ItemProblem>,
    /// How many more warnings there are.
    #[serde(default)]
    pub warnings_unlisted: u64,
    /// With `?wait=commit`: whether it is on record. False: not within the time that a request may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<bool>,
}

/// Lets the numbers of publications begin anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicationReset {
    /// Why, for the audit log.
    pub reason: String,
    /// Only says what would be done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// What was done about the numbers of publications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublicationResetAnswer {
    /// The last number that was taken in.
    pub last: Option<u64>,
    /// Whether nothing was done.
    pub dry_run: bool,
}

/// Whose publications count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orchestrators {
    /// The orchestrator that said its name. Absent: none did, and any may publish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Its incarnation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The last publication that is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u64>,
    /// Others, whose publications were refused since the last hand-over or start.
    pub refused: Vec<RefusedOrchestrator>,
}

/// An orchestrator whose publications are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedOrchestrator {
    /// As it calls itself; empty if it does not say.
    pub publisher: String,
    /// How many.
    pub publications: u64,
}

/// Lets another orchestrator publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// The name of the next one. Absent: whichever says its name first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why, for the audit log.
    pub reason: String,
}
