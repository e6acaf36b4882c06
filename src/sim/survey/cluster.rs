//! Draws small saturated clusters, each as a scenario of the recorded shape.
//!
//! All jobs arrive within the first cycles. From then on only the investment in their processes
//! changes: work is never done, nodes never fail. Each change near the end is therefore the
//! scheduler's own doing, and a job without a share at the end stays without.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sim::count;
use crate::sim::recorded::scenario::{
    AutoRun, ClassInput, CycleInput, EventInput, JobInput, KindInput, NodesInput, PlayOptions,
    PolicyInput, PoolInput, Scenario, ScenarioConfig,
};
use crate::sim::recorded::shape::ShapeInput;

/// Cycles for which a cluster is played.
pub(super) const CYCLES: u64 = 60;
/// The cycles in which jobs arrive.
pub(super) const ARRIVAL_CYCLES: u64 = 8;
const NODES: [u64; 2] = [8, 40];
const LARGEST_ORDER: u64 = 16;
const USERS: [u64; 2] = [4, 20];
const CLASSES: [u64; 2] = [1, 4];
pub(super) const WEIGHTS: [u32; 4] = [10, 50, 100, 200];
/// Range of the least number of jobs; each user has a job, too.
const JOBS: [u64; 2] = [12, 22];
/// Number of jobs from which on each job asks for all that it can get, so that the number grows
/// little further.
const MANY_JOBS: usize = 24;
/// Demand over capacity, in percent.
const DEMAND_PERCENT: [u64; 2] = [150, 300];
const INITIALIZATION_CAP: [u64; 2] = [0, 2];

/// Draws the `index`th cluster of `seed`, independent of all other clusters.
pub(super) fn scenario(seed: u64, index: u64) -> Scenario {
    let mut draw = Draw::new(seed, index);
    let hardware = Hardware::draw(&mut draw);
    let classes = draw_classes(&mut draw, &hardware);
    let jobs = draw_jobs(&mut draw, &hardware, &classes);
    let list = hardware.nodes.iter().map(|node| (node.name.clone(), node.order)).collect();
    let mut cycles = vec![CycleInput::default(); usize::try_from(CYCLES).expect("it is small")];
    cycles[0].events.push(EventInput::Nodes(NodesInput { list, ..NodesInput::default() }));
    for (arrival, job) in jobs {
        cycles[arrival].events.push(EventInput::Job(Box::new(job)));
    }
    Scenario {
        name: format!("survey-{seed}-{index:03}"),
        config: ScenarioConfig {
            quantum_gb: Some(1),
            initialization_cap: Some(draw.between(INITIALIZATION_CAP)),
            expand_by_doubling: Some(draw.one_in(2)),
            prediction: Some(draw.one_in(2)),
            nodepools: hardware.pool_inputs(),
            classes,
            ..ScenarioConfig::default()
        },
        options: PlayOptions {
            auto_confirm: true,
            auto_run: Some(AutoRun {
                init_ms: draw.between([1_000, 60_000]),
                time_per_item_ms: draw.between([300_000, 3_600_000]),
                items_per_process: 0,
                invest_per_cycle_ms: draw.between([1_000, 40_000]),
            }),
            auto_end: false,
        },
        cycles,
    }
}

/// Chance. Integers only, and none of them as wide as the platform's words.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The chances of the `index`th of all things that are drawn from `seed`.
    pub fn new(seed: u64, index: u64) -> Draw {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index);
        Draw(random)
    }

    pub fn between(&mut self, [least, most]: [u64; 2]) -> u64 {
        self.0.random_range(least..=most)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.between([1, chances]) == 1
    }

    /// A position in a list of this length, which is not 0.
    pub fn position(&mut self, length: usize) -> usize {
        usize::try_from(self.between([0, count(length) - 1])).expect("it is less than a length")
    }
}

struct DrawnNode {
    name: String,
    order: u64,
    pool: usize,
}

/// A pool, by the position of the pool it is nested in.
struct DrawnPool {
    name: String,
    parent: Option<usize>,
}

struct Hardware {
    pools: Vec<DrawnPool>,
    nodes: Vec<DrawnNode>,
}

impl Hardware {
    fn draw(draw: &mut Draw) -> Hardware {
        let pools = draw_pools(draw);
        // A few sizes, as sites buy them; the first size has space for more than one process.
        let kinds = draw.between([1, 6]);
        let mut sizes = vec![draw.between([4, LARGEST_ORDER])];
        sizes.extend((1..kinds).map(|_| draw.between([1, LARGEST_ORDER])));
        let nodes = draw.between(NODES);
        let node = |number: u64| {
            // No pool is empty: the first machines go round.
            let round = usize::try_from(number).ok().filter(|&number| number < pools.len());
            DrawnNode {
                name: format!("n{number:02}"),
                order: sizes[draw.position(sizes.len())],
                pool: round.unwrap_or_else(|| draw.position(pools.len())),
            }
        };
        let nodes = (0..nodes).map(node).collect();
        Hardware { pools, nodes }
    }

    /// The orders of the machines in a pool and in its nested pools.
    fn orders_in(&self, pool: usize) -> Vec<u64> {
        let is_in = |node: &&DrawnNode| {
            let mut at = Some(node.pool);
            while at.is_some_and(|at| at != pool) {
                at = at.and_then(|at| self.pools[at].parent);
            }
            at.is_some()
        };
        self.nodes.iter().filter(is_in).map(|node| node.order).collect()
    }

    fn capacity(&self) -> u64 {
        self.nodes.iter().map(|node| node.order).sum()
    }

