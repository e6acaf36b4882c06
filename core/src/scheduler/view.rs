//! The scheduler's state for readers: an immutable view, made after a cycle.
//!
//! Queries, the update for the orchestrator and what is stored are all made from the same
//! [`View`], so they cannot disagree.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::gangs::TurnSavings;
use super::shared_list::SharedList;
use super::urgent::{UrgentGrant, UrgentVerdict};
use crate::engine::{
    Cap, CycleSchedule, Declined, JobAccount, Preemption, Snapshot, StartEstimate, WaitReason,
};
use crate::model::{
    Elasticity, JobFacts, JobId, JobKind, Mebibytes, Millis, NShares, Name, NodeCondition, Order,
    QShares, Quantum, Shape, ShareFacts, ShareId, SharePhase, Tags, Topology, Window, count,
};

/// The cluster after a cycle.
#[derive(Clone, Debug)]
pub struct View {
    /// Number of the cycle; 0 before the first.
    pub cycle: u64,
    /// Configuration of the cycle.
    pub topology: Arc<Topology>,
    /// Every node ever seen, by name.
    pub nodes: Arc<SharedList<NodeView>>,
    /// All work, oldest first; refused work included.
    pub jobs: Arc<SharedList<JobView>>,
    /// Every class, in order of configuration.
    pub classes: Arc<Vec<ClassView>>,
    /// Every node that is varied off, with the reason, whether it has reported or not.
    pub varied_off: Vec<(Name, String)>,
    /// Windows of nodes that are open or will open, by name.
    pub windows: Arc<Vec<Arc<Window>>>,
    /// Spans in which classes are open, by class, in milliseconds since the epoch. Absent classes are
    /// always open.
    pub hours: Arc<BTreeMap<Name, Vec<(Millis, Millis)>>>,
    /// Nodes that went silent together in such numbers that their work is not given up yet.
    pub lost_held_back: Vec<Name>,
    /// The engine's input and decisions in this cycle, for the audit and for explanations. `None`
    /// before the first cycle.
    pub planned: Option<Arc<Planned>>,
    /// The next share number, never used before.
    pub next_share: ShareId,
    /// Decisions of this cycle on urgent requests, by job.
    pub urgent: Arc<Vec<UrgentVerdict>>,
}

impl View {
    /// Number of jobs that the quiet stop held back in this cycle.
    pub fn net_strikes(&self) -> u64 {
        self.planned.as_ref().map_or(0, |planned| planned.schedule.report.net_strikes)
    }
}

/// Input and output of the engine in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The question.
    pub snapshot: Snapshot,
    /// The answer.
    pub schedule: Arc<CycleSchedule>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Name of the node.
    pub name: Name,
    /// The name of its pool.
    pub pool: Name,
    /// The quantum of its pool's tree.
    pub quantum: Quantum,
    /// Memory it reported.
    pub memory: Mebibytes,
    /// The size it is scheduled by.
    pub order: QShares,
    /// Tags of the node.
    pub tags: Tags,
    /// Gangs use nodes of higher preference first.
    pub preference: i32,
    /// Space taken by shares, leaving shares included.
    pub used: QShares,
    /// Conditions that decide if the node gets new shares.
    pub state: NodeCondition,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// Reason for which the node is varied off.
    pub vary_off_reason: Option<String>,
    /// The shares on it, by job and then by number.
    pub shares: Vec<ShareOnNode>,
}

/// A share as its node sees it: job, share, order and state.
pub type ShareOnNode = (JobId, ShareId, Order, SharePhase);

/// A job and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Number of the job.
    pub id: JobId,
    /// User who submitted the job.
    pub user: Name,
    /// The class it was submitted to.
    pub class: Name,
    /// Kind of the job.
    pub kind: JobKind,
    /// Memory of each process, as declared.
    pub memory: Mebibytes,
    /// Nodes that get no further process of it.
    pub except_nodes: Vec<Name>,
    /// Tags that a node must have.
    pub tags: Tags,
    /// Chunks, sizes and duration; `None` for independent processes.
    pub shape: Option<Arc<Shape>>,
    /// Size of a process; `None` while the job is refused.
    pub order: Option<Order>,
    /// The quantum it is measured in; `None` while the work is refused.
    pub quantum: Option<Quantum>,
    /// Work items per process at a time.
    pub threads: u64,
    /// Time of submission.
    pub submitted: Millis,
    /// Facts of the job that change while it runs.
    pub facts: JobFacts,
    /// Processes that the job could use without pacing.
    pub demand: NShares,
    /// The most it could use now; `None` before its first cycle.
    pub cap: Option<Cap>,
    /// Fair share before bonus shares.
    pub pure_fair_share: QShares,
    /// Target of the job, as counted by How Much.
    pub target: NShares,
    /// Space promised to it.
    pub promised: NShares,
    /// Since which cycle it has been below its count and has got nothing; `None` if it is not, or
    /// has.
    pub behind_since: Option<u64>,
    /// Reason for which the job preempted nothing, though a rule allowed it.
    pub held_back: Option<Declined>,
    /// Effect of the last cycle on the job.
    pub disposition: JobDisposition,
    /// Reason for which the job has less than it wants.
    pub reason: Option<Waiting>,
    /// Expected start of a job that waits; `None` if no start can be told.
    pub start_estimate: Option<StartEstimate>,
    /// Start of work that stays, in milliseconds since the epoch; `None` if it waits, or if nothing
    /// depends on the time.
    pub started: Option<Millis>,
    /// Shares of the job, oldest first, leaving shares included.
    pub shares: ShareViews,
    /// Shares that died with their node and whose end the orchestrator has not confirmed: they
    /// hold no space, and their removal is repeated.
    pub purged: ShareViews,
    /// Preemptions from the job in the last cycle.
    pub preemptions: Vec<Preemption>,
    /// Promise to a job that came by the channel of urgent work.
    pub urgent: Option<Arc<UrgentGrant>>,
}

