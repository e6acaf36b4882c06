//! Cases as text: a cluster, its events step by step, and the required result.
//!
//! A step is a list of lines, separated by `;`. After each step the cluster runs until nothing
//! changes any more. The lines:
//!
//! | line | means |
//! |---|---|
//! | `m1=8` | node `m1` reports 8 GB |
//! | `m1 dies`, `m1 off`, `m1 on`, `m1 quiesces` | what it says |
//! | `7 ann 2x5 on m1,m2` | job 7 of ann: order 2, at most 5 processes, only on these nodes |
//! | `7 ann@low 2` | the same in class `low`, as many as there may be; the class is else `normal` |
//! | `7 ann@fixed 2 service` | a service; else a process or reservation, as the class is, or a `job` |
//! | `7 ann 2x6` | of a job that is there already: now at most 6 |
//! | `7 did 500` | each of its processes has 500 ms invested |
//! | `7 left 3` | it has 3 work items left |
//! | `7 exits` | one of its processes, the oldest, ends by itself |
//! | `7 frozen`, `7 ends` | it gets no more processes; it is ending |
//! | `7 gone` | it is over |
//! | `restart` | a new scheduler learns of everything anew |

#![allow(unused_macros, unused_imports, reason = "not every test file has tables")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use apportion::model::{
    ClassPolicy, JobFacts, JobId, JobKind, JobSpec, Mebibytes, NodeReport, ProcessLimit,
    SharePhase, Topology,
};
use apportion::scheduler::{AdminCommand, Scheduler, SchedulerEvent};

use super::cluster::{Cluster, DOUBLING, UNPACED, class, fair, job, topology};

/// A cycle until which it must have settled, and for how many it must stay so.
const SETTLES_WITHIN: usize = 20;
const STAYS_FOR: usize = 10;
/// Cycles without a change after which a cluster is quiet, including a cycle to act on that.
const STILL: usize = 3;

/// A row of a table. Every field may be left out.
#[derive(Clone, Copy, Default)]
pub struct Case {
    /// Fair-share classes with their weights, `light=1 heavy=3`, beside the standard classes.
    pub classes: &'static str,
    /// Most non-preemptable memory that a user may hold, in GB; 0 means any.
    pub allotment: u64,
    /// Events; the last step is checked.
    pub steps: &'static [&'static str],
    /// Final holdings of jobs: `1=6 2=0`. Other jobs are not checked.
    pub held: &'static str,
    /// Jobs that lost shares in the last step, with the number of shares: `2=1`; other jobs lost
    /// none. `any` if that does not matter.
    pub lost: &'static str,
    /// Final reasons of waiting jobs: `2=impossible`.
    pub why: &'static str,
}

impl Case {
    /// Plays the case and fails with all that is wrong with it.
    #[track_caller]
    pub fn check(&self) {
        let wrong = self.play();
        assert!(wrong.is_empty(), "{wrong}");
    }

    /// Plays the case; returns its faults, a line for each.
    fn play(&self) -> String {
        let mut script = Script::new(self);
        let (last, before) = self.steps.split_last().unwrap();
        for step in before {
            script.step(step);
            script.settle();
        }
        script.lost.clear();
        script.step(last);
        script.settle();
        let mut wrong = String::new();
        script.expect_to_stay(&mut wrong);
        if self.lost != "any" {
            expect("lost", &pairs(self.lost), &script.lost, &mut wrong);
        }
        let wanted = pairs(self.held);
        let held: BTreeMap<u64, u64> =
            wanted.keys().map(|&id| (id, script.cluster.held(id))).collect();
        expect("held", &wanted, &held, &mut wrong);
        for pair in self.why.split_whitespace() {
            let (id, reason) = pair.split_once('=').unwrap();
            let is = script.cluster.reason(id.parse().unwrap());
            if reason != is {
                writeln!(wrong, "why {id}: {is} instead of {reason}").unwrap();
            }
        }
        if !wrong.is_empty() {
            wrong.push_str(&script.cluster.picture());
        }
        wrong
    }
}

fn pairs(text: &str) -> BTreeMap<u64, u64> {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(id, amount)| (id.parse().unwrap(), amount.parse().unwrap())).collect()
}

/// A case being played.
pub struct Script {
    pub cluster: Cluster,
    specs: BTreeMap<u64, JobSpec>,
    /// Shares taken, by job.
    lost: BTreeMap<u64, u64>,
}

