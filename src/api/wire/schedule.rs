//! Schedule for the orchestrator: all of it, every time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Reason, WorkKind};

/// The schedule in full. Until it differs it keeps the number of the cycle it came about in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// The cycle in which it came about.
    pub cycle: u64,
    /// Number of the last publication that the schedule was made from. Later publications that
    /// changed nothing appear only in the header `apportion-publication`. Absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u64>,
    /// All known jobs, oldest first.
    pub jobs: Vec<ScheduledJob>,
}

/// Shares that a job has, gets and has to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduledJob {
    /// Number of the job.
    pub id: u64,
    /// Kind of the job.
    pub kind: WorkKind,
    /// True if the job is not considered at all; the reason says why.
    pub refused: bool,
    /// Memory each share of it gets: what it asked for, rounded up to whole quanta. 0 if refused.
    pub memory_mb: u64,
    /// All shares of the job, including shares that have to go.
    pub shares: Vec<Assigned>,
    /// Shares to start a process in. Repeated until the process is published.
    pub added: Vec<Assigned>,
    /// Shares to give up. Repeated until the process is published as gone, or no longer.
    pub removed: Vec<Removed>,
    /// Change of size that goes on, of a job with legal sizes or of an evolving gang. Absent: its
    /// size does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<Resize>,
    /// Expected start of a job that waits, in milliseconds since the epoch; it starts then, or
    /// earlier. Absent: no start can be told, or it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_estimate_ms: Option<u64>,
    /// End of the wait: events of which the expected start follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_basis: Option<StartBasis>,
    /// Reason why the job has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Events of which the expected start of a job follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartBasis {
    /// Work ends by then, as it declared.
    DeclaredEnds,
    /// A reservation, a maintenance or the hours of a class open or close then.
    Window,
}

impl StartBasis {
    /// Returns the basis in words.
    pub fn words(self) -> &'static str {
        match self {
            StartBasis::DeclaredEnds => "when work ends, as it declared",
            StartBasis::Window => "when a window opens or closes",
        }
    }
}

/// Change of the number of processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resize {
    /// Number of processes before.
    pub from: u64,
    /// Number of processes once new ones have initialized and others have exited.
    pub to: u64,
}

/// A share on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Assigned {
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Memory of the share.
    pub memory_mb: u64,
    /// Rank of the process in a gang, from 0: chunk by chunk, in the order of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Place of the chunk in the request, from 0; gangs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
}

/// A share to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// True if the share's node died: no process is left to stop, only an entry to delete.
    pub purge: bool,
    /// Reason for the removal.
    pub reason: RemovalReason,
}

/// Reason why a share has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// Taken back for fairness.
    Preempted,
    /// The share's node was varied off.
    VariedOff,
    /// Configuration no longer allows it.
    Blacklisted,
    /// The share's node died.
    NodeDied,
    /// The share's node has less memory than its shares need, and no process was published in this
    /// share.
    Withdrawn,
    /// Another process of the share's gang was lost with its node.
    GangBroken,
    /// Maintenance of the share's node begins.
    Window,
    /// The class of the job closes.
    ClassClosed,
    /// The job ran longer than it declared, and its class ends such jobs. It gets no share again.
    Overrun,
}
