//! The jobs to which a first process is owed.
//!
//! A job is owed a first process if its target is at least a process. If all jobs of a user have
//! target 0, but the user's part of the cluster covers its smallest process, that process is owed.
//! The part is weighted max-min over classes and users, with memory that can be divided at will.
//!
//! Max-min is found by levels. A side has at least a level if all its peers can have as much by
//! weight, or their whole demand. As orders are whole numbers, so are the levels that matter.
//!
//! Architecture, invariant 8.

use std::collections::BTreeMap;

use crate::engine::bisect::largest;
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::GroupIx;
use crate::engine::sizes::least_size;
use crate::model::{ClassIx, JobIx, NShares, NodeIx, Order};

/// Demand of the jobs of a class, in qshares.
struct Class {
    weight: u64,
    asks: u64,
    users: Vec<User>,
}

/// Demand of the jobs of a user, in qshares.
struct User {
    asks: u64,
    jobs: Vec<JobIx>,
}

/// Marks the jobs that are owed a first process. `jobs` are the fair-share jobs of a priority in a
/// tree; `qshares` is the tree's space for them.
pub(super) fn note_owed(draft: &mut Draft<'_>, jobs: &[JobIx], qshares: u64) {
    for &job in jobs {
        let work = &mut draft.jobs[job];
        work.is_owed = NShares(0) < work.target;
    }
    if jobs.iter().all(|&job| draft.jobs[job].is_owed) {
        return;
    }
    let classes = classes_of(draft, jobs);
    for (place, class) in classes.iter().enumerate() {
        let of_class = level_of_class(&classes, place, qshares);
        let of_users = level(&class.users, of_class);
        for user in &class.users {
            note_owed_of_user(draft, user, of_users.min(user.asks));
        }
    }
}

/// Marks the job of `user` that is owed a first process if all its targets are 0 and the user's
/// part is `qshares`.
fn note_owed_of_user(draft: &mut Draft<'_>, user: &User, qshares: u64) {
    if user.jobs.iter().any(|&job| draft.jobs[job].is_owed) || has_gang(draft, user) {
        return;
    }
    let least = |job: JobIx| least_size(draft, job).of_order(draft.jobs[job].order).0;
    let rank = |job: JobIx| (least(job), draft.jobs[job].held == NShares(0), job);
    let smallest =
        (user.jobs.iter().map(|&job| rank(job)).min()).filter(|(order, ..)| *order <= qshares);
    if let Some((_, _, job)) = smallest {
        draft.jobs[job].is_owed = true;
    }
}

/// True if a gang of `user` has nodes: the user is not left without a process.
fn has_gang(draft: &Draft<'_>, user: &User) -> bool {
    let group = |job: JobIx| draft.entities.group_of(job);
    let own = |gang: &JobIx| user.jobs.iter().any(|&job| group(job) == group(*gang));
    let has_nodes = |gang: JobIx| NShares(0) < draft.has(gang) + draft.jobs[gang].target;
    draft.gangs.iter().filter(|gang| own(gang)).any(|&gang| has_nodes(gang))
}

/// Demand of `jobs`, class by class.
fn classes_of(draft: &Draft<'_>, jobs: &[JobIx]) -> Vec<Class> {
    let entities = &draft.entities;
    let mut known = BTreeMap::new();
    let mut asking: Vec<(ClassIx, GroupIx, JobIx, u64)> = jobs
        .iter()
        .map(|&job| {
            let work = &draft.jobs[job];
            let cap = work.demand.cap.nshares;
            // A job that was not refused has such a node.
            let is_startable = work.refusal.is_none() || is_startable(draft, &mut known, job);
            let could_use = if is_startable { cap } else { NShares(0) };
            let most = could_use.max(work.held);
            (entities.class_of(job), entities.group_of(job), job, most.of_order(work.order).0)
        })
        .filter(|(.., asks)| 0 < *asks)
        .collect();
    asking.sort_unstable();
    let classes = asking.chunk_by(|one, next| one.0 == next.0).map(|of_class| {
        let users: Vec<User> = of_class
            .chunk_by(|one, next| one.1 == next.1)
            .map(|of_user| User {
                asks: sum(of_user.iter().map(|(.., asks)| *asks)),
                jobs: of_user.iter().map(|(_, _, job, _)| *job).collect(),
            })
            .collect();
        let weight = entities.weight(entities.class_of(of_class[0].2));
        Class { weight, asks: sum(users.iter().map(|user| user.asks)), users }
    });
    classes.collect()
}

/// True if a node that is up and that `job` may use is large enough for a process of it. Jobs of a
/// class without a node list are alike, so `known` keeps the answer by class and order.
fn is_startable(
    draft: &Draft<'_>,
    known: &mut BTreeMap<(ClassIx, Order), bool>,
    job: JobIx,
) -> bool {
    let order = draft.jobs[job].order;
    let pools = draft.pools_for(job);
    let spaces = &draft.spaces;
    if draft.jobs[job].is_restricted {
        let is_meant = |node: NodeIx| {
            spaces.is_schedulable(node)
                && order.qshares() <= spaces.order(node)
                && pools.contains(&spaces.pool(node))
        };
        return draft.job(job).listed().iter().any(|&node| is_meant(node));
    }
    *known
        .entry((draft.entities.class_of(job), order))
        .or_insert_with(|| pools.iter().any(|&pool| 0 < spaces.count_of_size(pool, order)))
}

