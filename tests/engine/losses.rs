//! Nodes that stay away, come back, are varied off, declared lost, or never existed: random lives,
//! judged by a client that remembers the last heartbeat of each node.

use std::collections::BTreeMap;

use crate::support::cluster::{Cluster, UNPACED, fair, job, topology};
use apportion::model::{Name, SharePhase, Topology};
use apportion::scheduler::{AdminCommand, SchedulerEvent};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const NODES: usize = 10;
const STABILITY: u32 = 3;
const PERCENT: u32 = 20;

/// An event within an interval.
#[derive(Clone, Debug)]
enum Step {
    /// These fall silent.
    Leave(Vec<usize>),
    /// These report again.
    Return(Vec<usize>),
    /// An administrator takes a node out.
    VaryOff(usize),
    /// And puts it back.
    VaryOn(usize),
    /// An operator declares a node lost.
    Lost(usize),
    /// No event.
    Nothing,
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0..NODES, 1..4);
    prop_oneof![
        4 => some().prop_map(Step::Leave),
        3 => some().prop_map(Step::Return),
        1 => (0..NODES).prop_map(Step::VaryOff),
        1 => (0..NODES).prop_map(Step::VaryOn),
        1 => (0..NODES).prop_map(Step::Lost),
        5 => Just(Step::Nothing),
    ]
}

fn name(node: usize) -> String {
    format!("m{node:02}")
}

/// A cluster with a shown process on every node, and the client's memory.
struct AgentTracker {
    cluster: Cluster,
    is_up: [bool; NODES],
    is_off: [bool; NODES],
    /// True if an operator declared the node lost since its last heartbeat.
    is_lost: [bool; NODES],
    /// Interval of each node's last heartbeat.
    heard: [u32; NODES],
    interval: u32,
    invented: usize,
}

impl AgentTracker {
    fn new(invented: usize) -> AgentTracker {
        let mut topology =
            Topology { classes: vec![fair("normal", 100, UNPACED)].into(), ..topology() };
        topology.settings.node_stability = STABILITY;
        topology.settings.mass_loss_percent = Some(PERCENT);
        let mut lives = AgentTracker {
            cluster: Cluster::new(topology),
            is_up: [true; NODES],
            is_off: [false; NODES],
            is_lost: [false; NODES],
            heard: [0; NODES],
            interval: 0,
            invented: 0,
        };
        lives.report();
        lives.cluster.arrive(job(1, "ann", "normal", 1)).cycle();
        lives.cluster.invest(1, 0);
        lives.invented = invented;
        lives.report();
        lives
    }

    fn report(&mut self) {
        for node in (0..NODES).filter(|node| self.is_up[*node]) {
            self.cluster.nodes(&format!("{}=4", name(node)));
            self.heard[node] = self.interval;
            self.is_lost[node] = false;
        }
        for node in 0..self.invented {
            self.cluster.nodes(&format!("x{node:02}=4"));
        }
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Leave(nodes) => nodes.iter().for_each(|node| self.is_up[*node] = false),
            Step::Return(nodes) => nodes.iter().for_each(|node| self.is_up[*node] = true),
            Step::VaryOff(node) => {
                self.is_off[*node] = true;
                self.cluster.vary_off(&name(*node));
            }
            Step::VaryOn(node) => {
                self.is_off[*node] = false;
                self.cluster.vary_on(&name(*node));
            }
            Step::Lost(node) => {
                let command = AdminCommand::NodesLost {
                    nodes: vec![name(*node)],
                    reason: "a test".to_owned(),
                };
                // The command is refused for a node that reports.
                self.is_lost[*node] |= self.cluster.order(command).is_ok();
            }
            Step::Nothing => {}
        }
        self.report();
        // All placed processes run, on nodes that exist.
        self.show_on_real_nodes();
        self.interval += 1;
        self.cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
    }

    /// The orchestrator shows started processes on nodes that exist and are up.
    fn show_on_real_nodes(&mut self) {
        let shares: Vec<_> = self.cluster.job(1).shares.iter().cloned().collect();
        for share in shares.iter().filter(|share| share.state == SharePhase::Held) {
            let is_up = (0..NODES).any(|node| self.is_up[node] && share.node == name(node));
            if is_up {
                let (node, facts) = (share.node.clone(), share.facts);
                let job = apportion::model::JobId(1);
                self.cluster.record(SchedulerEvent::ShareSeen {
                    job,
                    share: share.id,
                    node,
                    facts,
                });
            }
        }
    }

    /// True if the node has missed enough heartbeats.
    fn is_dead(&self, node: usize) -> bool {
        self.is_lost[node] || STABILITY < self.interval - self.heard[node]
    }

    fn held_back(&self) -> Vec<Name> {
        let real = |held: &&Name| held.starts_with('m');
        self.cluster.view.lost_held_back.iter().filter(real).cloned().collect()
    }

    /// Processes that are held on each node.
    fn held_on(&self) -> BTreeMap<Name, usize> {
        let mut on = BTreeMap::new();
        for share in &self.cluster.job(1).shares {
            if share.state == SharePhase::Held {
                *on.entry(share.node.clone()).or_default() += 1;
            }
        }
        on
    }

    fn look(&self) {
        let (held_back, held_on) = (self.held_back(), self.held_on());
        for node in 0..NODES {
            let its_name = Name::from(name(node).as_str());
            let is_named = held_back.contains(&its_name);
            if !self.is_dead(node) {
                assert!(!is_named, "{its_name} is heard and held back");
                continue;
            }
            let is_out = self.is_off[node] || self.is_lost[node];
            assert!(!is_out || !is_named, "{its_name} is out and held back");
            assert!(
                is_named || !held_on.contains_key(&its_name),
                "{its_name} keeps its work and is not named: {}",
                self.cluster.picture()
            );
            // Nodes that left before or after do not matter; the test looks for a node that left at
            // the same time.
            let left_with_it = |other: &usize| {
                *other != node && self.heard[*other].abs_diff(self.heard[node]) <= STABILITY
            };
            if !(0..NODES).any(|other| left_with_it(&other)) {
                assert!(!is_named, "{its_name} left alone and is held back");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default()
    })]

    /// Work on a dead node is given up, or the node is named. A node that leaves alone is never
    /// held back, nor is a node that is varied off or declared lost. Unknown names change nothing.
    #[test]
    fn work_on_a_dead_node_is_given_up_or_the_node_is_named(
        steps in prop::collection::vec(step(), 1..40),
        invented in 1..30_usize,
    ) {
        let (mut lives, mut beside) = (AgentTracker::new(0), AgentTracker::new(invented));
        for step in &steps {
            lives.act(step);
            lives.look();
            beside.act(step);
            beside.look();
            assert_eq!(lives.held_back(), beside.held_back(), "{invented} invented names");
        }
    }
}
