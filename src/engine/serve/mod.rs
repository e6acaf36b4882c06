//! Water-filling: serves jobs one nshare at a time, always the least served first.
//!
//! Counting, placing, preempting and filling are the same walk over class → user → job; they
//! differ only in what "served" is measured by, how far a job may go, and what serving does. So
//! the walk is here, once, and the phases bring those three.
//!
//! Design: "`apportionQShares()`", in the form of architecture section 5: raise the normalised share
//! (qshares / weight) of the least-served entity; on equal shares the larger order first, then the
//! entity that already holds the space, then weight or age. An entity leaves when its demand or
//! every hole it could use is exhausted.
//!
//! A hundred thousand jobs may take part, most of them in vain. So what ranks a user or job is one
//! number, and whoever is refused in a way that holds for all like it is asked only once.

mod heaps;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::entities::{Amounts, Entities};
use super::nodepool::OrdersWanted;
use crate::model::{ClassIx, Order};
use heaps::{Heaps, Rank};

/// One job's part in a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    /// The job's place in the snapshot, which is also its seniority.
    pub job: usize,
    /// The size of one nshare of it.
    pub order: Order,
    /// How many nshares it may get.
    pub room_to_grow: u64,
}

/// What came of trying to serve a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// It got one nshare more.
    Served,
    /// It cannot be served any more.
    Refused,
    /// Nor can any other job of its class and order that may use any machine.
    RefusedAlike,
}

/// A walk over some jobs, and how far it has got.
pub(super) struct Walk {
    classes: BinaryHeap<Entry>,
    /// What the jobs of each class in the walk ask for.
    of_classes: Vec<OfClass>,
    /// The users of each class in the walk.
    users: Heaps,
    of_users: Vec<OfUser>,
    /// The jobs of each user in the walk.
    jobs: Heaps,
    of_jobs: Vec<OfJob>,
    wanted: OrdersWanted,
}

/// A class in the walk: how it stands, and its place.
#[derive(Clone, Copy)]
struct Entry {
    standing: Standing,
    place: usize,
}

/// What the jobs of a class in the walk ask for.
#[derive(Default)]
struct OfClass {
    orders: OrdersWanted,
    /// Those of the orders that are refused, whoever asks.
    refused: Vec<u64>,
}

/// A user in the walk.
#[derive(Clone, Copy)]
struct OfUser {
    /// What it holds on machines.
    held: u64,
    /// The largest order that any of its jobs asks for, and how many do.
    largest: (u64, usize),
}

/// A job in the walk.
struct OfJob {
    seat: Seat,
    /// How many nshares it got.
    served: u64,
    /// What it holds on machines.
    held: u64,
}

impl Walk {
    /// A walk over those of `seats` that may grow.
    ///
    /// `served` says what each entity has so far, `incumbent` what it holds on machines: on equal
    /// shares whoever is entitled to less than it holds keeps it.
    pub(super) fn new(
        entities: &Entities,
        seats: impl IntoIterator<Item = Seat>,
        served: &Amounts,
        incumbent: &Amounts,
    ) -> Walk {
        // For each class and user, its place in the walk, if it is in it.
        let mut class_places = vec![None; served.classes.len()];
        let mut user_places = vec![None; served.groups.len()];
        let (mut classes, mut of_classes) = (Vec::new(), Vec::<OfClass>::new());
        let (mut users, mut of_users) = (Vec::new(), Vec::<OfUser>::new());
        let (mut jobs, mut of_jobs) = (Vec::new(), Vec::<OfJob>::new());
        let mut wanted = OrdersWanted::default();
        for seat in seats.into_iter().filter(|seat| seat.room_to_grow > 0) {
            let (job, order) = (seat.job, seat.order.qshares().0);
            let (group, class) = (entities.group_of(job), entities.class_of(job));
            let of_class = *class_places[class.0].get_or_insert_with(|| {
                classes.push(class);
                of_classes.push(OfClass::default());
                of_classes.len() - 1
            });
            let of_user = *user_places[group].get_or_insert_with(|| {
                users.push((of_class, group));
                of_users.push(OfUser { held: incumbent.groups[group], largest: (0, 0) });
                of_users.len() - 1
            });
            wanted.add(order);
            of_classes[of_class].orders.add(order);
            of_users[of_user].note(order);
            let (has, held) = (served.jobs[job], incumbent.jobs[job]);
            jobs.push((of_user, Rank::new(has, order, has < held, of_jobs.len())));
            of_jobs.push(OfJob { seat, served: 0, held });
        }
        let ranked = |(place, (class, group)): (usize, &(usize, usize))| {
            let OfUser { held, largest: (order, _) } = of_users[place];
            let has = served.groups[*group];
            (*class, Rank::new(has, order, has < held, place))
        };
        let users: Vec<(usize, Rank)> = users.iter().enumerate().map(ranked).collect();
        let entry = |(place, class): (usize, &ClassIx)| {
            let (served, held) = (served.classes[class.0], incumbent.classes[class.0]);
            let largest_order = of_classes[place].orders.largest();
            let weight = entities.weight(*class);
            let standing = Standing { served, held, weight, largest_order, seniority: class.0 };
            Entry { standing, place }
        };
        Walk {
            classes: classes.iter().enumerate().map(entry).collect(),
            users: Heaps::new(of_classes.len(), &users),
            jobs: Heaps::new(of_users.len(), &jobs),
            of_classes,
            of_users,
            of_jobs,
            wanted,
        }
    }

