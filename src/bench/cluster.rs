//! Draws the clusters that are measured: nodes of three sizes, four classes, more work than space.
//!
//! The same seed draws the same cluster and the same jobs. Nodes are 64, 128 and 256 GB in turn. A
//! job has equal chances for each of six memory sizes, four maxima of processes, four class weights
//! and all users. Its work is never done.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::converter::{CheckedPublication, JobState, PublishedJob, PublishedProcess};
use crate::model::{
    CapRules, ClassPolicy, GangRules, JobFacts, JobId, JobKind, JobSpec, Mebibytes, Millis,
    NodeReport, NodeTagging, Nodepool, PoolIx, ProcessLimit, QShares, Quantum, ResourceClass,
    Settings, Tags, Topology, count,
};
use crate::scheduler::View;

/// The weights of the classes.
pub const WEIGHTS: [u32; 4] = [50, 100, 200, 400];
/// The sizes of nodes, in turn, in GB.
const NODE_GIB: [u64; 3] = [64, 128, 256];
/// Numbers of blocked jobs come after this number: blocked jobs are younger than all other jobs,
/// including replacements.
const FIRST_BLOCKED: u64 = 1 << 40;
/// The number of the first process that fills a node.
const FIRST_FILLING: u64 = 1 << 41;
const JOB_GIB: [u64; 6] = [4, 8, 15, 30, 45, 60];
const LIMITS: [ProcessLimit; 4] = [
    ProcessLimit::AtMost(4),
    ProcessLimit::AtMost(16),
    ProcessLimit::AtMost(64),
    ProcessLimit::Unlimited,
];
/// More than any cluster has space for.
const WORK_ITEMS: u64 = 1_000_000;
/// Submission time of the first job; each later job follows after a second.
const FIRST_SUBMISSION: Millis = 1_600_000_000_000;
/// The priority of the classes that everything is in but jobs that are to be blocked.
const PRIORITY: u32 = 10;
/// Classes whose work comes after all other work, and may not preempt any of it.
const BLOCKED_FAIR: &str = "blocked-fair";
const BLOCKED_FIXED: &str = "blocked-fixed";
/// Class of work that fills nodes and is never preempted.
const FILLING: &str = "filling";
/// Memory of blocked jobs in GiB, from the smallest size of the other jobs on, which leave no space
/// for it. The range gives many shapes.
const BLOCKED_GIB: [u64; 2] = [4, 240];
/// Blocked jobs for each blocked job that lists its nodes.
const LISTING: u64 = 8;
/// Most nodes in such a list.
const LISTED: u64 = 8;

/// Parameters from which a cluster is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterShape {
    /// Number of nodes. At least 1.
    pub nodes: u64,
    /// Number of jobs. At least 1.
    pub jobs: u64,
    /// Their users. At least 1.
    pub users: u64,
    /// The smallest allocation.
    pub quantum: Quantum,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Builds a pool, and a fair-share class of each weight, whose jobs begin with two processes and
/// double.
pub fn topology(quantum: Quantum) -> Topology {
    let class = |weight| class(&class_name(weight), ClassPolicy::FairShare { weight }, PRIORITY);
    let pool = Nodepool {
        name: "main".into(),
        parent: None,
        search_order: 100,
        quantum,
        nodes: Vec::new(),
    };
    Topology {
        tagging: NodeTagging::default(),
        settings: Settings::default(),
        pools: vec![pool].into(),
        classes: WEIGHTS.map(class).to_vec().into(),
        allotments: BTreeMap::new(),
    }
}

/// [`topology`], with two classes of lower priorities for work that is to be blocked.
pub fn topology_with_queue(quantum: Quantum) -> Topology {
    let mut topology = topology(quantum);
    topology.classes.push(class(
        BLOCKED_FAIR,
        ClassPolicy::FairShare { weight: 100 },
        PRIORITY + 1,
    ));
    topology.classes.push(class(BLOCKED_FIXED, ClassPolicy::FixedShare, PRIORITY + 2));
    topology
}

/// [`topology`], with a class of higher priority for work that fills the nodes.
pub fn topology_with_filling(quantum: Quantum) -> Topology {
    let mut topology = topology(quantum);
    topology.classes.push(class(FILLING, ClassPolicy::FixedShare, PRIORITY - 1));
    topology
}

fn class(name: &str, policy: ClassPolicy, priority: u32) -> ResourceClass {
    ResourceClass {
        gangs: GangRules::default(),
        name: name.into(),
        policy,
        priority,
        pool: PoolIx(0),
        cap_rules: CapRules {
            initialization_cap: 2,
            expand_by_doubling: true,
            prediction: false,
            prediction_fudge: 0,
            loss_limit: CapRules::LOSS_LIMIT,
        },
        users: None,
        is_default: false,
        is_urgent: false,
    }
}

