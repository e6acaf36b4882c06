//! Calendar of work that stays: when nodes are free, and for which requests they are kept.
//!
//! For gangs that share no node the calendar counts nodes, and names none: nodes of a kind with the
//! same windows are alike. A booking of such nodes is an interval, and intervals fit on nodes if at
//! no moment more nodes are needed than there are. Which nodes a gang gets is decided at its start.
//!
//! A request that shares nodes has a place on a node: an amount for a time. To the count, a node
//! with places is in use from now until the last place ends. A place that begins on an empty node is
//! on a node without a name, which counts for as long as its places.
//!
//! Work that can be preempted is not seen: it goes on until the last node is there.
//!
//! Design: requests and time, section 3.6.

use std::collections::{BTreeMap, BTreeSet};

use super::Taker;
use super::kinds::{Kinds, NodeKind};
use super::node_time::{CalendarSpot, NodeTime};
use super::timeline::{NEVER, Timeline};
use super::windows::Stay;
use crate::engine::draft::Draft;
use crate::engine::snapshot::Node;
use crate::model::{JobId, JobIx, Millis, NodeIx, PoolIx, QShares, SharePhase, count, floor_div};

/// Shortest time by which the expected end of work moves that runs longer than declared.
const LEAST_OVERRUN: Millis = 60_000;

/// Nodes that are alike: pool, kind, and list of windows.
pub(super) type CalendarGroup = (PoolIx, NodeKind, usize);

/// Free nodes over time, as far as work that stays decides.
#[derive(Debug)]
pub(super) struct Calendar {
    pub(super) now: Millis,
    groups: BTreeMap<CalendarGroup, GroupTime>,
    /// Group of each node.
    group_of: Vec<CalendarGroup>,
    /// Moments after now at which nodes of a pool become free or in use.
    moments: BTreeMap<PoolIx, BTreeSet<Millis>>,
    /// First moment at which each node is free of work that stays.
    free_from: Vec<Millis>,
    /// The same for work that runs, without promises.
    running_until: Vec<Millis>,
    /// Space of each node over time, by its place, and then of nodes without a name.
    nodes: Vec<NodeTime>,
    /// Nodes that work of this cycle starts on, the amount, and until when.
    starts: Vec<(NodeIx, u64, Millis)>,
    /// Nodes that are kept for waiting gangs.
    bookings: Vec<Booking>,
    /// Space of nodes that is kept for waiting requests.
    places: Vec<KeptSpace>,
    /// Jobs with a place in the calendar.
    waiting: BTreeSet<JobIx>,
    /// Next moment at which work that stays is expected to end.
    pub(super) next_end: Option<Millis>,
    /// The first job that runs longer than it declared, by pool.
    pub(super) overruns: BTreeMap<PoolIx, JobId>,
}

/// Free nodes of a group over time.
#[derive(Clone, Debug)]
struct GroupTime {
    /// Without regard to waiting gangs.
    all: Timeline,
    /// Less what is kept for waiting gangs.
    left: Timeline,
}

/// Nodes of a group that are kept for a waiting gang.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booking {
    /// Place of the gang in the snapshot.
    pub job: JobIx,
    pub group: CalendarGroup,
    pub nodes: u64,
    pub from: Millis,
    pub to: Millis,
}

/// Space of a node that is kept for a waiting request.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptSpace {
    /// Place of the job in the snapshot.
    pub job: JobIx,
    pub spot: CalendarSpot,
    pub amount: u64,
    pub from: Millis,
    pub to: Millis,
}

/// Part of a group that a gang may start on.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupLimit {
    /// False if windows forbid the nodes.
    pub is_open: bool,
    /// Most nodes that may be taken of the nodes without work that stays.
    pub free: u64,
}

/// Limits of all groups of a pool.
pub(super) type GroupLimits = BTreeMap<(NodeKind, usize), GroupLimit>;

/// Part of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalendarPart {
    /// All free nodes.
    All,
    /// Free nodes that are not kept for older gangs.
    Left,
}

