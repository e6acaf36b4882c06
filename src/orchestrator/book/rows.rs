//! What must survive: one row for each thing that the book holds. The store keeps them as they are.

use serde::{Deserialize, Serialize};

use super::bag::UNTOUCHED;
use crate::model::Name;
use crate::orchestrator::wire::{AttemptId, Reason, StopReason, TaskResult};

/// The state of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignState {
    /// Its tasks run, or wait for slots.
    Running,
    /// No task of it begins; slots drain.
    Suspended,
    /// No task of it is queued; the last ones run.
    Finishing,
    /// It is cancelled, and something of it may still run.
    Cancelling,
    /// All tasks are done or dropped.
    Done,
    /// All tasks ended, and at least one failed.
    Failed,
    /// It was cancelled, and nothing of it runs.
    Cancelled,
}

impl CampaignState {
    /// Every state, in the order of the declaration.
    pub const ALL: [CampaignState; 7] = [
        CampaignState::Running,
        CampaignState::Suspended,
        CampaignState::Finishing,
        CampaignState::Cancelling,
        CampaignState::Done,
        CampaignState::Failed,
        CampaignState::Cancelled,
    ];

    /// The word in the database, on the wire and in texts.
    pub fn word(self) -> &'static str {
        match self {
            CampaignState::Running => "running",
            CampaignState::Suspended => "suspended",
            CampaignState::Finishing => "finishing",
            CampaignState::Cancelling => "cancelling",
            CampaignState::Done => "done",
            CampaignState::Failed => "failed",
            CampaignState::Cancelled => "cancelled",
        }
    }

    /// The state of that word; `None` if there is no such word.
    pub fn from_word(word: &str) -> Option<CampaignState> {
        CampaignState::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether nothing of the campaign can run any more.
    pub fn is_final(self) -> bool {
        matches!(self, CampaignState::Done | CampaignState::Failed | CampaignState::Cancelled)
    }
}

/// Why a campaign ends before its tasks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Its owner or an operator cancelled it.
    Cancelled,
    /// More of its tasks failed than may.
    MaxFails,
}

/// A campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignRow {
    /// Its number.
    pub id: u64,
    /// The name of its owner.
    pub owner: String,
    /// The number of its owner at the head. `None`: not known.
    pub uid: Option<u32>,
    /// The number of its specification.
    pub spec: u64,
    /// How many tasks it has. Some may have been added since it was submitted.
    pub total: u64,
    /// When it was submitted, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// Its state.
    pub state: CampaignState,
    /// Why it ends early.
    pub ending: Option<Ending>,
    /// How many positions of the range have been passed.
    pub taken: u64,
    /// How many positions may be passed: all, unless it was cancelled or is a test.
    pub limit: u64,
    /// Tasks done.
    pub done: u64,
    /// Tasks failed.
    pub failed: u64,
    /// Tasks cancelled.
    pub cancelled: u64,
    /// Tasks dropped.
    pub dropped: u64,
    /// Slots in a row that could not be prepared.
    pub init_fails: u64,
    /// Whether a task of it ever began.
    pub has_begun: bool,
    /// Time of tasks that ended by themselves, in milliseconds, all together.
    pub ended_ms: u64,
    /// How many tasks ended by themselves.
    pub ended: u64,
    /// Time from the order of a slot to its first task, in milliseconds, of the last slot.
    pub prepared_ms: u64,
    /// The most memory that a task used, in MiB.
    pub rss_mb: u64,
}

/// The work of one memory step of a campaign, as the resource manager knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkRow {
    /// The campaign.
    pub campaign: u64,
    /// The step, from 0.
    pub step: u64,
    /// Memory of its slots, in MiB.
    pub memory_mb: u64,
    /// Its number. `None`: it has no task, and no slot.
    pub number: Option<u64>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It waits for a slot.
    Queued,
    /// An attempt of it is committed for a slot.
    Assigned,
    /// An attempt of it has begun.
    Running,
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It is not wanted any more.
    Dropped,
}

impl TaskState {
    /// Every state, in the order of the declaration.
    pub const ALL: [TaskState; 7] = [
        TaskState::Queued,
        TaskState::Assigned,
        TaskState::Running,
        TaskState::Done,
        TaskState::Failed,
        TaskState::Cancelled,
        TaskState::Dropped,
    ];

