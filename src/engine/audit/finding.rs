//! What the audit says: which rule is broken, and by what.
//!
//! Codes are stable: dashboards count by them and recorded scenarios name them.

use std::fmt;

/// A rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// What exactly.
    pub detail: String,
}

/// What a schedule must not do, and what it must not leave undone. The numbers in brackets are the
/// invariants of the reliability study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The schedule names a job, machine or share that does not exist.
    UnknownName,
    /// A machine got work that does not fit beside all that is on it (I01).
    OverCommitted,
    /// More room is promised on a machine than will be free once the leaving have left (I21).
    OverPromised,
    /// New or promised room on a machine that may not get work.
    UnschedulableMachine,
    /// Fair-share work outside its class's pool and what lies in it (I08).
    WrongPool,
    /// Work that cannot be preempted outside its class's own pool (I07).
    Squatter,
    /// Work on a machine that is not in its list.
    MachineList,
    /// An allocation of another size than the work asks for (I02, I10).
    WrongOrder,
    /// Something new for work that is ending or over.
    EndedWork,
    /// A job grows beyond its cap (I12).
    AboveCap,
    /// A user was given non-preemptable memory beyond the allotment (I11).
    OverAllotment,
    /// A share is preempted that was already leaving, or twice (I04).
    VictimNotHeld,
    /// A preemption's receipt does not agree with the share it is for.
    FalseReceipt,
    /// A share that may not be preempted is (I05).
    NotPreemptable,
    /// A share is taken as not allowed any more, but is allowed.
    StillAllowed,
    /// A preemption's rule does not fit the priorities of the two jobs.
    WrongPriority,
    /// A share is preempted for somebody who gets nothing for it.
    Unpaid,
    /// A share is preempted without which the beneficiary would fit as well (I18).
    SuperfluousVictim,
    /// A share is taken from somebody who is not strictly better off even afterwards (D2).
    UnfairPreemption,
    /// A share is taken as surplus from somebody who has none.
    NoSurplus,
    /// A job takes as needy that is not.
    NotNeedy,
    /// A share is taken as beyond all counts for a job that has something, or from a side that has
    /// less than was counted for it.
    FalseFirst,
    /// A share is moved for a job that has something, or is counted nothing, or without
    /// defragmentation; or its own job does not get as much elsewhere.
    FalseMove,
    /// Holdings alone decided, or work was moved, in a cluster that is not at rest; or counts where
    /// it is.
    WrongMoment,
    /// A job that has something took more than its waiting, or its class, allows to be lost.
    TooDear,
    /// Somebody took back what had been taken from his side.
    TakenBack,
    /// A job that has something took after the quiet stop (I17).
    NotStopped,
    /// A job says that it was held back where nothing holds it.
    FalseHold,
    /// Work whose search was left to the next cycle is left out again, before others had their turn.
    LostTurn,
    /// A donor became needy (I19).
    NeedyDonor,
    /// More is counted for the work of a tree of pools than the tree has.
    OverCounted,
    /// More is counted for a job than it can use.
    CountAboveCap,
    /// What is counted leaves somebody more than one nshare behind a peer (I13).
    UnevenCounts,
    /// Room stays free that a job below its cap could use (I15).
    IdleRoom,
    /// A counted non-preemptable request waits beside a hole it fits in (I15).
    UnplacedRequest,
    /// A job below its count could have been helped by a legal preemption, and was not (I16).
    CurableEnvy,
    /// The report is not about the snapshot's jobs, in their order.
    ReportJobs,
    /// The report's holdings are not what the schedule leaves.
    ReportHoldings,
    /// The report's cap is not what the rules give.
    ReportCap,
    /// A job has less than it wants and no reason is given (I31).
    MissingReason,
    /// The accounts of classes and users do not add up.
    ReportAccounts,
}

impl Rule {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            Rule::UnknownName => "unknown_name",
            Rule::OverCommitted => "over_committed",
            Rule::OverPromised => "over_promised",
            Rule::UnschedulableMachine => "unschedulable_machine",
            Rule::WrongPool => "wrong_pool",
            Rule::Squatter => "squatter",
            Rule::MachineList => "machine_list",
            Rule::WrongOrder => "wrong_order",
            Rule::EndedWork => "ended_work",
            Rule::AboveCap => "above_cap",
            Rule::OverAllotment => "over_allotment",
            Rule::VictimNotHeld => "victim_not_held",
            Rule::FalseReceipt => "false_receipt",
            Rule::NotPreemptable => "not_preemptable",
            Rule::StillAllowed => "still_allowed",
            Rule::WrongPriority => "wrong_priority",
            Rule::Unpaid => "unpaid",
            Rule::SuperfluousVictim => "superfluous_victim",
            Rule::UnfairPreemption => "unfair_preemption",
            Rule::NoSurplus => "no_surplus",
            Rule::NotNeedy => "not_needy",
            Rule::FalseFirst => "false_first",
            Rule::FalseMove => "false_move",
            Rule::WrongMoment => "wrong_moment",
            Rule::TooDear => "too_dear",
            Rule::TakenBack => "taken_back",
            Rule::NotStopped => "not_stopped",
            Rule::FalseHold => "false_hold",
            Rule::LostTurn => "lost_turn",
            Rule::NeedyDonor => "needy_donor",
            Rule::OverCounted => "over_counted",
            Rule::CountAboveCap => "count_above_cap",
            Rule::UnevenCounts => "uneven_counts",
            Rule::IdleRoom => "idle_room",
            Rule::UnplacedRequest => "unplaced_request",
            Rule::CurableEnvy => "curable_envy",
            Rule::ReportJobs => "report_jobs",
            Rule::ReportHoldings => "report_holdings",
            Rule::ReportCap => "report_cap",
            Rule::MissingReason => "missing_reason",
            Rule::ReportAccounts => "report_accounts",
        }
    }

    /// A finding of this rule.
    pub(super) fn finding(self, detail: String) -> Finding {
        Finding { rule: self, detail }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.code(), self.detail)
    }
}
