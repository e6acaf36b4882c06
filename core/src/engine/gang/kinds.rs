//! Kinds of node: nodes that no request tells apart, and the order in which gangs use them.
//!
//! Only tags that a gang asks for, or whose values are placement sets, make kinds. A tag for which
//! nothing asks makes none.
//!
//! Design: requests and time, section 2 "Kinds of node" and section 3.3.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fit::ChunkSet;
use super::windows::WindowLists;
use crate::engine::snapshot::Snapshot;
use crate::model::{Name, PoolIx, Shape, Tags, Topology};

/// Order in which gangs use nodes, the least first, and what tells nodes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeKind {
    /// Place among all kinds.
    rank: u32,
    /// Place of the requested tags of the nodes in [`Kinds::tags`].
    tags: u32,
    /// Size of the nodes, in qshares.
    pub order: u64,
}

/// Facts that make a kind, in the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KindFacts {
    preference: Reverse<i32>,
    /// Nodes of the pool that have the rarest tag of the nodes, set keys left out. Requests without
    /// special needs leave special nodes alone.
    alike: Reverse<u64>,
    order: u64,
    tags: usize,
}

/// Nodes of a pool that have a tag, or all nodes of it.
type TaggedNodes<'s> = (PoolIx, Option<(&'s Name, &'s Name)>);

/// Kinds of all nodes, and of nodes that the configuration lists and that never reported.
#[derive(Debug)]
pub(super) struct Kinds {
    /// Kind of each node of the snapshot.
    of: Vec<NodeKind>,
    /// Listed nodes that are not in the snapshot, by pool and kind.
    unheard: BTreeMap<(PoolIx, NodeKind), u64>,
    /// Asked tags of nodes, each once.
    tags: Vec<Tags>,
    /// Windows of the nodes.
    pub(super) windows: WindowLists,
}

/// Chunks of a gang whose tags the nodes of each kind have, by the place of these tags.
#[derive(Clone, Debug)]
pub(super) struct SuitingChunks(Vec<ChunkSet>);

impl SuitingChunks {
    /// Chunks whose tags nodes of `kind` have.
    pub(super) fn on(&self, kind: NodeKind) -> ChunkSet {
        self.0[index(kind.tags)]
    }
}

/// Size that a node without a report may have.
pub(super) const UNKNOWN_SIZE: u64 = 1 << 40;

impl Kinds {
    /// Kinds of the nodes of `snapshot`, as far as `shapes` tell them apart.
    pub(super) fn new<'s>(snapshot: &Snapshot, shapes: impl Iterator<Item = &'s Shape>) -> Kinds {
        let topology = &snapshot.topology;
        let mut sets: BTreeSet<&Name> = topology.tagging.sets.iter().collect();
        let mut requested: BTreeSet<&Name> = BTreeSet::new();
        for shape in shapes {
            sets.extend(&shape.group_by);
            requested.extend(
                shape.chunks.iter().flat_map(|chunk| chunk.tags.iter().map(|(key, _)| key)),
            );
        }
        requested.extend(&sets);
        let unheard = unheard_nodes(snapshot);
        let groups = NodePartition::of(snapshot);
        let mut by_tags: BTreeMap<(PoolIx, &Tags), u64> = BTreeMap::new();
        for group in &groups.all {
            *by_tags.entry((group.pool, group.tags)).or_default() += group.nodes;
        }
        for (pool, tags, _) in &unheard {
            *by_tags.entry((*pool, tags)).or_default() += 1;
        }
        // The number of nodes of each pool, in all and with each tag.
        let mut with_tag: BTreeMap<TaggedNodes<'_>, u64> = BTreeMap::new();
        for (&(pool, tags), nodes) in &by_tags {
            let plain = tags.iter().filter(|(key, _)| !sets.contains(key));
            for tag in plain.map(Some).chain([None]) {
                *with_tag.entry((pool, tag)).or_default() += nodes;
            }
        }
        let mut places: BTreeMap<Tags, usize> = BTreeMap::new();
        let mut known: BTreeMap<(PoolIx, &Tags), (usize, u64)> = BTreeMap::new();
        for &(pool, tags) in by_tags.keys() {
            let next = places.len();
            let place = *places.entry(tags.only(|key| requested.contains(key))).or_insert(next);
            let plain = tags.iter().filter(|(key, _)| !sets.contains(key));
            let having = plain.map(Some).chain([None]);
            let alike = having.filter_map(|tag| with_tag.get(&(pool, tag)).copied()).min();
            let alike = alike.unwrap_or(0);
            known.insert((pool, tags), (place, alike));
        }
        let facts = |pool: PoolIx, tags: &Tags, preference: i32, order: u64| {
            let (tags, alike) = known.get(&(pool, tags)).copied().unwrap_or_default();
            let (preference, alike) = (Reverse(preference), Reverse(alike));
            KindFacts { preference, alike, order, tags }
        };
        let of_group = |it: &EqualNodes<'_>| facts(it.pool, it.tags, it.preference, it.order);
        let of_groups: Vec<KindFacts> = groups.all.iter().map(of_group).collect();
        let of_unheard = |(pool, tags, preference): &(PoolIx, Tags, i32)| {
            facts(*pool, tags, *preference, UNKNOWN_SIZE)
        };
        let mut ranked: Vec<KindFacts> =
            of_groups.iter().copied().chain(unheard.iter().map(of_unheard)).collect();
        ranked.sort_unstable();
        ranked.dedup();
        let kind = |facts: &KindFacts| NodeKind {
            rank: small(ranked.partition_point(|other| other < facts)),
            tags: small(facts.tags),
            order: facts.order,
        };
        let of_groups: Vec<NodeKind> = of_groups.iter().map(kind).collect();
        let of = groups.of_node.iter().map(|group| of_groups[*group]).collect();
        let mut counts: BTreeMap<(PoolIx, NodeKind), u64> = BTreeMap::new();
        for missing in &unheard {
            *counts.entry((missing.0, kind(&of_unheard(missing)))).or_default() += 1;
        }
        let mut tags = vec![Tags::default(); places.len()];
        for (requested, place) in places {
            tags[place] = requested;
        }
        Kinds { of, unheard: counts, tags, windows: WindowLists::new(snapshot) }
    }

    /// Kind of the node at `node` of the snapshot.
    pub(super) fn of(&self, node: usize) -> NodeKind {
        self.of[node]
    }

    /// Tags of the nodes of `kind`, as far as a gang asks for them.
    pub(super) fn tags(&self, kind: NodeKind) -> &Tags {
        &self.tags[index(kind.tags)]
    }

    /// Number of nodes in the snapshot.
    pub(super) fn nodes(&self) -> usize {
        self.of.len()
    }

    /// Chunks of `shape` whose tags the nodes of each kind have.
    pub(super) fn suiting(&self, shape: &Shape) -> SuitingChunks {
        let of = |tags: &Tags| shape.chunks.iter().map(|it| tags.satisfy(&it.tags)).collect();
        SuitingChunks(self.tags.iter().map(of).collect())
    }

    /// Listed nodes of `pool` that never reported.
    pub(super) fn unheard(&self, pool: PoolIx) -> impl Iterator<Item = (NodeKind, u64)> {
        let all = self.unheard.iter().filter(move |((of, _), _)| *of == pool);
        all.map(|((_, kind), nodes)| (*kind, *nodes))
    }
}

