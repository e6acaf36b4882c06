//! Checks resource classes: names, inheritance, and settings that mean something under the policy.
//!
//! A policy without a default class is allowed: work of that kind has to name its class. The
//! original refuses it, because there a default also stands in for classes that are misspelt.

use std::collections::BTreeMap;

use super::descent::{ancestors_of, cycle_text, index_by_name, inheritance_cycles};
use super::file::{ClassEntry, Growth};
use super::problem::{Code, ConfigProblem, Problems, ValuePlace, suggest};
use super::urgent::{self, Ranked};
use super::value::PolicyName;
use crate::model::{CapRules, ClassPolicy, Nodepool, PoolIx, ResourceClass};

/// A class that is not abstract, with its inherited settings.
#[derive(Debug)]
pub(super) struct Resolved {
    pub entry: ClassEntry,
    pub class: ResourceClass,
}

/// The classes that are not abstract, in the order of the file.
pub(super) fn check(
    entries: &[ClassEntry],
    growth: &Growth,
    pools: &[Nodepool],
    problems: &mut Problems,
) -> Vec<Resolved> {
    let parents = parents(entries, problems);
    defaults_are_concrete(entries, problems);
    pools_exist(entries, pools, problems);
    let common = cap_rules(growth, "scheduler", problems);

    let mut resolved = Vec::new();
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_abstract) {
        let line = ancestors_of(index, &parents);
        let ancestors = line.iter().skip(1).map(|ancestor| &entries[*ancestor]);
        let class = ancestors.fold(entry.clone(), |heir, ancestor| heir.inheriting(ancestor));
        // If the line of ancestors breaks off or forms a cycle, that is the only problem reported.
        // Settings that the class could have inherited from further up are not reported as missing.
        if line.last().is_some_and(|eldest| entries[*eldest].inherit.is_absent()) {
            has_what_it_must(&class, problems);
        }
        resolved.push(class);
    }
    one_default_per_policy(&resolved, problems);
    one_policy_per_priority(&resolved, problems);
    let ranked: Vec<Ranked<'_>> = resolved.iter().filter_map(ranked).collect();
    urgent::check(&ranked, problems);
    let finished = |entry: ClassEntry| {
        let class = class(&entry, growth, common, pools, problems)?;
        Some(Resolved { entry, class })
    };
    resolved.into_iter().filter_map(finished).collect()
}

