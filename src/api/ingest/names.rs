//! Rules for names from outside. A name with other characters could pass for something else in a
//! log, a table or a page.

use std::collections::BTreeMap;

use crate::api::http::json::shortened;
use crate::model::{is_tag_key, is_tag_value};

/// Returns the problem of a user's name, if any. A good name has at most `bytes_max` bytes.
pub fn user_problem(name: &str, bytes_max: usize) -> Option<String> {
    problem(name, bytes_max, "._-@+$")
}

/// Returns the problem of a class's name, if any. A good name has at most `bytes_max` bytes.
pub fn name_problem(name: &str, bytes_max: usize) -> Option<String> {
    problem(name, bytes_max, "._-")
}

/// Returns the problem of a node's name, if any. A good name has at most `bytes_max` bytes. Other
/// programs take a name for an option or for a folder if it begins with `-` or `.`.
pub fn node_problem(name: &str, bytes_max: usize) -> Option<String> {
    let begins_badly = name.starts_with(['-', '.']);
    let problem = || format!("the name `{}` of a node begins with `-` or `.`", shortened(name));
    name_problem(name, bytes_max).or_else(|| begins_badly.then(problem))
}

/// Most tags of a job or a node.
const TAGS_MAX: usize = 32;

/// Returns the problem of the tags of a job or a node, if any.
pub fn tags_problem(tags: &BTreeMap<String, String>) -> Option<String> {
    if TAGS_MAX < tags.len() {
        return Some(format!("{} tags; at most {TAGS_MAX} are taken", tags.len()));
    }
    let bad = tags.iter().find(|(key, value)| !is_tag_key(key) || !is_tag_value(value));
    bad.map(|(key, value)| {
        let (key, value) = (shortened(key), shortened(value));
        format!(
            "the tag `{key}`: `{value}` is not valid: a key has 1 to 64 of a-z, 0-9, `_`, `.` and `-`; a value has 1 to 255 bytes without blanks"
        )
    })
}

fn problem(name: &str, bytes_max: usize, marks: &str) -> Option<String> {
    if name.is_empty() {
        return Some("a name is empty".to_owned());
    }
    let shown = shortened(name);
    let is_legal = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    if let Some(bad) = name.chars().find(|&c| !is_legal(c)) {
        let bad = bad.escape_unicode();
        return Some(format!(
            "the name `{shown}` contains {bad}; allowed are ASCII letters, digits and `{marks}`"
        ));
    }
    (name.len() > bytes_max).then(|| {
        let bytes = name.len();
        format!("the name `{shown}` has {bytes} characters; at most {bytes_max} are allowed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        for name in ["ann", "ann.lee-2", "svc_$", "ann@example.org"] {
            assert_eq!(user_problem(name, 256), None, "{name}");
        }
        let long = "x".repeat(300);
        // the last has a Cyrillic a
        for name in ["", "ann\n", "ann\0", "a b", &long, "\u{430}nn"] {
            assert!(user_problem(name, 256).is_some(), "{name:?}");
        }
        for (name, is_good) in
            [("n1", true), ("n1.", true), ("_n", true), (".", false), ("..", false), ("-a", false)]
        {
            assert_eq!(node_problem(name, 256).is_none(), is_good, "{name}");
        }
    }
}
