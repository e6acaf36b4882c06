//! From what was written to what can be believed: the file becomes a [`Topology`].
//!
//! Pools and classes have files of their own; here is what they share, and the users. Checking
//! goes on after a problem, so a result is worth something only if no problem was added.

use std::collections::BTreeMap;

use super::file::{File, UserEntry};
use super::listing::{self, Listing};
use super::problem::{Code, Problem, Problems};
use super::section::Located;
use super::{DaemonSettings, classes, pools};
use crate::model::{Mebibytes, Topology};

/// Checks that everything in `file` fits together, and completes the `listing` of what is in it.
pub(super) fn check(
    file: File,
    listing: &mut Listing,
    problems: &mut Problems,
) -> (DaemonSettings, Topology) {
    let pools = pools::check(&file.pools, file.quantum, file.daemon.limits.max_nodes, problems);
    let classes = classes::check(&file.classes, &file.growth, &pools, problems);
    let allotments = allotments(&file.users, problems);
    listing::extend(listing, &file, &pools, &classes);
    let classes = classes.into_iter().map(|resolved| resolved.class).collect();
    (file.daemon, Topology { settings: file.settings, pools, classes, allotments })
}

fn allotments(users: &[UserEntry], problems: &mut Problems) -> BTreeMap<String, Mebibytes> {
    index_by_name("user", users.iter().map(|user| &user.name), problems);
    let allotment = |user: &UserEntry| user.allotment.clone().or(Mebibytes(0));
    users.iter().map(|user| (user.name.value.clone(), allotment(user))).collect()
}

/// Where each name is first used. Complains about later uses.
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
            let problem = Problem::new(Code::Duplicate, &path, &name.place, message);
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
pub(super) fn rings(parents: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut is_seen = vec![false; parents.len()];
    let mut rings = Vec::new();
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
            rings.push(trail.split_off(at));
        }
    }
    rings
}

/// `a -> b -> a`.
pub(super) fn ring_text<'a>(ring: &[usize], name_of: impl Fn(usize) -> &'a str) -> String {
    let closed = ring.iter().chain(ring.first());
    closed.map(|node| name_of(*node)).collect::<Vec<_>>().join(" -> ")
}

/// `start` and everything above it, nearest first. Ends rather than going round a ring twice.
pub(super) fn line_of_descent(start: usize, parents: &[Option<usize>]) -> Vec<usize> {
    std::iter::successors(Some(start), |node| parents[*node]).take(parents.len()).collect()
}
