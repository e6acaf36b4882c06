//! Campaigns and tasks, as clients of the orchestrator see them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::exchange::TaskResult;

/// The answer to a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The number of the campaign.
    pub id: u64,
    /// How many tasks it has.
    pub tasks: u64,
}

/// Tasks that were added to a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedTasks {
    /// The number of the campaign.
    pub id: u64,
    /// The number of the first task that was added.
    pub first: u64,
    /// How many were added.
    pub added: u64,
    /// How many tasks the campaign has now.
    pub tasks: u64,
}

/// A campaign in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignSummary {
    /// Its number.
    pub id: u64,
    /// Its name; it may be empty.
    pub name: String,
    /// Its owner.
    pub user: String,
    /// Its state: `running`, `suspended`, `finishing`, `cancelling`, `done`, `failed`, `cancelled`.
    pub state: String,
    /// Whether it gets no more slots, as too many could not be prepared.
    pub frozen: bool,
    /// When it was submitted, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// How many tasks it has.
    pub tasks: u64,
    /// Tasks that wait for a slot.
    pub queued: u64,
    /// Tasks that a slot has, begun or not.
    pub running: u64,
    /// Tasks done.
    pub done: u64,
    /// Tasks failed.
    pub failed: u64,
    /// Tasks cancelled.
    pub cancelled: u64,
    /// Tasks dropped.
    pub dropped: u64,
    /// The mean time of a task, in milliseconds; 0 while none has ended.
    pub mean_ms: u64,
    /// The most memory that a task used, in MiB.
    pub rss_mb: u64,
    /// When its tasks were folded, so that only counts are left, in milliseconds since the epoch. Absent: they
    /// are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded_ms: Option<u64>,
}

/// Campaigns, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignPage {
    /// The campaigns.
    pub campaigns: Vec<CampaignSummary>,
}

/// A campaign in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignDetail {
    /// What the line says.
    pub campaign: CampaignSummary,
    /// Memory of its slots, in MiB.
    pub memory_mb: u64,
    /// Whether tasks of a silent node begin again before its lease ran out, so that they may run twice.
    #[serde(default)]
    pub may_run_twice: bool,
    /// What slots do that are unheard for longer than their lease: `stop`, or `finish` what they have.
    #[serde(default)]
    pub on_unheard: String,
    /// The numbers of its work, as the resource manager knows them.
    pub works: Vec<u64>,
    /// What people should know, the latest at the end.
    pub notes: Vec<NoteLine>,
}

/// A note on a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoteLine {
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The task, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// The node, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub text: String,
}

/// Another state for a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateChange {
    /// The state.
    pub state: WantedState,
    /// With `suspended`: whether running tasks are stopped, and do not end by themselves.
    #[serde(default)]
    pub now: bool,
}

/// A state that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WantedState {
    /// No task begins.
    Suspended,
    /// Tasks begin again.
    Running,
    /// It ends.
    Cancelled,
}

/// Which tasks are queued again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resubmit {
    /// Those that failed.
    #[serde(default)]
    pub failed: bool,
    /// Those that were cancelled.
    #[serde(default)]
    pub cancelled: bool,
    /// This one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// Another size of memory for them, such as `6GB`. Not with `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// How many tasks are queued again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resubmitted {
    /// How many.
    pub tasks: u64,
}

/// A signal for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Its name or number, such as `USR1`.
    pub signal: String,
}

/// A node that an operator says is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LostNode {
    /// Its name.
    pub node: String,
    /// Why, for the record.
    pub reason: String,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskInfo {
    /// The number of its campaign.
    pub campaign: u64,
    /// Its number.
    pub task: u64,
    /// Its state: `queued`, `assigned`, `running`, `done`, `failed`, `cancelled`, `dropped`.
    pub state: String,
    /// The number of its last attempt; 0: none.
    pub attempt: u64,
    /// Attempts that failed.
    pub tries: u64,
    /// Attempts that were lost.
    pub losses: u64,
    /// Whether it may run twice, where its node is silent: the first result counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_run_twice: bool,
    /// Why its last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its parameter, for its owner and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// What helps, a sentence each, if it failed as it was over its memory; for its owner and operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Its attempts, in the answer about one task only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptInfo>,
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptInfo {
    /// Its number.
    pub attempt: u64,
    /// The slot.
    pub share: u64,
    /// The node.
    pub node: String,
    /// When it was assigned, in milliseconds since the epoch.
    pub assigned_ms: u64,
    /// When its end was recorded, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// How it ended. Its texts are for its owner and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
}

/// Some tasks of a campaign that were touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskList {
    /// The tasks, by number.
    pub tasks: Vec<TaskInfo>,
}
