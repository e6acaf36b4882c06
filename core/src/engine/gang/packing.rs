//! Packs processes of several chunks on common nodes.
//!
//! Chunks are packed in two simple orders. Where both fail, all packings are searched, as far as a
//! budget of steps goes: a gang that fits only if it is packed well would wait for ever.
//!
//! Design: requests and time, section 3.2.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::fit::{Fitting, NodeBatch, NodeLoad, Piece};
use crate::model::Place;

/// Most nodes for which processes of several chunks are packed together.
const PACKED_NODES_MAX: u64 = 4096;

/// Most nodes of which all packings are searched.
const SEARCHED_NODES_MAX: usize = 64;

/// Most states of a search.
const STATES_MAX: usize = 4000;

/// Most loads of a node that are tried.
const LOADS_MAX: usize = 500;

/// A node that is being filled: its group, its free space, and chunks with their processes.
struct Bin {
    group: usize,
    free: u64,
    processes: Vec<(usize, u64)>,
}

impl Fitting<'_> {
    /// Packs processes of several chunks on common nodes.
    pub(super) fn mix(&self) -> Option<Vec<NodeLoad>> {
        let nodes = self.groups.iter().map(|group| group.nodes).fold(0, u64::saturating_add);
        if self.place != Place::Free || PACKED_NODES_MAX < nodes {
            return None;
        }
        // A chunk with few nodes to go to, or a large chunk: either may have to come first.
        let choices = |chunk: usize| {
            let groups = self.groups.iter().filter(|group| group.suits.contains(chunk));
            groups.map(|group| group.nodes).fold(0, u64::saturating_add)
        };
        let size = |chunk: usize| Reverse(self.pieces[chunk].size);
        let mut chunks: Vec<usize> = (0..self.pieces.len()).collect();
        chunks.sort_by_key(|&chunk| (size(chunk), choices(chunk)));
        self.mix_in(&chunks)
            .or_else(|| {
                chunks.sort_by_key(|&chunk| (choices(chunk), size(chunk)));
                self.mix_in(&chunks)
            })
            .or_else(|| PackingSearch::of(self).run())
    }

    /// Packs processes on common nodes, chunk by chunk in this order.
    fn mix_in(&self, chunks: &[usize]) -> Option<Vec<NodeLoad>> {
        let mut bins: Vec<Bin> = Vec::new();
        for (group, nodes) in self.groups.iter().enumerate() {
            let NodeBatch { nodes, free, .. } = *nodes;
            bins.extend((0..nodes).map(|_| Bin { group, free, processes: Vec::new() }));
        }
        for &chunk in chunks {
            let Piece { count, size } = self.pieces[chunk];
            let mut left = count;
            for Bin { group, free, processes } in &mut bins {
                let fits = if self.groups[*group].suits.contains(chunk) {
                    free.checked_div(size).unwrap_or(0).min(left)
                } else {
                    0
                };
                if 0 < fits {
                    *free -= fits * size;
                    left -= fits;
                    processes.push((chunk, fits));
                }
            }
            if 0 < left {
                return None;
            }
        }
        let used = bins.into_iter().filter(|bin| !bin.processes.is_empty());
        let loads =
            used.map(|Bin { group, processes, .. }| NodeLoad { group, nodes: 1, processes });
        Some(loads.collect())
    }
}

/// A search over all packings, node by node.
pub(super) struct PackingSearch<'f> {
    fitting: &'f Fitting<'f>,
    /// Group of each node that suits some chunk.
    nodes: Vec<usize>,
    /// Nodes filled, and processes left of each chunk: states from which there is no packing.
    failed: BTreeSet<(usize, Vec<u64>)>,
    /// True if some packings were left out, as there are too many.
    is_cut: bool,
    /// Processes of each chunk on the nodes filled so far.
    chosen: Vec<Vec<u64>>,
}

