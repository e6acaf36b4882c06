//! Arrangement of targets on the nodes of a tree of pools, where jobs list the nodes they may use.
//!
//! The ideal cluster of [`EmptyCluster`](crate::engine::capacity::EmptyCluster) has sizes and no
//! names. So two targets may each have space there, though both need the same listed node. Targets
//! are possible only if all of them can be arranged at the same time.
//!
//! Nodes of a pool that are on the same lists are a *kind*: it does not matter which of them a
//! process gets. Processes go where the fewest lists are, then on the fullest node. If a process
//! finds no node, a process of equal order makes way for it, if that finds another place. Else all
//! targets are arranged anew, and the process is refused only if that fails, too. With processes of
//! one order this finds each arrangement that there is; with several, some are not tried.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::node_lists::NodeListCapacity;
use crate::engine::capacity::Shortage;
use crate::engine::draft::Draft;
use crate::engine::water_filling::Participant;
use crate::model::{IxVec, JobIx, PoolIx};

/// Most kinds times orders and lists of a tree. Beyond that, sizes and lists alone decide.
const MOST_CELLS: usize = 1 << 16;
/// Most times that the targets of a tree are arranged anew for a further process.
const MOST_TRIALS: u32 = 64;

/// The nodes that a job may use: those of its list, or of its pool and the pools in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reachable {
    List(usize),
    Pool(PoolIx),
}

/// Processes of jobs with the same nodes and order.
type RequestGroup = (Reachable, u64);

/// What the nodes of a kind have in common: their pool, and the lists that they are on.
type PoolLists = (PoolIx, Vec<usize>);

/// Nodes of a kind, by free space: the number of nodes with so much of it.
type FreeSpace = BTreeMap<u64, u64>;

/// Kinds of nodes that jobs of a group may use, and the number of these nodes.
#[derive(Debug)]
struct ReachableKinds {
    /// The best first.
    kinds: Vec<usize>,
    nodes: u64,
}

/// Targets of a tree on nodes of each kind.
#[derive(Clone, Debug)]
pub(super) struct Arrangement {
    domains: Rc<BTreeMap<Reachable, ReachableKinds>>,
    /// For each job, its list.
    list_of: Rc<IxVec<JobIx, Option<usize>>>,
    /// Free space of each kind before any target of this priority.
    empty: Rc<Vec<FreeSpace>>,
    layout: Layout,
    targets: BTreeMap<RequestGroup, u64>,
    /// Groups that were refused a process. Free space only shrinks, so they get no other.
    refused: BTreeSet<RequestGroup>,
    trials: u32,
}

/// Places of all targets.
#[derive(Clone, Debug)]
struct Layout {
    /// Free space of each kind.
    free: Vec<FreeSpace>,
    /// Processes of each group on nodes of each kind.
    used: Vec<BTreeMap<RequestGroup, u64>>,
}

impl Arrangement {
    /// Begins to arrange the targets of `seats`, which are of one tree. `None` if no seat has a list.
    pub(super) fn new(
        draft: &Draft<'_>,
        listed: &NodeListCapacity,
        tree: PoolIx,
        seats: &[Participant],
    ) -> Option<Arrangement> {
        let asking = || seats.iter().filter(|seat| 0 < seat.space_to_grow);
        let in_use = asking().filter_map(|seat| listed.list_of(seat.job));
        let in_use: BTreeSet<usize> = in_use.collect();
        if in_use.is_empty() {
            return None;
        }
        let mut known: BTreeMap<PoolLists, usize> = BTreeMap::new();
        let mut empty: Vec<FreeSpace> = Vec::new();
        for &pool in draft.pools.searched_from(tree) {
            for node in draft.spaces.schedulable(pool) {
                draft.effort.step();
                let on_lists = listed.lists_of(node).iter().copied();
                let on_lists = on_lists.filter(|list| in_use.contains(list)).collect();
                let kind = *known.entry((pool, on_lists)).or_insert(empty.len());
                if kind == empty.len() {
                    empty.push(FreeSpace::new());
                }
                *empty[kind].entry(listed.cell(node).free).or_default() += 1;
            }
        }
        let orders: BTreeSet<u64> = asking().map(|seat| seat.order.qshares().0).collect();
        if MOST_CELLS < empty.len().saturating_mul(orders.len() + in_use.len()) {
            return None;
        }
        let mut kinds: Vec<(usize, &PoolLists)> =
            known.iter().map(|(of, &kind)| (kind, of)).collect();
        kinds.sort_by_key(|(kind, (pool, lists))| (lists.len(), draft.pools.depth(*pool), *kind));
        let list_of = listed.all_lists();
        let reaches = asking().map(|seat| reach(draft, &list_of, seat.job));
        let reaches: BTreeSet<Reachable> = reaches.collect();
        let domains = reaches.into_iter().map(|reach| {
            let is_in_reach = |(pool, lists): &PoolLists| match reach {
                Reachable::List(list) => lists.binary_search(&list).is_ok(),
                Reachable::Pool(outer) => draft.pools.is_within(*pool, outer),
            };
            let own = kinds.iter().filter(|(_, of)| is_in_reach(of));
            let kinds: Vec<usize> = own.map(|(kind, _)| *kind).collect();
            let nodes = kinds.iter().map(|kind| empty[*kind].values().sum::<u64>()).sum();
            (reach, ReachableKinds { kinds, nodes })
        });
        Some(Arrangement {
            domains: Rc::new(domains.collect()),
            list_of,
            layout: Layout::new(empty.clone()),
            empty: Rc::new(empty),
            targets: BTreeMap::new(),
            refused: BTreeSet::new(),
            trials: 0,
        })
    }

