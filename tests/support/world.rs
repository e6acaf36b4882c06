//! Random clusters: pools, nodes, classes and settings, all drawn.

use std::collections::BTreeMap;

use apportion::model::{
    CapRules, ClassPolicy, GangRules, IxVec, Mebibytes, Nodepool, PoolIx, Quantum, ResourceClass,
    Settings, Topology, UserAllotment,
};
use proptest::prelude::*;

/// Largest size of a world, and of its events.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// No crowd comes where there are so many jobs already.
    pub jobs: usize,
    pub nodes: usize,
    pub pools: usize,
    pub users: usize,
    pub steps: usize,
    /// Jobs that come or go at once.
    pub crowd: usize,
    /// Nodes to which the same happens at once.
    pub storm: usize,
    /// Cycles after which, with constant input, nothing is preempted any more.
    pub settles_within: usize,
}

/// Most histories: what goes wrong mostly goes wrong with few.
pub const SMALL: Size = Size {
    jobs: 100,
    nodes: 10,
    pools: 8,
    users: 6,
    steps: 80,
    crowd: 5,
    storm: 3,
    settles_within: 20,
};

/// A department.
pub const MEDIUM: Size = Size {
    jobs: 300,
    nodes: 100,
    pools: 16,
    users: 40,
    steps: 60,
    crowd: 60,
    storm: 30,
    settles_within: 20,
};

/// A computing centre.
pub const LARGE: Size = Size {
    jobs: 5000,
    nodes: 2000,
    pools: 24,
    users: 200,
    steps: 30,
    crowd: 1500,
    storm: 500,
    settles_within: 20,
};

const TREES: usize = 4;
const DEPTH: u32 = 4;

/// A configuration, and what its nodes report.
#[derive(Clone, Debug)]
pub struct World {
    pub topology: Topology,
    pub nodes: Vec<(String, Mebibytes)>,
    pub users: Vec<String>,
    pub size: Size,
}

/// Pool: what it is in, if anything; its quantum in MiB, if nothing; its search order.
type PoolSeed = (Option<usize>, u64, u32);

/// Class: policy and weight, priority, pool, pacing, users.
type ClassSeed = (ClassPolicy, u32, usize, CapRules, Option<Vec<bool>>);

/// Node: pool, or none that lists it; memory in units of 512 MiB.
type NodeSeed = (Option<usize>, u64);

/// Up to four trees, at most five deep; up to 12 classes.
pub fn world(size: Size) -> impl Strategy<Value = World> {
    let pools = prop::collection::vec(pool_seed(), 1..=size.pools);
    let classes = prop::collection::vec(class_seed(), 1..13);
    let nodes = prop::collection::vec(node_seed(), 1..=size.nodes);
    let allotments = prop::collection::btree_map(0..size.users, 1..20_u64, 0..2);
    (pools, classes, nodes, settings(), 1..=size.users, allotments).prop_map(
        move |(pools, classes, nodes, settings, users, allotments)| {
            let users: Vec<String> = (0..users).map(|ix| format!("u{ix}")).collect();
            let (mut topology, nodes) = build(&pools, classes, &nodes, settings, &users);
            let own = |gib| UserAllotment::of_fixed(Mebibytes::from_gib(gib));
            let allotment = |(user, gib)| (format!("u{user}"), own(gib));
            topology.allotments = allotments.into_iter().map(allotment).collect();
            World { topology, nodes, users, size }
        },
    )
}

fn pool_seed() -> impl Strategy<Value = PoolSeed> {
    let parent = prop_oneof![1 => Just(None), 3 => any::<usize>().prop_map(Some)];
    (parent, prop::sample::select(vec![1024, 512, 1500, 2048, 320]), 0..3_u32)
}

fn class_seed() -> impl Strategy<Value = ClassSeed> {
    let weight = prop_oneof![3 => Just(100), 1 => Just(1), 1 => Just(1000), 3 => 1..=1000_u32];
    let policy = prop_oneof![
        6 => weight.prop_map(|weight| ClassPolicy::FairShare { weight }),
        1 => Just(ClassPolicy::FixedShare),
        1 => Just(ClassPolicy::Reserve),
    ];
    let users = prop::option::weighted(0.1, prop::collection::vec(any::<bool>(), 5));
    let pool = prop_oneof![1 => Just(0), 1 => any::<usize>()];
    (policy, 1..=4_u32, pool, cap_rules(), users)
}

