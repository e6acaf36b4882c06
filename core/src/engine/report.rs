//! Report of a cycle: its input, its decisions, and the reasons of unmet demand, as data.

use std::fmt;
use std::num::NonZeroU64;

use super::wait_reason::WaitReason;
use crate::model::{
    ClassIx, IxVec, JobId, JobIx, Millis, NShares, NodeIx, QShares, UserIx, counted, floor_div,
};

/// Milliseconds in a second.
const SECOND: NonZeroU64 = NonZeroU64::new(1000).expect("not zero");

/// Figures and reasons of a cycle, for users who ask why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Line of each job, in the snapshot's order.
    pub jobs: IxVec<JobIx, JobReport>,
    /// Line of each class, in the topology's order.
    pub classes: IxVec<ClassIx, JobAccount>,
    /// Line of each user in each fair-share class, by class and user.
    pub users: Vec<UserAccount>,
    /// Number of jobs that the safety net held back.
    pub net_strikes: u64,
    /// Space that waiting gangs keep from younger work that stays, by node.
    pub claims: Vec<ClaimedSpace>,
}

/// Space of a node that is kept for a waiting gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedSpace {
    /// The node.
    pub node: NodeIx,
    /// The gang.
    pub job: JobId,
    /// Amount of space.
    pub amount: QShares,
}

/// Demand, fair share, target and holdings of a class or user, in qshares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobAccount {
    /// The sum of its jobs' caps.
    pub demand: QShares,
    /// Pure fair share: the amount if every class, user and job could use its part.
    pub fair_share: QShares,
    /// Target computed by How Much.
    pub target: QShares,
    /// Amount held after this cycle, terminating shares excluded.
    pub held: QShares,
}

/// Account of a user within a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserAccount {
    /// The class.
    pub class: ClassIx,
    /// The user.
    pub user: UserIx,
    /// The amounts.
    pub account: JobAccount,
}

/// Demand and outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Job number.
    pub job: JobId,
    /// Processes that the job could use without any rule that slows growth: its work left, up to
    /// its maximum.
    pub demand: NShares,
    /// Most nshares that the job could use now.
    pub cap: Cap,
    /// Fair share before bonus shares. Zero for work that is not fair-share.
    pub pure_fair_share: QShares,
    /// Target computed by How Much.
    pub target: NShares,
    /// Processes held after this cycle, terminating shares excluded.
    pub held: NShares,
    /// Space promised to the job, still occupied by terminating shares.
    pub promised: NShares,
    /// Reason why the job preempted nothing, though it had a right to. `None` if it had no such
    /// right, or used it.
    pub held_back: Option<Declined>,
    /// True if the job is below both its pure fair share and the fragmentation threshold.
    pub is_needy: bool,
    /// Reason why the job has less than it wants; `None` if it has all it wants.
    pub reason: Option<WaitReason>,
    /// Expected start of a job that waits; `None` if no start can be told.
    pub start_estimate: Option<StartEstimate>,
}

/// Expected start of a job. It starts then, or earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartEstimate {
    /// Milliseconds since the epoch.
    pub at: Millis,
    /// Events of which it follows.
    pub basis: EstimateBasis,
}

/// Events of which an expected start follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EstimateBasis {
    /// Work ends by then, as declared.
    DeclaredEnds,
    /// A window opens or closes.
    Window,
}

impl EstimateBasis {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            EstimateBasis::DeclaredEnds => "declared_ends",
            EstimateBasis::Window => "window",
        }
    }
}

/// Reason why a job does not preempt shares that it might take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// Preempting would lose more work than the new process is worth.
    TooDear {
        /// Lower bound of the loss, in thread time.
        loss: Millis,
        /// Highest acceptable loss: the cost of its waiting so far, or its class's loss limit.
        limit: Millis,
    },
    /// The job is nearly done. More processes would hardly come in time, so it takes free space
    /// only.
    TooLate,
    /// The safety net struck: demand and supply have not changed for many cycles. Until they do,
    /// only jobs that have nothing preempt their peers.
    Quiet {
        /// Least number of quiet cycles so far.
        cycles: u64,
    },
    /// Searching space for other jobs reached the search limit of the cycle: this job's turn comes
    /// in the next cycle.
    NextCycle,
}

