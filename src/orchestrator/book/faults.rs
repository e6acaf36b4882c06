//! Nodes on which the tasks of a campaign go wrong: each is an event that stays open, and the campaign
//! avoids the node until a retest closes it.
//!
//! Two signs count, both against the tasks of the campaign on all other nodes. A *sink*: the last five
//! tasks of the node ended well, each in a tenth of the median of other nodes. *Failing*: three tasks in a
//! row failed there, each in a tenth of that median. After five minutes a single task tries the node
//! again. If it goes wrong, the wait doubles, up to an hour.
//!
//! The resource manager is told which nodes to except. A share that comes there all the same was decided
//! before, and the book gives it back.

use std::collections::VecDeque;

use super::campaigns::Campaign;
use super::lengths::Lengths;
use super::rows::{FaultRow, Note};
use super::{Book, Now};
use crate::model::{Name, span};
use crate::orchestrator::wire::{EventClass, Reason, StopReason, TaskResult};

/// Tasks in a row that make a sink.
const SINK_TASKS: usize = 5;
/// Tasks done on other nodes before a node can be a sink.
const SINK_OTHERS: u64 = 20;
/// Failed tasks in a row that make a failing node.
const FAILED_TASKS: u64 = 3;
/// Tasks done on other nodes before a node can be failing.
const FAILED_OTHERS: u64 = 3;
/// A task is short if it takes less than this part of the median of other nodes.
const SHORT_PART: u64 = 10;
/// Median below which no task counts as short, in milliseconds: such times differ by chance.
const LEAST_MEDIAN_MS: u64 = 100;
/// Wait before the first retest, in milliseconds.
const FIRST_WAIT_MS: u64 = 300_000;
/// Longest wait before a retest, in milliseconds.
const LONGEST_WAIT_MS: u64 = 3_600_000;

/// Tasks of a campaign on a node.
#[derive(Clone, Debug, Default)]
pub struct NodeStreak {
    /// Times of tasks that were done there.
    lengths: Lengths,
    /// Times of the last tasks that were done there, in milliseconds.
    last: VecDeque<u64>,
    /// Tasks in a row that failed there in a short time.
    failures: u64,
}

/// A node that a campaign avoids.
#[derive(Clone, Debug)]
pub struct Avoidance {
    row: FaultRow,
    /// Wait before the retest, in milliseconds.
    wait_ms: u64,
    /// Time of the retest, by the clock of the book.
    retest_at: u64,
    /// True while a single task may try the node.
    is_tried: bool,
}

impl Campaign {
    /// Avoids the node of an open event, as after a restart at `now`.
    pub(super) fn avoid_again(&mut self, row: FaultRow, now: u64) {
        let (wait_ms, is_tried) = (FIRST_WAIT_MS, false);
        let retest_at = now.saturating_add(wait_ms);
        self.avoided.insert(row.node.clone(), Avoidance { row, wait_ms, retest_at, is_tried });
    }

    /// The row of the open event of a node.
    pub(super) fn fault_of(&mut self, node: &Name) -> Option<&mut FaultRow> {
        self.avoided.get_mut(node).map(|avoided| &mut avoided.row)
    }

    /// True if tasks of the campaign may begin on a node.
    pub(super) fn may_use(&self, node: &Name) -> bool {
        self.avoided.get(node).is_none_or(|avoided| avoided.is_tried)
    }

    /// Nodes on which no task of the campaign may begin.
    pub(super) fn excepted_nodes(&self) -> impl Iterator<Item = &Name> {
        self.avoided.iter().filter(|(_, avoided)| !avoided.is_tried).map(|(node, _)| node)
    }

    /// True if a node gets a single task, as a retest.
    pub(super) fn tries(&self, node: &Name) -> bool {
        self.avoided.get(node).is_some_and(|avoided| avoided.is_tried)
    }

    /// Enters a result into the record of its node. Returns the code of the event that it makes.
    fn judge(&mut self, node: &Name, result: &TaskResult) -> Option<&'static str> {
        let record = self.records.entry(node.clone()).or_default();
        let (others, median) = self.lengths.without(&record.lengths);
        let is_short =
            |ms: u64| LEAST_MEDIAN_MS <= median && ms.saturating_mul(SHORT_PART) <= median;
        match result.why {
            Reason::Done => {
                record.failures = 0;
                record.lengths.add(result.ms);
                self.lengths.add(result.ms);
                record.last.push_back(result.ms);
                if SINK_TASKS < record.last.len() {
                    record.last.pop_front();
                }
                let is_sink = SINK_OTHERS <= others
                    && record.last.len() == SINK_TASKS
                    && record.last.iter().all(|ms| is_short(*ms));
                is_sink.then_some("sink")
            }
            Reason::Exit
            | Reason::Signal
            | Reason::NotFound
            | Reason::NotExecutable
            | Reason::NoCwd => {
                let counts = FAILED_OTHERS <= others && is_short(result.ms);
                record.failures = if counts { record.failures + 1 } else { 0 };
                (FAILED_TASKS <= record.failures).then_some("failing")
            }
            Reason::Memory
            | Reason::TimeLimit
            | Reason::Preempted
            | Reason::VariedOff
            | Reason::Lost
            | Reason::NodeKiller
            | Reason::NoUser
            | Reason::Prologue
            | Reason::Cancelled
            | Reason::Superseded
            | Reason::Returned => None,
        }
    }

    /// Longest time of a suspicious result of a node, in milliseconds: half of the median of other nodes.
    fn suspicious_ms(&self, node: &Name) -> u64 {
        let record = self.records.get(node);
        let (_, median) = record.map_or((0, 0), |record| self.lengths.without(&record.lengths));
        median >> 1
    }
}

