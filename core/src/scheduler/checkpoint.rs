//! The scheduler's full state as plain values: a scheduler restored from them plans the same
//! cycles.
//!
//! Derived state is left out (a node's pool, a job's admission), and so is the last cycle's report.
//! The next cycle computes both again. Nodes and users appear by name, so the order of their first
//! appearance does not matter.
//!
//! Heartbeats without news leave one trace: the set of nodes that reported before an interval ends.
//! [`Scheduler::heartbeat_exceptions`] returns that set and [`Scheduler::restore_heartbeats`] restores it. The
//! journal keeps it instead of the heartbeats.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scheduler;
use super::freeze::PromiseRecord;
use super::gangs::TurnSavings;
use super::jobs::JobRecord;
use super::nodes::{NodeKey, NodeRecord, NodeTable};
use super::shares::{ShareList, ShareRecord};
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
    pub nodes: Vec<SavedNode>,
    /// All work, by number.
    pub jobs: Vec<SavedJob>,
    /// Shares of work that could not be understood, by number.
    pub limbo: Vec<Limbo>,
    /// Terminating shares from before a restart.
    pub told_to_leave: Vec<ShareId>,
    /// Nodes with a process published there by surprise, and with more booked than fits.
    pub crowded: Vec<Name>,
    /// Space already made and not yet taken, in the order in which it was promised.
    pub promises: Vec<SavedPromise>,
    /// Savings of users for their gangs: class, user, and the account.
    pub turns: Vec<(Name, Name, TurnSavings)>,
    /// The jobs for which the last cycle did not come to search for space.
    pub put_off: Vec<JobId>,
    /// For how long nothing has changed.
    pub quiescence: SavedQuiescence,
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
pub struct SavedNode {
    /// Last report of the node's agent.
    pub report: NodeReport,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// True if the node reported since the last interval ended.
    pub has_reported: bool,
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
pub struct SavedJob {
    /// Request as submitted, with the job's current facts.
    pub spec: JobSpec,
    /// Shares of the job, by number.
    pub shares: Vec<SavedShare>,
    /// Shares that died with their node and whose end is not confirmed.
    pub purged: Vec<SavedShare>,
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
pub struct SavedShare {
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

/// Space that was made for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPromise {
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
pub struct SavedQuiescence {
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

/// Nodes that reported since the last interval ended, encoded by exceptions: a node that missed
/// nothing so far reported, a node with missed heartbeats did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatExceptions {
    /// Nodes without a missed heartbeat that did not report; by name.
    pub silent: Vec<Name>,
    /// Nodes with missed heartbeats that reported; by name.
    pub back: Vec<Name>,
}

impl Scheduler {
    /// Returns the full state as plain values.
    pub fn state(&self) -> SchedulerState {
        let name = |node: NodeKey| self.nodes[node].report.name.clone();
        SchedulerState {
            topology: Arc::clone(&self.topology),
            cycle: self.cycle,
            next_share: ShareId(self.next_share),
            interval: self.nodes.interval,
            nodes: self.nodes.to_saved(),
            jobs: self.jobs.by_number().map(|job| job.to_saved(name)).collect(),
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
                .map(|promise| SavedPromise {
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
            quiescence: self.quiescence.to_saved(),
            now: self.clock.now,
            hours: self.clock.hours.iter().map(|(name, of)| (name.clone(), of.clone())).collect(),
            windows: self.clock.windows.values().map(|it| Window::clone(it)).collect(),
        }
    }

    /// Restores a scheduler from `state`.
    pub fn from_state(state: SchedulerState) -> Scheduler {
        let SchedulerState { topology, cycle, next_share, interval, nodes, jobs, limbo, .. } =
            state;
        let mut scheduler = Scheduler::new(Topology::clone(&topology), next_share);
        scheduler.cycle = cycle;
        scheduler.nodes.interval = interval;
        for node in nodes {
            scheduler.nodes.enter_saved(&topology, node);
        }
        for job in jobs {
            let user = scheduler.users.enter(&job.spec.user);
            let mut record = JobRecord::new(job.spec, user, &topology);
            record.shares = shares(&mut scheduler.nodes, &topology, job.shares);
            record.purged = shares(&mut scheduler.nodes, &topology, job.purged);
            for share in record.shares.iter().filter(|share| share.is_seen) {
                scheduler.nodes.note_work(share.node);
            }
            record.is_spent = job.is_spent;
            record.gang = job.gang;
            record.restore_urgent(job.urgent, &topology);
            scheduler.jobs.enter(record, job.behind_since);
        }
        for Limbo { id, node, memory } in limbo {
            let node = scheduler.nodes.expect(&topology, &node);
            scheduler.limbo.insert(id, UnattributedShare { node, memory });
        }
        scheduler.told_to_leave.extend(state.told_to_leave);
        for node in state.crowded {
            let node = scheduler.nodes.expect(&topology, &node);
            scheduler.crowded.insert(node);
        }
        for SavedPromise { job, node, order, rank } in state.promises {
            let node = scheduler.nodes.expect(&topology, &node);
            scheduler.promises.push(PromiseRecord { job, node, order, rank });
        }
        let turns = state.turns.into_iter();
        scheduler.turns = turns.map(|(class, user, savings)| ((class, user), savings)).collect();
        scheduler.put_off = state.put_off;
        scheduler.quiescence = QuiescenceTracker::from_saved(state.quiescence);
        scheduler.clock.now = state.now;
        scheduler.clock.hours = Arc::new(state.hours.into_iter().collect());
        let windows = state.windows.into_iter();
        scheduler.clock.windows =
            windows.map(|window| (window.name.clone(), Arc::new(window))).collect();
        scheduler
    }

    /// Returns the nodes that reported since the last interval ended, by exceptions.
    pub fn heartbeat_exceptions(&self) -> HeartbeatExceptions {
        let mut exceptions = HeartbeatExceptions::default();
        for (_, node) in self.nodes.by_name() {
            match (node.missed, node.has_reported) {
                (0, false) => exceptions.silent.push(node.report.name.clone()),
                (1.., true) => exceptions.back.push(node.report.name.clone()),
                (0, true) | (1.., false) => {}
            }
        }
        exceptions
    }

    /// Restores the set of nodes that reported, in place of the routine heartbeats.
    pub fn restore_heartbeats(&mut self, exceptions: &HeartbeatExceptions) {
        let (silent, back): (BTreeSet<&Name>, BTreeSet<&Name>) =
            (exceptions.silent.iter().collect(), exceptions.back.iter().collect());
        self.nodes.enter_reported(|node| {
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

fn shares(nodes: &mut NodeTable, topology: &Topology, from: Vec<SavedShare>) -> ShareList {
    let mut shares = ShareList::default();
    for share in from {
        let SavedShare { id, node, order, rank, state, removal, is_seen, facts } = share;
        let node = nodes.expect(topology, &node);
        shares.insert(ShareRecord { id, node, order, rank, state, removal, is_seen, facts });
    }
    shares
}

impl NodeTable {
    fn to_saved(&self) -> Vec<SavedNode> {
        let nodes = self.records().map(|(node, record)| SavedNode {
            report: record.report.clone(),
            missed: record.missed,
            has_reported: record.has_reported,
            is_awaited: record.is_awaited,
            is_dead: record.is_dead,
            is_dying: self.dying.contains(&node),
            died_at: record.died_at,
            is_given_up: record.is_given_up,
            has_had_work: record.has_had_work,
            heard_intervals: record.heard_intervals,
            vary_off_reason: record.vary_off_reason.clone(),
        });
        nodes.collect()
    }

    fn enter_saved(&mut self, topology: &Topology, node: SavedNode) {
        let record = NodeRecord {
            missed: node.missed,
            has_reported: node.has_reported,
            is_awaited: node.is_awaited,
            is_dead: node.is_dead,
            died_at: node.died_at.or(node.is_dying.then_some(self.interval)),
            is_given_up: node.is_given_up,
            has_had_work: node.has_had_work,
            heard_intervals: node.heard_intervals,
            vary_off_reason: node.vary_off_reason,
            ..NodeRecord::new(node.report)
        };
        let place = self.enter(topology, record);
        if node.is_dying {
            self.dying.insert(place);
        }
    }
}

impl TrackedJob {
    fn to_saved(&self, name: impl Fn(NodeKey) -> Name) -> SavedJob {
        let to_saved = |shares: &ShareList| {
            let shares = shares.iter().map(|share| SavedShare {
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
        SavedJob {
            gang: self.gang,
            urgent: self.urgent.as_deref().cloned(),
            spec: self.spec.clone(),
            shares: to_saved(&self.shares),
            purged: to_saved(&self.purged),
            behind_since: self.behind_since(),
            is_spent: self.is_spent,
        }
    }
}

impl QuiescenceTracker {
    fn to_saved(&self) -> SavedQuiescence {
        SavedQuiescence {
            have_claims_changed: self.have_claims_changed,
            has_news: self.has_news,
            quiet_cycles: self.quiet_cycles,
            rest_cycles: self.rest_cycles,
            takings: self.takings.iter().map(|taking| (taking.from, taking.by)).collect(),
            is_unfinished: self.is_unfinished,
        }
    }

    fn from_saved(quiescence: SavedQuiescence) -> QuiescenceTracker {
        let takings = quiescence.takings.into_iter().map(|(from, by)| Taking { from, by });
        QuiescenceTracker {
            have_claims_changed: quiescence.have_claims_changed,
            has_news: quiescence.has_news,
            quiet_cycles: quiescence.quiet_cycles,
            rest_cycles: quiescence.rest_cycles,
            takings: takings.collect(),
            is_unfinished: quiescence.is_unfinished,
        }
    }
}
