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

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::entities::{Amounts, Entities};
use super::nodepool::OrdersWanted;

/// One job's part in a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    /// The job's place in the snapshot, which is also its seniority.
    pub job: usize,
    /// The order of one nshare of it.
    pub order: u64,
    /// How many nshares it may still get.
    pub room_to_grow: u64,
}

/// A walk over some jobs, and how far it has got.
pub(super) struct Walk {
    classes: BinaryHeap<Entry>,
    /// The users of each class in the walk.
    users: Vec<Members>,
    /// The jobs of each user in the walk.
    jobs: Vec<Members>,
    seats: Vec<Seat>,
    wanted: OrdersWanted,
}

/// What is still to be served of a class or user.
#[derive(Default)]
struct Members {
    orders: OrdersWanted,
    heap: BinaryHeap<Entry>,
}

/// A class, user or job in the walk: how it stands, and its place among its kind there.
#[derive(Clone, Copy)]
struct Entry {
    standing: Standing,
    place: usize,
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
        let seats: Vec<Seat> = seats.into_iter().filter(|seat| seat.room_to_grow > 0).collect();
        let mut wanted = OrdersWanted::default();
        // For each class and user, its place in the walk, if it is in it.
        let mut class_places = vec![None; served.classes.len()];
        let mut user_places = vec![None; served.groups.len()];
        let (mut classes, mut users) = (Level::default(), Level::default());
        for (place, seat) in seats.iter().enumerate() {
            let job = seat.job;
            let (group, class) = (entities.group_of(job), entities.class_of(job));
            wanted.add(seat.order);
            let of_class = *class_places[class.0].get_or_insert_with(|| {
                let weight = entities.weight(class);
                let (served, held) = (served.classes[class.0], incumbent.classes[class.0]);
                classes.enter(Standing::new(served, held, weight, class.0), 0)
            });
            let of_user = *user_places[group].get_or_insert_with(|| {
                let (served, held) = (served.groups[group], incumbent.groups[group]);
                users.enter(Standing::new(served, held, 1, job), of_class)
            });
            let mut standing = Standing::new(served.jobs[job], incumbent.jobs[job], 1, job);
            standing.largest_order = seat.order;
            classes.members[of_class].orders.add(seat.order);
            users.members[of_user].orders.add(seat.order);
            users.entries[of_user].push(Entry { standing, place });
        }
        let jobs = users.fill();
        for (place, (standing, of_class)) in users.standings.iter().enumerate() {
            let largest_order = jobs[place].orders.largest();
            let standing = Standing { largest_order, ..*standing };
            classes.entries[*of_class].push(Entry { standing, place });
        }
        let users = classes.fill();
        let entry = |(place, (standing, _)): (usize, &(Standing, usize))| Entry {
            standing: Standing { largest_order: users[place].orders.largest(), ..*standing },
            place,
        };
        let classes = classes.standings.iter().enumerate().map(entry).collect();
        Walk { classes, users, jobs, seats, wanted }
    }

    /// Serves, the least served first, until nobody can be served any more.
    ///
    /// `serve` tries to give one nshare to a job, told what other requests still want, and says
    /// whether it could.
    pub(super) fn serve_least_first(mut self, mut serve: impl FnMut(usize, &OrdersWanted) -> bool) {
        while let Some(mut class) = self.classes.peek_mut() {
            let users = &mut self.users[class.place];
            let mut user = users.heap.peek_mut().expect("a class in the walk has users");
            let jobs = &mut self.jobs[user.place];
            let mut job = jobs.heap.peek_mut().expect("a user in the walk has jobs");
            let seat = &mut self.seats[job.place];
            let order = seat.order;
            let is_served = serve(seat.job, &self.wanted);
            seat.room_to_grow -= 1;
            if is_served {
                job.standing.served += order;
                user.standing.served += order;
                class.standing.served += order;
            }
            if is_served && seat.room_to_grow > 0 {
                continue;
            }
            PeekMut::pop(job);
            self.wanted.remove(order);
            jobs.orders.remove(order);
            users.orders.remove(order);
            user.standing.largest_order = jobs.orders.largest();
            class.standing.largest_order = users.orders.largest();
            if jobs.heap.is_empty() {
                PeekMut::pop(user);
            } else {
                drop(user);
            }
            if users.heap.is_empty() {
                PeekMut::pop(class);
            }
        }
    }
}

/// The classes or users of a walk while they are gathered.
#[derive(Default)]
struct Level {
    /// How each stands, and the place of the one it belongs to.
    standings: Vec<(Standing, usize)>,
    members: Vec<Members>,
    entries: Vec<Vec<Entry>>,
}

impl Level {
    /// Enters one more, and says at which place.
    fn enter(&mut self, standing: Standing, belongs_to: usize) -> usize {
        self.standings.push((standing, belongs_to));
        self.members.push(Members::default());
        self.entries.push(Vec::new());
        self.members.len() - 1
    }

    /// Makes the heaps, once all is known.
    fn fill(&mut self) -> Vec<Members> {
        for (members, entries) in self.members.iter_mut().zip(&mut self.entries) {
            members.heap = std::mem::take(entries).into();
        }
        std::mem::take(&mut self.members)
    }
}

/// What decides who is served next. The greatest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    served: u64,
    /// What the entity holds on machines.
    held: u64,
    weight: u64,
    largest_order: u64,
    /// Age or place in the configuration: the lower, the earlier. Unique among siblings.
    seniority: usize,
}

impl Standing {
    fn new(served: u64, held: u64, weight: u64, seniority: usize) -> Standing {
        Standing { served, held, weight, largest_order: 0, seniority }
    }

    fn is_incumbent(&self) -> bool {
        self.served < self.held
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Standing) -> Ordering {
        // Users and jobs, of which there are many, all weigh the same.
        let by_share = if self.weight == other.weight {
            other.served.cmp(&self.served)
        } else {
            let mine = u128::from(self.served) * u128::from(other.weight);
            let theirs = u128::from(other.served) * u128::from(self.weight);
            theirs.cmp(&mine)
        };
        by_share
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
