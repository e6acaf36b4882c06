//! What an administrator configured, checked: nodepools, classes, users' allotments, settings.
//!
//! To hold a [`Topology`] is proof that every name in it resolves and that the pools form trees.

use std::collections::BTreeMap;

use super::{ClassIx, Mebibytes, Millis, Name, PoolIx, Quantum, ResourceClass};

/// One nodepool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodepool {
    /// Its name; unique.
    pub name: Name,
    /// The pool it is part of; `None` for a top-level pool. Always earlier in the topology.
    pub parent: Option<PoolIx>,
    /// Siblings are searched in ascending order of this, then in order of configuration.
    pub search_order: u32,
    /// The smallest allocation here. The same throughout one top-level tree.
    pub quantum: Quantum,
    /// The nodes configured to be in it. A node in no list joins the first pool.
    pub nodes: Vec<String>,
}

/// Settings that hold for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Below this many processes, and below its pure fair share, a job is needy.
    pub fragmentation_threshold: u64,
    /// Whether needy jobs may take from the rich.
    pub defragmentation: bool,
    /// What a user may hold of non-preemptable memory, unless the user has an own allotment.
    /// `None` means no limit.
    pub allotment: Option<Mebibytes>,
    /// How much larger than asked an unmanaged reservation's machine may be.
    pub reserve_overage: Mebibytes,
    /// Memory of each node that is kept from scheduling.
    pub reserved_memory: Mebibytes,
    /// The time between two publications, the unit in which prediction looks ahead.
    pub publication_period: Millis,
    /// A node is dead after so many missed heartbeats.
    pub node_stability: u32,
    /// When more than this share of the nodes, in percent, goes silent at once, nothing is
    /// evicted for it: the fault is more likely ours. `None` turns the hold off.
    pub mass_loss_percent: Option<u32>,
    /// After so many cycles in which nothing changed, only work that has nothing takes from
    /// others: a safety net, which says so when it strikes. `None` does without.
    pub quiet_stop: Option<u64>,
}

impl Default for Settings {
    /// What holds where nothing is configured.
    fn default() -> Settings {
        Settings {
            fragmentation_threshold: 8,
            defragmentation: true,
            allotment: None,
            reserve_overage: Mebibytes(0),
            reserved_memory: Mebibytes(0),
            publication_period: 10_000,
            node_stability: 6,
            mass_loss_percent: Some(20),
            quiet_stop: None,
        }
    }
}

/// Everything configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Settings that hold for the whole cluster.
    pub settings: Settings,
    /// Every nodepool, parents before children. Never empty: the first takes unlisted nodes.
    pub pools: Vec<Nodepool>,
    /// Every class.
    pub classes: Vec<ResourceClass>,
    /// Users whose allotment differs from the cluster's.
    pub allotments: BTreeMap<String, Mebibytes>,
}

impl Topology {
    /// The class called `name`.
    pub fn class_named(&self, name: &str) -> Option<ClassIx> {
        self.classes.iter().position(|class| class.name == name).map(ClassIx)
    }

    /// The pool of every node that one lists. A node that none lists is in the first.
    pub fn pools_by_node(&self) -> BTreeMap<Name, PoolIx> {
        let pools = self.pools.iter().enumerate();
        let listed = pools.flat_map(|(ix, pool)| {
            pool.nodes.iter().map(move |node| (Name::from(node), PoolIx(ix)))
        });
        listed.collect()
    }

    /// The top-level pool of the tree that `pool` is in.
    pub fn top_of(&self, pool: PoolIx) -> PoolIx {
        self.pools[pool.0].parent.map_or(pool, |parent| self.top_of(parent))
    }

    /// How many pools are above `pool`.
    pub fn depth_of(&self, pool: PoolIx) -> u32 {
        self.pools[pool.0].parent.map_or(0, |parent| 1 + self.depth_of(parent))
    }

    /// Whether `inner` is `outer` or lies in it.
    pub fn is_within(&self, inner: PoolIx, outer: PoolIx) -> bool {
        inner == outer
            || self.pools[inner.0].parent.is_some_and(|parent| self.is_within(parent, outer))
    }

    /// What `user` may hold of non-preemptable memory. `None` means no limit.
    pub fn allotment_of(&self, user: &str) -> Option<Mebibytes> {
        self.allotments.get(user).copied().or(self.settings.allotment)
    }
}