    /// Succeeds if all these processes can be arranged beside the targets so far, and adds them to
    /// the targets. If not, returns the first shortage.
    pub(super) fn take_all(
        &mut self,
        draft: &Draft<'_>,
        gains: impl Iterator<Item = (Participant, u64)>,
    ) -> Result<(), Shortage> {
        let mut targets = self.targets.clone();
        for (seat, nshares) in gains.filter(|(_, nshares)| 0 < *nshares) {
            *targets.entry(self.group(draft, &seat)).or_default() += nshares;
        }
        self.layout = self.arrange(draft, &targets)?;
        self.targets = targets;
        Ok(())
    }

    /// Adds another process of `seat` to the targets. False if there is no place for it.
    pub(super) fn take(&mut self, draft: &Draft<'_>, seat: &Participant) -> bool {
        let group = self.group(draft, seat);
        if self.refused.contains(&group) {
            return false;
        }
        draft.effort.step();
        let mut is_placed = self.layout.place(&self.domains, group);
        if !is_placed && self.trials < MOST_TRIALS {
            self.trials += 1;
            let mut targets = self.targets.clone();
            *targets.entry(group).or_default() += 1;
            if let Ok(layout) = self.arrange(draft, &targets) {
                (self.layout, is_placed) = (layout, true);
            }
        }
        if is_placed {
            *self.targets.entry(group).or_default() += 1;
        } else {
            self.refused.insert(group);
        }
        is_placed
    }

    fn group(&self, draft: &Draft<'_>, seat: &Participant) -> RequestGroup {
        (reach(draft, &self.list_of, seat.job), seat.order.qshares().0)
    }

    /// Arranges `targets` in the empty tree, or returns the first shortage. The groups with the
    /// fewest nodes go first; if that fails, the largest orders.
    fn arrange(
        &self,
        draft: &Draft<'_>,
        targets: &BTreeMap<RequestGroup, u64>,
    ) -> Result<Layout, Shortage> {
        let nodes = |reach: Reachable| self.domains.get(&reach).map_or(0, |domain| domain.nodes);
        let mut groups: Vec<(RequestGroup, u64)> =
            targets.iter().map(|(group, nshares)| (*group, *nshares)).collect();
        groups.sort_by_key(|&((reach, order), _)| (nodes(reach), Reverse(order)));
        self.arrange_in_turn(draft, &groups).or_else(|shortage| {
            groups.sort_by_key(|&((reach, order), _)| (Reverse(order), nodes(reach)));
            self.arrange_in_turn(draft, &groups).map_err(|_| shortage)
        })
    }

    fn arrange_in_turn(
        &self,
        draft: &Draft<'_>,
        groups: &[(RequestGroup, u64)],
    ) -> Result<Layout, Shortage> {
        let mut layout = Layout::new(Vec::clone(&self.empty));
        for &(group, requested) in groups {
            let mut left = requested;
            while 0 < left {
                draft.effort.step();
                let placed = layout.place_many(&self.domains, group, left);
                if placed == 0 {
                    return Err(Shortage { found: requested - left, requested });
                }
                left -= placed;
            }
        }
        Ok(layout)
    }
}

