//! Free space of each node, for jobs that may only use listed nodes.
//!
//! The ideal cluster of [`EmptyCluster`](crate::engine::capacity::EmptyCluster) has sizes and no names.
//! Such jobs need space on certain nodes, so sizes alone are not enough. Shares that these jobs
//! cannot preempt stay where they are, so their space is tracked by node. The targets of jobs that
//! will not move once placed are tracked by node, too. The node of fair-share work is chosen later.
//! Its targets are checked against its own list and against all lists that contain that list; this
//! never counts too little for it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::engine::capacity::{Cell, Shortage};
use crate::engine::csr::Csr;
use crate::engine::draft::Draft;
use crate::engine::share_table::{PackedShare, ShareIx};
use crate::engine::water_filling::Participant;
use crate::model::{
    ClassIx, ClassPolicy, IxVec, JobIx, NShares, NodeIx, Order, Precedence, QShares,
};

/// The node lists of all jobs that have a list, and the free space of every node.
#[derive(Clone)]
pub(in crate::engine) struct NodeListCapacity {
    /// Size of each node, in scheduling or not, and its part on which no share has to stay.
    cells: Vec<Cell>,
    /// The lists that each node is on, ascending.
    lists_of: Csr<usize>,
    /// Nodes of each list, as far as they are in scheduling and in the pools of the job, ascending.
    /// No two lists are equal.
    nodes: Csr<NodeIx>,
    /// For each list, the lists that contain all its nodes, itself included: at most [`WIDER_MAX`].
    wider: Csr<usize>,
    lists: Vec<List>,
    /// For each node the least space of a list that it is on, if below `largest_cell`.
    least_space: Vec<u64>,
    /// Size of the largest node. Lists with more space than that limit no node.
    largest_cell: u64,
    /// For each job of the snapshot, its list.
    list_of: Rc<IxVec<JobIx, Option<usize>>>,
    /// Target so far of each job of the current priority that has a list, in qshares.
    counted: IxVec<JobIx, u64>,
}

/// Most lists that a list is checked against; each contains all its nodes. Each is another check of
/// the sum of the targets. Without a bound, nested lists would cost their number squared.
const WIDER_MAX: usize = 256;

/// Amounts on the nodes of a list.
#[derive(Clone, Copy)]
struct List {
    /// Free space on all its nodes.
    left: u64,
    /// Targets of fair-share jobs that may only use its nodes. Excludes shares that are there
    /// already, as their space is no longer free.
    expected: u64,
}

impl NodeListCapacity {
    pub(super) fn new(draft: &Draft<'_>) -> NodeListCapacity {
        let nodes = draft.snapshot.nodes.len();
        let cells: Vec<Cell> = (0..nodes).map(|ix| draft.spaces.ideal(NodeIx(ix))).collect();
        let SharedLists { lists: shared, jobs: jobs_of } = shared_lists(draft);
        let mut sorted: Vec<usize> = (0..shared.len()).collect();
        sorted.sort_by_key(|list| shared.row(*list));
        let mut list_of = IxVec::filled(None, draft.jobs.len());
        let mut nodes_of = Csr::with_capacity(0, 0);
        for alike in sorted.chunk_by(|one, other| shared.row(*one) == shared.row(*other)) {
            for job in alike.iter().flat_map(|list| &jobs_of[*list]) {
                list_of[*job] = Some(nodes_of.len());
            }
            nodes_of.push(shared.row(alike[0]).iter().copied());
        }
        let lists_of = Csr::transposed(&nodes_of, nodes, |node| node.0);
        let mut wider = Csr::with_capacity(nodes_of.len(), 0);
        let outlines: Vec<Outline> = nodes_of.iter().map(Outline::of).collect();
        for list in 0..nodes_of.len() {
            draft.effort.step();
            wider.push(lists_with_all(&lists_of, &nodes_of, &outlines, list));
        }
        let lists = nodes_of.iter().map(|list| List {
            left: list.iter().map(|node| cells[node.0].free).sum(),
            expected: 0,
        });
        let mut listed = NodeListCapacity {
            lists: lists.collect(),
            least_space: Vec::new(),
            largest_cell: cells.iter().map(|cell| cell.order).max().unwrap_or(0),
            cells,
            lists_of,
            nodes: nodes_of,
            wider,
            list_of: Rc::new(list_of),
            counted: IxVec::filled(0, draft.jobs.len()),
        };
        listed.find_least_space();
        listed
    }

