//! Resource classes: the rules for a kind of work.

use super::{Millis, Name, PoolIx};

/// How a class's work is scheduled, with the settings that mean something under that policy.
///
/// Design: "Scheduling Policies".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Preemptable; resources in proportion to weight.
    FairShare {
        /// Proportion relative to other classes of the same priority. At least 1.
        weight: u32,
    },
    /// Not preemptable; one nshare a request (a job may have more).
    FixedShare,
    /// Not preemptable; one whole machine a request.
    Reserve,
}

impl Policy {
    /// Whether fairness may take this work's shares back.
    pub fn is_preemptable(&self) -> bool {
        matches!(self, Policy::FairShare { .. })
    }

    /// The weight of a fair-share class; 1 for the others, where it means nothing.
    pub fn weight(&self) -> u32 {
        match self {
            Policy::FairShare { weight } => *weight,
            Policy::FixedShare | Policy::Reserve => 1,
        }
    }
}

/// How fast a job may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapRules {
    /// The most processes a job may have before one has initialized. Zero means no such limit.
    pub initialization_cap: u64,
    /// Whether a job may at most double what it holds in one cycle.
    pub expand_by_doubling: bool,
    /// Whether expansion stops where new processes would come too late to help.
    pub prediction: bool,
    /// Time past initialization that prediction looks ahead.
    pub prediction_fudge: Millis,
    /// The most work, in thread time, that one more process may destroy when a job that has some
    /// already takes its room from others and nothing in the cluster is about to change. Until
    /// then waiting has to pay for it.
    pub loss_limit: Millis,
}

impl CapRules {
    /// What growth may cost others where nothing is configured: 2,000 s of thread time, half an
    /// hour of one process with one thread.
    pub const LOSS_LIMIT: Millis = 2_000_000;
}

/// A resource class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceClass {
    /// Its name; unique.
    pub name: Name,
    /// How its work is scheduled.
    pub policy: Policy,
    /// When its work is considered: the lowest number first.
    pub priority: u32,
    /// Where its work goes. Fair-share work may spill into subpools, other work may not.
    pub pool: PoolIx,
    /// How fast its jobs grow.
    pub cap_rules: CapRules,
    /// Who may use it. `None` means everyone.
    pub users: Option<Vec<String>>,
    /// Whether work that names no class, and fits this policy, goes here.
    pub is_default: bool,
}

impl ResourceClass {
    /// Whether `user` may submit work to this class.
    pub fn admits(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.iter().any(|allowed| allowed == user))
    }
}
