//! A set of nodes whose smallest member is found at once.
//!
//! A bit for each node, in chunks that exist only around members. Each chunk has a summary word
//! that marks its words with members. The last chunk stays when its last member is removed: sets
//! with a single member come and go as nodes fill up.

use crate::model::NodeIx;

/// Bits of a word, and words of a chunk.
const WORD: usize = 64;
/// Nodes covered by a chunk.
const CHUNK: usize = WORD * WORD;

/// Some nodes of a cluster.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct NodeSet {
    /// Chunks by place. A chunk without members exists only if it is the only chunk.
    chunks: Vec<(usize, Box<WordBlock>)>,
    len: u64,
}

#[derive(Clone, Debug)]
struct WordBlock {
    /// Bit `n` is set if word `n` has a member.
    summary: u64,
    words: [u64; WORD],
}

impl FromIterator<NodeIx> for NodeSet {
    /// The nodes, of which none may come twice.
    fn from_iter<I: IntoIterator<Item = NodeIx>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

/// Position of a node's bit.
struct BitPlace {
    chunk: usize,
    word: usize,
    bit: u64,
}

fn place_of(node: NodeIx) -> BitPlace {
    let NodeIx(ix) = node;
    BitPlace { chunk: ix >> 12, word: (ix >> 6) & (WORD - 1), bit: 1 << (ix & (WORD - 1)) }
}

impl NodeSet {
    /// Number of members.
    pub(in crate::engine) fn len(&self) -> u64 {
        self.len
    }

    /// Inserts `node`, which must not be a member already.
    pub(in crate::engine) fn insert(&mut self, node: NodeIx) {
        let BitPlace { chunk, word, bit } = place_of(node);
        let chunk = match self.chunks.binary_search_by_key(&chunk, |(place, _)| *place) {
            Ok(at) => &mut self.chunks[at].1,
            Err(_) if self.len == 0 && !self.chunks.is_empty() => {
                self.chunks[0].0 = chunk;
                &mut self.chunks[0].1
            }
            Err(at) => {
                let new = Box::new(WordBlock { summary: 0, words: [0; WORD] });
                self.chunks.insert(at, (chunk, new));
                &mut self.chunks[at].1
            }
        };
        debug_assert!(chunk.words[word] & bit == 0, "a node is put in once");
        chunk.words[word] |= bit;
        chunk.summary |= 1 << word;
        self.len += 1;
    }

    /// Removes `node`, which must be a member.
    pub(in crate::engine) fn remove(&mut self, node: NodeIx) {
        let BitPlace { chunk: place, word, bit } = place_of(node);
        let at = self.chunks.binary_search_by_key(&place, |(place, _)| *place);
        let at = at.expect("a node that is taken out is in");
        let chunk = &mut self.chunks[at].1;
        debug_assert!(chunk.words[word] & bit != 0, "a node is taken out once");
        chunk.words[word] &= !bit;
        if chunk.words[word] == 0 {
            chunk.summary &= !(1 << word);
        }
        if chunk.summary == 0 && 1 < self.chunks.len() {
            self.chunks.remove(at);
        }
        self.len -= 1;
    }

    /// The first node, by place, that is in both sets and that `may_take` allows.
    ///
    /// Words without common nodes are skipped as a whole, so a long list costs few steps.
    pub(super) fn first_in(
        &self,
        others: &NodeSet,
        may_take: impl Fn(NodeIx) -> bool,
    ) -> Option<NodeIx> {
        self.chunks.iter().find_map(|(place, chunk)| {
            let other = others.chunks.binary_search_by_key(place, |(place, _)| *place).ok()?;
            let other = &others.chunks[other].1;
            let mut common = bits(chunk.summary & other.summary).flat_map(|word| {
                bits(chunk.words[word] & other.words[word])
                    .map(move |bit| NodeIx(place * CHUNK + word * WORD + bit))
            });
            common.find(|node| may_take(*node))
        })
    }

    /// All of them, by place.
    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = NodeIx> {
        self.chunks.iter().flat_map(|&(place, ref chunk)| {
            bits(chunk.summary).flat_map(move |word| {
                bits(chunk.words[word]).map(move |bit| NodeIx(place * CHUNK + word * WORD + bit))
            })
        })
    }
}

/// The places of the bits that are set, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = usize::try_from(word.trailing_zeros()).ok().filter(|_| word != 0)?;
        word &= word - 1;
        Some(lowest)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Compares with a tree set, over changes that cross words and chunks.
    #[test]
    fn members_come_by_place() {
        let (mut set, mut model) = (NodeSet::default(), BTreeSet::new());
        let mut place = 1_usize;
        for _ in 0..20_000 {
            place = (place * 6_364_136 + 1_442_695) % 9_973;
            let node = NodeIx(place);
            if model.insert(node) {
                set.insert(node);
            } else {
                model.remove(&node);
                set.remove(node);
            }
            assert_eq!(set.iter().next(), model.first().copied());
            assert_eq!(usize::try_from(set.len()), Ok(model.len()));
        }
        assert!(set.iter().eq(model.iter().copied()));
    }

    /// Compares with a search by node, over sets that share few chunks, words and nodes.
    #[test]
    fn the_first_common_node_is_what_a_search_finds() {
        let spread = |step: usize, from: usize| -> BTreeSet<NodeIx> {
            (from..20_000).step_by(step).map(NodeIx).collect()
        };
        let steps = [1, 7, 63, 64, 4096, 4097, 9000];
        for (one, from) in steps.iter().flat_map(|&step| [0, 5, 8190].map(|from| (step, from))) {
            for (other, start) in steps.iter().flat_map(|&step| [0, 5].map(|from| (step, from))) {
                let (one, other) = (spread(one, from), spread(other, start));
                let mut common = one.intersection(&other).copied();
                let (set, others) = (one.iter().copied(), other.iter().copied());
                let (set, others): (NodeSet, NodeSet) = (set.collect(), others.collect());
                let is_allowed = |node: NodeIx| node.0 & 3 != 1;
                assert_eq!(set.first_in(&others, is_allowed), common.find(|it| is_allowed(*it)));
            }
        }
    }
}
