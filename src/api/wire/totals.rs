//! Sums over the cluster: classes, users, load, status.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a class or user wants, deserves, was counted and holds, in qshares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// What its jobs could use now.
    pub wanted: u64,
    /// What it would have if everybody could use their part.
    pub deserved: u64,
    /// What was counted for it.
    pub given: u64,
    /// What it holds, without what is leaving.
    pub held: u64,
}

/// How a class's work is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Preemptable; resources in proportion to weight.
    FairShare,
    /// Not preemptable; one share a request (a job may have more).
    FixedShare,
    /// Not preemptable; one whole machine a request.
    Reserve,
}

impl Policy {
    /// As the configuration spells it.
    pub fn word(self) -> &'static str {
        match self {
            Policy::FairShare => "fair-share",
            Policy::FixedShare => "fixed-share",
            Policy::Reserve => "reserve",
        }
    }
}

/// A resource class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassInfo {
    /// Its name.
    pub name: String,
    /// How its work is scheduled.
    pub policy: Policy,
    /// Its proportion among fair-share classes of the same priority. Absent for other policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The lowest number is considered first.
    pub priority: u32,
    /// The nodepool its work goes to.
    pub pool: String,
    /// One qshare there.
    pub quantum_mb: u64,
    /// Whether work that names no class goes here.
    pub is_default: bool,
    /// Who may use it. Absent: everyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<String>>,
    /// How many requests for work it has.
    pub jobs: u64,
    /// Its account in the last cycle.
    pub account: Account,
}

/// All classes, in order of configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassList {
    /// The cycle this is from.
    pub cycle: u64,
    /// The classes.
    pub classes: Vec<ClassInfo>,
}

/// A user with work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserInfo {
    /// The user's name.
    pub user: String,
    /// How many requests for work the user has.
    pub jobs: u64,
    /// How many of them hold nothing.
    pub jobs_without_shares: u64,
    /// Shares held.
    pub shares: u64,
    /// Memory held.
    pub memory_mb: u64,
    /// Memory held that cannot be preempted.
    pub fixed_memory_mb: u64,
    /// What the user may hold of non-preemptable memory. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allotment_mb: Option<u64>,
    /// The user's accounts in fair-share classes.
    pub classes: Vec<UserClass>,
}

/// A user's account in one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserClass {
    /// The class.
    pub class: String,
    /// The account.
    pub account: Account,
}

/// All users with work, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    /// The cycle this is from.
    pub cycle: u64,
    /// The users.
    pub users: Vec<UserInfo>,
}

/// Demand against what is held, by class and user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// The cycle this is from.
    pub cycle: u64,
    /// One entry a class, in order of configuration.
    pub classes: Vec<ClassLoad>,
    /// One entry a nodepool, parents before what is in them.
    #[serde(default)]
    pub pools: Vec<PoolLoad>,
    /// What work could use now and has not got, by pool and size; for whoever can add nodes.
    #[serde(default)]
    pub unmet: Vec<Unmet>,
}

/// A nodepool's room. What lies in it counts there and not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolLoad {
    /// Its name.
    pub pool: String,
    /// The pool that it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// One qshare here.
    pub quantum_mb: u64,
    /// Its nodes by state; one that is in several counts in each.
    pub nodes: NodeCounts,
    /// Qshares of the nodes that get work.
    pub qshares: u64,
    /// Qshares taken on them.
    pub used: u64,
    /// Qshares free on them.
    pub free: u64,
    /// The same by size, in qshares, smallest first.
    pub sizes: Vec<SizeLoad>,
}

/// A nodepool's nodes and holes of one size. What is left of a node that has work is a hole of its
/// own size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SizeLoad {
    /// The size, in qshares.
    pub order: u64,
    /// Nodes of this size, whatever their state.
    pub nodes: u64,
    /// Those that get work.
    pub up: u64,
    /// Those that get work and have none.
    pub whole: u64,
    /// Nodes of a larger size that get work and have just this much left.
    pub partial: u64,
}

/// Processes that work could use now and has not got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unmet {
    /// The pool that their class uses.
    pub pool: String,
    /// The size of one, in qshares.
    pub order: u64,
    /// The same in memory.
    pub memory_mb: u64,
    /// How many.
    pub processes: u64,
    /// Of how many requests for work.
    pub jobs: u64,
    /// Whether a node of the pool is large enough for one at all.
    pub feasible: bool,
}

