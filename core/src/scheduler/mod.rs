//! The middle layer: keeps the cluster's state, feeds the engine, applies its decisions.
//!
//! Stateful but not concurrent: no task, no lock, no I/O, and no clock. Events are recorded as they
//! come; planning happens when [`Scheduler::schedule`] is called.
//!
//! Design: "Middle Layer: Scheduler".

mod apply;
pub mod checkpoint;
mod clock;
mod command;
mod event;
mod evict;
mod freeze;
mod gangs;
mod jobs;
mod losses;
mod node_tags;
mod node_views;
mod nodes;
mod quiescence;
mod shared_list;
mod shares;
mod sizes;
mod tracked_job;
mod trial;
mod urgent;
mod users;
mod view;

pub use command::{AdminCommand, CommandError, CommandOutcome, UnknownNode};
pub use event::{EventEffect, SchedulerEvent};
pub use jobs::{Admission, admit};
pub use shared_list::SharedList;
pub use trial::{CommandImpact, Holding, MovedStart};
pub use urgent::{JobChannel, UrgentDenial, UrgentGrant, UrgentVerdict, UrgentVictim};
pub use view::{
    ClassView, JobDisposition, JobView, NodeView, Planned, Refusal, Removal, ShareOnNode,
    ShareView, ShareViews, View, Waiting,
};

/// Parts of a [`View`] that the engine made, for readers who do not know the engine.
pub use crate::engine::{
    Alternatives, Cap, Declined, JobAccount, Preemption, UrgentRefusal, VictimRule,
};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{self, CycleSchedule, Effort, Snapshot};
use crate::model::{
    JobId, JobKind, JobSpec, Mebibytes, Name, NodeIx, ShareFacts, ShareId, SharePhase, Tags,
    Topology,
};
use clock::SchedulerClock;
use freeze::{CachedNodes, PromiseRecord};
use gangs::TurnRecord;
pub use gangs::TurnSavings;
use jobs::JobRecord;
use nodes::{NodeKey, NodeTable};
use quiescence::QuiescenceTracker;
use shares::ShareRecord;
use sizes::jobs_order;
use tracked_job::{Jobs, TrackedJob};
use users::Users;

/// Bound above all issued share numbers: at a million a second it is reached after a century.
const MAX_TRACKED_SHARE_ID: u64 = 1 << 52;

/// A share of work that could not be understood, or a process elsewhere than its share.
#[derive(Clone, Debug)]
struct UnattributedShare {
    node: NodeKey,
    memory: Option<Mebibytes>,
}

/// State of the cluster.
#[derive(Clone, Debug)]
pub struct Scheduler {
    topology: Arc<Topology>,
    cycle: u64,
    next_share: u64,
    nodes: NodeTable,
    jobs: Jobs,
    users: Users,
    /// Shares of work that could not be understood.
    limbo: BTreeMap<ShareId, UnattributedShare>,
    /// Terminating shares from before a restart.
    told_to_leave: BTreeSet<ShareId>,
    promises: Vec<PromiseRecord>,
    /// Savings of users for their gangs.
    turns: TurnRecord,
    /// The jobs for which the last cycle did not come to search for space.
    put_off: Vec<JobId>,
    quiescence: QuiescenceTracker,
    clock: SchedulerClock,
    planned: Option<Arc<Planned>>,
    /// True if an input since the last cycle, or that cycle itself, may change the next cycle's
    /// outcome.
    is_changed: bool,
    /// Nodes in the last cycle's snapshot.
    frozen_nodes: Option<CachedNodes>,
    /// Rows of the nodes that have certain tags, of the last snapshot.
    tag_lists: BTreeMap<Tags, Arc<[NodeIx]>>,
    /// View published after the last cycle.
    last_view: Option<View>,
    /// Names of forgotten nodes that other parts of the daemon may still keep.
    forgotten: Vec<Name>,
    /// Nodes with a process published there by surprise: they may have more booked than fits.
    crowded: BTreeSet<NodeKey>,
    /// Urgent requests on which the next cycle decides.
    urgent: Vec<JobSpec>,
    /// Decisions of the last cycle on urgent requests.
    verdicts: Arc<Vec<UrgentVerdict>>,
}