impl Calendar {
    /// The calendar before any decision of a cycle; `None` if nothing depends on the time.
    pub(super) fn new(draft: &Draft<'_>) -> Option<Calendar> {
        Some(Calendar {
            now: draft.snapshot.now?,
            groups: BTreeMap::new(),
            group_of: Vec::new(),
            moments: BTreeMap::new(),
            free_from: Vec::new(),
            running_until: Vec::new(),
            nodes: Vec::new(),
            starts: Vec::new(),
            bookings: Vec::new(),
            places: Vec::new(),
            waiting: BTreeSet::new(),
            next_end: None,
            overruns: BTreeMap::new(),
        })
    }

    /// True if nodes, or space of nodes, are kept for waiting requests.
    pub(super) fn has_bookings(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Number of requests with a place in the calendar.
    pub(super) fn waiting_requests(&self) -> u64 {
        count(&self.waiting)
    }

    /// Group of a node.
    pub(super) fn group_of(&self, node: NodeIx) -> CalendarGroup {
        self.group_of[node.0]
    }

    /// The first job for which nodes of `pool` are kept.
    pub(super) fn first_booked(&self, pool: PoolIx) -> Option<JobIx> {
        let bookings = self.bookings.iter().filter(|it| it.group.0 == pool).map(|it| it.job);
        let places = self.places.iter().filter(|it| self.group_at(it.spot).0 == pool);
        bookings.chain(places.map(|it| it.job)).min()
    }

    /// Group of the node at `spot`.
    pub(super) fn group_at(&self, spot: CalendarSpot) -> CalendarGroup {
        match spot {
            CalendarSpot::Node(place) => self.nodes[place].group,
            CalendarSpot::Whole(group) => group,
        }
    }

    /// Space of each node over time, by its place, and then of nodes without a name.
    pub(super) fn nodes(&self) -> &[NodeTime] {
        &self.nodes
    }

    /// Finds out when nodes are free for work with the rights of `taker`.
    pub(super) fn find_ends(&mut self, draft: &Draft<'_>, kinds: &Kinds, taker: Taker) {
        let (snapshot, now) = (draft.snapshot, self.now);
        self.free_from = vec![now; snapshot.nodes.len()];
        if self.group_of.is_empty() {
            let group = |(ix, node): (NodeIx, &Node)| {
                (node.pool, kinds.of(ix.0), kinds.windows.list_of(ix.0))
            };
            self.group_of = snapshot.nodes_with_ix().map(group).collect();
        }
        self.next_end = None;
        self.overruns.clear();
        let groups = self.group_of.iter().zip(snapshot.nodes.iter());
        self.nodes = groups.map(|(group, node)| NodeTime::new(*group, node.order.0, now)).collect();
        for (ix, node) in snapshot.nodes_with_ix() {
            if QShares(0) < node.limbo {
                self.use_node(ix, node.limbo.0, NEVER);
            }
        }
        for job in draft.jobs.places() {
            let shares = &draft.job(job).shares;
            if shares.is_empty() || draft.is_overrun(job) || taker.may_take_from(draft, job) {
                continue;
            }
            let end = self.end_of(draft, job);
            for share in shares {
                // A share that is leaving is soon gone.
                if share.state == SharePhase::Held {
                    self.use_node(share.node, share.order.qshares().0, end);
                }
            }
        }
        self.running_until.clone_from(&self.free_from);
        for promise in &snapshot.promises {
            let Some(job) = draft.place_of(promise.job) else { continue };
            if !taker.may_take_from(draft, job) {
                let end = self.stay_of(draft, job);
                self.use_node(promise.node, promise.order.qshares().0, end);
            }
        }
        self.groups.clear();
        self.moments.clear();
        let mut free: BTreeMap<CalendarGroup, Vec<Millis>> = BTreeMap::new();
        for (ix, _) in snapshot.nodes_with_ix().filter(|(_, node)| node.state.is_up()) {
            free.entry(self.group_of[ix.0]).or_default().push(self.free_from[ix.0]);
        }
        for (group, mut free) in free {
            free.sort_unstable();
            self.note_moments(group.0, free.iter().copied());
            let all = Timeline::of(self.now, &free);
            self.groups.insert(group, GroupTime { left: all.clone(), all });
        }
        for (node, amount, until) in std::mem::take(&mut self.starts) {
            self.start_on(node, amount, until);
        }
        for booking in std::mem::take(&mut self.bookings) {
            self.book(booking);
        }
        for place in std::mem::take(&mut self.places) {
            self.keep(place);
        }
    }

    /// Notes that `amount` of a node is in use until `until`.
    fn use_node(&mut self, node: NodeIx, amount: u64, until: Millis) {
        let free = &mut self.free_from[node.0];
        *free = (*free).max(until);
        self.nodes[node.0].use_until(self.now, amount, until);
    }

    /// Expected end of work that runs; [`NEVER`] if it is not known.
    fn end_of(&mut self, draft: &Draft<'_>, job: JobIx) -> Millis {
        let Some(length) = length_of(draft, job) else { return NEVER };
        let Some(started) = draft.job(job).gang.started else { return NEVER };
        let end = started.saturating_add(length);
        let next = if end <= self.now { self.now + 1 } else { end };
        self.next_end = Some(self.next_end.map_or(next, |known| known.min(next)));
        if self.now < end {
            return end;
        }
        let pool = draft.class_of(job).pool;
        self.overruns.entry(pool).or_insert(draft.jobs[job].id);
        self.now.saturating_add(LEAST_OVERRUN.max(floor_div(length, TEN)))
    }

    /// End of the job at `job` if it gets nodes now.
    pub(super) fn stay_of(&self, draft: &Draft<'_>, job: JobIx) -> Millis {
        let from = draft.soonest(job, self.now);
        length_of(draft, job).map_or(NEVER, |length| from.saturating_add(length))
    }

    /// Moment from which on a node is free of work that stays.
    pub(super) fn free_from(&self, node: NodeIx) -> Millis {
        self.free_from[node.0]
    }

    /// Takes `amount` of a node for work that starts now and stays until `until`.
    pub(super) fn start_on(&mut self, node: NodeIx, amount: u64, until: Millis) {
        let (from, kept_until) = (self.free_from[node.0], self.nodes[node.0].until);
        if from < until {
            if let Some(time) = self.groups.get_mut(&self.group_of[node.0]) {
                time.all.take(from, until, 1);
                time.left.take(kept_until, until, 1);
            }
            self.note_moments(self.group_of[node.0].0, [until].into_iter());
        }
        self.use_node(node, amount, until);
        self.starts.push((node, amount, until));
    }

    /// Frees a promised `amount` of a node for the decision on its own gang.
    pub(super) fn release(&mut self, node: NodeIx, amount: u64, until: Millis) {
        self.nodes[node.0].space.give(self.now, until, amount);
        // Other work that stays there may keep the node as long; then the node is not free sooner.
        let running = self.running_until[node.0];
        let is_last = self.free_from[node.0] == until && self.nodes[node.0].until == until;
        if is_last && running < until {
            let Some(time) = self.groups.get_mut(&self.group_of[node.0]) else { return };
            self.free_from[node.0] = running;
            self.nodes[node.0].until = running;
            time.all.give(running, until, 1);
            time.left.give(running, until, 1);
        }
    }

    /// Keeps nodes for a waiting gang.
    pub(super) fn book(&mut self, booking: Booking) {
        if let Some(time) = self.groups.get_mut(&booking.group) {
            time.left.take(booking.from, booking.to, booking.nodes);
        }
        self.note_moments(booking.group.0, [booking.from, booking.to].into_iter());
        self.waiting.insert(booking.job);
        self.bookings.push(booking);
    }

    /// Keeps space of a node for a waiting request.
    pub(super) fn keep(&mut self, place: KeptSpace) {
        let KeptSpace { job, spot, amount, from, to } = place;
        let group = self.group_at(spot);
        let node = match spot {
            CalendarSpot::Node(node) => node,
            CalendarSpot::Whole((_, kind, _)) => {
                self.nodes.push(NodeTime::without_name(group, kind.order, from));
                self.nodes.len() - 1
            }
        };
        let node = &mut self.nodes[node];
        if let Some(time) = self.groups.get_mut(&group).filter(|_| node.until < to) {
            time.left.take(node.until, to, 1);
        }
        node.keep(amount, from, to);
        self.note_moments(group.0, [from, to].into_iter());
        self.waiting.insert(job);
        self.places.push(place);
    }

    /// Keeps a node from work that shares nodes, for a gang without an expected start.
    pub(super) fn keep_claim(&mut self, node: NodeIx, amount: u64) {
        self.nodes[node.0].space.take(self.now, NEVER, amount);
    }

    fn timeline(&self, group: &CalendarGroup, part: CalendarPart) -> Option<&Timeline> {
        let time = self.groups.get(group)?;
        Some(match part {
            CalendarPart::All => &time.all,
            CalendarPart::Left => &time.left,
        })
    }

    /// Limits that forbid nothing.
    pub(super) fn no_limits(&self, pool: PoolIx) -> GroupLimits {
        let limit = GroupLimit { is_open: true, free: u64::MAX };
        self.groups_of(pool).map(|(_, kind, list)| ((kind, list), limit)).collect()
    }

    /// Limits of a gang that stays so long on nodes of `pool`. `has_windows` is false if windows do
    /// not matter.
    pub(super) fn limits(
        &self,
        kinds: &Kinds,
        pool: PoolIx,
        stay: Stay<'_>,
        part: CalendarPart,
        has_windows: bool,
    ) -> GroupLimits {
        let limit = |group: CalendarGroup| {
            let (_, kind, list) = group;
            let is_open = !has_windows || kinds.windows.allow(list, stay);
            let least = |timeline: &Timeline| timeline.least(stay.from, stay.to);
            let free = self.timeline(&group, part).filter(|_| is_open).map_or(0, least);
            ((kind, list), GroupLimit { is_open, free })
        };
        self.groups_of(pool).map(limit).collect()
    }

    /// Moments after now at which a gang of `pool` may be able to start, ascending.
    pub(super) fn moments(&self, kinds: &Kinds, pool: PoolIx) -> Vec<Millis> {
        let changes = self.moments.get(&pool).into_iter().flatten().copied();
        let edges = kinds.windows.edges(self.now);
        if edges.is_empty() {
            return changes.collect();
        }
        let mut moments: Vec<Millis> = changes.chain(edges).collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// Size of the largest nodes of a pool that are meant, in qshares.
    pub(super) fn largest_node(&self, pool: PoolIx, is_meant: impl Fn(NodeKind) -> bool) -> u64 {
        let kinds = self.groups_of(pool).map(|(_, kind, _)| kind);
        kinds.filter(|kind| is_meant(*kind)).map(|kind| kind.order).max().unwrap_or(0)
    }

    fn note_moments(&mut self, pool: PoolIx, moments: impl Iterator<Item = Millis>) {
        let later = moments.filter(|moment| self.now < *moment && *moment < NEVER);
        self.moments.entry(pool).or_default().extend(later);
    }

    /// Free nodes of some groups together at each of `moments`, less what is kept for gangs.
    pub(super) fn left_at(
        &self,
        moments: &[Millis],
        pool: PoolIx,
        is_meant: impl Fn(NodeKind) -> bool,
    ) -> Vec<i64> {
        let mut all = vec![0_i64; moments.len()];
        let groups = self.groups.iter().filter(|((of, kind, _), _)| *of == pool && is_meant(*kind));
        for (_, time) in groups {
            let steps = time.left.steps();
            let mut at = 0;
            for (moment, sum) in moments.iter().zip(&mut all) {
                while steps.get(at + 1).is_some_and(|(from, _)| from <= moment) {
                    at += 1;
                }
                *sum += steps[at].1.max(0);
            }
        }
        all
    }

    /// True if work may start on these nodes and stay until `until` without delay of older requests.
    pub(super) fn leaves_bookings(&self, amounts: &[(NodeIx, u64)], until: Millis) -> bool {
        let has_space = |(node, amount): &(NodeIx, u64)| {
            let node = &self.nodes[node.0];
            node.until <= self.now || *amount <= node.space.least(self.now, until)
        };
        let nodes = amounts.iter().map(|(node, _)| CalendarSpot::Node(node.0));
        amounts.iter().all(has_space) && self.leaves_nodes(nodes, self.now, until)
    }

    /// True if a request may be at `spots` from `from` until `until`, as far as nodes are counted.
    pub(super) fn leaves_nodes(
        &self,
        spots: impl Iterator<Item = CalendarSpot>,
        from: Millis,
        until: Millis,
    ) -> bool {
        let mut needed: BTreeMap<(CalendarGroup, Millis), u64> = BTreeMap::new();
        for spot in spots {
            let from = match spot {
                CalendarSpot::Node(node) => self.nodes[node].until,
                CalendarSpot::Whole(_) => from,
            };
            if from < until {
                *needed.entry((self.group_at(spot), from)).or_default() += 1;
            }
        }
        let mut left: BTreeMap<CalendarGroup, Timeline> = BTreeMap::new();
        let is_single = needed.len() == 1;
        needed.into_iter().all(|((group, from), nodes)| {
            let Some(time) = self.groups.get(&group) else { return false };
            if is_single {
                return nodes <= time.left.least(from, until);
            }
            let left = left.entry(group).or_insert_with(|| time.left.clone());
            let has_all = nodes <= left.least(from, until);
            left.take(from, until, nodes);
            has_all
        })
    }

    /// The nodes of `pool` on which other work ends before `until` and that work until `until` must
    /// not use, so that the rest is never too much.
    pub(super) fn nodes_to_spare(&self, pool: PoolIx, until: Millis) -> Vec<NodeIx> {
        let mut left: BTreeMap<CalendarGroup, Timeline> = BTreeMap::new();
        let mut spared = Vec::new();
        for (place, &group) in self.group_of.iter().enumerate() {
            let (node, from) = (NodeIx(place), self.nodes[place].until);
            // Nodes that are free now are limited by their number.
            if group.0 != pool || until <= from || from <= self.now {
                continue;
            }
            let Some(time) = self.groups.get(&group) else { continue };
            let left = left.entry(group).or_insert_with(|| time.left.clone());
            if 0 < left.least(from, until) {
                left.take(from, until, 1);
            } else {
                spared.push(node);
            }
        }
        spared
    }

    /// Free nodes of a group over time, less what is kept for waiting requests.
    pub(super) fn left(&self, group: &CalendarGroup) -> Option<&Timeline> {
        self.timeline(group, CalendarPart::Left)
    }

    /// Groups of a pool.
    pub(super) fn groups_of(&self, pool: PoolIx) -> impl Iterator<Item = CalendarGroup> {
        self.groups.keys().copied().filter(move |(of, ..)| *of == pool)
    }

    /// Next moment at which work of this length no longer fits before an edge that it fits before
    /// now.
    pub(super) fn next_squeeze(&self, kinds: &Kinds, length: Millis) -> Option<Millis> {
        let bookings = self.bookings.iter().map(|booking| booking.from);
        let places = self.places.iter().map(|place| place.from);
        let edges = bookings.chain(places).chain(kinds.windows.edges(self.now));
        let end = self.now.saturating_add(length);
        edges.filter(|edge| end <= *edge).min().map(|edge| edge - length + 1)
    }
}

/// Longest run of the job at `job`, if it is known.
pub(super) fn length_of(draft: &Draft<'_>, job: JobIx) -> Option<Millis> {
    let declared = draft.job(job).shape.as_deref().and_then(|shape| shape.duration);
    draft.class_of(job).gangs.duration(declared)
}

/// A tenth.
const TEN: std::num::NonZeroU64 = std::num::NonZeroU64::new(10).expect("not zero");
