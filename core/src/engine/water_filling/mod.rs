//! Water-filling: serves jobs an nshare at a time, always the least served first.
//!
//! Counting, placing, preempting and filling are the same walk over class → user → job. They differ
//! only in the measure of "served", in the limit of a job, and in the effect of serving it. So the
//! walk is here, once, and each phase supplies these three parts.
//!
//! Design: "`apportionQShares()`", in the form of architecture section 5: raise the normalised
//! share (qshares / weight) of the least-served entity. The least served is the entity that will
//! have the least once it is served. So an entity is served before another entity takes more than
//! its part. No entity is served for the sake of a process that is more than its part. On equal
//! shares the larger order comes first, then the entity that already holds the space, then weight
//! or age. An entity leaves when its demand or all free space that fits it is exhausted.
//!
//! A hundred thousand jobs may take part, and most of them get nothing. So the rank of a user or
//! job is a plain number. A refusal that holds for all similar jobs is found only once; the jobs
//! leave when it is their user's turn. If no job is refused, nshares need not be served in turn at
//! all (`bulk.rs`).

mod bulk;
mod heaps;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::capacity::DemandByOrder;
use super::fairness_tree::{Amounts, FairnessTree, GroupIx};
use crate::model::{ClassIx, IxVec, JobIx, Order};
use heaps::{Heaps, Rank};

pub(super) use bulk::{Claim, WaterLevel};

/// Part of a job in a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Participant {
    /// The job's place in the snapshot, which is also its seniority.
    pub job: JobIx,
    /// Size of an nshare of the job.
    pub order: Order,
    /// Nshares that the job may still get.
    pub space_to_grow: u64,
}

/// Outcome of serving a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// The job got an nshare.
    Served,
    /// The job cannot be served any more.
    Refused,
    /// The job cannot be served any more, and neither can any job of its class and order that may
    /// use any node.
    RefusedForAll,
}

/// Measure by which the least served is found. On equal shares the larger order goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Share after the grant: no entity goes beyond its part while another entity stays below its
    /// own.
    ByFinish,
    /// Share before the grant, for placing whole targets. Of entities that have nothing, the
    /// largest order goes first, as small processes would split the space.
    ByStart,
}

/// A walk over some jobs, with its progress.
#[derive(Clone)]
pub(super) struct WaterFill {
    classes: BinaryHeap<Entry>,
    members: Members,
}

/// A class in the walk: its standing and its place.
#[derive(Clone, Copy)]
struct Entry {
    standing: Standing,
    place: usize,
}

/// Users and jobs in a walk.
#[derive(Clone)]
struct Members {
    /// Requested orders of each class.
    of_classes: Vec<OfClass>,
    /// The users of each class.
    users: Heaps,
    of_users: Vec<OfUser>,
    /// The jobs of each user.
    jobs: Heaps,
    /// User by user.
    of_jobs: Vec<OfJob>,
    demand: DemandByOrder,
    turn: Turn,
}

/// Requested orders of the jobs of a class in the walk.
#[derive(Clone, Default)]
struct OfClass {
    orders: DemandByOrder,
    /// Orders that are refused to every job of the class.
    refused: Vec<u64>,
}

/// A user in the walk.
#[derive(Clone, Copy)]
struct OfUser {
    /// Amount that the user has been served.
    has: u64,
    /// Amount that the user holds on nodes.
    held: u64,
    /// Number of orders refused to its class when the user's jobs of such orders were last removed.
    dismissed: usize,
}

/// A job in the walk.
#[derive(Clone, Copy)]
struct OfJob {
    seat: Participant,
    /// Amount that the job had when the walk began.
    had: u64,
    /// Nshares that the job got in the walk.
    served: u64,
    /// Amount that the job holds on nodes.
    held: u64,
}