    fn pool_inputs(&self) -> Vec<PoolInput> {
        let input = |(ix, pool): (usize, &DrawnPool)| {
            let nodes = self.nodes.iter().filter(|node| node.pool == ix);
            PoolInput {
                name: pool.name.clone(),
                parent: pool.parent.map(|parent| self.pools[parent].name.clone()),
                search_order: None,
                quantum_gb: None,
                nodes: nodes.map(|node| node.name.clone()).collect(),
            }
        };
        self.pools.iter().enumerate().map(input).collect()
    }
}

/// Draws a top pool; a third of the clusters have up to three pools nested in it, at most two deep.
fn draw_pools(draw: &mut Draw) -> Vec<DrawnPool> {
    let mut pools = vec![DrawnPool { name: "all".to_owned(), parent: None }];
    if !draw.one_in(3) {
        return pools;
    }
    for number in 1..=draw.between([1, 3]) {
        let may_hold_another = |pool: &DrawnPool| pool.parent.is_none_or(|parent| parent == 0);
        let parents: Vec<usize> =
            (0..pools.len()).filter(|&ix| may_hold_another(&pools[ix])).collect();
        let parent = parents[draw.position(parents.len())];
        pools.push(DrawnPool { name: format!("sub{number}"), parent: Some(parent) });
    }
    pools
}

/// Draws classes of a single priority. The first class may go everywhere; another class is in a
/// subpool now and then.
fn draw_classes(draw: &mut Draw, hardware: &Hardware) -> Vec<ClassInput> {
    let classes = draw.between(CLASSES);
    let class = |number: u64| {
        let is_nested = 1 < number && 1 < hardware.pools.len() && draw.one_in(2);
        let pool = if is_nested { 1 + draw.position(hardware.pools.len() - 1) } else { 0 };
        ClassInput {
            active: None,
            name: format!("class{number}"),
            policy: PolicyInput::FairShare,
            priority: Some(10),
            weight: Some(WEIGHTS[draw.position(WEIGHTS.len())]),
            nodepool: Some(hardware.pools[pool].name.clone()),
            initialization_cap: None,
            expand_by_doubling: None,
            use_prediction: None,
            prediction_fudge_ms: None,
            users: None,
            gangs: None,
            patience: None,
            max_duration_ms: None,
            urgent: None,
        }
    };
    (1..=classes).map(class).collect()
}

/// Jobs, with the cycle in which each arrives, in that order: together they ask for far more than
/// there is.
fn draw_jobs(
    draw: &mut Draw,
    hardware: &Hardware,
    classes: &[ClassInput],
) -> Vec<(usize, JobInput)> {
    let users = draw.between(USERS);
    let least = draw.between(JOBS).max(users);
    let wanted = hardware.capacity() * draw.between(DEMAND_PERCENT);
    let mut demanded = 0;
    let mut jobs: Vec<(usize, JobInput)> = Vec::new();
    while count(jobs.len()) < least || demanded * 100 < wanted {
        let is_crowded = MANY_JOBS <= jobs.len();
        let class = if is_crowded { &classes[0] } else { &classes[draw.position(classes.len())] };
        let pool = hardware
            .pools
            .iter()
            .position(|pool| Some(&pool.name) == class.nodepool.as_ref())
            .expect("classes are drawn from the pools");
        let orders = hardware.orders_in(pool);
        let order = draw_order(draw, &orders);
        let most: u64 = orders.iter().map(|node| node.div_euclid(order)).sum();
        // On average, the demand divided by this size gives the number of jobs.
        let size = wanted.div_euclid(100 * least) * draw.between([40, 160]);
        let asked = size.div_euclid(100 * order).max(1);
        let processes = if is_crowded { most } else { asked };
        demanded += processes.min(most) * order;
        let user = match count(jobs.len()) {
            number if number < users => number,
            _ => draw.between([0, users - 1]),
        };
        let job = draw_job(draw, &class.name, order, processes);
        let arrival = usize::try_from(draw.between([0, ARRIVAL_CYCLES - 1])).expect("it is small");
        jobs.push((arrival, JobInput { user: format!("u{user:02}"), ..job }));
    }
    jobs.sort_by_key(|&(arrival, _)| arrival);
    for (id, (_, job)) in (1..).zip(&mut jobs) {
        job.id = id;
    }
    jobs
}

/// Draws an order that fits on the largest of these machines, small orders more often.
fn draw_order(draw: &mut Draw, nodes: &[u64]) -> u64 {
    let largest = nodes.iter().copied().max().expect("no pool is empty");
    let most = if draw.one_in(2) { largest } else { draw.between([1, largest]) };
    draw.between([1, most])
}

/// A job that could use `processes` for ever, be it for its work or its maximum.
fn draw_job(draw: &mut Draw, class: &str, order: u64, processes: u64) -> JobInput {
    let threads = if draw.one_in(4) { draw.between([2, 4]) } else { 1 };
    let is_limited = draw.one_in(3);
    let work = if is_limited { draw.between([2, 5]) } else { 1 };
    JobInput {
        tags: BTreeMap::new(),
        id: 0,
        user: String::new(),
        class: class.to_owned(),
        memory_gb: Some(order),
        threads,
        work_items: processes * threads * work,
        completed: 0,
        max_processes: is_limited.then(|| i64::try_from(processes).expect("a cluster is small")),
        kind: KindInput::Job,
        nodes: Vec::new(),
        service_id: 0,
        submit: None,
        runs_for_ms: None,
        shape: ShapeInput::default(),
    }
}
