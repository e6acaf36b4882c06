//! Nodes on which the tasks of a campaign go wrong: each is an event that stays open, and the campaign
//! avoids the node until a retest closes it.
//!
//! Two signs count, both against the tasks of the campaign on all other nodes. A *sink*: the last tasks of the
//! node ended well, each in a tenth of the time of other nodes. Five tasks suffice against the median of 20
//! tasks. Before that, ten suffice if three tasks elsewhere and 20 if a single task elsewhere took or take ten times
//! as long, and none was as short. *Failing*: three tasks in a row failed there, each in a tenth of the median.
//! After five minutes a single task tries the node again. If it goes wrong, the wait doubles, up to an hour.
//!
//! A node whose last task was short gets no task ahead of a free lane, and after 20 short tasks in a row none
//! until a task elsewhere shows its length. So a sink has no more than 20 tasks, and the tasks on their way.
//!
//! The resource manager is told which nodes to except. A share that comes there all the same was decided
//! before, and the book gives it back.

use std::collections::VecDeque;

use super::away::cluster_at;
use super::campaigns::Campaign;
use super::lengths::Lengths;
use super::nodes::Node;
use super::rows::{FaultRow, Note};
use super::{Book, Now};
use crate::model::{Name, span};
use crate::orchestrator::wire::{EventClass, Reason, StopReason, TaskResult};

/// Tasks in a row that make a sink.
const SINK_TASKS: usize = 5;
/// Tasks done on other nodes before five tasks suffice.
const SINK_OTHERS: u64 = 20;
/// Tasks in a row, and long tasks on other nodes, that make a sink before that.
const EARLY: [(usize, u64); 2] = [(FEWEST_EARLY, 3), (MOST_UNPROVEN, 1)];
/// The fewest of these tasks.
const FEWEST_EARLY: usize = 10;
/// Short tasks in a row after which a node gets none before a task elsewhere shows its length.
const MOST_UNPROVEN: usize = 20;
/// Time after which no task of a silent node is waited for, in milliseconds.
const SILENT_MS: u64 = 60_000;
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
    /// Times of the last tasks that were done there, in milliseconds, each with its end by the clock of rows.
    last: VecDeque<(u64, u64)>,
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

impl NodeStreak {
    /// Enters a task that was done.
    fn add(&mut self, ms: u64, ended_ms: u64) {
        self.failures = 0;
        self.lengths.add(ms);
        self.last.push_back((ms, ended_ms));
        if MOST_UNPROVEN < self.last.len() {
            self.last.pop_front();
        }
    }

    /// The longest of the last `count` tasks, in milliseconds. `None`: there were fewer.
    fn longest(&self, count: usize) -> Option<u64> {
        let last = self.last.iter().rev().take(count).map(|(ms, _)| *ms);
        if self.last.len() < count { None } else { last.max() }
    }

    /// Begin of the oldest of the last tasks that took at most `ms`, in milliseconds since the epoch.
    fn short_since(&self, ms: u64) -> Option<u64> {
        let short = self.last.iter().rev().take_while(|(took, _)| *took <= ms);
        short.last().map(|(took, ended)| ended.saturating_sub(*took))
    }
}

/// The sign by which a node is avoided, as a part of a sentence.
fn sign_of(code: &str) -> String {
    match code {
        "sink" => "its last tasks ended in a tenth of the usual time".to_owned(),
        _ => format!("its last {FAILED_TASKS} tasks failed at once"),
    }
}

/// Class and name of the events of a place: a node, or a cluster.
pub(super) fn subject_of(place: &Name) -> (EventClass, Name) {
    match cluster_at(place.as_str()) {
        Some(cluster) => (EventClass::Cluster, cluster),
        None => (EventClass::Node, place.clone()),
    }
}

