//! Answers for programs, beside JSON: YAML, comma-separated values, and names alone.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize};

/// `document` in YAML.
///
/// # Errors
///
/// If it cannot be written so.
pub(super) fn yaml(document: &impl Serialize) -> serde_json::Result<String> {
    serde_saphyr::to_string(document).map_err(serde_json::Error::custom)
}

/// Returns `entries` as RFC 4180 says: a heading for each field of any entry, then a line each.
/// Fields within a field have a dot in their heading; of a list the cell has the count.
///
/// # Errors
///
/// If they cannot be written so.
pub(super) fn csv<T: Serialize>(entries: &[T], has_header: bool) -> serde_json::Result<String> {
    let mut headings: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    for entry in entries {
        let tree: Tree = serde_json::from_str(&serde_json::to_string(entry)?)?;
        let mut row = Vec::new();
        tree.fields("", &mut row);
        for (heading, _) in &row {
            if !headings.contains(heading) {
                headings.push(heading.clone());
            }
        }
        rows.push(row);
    }
    let line = |cells: Vec<&str>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",");
    let header = has_header.then(|| line(headings.iter().map(String::as_str).collect()));
    let lines = rows.iter().map(|row| {
        let cell = |heading: &String| row.iter().find(|(name, _)| name == heading);
        line(headings.iter().map(|heading| cell(heading).map_or("", |(_, text)| text)).collect())
    });
    Ok(header.into_iter().chain(lines).collect::<Vec<_>>().join("\n"))
}

/// Returns these fields of `entries` as RFC 4180 says: a heading, then a line each. Each field is text or a
/// number.
///
/// # Errors
///
/// If they cannot be written so.
pub(super) fn csv_of<T: Serialize>(entries: &[T], fields: &[&str]) -> serde_json::Result<String> {
    let mut lines = vec![fields.join(",")];
    for entry in entries {
        let values = serde_json::to_value(entry)?;
        let cell = |field: &&str| {
            let value = &values[*field];
            value.as_str().map_or_else(|| value.to_string(), quoted)
        };
        lines.push(fields.iter().map(cell).collect::<Vec<_>>().join(","));
    }
    Ok(lines.join("\n"))
}

/// A cell, in quotes where it has to be. What a spreadsheet would take for a formula is text.
fn quoted(cell: &str) -> String {
    let text = if cell.starts_with(['=', '+', '@', '-']) && cell.parse::<i64>().is_err() {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// A document of JSON that keeps the order of its fields.
enum Tree {
    Value(String),
    List(Vec<Tree>),
    Fields(Vec<(String, Tree)>),
}

impl Tree {
    /// All values below `name`, each with the names that lead to it.
    fn fields(&self, name: &str, row: &mut Vec<(String, String)>) {
        match self {
            Tree::Value(text) => row.push((name.to_owned(), text.clone())),
            Tree::List(entries) => {
                let values = entries.iter().map(|entry| match entry {
                    Tree::Value(text) => Some(text.as_str()),
                    Tree::List(_) | Tree::Fields(_) => None,
                });
                let values: Option<Vec<&str>> = values.collect();
                let text = values.map_or_else(|| entries.len().to_string(), |list| list.join(","));
                row.push((name.to_owned(), text));
            }
            Tree::Fields(fields) => {
                for (field, tree) in fields {
                    let name =
                        if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                    tree.fields(&name, row);
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Value(String::new()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Value(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Value(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Value(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Value(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Value(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Tree::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_become_lines_with_a_cell_for_each_field_of_any_of_them() {
        let entries = [
            json!({ "name": "n1", "states": ["up", "awaited"], "sums": { "held": 4 } }),
            json!({ "name": "a \"b\", c", "shares": [{ "job": 1 }, { "job": 2 }], "note": "=1+1" }),
        ];
        let text = csv(&entries, true).unwrap();
        let expected = [
            "name,states,sums.held,note,shares",
            "n1,\"up,awaited\",4,,",
            "\"a \"\"b\"\", c\",,,'=1+1,2",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        assert_eq!(csv(&entries, false).unwrap().lines().count(), 2);
        assert_eq!(csv::<()>(&[], true).unwrap(), "");
    }

    #[test]
    fn text_that_looks_like_something_else_stays_text_in_yaml() {
        let text =
            yaml(&json!({ "no": "no", "number": "1", "list": [1, { "a": "x: y" }] })).unwrap();
        let read: serde_json::Value = json!({ "no": "no", "number": "1" });
        for (name, value) in read.as_object().unwrap() {
            let line = text.lines().find(|line| {
                line.contains(&format!("{name}\":")) || line.starts_with(&format!("{name}:"))
            });
            let shown = line.unwrap().split_once(": ").unwrap().1;
            assert!(shown.starts_with(['"', '\'']), "{value}: {text}");
        }
    }
}
