//! Needs of a gang on a node: tags, space, and the placement set.
//!
//! An obstacle holds for each single node. A gang may still wait where no node has an obstacle: the
//! sentence of its reason says how many processes find a place.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Elasticity, NShares, Name, Order, Place, QShares, Quantum, ResourceClass, Shape, Tags, counted,
    floor_div,
};
use crate::scheduler::{JobView, NodeView, View};

/// A gang, and what its processes need of a node.
pub(super) struct GangFit<'a> {
    shape: &'a Shape,
    /// Qshares of a process of each chunk.
    orders: Vec<QShares>,
    /// Placement sets that could ever hold the gang, by key and value. `None`: any nodes do.
    sets: Option<BTreeSet<(&'a Name, Name)>>,
    /// Keys of the placement sets.
    keys: Vec<&'a Name>,
}

impl<'a> GangFit<'a> {
    /// The needs of `job`; `None` if it is no gang, or is refused.
    pub(super) fn of(view: &'a View, job: &'a JobView, class: &ResourceClass) -> Option<Self> {
        let shape = job.shape.as_deref().filter(|shape| shape.is_gang())?;
        let quantum: Quantum = job.quantum?;
        let order = |memory| quantum.order_of_work(memory).map(Order::qshares);
        let orders = shape.chunks.iter().map(|chunk| order(chunk.memory));
        let tagging = &view.topology.tagging;
        let keys = match &shape.group_by {
            Some(key) => vec![key],
            None => tagging.sets.iter().collect(),
        };
        let mut fit = GangFit { shape, orders: orders.collect::<Option<_>>()?, sets: None, keys };
        if !fit.keys.is_empty() {
            let sets = fit.sets_that_hold(view, class);
            let may_span = shape.may_span.unwrap_or(tagging.may_span);
            fit.sets = (!sets.is_empty() || !may_span).then_some(sets);
        }
        Some(fit)
    }