impl WaterFill {
    /// Builds a walk over the `seats` that may grow.
    ///
    /// `served` holds the amount of each entity so far, `incumbent` the amount that it holds on
    /// nodes. On equal shares, an entity that has been served less than it holds comes first.
    pub(super) fn new(
        entities: &FairnessTree,
        turn: Turn,
        seats: impl IntoIterator<Item = Participant>,
        served: &Amounts,
        incumbent: &Amounts,
    ) -> WaterFill {
        // Place of each class and user in the walk, if it takes part.
        let mut class_places = IxVec::filled(None, served.classes.len());
        let mut user_places = IxVec::filled(None, served.groups.len());
        let (mut classes, mut of_classes) = (Vec::new(), Vec::<OfClass>::new());
        let (mut users, mut of_users) = (Vec::new(), Vec::<OfUser>::new());
        let mut jobs = Vec::new();
        for seat in seats.into_iter().filter(|seat| seat.space_to_grow > 0) {
            let (job, order) = (seat.job, seat.order.qshares().0);
            let group = entities.group_of(job);
            let (of_class, of_user) = *user_places[group].get_or_insert_with(|| {
                let class = entities.class_of(job);
                let of_class = *class_places[class].get_or_insert_with(|| {
                    classes.push(class);
                    of_classes.push(OfClass::default());
                    of_classes.len() - 1
                });
                users.push((of_class, group));
                let (has, held) = (served.groups[group], incumbent.groups[group]);
                of_users.push(OfUser { has, held, dismissed: 0 });
                (of_class, of_users.len() - 1)
            });
            of_classes[of_class].orders.add(order);
            let (had, held) = (served.jobs[job], incumbent.jobs[job]);
            jobs.push((of_user, OfJob { seat, had, served: 0, held }));
        }
        let mut demand = DemandByOrder::default();
        for of_class in &of_classes {
            demand.add_all(&of_class.orders);
        }
        let (jobs, of_jobs) =
            Heaps::new(of_users.len(), &jobs, |place, of_job| of_job.rank(turn, place));
        let mut members =
            Members { of_classes, users: Heaps::default(), of_users, jobs, of_jobs, demand, turn };
        let ranked = |(place, (class, _)): (usize, &(usize, GroupIx))| {
            members.rank_of_user(place).map(|rank| (*class, rank))
        };
        let users: Vec<(usize, Rank)> = users.iter().enumerate().filter_map(ranked).collect();
        members.users = Heaps::new(members.of_classes.len(), &users, |_, rank| *rank).0;
        let entry = |(place, class): (usize, &ClassIx)| {
            let (served, held) = (served.classes[*class], incumbent.classes[*class]);
            let weight = entities.weight(*class);
            let next_order = members.next_order(place);
            let seniority = *class;
            let standing = Standing { turn, served, held, weight, next_order, seniority };
            Entry { standing, place }
        };
        WaterFill { classes: classes.iter().enumerate().map(entry).collect(), members }
    }

    /// Serves, the least served first, until no job can be served any more.
    ///
    /// `serve` tries to give a job an nshare and returns the outcome. Its second argument is the
    /// demand of all jobs still in the walk.
    pub(super) fn serve_least_first(
        &mut self,
        mut serve: impl FnMut(&Participant, &DemandByOrder) -> Service,
    ) {
        while !self.is_over() {
            self.serve_next(&mut serve);
        }
    }

    /// True if no job can be served any more.
    pub(super) fn is_over(&self) -> bool {
        self.classes.is_empty()
    }

    /// Serves the least served job, if any job can be served.
    pub(super) fn serve_next(
        &mut self,
        serve: impl FnMut(&Participant, &DemandByOrder) -> Service,
    ) {
        let Some(mut class) = self.classes.peek_mut() else { return };
        if self.members.cannot_be_served(class.place) {
            self.members.demand.remove_all(&self.members.of_classes[class.place].orders);
            PeekMut::pop(class);
            return;
        }
        self.members.serve_first(&mut class, serve);
        if self.members.users.members(class.place).is_empty() {
            PeekMut::pop(class);
        }
    }

    /// Nshares that each seat got.
    pub(super) fn served(&self) -> impl Iterator<Item = (Participant, u64)> {
        self.members.of_jobs.iter().map(|OfJob { seat, served, .. }| (*seat, *served))
    }
}

impl Turn {
    /// The share that decides for an entity that has `has` and would get `order`.
    fn tag(self, has: u64, order: u64) -> u64 {
        match self {
            Turn::ByFinish => has + order,
            Turn::ByStart => has,
        }
    }
}

impl Members {
    /// Serves the first user of `class`.
    fn serve_first(
        &mut self,
        class: &mut Entry,
        serve: impl FnMut(&Participant, &DemandByOrder) -> Service,
    ) {
        let user = self.users.members(class.place)[0];
        // If jobs were removed here, the ranks must be computed anew before the next turn.
        if !self.dismiss(class.place, user.place()) {
            class.standing.served += self.serve_first_of_user(class.place, user.place(), serve);
        }
        match self.rank_of_user(user.place()) {
            Some(rank) => self.users.replace_first(class.place, rank),
            None => self.users.remove_first(class.place),
        }
        class.standing.next_order = self.next_order(class.place);
    }

    /// The rank of `user`; `None` if no job of the user is left.
    fn rank_of_user(&self, user: usize) -> Option<Rank> {
        let OfUser { has, held, .. } = self.of_users[user];
        let order = self.next_order_of_user(user)?;
        Some(Rank::new(self.turn.tag(has, order), order, has < held, user))
    }