impl JobView {
    /// Demand, fair share, target and holdings of the job. Its shares count by their actual size,
    /// further processes by the size that the job asks for. `None` while it is refused.
    pub fn account(&self) -> Option<JobAccount> {
        let order = self.order?;
        let held = || self.shares.iter().filter(|share| share.state == SharePhase::Held);
        let amount: QShares = held().map(|share| share.order.qshares()).sum();
        let of = |nshares: NShares| match nshares.0.checked_sub(count(held())) {
            Some(more) => amount + self.further(NShares(more), order),
            None => nshares.of_order(order),
        };
        let demand = of(self.cap.map_or(self.demand, |cap| cap.nshares));
        let fair_share = self.pure_fair_share;
        Some(JobAccount { demand, fair_share, target: of(self.target), held: amount })
    }

    /// Amount that so many further processes of size `order` need; of all chunks of a gang, each by
    /// its own size.
    fn further(&self, nshares: NShares, order: Order) -> QShares {
        let gang = self.shape.as_deref().filter(|shape| shape.processes() == nshares.0);
        let sizes = gang.zip(self.quantum).and_then(|(shape, quantum)| {
            let chunks = shape.chunks.iter();
            let sizes = chunks.map(|chunk| {
                let order = quantum.order_of_work(chunk.memory)?;
                Some(NShares(chunk.count).of_order(order))
            });
            sizes.sum::<Option<QShares>>()
        });
        sizes.filter(|sizes| QShares(0) < *sizes).unwrap_or_else(|| nshares.of_order(order))
    }

    /// True while a job with legal sizes changes its size: new processes have not initialized, or
    /// old ones have not exited.
    pub fn is_adapting(&self) -> bool {
        let is_changing =
            |share: &ShareView| share.removal.is_some() || !share.facts.is_initialized;
        self.shape.as_deref().is_some_and(Shape::is_elastic) && self.shares.iter().any(is_changing)
    }

    /// Number of processes before and after the change of size that goes on; `None` if none does, or
    /// if the job only begins. A process counts as old once it has initialized.
    pub fn resize(&self) -> Option<(NShares, NShares)> {
        let shape = self.shape.as_deref()?;
        if !shape.is_elastic() && shape.elasticity != Some(Elasticity::Evolving) {
            return None;
        }
        let is_old =
            |share: &&ShareView| share.facts.is_initialized || share.state == SharePhase::Leaving;
        let (from, to) = (NShares(count(self.shares.iter().filter(is_old))), self.held());
        (NShares(0) < from && from != to).then_some((from, to))
    }

    /// For how many cycles it has been below its count and has got nothing, up to and with `cycle`.
    pub fn behind_cycles(&self, cycle: u64) -> u64 {
        self.behind_since.map_or(0, |since| (cycle + 1).saturating_sub(since))
    }

    /// Processes of a gang that have initialized, and all that it holds, while some of them have
    /// not. `None`: all have, or it is no gang.
    pub fn starting(&self) -> Option<(u64, u64)> {
        self.shape.as_deref().filter(|shape| shape.is_gang())?;
        let held = || self.shares.iter().filter(|share| share.state == SharePhase::Held);
        let ready = count(held().filter(|share| share.facts.is_initialized));
        let all = count(held());
        (ready < all).then_some((ready, all))
    }

    /// Number of shares that are not leaving.
    pub fn held(&self) -> NShares {
        NShares(self.shares.iter().filter(|share| share.state == SharePhase::Held).map(|_| 1).sum())
    }
}

/// Reason for which a job has less than it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The job is refused: the engine never considers it.
    Refused(Refusal),
    /// The engine gave a reason.
    Engine(WaitReason),
}

