//! Searches an arrangement that gives each of several jobs a process at the same time.
//!
//! The search is best fit, the largest process first; after a dead end it undoes its last step. The
//! number of steps is limited. So a failure proves nothing, and only an arrangement that was found
//! counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ledger::Ledger;
use super::lines::JobLine;
use super::owed::{Group, least_size};
use super::quiescence::is_at_rest;
use crate::engine::{Expansion, Promise};
use crate::model::{ClassIx, ClassPolicy, JobId, JobIx, NodeIx, PoolIx, SharePhase, count};

/// Steps of the search beyond the first node for each job. Each step tries another node.
pub(super) const TRIES: usize = 4_000;

/// Free space on nodes, for jobs of a group.
#[derive(Clone, Debug, Default)]
struct NodeSpaces {
    by_node: BTreeMap<NodeIx, u64>,
    by_pool: BTreeMap<PoolIx, BTreeSet<(u64, NodeIx)>>,
}

impl NodeSpaces {
    /// The space for `group` if all shares were gone that it may preempt. Shares of higher
    /// priorities, of gangs, shares that cannot be preempted, and new shares stay. Promised space,
    /// and space of terminating shares, is awaited.
    fn of(ledger: &Ledger<'_>, (tree, priority): Group) -> NodeSpaces {
        let topology = &ledger.snapshot.topology;
        // Quanta of each node: in use for good, terminating, and promised.
        let mut taken = vec![(0_u64, 0_u64, 0_u64); ledger.nodes.len()];
        for line in &ledger.jobs {
            let is_barred = !line.is_fair_share() || line.priority < priority || line.is_gang();
            for share in &line.job.shares {
                let (barred, leaving, _) = &mut taken[share.node.0];
                let order = share.order.qshares().0;
                if is_barred {
                    *barred += order;
                } else if share.state == SharePhase::Leaving {
                    *leaving += order;
                }
            }
        }
        let barred = |job: &JobId| {
            let line = ledger.line(*job);
            !line.is_fair_share() || line.priority < priority || line.is_gang()
        };
        for victim in &ledger.victims {
            if !barred(&victim.receipt.job) {
                taken[victim.share.node.0].1 += victim.share.order.qshares().0;
            }
        }
        for Expansion { node, order, .. } in &ledger.schedule.expansions {
            taken[node.0].0 += order.qshares().0;
        }
        for Promise { job, node, order, .. } in &ledger.schedule.promises {
            let (fixed, _, promised) = &mut taken[node.0];
            *(if barred(job) { fixed } else { promised }) += order.qshares().0;
        }
        let mut spaces = NodeSpaces::default();
        for (ix, node) in ledger.snapshot.nodes_with_ix() {
            if node.state.is_schedulable() && topology.top_of(node.pool) == tree {
                let (fixed, leaving, promised) = taken[ix.0];
                let gone = fixed.saturating_add(node.limbo.0);
                let awaited = leaving.max(promised);
                let space = node.order.0.saturating_sub(gone.saturating_add(awaited));
                spaces.set(node.pool, ix, space);
            }
        }
        spaces
    }

    fn set(&mut self, pool: PoolIx, ix: NodeIx, space: u64) {
        let spaces = self.by_pool.entry(pool).or_default();
        if let Some(before) = self.by_node.insert(ix, space) {
            spaces.remove(&(before, ix));
        }
        spaces.insert((space, ix));
    }

    fn space(&self, ix: NodeIx) -> u64 {
        self.by_node.get(&ix).copied().unwrap_or(0)
    }
}

/// A process that needs a place.
#[derive(Debug)]
struct Item {
    order: u64,
    class: ClassIx,
    /// The only nodes that the process may use.
    list: Option<Arc<[NodeIx]>>,
}

/// Node of a placed process, and the other nodes that it could be on.
struct LevelChoice {
    at: Option<NodeIx>,
    /// The best node last.
    others: Vec<NodeIx>,
}

struct ArrangementSearch<'l, 'a> {
    ledger: &'l Ledger<'a>,
    spaces: NodeSpaces,
    pools: BTreeMap<ClassIx, Vec<PoolIx>>,
    items: Vec<Item>,
}

