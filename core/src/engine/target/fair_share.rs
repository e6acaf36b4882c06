//! Counts fair-share work: weighted shares for classes, equal shares for the users of a class and
//! for the jobs of a user.
//!
//! Design: "How Much"; architecture section 5. Counting is water-filling, an nshare at a time, as
//! long as the ideal cluster has free space for the order. So the targets could be placed if
//! nothing stood in the way. No entity is more than an nshare behind a peer by weight, and rounding
//! cannot starve a small entity.
//!
//! If there is space for all jobs, each gets its whole demand, and no job is served in turn. If
//! not, most is counted in bulk, and only the rest in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::arrangement::Arrangement;
use super::bulk::{count_at_once, take_whole_demand};
use super::node_lists::NodeListCapacity;
use super::owed::note_owed;
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::{CountRefusal, Draft};
use crate::engine::fairness_tree::GroupIx;
use crate::engine::share_table::ShareIx;
use crate::engine::water_filling::{Participant, Service, Turn, WaterFill};
use crate::model::{ClassIx, IxVec, JobIx, NShares, NodeIx, Order, PoolIx, QShares, floor_div};

/// Counts `jobs`, the fair-share jobs of a priority, from the space that higher priorities left in
/// `space`. Their pure fair shares are known.
pub(super) fn count(
    draft: &mut Draft<'_>,
    space: &mut EmptyCluster,
    listed: &mut NodeListCapacity,
    jobs: &[JobIx],
) {
    count_what_stays_anyway(draft, jobs);
    note_where_nothing_is_left(draft, space, listed, jobs);
    // Trees share no nodes, so they can be counted separately. Within a tree, the cost of a used
    // slot to larger requests is known.
    let mut by_tree: BTreeMap<PoolIx, Vec<Participant>> = BTreeMap::new();
    let mut most = BTreeMap::new();
    for &job in jobs {
        let tree = draft.pools.top(pool_of(draft, job));
        by_tree.entry(tree).or_default().push(seat(draft, listed, &mut most, job));
    }
    for (tree, seats) in by_tree {
        let of_tree: Vec<JobIx> = seats.iter().map(|seat| seat.job).collect();
        let qshares = space.total(&draft.pools, tree).0;
        let mut named = Arrangement::new(draft, listed, tree, &seats);
        if take_whole_demand(draft, space, (listed, named.as_ref()), &seats) {
            enter(draft, seats.into_iter().map(|seat| (seat, seat.space_to_grow)));
        } else {
            serve_all(draft, space, (listed, &mut named), seats);
        }
        note_owed(draft, &of_tree, qshares);
    }
}

/// The pool of the class of `job`.
fn pool_of(draft: &Draft<'_>, job: JobIx) -> PoolIx {
    draft.snapshot.topology.classes[draft.entities.class_of(job)].pool
}

/// Serves `seats`, the least served first, as long as there is space for any of them.
fn serve_all(
    draft: &mut Draft<'_>,
    space: &mut EmptyCluster,
    (listed, named): (&mut NodeListCapacity, &mut Option<Arrangement>),
    seats: Vec<Participant>,
) {
    let mut turns = seats.len();
    let mut walk =
        WaterFill::new(&draft.entities, Turn::ByFinish, seats, &draft.targets, &draft.held);
    while !walk.is_over() {
        // After a refusal, the rest may grow much further, so the bulk step is repeated. It runs
        // rarely enough to cost less than the turns.
        count_at_once(draft, space, (listed, named), &mut walk);
        if !count_in_turn(draft, space, (listed, named), &mut walk, turns) {
            break;
        }
        turns = turns.saturating_mul(2);
    }
    enter(draft, walk.served());
}

/// Serves at most `turns` turns of `walk`. Returns true if there may be space for a job after that.
fn count_in_turn(
    draft: &Draft<'_>,
    space: &mut EmptyCluster,
    (listed, named): (&mut NodeListCapacity, &mut Option<Arrangement>),
    walk: &mut WaterFill,
    turns: usize,
) -> bool {
    for _ in 0..turns {
        if walk.is_over() {
            return false;
        }
        draft.effort.step();
        let mut is_space_left = true;
        walk.serve_next(|seat, demand| {
            let &Participant { job, order, .. } = seat;
            if !listed.has_space(job, order) {
                return Service::Refused;
            }
            let pool = pool_of(draft, job);
            let has_space = order.qshares() <= space.largest(&draft.pools, pool);
            if has_space && named.as_mut().is_some_and(|named| !named.take(draft, seat)) {
                let has_list = listed.has_list(job);
                return if has_list { Service::Refused } else { Service::RefusedForAll };
            }
            // No job of this class and order can find space now. If no free piece in the tree is
            // large enough for any order in demand, counting ends.
            if !space.take(&draft.pools, pool, order, demand) {
                let largest = space.largest(&draft.pools, draft.pools.top(pool)).0;
                is_space_left = demand.iter().any(|order| order <= largest);
                return Service::RefusedForAll;
            }
            listed.expect_all(iter::once((*seat, 1)));
            Service::Served
        });
        if !is_space_left {
            return false;
        }
    }
    true
}

