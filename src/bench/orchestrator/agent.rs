//! Simulated agents: they speak the exchange as agents of nodes do, and start no process.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::super::load::wire::{Connection, send};
use crate::model::count;
use crate::orchestrator::wire::{
    AttemptId, Exchange, ExchangeAnswer, Reason, Rung, RunningTask, SlotEnd, SlotOrder, SlotReport,
    SlotStage, TaskResult, VERSION,
};

/// Most tasks that a slot holds beside the running tasks: as many as a real slot.
const QUEUE: u64 = 50;

/// Time at which a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskEnding {
    /// Immediately after its start.
    AtOnce,
    /// At the command of the bench.
    WhenTold,
}

/// Counts over all agents together.
#[derive(Debug, Default)]
pub(super) struct TaskTally {
    /// Tasks that have begun.
    pub begun: AtomicU64,
    /// Results that are stored.
    pub acked: AtomicU64,
    /// Start of the first task.
    first: Mutex<Option<Instant>>,
}

impl TaskTally {
    fn begin(&self) {
        if self.begun.fetch_add(1, Ordering::Relaxed) == 0 {
            self.first.lock().unwrap_or_else(PoisonError::into_inner).replace(Instant::now());
        }
    }

    /// Start of the first task. `None`: no task has begun.
    pub fn first(&self) -> Option<Instant> {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent of a node.
#[derive(Debug)]
pub(super) struct BenchAgent {
    node: String,
    play: TaskEnding,
    /// The number of its last exchange.
    number: u64,
    slots: BTreeMap<u64, BenchSlot>,
}

/// A slot, as its agent reports it.
#[derive(Debug)]
struct BenchSlot {
    report: SlotReport,
    /// The number of its last result.
    last: u64,
    /// Start times of the tasks in `report.running`, in the same order.
    begun: Vec<Instant>,
}

impl BenchAgent {
    /// The agent of node `number`, which has no slot yet.
    pub fn new(number: u64, play: TaskEnding) -> BenchAgent {
        BenchAgent { node: node_name(number), play, number: 0, slots: BTreeMap::new() }
    }

    /// Exchanges once, with an answer that waits as long as `wait` says.
    ///
    /// # Errors
    ///
    /// If there is no answer, or an answer that an agent does not expect.
    pub async fn exchange(
        &mut self,
        connection: &mut Connection,
        wait: &str,
        tally: &TaskTally,
    ) -> io::Result<()> {
        self.number += 1;
        let report = serde_json::to_vec(&self.report()).map_err(io::Error::other)?;
        let path = format!("/v1/nodes/{}/exchange?wait={wait}", self.node);
        let answer = connection.ask(&send("POST", &path, &report)).await?;
        let answer = super::super::load::check(answer, 200)?;
        let answer: ExchangeAnswer =
            serde_json::from_slice(&answer.body).map_err(io::Error::other)?;
        for order in answer.slots {
            self.obey(order, tally);
        }
        Ok(())
    }

    /// Ends a task of some slot. Returns true if a task ran.
    pub fn end_one(&mut self) -> bool {
        let ends = |slot: &mut BenchSlot| slot.end_first();
        self.slots.values_mut().any(ends)
    }

    fn report(&mut self) -> Exchange {
        Exchange {
            v: VERSION,
            boot: "bench".to_owned(),
            life: "bench".to_owned(),
            number: self.number,
            limits: Rung::Watched,
            only_user: None,
            address: None,
            epoch: 0,
            slots: self.slots.values_mut().map(BenchSlot::told).collect(),
        }
    }

    fn obey(&mut self, order: SlotOrder, tally: &TaskTally) {
        if order.forget {
            self.slots.remove(&order.share);
            return;
        }
        let slot = self.slots.entry(order.share).or_insert_with(|| BenchSlot::new(order.share));
        slot.report.seen_order = order.order;
        let before = slot.report.results.len();
        slot.report.results.retain(|result| order.acked < result.number);
        let acked = count(slot.report.results.len()..before);
        tally.acked.fetch_add(acked, Ordering::Relaxed);
        for task in order.tasks {
            tally.begin();
            slot.begin(task.task);
            if self.play == TaskEnding::AtOnce {
                slot.end_first();
            }
        }
        let is_stopped = order.stop.is_some();
        if is_stopped {
            while slot.end_first() {}
            (slot.report.state, slot.report.end) = (SlotStage::Gone, Some(SlotEnd::Stopped));
        }
        slot.report.want = match self.play {
            TaskEnding::AtOnce if !is_stopped => QUEUE,
            TaskEnding::WhenTold if !is_stopped && slot.begun.is_empty() => 1,
            TaskEnding::AtOnce | TaskEnding::WhenTold => 0,
        };
    }
}

impl BenchSlot {
    fn new(share: u64) -> BenchSlot {
        let report = SlotReport {
            share,
            state: SlotStage::Working,
            held: Vec::new(),
            running: Vec::new(),
            want: 0,
            results: Vec::new(),
            seen_order: 0,
            prepared_ms: Some(1),
            port: None,
            end: None,
            text: None,
        };
        BenchSlot { report, last: 0, begun: Vec::new() }
    }

    /// Returns the slot's report, with the task times of now.
    fn told(&mut self) -> SlotReport {
        for (task, begun) in self.report.running.iter_mut().zip(&self.begun) {
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            (task.ms, task.unsaved_ms) = (ms, ms);
        }
        self.report.clone()
    }

    fn begin(&mut self, task: AttemptId) {
        self.report.running.push(RunningTask {
            task,
            ms: 0,
            unsaved_ms: 0,
            has_saved: false,
            rss_mb: 1,
        });
        self.begun.push(Instant::now());
    }

    /// Ends the first running task. Returns true if a task ran.
    fn end_first(&mut self) -> bool {
        if self.begun.is_empty() {
            return false;
        }
        self.begun.remove(0);
        let task = self.report.running.remove(0).task;
        self.last += 1;
        self.report.want = 1;
        self.report.results.push(done(self.last, task));
        true
    }
}

/// The result of a task that did next to nothing.
fn done(number: u64, task: AttemptId) -> TaskResult {
    TaskResult {
        number,
        task,
        why: Reason::Done,
        exit: Some(0),
        signal: None,
        ms: 1,
        cpu_ms: 1,
        peak_mb: 1,
        rss_mb: 1,
        out: [0, 0],
        tail: String::new(),
        error: String::new(),
        has_saved: false,
    }
}

/// The name of node `number`.
pub(super) fn node_name(number: u64) -> String {
    format!("node{number:05}")
}