/// The largest level such that all get as much, or all that they ask for, of `qshares`.
fn level(users: &[User], qshares: u64) -> u64 {
    largest(qshares, |level| sum(users.iter().map(|user| user.asks.min(level))) <= qshares)
}

/// Part of the class at `place`: the most of `qshares` that it can have. Every other class must
/// have as much by weight, or its whole demand.
fn level_of_class(classes: &[Class], place: usize, qshares: u64) -> u64 {
    let own = &classes[place];
    largest(own.asks.min(qshares), |level| {
        // By weight, the part of another class may be a fraction, so all parts are multiplied by
        // the own weight.
        let parts = classes.iter().map(|class| {
            let part = u128::from(level) * u128::from(class.weight);
            part.min(u128::from(class.asks) * u128::from(own.weight))
        });
        parts.sum::<u128>() <= u128::from(qshares) * u128::from(own.weight)
    })
}

fn sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::audit::tests::{ANN, BOB, FAIR, HEAVY, Scene};
    use crate::engine::draft::CountRefusal;
    use crate::model::QShares;

    /// Max-min by filling: each side has a weight and a demand. Sides that ask for less than their
    /// part are satisfied first; the rest share by weight.
    fn max_min(sides: &[(u64, u64)], amount: u64) -> Vec<u64> {
        let mut parts = vec![0; sides.len()];
        let mut open: Vec<usize> = (0..sides.len()).collect();
        let mut left = amount;
        loop {
            let weight: u64 = open.iter().map(|&side| sides[side].0).sum();
            let is_content = |side: &usize| sides[*side].1 * weight <= left * sides[*side].0;
            let Some(at) = open.iter().position(is_content) else {
                for side in open {
                    parts[side] = (left * sides[side].0).checked_div(weight).unwrap();
                }
                return parts;
            };
            let side = open.swap_remove(at);
            parts[side] = sides[side].1;
            left -= sides[side].1;
        }
    }

    #[test]
    fn levels_are_max_min() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for _ in 0..5_000 {
            let mut draw = |least: u64, most: u64| random.random_range(least..=most);
            let amount = draw(0, 60);
            let sides: Vec<(u64, u64)> =
                (0..draw(1, 6)).map(|_| (draw(1, 5), draw(0, 30))).collect();
            let class = |&(weight, asks): &(u64, u64)| Class { weight, asks, users: Vec::new() };
            let classes: Vec<Class> = sides.iter().map(class).collect();
            let levels = (0..classes.len()).map(|place| level_of_class(&classes, place, amount));
            assert_eq!(levels.collect::<Vec<_>>(), max_min(&sides, amount), "{sides:?} {amount}");

            let alike: Vec<(u64, u64)> = sides.iter().map(|&(_, asks)| (1, asks)).collect();
            let user = |&(_, asks): &(u64, u64)| User { asks, jobs: Vec::new() };
            let users: Vec<User> = alike.iter().map(user).collect();
            let of_all = level(&users, amount);
            let levels: Vec<u64> = users.iter().map(|user| of_all.min(user.asks)).collect();
            assert_eq!(levels, max_min(&alike, amount), "{alike:?} {amount}");
        }
    }

    /// Ann's class has twice the weight, so Bob's part is a third of `qshares`. Bob has jobs of
    /// `orders` with targets `counts`. Returns for each of them if a first process is owed.
    fn owed(qshares: u64, orders: &[u32], counts: &[u64]) -> Vec<bool> {
        owed_beside(1, qshares, orders, counts)
    }

    /// The same, with a job of Ann's of order `of_ann`. Nothing is left for it.
    fn owed_beside(of_ann: u32, qshares: u64, orders: &[u32], counts: &[u64]) -> Vec<bool> {
        let mut scene = Scene::new(&[20]);
        scene.job(ANN, HEAVY, of_ann, 100);
        for &order in orders {
            scene.job(BOB, FAIR, order, 100);
        }
        let mut draft = Draft::new(&scene.snapshot);
        draft.jobs[JobIx(0)].refusal = Some(CountRefusal::NothingLeft { left: QShares(0) });
        for (place, &count) in counts.iter().enumerate() {
            draft.jobs[JobIx(place + 1)].target = NShares(count);
        }
        let jobs: Vec<JobIx> = draft.jobs.places().collect();
        note_owed(&mut draft, &jobs, qshares);
        draft.jobs.iter().skip(1).map(|job| job.is_owed).collect()
    }

    #[test]
    fn a_first_process_is_owed_by_count_or_else_by_part() {
        assert_eq!(owed(12, &[4, 4, 5], &[0, 0, 0]), [true, false, false], "one of the smallest");
        assert_eq!(owed(11, &[4, 4, 5], &[0, 0, 0]), [false; 3], "3 are no process of 4");
        assert_eq!(owed(12, &[5, 4], &[0, 0]), [false, true]);
        assert_eq!(owed(12, &[4, 5], &[0, 1]), [false, true], "one is counted for the other");
        assert_eq!(owed(0, &[4, 5], &[1, 1]), [true; 2]);
    }

    /// A node decides if a job takes part. Space that others have now may be had another way.
    #[test]
    fn a_job_takes_part_if_a_node_that_is_up_is_large_enough() {
        assert_eq!(owed_beside(20, 6, &[4], &[0]), [false], "Bob's part is 2");
        assert_eq!(owed_beside(21, 6, &[4], &[0]), [true], "Bob's part is all");
        assert_eq!(owed_beside(21, 6, &[21], &[0]), [false]);
    }
}
