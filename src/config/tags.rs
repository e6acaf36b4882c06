//! Checks tags of nodes, and placement sets.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{PoolEntry, TagEntry};
use super::problem::{Code, ConfigProblem, Problems, ValuePlace};
use super::setting::{Located, Setting};
use crate::model::fold_hostlist;

/// Reports keys that are named twice in a list of the scheduler's.
pub(super) fn check_keys(
    setting: &str,
    keys: &Setting<Vec<Located<String>>>,
    problems: &mut Problems,
) {
    let mut firsts: BTreeMap<&str, &ValuePlace> = BTreeMap::new();
    for key in keys.given().into_iter().flat_map(|keys| &keys.value) {
        let Some(first) = firsts.insert(&key.value, &key.place) else { continue };
        let path = format!("scheduler.{setting}");
        let message = format!("`{}` is named twice in `{setting}`", key.value);
        let problem = ConfigProblem::new(Code::Duplicate, &path, &key.place, message);
        problems.add(problem.remedy("remove one of the two").related(first, "the first"));
    }
}

/// Reports nodes with tags that are in no nodepool. If some nodepool lists no nodes, any node may
/// be meant for it.
pub(super) fn check_nodes(entries: &[TagEntry], pools: &[PoolEntry], problems: &mut Problems) {
    if pools.iter().any(|pool| pool.lists().next().is_none()) {
        return;
    }
    let listed = pools.iter().flat_map(PoolEntry::lists).flat_map(|list| &list.value);
    let known: BTreeSet<&str> = listed.map(String::as_str).collect();
    for (place, entry) in entries.iter().enumerate() {
        for list in entry.nodes.given().into_iter().flat_map(|lists| &lists.value) {
            let is_unknown = |node: &&String| !known.contains(node.as_str());
            let unknown: Vec<&str> =
                list.value.iter().filter(is_unknown).map(String::as_str).collect();
            if unknown.is_empty() {
                continue;
            }
            let are = if unknown.len() == 1 { "is" } else { "are" };
            let names = fold_hostlist(unknown.iter().copied());
            let message = format!("`{names}` {are} in no nodepool");
            let path = format!("tags[{place}].nodes");
            let problem = ConfigProblem::new(Code::Nodes, &path, &list.place, message);
            problems.add(problem.remedy("correct the names, or list the nodes in a nodepool, too"));
        }
    }
}
