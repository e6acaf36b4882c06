//! Random histories: everything that can happen to a random cluster, in any order.

use std::collections::{BTreeMap, BTreeSet};

use apportion::engine::plan;
use apportion::model::{
    CapRules, JobFacts, JobId, JobSpec, Mebibytes, NodeReport, PoolIx, ProcessLimit, Quantum,
    ShareFacts, ShareId, ShareState, Topology, WorkKind,
};
use apportion::scheduler::{Command, Event, Scheduler};
use proptest::prelude::*;

use super::Cluster;
use super::world::{USERS, World, cap_rules};

/// Something that happens between two cycles. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Step {
    Arrive(Box<JobSpec>),
    Complete(usize),
    Change(usize, Change),
    Invest { job: usize, investment: u64 },
    Exit { job: usize, share: usize },
    Appear { job: usize, node: usize },
    Node(usize, NodeStep),
    IntervalPassed,
    Confirm(Confirm),
    Restart,
    Reconfigure(Reconfiguration),
    Cycle,
}

/// What changes about a job.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Limit(ProcessLimit),
    Remaining(u64),
    TimePerItem(Option<u64>),
    Running,
    Completing,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug)]
pub enum NodeStep {
    Report { is_quiesced: bool },
    Resize(u64),
    Die,
    Miss(u32),
    VaryOff,
    VaryOn,
}

/// Which exits the orchestrator confirms before each cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    All,
    /// Those with an even number.
    Half,
    None,
}

/// What an administrator changes.
#[derive(Clone, Debug)]
pub enum Reconfiguration {
    Remove(usize),
    Rename(usize),
    Pace(usize, CapRules),
    Priority(usize, u32),
    Class {
        class: usize,
        pool: usize,
    },
    Node {
        node: usize,
        pool: usize,
    },
    Quantum {
        pool: usize,
        mebibytes: u64,
    },
    /// As it was in the beginning.
    Restore,
}

/// Any step.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => arrival(),
        2 => any::<usize>().prop_map(Step::Complete),
        4 => (any::<usize>(), change()).prop_map(|(job, change)| Step::Change(job, change)),
        3 => (any::<usize>(), 0..5000_u64).prop_map(|(job, investment)| Step::Invest { job, investment }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(job, share)| Step::Exit { job, share }),
        1 => (any::<usize>(), 0..12_usize).prop_map(|(job, node)| Step::Appear { job, node }),
        5 => (0..10_usize, node_step()).prop_map(|(node, step)| Step::Node(node, step)),
        1 => Just(Step::IntervalPassed),
        1 => prop::sample::select(vec![Confirm::All, Confirm::Half, Confirm::None]).prop_map(Step::Confirm),
        1 => Just(Step::Restart),
        1 => reconfiguration().prop_map(Step::Reconfigure),
        12 => Just(Step::Cycle),
    ]
}

fn arrival() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec![
        WorkKind::Job,
        WorkKind::Job,
        WorkKind::Job,
        WorkKind::Job,
        WorkKind::Service,
        WorkKind::ArbitraryProcess,
        WorkKind::Reservation,
    ]);
    let threads = prop_oneof![2 => Just(1), 1 => 2..9_u64];
    let machines = prop::option::weighted(0.15, prop::collection::vec(0..12_usize, 1..4));
    let what = (0..USERS.len(), 0..13_usize, 1..20_u64, threads, machines, 0..3_u64);
    (kind, what, facts(), 0..1000_u64).prop_map(|(kind, what, facts, submitted)| {
        let (user, class, memory, threads, machines, service) = what;
        Step::Arrive(Box::new(JobSpec {
            id: JobId(0),
            user: USERS[user].to_owned(),
            class: format!("class{class}"),
            kind,
            memory: Mebibytes(memory * 400),
            threads,
            submitted,
            machines: machines.unwrap_or_default().iter().map(|ix| format!("n{ix}")).collect(),
            service,
            facts,
        }))
    })
}

