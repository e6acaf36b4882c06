//! A program that runs in a lane.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::process::{Pid, Signal, WaitStatus};

use super::cgroup::TaskCgroup;
use super::family;
use super::output::Stream;
use crate::orchestrator::wire::{AttemptId, NewTask, Reason, RunningTask, TaskSpec};

/// Purpose of a program.
#[derive(Clone, Debug)]
pub(super) enum RunRole {
    Prologue,
    Task(NewTask),
    Epilogue,
}

/// A program that runs, or has ended and left processes behind.
#[derive(Debug)]
pub(super) struct Run {
    pub role: RunRole,
    pub spec: Arc<TaskSpec>,
    pub pid: Pid,
    pub streams: [Stream; 2],
    pub begun_ms: u64,
    /// Time of the last confirmed checkpoint.
    pub saved_ms: Option<u64>,
    /// File whose change confirms a checkpoint, and its time at the last check.
    pub mark: Option<(PathBuf, Option<SystemTime>)>,
    /// Time of the next checkpoint signal.
    pub next_save_ms: Option<u64>,
    /// Time of the last checkpoint signal, until the checkpoint is confirmed.
    pub asked_ms: Option<u64>,
    /// Time that the last confirmed checkpoint took, in milliseconds. `None`: none was asked for.
    pub cost_ms: Option<u64>,
    /// Mean time between two interruptions of a task, in milliseconds.
    pub interruption_ms: u64,
    pub ending: Option<PlannedEnd>,
    pub exit: Option<Exit>,
    pub peak_bytes: u64,
    pub own_bytes: u64,
    pub oom_before: u64,
    /// The task's own cgroup. `None`: the slot has no child cgroups.
    pub group: Option<TaskCgroup>,
    /// Processes seen below it, by number and start: some may have left its group since.
    pub seen: BTreeSet<(i32, u64)>,
    pub error_file: PathBuf,
    /// Signal for a new size that no process of the program has caught yet.
    pub resize: Option<u8>,
}

/// End of the program itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub status: WaitStatus,
    pub at_ms: u64,
    pub cpu_ms: u64,
}

/// Planned end of a run, in times since the boot.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedEnd {
    pub why: Reason,
    /// Time of the stop signal.
    pub ask_ms: u64,
    pub kill_ms: u64,
    /// True if a signal was sent for this reason.
    pub is_told: bool,
    pub is_asked: bool,
    pub is_killed: bool,
}

impl Run {
    /// The attempt, of a task.
    pub fn attempt(&self) -> Option<AttemptId> {
        match &self.role {
            RunRole::Task(task) => Some(task.task),
            RunRole::Prologue | RunRole::Epilogue => None,
        }
    }

    /// Returns the progress of a running task. `None` for a prologue or epilogue.
    pub fn progress(&self, now: u64) -> Option<RunningTask> {
        let ms = now.saturating_sub(self.begun_ms);
        let unsaved_ms = now.saturating_sub(self.saved_ms.unwrap_or(self.begun_ms));
        let has_saved = self.saved_ms.is_some();
        let bytes = if self.own_bytes == 0 { self.peak_bytes } else { self.own_bytes };
        let rss_mb = bytes.div_ceil(1 << 20);
        Some(RunningTask { task: self.attempt()?, ms, unsaved_ms, has_saved, rss_mb })
    }

    /// Ends it for `why`: the stop signal at `ask_ms`, the kill at `kill_ms`. A later call can only
    /// make these times earlier.
    pub fn end(&mut self, why: Reason, ask_ms: u64, kill_ms: u64) {
        let new =
            PlannedEnd { why, ask_ms, kill_ms, is_told: false, is_asked: false, is_killed: false };
        let ending = self.ending.get_or_insert(new);
        ending.ask_ms = ending.ask_ms.min(ask_ms);
        ending.kill_ms = ending.kill_ms.min(kill_ms);
        if why == Reason::Cancelled || !ending.is_told {
            ending.why = why;
        }
    }

    /// Ends the run at once, for memory.
    pub fn end_for_memory(&mut self) {
        self.end(Reason::Memory, 0, 0);
        if let Some(ending) = &mut self.ending {
            ending.why = Reason::Memory;
        }
        self.kill();
    }

    /// Sends a signal to the process group of the program, while the program lives.
    pub fn send(&self, signal: u8) {
        let signal = Signal::from_named_raw(i32::from(signal));
        if let Some(signal) = signal.filter(|_| self.exit.is_none()) {
            family::send_group(self.pid, signal);
        }
    }

