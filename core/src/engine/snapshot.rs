//! Input of a cycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    ClassIx, IxVec, JobFacts, JobId, JobIx, JobKind, Millis, NShares, Name, NodeCondition, NodeIx,
    Order, PoolIx, QShares, ResourceClass, Shape, ShareFacts, ShareId, SharePhase, Tags, Topology,
    UserIx, Window,
};

/// The cluster as the scheduler knows it when a cycle begins.
///
/// The content of a list alone decides its order, so equal states give equal snapshots, however
/// they came about. Only [`Snapshot::cycle`] and [`Quiescence`] change with time: a cycle in which
/// nothing happened has the lists of the cycle before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the cycle.
    pub cycle: u64,
    /// Configured classes, pools and settings.
    pub topology: Arc<Topology>,
    /// Every node ever seen, by name.
    pub nodes: Arc<IxVec<NodeIx, Node>>,
    /// Names of all users with jobs, in order.
    pub users: Arc<IxVec<UserIx, Name>>,
    /// All jobs that are not refused, oldest first, then by number.
    pub jobs: Arc<IxVec<JobIx, Arc<Job>>>,
    /// Space made for jobs that have not started there yet, in the order of the promises.
    pub promises: Vec<Promise>,
    /// Savings for turns, by class and user.
    pub turns: Vec<TurnAccount>,
    /// Jobs for which earlier cycles did not get to search for space.
    pub put_off: Vec<JobId>,
    /// Duration of the quiet, in cycles.
    pub quiescence: Quiescence,
    /// Time, in milliseconds since the epoch; `None` if nothing depends on it.
    pub now: Option<Millis>,
    /// Windows that are open or will open, by name.
    pub windows: Arc<Vec<NodeWindow>>,
    /// Spans of time in which classes are open, ascending. A class that is absent is always open.
    pub hours: Arc<BTreeMap<ClassIx, Vec<(Millis, Millis)>>>,
}

/// A window, and the places of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWindow {
    /// The window.
    pub window: Arc<Window>,
    /// Known nodes of the window, ascending.
    pub nodes: Vec<NodeIx>,
}

/// Duration of the quiet, in cycles, and the preemptions meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quiescence {
    /// Cycles since demand or supply changed. Demand changes if a job comes, ends, gets more items,
    /// first runs, shows its time per item, or can use another number of processes. Supply changes
    /// if processes end, or nodes come, go or change size.
    pub quiet_cycles: u64,
    /// Cycles since any news of any job, progress included.
    pub rest_cycles: u64,
    /// Preemptions, as pairs of jobs, since the cluster has been quiet for [`MEMORY_AFTER`] cycles;
    /// each pair once, in order.
    ///
    /// [`MEMORY_AFTER`]: crate::engine::MEMORY_AFTER
    pub takings: Vec<Taking>,
}

/// Cycles without any news of any job after which a cluster is idle.
const REST_AFTER: u64 = 2;

impl Quiescence {
    /// True if the cluster is idle: no news of any job for so long that holdings decide, and not
    /// targets.
    pub(super) fn is_at_rest(&self) -> bool {
        REST_AFTER <= self.rest_cycles
    }
}

/// Space that a job lost to another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taking {
    /// Job that had the space.
    pub from: JobId,
    /// Job that took the space.
    pub by: JobId,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the node.
    pub name: Name,
    /// Size that the scheduler uses. Zero if the node is smaller than a quantum.
    pub order: QShares,
    /// Pool of the node.
    pub pool: PoolIx,
    /// State of the node: it may get processes, or the reason why not.
    pub state: NodeCondition,
    /// Space of shares whose class no longer exists. Treated as occupied.
    pub limbo: QShares,
    /// Tags of the node.
    pub tags: Arc<Tags>,
    /// Gangs use nodes of higher preference first.
    pub preference: i32,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Job number.
    pub id: JobId,
    /// User who submitted the job.
    pub user: UserIx,
    /// Class that admitted the job.
    pub class: ClassIx,
    /// Kind of the job.
    pub kind: JobKind,
    /// Size of an nshare of the job; for a reservation, size of the requested node.
    pub order: Order,
    /// Time of submission.
    pub submitted: Millis,
    /// Work items that a process handles at a time. At least 1.
    pub threads: u64,
    /// Service that the job is an instance of; 0 if none.
    pub service: u64,
    /// The only nodes the job may use, ascending; `None` means any.
    pub nodes: Option<Arc<[NodeIx]>>,
    /// Chunks and sizes; `None` for processes that come and go singly.
    pub shape: Option<Arc<Shape>>,
    /// Facts that change while the job runs.
    pub facts: JobFacts,
    /// Cycle since which the job has been below its target and has got nothing. `None` if it is not
    /// below it, or has got something.
    pub behind_since: Option<u64>,
    /// True if the job has had its single process and lost it: such a job gets no second process.
    pub is_spent: bool,
    /// Start of a gang.
    pub gang: GangProgress,
    /// Shares of the job, oldest first, terminating shares included.
    pub shares: Vec<Share>,
}

/// Start of a gang, or the wait for it; of other work that stays, its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GangProgress {
    /// Processes that the gang started with; `None` while it waits.
    pub size: Option<u64>,
    /// First cycle that could not start the gang; `None` once it has started.
    pub waits_since: Option<u64>,
    /// The turn that its user paid for.
    pub turn: Option<PaidTurn>,
    /// Start of work that stays, in milliseconds since the epoch; `None` if it waits, or if nothing
    /// depended on the time.
    pub started: Option<Millis>,
    /// True if the work was ended, as it ran longer than it declared.
    pub is_overrun: bool,
}

