//! The configuration as a JSON schema, for editors that complete and check while an administrator
//! types.
//!
//! The loader reads a file with an empty section of every kind, and each setting that it reads is a
//! property of the schema. The descriptions are the sample's comments.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toml::de::DeTable;

use super::environment::Overrides;
use super::file;
use super::problem::Problems;
use super::section::{Asked, Reading};

/// The sample: every setting there is, with what it means, its unit and its default.
pub const SAMPLE: &str = include_str!("../../config/apportion.toml");

/// An empty section of every list.
const PROBE: &str = "[[nodepool]]\n[[class]]\n[[user]]\n[[tags]]\n[[cluster]]\n[[admission]]\n";

/// The lists of sections; all other sections are there once.
const LISTS: [&str; 6] = ["nodepool", "class", "user", "tags", "cluster", "admission"];

/// The JSON schema (draft 7, which the TOML editors know) of a configuration file.
pub fn schema() -> Value {
    let descriptions = descriptions(SAMPLE);
    let describe = |mut schema: Value, path: &str| {
        // The sample explains the growth of classes in the section `scheduler`, where the same
        // settings hold for all classes.
        let elsewhere = path.replacen("class.", "scheduler.", 1);
        if let Some(text) = descriptions.get(path).or(descriptions.get(&elsewhere)) {
            schema["description"] = Value::from(text.as_str());
        }
        schema
    };
    let mut sections: BTreeMap<&str, (Map<String, Value>, Vec<&str>)> = BTreeMap::new();
    for Asked { section, key, shape, default, is_required } in every_setting() {
        let mut schema = describe(shape.schema(), &format!("{section}.{key}"));
        if let Some(default) = default.and_then(|default| json_of(&default)) {
            schema["default"] = default;
        }
        let (properties, required) = sections.entry(section).or_default();
        properties.insert(key.to_owned(), schema);
        required.extend(is_required.then_some(key));
    }
    let mut root = Map::new();
    // Backwards, so that an inner section is made before its outer section.
    while let Some((section, (properties, required))) = sections.pop_last() {
        let table = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        if let Some((outer, key)) = section.rsplit_once('.') {
            let (properties, _) = sections.entry(outer).or_default();
            properties.insert(key.to_owned(), describe(table, section));
        } else if LISTS.contains(&section) {
            let list =
                json!({ "type": "array", "items": table, "minItems": u8::from(section != "user") });
            root.insert(section.to_owned(), describe(list, section));
        } else {
            root.insert(section.to_owned(), describe(table, section));
        }
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "apportion.toml",
        "type": "object",
        "properties": root,
        "required": ["nodepool", "class"],
        "additionalProperties": false,
    })
}

/// Every setting there is.
pub(super) fn every_setting() -> Vec<Asked> {
    let document = DeTable::parse(PROBE).expect("three sections without settings are TOML");
    let mut reading = Reading::new(Overrides::default(), Problems::none("", PROBE));
    file::read(document.get_ref(), &mut reading);
    reading.asked
}

/// A value of the file, in JSON.
fn json_of(value: &str) -> Option<Value> {
    let table: toml::Table = format!("value = {value}").parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// Returns the comment above each setting and section of `sample`, at its first occurrence.
pub(super) fn descriptions(sample: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut section = String::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in sample.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
            continue;
        }
        let path = if line.starts_with('[') {
            line.trim_matches(['[', ']']).clone_into(&mut section);
            Some(section.clone())
        } else {
            line.split_once(" = ").map(|(key, _)| format!("{section}.{key}"))
        };
        if let Some(path) = path.filter(|_| !comment.is_empty()) {
            found.entry(path).or_insert_with(|| comment.join(" "));
        }
        comment.clear();
    }
    found
}
