//! Draws a single large saturated cluster.
//!
//! As in the survey, all jobs arrive within the first cycles, together ask for more memory than the
//! cluster has, and their work is never done. A single pool has machines of all sizes.

use crate::model::{
    CapRules, ClassPolicy, GangRules, JobFacts, JobId, JobKind, JobSpec, Mebibytes, Millis,
    NodeReport, Nodepool, PoolIx, ProcessLimit, Quantum, ResourceClass, Settings, Topology,
};
use crate::sim::survey::cluster::{ARRIVAL_CYCLES, Draw, WEIGHTS};

use super::ScaleSize;

const QUANTUM: Mebibytes = Mebibytes(15 * 1024);
const NODE_ORDER: [u64; 2] = [1, 16];
const JOB_ORDER: [u64; 2] = [1, 4];
/// Nodes for each user.
const NODES_A_USER: u64 = 10;
/// Demand of a job, in percent of its equal part of the cluster: never less than all of the part.
const DEMAND_PERCENT: [u64; 2] = [100, 300];
const INITIALIZATION: [Millis; 2] = [1_000, 60_000];
const TIME_PER_ITEM: [Millis; 2] = [300_000, 3_600_000];
/// Submission time of the first job; each later job follows after a second.
const FIRST_SUBMISSION: Millis = 1_600_000_000_000;

/// A cluster, and its jobs.
pub(super) struct DrawnCluster {
    pub topology: Topology,
    pub nodes: Vec<NodeReport>,
    pub jobs: Vec<DrawnJob>,
}

/// A job to come. They are numbered from 1, without gaps.
pub(super) struct DrawnJob {
    pub spec: JobSpec,
    /// The cycle in which it arrives; the first is 1.
    pub arrival: u64,
    /// Initialization time of the job's processes.
    pub initialization: Millis,
    pub time_per_item: Millis,
}

/// The cluster of this size and `seed`.
pub(super) fn cluster(size: ScaleSize, seed: u64) -> DrawnCluster {
    let mut draw = Draw::new(seed, 0);
    let quantum = Quantum::new(QUANTUM).expect("it is not nothing");
    let orders: Vec<u64> = (0..size.nodes).map(|_| draw.between(NODE_ORDER)).collect();
    let capacity = orders.iter().sum();
    let node = |(number, order): (u64, &u64)| NodeReport {
        tags: crate::model::Tags::default(),
        name: format!("n{number:05}").into(),
        memory: Mebibytes(QUANTUM.0 * order),
        is_quiesced: false,
    };
    DrawnCluster {
        topology: topology(quantum),
        nodes: (0..).zip(&orders).map(node).collect(),
        jobs: (1..=size.jobs).map(|id| job(&mut draw, id, size, capacity)).collect(),
    }
}

/// Builds a pool, and a class of each weight.
fn topology(quantum: Quantum) -> Topology {
    let class = |(weight, is_default): (u32, bool)| ResourceClass {
        gangs: GangRules::default(),
        name: class_name(weight).into(),
        policy: ClassPolicy::FairShare { weight },
        priority: 10,
        pool: PoolIx(0),
        cap_rules: CapRules {
            initialization_cap: 2,
            expand_by_doubling: true,
            prediction: true,
            prediction_fudge: 60_000,
            loss_limit: CapRules::LOSS_LIMIT,
        },
        users: None,
        is_default,
        is_urgent: false,
    };
    let pool = Nodepool {
        name: "all".into(),
        parent: None,
        search_order: 100,
        quantum,
        nodes: Vec::new(),
    };
    let is_first = [true].into_iter().chain(std::iter::repeat(false));
    Topology {
        tagging: crate::model::NodeTagging::default(),
        settings: Settings::default(),
        pools: vec![pool].into(),
        classes: WEIGHTS.into_iter().zip(is_first).map(class).collect(),
        allotments: std::collections::BTreeMap::new(),
    }
}

fn class_name(weight: u32) -> String {
    format!("weight{weight}")
}

fn job(draw: &mut Draw, id: u64, size: ScaleSize, capacity: u64) -> DrawnJob {
    let order = draw.between(JOB_ORDER);
    let demand = (capacity * draw.between(DEMAND_PERCENT)).div_ceil(100 * size.jobs);
    let users = size.nodes.div_ceil(NODES_A_USER);
    let spec = JobSpec {
        shape: None,
        tags: crate::model::Tags::default(),
        id: JobId(id),
        user: format!("u{:04}", draw.between([1, users])).into(),
        class: class_name(WEIGHTS[draw.position(WEIGHTS.len())]).into(),
        kind: JobKind::Job,
        memory: Mebibytes(QUANTUM.0 * order),
        threads: 1,
        submitted: FIRST_SUBMISSION + 1_000 * id,
        nodes: Vec::new(),
        except_nodes: Vec::new(),
        service: 0,
        facts: JobFacts {
            remaining: demand.div_ceil(order),
            limit: ProcessLimit::Unlimited,
            is_running: false,
            time_per_item: None,
            is_completing: false,
        },
    };
    DrawnJob {
        spec,
        arrival: draw.between([1, ARRIVAL_CYCLES]),
        initialization: draw.between(INITIALIZATION),
        time_per_item: draw.between(TIME_PER_ITEM),
    }
}
