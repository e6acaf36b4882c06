//! Work as we show it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{HeldBack, Reason, RemovalReason, WorkKind};

/// How the last cycle left a request for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// It got shares.
    Expanded,
    /// It lost shares.
    Shrunken,
    /// It kept what it had.
    Stable,
    /// It has nothing.
    Dormant,
    /// It is a reservation that has its machine.
    Reserved,
    /// It is not considered.
    Refused,
}

/// Where a share is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareState {
    /// In use, or about to be.
    Held,
    /// Taken back and not yet confirmed gone.
    Leaving,
}

/// A request for work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobInfo {
    /// Its number.
    pub id: u64,
    /// Who submitted it.
    pub user: String,
    /// The resource class.
    pub class: String,
    /// What kind of work it is.
    pub kind: WorkKind,
    /// Memory of each process, as asked for.
    pub memory_mb: u64,
    /// The size of one process in qshares. Absent while it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// Work items that one process works on at a time.
    pub threads: u64,
    /// When it was submitted, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// Work items not finished.
    pub remaining: u64,
    /// Whether a process of it has ever initialized.
    pub running: bool,
    /// Whether it is ending.
    pub completing: bool,
    /// How the last cycle left it.
    pub disposition: Disposition,
    /// What it wants, may have and has.
    pub sums: JobSums,
    /// Why it has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why it takes no room from others that it has a right to. Absent: there is none, or it took
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBack>,
    /// Its shares, oldest first, those that are leaving included.
    pub shares: Vec<ShareInfo>,
}

impl JobInfo {
    /// Every word of [`Self::state`].
    pub const STATES: [&'static str; 7] =
        ["expanding", "shrinking", "running", "waiting", "reserved", "refused", "ending"];

    /// What people call the state that the last cycle left it in.
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

/// A job's arithmetic, in processes but for what it deserves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSums {
    /// What it could use without pacing.
    pub wanted: u64,
    /// The most it could use now. Absent before its first cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u64>,
    /// The rule that sets the cap, such as `doubling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bound: Option<Reason>,
    /// What it deserves before bonus shares, in qshares.
    pub deserved: u64,
    /// What was counted for it.
    pub given: u64,
    /// What it holds, without what is leaving.
    pub held: u64,
    /// What room is promised for.
    pub promised: u64,
    /// For how many cycles it has held less than was counted for it, and has got nothing.
    pub behind_cycles: u64,
}

/// A share, as its job sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareInfo {
    /// Its number.
    pub share: u64,
    /// The node it is on.
    pub node: String,
    /// Its size in qshares.
    pub order: u64,
    /// Its size in memory.
    pub memory_mb: u64,
    /// Whether it is on its way out.
    pub state: ShareState,
    /// Why it has to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<RemovalReason>,
    /// Whether the orchestrator has shown a process in it.
    pub seen: bool,
    /// Whether its process has initialized.
    pub initialized: bool,
    /// Time its process spent initializing.
    pub initialization_ms: u64,
    /// Work that would be lost with it.
    pub investment_ms: u64,
}

/// A page of work, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The cycle this is from.
    pub cycle: u64,
    /// The work on this page.
    pub jobs: Vec<JobInfo>,
    /// Ask for this `cursor` to go on. Absent: this was the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
