//! Nodes and slots that behave as the protocol says.

use std::collections::{BTreeMap, BTreeSet};

use apportion::model::Name;
use apportion::orchestrator::wire::{
    AttemptId, Exchange, Reason, Rung, RunningTask, SlotEnd, SlotOrder, SlotReport, SlotStage,
    TaskResult, VERSION,
};

/// Time that the slots of the tests go on after the last exchange, in milliseconds.
pub const LEASE_MS: u64 = 60_000;
/// Time that a slot without a task waits for a task, in milliseconds.
pub const LINGER_MS: u64 = 2_000;
/// Time between the stop signal and the kill, in milliseconds.
pub const GRACE_MS: u64 = 30_000;

/// A task at work.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Begin of the task.
    pub begun: u64,
    /// Time of its last save.
    pub saved: Option<u64>,
}

impl Run {
    /// Since when its work would be lost.
    pub fn unsaved_since(&self) -> u64 {
        self.saved.unwrap_or(self.begun)
    }
}

/// A slot as its node has it.
#[derive(Clone, Debug)]
pub struct SimSlot {
    pub stage: SlotStage,
    seen_order: u64,
    seen: BTreeSet<AttemptId>,
    pub held: Vec<AttemptId>,
    pub running: BTreeMap<AttemptId, Run>,
    results: Vec<TaskResult>,
    last_number: u64,
    /// Reason of the stop, and the time at which running tasks are killed. `None`: the slot runs to
    /// its end.
    pub stop: Option<(Reason, Option<u64>)>,
    end: Option<SlotEnd>,
    pub lanes: u64,
    finishes_unheard: bool,
    /// Time at which the last successful exchange was sent.
    pub renewed: u64,
    started: u64,
    prepared_ms: Option<u64>,
    idle_since: u64,
}

impl SimSlot {
    pub fn new(now: u64, lanes: u64, finishes_unheard: bool) -> SimSlot {
        SimSlot {
            stage: SlotStage::Starting,
            seen_order: 0,
            seen: BTreeSet::new(),
            held: Vec::new(),
            running: BTreeMap::new(),
            results: Vec::new(),
            last_number: 0,
            stop: None,
            end: None,
            lanes,
            finishes_unheard,
            renewed: now,
            started: now,
            prepared_ms: None,
            idle_since: now,
        }
    }

    pub fn lives(&self) -> bool {
        self.stage != SlotStage::Gone
    }

    /// True if the slot can begin a task.
    pub fn has_space(&self) -> bool {
        let running = u64::try_from(self.running.len()).unwrap();
        self.stage == SlotStage::Working && !self.held.is_empty() && running < self.lanes
    }

    /// Prepares itself, or fails at that.
    pub fn prepare(&mut self, now: u64, fails: bool) {
        match self.stage {
            SlotStage::Starting if fails => self.end_all(now, Reason::Lost, SlotEnd::NotStarted),
            SlotStage::Starting => self.stage = SlotStage::Preparing,
            SlotStage::Preparing => {
                self.stage = SlotStage::Working;
                (self.prepared_ms, self.idle_since) = (Some(now - self.started), now);
            }
            SlotStage::Working | SlotStage::Idle | SlotStage::Stopping | SlotStage::Gone => {}
        }
    }

    /// Begins the first of the tasks that it holds.
    pub fn begin(&mut self, now: u64) -> AttemptId {
        let id = self.held.remove(0);
        self.running.insert(id, Run { begun: now, saved: None });
        id
    }

    /// Ends an attempt.
    pub fn end_one(&mut self, now: u64, id: AttemptId, why: Reason, exit: Option<u8>) {
        self.held.retain(|held| *held != id);
        let run = self.running.remove(&id);
        self.idle_since = now;
        self.last_number += 1;
        self.results.push(TaskResult {
            number: self.last_number,
            task: id,
            why,
            exit,
            signal: None,
            ms: run.map_or(0, |run| now - run.begun),
            cpu_ms: 0,
            peak_mb: 0,
            rss_mb: 0,
            out: [0, 0],
            tail: String::new(),
            error: String::new(),
            has_saved: run.is_some_and(|run| run.saved.is_some()),
        });
        if self.stop.is_some() && self.held.is_empty() && self.running.is_empty() {
            (self.stage, self.end) = (SlotStage::Gone, Some(SlotEnd::Stopped));
        }
    }