impl Book {
    /// Judges a node by the result of a task on it.
    pub(super) fn judge_node(&mut self, node: &Name, result: &TaskResult, now: Now) {
        let id = result.task.campaign;
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        match campaign.judge(node, result) {
            Some(code) => self.avoid(id, node, code, now),
            None if result.why == Reason::Done && campaign.tries(node) => self.mend(id, node, now),
            None => {}
        }
    }

    /// Opens an event of a node, or doubles the wait of an open event.
    fn avoid(&mut self, id: u64, node: &Name, code: &'static str, now: Now) {
        let parent = self.filed_of(EventClass::Node, node.as_str()).map(|event| event.id);
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let known = campaign.avoided.get(node);
        let longest_ms = campaign.suspicious_ms(node);
        if code == "sink" {
            self.dirty.suspects.insert((id, node.clone()), longest_ms);
        }
        if known.is_some_and(|known| !known.is_tried) {
            // A task that the node had when the campaign began to avoid it.
            return;
        }
        let wait_ms = known
            .map_or(FIRST_WAIT_MS, |known| known.wait_ms.saturating_mul(2).min(LONGEST_WAIT_MS));
        let what = match code {
            "sink" => format!("its last {SINK_TASKS} tasks ended in a tenth of the usual time"),
            _ => format!("its last {FAILED_TASKS} tasks failed at once"),
        };
        let text = format!(
            "campaign {id} avoids {node}, as {what}; a task tries it again after {}",
            span(wait_ms)
        );
        let row = match known {
            Some(known) => FaultRow { text: text.clone(), ..known.row.clone() },
            None => FaultRow {
                campaign: id,
                node: node.clone(),
                code: code.to_owned(),
                opened_ms: now.wall_ms,
                closed_ms: None,
                parent,
                text: text.clone(),
            },
        };
        let retest_at = now.ms.saturating_add(wait_ms);
        let avoided = Avoidance { row: row.clone(), wait_ms, retest_at, is_tried: false };
        campaign.avoided.insert(node.clone(), avoided);
        self.dirty.faults.push(row);
        let note = Note { campaign: id, task: None, node: Some(node.clone()), code, text };
        self.dirty.notes.push(note);
        let slots = self
            .slots
            .values()
            .filter(|slot| slot.row.campaign == id && slot.row.node == *node && slot.is_open());
        let shares: Vec<u64> = slots.map(|slot| slot.row.share).collect();
        for share in shares {
            self.stop_slot(share, StopReason::Drained, true, now);
        }
        self.dirty.settle.insert(id);
        self.file_bad_node(node, now);
    }

    /// Closes the event of a node after a retest that went well.
    fn mend(&mut self, id: u64, node: &Name, now: Now) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let Some(avoided) = campaign.avoided.remove(node) else { return };
        let text = format!("campaign {id} uses {node} again: a task went well there");
        self.dirty.faults.push(FaultRow { closed_ms: Some(now.wall_ms), ..avoided.row });
        self.note_mended(id, node, text);
    }

    /// Closes the events of a campaign that belong to the event `parent` of a node.
    pub(super) fn mend_with(&mut self, id: u64, parent: u64, now: Now) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let caused = campaign.avoided.iter().filter(|(_, it)| it.row.parent == Some(parent));
        let nodes: Vec<Name> = caused.map(|(node, _)| node.clone()).collect();
        for node in nodes {
            let Some(campaign) = self.campaigns.get_mut(&id) else { return };
            let Some(avoided) = campaign.avoided.remove(&node) else { continue };
            campaign.records.remove(&node);
            self.dirty.faults.push(FaultRow { closed_ms: Some(now.wall_ms), ..avoided.row });
            let text =
                format!("campaign {id} uses {node} again: an operator closed event {parent}");
            self.note_mended(id, &node, text);
        }
    }

    /// Lets a single task try each node whose wait is over.
    pub(super) fn retest(&mut self, now: Now) {
        for (id, campaign) in &mut self.campaigns {
            for avoided in campaign.avoided.values_mut() {
                if !avoided.is_tried && avoided.retest_at <= now.ms {
                    avoided.is_tried = true;
                    self.dirty.settle.insert(*id);
                }
            }
        }
    }

    /// Number of tasks that a slot may get, of `give`: none where its campaign avoids the node, and a single task in
    /// all for a retest.
    pub(super) fn bounded(&self, share: u64, give: u64) -> u64 {
        let Some(slot) = self.slots.get(&share) else { return 0 };
        let Some(campaign) = self.campaigns.get(&slot.row.campaign) else { return 0 };
        let node = &slot.row.node;
        if !campaign.may_use(node) || self.is_barred(node) {
            return 0;
        }
        if !campaign.tries(node) {
            return give;
        }
        let shares = self.by_node.get(node).into_iter().flatten();
        let mut slots = shares.filter_map(|share| self.slots.get(share));
        let is_busy =
            slots.any(|it| it.row.campaign == slot.row.campaign && !it.attempts.is_empty());
        if is_busy { 0 } else { give.min(1) }
    }
}
