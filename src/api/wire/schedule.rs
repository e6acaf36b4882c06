//! What the orchestrator gets: the whole schedule, every time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Reason, WorkKind};

/// The schedule in full. Until it differs it keeps the number of the cycle it came about in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// The cycle in which it came about.
    pub cycle: u64,
    /// The last publication that it was made from. Later ones that changed nothing about it are told by
    /// the header `apportion-publication` alone. Absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u64>,
    /// All work we know, oldest first.
    pub jobs: Vec<ScheduledJob>,
}

/// What one request for work has, gets and has to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduledJob {
    /// Its number.
    pub id: u64,
    /// What kind of work it is.
    pub kind: WorkKind,
    /// Whether it is not considered at all; the reason says why.
    pub refused: bool,
    /// Memory each share of it gets: what it asked for, rounded up to whole quanta. 0 if refused.
    pub memory_mb: u64,
    /// All its shares, those that have to go included.
    pub shares: Vec<Assigned>,
    /// Shares to start a process in. Repeated until the process is published.
    pub added: Vec<Assigned>,
    /// Shares to give up. Repeated until the process is published as gone, or no longer.
    pub removed: Vec<Removed>,
    /// Why it has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A share on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Assigned {
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Its memory.
    pub memory_mb: u64,
}

/// A share to give up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The share's number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Whether its node died: there is nothing to stop, only an entry to delete.
    pub purge: bool,
    /// Why it has to go.
    pub reason: RemovalReason,
}

/// Why a share has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// Taken back for fairness.
    Preempted,
    /// Its node was varied off.
    VariedOff,
    /// Configuration no longer allows it.
    Blacklisted,
    /// Its node died.
    NodeDied,
    /// Its node has less than is booked there, and no process was published in it.
    Withdrawn,
}
