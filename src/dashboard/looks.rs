//! What large maps looked like when they were sent, so that a page gets only what has changed since.
//!
//! Of a map there is kept what no two drawings have in common but by an accident: a number for each
//! node. It is named after them, so that one made after a restart, or of other nodes, has another name.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::map::{Look, Spot};

/// So many maps are known: of some cycles, for some that are asked for.
const MAPS_MAX: usize = 16;

/// What a map looks like, node by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// Of which nodes it is, who is pointed out, and what colours stand for.
    frame: u64,
    nodes: Vec<u64>,
}

impl Looks {
    /// Those of a map of `spots` that was asked for by `chosen`.
    pub fn of(spots: &[Spot], chosen: &str) -> Looks {
        let mut frame = DefaultHasher::new();
        chosen.hash(&mut frame);
        let node = |spot: &Spot| {
            // Its state is among the words.
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

    /// Its name.
    pub fn tag(&self) -> String {
        let mut all = DefaultHasher::new();
        self.nodes.hash(&mut all);
        format!("{:016x}{:016x}", self.frame, all.finish())
    }
}

/// Those that were sent lately, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Maps(VecDeque<(String, Looks)>);

impl Maps {
    /// Keeps one, and tells its name.
    pub fn remember(&mut self, looks: Looks) -> String {
        let tag = looks.tag();
        if !self.0.iter().any(|(known, _)| *known == tag) {
            self.0.truncate(MAPS_MAX - 1);
            self.0.push_front((tag.clone(), looks));
        }
        tag
    }

    /// The places of the nodes that look otherwise in `now` than in the map called `since`. Nothing
    /// if that is not known any more, or is of other nodes.
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
    use crate::model::{MachineState, Name};

    fn map(words: &[&str], chosen: &str) -> Looks {
        let spot = |(number, words): (usize, &&str)| Spot {
            name: Name::from(format!("n{number}")),
            pool: Name::from("main"),
            memory_mb: 1_024,
            state: MachineState::default(),
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