/// Cycles that the user of a gang paid for: its peers do not preempt it in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaidTurn {
    /// Cycle in which the gang started.
    pub from: u64,
    /// First cycle that is not paid for.
    pub until: u64,
    /// Qshare-milliseconds that the user paid.
    pub price: i64,
}

/// Savings of a user for the gangs in a class: they grow by a constant rate until something
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnAccount {
    /// The class.
    pub class: ClassIx,
    /// The user.
    pub user: UserIx,
    /// Qshare-milliseconds at the start of cycle `since`.
    pub base: i64,
    /// Cycle of the last change.
    pub since: u64,
    /// Qshare-milliseconds earned in a millisecond.
    pub rate: i64,
    /// The most that the account may hold.
    pub most: i64,
}

/// An nshare of a job on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Share number.
    pub id: ShareId,
    /// Node of the share.
    pub node: NodeIx,
    /// Size of the share. Equal to its job's order, except after a change of the quantum, and in
    /// gangs.
    pub order: Order,
    /// Rank of its process in a gang.
    pub rank: Option<u32>,
    /// Held or terminating.
    pub state: SharePhase,
    /// Known facts of its process.
    pub facts: ShareFacts,
}

/// Space on a node that was made for a job and is kept for it.
///
/// Design: architecture section 6: the freed space stays promised until the beneficiary uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Job that will get the space.
    pub job: JobId,
    /// Node of the space.
    pub node: NodeIx,
    /// Amount of space.
    pub order: Order,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
}

impl Snapshot {
    /// The class of `job`.
    pub fn class_of(&self, job: &Job) -> &ResourceClass {
        &self.topology.classes[job.class]
    }

    /// True if `class` is not open at some moment from `from` until before `to`.
    pub fn closes(&self, class: ClassIx, from: Millis, to: Millis) -> bool {
        let is_within = |(open, close): &(Millis, Millis)| *open <= from && to <= *close;
        self.hours.get(&class).is_some_and(|hours| !hours.iter().any(is_within))
    }

    /// True if `class` is closed for work that can be preempted: it closes before its notice ends.
    pub fn is_closed(&self, class: ClassIx) -> bool {
        self.now.is_some_and(|now| {
            let notice = self.topology.settings.notice;
            self.closes(class, now, now.saturating_add(notice).saturating_add(1))
        })
    }

    /// Moment at which `job` is ended if it still runs; `None` if its class ends no overruns, or its
    /// end is not known.
    pub fn forced_end(&self, job: &Job) -> Option<Millis> {
        let class = self.class_of(job);
        if !class.gangs.ends_overruns || class.policy.is_preemptable() {
            return None;
        }
        let declared = job.shape.as_deref().and_then(|shape| shape.duration);
        let length = class.gangs.duration(declared)?;
        job.held().next()?;
        Some(job.gang.started?.saturating_add(length))
    }

    /// Earliest start of `job`, if its owner names a moment after now.
    pub fn later_start(&self, job: &Job) -> Option<Millis> {
        let opens = job.shape.as_deref()?.not_before?;
        self.now.filter(|now| *now < opens).map(|_| opens)
    }

    /// Opening of the advance reservation of `job`, if it may use that and the reservation is not over. `None` for
    /// work that can be preempted: it uses reserved nodes anyway.
    pub fn reserved_from(&self, job: &Job) -> Option<Millis> {
        let name = job.shape.as_deref()?.reservation.as_ref()?;
        let class = self.class_of(job);
        if class.policy.is_preemptable() {
            return None;
        }
        let mut windows = self.windows.iter().map(|it| &it.window);
        let own = windows.find(|window| window.name == *name)?;
        own.admits(&self.users[job.user], &class.name).then_some(own.from)
    }

    /// True if `job` is over, as it runs or ran longer than it declared.
    pub fn is_overrun(&self, job: &Job) -> bool {
        let is_past = |now| self.forced_end(job).is_some_and(|end| end <= now);
        job.gang.is_overrun || self.now.is_some_and(is_past)
    }

    /// Next moment at which `class` opens.
    pub fn opening(&self, class: ClassIx) -> Option<Millis> {
        let now = self.now?;
        let opens = self.hours.get(&class)?.iter().map(|(open, _)| *open);
        opens.filter(|open| now < *open).min()
    }

    /// Cycles for which `job` has been below its target and has got nothing.
    pub fn behind_cycles(&self, job: &Job) -> u64 {
        job.behind_since.map_or(0, |since| self.cycle.saturating_sub(since))
    }

    /// The node at `ix`.
    pub fn node(&self, ix: NodeIx) -> &Node {
        &self.nodes[ix]
    }

    /// Every node with its place.
    pub fn nodes_with_ix(&self) -> impl Iterator<Item = (NodeIx, &Node)> {
        self.nodes.with_ix()
    }
}

impl Share {
    /// Work lost if the share is preempted: its investment, and the time it took to initialize.
    pub(super) fn loss(&self) -> Millis {
        self.facts.work_at_stake()
    }
}

impl Job {
    /// Shares that are not terminating.
    pub fn held(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter().filter(|share| share.state == SharePhase::Held)
    }

    /// Number of shares that are not terminating.
    pub fn nshares_held(&self) -> NShares {
        NShares(self.held().map(|_| 1).sum())
    }

    /// Nodes that its list or its tags allow; empty if it has neither.
    pub fn listed(&self) -> &[NodeIx] {
        self.nodes.as_deref().unwrap_or_default()
    }

    /// True if the job's node list, if any, contains node `ix`.
    pub fn may_use(&self, ix: NodeIx) -> bool {
        self.nodes.as_ref().is_none_or(|list| list.binary_search(&ix).is_ok())
    }
}
