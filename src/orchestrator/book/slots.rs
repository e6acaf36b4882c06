//! A slot as the book tracks it: its row, and what the last report of its node said.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{SlotRow, SlotState};
use crate::orchestrator::wire::{AttemptId, StopReason, TaskSignal};

/// A slot.
#[derive(Clone, Debug)]
pub struct Slot {
    /// What must survive.
    pub row: SlotRow,
    /// Attempts that are committed for it and have no result.
    pub attempts: BTreeMap<AttemptId, Held>,
    /// How many more tasks it can hold.
    pub want: u64,
    /// The highest order that it has carried out.
    pub seen_order: u64,
    /// Whether its node may know of it: an answer with its start has left.
    pub is_told: bool,
    /// Whether its node has reported it.
    pub is_reported: bool,
    /// Whether the last report of its node named it.
    pub is_listed: bool,
    /// When an answer last renewed its lease, by the clock of the book.
    pub renewed: u64,
    /// When it was ordered, by the clock of the book.
    pub ordered: u64,
    /// Time from its order to its first task, in milliseconds.
    pub prepared_ms: Option<u64>,
    /// The most memory that a task of it was seen to use, in MiB. 0: none was measured yet.
    pub used_mb: u64,
    /// Attempts that it should give back.
    pub recall: BTreeSet<AttemptId>,
    /// Signals to send, each with the number of the order that brought it.
    pub signals: Vec<(u64, TaskSignal)>,
    /// The publication that told the resource manager that it is gone.
    pub gone_in: Option<u64>,
}

/// An attempt that a slot has or should have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Whether the last report named it.
    pub is_listed: bool,
    /// When it began, by the clock of the book. `None`: it has not.
    pub begun: Option<u64>,
    /// Since when its work would be lost, by the clock of the book.
    pub unsaved_since: u64,
    /// Whether it has confirmed a checkpoint.
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
        }
    }

    /// Whether nothing of it can run any more.
    pub fn is_gone(&self) -> bool {
        self.row.state == SlotState::Gone
    }

    /// Whether it may get tasks.
    pub fn is_open(&self) -> bool {
        self.row.stop.is_none() && !self.is_gone()
    }

    /// Orders it to stop. A kill replaces a drain, and no order replaces a kill.
    ///
    /// Returns whether that is a new order.
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

    /// Work of tasks that would be lost with it, in milliseconds.
    pub fn investment(&self, now: u64) -> u64 {
        let begun = self.attempts.values().filter(|held| held.begun.is_some());
        begun.map(|held| now.saturating_sub(held.unsaved_since)).sum()
    }
}
