//! A small cluster for tests: a quantum is 1 GB, so orders are gigabytes.
//!
//! Every cycle is audited. The orchestrator confirms exits at the start of the next cycle unless a
//! test sets something else.

use std::collections::BTreeMap;

use super::diary::Diary;
use apportion::audit::audit;
use apportion::engine::Effort;
use apportion::journal::{Replay, seal_checkpoint};
use apportion::model::{
    CapRules, ClassIx, ClassPolicy, GangRules, IxVec, JobFacts, JobId, JobKind, JobSpec, Mebibytes,
    NodeReport, NodeTagging, Nodepool, PoolIx, ProcessLimit, Quantum, ResourceClass, Settings,
    ShareFacts, ShareId, SharePhase, Tags, Topology, count,
};
use apportion::scheduler::{
    AdminCommand, CommandError, CommandOutcome, JobView, NodeView, Scheduler, SchedulerEvent,
    ShareView, View,
};

/// No pacing at all: a job may use everything at once.
pub const UNPACED: CapRules = CapRules {
    initialization_cap: 0,
    expand_by_doubling: false,
    prediction: false,
    prediction_fudge: 0,
    loss_limit: CapRules::LOSS_LIMIT,
};

/// Doubling from two, without prediction.
pub const DOUBLING: CapRules = CapRules {
    initialization_cap: 2,
    expand_by_doubling: true,
    prediction: false,
    prediction_fudge: 0,
    loss_limit: CapRules::LOSS_LIMIT,
};

/// A single pool called `main`, no classes; to be extended.
pub fn topology() -> Topology {
    Topology {
        tagging: NodeTagging::default(),
        settings: Settings { node_stability: 3, mass_loss_percent: None, ..Settings::default() },
        pools: vec![pool("main", None, "")].into(),
        classes: IxVec::default(),
        allotments: BTreeMap::new(),
    }
}

/// A pool with the nodes named in `nodes`, by blanks.
pub fn pool(name: &str, parent: Option<usize>, nodes: &str) -> Nodepool {
    Nodepool {
        name: name.into(),
        parent: parent.map(PoolIx),
        search_order: 100,
        quantum: Quantum::new(Mebibytes::from_gib(1)).unwrap(),
        nodes: nodes.split_whitespace().map(str::to_owned).collect(),
    }
}

/// A class of the first pool.
pub fn class(name: &str, policy: ClassPolicy, priority: u32, cap_rules: CapRules) -> ResourceClass {
    ResourceClass {
        gangs: GangRules::default(),
        name: name.into(),
        policy,
        priority,
        pool: PoolIx(0),
        cap_rules,
        users: None,
        is_default: false,
        is_urgent: false,
    }
}

/// A fair-share class of priority 10.
pub fn fair(name: &str, weight: u32, cap_rules: CapRules) -> ResourceClass {
    class(name, ClassPolicy::FairShare { weight }, 10, cap_rules)
}

/// A job of `order` that wants everything.
pub fn job(id: u64, user: &str, class: &str, order: u64) -> JobSpec {
    JobSpec {
        shape: None,
        tags: Tags::default(),
        id: JobId(id),
        user: user.into(),
        class: class.into(),
        kind: JobKind::Job,
        memory: Mebibytes::from_gib(order),
        threads: 1,
        submitted: id,
        nodes: Vec::new(),
        except_nodes: Vec::new(),
        service: 0,
        facts: JobFacts {
            remaining: 1_000_000,
            limit: ProcessLimit::Unlimited,
            is_running: true,
            time_per_item: Some(1000),
            is_completing: false,
        },
    }
}

/// Work of a single process.
pub fn single(id: u64, user: &str, class: &str, order: u64, kind: JobKind) -> JobSpec {
    let mut spec = job(id, user, class, order);
    spec.kind = kind;
    spec.facts.remaining = 1;
    spec
}

/// A scheduler with a cluster around it.
pub struct Cluster {
    pub scheduler: Scheduler,
    pub confirms_exits: bool,
    pub view: View,
    /// Journal of the cluster, if a test asks for it.
    pub diary: Option<Diary>,
    /// Most search steps of a cycle, if not the default.
    pub searches: Option<u64>,
}

