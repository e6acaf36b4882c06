//! All shares in a single allocation, job by job, with the facts that a plan needs. Scans of many
//! shares thus read memory in sequence and not through their jobs.

use std::sync::Arc;

use super::csr::Csr;
use super::snapshot::{Job, Share};
use crate::model::{IxVec, JobIx, Millis, NodeIx, Order, ShareFacts, ShareId, SharePhase};

/// A share, by its place in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShareIx {
    /// The job's place in the snapshot.
    pub job: JobIx,
    /// The share's place among its job's shares.
    pub share: usize,
}

/// Facts of a share that a plan needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedShare {
    /// Share number.
    pub id: ShareId,
    /// Work lost if the share is preempted.
    pub loss: Millis,
    /// Time at stake: the initialization so far, or the investment once the process has
    /// initialized.
    pub at_stake: Millis,
    /// Size of the share.
    pub order: Order,
    node: u32,
    /// True if its process has initialized.
    pub is_initialized: bool,
    /// True unless the share is terminating, since before the cycle or in it.
    pub is_held: bool,
    /// True if the share is in the pool of its job's class. Set when
    /// [`SpaceIndex`](super::capacity::SpaceIndex) are built.
    pub is_resident: bool,
}

impl PackedShare {
    fn of(share: &Share) -> PackedShare {
        let ShareFacts { is_initialized, initialization, investment } = share.facts;
        PackedShare {
            id: share.id,
            loss: share.loss(),
            at_stake: if is_initialized { investment } else { initialization },
            order: share.order,
            node: small(share.node.0),
            is_initialized,
            is_held: share.state == SharePhase::Held,
            is_resident: false,
        }
    }

    /// Node of the share.
    pub(super) fn node(&self) -> NodeIx {
        NodeIx(large(self.node))
    }
}

/// Packs a place, for tables with many entries.
pub(super) fn small(place: usize) -> u32 {
    u32::try_from(place).expect("there are fewer than 2^32 of anything")
}

/// Unpacks a place.
pub(super) fn large(place: u32) -> usize {
    usize::try_from(place).expect("it was made from one")
}

/// The shares of all jobs.
#[derive(Clone, Debug)]
pub(super) struct ShareTable(Csr<PackedShare>);

impl ShareTable {
    /// An empty table with capacity for the shares of `jobs`.
    pub(super) fn with_space_for(jobs: &IxVec<JobIx, Arc<Job>>) -> ShareTable {
        let shares = jobs.iter().map(|job| job.shares.len()).sum();
        ShareTable(Csr::with_capacity(jobs.len(), shares))
    }

    /// Appends the shares of the next job of the snapshot.
    pub(super) fn enter(&mut self, job: &Job) {
        self.0.push(job.shares.iter().map(PackedShare::of));
    }

    /// The shares of the job at place `job` of the snapshot, terminating shares included.
    pub(super) fn of_job(&self, job: JobIx) -> &[PackedShare] {
        self.0.row(job.0)
    }

    /// The shares of the job at place `job` of the snapshot, mutable.
    pub(super) fn of_job_mut(&mut self, job: JobIx) -> &mut [PackedShare] {
        self.0.row_mut(job.0)
    }

    /// The shares of `job` that are not terminating.
    pub(super) fn held_by(&self, job: JobIx) -> impl Iterator<Item = (ShareIx, &PackedShare)> {
        let shares = self.of_job(job).iter().enumerate().filter(|(_, share)| share.is_held);
        shares.map(move |(share, brief)| (ShareIx { job, share }, brief))
    }

    /// The share that `holding` names.
    pub(super) fn at(&self, holding: ShareIx) -> &PackedShare {
        &self.0.items()[self.place_of(holding)]
    }

    /// The place of the share that `holding` names among all shares.
    pub(super) fn place_of(&self, holding: ShareIx) -> usize {
        self.0.begin(holding.job.0) + holding.share
    }

    /// Marks a share as terminating.
    ///
    /// # Panics
    ///
    /// If it was terminating before: a share is preempted once.
    pub(super) fn leave(&mut self, holding: ShareIx) {
        let share = &mut self.of_job_mut(holding.job)[holding.share];
        let was_held = std::mem::replace(&mut share.is_held, false);
        assert!(was_held, "a share leaves once");
    }
}
