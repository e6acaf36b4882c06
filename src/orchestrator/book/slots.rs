//! A slot as the book tracks it: its row, and the last report of its node.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{SlotRow, SlotState};
use crate::orchestrator::wire::{AttemptId, StopReason, TaskSignal};

/// A slot.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Clone, Debug)]
pub struct Slot {
    /// Row of the slot in the database.
    pub row: SlotRow,
    /// Attempts that are committed for the slot and have no result.
    pub attempts: BTreeMap<AttemptId, Held>,
    /// Number of tasks that the slot can hold besides its present ones.
    pub want: u64,
    /// The highest order that it has carried out.
    pub seen_order: u64,
    /// True if the node may know of the slot: an answer with its start was sent.
    pub is_told: bool,
    /// True if the node has reported the slot.
    pub is_reported: bool,
    /// True if the last report of the node named the slot.
    pub is_listed: bool,
    /// Time of the last answer that renewed the lease, by the clock of the book.
    pub renewed: u64,
    /// Time of the order, by the clock of the book.
    pub ordered: u64,
    /// Time from its order to its first task, in milliseconds.
    pub prepared_ms: Option<u64>,
    /// Highest measured memory of a task in the slot, in MiB. 0: not measured yet.
    pub used_mb: u64,
    /// Attempts that it should give back.
    pub recall: BTreeSet<AttemptId>,
    /// Signals to send, each with the number of the order that brought it.
    pub signals: Vec<(u64, TaskSignal)>,
    /// Number of the publication that declared the slot gone.
    pub gone_in: Option<u64>,
    /// Port on which it listens for other ranks, by its last report.
    pub port: Option<u16>,
    /// True if it stops because its node or its program failed, and not because its share is taken.
    pub is_lost: bool,
}

/// An attempt that a slot has or should have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// True if the last report named the attempt.
    pub is_listed: bool,
    /// Time at which the attempt began, by the clock of the book. `None`: not begun.
    pub begun: Option<u64>,
    /// Time since which the attempt has saved no work, by the clock of the book.
    pub unsaved_since: u64,
    /// True if the attempt has confirmed a checkpoint.
    pub has_saved: bool,
}

impl Slot {
    /// A slot of `row` at time `now`.
    pub fn new(row: SlotRow, now: u64) -> Slot {
        let is_known = row.state != SlotState::Ordered;
        Slot {
            row,
            attempts: BTreeMap::new(),
            want: 0,
            seen_order: 0,
            is_told: is_known,
            is_reported: is_known,
            is_listed: false,
            renewed: now,
            ordered: now,
            prepared_ms: None,
            used_mb: 0,
            recall: BTreeSet::new(),
            signals: Vec::new(),
            gone_in: None,
            port: None,
            is_lost: false,
        }
    }

    /// True if no process of the slot can run any more.
    pub fn is_gone(&self) -> bool {
        self.row.state == SlotState::Gone
    }

    /// True if the slot may get tasks.
    pub fn is_open(&self) -> bool {
        self.row.stop.is_none() && !self.is_gone()
    }

    /// Orders the slot to stop. A kill replaces a drain, and no order replaces a kill.
    ///
    /// Returns true if the order is new.
    pub fn stop(&mut self, why: StopReason, drains: bool) -> bool {
        let is_news = match self.row.stop {
            None => true,
            Some(_) => self.row.drains && !drains,
        };
        if is_news && !self.is_gone() {
            (self.row.stop, self.row.drains) = (Some(why), drains);
            (self.row.order, self.row.state) = (self.row.order + 1, SlotState::Stopping);
            self.want = 0;
            return true;
        }
        false
    }

    /// Work of tasks that would be lost with it, in milliseconds. A copy loses nothing: its task runs
    /// elsewhere, too.
    pub fn investment(&self, now: u64, is_copy: impl Fn(AttemptId) -> bool) -> u64 {
        let begun =
            self.attempts.iter().filter(|(id, held)| held.begun.is_some() && !is_copy(**id));
        begun.map(|(_, held)| now.saturating_sub(held.unsaved_since)).sum()
    }
}