    /// Finds the least space on every node anew, after lists gained space.
    fn find_least_space(&mut self) {
        self.least_space = vec![u64::MAX; self.cells.len()];
        for list in 0..self.lists.len() {
            self.note_least_space(list);
        }
    }

    /// Updates the nodes of a list that has less space than before. Space is whole qshares, and
    /// lists with more space than the largest node are skipped, so updates are rare.
    fn note_least_space(&mut self, list: usize) {
        let space = self.lists[list].space();
        if space < self.largest_cell {
            for node in self.nodes.row(list) {
                let least = &mut self.least_space[node.0];
                *least = space.min(*least);
            }
        }
    }

    /// True if any job has a list.
    pub(super) fn has_lists(&self) -> bool {
        !self.lists.is_empty()
    }

    pub(super) fn has_list(&self, job: JobIx) -> bool {
        self.list_of[job].is_some()
    }

    /// The list of `job`, by its place among all lists.
    pub(super) fn list_of(&self, job: JobIx) -> Option<usize> {
        self.list_of[job]
    }

    /// For each job, its list.
    pub(super) fn all_lists(&self) -> Rc<IxVec<JobIx, Option<usize>>> {
        Rc::clone(&self.list_of)
    }

    /// The lists that `node` is on, ascending.
    pub(super) fn lists_of(&self, node: NodeIx) -> &[usize] {
        self.lists_of.row(node.0)
    }

    /// Largest free piece on the nodes of `list`.
    pub(super) fn largest(&self, list: usize) -> QShares {
        QShares(self.holes(list).map(|(size, _)| size).max().unwrap_or(0))
    }

    /// Most nshares of `order` that the nodes of `list` could hold.
    pub(super) fn most(&self, list: usize, order: Order) -> NShares {
        self.holes(list).map(|(size, _)| QShares(size).nshares(order)).sum()
    }

    /// Node on the list of `job` with the least free space that is enough for `order`.
    pub(super) fn node_for(&self, job: JobIx, order: Order) -> Option<NodeIx> {
        let order = order.qshares().0;
        let fitting = self.holes_of(job).filter(|(size, _)| order <= *size);
        fitting.min().map(|(_, node)| node)
    }

    /// Smallest node on the list of `job` of an order in `orders` on which no share has to stay.
    pub(super) fn whole_node_for(
        &self,
        job: JobIx,
        orders: &RangeInclusive<u64>,
    ) -> Option<NodeIx> {
        let is_whole = |&(size, node): &(u64, NodeIx)| {
            size == self.cells[node.0].order && orders.contains(&size)
        };
        self.holes_of(job).filter(is_whole).min().map(|(_, node)| node)
    }

    /// Size of `node`, and its free space.
    pub(in crate::engine) fn cell(&self, node: NodeIx) -> Cell {
        self.cells[node.0]
    }

    /// Returns space that [`NodeListCapacity::take`] took, by node.
    pub(in crate::engine) fn give_back(&mut self, taken: impl Iterator<Item = (NodeIx, u64)>) {
        for (node, amount) in taken {
            self.cells[node.0].free += amount;
            for list in self.lists_of.row(node.0) {
                self.lists[*list].left += amount;
            }
        }
        self.find_least_space();
    }

    /// Marks `amount` of `node` as taken, as far as it is free. Returns the amount taken.
    pub(in crate::engine) fn take(&mut self, node: NodeIx, amount: u64) -> u64 {
        let cell = &mut self.cells[node.0];
        let amount = amount.min(cell.free);
        cell.free -= amount;
        for place in 0..self.lists_of.row(node.0).len() {
            let list = self.lists_of.row(node.0)[place];
            self.lists[list].left -= amount;
            self.note_least_space(list);
        }
        amount
    }

    /// True if another nshare of `order` fits on the nodes of `job`, beside all jobs whose lists
    /// lie within its list. The same must hold for every list that contains its list.
    pub(super) fn has_space(&self, job: JobIx, order: Order) -> bool {
        let Some(list) = self.list_of[job] else { return true };
        let order = order.qshares().0;
        let mut wider = self.wider.row(list).iter().map(|&list| &self.lists[list]);
        wider.all(|list| list.expected + order <= list.left)
    }

