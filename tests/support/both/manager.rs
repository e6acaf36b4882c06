//! The resource manager without its doors: publications in, cycles, the schedule out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apportion::api::wire::Schedule;
use apportion::api::{AbsentSums, CycleSpans, Limits, PublicationReader, Published, ScheduleText};
use apportion::audit::audit;
use apportion::converter::CheckedPublication;
use apportion::model::{
    CapRules, ClassPolicy, GangRules, JobId, Mebibytes, Name, NodeReport, NodeTagging, Nodepool,
    PoolIx, Quantum, ResourceClass, Settings, ShareFacts, ShareId, SharePhase, Tags, Topology,
};
use apportion::orchestrator::book::JobShares;
use apportion::orchestrator::rm::shares_of;
use apportion::scheduler::checkpoint::SchedulerState;
use apportion::scheduler::{AdminCommand, Removal, Scheduler, SchedulerEvent, View};

/// Heartbeats that a node may miss before it is dead.
const STABILITY: u32 = 3;

/// The scheduler, with what the daemon keeps around it.
pub struct Manager {
    scheduler: Scheduler,
    intake: PublicationReader,
    published: Published,
    /// The last publication that was recorded since the start.
    taken: Option<u64>,
    /// Stored state: the state of the last cycle, and the last publication in them.
    record: (SchedulerState, Option<u64>),
    /// True if an empty scheduler waits for a publication.
    waits: bool,
    /// Shares that ever died with their nodes. While the nodes are dead, only the end of these
    /// shares is reported.
    pub purged: BTreeSet<ShareId>,
    /// Number of preempted processes.
    pub preempted: u64,
}

impl Manager {
    pub fn new(pace: u8) -> Manager {
        let scheduler = Scheduler::new(topology(pace), ShareId(1));
        Manager {
            intake: PublicationReader::new(None, limits()),
            published: picture(scheduler.view(), None),
            taken: None,
            record: (scheduler.state(), None),
            waits: false,
            purged: BTreeSet::new(),
            preempted: 0,
            scheduler,
        }
    }

    /// Takes a publication in, as the daemon would. `false`: it is refused, as it comes out of turn.
    pub fn put(&mut self, body: Vec<u8>) -> bool {
        let Ok(taken) = self.intake.read(body.into(), &self.published) else { return false };
        let refused = &taken.answer.refused;
        assert!(refused.is_empty(), "the book publishes what is refused: {refused:?}");
        if let Some(publisher) = taken.publisher {
            self.intake.publishers().hand_over(Some(publisher));
        }
        for event in taken.events {
            self.scheduler.record(event);
        }
        if let Some(publication) = taken.publication {
            self.taken = Some(publication.sequence);
            self.intake.keep(publication, taken.overdue, taken.absences);
            self.waits = false;
        }
        true
    }

    /// Plans, and stores the cycle. Checks the preempted shares.
    pub fn cycle(&mut self) {
        if self.waits {
            return;
        }
        let before = self.scheduler.view();
        let view = self.scheduler.schedule();
        let findings =
            view.planned.as_deref().map(|planned| audit(&planned.snapshot, &planned.schedule));
        assert_eq!(findings.unwrap_or_default(), [], "the audit");
        self.least_was_lost(&before, &view);
        let purged = view.jobs.iter().flat_map(|job| job.purged.iter());
        self.purged.extend(purged.map(|share| share.id));
        let schedule = ScheduleText::following(Some(&self.published), self.taken, &view);
        let taken_over = self.published.taken_over.take();
        self.published = Published { schedule, taken_over, ..picture(view, self.taken) };
        self.record = (self.scheduler.state(), self.taken);
    }

    /// The stored schedule, as the client of the orchestrator reads it.
    pub fn schedule(&self) -> (Option<u64>, Vec<JobShares>) {
        let json = self.published.schedule.json.plain();
        let schedule: Schedule = serde_json::from_slice(json).unwrap();
        (schedule.publication, shares_of(schedule))
    }

    /// Starts again from the stored state, or without usable state.
    pub fn restart(&mut self, has_lost_state: bool) {
        let (state, taken) = self.record.clone();
        let schedule = Arc::clone(&self.published.schedule);
        let mut taken_over = None;
        if has_lost_state {
            let view = Scheduler::from_state(state.clone()).view();
            self.scheduler = Scheduler::new(Topology::clone(&state.topology), state.next_share);
            self.scheduler.resume_after_cycle(state.cycle);
            self.scheduler.restore_varied_off(view.varied_off);
            let shares = state.jobs.iter().flat_map(|job| &job.shares);
            let leaving = shares.filter(|share| share.state == SharePhase::Leaving);
            self.scheduler.restore_leaving(leaving.map(|share| share.id));
            self.waits = true;
        } else {
            taken_over = Some(Arc::new(CheckedPublication::of_state(&state)));
            self.scheduler = Scheduler::from_state(state);
            self.scheduler.restart_hearing();
        }
        self.taken = taken;
        self.intake = PublicationReader::new(taken, limits());
        self.published =
            Published { schedule, taken_over, ..picture(self.scheduler.view(), taken) };
    }

