//! The scheduler's full state as plain values: a scheduler restored from them plans the same
//! cycles.
//!
//! Derived state is left out (a node's pool, a job's admission), and so is the last cycle's report.
//! The next cycle computes both again. Nodes and users appear by name, so the order of their first
//! appearance does not matter.
//!
//! Heartbeats without news leave one trace: the set of nodes heard when an interval ends.
//! [`Scheduler::hearing`] returns that set and [`Scheduler::enter_hearing`] restores it. The
//! journal keeps it instead of the heartbeats.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scheduler;
use super::freeze::BookedPromise;
use super::gangs::TurnSavings;
use super::jobs::JobBook;
use super::nodes::{NodeBook, NodeKey, NodeTable};
use super::shares::{ShareBook, ShareList};
use super::tracked_job::TrackedJob;
use super::urgent::UrgentGrant;
use super::view::Removal;
use super::{UnattributedShare, quiescence::QuiescenceTracker};
use crate::engine::{GangProgress, Taking};
use crate::model::{
    JobId, JobSpec, Mebibytes, Millis, Name, NodeReport, Order, ShareFacts, ShareId, SharePhase,
    Topology, Window,
};

/// All that the next cycles follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerState {
    /// Configuration.
    pub topology: Arc<Topology>,
    /// The last cycle that was planned.
    pub cycle: u64,
    /// The first share number never issued.
    pub next_share: ShareId,
    /// Heartbeat intervals that ended, except intervals in which all nodes reported.
    pub interval: u64,
    /// Every node that is not forgotten, in the order in which that was.
    pub nodes: Vec<NodeRecord>,
    /// All work, by number.
    pub jobs: Vec<JobRecord>,
    /// Shares of work that could not be understood, by number.
    pub limbo: Vec<Limbo>,
    /// Shares from before a restart that were told to leave.
    pub told_to_leave: Vec<ShareId>,
    /// Nodes with a process published there by surprise, and with more booked than fits.
    pub crowded: Vec<Name>,
    /// Room already made and not yet taken, in the order in which it was promised.
    pub promises: Vec<PromiseRecord>,
    /// Savings of users for their gangs: class, user, and the account.
    pub turns: Vec<(Name, Name, TurnSavings)>,
    /// The jobs for which the last cycle did not come to search for room.
    pub put_off: Vec<JobId>,
    /// For how long nothing has changed.
    pub calm: CalmRecord,
    /// Time as it was told last.
    pub now: Option<Millis>,
    /// Windows that are not over, by name.
    pub windows: Vec<Window>,
    /// Hours of classes.
    pub hours: Vec<(Name, Vec<(Millis, Millis)>)>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold independently")]
pub struct NodeRecord {
    /// Last report of the node's agent.
    pub report: NodeReport,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// True if the node reported since the last interval ended.
    pub is_heard: bool,
    /// True if a share or a command names the node, but it has never reported.
    pub is_awaited: bool,
    /// True if the node is dead: its heartbeats stopped.
    pub is_dead: bool,
    /// True if the node's death is due in the next cycle, or held back.
    pub is_dying: bool,
    /// In which interval its heartbeats had stopped for too long.
    pub died_at: Option<u64>,
    /// True if an operator declared the node dead.
    pub is_given_up: bool,
    /// True if the orchestrator ever published a process on the node.
    pub has_had_work: bool,
    /// Heartbeat intervals with a report of the node, up to two.
    pub heard_intervals: u32,
    /// Reason for which the node is varied off; `None` if it is not.
    pub vary_off_reason: Option<String>,
}

/// A job and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Request as submitted, with the job's current facts.
    pub spec: JobSpec,
    /// Shares of the job, by number.
    pub shares: Vec<ShareRecord>,
    /// Shares that died with their node and whose end is not confirmed.
    pub purged: Vec<ShareRecord>,
    /// Since which cycle it has been below its count and has got nothing.
    pub behind_since: Option<u64>,
    /// True if the job's single process has ended.
    pub is_spent: bool,
    /// Start of a gang.
    pub gang: GangProgress,
    /// Promise to a job that came by the channel of urgent work.
    pub urgent: Option<UrgentGrant>,
}

/// A share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRecord {
    /// Number of the share.
    pub id: ShareId,
    /// Node of the share.
    pub node: Name,
    /// Size of the share.
    pub order: Order,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
    /// State of the share: held or leaving.
    pub state: SharePhase,
    /// Reason for which the share leaves; `None` while it is held.
    pub removal: Option<Removal>,
    /// True once the orchestrator has published the share.
    pub is_seen: bool,
    /// Known facts of the share's process.
    pub facts: ShareFacts,
}

/// A share of work that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limbo {
    /// Number of the share.
    pub id: ShareId,
    /// Node of the share.
    pub node: Name,
    /// Memory of the share, if known.
    pub memory: Option<Mebibytes>,
}

