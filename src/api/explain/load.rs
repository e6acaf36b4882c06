//! Space and demand by size: the space of nodepools, and processes that jobs could use besides.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::api::explain::node_fit::free;
use crate::api::published::CycleSpans;
use crate::api::wire::{self, NodeCounts, PoolLoad, SizeLoad, Unmet};
use crate::model::{Order, PoolIx, QShares, Topology, floor_div};
use crate::scheduler::{NodeView, View};

/// Returns the space of every nodepool, in order of configuration.
pub fn pools(view: &View) -> Vec<PoolLoad> {
    let pools = view.topology.pools.iter().map(|pool| {
        let parent = pool.parent.map(|parent| view.topology.pools[parent].name.to_string());
        let nodes = || view.nodes.iter().filter(|node| node.pool == pool.name);
        let up = || nodes().filter(|node| node.state.is_schedulable());
        let sum = |of: fn(&NodeView) -> QShares| up().map(of).sum::<QShares>().0;
        PoolLoad {
            pool: pool.name.to_string(),
            parent,
            quantum_mb: pool.quantum.memory().0,
            nodes: node_counts(nodes()),
            qshares: sum(|node| node.order),
            used: sum(|node| node.used),
            free: sum(free),
            sizes: sizes(nodes()),
        }
    });
    pools.collect()
}

/// Nodes by state.
pub fn node_counts<'a>(nodes: impl Iterator<Item = &'a NodeView>) -> NodeCounts {
    let mut counts = NodeCounts::default();
    for node in nodes {
        counts.total += 1;
        counts.up += u64::from(node.state.is_schedulable());
        counts.awaited += u64::from(node.state.is_awaited);
        counts.dead += u64::from(node.state.is_dead);
        counts.varied_off += u64::from(node.state.is_varied_off);
        counts.quiesced += u64::from(node.state.is_quiesced);
        counts.blacklisted += u64::from(node.state.is_blacklisted);
    }
    counts
}

fn sizes<'a>(nodes: impl Iterator<Item = &'a NodeView>) -> Vec<SizeLoad> {
    let mut sizes: BTreeMap<u64, SizeLoad> = BTreeMap::new();
    for node in nodes {
        let QShares(order) = node.order;
        let QShares(left) = free(node);
        let is_up = node.state.is_schedulable();
        let is_whole = is_up && node.used == QShares(0);
        let size = sizes.entry(order).or_default();
        size.nodes += 1;
        size.up += u64::from(is_up);
        size.whole += u64::from(is_whole);
        if is_up && !is_whole && 0 < left {
            sizes.entry(left).or_default().partial += 1;
        }
    }
    sizes.into_iter().map(|(order, size)| SizeLoad { order, ..size }).collect()
}

/// Counts processes that jobs could use now and neither hold nor are promised, by pool and size.
pub fn unmet(view: &View) -> Vec<Unmet> {
    let topology: &Topology = &view.topology;
    let mut sums: BTreeMap<(PoolIx, Order), (u64, u64)> = BTreeMap::new();
    for job in view.jobs.iter() {
        let class = topology.class_named(&job.class).map(|class| &topology.classes[class]);
        let (Some(class), Some(order), Some(cap)) = (class, job.order, job.cap) else { continue };
        let lacks = cap.nshares.saturating_sub(job.held()).saturating_sub(job.promised).0;
        if 0 < lacks {
            let (processes, jobs) = sums.entry((class.pool, order)).or_default();
            *processes += lacks;
            *jobs += 1;
        }
    }
    let told = |((ix, order), (processes, jobs)): ((PoolIx, Order), (u64, u64))| {
        let pool = &topology.pools[ix];
        let in_pool = |node: &&NodeView| {
            let own = topology.pools.with_ix().find(|(_, pool)| pool.name == node.pool);
            own.is_some_and(|(own, _)| topology.is_within(own, ix))
        };
        let largest = view.nodes.iter().filter(in_pool).map(|node| node.order).max();
        Unmet {
            pool: pool.name.to_string(),
            order: order.qshares().0,
            memory_mb: pool.quantum.memory_of(order.qshares()).0,
            processes,
            jobs,
            feasible: largest.is_some_and(|largest| order.qshares() <= largest),
        }
    };
    sums.into_iter().map(told).collect()
}

impl From<&CycleSpans> for wire::CycleTimes {
    fn from(times: &CycleSpans) -> wire::CycleTimes {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mean = |sum| NonZeroU64::new(times.cycles).map_or(0, |n| floor_div(micros(sum), n));
        wire::CycleTimes {
            cycles: times.cycles,
            planned_mean_us: mean(times.planned),
            planned_max_us: micros(times.planned_max),
            stored_mean_us: mean(times.stored),
            stored_max_us: micros(times.stored_max),
        }
    }
}
