//! Slots and agents killed and failed at each of their system calls by `strace`: no attempt begins
//! twice, none is lost, and no process is left.
//!
//! `cargo test` takes a selection. `FAULTS=all cargo test --test system faults_calls:: -- --nocapture`
//! takes every point and prints figures, `FAULTS=10` a tenth of them; a failure says its point.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::slot;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::head::{Agent, Head};
use crate::support::slot::{PATIENCE, Slot, marked, report_dead, settings, shell, site, start};
use apportion::orchestrator::wire::{
    Reason, SlotReport, SlotStart, SlotStop, StopReason, TaskResult,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

/// The calls that are failed, with their faults: the calls by which a slot and an agent reach
/// files, processes and sockets.
const FAULTS: &[(&str, &[&str])] = &[
    ("openat", &["EMFILE", "ENOSPC"]),
    ("write", &["ENOSPC", "EIO"]),
    ("pwrite64", &["ENOSPC"]),
    ("ftruncate", &["EIO"]),
    ("fsync", &["EIO"]),
    ("mkdir", &["ENOSPC"]),
    ("mkdirat", &["ENOSPC"]),
    ("rename", &["ENOSPC"]),
    ("unlink", &["EIO"]),
    ("rmdir", &["EIO"]),
    ("fchown", &["EIO"]),
    ("flock", &["ENOMEM"]),
    ("clone", &["EAGAIN"]),
    ("clone3", &["EAGAIN"]),
    ("vfork", &["ENOMEM"]),
    ("execve", &["ENOMEM"]),
    ("pipe2", &["EMFILE"]),
    ("socket", &["EMFILE"]),
    ("socketpair", &["ENOMEM"]),
    ("connect", &["ECONNREFUSED"]),
    ("bind", &["ENOSPC"]),
    ("listen", &["ENOMEM"]),
    ("accept4", &["EMFILE"]),
    ("read", &["EIO"]),
    ("recvfrom", &["ENOMEM"]),
    ("sendto", &["ENOMEM"]),
    ("statx", &["ENOMEM"]),
    ("getdents64", &["ENOMEM"]),
    ("wait4", &["EINTR"]),
    ("kill", &["EPERM"]),
];

/// Number of tested points, unless all points are tested.
const SLOTS: usize = 120;
const AGENTS: usize = 15;

/// After so many broken connections a slot is killed.
const MOST_BROKEN: u32 = 20;

/// After so many slots an agent is started again without a fault.
const MOST_SLOTS: u64 = 4;

/// The tasks of each story.
const TASKS: [u64; 3] = [1, 2, 3];

/// Each begin of an attempt is a line of a file.
const TEXT: &str = "echo $APPORTION_TASK_ID.$APPORTION_ATTEMPT >> begun";

/// A fault, and the call at which it happens.
#[derive(Clone, Debug)]
struct Point {
    call: String,
    what: String,
    when: u32,
}

impl Point {
    /// The command that runs a program with the fault. The program stays a child of the test.
    fn words(&self) -> Vec<String> {
        let Point { call, what, when } = self;
        let (trace, inject) =
            (format!("trace={call}"), format!("inject={call}:{what}:when={when}"));
        ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]
            .map(str::to_owned)
            .to_vec()
    }
}

/// True if `strace` is installed, may trace and knows these calls; prints a note otherwise.
fn has_strace() -> bool {
    let words = ["-qq", "-o", "/dev/null", "true"];
    let tried = Command::new("strace").args(words).stderr(Stdio::null()).status();
    let is_there = tried.is_ok_and(|status| status.success());
    if !is_there {
        slot::say("LEFT OUT: faults at system calls: there is no strace, or it may not trace");
    }
    is_there
}

/// The command that runs a program and counts its calls into `note`.
fn counting(note: &Path) -> Vec<String> {
    let calls: Vec<&str> = FAULTS.iter().map(|(call, _)| *call).collect();
    // Another machine may lack a call; `?` lets it.
    let trace = format!("trace=?{}", calls.join(",?"));
    ["strace", "-D", "-f", "-qq", "-o", note.to_str().unwrap(), "-e", &trace]
        .map(str::to_owned)
        .to_vec()
}

/// The points of a process whose calls are in `note`: of each of its threads, for a fault counts by
/// thread.
fn points(note: &Path, threads: &BTreeSet<String>) -> Vec<Point> {
    let text = fs::read_to_string(note).unwrap();
    let mut counts = BTreeMap::<(&str, &str), u32>::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if threads.contains(thread) {
            *counts.entry((call, thread)).or_default() += 1;
        }
    }
    let mut points = Vec::new();
    for (call, errors) in FAULTS {
        let of_call = counts.iter().filter(|((name, _), _)| name == call);
        let most = of_call.map(|(_, count)| *count).max().unwrap_or(0);
        for when in 1..=most {
            let errors = errors.iter().map(|error| format!("error={error}"));
            for what in errors.chain(["signal=SIGKILL".to_owned()]) {
                points.push(Point { call: (*call).to_owned(), what, when });
            }
        }
    }
    points
}

