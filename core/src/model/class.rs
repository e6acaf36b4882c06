//! Resource classes: the rules for a kind of work.

use super::{GangRules, Millis, Name, PoolIx};

/// Scheduling policy of a class, with the settings that apply under it.
///
/// Design: "Scheduling Policies".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassPolicy {
    /// Preemptable; resources in proportion to weight.
    FairShare {
        /// Proportion relative to other classes of the same priority. At least 1.
        weight: u32,
    },
    /// Not preemptable; a single nshare per request (a job may have more).
    FixedShare,
    /// Not preemptable; a single whole node per request.
    Reserve,
}

impl ClassPolicy {
    /// True if shares under this policy may be preempted for fairness.
    pub fn is_preemptable(&self) -> bool {
        matches!(self, ClassPolicy::FairShare { .. })
    }

    /// Weight of a fair-share class; 1 under other policies, which ignore it.
    pub fn weight(&self) -> u32 {
        match self {
            ClassPolicy::FairShare { weight } => *weight,
            ClassPolicy::FixedShare | ClassPolicy::Reserve => 1,
        }
    }
}

/// Order in which work is served: the first goes first, and may preempt what comes later.
///
/// Design: requests and time, section 3.6: fair-share work gives way to work that names the
/// reservation, at all priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// Work that stays, in its advance reservation.
    Reserved,
    /// All other work: the priority of its class. Zero is the highest.
    Priority(u32),
}

/// Limits on the growth of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapRules {
    /// Maximum number of processes before the job's first process has initialized. Zero means no
    /// limit.
    pub initialization_cap: u64,
    /// True if a job may at most double its processes in a cycle.
    pub expand_by_doubling: bool,
    /// True if expansion stops when new processes would come too late to help.
    pub prediction: bool,
    /// Time past initialization that prediction looks ahead.
    pub prediction_fudge: Millis,
    /// Maximum loss of work, in thread time, for a further process of a job that has some already.
    /// The limit applies to preemption while nothing in the cluster is about to change. Before
    /// that, the job's waiting time limits the loss.
    pub loss_limit: Millis,
}

impl CapRules {
    /// Default loss limit: 2,000 s of thread time, half an hour of a process with one thread.
    pub const LOSS_LIMIT: Millis = 2_000_000;
}

/// A resource class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceClass {
    /// Name of the class; unique.
    pub name: Name,
    /// Scheduling policy.
    pub policy: ClassPolicy,
    /// Priority of the class; a lower number is a higher priority.
    pub priority: u32,
    /// Nodepool of the class. Fair-share jobs may spill into subpools, other jobs may not.
    pub pool: PoolIx,
    /// Growth limits of the class's jobs.
    pub cap_rules: CapRules,
    /// Rules for requests of several processes at once.
    pub gangs: GangRules,
    /// Users who may use the class; `None` admits all users.
    pub users: Option<Vec<String>>,
    /// True if jobs that name no class, and fit this policy, go here.
    pub is_default: bool,
    /// True if jobs of the class are urgent: each is accepted or refused at once, and takes the space
    /// that it needs from work that can be preempted.
    pub is_urgent: bool,
}

impl ResourceClass {
    /// True if `user` may submit jobs to this class.
    pub fn admits(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.iter().any(|allowed| allowed == user))
    }
}