    /// Serves, the least served first, until nobody can be served any more.
    ///
    /// `serve` tries to give one nshare to a job, told what other requests still want, and says
    /// what came of it. Returns for each seat how many nshares it got.
    pub(super) fn serve_least_first(
        mut self,
        mut serve: impl FnMut(&Seat, &OrdersWanted) -> Service,
    ) -> impl Iterator<Item = (Seat, u64)> {
        while let Some(mut class) = self.classes.peek_mut() {
            let of_class = &mut self.of_classes[class.place];
            if of_class.is_hopeless() {
                self.wanted.remove_all(&of_class.orders);
                PeekMut::pop(class);
                continue;
            }
            let user = self.users.members(class.place)[0];
            let job = self.jobs.members(user.place())[0];
            let OfJob { seat, served, held } = &mut self.of_jobs[job.place()];
            let order = seat.order.qshares().0;
            let service = if of_class.refused.contains(&order) {
                Service::Refused
            } else {
                serve(seat, &self.wanted)
            };
            if service == Service::RefusedAlike {
                of_class.refused.push(order);
            }
            let is_served = service == Service::Served;
            let gain = if is_served { order } else { 0 };
            class.standing.served += gain;
            *served += u64::from(is_served);
            if is_served && *served < seat.room_to_grow {
                let has = job.served() + gain;
                let rank = Rank::new(has, order, has < *held, job.place());
                self.jobs.replace_first(user.place(), rank);
            } else {
                self.jobs.remove_first(user.place());
                self.wanted.remove(order);
                of_class.orders.remove(order);
                class.standing.largest_order = of_class.orders.largest();
                let left = self.jobs.members(user.place()).iter();
                let left = left.map(|job| self.of_jobs[job.place()].seat.order.qshares().0);
                self.of_users[user.place()].forget(order, left);
            }
            let OfUser { held, largest: (largest_order, jobs) } = self.of_users[user.place()];
            if 0 < jobs {
                let has = user.served() + gain;
                let rank = Rank::new(has, largest_order, has < held, user.place());
                self.users.replace_first(class.place, rank);
            } else {
                self.users.remove_first(class.place);
            }
            if self.users.members(class.place).is_empty() {
                PeekMut::pop(class);
            }
        }
        self.of_jobs.into_iter().map(|OfJob { seat, served, .. }| (seat, served))
    }
}

impl OfClass {
    /// Whether none of its jobs can be served any more.
    fn is_hopeless(&self) -> bool {
        !self.refused.is_empty() && self.orders.iter().all(|order| self.refused.contains(&order))
    }
}

impl OfUser {
    /// One more of its jobs asks for `order`.
    fn note(&mut self, order: u64) {
        let (largest, jobs) = &mut self.largest;
        match order.cmp(largest) {
            Ordering::Less => {}
            Ordering::Equal => *jobs += 1,
            Ordering::Greater => self.largest = (order, 1),
        }
    }

    /// One that asked for `order` no longer does; the others ask for those `left`.
    fn forget(&mut self, order: u64, left: impl Iterator<Item = u64>) {
        let (largest, jobs) = &mut self.largest;
        if order < *largest {
            return;
        }
        *jobs -= 1;
        if *jobs == 0 {
            self.largest = (0, 0);
            left.for_each(|order| self.note(order));
        }
    }
}

/// What decides which class is served next. The greatest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    served: u64,
    /// What the class holds on machines.
    held: u64,
    weight: u64,
    largest_order: u64,
    /// Its place in the configuration: the lower, the earlier. Unique.
    seniority: usize,
}

impl Standing {
    fn is_incumbent(&self) -> bool {
        self.served < self.held
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Standing) -> Ordering {
        let mine = u128::from(self.served) * u128::from(other.weight);
        let theirs = u128::from(other.served) * u128::from(self.weight);
        (theirs.cmp(&mine))
            .then(self.largest_order.cmp(&other.largest_order))
            .then(self.is_incumbent().cmp(&other.is_incumbent()))
            .then(self.weight.cmp(&other.weight))
            .then(other.seniority.cmp(&self.seniority))
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Standing) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.standing.cmp(&other.standing)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.standing == other.standing
    }
}

impl Eq for Entry {}