/// Room that was made for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromiseRecord {
    /// Beneficiary.
    pub job: JobId,
    /// Node with the promised space.
    pub node: Name,
    /// Size of the promised share.
    pub order: Order,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
}

/// For how long nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalmRecord {
    /// True if demand or supply changed since the last cycle.
    pub have_claims_changed: bool,
    /// True if any fact of any job changed since the last cycle.
    pub has_news: bool,
    /// Cycles since claims changed.
    pub quiet_cycles: u64,
    /// Cycles since there was news.
    pub rest_cycles: u64,
    /// Preemptions for fairness since claims changed: the donor, then the beneficiary.
    pub takings: Vec<(JobId, JobId)>,
    /// True if the last cycle ended before all jobs had their turn.
    pub is_unfinished: bool,
}

/// Nodes heard since the last interval ended, encoded by exceptions: a node that missed nothing so
/// far was heard, a node with missed heartbeats was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hearing {
    /// Nodes without a missed heartbeat that did not report; by name.
    pub silent: Vec<Name>,
    /// Nodes with missed heartbeats that reported; by name.
    pub back: Vec<Name>,
}

impl Scheduler {
    /// Returns the full state as plain values.
    pub fn books(&self) -> SchedulerState {
        let name = |node: NodeKey| self.nodes[node].report.name.clone();
        SchedulerState {
            topology: Arc::clone(&self.topology),
            cycle: self.cycle,
            next_share: ShareId(self.next_share),
            interval: self.nodes.interval,
            nodes: self.nodes.to_books(),
            jobs: self.jobs.by_number().map(|job| job.to_book(name)).collect(),
            limbo: self
                .limbo
                .iter()
                .map(|(&id, share)| Limbo { id, node: name(share.node), memory: share.memory })
                .collect(),
            told_to_leave: self.told_to_leave.iter().copied().collect(),
            crowded: self
                .crowded
                .iter()
                .map(|&node| name(node))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            promises: self
                .promises
                .iter()
                .map(|promise| PromiseRecord {
                    rank: promise.rank,
                    job: promise.job,
                    node: name(promise.node),
                    order: promise.order,
                })
                .collect(),
            turns: self
                .turns
                .iter()
                .map(|((class, user), savings)| (class.clone(), user.clone(), *savings))
                .collect(),
            put_off: self.put_off.clone(),
            calm: self.calm.to_book(),
            now: self.clock.now,
            hours: self.clock.hours.iter().map(|(name, of)| (name.clone(), of.clone())).collect(),
            windows: self.clock.windows.values().map(|it| Window::clone(it)).collect(),
        }
    }

    /// Restores a scheduler from `books`.
    pub fn from_books(books: SchedulerState) -> Scheduler {
        let SchedulerState { topology, cycle, next_share, interval, nodes, jobs, limbo, .. } =
            books;
        let mut scheduler = Scheduler::new(Topology::clone(&topology), next_share);
        scheduler.cycle = cycle;
        scheduler.nodes.interval = interval;
        for node in nodes {
            scheduler.nodes.enter_book(&topology, node);
        }
        for job in jobs {
            let user = scheduler.users.enter(&job.spec.user);
            let mut book = JobBook::new(job.spec, user, &topology);
            book.shares = shares(&mut scheduler.nodes, &topology, job.shares);
            book.purged = shares(&mut scheduler.nodes, &topology, job.purged);
            for share in book.shares.iter().filter(|share| share.is_seen) {
                scheduler.nodes.note_work(share.node);
            }
            book.is_spent = job.is_spent;
            book.gang = job.gang;
            book.restore_urgent(job.urgent, &topology);
            scheduler.jobs.enter(book, job.behind_since);
        }
        for Limbo { id, node, memory } in limbo {
            let node = scheduler.nodes.expect(&topology, &node);
            scheduler.limbo.insert(id, UnattributedShare { node, memory });
        }
        scheduler.told_to_leave.extend(books.told_to_leave);
        for node in books.crowded {
            let node = scheduler.nodes.expect(&topology, &node);
            scheduler.crowded.insert(node);
        }
        for PromiseRecord { job, node, order, rank } in books.promises {
            let node = scheduler.nodes.expect(&topology, &node);
            scheduler.promises.push(BookedPromise { job, node, order, rank });
        }
        let turns = books.turns.into_iter();
        scheduler.turns = turns.map(|(class, user, savings)| ((class, user), savings)).collect();
        scheduler.put_off = books.put_off;
        scheduler.calm = QuiescenceTracker::from_book(books.calm);
        scheduler.clock.now = books.now;
        scheduler.clock.hours = Arc::new(books.hours.into_iter().collect());
        let windows = books.windows.into_iter();
        scheduler.clock.windows =
            windows.map(|window| (window.name.clone(), Arc::new(window))).collect();
        scheduler
    }