/// One class's load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassLoad {
    /// The class.
    pub class: String,
    /// How its work is scheduled.
    pub policy: Policy,
    /// How many requests for work it has.
    pub jobs: u64,
    /// One qshare there.
    pub quantum_mb: u64,
    /// Its account.
    pub account: Account,
    /// Its users, by name; fair-share classes only.
    pub users: Vec<UserLoad>,
}

/// One user's load in one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserLoad {
    /// The user.
    pub user: String,
    /// The account.
    pub account: Account,
}

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// Whether a cycle has been committed since it started.
    pub ready: bool,
    /// The last committed cycle.
    pub cycle: u64,
    /// The last publication taken in. Absent: none since the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u64>,
    /// Nodes.
    pub nodes: NodeCounts,
    /// Work.
    pub jobs: JobCounts,
    /// Shares.
    pub shares: ShareCounts,
    /// For how long nothing has changed.
    pub calm: Calm,
    /// Nodes that fell silent together, so many that the fault is more likely ours: they get no work,
    /// and none of theirs is given up. Should be empty.
    pub silent_together: Vec<String>,
    /// What the last publication left out. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<AbsentWork>,
    /// How many requests for work the safety net, `quiet_stop`, held back in the last cycle. Should
    /// be 0.
    pub net_strikes: u64,
    /// What cycles have taken since the daemon started.
    pub cycle_times: CycleTimes,
    /// The number of the last event of the feed.
    pub last_event: u64,
    /// How long the last cycle took to plan, in microseconds.
    pub planned_in_us: u64,
    /// How long it took to store, in microseconds.
    pub stored_in_us: u64,
    /// Rules that the last cycle broke, as the audit sees it. Should be empty.
    pub audit_findings: Vec<String>,
    /// How often cycles broke a rule since the daemon started. Should be 0.
    pub audit_findings_total: u64,
}

/// What planned cycles have taken, in microseconds; all 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CycleTimes {
    /// How many there were.
    pub cycles: u64,
    /// Planning, on average.
    pub planned_mean_us: u64,
    /// Planning, the longest.
    pub planned_max_us: u64,
    /// Storing, on average.
    pub stored_mean_us: u64,
    /// Storing, the longest.
    pub stored_max_us: u64,
}

/// For how many cycles nothing has changed; both 0 before the first. The calmer, the fewer
/// processes are taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Calm {
    /// Cycles since demand or supply changed. Demand: work came, went, got more items, first got
    /// going, showed how long an item takes, or can use another number of processes. Supply:
    /// processes ended; nodes came, went or changed size.
    pub quiet_cycles: u64,
    /// Cycles since there was any news of any work, progress included. From 2 on the cluster is at
    /// rest.
    pub rest_cycles: u64,
}

/// Nodes by state; one that is in several counts in each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounts {
    /// All.
    pub total: u64,
    /// Getting work.
    pub up: u64,
    /// Not heard of since the daemon started.
    pub awaited: u64,
    /// Silent.
    pub dead: u64,
    /// Taken out by an administrator.
    pub varied_off: u64,
    /// Wanting no new work.
    pub quiesced: u64,
    /// Holding shares that configuration no longer allows.
    pub blacklisted: u64,
}

/// Work by what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCounts {
    /// All.
    pub total: u64,
    /// Wanting more than they have.
    pub waiting: u64,
    /// Not considered.
    pub refused: u64,
}

/// Shares by state, and the room there is for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareCounts {
    /// In use.
    pub held: u64,
    /// On their way out.
    pub leaving: u64,
    /// Memory in shares on nodes that get work, those that are leaving included.
    pub used_mb: u64,
    /// Memory in shares on nodes that get none now: it stays there until its processes have left.
    pub outside_mb: u64,
    /// Memory of all nodes that get work, in whole quanta.
    pub schedulable_mb: u64,
}

/// Processes that the last publication left out without a word. They keep their room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbsentWork {
    /// Jobs that they belong to.
    pub jobs: u64,
    /// How many.
    pub processes: u64,
    /// Those that vanished with too many others: time alone does not give them up.
    pub held: u64,
}
