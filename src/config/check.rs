//! Consistency of the file: it becomes a [`Topology`].
//!
//! Pools and classes have files of their own; this file calls them and checks the users. Checking
//! goes on after a problem, so a result is valid only if no problem was added.

use std::collections::BTreeMap;

use super::descent::index_by_name;
use super::file::{ClassEntry, File, TagEntry, UserEntry};
use super::hours::{self, ClassCalendar, HoursOfClass};
use super::listed;
use super::listing::Listing;
use super::problem::{Code, ConfigProblem, Problems};
use super::setting::{Located, Setting};
use super::{DaemonSettings, admission, classes, pools, tags};
use crate::model::{Name, NodeTagging, TagRule, Tags, Topology, UserAllotment};

/// Checks that everything in `file` fits together, and completes the `listing` of its settings.
pub(super) fn check(
    file: File,
    listing: &mut Listing,
    problems: &mut Problems,
) -> (DaemonSettings, Topology, ClassCalendar) {
    let pools = pools::check(&file.pools, file.quantum, file.daemon.limits.max_nodes, problems);
    let classes = classes::check(&file.classes, &file.growth, &pools, problems);
    let allotments = allotments(&file.users, problems);
    let tagging = NodeTagging {
        may_span: file.tag_keys.may_span,
        sets: names(&file.tag_keys.sets),
        rules: file.tags.iter().map(tag_rule).collect(),
        reported: names(&file.tag_keys.reported),
    };
    tags::check_keys("placement_sets", &file.tag_keys.sets, problems);
    tags::check_keys("reported_tags", &file.tag_keys.reported, problems);
    tags::check_nodes(&file.tags, &file.pools, problems);
    hours::check(file.classes.iter().map(hours_of), problems);
    let concrete = file.classes.iter().filter(|entry| !entry.is_abstract);
    let names: Vec<&str> = concrete.map(|entry| entry.name.value.as_str()).collect();
    admission::check(&file.admission, &names, problems);
    listed::extend(listing, &file, &pools, &classes);
    let hours = classes.iter().map(|resolved| (&resolved.class.name, &resolved.entry.active));
    let calendar = ClassCalendar::new(file.zone, hours);
    let classes = classes.into_iter().map(|resolved| resolved.class).collect();
    let topology =
        Topology { tagging, settings: file.settings, pools: pools.into(), classes, allotments };
    (file.daemon, topology, calendar)
}

fn hours_of(entry: &ClassEntry) -> HoursOfClass<'_> {
    let is_heir = !entry.inherit.is_absent();
    HoursOfClass { class: &entry.name.value, path: &entry.path, is_heir, active: &entry.active }
}

fn names(keys: &Setting<Vec<Located<String>>>) -> Vec<Name> {
    let keys = keys.given().into_iter().flat_map(|keys| &keys.value);
    keys.map(|key| Name::from(&key.value)).collect()
}

/// Tags that an entry gives to its nodes.
fn tag_rule(entry: &TagEntry) -> TagRule {
    let nodes = entry.nodes.given().into_iter().flat_map(|lists| &lists.value);
    let set = entry.set.given().into_iter().flat_map(|tags| &tags.value);
    TagRule {
        preference: entry.preference.clone().into_value(),
        nodes: nodes.flat_map(|list| &list.value).map(Name::from).collect(),
        set: Tags::of(set.map(|tag| (&tag.value.0, &tag.value.1))),
    }
}

fn allotments(users: &[UserEntry], problems: &mut Problems) -> BTreeMap<String, UserAllotment> {
    index_by_name("user", users.iter().map(|user| &user.name), problems);
    let allotment = |user: &UserEntry| UserAllotment {
        fixed: user.allotment.clone().into_value(),
        urgent: user.urgent_allotment.clone().into_value(),
    };
    for user in users {
        let has_allotment = !user.allotment.is_absent() || !user.urgent_allotment.is_absent();
        if !has_allotment && user.grid_weight.is_absent() {
            let name = &user.name;
            let message = format!(
                "user `{}` has no `allotment`, `urgent_allotment` or `grid_weight`",
                name.value
            );
            let path = format!("user.{}", name.value);
            let problem = ConfigProblem::new(Code::Missing, &path, &name.place, message);
            problems.add(problem.remedy("add one of them, or remove the section"));
        }
    }
    users.iter().map(|user| (user.name.value.clone(), allotment(user))).collect()
}