impl Scheduler {
    /// A scheduler without nodes and jobs. The first share issued will be `next_share`, a number
    /// never used before.
    pub fn new(topology: Topology, next_share: ShareId) -> Scheduler {
        Scheduler {
            nodes: NodeTable::new(&topology),
            topology: Arc::new(topology),
            cycle: 0,
            next_share: next_share.0,
            jobs: Jobs::default(),
            users: Users::default(),
            limbo: BTreeMap::new(),
            told_to_leave: BTreeSet::new(),
            promises: Vec::new(),
            turns: TurnRecord::new(),
            put_off: Vec::new(),
            quiescence: QuiescenceTracker::default(),
            clock: SchedulerClock::default(),
            planned: None,
            is_changed: true,
            frozen_nodes: None,
            tag_lists: BTreeMap::new(),
            last_view: None,
            forgotten: Vec::new(),
            crowded: BTreeSet::new(),
            urgent: Vec::new(),
            verdicts: Arc::default(),
        }
    }

    /// Numbers the next cycle `cycle + 1`: cycles are counted on across restarts.
    pub fn resume_after_cycle(&mut self, cycle: u64) {
        self.cycle = cycle;
    }

    /// Enters that these nodes were varied off, before any of them has reported: what the store
    /// remembers after a restart.
    pub fn restore_varied_off(&mut self, nodes: impl IntoIterator<Item = (Name, String)>) {
        self.nodes.restore_varied_off(&self.topology, nodes);
    }

    /// Restores the terminating shares of an earlier run, before the orchestrator has published
    /// them again. A published preemption is final, even if the orchestrator forgot it.
    pub fn restore_leaving(&mut self, shares: impl IntoIterator<Item = ShareId>) {
        self.told_to_leave.extend(shares);
    }

    /// Records an event. Never plans: cycles have a pace of their own, independent of the
    /// network's.
    pub fn record(&mut self, event: SchedulerEvent) -> EventEffect {
        self.record_with(event, |_, _| ())
    }

    /// Records an event like [`Scheduler::record`]. News are handed to `enter` before they are
    /// applied, with the state before them.
    pub fn record_with(
        &mut self,
        event: SchedulerEvent,
        enter: impl FnOnce(&Scheduler, &SchedulerEvent),
    ) -> EventEffect {
        let change = match &event {
            // Most heartbeats of ten thousand nodes are routine: they need no more than this mark.
            SchedulerEvent::NodeReported(report) if self.nodes.note_routine_heartbeat(report) => {
                return EventEffect::Routine;
            }
            SchedulerEvent::HeartbeatIntervalPassed if self.nodes.were_all_heard() => {
                EventEffect::Routine
            }
            SchedulerEvent::TimeIs { now } if !self.is_time_news(*now) => {
                return EventEffect::Routine;
            }
            SchedulerEvent::NodeReported(_)
            | SchedulerEvent::TimeIs { .. }
            | SchedulerEvent::ClassHours { .. }
            | SchedulerEvent::HeartbeatIntervalPassed
            | SchedulerEvent::NodeMissedHeartbeats { .. }
            | SchedulerEvent::NodeDied { .. }
            | SchedulerEvent::JobArrived(_)
            | SchedulerEvent::JobChanged { .. }
            | SchedulerEvent::JobRetimed { .. }
            | SchedulerEvent::JobExcepted { .. }
            | SchedulerEvent::JobCompleted { .. }
            | SchedulerEvent::ShareSeen { .. }
            | SchedulerEvent::LimboShareSeen { .. }
            | SchedulerEvent::LimboShareGone { .. }
            | SchedulerEvent::ShareExited { .. } => EventEffect::News,
        };
        if change == EventEffect::News {
            enter(self, &event);
            self.is_changed = true;
        }
        self.notice(&event);
        self.apply_event(event);
        change
    }

