//! Explanations of what a job has: a sentence, the arithmetic, and every node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Account, GangSavings, HeldBack, JobSums, Policy, PreemptionInfo, Reason, StartBasis};

/// Depth of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyDepth {
    /// The sentence, and what would unblock it.
    Sentence,
    /// The arithmetic too, and counts of nodes by obstacle.
    #[default]
    Reasons,
    /// Every node too, with the obstacle to another process there.
    Nodes,
}

/// An explanation, as deep as was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum WhyAnswer {
    /// With its arithmetic.
    Whole(Box<Why>),
    /// In a sentence.
    Brief(WhyBrief),
}

/// Explanation of what a job has, in a sentence.
// Unknown fields are denied: without that, a whole explanation would also parse as this type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhyBrief {
    /// Number of the job.
    pub job: u64,
    /// The cycle this is from.
    pub cycle: u64,
    /// Answer in a sentence.
    pub sentence: String,
    /// Reason why the job has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Condition for more processes, or for the return of processes on silent nodes. Absent: the
    /// job has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblock: Option<Unblock>,
}

/// Explanation of what a job has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// Number of the job.
    pub job: u64,
    /// The cycle this is from.
    pub cycle: u64,
    /// Answer in a sentence.
    pub sentence: String,
    /// Chunks, sizes and duration that the job asks for, in words. Absent: it asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Reason why the job has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Condition for more processes, or for the return of processes on silent nodes. Absent: the
    /// job has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblock: Option<Unblock>,
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
    /// Which jobs are ahead of it, in a sentence. Absent: it does not wait for space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<String>,
    /// The arithmetic that led there.
    pub sums: WhySums,
    /// Obstacles to another process, as a count of nodes for each.
    pub nodes: NodeTally,
    /// The same with the nodes' names, by name. Absent: not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<Vec<NodeVerdict>>,
    /// Jobs with the most on the nodes that this job may use and fits on, largest first; at most 5.
    /// Empty if the job has all it wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// Shares that the last cycle preempted for this job.
    pub taken_for_it: Vec<PreemptionInfo>,
    /// Shares that the last cycle preempted from this job.
    pub taken_from_it: Vec<PreemptionInfo>,
}

/// Condition under which a job gets more than it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unblock {
    /// Description of the condition in a sentence.
    pub sentence: String,
    /// True if the condition does not come by itself: the job, the nodes or the configuration must
    /// change.
    pub needs_a_change: bool,
    /// Expected time, if the present speed of the work allows an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// Expected time of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// From the cycle on that this is from, in milliseconds.
    pub in_ms: u64,
    /// Basis of the estimate.
    pub basis: String,
}

/// A job's arithmetic, from its class down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhySums {
    /// The class's name.
    pub class: String,
    /// Policy by which the class's jobs are scheduled. Absent: no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The class's priority; the lowest is considered first. Absent: no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Weight of the class among fair-share classes of its priority. All users of a class have the
    /// same weight, and so do all jobs of a user. Absent: not a fair-share job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Memory of a qshare of this job. Absent: the job is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum_mb: Option<u64>,
    /// Size of a process in qshares. Absent: the job is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The class's account. Absent: no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_account: Option<Account>,
    /// The user's name.
    pub user: String,
    /// Account of the user in this class. Absent: not a fair-share job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_account: Option<Account>,
    /// Account of the job, its shares by their actual size. Absent: the job is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_account: Option<Account>,
    /// Savings of the user for gangs in this class. Absent: the job is no gang of fair-share work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savings: Option<GangSavings>,
    /// The job's own.
    pub job: JobSums,
    /// Limit that has to change before the job gets more.
    pub bound: Bound,
}

/// A limit of what a job has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bound {
    /// Kind of limit.
    pub by: BoundBy,
    /// With its numbers.
    pub sentence: String,
}

/// The kinds of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// No limit: the job has what it wants.
    Nothing,
    /// The job is not considered at all.
    Refused,
    /// The nodes there are.
    Nodes,
    /// The user's allotment of memory that cannot be preempted.
    Allotment,
    /// The rule that paces its growth.
    Cap,
    /// Jobs of higher priority, or jobs that cannot be preempted.
    Priority,
    /// Target of the job's class.
    ClassShare,
    /// Target of the job's user in its class.
    UserShare,
    /// Target of the job beside its user's other jobs.
    JobShare,
    /// Limit of the loss that it may cause other jobs.
    Price,
    /// Free space in a single piece, though the job's target is above what it has.
    Room,
    /// A window, its declared length, or its earliest start.
    Time,
}

