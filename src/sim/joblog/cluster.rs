//! The cluster that all policies see: nodes in quanta of memory, and classes with their nodes.

use std::num::NonZeroU64;

use super::log::{JobLog, JobLogError};
use super::nodes::LogNode;
use crate::model::{
    CapRules, ClassIx, ClassPolicy, GangRules, IxVec, Mebibytes, Name, NodeTagging, Nodepool,
    PoolIx, Quantum, ResourceClass, Settings, Topology, ceil_div,
};

/// Name of the class that a replay adds where no other takes its jobs.
pub(super) const BUILT_IN_CLASS: &str = "replayed";

/// Name of the class, and of the user, of the job that fills what the jobs of a log leave.
pub(super) const FILLER: &str = "filler";

/// Policy of the jobs of a replay under the scheduler of this project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayedAs {
    /// Jobs run to their end on the nodes where they start.
    #[default]
    FixedShare,
    /// Jobs may be preempted for fairness, and then begin anew.
    FairShare,
}

/// Classes for the jobs of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRules {
    /// Policy of the jobs.
    pub replayed_as: ReplayedAs,
    /// Class of all jobs that `of_queue` does not name. `None`: the default class of the policy.
    pub class: Option<String>,
    /// Pairs of a queue and its class.
    pub of_queue: Vec<(String, String)>,
    /// Memory of a process of an endless fair-share job that fills what the jobs leave; `None` if
    /// there is no such job.
    pub filler: Option<Mebibytes>,
}

/// A node of the replayed cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayNode {
    /// Name of the node.
    pub name: Name,
    /// Memory that it reports.
    pub memory: Mebibytes,
    /// Memory that jobs can use, in whole quanta.
    pub usable: Mebibytes,
    /// Usable memory in quanta.
    pub quanta: u64,
    /// Processors; `None` if unknown.
    pub processors: Option<u64>,
    /// Pool of the node.
    pool: PoolIx,
}

/// A class that jobs of the log go to, and the nodes it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayClass {
    /// Name of the class.
    pub name: Name,
    /// Quantum of its pool.
    pub quantum: Quantum,
    /// True if its jobs may lose shares for fairness.
    pub is_preemptable: bool,
    /// Indices of its nodes, ascending.
    pub nodes: Vec<usize>,
    /// Quanta of its largest node.
    pub largest: u64,
    /// Processors of the node with the most; `None` if a node's are unknown.
    pub most_processors: Option<NonZeroU64>,
    /// The least memory for a processor on any node: memory of a node in MiB, and its processors.
    pub memory_per_processor: Option<(u64, NonZeroU64)>,
}

/// The cluster of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayCluster {
    /// Configuration of the scheduler.
    pub topology: Topology,
    /// Every node.
    pub nodes: Vec<ReplayNode>,
    /// Classes of the jobs.
    pub classes: Vec<ReplayClass>,
    /// Pairs of a queue and the index of its class.
    of_queue: Vec<(String, usize)>,
    /// Index of the class of all other jobs.
    class: usize,
    /// Memory of a process of the job that fills what the jobs leave, in whole quanta.
    pub(super) filler: Option<Mebibytes>,
}

impl ReplayCluster {
    /// Puts `nodes` into the pools of `topology`, or into a single pool of `quantum` without a
    /// topology.
    ///
    /// # Errors
    ///
    /// If a class does not exist, or no node has memory for a quantum.
    pub fn new(
        topology: Option<Topology>,
        quantum: Quantum,
        nodes: &[LogNode],
        rules: &ClassRules,
    ) -> Result<ReplayCluster, JobLogError> {
        let mut topology = topology.unwrap_or_else(|| built_in(quantum));
        let nodes = measure(&topology, nodes);
        let default = default_class(&mut topology, rules)?;
        let mut classes = vec![class_of(&topology, &nodes, default)];
        let mut of_queue = Vec::new();
        for (queue, name) in &rules.of_queue {
            let ix = class_ix(&topology, name)?;
            let known = classes.iter().position(|class| class.name == topology.classes[ix].name);
            let at = known.unwrap_or_else(|| {
                classes.push(class_of(&topology, &nodes, ix));
                classes.len() - 1
            });
            of_queue.push((queue.clone(), at));
        }
        if classes.iter().all(|class| class.largest == 0) {
            let quantum = classes.first().map_or(quantum, |class| class.quantum).memory();
            return Err(JobLogError::whole(
                format!("no node has memory for one quantum of {quantum}"),
                "check --node-memory, and `quantum` of the configuration",
            ));
        }
        let filler = rules.filler.map(|memory| add_filler(&mut topology, &classes, memory));
        Ok(ReplayCluster { topology, nodes, classes, of_queue, class: 0, filler })
    }