impl<'f> PackingSearch<'f> {
    pub(super) fn of(fitting: &'f Fitting<'f>) -> PackingSearch<'f> {
        let suits_any = |&group: &usize| !fitting.groups[group].suits.is_empty();
        let nodes = (0..fitting.groups.len()).filter(suits_any).flat_map(|group| {
            let nodes = usize::try_from(fitting.groups[group].nodes).unwrap_or(usize::MAX);
            std::iter::repeat_n(group, nodes.min(SEARCHED_NODES_MAX + 1))
        });
        let nodes = nodes.take(SEARCHED_NODES_MAX + 1).collect();
        PackingSearch { fitting, nodes, failed: BTreeSet::new(), is_cut: false, chosen: Vec::new() }
    }

    /// True if all packings were tried, and none holds all processes.
    pub(super) fn proves_that_nothing_fits(mut self) -> bool {
        let counts = self.fitting.pieces.iter().map(|piece| piece.count).collect();
        let can_try_all = self.nodes.len() <= SEARCHED_NODES_MAX;
        can_try_all && !self.fill(counts) && !self.is_cut
    }

    fn run(mut self) -> Option<Vec<NodeLoad>> {
        let counts = self.fitting.pieces.iter().map(|piece| piece.count).collect();
        if SEARCHED_NODES_MAX < self.nodes.len() || !self.fill(counts) {
            return None;
        }
        let loads = self.nodes.iter().zip(&self.chosen).filter_map(|(&group, counts)| {
            let chunks = counts.iter().copied().enumerate();
            let processes: Vec<(usize, u64)> = chunks.filter(|(_, count)| 0 < *count).collect();
            (!processes.is_empty()).then_some(NodeLoad { group, nodes: 1, processes })
        });
        Some(loads.collect())
    }

    /// True if the processes `left` of each chunk fit on the nodes that are not filled yet.
    fn fill(&mut self, left: Vec<u64>) -> bool {
        if left.iter().all(|left| *left == 0) {
            return true;
        }
        let at = self.chosen.len();
        let Some(&group) = self.nodes.get(at) else { return false };
        let state = (at, left);
        self.is_cut |= STATES_MAX <= self.failed.len();
        if self.is_cut || self.failed.contains(&state) {
            return false;
        }
        for load in self.loads_of(group, &state.1) {
            let rest = state.1.iter().zip(&load).map(|(left, load)| left - load).collect();
            self.chosen.push(load);
            if self.fill(rest) {
                return true;
            }
            self.chosen.pop();
        }
        self.failed.insert(state);
        false
    }

    /// All loads of a node of `group` that leave no space for a process in `left`, the fullest
    /// first.
    fn loads_of(&mut self, group: usize, left: &[u64]) -> Vec<Vec<u64>> {
        let group = &self.fitting.groups[group];
        let sizes: Vec<u64> = self.fitting.pieces.iter().map(|piece| piece.size).collect();
        let mut loads: Vec<(u64, Vec<u64>)> = vec![(group.free, Vec::new())];
        for (chunk, &size) in sizes.iter().enumerate() {
            let mut longer = Vec::new();
            for (free, load) in loads {
                let fits = free.checked_div(size).unwrap_or(0);
                let most = if group.suits.contains(chunk) { left[chunk].min(fits) } else { 0 };
                for count in 0..=most {
                    let mut load = load.clone();
                    load.push(count);
                    longer.push((free - count * size, load));
                }
            }
            self.is_cut |= LOADS_MAX < longer.len();
            longer.truncate(LOADS_MAX);
            loads = longer;
        }
        let is_full = |(free, load): &(u64, Vec<u64>)| {
            let mut chunks = sizes.iter().enumerate();
            chunks.all(|(chunk, size)| {
                free < size || load[chunk] == left[chunk] || !group.suits.contains(chunk)
            })
        };
        loads.retain(is_full);
        loads.sort_by_key(|(free, _)| *free);
        loads.into_iter().map(|(_, load)| load).collect()
    }
}