/// Nodes by their relation to a job. Each node counts once, under the first that applies, in this
/// order; the sum is the total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeTally {
    /// All nodes.
    pub total: u64,
    /// In a pool this class may not use.
    pub other_pool: u64,
    /// Excepted by the job's owner.
    #[serde(default)]
    pub excepted: u64,
    /// Not among the nodes that this job asks for, or not in the advance reservation that it names.
    pub not_asked_for: u64,
    /// No heartbeat since the daemon started.
    pub awaited: u64,
    /// Lacks tags that the job, or each chunk of it, asks for.
    #[serde(default)]
    pub lacks_tags: u64,
    /// Smaller than a process of the job; for a reservation, not of the size it asks for.
    pub too_small: u64,
    /// In a placement set that could never hold the gang.
    #[serde(default)]
    pub other_set: u64,
    /// Dead: heartbeats stopped.
    pub dead: u64,
    /// Taken out by an administrator.
    pub varied_off: u64,
    /// Wants no new processes.
    pub quiesced: u64,
    /// Holds shares that configuration no longer allows.
    pub blacklisted: u64,
    /// In maintenance, or soon.
    #[serde(default)]
    pub maintenance: u64,
    /// Kept by a window, an advance reservation or maintenance, in which the job would still run.
    #[serde(default)]
    pub window: u64,
    /// Space is being made on it for this job, and is promised to it.
    pub being_cleared: u64,
    /// Too little free space.
    pub full: u64,
    /// Has free space, which an older gang that waits keeps from work that stays.
    #[serde(default)]
    pub kept_for_gang: u64,
    /// Has free space, which is promised to other jobs.
    pub promised: u64,
    /// Has free space for at least a single process.
    pub has_room: u64,
}

/// Relation of a node to a job: the first that applies, in this order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "NodeTally says it")]
pub enum Verdict {
    OtherPool,
    Excepted,
    NotAskedFor,
    Awaited,
    LacksTags,
    TooSmall,
    OtherSet,
    Dead,
    VariedOff,
    Quiesced,
    Blacklisted,
    Maintenance,
    Window,
    BeingCleared,
    Full,
    KeptForGang,
    Promised,
    HasRoom,
}

/// Obstacle to another process of a job on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVerdict {
    /// The node's name.
    pub node: String,
    /// Kind of obstacle.
    pub verdict: Verdict,
    /// The same with its numbers, for people.
    pub sentence: String,
    /// Free qshares of the node.
    pub free: u64,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
}

/// A job that holds space which another job could use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// Number of the job.
    pub job: u64,
    /// Name of the job's user.
    pub user: String,
    /// In which class.
    pub class: String,
    /// Number of its processes there.
    pub processes: u64,
    /// Qshares that its processes take there; terminating ones are included.
    pub qshares: u64,
    /// Time until the job is done at its present speed, in milliseconds. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_in_ms: Option<u64>,
}

impl NodeTally {
    /// The count that a node with this verdict is in.
    pub fn count_of(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::OtherPool => &mut self.other_pool,
            Verdict::Excepted => &mut self.excepted,
            Verdict::NotAskedFor => &mut self.not_asked_for,
            Verdict::Awaited => &mut self.awaited,
            Verdict::LacksTags => &mut self.lacks_tags,
            Verdict::TooSmall => &mut self.too_small,
            Verdict::OtherSet => &mut self.other_set,
            Verdict::Dead => &mut self.dead,
            Verdict::VariedOff => &mut self.varied_off,
            Verdict::Quiesced => &mut self.quiesced,
            Verdict::Blacklisted => &mut self.blacklisted,
            Verdict::Maintenance => &mut self.maintenance,
            Verdict::Window => &mut self.window,
            Verdict::BeingCleared => &mut self.being_cleared,
            Verdict::Full => &mut self.full,
            Verdict::KeptForGang => &mut self.kept_for_gang,
            Verdict::Promised => &mut self.promised,
            Verdict::HasRoom => &mut self.has_room,
        }
    }
}
