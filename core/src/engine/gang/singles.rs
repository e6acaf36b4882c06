//! Single requests of work that stays, where time decides: the node of each is chosen when the job is
//! counted, so that no older request starts later, and no window is in the way.
//!
//! A request that waits has a place in the calendar: space of a node from a moment on. Younger
//! requests leave it free.

use std::collections::{BTreeMap, BTreeSet};

use super::calendar::{KeptSpace, length_of};
use super::kinds::NodeKind;
use super::node_time::{CalendarSpot, first_start};
use super::planner::GangPlanner;
use super::shared_gangs::LOOKS;
use super::timeline::NEVER;
use super::wait::reservation_ahead;
use super::windows::{Rights, StartTimes};
use crate::engine::draft::Draft;
use crate::engine::target::orders_that_suit;
use crate::engine::wait_reason::WaitReason;
use crate::model::{ClassIx, ClassPolicy, JobIx, JobKind, Millis, NodeIx, count};

/// Nodes that the calendar leaves for single requests.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct CalendarLeaves {
    /// Nodes of each request of work that stays, by the place of its job.
    nodes: BTreeMap<JobIx, BTreeSet<NodeIx>>,
    /// Places of jobs that the calendar does not concern: gangs, and work that can be preempted.
    free: BTreeSet<JobIx>,
}

impl CalendarLeaves {
    /// Before any request is counted.
    pub(in crate::engine) fn new(draft: &Draft<'_>) -> CalendarLeaves {
        let is_free =
            |job: &JobIx| draft.jobs[*job].is_gang || draft.class_of(*job).policy.is_preemptable();
        let free = draft.jobs.places().filter(is_free).collect();
        CalendarLeaves { nodes: BTreeMap::new(), free }
    }

    /// True if the job may use the node.
    pub(in crate::engine) fn leave(&self, job: JobIx, node: NodeIx) -> bool {
        self.free.contains(&job) || self.nodes.get(&job).is_some_and(|nodes| nodes.contains(&node))
    }
}

/// Requests that may use the same nodes for as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EqualSingle {
    class: ClassIx,
    kind: JobKind,
    amount: u64,
    length: Option<Millis>,
}

impl EqualSingle {
    /// The request of the job at `job`; `None` if it names nodes or a reservation.
    fn of(draft: &Draft<'_>, job: JobIx, amount: u64) -> Option<EqualSingle> {
        let is_plain =
            !draft.jobs[job].is_restricted && Rights::of(draft, job).reservation.is_none();
        is_plain.then(|| EqualSingle {
            class: draft.job(job).class,
            kind: draft.jobs[job].kind,
            amount,
            length: length_of(draft, job),
        })
    }
}

impl GangPlanner {
    /// True if nodes are chosen for single requests when they are counted.
    pub(in crate::engine) fn chooses_nodes(&self) -> bool {
        self.calendar.is_some()
    }

    /// Nodes that the job at `job` was promised and may still use. It keeps them.
    pub(in crate::engine) fn promised_nodes(
        &self,
        draft: &mut Draft<'_>,
        job: JobIx,
    ) -> Vec<NodeIx> {
        let Some(calendar) = &self.calendar else { return Vec::new() };
        let times = StartTimes::new(draft, &self.kinds.windows, job, calendar.now);
        let id = draft.jobs[job].id;
        let promises = draft.snapshot.promises.iter().filter(|promise| promise.job == id);
        let nodes = promises.map(|promise| promise.node).filter(|node| {
            // Time goes by: a window may be too near by now.
            let (_, _, list) = calendar.group_of(*node);
            draft.spaces.is_schedulable(*node) && times.allow_now(list)
        });
        let nodes: Vec<NodeIx> = nodes.collect();
        if let Some(leaves) = &mut draft.leaves {
            leaves.nodes.entry(job).or_default().extend(&nodes);
        }
        nodes
    }