/// The jobs that an arrangement may give their first process on another node than they hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayMove {
    /// No job: each keeps a process where it is.
    None,
    /// Jobs whose processes are all on this node.
    From(NodeIx),
    /// All jobs.
    All,
}

/// True if the search found an arrangement in which each job at `places` has a process or a
/// promise, or the fewest that its legal sizes allow. The jobs are of the same group. `tries`
/// limits the search steps beyond the first node for each job.
///
/// Moves need an idle cluster, defragmentation, and a job that may get new shares. The targets of
/// waiting jobs that cannot be preempted keep their space.
pub(super) fn is_arrangeable(
    ledger: &Ledger<'_>,
    group: Group,
    places: impl IntoIterator<Item = JobIx>,
    tries: usize,
    moves: MayMove,
) -> bool {
    let spaces = NodeSpaces::of(ledger, group);
    let homes = homes(ledger);
    let may_move = is_at_rest(ledger) && ledger.snapshot.topology.settings.defragmentation;
    let is_movable = |place: JobIx| {
        may_move
            && ledger.jobs[place].is_plain()
            && ledger.owed.is_startable[place]
            && match moves {
                MayMove::None => false,
                MayMove::From(ix) => homes.get(&place).is_some_and(|at| at.iter().eq([&ix])),
                MayMove::All => true,
            }
    };
    let mut items = Vec::new();
    for place in places {
        let line = &ledger.jobs[place];
        // Shares that a job gains in this cycle do not free its last process before the next cycle.
        let held = line.held - line.lost;
        let is_pinned = 0 < held && !is_movable(place);
        let at = homes.get(&place).filter(|_| is_pinned);
        // A process on a node out of scheduling takes no space from the rest.
        let is_apart = at.is_some_and(|at| at.iter().any(|ix| !spaces.by_node.contains_key(ix)));
        let placed = line.promised + if held == 0 { line.expanded } else { 0 };
        if is_apart {
            continue;
        }
        for _ in placed..least_size(line) {
            let list = at.map(|at| at.iter().copied().collect());
            let list = list.or_else(|| line.job.nodes.clone());
            items.push(Item { order: line.order(), class: line.job.class, list });
        }
    }
    for line in waiting_for_good(ledger, group) {
        // A whole node may be more than any arrangement leaves.
        if line.class.policy == ClassPolicy::Reserve {
            return false;
        }
        for _ in line.has()..line.report.target.0 {
            let list = line.job.nodes.clone();
            items.push(Item { order: line.order(), class: line.job.class, list });
        }
    }
    let mut search = ArrangementSearch { ledger, spaces, pools: BTreeMap::new(), items };
    for item in &search.items {
        let topology = &ledger.snapshot.topology;
        let own = topology.classes[item.class].pool;
        let all = search.spaces.by_pool.keys().copied();
        let reach = || all.filter(|&pool| topology.is_within(pool, own)).collect();
        search.pools.entry(item.class).or_insert_with(reach);
    }
    // First fit goes by size alone; if more is tried, processes without a choice come first.
    let choices: Vec<usize> = search.items.iter().map(|item| search.choices(item)).collect();
    let mut items: Vec<(usize, Item)> = choices.into_iter().zip(search.items).collect();
    items.sort_by_key(|(choices, item)| (0 < tries && 1 < *choices, Reverse(item.order), *choices));
    search.items = items.into_iter().map(|(_, item)| item).collect();
    search.could_fit() && search.run(tries)
}

/// Waiting jobs that cannot be preempted, below their target in the tree of `group`, of its
/// priority or a higher priority.
fn waiting_for_good<'l, 'a>(
    ledger: &'l Ledger<'a>,
    (tree, priority): Group,
) -> impl Iterator<Item = &'l JobLine<'a>> {
    ledger.jobs.iter().filter(move |line| {
        !line.is_fair_share()
            && !line.is_gang()
            && line.priority <= priority
            && ledger.snapshot.topology.top_of(line.class.pool) == tree
            && line.has() < line.report.target.0
    })
}

