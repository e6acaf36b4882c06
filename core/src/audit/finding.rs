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
    /// A node got shares that do not fit beside all that is on it (I01).
    OverCommitted,
    /// More space is promised on a node than will be free once the terminating shares have exited
    /// (I21).
    OverPromised,
    /// A new share or a promise on a node that may not get processes.
    UnschedulableNode,
    /// Fair-share work outside its class's pool and the pools in it (I08).
    WrongPool,
    /// Work that cannot be preempted outside its class's own pool (I07).
    Squatter,
    /// A share on a node that is not on the list of its job.
    NodeList,
    /// A share of another size than its job asks for (I02, I10).
    WrongOrder,
    /// A new share for a job that is ending or over.
    EndedWork,
    /// A job grows beyond its cap (I12).
    AboveCap,
    /// A user got non-preemptable memory beyond the allotment (I11).
    OverAllotment,
    /// A share is preempted that was already terminating, or is named twice (I04).
    VictimNotHeld,
    /// A preemption's receipt does not agree with the share it is for.
    FalseReceipt,
    /// A share that may not be preempted is preempted (I05).
    NotPreemptable,
    /// A share is evicted as not allowed any more, but is allowed.
    StillAllowed,
    /// A preemption's rule does not fit the priorities of the two jobs.
    WrongPriority,
    /// A share is preempted for a job that gets nothing for it.
    Unpaid,
    /// A share is preempted without which the beneficiary would fit as well (I18).
    SuperfluousVictim,
    /// A share is preempted from a side that is then not better off than the beneficiary's side was
    /// (D2).
    UnfairPreemption,
    /// The last process of a job that is owed a process was taken by a peer (I8 of the design).
    LastTaken,
    /// A job lost a process to a peer and is promised space that was taken from a third job.
    PassedThrough,
    /// A promise was dropped, though its job could use the space.
    DroppedPromise,
    /// A job was moved and has less than before, or nothing new on another node (I18).
    FalseMove,
    /// Making space for a job destroyed more work of its peers than its waiting, or its class,
    /// allows.
    TooDear,
    /// A job is reported as held back, but the reason is false.
    FalseHold,
    /// A job whose search was put off is put off again, before the rest of them had their turn.
    LostTurn,
    /// A donor became needy (I19).
    NeedyDonor,
    /// The targets in a tree of pools exceed the tree's capacity.
    OverCounted,
    /// The target of a job is more than the job can use.
    CountAboveCap,
    /// The targets leave an entity more than an nshare behind a peer (I13).
    UnevenCounts,
    /// Space stays free that a job below its cap could use (I15).
    IdleRoom,
    /// A non-preemptable job below its target waits beside free space that it fits in (I15).
    UnplacedRequest,
    /// A job that is owed a first process has nothing, though all jobs that are owed a process
    /// could have a process.
    Starving,
    /// In an idle cluster: a side is so much better off that a job could have the place of its
    /// processes.
    Envy,
    /// In an idle cluster: a job waits for space that a lower priority holds (I14). Or a job waits in
    /// its advance reservation for work that can be preempted.
    PriorityWaits,
    /// A gang gets or is promised some of its processes, and not all.
    BrokenGang,
    /// Ranks of a gang are not the order of its request, or are there twice, or are missing.
    WrongRank,
    /// A process of a gang on a node without the tags of its chunk.
    WrongTags,
    /// Another request is on a node of an exclusive gang, or the gang does not fill the node.
    NotExclusive,
    /// Two processes of a scattered gang on a node, or a packed gang on two nodes.
    WrongPlace,
    /// A gang is in several placement sets though it may not, or though a single set could ever
    /// hold it.
    Spanned,
    /// A gang lost some of its processes and keeps the rest.
    PartialVictim,
    /// Shares were preempted for a gang that is not whole even with what it is promised.
    VainVictims,
    /// A gang takes a turn that it has not earned or not paid for, or the time that a gang paid for
    /// is cut short by a peer.
    TurnNotEarned,
    /// Younger work that stays was placed on nodes that an older gang needs.
    ClaimPassed,
    /// Work that stays was placed where a window keeps it out.
    InWindow,
    /// Work that can be preempted stays on a node in maintenance, or left a node without.
    LateNotice,
    /// The first gang that waits starts later for the sake of younger work.
    HeadDelayed,
    /// Urgent work took work that stays, or something dearer before something cheaper.
    UrgentTaken,
    /// Work that stays goes on beyond its declared end though its class ends such work, or was ended
    /// sooner.
    WrongEnd,
    /// A job gets something before the earliest start that its owner names.
    EarlyStart,
    /// A gang waits that fits into free space.
    IdleGang,
    /// A gang is said to lack nodes that there are.
    FalseNever,
    /// A job changes to a number of processes that it cannot work with, or while it adapts.
    IllegalSize,
    /// The report is not about the snapshot's jobs, in their order.
    ReportJobs,
    /// The report's holdings do not match the schedule.
    ReportHoldings,
    /// The report's cap does not match the rules.
    ReportCap,
    /// A job has less than it wants, and the report gives no reason (I31).
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
            Rule::UnschedulableNode => "unschedulable_machine",
            Rule::WrongPool => "wrong_pool",
            Rule::Squatter => "squatter",
            Rule::NodeList => "machine_list",
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
            Rule::BrokenGang => "broken_gang",
            Rule::WrongRank => "wrong_rank",
            Rule::WrongTags => "wrong_tags",
            Rule::NotExclusive => "not_exclusive",
            Rule::WrongPlace => "wrong_place",
            Rule::Spanned => "spanned",
            Rule::PartialVictim => "partial_victim",
            Rule::VainVictims => "vain_victims",
            Rule::TurnNotEarned => "turn_not_earned",
            Rule::ClaimPassed => "claim_passed",
            Rule::InWindow => "in_window",
            Rule::LateNotice => "late_notice",
            Rule::HeadDelayed => "head_delayed",
            Rule::UrgentTaken => "urgent_taken",
            Rule::WrongEnd => "wrong_end",
            Rule::EarlyStart => "early_start",
            Rule::IdleGang => "idle_gang",
            Rule::FalseNever => "false_never",
            Rule::IllegalSize => "illegal_size",
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
