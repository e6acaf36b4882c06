//! Nodes, counted by nodepool, state and size.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::ShownAnswer;
use super::node_words::states;
use super::table::Column::{Left, Right};
use super::table::{fitted, memory};
use super::text::TextStyle;
use crate::api::wire::NodeList;
use crate::model::fold_hostlist;

/// All nodes, in groups.
#[derive(Debug, Serialize)]
pub(super) struct NodeGroups {
    cycle: u64,
    groups: Vec<NodeGroup>,
}

/// Nodes that share nodepool, state and size.
#[derive(Debug, Serialize)]
pub(super) struct NodeGroup {
    pool: String,
    state: String,
    /// The memory of each.
    memory_mb: u64,
    nodes: u64,
    /// Number of nodes without a share.
    idle: u64,
    /// The memory of all of them that shares have.
    used_mb: u64,
    /// The memory of all of them that no share has.
    free_mb: u64,
    /// Their names, as a host list.
    names: String,
}

impl NodeGroups {
    pub(super) fn of(list: NodeList) -> NodeGroups {
        let mut groups: BTreeMap<(String, String, u64), (NodeGroup, Vec<String>)> = BTreeMap::new();
        for node in list.nodes {
            let state = states(&node);
            let key = (node.pool.clone(), state.clone(), node.memory_mb);
            let (group, names) = groups.entry(key).or_insert_with(|| {
                let group = NodeGroup {
                    pool: node.pool.clone(),
                    state,
                    memory_mb: node.memory_mb,
                    nodes: 0,
                    idle: 0,
                    used_mb: 0,
                    free_mb: 0,
                    names: String::new(),
                };
                (group, Vec::new())
            });
            group.nodes += 1;
            group.idle += u64::from(node.used == 0);
            group.used_mb += node.used.saturating_mul(node.quantum_mb);
            group.free_mb += node.free.saturating_mul(node.quantum_mb);
            names.push(node.name);
        }
        let groups = groups.into_values().map(|(group, names)| NodeGroup {
            names: fold_hostlist(names.iter().map(String::as_str)),
            ..group
        });
        NodeGroups { cycle: list.cycle, groups: groups.collect() }
    }
}

impl ShownAnswer for NodeGroups {
    type Entry = NodeGroup;

    fn entries(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn name(group: &NodeGroup) -> String {
        group.names.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        if self.groups.is_empty() {
            return "No such node. `apportion nodes` lists all there are.".to_owned();
        }
        let columns = [
            Left("POOL"),
            Left("STATE"),
            Right("MEMORY"),
            Right("NODES"),
            Right("IDLE"),
            Right("USED"),
            Right("FREE"),
            Left("NAMES"),
        ];
        let rows = self.groups.iter().map(|group| {
            [
                group.pool.clone(),
                group.state.clone(),
                memory(group.memory_mb),
                group.nodes.to_string(),
                group.idle.to_string(),
                memory(group.used_mb),
                memory(group.free_mb),
                group.names.clone(),
            ]
        });
        fitted(columns, rows, look, &[])
    }
}
