//! Random clusters: pools, nodes, classes and settings, all drawn.

use std::collections::BTreeMap;

use apportion::model::{
    CapRules, Mebibytes, Nodepool, Policy, PoolIx, Quantum, ResourceClass, Settings, Topology,
};
use proptest::prelude::*;

/// Everybody there is.
pub const USERS: [&str; 5] = ["ann", "bob", "cid", "dan", "eve"];

const TREES: usize = 4;
const DEPTH: u32 = 4;

/// A configuration, and what its nodes report.
#[derive(Clone, Debug)]
pub struct World {
    pub topology: Topology,
    pub nodes: Vec<(String, Mebibytes)>,
}

/// Pool: what it is in, if anything; its quantum in MiB, if nothing; its search order.
type PoolSeed = (Option<usize>, u64, u32);

/// Class: policy and weight, priority, pool, pacing, users.
type ClassSeed = (Policy, u32, usize, CapRules, Option<Vec<bool>>);

/// Node: pool, or none that lists it; memory in units of 512 MiB.
type NodeSeed = (Option<usize>, u64);

/// One to four trees, at most five deep; up to 12 classes and 10 nodes.
pub fn world() -> impl Strategy<Value = World> {
    let pools = prop::collection::vec(pool_seed(), 1..9);
    let classes = prop::collection::vec(class_seed(), 1..13);
    let nodes = prop::collection::vec(node_seed(), 1..11);
    let allotments = prop::collection::btree_map(0..USERS.len(), 1..20_u64, 0..2);
    (pools, classes, nodes, settings(), allotments).prop_map(
        |(pools, classes, nodes, settings, allotments)| {
            build(&pools, classes, &nodes, settings, &allotments)
        },
    )
}

fn pool_seed() -> impl Strategy<Value = PoolSeed> {
    let parent = prop_oneof![1 => Just(None), 3 => (0..8_usize).prop_map(Some)];
    (parent, prop::sample::select(vec![1024, 512, 1500, 2048]), 0..3_u32)
}

fn class_seed() -> impl Strategy<Value = ClassSeed> {
    let weight = prop_oneof![3 => Just(100), 1 => Just(1), 1 => Just(1000), 3 => 1..=1000_u32];
    let policy = prop_oneof![
        6 => weight.prop_map(|weight| Policy::FairShare { weight }),
        1 => Just(Policy::FixedShare),
        1 => Just(Policy::Reserve),
    ];
    let users = prop::option::weighted(0.1, prop::collection::vec(any::<bool>(), USERS.len()));
    (policy, 1..=4_u32, 0..8_usize, cap_rules(), users)
}

/// How fast the jobs of a class grow.
pub fn cap_rules() -> impl Strategy<Value = CapRules> {
    let pace = (0..4_u64, any::<bool>(), any::<bool>(), 0..100_000_u64);
    pace.prop_map(|(initialization_cap, expand_by_doubling, prediction, prediction_fudge)| {
        CapRules { initialization_cap, expand_by_doubling, prediction, prediction_fudge }
    })
}

fn node_seed() -> impl Strategy<Value = NodeSeed> {
    (prop::option::weighted(0.9, 0..8_usize), 0..20_u64)
}

fn settings() -> impl Strategy<Value = Settings> {
    let amounts = (
        prop::option::of(0..30_u64),
        prop_oneof![2 => Just(0), 1 => 0..4_u64],
        prop_oneof![3 => Just(0), 1 => 0..3_u64],
    );
    let mass_loss = prop::option::weighted(0.3, 10..60_u32);
    (0..10_u64, any::<bool>(), amounts, mass_loss).prop_map(
        |(fragmentation_threshold, defragmentation, amounts, mass_loss_percent)| {
            let (allotment, overage, reserved) = amounts;
            Settings {
                fragmentation_threshold,
                defragmentation,
                allotment: allotment.map(Mebibytes::from_gib),
                reserve_overage: Mebibytes::from_gib(overage),
                reserved_memory: Mebibytes(reserved * 512),
                node_stability: 3,
                mass_loss_percent,
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
    allotments: &BTreeMap<usize, u64>,
) -> World {
    let mut topology =
        Topology { settings, pools: Vec::new(), classes: Vec::new(), allotments: BTreeMap::new() };
    for seed in pool_seeds {
        add_pool(&mut topology, *seed);
    }
    let mut nodes = Vec::new();
    for (ix, &(pool, units)) in node_seeds.iter().enumerate() {
        let name = format!("n{ix}");
        if let Some(pool) = pool.map(|pool| pool % topology.pools.len()) {
            topology.pools[pool].nodes.push(name.clone());
        }
        nodes.push((name, Mebibytes(units * 512)));
    }
    for (ix, (policy, priority, pool, cap_rules, users)) in classes.into_iter().enumerate() {
        let members = |allowed: Vec<bool>| {
            let named = USERS.iter().zip(allowed).filter(|(_, is_allowed)| *is_allowed);
            named.map(|(user, _)| (*user).to_owned()).collect()
        };
        topology.classes.push(ResourceClass {
            name: format!("class{ix}"),
            policy,
            priority,
            pool: PoolIx(pool % topology.pools.len()),
            cap_rules,
            users: users.map(members),
            is_default: false,
        });
    }
    topology.allotments = allotments
        .iter()
        .map(|(&user, &gib)| (USERS[user].to_owned(), Mebibytes::from_gib(gib)))
        .collect();
    World { topology, nodes }
}

/// A pool may be in any earlier one, unless that is too deep already.
fn add_pool(topology: &mut Topology, (parent, quantum, search_order): PoolSeed) {
    let trees = topology.pools.iter().filter(|pool| pool.parent.is_none()).count();
    let ix = topology.pools.len();
    let wanted = parent.or_else(|| (trees >= TREES).then_some(0));
    let parent = wanted
        .and_then(|parent| parent.checked_rem(ix))
        .map(PoolIx)
        .map(|parent| if topology.depth_of(parent) < DEPTH { parent } else { PoolIx(0) });
    let quantum = match parent {
        Some(parent) => topology.pools[parent.0].quantum,
        None => Quantum::new(Mebibytes(quantum)).unwrap(),
    };
    topology.pools.push(Nodepool {
        name: format!("pool{ix}"),
        parent,
        search_order,
        quantum,
        nodes: Vec::new(),
    });
}