fn facts() -> impl Strategy<Value = JobFacts> {
    let remaining = prop_oneof![3 => Just(1_000_000), 1 => 0..50_u64];
    let time_per_item = prop::option::weighted(0.8, 0..100_000_u64);
    (remaining, limit(), any::<bool>(), time_per_item).prop_map(
        |(remaining, limit, is_running, time_per_item)| JobFacts {
            remaining,
            limit,
            is_running,
            time_per_item,
            is_completing: false,
        },
    )
}

fn limit() -> impl Strategy<Value = ProcessLimit> {
    prop_oneof![
        6 => Just(ProcessLimit::Unlimited),
        3 => (0..9_u64).prop_map(ProcessLimit::AtMost),
        1 => Just(ProcessLimit::Frozen),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => limit().prop_map(Change::Limit),
        2 => (0..50_u64).prop_map(Change::Remaining),
        2 => prop::option::of(0..100_000_u64).prop_map(Change::TimePerItem),
        4 => Just(Change::Running),
        1 => Just(Change::Completing),
    ]
}

fn node_step() -> impl Strategy<Value = NodeStep> {
    prop_oneof![
        3 => any::<bool>().prop_map(|is_quiesced| NodeStep::Report { is_quiesced }),
        2 => (0..20_u64).prop_map(NodeStep::Resize),
        1 => Just(NodeStep::Die),
        1 => (1..5_u32).prop_map(NodeStep::Miss),
        1 => Just(NodeStep::VaryOff),
        1 => Just(NodeStep::VaryOn),
    ]
}

fn reconfiguration() -> impl Strategy<Value = Reconfiguration> {
    let class = 0..12_usize;
    let pool = 0..8_usize;
    prop_oneof![
        class.clone().prop_map(Reconfiguration::Remove),
        class.clone().prop_map(Reconfiguration::Rename),
        (class.clone(), cap_rules()).prop_map(|(class, rules)| Reconfiguration::Pace(class, rules)),
        (class.clone(), 1..5_u32).prop_map(|(class, to)| Reconfiguration::Priority(class, to)),
        (class, pool.clone()).prop_map(|(class, pool)| Reconfiguration::Class { class, pool }),
        (0..12_usize, pool.clone()).prop_map(|(node, pool)| Reconfiguration::Node { node, pool }),
        (pool, 300..3000_u64)
            .prop_map(|(pool, mebibytes)| Reconfiguration::Quantum { pool, mebibytes }),
        Just(Reconfiguration::Restore),
    ]
}

/// A history in the making.
pub struct History {
    pub cluster: Cluster,
    world: World,
    specs: Vec<JobSpec>,
    arrived: u64,
    confirm: Confirm,
    /// Every share ever seen: whose, where, and whether it was leaving.
    shares: BTreeMap<ShareId, (JobId, String, ShareState)>,
}

