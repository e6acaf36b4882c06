//! Jobs as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    ChunkPlace, ChunkRequest, ElasticityWord, HeldBack, Reason, RemovalReason, SizeRule,
    StartBasis, WorkKind, is_false, is_zero,
};
use crate::model::{LegalSizes, Place, Shape};

/// Result of the last cycle for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The job got shares.
    Expanded,
    /// The job lost shares.
    Shrunken,
    /// The job kept its shares.
    Stable,
    /// The job has no share.
    Dormant,
    /// The job is a reservation that has its node.
    Reserved,
    /// The job is not considered.
    Refused,
}

/// State of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareState {
    /// In use, or about to be.
    Held,
    /// Taken back and not yet confirmed gone.
    Leaving,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobInfo {
    /// Number of the job.
    pub id: u64,
    /// Name of the user who submitted the job.
    pub user: String,
    /// The resource class.
    pub class: String,
    /// Kind of the job.
    pub kind: WorkKind,
    /// Memory of each process, as asked for.
    pub memory_mb: u64,
    /// Tags that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Chunks of a gang, as asked for: all its processes start together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<ChunkRequest>,
    /// How the processes of the chunks are spread over nodes. Absent: `free`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<ChunkPlace>,
    /// True if the nodes of the gang run nothing else.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Key of a tag of which all nodes of the gang have the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// True if several values may be used where no single value could ever do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<bool>,
    /// Owner of decisions on the number of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elasticity: Option<ElasticityWord>,
    /// Fewest processes that the job can work with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_processes: u64,
    /// Numbers of processes that the job can work with. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legal_sizes: Option<SizeRule>,
    /// The longest that the job runs, from its start, as it declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Earliest start, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// Latest end, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Name of the advance reservation in which the job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Size of a process in qshares. Absent while the job is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// Memory that a process gets, in MiB: whole qshares. Absent while the job is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_mb: Option<u64>,
    /// Number of work items that a process works on at a time.
    pub threads: u64,
    /// Time of submission, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// Work items not finished.
    pub remaining: u64,
    /// True if a process of the job has ever initialized.
    pub running: bool,
    /// True if the job is ending.
    pub completing: bool,
    /// Result of the last cycle for the job.
    pub disposition: Disposition,
    /// Amounts that the job wants, may have and has.
    pub sums: JobSums,
    /// Processes of a gang that have begun, while the rest has not. Absent: all have, or it is no gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u64>,
    /// Reason why the job has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Expected start of a job that waits, in milliseconds since the epoch; it starts then, or
    /// earlier. Absent: no start can be told, or it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_estimate_ms: Option<u64>,
    /// End of the wait: events of which the expected start follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_basis: Option<StartBasis>,
    /// Reason why the job does not preempt shares that it has a right to. Absent: it has no such
    /// right, or used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBack>,
    /// Shares of the job, oldest first; terminating shares are included.
    pub shares: Vec<ShareInfo>,
}

impl JobInfo {
    /// Every word of [`Self::state`].
    pub const STATES: [&'static str; 7] =
        ["expanding", "shrinking", "running", "waiting", "reserved", "refused", "ending"];

    /// Returns the chunks, sizes and duration that the job asked for; all absent for independent
    /// processes.
    pub fn shape(&self) -> Shape {
        Shape {
            chunks: self.chunks.iter().map(Into::into).collect(),
            place: self.place.map_or(Place::Free, Into::into),
            is_exclusive: self.exclusive,
            group_by: self.group_by.as_deref().map(Into::into),
            may_span: self.span,
            elasticity: self.elasticity.map(Into::into),
            min_processes: self.min_processes,
            legal_sizes: self.legal_sizes.as_ref().map_or(LegalSizes::Any, Into::into),
            duration: self.duration_ms,
            not_before: self.not_before_ms,
            deadline: self.deadline_ms,
            reservation: self.reservation.as_deref().map(Into::into),
        }
    }

    /// Returns the state after the last cycle as a word for people.
    pub fn state(&self) -> &'static str {
        if self.completing {
            return "ending";
        }
        match self.disposition {
            Disposition::Expanded => "expanding",
            Disposition::Shrunken => "shrinking",
            Disposition::Stable => "running",
            Disposition::Dormant => "waiting",
            Disposition::Reserved => "reserved",
            Disposition::Refused => "refused",
        }
    }
}

/// A job's arithmetic, in processes; the fair share is in qshares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSums {
    /// Demand without limits on growth.
    pub wanted: u64,
    /// The most it could use now. Absent before its first cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u64>,
    /// The rule that sets the cap, such as `doubling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bound: Option<Reason>,
    /// Fair share before bonus shares, in qshares.
    pub deserved: u64,
    /// Target: processes that the cycle wants the job to have.
    pub given: u64,
    /// Processes that the job holds, without terminating ones.
    pub held: u64,
    /// Processes that space is promised to.
    pub promised: u64,
    /// Number of cycles in a row in which the job held less than its target and got nothing.
    pub behind_cycles: u64,
}

/// A share, as its job sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareInfo {
    /// Number of the share.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Size of the share in qshares.
    pub order: u64,
    /// Size of the share in memory.
    pub memory_mb: u64,
    /// Rank of the process in a gang, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// State: held, or terminating.
    pub state: ShareState,
    /// Reason for the removal. Absent while the share is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<RemovalReason>,
    /// True once the orchestrator has published a process in the share.
    pub seen: bool,
    /// True once the share's process has initialized.
    pub initialized: bool,
    /// Time its process spent initializing.
    pub initialization_ms: u64,
    /// Work that would be lost with the share, in milliseconds.
    pub investment_ms: u64,
}

/// A page of jobs, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The cycle this is from.
    pub cycle: u64,
    /// Jobs on this page.
    pub jobs: Vec<JobInfo>,
    /// Ask for this `cursor` to go on. Absent: this was the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