    /// Succeeds if all seats can get their nshares beside all other jobs with lists.
    /// [`NodeListCapacity::has_space`] would then have been true at every step. If not, returns the scarcest
    /// shortage.
    pub(super) fn has_space_for_all(
        &self,
        gains: impl Iterator<Item = (Participant, u64)>,
    ) -> Result<(), Shortage> {
        if !self.has_lists() {
            return Ok(());
        }
        let mut requested = vec![0; self.lists.len()];
        for (Participant { job, order, .. }, nshares) in gains.filter(|(_, nshares)| 0 < *nshares) {
            let wider = self.list_of[job].map_or(&[][..], |list| self.wider.row(list));
            for &list in wider {
                requested[list] += NShares(nshares).of_order(order).0;
            }
        }
        let lists = self.lists.iter().zip(requested);
        let shortages = lists.map(|(List { left, expected }, requested)| Shortage {
            found: left.saturating_sub(*expected),
            requested,
        });
        let scarcest =
            shortages.filter(|short| short.found < short.requested).min_by(|one, other| {
                let part = |one: &Shortage, other: &Shortage| {
                    u128::from(one.found) * u128::from(other.requested)
                };
                part(one, other).cmp(&part(other, one))
            });
        scarcest.map_or(Ok(()), Err)
    }

    /// Adds the nshares counted for each of the seats, which are fair-share work.
    pub(super) fn expect_all(&mut self, gains: impl Iterator<Item = (Participant, u64)>) {
        if !self.has_lists() {
            return;
        }
        for (Participant { job, order, .. }, nshares) in gains.filter(|(_, nshares)| 0 < *nshares) {
            let Some(list) = self.list_of[job] else { continue };
            let amount = NShares(nshares).of_order(order).0;
            self.counted[job] += amount;
            self.change_expected(list, |expected| expected + amount);
            for place in 0..self.wider.row(list).len() {
                self.note_least_space(self.wider.row(list)[place]);
            }
        }
    }

    /// Marks the space of the fair-share jobs of `priority`, whose targets are final, as taken for
    /// lower priorities. Shares on nodes that are on no list do not matter.
    pub(super) fn keep_for(&mut self, draft: &Draft<'_>, priority: Precedence) {
        for job in draft.jobs.places() {
            let counted = std::mem::take(&mut self.counted[job]);
            let Some(list) = self.list_of[job].filter(|_| 0 < counted) else { continue };
            let nodes = self.nodes.row(list);
            let there = staying(draft, job);
            let there = there.filter(|share| nodes.binary_search(&share.node()).is_ok());
            let there: u64 = there.map(|share| share.order.qshares().0).sum();
            self.change_expected(list, |expected| expected - there.min(counted));
        }
        self.find_least_space();
        let classes = draft.snapshot.topology.classes.iter();
        let is_asked: Vec<bool> = classes
            .map(|class| {
                Precedence::Priority(class.priority) == priority && class.policy.is_preemptable()
            })
            .collect();
        // If a job has to shrink, its remaining shares follow only from the list of all its shares.
        let is_shrinking = |job: JobIx| draft.jobs[job].may_keep < draft.jobs[job].held;
        let of_class = |job: JobIx| draft.entities.class_of(job);
        let shrinking = draft.jobs.places().filter(|job| is_shrinking(*job));
        let shrinking: Vec<JobIx> = shrinking.filter(|job| is_asked[of_class(*job).0]).collect();
        for node in (0..self.cells.len()).map(NodeIx) {
            draft.effort.step();
            if self.lists_of.row(node.0).is_empty() {
                continue;
            }
            for (ShareIx { job, .. }, facts) in draft.spaces.held_shares(node) {
                let (class, _) = draft.entities.groups()[facts.user()];
                if is_asked[class.0] && shrinking.binary_search(&job).is_err() {
                    self.take(node, facts.order().0);
                }
            }
        }
        for share in shrinking.into_iter().flat_map(|job| staying(draft, job)) {
            self.take(share.node(), share.order.qshares().0);
        }
    }

    fn change_expected(&mut self, list: usize, change: impl Fn(u64) -> u64) {
        for &wider in self.wider.row(list) {
            self.lists[wider].expected = change(self.lists[wider].expected);
        }
    }

    /// Space that `job` could have on each node of its list.
    fn holes_of(&self, job: JobIx) -> impl Iterator<Item = (u64, NodeIx)> {
        self.list_of[job].into_iter().flat_map(|list| self.holes(list))
    }

    /// Space on each node of `list`.
    fn holes(&self, list: usize) -> impl Iterator<Item = (u64, NodeIx)> {
        self.nodes.row(list).iter().map(|&node| (self.free(node), node))
    }

