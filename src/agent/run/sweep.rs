//! Leftover processes of a slot, found by its session, and by the mark in the environment of its tasks.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::records::SlotRecord;
use crate::slot;

/// Returns the processes of the slot of `record`: its own process, all processes of its session, and
/// later processes with its mark. The recorded process has to be of this boot.
pub fn left_of(record: &SlotRecord) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid > 1 && *pid != own && belongs(record, *pid)).collect()
}

fn belongs(record: &SlotRecord, pid: i32) -> bool {
    let has_mark = slot::mark(pid).slot.as_deref() == Some(record.slot.as_str());
    let (first, leader) = match &record.process {
        Some(process) => (process.start, process.pid),
        None => (0, 0),
    };
    let is_later = slot::start_time(pid).is_some_and(|start| first <= start);
    // A session keeps its number until its last process ends.
    let is_in_session = leader > 0 && slot::session(pid) == Some(leader);
    is_later && (has_mark || is_in_session) && slot::is_alive(pid)
}

/// Kills processes. A process that has ended is no failure.
pub fn kill(pids: &[i32]) {
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
    }
}
