//! Configuration after its check: nodepools, classes, users' allotments, settings.
//!
//! To hold a [`Topology`] is proof that every name in it resolves and that the pools form trees.

use std::collections::BTreeMap;

use super::{ClassIx, IxVec, Mebibytes, Millis, Name, NodeTagging, PoolIx, Quantum, ResourceClass};

/// A nodepool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodepool {
    /// Name of the nodepool; unique.
    pub name: Name,
    /// The pool it is part of; `None` for a top-level pool. Always earlier in the topology.
    pub parent: Option<PoolIx>,
    /// Siblings are searched in ascending order of this, then in order of configuration.
    pub search_order: u32,
    /// Smallest allocation in the pool. All pools of a top-level tree have the same quantum.
    pub quantum: Quantum,
    /// The nodes configured to be in it. A node in no list joins the first pool.
    pub nodes: Vec<String>,
}

/// Settings that hold for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Below this many processes, and below its pure fair share, a job is needy.
    pub fragmentation_threshold: u64,
    /// True if needy jobs may preempt shares of wealthy users.
    pub defragmentation: bool,
    /// Maximum non-preemptable memory of a user without an allotment of their own. `None` means no
    /// limit.
    pub allotment: Option<Mebibytes>,
    /// Maximum excess of an unmanaged reservation's node over the requested memory.
    pub reserve_overage: Mebibytes,
    /// Memory of each node that is kept from scheduling.
    pub reserved_memory: Mebibytes,
    /// The time between two publications, the unit in which prediction looks ahead.
    pub publication_period: Millis,
    /// Missed heartbeats in a row after which a node is dead.
    pub node_stability: u32,
    /// Percentage of nodes lost at once above which no share is evicted for it: the fault is more
    /// likely in the network. `None` turns the guard off.
    pub mass_loss_percent: Option<u32>,
    /// Number of quiet cycles after which only jobs without a share preempt for fairness. This
    /// safety net reports when it acts. `None` turns it off.
    pub quiet_stop: Option<u64>,
    /// Time before maintenance at which work that can be preempted is evicted.
    pub notice: Millis,
    /// Waiting requests that have a place in the calendar.
    pub backfill_depth: u64,
    /// Maximum memory of urgent work of a user without an urgent allotment. `None` means no limit.
    pub urgent_allotment: Option<Mebibytes>,
}

impl Default for Settings {
    /// Returns the defaults.
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
            notice: 20_000,
            backfill_depth: 100,
            urgent_allotment: Some(Mebibytes(0)),
        }
    }
}

/// Limits of the work of a user that is never preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserAllotment {
    /// Maximum memory of fixed-share work and reservations, urgent work left out. `None`: the
    /// cluster's limit holds.
    pub fixed: Option<Mebibytes>,
    /// Maximum memory of urgent work. `None`: the cluster's limit holds.
    pub urgent: Option<Mebibytes>,
}

impl UserAllotment {
    /// Limit of fixed-share work and reservations; for urgent work the cluster's limit holds.
    pub fn of_fixed(fixed: Mebibytes) -> UserAllotment {
        UserAllotment { fixed: Some(fixed), urgent: None }
    }
}

/// Whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Settings that hold for the whole cluster.
    pub settings: Settings,
    /// Every nodepool, parents before children. Never empty: the first takes unlisted nodes.
    pub pools: IxVec<PoolIx, Nodepool>,
    /// Every class.
    pub classes: IxVec<ClassIx, ResourceClass>,
    /// Tags of nodes, and the placement sets made of them.
    pub tagging: NodeTagging,
    /// Users whose allotments differ from the cluster's.
    pub allotments: BTreeMap<String, UserAllotment>,
}

impl Topology {
    /// The class called `name`.
    pub fn class_named(&self, name: &str) -> Option<ClassIx> {
        self.classes.with_ix().find(|(_, class)| class.name == name).map(|(ix, _)| ix)
    }

    /// Pool of each listed node. An unlisted node is in the first pool.
    pub fn pools_by_node(&self) -> BTreeMap<Name, PoolIx> {
        let listed = self
            .pools
            .with_ix()
            .flat_map(|(ix, pool)| pool.nodes.iter().map(move |node| (Name::from(node), ix)));
        listed.collect()
    }

    /// The top-level pool of the tree that `pool` is in.
    pub fn top_of(&self, pool: PoolIx) -> PoolIx {
        self.pools[pool].parent.map_or(pool, |parent| self.top_of(parent))
    }

    /// Number of pools above `pool`.
    pub fn depth_of(&self, pool: PoolIx) -> u32 {
        self.pools[pool].parent.map_or(0, |parent| 1 + self.depth_of(parent))
    }

    /// True if `inner` is `outer` or lies inside it.
    pub fn is_within(&self, inner: PoolIx, outer: PoolIx) -> bool {
        inner == outer
            || self.pools[inner].parent.is_some_and(|parent| self.is_within(parent, outer))
    }

    /// Maximum non-preemptable memory of `user`, urgent work left out. `None` means no limit.
    pub fn allotment_of(&self, user: &str) -> Option<Mebibytes> {
        self.allotments.get(user).and_then(|own| own.fixed).or(self.settings.allotment)
    }

    /// Maximum memory of urgent work of `user`. `None` means no limit.
    pub fn urgent_allotment_of(&self, user: &str) -> Option<Mebibytes> {
        let own = self.allotments.get(user).and_then(|own| own.urgent);
        own.or(self.settings.urgent_allotment)
    }
}