    /// Returns the nodes heard since the last interval ended, by exceptions.
    pub fn hearing(&self) -> Hearing {
        let mut hearing = Hearing::default();
        for (_, node) in self.nodes.by_name() {
            match (node.missed, node.is_heard) {
                (0, false) => hearing.silent.push(node.report.name.clone()),
                (1.., true) => hearing.back.push(node.report.name.clone()),
                (0, true) | (1.., false) => {}
            }
        }
        hearing
    }

    /// Restores the set of nodes heard, in place of the routine heartbeats.
    pub fn enter_hearing(&mut self, hearing: &Hearing) {
        let (silent, back): (BTreeSet<&Name>, BTreeSet<&Name>) =
            (hearing.silent.iter().collect(), hearing.back.iter().collect());
        self.nodes.enter_heard(|node| {
            let name = &node.report.name;
            if node.missed == 0 { !silent.contains(name) } else { back.contains(name) }
        });
    }

    /// Counts missed heartbeats from zero, as the daemon could not receive any. Dead nodes stay
    /// dead, and deaths that are held back stay held back.
    pub fn restart_hearing(&mut self) {
        self.is_changed = true;
        self.nodes.restart_hearing();
    }
}

fn shares(nodes: &mut NodeTable, topology: &Topology, from: Vec<ShareRecord>) -> ShareList {
    let mut shares = ShareList::default();
    for share in from {
        let ShareRecord { id, node, order, rank, state, removal, is_seen, facts } = share;
        let node = nodes.expect(topology, &node);
        shares.insert(ShareBook { id, node, order, rank, state, removal, is_seen, facts });
    }
    shares
}

impl NodeTable {
    fn to_books(&self) -> Vec<NodeRecord> {
        let nodes = self.books().map(|(node, book)| NodeRecord {
            report: book.report.clone(),
            missed: book.missed,
            is_heard: book.is_heard,
            is_awaited: book.is_awaited,
            is_dead: book.is_dead,
            is_dying: self.dying.contains(&node),
            died_at: book.died_at,
            is_given_up: book.is_given_up,
            has_had_work: book.has_had_work,
            heard_intervals: book.heard_intervals,
            vary_off_reason: book.vary_off_reason.clone(),
        });
        nodes.collect()
    }

    fn enter_book(&mut self, topology: &Topology, node: NodeRecord) {
        let book = NodeBook {
            missed: node.missed,
            is_heard: node.is_heard,
            is_awaited: node.is_awaited,
            is_dead: node.is_dead,
            died_at: node.died_at.or(node.is_dying.then_some(self.interval)),
            is_given_up: node.is_given_up,
            has_had_work: node.has_had_work,
            heard_intervals: node.heard_intervals,
            vary_off_reason: node.vary_off_reason,
            ..NodeBook::new(node.report)
        };
        let place = self.enter(topology, book);
        if node.is_dying {
            self.dying.insert(place);
        }
    }
}

impl TrackedJob {
    fn to_book(&self, name: impl Fn(NodeKey) -> Name) -> JobRecord {
        let to_books = |shares: &ShareList| {
            let shares = shares.iter().map(|share| ShareRecord {
                rank: share.rank,
                id: share.id,
                node: name(share.node),
                order: share.order,
                state: share.state,
                removal: share.removal,
                is_seen: share.is_seen,
                facts: share.facts,
            });
            shares.collect()
        };
        JobRecord {
            gang: self.gang,
            urgent: self.urgent.as_deref().cloned(),
            spec: self.spec.clone(),
            shares: to_books(&self.shares),
            purged: to_books(&self.purged),
            behind_since: self.behind_since(),
            is_spent: self.is_spent,
        }
    }
}

impl QuiescenceTracker {
    fn to_book(&self) -> CalmRecord {
        CalmRecord {
            have_claims_changed: self.have_claims_changed,
            has_news: self.has_news,
            quiet_cycles: self.quiet_cycles,
            rest_cycles: self.rest_cycles,
            takings: self.takings.iter().map(|taking| (taking.from, taking.by)).collect(),
            is_unfinished: self.is_unfinished,
        }
    }

    fn from_book(calm: CalmRecord) -> QuiescenceTracker {
        let takings = calm.takings.into_iter().map(|(from, by)| Taking { from, by });
        QuiescenceTracker {
            have_claims_changed: calm.have_claims_changed,
            has_news: calm.has_news,
            quiet_cycles: calm.quiet_cycles,
            rest_cycles: calm.rest_cycles,
            takings: takings.collect(),
            is_unfinished: calm.is_unfinished,
        }
    }
}
