//! Matches chunks with nodes, a place of a chunk on a node, by augmenting paths.

use std::collections::VecDeque;

use crate::model::count;

/// The limit of steps is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepLimit;

/// Takes `amount` from `steps`.
pub(super) fn spend(steps: &mut u64, amount: u64) -> Result<(), StepLimit> {
    *steps = steps.checked_sub(amount).ok_or(StepLimit)?;
    Ok(())
}

/// A matching while it grows.
struct Matching<'s> {
    /// The nodes that suit each chunk.
    suits: &'s [Vec<usize>],
    /// The chunk that has each node.
    owners: Vec<Option<usize>>,
    /// For each chunk, number of its nodes that are known to be taken. A taken node stays taken.
    known: Vec<usize>,
}

/// Returns the most places that chunks can have on `nodes` nodes at the same time. Chunk `c` asks
/// for `needs[c]` places, each on another of the nodes `suits[c]`.
pub(super) fn most_places(
    needs: &[u64],
    suits: &[Vec<usize>],
    nodes: usize,
    steps: &mut u64,
) -> Result<u64, StepLimit> {
    let known = vec![0; suits.len()];
    let mut matching = Matching { suits, owners: vec![None; nodes], known };
    let mut places = 0;
    // Chunks with few nodes come first: they would have to take nodes from the rest.
    let mut chunks: Vec<(usize, u64)> = needs.iter().copied().enumerate().collect();
    chunks.sort_by_key(|(chunk, _)| suits[*chunk].len());
    for (chunk, need) in chunks {
        for _ in 0..need {
            // A chunk without a path now has none later.
            if !matching.augment(chunk, steps)? {
                break;
            }
            places += 1;
        }
    }
    Ok(places)
}

impl Matching<'_> {
    /// Gives `first` another node. The chunk that had the node gets another, and so on.
    fn augment(&mut self, first: usize, steps: &mut u64) -> Result<bool, StepLimit> {
        // For each chunk reached: the chunk that would take a node from it, and the node.
        let mut came: Vec<Option<(usize, usize)>> = vec![None; self.suits.len()];
        let mut pending = VecDeque::from([first]);
        while let Some(chunk) = pending.pop_front() {
            spend(steps, 1)?;
            if let Some(node) = self.free_node(chunk) {
                self.shift(first, chunk, node, &came);
                return Ok(true);
            }
            spend(steps, count(&self.suits[chunk]))?;
            for &node in &self.suits[chunk] {
                let owner = self.owners[node].filter(|&owner| owner != first);
                if let Some(owner) = owner.filter(|&owner| came[owner].is_none()) {
                    came[owner] = Some((chunk, node));
                    pending.push_back(owner);
                }
            }
        }
        Ok(false)
    }

    /// A node for `chunk` that no chunk has.
    fn free_node(&mut self, chunk: usize) -> Option<usize> {
        let known = &mut self.known[chunk];
        let suits = &self.suits[chunk];
        while suits.get(*known).is_some_and(|&node| self.owners[node].is_some()) {
            *known += 1;
        }
        suits.get(*known).copied()
    }

    /// Gives `node` to `chunk`, and the node that it no longer needs to the chunk before it on the
    /// path from `first`.
    fn shift(
        &mut self,
        first: usize,
        mut chunk: usize,
        node: usize,
        came: &[Option<(usize, usize)>],
    ) {
        self.owners[node] = Some(chunk);
        while let Some((before, node)) = came[chunk].filter(|_| chunk != first) {
            self.owners[node] = Some(before);
            chunk = before;
        }
    }
}