/// True if a task of `ms` is short against `usual_ms`, which may not be short itself.
fn is_short(ms: u64, usual_ms: u64) -> bool {
    LEAST_MEDIAN_MS <= usual_ms && ms.saturating_mul(SHORT_PART) <= usual_ms
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
        let avoided = self.avoided.iter().filter(|(_, avoided)| !avoided.is_tried);
        avoided.map(|(node, _)| node).filter(|node| cluster_at(node.as_str()).is_none())
    }

    /// True if a node gets a single task, as a retest.
    pub(super) fn tries(&self, node: &Name) -> bool {
        self.avoided.get(node).is_some_and(|avoided| avoided.is_tried)
    }

    /// Enters a result into the record of its node. Returns the code of the event that it makes; sinks are
    /// found by [`Campaign::is_sink`].
    fn enter(&mut self, node: &Name, result: &TaskResult, now: Now) -> Option<&'static str> {
        let record = self.records.entry(node.clone()).or_default();
        match result.why {
            Reason::Done => {
                record.add(result.ms, now.wall_ms);
                self.lengths.add(result.ms);
                None
            }
            Reason::Exit
            | Reason::Signal
            | Reason::NotFound
            | Reason::NotExecutable
            | Reason::NoCwd => {
                let (others, median) = self.lengths.without(&record.lengths);
                let counts = FAILED_OTHERS <= others && is_short(result.ms, median);
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

    /// True if a node is a sink. `elsewhere`: times so far of the tasks that run on other nodes, in milliseconds.
    fn is_sink(&self, node: &Name, elsewhere: impl Fn() -> Vec<u64>) -> bool {
        let Some(record) = self.records.get(node) else { return false };
        let (others, median) = self.lengths.without(&record.lengths);
        if SINK_OTHERS <= others {
            return record.longest(SINK_TASKS).is_some_and(|ms| is_short(ms, median));
        }
        let least = self.lengths.least_without(&record.lengths);
        EARLY.iter().any(|(tasks, needed)| {
            let Some(ms) = record.longest(*tasks) else { return false };
            let none_is_short = least.is_none_or(|least| is_short(ms, least));
            let long = || crate::model::count(elsewhere().iter().filter(|it| is_short(ms, **it)));
            none_is_short
                && *needed <= others.saturating_add(if others < *needed { long() } else { 0 })
        })
    }

    /// True if the last task of a node was short against what is known of other nodes, so that the node gets no
    /// task ahead.
    fn is_doubtful(&self, node: &Name) -> bool {
        let Some(record) = self.records.get(node) else { return false };
        let Some(ms) = record.longest(1) else { return false };
        if self.lengths.count() == record.lengths.count() {
            return ms < LEAST_MEDIAN_MS;
        }
        is_short(ms, self.lengths.without(&record.lengths).1)
    }

    /// True if a node has had as many short tasks as it may before a task elsewhere shows its length.
    fn is_unproven(&self, node: &Name) -> bool {
        let Some(record) = self.records.get(node) else { return false };
        let longest = record.longest(MOST_UNPROVEN);
        let none_is_done = self.lengths.count() == record.lengths.count();
        none_is_done && longest.is_some_and(|ms| ms < LEAST_MEDIAN_MS)
    }

    /// Longest time of a suspicious result of a node, in milliseconds: half of the median of other nodes, or ten
    /// times its last task while none is done elsewhere. Results since the first of them are suspicious, too.
    fn suspicious_ms(&self, node: &Name) -> u64 {
        let Some(record) = self.records.get(node) else { return 0 };
        let (others, median) = self.lengths.without(&record.lengths);
        let unproven = || record.longest(FEWEST_EARLY).unwrap_or(0).saturating_mul(SHORT_PART);
        if others == 0 { unproven() } else { median >> 1 }
    }
}

impl Book {
    /// Judges a node by the result of a task on it.
    pub(super) fn judge_node(&mut self, node: &Name, result: &TaskResult, now: Now) {
        let id = result.task.campaign;
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let code = campaign.enter(node, result, now);
        let is_done = result.why == Reason::Done;
        let is_sink = is_done && self.has_sink(id, node, now);
        match code.or(is_sink.then_some("sink")) {
            Some(code) => self.avoid(id, node, (code, sign_of(code)), now),
            None if is_done && self.campaigns.get(&id).is_some_and(|it| it.tries(node)) => {
                self.mend(id, node, now);
            }
            None => {}
        }
    }

    /// True if a node is a sink for a campaign.
    fn has_sink(&self, id: u64, node: &Name, now: Now) -> bool {
        let elsewhere = || self.times_elsewhere(id, node, now);
        self.campaigns.get(&id).is_some_and(|campaign| campaign.is_sink(node, elsewhere))
    }

    /// Times so far of the tasks of a campaign that run on other nodes, in milliseconds.
    fn times_elsewhere(&self, id: u64, node: &Name, now: Now) -> Vec<u64> {
        let here = self.by_node.get(node).into_iter().flatten();
        let here = here.filter(|share| self.slots[*share].row.campaign == id);
        let all = self.campaigns.get(&id).map_or(0, |campaign| campaign.slots);
        if all <= crate::model::count(here) {
            return Vec::new();
        }
        let slots = self
            .slots
            .values()
            .filter(|slot| slot.row.campaign == id && slot.row.node != *node && !slot.is_gone());
        let mut times = Vec::new();
        for slot in slots {
            // The task of a node that fell silent may have ended.
            let seen = |node: &Node| if node.is_waiting { now.ms } else { node.heard };
            let heard = self.nodes.get(&slot.row.node).map_or(0, seen).min(now.ms);
            let begun = slot.attempts.values().filter_map(|held| held.begun);
            times.extend(begun.map(|begun| heard.saturating_sub(begun)));
        }
        times
    }

    /// Judges nodes that get no task before a task elsewhere shows its length.
    fn judge_unproven(&mut self, now: Now) {
        let mut found = Vec::new();
        for (id, campaign) in &self.campaigns {
            let nodes = campaign.records.keys().filter(|node| campaign.may_use(node));
            let held = nodes.filter(|node| campaign.is_unproven(node));
            found.extend(held.map(|node| (*id, node.clone())));
        }
        for (id, node) in found {
            self.dirty.settle.insert(id);
            if self.has_sink(id, &node, now) {
                self.avoid(id, &node, ("sink", sign_of("sink")), now);
            }
        }
    }

    /// Opens an event of a node or cluster, or doubles the wait of an open event. `why`: a part of a sentence.
    pub(super) fn avoid(
        &mut self,
        id: u64,
        node: &Name,
        (code, why): (&'static str, String),
        now: Now,
    ) {
        let (class, name) = subject_of(node);
        let parent = self.filed_of(class, name.as_str()).map(|event| event.id);
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let known = campaign.avoided.get(node);
        let longest_ms = campaign.suspicious_ms(node);
        if code == "sink" {
            let record = campaign.records.get(node);
            let since_ms = record.and_then(|record| record.short_since(longest_ms));
            let since_ms = since_ms.unwrap_or(now.wall_ms);
            self.dirty.suspects.insert((id, node.clone()), (longest_ms, since_ms));
        }
        if known.is_some_and(|known| !known.is_tried) {
            // A task that the node had when the campaign began to avoid it.
            return;
        }
        let wait_ms = known
            .map_or(FIRST_WAIT_MS, |known| known.wait_ms.saturating_mul(2).min(LONGEST_WAIT_MS));
        let text = format!(
            "campaign {id} avoids {node}, as {why}; a task tries it again after {}",
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
    pub(super) fn mend(&mut self, id: u64, node: &Name, now: Now) {
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
        self.judge_unproven(now);
        for (id, campaign) in &mut self.campaigns {
            for avoided in campaign.avoided.values_mut() {
                if !avoided.is_tried && avoided.retest_at <= now.ms {
                    avoided.is_tried = true;
                    self.dirty.settle.insert(*id);
                }
            }
        }
    }

    /// True if a task of a campaign runs on another node that is not silent.
    fn has_others(&self, id: u64, node: &Name) -> bool {
        let is_heard = |node: &Name| {
            let facts = self.nodes.get(node);
            facts.is_some_and(|node| self.looked <= node.heard.saturating_add(SILENT_MS))
        };
        let mut slots = self.slots.values().filter(|slot| slot.row.campaign == id);
        slots.any(|slot| {
            let runs = slot.attempts.values().any(|held| held.begun.is_some());
            runs && slot.row.node != *node && is_heard(&slot.row.node)
        })
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
        if campaign.is_unproven(node) && self.has_others(slot.row.campaign, node) {
            return 0;
        }
        if !campaign.tries(node) {
            let free = campaign.spec.lanes.saturating_sub(crate::model::count(&slot.attempts));
            let id = slot.row.campaign;
            let is_doubtful = campaign.is_doubtful(node) && self.has_others(id, node);
            return if is_doubtful { give.min(free) } else { give };
        }
        let shares = self.by_node.get(node).into_iter().flatten();
        let mut slots = shares.filter_map(|share| self.slots.get(share));
        let is_busy =
            slots.any(|it| it.row.campaign == slot.row.campaign && !it.attempts.is_empty());
        if is_busy { 0 } else { give.min(1) }
    }
}