    /// Index of the class for jobs of `queue`.
    pub(super) fn class_for(&self, queue: &str) -> usize {
        let found = self.of_queue.iter().find(|(known, _)| known == queue);
        found.map_or(self.class, |(_, class)| *class)
    }

    /// Memory that jobs can use, in MiB.
    pub fn usable(&self) -> u64 {
        self.nodes.iter().map(|node| node.usable.0).fold(0, u64::saturating_add)
    }

    /// Queues of the options that no job of `log` has.
    pub(super) fn unknown_queues<'a>(&'a self, log: &JobLog) -> Vec<&'a str> {
        let is_unknown = |queue: &&str| log.rows.iter().all(|row| row.queue != **queue);
        self.of_queue.iter().map(|(queue, _)| queue.as_str()).filter(is_unknown).collect()
    }
}

/// Nodes in their pools.
fn measure(topology: &Topology, nodes: &[LogNode]) -> Vec<ReplayNode> {
    let pools = topology.pools_by_node();
    let node = |node: &LogNode| {
        let memory = node.memory.unwrap_or_default();
        let pool = pools.get(node.name.as_str()).copied().unwrap_or(PoolIx(0));
        let quantum = topology.pools[pool].quantum;
        let offered = memory.0.saturating_sub(topology.settings.reserved_memory.0);
        let quanta = quantum.order_of_node(Mebibytes(offered));
        ReplayNode {
            name: Name::from(node.name.as_str()),
            memory,
            usable: quantum.memory_of(quanta),
            quanta: quanta.0,
            processors: node.processors,
            pool,
        }
    };
    nodes.iter().map(node).collect()
}

/// The class at `ix`, with its nodes: of its pool; of fair-share work, of the pools below it too.
fn class_of(topology: &Topology, nodes: &[ReplayNode], ix: ClassIx) -> ReplayClass {
    let class = &topology.classes[ix];
    let is_open = |pool: PoolIx| {
        if class.policy.is_preemptable() {
            topology.is_within(pool, class.pool)
        } else {
            pool == class.pool
        }
    };
    let own: Vec<usize> = (0..nodes.len())
        .filter(|node| is_open(nodes[*node].pool) && 0 < nodes[*node].quanta)
        .collect();
    let processors: Option<Vec<(u64, NonZeroU64)>> = own
        .iter()
        .map(|node| {
            let node = &nodes[*node];
            Some((node.usable.0, NonZeroU64::new(node.processors?)?))
        })
        .collect();
    let processors = processors.unwrap_or_default();
    // Fractions are compared by products, which fit in 128 bits.
    let by_ratio = |(memory, count): &(u64, NonZeroU64), (other, others): &(u64, NonZeroU64)| {
        let (one, two) = (u128::from(*memory), u128::from(*other));
        (one * u128::from(others.get())).cmp(&(two * u128::from(count.get())))
    };
    ReplayClass {
        name: class.name.clone(),
        quantum: topology.pools[class.pool].quantum,
        is_preemptable: class.policy.is_preemptable(),
        largest: own.iter().map(|node| nodes[*node].quanta).max().unwrap_or(0),
        most_processors: processors.iter().map(|(_, count)| *count).max(),
        memory_per_processor: processors.iter().copied().min_by(by_ratio),
        nodes: own,
    }
}

impl ReplayClass {
    /// Memory that stands for so many processors, in MiB; `None` if a node's are unknown.
    pub(super) fn memory_of(&self, processors: u64) -> Option<u64> {
        let (memory, of) = self.memory_per_processor?;
        Some(ceil_div(memory.saturating_mul(processors), of))
    }
}