/// The nodes on which each fair-share job has processes that stay.
fn homes(ledger: &Ledger<'_>) -> BTreeMap<JobIx, BTreeSet<NodeIx>> {
    let mut homes: BTreeMap<JobIx, BTreeSet<NodeIx>> = BTreeMap::new();
    for (ix, node) in ledger.nodes_with_ix() {
        for prey in &node.prey {
            homes.entry(prey.job).or_default().insert(ix);
        }
    }
    homes
}

impl ArrangementSearch<'_, '_> {
    /// True if for each size there are as many slots as processes of that size or larger. Otherwise
    /// no search is needed.
    fn could_fit(&self) -> bool {
        let mut orders: Vec<u64> = self.items.iter().map(|item| item.order).collect();
        orders.sort_unstable_by_key(|order| Reverse(*order));
        let mut larger = 0_u64;
        orders.chunk_by(|one, next| one == next).all(|alike| {
            larger += count(alike);
            let places = |space: &u64| space.checked_div(alike[0]).unwrap_or(0);
            larger <= self.spaces.by_node.values().map(places).sum::<u64>()
        })
    }

    fn run(&mut self, tries: usize) -> bool {
        let mut tries = self.items.len().saturating_add(tries);
        let mut levels: Vec<LevelChoice> = Vec::new();
        while levels.len() < self.items.len() {
            let others = self.nodes_for(&self.items[levels.len()]);
            levels.push(LevelChoice { at: None, others });
            if !self.go_on(&mut levels, &mut tries) {
                return false;
            }
        }
        true
    }

    /// Puts the last process on its next node. If it has none, goes back to the process before, and
    /// so on.
    fn go_on(&mut self, levels: &mut Vec<LevelChoice>, tries: &mut usize) -> bool {
        while let Some(at) = levels.len().checked_sub(1) {
            let order = self.items[at].order;
            if let Some(ix) = levels[at].at.take() {
                let space = self.spaces.space(ix);
                self.spaces.set(self.ledger.snapshot.node(ix).pool, ix, space + order);
            }
            let Some(ix) = levels[at].others.pop() else {
                levels.pop();
                continue;
            };
            let Some(left) = tries.checked_sub(1) else { return false };
            *tries = left;
            let space = self.spaces.space(ix);
            self.spaces.set(self.ledger.snapshot.node(ix).pool, ix, space - order);
            levels[at].at = Some(ix);
            return true;
        }
        false
    }

    /// Number of nodes with space for `item`.
    fn choices(&self, item: &Item) -> usize {
        if let Some(list) = &item.list {
            return list.iter().filter(|ix| item.order <= self.spaces.space(**ix)).count();
        }
        let pools = self.pools[&item.class].iter().filter_map(|pool| self.spaces.by_pool.get(pool));
        pools.map(|spaces| spaces.range((item.order, NodeIx(0))..).count()).sum()
    }

    /// The nodes with space for `item`, least free space last. Of nodes with equal free space in a
    /// pool, only the first is listed.
    fn nodes_for(&self, item: &Item) -> Vec<NodeIx> {
        let pools = &self.pools[&item.class];
        let mut found: Vec<(u64, NodeIx)> = Vec::new();
        if let Some(list) = &item.list {
            let is_open = |ix: &NodeIx| pools.contains(&self.ledger.snapshot.node(*ix).pool);
            let listed = list.iter().copied().filter(is_open);
            found.extend(listed.map(|ix| (self.spaces.space(ix), ix)));
            found.retain(|(space, _)| item.order <= *space);
        } else {
            for spaces in pools.iter().filter_map(|pool| self.spaces.by_pool.get(pool)) {
                let mut least = item.order;
                while let Some(&(space, ix)) = spaces.range((least, NodeIx(0))..).next() {
                    found.push((space, ix));
                    least = space + 1;
                }
            }
        }
        found.sort_unstable_by_key(|&(space, ix)| Reverse((space, ix)));
        found.into_iter().map(|(_, ix)| ix).collect()
    }
}