/// The class of this weight.
pub(super) fn class_name(weight: u32) -> String {
    format!("weight{weight}")
}

/// Returns `count` nodes, of the three sizes in turn.
pub fn nodes(count: u64) -> impl Iterator<Item = NodeReport> {
    let sizes = NODE_GIB.into_iter().cycle().map(Mebibytes::from_gib);
    (0..count).zip(sizes).map(|(number, memory)| node(number, memory))
}

/// Returns `count` nodes with the same memory.
pub fn equal_nodes(count: u64, memory: Mebibytes) -> impl Iterator<Item = NodeReport> {
    (0..count).map(move |number| node(number, memory))
}

fn node(number: u64, memory: Mebibytes) -> NodeReport {
    NodeReport { tags: Tags::default(), name: node_name(number).into(), memory, is_quiesced: false }
}

/// Sorted by name, nodes are sorted by number.
fn node_name(number: u64) -> String {
    format!("n{number:07}")
}

/// Job after job, without end, numbered from 1.
#[derive(Clone, Debug)]
pub struct JobStream {
    chance: Chance,
    /// Separate random numbers, so that the jobs that end have no influence on the jobs that
    /// arrive.
    ends: Chance,
    next: u64,
    users: u64,
}

impl JobStream {
    /// The jobs of a cluster of this shape, followed by the jobs that replace them.
    pub fn of(shape: &ClusterShape) -> JobStream {
        JobStream {
            chance: Chance::new(shape.seed, 0),
            ends: Chance::new(shape.seed, 2),
            next: 1,
            users: shape.users,
        }
    }

    /// Removes a random job from `jobs`.
    pub(super) fn one_of(&mut self, jobs: &mut Vec<JobId>) -> JobId {
        jobs.swap_remove(self.ends.position(jobs.len()))
    }
}

impl Iterator for JobStream {
    type Item = JobSpec;

    fn next(&mut self) -> Option<JobSpec> {
        let id = self.next;
        self.next += 1;
        let class = class_name(WEIGHTS[self.chance.position(WEIGHTS.len())]);
        let memory = Mebibytes::from_gib(JOB_GIB[self.chance.position(JOB_GIB.len())]);
        let limit = LIMITS[self.chance.position(LIMITS.len())];
        let user = user_name(self.chance.between([1, self.users]));
        Some(spec(id, user, class, memory, limit))
    }
}

/// Returns `shape.jobs` requests for a single share of a quantum, of all users and classes in turn.
pub fn single_requests(shape: &ClusterShape) -> impl Iterator<Item = JobSpec> {
    let ClusterShape { jobs, users, quantum, .. } = *shape;
    let weights = WEIGHTS.into_iter().cycle();
    let turns = (1..=users).cycle();
    (1..=jobs).zip(weights).zip(turns).map(move |((id, weight), user)| {
        let class = class_name(weight);
        let limit = ProcessLimit::AtMost(1);
        let mut spec = spec(id, user_name(user), class, quantum.memory(), limit);
        spec.facts.remaining = 1;
        spec
    })
}

/// Returns `shape.jobs` jobs that are blocked in a full cluster of this shape. The two classes of
/// [`topology_with_queue`] have a lower priority than all the rest, which wants more than the
/// cluster has. Jobs may all differ: half of them want a single process that is never preempted,
/// the other half many, of any memory; some list the nodes they may use.
pub fn blocked_jobs(shape: &ClusterShape) -> impl Iterator<Item = JobSpec> {
    let ClusterShape { nodes, jobs, users, seed, .. } = *shape;
    let mut chance = Chance::new(seed, 1);
    (1..=jobs).map(move |number| {
        let is_fixed = chance.between([0, 1]) == 0;
        let class = if is_fixed { BLOCKED_FIXED } else { BLOCKED_FAIR };
        let memory = Mebibytes::from_gib(chance.between(BLOCKED_GIB));
        let limit = LIMITS[chance.position(LIMITS.len())];
        let user = user_name(chance.between([1, users]));
        let mut spec = spec(FIRST_BLOCKED + number, user, class.to_owned(), memory, limit);
        if is_fixed {
            spec.kind = JobKind::Service;
            spec.facts.remaining = 1;
        }
        if chance.between([1, LISTING]) == 1 {
            let listed = chance.between([1, LISTED]);
            let mut node = || node_name(chance.between([0, nodes - 1]));
            spec.nodes = (0..listed).map(|_| node()).collect();
        }
        spec
    })
}

