//! The entries of the [`Ledger`](super::ledger::Ledger): the outcome for a job, node, share or
//! side.

use super::shapes::{gang_shape, sized_shape};
use crate::engine::{Job, JobReport, Preemption, Share};
use crate::model::{ClassIx, JobIx, Millis, Precedence, ResourceClass};

/// A job. Numbers are nshares.
#[derive(Debug)]
pub(super) struct JobLine<'a> {
    pub(super) job: &'a Job,
    pub(super) class: &'a ResourceClass,
    /// Precedence as computed by the audit.
    pub(super) priority: Precedence,
    pub(super) report: &'a JobReport,
    /// Cap as computed by the audit, not as reported.
    pub(super) cap: u64,
    /// Shares that were not terminating when the cycle began.
    pub(super) held: u64,
    /// Part of `held` that was preempted in this cycle.
    pub(super) lost: u64,
    /// New shares.
    pub(super) expanded: u64,
    /// Space promised to the job after the cycle.
    pub(super) promised: u64,
    /// Part of `promised` that was promised before the cycle.
    pub(super) kept: u64,
    /// Amounts of the job in qshares.
    pub(super) standing: EntityAmounts,
    /// Index of the standing of its user within its class.
    pub(super) user: usize,
}

/// A node. Amounts are qshares.
#[derive(Debug, Default)]
pub(super) struct NodeLedger {
    pub(super) order: u64,
    /// In use after the cycle by shares that are not terminating, limbo included.
    pub(super) staying: u64,
    /// In use by terminating shares.
    pub(super) leaving: u64,
    /// Part of `staying` that is new.
    pub(super) expanded: u64,
    /// Promised.
    pub(super) promised: u64,
    /// In use by, or promised to, jobs that cannot be preempted, limbo included.
    pub(super) fixed: u64,
    /// Fair-share shares that could still be preempted singly. Shares created in this cycle are
    /// not among them, nor are shares of gangs.
    pub(super) prey: Vec<Prey>,
}

/// A share that could be preempted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prey {
    /// The place of its job.
    pub(super) job: JobIx,
    /// In qshares.
    pub(super) order: u64,
    /// Work lost if the share is preempted.
    pub(super) loss: Millis,
}

/// A share that was preempted.
#[derive(Debug)]
pub(super) struct ReceiptedShare<'a> {
    pub(super) receipt: &'a Preemption,
    pub(super) share: &'a Share,
    pub(super) donor: JobIx,
    pub(super) beneficiary: Option<JobIx>,
}

/// Amounts of an entity, in qshares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntityAmounts {
    /// After the cycle, without promises.
    pub(super) held: u64,
    /// Space promised to the entity.
    pub(super) promised: u64,
    /// Least that the entity can have had while shares were preempted, promises included: all
    /// losses, no gains.
    pub(super) floor: u64,
    /// Most that the entity can have had: all gains, no losses.
    pub(super) ceiling: u64,
    /// Target in the report.
    pub(super) target: u64,
}

/// A class, a user within a class, or a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entity {
    Class(ClassIx),
    User(usize),
    Job(JobIx),
}

impl JobLine<'_> {
    /// Nshares held after the cycle, promises not included.
    pub(super) fn holds(&self) -> u64 {
        self.held - self.lost + self.expanded
    }

    /// Nshares held after the cycle, and promised.
    pub(super) fn has(&self) -> u64 {
        self.holds() + self.promised
    }

    /// Quanta of a process.
    pub(super) fn order(&self) -> u64 {
        self.job.order.qshares().0
    }

    /// Least that the job can have had while shares were preempted, in nshares; see
    /// [`EntityAmounts::floor`].
    pub(super) fn floor(&self) -> u64 {
        self.held - self.lost + self.kept
    }

    /// Most that the job can have had, in nshares; see [`EntityAmounts::ceiling`].
    pub(super) fn ceiling(&self) -> u64 {
        self.held + self.expanded + self.promised
    }

    /// Target of the job, in qshares.
    pub(super) fn target(&self) -> u64 {
        self.standing.target
    }

    pub(super) fn is_fair_share(&self) -> bool {
        self.class.policy.is_preemptable()
    }

    /// True if the processes of the job start together.
    pub(super) fn is_gang(&self) -> bool {
        gang_shape(self.job).is_some()
    }

    /// True if the job gets and gives processes singly.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_gang() && sized_shape(self.job).is_none()
    }

    /// True if the job gets nothing more at any demand.
    pub(super) fn has_ended(&self) -> bool {
        self.job.facts.is_completing || self.job.is_spent
    }

    /// True if `held` nshares are less than the job's fair share and below the fragmentation
    /// `threshold` (D4).
    pub(super) fn is_poor_with(&self, held: u64, threshold: u64) -> bool {
        let amount = held.saturating_mul(self.job.order.qshares().0);
        held < threshold && amount < self.report.pure_fair_share.0
    }
}

impl NodeLedger {
    /// Usable space now: free, and not needed for a promise once the terminating shares have
    /// exited. Negative by the amount by which the node is over-committed or over-promised.
    pub(super) fn usable(&self) -> i128 {
        self.slack().min(i128::from(self.order) - i128::from(self.staying + self.leaving))
    }

    /// Space left once the terminating shares have exited and the promised shares have started.
    pub(super) fn slack(&self) -> i128 {
        i128::from(self.order) - i128::from(self.staying + self.promised)
    }
}

impl EntityAmounts {
    /// After the cycle, promises included.
    pub(super) fn has(self) -> u64 {
        self.held + self.promised
    }

    pub(super) fn add(&mut self, other: EntityAmounts) {
        self.held += other.held;
        self.promised += other.promised;
        self.floor += other.floor;
        self.ceiling += other.ceiling;
        self.target += other.target;
    }
}
