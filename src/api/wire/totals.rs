//! Sums over the cluster: classes, users, load, status.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::model::{memory_text, memory_time};

/// Demand, fair share, target and holdings of a class or user, in qshares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Demand: the amount that its jobs could use now.
    pub wanted: u64,
    /// Fair share: the amount it would have if all users and classes could use their parts.
    pub deserved: u64,
    /// Target: the amount that the cycle wants it to have.
    pub given: u64,
    /// Amount that its jobs hold, without terminating shares.
    pub held: u64,
}

impl Account {
    /// Returns the fair share as pages show it: bounded by what it could use now, in qshares.
    pub fn fair_share(&self) -> u64 {
        self.deserved.min(self.wanted)
    }
}

/// Policy by which a class's jobs are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Preemptable; resources in proportion to weight.
    FairShare,
    /// Not preemptable; a single share for each request (a job may have more).
    FixedShare,
    /// Not preemptable; a whole node for each request.
    Reserve,
}

impl Policy {
    /// Returns the policy as the configuration spells it.
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
    /// Name of the class.
    pub name: String,
    /// Policy by which the class's jobs are scheduled.
    pub policy: Policy,
    /// Weight among fair-share classes of the same priority. Absent for other policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The lowest number is considered first.
    pub priority: u32,
    /// Nodepool of the class.
    pub pool: String,
    /// Memory of a qshare in this pool.
    pub quantum_mb: u64,
    /// True if jobs that name no class go here.
    pub is_default: bool,
    /// Users that may use the class. Absent: all users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<String>>,
    /// Hours in which the class is open, with their time zone: "mon-fri 20:00-06:00, sat-sun
    /// (Europe/Vienna)". Absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// True if the class is open now.
    #[serde(default = "is_open")]
    pub is_open: bool,
    /// Moment at which it opens or closes next, in milliseconds since the epoch. Absent: not within
    /// the next days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_change_ms: Option<u64>,
    /// Number of jobs.
    pub jobs: u64,
    /// Account of the class in the last cycle.
    pub account: Account,
}

/// Daemons without hours of classes have classes that are always open.
fn is_open() -> bool {
    true
}

/// All classes, in order of configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassList {
    /// The cycle this is from.
    pub cycle: u64,
    /// The classes.
    pub classes: Vec<ClassInfo>,
}

/// A user with jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserInfo {
    /// The user's name.
    pub user: String,
    /// Number of the user's jobs.
    pub jobs: u64,
    /// Number of the user's jobs that hold no share.
    pub jobs_without_shares: u64,
    /// Shares held.
    pub shares: u64,
    /// Memory held.
    pub memory_mb: u64,
    /// Memory held that cannot be preempted.
    pub fixed_memory_mb: u64,
    /// Limit of the user's non-preemptable memory. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allotment_mb: Option<u64>,
    /// The user's accounts in fair-share classes.
    pub classes: Vec<UserClass>,
}

/// A user's account in a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserClass {
    /// The class.
    pub class: String,
    /// The account.
    pub account: Account,
    /// Savings for the user's gangs. Absent: the user has none in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savings: Option<GangSavings>,
}

/// Savings of a user for gangs in a class. A gang that needs more than its fair share starts once they
/// cover what it needs beyond the fair share, for as long as it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GangSavings {
    /// Saved so far, in MiB times seconds. Below 0: a turn cost more than was there.
    pub saved_mb_s: i64,
    /// Memory whose time is saved up: the fair shares of all the user's gangs in the class.
    pub earns_mb: u64,
    /// The most that can be saved, in MiB times seconds.
    pub most_mb_s: i64,
    /// Amount that the gang has to have saved, in MiB times seconds. Absent: it does not save up, or it
    /// never has enough, as the length of its run is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_mb_s: Option<i64>,
    /// Time until that is saved, in milliseconds. Absent: as above, or the user earns nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_ms: Option<u64>,
}

impl GangSavings {
    /// The savings in words: "1.5 GB-hours of 2.7 GB-hours; 4 GB of fair share is saved up".
    pub fn words(&self) -> String {
        let needed = self.needed_mb_s.map(|needed| format!(" of {}", memory_time(needed)));
        let saved = memory_time(self.saved_mb_s);
        let earns = memory_text(self.earns_mb);
        format!("{saved}{}; {earns} of fair share is saved up", needed.unwrap_or_default())
    }
}

/// All users with jobs, by name.
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
    /// Classes, an entry for each, in order of configuration.
    pub classes: Vec<ClassLoad>,
    /// Nodepools, an entry for each, a parent before the pools inside it.
    #[serde(default)]
    pub pools: Vec<PoolLoad>,
    /// Processes that jobs could use now and do not have, by pool and size; for planning of new
    /// nodes.
    #[serde(default)]
    pub unmet: Vec<Unmet>,
}

