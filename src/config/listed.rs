//! Pools, classes and users for the listing of settings in effect.

use super::classes::Resolved;
use super::file::{File, Growth, PoolEntry, TagEntry, TagKeys, UserEntry};
use super::hours::active;
use super::listing::Listing;
use super::setting::Located;
use super::value::{
    PolicyName, flag, hosts, millis, name, tag, toml_list, toml_size, toml_span, toml_text,
};
use crate::model::{CapRules, ClassPolicy, Mebibytes, Nodepool};

/// Adds pools, classes and users to the single settings that were listed while they were read.
pub(super) fn extend(listing: &mut Listing, file: &File, pools: &[Nodepool], classes: &[Resolved]) {
    let keys =
        |keys: &Vec<Located<String>>| toml_list(keys.iter().map(|key| toml_text(&key.value)));
    let none = || Some("[]".to_owned());
    let TagKeys { reported, sets, may_span: _ } = &file.tag_keys;
    listing.push("scheduler.reported_tags".to_owned(), reported, none(), keys);
    listing.push("scheduler.placement_sets".to_owned(), sets, none(), keys);
    for entry in &file.pools {
        pool(listing, entry, pools);
    }
    for resolved in classes {
        class(listing, resolved, &file.growth);
    }
    for (number, TagEntry { nodes, set, preference }) in (1..).zip(&file.tags) {
        let key = |key: &str| format!("tags.{number}.{key}");
        listing.push(key("nodes"), nodes, none(), host_lists);
        let tags = |tags: &Vec<Located<(String, String)>>| {
            toml_list(tags.iter().map(|pair| tag().show(&pair.value)))
        };
        listing.push(key("set"), set, none(), tags);
        listing.push(key("preference"), preference, None, i32::to_string);
    }
    file.admission.iter().for_each(|entry| entry.list(listing));
    for UserEntry { name, allotment, urgent_allotment, grid_weight } in &file.users {
        let path = format!("user.{}.allotment", name.value);
        let usual = file.settings.allotment.map(toml_size);
        listing.push(path, allotment, usual, |size| toml_size(*size));
        let path = format!("user.{}.urgent_allotment", name.value);
        let usual = Some(toml_size(Mebibytes(0)));
        listing.push(path, urgent_allotment, usual, |size| toml_size(*size));
        let path = format!("user.{}.grid_weight", name.value);
        listing.push(path, grid_weight, Some("1".to_owned()), u64::to_string);
    }
}

fn pool(listing: &mut Listing, entry: &PoolEntry, pools: &[Nodepool]) {
    let checked = pools.iter().find(|pool| pool.name == entry.name.value);
    let quantum = checked.map(|pool| toml_size(pool.quantum.memory()));
    listing.push(entry.key("parent"), &entry.parent, None, |parent| toml_text(parent));
    let order = entry.search_order.clone();
    listing.push(entry.key("search_order"), &order, Some("100".to_owned()), u32::to_string);
    listing.push(entry.key("quantum"), &entry.quantum, quantum, |size| toml_size(*size));
    listing.push(entry.key("nodes"), &entry.nodes, Some("[]".to_owned()), host_lists);
}

/// Host lists in the form of the file.
#[expect(clippy::ptr_arg, reason = "the listing shows settings as they are kept")]
fn host_lists(lists: &Vec<Located<Vec<String>>>) -> String {
    toml_list(lists.iter().map(|list| hosts().show(&list.value)))
}

fn class(listing: &mut Listing, resolved: &Resolved, growth: &Growth) {
    let (entry, class) = (&resolved.entry, &resolved.class);
    let policy = |policy: &PolicyName| toml_text(policy.as_str());
    listing.push(entry.key("policy"), &entry.policy, None, policy);
    listing.push(entry.key("nodepool"), &entry.nodepool, None, |pool| name().show(pool));
    let priority = Some(class.priority.to_string());
    listing.push(entry.key("priority"), &entry.priority, priority, u32::to_string);
    if let ClassPolicy::FairShare { weight } = class.policy {
        let weight = Some(weight.to_string());
        listing.push(entry.key("weight"), &entry.weight, weight, u32::to_string);
    }
    let show = |value: &bool| flag().show(value);
    listing.push(entry.key("default"), &entry.default, Some("false".to_owned()), show);
    let users =
        |users: &Vec<Located<String>>| toml_list(users.iter().map(|user| toml_text(&user.value)));
    listing.push(entry.key("users"), &entry.users, None, users);
    listing.push(entry.key("active"), &entry.active, None, |entries| {
        toml_list(entries.iter().map(|entry| active().show(&entry.value)))
    });
    if class.policy == ClassPolicy::FixedShare {
        let urgent = Some("false".to_owned());
        listing.push(entry.key("urgent"), &entry.urgent, urgent, bool::to_string);
    }
    if !matches!(class.policy, ClassPolicy::Reserve) {
        entry.gangs.list(listing, &entry.path);
    }
    if class.policy.is_preemptable() {
        growth_rows(listing, &entry.path, &entry.growth.over(growth), &class.cap_rules);
    }
}

/// Adds the growth settings: the values of `growth`, and for absent settings the resulting `rules`.
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
    let shown = |span: &std::time::Duration| toml_span(millis(*span));
    let fudge = Some(toml_span(rules.prediction_fudge));
    listing.push(key("prediction_fudge"), &growth.prediction_fudge, fudge, shown);
    let loss = Some(toml_span(rules.loss_limit));
    listing.push(key("loss_limit"), &growth.loss_limit, loss, shown);
}
