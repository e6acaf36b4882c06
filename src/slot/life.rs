//! The main loop of a slot: events in, signals and reports out, on a single thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rustix::process::{WaitOptions, wait, waitpid};

use super::cgroup::{SlotCgroup, TaskCgroup};
use super::clock::since_boot_ms;
use super::family;
use super::journal::{Journal, Record, plain_result};
use super::known::KnownAttempts;
use super::output::{Spool, Stream};
use super::ranks::RankPort;
use super::run::{Exit, Run};
use super::serve::{AgentConnection, SocketEvent};
use super::wire::SlotSettings;
use crate::orchestrator::wire::{NewTask, Reason, SlotEnd, SlotStop, TaskResult, TaskSpec};

/// Interval of a slot's checks of checkpoints, outputs and its folder while it has tasks, in
/// milliseconds.
const LOOK_EVERY: u64 = 1_000;

/// Interval between memory samples if the slot enforces the limit itself, in milliseconds.
pub(super) const SAMPLE_EVERY: u64 = 250;

/// Most events of a step, so that a flood of messages delays neither leases nor tasks that are due.
const MOST_AT_ONCE: usize = 64;

/// Pause before the next check for killed processes, in milliseconds.
const SWEEP_PAUSE: u64 = 3;

/// Event for the main loop of a slot.
#[derive(Debug)]
pub(super) enum SlotEvent {
    /// A child may have ended.
    ChildEnded,
    /// SIGTERM came from outside.
    EndOrdered,
    /// The socket brought a message, or its connection changed.
    Socket(SocketEvent),
}

/// A lane: its program, and the files that its next task can use.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub run: Option<Run>,
    pub streams: [Option<Stream>; 2],
}

/// Phase in the life of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The prologue has to run, or runs.
    Preparing,
    /// The slot takes tasks.
    Ready,
    /// The slot ends: no task begins any more.
    Ending(SlotEnd),
    /// The epilogue runs.
    Leaving(SlotEnd),
    /// No task, prologue or epilogue runs, and no leftover process.
    Gone(SlotEnd),
}

/// A slot that runs.
#[derive(Debug)]
pub(super) struct RunningSlot {
    pub folder: PathBuf,
    pub settings: SlotSettings,
    pub journal: Journal,
    pub spool: Spool,
    pub home: Option<SlotCgroup>,
    pub lanes: Vec<Lane>,
    pub phase: Phase,
    pub text: Option<String>,
    pub queue: VecDeque<NewTask>,
    pub specs: BTreeMap<u64, Arc<TaskSpec>>,
    /// Specifications whose kept input has arrived.
    pub inputs: BTreeSet<u64>,
    /// Every attempt that the slot was given.
    pub known: KnownAttempts,
    pub results: BTreeMap<u64, TaskResult>,
    pub next_number: u64,
    pub acked: u64,
    pub seen_order: u64,
    pub lease_until_ms: u64,
    pub stop: Option<SlotStop>,
    pub prepared_ms: Option<u64>,
    pub idle_since: u64,
    pub finished: u64,
    pub finished_ms: u64,
    /// End of the pause without new tasks after the node could not start a task. 0: no pause.
    pub paused_until_ms: u64,
    /// True if the journal could not be written.
    pub is_full: bool,
    pub over_limit: u32,
    pub agent: Option<AgentConnection>,
    pub has_news: bool,
    pub reported_ms: u64,
    pub looked_ms: u64,
    pub sampled_ms: u64,
    /// Listener for other ranks of its gang.
    pub rank_port: RankPort,
    /// Tells the reaper to wait for the next child.
    pub reaper: Sender<()>,
}

