//! Fingerprints of large maps that were sent, so that a page gets only the changed nodes.
//!
//! A fingerprint has a hash for each node; two different drawings share it only by accident. Its
//! tag is a hash of its content. So a tag from before a restart never names another drawing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::map::{Look, Spot};

/// Maps with a kept fingerprint: enough for several cycles of several selections.
const MAPS_MAX: usize = 16;

/// Fingerprint of a map, node by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// Of which nodes it is, who is pointed out, and what colours stand for.
    frame: u64,
    nodes: Vec<u64>,
}

impl Looks {
    /// Computes the fingerprint of a map of `spots` with the selection `chosen`.
    pub fn of(spots: &[Spot], chosen: &str) -> Looks {
        let mut frame = DefaultHasher::new();
        chosen.hash(&mut frame);
        let node = |spot: &Spot| {
            // The words contain the node's state.
            let Spot { name, pool, memory_mb, fills, words, is_found, .. } = spot;
            (name, pool, memory_mb).hash(&mut frame);
            let mut node = DefaultHasher::new();
            (words, is_found).hash(&mut node);
            for (Look { paint, kind, is_leaving, is_pale }, memory_mb) in fills {
                (paint, kind, is_leaving, is_pale, memory_mb).hash(&mut node);
            }
            node.finish()
        };
        let nodes = spots.iter().map(node).collect();
        Looks { frame: frame.finish(), nodes }
    }

    /// Returns the tag that names the fingerprint.
    pub fn tag(&self) -> String {
        let mut all = DefaultHasher::new();
        self.nodes.hash(&mut all);
        format!("{:016x}{:016x}", self.frame, all.finish())
    }
}

/// Fingerprints of the maps sent lately, the latest first.
#[derive(Debug, Default)]
pub(super) struct Maps(VecDeque<(String, Looks)>);

impl Maps {
    /// Keeps a fingerprint and returns its tag.
    pub fn remember(&mut self, looks: Looks) -> String {
        let tag = looks.tag();
        if !self.0.iter().any(|(known, _)| *known == tag) {
            self.0.truncate(MAPS_MAX - 1);
            self.0.push_front((tag.clone(), looks));
        }
        tag
    }

    /// Returns the indices of the nodes that differ between `now` and the map called `since`.
    /// `None` if that map is unknown by now, or shows other nodes.
    pub fn changed(&self, since: &str, now: &Looks) -> Option<Vec<usize>> {
        let (_, before) = self.0.iter().find(|(known, _)| known == since)?;
        let pairs = before.nodes.iter().zip(&now.nodes).enumerate();
        let changed = pairs.filter(|(_, (before, now))| before != now).map(|(place, _)| place);
        (before.frame == now.frame).then(|| changed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Name, NodeCondition};

    fn map(words: &[&str], chosen: &str) -> Looks {
        let spot = |(number, words): (usize, &&str)| Spot {
            name: Name::from(format!("n{number}")),
            pool: Name::from("main"),
            memory_mb: 1_024,
            state: NodeCondition::default(),
            is_found: false,
            fills: Vec::new(),
            words: (*words).to_owned(),
        };
        Looks::of(&words.iter().enumerate().map(spot).collect::<Vec<_>>(), chosen)
    }

    #[test]
    fn only_what_changed_is_told_and_only_of_the_same_nodes() {
        let mut maps = Maps::default();
        let first = maps.remember(map(&["a", "b", "c"], ""));
        assert_eq!(maps.changed(&first, &map(&["a", "x", "c"], "")), Some(vec![1]));
        assert_eq!(maps.changed(&first, &map(&["a", "b", "c"], "")), Some(Vec::new()));
        assert_eq!(maps.changed(&first, &map(&["a", "b"], "")), None, "a node is gone");
        assert_eq!(maps.changed(&first, &map(&["a", "b", "c"], "ann")), None, "others are pale");
        assert_eq!(maps.changed("", &map(&["a", "b", "c"], "")), None);
        assert_ne!(map(&["a", "b"], "").tag(), map(&["b", "a"], "").tag());
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut maps = Maps::default();
        let words: Vec<String> = (0..=MAPS_MAX).map(|number| number.to_string()).collect();
        let tags = words.iter().map(|word| maps.remember(map(&[word], "")));
        let tags: Vec<String> = tags.collect();
        let now = map(&["now"], "");
        assert_eq!(maps.changed(&tags[0], &now), None);
        assert!(tags[1..].iter().all(|tag| maps.changed(tag, &now) == Some(vec![0])));
    }
}