    /// Free space of `node` for jobs that are counted node by node. Excludes space that jobs
    /// with lists need in any case.
    fn free(&self, node: NodeIx) -> u64 {
        self.cells[node.0].free.min(self.least_space[node.0])
    }
}

impl List {
    /// Amount by which targets on the list may still grow.
    fn space(self) -> u64 {
        self.left.saturating_sub(self.expected)
    }
}

/// Shares of `job`, without shares above its declared maximum, which are preempted in this cycle.
fn staying<'d>(draft: &'d Draft<'_>, job: JobIx) -> impl Iterator<Item = &'d PackedShare> {
    draft.shares.held_by(job).zip(0..draft.jobs[job].may_keep.0).map(|((_, share), _)| share)
}

/// The usable nodes of the jobs that have a list. Jobs of a class whose lists are the same memory,
/// as those of equal tags are, share one: such lists are long.
struct SharedLists {
    /// Usable nodes, ascending. Two lists may be equal.
    lists: Csr<NodeIx>,
    /// For each list, the jobs that have it.
    jobs: Vec<Vec<JobIx>>,
}

fn shared_lists(draft: &Draft<'_>) -> SharedLists {
    let mut shared = SharedLists { lists: Csr::with_capacity(0, 0), jobs: Vec::new() };
    let mut known: BTreeMap<(usize, usize, ClassIx), usize> = BTreeMap::new();
    for &job in &draft.confined {
        draft.effort.step();
        let list = draft.job(job).listed();
        let place = (list.as_ptr().addr(), list.len(), draft.entities.class_of(job));
        let ix = *known.entry(place).or_insert(shared.jobs.len());
        if ix == shared.jobs.len() {
            shared.lists.push(usable_of_list(draft, job));
            shared.jobs.push(Vec::new());
        }
        shared.jobs[ix].push(job);
    }
    shared
}

/// The nodes on the list of `job` where it may get new shares.
fn usable_of_list<'d>(draft: &'d Draft<'_>, job: JobIx) -> impl Iterator<Item = NodeIx> + use<'d> {
    let class = draft.class_of(job);
    let is_usable = |node: &NodeIx| {
        let pool = draft.spaces.pool(*node);
        let is_in_reach = match class.policy {
            ClassPolicy::FairShare { .. } => draft.pools.is_within(pool, class.pool),
            ClassPolicy::FixedShare | ClassPolicy::Reserve => pool == class.pool,
        };
        is_in_reach && draft.spaces.is_schedulable(*node)
    };
    draft.job(job).listed().iter().copied().filter(is_usable)
}

/// Summary of a list in 256 bits; each node sets a bit, and nodes share bits in turn. Most pairs of
/// lists are told apart by it.
struct Outline([u64; 4]);

impl Outline {
    fn of(list: &[NodeIx]) -> Outline {
        let mut words = [0; 4];
        for node in list {
            words[(node.0 >> 6) & 3] |= 1_u64 << (node.0 & 63);
        }
        Outline(words)
    }

    /// False if the list certainly lacks a node of `other`.
    fn may_have_all(&self, other: &Outline) -> bool {
        self.0.iter().zip(other.0).all(|(all, some)| some & !all == 0)
    }
}

/// The lists that contain every node of `list`: at most [`WIDER_MAX`], itself included. None for an
/// empty list. Examines only the lists of the rarest node.
fn lists_with_all(
    lists_of: &Csr<usize>,
    nodes_of: &Csr<NodeIx>,
    outlines: &[Outline],
    of: usize,
) -> Vec<usize> {
    let (list, outline) = (nodes_of.row(of), &outlines[of]);
    let rarest = list.iter().min_by_key(|node| lists_of.row(node.0).len());
    let candidates = rarest.map_or(&[][..], |node| lists_of.row(node.0));
    let has_all = |other: &usize| {
        if !outlines[*other].may_have_all(outline) {
            return false;
        }
        let all = nodes_of.row(*other);
        list.len() <= all.len() && list.iter().all(|node| all.binary_search(node).is_ok())
    };
    let mut wider: Vec<usize> = candidates.iter().copied().filter(has_all).collect();
    if WIDER_MAX < wider.len() {
        // The shortest bind most.
        wider.sort_by_key(|other| (nodes_of.row(*other).len(), *other));
        wider.truncate(WIDER_MAX);
        wider.sort_unstable();
    }
    wider
}