    /// The placement sets of the pool of `class` in which all processes would find a place if their
    /// nodes were up and empty. A node of unknown size holds any number.
    fn sets_that_hold(&self, view: &View, class: &ResourceClass) -> BTreeSet<(&'a Name, Name)> {
        let pool = &view.topology.pools[class.pool];
        let known: BTreeSet<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
        let by_name = view.topology.tagging.by_node();
        let unheard = pool.nodes.iter().filter(|name| !known.contains(name.as_str()));
        let unheard = unheard.filter_map(|name| Some((by_name.get(name.as_str())?, None)));
        let of_pool = view.nodes.iter().filter(|node| node.pool == pool.name);
        let heard =
            of_pool.map(|node| (&node.tags, (!node.state.is_awaited).then_some(node.order)));
        let mut found: BTreeMap<(&'a Name, Name), Vec<u64>> = BTreeMap::new();
        for (tags, size) in heard.chain(unheard) {
            for &key in &self.keys {
                let Some(value) = tags.get(key) else { continue };
                let found = found.entry((key, value.clone()));
                let found = found.or_insert_with(|| vec![0; self.orders.len()]);
                for (chunk, sum) in found.iter_mut().enumerate() {
                    *sum = sum.saturating_add(self.on_empty_node(chunk, tags, size));
                }
            }
        }
        found.retain(|_, found| (0..found.len()).all(|chunk| self.least(chunk) <= found[chunk]));
        found.into_keys().collect()
    }

    /// Processes of a chunk with which the gang may start.
    fn least(&self, chunk: usize) -> u64 {
        let is_chosen =
            matches!(self.shape.elasticity, Some(Elasticity::Moldable | Elasticity::Malleable));
        let all = self.shape.chunks[chunk].count;
        if is_chosen { self.shape.min_processes.clamp(1, all) } else { all }
    }

    /// Processes of a chunk that an empty node with these tags holds.
    fn on_empty_node(&self, chunk: usize, tags: &Tags, size: Option<QShares>) -> u64 {
        let asked = &self.shape.chunks[chunk];
        let fits = |needs: QShares| size.is_none_or(|size| needs <= size);
        match self.shape.place {
            _ if !tags.satisfy(&asked.tags) => 0,
            Place::Pack => {
                self.needs_of_all(tags).filter(|all| fits(*all)).map_or(0, |_| asked.count)
            }
            Place::Scatter => u64::from(fits(self.orders[chunk])),
            Place::Free => size.map_or(asked.count, |size| self.processes(chunk, size)),
        }
    }

    /// Processes of a chunk that `space` holds.
    fn processes(&self, chunk: usize, space: QShares) -> u64 {
        let each = std::num::NonZeroU64::new(self.orders[chunk].0);
        let all = self.shape.chunks[chunk].count;
        each.map_or(0, |each| floor_div(space.0, each)).min(all)
    }

    /// Chunks whose processes may be on a node with these tags.
    fn chunks_for(&self, tags: &Tags) -> impl Iterator<Item = usize> {
        (0..self.orders.len()).filter(move |chunk| tags.satisfy(&self.shape.chunks[*chunk].tags))
    }

    /// Space for all processes together; `None` if a chunk asks for other tags.
    fn needs_of_all(&self, tags: &Tags) -> Option<QShares> {
        let chunks = self.shape.chunks.iter().zip(&self.orders);
        let sum = |sum: u64, (chunk, order): (&crate::model::Chunk, &QShares)| {
            sum.saturating_add(NShares(chunk.count).0.saturating_mul(order.0))
        };
        let has_all = self.chunks_for(tags).count() == self.orders.len();
        has_all.then(|| QShares(chunks.fold(0, sum)))
    }

    /// Least space that the gang could use on a node with these tags: of its smallest process there,
    /// or of all processes if these are packed. `None` if the node lacks tags.
    pub(super) fn needs(&self, tags: &Tags) -> Option<QShares> {
        if self.shape.place == Place::Pack {
            return self.needs_of_all(tags);
        }
        self.chunks_for(tags).map(|chunk| self.orders[chunk]).min()
    }

    /// True if no other job may be on its nodes.
    pub(super) fn is_exclusive(&self) -> bool {
        self.shape.is_exclusive
    }

    /// True if the node is in none of the placement sets that could hold the gang.
    pub(super) fn is_in_other_set(&self, node: &NodeView) -> bool {
        self.sets
            .as_ref()
            .is_some_and(|sets| !sets.iter().any(|(key, value)| node.tags.get(key) == Some(value)))
    }

    /// True if the gang has its only process of the node already.
    pub(super) fn is_done_on(&self, job: &JobView, node: &NodeView) -> bool {
        let mut shares = node.shares.iter();
        self.shape.place == Place::Scatter && shares.any(|(of, ..)| *of == job.id)
    }

    /// The tags that the node lacks for each chunk.
    pub(super) fn lacking(&self, tags: &Tags) -> String {
        let is_missing = |chunk: &&crate::model::Chunk| !tags.satisfy(&chunk.tags);
        let missing = self.shape.chunks.iter().filter(is_missing);
        let missing: BTreeSet<String> = missing.map(|chunk| chunk.tags.to_string()).collect();
        let missing = Vec::from_iter(missing);
        let or = if self.shape.place == Place::Pack { " and " } else { " or " };
        format!("has no {}", missing.join(or))
    }

    /// The placement sets of the node, which are too small for the gang.
    pub(super) fn other_set(&self, node: &NodeView) -> String {
        let named = |key: &&&'a Name| node.tags.get(key).map(|value| format!("{key}={value}"));
        let sets: Vec<String> = self.keys.iter().filter_map(|key| named(&key)).collect();
        let asked = counted(self.shape.processes(), "process");
        match sets.as_slice() {
            [] => {
                let keys: Vec<&str> = self.keys.iter().map(|key| key.as_str()).collect();
                format!("has no {}, by which the gang is grouped", keys.join(" or "))
            }
            sets => format!("{} could never hold all {asked}", sets.join(" and ")),
        }
    }

    /// The number of processes for which `free` suffices, as the end of a sentence.
    pub(super) fn room(&self, tags: &Tags, free: QShares) -> String {
        let all = self.shape.processes();
        let fits = match self.shape.place {
            Place::Pack => all,
            Place::Scatter => 1,
            Place::Free => {
                let each = self.chunks_for(tags).map(|chunk| self.processes(chunk, free));
                each.max().unwrap_or(0)
            }
        };
        format!(": space for {fits} of its {}", counted(all, "process"))
    }

    /// Words for the least space that the gang could use on a node.
    pub(super) fn unit(&self) -> &'static str {
        match self.shape.place {
            Place::Pack => "all its processes need",
            Place::Free | Place::Scatter => "a process needs",
        }
    }
}