impl Cluster {
    pub fn new(topology: Topology) -> Cluster {
        let scheduler = Scheduler::new(topology, ShareId(1));
        let view = scheduler.view();
        Cluster { view, scheduler, confirms_exits: true, diary: None, searches: None }
    }

    /// A cluster with a single pool and these classes.
    pub fn with_classes(classes: impl Into<IxVec<ClassIx, ResourceClass>>) -> Cluster {
        Cluster::new(Topology { classes: classes.into(), ..topology() })
    }

    /// Nodes report: `m1=4 m2=8`, sizes in GB.
    pub fn nodes(&mut self, nodes: &str) -> &mut Cluster {
        for node in nodes.split_whitespace() {
            let (name, gib) = node.split_once('=').unwrap();
            let memory = Mebibytes::from_gib(gib.parse().unwrap());
            let report =
                NodeReport { tags: Tags::default(), name: name.into(), memory, is_quiesced: false };
            self.tell(SchedulerEvent::NodeReported(report));
        }
        self
    }

    /// Tells the scheduler of `event`, and the diary.
    pub fn tell(&mut self, event: SchedulerEvent) {
        match &mut self.diary {
            Some(diary) => diary.recorder.record(&mut self.scheduler, event),
            None => self.scheduler.record(event),
        };
    }

    /// Carries out a command, and journals it.
    pub fn order(&mut self, command: AdminCommand) -> Result<CommandOutcome, CommandError> {
        match &mut self.diary {
            Some(diary) => diary.recorder.command(&mut self.scheduler, command),
            None => self.scheduler.command(command),
        }
    }

    /// Starts the daemon again, with the stored state.
    pub fn resume(&mut self) {
        let diary = self.diary.as_mut().unwrap();
        let state = self.scheduler.state();
        self.scheduler = Replay::from(0, &seal_checkpoint(&state)).unwrap().into_scheduler();
        assert_eq!(self.scheduler.state(), state, "a restart loses nothing");
        diary.recorder.restart(&mut self.scheduler);
    }

    pub fn arrive(&mut self, spec: JobSpec) -> &mut Cluster {
        self.record(SchedulerEvent::JobArrived(spec))
    }

    pub fn record(&mut self, event: SchedulerEvent) -> &mut Cluster {
        self.tell(event);
        self
    }

    pub fn command(&mut self, command: AdminCommand) -> &mut Cluster {
        self.order(command).unwrap();
        self
    }

    /// Work that is over.
    pub fn complete(&mut self, id: u64) -> &mut Cluster {
        self.record(SchedulerEvent::JobCompleted { job: JobId(id) })
    }

    /// Search limits of a cycle.
    pub fn effort(&self) -> Effort {
        self.searches.map_or_else(Effort::default, |limit| Effort::default().searching(limit))
    }

    /// Runs a cycle, audited.
    pub fn cycle(&mut self) -> &mut Cluster {
        if self.confirms_exits {
            self.confirm_exits();
        }
        // The same state, with an entry that means nothing and without cached views, so that they
        // cannot rely on the last cycle.
        let mut anew = self.scheduler.clone();
        anew.drop_cached_views();
        anew.record(SchedulerEvent::ShareExited { job: JobId(u64::MAX), share: ShareId(u64::MAX) });
        self.view = self.scheduler.schedule_with(&self.effort());
        assert_same(&self.view, &anew.schedule_with(&self.effort()));
        if let Some(diary) = &mut self.diary {
            diary.note(&self.scheduler, &self.view);
        }
        let planned = self.view.planned.as_deref().unwrap();
        let findings = audit(&planned.snapshot, &planned.schedule);
        assert!(
            findings.is_empty(),
            "cycle {}: {findings:#?}\n{}",
            self.view.cycle,
            self.picture()
        );
        self
    }

    pub fn cycles(&mut self, cycles: usize) -> &mut Cluster {
        for _ in 0..cycles {
            self.cycle();
        }
        self
    }