    /// Tells the program of a new size, once a process of its group catches the signal. Processes that
    /// do not catch it would die of it, and do not get it.
    pub fn tell_size(&mut self) {
        let Some(number) = self.resize.filter(|_| self.exit.is_none()) else { return };
        let Some(signal) = Signal::from_named_raw(i32::from(number)) else { return };
        let leader = self.pid.as_raw_nonzero().get();
        let is_meant =
            |pid: &i32| family::group(*pid) == Some(leader) && family::catches(*pid, number);
        for pid in family::tree(leader).into_iter().filter(is_meant) {
            family::send(pid, signal);
            self.resize = None;
        }
    }

    /// Asks the program to save a checkpoint before the stop signal.
    pub fn ask_to_save_before_end(&mut self) {
        let Some(checkpoint) = self.spec.checkpoint else { return };
        self.send(checkpoint.signal);
        if let Some(ending) = &mut self.ending {
            ending.is_told = true;
        }
    }

    /// Kills the program and all processes below it.
    pub fn kill(&mut self) {
        if let Some(ending) = &mut self.ending {
            ending.is_told = true;
            ending.is_asked = true;
            ending.is_killed = true;
        }
        if let Some(group) = &self.group {
            group.kill();
        }
        let pid = self.pid.as_raw_nonzero().get();
        if self.exit.is_none() {
            family::kill_all(|| family::tree(pid));
            family::send_group(self.pid, Signal::KILL);
        }
    }

    /// Carries out the steps that are due: end, time limit and checkpoints. Returns the time of the
    /// next step.
    pub fn step(&mut self, now: u64) -> Option<u64> {
        if self.exit.is_some() {
            return None;
        }
        let limit = self.spec.time_limit_ms.filter(|_| self.attempt().is_some());
        let limit = limit.map(|limit| self.begun_ms.saturating_add(limit));
        if limit.is_some_and(|limit| limit <= now) && self.ending.is_none() {
            self.end(Reason::TimeLimit, now, now.saturating_add(self.spec.grace_ms));
        }
        let saves = self.save_when_due(now);
        let Some(ending) = self.ending else {
            return limit.into_iter().chain(saves).min();
        };
        if ending.kill_ms <= now {
            if !ending.is_killed {
                self.kill();
            }
            return None;
        }
        if ending.ask_ms <= now && !ending.is_asked {
            self.send(self.spec.stop_signal);
            if let Some(ending) = &mut self.ending {
                ending.is_told = true;
                ending.is_asked = true;
            }
            return Some(ending.kill_ms);
        }
        Some(if ending.is_asked { ending.kill_ms } else { ending.ask_ms })
    }

    /// Sends the periodic checkpoint signal, and returns when the next is due.
    fn save_when_due(&mut self, now: u64) -> Option<u64> {
        let due = self.next_save_ms?;
        if due > now {
            return Some(due);
        }
        let checkpoint = self.spec.checkpoint?;
        self.send(checkpoint.signal);
        self.asked_ms = Some(now);
        let next = now.saturating_add(self.period()?);
        self.next_save_ms = Some(next);
        Some(next)
    }

    /// Time from a checkpoint signal to the next, in milliseconds. `None`: none is sent by itself.
    pub fn period(&self) -> Option<u64> {
        let checkpoint = self.spec.checkpoint?;
        let young = checkpoint.young.map(|it| it.period(self.cost_ms, self.interruption_ms));
        young.or(checkpoint.every_ms).map(|period| period.max(1_000))
    }

    /// Checks for a confirmed checkpoint. If the run is to end, the stop signal is due at once
    /// then.
    pub fn look_for_checkpoint(&mut self, now: u64) {
        let Some((path, before)) = &mut self.mark else { return };
        let time = fs::metadata(path.as_path()).and_then(|metadata| metadata.modified()).ok();
        if time.is_none() || time == *before {
            return;
        }
        *before = time;
        self.saved_ms = Some(now);
        if let Some(asked) = self.asked_ms.take() {
            self.cost_ms = Some(now.saturating_sub(asked));
            // The signal was sent for a period that may differ from the period that is known now.
            self.next_save_ms = self.next_save_ms.and(self.period()).map(|period| asked + period);
        }
        if let Some(ending) = &mut self.ending {
            ending.ask_ms = ending.ask_ms.min(now);
        }
    }

    /// True if an adopted process belongs to this run.
    pub fn owns(&self, pid: i32) -> bool {
        if family::group(pid) == Some(self.pid.as_raw_nonzero().get()) {
            return true;
        }
        let start = family::start_time(pid).unwrap_or(0);
        self.seen.contains(&(pid, start))
            || (self.attempt().is_some() && family::mark(pid).task == self.attempt())
    }
}
