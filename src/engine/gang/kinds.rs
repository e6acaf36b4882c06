//! Kinds of node: nodes that no request tells apart, and the order in which gangs use them.
//!
//! Only tags that a gang asks for, or whose values are placement sets, make kinds. A tag for which
//! nothing asks makes none.
//!
//! Design: requests and time, section 2 "Kinds of node" and section 3.3.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::windows::WindowLists;
use crate::engine::snapshot::Snapshot;
use crate::model::{Name, PoolIx, Shape, Tags, Topology};

/// Order in which gangs use nodes, the least first, and what tells nodes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeKind {
    preference: Reverse<i32>,
    /// Nodes of the pool that have the rarest tag of the nodes, set keys left out. Requests without
    /// special needs leave special nodes alone.
    alike: Reverse<u64>,
    /// Size of the nodes, in qshares.
    pub order: u64,
    /// Place of the asked tags of the nodes in [`Kinds::tags`].
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

/// Size that a node without a report may have.
pub(super) const UNKNOWN_SIZE: u64 = 1 << 40;

impl Kinds {
    /// Kinds of the nodes of `snapshot`, as far as `shapes` tell them apart.
    pub(super) fn new<'s>(snapshot: &Snapshot, shapes: impl Iterator<Item = &'s Shape>) -> Kinds {
        let topology = &snapshot.topology;
        let mut sets: BTreeSet<&Name> = topology.tagging.sets.iter().collect();
        let mut asked: BTreeSet<&Name> = BTreeSet::new();
        for shape in shapes {
            sets.extend(&shape.group_by);
            asked.extend(
                shape.chunks.iter().flat_map(|chunk| chunk.tags.iter().map(|(key, _)| key)),
            );
        }
        asked.extend(&sets);
        let unheard = unheard_nodes(snapshot);
        let by_address = nodes_by_address(snapshot);
        let mut by_tags: BTreeMap<(PoolIx, &Tags), u64> = BTreeMap::new();
        for ((pool, _), (tags, nodes)) in &by_address {
            *by_tags.entry((*pool, *tags)).or_default() += nodes;
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
            let place = *places.entry(tags.only(|key| asked.contains(key))).or_insert(next);
            let plain = tags.iter().filter(|(key, _)| !sets.contains(key));
            let having = plain.map(Some).chain([None]);
            let alike = having.filter_map(|tag| with_tag.get(&(pool, tag)).copied()).min();
            let alike = alike.unwrap_or(0);
            known.insert((pool, tags), (place, alike));
        }
        let asked_and_alike =
            |pool: PoolIx, tags: &Tags| known.get(&(pool, tags)).copied().unwrap_or_default();
        let kind = |(tags, alike): (usize, u64), preference: i32, order: u64| NodeKind {
            preference: Reverse(preference),
            alike: Reverse(alike),
            order,
            tags,
        };
        let known_at: BTreeMap<TagAddress, (usize, u64)> =
            by_address.iter().map(|(at, (tags, _))| (*at, asked_and_alike(at.0, tags))).collect();
        let size = |node: &crate::engine::snapshot::Node| {
            if node.state.is_awaited { UNKNOWN_SIZE } else { node.order.0 }
        };
        let nodes = snapshot.nodes.iter();
        let of = nodes.map(|node| {
            let of_tags = known_at.get(&(node.pool, Arc::as_ptr(&node.tags))).copied();
            kind(of_tags.unwrap_or_default(), node.preference, size(node))
        });
        let of = of.collect();
        let mut counts: BTreeMap<(PoolIx, NodeKind), u64> = BTreeMap::new();
        for (pool, tags, preference) in &unheard {
            let kind = kind(asked_and_alike(*pool, tags), *preference, UNKNOWN_SIZE);
            *counts.entry((*pool, kind)).or_default() += 1;
        }
        let mut tags = vec![Tags::default(); places.len()];
        for (asked, place) in places {
            tags[place] = asked;
        }
        Kinds { of, unheard: counts, tags, windows: WindowLists::new(snapshot) }
    }

    /// Kind of the node at `node` of the snapshot.
    pub(super) fn of(&self, node: usize) -> NodeKind {
        self.of[node]
    }

    /// Tags of the nodes of `kind`, as far as a gang asks for them.
    pub(super) fn tags(&self, kind: NodeKind) -> &Tags {
        &self.tags[kind.tags]
    }

    /// Listed nodes of `pool` that never reported.
    pub(super) fn unheard(&self, pool: PoolIx) -> impl Iterator<Item = (NodeKind, u64)> {
        let all = self.unheard.iter().filter(move |((of, _), _)| *of == pool);
        all.map(|((_, kind), nodes)| (*kind, *nodes))
    }
}

/// Address of tags that equal nodes share, and the pool of the nodes.
type TagAddress = (PoolIx, *const Tags);

/// Tags of the nodes of each pool, and the number of nodes. Many nodes have the same tags, so each
/// combination is dealt with once.
fn nodes_by_address(snapshot: &Snapshot) -> BTreeMap<TagAddress, (&Tags, u64)> {
    let mut by_address: BTreeMap<TagAddress, (&Tags, u64)> = BTreeMap::new();
    for node in snapshot.nodes.iter() {
        let address = (node.pool, Arc::as_ptr(&node.tags));
        by_address.entry(address).or_insert((&*node.tags, 0)).1 += 1;
    }
    by_address
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