/// For each node of a cluster of this shape, a process that needs all of it and is never preempted,
/// in the class of [`topology_with_filling`].
pub fn filling(shape: &ClusterShape) -> impl Iterator<Item = JobSpec> {
    let ClusterShape { nodes: count, quantum, .. } = *shape;
    let orders = nodes(count).map(move |node| quantum.order_of_node(node.memory));
    let orders = orders.filter(|order| QShares(0) < *order);
    orders.zip(FIRST_FILLING..).map(move |(order, id)| {
        let memory = quantum.memory_of(order);
        let mut spec = spec(id, user_name(1), FILLING.to_owned(), memory, ProcessLimit::AtMost(1));
        spec.kind = JobKind::Service;
        spec.facts.remaining = 1;
        spec
    })
}

fn spec(id: u64, user: String, class: String, memory: Mebibytes, limit: ProcessLimit) -> JobSpec {
    JobSpec {
        shape: None,
        tags: Tags::default(),
        id: JobId(id),
        user: user.into(),
        class: class.into(),
        kind: JobKind::Job,
        memory,
        threads: 1,
        submitted: FIRST_SUBMISSION + 1_000 * id,
        nodes: Vec::new(),
        except_nodes: Vec::new(),
        service: 0,
        facts: JobFacts {
            remaining: WORK_ITEMS,
            limit,
            is_running: false,
            time_per_item: None,
            is_completing: false,
        },
    }
}

fn user_name(number: u64) -> String {
    format!("u{number:06}")
}

/// Builds the publication of an orchestrator that runs these jobs and shows every process of
/// `view`.
pub fn publication(sequence: u64, jobs: &[JobSpec], view: &View) -> CheckedPublication {
    let mut work: BTreeMap<JobId, PublishedJob> = BTreeMap::new();
    for spec in jobs {
        let (spec, processes) = (spec.clone(), BTreeMap::new());
        work.insert(spec.id, PublishedJob { spec, state: JobState::Schedulable, processes });
    }
    for job in view.jobs.iter() {
        let Some(work) = work.get_mut(&job.id) else { continue };
        for share in &job.shares {
            let process =
                PublishedProcess { node: share.node.clone(), is_gone: false, facts: share.facts };
            work.processes.insert(share.id, process);
        }
    }
    CheckedPublication { sequence, work, limbo: BTreeMap::new() }
}

/// Chance. Integers only, and none of them as wide as the platform's words.
#[derive(Clone, Debug)]
struct Chance(ChaCha8Rng);

impl Chance {
    /// The chances of the `stream`th of all things that are drawn from `seed`.
    fn new(seed: u64, stream: u64) -> Chance {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Chance(random)
    }

    fn between(&mut self, [least, most]: [u64; 2]) -> u64 {
        self.0.random_range(least..=most)
    }

    /// A position in a list of this length, which is not 0.
    fn position(&mut self, length: usize) -> usize {
        usize::try_from(self.between([0, count(1..length)])).expect("it is less than a length")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shape(seed: u64) -> ClusterShape {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        ClusterShape { nodes: 30, jobs: 500, users: 50, quantum, seed }
    }

    #[test]
    fn nodes_are_of_three_sizes_in_turn_and_sorted_by_name() {
        let nodes: Vec<NodeReport> = nodes(12).collect();
        let gib: Vec<u64> = nodes.iter().map(|node| node.memory.0 >> 10).take(4).collect();
        assert_eq!(gib, [64, 128, 256, 64]);
        assert!(nodes.is_sorted_by_key(|node| &node.name));
    }

    #[test]
    fn the_same_seed_draws_the_same_jobs_and_another_others() {
        let draw = |seed| JobStream::of(&shape(seed)).take(20).collect::<Vec<_>>();
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn jobs_are_of_every_size_limit_class_and_user() {
        let jobs: Vec<JobSpec> = JobStream::of(&shape(1)).take(500).collect();
        let memories: BTreeSet<u64> = jobs.iter().map(|job| job.memory.0 >> 10).collect();
        assert_eq!(memories, BTreeSet::from(JOB_GIB));
        let classes: BTreeSet<&str> = jobs.iter().map(|job| job.class.as_str()).collect();
        assert_eq!(classes.len(), 4);
        let users: BTreeSet<&str> = jobs.iter().map(|job| job.user.as_str()).collect();
        assert_eq!(users.len(), 50);
        for limit in LIMITS {
            assert!(jobs.iter().any(|job| job.facts.limit == limit), "{limit:?}");
        }
        assert_eq!((jobs[0].id, jobs[499].id), (JobId(1), JobId(500)));
    }

    #[test]
    fn blocked_jobs_are_of_many_shapes() {
        let shape_of = |job: JobSpec| (job.class, job.memory, job.nodes);
        let shapes: BTreeSet<_> = blocked_jobs(&shape(1)).map(shape_of).collect();
        assert!(shapes.len() > 250, "{}", shapes.len());
        assert!(shapes.iter().any(|(_, _, nodes)| !nodes.is_empty()));
    }
}
