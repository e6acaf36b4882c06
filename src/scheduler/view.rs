//! The books as readers see them: one immutable picture, taken after a cycle.
//!
//! Queries, the update for the orchestrator and what is stored are all made from the same
//! [`View`], so they cannot disagree.

use std::ops::Deref;
use std::sync::Arc;

use super::pictures::Pictures;
use crate::engine::{Account, Cap, HeldBack, Preemption, Reason, Schedule, Snapshot};
use crate::model::{
    JobFacts, JobId, MachineState, Mebibytes, Millis, NShares, Name, Order, QShares, Quantum,
    ShareFacts, ShareId, ShareState, Topology, WorkKind,
};

/// The cluster after a cycle.
#[derive(Clone, Debug)]
pub struct View {
    /// How many cycles have run. 0 before the first.
    pub cycle: u64,
    /// What was configured.
    pub topology: Arc<Topology>,
    /// Every node ever seen, by name.
    pub nodes: Arc<Pictures<NodeView>>,
    /// All work, oldest first; refused work included.
    pub jobs: Arc<Pictures<JobView>>,
    /// Every class, in order of configuration.
    pub classes: Arc<Vec<ClassView>>,
    /// Every node that is varied off, with the reason, whether it has reported or not.
    pub varied_off: Vec<(Name, String)>,
    /// Nodes that went silent together in such numbers that their work is not given up yet.
    pub lost_held_back: Vec<Name>,
    /// What the engine saw in this cycle, and what it decided; for the audit and for explanations.
    /// `None` before the first cycle.
    pub planned: Option<Arc<Planned>>,
    /// The next share number, never used before.
    pub next_share: ShareId,
}

impl View {
    /// How many jobs the safety net held back in this cycle.
    pub fn net_strikes(&self) -> u64 {
        self.planned.as_ref().map_or(0, |planned| planned.schedule.report.net_strikes)
    }
}

/// One cycle's question and answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The question.
    pub snapshot: Snapshot,
    /// The answer.
    pub schedule: Arc<Schedule>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: Name,
    /// The name of its pool.
    pub pool: Name,
    /// The quantum of its pool's tree.
    pub quantum: Quantum,
    /// Memory it reported.
    pub memory: Mebibytes,
    /// The size it is scheduled by.
    pub order: QShares,
    /// What is taken, by shares that are leaving too.
    pub used: QShares,
    /// Whether it gets work, and if not, why.
    pub state: MachineState,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// Why it was varied off.
    pub vary_off_reason: Option<String>,
    /// The shares on it, by job and then by number.
    pub shares: Vec<ShareOnNode>,
}

/// A share as its node sees it: job, share, order and state.
pub type ShareOnNode = (JobId, ShareId, Order, ShareState);

/// A request for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its number.
    pub id: JobId,
    /// Who submitted it.
    pub user: Name,
    /// The class it was submitted to.
    pub class: Name,
    /// What kind of work it is.
    pub kind: WorkKind,
    /// Memory of each process, as declared.
    pub memory: Mebibytes,
    /// The size of one process; `None` while the work is refused.
    pub order: Option<Order>,
    /// The quantum it is measured in; `None` while the work is refused.
    pub quantum: Option<Quantum>,
    /// Work items per process at a time.
    pub threads: u64,
    /// When it was submitted.
    pub submitted: Millis,
    /// What changes about it.
    pub facts: JobFacts,
    /// What it could use without pacing.
    pub wanted: NShares,
    /// The most it could use now; `None` before its first cycle.
    pub cap: Option<Cap>,
    /// What it deserves before bonus shares.
    pub pure_fair_share: QShares,
    /// What How Much counted for it.
    pub given: NShares,
    /// Room promised to it.
    pub promised: NShares,
    /// Since which cycle it has been below its count and has got nothing; `None` if it is not, or
    /// has.
    pub behind_since: Option<u64>,
    /// Why it took no room from others that it had a right to.
    pub held_back: Option<HeldBack>,
    /// How the last cycle left it.
    pub disposition: Disposition,
    /// Why it has less than it wants.
    pub reason: Option<Waiting>,
    /// Its shares, oldest first, those that are leaving included.
    pub shares: ShareViews,
    /// Shares that died with their node and whose end the orchestrator has not confirmed: they
    /// hold no space, and their removal is repeated.
    pub purged: ShareViews,
    /// What the last cycle took from it.
    pub preemptions: Vec<Preemption>,
}

