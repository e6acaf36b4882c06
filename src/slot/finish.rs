//! The end of tasks: leftover processes are killed, and the result is recorded.

use std::fs;

use super::begin::adopted;
use super::cgroup::{SlotCgroup, TaskCgroup};
use super::family;
use super::journal::plain_result;
use super::life::{Phase, RunningSlot, SAMPLE_EVERY};
use super::output::error_head;
use super::run::{Exit, Run, RunRole};
use crate::orchestrator::wire::{NewTask, Reason, SlotEnd, TaskResult};

/// The part of a share that files in shared memory may keep when no task runs: a tenth.
const SHARED_PART: u64 = 10;

impl RunningSlot {
    /// Kills leftover processes of ended runs, and finishes the runs that have none. Returns true
    /// if a run still has leftover processes.
    pub(super) fn finish_runs(&mut self, now: u64) -> bool {
        let mut is_waiting = false;
        for lane in 0..self.lanes.len() {
            let Some(run) = self.lanes.get(lane).and_then(|lane| lane.run.as_ref()) else {
                continue;
            };
            let Some(exit) = run.exit else { continue };
            let is_left = !self.keeps_leftovers(run) && self.end_leftovers(lane, run);
            if is_left {
                is_waiting = true;
            } else if let Some(run) = self.lanes.get_mut(lane).and_then(|lane| lane.run.take()) {
                self.finish(lane, run, exit, now);
            }
        }
        is_waiting
    }

    /// Leftovers may stay only where a cgroup tells them apart, and until the slot ends.
    fn keeps_leftovers(&self, run: &Run) -> bool {
        run.spec.allows_leftovers && run.group.is_some() && self.phase == Phase::Ready
    }

    /// Kills the leftover processes of a run. Returns true if there were any: they end a moment
    /// later.
    fn end_leftovers(&self, lane: usize, run: &Run) -> bool {
        if let Some(group) = &run.group {
            let is_left = !group.processes().is_empty();
            if is_left {
                group.kill();
            }
            return is_left;
        }
        let left = || self.leftovers(lane, run);
        if left().is_empty() {
            return false;
        }
        family::kill_all(left);
        true
    }

    /// Processes that a run left behind, with all below them.
    fn leftovers(&self, lane: usize, run: &Run) -> Vec<i32> {
        let others: Vec<&Run> = (0..)
            .zip(&self.lanes)
            .filter(|(number, _)| *number != lane)
            .filter_map(|(_, lane)| lane.run.as_ref())
            .collect();
        let mains: Vec<i32> = others
            .iter()
            .filter(|run| run.exit.is_none())
            .map(|run| run.pid.as_raw_nonzero().get())
            .collect();
        let is_alone = others.is_empty();
        adopted(&mains)
            .into_iter()
            .filter(|pid| is_alone || run.owns(*pid))
            .flat_map(family::tree)
            .filter(|pid| family::is_alive(*pid))
            .collect()
    }

    fn finish(&mut self, lane: usize, mut run: Run, exit: Exit, now: u64) {
        self.measure(&mut run);
        let group = run.group.clone();
        self.idle_since = now;
        self.has_news = true;
        match run.role.clone() {
            RunRole::Task(task) => self.finish_task(lane, run, exit, &task),
            RunRole::Prologue => {
                let is_done = exit.status.exit_status() == Some(0);
                // A slot that was ordered to stop meanwhile ends for that reason.
                match self.phase {
                    Phase::Preparing if is_done => self.become_ready(now),
                    Phase::Preparing => {
                        let tail = run.streams[1].tail();
                        self.fail_prologue(&format!("its prologue failed: {tail}"));
                    }
                    Phase::Ready | Phase::Ending(_) | Phase::Leaving(_) | Phase::Gone(_) => {}
                }
                let _ = fs::rename(self.folder.join("lane0.out"), self.folder.join("prologue.out"));
                let _ = fs::rename(self.folder.join("lane0.err"), self.folder.join("prologue.err"));
            }
            RunRole::Epilogue => {
                if exit.status.exit_status() != Some(0) {
                    self.text = Some("its epilogue failed".to_owned());
                }
            }
        }
        // The counters of the cgroup are read by now.
        if let Some(group) = group {
            group.remove();
        }
    }

    /// Takes the last measurements of a run: the kernel's, where it counts.
    fn measure(&self, run: &mut Run) {
        if let Some(group) = &run.group {
            run.peak_bytes = run.peak_bytes.max(group.peak_bytes());
        } else if let Some(home) = self.home.as_ref().filter(|_| self.lanes.len() == 1) {
            run.peak_bytes = run.peak_bytes.max(home.all().peak_bytes());
        }
        // A task that ended before the first sample has no more to tell.
        if run.own_bytes == 0 {
            run.own_bytes = run.peak_bytes;
        }
    }