impl Script {
    /// An empty cluster with the standard classes and the classes of `case`.
    pub fn new(case: &Case) -> Script {
        let mut classes = vec![
            class("reserve", ClassPolicy::Reserve, 1, UNPACED),
            class("fixed", ClassPolicy::FixedShare, 2, UNPACED),
            class("urgent", ClassPolicy::FairShare { weight: 100 }, 5, UNPACED),
            fair("normal", 100, UNPACED),
            fair("doubling", 100, DOUBLING),
            class("low", ClassPolicy::FairShare { weight: 100 }, 20, UNPACED),
            class("stable", ClassPolicy::FixedShare, 30, UNPACED),
        ];
        for pair in case.classes.split_whitespace() {
            let (name, weight) = pair.split_once('=').unwrap();
            classes.push(fair(name, weight.parse().unwrap(), UNPACED));
        }
        let mut topology = Topology { classes: classes.into(), ..topology() };
        topology.settings.allotment =
            (case.allotment > 0).then(|| Mebibytes::from_gib(case.allotment));
        Script { cluster: Cluster::new(topology), specs: BTreeMap::new(), lost: BTreeMap::new() }
    }

    /// Applies a step: the events before the next cycle.
    pub fn step(&mut self, step: &str) {
        for line in step.split(';') {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["restart"] => self.restart(),
                [node] => {
                    self.cluster.nodes(node);
                }
                [node, "dies"] => {
                    self.cluster.record(SchedulerEvent::NodeDied { node: node.into() });
                }
                [node, "off"] => {
                    let (nodes, reason) = (vec![node.to_owned()], "a test".to_owned());
                    self.cluster.command(AdminCommand::VaryOff { nodes, reason });
                }
                [node, "on"] => {
                    self.cluster.command(AdminCommand::VaryOn { nodes: vec![node.to_owned()] });
                }
                [node, "quiesces"] => self.quiesce(node),
                [id, "gone"] => {
                    let id = id.parse().unwrap();
                    self.specs.remove(&id).unwrap();
                    self.cluster.complete(id);
                }
                [id, "did", investment] => {
                    self.cluster.invest(id.parse().unwrap(), investment.parse().unwrap());
                }
                [id, "left", remaining] => {
                    let remaining = remaining.parse().unwrap();
                    self.change(id, |facts| facts.remaining = remaining);
                }
                [id, "frozen"] => self.change(id, |facts| facts.limit = ProcessLimit::Frozen),
                [id, "ends"] => self.change(id, |facts| facts.is_completing = true),
                [id, "exits"] => {
                    let job = JobId(id.parse().unwrap());
                    let view = self.cluster.scheduler.view();
                    let share = view.jobs.iter().find(|view| view.id == job).unwrap().shares[0].id;
                    self.cluster.record(SchedulerEvent::ShareExited { job, share });
                }
                [id, whose, size, ref rest @ ..] => {
                    self.work(id.parse().unwrap(), whose, size, rest);
                }
                [] | [_, _] => assert!(words.is_empty(), "`{line}` means nothing here"),
            }
        }
    }

    fn quiesce(&mut self, name: &str) {
        let view = self.cluster.scheduler.view();
        let memory = view.nodes.iter().find(|node| node.name == name).unwrap().memory;
        let report = NodeReport {
            tags: apportion::model::Tags::default(),
            name: name.into(),
            memory,
            is_quiesced: true,
        };
        self.cluster.record(SchedulerEvent::NodeReported(report));
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut JobFacts)) {
        let spec = self.specs.get_mut(&id.parse().unwrap()).unwrap();
        change(&mut spec.facts);
        let (job, facts) = (spec.id, spec.facts);
        self.cluster.record(SchedulerEvent::JobChanged { job, facts });
    }

    /// Work arrives, or its maximum changes.
    fn work(&mut self, id: u64, whose: &str, size: &str, rest: &[&str]) {
        let (user, class) = whose.split_once('@').unwrap_or((whose, "normal"));
        let (order, most) = size
            .split_once('x')
            .map_or((size, None), |(order, most)| (order, Some(most.parse::<u64>().unwrap())));
        let limit = most.map_or(ProcessLimit::Unlimited, ProcessLimit::AtMost);
        if self.specs.contains_key(&id) {
            return self.change(&id.to_string(), |facts| facts.limit = limit);
        }
        let mut spec = job(id, user, class, order.parse().unwrap());
        spec.facts.limit = limit;
        spec.kind = match class {
            "reserve" => JobKind::Reservation,
            "fixed" | "stable" => JobKind::ArbitraryProcess,
            _ => JobKind::Job,
        };
        let mut rest = rest.iter();
        while let Some(&word) = rest.next() {
            match word {
                "on" => {
                    let nodes = rest.next().unwrap().split(',');
                    spec.nodes = nodes.map(str::to_owned).collect();
                }
                "service" => spec.kind = JobKind::Service,
                "job" => spec.kind = JobKind::Job,
                "starting" => spec.facts.is_running = false,
                _ => panic!("`{word}` means nothing here"),
            }
        }
        if spec.kind != JobKind::Job {
            spec.facts.remaining = 1;
        }
        self.specs.insert(id, spec.clone());
        self.cluster.arrive(spec);
    }

    /// A new scheduler: the store has the nodes varied off and the terminated shares, the
    /// orchestrator shows running processes, and every node that was up reports.
    fn restart(&mut self) {
        let view = self.cluster.scheduler.view();
        let mut scheduler = Scheduler::new(Topology::clone(&view.topology), view.next_share);
        scheduler.resume_after_cycle(view.cycle);
        let shares = || view.jobs.iter().flat_map(|job| job.shares.iter().chain(&job.purged));
        let leaving = shares().filter(|share| share.state == SharePhase::Leaving);
        scheduler.restore_leaving(leaving.map(|share| share.id));
        scheduler.restore_varied_off(view.varied_off);
        for spec in self.specs.values() {
            scheduler.record(SchedulerEvent::JobArrived(spec.clone()));
        }
        for job in view.jobs.iter() {
            for share in job.shares.iter().chain(&job.purged) {
                let (share, node, facts) = (share.id, share.node.clone(), share.facts);
                scheduler.record(SchedulerEvent::ShareSeen { job: job.id, share, node, facts });
            }
        }
        for node in view.nodes.iter().filter(|node| !node.state.is_dead) {
            let (name, memory) = (node.name.clone(), node.memory);
            let report = NodeReport {
                tags: apportion::model::Tags::default(),
                name,
                memory,
                is_quiesced: node.state.is_quiesced,
            };
            scheduler.record(SchedulerEvent::NodeReported(report));
        }
        self.cluster.scheduler = scheduler;
    }

    /// Number of shares preempted since the step before the last.
    pub fn lost(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Runs until nothing changes any more, also once the cluster is idle.
    pub fn settle(&mut self) {
        let mut still = 0;
        for _ in 0..SETTLES_WITHIN {
            let before = self.cluster.picture();
            self.cycle();
            still = if self.cluster.picture() == before { still + 1 } else { 0 };
            if still == STILL {
                return;
            }
        }
    }

    /// Runs a cycle; returns the number of preempted shares.
    pub fn cycle(&mut self) -> usize {
        self.cluster.cycle();
        let planned = self.cluster.view.planned.as_deref().unwrap();
        for preemption in &planned.schedule.preemptions {
            *self.lost.entry(preemption.job.0).or_default() += 1;
        }
        planned.schedule.preemptions.len()
    }

    /// From now on nothing moves.
    fn expect_to_stay(&mut self, wrong: &mut String) {
        let before = self.cluster.picture();
        for cycle in 1..=STAYS_FOR {
            let preempted = self.cycle();
            if preempted > 0 || self.cluster.picture() != before {
                writeln!(wrong, "it moves {cycle} cycles later; it was\n{before}\n").unwrap();
                return;
            }
        }
    }
}

fn expect(what: &str, wanted: &BTreeMap<u64, u64>, found: &BTreeMap<u64, u64>, wrong: &mut String) {
    if wanted != found {
        writeln!(wrong, "{what}: {found:?} instead of {wanted:?}").unwrap();
    }
}

/// Makes each row of a table a test of its own, whose name is the claim.
macro_rules! cases {
    ($($(#[$doc:meta])* $claim:ident { $($field:ident: $value:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[test]
        fn $claim() {
            $crate::support::script::Case {
                $($field: $value,)*
                ..$crate::support::script::Case::default()
            }
            .check();
        }
    )*};
}
pub(crate) use cases;
