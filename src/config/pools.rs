//! Checks nodepools: names, the tree they form, their quanta and their nodes.

use std::collections::BTreeMap;

use super::descent::{ancestors_of, cycle_text, index_by_name, inheritance_cycles};
use super::file::PoolEntry;
use super::problem::{Code, ConfigProblem, Problems, ValuePlace, suggest};
use crate::model::{Nodepool, PoolIx, Quantum, fold_hostlist};

/// The pools in the order of the topology: by depth, then in the order of the file. So parents
/// come before children, siblings keep their order, and the first pool of the file stays first.
pub(super) fn check(
    entries: &[PoolEntry],
    default: Quantum,
    max_nodes: usize,
    problems: &mut Problems,
) -> Vec<Nodepool> {
    let parents = parents(entries, problems);
    first_is_top_level(entries, problems);
    quanta_are_at_the_top(entries, problems);
    nodes_are_listed_once(entries, problems);
    nodes_are_within(entries, max_nodes, problems);

    let lines: Vec<Vec<usize>> =
        (0..entries.len()).map(|pool| ancestors_of(pool, &parents)).collect();
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|pool| lines[*pool].len());
    let position = |pool: usize| order.iter().position(|ordered| *ordered == pool).map(PoolIx);
    let quantum_of = |pool: usize| {
        let top = lines[pool].last().map(|top| &entries[*top]);
        top.and_then(|top| top.quantum.given())
            .and_then(|given| Quantum::new(given.value))
            .unwrap_or(default)
    };
    let pool = |pool: &usize| Nodepool {
        name: entries[*pool].name.value.as_str().into(),
        parent: parents[*pool].and_then(position),
        search_order: entries[*pool].search_order.clone().or(100),
        quantum: quantum_of(*pool),
        nodes: entries[*pool].lists().flat_map(|list| list.value.clone()).collect(),
    };
    order.iter().map(pool).collect()
}

/// Returns the parent of each pool. Reports pools that are duplicate or missing, or that contain
/// themselves.
fn parents(entries: &[PoolEntry], problems: &mut Problems) -> Vec<Option<usize>> {
    let by_name = index_by_name("nodepool", entries.iter().map(|entry| &entry.name), problems);
    let mut parents = Vec::new();
    for entry in entries {
        let parent = entry.parent.given();
        let index = parent.and_then(|parent| by_name.get(parent.value.as_str()).copied());
        if let (Some(parent), None) = (parent, index) {
            let message = format!(
                "nodepool `{}` is part of `{}`, which is no nodepool",
                entry.name.value, parent.value
            );
            let remedy = suggest(&parent.value, by_name.keys().copied());
            problems.add(
                ConfigProblem::new(
                    Code::UnknownParent,
                    &entry.key("parent"),
                    &parent.place,
                    message,
                )
                .remedy(remedy),
            );
        }
        parents.push(index);
    }
    for ring in inheritance_cycles(&parents) {
        let entry = &entries[ring[0]];
        let text = cycle_text(&ring, |pool| &entries[pool].name.value);
        let place = entry.parent.place().unwrap_or(&entry.name.place);
        let message = format!("nodepool `{}` is part of itself: {text}", entry.name.value);
        let problem = ConfigProblem::new(Code::PoolCycle, &entry.key("parent"), place, message);
        problems.add(problem.remedy("remove `parent` from the nodepool that should be at the top"));
    }
    parents
}

fn first_is_top_level(entries: &[PoolEntry], problems: &mut Problems) {
    let Some(first) = entries.first() else { return };
    if let Some(parent) = first.parent.given() {
        let message = format!("the first nodepool, `{}`, has a parent", first.name.value);
        let remedy =
            "nodes that are in no list join the first nodepool: begin with a top-level one";
        problems.add(
            ConfigProblem::new(Code::FirstPool, &first.key("parent"), &parent.place, message)
                .remedy(remedy),
        );
    }
}

fn quanta_are_at_the_top(entries: &[PoolEntry], problems: &mut Problems) {
    for entry in entries {
        if let (Some(quantum), Some(parent)) = (entry.quantum.given(), entry.parent.given()) {
            let message = format!(
                "nodepool `{}` is part of `{}` and has its quantum",
                entry.name.value, parent.value
            );
            let problem =
                ConfigProblem::new(Code::Quantum, &entry.key("quantum"), &quantum.place, message);
            let problem = problem.related(&parent.place, "this makes it a subpool");
            problems.add(problem.remedy("set the quantum in the top-level nodepool only"));
        }
    }
}

/// A node belongs to a single pool. Each list of nodes is reported once.
fn nodes_are_listed_once(entries: &[PoolEntry], problems: &mut Problems) {
    let mut firsts: BTreeMap<&str, (&PoolEntry, &ValuePlace)> = BTreeMap::new();
    for entry in entries {
        for list in entry.lists() {
            let mut again = Vec::new();
            for node in &list.value {
                let known = firsts.insert(node, (entry, &list.place));
                again.extend(known.map(|first| (node.as_str(), first)));
            }
            let Some((_, (pool, place))) = again.first() else { continue };
            let nodes = fold_hostlist(again.iter().map(|(node, _)| *node));
            let message = format!("`{nodes}` in nodepool `{}` is listed before", entry.name.value);
            let problem =
                ConfigProblem::new(Code::Nodes, &entry.key("nodes"), &list.place, message);
            let problem = problem.remedy("a node is in one nodepool, once: remove one of the two");
            let label = format!("listed here, in nodepool `{}`", pool.name.value);
            problems.add(if *place == &list.place {
                problem
            } else {
                problem.related(place, label)
            });
        }
    }
}

fn nodes_are_within(entries: &[PoolEntry], max_nodes: usize, problems: &mut Problems) {
    let lists = entries.iter().flat_map(|entry| entry.lists().map(move |list| (entry, list)));
    let mut count = 0_usize;
    for (entry, list) in lists {
        count = count.saturating_add(list.value.len());
        if max_nodes < count {
            let message = format!("more than {max_nodes} nodes are listed");
            let remedy = "list fewer, or raise daemon.limits.max_nodes";
            problems.add(
                ConfigProblem::new(Code::Nodes, &entry.key("nodes"), &list.place, message)
                    .remedy(remedy),
            );
            return;
        }
    }
}
