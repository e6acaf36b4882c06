//! Consistency of the file: it becomes a [`Topology`].
//!
//! Pools and classes have files of their own; this file calls them and checks the users. Checking
//! goes on after a problem, so a result is valid only if no problem was added.

use std::collections::BTreeMap;

use super::descent::index_by_name;
use super::file::{File, UserEntry};
use super::listed;
use super::listing::Listing;
use super::problem::Problems;
use super::{DaemonSettings, classes, pools};
use crate::model::{Mebibytes, Topology};

/// Checks that everything in `file` fits together, and completes the `listing` of its settings.
pub(super) fn check(
    file: File,
    listing: &mut Listing,
    problems: &mut Problems,
) -> (DaemonSettings, Topology) {
    let pools = pools::check(&file.pools, file.quantum, file.daemon.limits.max_nodes, problems);
    let classes = classes::check(&file.classes, &file.growth, &pools, problems);
    let allotments = allotments(&file.users, problems);
    listed::extend(listing, &file, &pools, &classes);
    let classes = classes.into_iter().map(|resolved| resolved.class).collect();
    (file.daemon, Topology { settings: file.settings, pools, classes, allotments })
}

fn allotments(users: &[UserEntry], problems: &mut Problems) -> BTreeMap<String, Mebibytes> {
    index_by_name("user", users.iter().map(|user| &user.name), problems);
    let allotment = |user: &UserEntry| user.allotment.clone().or(Mebibytes(0));
    users.iter().map(|user| (user.name.value.clone(), allotment(user))).collect()
}