/// A nodepool's space. Nodes of an inner pool count there and not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolLoad {
    /// Name of the pool.
    pub pool: String,
    /// The pool that it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Memory of a qshare in this pool.
    pub quantum_mb: u64,
    /// Nodes of the pool by state; a node in several states counts in each.
    pub nodes: NodeCounts,
    /// Qshares of the nodes that get shares.
    pub qshares: u64,
    /// Qshares taken on them.
    pub used: u64,
    /// Qshares free on them.
    pub free: u64,
    /// The same by size, in qshares, smallest first.
    pub sizes: Vec<SizeLoad>,
}

/// Nodes and free spaces of a size in a nodepool. The free rest of a partly used node counts under
/// the size of that rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SizeLoad {
    /// The size, in qshares.
    pub order: u64,
    /// Number of nodes of this size in any state.
    pub nodes: u64,
    /// Number of these nodes that get shares.
    pub up: u64,
    /// Number of these nodes that get shares and have none.
    pub whole: u64,
    /// Nodes of a larger size that get shares and have just this much left.
    pub partial: u64,
}

/// Processes that jobs could use now and do not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unmet {
    /// The pool that their class uses.
    pub pool: String,
    /// Size of a process, in qshares.
    pub order: u64,
    /// The same in memory.
    pub memory_mb: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of jobs that lack these processes.
    pub jobs: u64,
    /// True if a node of the pool is large enough for such a process.
    pub feasible: bool,
}

/// A class's load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassLoad {
    /// The class.
    pub class: String,
    /// Policy by which the class's jobs are scheduled.
    pub policy: Policy,
    /// Number of jobs.
    pub jobs: u64,
    /// Memory of a qshare in the class's pool.
    pub quantum_mb: u64,
    /// Account of the class.
    pub account: Account,
    /// Users of the class, by name; fair-share classes only.
    pub users: Vec<UserLoad>,
}

/// A user's load in a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserLoad {
    /// The user.
    pub user: String,
    /// The account.
    pub account: Account,
}

/// State of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// True once a cycle has been committed since the start.
    pub ready: bool,
    /// The last committed cycle.
    pub cycle: u64,
    /// The last publication taken in. Absent: none since the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<u64>,
    /// Nodes.
    pub nodes: NodeCounts,
    /// Jobs.
    pub jobs: JobCounts,
    /// Shares.
    pub shares: ShareCounts,
    /// Numbers of cycles without a change.
    pub calm: Calm,
    /// Nodes that fell silent together, in such number that a fault on the daemon's side is more
    /// likely. They get no shares, and their shares are not given up. Should be empty.
    pub silent_together: Vec<String>,
    /// Processes that the last publication left out. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<AbsentWork>,
    /// Number of jobs that the safety net, `quiet_stop`, held back in the last cycle. Should be 0.
    pub net_strikes: u64,
    /// Durations of cycles since the daemon started.
    pub cycle_times: CycleTimes,
    /// The number of the last event of the feed.
    pub last_event: u64,
    /// Time that the last cycle took to plan, in microseconds.
    pub planned_in_us: u64,
    /// Time that the last cycle took to store, in microseconds.
    pub stored_in_us: u64,
    /// Rules that the last cycle broke, as the audit sees it. Should be empty.
    pub audit_findings: Vec<String>,
    /// Number of times that a cycle broke a rule since the daemon started. Should be 0.
    pub audit_findings_total: u64,
}

/// Durations of planned cycles, in microseconds; all 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CycleTimes {
    /// Number of planned cycles.
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

/// Numbers of cycles without a change; both 0 before the first. The higher they are, the fewer
/// processes are preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Calm {
    /// Cycles since demand or supply changed. Demand: a job came, went, got more items, first ran,
    /// showed its time per item, or changed its usable number of processes. Supply: a process
    /// ended; a node came, went or changed size.
    pub quiet_cycles: u64,
    /// Cycles since there was news of any job, progress included. From 2 on the cluster is idle.
    pub rest_cycles: u64,
}

/// Nodes by state; a node in several states counts in each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounts {
    /// All.
    pub total: u64,
    /// Nodes that get shares.
    pub up: u64,
    /// No heartbeat since the daemon started.
    pub awaited: u64,
    /// Dead: heartbeats stopped.
    pub dead: u64,
    /// Taken out by an administrator.
    pub varied_off: u64,
    /// Nodes that want no new processes.
    pub quiesced: u64,
    /// Holding shares that configuration no longer allows.
    pub blacklisted: u64,
}

/// Jobs by their holdings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCounts {
    /// All.
    pub total: u64,
    /// Wanting more than they have.
    pub waiting: u64,
    /// Not considered.
    pub refused: u64,
}

/// Shares by state, and the space for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareCounts {
    /// In use.
    pub held: u64,
    /// On their way out.
    pub leaving: u64,
    /// Memory in shares on nodes that get shares; terminating shares are included.
    pub used_mb: u64,
    /// Memory in shares on nodes that get none now: it stays there until its processes have left.
    pub outside_mb: u64,
    /// Memory of all nodes that get shares, in whole quanta.
    pub schedulable_mb: u64,
}

/// Processes that the last publication left out without an exit. They keep their space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbsentWork {
    /// Jobs that they belong to.
    pub jobs: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of these processes that vanished together with too many more: time alone does not end
    /// them.
    pub held: u64,
}