/// Returns the parent of each class. Reports classes that are duplicate or missing, or that inherit
/// from themselves.
fn parents(entries: &[ClassEntry], problems: &mut Problems) -> Vec<Option<usize>> {
    let by_name = index_by_name("class", entries.iter().map(|entry| &entry.name), problems);
    let mut parents = Vec::new();
    for entry in entries {
        let parent = entry.inherit.given();
        let index = parent.and_then(|parent| by_name.get(parent.value.as_str()).copied());
        if let (Some(parent), None) = (parent, index) {
            let message = format!(
                "class `{}` inherits from `{}`, which is no class",
                entry.name.value, parent.value
            );
            let remedy = suggest(&parent.value, by_name.keys().copied());
            problems.add(
                ConfigProblem::new(
                    Code::UnknownClass,
                    &entry.key("inherit"),
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
        let text = cycle_text(&ring, |class| &entries[class].name.value);
        let place = entry.inherit.place().unwrap_or(&entry.name.place);
        let message = format!("class `{}` inherits from itself: {text}", entry.name.value);
        let problem =
            ConfigProblem::new(Code::InheritanceCycle, &entry.key("inherit"), place, message);
        problems
            .add(problem.remedy("remove `inherit` from the class that the other classes build on"));
    }
    parents
}

fn defaults_are_concrete(entries: &[ClassEntry], problems: &mut Problems) {
    for entry in entries.iter().filter(|entry| entry.is_abstract) {
        if let Some(default) = entry.default.given().filter(|default| default.value) {
            let message =
                format!("class `{}` is abstract and cannot be a default", entry.name.value);
            let problem = ConfigProblem::new(
                Code::AbstractDefault,
                &entry.key("default"),
                &default.place,
                message,
            );
            problems.add(problem.remedy("make a class that inherits from it the default"));
        }
    }
}

fn pools_exist(entries: &[ClassEntry], pools: &[Nodepool], problems: &mut Problems) {
    // Without any nodepool, that is the problem, and it has been reported.
    for entry in entries.iter().filter(|_| !pools.is_empty()) {
        let unknown =
            entry.nodepool.given().filter(|named| pool_named(&named.value, pools).is_none());
        if let Some(named) = unknown {
            let message = format!(
                "class `{}` is in `{}`, which is no nodepool",
                entry.name.value, named.value
            );
            let remedy = suggest(&named.value, pools.iter().map(|pool| pool.name.as_str()));
            problems.add(
                ConfigProblem::new(
                    Code::UnknownPool,
                    &entry.key("nodepool"),
                    &named.place,
                    message,
                )
                .remedy(remedy),
            );
        }
    }
}

fn has_what_it_must(class: &ClassEntry, problems: &mut Problems) {
    let absent = [("policy", class.policy.is_absent()), ("nodepool", class.nodepool.is_absent())];
    for (key, _) in absent.into_iter().filter(|(_, is_absent)| *is_absent) {
        let message = format!("class `{}` has no `{key}`", class.name.value);
        let problem =
            ConfigProblem::new(Code::Missing, &class.key(key), &class.name.place, message);
        problems.add(
            problem.remedy(format!("add a line `{key} = …`, or inherit it from another class")),
        );
    }
}

fn pool_named(name: &str, pools: &[Nodepool]) -> Option<PoolIx> {
    pools.iter().position(|pool| pool.name == name).map(PoolIx)
}

fn one_default_per_policy(classes: &[ClassEntry], problems: &mut Problems) {
    let mut firsts: BTreeMap<&str, (&ClassEntry, &ValuePlace)> = BTreeMap::new();
    for class in classes {
        let default = class.default.given().filter(|default| default.value);
        let (Some(default), Some(policy)) = (default, class.policy.given()) else { continue };
        let policy = policy.value.as_str();
        let (first, place) = *firsts.entry(policy).or_insert((class, &default.place));
        if place != &default.place {
            let names = (&first.name.value, &class.name.value);
            let message = format!(
                "`{}` and `{}` are both default classes for {policy} work",
                names.0, names.1
            );
            let problem = ConfigProblem::new(
                Code::TwoDefaults,
                &class.key("default"),
                &default.place,
                message,
            );
            problems
                .add(problem.remedy("make one of them the default").related(place, "the first"));
        }
    }
}

/// Jobs of a priority are counted together, which has no meaning across policies. Abstract classes
/// have no jobs and are skipped.
fn one_policy_per_priority(classes: &[ClassEntry], problems: &mut Problems) {
    let mut firsts: BTreeMap<u32, (&ClassEntry, PolicyName)> = BTreeMap::new();
    for class in classes {
        let Some(policy) = class.policy.given().map(|policy| policy.value) else { continue };
        let priority = priority(class, policy);
        let (first, other) = *firsts.entry(priority).or_insert((class, policy));
        if policy != other {
            let place =
                |class: &ClassEntry| class.priority.place().unwrap_or(&class.name.place).clone();
            let message = format!(
                "class `{}` is {} and has priority {priority}, as has `{}`, which is {}",
                class.name.value,
                policy.as_str(),
                first.name.value,
                other.as_str(),
            );
            let problem = ConfigProblem::new(
                Code::MixedPriority,
                &class.key("priority"),
                &place(class),
                message,
            );
            let problem =
                problem.related(&place(first), format!("priority {priority}, {}", other.as_str()));
            problems.add(
                problem.remedy(
                    "give each policy priorities of its own; lower numbers are served first",
                ),
            );
        }
    }
}

fn ranked(entry: &ClassEntry) -> Option<Ranked<'_>> {
    let policy = entry.policy.given()?.value;
    Some(Ranked { entry, policy, priority: priority(entry, policy) })
}

fn priority(class: &ClassEntry, policy: PolicyName) -> u32 {
    class.priority.clone().or(match policy {
        PolicyName::FairShare => 10,
        PolicyName::FixedShare => 5,
        PolicyName::Reserve => 1,
    })
}

/// The finished class. `entry` has inherited all it can.
fn class(
    entry: &ClassEntry,
    growth: &Growth,
    common: CapRules,
    pools: &[Nodepool],
    problems: &mut Problems,
) -> Option<ResourceClass> {
    let policy_name = entry.policy.given()?.value;
    let (policy, cap_rules) = match policy_name {
        PolicyName::FairShare => {
            let weight = entry.weight.clone().or(100);
            (
                ClassPolicy::FairShare { weight },
                cap_rules(&entry.growth.over(growth), &entry.path, problems),
            )
        }
        PolicyName::FixedShare => (ClassPolicy::FixedShare, common),
        PolicyName::Reserve => (ClassPolicy::Reserve, common),
    };
    if !policy.is_preemptable() {
        only_fair_share_grows(entry, policy_name, problems);
    }
    entry.gangs.check(&entry.path, &entry.name.value, policy_name, problems);
    let users =
        entry.users.given().map(|list| list.value.iter().map(|user| user.value.clone()).collect());
    Some(ResourceClass {
        gangs: entry.gangs.rules(),
        name: entry.name.value.as_str().into(),
        policy,
        priority: priority(entry, policy_name),
        pool: pool_named(&entry.nodepool.given()?.value, pools)?,
        cap_rules,
        users,
        is_default: entry.default.clone().or(false),
        is_urgent: entry.urgent.clone().or(false),
    })
}

fn only_fair_share_grows(entry: &ClassEntry, policy: PolicyName, problems: &mut Problems) {
    let weight = entry.weight.place().map(|place| ("weight", place));
    for (key, place) in weight.into_iter().chain(entry.growth.given()) {
        let message = format!(
            "`{key}` has no effect in class `{}`: its policy is {}",
            entry.name.value,
            policy.as_str()
        );
        let problem = ConfigProblem::new(Code::Misplaced, &entry.key(key), place, message);
        problems.add(problem.remedy("remove it; only fair-share classes have it"));
    }
}

/// The rules that `growth` comes to.
fn cap_rules(growth: &Growth, path: &str, problems: &mut Problems) -> CapRules {
    let rules = growth.clone().rules();
    let is_ramp_without_start = rules.initialization_cap == 0 && rules.expand_by_doubling;
    let place = growth.initialization_cap.place().or(growth.expand_by_doubling.place());
    if let Some(place) = place.filter(|_| is_ramp_without_start) {
        let message = "an `initialization_cap` of 0 leaves nothing to double";
        let remedy =
            "allowed are 1 to 1000000, or 0 (no cap) together with `expand_by_doubling = false`";
        let path = format!("{path}.initialization_cap");
        problems.add(ConfigProblem::new(Code::Range, &path, place, message).remedy(remedy));
    }
    rules
}