/// A job's cap and the bound that set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The most nshares the job could use now, were resources unbounded.
    pub nshares: NShares,
    /// Rule that set the cap.
    pub bound: CapBound,
}

/// The rule that sets a job's cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapBound {
    /// The work left needs no more.
    WorkLeft,
    /// The declared maximum of the job.
    Maximum,
    /// The job may not grow any more.
    Frozen,
    /// No process of the job has initialized yet.
    Initialization,
    /// The time per item is unknown: the cap is that of a job that initializes.
    UnknownPace,
    /// All processes of the job are gone: it starts over with the cap of a job that initializes.
    StartsOver,
    /// The job may at most double in a cycle.
    Doubling,
    /// New processes would come too late to help.
    Prediction,
    /// The job is ending and gets nothing more.
    Completing,
    /// The single process of the job has ended.
    Spent,
    /// The class of the job is closed.
    Closed,
    /// The job was ended, as it ran longer than it declared.
    Overrun,
    /// The owner of the job wants a later start.
    TooEarly,
}

impl Declined {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            Declined::TooDear { .. } => "too_dear",
            Declined::TooLate => "too_late",
            Declined::Quiet { .. } => "quiet_stop",
            Declined::NextCycle => "next_cycle",
        }
    }
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Declined::TooDear { loss, limit } => write!(
                f,
                "too dear: space for one more process would destroy {} s of work or more, and may cost {} s by now",
                floor_div(*loss, SECOND),
                floor_div(*limit, SECOND)
            ),
            Declined::TooLate => f.write_str(
                "too late: one more process would hardly come in time, so that it takes free space only",
            ),
            Declined::Quiet { cycles } => write!(
                f,
                "quiet stop: neither demand nor supply has changed for {} or more, so that it takes no more from its peers",
                counted(*cycles, "cycle")
            ),
            Declined::NextCycle => {
                f.write_str("next cycle: this one searched for space for others as long as it may")
            }
        }
    }
}

impl CapBound {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            CapBound::WorkLeft => "work_left",
            CapBound::Maximum => "maximum",
            CapBound::Frozen => "frozen",
            CapBound::Initialization | CapBound::UnknownPace | CapBound::StartsOver => {
                "initialization_cap"
            }
            CapBound::Doubling => "doubling",
            CapBound::Prediction => "prediction",
            CapBound::Completing => "completing",
            CapBound::Spent => "spent",
            CapBound::Closed => "class_closed",
            CapBound::Overrun => "overrun",
            CapBound::TooEarly => "too_early",
        }
    }
}

impl fmt::Display for CapBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CapBound::WorkLeft => "its work left needs no more",
            CapBound::Maximum => "its declared maximum",
            CapBound::Frozen => "its growth was stopped",
            CapBound::Initialization => "no process of it has initialized yet",
            CapBound::UnknownPace => "its time per item is not yet known",
            CapBound::StartsOver => "all its processes are gone, so that it starts over",
            CapBound::Doubling => "it may at most double in one cycle",
            CapBound::Prediction => "more processes would come too late to help",
            CapBound::Completing => "it is ending",
            CapBound::Closed => "its class is closed",
            CapBound::TooEarly => "its owner wants a later start",
            CapBound::Overrun => "it ran longer than it declared, so that it is over",
            CapBound::Spent => "its process ended and is not started again",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_has_a_code_and_words() {
        for (bound, code, words) in [
            (CapBound::WorkLeft, "work_left", "needs no more"),
            (CapBound::Maximum, "maximum", "declared maximum"),
            (CapBound::Frozen, "frozen", "stopped"),
            (CapBound::Initialization, "initialization_cap", "initialized"),
            (CapBound::UnknownPace, "initialization_cap", "not yet known"),
            (CapBound::StartsOver, "initialization_cap", "starts over"),
            (CapBound::Doubling, "doubling", "double"),
            (CapBound::Prediction, "prediction", "too late"),
            (CapBound::Completing, "completing", "ending"),
            (CapBound::Spent, "spent", "not started again"),
            (CapBound::Overrun, "overrun", "longer than it declared"),
            (CapBound::TooEarly, "too_early", "a later start"),
        ] {
            let reason = WaitReason::Capped { bound, cap: NShares(3) };
            assert_eq!((bound.code(), reason.code()), (code, code));
            assert!(reason.to_string().contains(words) && reason.to_string().contains('3'));
        }
    }
}