    /// The orchestrator confirms every exit that is due.
    pub fn confirm_exits(&mut self) {
        let view = self.scheduler.view();
        for job in view.jobs.iter() {
            let leaving = job.shares.iter().filter(|share| share.state == SharePhase::Leaving);
            for share in leaving.chain(&job.purged) {
                self.tell(SchedulerEvent::ShareExited { job: job.id, share: share.id });
            }
        }
    }

    /// Initializes every held share of `id` and sets its investment.
    pub fn invest(&mut self, id: u64, investment: u64) -> &mut Cluster {
        let view = self.scheduler.view();
        let job = view.jobs.iter().find(|job| job.id == JobId(id)).unwrap();
        let facts = ShareFacts { is_initialized: true, initialization: 1000, investment };
        for share in &job.shares {
            self.tell(SchedulerEvent::ShareSeen {
                job: job.id,
                share: share.id,
                node: share.node.clone(),
                facts,
            });
        }
        self
    }

    pub fn job(&self, id: u64) -> &JobView {
        self.view.jobs.iter().find(|job| job.id == JobId(id)).unwrap()
    }

    pub fn held(&self, id: u64) -> u64 {
        self.job(id).held().0
    }

    /// Holdings of each of these jobs.
    pub fn holdings<const N: usize>(&self, ids: [u64; N]) -> [u64; N] {
        ids.map(|id| self.held(id))
    }

    /// Number of shares preempted in the last cycle.
    pub fn preempted(&self) -> usize {
        self.view.planned.as_deref().unwrap().schedule.preemptions.len()
    }

    /// The code of the reason why `id` has less than it wants.
    pub fn reason(&self, id: u64) -> &'static str {
        match self.job(id).reason.as_ref() {
            Some(apportion::scheduler::Waiting::Engine(reason)) => reason.code(),
            Some(apportion::scheduler::Waiting::Refused(_)) => "refused",
            None => "none",
        }
    }

    /// Text of all nodes: a job's number for each of its shares, in brackets if it is leaving. Then
    /// the reasons of jobs that wait.
    pub fn picture(&self) -> String {
        let nodes = self.view.nodes.iter().map(|node| {
            let shares = node.shares.iter().map(|(job, _, order, state)| match state {
                SharePhase::Held => format!("{job}×{order}"),
                SharePhase::Leaving => format!("({job}×{order})"),
            });
            format!(
                "{} {}/{}: {}",
                node.name,
                node.used,
                node.order,
                shares.collect::<Vec<_>>().join(" ")
            )
        });
        let waiting =
            self.view.jobs.iter().filter_map(|job| {
                Some(format!("job {} waits: {:?}", job.id, job.reason.as_ref()?))
            });
        nodes.chain(waiting).collect::<Vec<_>>().join("\n")
    }
}

/// Short names for events and for observations.
impl Cluster {
    /// A node reports, to the megabyte.
    pub fn report(&mut self, name: &str, memory: Mebibytes) -> &mut Cluster {
        let report =
            NodeReport { tags: Tags::default(), name: name.into(), memory, is_quiesced: false };
        self.record(SchedulerEvent::NodeReported(report))
    }

    /// A node of `gib` GB reports that it wants no new work.
    pub fn quiesce(&mut self, name: &str, gib: u64) -> &mut Cluster {
        let (name, memory) = (name.to_owned(), Mebibytes::from_gib(gib));
        self.record(SchedulerEvent::NodeReported(NodeReport {
            tags: Tags::default(),
            name: name.into(),
            memory,
            is_quiesced: true,
        }))
    }

    pub fn die(&mut self, node: &str) -> &mut Cluster {
        self.record(SchedulerEvent::NodeDied { node: node.into() })
    }

    pub fn vary_off(&mut self, node: &str) -> &mut Cluster {
        self.command(AdminCommand::VaryOff {
            nodes: vec![node.to_owned()],
            reason: "a test".to_owned(),
        })
    }