/// Adds the counted nshares to the targets of the jobs.
fn enter(draft: &mut Draft<'_>, counted: impl Iterator<Item = (Participant, u64)>) {
    let entities = Arc::clone(&draft.entities);
    for (Participant { job, order, .. }, nshares) in counted.filter(|(_, nshares)| 0 < *nshares) {
        draft.jobs[job].target += NShares(nshares);
        entities.add(&mut draft.targets, job, NShares(nshares).of_order(order).0);
    }
}

/// Limit of a job's target: its cap, and the space on the nodes that it lists. `most` keeps that space
/// for jobs of the same list and order: a list may have all nodes, and all jobs the list.
fn seat(
    draft: &Draft<'_>,
    listed: &NodeListCapacity,
    most: &mut BTreeMap<(usize, Order), NShares>,
    job: JobIx,
) -> Participant {
    let order = draft.jobs[job].order;
    let below_cap = draft.jobs[job].most.saturating_sub(draft.jobs[job].target);
    let on_list = listed
        .list_of(job)
        .map(|list| *most.entry((list, order)).or_insert_with(|| listed.most(list, order)));
    let NShares(space_to_grow) = on_list.map_or(below_cap, |most| most.min(below_cap));
    Participant { job, order, space_to_grow }
}

/// Adds shares on nodes out of scheduling to the targets of their jobs. Their space is not in
/// `space`, and no other job could use it. Shares beyond a job's declared maximum are not added:
/// they are preempted wherever they are, and nothing may replace them.
fn count_what_stays_anyway(draft: &mut Draft<'_>, jobs: &[JobIx]) {
    let entities = Arc::clone(&draft.entities);
    let nodes = (0..draft.snapshot.nodes.len()).map(NodeIx);
    let apart = nodes.filter(|node| !draft.spaces.is_schedulable(*node));
    let shares = apart.flat_map(|node| draft.spaces.held_shares(node));
    let mut stays: Vec<ShareIx> = shares.map(|(holding, _)| holding).collect();
    stays.retain(|holding| jobs.binary_search(&holding.job).is_ok());
    stays.sort_unstable();
    for holding in stays {
        let job = &mut draft.jobs[holding.job];
        if job.target < job.may_keep {
            job.target += NShares(1);
            let order = draft.shares.at(holding).order.qshares().0;
            entities.add(&mut draft.targets, holding.job, order);
        }
    }
}

/// Marks each job of which not even a single nshare fits into the space left for its priority.
fn note_where_nothing_is_left(
    draft: &mut Draft<'_>,
    space: &EmptyCluster,
    listed: &NodeListCapacity,
    jobs: &[JobIx],
) {
    let mut largest: BTreeMap<PoolIx, QShares> = BTreeMap::new();
    let mut of_lists: BTreeMap<usize, QShares> = BTreeMap::new();
    for &job in jobs {
        let pool = pool_of(draft, job);
        let largest = *largest.entry(pool).or_insert_with(|| space.largest(&draft.pools, pool));
        let on_list = listed
            .list_of(job)
            .map(|list| *of_lists.entry(list).or_insert_with(|| listed.largest(list)));
        let largest = on_list.map_or(largest, |on_list| on_list.min(largest));
        if largest < draft.jobs[job].order.qshares() {
            draft.jobs[job].refusal = Some(CountRefusal::NothingLeft { left: largest });
        }
    }
}

