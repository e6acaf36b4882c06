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
use std::collections::{BTreeMap, BinaryHeap};

use super::entities::{Amounts, Entities};
use super::nodepool::OrdersWanted;
use crate::model::ClassIx;

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

/// Serves `seats`, the least served first, until nobody can be served any more.
///
/// `served` says what each entity has so far, `incumbent` what it holds on machines: on equal
/// shares whoever is entitled to less than it holds keeps it. `serve` tries to give one nshare to
/// a job, told what other requests still want, and says whether it could.
pub(super) fn serve_least_first(
    entities: &Entities,
    seats: impl IntoIterator<Item = Seat>,
    served: &Amounts,
    incumbent: &Amounts,
    mut serve: impl FnMut(usize, &OrdersWanted) -> bool,
) {
    let mut walk = Walk::new(entities, seats, served, incumbent);
    while let Some(mut class) = walk.classes.pop() {
        let mut user = class.members.pop().expect("a class in the walk has users");
        let mut job = user.members.pop().expect("a user in the walk has jobs");
        let order = job.order;
        let is_served = serve(job.seat.job, &walk.wanted);
        job.seat.room_to_grow -= 1;
        if is_served {
            job.standing.served += order;
            user.standing.served += order;
            class.standing.served += order;
        }
        if is_served && job.seat.room_to_grow > 0 {
            user.members.push(job);
        } else {
            walk.wanted.remove(order);
            user.orders.remove(order);
            class.orders.remove(order);
        }
        user.standing.largest_order = user.orders.largest();
        class.standing.largest_order = class.orders.largest();
        if !user.members.is_empty() {
            class.members.push(user);
        }
        if !class.members.is_empty() {
            walk.classes.push(class);
        }
    }
}

struct Walk {
    classes: BinaryHeap<Node<Node<Leaf>>>,
    wanted: OrdersWanted,
}

/// A class or user with those of its members that are still to be served.
struct Node<Member: Ord> {
    standing: Standing,
    orders: OrdersWanted,
    members: BinaryHeap<Member>,
}

struct Leaf {
    standing: Standing,
    order: u64,
    seat: Seat,
}

impl Walk {
    fn new(
        entities: &Entities,
        seats: impl IntoIterator<Item = Seat>,
        served: &Amounts,
        incumbent: &Amounts,
    ) -> Walk {
        let mut wanted = OrdersWanted::default();
        let mut classes: BTreeMap<ClassIx, Node<Node<Leaf>>> = BTreeMap::new();
        let mut users: BTreeMap<usize, Node<Leaf>> = BTreeMap::new();
        for seat in seats.into_iter().filter(|seat| seat.room_to_grow > 0) {
            let (job, group, class) =
                (seat.job, entities.group_of(seat.job), entities.class_of(seat.job));
            wanted.add(seat.order);
            let weight = entities.weight(class);
            let of_class =
                Standing::new(served.classes[class.0], incumbent.classes[class.0], weight, class.0);
            classes.entry(class).or_insert_with(|| Node::new(of_class)).add(seat.order);
            let of_user = Standing::new(served.groups[group], incumbent.groups[group], 1, job);
            let user = users.entry(group).or_insert_with(|| Node::new(of_user));
            user.add(seat.order);
            let mut standing = Standing::new(served.jobs[job], incumbent.jobs[job], 1, job);
            standing.largest_order = seat.order;
            user.members.push(Leaf { standing, order: seat.order, seat });
        }
        for (group, user) in users {
            let (class, _) = entities.groups()[group];
            classes.get_mut(&class).expect("a user's class is in the walk").members.push(user);
        }
        Walk { classes: classes.into_values().collect(), wanted }
    }
}

impl<Member: Ord> Node<Member> {
    fn new(standing: Standing) -> Node<Member> {
        Node { standing, orders: OrdersWanted::default(), members: BinaryHeap::new() }
    }

    fn add(&mut self, order: u64) {
        self.orders.add(order);
        self.standing.largest_order = self.orders.largest();
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
        let mine = u128::from(self.served) * u128::from(other.weight);
        let theirs = u128::from(other.served) * u128::from(self.weight);
        theirs
            .cmp(&mine)
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

macro_rules! ordered_by_standing {
    ($($node:ty $(, $member:ident)?);*) => {$(
        impl$(<$member: Ord>)? Ord for $node {
            fn cmp(&self, other: &Self) -> Ordering {
                self.standing.cmp(&other.standing)
            }
        }
        impl$(<$member: Ord>)? PartialOrd for $node {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl$(<$member: Ord>)? PartialEq for $node {
            fn eq(&self, other: &Self) -> bool {
                self.standing == other.standing
            }
        }
        impl$(<$member: Ord>)? Eq for $node {}
    )*};
}
ordered_by_standing!(Leaf; Node<Member>, Member);
