//! Space of a node over time, as far as work that stays decides.

use super::calendar::CalendarGroup;
use super::timeline::{NEVER, Timeline};
use crate::model::Millis;

/// A node over time.
#[derive(Clone, Debug)]
pub(super) struct NodeTime {
    /// Pool, kind and windows.
    pub group: CalendarGroup,
    /// True if the node is not chosen yet: any node of the group that is free from `from` on.
    pub is_unnamed: bool,
    /// First moment at which places may begin on it.
    pub from: Millis,
    /// First moment from which on no work that stays uses it, and no place is kept on it.
    pub until: Millis,
    /// Free space, in qshares.
    pub space: Timeline,
}

/// Node of a place in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CalendarSpot {
    /// The node at this place of [`Calendar::nodes`](super::calendar::Calendar::nodes).
    Node(usize),
    /// A node of the group that is empty by then.
    Whole(CalendarGroup),
}

impl NodeTime {
    /// A node with nothing on it.
    pub(super) fn new(group: CalendarGroup, size: u64, now: Millis) -> NodeTime {
        let space = Timeline::whole(now, size);
        NodeTime { group, is_unnamed: false, from: now, until: now, space }
    }

    /// A node of the group that is empty from `from` on.
    pub(super) fn without_name(group: CalendarGroup, size: u64, from: Millis) -> NodeTime {
        let space = Timeline::whole(from, size);
        NodeTime { group, is_unnamed: true, from, until: from, space }
    }

    /// Takes `amount` from now until `until`.
    pub(super) fn use_until(&mut self, now: Millis, amount: u64, until: Millis) {
        self.space.take(now, until, amount);
        self.until = self.until.max(until);
    }

    /// Keeps `amount` from `from` until `to`.
    pub(super) fn keep(&mut self, amount: u64, from: Millis, to: Millis) {
        self.space.take(from, to, amount);
        self.until = self.until.max(to);
    }

    /// True if a place may begin at `moment` beside other work that stays, or right after it. Before
    /// a later place the node would be empty; so that is counted, and has no name.
    pub(super) fn is_shared_at(&self, moment: Millis) -> bool {
        self.from <= moment && moment <= self.until
    }

    /// The first moment from `from` on, and before `limit`, at which `amount` is free for `length`.
    /// `next_start` names the first moment from a moment on at which a start is allowed.
    pub(super) fn first_start(
        &self,
        (amount, length): (u64, Millis),
        (from, limit): (Millis, Millis),
        next_start: impl Fn(Millis) -> Option<Millis>,
    ) -> Option<Millis> {
        first_start(&self.space, (amount, length), (from.max(self.from), limit), next_start)
    }
}

/// The first moment from `from` on, and before `limit`, at which `amount` is free for `length`.
/// `next_start` names the first moment from a moment on at which a start is allowed.
pub(super) fn first_start(
    free: &Timeline,
    (amount, length): (u64, Millis),
    (from, limit): (Millis, Millis),
    next_start: impl Fn(Millis) -> Option<Millis>,
) -> Option<Millis> {
    let mut spans = free.starts(amount, length, from).take_while(|(first, _)| *first < limit);
    spans.find_map(|(first, last)| {
        next_start(first).filter(|start| *start < limit && (*start <= last || last == NEVER))
    })
}
