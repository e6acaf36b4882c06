//! Test if each of some jobs could have a process at the same time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::draft::Draft;
use crate::engine::snapshot::Node;
use crate::model::{IxVec, JobIx, NodeIx, PoolIx, Precedence, QShares};

/// True if all fair-share jobs of a priority in a tree could have a process at the same time.
pub(super) fn is_possible(draft: &Draft<'_>, priority: Precedence, tree: PoolIx) -> bool {
    let is_meant = |job: &JobIx| {
        let class = draft.class_of(*job);
        draft.precedence(*job) == priority
            && class.policy.is_preemptable()
            // A gang has its turn instead.
            && !draft.jobs[*job].is_gang
            && draft.pools.top(class.pool) == tree
            && 0 < draft.jobs[*job].demand.cap.nshares.0
            // A job without a large enough node needs no space.
            && draft.jobs[*job].refusal.is_none()
    };
    let jobs: Vec<JobIx> = draft.jobs.places().filter(is_meant).collect();
    gives_all_one(draft, &jobs)
}

/// True if an arrangement gives each of `jobs` a process. They are fair-share jobs of equal
/// priority. All their processes, and all of lower priority, count as gone; gangs stay.
///
/// Jobs are placed by size, largest first; on equal size, a job with fewer nodes to choose from
/// goes first. Each takes the smallest free space that suffices. So true is proven, but false is
/// not.
fn gives_all_one(draft: &Draft<'_>, jobs: &[JobIx]) -> bool {
    let of_nodes = free_spaces(draft, jobs);
    let needed: QShares = jobs.iter().map(|&job| draft.jobs[job].order.qshares()).sum();
    // The sums tell at once that there is too little.
    if of_nodes.iter().sum::<u64>() < needed.0 {
        return false;
    }
    let mut spaces = FreeSpaces::new(draft, of_nodes);
    let mut jobs: Vec<JobIx> = jobs.to_vec();
    let mut choices = BTreeMap::new();
    jobs.sort_by_cached_key(|&job| {
        let order = draft.jobs[job].order;
        let choice = if draft.jobs[job].is_restricted {
            spaces.choice(draft, job)
        } else {
            let kind = (draft.entities.class_of(job), order);
            *choices.entry(kind).or_insert_with(|| spaces.choice(draft, job))
        };
        (Reverse(order), choice, job)
    });
    jobs.iter().all(|&job| spaces.take(draft, job))
}

/// Free space of each node, in quanta.
struct FreeSpaces {
    of_nodes: IxVec<NodeIx, u64>,
    /// Nodes of each pool by their free space.
    of_pools: BTreeMap<PoolIx, BTreeSet<(u64, NodeIx)>>,
}

/// Returns the free space of each node once all processes are gone that do not stay beside `jobs`.
fn free_spaces(draft: &Draft<'_>, jobs: &[JobIx]) -> IxVec<NodeIx, u64> {
    let priority = jobs.first().map(|&job| draft.precedence(job));
    let stays = |job: JobIx| {
        let class = draft.class_of(job);
        !class.policy.is_preemptable()
            || draft.jobs[job].is_gang
            || Some(draft.precedence(job)) < priority
    };
    let space_on = |(ix, node): (NodeIx, &Node)| {
        if !draft.spaces.is_schedulable(ix) {
            return 0;
        }
        let used = draft.spaces.held_shares(ix).filter(|(holding, _)| stays(holding.job));
        let used: QShares = used.map(|(_, facts)| facts.order()).sum();
        node.order.saturating_sub(node.limbo).saturating_sub(used).0
    };
    draft.snapshot.nodes_with_ix().map(space_on).collect()
}

impl FreeSpaces {
    fn new(draft: &Draft<'_>, of_nodes: IxVec<NodeIx, u64>) -> FreeSpaces {
        let mut of_pools: BTreeMap<PoolIx, Vec<(u64, NodeIx)>> = BTreeMap::new();
        for (ix, &space) in of_nodes.with_ix().filter(|(ix, _)| draft.spaces.is_schedulable(*ix)) {
            of_pools.entry(draft.spaces.pool(ix)).or_default().push((space, ix));
        }
        let sets = of_pools.into_iter().map(|(pool, nodes)| (pool, nodes.into_iter().collect()));
        FreeSpaces { of_pools: sets.collect(), of_nodes }
    }

    /// Counts the nodes that are large enough for `job`: of its list, if it has a list.
    fn choice(&self, draft: &Draft<'_>, job: JobIx) -> usize {
        let order = draft.jobs[job].order.qshares().0;
        if let Some(list) = draft.job(job).nodes.as_ref() {
            return list.iter().filter(|ix| order <= self.of_nodes[**ix]).count();
        }
        let pools = draft.pools_for(job).iter().filter_map(|pool| self.of_pools.get(pool));
        pools.map(|nodes| nodes.range((order, NodeIx(0))..).count()).sum()
    }

    /// Takes space for a process of `job`. True if a node has enough.
    fn take(&mut self, draft: &Draft<'_>, job: JobIx) -> bool {
        let order = draft.jobs[job].order.qshares().0;
        let pools = draft.pools_for(job);
        let found = match draft.job(job).nodes.as_ref() {
            Some(list) => list
                .iter()
                .filter(|ix| pools.contains(&draft.spaces.pool(**ix)))
                .map(|&ix| (self.of_nodes[ix], ix))
                .filter(|(space, _)| order <= *space)
                .min(),
            None => pools
                .iter()
                .filter_map(|pool| self.of_pools.get(pool)?.range((order, NodeIx(0))..).next())
                .copied()
                .min(),
        };
        let Some((space, ix)) = found else { return false };
        self.of_nodes[ix] = space - order;
        let of_pool = self.of_pools.entry(draft.spaces.pool(ix)).or_default();
        of_pool.remove(&(space, ix));
        of_pool.insert((space - order, ix));
        true
    }
}
