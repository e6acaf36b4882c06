//! Random steps of a history: everything that can happen to a cluster between two cycles.

use apportion::model::{CapRules, JobFacts, JobId, JobKind, JobSpec, Mebibytes, ProcessLimit};
use proptest::prelude::*;

use super::world::{Size, cap_rules};

/// An event between two cycles. Numbers are taken modulo the number of existing objects.
#[derive(Clone, Debug)]
pub enum Step {
    Arrive(Box<JobSpec>),
    /// Arrival of `jobs` jobs at the same time, drawn from this seed.
    Crowd {
        jobs: usize,
        seed: u64,
    },
    Complete(usize),
    /// End of `jobs` jobs in a row.
    Leave {
        first: usize,
        jobs: usize,
    },
    Change(usize, Change),
    Invest {
        job: usize,
        investment: u64,
    },
    Exit {
        job: usize,
        share: usize,
    },
    Appear {
        job: usize,
        node: usize,
    },
    Node(usize, NodeStep),
    /// The same happens to so many nodes in a row.
    Storm {
        first: usize,
        nodes: usize,
        step: NodeStep,
    },
    IntervalPassed,
    Confirm(Confirm),
    /// True if the restarted scheduler remembers terminated shares.
    Restart {
        remembers: bool,
    },
    Reconfigure(Reconfiguration),
    Cycle,
}

/// Changed fact of a job.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Limit(ProcessLimit),
    Remaining(u64),
    TimePerItem(Option<u64>),
    Running,
    Completing,
}

/// Event of a node.
#[derive(Clone, Copy, Debug)]
pub enum NodeStep {
    Report { is_quiesced: bool },
    Resize(u64),
    Die,
    Miss(u32),
    VaryOff,
    VaryOn,
}

/// Exits that the orchestrator confirms before each cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    All,
    /// Exits of shares with an even number.
    Half,
    None,
    /// Each exit after some cycles of its own, at most `most`; a tenth of the exits never.
    Slowly {
        most: u64,
    },
}

/// Change by an administrator.
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
    /// The initial configuration.
    Restore,
}

/// Steps of a history, as many and as large as suits the size of its world. A crowd comes first.
pub fn steps(size: Size, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let steps = prop::collection::vec(step(size), 1..most.min(size.steps));
    (crowd(size), steps).prop_map(|(first, steps)| [vec![first], steps].concat())
}

fn crowd(size: Size) -> impl Strategy<Value = Step> {
    (0..=size.crowd, any::<u64>()).prop_map(|(jobs, seed)| Step::Crowd { jobs, seed })
}

fn step(size: Size) -> impl Strategy<Value = Step> {
    let jobs = 0..=size.crowd;
    let nodes = 0..=size.storm;
    prop_oneof![
        8 => arrival().prop_map(|spec| Step::Arrive(Box::new(spec))),
        2 => crowd(size),
        2 => any::<usize>().prop_map(Step::Complete),
        1 => (any::<usize>(), jobs).prop_map(|(first, jobs)| Step::Leave { first, jobs }),
        4 => (any::<usize>(), change()).prop_map(|(job, change)| Step::Change(job, change)),
        3 => (any::<usize>(), 0..5000_u64).prop_map(|(job, investment)| Step::Invest { job, investment }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(job, share)| Step::Exit { job, share }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(job, node)| Step::Appear { job, node }),
        5 => (any::<usize>(), node_step()).prop_map(|(node, step)| Step::Node(node, step)),
        1 => (any::<usize>(), nodes, node_step())
            .prop_map(|(first, nodes, step)| Step::Storm { first, nodes, step }),
        1 => Just(Step::IntervalPassed),
        1 => confirm().prop_map(Step::Confirm),
        1 => any::<bool>().prop_map(|remembers| Step::Restart { remembers }),
        1 => reconfiguration().prop_map(Step::Reconfigure),
        12 => Just(Step::Cycle),
    ]
}

/// Work of any kind. User, class and machines are numbers, for the history to make names of.
pub fn arrival() -> impl Strategy<Value = JobSpec> {
    let kind = prop::sample::select(vec![
        JobKind::Job,
        JobKind::Job,
        JobKind::Job,
        JobKind::Job,
        JobKind::Service,
        JobKind::ArbitraryProcess,
        JobKind::Reservation,
    ]);
    let threads = prop_oneof![2 => Just(1), 1 => 2..9_u64];
    let memory = prop_oneof![3 => 1..7_u64, 1 => 1..40_u64];
    let nodes = prop::option::weighted(0.15, prop::collection::vec(any::<u16>(), 1..4));
    let what = (any::<u8>(), 0..13_usize, memory, threads, nodes, 0..3_u64);
    (kind, what, facts(), 0..1000_u64).prop_map(|(kind, what, facts, submitted)| {
        let (user, class, memory, threads, nodes, service) = what;
        JobSpec {
            shape: None,
            tags: apportion::model::Tags::default(),
            id: JobId(0),
            user: user.to_string().into(),
            class: class.to_string().into(),
            kind,
            memory: Mebibytes(memory * 400),
            threads,
            submitted,
            nodes: nodes.unwrap_or_default().iter().map(u16::to_string).collect(),
            except_nodes: Vec::new(),
            service,
            facts,
        }
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
        8 => Just(NodeStep::Report { is_quiesced: false }),
        1 => Just(NodeStep::Report { is_quiesced: true }),
        3 => (0..40_u64).prop_map(NodeStep::Resize),
        2 => Just(NodeStep::Die),
        1 => (1..5_u32).prop_map(NodeStep::Miss),
        2 => Just(NodeStep::VaryOff),
        4 => Just(NodeStep::VaryOn),
    ]
}

fn confirm() -> impl Strategy<Value = Confirm> {
    prop_oneof![
        4 => Just(Confirm::All),
        1 => Just(Confirm::Half),
        1 => Just(Confirm::None),
        1 => (0..4_u64).prop_map(|most| Confirm::Slowly { most }),
        1 => (0..100_u64).prop_map(|most| Confirm::Slowly { most }),
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
        (any::<usize>(), pool.clone())
            .prop_map(|(node, pool)| Reconfiguration::Node { node, pool }),
        (pool, 300..3000_u64)
            .prop_map(|(pool, mebibytes)| Reconfiguration::Quantum { pool, mebibytes }),
        Just(Reconfiguration::Restore),
    ]
}
