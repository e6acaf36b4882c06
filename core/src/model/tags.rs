//! Tags of nodes: the rules of the configuration, and the tags that a request asks for.

use std::collections::BTreeMap;
use std::fmt;

use super::{Name, is_hidden};

/// Value that a node has for a key that no rule sets.
const ABSENT: &str = "false";

/// Most bytes of a key.
const KEY_MAX: usize = 64;
/// Most bytes of a value.
const VALUE_MAX: usize = 255;

/// True if `text` can be the key of a tag: 1 to 64 of `a-z`, `0-9`, `_`, `.` and `-`.
pub fn is_tag_key(text: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// True if `text` can be the value of a tag: 1 to 255 bytes without blanks and hidden characters.
pub fn is_tag_value(text: &str) -> bool {
    (1..=VALUE_MAX).contains(&text.len())
        && !text.chars().any(|c| c.is_whitespace() || is_hidden(c))
}

/// Keys with their values, by key. As a request: a node suits it if it has all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags(BTreeMap<Name, Name>);

impl Tags {
    /// Makes tags of pairs; a later pair replaces an earlier one of the same key.
    pub fn of<K: Into<Name>, V: Into<Name>>(pairs: impl IntoIterator<Item = (K, V)>) -> Tags {
        Tags(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &Name)> {
        self.0.iter()
    }

    /// Value of `key`, if it is set.
    pub fn get(&self, key: &str) -> Option<&Name> {
        self.0.get(key)
    }

    /// The tags with keys for which `is_meant` is true.
    #[must_use]
    pub fn only(&self, is_meant: impl Fn(&Name) -> bool) -> Tags {
        let pairs = self.0.iter().filter(|(key, _)| is_meant(key));
        Tags(pairs.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Value of `key`; `"false"` if it is not set.
    pub fn value(&self, key: &str) -> &str {
        self.0.get(key).map_or(ABSENT, Name::as_str)
    }

    /// True if a node with these tags has all that `asked` asks for.
    pub fn satisfy(&self, asked: &Tags) -> bool {
        asked.iter().all(|(key, value)| self.value(key) == value.as_str())
    }

    /// Adds the pairs of `more`; they replace pairs of the same key.
    pub fn merge(&mut self, more: &Tags) {
        self.0.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (key, value)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

/// Tags that some nodes get. Later rules add to earlier ones, and replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRule {
    /// The nodes.
    pub nodes: Vec<Name>,
    /// Tags that the nodes get.
    pub set: Tags,
    /// Gangs use nodes of higher preference first. `None` leaves it as it is.
    pub preference: Option<i32>,
}

/// Everything the configuration says about tags of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTagging {
    /// Rules, in the order of the configuration.
    pub rules: Vec<TagRule>,
    /// Keys that agents may report.
    pub reported: Vec<Name>,
    /// Keys whose values are placement sets, in the order in which they are tried.
    pub sets: Vec<Name>,
    /// True if a gang that no set could ever hold may use several.
    pub may_span: bool,
}

impl Default for NodeTagging {
    fn default() -> NodeTagging {
        NodeTagging { rules: Vec::new(), reported: Vec::new(), sets: Vec::new(), may_span: true }
    }
}

impl NodeTagging {
    /// Tags of each node that a rule names.
    pub fn by_node(&self) -> BTreeMap<Name, Tags> {
        let mut by_node: BTreeMap<Name, Tags> = BTreeMap::new();
        for rule in &self.rules {
            for node in &rule.nodes {
                by_node.entry(node.clone()).or_default().merge(&rule.set);
            }
        }
        by_node
    }

    /// Preference of each node for which a rule sets it.
    pub fn preferences(&self) -> BTreeMap<Name, i32> {
        let rules = self.rules.iter().filter_map(|rule| Some((rule, rule.preference?)));
        let pairs = rules.flat_map(|(rule, preference)| {
            rule.nodes.iter().map(move |node| (node.clone(), preference))
        });
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_is_not_set_is_false() {
        let red = Tags::of([("color", "red")]);
        let cases = [
            (Tags::default(), true),
            (Tags::of([("color", "red")]), true),
            (Tags::of([("color", "blue")]), false),
            (Tags::of([("gpu", "false")]), true),
            (Tags::of([("gpu", "true")]), false),
            (Tags::of([("color", "red"), ("gpu", "false")]), true),
        ];
        for (asked, suits) in cases {
            assert_eq!(red.satisfy(&asked), suits, "{asked:?}");
        }
    }

    #[test]
    fn later_rules_add_and_replace() {
        let rule = |nodes: &[&str], set: &[(&str, &str)]| TagRule {
            preference: None,
            nodes: nodes.iter().map(|&node| Name::from(node)).collect(),
            set: Tags::of(set.iter().copied()),
        };
        let rules = vec![
            rule(&["a", "b"], &[("rack", "r1"), ("gpu", "true")]),
            rule(&["b"], &[("rack", "r2")]),
        ];
        let by_node = NodeTagging { rules, ..NodeTagging::default() }.by_node();
        assert_eq!(by_node["a"], Tags::of([("gpu", "true"), ("rack", "r1")]));
        assert_eq!(by_node["b"], Tags::of([("gpu", "true"), ("rack", "r2")]));
        assert_eq!(by_node["b"].to_string(), "gpu=true, rack=r2");
    }
}