    fn finish_task(&mut self, lane: usize, run: Run, exit: Exit, task: &NewTask) {
        let why = self.why_ended(&run, exit);
        let number = |value: i32| u8::try_from(value).unwrap_or(u8::MAX);
        let has_failed = why != Reason::Done;
        let ms = exit.at_ms.saturating_sub(run.begun_ms);
        let result = TaskResult {
            exit: exit.status.exit_status().map(number),
            signal: exit.status.terminating_signal().map(number),
            ms,
            cpu_ms: exit.cpu_ms,
            peak_mb: run.peak_bytes.div_ceil(1 << 20),
            rss_mb: run.own_bytes.div_ceil(1 << 20),
            out: [run.streams[0].length(), run.streams[1].length()],
            tail: if has_failed { run.streams[1].tail() } else { String::new() },
            error: if has_failed { error_head(&run.error_file) } else { String::new() },
            has_saved: run.saved_ms.is_some(),
            ..plain_result(0, task.task, why)
        };
        if why == Reason::Done {
            remove_mark(&run);
        }
        if let Reason::Done | Reason::Exit = why {
            self.finished += 1;
            self.finished_ms = self.finished_ms.saturating_add(ms);
        }
        self.keep_streams(lane, run.streams, task.task);
        self.listen_again();
        self.add_result(result);
        self.check_shared_memory();
    }

    fn why_ended(&self, run: &Run, exit: Exit) -> Reason {
        if let Some(ending) = run.ending.filter(|ending| ending.is_told) {
            return ending.why;
        }
        let whole = self.home.as_ref().map(SlotCgroup::all);
        let group: Option<&TaskCgroup> = run.group.as_ref().or(whole.as_ref());
        let kills = group.map_or(0, TaskCgroup::oom_kills);
        let has_failed = exit.status.exit_status() != Some(0);
        if has_failed && kills > run.oom_before {
            return Reason::Memory;
        }
        match exit.status.exit_status() {
            Some(0) => Reason::Done,
            Some(_) => Reason::Exit,
            None => Reason::Signal,
        }
    }

    /// Files in shared memory stay charged to the share when their task is gone: the next task would
    /// die of them.
    fn check_shared_memory(&mut self) {
        let Some(home) = self.home.as_ref().filter(|_| !self.is_busy()) else { return };
        let most = (self.settings.start.memory_mb << 20).checked_div(SHARED_PART).unwrap_or(0);
        let left = home.all().shared_bytes();
        if left > most && self.phase == Phase::Ready {
            self.text = Some(format!(
                "its tasks left {} MB in /dev/shm or another folder in memory",
                left >> 20
            ));
            self.return_queue();
            self.start_ending(SlotEnd::SharedMemory);
        }
    }

    /// Compares the memory of all tasks with the share, where the kernel does not.
    pub(super) fn sample_when_due(&mut self, now: u64) {
        if now < self.sampled_ms.saturating_add(SAMPLE_EVERY) {
            return;
        }
        self.sampled_ms = now;
        let limit = self.settings.start.memory_mb << 20;
        let mut trees = self.trees();
        let mut sizes: Vec<u64> = sum_up(&trees, |pid| Some(family::resident_bytes(pid)));
        if sizes.iter().sum::<u64>() > limit.saturating_mul(4).checked_div(5).unwrap_or(0) {
            // Shared pages count once from here on. A process that is not readable counts whole.
            sizes = sum_up(&trees, |pid| {
                family::proportional_bytes(pid).or_else(|| Some(family::resident_bytes(pid)))
            });
        }
        for (lane, size) in sizes.iter().enumerate() {
            let Some(run) = self.lanes.get_mut(lane).and_then(|lane| lane.run.as_mut()) else {
                continue;
            };
            run.peak_bytes = run.peak_bytes.max(*size);
            let known = trees.get_mut(lane).map(std::mem::take).unwrap_or_default();
            run.seen =
                known.into_iter().filter_map(|pid| Some((pid, family::start_time(pid)?))).collect();
        }
        let all: u64 = sizes.iter().sum();
        self.over_limit = if all > limit { self.over_limit + 1 } else { 0 };
        let is_far_over = all > limit.saturating_add(limit >> 2);
        if self.over_limit < 2 && !is_far_over {
            return;
        }
        self.over_limit = 0;
        let largest = (0..).zip(&sizes).max_by_key(|(_, size)| **size);
        let run = largest.and_then(|(lane, _): (usize, _)| self.lanes.get_mut(lane)?.run.as_mut());
        if let Some(run) = run.filter(|run| run.exit.is_none()) {
            run.end_for_memory();
        }
    }

    /// The processes of each lane.
    fn trees(&self) -> Vec<Vec<i32>> {
        let runs: Vec<Option<&Run>> = self.lanes.iter().map(|lane| lane.run.as_ref()).collect();
        let main = |run: &Run| run.pid.as_raw_nonzero().get();
        let mains: Vec<i32> = runs.iter().copied().flatten().map(main).collect();
        let adopted = adopted(&mains);
        let tree_of = |run: &Run| {
            let own = adopted.iter().copied().filter(|pid| mains.len() == 1 || run.owns(*pid));
            let mut tree = family::tree(main(run));
            tree.extend(own.flat_map(family::tree));
            tree
        };
        runs.into_iter().map(|run| run.map(tree_of).unwrap_or_default()).collect()
    }
}

/// Removes the checkpoint mark of a finished task. The checkpoints belong to the task.
fn remove_mark(run: &Run) {
    let Some((mark, _)) = &run.mark else { return };
    let Some(folder) = mark.parent() else { return };
    if folder.is_dir() {
        let _ = fs::remove_file(mark);
        // A folder that is not empty stays.
        let _ = fs::remove_dir(folder);
        let _ = folder.parent().map(fs::remove_dir);
    }
}

fn sum_up(trees: &[Vec<i32>], size: impl Fn(i32) -> Option<u64>) -> Vec<u64> {
    let sum = |tree: &Vec<i32>| tree.iter().filter_map(|pid| size(*pid)).sum();
    trees.iter().map(sum).collect()
}
