//! What is in effect, setting by setting, and who said so.

use std::collections::BTreeMap;
use std::fmt;

use super::classes::Resolved;
use super::file::{File, Growth, PoolEntry, UserEntry};
use super::problem::Place;
use super::section::{Located, Setting};
use super::value::{PolicyName, flag, hosts, name, toml_list, toml_size, toml_span, toml_text};
use crate::model::{CapRules, Nodepool, Policy};

/// Who set a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody: it is what holds where nothing is said.
    Default,
    /// The file, in this line.
    Line(usize),
    /// This environment variable.
    Variable(String),
    /// This flag of the command line.
    Flag(String),
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key: "scheduler.quantum", "class.normal.weight".
    pub path: String,
    /// Its value, as the file would have it. `None`: it is not set, and need not be.
    pub value: Option<String>,
    /// Who set it.
    pub origin: Origin,
}

/// How a value differs between two configurations. `None` on a side that does not have the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub path: String,
    /// What it was.
    pub before: Option<String>,
    /// What it is to be.
    pub after: Option<String>,
}

/// Every setting in effect, in the order of the sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    rows: Vec<Row>,
    /// Where the lines of the file begin.
    lines: Vec<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Line(line) => write!(f, "line {line}"),
            Origin::Variable(name) => write!(f, "environment, {name}"),
            Origin::Flag(flag) => write!(f, "flag, {flag}"),
        }
    }
}

impl Listing {
    /// None yet, of a file that says `text`.
    pub(super) fn of(text: &str) -> Listing {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Listing { rows: Vec::new(), lines: std::iter::once(0).chain(ends).collect() }
    }

    /// The settings, one after the other.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// What is different in `next`, who set it aside: first what is changed or gone, in the order
    /// of this one, then what is new.
    pub fn changes_to(&self, next: &Listing) -> Vec<Change> {
        let by_path = |listing: &Listing| -> BTreeMap<String, Option<String>> {
            listing.rows().map(|row| (row.path.clone(), row.value.clone())).collect()
        };
        let (before, after) = (by_path(self), by_path(next));
        let old = self.rows().map(|row| &row.path);
        let new = next.rows().map(|row| &row.path).filter(|path| !before.contains_key(*path));
        let changes = old.chain(new).map(|path| Change {
            path: path.clone(),
            before: before.get(path).cloned().flatten(),
            after: after.get(path).cloned().flatten(),
        });
        changes.filter(|change| change.before != change.after).collect()
    }

    pub(super) fn push<T>(
        &mut self,
        path: String,
        setting: &Setting<T>,
        default: Option<String>,
        show: impl Fn(&T) -> String,
    ) {
        let row = match setting.given() {
            Some(Located { value, place }) => {
                Row { path, value: Some(show(value)), origin: self.origin(place) }
            }
            None => Row { path, value: default, origin: Origin::Default },
        };
        self.rows.push(row);
    }

    fn origin(&self, place: &Place) -> Origin {
        match place {
            Place::File(span) => {
                Origin::Line(self.lines.partition_point(|line| *line <= span.start))
            }
            Place::Variable(name) => Origin::Variable(name.clone()),
            Place::Flag(flag) => Origin::Flag(flag.clone()),
        }
    }
}

/// Adds pools, classes and users to the single settings that were listed while they were read.
pub(super) fn extend(listing: &mut Listing, file: &File, pools: &[Nodepool], classes: &[Resolved]) {
    for entry in &file.pools {
        pool(listing, entry, pools);
    }
    for resolved in classes {
        class(listing, resolved, &file.growth);
    }
    for UserEntry { name, allotment } in &file.users {
        let path = format!("user.{}.allotment", name.value);
        listing.push(path, allotment, None, |size| toml_size(*size));
    }
}

fn pool(listing: &mut Listing, entry: &PoolEntry, pools: &[Nodepool]) {
    let checked = pools.iter().find(|pool| pool.name == entry.name.value);
    let quantum = checked.map(|pool| toml_size(pool.quantum.memory()));
    listing.push(entry.key("parent"), &entry.parent, None, |parent| toml_text(parent));
    let order = entry.search_order.clone();
    listing.push(entry.key("search_order"), &order, Some("100".to_owned()), u32::to_string);
    listing.push(entry.key("quantum"), &entry.quantum, quantum, |size| toml_size(*size));
    let nodes = |lists: &Vec<Located<Vec<String>>>| {
        toml_list(lists.iter().map(|list| hosts().show(&list.value)))
    };
    listing.push(entry.key("nodes"), &entry.nodes, Some("[]".to_owned()), nodes);
}

fn class(listing: &mut Listing, resolved: &Resolved, growth: &Growth) {
    let (entry, class) = (&resolved.entry, &resolved.class);
    let policy = |policy: &PolicyName| toml_text(policy.as_str());
    listing.push(entry.key("policy"), &entry.policy, None, policy);
    listing.push(entry.key("nodepool"), &entry.nodepool, None, |pool| name().show(pool));
    let priority = Some(class.priority.to_string());
    listing.push(entry.key("priority"), &entry.priority, priority, u32::to_string);
    if let Policy::FairShare { weight } = class.policy {
        let weight = Some(weight.to_string());
        listing.push(entry.key("weight"), &entry.weight, weight, u32::to_string);
    }
    let show = |value: &bool| flag().show(value);
    listing.push(entry.key("default"), &entry.default, Some("false".to_owned()), show);
    let users =
        |users: &Vec<Located<String>>| toml_list(users.iter().map(|user| toml_text(&user.value)));
    listing.push(entry.key("users"), &entry.users, None, users);
    if class.policy.is_preemptable() {
        growth_rows(listing, &entry.path, &entry.growth.over(growth), &class.cap_rules);
    }
}

/// How jobs grow: what `growth` says, and what `rules` came of it where it says nothing.
fn growth_rows(listing: &mut Listing, path: &str, growth: &Growth, rules: &CapRules) {
    let key = |key: &str| format!("{path}.{key}");
    let cap = Some(rules.initialization_cap.to_string());
    let shown = u64::to_string;
    listing.push(key("initialization_cap"), &growth.initialization_cap, cap, shown);
    let doubling = Some(rules.expand_by_doubling.to_string());
    let shown = bool::to_string;
    listing.push(key("expand_by_doubling"), &growth.expand_by_doubling, doubling, shown);
    let prediction = Some(rules.prediction.to_string());
    listing.push(key("prediction"), &growth.prediction, prediction, shown);
    let shown = |span: &std::time::Duration| toml_span(super::value::millis(*span));
    let fudge = Some(toml_span(rules.prediction_fudge));
    listing.push(key("prediction_fudge"), &growth.prediction_fudge, fudge, shown);
    let loss = Some(toml_span(rules.loss_limit));
    listing.push(key("loss_limit"), &growth.loss_limit, loss, shown);
}
