//! Names and their parents: duplicates and cycles.

use std::collections::BTreeMap;

use super::problem::{Code, ConfigProblem, Problems};
use super::setting::Located;

/// Returns the first use of each name. Reports later uses.
pub(super) fn index_by_name<'a>(
    kind: &str,
    names: impl Iterator<Item = &'a Located<String>> + Clone,
    problems: &mut Problems,
) -> BTreeMap<&'a str, usize> {
    let mut firsts: BTreeMap<&str, (usize, &Located<String>)> = BTreeMap::new();
    for (index, name) in names.enumerate() {
        let (_, first) = *firsts.entry(&name.value).or_insert((index, name));
        if first.place != name.place {
            let path = format!("{kind}.{}.name", name.value);
            let message = format!("a second {kind} is called `{}`", name.value);
            let problem = ConfigProblem::new(Code::Duplicate, &path, &name.place, message);
            problems.add(
                problem
                    .remedy("give it another name, or merge the two")
                    .related(&first.place, "the first"),
            );
        }
    }
    firsts.into_iter().map(|(name, (index, _))| (name, index)).collect()
}

/// The rings in a forest that should be none: each list of nodes leads back to its own start.
pub(super) fn inheritance_cycles(parents: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut is_seen = vec![false; parents.len()];
    let mut inheritance_cycles = Vec::new();
    for start in 0..parents.len() {
        let mut trail = Vec::new();
        let mut next = Some(start);
        while let Some(node) = next
            && !is_seen[node]
        {
            is_seen[node] = true;
            trail.push(node);
            next = parents[node];
        }
        // The walk ended at a root, at a node of an earlier walk, or at a node of its own.
        if let Some(at) = trail.iter().position(|node| Some(*node) == next) {
            inheritance_cycles.push(trail.split_off(at));
        }
    }
    inheritance_cycles
}

/// `a -> b -> a`.
pub(super) fn cycle_text<'a>(ring: &[usize], name_of: impl Fn(usize) -> &'a str) -> String {
    let closed = ring.iter().chain(ring.first());
    closed.map(|node| name_of(*node)).collect::<Vec<_>>().join(" -> ")
}

/// `start` and everything above it, nearest first. Ends rather than going round a ring twice.
pub(super) fn ancestors_of(start: usize, parents: &[Option<usize>]) -> Vec<usize> {
    std::iter::successors(Some(start), |node| parents[*node]).take(parents.len()).collect()
}
