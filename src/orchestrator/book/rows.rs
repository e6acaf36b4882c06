//! Rows of the database: a row for each item of the book that a restart needs. The store keeps them
//! unchanged.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::bag::UNTOUCHED;
use crate::model::Name;
use crate::orchestrator::wire::{AttemptId, Reason, StopReason, TaskResult};

/// The state of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignState {
    /// No task begins: the campaign waits for other campaigns, or for its hours.
    Waiting,
    /// Tasks of the campaign run, or wait for slots.
    Running,
    /// No task begins; slots drain.
    Suspended,
    /// No task is queued; the last tasks run.
    Finishing,
    /// The campaign is cancelled, and a process of it may still run.
    Cancelling,
    /// All tasks are done or dropped.
    Done,
    /// Every task ended, and at least one task failed.
    Failed,
    /// The campaign was cancelled, and no process of it runs.
    Cancelled,
}

impl CampaignState {
    /// Every state, in the order of the declaration.
    pub const ALL: [CampaignState; 8] = [
        CampaignState::Waiting,
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
            CampaignState::Waiting => "waiting",
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

    /// True if no process of the campaign can run any more.
    pub fn is_final(self) -> bool {
        matches!(self, CampaignState::Done | CampaignState::Failed | CampaignState::Cancelled)
    }
}

/// Reason why a campaign ends before its tasks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The owner or an operator cancelled the campaign.
    Cancelled,
    /// More tasks failed than `max_fails` allows.
    MaxFails,
}

/// A campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignRow {
    /// Number of the campaign.
    pub id: u64,
    /// The name of its owner.
    pub owner: String,
    /// The number of its owner at the head. `None`: not known.
    pub uid: Option<u32>,
    /// The number of its specification.
    pub spec: u64,
    /// Number of tasks, including tasks that were added since the submission.
    pub total: u64,
    /// Time of the submission, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// State of the campaign.
    pub state: CampaignState,
    /// Reason of an early end.
    pub ending: Option<Ending>,
    /// Positions of the range that the cursor has passed.
    pub taken: u64,
    /// Positions that the cursor may pass: all, unless the campaign was cancelled or is a test.
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
    /// True if a task of the campaign ever began.
    pub has_begun: bool,
    /// Time of tasks that ended by themselves, in milliseconds, all together.
    pub ended_ms: u64,
    /// Number of tasks that ended by themselves.
    pub ended: u64,
    /// Time from the order of a slot to its first task, in milliseconds, of the last slot.
    pub prepared_ms: u64,
    /// The most memory that a task used, in MiB.
    pub rss_mb: u64,
    /// State that all ranks of a gang get once none of its attempts is left. `None`: the gang is not
    /// to end.
    pub verdict: Option<TaskState>,
    /// Campaigns that have to be done before a task begins, and are not.
    pub waits_for: BTreeSet<u64>,
    /// Time at which its hours begin, in milliseconds since the epoch. `None`: tasks may begin now.
    pub opens_ms: Option<u64>,
    /// The campaign whose prologue or epilogue this campaign is. `None`: it is neither.
    pub hook_of: Option<u64>,
    /// The epilogue without which the campaign does not end. `None`: it has none, or the epilogue is done.
    pub epilogue: Option<u64>,
    /// The other cluster for which this prologue or epilogue is. `None`: it runs here, or is neither.
    pub hook_cluster: Option<Name>,
    /// Other clusters that the epilogue has to visit: the prologue is done there, or tasks were sent there.
    pub prepared: BTreeSet<Name>,
    /// Epilogues on other clusters that are not done. The campaign does not end without them.
    pub epilogues: BTreeSet<u64>,
}