impl Layout {
    fn new(free: Vec<FreeSpace>) -> Layout {
        let used = vec![BTreeMap::new(); free.len()];
        Layout { free, used }
    }

    /// Places at most `most` processes of a group on equal nodes. Returns their number; 0 if not even
    /// one has a place.
    fn place_many(
        &mut self,
        domains: &BTreeMap<Reachable, ReachableKinds>,
        group: RequestGroup,
        most: u64,
    ) -> u64 {
        let (reach, order) = group;
        let kinds = domains.get(&reach).map_or(&[][..], |domain| &domain.kinds);
        let best = kinds.iter().find_map(|&kind| Some((kind, self.fullest(kind, order)?)));
        let Some((kind, size)) = best else { return u64::from(self.place(domains, group)) };
        let there = self.free[kind].get(&size).copied().unwrap_or(0);
        let each = size.checked_div(order).unwrap_or(0).clamp(1, most);
        let nodes = most.checked_div(each).unwrap_or(0).min(there);
        self.use_nodes(kind, size, each * order, nodes);
        *self.used[kind].entry(group).or_default() += each * nodes;
        each * nodes
    }

    /// Places a process. If its kinds are full, a process of equal order makes way for it and goes to
    /// another kind, and so on. False if no such chain ends on a node with space.
    fn place(
        &mut self,
        domains: &BTreeMap<Reachable, ReachableKinds>,
        group: RequestGroup,
    ) -> bool {
        let order = group.1;
        // For each kind in reach: the group that goes there, and the kind that it leaves.
        let mut reached: BTreeMap<usize, (RequestGroup, Option<usize>)> = BTreeMap::new();
        let mut moving: BTreeSet<RequestGroup> = BTreeSet::from([group]);
        let mut open: VecDeque<(RequestGroup, Option<usize>)> = VecDeque::from([(group, None)]);
        while let Some((mover, from)) = open.pop_front() {
            let kinds = domains.get(&mover.0).map_or(&[][..], |domain| &domain.kinds);
            for &kind in kinds {
                if reached.contains_key(&kind) {
                    continue;
                }
                reached.insert(kind, (mover, from));
                if let Some(size) = self.fullest(kind, order) {
                    self.use_nodes(kind, size, order, 1);
                    self.shift(&reached, kind);
                    return true;
                }
                for (other, processes) in &self.used[kind] {
                    if other.1 == order && 0 < *processes && moving.insert(*other) {
                        open.push_back((*other, Some(kind)));
                    }
                }
            }
        }
        false
    }

    /// Moves a process of each group along the way that led to `kind`.
    fn shift(&mut self, reached: &BTreeMap<usize, (RequestGroup, Option<usize>)>, kind: usize) {
        let mut kind = Some(kind);
        while let Some(to) = kind {
            let (mover, from) = reached[&to];
            *self.used[to].entry(mover).or_default() += 1;
            if let Some(processes) = from.and_then(|from| self.used[from].get_mut(&mover)) {
                *processes -= 1;
            }
            kind = from;
        }
    }

    /// The least free space of at least `order` on a node of the kind.
    fn fullest(&self, kind: usize, order: u64) -> Option<u64> {
        self.free[kind].range(order..).next().map(|(size, _)| *size)
    }

    /// Takes `amount` of each of so many nodes of a kind with `size` free.
    fn use_nodes(&mut self, kind: usize, size: u64, amount: u64, nodes: u64) {
        let free = &mut self.free[kind];
        if let Some(there) = free.get_mut(&size) {
            *there -= nodes.min(*there);
            if *there == 0 {
                free.remove(&size);
            }
        }
        *free.entry(size - amount).or_default() += nodes;
    }
}

/// The nodes that `job` may use.
fn reach(draft: &Draft<'_>, list_of: &IxVec<JobIx, Option<usize>>, job: JobIx) -> Reachable {
    let pool = || draft.snapshot.topology.classes[draft.entities.class_of(job)].pool;
    list_of[job].map_or_else(|| Reachable::Pool(pool()), Reachable::List)
}