    /// Enters an event into the state.
    fn apply_event(&mut self, event: SchedulerEvent) {
        let stability = self.topology.settings.node_stability;
        match event {
            SchedulerEvent::NodeReported(report) => {
                if let Some(back) = self.nodes.report(&self.topology, report) {
                    self.recount_lost(back);
                    self.crowded.insert(back);
                }
            }
            SchedulerEvent::HeartbeatIntervalPassed => self.nodes.end_interval(stability),
            SchedulerEvent::NodeMissedHeartbeats { node, missed } => {
                self.nodes.miss(&node, missed, stability);
            }
            SchedulerEvent::NodeDied { node } => self.nodes.die(&node),
            SchedulerEvent::TimeIs { now } => self.set_time(now),
            SchedulerEvent::ClassHours { hours } => self.set_hours(&hours),
            SchedulerEvent::JobArrived(spec) => {
                if !self.jobs.contains(spec.id) {
                    let user = self.users.enter(&spec.user);
                    self.jobs.enter(JobRecord::new(spec, user, &self.topology), None);
                }
            }
            SchedulerEvent::JobChanged { job, facts } => {
                let job = self.jobs.get_mut(job).filter(|job| job.spec.facts != facts);
                if let Some(job) = job {
                    job.spec.facts = facts;
                }
            }
            SchedulerEvent::JobRetimed { job, times } => self.retime(job, times),
            SchedulerEvent::JobExcepted { job, nodes } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.spec.except_nodes = nodes;
                }
            }
            SchedulerEvent::JobCompleted { job } => {
                if let Some(mut gone) = self.jobs.remove(job) {
                    let refund = gone.end_turn(self.cycle + 1, false);
                    if let Some(refund) = refund {
                        self.pay_back(&refund);
                    }
                    self.users.leave(&gone.spec.user);
                    self.promises.retain(|promise| promise.job != job);
                }
            }
            SchedulerEvent::ShareSeen { job, share, node, facts } => {
                self.observe_share(job, share, &node, facts);
            }
            SchedulerEvent::LimboShareSeen { share, node, memory } => {
                let node = self.nodes.expect(&self.topology, &node);
                // A process on another node than its share takes space on both nodes.
                let is_there = |share: &ShareRecord| share.node == node;
                let is_known = |job: &TrackedJob| job.shares.get(share).is_some_and(is_there);
                self.crowded.insert(node);
                self.nodes.note_work(node);
                if !self.jobs.values().any(is_known) {
                    self.limbo.insert(share, UnattributedShare { node, memory });
                    self.reserve_share_id(share);
                }
            }
            SchedulerEvent::LimboShareGone { share } => {
                self.limbo.remove(&share);
            }
            SchedulerEvent::ShareExited { job, share } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.end_share(share);
                }
            }
        }
    }

    /// Carries out an administrative act.
    ///
    /// # Errors
    ///
    /// If it names something that does not exist; then nothing is done.
    pub fn command(&mut self, command: AdminCommand) -> Result<CommandOutcome, CommandError> {
        let outcome = match command {
            AdminCommand::VaryOff { nodes, reason } => self.nodes.vary_off(&nodes, &reason)?,
            AdminCommand::VaryOn { nodes } => self.nodes.vary_on(&nodes)?,
            AdminCommand::NodesLost { nodes, .. } => self.nodes.lose(&nodes)?,
            AdminCommand::ForgetNodes { nodes, .. } => self.forget_nodes(&nodes)?,
            AdminCommand::Reserve { window, is_forced } => self.reserve(&window, is_forced)?,
            AdminCommand::Unreserve { name } => self.unreserve(&name),
            // A request that is refused leaves no trace.
            AdminCommand::Urgent(spec) => return self.ask_urgently(*spec),
            AdminCommand::Reconfigure(topology) => {
                self.reconfigure(*topology);
                CommandOutcome::default()
            }
        };
        self.quiescence.stir();
        self.is_changed = true;
        Ok(outcome)
    }

    /// Plans over all recorded inputs and applies the schedule.
    ///
    /// If nothing was recorded and time alone changes nothing, the outcome is that of the last
    /// cycle, without planning.
    pub fn schedule(&mut self) -> View {
        self.schedule_with(&Effort::default())
    }

    /// Plans like [`Scheduler::schedule`], with this `effort`.
    pub fn schedule_with(&mut self, effort: &Effort) -> View {
        self.verdicts = Arc::default();
        if self.urgent.is_empty() {
            self.schedule_usual(effort)
        } else {
            self.schedule_urgent(effort)
        }
    }

    /// Plans a cycle without decisions on urgent requests.
    fn schedule_usual(&mut self, effort: &Effort) -> View {
        self.cycle += 1;
        if let Some(view) = self.reuse_last_cycle() {
            return view;
        }
        let snapshot = self.prepare();
        effort.end_phase();
        let schedule = engine::plan_with(&snapshot, effort);
        effort.end_phase();
        self.conclude(snapshot, schedule, effort)
    }

    /// Brings the state up to the cycle, and returns its snapshot.
    fn prepare(&mut self) -> Snapshot {
        for job in self.jobs.values_mut() {
            job.begin_cycle();
        }
        self.lose_dead_nodes();
        self.forget_passing_names();
        self.quiescence.begin_cycle();
        self.measure_reservations();
        self.measure_gangs();
        let blacklisted = self.blacklisted_nodes();
        let in_maintenance = self.nodes_in_maintenance();
        self.clock.in_maintenance.clone_from(&in_maintenance);
        self.evict_what_may_not_stay(&blacklisted);
        self.withdraw_what_does_not_fit();
        self.freeze(blacklisted, in_maintenance)
    }

    /// Applies the schedule of a cycle.
    fn conclude(&mut self, snapshot: Snapshot, schedule: CycleSchedule, effort: &Effort) -> View {
        self.is_changed = self.apply(&schedule);
        effort.end_phase();
        self.planned = Some(Arc::new(Planned { snapshot, schedule: Arc::new(schedule) }));
        let view = self.view();
        self.nodes.end_cycle();
        self.last_view = Some(view.clone());
        view
    }

    /// Returns the last cycle's outcome for this cycle too, if nothing can have changed it.
    fn reuse_last_cycle(&mut self) -> Option<View> {
        if !self.would_repeat(self.cycle) {
            return None;
        }
        let (view, planned) = (self.last_view.as_ref()?, self.planned.as_deref()?);
        let Planned { snapshot, schedule } = planned;
        self.quiescence.begin_cycle();
        let snapshot = Snapshot {
            cycle: self.cycle,
            quiescence: self.quiescence.freeze(),
            ..snapshot.clone()
        };
        let planned = Arc::new(Planned { snapshot, schedule: Arc::clone(schedule) });
        let view = View {
            cycle: self.cycle,
            planned: Some(Arc::clone(&planned)),
            urgent: Arc::clone(&self.verdicts),
            ..view.clone()
        };
        self.planned = Some(planned);
        self.last_view = Some(view.clone());
        Some(view)
    }

    /// True if nothing can have changed the last outcome until `cycle`, unless time does.
    fn would_repeat(&self, cycle: u64) -> bool {
        let Some(Planned { snapshot, schedule }) = self.planned.as_deref() else { return false };
        let was_idle = schedule.expansions.is_empty()
            && schedule.preemptions.is_empty()
            && schedule.promises == snapshot.promises
            && schedule.put_off.is_empty();
        let is_steady = engine::is_steady(&snapshot.quiescence, &self.topology.settings);
        let has_come = |next: u64| next <= cycle;
        let is_due = schedule.next_change.is_some_and(has_come);
        let is_blocked = self.is_changed || !was_idle || !is_steady || is_due;
        self.last_view.is_some() && !is_blocked && !self.nodes.has_silent()
    }

    /// The last cycle that was planned; 0 before the first.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Configuration in effect.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Records a share as the orchestrator publishes it. An unknown share was issued before a
    /// restart: it is entered on the published node, and its number is used up. A known share stays
    /// on the node for which it was issued.
    fn observe_share(&mut self, id: JobId, share: ShareId, node: &str, facts: ShareFacts) {
        if !self.is_elsewhere(id, share, node) {
            self.limbo.remove(&share);
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.purged.get(share).is_some() {
            return;
        }
        if let Some(known) = job.shares.get_mut(share) {
            known.is_seen = true;
            known.facts = facts;
            let node = known.node;
            self.nodes.note_work(node);
            return;
        }
        let node = self.nodes.expect(&self.topology, node);
        let order = jobs_order(job, &self.topology, &self.nodes[node]);
        let job = self.jobs.get_mut(id).expect("looked up above");
        let was_told_to_leave = self.told_to_leave.remove(&share);
        let known = ShareRecord {
            rank: None,
            id: share,
            node,
            order,
            state: if was_told_to_leave { SharePhase::Leaving } else { SharePhase::Held },
            removal: was_told_to_leave.then_some(Removal::Preempted),
            is_seen: true,
            facts,
        };
        job.is_spent |= was_told_to_leave && job.spec.kind != JobKind::Job;
        job.shares.insert(known);
        self.nodes.note_work(node);
        // A share lost with its node is lost again when the orchestrator publishes it again.
        if self.nodes[node].is_dead {
            self.nodes.note_dying(node);
        }
        self.crowded.insert(node);
        self.reserve_share_id(share);
    }

    /// True if the share is known on another node than `node`.
    fn is_elsewhere(&self, job: JobId, share: ShareId, node: &str) -> bool {
        let job = self.jobs.get(job);
        let known = job.and_then(|job| job.shares.get(share).or_else(|| job.purged.get(share)));
        known.is_some_and(|known| self.nodes[known.node].report.name != node)
    }

    /// Makes sure that no new share gets this number. Numbers that are never issued are ignored: a
    /// single wrong number must not use up all.
    fn reserve_share_id(&mut self, share: ShareId) {
        if share.0 < MAX_TRACKED_SHARE_ID {
            self.next_share = self.next_share.max(share.0.saturating_add(1));
        }
    }
}
