//! Findings of the audit: the broken rule, and the details.
//!
//! Codes are stable: dashboards count by them and recorded scenarios name them.

use std::fmt;

/// A rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Broken rule.
    pub rule: Rule,
    /// Details: jobs, nodes and amounts.
    pub detail: String,
}

/// Rules of a schedule: actions that are forbidden, and actions that must not be missing. The
/// numbers in brackets are the invariants of the reliability study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The schedule names a job, node or share that does not exist.
    UnknownName,
    /// A node got work that does not fit beside all that is on it (I01).
    OverCommitted,
    /// More space is promised on a node than will be free once the leaving have left (I21).
    OverPromised,
    /// New or promised space on a node that may not get work.
    UnschedulableMachine,
    /// Fair-share work outside its class's pool and what lies in it (I08).
    WrongPool,
    /// Work that cannot be preempted outside its class's own pool (I07).
    Squatter,
    /// Work on a node that is not in its list.
    MachineList,
    /// An allocation of another size than the work asks for (I02, I10).
    WrongOrder,
    /// A new share for a job that is ending or over.
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
    /// A share is preempted for a job that gets nothing for it.
    Unpaid,
    /// A share is preempted without which the beneficiary would fit as well (I18).
    SuperfluousVictim,
    /// A share is taken from a side that is afterwards not better off than its taker's was (D2).
    UnfairPreemption,
    /// The last process of a job that is owed a process was taken by a peer (I8 of the design).
    LastTaken,
    /// A job lost a process to a peer and is promised space that was taken from a third.
    PassedThrough,
    /// Space that was promised to a job is kept no more, though its work could use it.
    DroppedPromise,
    /// A job was moved and has less than before, or nothing new on another node (I18).
    FalseMove,
    /// Space for a job destroyed more work of its peers than its waiting, or its class, allows.
    TooDear,
    /// A job says that it was held back where nothing holds it.
    FalseHold,
    /// A job whose search was put off to the next cycle is put off again, before the rest of them
    /// had their turn.
    LostTurn,
    /// A donor became needy (I19).
    NeedyDonor,
    /// More is counted for the work of a tree of pools than the tree has.
    OverCounted,
    /// More is counted for a job than it can use.
    CountAboveCap,
    /// The targets leave an entity more than an nshare behind a peer (I13).
    UnevenCounts,
    /// Space stays free that a job below its cap could use (I15).
    IdleRoom,
    /// A counted non-preemptable request waits beside a free piece it fits in (I15).
    UnplacedRequest,
    /// A job that is owed a first process has nothing, though all jobs that are owed a process
    /// could have a process.
    Starving,
    /// In an idle cluster: a side is so much better off that a job could have the place of a
    /// process of that side.
    Envy,
    /// In an idle cluster: a job waits for space that work of lower priority has (I14).
    PriorityWaits,
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
            Rule::LastTaken => "last_taken",
            Rule::PassedThrough => "passed_through",
            Rule::DroppedPromise => "dropped_promise",
            Rule::FalseMove => "false_move",
            Rule::TooDear => "too_dear",
            Rule::FalseHold => "false_hold",
            Rule::LostTurn => "lost_turn",
            Rule::NeedyDonor => "needy_donor",
            Rule::OverCounted => "over_counted",
            Rule::CountAboveCap => "count_above_cap",
            Rule::UnevenCounts => "uneven_counts",
            Rule::IdleRoom => "idle_room",
            Rule::UnplacedRequest => "unplaced_request",
            Rule::Starving => "starving",
            Rule::Envy => "envy",
            Rule::PriorityWaits => "priority_waits",
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