/// Computes the pure fair share of each job: its amount if every class, user and job of this
/// priority could use its part. The space left for the class's pools is divided among classes by
/// weight, then equally among users, then equally among jobs.
///
/// Design: "Defragmentation", "deserved shares" (the seed's word for the fair share); decision D4: schedulable capacity only.
pub(super) fn remember_pure_fair_shares(
    draft: &mut Draft<'_>,
    space: &EmptyCluster,
    jobs: &[JobIx],
) {
    let entities = Arc::clone(&draft.entities);
    let mut jobs_of_user = IxVec::filled(0, entities.groups().len());
    for &job in jobs {
        jobs_of_user[entities.group_of(job)] += 1;
    }
    let groups = || entities.groups().iter().map(|(class, _)| class).zip(&jobs_of_user);
    let mut users_of_class: BTreeMap<ClassIx, u64> = BTreeMap::new();
    for (class, _) in groups().filter(|(_, jobs)| 0 < **jobs) {
        *users_of_class.entry(*class).or_default() += 1;
    }
    let classes: BTreeSet<ClassIx> = users_of_class.keys().copied().collect();
    let of_user: BTreeMap<ClassIx, u64> = users_of_class
        .iter()
        .map(|(&class, &users)| (class, divide(class_share(draft, space, class, &classes), users)))
        .collect();
    let of_group = groups().map(|(class, &jobs)| (of_user.get(class).copied().unwrap_or(0), jobs));
    let of_group: IxVec<GroupIx, (u64, u64)> = of_group.collect();
    for &job in jobs {
        let (share, jobs) = of_group[entities.group_of(job)];
        draft.jobs[job].pure_fair_share = QShares(divide(share, jobs));
        draft.jobs[job].users_fair_share = (QShares(share), jobs);
    }
}

/// Part of its pools that is the fair share of `class`. It competes with the `classes` whose pools
/// overlap with its own.
fn class_share(
    draft: &Draft<'_>,
    space: &EmptyCluster,
    class: ClassIx,
    classes: &BTreeSet<ClassIx>,
) -> u64 {
    let pool_of = |class: ClassIx| draft.snapshot.topology.classes[class].pool;
    let pool = pool_of(class);
    let competes = |other: &ClassIx| {
        let other = pool_of(*other);
        draft.pools.is_within(other, pool) || draft.pools.is_within(pool, other)
    };
    let weights =
        classes.iter().copied().filter(competes).map(|class| draft.entities.weight(class)).sum();
    divide(space.total(&draft.pools, pool).0.saturating_mul(draft.entities.weight(class)), weights)
}

