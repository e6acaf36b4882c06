//! Calendar of work that stays: when so many nodes are free, and for which gangs they are kept.
//!
//! The calendar counts nodes, and names none: nodes of a kind with the same windows are alike for
//! a gang. A reservation of such nodes is an interval, and intervals fit on nodes if at no moment
//! more nodes are needed than there are. Which nodes a gang gets is decided at its start.
//!
//! Work that can be preempted is not seen: it goes on until the last node is there.
//!
//! Design: requests and time, section 3.6.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::{Kinds, NodeKind};
use super::timeline::{NEVER, Timeline};
use super::windows::Stay;
use super::{Slot, Taker};
use crate::engine::draft::Draft;
use crate::engine::snapshot::Node;
use crate::model::{JobId, Millis, NodeIx, PoolIx, QShares, SharePhase, count, floor_div};

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
    /// Nodes that gangs of this cycle start on, and until when.
    starts: Vec<(NodeIx, Millis)>,
    /// Nodes that are kept for waiting gangs.
    bookings: Vec<Booking>,
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
    pub job: usize,
    pub group: CalendarGroup,
    pub nodes: u64,
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
            starts: Vec::new(),
            bookings: Vec::new(),
            next_end: None,
            overruns: BTreeMap::new(),
        })
    }

    /// True if nodes are kept for gangs.
    pub(super) fn has_bookings(&self) -> bool {
        !self.bookings.is_empty()
    }

    /// Number of gangs with a place in the calendar.
    pub(super) fn booked_gangs(&self) -> u64 {
        let mut jobs: Vec<usize> = self.bookings.iter().map(|booking| booking.job).collect();
        jobs.dedup();
        count(&jobs)
    }

    /// Group of a node.
    pub(super) fn group_of(&self, node: NodeIx) -> CalendarGroup {
        self.group_of[node.0]
    }

    /// The first gang for which nodes of `pool` are kept.
    pub(super) fn first_booked(&self, pool: PoolIx) -> Option<usize> {
        self.bookings.iter().filter(|it| it.group.0 == pool).map(|it| it.job).min()
    }

    /// Finds out when nodes are free for work with the rights of `taker`.
    pub(super) fn find_ends(&mut self, draft: &Draft<'_>, kinds: &Kinds, taker: Taker) {
        let snapshot = draft.snapshot;
        self.free_from = vec![self.now; snapshot.nodes.len()];
        if self.group_of.is_empty() {
            let group = |(ix, node): (NodeIx, &Node)| {
                (node.pool, kinds.of(ix.0), kinds.windows.list_of(ix.0))
            };
            self.group_of = snapshot.nodes_with_ix().map(group).collect();
        }
        self.next_end = None;
        self.overruns.clear();
        for (ix, node) in snapshot.nodes_with_ix() {
            if QShares(0) < node.limbo {
                self.free_from[ix.0] = NEVER;
            }
        }
        for job in 0..draft.jobs.len() {
            let shares = &draft.job(job).shares;
            if shares.is_empty() || taker.may_take_from(draft, job) {
                continue;
            }
            let end = self.end_of(draft, job);
            for share in shares {
                // A share that is leaving is soon gone.
                if share.state == SharePhase::Held {
                    let free = &mut self.free_from[share.node.0];
                    *free = (*free).max(end);
                }
            }
        }
        self.running_until.clone_from(&self.free_from);
        for promise in &snapshot.promises {
            let Some(job) = draft.place_of(promise.job) else { continue };
            if !taker.may_take_from(draft, job) {
                let end = self.stay_of(draft, job);
                let free = &mut self.free_from[promise.node.0];
                *free = (*free).max(end);
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
        for (node, until) in std::mem::take(&mut self.starts) {
            self.start_on(node, until);
        }
        for booking in std::mem::take(&mut self.bookings) {
            self.book(booking);
        }
    }

    /// Expected end of work that runs; [`NEVER`] if it is not known.
    fn end_of(&mut self, draft: &Draft<'_>, job: usize) -> Millis {
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

    /// End of the job at `job` if it starts now.
    pub(super) fn stay_of(&self, draft: &Draft<'_>, job: usize) -> Millis {
        length_of(draft, job).map_or(NEVER, |length| self.now.saturating_add(length))
    }

    /// Moment from which on a node is free of work that stays.
    pub(super) fn free_from(&self, node: NodeIx) -> Millis {
        self.free_from[node.0]
    }

    /// Takes a node for work that starts now and stays until `until`.
    pub(super) fn start_on(&mut self, node: NodeIx, until: Millis) {
        let from = self.free_from[node.0];
        if from < until {
            if let Some(time) = self.groups.get_mut(&self.group_of[node.0]) {
                time.all.take(from, until, 1);
                time.left.take(from, until, 1);
            }
            self.free_from[node.0] = until;
            self.note_moments(self.group_of[node.0].0, [until].into_iter());
        }
        self.starts.push((node, until));
    }

    /// Frees promised nodes of a gang for its own decision.
    pub(super) fn release(&mut self, node: NodeIx, until: Millis) {
        // Other work that stays there may keep the node as long; then nothing is given back.
        let running = self.running_until[node.0];
        if self.free_from[node.0] == until && running < until {
            let Some(time) = self.groups.get_mut(&self.group_of[node.0]) else { return };
            self.free_from[node.0] = running;
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
        self.bookings.push(booking);
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
        let of_pool = self.groups.keys().filter(|(of, ..)| *of == pool);
        let limit = GroupLimit { is_open: true, free: u64::MAX };
        of_pool.map(|&(_, kind, list)| ((kind, list), limit)).collect()
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
        let of_pool = self.groups.keys().filter(|(of, ..)| *of == pool);
        let limit = |group: &CalendarGroup| {
            let &(_, kind, list) = group;
            let is_open = !has_windows || kinds.windows.allow(list, stay);
            let fewest = |timeline: &Timeline| timeline.fewest(stay.from, stay.to);
            let free = self.timeline(group, part).filter(|_| is_open).map_or(0, fewest);
            ((kind, list), GroupLimit { is_open, free })
        };
        of_pool.map(limit).collect()
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
        let kinds = self.groups.keys().filter(|(of, ..)| *of == pool).map(|(_, kind, _)| *kind);
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

    /// True if work may start on these nodes and stay until `until` without delay of older gangs.
    pub(super) fn leaves_bookings(&self, slots: &[Slot], until: Millis) -> bool {
        let mut nodes: Vec<NodeIx> = slots.iter().map(|slot| slot.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut needed: BTreeMap<(CalendarGroup, Millis), u64> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| self.free_from[node.0] < until) {
            let group = self.group_of[node.0];
            *needed.entry((group, self.free_from[node.0])).or_default() += 1;
        }
        let mut left: BTreeMap<CalendarGroup, Timeline> = BTreeMap::new();
        needed.into_iter().all(|((group, from), nodes)| {
            let Some(time) = self.groups.get(&group) else { return false };
            let left = left.entry(group).or_insert_with(|| time.left.clone());
            let has_all = nodes <= left.fewest(from, until);
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
            let (node, from) = (NodeIx(place), self.free_from[place]);
            // Nodes that are free now are limited by their number.
            if group.0 != pool || until <= from || from <= self.now {
                continue;
            }
            let Some(time) = self.groups.get(&group) else { continue };
            let left = left.entry(group).or_insert_with(|| time.left.clone());
            if 0 < left.fewest(from, until) {
                left.take(from, until, 1);
            } else {
                spared.push(node);
            }
        }
        spared
    }

    /// Next moment at which work of this length no longer fits before an edge that it fits before
    /// now.
    pub(super) fn next_squeeze(&self, kinds: &Kinds, length: Millis) -> Option<Millis> {
        let bookings = self.bookings.iter().map(|booking| booking.from);
        let edges = bookings.chain(kinds.windows.edges(self.now));
        let end = self.now.saturating_add(length);
        edges.filter(|edge| end <= *edge).min().map(|edge| edge - length + 1)
    }
}

/// Longest run of the job at `job`, if it is known.
pub(super) fn length_of(draft: &Draft<'_>, job: usize) -> Option<Millis> {
    let declared = draft.job(job).shape.as_deref().and_then(|shape| shape.duration);
    draft.class_of(job).gangs.duration(declared)
}

/// A tenth.
const TEN: std::num::NonZeroU64 = std::num::NonZeroU64::new(10).expect("not zero");