/// Growth of the jobs of a class.
pub fn cap_rules() -> impl Strategy<Value = CapRules> {
    let pace = (0..4_u64, any::<bool>(), any::<bool>(), 0..100_000_u64, 0..4_000_000_u64);
    pace.prop_map(|pace| {
        let (initialization_cap, expand_by_doubling, prediction, prediction_fudge, loss_limit) =
            pace;
        CapRules {
            initialization_cap,
            expand_by_doubling,
            prediction,
            prediction_fudge,
            loss_limit,
        }
    })
}

fn node_seed() -> impl Strategy<Value = NodeSeed> {
    let units = prop_oneof![1 => 0..4_u64, 6 => 4..40_u64];
    (prop::option::weighted(0.9, any::<usize>()), units)
}

fn settings() -> impl Strategy<Value = Settings> {
    let amounts = (
        prop::option::of(0..30_u64),
        prop_oneof![2 => Just(0), 1 => 0..4_u64],
        prop_oneof![3 => Just(0), 1 => 0..3_u64],
    );
    let mass_loss = prop::option::weighted(0.3, 10..60_u32);
    // With the safety net and without: it settles either way.
    let quiet_stop = prop_oneof![Just(None), Just(Some(12))];
    (0..10_u64, any::<bool>(), amounts, mass_loss, quiet_stop).prop_map(
        |(fragmentation_threshold, defragmentation, amounts, mass_loss_percent, quiet_stop)| {
            let (allotment, overage, reserved) = amounts;
            Settings {
                fragmentation_threshold,
                defragmentation,
                allotment: allotment.map(Mebibytes::from_gib),
                reserve_overage: Mebibytes::from_gib(overage),
                reserved_memory: Mebibytes(reserved * 512),
                node_stability: 3,
                mass_loss_percent,
                quiet_stop,
                ..Settings::default()
            }
        },
    )
}

fn build(
    pool_seeds: &[PoolSeed],
    classes: Vec<ClassSeed>,
    node_seeds: &[NodeSeed],
    settings: Settings,
    users: &[String],
) -> (Topology, Vec<(String, Mebibytes)>) {
    let mut topology = Topology {
        tagging: apportion::model::NodeTagging::default(),
        settings,
        pools: IxVec::default(),
        classes: IxVec::default(),
        allotments: BTreeMap::new(),
    };
    for seed in pool_seeds {
        add_pool(&mut topology, *seed);
    }
    let mut nodes = Vec::new();
    for (ix, &(pool, units)) in node_seeds.iter().enumerate() {
        let name = format!("n{ix}");
        if let Some(pool) = pool.map(|pool| pool % topology.pools.len()) {
            topology.pools[PoolIx(pool)].nodes.push(name.clone());
        }
        nodes.push((name, Mebibytes(units * 512)));
    }
    for (ix, (policy, priority, pool, cap_rules, allowed)) in classes.into_iter().enumerate() {
        // The rights of a user in a handful repeat for the same user of every other handful.
        let members = |allowed: Vec<bool>| {
            let named = users.iter().zip(allowed.into_iter().cycle());
            named.filter(|(_, is_allowed)| *is_allowed).map(|(user, _)| user.clone()).collect()
        };
        topology.classes.push(ResourceClass {
            gangs: GangRules::default(),
            name: format!("class{ix}").into(),
            policy,
            priority,
            pool: PoolIx(pool % topology.pools.len()),
            cap_rules,
            users: allowed.map(members),
            is_default: false,
            is_urgent: false,
        });
    }
    (topology, nodes)
}

/// A pool may be in any earlier pool, unless that is too deep already.
fn add_pool(topology: &mut Topology, (parent, quantum, search_order): PoolSeed) {
    let trees = topology.pools.iter().filter(|pool| pool.parent.is_none()).count();
    let ix = topology.pools.len();
    let wanted = parent.or_else(|| (trees >= TREES).then_some(0));
    let parent = wanted
        .and_then(|parent| parent.checked_rem(ix))
        .map(PoolIx)
        .map(|parent| if topology.depth_of(parent) < DEPTH { parent } else { PoolIx(0) });
    let quantum = match parent {
        Some(parent) => topology.pools[parent].quantum,
        None => Quantum::new(Mebibytes(quantum)).unwrap(),
    };
    topology.pools.push(Nodepool {
        name: format!("pool{ix}").into(),
        parent,
        search_order,
        quantum,
        nodes: Vec::new(),
    });
}