    /// A node for another process of `amount` qshares of the job at `job`.
    pub(in crate::engine) fn node_for(
        &mut self,
        draft: &Draft<'_>,
        job: JobIx,
        amount: u64,
    ) -> Option<NodeIx> {
        let alike = EqualSingle::of(draft, job, amount);
        // Space only shrinks until the next priority, so equal requests find no more.
        if alike.as_ref().is_some_and(|alike| self.refused.contains(alike)) {
            return None;
        }
        let node = self.find_node(draft, job, amount);
        if node.is_none() {
            self.refused.extend(alike);
        }
        node
    }

    fn find_node(&mut self, draft: &Draft<'_>, job: JobIx, amount: u64) -> Option<NodeIx> {
        let calendar = self.calendar.as_ref()?;
        let class = draft.class_of(job);
        let until = calendar.stay_of(draft, job);
        if draft.snapshot.closes(draft.job(job).class, calendar.now, until)
            || self.in_time(draft, job, until).is_err()
        {
            return None;
        }
        let looks = count(calendar.nodes());
        let is_plain =
            class.policy != ClassPolicy::Reserve && draft.jobs[job].kind != JobKind::Service;
        if is_plain && calendar.has_bookings() && self.looks < LOOKS {
            self.looks += looks;
            return self.fullest_node(draft, job, amount);
        }
        let supply = self.supply.get(&class.pool)?;
        let may_use = self.may_start(draft, job, amount);
        // A service spreads over nodes before it stacks.
        let service = draft.job(job).service;
        let is_apart = |node: &NodeIx| {
            let known = draft.services.get(&service).into_iter().chain(self.services.get(&service));
            draft.jobs[job].kind != JobKind::Service || known.flatten().all(|other| other != node)
        };
        supply
            .best_fit(amount, |node| may_use(node) && is_apart(&node))
            .or_else(|| supply.best_fit(amount, &may_use))
    }

    /// Of the nodes with space now, and else of all nodes, the node that is fullest during the stay,
    /// places of waiting requests included.
    fn fullest_node(&self, draft: &Draft<'_>, job: JobIx, amount: u64) -> Option<NodeIx> {
        let calendar = self.calendar.as_ref()?;
        let pool = draft.class_of(job).pool;
        let supply = self.supply.get(&pool)?;
        let until = calendar.stay_of(draft, job);
        let may_use = self.may_start(draft, job, amount);
        let mut best: Option<(bool, u64, bool, NodeKind, NodeIx)> = None;
        for (place, node) in calendar.nodes().iter().enumerate() {
            let (name, (_, kind, _)) = (NodeIx(place), node.group);
            if node.is_unnamed || node.group.0 != pool {
                continue;
            }
            let space = supply.space(name);
            let free = node.space.least(calendar.now, until).min(space.available);
            let key = (space.usable < amount, free, free == kind.order, kind, name);
            let is_better = amount <= free && best.is_none_or(|best| key < best);
            if is_better && may_use(name) {
                best = Some(key);
            }
        }
        best.map(|(.., name)| name)
    }