fn divide(amount: u64, parts: u64) -> u64 {
    NonZeroU64::new(parts).map_or(0, |parts| floor_div(amount, parts))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::audit::audit;
    use crate::audit::tests::{ANN, BOB, FAIR, HEAVY, SUB, Scene};
    use crate::engine::plan;
    use crate::model::NodeIx;

    const INNER: ClassIx = ClassIx(3);

    /// Nodes in two pools, and jobs of orders up to `largest` that ask for about as much as there
    /// is.
    fn scene(random: &mut ChaCha8Rng, largest: u64) -> Scene {
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        let nodes = draw(1, 5);
        let orders: Vec<u64> = (0..nodes).map(|_| draw(1, 9)).collect();
        let mut scene = Scene::new(&orders);
        for node in 0..orders.len() {
            if draw(0, 2) == 0 {
                scene.node(node).pool = SUB;
            }
        }
        for _ in 0..draw(1, 5) {
            let user = if draw(0, 1) == 0 { ANN } else { BOB };
            let class = match draw(0, 2) {
                0 => FAIR,
                1 => HEAVY,
                _ => INNER,
            };
            let order = u32::try_from(draw(1, largest)).unwrap();
            let job = scene.job(user, class, order, draw(1, 12).div_ceil(u64::from(order)));
            if draw(0, 19) == 0 {
                scene.edit(job).nodes = Some([NodeIx(0)].into());
            }
        }
        scene
    }

    /// Adds more jobs to such a scene; about half of all jobs list any number of nodes. Some lists
    /// are equal, some contain another list, and some overlap in part.
    fn scene_with_lists(random: &mut ChaCha8Rng, largest: u64) -> Scene {
        let mut scene = scene(random, largest);
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        for _ in 0..draw(0, 8) {
            let user = if draw(0, 1) == 0 { ANN } else { BOB };
            let class = if draw(0, 1) == 0 { FAIR } else { HEAVY };
            scene.job(user, class, u32::try_from(draw(1, largest)).unwrap(), draw(1, 12));
        }
        let nodes = scene.snapshot.nodes.len();
        let jobs: Vec<_> = scene.snapshot.jobs.iter().map(|job| job.id).collect();
        for job in jobs {
            let list: Arc<[NodeIx]> = (0..nodes).filter(|_| draw(0, 2) == 0).map(NodeIx).collect();
            if draw(0, 1) == 0 {
                scene.edit(job).nodes = Some(list).filter(|list| !list.is_empty());
            }
        }
        scene
    }

    /// Targets of all jobs, in nshares.
    fn count_all(scene: &Scene) -> Vec<u64> {
        let mut draft = Draft::new(&scene.snapshot);
        let mut space = EmptyCluster::new(&draft.spaces);
        let mut listed = NodeListCapacity::new(&draft);
        let jobs: Vec<JobIx> = scene.snapshot.jobs.places().collect();
        remember_pure_fair_shares(&mut draft, &space, &jobs);
        count(&mut draft, &mut space, &mut listed, &jobs);
        draft.jobs.iter().map(|job| job.target.0).collect()
    }

    /// Targets of all jobs, in nshares, if every nshare is served in turn.
    fn count_all_in_turn(scene: &Scene) -> Vec<u64> {
        let mut draft = Draft::new(&scene.snapshot);
        let mut space = EmptyCluster::new(&draft.spaces);
        let mut listed = NodeListCapacity::new(&draft);
        let seats = scene
            .snapshot
            .jobs
            .places()
            .map(|job| seat(&draft, &listed, &mut BTreeMap::new(), job));
        let seats: Vec<Participant> = seats.collect();
        let named = &mut Arrangement::new(&draft, &listed, PoolIx(0), &seats);
        let mut walk =
            WaterFill::new(&draft.entities, Turn::ByFinish, seats, &draft.targets, &draft.held);
        count_in_turn(&draft, &mut space, (&mut listed, named), &mut walk, usize::MAX);
        enter(&mut draft, walk.served());
        draft.jobs.iter().map(|job| job.target.0).collect()
    }

    /// Few cases differ: a smaller order may be counted in place of a larger order.
    #[test]
    fn where_all_get_what_they_could_use_in_turn_nearly_all_do_at_once() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let (mut known, mut lost) = (0, 0);
        for case in 0..4_000 {
            let scene = if case % 2 == 0 { scene } else { scene_with_lists }(&mut random, 4);
            let in_turn = count_all_in_turn(&scene);
            let caps: Vec<u64> =
                scene.snapshot.jobs.iter().map(|job| job.facts.remaining).collect();
            if in_turn == caps {
                known += 1;
                lost += usize::from(count_all(&scene) != in_turn);
            }
        }
        assert!((400..3_600).contains(&known), "{known} cases");
        assert!(lost * 100 < known, "{lost} of {known} cases");
    }

    /// If all jobs have order 1, bulk counting makes no difference, even if some jobs are refused.
    #[test]
    fn bulk_targets_of_one_order_equal_targets_in_turn() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for case in 0..6_000 {
            let scene = if case % 3 == 0 { scene } else { scene_with_lists }(&mut random, 1);
            assert_eq!(count_all(&scene), count_all_in_turn(&scene));
        }
    }

    /// With several orders, bulk counting may differ. The audit, an independent implementation,
    /// then finds no job more than an nshare behind, and all targets fit.
    #[test]
    fn bulk_targets_of_several_orders_pass_the_audit() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut differ = 0;
        for case in 0..4_000 {
            let scene = if case % 2 == 0 { scene } else { scene_with_lists }(&mut random, 4);
            differ += usize::from(count_all(&scene) != count_all_in_turn(&scene));
            let findings = audit(&scene.snapshot, &plan(&scene.snapshot));
            assert_eq!(findings, [], "{:?}", scene.snapshot);
        }
        assert!((1..400).contains(&differ), "{differ} cases differ");
    }

    /// The bulk step would be useless if it left more.
    #[test]
    fn little_is_left_to_be_counted_in_turn() {
        let mut scene = Scene::new(&[16; 64]);
        for job in 0..60 {
            let user = if job % 3 == 0 { ANN } else { BOB };
            let class = if job % 2 == 0 { FAIR } else { HEAVY };
            let id = scene.job(user, class, job % 5 + 1, 90);
            if job % 7 == 0 {
                scene.edit(id).nodes = Some((0..32).map(NodeIx).collect());
            }
        }
        let draft = Draft::new(&scene.snapshot);
        let mut space = EmptyCluster::new(&draft.spaces);
        let mut listed = NodeListCapacity::new(&draft);
        let seats = scene
            .snapshot
            .jobs
            .places()
            .map(|job| seat(&draft, &listed, &mut BTreeMap::new(), job));
        let mut walk =
            WaterFill::new(&draft.entities, Turn::ByFinish, seats, &draft.targets, &draft.held);
        count_at_once(&draft, &mut space, (&mut listed, &mut None), &mut walk);
        let left = space.total(&draft.pools, PoolIx(0)).0;
        assert!(left < 64, "{left} of 1024");
    }
}