    pub fn hear(&mut self, node: &Name) {
        let (name, memory) = (node.clone(), Mebibytes::from_gib(4));
        self.scheduler.record(SchedulerEvent::NodeReported(NodeReport {
            tags: Tags::default(),
            name,
            memory,
            is_quiesced: false,
        }));
    }

    pub fn end_interval(&mut self) {
        self.scheduler.record(SchedulerEvent::HeartbeatIntervalPassed);
    }

    /// Takes a node out of scheduling, or puts it back, if it is known.
    pub fn vary(&mut self, node: &Name, is_off: bool) {
        let (nodes, reason) = (vec![node.to_string()], "a disk".to_owned());
        let command = if is_off {
            AdminCommand::VaryOff { nodes, reason }
        } else {
            AdminCommand::VaryOn { nodes }
        };
        // A node that never reported is unknown.
        let _ = self.scheduler.command(command);
    }

    /// The present state.
    pub fn state(&self) -> SchedulerState {
        self.scheduler.state()
    }

    /// A5: the preempted processes of a job on a node are the processes with the least to lose
    /// there.
    fn least_was_lost(&mut self, before: &View, after: &View) {
        type Stake = (bool, u64);
        /// Shares that stay, and shares that were preempted.
        type Sides = [Vec<(Stake, ShareId)>; 2];
        let stake = |facts: ShareFacts| -> Stake {
            let ShareFacts { is_initialized, initialization, investment } = facts;
            (is_initialized, if is_initialized { investment } else { initialization })
        };
        let held: BTreeMap<ShareId, Stake> = before
            .jobs
            .iter()
            .flat_map(|job| job.shares.iter())
            .filter(|share| share.state == SharePhase::Held)
            .map(|share| (share.id, stake(share.facts)))
            .collect();
        let mut places: BTreeMap<(JobId, Name), Sides> = BTreeMap::new();
        for job in after.jobs.iter() {
            for share in &job.shares {
                let Some(stake) = held.get(&share.id) else { continue };
                let went = share.removal == Some(Removal::Preempted);
                let place = places.entry((job.id, share.node.clone())).or_default();
                place[usize::from(went)].push((*stake, share.id));
            }
        }
        for ((job, node), [stay, went]) in places {
            self.preempted += u64::try_from(went.len()).unwrap();
            let Some(dearest) = went.iter().map(|(stake, _)| *stake).max() else { continue };
            let cheaper = stay.iter().find(|(stake, _)| *stake < dearest);
            assert!(
                cheaper.is_none(),
                "A5: job {job} on {node} lost {went:?} though it had {cheaper:?}"
            );
        }
    }
}

/// Builds the published view of a scheduler.
fn picture(view: View, publication: Option<u64>) -> Published {
    Published {
        schedule: ScheduleText::following(None, publication, &view),
        view,
        is_ready: true,
        is_resuming: false,
        publication,
        absent: AbsentSums::default(),
        taken_over: None,
        last_event: 0,
        generation: 0,
        calendar: Arc::default(),
        past_ms: None,
        planned_in: Duration::ZERO,
        prepared_in: Duration::ZERO,
        stored_in: Duration::ZERO,
        findings: Vec::new(),
        findings_total: 0,
        times: CycleSpans::default(),
    }
}

fn limits() -> Limits {
    Limits {
        body: 1 << 20,
        time: Duration::from_secs(10),
        nodes: 100,
        jobs: 1000,
        processes: 1000,
        string: 100,
        absent_publications: 3,
        absent_time: Duration::from_mins(1),
    }
}

/// A single pool with quanta of 1 GB; two fair-share classes, and a class for work that is not
/// preempted.
fn topology(pace: u8) -> Topology {
    let is_slow = pace % 2 == 1;
    let cap_rules = CapRules {
        initialization_cap: if is_slow { 2 } else { 0 },
        expand_by_doubling: is_slow,
        prediction: pace % 4 == 3,
        prediction_fudge: 5_000,
        loss_limit: CapRules::LOSS_LIMIT,
    };
    let class = |name: &str, policy: ClassPolicy, priority: u32| ResourceClass {
        gangs: GangRules::default(),
        name: name.into(),
        policy,
        priority,
        pool: PoolIx(0),
        cap_rules,
        users: None,
        is_default: name == "normal",
        is_urgent: false,
    };
    let fair = ClassPolicy::FairShare { weight: 100 };
    Topology {
        tagging: NodeTagging::default(),
        settings: Settings {
            node_stability: STABILITY,
            mass_loss_percent: None,
            ..Settings::default()
        },
        pools: vec![Nodepool {
            name: "main".into(),
            parent: None,
            search_order: 100,
            quantum: Quantum::new(Mebibytes::from_gib(1)).unwrap(),
            nodes: Vec::new(),
        }]
        .into(),
        classes: vec![
            class("normal", fair.clone(), 10),
            class("urgent", fair, 5),
            class("kept", ClassPolicy::FixedShare, 1),
        ]
        .into(),
        allotments: BTreeMap::new(),
    }
}
