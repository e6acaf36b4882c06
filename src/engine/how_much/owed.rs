//! The jobs to which a first process is owed.
//!
//! A job is owed one where at least one is counted for it. Where none is counted for any job of a user,
//! but the user's part of the cluster covers its smallest process, one of these is owed: weighted
//! max-min over classes and users, with memory that can be divided at will.
//!
//! Max-min is found by levels. A side has at least so much, if all its peers can have as much by
//! weight, or all that they ask for. As orders are whole, so are the levels that matter.
//!
//! Architecture, invariant 8.

use crate::engine::draft::Draft;
use crate::model::{NShares, floor_div};
use std::num::NonZeroU64;

/// What the jobs of a class ask for, in qshares.
struct Class {
    weight: u64,
    asks: u64,
    users: Vec<User>,
}

/// What the jobs of a user ask for, in qshares.
struct User {
    asks: u64,
    jobs: Vec<usize>,
}

/// Notes which of `jobs`, fair-share work of one priority in one tree, are owed a first process, where the
/// tree has so many qshares for all of them.
pub(super) fn note_owed(draft: &mut Draft<'_>, jobs: &[usize], qshares: u64) {
    for &job in jobs {
        let work = &mut draft.jobs[job];
        work.is_owed = 0 < work.given;
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

/// Notes which job of `user` is owed a first process if nothing is counted for any, where the user's part
/// is `qshares`.
fn note_owed_of_user(draft: &mut Draft<'_>, user: &User, qshares: u64) {
    if user.jobs.iter().any(|&job| draft.jobs[job].is_owed) {
        return;
    }
    let rank = |job: usize| (draft.jobs[job].order.qshares().0, draft.jobs[job].held == 0, job);
    let smallest =
        (user.jobs.iter().map(|&job| rank(job)).min()).filter(|(order, ..)| *order <= qshares);
    if let Some((_, _, job)) = smallest {
        draft.jobs[job].is_owed = true;
    }
}

/// What `jobs` ask for, class by class.
fn classes_of(draft: &Draft<'_>, jobs: &[usize]) -> Vec<Class> {
    let entities = &draft.entities;
    let mut asking: Vec<(usize, usize, usize, u64)> = jobs
        .iter()
        .map(|&job| {
            let work = &draft.jobs[job];
            let most = NShares(work.demand.cap.nshares.0.max(work.held));
            (entities.class_of(job).0, entities.group_of(job), job, most.of_order(work.order).0)
        })
        // What has no machine that is large enough takes part in nothing.
        .filter(|(_, _, job, asks)| 0 < *asks && draft.jobs[*job].refusal.is_none())
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

/// The largest level such that all get as much, or all that they ask for, of `qshares`.
fn level(users: &[User], qshares: u64) -> u64 {
    largest(qshares, |level| sum(users.iter().map(|user| user.asks.min(level))) <= qshares)
}

/// The part of the class at `place`: the most that it can have of `qshares` while all others have as
/// much by weight, or all that they ask for.
fn level_of_class(classes: &[Class], place: usize, qshares: u64) -> u64 {
    let own = &classes[place];
    largest(own.asks.min(qshares), |level| {
        // By weight, what others have may be a fraction: all are compared multiplied by the own weight.
        let parts = classes.iter().map(|class| {
            let part = u128::from(level) * u128::from(class.weight);
            part.min(u128::from(class.asks) * u128::from(own.weight))
        });
        parts.sum::<u128>() <= u128::from(qshares) * u128::from(own.weight)
    })
}

/// The largest number up to `most` that `is_possible`, where with each all smaller ones are; 0 is.
fn largest(most: u64, is_possible: impl Fn(u64) -> bool) -> u64 {
    if is_possible(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    while 1 < high - low {
        let middle = low + floor_div(high - low, TWO);
        if is_possible(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Halves.
const TWO: NonZeroU64 = NonZeroU64::new(2).expect("it is not 0");

fn sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}