/// The threads of a process.
fn threads(pid: u32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A slot that is played to its end under `words`.
struct Story {
    work: TempDir,
    folder: TempDir,
    results: BTreeMap<u64, TaskResult>,
    /// Last report of the slot, as reported or from its journal.
    last: Option<SlotReport>,
    threads: BTreeSet<String>,
}

impl Story {
    fn play(words: &[String], point: &str) -> Story {
        let work = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut story =
            Story { work, folder, results: BTreeMap::new(), last: None, threads: BTreeSet::new() };
        let settings = settings(shell(story.work.path(), TEXT));
        if let Some(mut slot) = Slot::try_start_in(story.folder.path(), &settings, words) {
            let is_whole = story.lead(&mut slot, point);
            story.results.clone_from(&slot.results);
            story.last = slot.last.take().filter(|_| is_whole);
            slot.kill();
        }
        // An agent kills what a killed slot left, before it reads its journal.
        let (mark, start) = (story.folder.path().to_str().unwrap(), Instant::now());
        while story.last.is_none()
            && !marked(mark.as_bytes()).is_empty()
            && start.elapsed() < PATIENCE
        {
            slot::sweep(story.folder.path());
        }
        if story.last.is_none() {
            let report = report_dead(story.folder.path());
            story.results.extend(report.results.iter().map(|end| (end.number, end.clone())));
            story.last = Some(report);
        }
        story
    }

    /// Gives the tasks and ends the slot. Returns whether it told its end.
    fn lead(&mut self, slot: &mut Slot, point: &str) -> bool {
        let start = Instant::now();
        let (mut is_given, mut is_stopped, mut broken) = (false, false, 0);
        let stop = Some(SlotStop { by_ms: Some(0), why: StopReason::VariedOff });
        loop {
            assert!(start.elapsed() < PATIENCE, "{point}: stuck with {:?}", slot.last);
            let is_gone = slot.last.as_ref().is_some_and(|last| last.end.is_some());
            if is_gone {
                return true;
            }
            // Orders are levels, and said again.
            if !is_given {
                is_given = slot.try_give(TASKS);
            } else if slot.results.len() == TASKS.len() && !is_stopped {
                self.threads = threads(slot.process.id());
                is_stopped = slot.try_stop(stop);
            }
            if slot.hear().is_none() {
                if slot.process.try_wait().unwrap().is_some() {
                    return false;
                }
                // A fault of the thread of each connection: an agent kills such a slot in the end.
                if broken == MOST_BROKEN {
                    return false;
                }
                broken += 1;
                slot.reconnect_if_it_listens();
                (is_given, is_stopped) = (false, false);
            }
        }
    }

    /// Returns the fault in its end, if any.
    fn fault(&self) -> Option<String> {
        let begun = fs::read_to_string(self.work.path().join("begun")).unwrap_or_default();
        for task in TASKS {
            let count = begun.lines().filter(|line| *line == format!("{task}.1")).count();
            let mut ends = self.results.values().filter(|end| end.task.task == task);
            let (end, again) = (ends.next(), ends.next());
            let why = end.map(|end| end.why);
            let is_true = match why {
                Some(Reason::Done) => count == 1,
                Some(Reason::Returned) | None => count == 0,
                // The task may have failed before its first line.
                Some(_) => count <= 1,
            };
            if !is_true || again.is_some() {
                return Some(format!("task {task} began {count} times: {end:?}, {again:?}"));
            }
        }
        let left = marked(self.folder.path().to_str().unwrap().as_bytes());
        (!left.is_empty()).then(|| format!("processes are left: {left:?}"))
    }
}

/// Selects `usual` points: first a point of each call and fault, then another of each, at random
/// places. `FAULTS` sets another number.
fn selection(mut points: Vec<Point>, usual: usize) -> Vec<Point> {
    let count = match std::env::var("FAULTS").as_deref() {
        Ok("all") => points.len(),
        Ok(apart) => {
            let apart: usize = apart.parse().expect("FAULTS is `all` or a number");
            points.len().div_ceil(apart)
        }
        Err(_) => usual,
    };
    let mut lots = ChaCha8Rng::seed_from_u64(24);
    points.shuffle(&mut lots);
    let mut rounds = BTreeMap::<(String, String), usize>::new();
    let mut ranked: Vec<(usize, Point)> = points
        .into_iter()
        .map(|point| {
            let round = rounds.entry((point.call.clone(), point.what.clone())).or_default();
            *round += 1;
            (*round, point)
        })
        .collect();
    ranked.sort_by_key(|(round, _)| *round);
    ranked.into_iter().map(|(_, point)| point).take(count).collect()
}

fn tell(what: &str, points: usize, taken: usize, start: Instant) {
    let seconds = start.elapsed().as_secs();
    slot::say(&format!("{what}: {taken} of {points} points in {seconds} s"));
}

#[test]
fn a_slot_is_killed_and_failed_at_its_calls() {
    if !has_strace() {
        return;
    }
    let start = Instant::now();
    let scratch = tempfile::tempdir().unwrap();
    let note = scratch.path().join("calls");
    let whole = Story::play(&counting(&note), "counting");
    assert_eq!(whole.fault(), None);
    let points = points(&note, &whole.threads);
    assert!(points.len() > 100, "{points:?}");
    let all = points.len();
    let taken = selection(points, SLOTS);
    let faults: Vec<String> = taken
        .iter()
        .filter_map(|point| {
            let name = format!("{point:?}");
            let fault = Story::play(&point.words(), &name).fault()?;
            Some(format!("{name}: {fault}"))
        })
        .collect();
    tell("slots", all, taken.len(), start);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// True if a process has ended. Its tracer may end later.
fn has_ended(process: &mut Child) -> bool {
    process.try_wait().unwrap().is_some()
}

/// An agent under `words` starts slots, is started again when it ends, adopts and forgets them. Returns its
/// threads, and what is wrong.
async fn live(words: &[String]) -> (BTreeSet<String>, Option<String>) {
    let (folder, work, spool) = site();
    let head = Head::start(shell(&work, TEXT)).await;
    let start = SlotStart { linger_ms: 300, ..start() };
    head.want(1, start.clone());
    head.give(1, TASKS);
    let mut agent =
        Agent::start_by(words, &head, &spool, &["--min-uid", "1", "--limits", "watched"]);
    let (begin, mut next_share) = (Instant::now(), 2);
    let (mut seen, mut is_new) = (BTreeSet::new(), false);
    loop {
        let done = head.renew(&start, &mut next_share);
        let is_over = head.book().slots.values().all(|slot| slot.is_gone)
            && head.book().last.as_ref().is_some_and(|last| last.slots.is_empty());
        if done.len() == TASKS.len() && is_over {
            break;
        }
        if begin.elapsed() > PATIENCE {
            let last = head.book().last.take();
            return (seen, Some(format!("stuck: {done:?} are done, {last:?}")));
        }
        // A fault that comes back in each slot ends with the tracer of its agent.
        let is_in_slots = !is_new && MOST_SLOTS < next_share;
        if is_in_slots {
            agent.kill();
        }
        if is_in_slots || has_ended(&mut agent.process) {
            agent = Agent::start(&head, &spool, &["--min-uid", "1", "--limits", "watched"]);
            is_new = true;
        } else if !is_new {
            seen.extend(threads(agent.process.id()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mark = spool.to_str().unwrap().as_bytes();
    let left = marked(mark);
    let begun = fs::read_to_string(work.join("begun")).unwrap();
    let attempts: BTreeSet<&str> = begun.lines().collect();
    let mut ends = BTreeMap::<u64, Vec<Reason>>::new();
    for end in head.book().slots.values().flat_map(|slot| slot.results.values()) {
        ends.entry(end.task.task).or_default().push(end.why);
    }
    let dones = |ends: &&Vec<Reason>| ends.iter().filter(|why| **why == Reason::Done).count() != 1;
    let fault = if attempts.len() != begun.lines().count() {
        Some(format!("an attempt began twice: {begun}"))
    } else if ends.values().any(|ends| dones(&ends)) {
        Some(format!("a task is not done once: {ends:?}"))
    } else if !left.is_empty() {
        Some(format!("processes are left: {left:?}"))
    } else {
        None
    };
    drop(agent);
    slot::sweep(folder.path());
    (seen, fault)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_killed_and_failed_at_its_calls() {
    if !has_strace() {
        return;
    }
    let start = Instant::now();
    let scratch = tempfile::tempdir().unwrap();
    let note = scratch.path().join("calls");
    let (threads, fault) = live(&counting(&note)).await;
    assert_eq!(fault, None);
    let points = points(&note, &threads);
    assert!(points.len() > 100, "{points:?}");
    let all = points.len();
    let taken = selection(points, AGENTS);
    let mut faults = Vec::new();
    for point in &taken {
        if let (_, Some(fault)) = live(&point.words()).await {
            faults.push(format!("{point:?}: {fault}"));
        }
    }
    tell("agents", all, taken.len(), start);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