/// Reason for which the engine never considers a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No class of that name is configured.
    #[error("class `{class}` is not defined{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownClass {
        /// Class as requested.
        class: Name,
        /// The class with the most similar name.
        nearest: Option<Name>,
    },
    /// The class does not admit the user.
    #[error("user `{user}` may not use class `{class}`")]
    UserNotAllowed {
        /// User who submitted the job.
        user: Name,
        /// For which class.
        class: Name,
    },
    /// Work that cannot be preempted may not go to a fair-share class.
    #[error(
        "class `{class}` is fair-share, which may preempt; a {kind} needs a fixed-share or reserve class"
    )]
    PreemptableClass {
        /// Kind of the job.
        kind: &'static str,
        /// In which class.
        class: Name,
    },
    /// Requests of several processes at once are not allowed in the class.
    #[error("class `{class}` takes no gangs{}", allowing_text(allowing))]
    GangNotAllowed {
        /// Class as requested.
        class: Name,
        /// Classes that allow them, to the same user.
        allowing: Vec<Name>,
    },
    /// The declared duration is above the longest of the class.
    #[error("a duration of {} is more than class `{class}` allows, {}", crate::model::span(*duration), crate::model::span(*most))]
    TooLong {
        /// Class as requested.
        class: Name,
        /// Declared duration.
        duration: Millis,
        /// Longest duration that the class allows.
        most: Millis,
    },
    /// A publication brought a job of a class that takes urgent work only.
    #[error(
        "class `{class}` takes urgent work only; submit the job with `apportion urgent`, or POST /v1/urgent"
    )]
    OnlyUrgent {
        /// Class as requested.
        class: Name,
    },
    /// The memory has no order in this pool: it is zero, or more than can be counted.
    #[error("{memory} per process cannot be scheduled in quanta of {quantum}")]
    MemoryOutOfRange {
        /// Memory as requested.
        memory: Mebibytes,
        /// The quantum of the class's pool.
        quantum: Mebibytes,
    },
}

/// "; use `a` or `b`".
fn allowing_text(allowing: &[Name]) -> String {
    let names: Vec<String> = allowing.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; use {}", names.join(" or ")) }
}

/// Shares of a job. The next view shares the list while it stays unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareViews(Arc<[ShareView]>);

impl ShareViews {
    /// True if both are the same list in memory, so that no comparison is needed.
    pub(super) fn are_shared_with(&self, other: &ShareViews) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl FromIterator<ShareView> for ShareViews {
    fn from_iter<I: IntoIterator<Item = ShareView>>(shares: I) -> ShareViews {
        ShareViews(shares.into_iter().collect())
    }
}

impl Deref for ShareViews {
    type Target = [ShareView];

    fn deref(&self) -> &[ShareView] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a ShareViews {
    type Item = &'a ShareView;
    type IntoIter = std::slice::Iter<'a, ShareView>;

    fn into_iter(self) -> std::slice::Iter<'a, ShareView> {
        self.0.iter()
    }
}

/// A share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareView {
    /// Number of the share.
    pub id: ShareId,
    /// The node it is on.
    pub node: Name,
    /// Size of the share.
    pub order: Order,
    /// Memory of the share.
    pub memory: Mebibytes,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
    /// State of the share: held or leaving.
    pub state: SharePhase,
    /// Reason for which the share leaves; `None` while it is held.
    pub removal: Option<Removal>,
    /// True once the orchestrator has published the share; until then its assignment is repeated.
    pub is_seen: bool,
    /// Known facts of the share's process.
    pub facts: ShareFacts,
}

/// Reason for which a share has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Removal {
    /// Taken back for fairness.
    Preempted,
    /// The node was varied off.
    VariedOff,
    /// Configuration no longer allows it.
    Blacklisted,
    /// Another process of its gang was lost with a node.
    GangBroken,
    /// Maintenance of its node begins.
    Window,
    /// The class of its job closes.
    ClassClosed,
    /// The job runs longer than it declared, and its class ends such work.
    Overrun,
    /// The node died. The process is gone already; any remains of it are to be purged.
    NodeDied,
    /// The node has less than is booked there, and no process of the share was published yet.
    Withdrawn,
}

/// Effect of a cycle on a job.
///
/// A job can both grow and shrink in one cycle; then it is `Shrunken`. Design: "Dispatch".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobDisposition {
    /// The job got shares.
    Expanded,
    /// The job lost shares.
    Shrunken,
    /// The job kept its shares.
    Stable,
    /// The job has no share.
    Dormant,
    /// The job is a reservation that has its node.
    Reserved,
    /// The job was refused.
    Refused,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassView {
    /// Name of the class.
    pub name: Name,
    /// Number of jobs in the class.
    pub jobs: u64,
    /// Account of the class in the last cycle.
    pub account: JobAccount,
    /// Accounts of the class's users, by name; fair-share classes only.
    pub users: Vec<(Name, JobAccount)>,
    /// Savings of the class's users for their gangs, by name; fair-share classes only.
    pub turns: Vec<(Name, TurnSavings)>,
}
