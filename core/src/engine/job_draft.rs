//! State of a job while a cycle is planned.

use super::demand::{self, Demand};
use super::gang::gang_shape;
use super::report::Declined;
use super::sizes::{is_adapting, legal_cap, sizes_of};
use super::snapshot::{Job, Snapshot};
use crate::model::{JobId, JobKind, Millis, NShares, Order, QShares};

/// State of a job in this cycle.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold independently")]
pub(super) struct JobDraft {
    /// Job number.
    pub id: JobId,
    /// Size of an nshare of the job.
    pub order: Order,
    /// Kind of the job.
    pub kind: JobKind,
    /// True if the job lists the only nodes that it may use.
    pub is_restricted: bool,
    /// True if the processes of the job start together.
    pub is_gang: bool,
    /// True if the job works with legal sizes only.
    pub is_elastic: bool,
    /// True if such a job changes its size.
    pub is_adapting: bool,
    /// True if such a job began a step in this cycle, or a gang of fair-share work grows. Were an older
    /// process of it taken now, it would be left between sizes.
    pub has_stepped: bool,
    /// True if a gang that runs unpaid falls due: it pays, and keeps its nodes from now on.
    pub is_due: bool,
    pub demand: Demand,
    /// Largest target, at most the cap: a legal size, once a larger target turned out to be none.
    pub most: NShares,
    /// Thread time that the job has waited below its fair share.
    pub waited: Millis,
    /// Most nshares that the job may keep. Shares beyond its declared maximum are preempted.
    pub may_keep: NShares,
    /// Target computed by How Much.
    pub target: NShares,
    /// Processes on nodes, terminating shares excluded.
    pub held: NShares,
    /// Processes for which space is promised to the job.
    pub promised: NShares,
    /// True if a first process is owed to the job.
    pub is_owed: bool,
    /// Fair share before bonus shares.
    pub pure_fair_share: QShares,
    /// Fair share of its user in the class before bonus shares, and the number of jobs that share it.
    pub users_fair_share: (QShares, u64),
    /// Largest node that a reservation may have under its user's allotment.
    pub largest_node: QShares,
    /// Reason why the target is below the cap, if fairness is not the reason.
    pub refusal: Option<CountRefusal>,
    /// Reason why the job preempts nothing, though some plan would be legal.
    pub held_back: Option<Declined>,
}

/// Reason, other than fairness, why the target of a job is no higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountRefusal {
    /// The allotment of the job's user is used up.
    OverAllotment { allotment: QShares, held: QShares, asks: QShares },
    /// No piece that higher priorities left is large enough.
    NothingLeft { left: QShares },
}

impl JobDraft {
    /// Builds the state of `job`, which holds `held` nshares while `promised` more are promised to
    /// it.
    pub(super) fn new(
        snapshot: &Snapshot,
        job: &Job,
        held: NShares,
        promised: NShares,
    ) -> JobDraft {
        let demand = demand::demand(snapshot, job, held, promised);
        JobDraft {
            id: job.id,
            order: job.order,
            kind: job.kind,
            is_restricted: job.nodes.is_some(),
            is_gang: gang_shape(job).is_some(),
            is_elastic: sizes_of(job).is_some(),
            is_adapting: sizes_of(job).is_some() && is_adapting(job),
            has_stepped: false,
            is_due: false,
            most: most_of(job, demand.cap.nshares),
            demand,
            waited: waited(snapshot, job),
            may_keep: demand::maximum(job).unwrap_or(NShares::MAX),
            target: NShares(0),
            held,
            promised: NShares(0),
            is_owed: false,
            pure_fair_share: QShares(0),
            users_fair_share: (QShares(0), 0),
            largest_node: QShares(0),
            refusal: None,
            held_back: None,
        }
    }
}

/// Thread time that `job` has waited below its fair share.
fn waited(snapshot: &Snapshot, job: &Job) -> Millis {
    let period = snapshot.topology.settings.publication_period;
    snapshot.behind_cycles(job).saturating_mul(period).saturating_mul(job.threads)
}

/// The largest target of `job` within its cap.
fn most_of(job: &Job, cap: NShares) -> NShares {
    sizes_of(job).map_or(cap, |shape| legal_cap(shape, cap))
}