/// Work of a step of a campaign, as the resource manager knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkRow {
    /// The campaign.
    pub campaign: u64,
    /// The step, from 0.
    pub step: u64,
    /// Memory of its slots, in MiB.
    pub memory_mb: u64,
    /// Number of the work. `None`: the step has no task, and no slot.
    pub number: Option<u64>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// The task waits for a slot.
    Queued,
    /// An attempt of the task is committed for a slot.
    Assigned,
    /// An attempt of the task has begun.
    Running,
    /// The task is done.
    Done,
    /// The task failed.
    Failed,
    /// The task was cancelled.
    Cancelled,
    /// The task is not wanted any more.
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

    /// True if the task needs no attempt any more.
    pub fn is_final(self) -> bool {
        !matches!(self, TaskState::Queued | TaskState::Assigned | TaskState::Running)
    }
}

/// A task that was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The campaign.
    pub campaign: u64,
    /// Number of the task.
    pub task: u64,
    /// State of the task.
    pub state: TaskState,
    /// The number of its last attempt. 0: none.
    pub attempt: u64,
    /// Attempts that failed.
    pub tries: u64,
    /// Attempts that were lost.
    pub losses: u64,
    /// Attempts that asked to be queued again.
    pub resubmits: u64,
    /// Priority in the queue: a higher number goes first.
    pub priority: u8,
    /// Memory step of the task.
    pub step: u64,
    /// The number of the attempt in the slot, if the last attempt is a copy of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<u64>,
    /// Slot of the attempt, while the task is assigned or running.
    pub share: Option<u64>,
    /// True if the attempt has to end, as the task is cancelled.
    pub cancel: bool,
    /// Reason of the end of the last attempt; of a final task, the reason of its end.
    pub reason: Option<Reason>,
}

impl TaskRow {
    /// Returns the row of an untouched task.
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
            live: None,
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
    /// Time of the assignment, in milliseconds since the epoch.
    pub assigned_ms: u64,
    /// Result of the attempt. `None`: the attempt has not ended.
    pub result: Option<TaskResult>,
    /// Time at which the result was recorded, in milliseconds since the epoch.
    pub ended_ms: Option<u64>,
}

/// The state of a slot, as the book knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotState {
    /// Ordered; its node has not reported it.
    Ordered,
    /// The slot's process is being started.
    Starting,
    /// The prologue runs.
    Preparing,
    /// The slot runs tasks.
    Working,
    /// The slot has no task.
    Idle,
    /// The slot has to stop, or is stopping.
    Stopping,
    /// No process of the slot can run any more.
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
    /// Node of the slot.
    pub node: Name,
    /// The campaign.
    pub campaign: u64,
    /// The memory step.
    pub step: u64,
    /// Number of the work that holds the share.
    pub work: u64,
    /// State of the slot.
    pub state: SlotState,
    /// The number of its last order.
    pub order: u64,
    /// The number of its last result on record.
    pub acked: u64,
    /// The boot of the node that reported it. `None`: not reported yet.
    pub boot: Option<String>,
    /// Cause of the stop, if the slot has to stop.
    pub stop: Option<StopReason>,
    /// True if running tasks may end by themselves when the slot stops.
    pub drains: bool,
    /// Rank of the slot in its gang. `None`: it belongs to no gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Memory of the share, in MiB, if it differs from the memory of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
}

/// An event of a node on which the tasks of a campaign go wrong. Open until a retest goes well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRow {
    /// The campaign.
    pub campaign: u64,
    /// The node.
    pub node: Name,
    /// A stable word: `sink` or `failing`.
    pub code: String,
    /// Time of its begin, in milliseconds since the epoch.
    pub opened_ms: u64,
    /// Time of its end, in milliseconds since the epoch. `None`: it is open.
    pub closed_ms: Option<u64>,
    /// The event of the node that closes it with itself. `None`: a retest does.
    pub parent: Option<u64>,
    /// A sentence for people.
    pub text: String,
}

/// A sentence about a campaign, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The campaign.
    pub campaign: u64,
    /// Task, if the note concerns a task.
    pub task: Option<u64>,
    /// Node, if the note concerns a node.
    pub node: Option<Name>,
    /// A stable word for scripts.
    pub code: &'static str,
    /// A sentence for people.
    pub text: String,
}
