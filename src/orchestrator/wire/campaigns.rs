//! Campaigns and tasks, as clients of the orchestrator see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admission::AdmissionRecord;
use super::exchange::TaskResult;
use super::gang::GangInfo;

/// The answer to a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The number of the campaign.
    pub id: u64,
    /// Number of tasks.
    pub tasks: u64,
}

/// Tasks that were added to a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedTasks {
    /// The number of the campaign.
    pub id: u64,
    /// The number of the first task that was added.
    pub first: u64,
    /// Number of added tasks.
    pub added: u64,
    /// Number of tasks of the campaign, including the added tasks.
    pub tasks: u64,
}

/// A campaign in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignSummary {
    /// Number of the campaign.
    pub id: u64,
    /// Name of the campaign; may be empty.
    pub name: String,
    /// Owner of the campaign.
    pub user: String,
    /// State of the campaign: `waiting`, `running`, `suspended`, `finishing`, `cancelling`, `done`, `failed`,
    /// `cancelled`.
    pub state: String,
    /// True if the campaign gets no further slots, as too many slots could not be prepared.
    pub frozen: bool,
    /// Time of the submission, in milliseconds since the epoch.
    pub submitted_ms: u64,
    /// Number of tasks.
    pub tasks: u64,
    /// Tasks that wait for a slot.
    pub queued: u64,
    /// Tasks that a slot or another cluster has, begun or not.
    pub running: u64,
    /// Those that other clusters have, by cluster. Absent: there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub away: BTreeMap<String, u64>,
    /// Tasks done.
    pub done: u64,
    /// Tasks failed.
    pub failed: u64,
    /// Tasks cancelled.
    pub cancelled: u64,
    /// Tasks dropped.
    pub dropped: u64,
    /// Mean time of a task, in milliseconds; 0 until a task ends.
    pub mean_ms: u64,
    /// The most memory that a task used, in MiB.
    pub rss_mb: u64,
    /// The campaign whose prologue or epilogue this campaign is. Absent: it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_of: Option<u64>,
    /// Time at which the tasks were folded, in milliseconds since the epoch: only counts are left.
    /// Absent: the tasks are on record.
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
    /// The campaign in a line.
    pub campaign: CampaignSummary,
    /// Memory of its slots, in MiB.
    pub memory_mb: u64,
    /// True if tasks of a silent node begin again before its lease ran out, so that they may run
    /// twice.
    #[serde(default)]
    pub may_run_twice: bool,
    /// Behaviour of slots that miss exchanges for longer than their lease: `stop`, or `finish` for
    /// their queue.
    #[serde(default)]
    pub on_unheard: String,
    /// Nodes that the campaign avoids, as its tasks went wrong there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoided: Vec<AvoidedNode>,
    /// Tasks that are done and whose results are suspicious, as their node was a sink.
    #[serde(default)]
    pub suspicious: u64,
    /// Admission rules that the campaign passed. Absent: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionRecord>,
    /// Campaigns that have to be done before a task begins, and are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u64>,
    /// The campaign that is its epilogue, without which it does not end. Absent: it has none, or the epilogue
    /// is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilogue: Option<u64>,
    /// Time at which its hours begin, in milliseconds since the epoch. Absent: tasks may begin now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_ms: Option<u64>,
    /// The gang of the campaign. Absent: its tasks are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangInfo>,
    /// Numbers of the campaign's work at the resource manager.
    pub works: Vec<u64>,
    /// Notes for people, the latest at the end.
    pub notes: Vec<NoteLine>,
}

/// A node that a campaign avoids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AvoidedNode {
    /// The node.
    pub node: String,
    /// A stable word: `sink` or `failing`.
    pub code: String,
    /// Time since which the node is avoided, in milliseconds since the epoch.
    pub since_ms: u64,
    /// A sentence.
    pub text: String,
}

/// A note on a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoteLine {
    /// Time of the note, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Task, if the note concerns a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// Node, if the note concerns a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub text: String,
}

/// A change of the state of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateChange {
    /// The state.
    pub state: WantedState,
    /// With `suspended`: true to stop running tasks, false to let them end by themselves.
    #[serde(default)]
    pub now: bool,
}

/// A state that a request can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WantedState {
    /// No task begins.
    Suspended,
    /// Tasks begin again.
    Running,
    /// The campaign ends.
    Cancelled,
}

/// Selection of tasks to queue again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resubmit {
    /// True to select failed tasks.
    #[serde(default)]
    pub failed: bool,
    /// True to select cancelled tasks.
    #[serde(default)]
    pub cancelled: bool,
    /// True to select tasks that are done and whose results are suspicious.
    #[serde(default)]
    pub suspicious: bool,
    /// Only this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// Another size of memory for the tasks, such as `6GB`. Not with `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// The answer to a resubmission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resubmitted {
    /// Number of tasks that are queued again.
    pub tasks: u64,
}

/// A signal for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Name or number of the signal, such as `USR1`.
    pub signal: String,
}

/// A node that an operator declares lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LostNode {
    /// Name of the node.
    pub node: String,
    /// Reason, for the record.
    pub reason: String,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskInfo {
    /// The number of its campaign.
    pub campaign: u64,
    /// Number of the task.
    pub task: u64,
    /// State of the task: `queued`, `assigned`, `running`, `done`, `failed`, `cancelled`,
    /// `dropped`.
    pub state: String,
    /// The number of its last attempt; 0: none.
    pub attempt: u64,
    /// Attempts that failed.
    pub tries: u64,
    /// Attempts that were lost.
    pub losses: u64,
    /// True if the task may run twice while its node is silent. The first result counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_run_twice: bool,
    /// Rank of the task in the gang of its campaign. Absent: the campaign has no gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Reason of the end of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Parameter of the task, for the owner and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// Advice in sentences, if the task failed as it was over its memory; for the owner and
    /// operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Attempts of the task, in the answer about a single task only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptInfo>,
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptInfo {
    /// Number of the attempt.
    pub attempt: u64,
    /// The slot.
    pub share: u64,
    /// The node.
    pub node: String,
    /// Time of the assignment, in milliseconds since the epoch.
    pub assigned_ms: u64,
    /// Time at which the end was recorded, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Result of the attempt. Its texts are for the owner and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
}

/// Touched tasks of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskList {
    /// The tasks, by number.
    pub tasks: Vec<TaskInfo>,
}
