//! Test if the chunks of a gang fit on groups of equal nodes: a question about numbers, not names.
//!
//! A node serves a single chunk. Which chunks get how many nodes is a flow from chunks to groups, found
//! by augmenting paths. It is exact if a chunk fits equally often on all nodes that suit it, as it
//! does for scattered gangs. If not, the chunk gets the nodes with most of its processes first, and
//! processes of several chunks may share a node.
//!
//! Design: requests and time, section 3.2.

use super::packing::PackingSearch;
use super::request::total;
use crate::engine::bisect::largest;
use crate::model::Place;

/// Rounds in which a chunk that fits more often on some nodes gets more nodes.
const ROUNDS: usize = 16;

/// A chunk, in quanta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Processes that need a place.
    pub count: u64,
    /// Size of a process, in qshares.
    pub size: u64,
}

/// Equal nodes.
#[derive(Clone, Debug)]
pub(super) struct NodeBatch {
    /// Number of nodes.
    pub nodes: u64,
    /// Free space of each, in qshares.
    pub free: u64,
    /// Chunks whose tags the nodes have.
    pub suits: ChunkSet,
}

/// Chunks of a gang, by place: at most [`MAX_CHUNKS`](crate::model::MAX_CHUNKS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkSet(u64);

impl ChunkSet {
    /// True if the chunk at this place is in the set.
    pub(super) fn contains(self, chunk: usize) -> bool {
        u32::try_from(chunk).is_ok_and(|chunk| self.0.checked_shr(chunk).unwrap_or(0) & 1 == 1)
    }

    /// True if no chunk is in the set.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if the first `chunks` chunks are all in the set.
    pub(super) fn has_all(self, chunks: usize) -> bool {
        (0..chunks).all(|chunk| self.contains(chunk))
    }
}

/// The set of the chunks for which the entry is true.
impl FromIterator<bool> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = bool>>(entries: I) -> ChunkSet {
        let bit = |(place, has): (u32, bool)| u64::from(has).checked_shl(place).unwrap_or(0);
        ChunkSet((0..).zip(entries).map(bit).fold(0, |bits, bit| bits | bit))
    }
}

/// Nodes of a group that get the same processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeLoad {
    /// Place of the group.
    pub group: usize,
    /// Number of nodes.
    pub nodes: u64,
    /// Chunk and number of its processes on each of the nodes.
    pub processes: Vec<(usize, u64)>,
}

/// Chunk that lacks nodes, or `None` if the chunks lack them together; the number found, and the
/// number needed. The units are as in [`GangLack`](crate::engine::GangLack).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FitLack {
    pub chunk: Option<usize>,
    pub found: u64,
    pub needed: u64,
    /// True if another packing may still do.
    pub is_uncertain: bool,
}

/// Chunks that need a place on groups of nodes. Groups come in the order in which they are used.
pub(super) struct Fitting<'f> {
    pub pieces: &'f [Piece],
    pub groups: &'f [NodeBatch],
    pub place: Place,
}