    /// True for the nodes on which a process of `amount` qshares of the job at `job` may start now,
    /// as far as windows, lists and older requests decide.
    fn may_start<'p>(
        &'p self,
        draft: &'p Draft<'_>,
        job: JobIx,
        amount: u64,
    ) -> impl Fn(NodeIx) -> bool + 'p {
        let class = draft.class_of(job);
        let whole = (class.policy == ClassPolicy::Reserve).then(|| orders_that_suit(draft, job));
        let calendar = self.calendar.as_ref();
        let times = calendar.map(|it| StartTimes::new(draft, &self.kinds.windows, job, it.now));
        let supply = self.supply.get(&class.pool);
        move |node: NodeIx| {
            let Some(((calendar, times), supply)) = calendar.zip(times.as_ref()).zip(supply) else {
                return false;
            };
            let (_, _, list) = calendar.group_of(node);
            let size = draft.spaces.order(node).0;
            let is_whole = whole.as_ref().is_none_or(|orders| {
                orders.contains(&size) && size == supply.space(node).available
            });
            let amount = if whole.is_some() { size } else { amount };
            let leaves_bookings = || {
                let until = times.end_now();
                !calendar.has_bookings() || calendar.leaves_bookings(&[(node, amount)], until)
            };
            is_whole && draft.is_in_reach(job, node) && times.allow_now(list) && leaves_bookings()
        }
    }

    /// Enters that a process of `amount` qshares of the job at `job` starts on `node`.
    pub(in crate::engine) fn choose_node(
        &mut self,
        draft: &mut Draft<'_>,
        job: JobIx,
        (node, amount): (NodeIx, u64),
    ) {
        if let Some(leaves) = &mut draft.leaves {
            leaves.nodes.entry(job).or_default().insert(node);
        }
        if let Some(calendar) = &mut self.calendar {
            let until = calendar.stay_of(draft, job);
            calendar.start_on(node, amount, until);
        }
        self.expect(draft, job, node, amount);
    }

    /// Keeps a place for a process of `amount` qshares of the job at `job`, for which no node is left
    /// now, and notes the reason why it waits.
    pub(in crate::engine) fn wait_for_node(
        &mut self,
        draft: &mut Draft<'_>,
        job: JobIx,
        amount: u64,
    ) {
        let Some(calendar) = &self.calendar else { return };
        self.lengths.insert(length_of(draft, job));
        let until = calendar.stay_of(draft, job);
        let reason = match self.in_time(draft, job, until) {
            Err(reason) => Some(reason),
            Ok(()) => self.obstacle(draft, job, amount),
        };
        let reason = match reason {
            Some(reason @ WaitReason::DeadlineUnreachable { .. }) => Some(reason),
            reason => self.keep_place(draft, job, amount).err().or(reason),
        };
        draft.note_times(job, until);
        if let Some(WaitReason::DeadlineUnreachable { starts: Some(starts), .. }) = reason {
            // The earliest start moves on with the time.
            draft.change_expected_at(starts + 1);
        }
        draft.gang_reasons.extend(reason.map(|reason| (job, reason)));
    }

    /// The reason why no node is left for the job at `job`, if time or older work is in its way.
    fn obstacle(&self, draft: &Draft<'_>, job: JobIx, amount: u64) -> Option<WaitReason> {
        let calendar = self.calendar.as_ref()?;
        let class = draft.class_of(job);
        let until = calendar.stay_of(draft, job);
        if let Some(reason) = reservation_ahead(draft, Rights::of(draft, job), calendar.now) {
            return Some(reason);
        }
        if draft.snapshot.closes(draft.job(job).class, calendar.now, until) {
            let opens = draft.snapshot.opening(draft.job(job).class);
            return Some(WaitReason::ClassClosed { opens });
        }
        if let Some(job) = self.claimant_before(draft, job, amount) {
            return Some(WaitReason::BehindOlderGang { job });
        }
        let supply = self.supply.get(&class.pool)?;
        supply.best_fit(amount, |node| draft.is_in_reach(job, node))?;
        let times = StartTimes::new(draft, &self.kinds.windows, job, calendar.now);
        let is_open = |node: NodeIx| {
            let (_, _, list) = calendar.group_of(node);
            draft.is_in_reach(job, node) && times.allow_now(list)
        };
        let booked = calendar.first_booked(class.pool).map(|place| draft.jobs[place].id);
        if let Some(job) = booked.filter(|_| supply.best_fit(amount, is_open).is_some()) {
            return Some(WaitReason::BehindOlderGang { job });
        }
        let needs = length_of(draft, job);
        let ahead = self.kinds.windows.next(calendar.now, until);
        ahead.map(|ahead| WaitReason::WindowAhead { opens: ahead.from, needs })
    }

    /// Keeps the earliest place for a process of the job at `job`.
    fn keep_place(
        &mut self,
        draft: &mut Draft<'_>,
        job: JobIx,
        amount: u64,
    ) -> Result<(), WaitReason> {
        let Some(calendar) = &self.calendar else { return Ok(()) };
        let depth = draft.snapshot.topology.settings.backfill_depth;
        if depth <= calendar.waiting_requests() {
            return Ok(());
        }
        let times = StartTimes::new(draft, &self.kinds.windows, job, calendar.now);
        let Some((from, spot)) = self.first_place(draft, job, amount, &times) else {
            return Ok(());
        };
        let (to, edges) = (times.end(from), times.edges().to_vec());
        let deadline = draft.job(job).shape.as_deref().and_then(|shape| shape.deadline);
        if let Some(deadline) = deadline.filter(|deadline| *deadline < to) {
            return Err(WaitReason::DeadlineUnreachable { starts: Some(from), deadline });
        }
        draft.tell_start(job, from, &edges);
        if let Some(calendar) = &mut self.calendar {
            // A reservation has the whole of its node.
            let is_whole = draft.class_of(job).policy == ClassPolicy::Reserve;
            let (_, kind, _) = calendar.group_at(spot);
            let amount = if is_whole { kind.order } else { amount };
            calendar.keep(KeptSpace { job, spot, amount, from, to });
        }
        Ok(())
    }

    /// The earliest place for a process of the job at `job` after now, and its start. Of places with
    /// the same start it is on the fullest node.
    fn first_place(
        &self,
        draft: &Draft<'_>,
        job: JobIx,
        amount: u64,
        times: &StartTimes<'_>,
    ) -> Option<(Millis, CalendarSpot)> {
        let calendar = self.calendar.as_ref()?;
        let pool = draft.class_of(job).pool;
        let whole = (draft.class_of(job).policy == ClassPolicy::Reserve)
            .then(|| orders_that_suit(draft, job));
        let has_list = draft.jobs[job].is_restricted;
        let soon = calendar.now + 1;
        let mut best: Option<(Millis, u64, bool, NodeKind, CalendarSpot)> = None;
        let nodes = calendar.nodes().iter().enumerate().filter(|(_, node)| node.group.0 == pool);
        for (place, node) in nodes.filter(|_| whole.is_none()) {
            draft.effort.step();
            let name = (!node.is_unnamed).then_some(NodeIx(place));
            let is_legal = name.map_or(!has_list, |name| {
                draft.snapshot.node(name).state.is_up() && draft.is_in_reach(job, name)
            });
            let limit = best.map_or(NEVER, |(at, ..)| at.saturating_add(1));
            let limit = if has_list { limit } else { limit.min(node.until.saturating_add(1)) };
            if !is_legal || limit <= soon {
                continue;
            }
            let next_start = |from| times.next(node.group.2, from);
            let stay = (amount, times.length());
            let start = node.first_start(stay, (soon, limit), next_start);
            let spot = CalendarSpot::Node(place);
            let Some(start) = start.filter(|start| {
                calendar.leaves_nodes([spot].into_iter(), *start, times.end(*start))
            }) else {
                continue;
            };
            let free = node.space.least(start, times.end(start));
            let (_, kind, _) = node.group;
            let candidate = (start, free, free == kind.order, kind, spot);
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
        let groups = calendar.groups_of(pool).filter(|_| !has_list);
        for group @ (_, kind, list) in groups {
            let suits = whole.as_ref().map_or(amount <= kind.order, |it| it.contains(&kind.order));
            let limit = best.map_or(NEVER, |(at, ..)| at.saturating_add(1));
            let Some(left) = calendar.left(&group).filter(|_| suits) else { continue };
            let next_start = |from| times.next(list, from);
            let start = first_start(left, (1, times.length()), (soon, limit), next_start);
            let candidate =
                start.map(|start| (start, kind.order, true, kind, CalendarSpot::Whole(group)));
            best = best.into_iter().chain(candidate).min();
        }
        best.map(|(start, .., spot)| (start, spot))
    }
}