    /// The word in the database, on the wire and in texts.
    pub fn word(self) -> &'static str {
        match self {
            TaskState::Queued => "queued",
            TaskState::Assigned => "assigned",
            TaskState::Running => "running",
            TaskState::Done => "done",
            TaskState::Failed => "failed",
            TaskState::Cancelled => "cancelled",
            TaskState::Dropped => "dropped",
        }
    }

    /// The state of that word; `None` if there is no such word.
    pub fn from_word(word: &str) -> Option<TaskState> {
        TaskState::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether the task needs no attempt any more.
    pub fn is_final(self) -> bool {
        !matches!(self, TaskState::Queued | TaskState::Assigned | TaskState::Running)
    }
}

/// A task that was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The campaign.
    pub campaign: u64,
    /// Its number.
    pub task: u64,
    /// Its state.
    pub state: TaskState,
    /// The number of its last attempt. 0: none.
    pub attempt: u64,
    /// Attempts that failed.
    pub tries: u64,
    /// Attempts that were lost.
    pub losses: u64,
    /// Attempts that asked to be queued again.
    pub resubmits: u64,
    /// Its priority in the queue: higher goes first.
    pub priority: u8,
    /// Its memory step.
    pub step: u64,
    /// The slot of its attempt, while it is assigned or running.
    pub share: Option<u64>,
    /// Whether its attempt has to end, as the task is cancelled.
    pub cancel: bool,
    /// Why it ended, or its last attempt.
    pub reason: Option<Reason>,
}

impl TaskRow {
    /// A task of a campaign, before anything has happened to it.
    pub fn untouched(campaign: u64, task: u64) -> TaskRow {
        TaskRow {
            campaign,
            task,
            state: TaskState::Queued,
            attempt: 0,
            tries: 0,
            losses: 0,
            resubmits: 0,
            priority: UNTOUCHED,
            step: 0,
            share: None,
            cancel: false,
            reason: None,
        }
    }
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// The attempt.
    pub id: AttemptId,
    /// The slot.
    pub share: u64,
    /// The node.
    pub node: Name,
    /// When it was assigned, in milliseconds since the epoch.
    pub assigned_ms: u64,
    /// How it ended. `None`: not yet.
    pub result: Option<TaskResult>,
    /// When that was recorded, in milliseconds since the epoch.
    pub ended_ms: Option<u64>,
}

/// The state of a slot, as the book knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotState {
    /// Ordered; its node has not reported it.
    Ordered,
    /// Its process is being started.
    Starting,
    /// Its prologue runs.
    Preparing,
    /// It runs tasks.
    Working,
    /// It has no task.
    Idle,
    /// It has to stop, or does.
    Stopping,
    /// Nothing of it can run any more.
    Gone,
}

impl SlotState {
    /// The word on the wire and in texts.
    pub fn word(self) -> &'static str {
        match self {
            SlotState::Ordered => "ordered",
            SlotState::Starting => "starting",
            SlotState::Preparing => "preparing",
            SlotState::Working => "working",
            SlotState::Idle => "idle",
            SlotState::Stopping => "stopping",
            SlotState::Gone => "gone",
        }
    }
}

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRow {
    /// The number of the share.
    pub share: u64,
    /// Its node.
    pub node: Name,
    /// The campaign.
    pub campaign: u64,
    /// The memory step.
    pub step: u64,
    /// The number of the work that the share was given for.
    pub work: u64,
    /// Its state.
    pub state: SlotState,
    /// The number of its last order.
    pub order: u64,
    /// The number of its last result on record.
    pub acked: u64,
    /// The boot of the node that reported it. `None`: not reported yet.
    pub boot: Option<String>,
    /// Why it has to stop.
    pub stop: Option<StopReason>,
    /// Whether tasks that run may end by themselves when it stops.
    pub drains: bool,
}

/// Something that people should know about a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The campaign.
    pub campaign: u64,
    /// The task, if it is about one.
    pub task: Option<u64>,
    /// The node, if it is about one.
    pub node: Option<Name>,
    /// A stable word for scripts.
    pub code: &'static str,
    /// A sentence for people.
    pub text: String,
}
