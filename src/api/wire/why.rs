//! Why work has what it has: a sentence, the arithmetic, and every node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Account, HeldBack, JobSums, Policy, PreemptionInfo, Reason};

/// How deep an explanation goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyDepth {
    /// The sentence, and what would unblock it.
    Sentence,
    /// The arithmetic too, and for how many nodes what is true.
    #[default]
    Reasons,
    /// Every node too, with what keeps it from taking one more process.
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

/// Why a request for work has what it has, in a sentence.
// Nothing else, or the whole explanation would be one of these too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhyBrief {
    /// Which work.
    pub job: u64,
    /// The cycle this is from.
    pub cycle: u64,
    /// The answer in one sentence.
    pub sentence: String,
    /// Why it has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What would give it more, or what it holds on silent nodes back. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblock: Option<Unblock>,
}

/// Why a request for work has what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// Which work.
    pub job: u64,
    /// The cycle this is from.
    pub cycle: u64,
    /// The answer in one sentence.
    pub sentence: String,
    /// Why it has less than it wants. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What would give it more, or what it holds on silent nodes back. Absent: it has all it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblock: Option<Unblock>,
    /// Why it takes no room from others that it has a right to. Absent: there is none, or it took
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBack>,
    /// The arithmetic that led there.
    pub sums: WhySums,
    /// What stands in the way, node by node, in counts.
    pub nodes: NodeTally,
    /// The same with the nodes' names, by name. Absent: not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<Vec<NodeVerdict>>,
    /// Who has the most on the nodes that are large enough for it and that it may use, the most
    /// first; at most 5. None where it has all it wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// What the last cycle took from others for it.
    pub taken_for_it: Vec<PreemptionInfo>,
    /// What the last cycle took from it for others.
    pub taken_from_it: Vec<PreemptionInfo>,
}

/// What would give work more than it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unblock {
    /// What has to happen first, in a sentence.
    pub sentence: String,
    /// Whether that does not happen by itself: somebody has to change the work, the nodes or the
    /// configuration.
    pub needs_a_change: bool,
    /// When it will be so, where that can be told from how fast work goes now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// When something is to be expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// From the cycle on that this is from, in milliseconds.
    pub in_ms: u64,
    /// What it is told from.
    pub basis: String,
}

/// A job's arithmetic, from its class down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhySums {
    /// The class's name.
    pub class: String,
    /// How the class's work is scheduled. Absent: no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The class's priority; the lowest is considered first. Absent: no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// The class's weight among fair-share classes of its priority. Users of a class weigh the same,
    /// and so do jobs of a user. Absent: not fair-share work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// One qshare of this work. Absent: it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum_mb: Option<u64>,
    /// One process in qshares. Absent: it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The class's account. Absent: no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_account: Option<Account>,
    /// The user's name.
    pub user: String,
    /// The user's account in this class. Absent: not fair-share work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_account: Option<Account>,
    /// The job's own.
    pub job: JobSums,
    /// What it comes down to: the one bound that has to give before it gets more.
    pub bound: Bound,
}

/// What holds work where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bound {
    /// Which kind of bound.
    pub by: BoundBy,
    /// With its numbers.
    pub sentence: String,
}

/// The kinds of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// Nothing: it has what it wants.
    Nothing,
    /// It is not considered at all.
    Refused,
    /// The nodes there are.
    Nodes,
    /// The user's allotment of memory that cannot be preempted.
    Allotment,
    /// The rule that paces its growth.
    Cap,
    /// Better priorities, or work that cannot be preempted.
    Priority,
    /// What its class is counted.
    ClassShare,
    /// What its user is counted in its class.
    UserShare,
    /// What it is counted beside its user's other jobs.
    JobShare,
    /// What it may cost others.
    Price,
    /// Room in one piece, though it is counted more than it has.
    Room,
}

/// For how many nodes what is true. Each node counts once, under the first that applies, in this
/// order; together they are all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeTally {
    /// All nodes.
    pub total: u64,
    /// In a pool this class may not use.
    pub other_pool: u64,
    /// Not among the nodes that this work asks for.
    pub not_asked_for: u64,
    /// Not heard of since the daemon started.
    pub awaited: u64,
    /// Smaller than one process of it; for a reservation, not of the size it asks for.
    pub too_small: u64,
    /// Silent.
    pub dead: u64,
    /// Taken out by an administrator.
    pub varied_off: u64,
    /// Wants no new work.
    pub quiesced: u64,
    /// Holds shares that configuration no longer allows.
    pub blacklisted: u64,
    /// Room is being made on it for this work, and is kept for it.
    pub being_cleared: u64,
    /// Too little room left.
    pub full: u64,
    /// Has room, which is kept for others.
    pub promised: u64,
    /// Has room for one process or more.
    pub has_room: u64,
}

/// What holds of a node for some work: the first that applies, in this order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "NodeTally says it")]
pub enum Verdict {
    OtherPool,
    NotAskedFor,
    Awaited,
    TooSmall,
    Dead,
    VariedOff,
    Quiesced,
    Blacklisted,
    BeingCleared,
    Full,
    Promised,
    HasRoom,
}

/// What keeps a node from taking one more process of some work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVerdict {
    /// The node's name.
    pub node: String,
    /// What it is.
    pub verdict: Verdict,
    /// The same with its numbers, for people.
    pub sentence: String,
    /// Qshares of it that nobody has.
    pub free: u64,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
}

/// Work that has what other work could use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// Which work.
    pub job: u64,
    /// Whose it is.
    pub user: String,
    /// In which class.
    pub class: String,
    /// How many processes of it are there.
    pub processes: u64,
    /// What they take, in qshares; what is leaving included.
    pub qshares: u64,
    /// When its work will be done at the rate it has now. Absent: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_in_ms: Option<u64>,
}

impl NodeTally {
    /// The count that a node with this verdict is in.
    pub fn count_of(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::OtherPool => &mut self.other_pool,
            Verdict::NotAskedFor => &mut self.not_asked_for,
            Verdict::Awaited => &mut self.awaited,
            Verdict::TooSmall => &mut self.too_small,
            Verdict::Dead => &mut self.dead,
            Verdict::VariedOff => &mut self.varied_off,
            Verdict::Quiesced => &mut self.quiesced,
            Verdict::Blacklisted => &mut self.blacklisted,
            Verdict::BeingCleared => &mut self.being_cleared,
            Verdict::Full => &mut self.full,
            Verdict::Promised => &mut self.promised,
            Verdict::HasRoom => &mut self.has_room,
        }
    }
}