impl RunningSlot {
    /// Runs until nothing is left to do, and returns why it ended.
    pub fn live(mut self, events: &Receiver<SlotEvent>) -> SlotEnd {
        loop {
            let now = since_boot_ms();
            let next = self.step(now);
            if let Phase::Gone(end) = self.phase {
                self.close(end);
                return end;
            }
            let next = self.report_when_due(now).into_iter().chain([next]).min().unwrap_or(next);
            let pause = Duration::from_millis(next.saturating_sub(since_boot_ms()));
            match events.recv_timeout(pause) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                // The threads that send live as long as the process.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
            }
            // Further events join this step, so that a single report covers all of them.
            for event in events.try_iter().take(MOST_AT_ONCE) {
                self.take(event);
            }
        }
    }

    fn take(&mut self, event: SlotEvent) {
        match event {
            SlotEvent::ChildEnded => self.reap(),
            SlotEvent::EndOrdered => self.obey_signal(since_boot_ms()),
            SlotEvent::Socket(SocketEvent::Connected(agent)) => {
                self.agent = Some(agent);
                self.has_news = true;
                self.reported_ms = 0;
            }
            SlotEvent::Socket(SocketEvent::Left(number)) => {
                self.agent.take_if(|agent| agent.number == number);
            }
            SlotEvent::Socket(SocketEvent::Message(number, message, bytes)) => {
                if self.agent.as_ref().is_some_and(|agent| agent.number == number) {
                    self.obey(*message, &bytes, since_boot_ms());
                }
            }
        }
    }

    /// Waits for all children that ended.
    fn reap(&mut self) {
        let now = since_boot_ms();
        for run in self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut()) {
            if run.exit.is_some() {
                continue;
            }
            let pid = run.pid.as_raw_nonzero().get();
            if family::is_alive(pid) {
                continue;
            }
            // The times of a process can be read until it is waited for.
            let cpu_ms = family::cpu_ms(pid);
            if let Ok(Some((_, status))) = waitpid(Some(run.pid), WaitOptions::NOHANG) {
                run.look_for_checkpoint(now);
                run.tell_size();
                run.exit = Some(Exit { status, at_ms: now, cpu_ms });
            }
        }
        // The remaining children are adopted processes, and programs that ended since the check
        // above.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let mut runs = self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut());
            if let Some(run) = runs.find(|run| run.exit.is_none() && run.pid == pid) {
                run.look_for_checkpoint(now);
                run.exit = Some(Exit { status, at_ms: now, cpu_ms: 0 });
            }
        }
        // The reaper lives as long as the process.
        let _ = self.reaper.send(());
    }

    /// Carries out all that is due at `now`, and returns the time of the next step.
    fn step(&mut self, now: u64) -> u64 {
        let mut next = now.saturating_add(60_000).min(self.watch_lease(now));
        if self.finish_runs(now) {
            next = next.min(now.saturating_add(SWEEP_PAUSE));
        }
        // Tasks that begin here have deadlines, too.
        self.advance(now);
        if now < self.paused_until_ms {
            next = next.min(self.paused_until_ms);
        }
        if self.is_busy() {
            self.look_when_due(now);
            next = next.min(self.looked_ms.saturating_add(LOOK_EVERY));
            if self.home.is_none() {
                self.sample_when_due(now);
                next = next.min(self.sampled_ms.saturating_add(SAMPLE_EVERY));
            }
        }
        for run in self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut()) {
            next = run.step(now).map_or(next, |due| next.min(due));
        }
        next.min(self.idle_deadline())
    }

    /// True if a lane has a program, or leftover processes of its last program.
    pub fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.run.is_some())
    }

    /// Ends everything when the lease has run out. Returns when it does.
    fn watch_lease(&mut self, now: u64) -> u64 {
        if matches!(self.phase, Phase::Gone(_)) || self.settings.spec.finishes_unheard {
            return u64::MAX;
        }
        if self.lease_until_ms <= now && !matches!(self.phase, Phase::Ending(SlotEnd::Unheard)) {
            self.return_queue();
            let grace = self.settings.spec.grace_ms;
            self.end_runs(Reason::Lost, now, now.saturating_add(grace));
            self.start_ending(SlotEnd::Unheard);
        }
        if self.lease_until_ms <= now { u64::MAX } else { self.lease_until_ms }
    }

    /// Ends all that runs for `why`.
    pub fn end_runs(&mut self, why: Reason, ask_ms: u64, kill_ms: u64) {
        for run in self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut()) {
            if run.exit.is_none() {
                run.end(why, ask_ms, kill_ms);
            }
        }
        self.has_news = true;
    }

    /// Begins the end of the slot: no task begins from now on.
    pub fn start_ending(&mut self, end: SlotEnd) {
        if let Phase::Preparing | Phase::Ready = self.phase {
            self.phase = Phase::Ending(end);
            self.has_news = true;
        } else if end == SlotEnd::Unheard {
            self.phase = Phase::Ending(end);
        }
    }

    fn look_when_due(&mut self, now: u64) {
        if now < self.looked_ms.saturating_add(LOOK_EVERY) {
            return;
        }
        self.looked_ms = now;
        if !self.folder.is_dir() {
            let grace = self.settings.spec.grace_ms;
            self.end_runs(Reason::Lost, now, now.saturating_add(grace));
            self.start_ending(SlotEnd::Stopped);
            self.text = Some("its folder was removed".to_owned());
        }
        let whole = self.home.as_ref().map(SlotCgroup::all);
        for run in self.lanes.iter_mut().filter_map(|lane| lane.run.as_mut()) {
            run.look_for_checkpoint(now);
            for stream in &mut run.streams {
                stream.hold_cap();
            }
            let group = run.group.as_ref().or(whole.as_ref());
            let own_bytes = group.map_or(0, TaskCgroup::own_bytes);
            run.own_bytes = run.own_bytes.max(own_bytes);
            let kills = group.map_or(0, TaskCgroup::oom_kills);
            if run.spec.oom_ends_task && kills > run.oom_before && run.exit.is_none() {
                run.end_for_memory();
            }
        }
        // The report says how long tasks have run.
        self.has_news = true;
    }

    /// Returns the time at which the slot ends for lack of tasks. A slot with tasks has no such
    /// time.
    fn idle_deadline(&self) -> u64 {
        if self.phase == Phase::Ready && !self.is_busy() && self.queue.is_empty() {
            self.idle_since.saturating_add(self.settings.start.linger_ms)
        } else {
            u64::MAX
        }
    }

    /// Moves to the next phase if nothing prevents it, and begins tasks.
    fn advance(&mut self, now: u64) {
        match self.phase {
            Phase::Preparing => self.prepare(now),
            Phase::Ready => {
                self.begin_tasks(now);
                if self.idle_deadline() <= now {
                    self.start_ending(SlotEnd::Idle);
                    self.advance(now);
                }
            }
            Phase::Ending(end) if !self.is_busy() => {
                self.return_queue();
                self.phase = Phase::Leaving(end);
                if !self.start_epilogue(now) {
                    self.phase = Phase::Gone(end);
                }
            }
            Phase::Leaving(end) if !self.is_busy() => self.phase = Phase::Gone(end),
            Phase::Ending(_) | Phase::Leaving(_) | Phase::Gone(_) => {}
        }
    }

    /// Returns the queued tasks that did not begin.
    pub fn return_queue(&mut self) {
        for task in std::mem::take(&mut self.queue) {
            self.add_result(plain_result(0, task.task, Reason::Returned));
        }
    }

    /// Records a result, with the next number.
    pub fn add_result(&mut self, mut result: TaskResult) {
        result.number = self.next_number;
        self.next_number += 1;
        // On a full disk the result is reported from memory, and the slot ends before it takes more.
        if self.journal.append(&Record::End(result.clone())).is_err() {
            self.note_full_disk();
        }
        self.results.insert(result.number, result);
        self.has_news = true;
    }

    /// Takes no more tasks: each begin has to be in the journal first.
    pub fn note_full_disk(&mut self) {
        self.is_full = true;
        self.text = Some("the disk of its spool is full: free some of it".to_owned());
    }

    /// Writes the end into the journal, and reports it.
    fn close(&mut self, end: SlotEnd) {
        let text = self.text.clone();
        // Without this record, a reader of the journal takes the slot for a slot that died.
        let _ = self.journal.append(&Record::Closed { end, text });
        self.send_report(since_boot_ms());
    }
}

/// The number of this process.
pub(super) fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}
