//! A random history in the making: steps applied to a random cluster, every cycle checked.

use std::collections::{BTreeMap, BTreeSet};

use apportion::engine::plan_with;
use apportion::model::{
    ClassIx, JobId, JobKind, JobSpec, Mebibytes, Name, NodeReport, PoolIx, Quantum, ShareFacts,
    ShareId, SharePhase, Tags, Topology,
};
use apportion::scheduler::{AdminCommand, Scheduler, SchedulerEvent};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::cluster::Cluster;
use super::diary::Diary;
use super::step::{Change, Confirm, NodeStep, Reconfiguration, Step, arrival};
use super::world::World;

/// A share, as last seen.
struct Known {
    job: JobId,
    node: Name,
    state: SharePhase,
    /// The cycle in which it was first seen leaving.
    since: Option<u64>,
}

/// A history in the making.
pub struct History {
    pub cluster: Cluster,
    world: World,
    specs: Vec<JobSpec>,
    arrived: u64,
    confirm: Confirm,
    /// Every share ever seen.
    shares: BTreeMap<ShareId, Known>,
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

    /// A history with a journal from the beginning.
    pub fn with_diary(world: World) -> History {
        let mut history = History::new(world);
        history.cluster.diary = Some(Diary::of(&history.cluster.scheduler));
        history
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Arrive(spec) => self.arrive(spec),
            Step::Crowd { jobs, seed } => self.crowd(*jobs, *seed),
            Step::Complete(job) => self.leave(*job, 1),
            Step::Leave { first, jobs } => self.leave(*first, *jobs),
            Step::Change(job, change) => self.change(*job, *change),
            Step::Invest { job, investment } => {
                if let Some(ix) = job.checked_rem(self.specs.len()) {
                    self.cluster.invest(self.specs[ix].id.0, *investment);
                }
            }
            Step::Exit { job, share } => self.exit(*job, *share),
            Step::Appear { job, node } => self.appear(*job, *node),
            Step::Node(node, step) => self.node(*node, *step),
            Step::Storm { first, nodes, step } => {
                for node in 0..(*nodes).min(self.world.nodes.len()) {
                    self.node(first.wrapping_add(node), *step);
                }
            }
            Step::IntervalPassed => {
                self.cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
            }
            Step::Confirm(confirm) => self.confirm = *confirm,
            Step::Restart { remembers } => self.restart(*remembers),
            Step::Reconfigure(change) => self.reconfigure(change),
            Step::Cycle => self.cycle(),
        }
    }

    /// Runs cycles without events and with every exit confirmed, as many as the world may take to
    /// settle. Then nothing may be preempted for ten cycles.
    pub fn settle(&mut self) {
        self.confirm = Confirm::All;
        for _ in 0..self.world.size.settles_within {
            self.cycle();
        }
        for _ in 0..10 {
            self.cycle();
            assert_eq!(self.cluster.preempted(), 0, "{}", self.cluster.picture());
        }
    }

    /// Settles with a limited search: until ten cycles preempt nothing and put off no job. Every
    /// sweep through the jobs may search twice as far as the sweep before.
    pub fn settle_in_turns(&mut self) {
        self.confirm = Confirm::All;
        let (mut quiet, mut cycles) = (0, 0);
        while quiet < 10 {
            self.cycle();
            let planned = self.cluster.view.planned.as_deref().unwrap();
            let is_calm = self.cluster.preempted() == 0 && planned.schedule.put_off.is_empty();
            quiet = if is_calm { quiet + 1 } else { 0 };
            cycles += 1;
            assert!(cycles < 2_000, "{}", self.cluster.picture());
        }
    }

    /// Runs a cycle: audited by the cluster, planned twice with the same outcome, and consistent
    /// with earlier states of every share.
    pub fn cycle(&mut self) {
        self.confirm_exits();
        self.cluster.cycle();
        let planned = self.cluster.view.planned.as_deref().unwrap();
        let again = plan_with(&planned.snapshot, &self.cluster.effort());
        assert_eq!(again, *planned.schedule, "planning twice differs");
        let next = self.cluster.view.next_share;
        let mut seen = BTreeSet::new();
        for job in self.cluster.view.jobs.iter() {
            for share in job.shares.iter().chain(&job.purged) {
                assert!(seen.insert(share.id), "share {} is there twice", share.id);
                assert!(share.id < next, "share {} would be issued again", share.id);
                let known = self.shares.entry(share.id).or_insert_with(|| Known {
                    job: job.id,
                    node: share.node.clone(),
                    state: share.state,
                    since: None,
                });
                let is_where_it_was = (known.job, &known.node) == (job.id, &share.node);
                assert!(is_where_it_was, "share {} moved", share.id);
                let came_back =
                    (known.state, share.state) == (SharePhase::Leaving, SharePhase::Held);
                assert!(!came_back, "share {} came back", share.id);
                known.state = share.state;
                if share.state == SharePhase::Leaving {
                    known.since.get_or_insert(self.cluster.view.cycle);
                }
            }
        }
        // An exited share must never appear again.
        for (id, known) in self.shares.iter_mut().filter(|(id, _)| !seen.contains(id)) {
            assert!(*id < next);
            known.job = JobId(0);
        }
    }

    fn arrive(&mut self, spec: &JobSpec) {
        self.arrived += 1;
        let number = |text: &str| text.parse::<usize>().unwrap();
        let mut spec = JobSpec { id: JobId(self.arrived), ..spec.clone() };
        let user = number(&spec.user) % self.world.users.len();
        spec.user = self.world.users[user].as_str().into();
        for node in &mut spec.nodes {
            *node = self.name_of_node(number(node));
        }
        // Mostly an existing class that takes work of this kind.
        let classes = self.cluster.scheduler.topology().classes.as_slice();
        let suits = |ix: &usize| spec.kind == JobKind::Job || !classes[*ix].policy.is_preemptable();
        let suitable: Vec<usize> = (0..classes.len()).filter(suits).collect();
        spec.class = match number(&spec.class).checked_rem(suitable.len()) {
            Some(ix) => classes[suitable[ix]].name.clone(),
            None => format!("class{}", spec.class).into(),
        };
        if spec.kind != JobKind::Job {
            spec.facts.remaining = 1;
        }
        self.specs.push(spec.clone());
        self.cluster.arrive(spec);
    }

    fn crowd(&mut self, jobs: usize, seed: u64) {
        let seed: Vec<u8> = seed.to_le_bytes().into_iter().cycle().take(32).collect();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let arrival = arrival();
        for _ in 0..jobs.min(self.world.size.jobs.saturating_sub(self.specs.len())) {
            let spec = arrival.new_tree(&mut runner).unwrap().current();
            self.arrive(&spec);
        }
    }

    fn leave(&mut self, first: usize, jobs: usize) {
        for _ in 0..jobs {
            let Some(ix) = first.checked_rem(self.specs.len()) else { return };
            let spec = self.specs.remove(ix);
            self.cluster.complete(spec.id.0);
        }
    }

    /// The node of this number; now and then an unknown node.
    fn name_of_node(&self, number: usize) -> String {
        format!("n{}", number % (self.world.nodes.len() + 2))
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
        self.cluster.record(SchedulerEvent::JobChanged { job, facts });
    }

    fn exit(&mut self, job: usize, share: usize) {
        let Some(ix) = job.checked_rem(self.specs.len()) else { return };
        let job = self.specs[ix].id;
        let view = self.cluster.scheduler.view();
        let shares = &view.jobs.iter().find(|view| view.id == job).unwrap().shares;
        if let Some(share) = share.checked_rem(shares.len()).map(|ix| shares[ix].id) {
            self.cluster.record(SchedulerEvent::ShareExited { job, share });
        }
    }

    /// The orchestrator shows an unknown process, perhaps on an unknown node.
    fn appear(&mut self, job: usize, node: usize) {
        let Some(ix) = job.checked_rem(self.specs.len()) else { return };
        let (job, node) = (self.specs[ix].id, self.name_of_node(node));
        let share = self.cluster.scheduler.view().next_share;
        let facts = ShareFacts::default();
        self.cluster.record(SchedulerEvent::ShareSeen { job, share, node: node.into(), facts });
    }

    fn node(&mut self, node: usize, step: NodeStep) {
        let Some(ix) = node.checked_rem(self.world.nodes.len()) else { return };
        let (name, memory) = self.world.nodes[ix].clone();
        let report = |memory, is_quiesced| {
            SchedulerEvent::NodeReported(NodeReport {
                tags: Tags::default(),
                name: name.clone().into(),
                memory,
                is_quiesced,
            })
        };
        match step {
            NodeStep::Report { is_quiesced } => self.cluster.record(report(memory, is_quiesced)),
            NodeStep::Resize(units) => self.cluster.record(report(Mebibytes(units * 512), false)),
            NodeStep::Die => self.cluster.record(SchedulerEvent::NodeDied { node: name.into() }),
            NodeStep::Miss(missed) => self
                .cluster
                .record(SchedulerEvent::NodeMissedHeartbeats { node: name.into(), missed }),
            NodeStep::VaryOff => {
                // After a restart the node may not be known yet.
                let command =
                    AdminCommand::VaryOff { nodes: vec![name], reason: "a test".to_owned() };
                let _ = self.cluster.order(command);
                &mut self.cluster
            }
            NodeStep::VaryOn => {
                let _ = self.cluster.order(AdminCommand::VaryOn { nodes: vec![name] });
                &mut self.cluster
            }
        };
    }

    fn confirm_exits(&mut self) {
        let view = self.cluster.scheduler.view();
        for job in view.jobs.iter() {
            let leaving = job.shares.iter().filter(|share| share.state == SharePhase::Leaving);
            for share in leaving.chain(&job.purged) {
                let is_confirmed = match self.confirm {
                    Confirm::All => true,
                    Confirm::Half => share.id.0 % 2 == 0,
                    Confirm::None => false,
                    Confirm::Slowly { .. } if share.id.0 % 10 == 0 => false,
                    Confirm::Slowly { most } => {
                        let since = self.shares.get(&share.id).and_then(|known| known.since);
                        since.unwrap_or(view.cycle) + share.id.0 % (most + 1) <= view.cycle
                    }
                };
                if is_confirmed {
                    self.cluster
                        .record(SchedulerEvent::ShareExited { job: job.id, share: share.id });
                }
            }
        }
    }

    /// A new scheduler gets all work from the orchestrator; nodes report in their own time.
    fn restart(&mut self, remembers: bool) {
        if self.cluster.diary.is_some() {
            return self.cluster.resume();
        }
        let view = self.cluster.scheduler.view();
        let topology = Topology::clone(&view.topology);
        let mut scheduler = Scheduler::new(topology, view.next_share);
        scheduler.resume_after_cycle(view.cycle);
        scheduler.restore_varied_off(view.varied_off);
        if remembers {
            let shares = view.jobs.iter().flat_map(|job| job.shares.iter().chain(&job.purged));
            let leaving = shares.filter(|share| share.state == SharePhase::Leaving);
            scheduler.restore_leaving(leaving.map(|share| share.id));
        }
        for spec in &self.specs {
            scheduler.record(SchedulerEvent::JobArrived(spec.clone()));
        }
        for job in view.jobs.iter() {
            for share in job.shares.iter().chain(&job.purged) {
                let (node, facts) = (share.node.clone(), share.facts);
                let (job, share) = (job.id, share.id);
                scheduler.record(SchedulerEvent::ShareSeen { job, share, node, facts });
            }
        }
        if !remembers {
            // A terminating share is held again, until it is terminated again.
            for known in self.shares.values_mut() {
                known.state = SharePhase::Held;
            }
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
                let name = self.name_of_node(node);
                for pool in &mut topology.pools {
                    pool.nodes.retain(|listed| *listed != name);
                }
                topology.pools[PoolIx(pool % pools)].nodes.push(name);
            }
            Reconfiguration::Quantum { pool, mebibytes } => {
                let top = topology.top_of(PoolIx(pool % pools));
                for pool in topology.pools.places() {
                    if topology.top_of(pool) == top {
                        topology.pools[pool].quantum = Quantum::new(Mebibytes(mebibytes)).unwrap();
                    }
                }
            }
            Reconfiguration::Restore => topology = self.world.topology.clone(),
            _ if classes == 0 => {}
            Reconfiguration::Remove(class) => {
                let name = topology.classes[ClassIx(class % classes)].name.clone();
                topology.classes.retain(|class| class.name != name);
            }
            Reconfiguration::Rename(class) => {
                let name = &mut topology.classes[ClassIx(class % classes)].name;
                *name = format!("{name}x").into();
            }
            Reconfiguration::Pace(class, rules) => {
                topology.classes[ClassIx(class % classes)].cap_rules = rules;
            }
            Reconfiguration::Priority(class, to) => {
                topology.classes[ClassIx(class % classes)].priority = to;
            }
            Reconfiguration::Class { class, pool } => {
                topology.classes[ClassIx(class % classes)].pool = PoolIx(pool % pools);
            }
        }
        self.cluster.command(AdminCommand::Reconfigure(Box::new(topology)));
    }
}
