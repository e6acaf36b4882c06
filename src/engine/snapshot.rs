//! All that one cycle may look at.

use std::sync::Arc;

use crate::model::{
    ClassIx, JobFacts, JobId, JobKind, MachineIx, MachineState, Millis, NShares, Name, Order,
    PoolIx, QShares, ResourceClass, ShareFacts, ShareId, SharePhase, Topology, UserIx,
};

/// The cluster as the books have it when a cycle begins.
///
/// Every list has one order that follows from its content alone, so that two books that agree give
/// equal snapshots, however they came about. Nothing but [`Snapshot::cycle`] and [`Calm`] changes by
/// the passing of time: the lists of a cycle in which nothing happened are those of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the cycle.
    pub cycle: u64,
    /// What is configured.
    pub topology: Arc<Topology>,
    /// Every machine ever seen, by name.
    pub machines: Arc<Vec<Machine>>,
    /// The names of all users with work, in order.
    pub users: Arc<Vec<Name>>,
    /// All work that is not refused, oldest first, then by number.
    pub jobs: Arc<Vec<Arc<Job>>>,
    /// Room already made and not yet taken, in the order in which it was promised.
    pub promises: Vec<Promise>,
    /// The jobs for which earlier cycles did not come to search for room.
    pub put_off: Vec<JobId>,
    /// For how long nothing has changed.
    pub calm: Calm,
}

/// For how long nothing has changed, in cycles, and who took from whom meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calm {
    /// Cycles since demand or supply changed. Demand: work came, went, got more items, first got
    /// going, showed how long an item takes, or can use another number of processes. Supply:
    /// processes ended; nodes came, went or changed size.
    pub quiet_cycles: u64,
    /// Cycles since there was any news of any work, progress included.
    pub rest_cycles: u64,
    /// Who took room from whom since the cluster has been quiet for [`MEMORY_AFTER`] cycles, each
    /// pair once, in order.
    ///
    /// [`MEMORY_AFTER`]: crate::engine::MEMORY_AFTER
    pub takings: Vec<Taking>,
}

/// A cluster in which for so many cycles there was no news of any work is at rest.
const REST_AFTER: u64 = 2;

impl Calm {
    /// Whether there has been no news of any work for long enough that what is held counts, and not
    /// what was counted.
    pub(super) fn is_at_rest(&self) -> bool {
        REST_AFTER <= self.rest_cycles
    }
}

/// Room that one job lost to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taking {
    /// Who had it.
    pub from: JobId,
    /// Who took it.
    pub by: JobId,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its node's name.
    pub name: Name,
    /// The size it is scheduled by. Zero if it is smaller than one quantum.
    pub order: QShares,
    /// The pool it is in.
    pub pool: PoolIx,
    /// Whether it may get work, and if not, why.
    pub state: MachineState,
    /// Space taken by shares whose class is gone: counted, so that nobody is put on top of them.
    pub limbo: QShares,
}

/// A request for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Who submitted it.
    pub user: UserIx,
    /// The class it was admitted to.
    pub class: ClassIx,
    /// What kind of work it is.
    pub kind: JobKind,
    /// The size of one nshare of it; for a reservation, of the machine it asks for.
    pub order: Order,
    /// When it was submitted.
    pub submitted: Millis,
    /// Work items per process at a time. At least 1.
    pub threads: u64,
    /// What service it is an instance of; 0 if none.
    pub service: u64,
    /// The only machines it may use, ascending; `None` means any.
    pub machines: Option<Vec<MachineIx>>,
    /// What changes about it.
    pub facts: JobFacts,
    /// Since which cycle it has been below its count and has got nothing; `None` if it is not, or
    /// has.
    pub behind_since: Option<u64>,
    /// Whether it has ever had its one process and lost it: such work is over and gets no second.
    pub is_spent: bool,
    /// Its shares, oldest first, those that are leaving included.
    pub shares: Vec<Share>,
}

/// One nshare of a job on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number.
    pub id: ShareId,
    /// Where it is.
    pub machine: MachineIx,
    /// Its size. Its job's order, except after the quantum was changed.
    pub order: Order,
    /// Whether it is on its way out.
    pub state: SharePhase,
    /// What is known of its process.
    pub facts: ShareFacts,
}

/// Room on a machine that was made for a job and is kept for it.
///
/// Design: architecture section 6: the freed room is earmarked until the beneficiary has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Whose it will be.
    pub job: JobId,
    /// Where.
    pub machine: MachineIx,
    /// How much.
    pub order: Order,
}

impl Snapshot {
    /// The class of `job`.
    pub fn class_of(&self, job: &Job) -> &ResourceClass {
        &self.topology.classes[job.class.0]
    }

    /// For how many cycles `job` has been below its count and has got nothing.
    pub fn behind_cycles(&self, job: &Job) -> u64 {
        job.behind_since.map_or(0, |since| self.cycle.saturating_sub(since))
    }

    /// The machine at `ix`.
    pub fn machine(&self, ix: MachineIx) -> &Machine {
        &self.machines[ix.0]
    }

    /// Every machine with its place.
    pub fn machines_with_ix(&self) -> impl Iterator<Item = (MachineIx, &Machine)> {
        self.machines.iter().enumerate().map(|(ix, machine)| (MachineIx(ix), machine))
    }
}

impl Share {
    /// The work lost if it goes: what was invested, and the time it took to initialize.
    pub(super) fn loss(&self) -> Millis {
        self.facts.investment.saturating_add(self.facts.initialization)
    }
}

impl Job {
    /// Shares that are not on their way out.
    pub fn held(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter().filter(|share| share.state == SharePhase::Held)
    }

    /// How many shares are not on their way out.
    pub fn nshares_held(&self) -> NShares {
        NShares(self.held().map(|_| 1).sum())
    }

    /// Whether it may use machine `ix`, as far as its own list goes.
    pub fn may_use(&self, ix: MachineIx) -> bool {
        self.machines.as_ref().is_none_or(|list| list.binary_search(&ix).is_ok())
    }
}
