//! Messages of an agent to a slot.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::journal::{Record, no_follow, plain_result};
use super::life::{Phase, RunningSlot};
use super::ranks::serves_to_the_end;
use super::wire::{LeasedOrder, ToSlot};
use crate::orchestrator::wire::{
    AttemptId, NewTask, Reason, SlotEnd, SlotOrder, SlotStop, StopReason,
};

impl RunningSlot {
    /// Carries out a message of the agent.
    pub(super) fn obey(&mut self, message: ToSlot, bytes: &[u8], now: u64) {
        match message {
            ToSlot::Order(order) => self.follow(*order, now),
            ToSlot::Read(request) => self.answer_read(request),
            ToSlot::Stdin { spec, from, end } => {
                if store_input(&self.folder, spec, from, bytes).is_ok() && end {
                    self.inputs.insert(spec);
                    self.has_news = true;
                }
            }
        }
    }

    fn follow(&mut self, order: LeasedOrder, now: u64) {
        self.lease_until_ms = self.lease_until_ms.max(order.lease_until_ms);
        // Each order is answered, even an order without news: the agent takes silence for a stuck
        // slot.
        self.has_news = true;
        let Some(SlotOrder {
            order: number,
            acked,
            tasks,
            stop,
            recall,
            cancel,
            signals,
            resize,
            ..
        }) = order.order
        else {
            return;
        };
        if number < self.seen_order {
            return;
        }
        let is_new = number > self.seen_order;
        self.seen_order = number;
        for (spec, facts) in order.specs {
            self.specs.entry(spec).or_insert_with(|| Arc::new(facts));
        }
        self.acknowledge(acked);
        self.hold(tasks);
        for attempt in recall {
            self.give_back(attempt, Reason::Returned);
        }
        for attempt in cancel {
            self.cancel(attempt, now);
        }
        for signal in signals.into_iter().filter(|_| is_new) {
            let mut runs = self.lanes.iter().filter_map(|lane| lane.run.as_ref());
            if let Some(run) = runs.find(|run| run.attempt() == Some(signal.task)) {
                run.send(signal.signal);
            }
        }
        if let Some(resize) = resize {
            self.resize(resize);
        }
        if let Some(stop) = stop {
            self.stop(stop, now);
        }
    }

    /// Drops results that the orchestrator has acknowledged.
    fn acknowledge(&mut self, acked: u64) {
        // A number beyond all results is forged, or meant for another slot.
        let acked = acked.min(self.next_number.saturating_sub(1));
        if acked <= self.acked {
            return;
        }
        self.acked = acked;
        self.results = self.results.split_off(&acked.saturating_add(1));
        // The record only spares repeated reports, so a failure is harmless.
        let _ = self.journal.append(&Record::Acked(acked));
        self.has_news = true;
    }

    /// Queues the tasks that the slot was not given before.
    fn hold(&mut self, tasks: Vec<NewTask>) {
        let known = &mut self.known;
        let new: Vec<NewTask> = tasks.into_iter().filter(|task| known.insert(task.task)).collect();
        if new.is_empty() {
            return;
        }
        self.has_news = true;
        let attempts = new.iter().map(|task| task.task).collect();
        let is_written = self.journal.append(&Record::Held(attempts)).is_ok();
        if !is_written {
            self.note_full_disk();
        }
        let takes = matches!(self.phase, Phase::Preparing | Phase::Ready) && is_written;
        for task in new {
            if takes && self.specs.contains_key(&task.spec) {
                self.queue.push_back(task);
            } else {
                self.add_result(plain_result(0, task.task, Reason::Returned));
            }
        }
    }

    /// Removes an attempt from the queue, for `why`. Returns true if it was queued.
    fn give_back(&mut self, attempt: AttemptId, why: Reason) -> bool {
        let before = self.queue.len();
        self.queue.retain(|task| task.task != attempt);
        let is_back = self.queue.len() < before;
        if is_back {
            self.add_result(plain_result(0, attempt, why));
        }
        is_back
    }

    fn cancel(&mut self, attempt: AttemptId, now: u64) {
        if self.give_back(attempt, Reason::Cancelled) {
            return;
        }
        for run in self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut()) {
            let is_new = run.ending.is_none_or(|ending| ending.why != Reason::Cancelled);
            if run.attempt() == Some(attempt) && run.exit.is_none() && is_new {
                run.end(Reason::Cancelled, now, now.saturating_add(run.spec.grace_ms));
                self.has_news = true;
            }
        }
    }

    /// Stops for a SIGTERM from outside, as when systemd stops the unit of the slot or the node
    /// shuts down. No task begins any more, and running tasks have their grace.
    pub(super) fn obey_signal(&mut self, now: u64) {
        self.text.get_or_insert("SIGTERM from outside asked it to end".to_owned());
        let by_ms = Some(self.settings.spec.grace_ms);
        self.stop(SlotStop { by_ms, why: StopReason::VariedOff }, now);
    }

    /// Starts the stop of the slot. A later order can only shorten the time left.
    fn stop(&mut self, stop: SlotStop, now: u64) {
        if self.stop == Some(stop) {
            return;
        }
        self.stop = Some(stop);
        self.return_queue();
        self.start_ending(SlotEnd::Stopped);
        let Some(by_ms) = stop.by_ms else { return };
        let kill = now.saturating_add(by_ms);
        let half = now.saturating_add(by_ms >> 1);
        let mean = self.finished_ms.checked_div(self.finished);
        let why = stop.why.of_task();
        for run in self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut()) {
            if run.exit.is_some() {
                continue;
            }
            let expected_end = mean.map(|mean| run.begun_ms.saturating_add(mean));
            let is_almost_done = stop.why != StopReason::Cancelled
                && expected_end.is_some_and(|end| now < end && end <= half);
            let has_checkpoint = run.spec.checkpoint.is_some() && run.attempt().is_some();
            let waits = is_almost_done || has_checkpoint;
            let ask = if waits { half } else { now };
            run.end(why, if serves_to_the_end(&run.role) { kill } else { ask }, kill);
            if has_checkpoint && stop.why != StopReason::Cancelled {
                run.ask_to_save_before_end();
            }
        }
        self.has_news = true;
    }
}

/// The file with the kept standard input of a specification.
pub(super) fn input_file(folder: &Path, spec: u64) -> PathBuf {
    folder.join(format!("stdin-{spec}"))
}

fn store_input(folder: &Path, spec: u64, from: u64, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(no_follow());
    options.open(input_file(folder, spec))?.write_all_at(bytes, from)
}
