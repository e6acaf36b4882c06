//! Single requests of work that stays, where time decides: the node of each is chosen when the job is
//! counted, so that no older gang starts later, and no window is in the way.
//!
//! Single requests have no place in the calendar: each starts as soon as a node is left for it.

use std::collections::{BTreeMap, BTreeSet};

use super::Slot;
use super::calendar::{CalendarPart, length_of};
use super::planner::GangPlanner;
use super::windows::{Rights, Stay};
use crate::engine::draft::Draft;
use crate::engine::target::orders_that_suit;
use crate::engine::wait_reason::WaitReason;
use crate::model::{ClassIx, ClassPolicy, JobKind, Millis, NodeIx, QShares};

/// Nodes that the calendar leaves for single requests.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct CalendarLeaves {
    /// Nodes of each request of work that stays, by the place of its job.
    nodes: BTreeMap<usize, BTreeSet<NodeIx>>,
    /// Places of jobs that the calendar does not concern: gangs, and work that can be preempted.
    free: BTreeSet<usize>,
}

impl CalendarLeaves {
    /// Before any request is counted.
    pub(in crate::engine) fn new(draft: &Draft<'_>) -> CalendarLeaves {
        let is_free =
            |job: &usize| draft.jobs[*job].is_gang || draft.class_of(*job).policy.is_preemptable();
        let free = (0..draft.jobs.len()).filter(is_free).collect();
        CalendarLeaves { nodes: BTreeMap::new(), free }
    }

    /// True if the job may use the node.
    pub(in crate::engine) fn leave(&self, job: usize, node: NodeIx) -> bool {
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
    fn of(draft: &Draft<'_>, job: usize, amount: u64) -> Option<EqualSingle> {
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

impl Draft<'_> {
    /// Notes that a job keeps the nodes that it was promised.
    pub(in crate::engine) fn leave_promised_nodes(&mut self, job: usize) {
        let id = self.jobs[job].id;
        let promised = self.snapshot.promises.iter().filter(|promise| promise.job == id);
        if let Some(leaves) = &mut self.leaves {
            leaves.nodes.entry(job).or_default().extend(promised.map(|promise| promise.node));
        }
    }
}

impl GangPlanner {
    /// True if nodes are chosen for single requests when they are counted.
    pub(in crate::engine) fn chooses_nodes(&self) -> bool {
        self.calendar.is_some()
    }

    /// A node for another process of `amount` qshares of the job at `job`.
    pub(in crate::engine) fn node_for(
        &mut self,
        draft: &Draft<'_>,
        job: usize,
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

    fn find_node(&self, draft: &Draft<'_>, job: usize, amount: u64) -> Option<NodeIx> {
        let calendar = self.calendar.as_ref()?;
        let class = draft.class_of(job);
        let supply = self.supply.get(&class.pool)?;
        let until = calendar.stay_of(draft, job);
        let stay = Stay { from: calendar.now, to: until, rights: Rights::of(draft, job) };
        if draft.snapshot.closes(draft.job(job).class, stay.from, stay.to) {
            return None;
        }
        let limits = calendar.limits(&self.kinds, class.pool, stay, CalendarPart::Left, true);
        let whole = (class.policy == ClassPolicy::Reserve).then(|| orders_that_suit(draft, job));
        let may_use = |node: NodeIx| {
            let (_, kind, list) = calendar.group_of(node);
            let order = draft.jobs[job].order;
            let slot = Slot { rank: 0, node, order };
            let is_whole = whole.as_ref().is_none_or(|orders| {
                let size = draft.spaces.order(node);
                orders.contains(&size.0) && size == QShares(supply.space(node).available)
            });
            is_whole
                && draft.is_in_reach(job, node)
                && limits.get(&(kind, list)).is_some_and(|limit| limit.is_open)
                && (!calendar.has_bookings() || calendar.leaves_bookings(&[slot], until))
        };
        // A service spreads over nodes before it stacks.
        let service = draft.job(job).service;
        let is_apart = |node: &NodeIx| {
            let known = draft.services.get(&service).into_iter().chain(self.services.get(&service));
            draft.jobs[job].kind != JobKind::Service || known.flatten().all(|other| other != node)
        };
        supply
            .best_fit(amount, |node| may_use(node) && is_apart(&node))
            .or_else(|| supply.best_fit(amount, may_use))
    }

    /// Enters that a process of `amount` qshares of the job at `job` starts on `node`.
    pub(in crate::engine) fn choose_node(
        &mut self,
        draft: &mut Draft<'_>,
        job: usize,
        (node, amount): (NodeIx, u64),
    ) {
        if let Some(leaves) = &mut draft.leaves {
            leaves.nodes.entry(job).or_default().insert(node);
        }
        if let Some(calendar) = &mut self.calendar {
            let until = calendar.stay_of(draft, job);
            calendar.start_on(node, until);
        }
        self.expect(draft, job, node, amount);
    }

    /// The reason why no node is left for a process of `amount` qshares of the job at `job`.
    pub(in crate::engine) fn note_refusal(
        &mut self,
        draft: &mut Draft<'_>,
        job: usize,
        amount: u64,
    ) {
        let Some(calendar) = &self.calendar else { return };
        self.lengths.insert(length_of(draft, job));
        let class = draft.class_of(job);
        let until = calendar.stay_of(draft, job);
        let claimant = self.claimant_before(draft, job, amount);
        let has_room = self.supply.get(&class.pool).is_some_and(|supply| {
            supply.best_fit(amount, |node| draft.is_in_reach(job, node)).is_some()
        });
        let booked = calendar.first_booked(class.pool).map(|place| draft.jobs[place].id);
        let ahead = self.kinds.windows.next(calendar.now, until);
        let reason = if draft.snapshot.closes(draft.job(job).class, calendar.now, until) {
            Some(WaitReason::ClassClosed { opens: draft.snapshot.opening(draft.job(job).class) })
        } else if let Some(job) = claimant {
            Some(WaitReason::BehindOlderGang { job })
        } else if !has_room {
            None
        } else if let Some(job) = booked {
            Some(WaitReason::BehindOlderGang { job })
        } else {
            let needs = length_of(draft, job);
            ahead.map(|ahead| WaitReason::WindowAhead { opens: ahead.from, needs })
        };
        draft.gang_reasons.extend(reason.map(|reason| (job, reason)));
    }
}