impl Fitting<'_> {
    /// Processes of `chunk` that a node of `group` holds.
    fn per_node(&self, chunk: usize, group: usize) -> u64 {
        let (piece, group) = (&self.pieces[chunk], &self.groups[group]);
        if !group.suits.contains(chunk) || group.free < piece.size {
            return 0;
        }
        match self.place {
            Place::Scatter => 1,
            Place::Free | Place::Pack => group.free.checked_div(piece.size).unwrap_or(0),
        }
    }

    /// Assigns nodes to all chunks: chunk by chunk, from groups in their order, as far as the other
    /// chunks still fit.
    pub(super) fn assign(&self) -> Result<Vec<NodeLoad>, FitLack> {
        if self.place == Place::Pack {
            return self.pack();
        }
        let mut stock: Vec<u64> = self.groups.iter().map(|group| group.nodes).collect();
        let mut left: Vec<u64> = self.pieces.iter().map(|piece| piece.count).collect();
        if let Err(lack) = self.test(&left, &stock) {
            return if lack.is_uncertain { self.mix().ok_or(lack) } else { Err(lack) };
        }
        let mut loads = Vec::new();
        for chunk in 0..self.pieces.len() {
            for group in 0..self.groups.len() {
                let each = self.per_node(chunk, group);
                if each == 0 || left[chunk] == 0 || stock[group] == 0 {
                    continue;
                }
                let most = left[chunk].div_ceil(each).min(stock[group]);
                let fits = |nodes: u64| {
                    let (mut left, mut stock) = (left.clone(), stock.clone());
                    left[chunk] = left[chunk].saturating_sub(nodes * each);
                    stock[group] -= nodes;
                    self.test(&left, &stock).is_ok()
                };
                let nodes = largest(most, fits);
                if nodes == 0 {
                    continue;
                }
                stock[group] -= nodes;
                let rest = left[chunk].saturating_sub((nodes - 1) * each).min(each);
                let full = nodes - u64::from(rest < each);
                let load = |nodes, each| NodeLoad { group, nodes, processes: vec![(chunk, each)] };
                loads.extend((0 < full).then(|| load(full, each)));
                loads.extend((rest < each).then(|| load(1, rest)));
                left[chunk] = left[chunk].saturating_sub(nodes * each);
            }
        }
        if left.iter().any(|left| 0 < *left) {
            // The test is not exact here, and said yes too early.
            let (chunk, needed) = (None, left.iter().sum());
            return self.mix().ok_or(FitLack { chunk, found: 0, needed, is_uncertain: true });
        }
        Ok(loads)
    }

    /// Tests if all chunks fit.
    pub(super) fn test_all(&self) -> Result<(), FitLack> {
        if self.place == Place::Pack {
            return self.pack().map(|_| ());
        }
        let stock: Vec<u64> = self.groups.iter().map(|group| group.nodes).collect();
        let left: Vec<u64> = self.pieces.iter().map(|piece| piece.count).collect();
        match self.test(&left, &stock) {
            Err(lack) if lack.is_uncertain && self.mix().is_some() => Ok(()),
            result => result,
        }
    }

    /// The most processes of each chunk, in the order of the chunks, that fit together.
    pub(super) fn as_many_as_fit(&self) -> Vec<u64> {
        let mut counts = vec![0; self.pieces.len()];
        if self.place == Place::Pack {
            return counts;
        }
        let mut pieces: Vec<Piece> =
            self.pieces.iter().map(|piece| Piece { count: 0, ..*piece }).collect();
        for (chunk, piece) in self.pieces.iter().enumerate() {
            counts[chunk] = largest(piece.count, |count| {
                pieces[chunk].count = count;
                Fitting { pieces: &pieces, ..*self }.test_all().is_ok()
            });
            pieces[chunk].count = counts[chunk];
        }
        counts
    }

    /// Tests if `left` processes of each chunk fit on `stock` nodes of each group.
    fn test(&self, left: &[u64], stock: &[u64]) -> Result<(), FitLack> {
        let open: Vec<usize> = (0..left.len()).filter(|&chunk| 0 < left[chunk]).collect();
        for &chunk in &open {
            let holds = |group: usize| stock[group].saturating_mul(self.per_node(chunk, group));
            let found = (0..stock.len()).map(holds).fold(0, u64::saturating_add);
            if found < left[chunk] {
                let needed = left[chunk];
                return Err(FitLack { chunk: Some(chunk), found, needed, is_uncertain: false });
            }
        }
        let takers =
            |group: usize| open.iter().filter(move |&&chunk| 0 < self.per_node(chunk, group));
        // Chunks with no nodes in common are not in each other's way.
        if (0..stock.len()).all(|group| stock[group] == 0 || takers(group).count() < 2) {
            return Ok(());
        }
        let mut needs: Vec<u64> = vec![0; left.len()];
        let mut is_exact = true;
        for &chunk in &open {
            let suiting = (0..stock.len()).filter(|&group| 0 < stock[group]);
            let each = suiting.map(|group| self.per_node(chunk, group)).filter(|each| 0 < *each);
            let (least, most) =
                each.fold((u64::MAX, 0), |(least, most), each| (least.min(each), most.max(each)));
            is_exact &= least == most && most == 1;
            needs[chunk] = left[chunk].div_ceil(most.max(1));
        }
        let mut found = None;
        for _ in 0..ROUNDS {
            let flow = self.flow(&needs, stock);
            let placed: u64 = flow.iter().flatten().sum();
            if placed < needs.iter().sum() {
                found = Some(placed);
                break;
            }
            let mut is_short = false;
            for &chunk in &open {
                let placed = |group: usize| flow[chunk][group] * self.per_node(chunk, group);
                let placed: u64 = (0..stock.len()).map(placed).sum();
                if placed < left[chunk] {
                    is_short = true;
                    needs[chunk] += 1.max((left[chunk] - placed) >> 4);
                }
            }
            if !is_short {
                return Ok(());
            }
        }
        let is_candidate =
            |group: &usize| open.iter().any(|&chunk| 0 < self.per_node(chunk, *group));
        let candidates = || (0..stock.len()).filter(is_candidate).map(|group| stock[group]).sum();
        let found = found.unwrap_or_else(candidates);
        let is_uncertain = !is_exact && self.place == Place::Free;
        Err(FitLack { chunk: None, found, needed: needs.iter().sum(), is_uncertain })
    }

    /// Nodes of each group for each chunk: as many as can be had in all, at most `needs[chunk]` each.
    fn flow(&self, needs: &[u64], stock: &[u64]) -> Vec<Vec<u64>> {
        let mut flow = vec![vec![0_u64; stock.len()]; needs.len()];
        let mut free = stock.to_vec();
        for (chunk, &need) in needs.iter().enumerate() {
            let mut need = need;
            while 0 < need {
                let Some((path, last)) = self.path(chunk, &flow, &free) else { break };
                let moved = path.iter().map(|step| flow[step.from][step.group]).min();
                let amount = need.min(free[last]).min(moved.unwrap_or(u64::MAX));
                // Along the path each chunk gives nodes of a group to the chunk before, and takes
                // nodes of the next group.
                let mut taker = chunk;
                for step in &path {
                    flow[taker][step.group] += amount;
                    flow[step.from][step.group] -= amount;
                    taker = step.from;
                }
                flow[taker][last] += amount;
                free[last] -= amount;
                need -= amount;
            }
        }
        flow
    }

    /// An augmenting path from `chunk` to a group with free nodes, by breadth.
    fn path(
        &self,
        chunk: usize,
        flow: &[Vec<u64>],
        free: &[u64],
    ) -> Option<(Vec<PathStep>, usize)> {
        let mut came: Vec<Option<(usize, PathStep)>> = vec![None; flow.len()];
        let mut is_seen = vec![false; flow.len()];
        is_seen[chunk] = true;
        let mut queue = std::collections::VecDeque::from([chunk]);
        while let Some(at) = queue.pop_front() {
            for group in 0..free.len() {
                if self.per_node(at, group) == 0 {
                    continue;
                }
                if 0 < free[group] {
                    let mut path = Vec::new();
                    let mut at = at;
                    while let Some((before, step)) = came[at] {
                        path.push(step);
                        at = before;
                    }
                    path.reverse();
                    return Some((path, group));
                }
                for from in 0..flow.len() {
                    if 0 < flow[from][group] && !is_seen[from] {
                        is_seen[from] = true;
                        came[from] = Some((at, PathStep { group, from }));
                        queue.push_back(from);
                    }
                }
            }
        }
        None
    }

    /// All processes on a single node, with the least free space.
    fn pack(&self) -> Result<Vec<NodeLoad>, FitLack> {
        let needed = total(self.pieces);
        let suits = |group: &usize| {
            let group = &self.groups[*group];
            0 < group.nodes && group.suits.has_all(self.pieces.len())
        };
        let suitable = || (0..self.groups.len()).filter(suits);
        if let Some(group) = suitable().find(|&group| needed <= self.groups[group].free) {
            let chunks = self.pieces.iter().enumerate();
            let processes = chunks.map(|(chunk, piece)| (chunk, piece.count)).collect();
            return Ok(vec![NodeLoad { group, nodes: 1, processes }]);
        }
        let found = suitable().map(|group| self.groups[group].free).max().unwrap_or(0);
        Err(FitLack { chunk: Some(0), found, needed, is_uncertain: false })
    }

    /// True if the chunks can never fit, however they are packed, where `lack` was found.
    pub(super) fn is_proof(&self, lack: &FitLack) -> bool {
        let suits_any = |group: &&NodeBatch| !group.suits.is_empty();
        let all = self.groups.iter().filter(suits_any);
        let space = all.map(|group| group.nodes.saturating_mul(group.free));
        !lack.is_uncertain
            || space.fold(0, u64::saturating_add) < total(self.pieces)
            || PackingSearch::of(self).proves_that_nothing_fits()
    }
}

/// A step of an augmenting path: nodes of `group` that the chunk `from` gives up.
#[derive(Clone, Copy, Debug)]
struct PathStep {
    group: usize,
    from: usize,
}