impl History {
    pub fn new(world: World) -> History {
        let mut history = History {
            cluster: Cluster::new(world.topology.clone()),
            world,
            specs: Vec::new(),
            arrived: 0,
            confirm: Confirm::All,
            shares: BTreeMap::new(),
        };
        for node in 0..history.world.nodes.len() {
            history.node(node, NodeStep::Report { is_quiesced: false });
        }
        history.cluster.confirms_exits = false;
        history
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Arrive(spec) => self.arrive(spec),
            Step::Complete(job) => {
                if let Some(ix) = job.checked_rem(self.specs.len()) {
                    let spec = self.specs.remove(ix);
                    self.cluster.complete(spec.id.0);
                }
            }
            Step::Change(job, change) => self.change(*job, *change),
            Step::Invest { job, investment } => {
                if let Some(ix) = job.checked_rem(self.specs.len()) {
                    self.cluster.invest(self.specs[ix].id.0, *investment);
                }
            }
            Step::Exit { job, share } => self.exit(*job, *share),
            Step::Appear { job, node } => self.appear(*job, *node),
            Step::Node(node, step) => self.node(*node, *step),
            Step::IntervalPassed => {
                self.cluster.record(Event::HeartbeatIntervalPassed);
            }
            Step::Confirm(confirm) => self.confirm = *confirm,
            Step::Restart => self.restart(),
            Step::Reconfigure(change) => self.reconfigure(change),
            Step::Cycle => self.cycle(),
        }
    }

    /// From now on every exit is confirmed.
    pub fn calm_down(&mut self) {
        self.confirm = Confirm::All;
    }

    /// One cycle: audited by the cluster, planned twice with the same outcome, and true to what was
    /// said of every share before.
    pub fn cycle(&mut self) {
        self.confirm_exits();
        self.cluster.cycle();
        let planned = self.cluster.view.planned.as_deref().unwrap();
        assert_eq!(plan(&planned.snapshot), planned.schedule, "planning twice differs");
        let next = self.cluster.view.next_share;
        let mut seen = BTreeSet::new();
        for job in &self.cluster.view.jobs {
            for share in job.shares.iter().chain(&job.purged) {
                assert!(seen.insert(share.id), "share {} is there twice", share.id);
                assert!(share.id < next, "share {} would be issued again", share.id);
                let known = self
                    .shares
                    .entry(share.id)
                    .or_insert_with(|| (job.id, share.node.clone(), share.state));
                assert_eq!((known.0, &known.1), (job.id, &share.node), "share {} moved", share.id);
                let came_back = (known.2, share.state) == (ShareState::Leaving, ShareState::Held);
                assert!(!came_back, "share {} came back", share.id);
                known.2 = share.state;
            }
        }
        // What is gone may never be seen again.
        for (id, (job, _, _)) in self.shares.iter_mut().filter(|(id, _)| !seen.contains(id)) {
            assert!(*id < next);
            *job = JobId(0);
        }
    }

    fn arrive(&mut self, spec: &JobSpec) {
        self.arrived += 1;
        let mut spec = JobSpec { id: JobId(self.arrived), ..spec.clone() };
        // Mostly to a class there is, and one that takes work of this kind.
        let classes = &self.cluster.scheduler.topology().classes;
        let suits =
            |ix: &usize| spec.kind == WorkKind::Job || !classes[*ix].policy.is_preemptable();
        let suitable: Vec<usize> = (0..classes.len()).filter(suits).collect();
        let number = spec.class.trim_start_matches("class").parse::<usize>().unwrap();
        if let Some(ix) = number.checked_rem(suitable.len()) {
            spec.class.clone_from(&classes[suitable[ix]].name);
        }
        if spec.kind != WorkKind::Job {
            spec.facts.remaining = 1;
        }
        self.specs.push(spec.clone());
        self.cluster.arrive(spec);
    }

    fn change(&mut self, job: usize, change: Change) {
        let Some(ix) = job.checked_rem(self.specs.len()) else { return };
        let JobSpec { id: job, facts, .. } = &mut self.specs[ix];
        match change {
            Change::Limit(limit) => facts.limit = limit,
            Change::Remaining(remaining) => facts.remaining = remaining,
            Change::TimePerItem(time) => facts.time_per_item = time,
            Change::Running => facts.is_running = true,
            Change::Completing => facts.is_completing = true,
        }
        let (job, facts) = (*job, *facts);
        self.cluster.record(Event::JobChanged { job, facts });
    }

    fn exit(&mut self, job: usize, share: usize) {
        let Some(ix) = job.checked_rem(self.specs.len()) else { return };
        let job = self.specs[ix].id;
        let view = self.cluster.scheduler.view();
        let shares = &view.jobs.iter().find(|view| view.id == job).unwrap().shares;
        if let Some(share) = share.checked_rem(shares.len()).map(|ix| shares[ix].id) {
            self.cluster.record(Event::ShareExited { job, share });
        }
    }

    /// The orchestrator shows a process we know nothing of, perhaps on a node nobody knows.
    fn appear(&mut self, job: usize, node: usize) {
        let Some(ix) = job.checked_rem(self.specs.len()) else { return };
        let (job, node) = (self.specs[ix].id, format!("n{node}"));
        let share = self.cluster.scheduler.view().next_share;
        let facts = ShareFacts::default();
        self.cluster.record(Event::ShareSeen { job, share, node, facts });
    }

    fn node(&mut self, node: usize, step: NodeStep) {
        let Some(ix) = node.checked_rem(self.world.nodes.len()) else { return };
        let (name, memory) = self.world.nodes[ix].clone();
        let report = |memory, is_quiesced| {
            Event::NodeReported(NodeReport { name: name.clone(), memory, is_quiesced })
        };
        match step {
            NodeStep::Report { is_quiesced } => self.cluster.record(report(memory, is_quiesced)),
            NodeStep::Resize(units) => self.cluster.record(report(Mebibytes(units * 512), false)),
            NodeStep::Die => self.cluster.record(Event::NodeDied { node: name }),
            NodeStep::Miss(missed) => {
                self.cluster.record(Event::NodeMissedHeartbeats { node: name, missed })
            }
            NodeStep::VaryOff => {
                // After a restart the node may not be known yet.
                let command = Command::VaryOff { nodes: vec![name], reason: "a test".to_owned() };
                let _ = self.cluster.scheduler.command(command);
                &mut self.cluster
            }
            NodeStep::VaryOn => {
                let _ = self.cluster.scheduler.command(Command::VaryOn { nodes: vec![name] });
                &mut self.cluster
            }
        };
    }

    fn confirm_exits(&mut self) {
        let view = self.cluster.scheduler.view();
        for job in &view.jobs {
            let leaving = job.shares.iter().filter(|share| share.state == ShareState::Leaving);
            for share in leaving.chain(&job.purged) {
                let is_confirmed = match self.confirm {
                    Confirm::All => true,
                    Confirm::Half => share.id.0 % 2 == 0,
                    Confirm::None => false,
                };
                if is_confirmed {
                    self.cluster.record(Event::ShareExited { job: job.id, share: share.id });
                }
            }
        }
    }

    /// A new scheduler learns from the orchestrator what there is; nodes report in their own time.
    fn restart(&mut self) {
        let view = self.cluster.scheduler.view();
        let topology = Topology::clone(&view.topology);
        let mut scheduler = Scheduler::new(topology, view.next_share);
        scheduler.resume_after_cycle(view.cycle);
        scheduler.restore_varied_off(view.varied_off);
        for spec in &self.specs {
            scheduler.record(Event::JobArrived(spec.clone()));
        }
        for job in &view.jobs {
            for share in job.shares.iter().chain(&job.purged) {
                let (node, facts) = (share.node.clone(), share.facts);
                let (job, share) = (job.id, share.id);
                scheduler.record(Event::ShareSeen { job, share, node, facts });
            }
        }
        // What was leaving is held again, until it is told to leave once more.
        for (_, _, state) in self.shares.values_mut() {
            *state = ShareState::Held;
        }
        self.cluster.scheduler = scheduler;
        for node in (0..self.world.nodes.len()).step_by(2) {
            self.node(node, NodeStep::Report { is_quiesced: false });
        }
    }

    fn reconfigure(&mut self, change: &Reconfiguration) {
        let mut topology = Topology::clone(self.cluster.scheduler.topology());
        let (classes, pools) = (topology.classes.len(), topology.pools.len());
        match *change {
            Reconfiguration::Node { node, pool } => {
                let name = format!("n{node}");
                for pool in &mut topology.pools {
                    pool.nodes.retain(|listed| *listed != name);
                }
                topology.pools[pool % pools].nodes.push(name);
            }
            Reconfiguration::Quantum { pool, mebibytes } => {
                let top = topology.top_of(PoolIx(pool % pools));
                for pool in 0..pools {
                    if topology.top_of(PoolIx(pool)) == top {
                        topology.pools[pool].quantum = Quantum::new(Mebibytes(mebibytes)).unwrap();
                    }
                }
            }
            Reconfiguration::Restore => topology = self.world.topology.clone(),
            _ if classes == 0 => {}
            Reconfiguration::Remove(class) => {
                topology.classes.remove(class % classes);
            }
            Reconfiguration::Rename(class) => topology.classes[class % classes].name.push('x'),
            Reconfiguration::Pace(class, rules) => {
                topology.classes[class % classes].cap_rules = rules;
            }
            Reconfiguration::Priority(class, to) => topology.classes[class % classes].priority = to,
            Reconfiguration::Class { class, pool } => {
                topology.classes[class % classes].pool = PoolIx(pool % pools);
            }
        }
        self.cluster.command(Command::Reconfigure(Box::new(topology)));
    }
}
