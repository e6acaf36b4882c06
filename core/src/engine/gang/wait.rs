//! Gangs that wait: the place of each in the calendar, and the reason why it waits.
//!
//! A gang starts as soon as so many nodes are free for all of its stay. Until then these nodes are
//! kept for it, from its expected start on: younger work may use them before. A gang without an
//! expected start claims nodes from now on.
//!
//! Design: requests and time, sections 3.4 and 3.6.

use std::collections::BTreeMap;

use super::calendar::{Booking, CalendarGroup, CalendarPart, GroupLimits, KeptSpace, length_of};
use super::fit::NodeBatch;
use super::kinds::NodeKind;
use super::node_time::CalendarSpot;
use super::planner::GangPlanner;
use super::request::GangRequest;
use super::supply::{PlacementSet, Stock};
use super::timeline::NEVER;
use super::windows::{Rights, StartTimes, Stay};
use crate::engine::capacity::EmptyCluster;
use crate::engine::draft::Draft;
use crate::engine::report::{CapBound, EstimateBasis, StartEstimate};
use crate::engine::target::NodeListCapacity;
use crate::engine::wait_reason::WaitReason;
use crate::model::{Elasticity, JobId, JobIx, Millis, Place, Window};

/// A place in the calendar.
struct Opening {
    /// Start.
    at: Millis,
    space: OpeningSpace,
}

/// Room of a place in the calendar.
enum OpeningSpace {
    /// Empty nodes of each group.
    Nodes(Vec<(CalendarGroup, u64)>),
    /// Amounts on nodes that other work shares.
    Shared(Vec<(CalendarSpot, u64)>),
}

impl GangPlanner {
    /// Finds out how long a request would stay, and what windows and the calendar leave for it.
    pub(super) fn set_stay(&self, draft: &Draft<'_>, request: &mut GangRequest<'_>) {
        let Some(calendar) = &self.calendar else { return };
        request.soonest = draft.soonest(request.job, calendar.now);
        request.until = calendar.stay_of(draft, request.job);
        let has_limits = calendar.has_bookings()
            || !draft.snapshot.windows.is_empty()
            || request.hours.is_some()
            || request.rights.reservation.is_some();
        request.limits = Some(if has_limits {
            self.limits(request, request.soonest, CalendarPart::Left, true)
        } else {
            // All nodes that are free now stay free.
            calendar.no_limits(request.pool)
        });
    }

    /// Limits of a request that starts at `from`.
    fn limits(
        &self,
        request: &GangRequest<'_>,
        from: Millis,
        part: CalendarPart,
        has_windows: bool,
    ) -> GroupLimits {
        let Some(calendar) = &self.calendar else { return GroupLimits::new() };
        let stay = Stay { from, to: request.end_from(from), rights: request.rights };
        let is_closed = request.hours.is_some_and(|hours| {
            !hours.iter().any(|(open, close)| *open <= from && stay.to <= *close)
        });
        if is_closed {
            return GroupLimits::new();
        }
        calendar.limits(&self.kinds, request.pool, stay, part, has_windows)
    }