    /// The order of the job of `user` that is served next.
    fn next_order_of_user(&self, user: usize) -> Option<u64> {
        let job = self.jobs.members(user).first()?;
        Some(self.of_jobs[job.place()].order())
    }

    /// The order of the job of `class` that is served next; 0 if none is left.
    fn next_order(&self, class: usize) -> u64 {
        let user = self.users.members(class).first();
        user.and_then(|user| self.next_order_of_user(user.place())).unwrap_or(0)
    }

    /// Serves the first job of `user`. Returns the amount that it got.
    fn serve_first_of_user(
        &mut self,
        class: usize,
        user: usize,
        mut serve: impl FnMut(&Participant, &DemandByOrder) -> Service,
    ) -> u64 {
        let job = self.jobs.members(user)[0];
        let of_job = &mut self.of_jobs[job.place()];
        let order = of_job.order();
        let service = serve(&of_job.seat, &self.demand);
        let gain = if service == Service::Served { order } else { 0 };
        if service == Service::Served {
            of_job.served += 1;
            self.of_users[user].has += gain;
            if 0 < of_job.left() {
                let rank = of_job.rank(self.turn, job.place());
                self.jobs.replace_first(user, rank);
                return gain;
            }
        } else if service == Service::RefusedForAll {
            self.of_classes[class].refused.push(order);
        }
        self.jobs.remove_first(user);
        self.demand.remove(order);
        self.of_classes[class].orders.remove(order);
        gain
    }

    /// Removes the jobs of `user` whose orders are refused to the whole class. Returns true if
    /// there were any.
    fn dismiss(&mut self, class: usize, user: usize) -> bool {
        let (refused, of_user) = (&self.of_classes[class].refused, &mut self.of_users[user]);
        if of_user.dismissed == refused.len() {
            return false;
        }
        of_user.dismissed = refused.len();
        self.dismiss_those(class, user, |seat, refused| refused.contains(&seat.order.qshares().0))
    }

    /// Removes the jobs of `user` for which `is_refused` is true, given the orders refused to their
    /// class. Returns true if there were any.
    fn dismiss_those(
        &mut self,
        class: usize,
        user: usize,
        is_refused: impl Fn(&Participant, &[u64]) -> bool,
    ) -> bool {
        let Members { of_classes, jobs, of_jobs, demand, .. } = self;
        let OfClass { orders, refused } = &mut of_classes[class];
        let is_refused = |of_job: &OfJob| is_refused(&of_job.seat, refused);
        if !jobs.members(user).iter().any(|job| is_refused(&of_jobs[job.place()])) {
            return false;
        }
        jobs.rank_anew(user, |job| {
            let of_job = of_jobs[job.place()];
            if is_refused(&of_job) {
                demand.remove(of_job.order());
                orders.remove(of_job.order());
                return None;
            }
            Some(job)
        });
        true
    }

    /// True if no job of `class` can be served any more.
    fn cannot_be_served(&self, class: usize) -> bool {
        let OfClass { orders, refused } = &self.of_classes[class];
        !refused.is_empty() && orders.iter().all(|order| refused.contains(&order))
    }
}

impl OfJob {
    fn order(&self) -> u64 {
        self.seat.order.qshares().0
    }

    /// Nshares that the job may still get.
    fn left(&self) -> u64 {
        self.seat.space_to_grow - self.served
    }

    /// Amount that the job has, in qshares.
    fn has(&self) -> u64 {
        self.had + self.served * self.order()
    }

    /// Rank of the job at `place`.
    fn rank(&self, turn: Turn, place: usize) -> Rank {
        let (has, order) = (self.has(), self.order());
        Rank::new(turn.tag(has, order), order, has < self.held, place)
    }
}

/// Rank of a class among the classes; the greatest is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    turn: Turn,
    served: u64,
    /// Amount that the class holds on nodes.
    held: u64,
    weight: u64,
    /// The order of the job that is served next.
    next_order: u64,
    /// Place of the class in the configuration: the lower, the earlier. Unique.
    seniority: ClassIx,
}

impl Standing {
    fn tag(&self) -> u64 {
        self.turn.tag(self.served, self.next_order)
    }

    fn is_incumbent(&self) -> bool {
        self.served < self.held
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Standing) -> Ordering {
        let mine = u128::from(self.tag()) * u128::from(other.weight);
        let theirs = u128::from(other.tag()) * u128::from(self.weight);
        (theirs.cmp(&mine))
            .then(self.next_order.cmp(&other.next_order))
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