/// Index of the class called `name`.
fn class_ix(topology: &Topology, name: &str) -> Result<ClassIx, JobLogError> {
    topology.class_named(name).ok_or_else(|| {
        let names: Vec<&str> = topology.classes.iter().map(|class| class.name.as_str()).collect();
        let remedy = if names.iter().all(|name| *name == BUILT_IN_CLASS) {
            "name classes of a configuration, with --config FILE".to_owned()
        } else {
            format!("the classes are {}", names.join(", "))
        };
        JobLogError::whole(format!("there is no class `{name}`"), remedy)
    })
}

/// Index of the class for jobs whose queue has none: named, or the default of the policy, or any
/// other class that takes gangs, or a class that is added.
fn default_class(topology: &mut Topology, rules: &ClassRules) -> Result<ClassIx, JobLogError> {
    if let Some(name) = &rules.class {
        return class_ix(topology, name);
    }
    let is_meant = |class: &ResourceClass| match rules.replayed_as {
        ReplayedAs::FixedShare => class.policy == ClassPolicy::FixedShare,
        ReplayedAs::FairShare => class.policy.is_preemptable(),
    };
    let meant = || topology.classes.with_ix().filter(|(_, class)| is_meant(class));
    let open = meant().filter(|(_, class)| class.gangs.are_allowed && class.users.is_none());
    let best = open.max_by_key(|(ix, class)| (class.is_default, std::cmp::Reverse(*ix)));
    if let Some((ix, _)) = best {
        return Ok(ix);
    }
    if topology.class_named(BUILT_IN_CLASS).is_some() {
        return class_ix(topology, BUILT_IN_CLASS);
    }
    let policy = match rules.replayed_as {
        ReplayedAs::FixedShare => ClassPolicy::FixedShare,
        ReplayedAs::FairShare => ClassPolicy::FairShare { weight: 100 },
    };
    topology.classes.push(added_class(policy));
    Ok(ClassIx(topology.classes.len() - 1))
}

/// The class that a replay adds.
fn added_class(policy: ClassPolicy) -> ResourceClass {
    ResourceClass {
        name: Name::from(BUILT_IN_CLASS),
        priority: if policy.is_preemptable() { 10 } else { 5 },
        policy,
        pool: PoolIx(0),
        cap_rules: CapRules {
            initialization_cap: 2,
            expand_by_doubling: true,
            prediction: false,
            prediction_fudge: 60_000,
            loss_limit: CapRules::LOSS_LIMIT,
        },
        gangs: GangRules { are_allowed: true, ..GangRules::default() },
        users: None,
        is_default: false,
        is_urgent: false,
    }
}

/// Adds a fair-share class of the lowest priority, for all nodes of the pool tree of the first of
/// `classes`. Returns the memory of a process in whole quanta.
fn add_filler(topology: &mut Topology, classes: &[ReplayClass], memory: Mebibytes) -> Mebibytes {
    let first = classes.first().and_then(|class| topology.class_named(&class.name));
    let pool = first.map_or(PoolIx(0), |ix| topology.top_of(topology.classes[ix].pool));
    let lowest = topology.classes.iter().map(|class| class.priority).max().unwrap_or(0);
    let quantum = topology.pools[pool].quantum;
    let mut class = added_class(ClassPolicy::FairShare { weight: 100 });
    class.name = Name::from(FILLER);
    class.priority = lowest.saturating_add(1);
    class.pool = pool;
    class.cap_rules.initialization_cap = 0;
    class.cap_rules.expand_by_doubling = false;
    topology.classes.push(class);
    quantum.order_of_work(memory).map_or(memory, |order| quantum.memory_of(order.qshares()))
}

/// The configuration of a replay without a file: a single pool.
fn built_in(quantum: Quantum) -> Topology {
    Topology {
        settings: Settings::default(),
        pools: vec![Nodepool {
            name: Name::from("nodes"),
            parent: None,
            search_order: 100,
            quantum,
            nodes: Vec::new(),
        }]
        .into(),
        classes: IxVec::default(),
        tagging: NodeTagging::default(),
        allotments: std::collections::BTreeMap::new(),
    }
}