/// Nodes that differ in nothing but their names and their use.
struct EqualNodes<'s> {
    pool: PoolIx,
    tags: &'s Tags,
    preference: i32,
    /// Size, in qshares.
    order: u64,
    nodes: u64,
}

/// Groups with which a node is compared before all groups are searched.
const GROUPS_COMPARED: usize = 16;

/// All nodes of a snapshot, in groups.
struct NodePartition<'s> {
    all: Vec<EqualNodes<'s>>,
    /// Group of each node, by its place.
    of_node: Vec<usize>,
}

impl<'s> NodePartition<'s> {
    /// Groups the nodes. Equal tags of many nodes are the same object, so their address tells them apart;
    /// equal tags at two addresses make two groups of a kind.
    fn of(snapshot: &'s Snapshot) -> NodePartition<'s> {
        let mut keys: Vec<(u64, i32, PoolIx, *const Tags)> = Vec::new();
        let mut places: BTreeMap<(u64, i32, PoolIx, *const Tags), usize> = BTreeMap::new();
        let mut groups = NodePartition { all: Vec::new(), of_node: Vec::new() };
        for node in snapshot.nodes.iter() {
            let order = if node.state.is_awaited { UNKNOWN_SIZE } else { node.order.0 };
            let (pool, preference) = (node.pool, node.preference);
            let next = groups.all.len();
            let key = (order, preference, pool, Arc::as_ptr(&node.tags));
            // Most clusters have few groups.
            let early = keys.iter().take(GROUPS_COMPARED).position(|known| *known == key);
            let place = early.unwrap_or_else(|| *places.entry(key).or_insert(next));
            if place == next {
                keys.push(key);
                groups.all.push(EqualNodes { pool, tags: &node.tags, preference, order, nodes: 0 });
            }
            groups.all[place].nodes += 1;
            groups.of_node.push(place);
        }
        groups
    }
}

/// A place as part of a kind.
fn small(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// A place again.
fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Nodes that the lists of pools name and that are not in the snapshot: pool, tags, preference.
fn unheard_nodes(snapshot: &Snapshot) -> Vec<(PoolIx, Tags, i32)> {
    let topology: &Topology = &snapshot.topology;
    if topology.pools.iter().all(|pool| pool.nodes.is_empty()) {
        return Vec::new();
    }
    let heard: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    let (tags, preferences) = (topology.tagging.by_node(), topology.tagging.preferences());
    let mut unheard = Vec::new();
    for (place, pool) in topology.pools.iter().enumerate() {
        for name in pool.nodes.iter().filter(|name| !heard.contains(name.as_str())) {
            let tags = tags.get(name.as_str()).cloned().unwrap_or_default();
            let preference = preferences.get(name.as_str()).copied().unwrap_or(0);
            unheard.push((PoolIx(place), tags, preference));
        }
    }
    unheard
}