impl JobView {
    /// For how many cycles it has been below its count and has got nothing, up to and with `cycle`.
    pub fn behind_cycles(&self, cycle: u64) -> u64 {
        self.behind_since.map_or(0, |since| (cycle + 1).saturating_sub(since))
    }

    /// How many shares are not leaving.
    pub fn held(&self) -> NShares {
        NShares(self.shares.iter().filter(|share| share.state == ShareState::Held).map(|_| 1).sum())
    }
}

/// Why work has less than it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It was never considered.
    Refused(Refusal),
    /// The engine said why.
    Engine(Reason),
}

/// Why work is not considered at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No class of that name is configured.
    #[error("class `{class}` is not defined{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownClass {
        /// As asked for.
        class: Name,
        /// The class with the most similar name.
        nearest: Option<Name>,
    },
    /// The class is restricted to others.
    #[error("user `{user}` may not use class `{class}`")]
    UserNotAllowed {
        /// Who asked.
        user: Name,
        /// For which class.
        class: Name,
    },
    /// Work that cannot be preempted may not go to a fair-share class.
    #[error(
        "class `{class}` is fair-share, which may preempt; a {kind} needs a fixed-share or reserve class"
    )]
    PreemptableClass {
        /// What kind of work.
        kind: &'static str,
        /// In which class.
        class: Name,
    },
    /// Its memory has no order in this pool: none at all, or more than can be counted.
    #[error("{memory} per process cannot be scheduled in quanta of {quantum}")]
    MemoryOutOfRange {
        /// As asked for.
        memory: Mebibytes,
        /// The quantum of the class's pool.
        quantum: Mebibytes,
    },
}

/// The shares of a request. The next picture has the same, as long as nothing is done to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareViews(Arc<[ShareView]>);

impl ShareViews {
    /// Whether both are one list, so that there is nothing to compare.
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
    /// Its number.
    pub id: ShareId,
    /// The node it is on.
    pub node: Name,
    /// Its size.
    pub order: Order,
    /// Its size in memory.
    pub memory: Mebibytes,
    /// Whether it is on its way out.
    pub state: ShareState,
    /// Why it is on its way out.
    pub removal: Option<Removal>,
    /// Whether the orchestrator has shown it to us; until then its assignment is repeated.
    pub is_seen: bool,
    /// What is known of its process.
    pub facts: ShareFacts,
}

/// Why a share has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Removal {
    /// Taken back for fairness.
    Preempted,
    /// Its node was varied off.
    VariedOff,
    /// Configuration no longer allows it.
    Blacklisted,
    /// Its node died. The process is gone already; whatever is left of it is to be purged.
    NodeDied,
    /// Its node has less than is booked there, and no process was shown in it yet.
    Withdrawn,
}

/// How a cycle left a job.
///
/// Design: "Dispatch". A job can both grow and shrink in one cycle; then it is `Shrunken`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// It got shares.
    Expanded,
    /// It lost shares.
    Shrunken,
    /// It kept what it had.
    Stable,
    /// It has nothing.
    Dormant,
    /// It is a reservation that has its machine.
    Reserved,
    /// It was refused.
    Refused,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassView {
    /// Its name.
    pub name: Name,
    /// How many jobs it has.
    pub jobs: u64,
    /// Its account in the last cycle.
    pub account: Account,
    /// Its users' accounts, by name; fair-share classes only.
    pub users: Vec<(Name, Account)>,
}
