//! Processes below a slot, as `/proc` has them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::orchestrator::wire::AttemptId;

/// Rounds of stopping a family that keeps growing, before it is killed as far as it is known.
const ROUNDS: u32 = 20;

/// A number out of a file of `/proc` about a process.
fn read(pid: i32, file: &str) -> Option<String> {
    // Names of programs may be any bytes.
    let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The fields of `/proc/PID/stat` behind the name of the program: the first is the state.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = read(pid, "stat")?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn number(fields: &[String], field: usize) -> Option<u64> {
    fields.get(field)?.parse().ok()
}

/// Returns the children of a process, adopted processes included.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

/// `pid` and all processes below it.
pub fn tree(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        // A process that moves while this reads is not counted twice.
        let below: Vec<i32> =
            children(*pid).into_iter().filter(|child| !found.contains(child)).collect();
        found.extend(below);
        next += 1;
    }
    found
}

/// True if the process exists and has not ended.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z"))
}

/// The start of a process in clock ticks since the boot: with its number it names a process.
pub fn start_time(pid: i32) -> Option<u64> {
    number(&stat(pid)?, 19)
}

/// The process group of a process.
pub fn group(pid: i32) -> Option<i32> {
    stat(pid)?.get(2)?.parse().ok()
}

/// True if a process has a handler for the signal of that number.
pub fn catches(pid: i32, signal: u8) -> bool {
    let text = read(pid, "status").unwrap_or_default();
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    let bit = u32::from(signal).checked_sub(1).and_then(|place| 1_u64.checked_shl(place));
    caught.zip(bit).is_some_and(|(caught, bit)| caught & bit != 0)
}

/// The session of a process.
pub fn session(pid: i32) -> Option<i32> {
    stat(pid)?.get(3)?.parse().ok()
}

/// Returns the count of threads of all processes of a user.
pub fn threads_of(uid: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == uid));
    let pids = own.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| number(&stat(pid)?, 17)).sum()
}

/// Processor time of a process and of its children that it waited for, in milliseconds.
pub fn cpu_ms(pid: i32) -> u64 {
    let Some(fields) = stat(pid) else { return 0 };
    let ticks: u64 = (11..15).filter_map(|field| number(&fields, field)).sum();
    let per_second = clock_ticks_per_second().max(1);
    ticks.saturating_mul(1_000).checked_div(per_second).unwrap_or(0)
}

/// Resident memory of a process in bytes, shared pages included.
pub fn resident_bytes(pid: i32) -> u64 {
    let pages = read(pid, "statm");
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(u64::try_from(page_size()).unwrap_or(4096))
}

/// The part of resident memory that a process answers for, in bytes: shared pages by their number of
/// users.
pub fn proportional_bytes(pid: i32) -> Option<u64> {
    let text = read(pid, "smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Origin of a process, according to its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessMark {
    /// The name of the slot on its node.
    pub slot: Option<String>,
    /// The attempt.
    pub task: Option<AttemptId>,
}

/// The mark of a process; empty if it cleared its environment.
pub fn mark(pid: i32) -> ProcessMark {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variable = |name: &str| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find_map(|variable| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok().map(str::to_owned)
        })
    };
    let number = |name: &str| variable(name)?.parse().ok();
    let task = || {
        Some(AttemptId {
            campaign: number("APPORTION_CAMPAIGN_ID")?,
            task: number("APPORTION_TASK_ID")?,
            attempt: number("APPORTION_ATTEMPT")?,
        })
    };
    ProcessMark { slot: variable("APPORTION_SLOT"), task: task() }
}

/// Sends a signal to a process. A process that has ended is no failure.
pub fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 1) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends a signal to a process group.
pub fn send_group(group: Pid, signal: Signal) {
    if group.as_raw_nonzero().get() > 1 {
        let _ = kill_process_group(group, signal);
    }
}

/// Kills the processes that `find` returns. They are stopped first, until no new process appears: a
/// process that forks faster than this reads would escape otherwise.
pub fn kill_all(find: impl Fn() -> Vec<i32>) {
    let mut known: Vec<i32> = Vec::new();
    for _ in 0..ROUNDS {
        let new: Vec<i32> = find().into_iter().filter(|pid| !known.contains(pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in &new {
            send(*pid, Signal::STOP);
        }
        known.extend(new);
    }
    for pid in known {
        send(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_known_by_its_place_and_its_mark() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 600 & read line; kill $!"])
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("APPORTION_SLOT", "o1-7")])
            .envs([("APPORTION_CAMPAIGN_ID", "9"), ("APPORTION_TASK_ID", "4")])
            .env("APPORTION_ATTEMPT", "2")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        while tree(pid).len() < 2 {
            std::thread::yield_now();
        }
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(children(own).contains(&pid));
        let task = AttemptId { campaign: 9, task: 4, attempt: 2 };
        assert_eq!(mark(pid), ProcessMark { slot: Some("o1-7".to_owned()), task: Some(task) });
        assert!(is_alive(pid) && resident_bytes(pid) > 0);
        assert_eq!((group(pid), session(pid)), (group(own), session(own)));
        assert!(start_time(own) <= start_time(pid));
        kill_all(|| tree(pid));
        assert!(!is_alive(pid) || !shell.wait().unwrap().success());
    }
}
