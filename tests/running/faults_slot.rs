//! Slots and agents whose system calls fail by `strace`: no task runs twice, no result is lost, and
//! a failure of the node does not count as a try of a task.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::slot;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::head::{Agent, Head};
use crate::support::slot::{Slot, WATCHED, marked, settings, shell, site, start};
use apportion::orchestrator::wire::{Reason, SlotEnd};
use rustix::process::{Pid, Signal, kill_process};

/// A `strace` that lets calls of a process fail, until it is dropped.
struct Fault {
    tracer: Child,
}

impl Fault {
    /// Injects the fault `what`, in the words of `strace`, into the process `pid`; only on the file
    /// `path` if given. `None`: tracing is not allowed here.
    fn start(pid: u32, what: &str, path: Option<&Path>) -> Option<Fault> {
        let calls = what.split(':').next().unwrap();
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-p", &pid.to_string()]);
        command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={what}")]);
        if let Some(path) = path {
            command.arg("-P").arg(path);
        }
        let mut tracer = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let start = Instant::now();
        while !is_traced(pid) {
            if tracer.try_wait().unwrap().is_some() {
                slot::say("left out: there is no strace, or it may not trace");
                return None;
            }
            assert!(start.elapsed() < slot::PATIENCE);
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Fault { tracer })
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // The tracer detaches from the process.
        let pid = Pid::from_raw(i32::try_from(self.tracer.id()).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::INT);
        let _ = self.tracer.wait();
    }
}

/// True if every thread of a process is traced.
fn is_traced(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    threads.into_iter().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status
            .lines()
            .any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
    })
}

/// Every call that makes a process.
const FORK: &str = "clone,clone3,fork,vfork:error=EAGAIN";

#[test]
fn a_node_that_cannot_fork_gives_tasks_back() {
    let work = tempfile::tempdir().unwrap();
    let text = "mkdir $APPORTION_TASK_ID";
    let mut slot = Slot::start(&settings(shell(work.path(), text)));
    assert_eq!(slot.run(1).why, Reason::Done);
    let Some(fault) = Fault::start(slot.process.id(), FORK, None) else { return };
    let result = slot.run(2);
    assert_eq!((result.why, result.exit), (Reason::Returned, None), "{result:?}");
    assert!(result.tail.contains("this node cannot start"), "{result:?}");
    drop(fault);
    assert_eq!(slot.run(3).why, Reason::Done);
    let done = [1, 2, 3].map(|task| work.path().join(task.to_string()).exists());
    assert_eq!(done, [true, false, true]);
}

#[test]
fn a_journal_that_cannot_be_written_begins_nothing_and_loses_no_result() {
    for error in ["EIO", "ENOSPC"] {
        let work = tempfile::tempdir().unwrap();
        let text = "mkdir $APPORTION_TASK_ID; while [ ! -e go ]; do sleep 0.05; done";
        let mut slot = Slot::start(&settings(shell(work.path(), text)));
        slot.give([1]);
        slot.until(|report| !report.running.is_empty());
        let journal = slot.folder.join("journal");
        let what = format!("write:error={error}");
        let Some(_fault) = Fault::start(slot.process.id(), &what, Some(&journal)) else { return };
        slot.give([2]);
        let result = slot.until_results(1).pop().unwrap();
        assert_eq!((result.task.task, result.why), (2, Reason::Returned), "{error}");
        fs::write(work.path().join("go"), "").unwrap();
        let result = slot.until_results(2).pop().unwrap();
        assert_eq!((result.task.task, result.why), (1, Reason::Done), "{error}");
        assert!(!work.path().join("2").exists(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_that_cannot_be_synced_is_begun_again() {
    let (folder, work, spool) = site();
    let head = Head::start(shell(&work, "mkdir $APPORTION_TASK_ID")).await;
    let agent = Agent::start(&head, &spool, WATCHED);
    head.until("an exchange", |book| (book.answers > 1).then_some(())).await;
    let Some(fault) = Fault::start(agent.process.id(), "fsync:error=EIO", None) else { return };
    head.want(7, start());
    head.give(7, 1..=3);
    let answers = head.book().answers;
    head.until("answers", |book| (book.answers > answers + 3).then_some(())).await;
    assert!(head.book().slots[&7].report.is_none());
    drop(fault);
    let results = head.until_results(7, 3).await;
    assert!(results.iter().all(|end| end.why == Reason::Done), "{results:?}");
    slot::sweep(folder.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_process_is_not_on_record_gets_no_task() {
    let (folder, work, spool) = site();
    let head = Head::start(shell(&work, "mkdir $APPORTION_TASK_ID")).await;
    let agent = Agent::start(&head, &spool, WATCHED);
    head.until("an exchange", |book| (book.answers > 1).then_some(())).await;
    // The agent writes its state three times: at the order, before the start, and after it. Each
    // write syncs the file and the folder.
    let what = "fsync:error=EIO:when=5";
    let Some(_fault) = Fault::start(agent.process.id(), what, None) else { return };
    head.want(7, start());
    head.give(7, [1]);
    let last = head.until_gone(7).await;
    assert_eq!(last.end, Some(SlotEnd::NotStarted), "{last:?}");
    assert!(last.text.unwrap().contains("cannot write the record of the slot"));
    assert!(!work.join("1").exists());
    assert_eq!(marked(spool.to_str().unwrap().as_bytes()), Vec::<u32>::new());
    drop(folder);
}