    pub fn vary_on(&mut self, node: &str) -> &mut Cluster {
        self.command(AdminCommand::VaryOn { nodes: vec![node.to_owned()] })
    }

    pub fn reconfigure(&mut self, change: impl FnOnce(&mut Topology)) -> &mut Cluster {
        let mut topology = Topology::clone(self.scheduler.topology());
        change(&mut topology);
        self.command(AdminCommand::Reconfigure(Box::new(topology)))
    }

    /// Changes facts of a known job.
    pub fn change(&mut self, id: u64, change: impl FnOnce(&mut JobFacts)) -> &mut Cluster {
        let view = self.scheduler.view();
        let mut facts = view.jobs.iter().find(|job| job.id == JobId(id)).unwrap().facts;
        change(&mut facts);
        self.record(SchedulerEvent::JobChanged { job: JobId(id), facts })
    }

    /// Reports the process in a share as gone.
    pub fn exit(&mut self, id: u64, share: ShareId) -> &mut Cluster {
        self.record(SchedulerEvent::ShareExited { job: JobId(id), share })
    }

    pub fn node(&self, name: &str) -> &NodeView {
        self.view.nodes.iter().find(|node| node.name == name).unwrap()
    }

    /// Jobs with shares on a node that are not leaving, a number for each share, ascending.
    pub fn on(&self, node: &str) -> Vec<u64> {
        let held = self.node(node).shares.iter().filter(|(.., state)| *state == SharePhase::Held);
        let mut jobs: Vec<u64> = held.map(|(job, ..)| job.0).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Nodes with shares of the job that are not leaving, a name for each share, ascending.
    pub fn nodes_of(&self, id: u64) -> Vec<&str> {
        let held = self.job(id).shares.iter().filter(|share| share.state == SharePhase::Held);
        let mut nodes: Vec<&str> = held.map(|share| share.node.as_str()).collect();
        nodes.sort_unstable();
        nodes
    }

    /// A restarted scheduler with only the configuration, the stored state, and the orchestrator's
    /// publication: the same work in the same shares. No node has reported to it yet.
    pub fn restarted(&self) -> Cluster {
        let view = self.scheduler.view();
        let mut scheduler = Scheduler::new(Topology::clone(&view.topology), ShareId(1));
        scheduler.restore_varied_off(view.varied_off);
        for job in view.jobs.iter() {
            scheduler.record(SchedulerEvent::JobArrived(spec_of(job)));
            for share in job.shares.iter().cloned() {
                let ShareView { id: share, node, facts, .. } = share;
                scheduler.record(SchedulerEvent::ShareSeen { job: job.id, share, node, facts });
            }
        }
        let view = scheduler.view();
        Cluster { view, scheduler, confirms_exits: true, diary: None, searches: None }
    }
}

/// Two ways to the same cycle came to the same.
#[track_caller]
pub fn assert_same(one: &View, other: &View) {
    let View { cycle, topology, nodes, jobs, classes, varied_off, lost_held_back, .. } = one;
    assert_eq!(one.planned, other.planned, "cycle {cycle} depends on what was planned before");
    assert_eq!((cycle, topology, nodes), (&other.cycle, &other.topology, &other.nodes));
    assert_eq!((jobs, classes), (&other.jobs, &other.classes));
    assert_eq!((varied_off, lost_held_back), (&other.varied_off, &other.lost_held_back));
    assert_eq!(one.next_share, other.next_share);
    for class in classes.iter() {
        let of_class = jobs.iter().filter(|job| job.class == class.name);
        assert_eq!(class.jobs, count(of_class), "jobs of class {}", class.name);
    }
}

/// Rebuilds the specification of a job from the view.
fn spec_of(job: &JobView) -> JobSpec {
    JobSpec {
        shape: None,
        tags: Tags::default(),
        id: job.id,
        user: job.user.clone(),
        class: job.class.clone(),
        kind: job.kind,
        memory: job.memory,
        threads: job.threads,
        submitted: job.submitted,
        nodes: Vec::new(),
        except_nodes: Vec::new(),
        service: 0,
        facts: job.facts,
    }
}
