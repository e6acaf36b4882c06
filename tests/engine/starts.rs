//! Exhaustive search: the starts that are told are possible together, and early.
//!
//! The search knows nothing of kinds, counts or places. It tries nodes by name for all work that
//! runs and waits, with the starts that were told.

use apportion::model::{JobId, Millis};

/// A node, and its use over time.
#[derive(Clone, Debug)]
pub struct NodeLine {
    pub size: u64,
    pub color: &'static str,
    pub uses: Vec<NodeUse>,
}

/// A part of a node for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUse {
    pub owner: JobId,
    pub from: Millis,
    pub to: Millis,
    pub amount: u64,
    pub is_whole: bool,
}

/// A process that needs a node from a moment on.
#[derive(Clone, Debug)]
pub struct Part {
    pub owner: JobId,
    /// Amount; of a whole node, the least size.
    pub amount: u64,
    pub is_whole: bool,
    /// True if no other process of its owner may be on the node.
    pub is_apart: bool,
    pub color: String,
    pub from: Millis,
    pub to: Millis,
}

impl NodeLine {
    fn takes(&self, part: &Part) -> bool {
        let overlaps = |it: &&NodeUse| it.from < part.to && part.from < it.to;
        let is_suited = part.color.is_empty() || part.color == self.color;
        if !is_suited || self.size < part.amount {
            return false;
        }
        let is_in_the_way = |it: &NodeUse| {
            let is_own = it.owner == part.owner;
            if is_own { part.is_apart } else { part.is_whole || it.is_whole }
        };
        if self.uses.iter().filter(overlaps).any(is_in_the_way) {
            return false;
        }
        // The use only grows where another use begins.
        let starts = self.uses.iter().filter(overlaps).map(|it| it.from.max(part.from));
        let at = |moment: Millis| -> u64 {
            let there = self.uses.iter().filter(|it| it.from <= moment && moment < it.to);
            there.map(|it| it.amount).sum()
        };
        starts.chain([part.from]).all(|moment| at(moment) + part.amount <= self.size)
    }
}

/// True if all parts find nodes; `None` if the search would take too long.
pub fn all_fit(nodes: &mut [NodeLine], parts: &[Part], steps: &mut u64) -> Option<bool> {
    let Some((part, rest)) = parts.split_first() else { return Some(true) };
    let mut tried: Vec<NodeLine> = Vec::new();
    for place in 0..nodes.len() {
        *steps = steps.checked_sub(1)?;
        let is_alike = |other: &NodeLine| {
            let node = &nodes[place];
            (node.size, node.color, &node.uses) == (other.size, other.color, &other.uses)
        };
        if tried.iter().any(is_alike) || !nodes[place].takes(part) {
            continue;
        }
        tried.push(nodes[place].clone());
        let Part { owner, amount, is_whole, from, to, .. } = *part;
        nodes[place].uses.push(NodeUse { owner, from, to, amount, is_whole });
        let fits = all_fit(nodes, rest, steps);
        nodes[place].uses.pop();
        if fits? {
            return Some(true);
        }
    }
    Some(false)
}