    /// Succeeds if the job at `job` may start now and stay until `until`, by what its owner says of
    /// its time.
    pub(super) fn in_time(
        &self,
        draft: &Draft<'_>,
        job: JobIx,
        until: Millis,
    ) -> Result<(), WaitReason> {
        let Some(calendar) = &self.calendar else { return Ok(()) };
        let shape = draft.job(job).shape.as_deref();
        if let Some(opens) = shape.and_then(|shape| shape.not_before)
            && calendar.now < opens
        {
            return Err(WaitReason::TooEarly { opens });
        }
        match shape.and_then(|shape| shape.deadline) {
            Some(deadline) if deadline < until => {
                Err(WaitReason::DeadlineUnreachable { starts: None, deadline })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Keeps nodes for a gang that waits, and returns the reason why it waits.
    pub(super) fn wait(
        &mut self,
        (space, listed): (&mut EmptyCluster, &mut NodeListCapacity),
        draft: &mut Draft<'_>,
        request: &GangRequest<'_>,
        reason: WaitReason,
    ) -> WaitReason {
        let Some(calendar) = &self.calendar else {
            self.claim(draft, space, listed, request);
            return reason;
        };
        let reason = self.cause(draft, request, reason);
        let now = calendar.now;
        let depth = draft.snapshot.topology.settings.backfill_depth;
        if depth <= calendar.waiting_requests() {
            return reason;
        }
        let Some(opening) = self.opening(draft, request) else {
            // Only what waits for nodes claims some.
            if matches!(reason, WaitReason::GangLacks(_) | WaitReason::BehindOlderGang { .. }) {
                let first = self.claims.len();
                self.claim(draft, space, listed, request);
                self.book_claims(first);
            }
            return reason;
        };
        let to = request.end_from(opening.at);
        let deadline = draft.job(request.job).shape.as_deref().and_then(|shape| shape.deadline);
        if let Some(deadline) = deadline.filter(|deadline| *deadline < to) {
            return WaitReason::DeadlineUnreachable { starts: Some(opening.at), deadline };
        }
        let times = StartTimes::new(draft, &self.kinds.windows, request.job, now);
        draft.tell_start(request.job, opening.at, times.edges());
        let overrun = self.calendar.as_ref().and_then(|it| it.overruns.get(&request.pool).copied());
        if let Some(calendar) = &mut self.calendar {
            let (job, from) = (request.job, opening.at);
            match opening.space {
                OpeningSpace::Nodes(nodes) => {
                    for (group, nodes) in nodes {
                        calendar.book(Booking { job, group, nodes, from, to });
                    }
                }
                OpeningSpace::Shared(parts) => {
                    for (spot, amount) in parts {
                        calendar.keep(KeptSpace { job, spot, amount, from, to });
                    }
                }
            }
        }
        match (overrun, reason) {
            (Some(job), WaitReason::GangLacks(_)) => WaitReason::WaitsForOverrun { job },
            (_, reason) => reason,
        }
    }

    /// Keeps the nodes of the claims from `first` on, from the moment when they are free.
    fn book_claims(&mut self, first: usize) {
        let Some(calendar) = &mut self.calendar else { return };
        for claim in &self.claims[first..] {
            let (from, group) = (calendar.free_from(claim.node), calendar.group_of(claim.node));
            calendar.book(Booking { job: claim.job, group, nodes: 1, from, to: NEVER });
            calendar.keep_claim(claim.node, claim.amount);
        }
    }

    /// The first obstacle to a start now.
    pub(super) fn cause(
        &self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
        reason: WaitReason,
    ) -> WaitReason {
        let Some(calendar) = &self.calendar else { return reason };
        let in_time = self.in_time(draft, request.job, request.until);
        if let Err(early @ WaitReason::TooEarly { .. }) = in_time {
            return early;
        }
        if let Some(reason) = reservation_ahead(draft, request.rights, calendar.now) {
            return reason;
        }
        let to = request.until;
        if draft.snapshot.closes(draft.job(request.job).class, calendar.now, to) {
            let opens = draft.snapshot.opening(draft.job(request.job).class);
            return WaitReason::ClassClosed { opens };
        }
        let would_start = |part, has_windows| {
            let limits = self.limits(request, request.soonest, part, has_windows);
            let supply = (&*self.unclaimed[&request.pool], Some(&limits));
            request.domains().any(|set| self.test(supply, request, set, false).is_ok())
        };
        if would_start(CalendarPart::All, true) {
            let claimant = self.claimants.get(&request.pool).and_then(|jobs| jobs.first().copied());
            let booked = calendar.first_booked(request.pool);
            if let Some(job) = claimant.into_iter().chain(booked).min() {
                return WaitReason::BehindOlderGang { job: draft.jobs[job].id };
            }
        }
        let ahead = self.kinds.windows.next(calendar.now, request.until);
        match ahead.filter(|_| would_start(CalendarPart::All, false)) {
            Some(ahead) => {
                let needs = length_of(draft, request.job);
                WaitReason::WindowAhead { opens: ahead.from, needs }
            }
            None => reason,
        }
    }

    /// The earliest place in the calendar at which the request fits for all of its stay.
    fn opening(&mut self, draft: &Draft<'_>, request: &GangRequest<'_>) -> Option<Opening> {
        let shape = request.shape;
        // A moldable gang takes less from cycle to cycle.
        if shape.elasticity == Some(Elasticity::Moldable) {
            return None;
        }
        let shared = (!shape.is_exclusive).then(|| self.shared_opening(draft, request)).flatten();
        match shared {
            Some((at, parts)) => Some(Opening { at, space: OpeningSpace::Shared(parts) }),
            None => self.whole_opening(draft, request),
        }
    }

    /// The earliest place in the calendar on nodes that are empty.
    fn whole_opening(&self, draft: &Draft<'_>, request: &GangRequest<'_>) -> Option<Opening> {
        let calendar = self.calendar.as_ref()?;
        let not_before = draft.job(request.job).shape.as_deref().and_then(|it| it.not_before);
        let mut moments = calendar.moments(&self.kinds, request.pool);
        let opens = request.hours.iter().flat_map(|hours| hours.iter().map(|(open, _)| *open));
        moments.extend(opens.filter(|open| calendar.now < *open));
        moments.sort_unstable();
        moments.dedup();
        if let Some(not_before) = not_before.filter(|moment| calendar.now < *moment) {
            moments.retain(|moment| not_before < *moment);
            moments.insert(0, not_before);
        }
        let search = OpeningSearch::new(self, request, &moments);
        search.candidates().find_map(|at| {
            let limits = self.limits(request, at, CalendarPart::Left, true);
            request.domains().find_map(|set| {
                let (stock, kinds) = self.future_stock(request, &limits, set);
                let loads = request.fitting(&stock).assign().ok()?;
                let mut nodes: BTreeMap<CalendarGroup, u64> = BTreeMap::new();
                for load in loads {
                    let (kind, list) = kinds[load.group];
                    *nodes.entry((request.pool, kind, list)).or_default() += load.nodes;
                }
                Some(Opening { at, space: OpeningSpace::Nodes(nodes.into_iter().collect()) })
            })
        })
    }

    /// Whole nodes of each group that a request may have later.
    fn future_stock(
        &self,
        request: &GangRequest<'_>,
        limits: &GroupLimits,
        set: Option<&PlacementSet>,
    ) -> (Stock, Vec<(NodeKind, usize)>) {
        let least = request.pieces.iter().map(|piece| piece.size).min().unwrap_or(1);
        let (mut groups, mut kinds) = (Vec::new(), Vec::new());
        for (&(kind, list), limit) in limits {
            let tags = self.kinds.tags(kind);
            let is_in_set = set.is_none_or(|(key, value)| tags.get(key) == Some(value));
            let suits = request.suits.on(kind);
            if 0 < limit.free && least <= kind.order && is_in_set && !suits.is_empty() {
                groups.push(NodeBatch { nodes: limit.free, free: kind.order, suits });
                kinds.push((kind, list));
            }
        }
        (Stock::of(groups), kinds)
    }

    /// Notes the moments at which the same snapshot may be planned otherwise.
    pub(in crate::engine) fn note_moments(&self, draft: &mut Draft<'_>) {
        let Some(calendar) = self.calendar.as_ref().filter(|_| !self.lengths.is_empty()) else {
            return;
        };
        if let Some(end) = calendar.next_end {
            draft.change_expected_at(end);
        }
        // Work that is promised space is expected to end that much later, the later it starts.
        if draft.snapshot.promises.iter().any(|it| is_staying(draft, it.job)) {
            draft.change_expected_at(calendar.now + 1);
        }
        for length in self.lengths.iter().flatten() {
            let hours = draft.snapshot.hours.values().flatten().map(|(_, close)| *close);
            let closing = hours.filter(|close| calendar.now.saturating_add(*length) <= *close);
            let closing = closing.min().map(|close| close - length + 1);
            let squeeze = calendar.next_squeeze(&self.kinds, *length);
            for moment in squeeze.into_iter().chain(closing) {
                draft.change_expected_at(moment);
            }
        }
    }
}

impl Draft<'_> {
    /// Notes the expected start of a job that waits. At each of `edges`, a window or class opens.
    pub(super) fn tell_start(&mut self, job: JobIx, at: Millis, edges: &[Millis]) {
        self.change_expected_at(at);
        let is_edge = edges.binary_search(&at).is_ok();
        let basis = if is_edge { EstimateBasis::Window } else { EstimateBasis::DeclaredEnds };
        self.start_estimates.insert(job, StartEstimate { at, basis });
    }

    /// Notes the expected starts of work for which space is made before its reservation opens.
    pub(in crate::engine) fn tell_openings(&mut self) {
        let reserved: Vec<JobIx> = self.reserved.keys().copied().collect();
        for job in reserved {
            let is_counted = self.jobs[job].held < self.jobs[job].target;
            if let Some(opens) = self.opening_of(job).filter(|_| is_counted) {
                self.tell_start(job, opens, &[opens]);
            }
        }
    }

    /// True if the job at `job` runs or ran longer than it declared, and is over.
    pub(in crate::engine) fn is_overrun(&self, job: JobIx) -> bool {
        self.jobs[job].demand.cap.bound == CapBound::Overrun
    }

    /// Notes the moments at which a job that waits, and would end at `until`, may start by what its
    /// owner says, and no longer may.
    pub(super) fn note_times(&mut self, job: JobIx, until: Millis) {
        let Some(now) = self.snapshot.now else { return };
        let shape = self.job(job).shape.as_deref();
        let opens = shape.and_then(|shape| shape.not_before).filter(|opens| now < *opens);
        let spare = shape.and_then(|shape| shape.deadline?.checked_sub(until));
        let last_start = spare.map(|spare| now.saturating_add(spare));
        for moment in opens.into_iter().chain(last_start.map(|last| last.saturating_add(1))) {
            self.change_expected_at(moment);
        }
    }
}

/// The reason to wait for the opening of the reservation that a request names.
pub(super) fn reservation_ahead(
    draft: &Draft<'_>,
    rights: Rights<'_>,
    now: Millis,
) -> Option<WaitReason> {
    let name = rights.reservation?;
    let mut windows = draft.snapshot.windows.iter().map(|it| &it.window);
    let own = windows.find(|window| window.name == *name);
    let is_ahead = own.is_none_or(|own| now < own.from);
    is_ahead.then(|| WaitReason::ReservationAhead { opens: own.map(|own| own.from) })
}

/// Looks for moments from which on each chunk by itself has enough nodes for all of the stay.
struct OpeningSearch<'m> {
    moments: &'m [Millis],
    /// For each chunk, the nodes that it needs and the nodes that are free at each moment.
    chunks: Vec<(i64, Vec<i64>)>,
    /// Length of the stay; `None` if it is not known.
    length: Option<Millis>,
}

impl<'m> OpeningSearch<'m> {
    fn new(
        planner: &GangPlanner,
        request: &GangRequest<'_>,
        moments: &'m [Millis],
    ) -> OpeningSearch<'m> {
        let (kinds, shape) = (&planner.kinds, request.shape);
        let calendar = planner.calendar.as_ref();
        let chunks = request.pieces.iter().zip(&shape.chunks).filter_map(|(piece, chunk)| {
            let suits =
                |kind: NodeKind| piece.size <= kind.order && kinds.tags(kind).satisfy(&chunk.tags);
            let most = calendar.map_or(1, |it| it.largest_node(request.pool, suits));
            let each = match shape.place {
                Place::Scatter => 1,
                Place::Free => most.checked_div(piece.size).unwrap_or(1).max(1),
                Place::Pack => piece.count.max(1),
            };
            let needed = i64::try_from(piece.count.div_ceil(each)).unwrap_or(i64::MAX);
            Some((needed, calendar?.left_at(moments, request.pool, suits)))
        });
        let length = (request.until < NEVER).then(|| request.until - request.soonest);
        OpeningSearch { moments, chunks: chunks.collect(), length }
    }

