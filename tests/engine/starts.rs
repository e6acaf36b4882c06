//! Exhaustive search: the starts that are told are possible together, and early.
//!
//! The search knows nothing of kinds, counts or places. It tries nodes by name for all work that
//! runs and waits, with the starts that were told.

use apportion::model::Millis;

/// A node, and its use over time.
#[derive(Clone, Debug)]
pub struct NodeLine {
    pub size: u64,
    pub color: &'static str,
    /// Start, end and amount.
    pub uses: Vec<(Millis, Millis, u64)>,
}

/// A process that needs a node from a moment on.
#[derive(Clone, Debug)]
pub struct Part {
    /// Amount; of a whole node, the least size.
    pub amount: u64,
    pub is_whole: bool,
    pub color: String,
    pub from: Millis,
    pub to: Millis,
}

impl NodeLine {
    fn takes(&self, part: &Part) -> bool {
        let overlaps = |(from, to, _): &&(Millis, Millis, u64)| *from < part.to && part.from < *to;
        let is_suited = part.color.is_empty() || part.color == self.color;
        if !is_suited || self.size < part.amount {
            return false;
        }
        if part.is_whole {
            return !self.uses.iter().any(|other| overlaps(&other));
        }
        // The use only grows where another use begins.
        let starts = self.uses.iter().filter(overlaps).map(|(from, ..)| (*from).max(part.from));
        let at = |moment: Millis| -> u64 {
            let there = self.uses.iter().filter(|(from, to, _)| *from <= moment && moment < *to);
            there.map(|(.., amount)| amount).sum()
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
        let amount = if part.is_whole { nodes[place].size } else { part.amount };
        nodes[place].uses.push((part.from, part.to, amount));
        let fits = all_fit(nodes, rest, steps);
        nodes[place].uses.pop();
        if fits? {
            return Some(true);
        }
    }
    Some(false)
}