    /// Ends all that it has; the attempts that had begun end with `why`.
    pub fn end_all(&mut self, now: u64, why: Reason, end: SlotEnd) {
        for id in self.held.clone() {
            self.end_one(now, id, Reason::Returned, None);
        }
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.end_one(now, id, why, None);
        }
        (self.stage, self.end) = (SlotStage::Gone, Some(end));
    }

    /// Does all acts due at `now`: kills tasks after their grace, ends at the end of the lease, or
    /// for want of tasks.
    pub fn keep_time(&mut self, now: u64) {
        if !self.lives() {
            return;
        }
        let is_idle =
            self.stage == SlotStage::Working && self.held.is_empty() && self.running.is_empty();
        let is_unheard = !self.finishes_unheard && self.renewed + LEASE_MS + GRACE_MS <= now;
        match self.stop {
            Some((why, Some(until))) if until <= now => self.end_all(now, why, SlotEnd::Stopped),
            _ if is_unheard => self.end_all(now, Reason::Lost, SlotEnd::Unheard),
            _ if is_idle && self.idle_since + LINGER_MS <= now => {
                self.end_all(now, Reason::Lost, SlotEnd::Idle);
            }
            _ => {}
        }
    }

    pub fn obey(&mut self, now: u64, order: &SlotOrder) {
        self.results.retain(|result| order.acked < result.number);
        if order.order < self.seen_order || !self.lives() {
            return;
        }
        self.seen_order = order.order;
        for new in &order.tasks {
            if self.seen.insert(new.task) {
                self.held.push(new.task);
            }
        }
        for id in
            order.recall.iter().filter(|id| self.held.contains(id)).copied().collect::<Vec<_>>()
        {
            self.end_one(now, id, Reason::Returned, None);
        }
        for id in &order.cancel {
            if self.held.contains(id) || self.running.contains_key(id) {
                self.end_one(now, *id, Reason::Cancelled, None);
            }
        }
        let Some(stop) = order.stop.filter(|_| self.lives()) else { return };
        let until = self.stop.and_then(|(_, until)| until);
        let until = until.or(stop.by_ms.map(|by_ms| now + by_ms));
        (self.stop, self.stage) = (Some((stop.why.of_task(), until)), SlotStage::Stopping);
        for id in self.held.clone() {
            self.end_one(now, id, Reason::Returned, None);
        }
        if self.running.is_empty() {
            self.end_all(now, Reason::Preempted, SlotEnd::Stopped);
        }
    }

    fn report(&self, share: u64, now: u64) -> SlotReport {
        let running = self.running.iter().map(|(task, run)| RunningTask {
            task: *task,
            ms: now - run.begun,
            unsaved_ms: now - run.unsaved_since(),
            has_saved: run.saved.is_some(),
            rss_mb: 0,
        });
        let has = u64::try_from(self.held.len() + self.running.len()).unwrap();
        let is_open = self.stage == SlotStage::Working;
        SlotReport {
            share,
            state: self.stage,
            held: self.held.clone(),
            running: running.collect(),
            want: if is_open { (self.lanes + 2).saturating_sub(has) } else { 0 },
            results: self.results.clone(),
            seen_order: self.seen_order,
            prepared_ms: self.prepared_ms,
            port: None,
            end: self.end,
            text: None,
        }
    }
}

/// A node with its agent.
#[derive(Clone, Debug, Default)]
pub struct SimNode {
    pub boot: u64,
    number: u64,
    pub slots: BTreeMap<u64, SimSlot>,
    /// True if the machine is off.
    pub is_off: bool,
    /// True if its heartbeats do not arrive.
    pub is_unheard: bool,
    /// True if its exchanges do not arrive.
    pub is_cut: bool,
    /// Time at which the waiting exchange was sent.
    pub waits_since: Option<u64>,
}

impl SimNode {
    /// Builds the next report of the node.
    pub fn report(&mut self, now: u64) -> Exchange {
        self.number += 1;
        Exchange {
            v: VERSION,
            boot: self.boot.to_string(),
            life: self.boot.to_string(),
            number: self.number,
            limits: Rung::Watched,
            only_user: None,
            address: None,
            epoch: 0,
            slots: self.slots.iter().map(|(share, slot)| slot.report(*share, now)).collect(),
        }
    }

    /// Carries out the answer to an exchange that was sent at `sent`.
    pub fn obey(
        &mut self,
        sent: u64,
        now: u64,
        orders: &[SlotOrder],
        finishes: impl Fn(u64) -> bool,
    ) {
        for order in orders {
            if order.forget {
                let slot = self.slots.remove(&order.share);
                assert!(slot.is_none_or(|slot| !slot.lives()), "it forgets what runs");
                continue;
            }
            if let Some(start) = &order.start {
                let new = || SimSlot::new(now, start.lanes, finishes(start.campaign));
                self.slots.entry(order.share).or_insert_with(new);
            } else if order.stop.is_some() {
                // An unknown slot is gone, and the node reports that.
                self.slots.entry(order.share).or_insert_with(|| {
                    let mut slot = SimSlot::new(now, 1, false);
                    slot.end_all(now, Reason::Lost, SlotEnd::Stopped);
                    slot
                });
            }
            if let Some(slot) = self.slots.get_mut(&order.share) {
                slot.renewed = slot.renewed.max(sent);
                slot.obey(now, order);
            }
        }
        let named: BTreeSet<u64> = orders.iter().map(|order| order.share).collect();
        for (_, slot) in self.slots.iter_mut().filter(|(share, _)| !named.contains(share)) {
            if slot.lives() {
                slot.end_all(now, Reason::Lost, SlotEnd::Stopped);
            }
        }
    }

    /// Switches the machine off. Running tasks are gone, and its disk too if that `loses_spool`.
    pub fn crash(&mut self, now: u64, loses_spool: bool) {
        (self.is_off, self.waits_since) = (true, None);
        self.boot += 1;
        self.number = 0;
        for slot in self.slots.values_mut().filter(|slot| slot.lives()) {
            slot.end_all(now, Reason::Lost, SlotEnd::Died);
        }
        if loses_spool {
            self.slots.clear();
        }
    }
}

pub fn name(node: usize) -> Name {
    Name::from(format!("n{node}"))
}