    /// Moments at which a start may be possible, ascending.
    fn candidates(&self) -> impl Iterator<Item = Millis> {
        let mut place = 0;
        std::iter::from_fn(move || {
            while let Some(&at) = self.moments.get(place) {
                let end = self.length.map_or(NEVER, |length| at.saturating_add(length));
                let past = self.moments.partition_point(|moment| *moment < end).max(place + 1);
                // The last moment of the stay at which a chunk has too few nodes.
                let is_short = |moment: &usize| {
                    self.chunks.iter().any(|(needed, left)| left[*moment] < *needed)
                };
                let Some(last) = (place..past).rev().find(is_short) else {
                    place += 1;
                    return Some(at);
                };
                place = last + 1;
            }
            None
        })
    }
}

/// Notes the moments at which windows and classes open and close, at which notices begin, at which
/// work is ended that runs longer than it declared, and at which jobs may start by their owners' word.
pub(in crate::engine) fn note_windows(draft: &mut Draft<'_>) {
    let Some(now) = draft.snapshot.now else { return };
    let notice = draft.snapshot.topology.settings.notice;
    let edges = |window: &Window| [window.from.saturating_sub(notice), window.from, window.to];
    let windows = draft.snapshot.windows.iter().flat_map(|it| edges(&it.window));
    let hours = draft.snapshot.hours.values().flatten();
    let hours = hours.flat_map(|(open, close)| [*open, close.saturating_sub(notice), *close]);
    let edges: Vec<Millis> = windows.chain(hours).filter(|edge| now < *edge).collect();
    let ends = draft.snapshot.jobs.iter().filter_map(|job| draft.snapshot.forced_end(job));
    let starts = draft.snapshot.jobs.iter().filter_map(|job| draft.snapshot.later_start(job));
    let turns: Vec<Millis> = ends.chain(starts).filter(|moment| now < *moment).collect();
    for edge in edges.into_iter().chain(turns) {
        draft.change_expected_at(edge);
    }
}

/// True if the job exists and cannot be preempted.
fn is_staying(draft: &Draft<'_>, job: JobId) -> bool {
    let place = draft.place_of(job);
    place.is_some_and(|place| !draft.class_of(place).policy.is_preemptable())
}
