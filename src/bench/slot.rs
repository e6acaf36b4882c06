//! Task starts of a slot, beside a loop that does nothing else; and the cost of an idle slot.
//!
//! The loop starts `/bin/true` with the same environment, folder, process group and files, and
//! waits for it. The slot does that, keeps its journal and its outputs, and watches for leftover
//! processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::orchestrator::wire::{
    AttemptId, Command as Program, NewTask, SlotOrder, SlotReport, SlotStart, SlotStop, Stdin,
    StopReason, TaskSpec,
};
use crate::slot::since_boot_ms;
use crate::slot::wire::{
    FromSlot, LeasedOrder, MAX_FROM_SLOT, MemoryLimit, SETTINGS, SOCKET, SlotSettings, ToSlot,
    receive, send,
};

/// Duration for which an idle slot is measured.
const IDLE: Duration = Duration::from_secs(5);

/// Time that the slot may run without its agent, in milliseconds.
const LEASE: u64 = 3_600_000;

/// The share of the slot.
const SHARE: u64 = 1;

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct SlotOptions {
    /// Number of tasks.
    pub tasks: u64,
    /// Tasks at a time.
    pub lanes: u64,
}

/// Figures of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct SlotFigures {
    /// Number of tasks.
    pub tasks: u64,
    /// Tasks at a time.
    pub lanes: u64,
    /// Starts a second of the bare loop, without overlap.
    pub bare_per_second: f64,
    /// Starts a second of the slot.
    pub slot_per_second: f64,
    /// Starts of the slot over starts of the bare loop.
    pub ratio: f64,
    /// Memory of the idle slot that no file backs, in KB.
    pub idle_anonymous_kb: Option<u64>,
    /// Wakeups of the idle slot in a second.
    pub idle_wakeups_per_second: Option<f64>,
}

/// Measures with slots of this program, on `clock`.
///
/// # Errors
///
/// If the slot cannot be started, or a task does not end as it should.
pub fn run(options: SlotOptions, clock: &impl Fn() -> Duration) -> io::Result<SlotFigures> {
    let scratch = tempfile::TempDir::with_prefix("apportion-bench-slot-")?;
    let SlotOptions { tasks, lanes } = options;
    let begun = clock();
    for _ in 0..tasks {
        bare(scratch.path())?;
    }
    let bare_per_second = per_second(tasks, clock().saturating_sub(begun));
    let mut slot = TimedSlot::start(scratch.path(), lanes)?;
    // The first task waits for the slot to be ready.
    slot.work_through(1..2)?;
    let begun = clock();
    slot.work_through(2..tasks.saturating_add(2))?;
    let slot_per_second = per_second(tasks, clock().saturating_sub(begun));
    let before = slot.wakeups();
    std::thread::sleep(IDLE);
    let wakeups = slot.wakeups().zip(before);
    let wakeups = wakeups.map(|(after, before)| per_second(after.saturating_sub(before), IDLE));
    let idle_anonymous_kb = slot.anonymous_kb();
    slot.stop()?;
    Ok(SlotFigures {
        tasks,
        lanes,
        bare_per_second,
        slot_per_second,
        ratio: slot_per_second / bare_per_second,
        idle_anonymous_kb,
        idle_wakeups_per_second: wakeups,
    })
}

fn per_second(count: u64, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64()
}

/// A start of the bare loop.
fn bare(folder: &Path) -> io::Result<()> {
    let out = File::create(folder.join("bare.out"))?;
    let err = File::create(folder.join("bare.err"))?;
    let mut child = Command::new("/bin/true")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()?;
    child.wait().map(|_| ())
}

/// A slot, with this process in the place of its agent.
struct TimedSlot {
    process: Child,
    socket: UnixStream,
    order: u64,
    acked: u64,
    last: Option<SlotReport>,
    ended: BTreeSet<u64>,
}

impl TimedSlot {
    fn start(folder: &Path, lanes: u64) -> io::Result<TimedSlot> {
        let folder: PathBuf = folder.join("slot");
        fs::create_dir(&folder)?;
        fs::write(folder.join(SETTINGS), serde_json::to_vec(&settings(lanes))?)?;
        let program = std::env::current_exe()?;
        let process =
            Command::new(program).arg("slot").arg(&folder).stdin(Stdio::null()).spawn()?;
        let socket = connect(&folder.join(SOCKET))?;
        let (order, acked, last) = (0, 0, None);
        Ok(TimedSlot { process, socket, order, acked, last, ended: BTreeSet::new() })
    }

    fn order(&mut self, order: SlotOrder) -> io::Result<()> {
        self.order += 1;
        let order = SlotOrder { share: SHARE, order: self.order, acked: self.acked, ..order };
        let order = LeasedOrder {
            lease_until_ms: since_boot_ms().saturating_add(LEASE),
            order: Some(order),
            specs: BTreeMap::new(),
        };
        send(&mut self.socket, &ToSlot::Order(Box::new(order)), &[])
    }

    fn hear(&mut self) -> io::Result<()> {
        let frame = receive::<FromSlot>(&mut self.socket, MAX_FROM_SLOT)?;
        let Some((message, _)) = frame else {
            return Err(io::Error::other("the slot ended"));
        };
        if let FromSlot::Report(report) = message {
            for result in &report.report.results {
                self.acked = self.acked.max(result.number);
                self.ended.insert(result.task.task);
                if result.exit != Some(0) {
                    return Err(io::Error::other(format!("a task failed: {result:?}")));
                }
            }
            self.last = Some(report.report);
        }
        Ok(())
    }

    /// Gives it tasks as it wants them, until all have ended.
    fn work_through(&mut self, tasks: std::ops::Range<u64>) -> io::Result<()> {
        let mut next = tasks.start;
        let goal = self.ended.len() + usize::try_from(tasks.end - tasks.start).unwrap_or(0);
        while self.ended.len() < goal {
            let want = self.last.take().map_or(0, |report| report.want);
            let end = next.saturating_add(want).min(tasks.end);
            let new = |task| NewTask {
                task: AttemptId { campaign: 1, task, attempt: 1 },
                spec: 1,
                param: None,
                gang: None,
            };
            let given: Vec<NewTask> = (next..end).map(new).collect();
            next = end;
            if !given.is_empty() {
                self.order(SlotOrder { tasks: given, ..SlotOrder::default() })?;
            }
            self.hear()?;
        }
        Ok(())
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).ok()
    }

    fn anonymous_kb(&self) -> Option<u64> {
        let text = self.read("smaps_rollup")?;
        number_after(&text, "Anonymous:")
    }

    /// Number of times that its threads have waited so far.
    fn wakeups(&self) -> Option<u64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id())).ok()?;
        let count = |thread: io::Result<fs::DirEntry>| {
            let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            number_after(&status, "voluntary_ctxt_switches:")
        };
        Some(threads.filter_map(count).sum())
    }

    fn stop(mut self) -> io::Result<()> {
        let stop = Some(SlotStop { by_ms: Some(1_000), why: StopReason::Finished });
        self.order(SlotOrder { stop, ..SlotOrder::default() })?;
        self.process.wait().map(|_| ())
    }
}

impl Drop for TimedSlot {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    for _ in 0..1_000 {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other("the slot does not listen"))
}

fn settings(lanes: u64) -> SlotSettings {
    let now = since_boot_ms();
    let spec = TaskSpec {
        name: "bench".to_owned(),
        command: Program::Argv(vec!["/bin/true".to_owned()]),
        environment: BTreeMap::new(),
        cwd: "/".to_owned(),
        stdin: Stdin::Nothing,
        output: None,
        error: None,
        time_limit_ms: None,
        grace_ms: 1_000,
        stop_signal: 15,
        checkpoint: None,
        prologue: None,
        epilogue: None,
        allows_leftovers: false,
        oom_ends_task: false,
        finishes_unheard: false,
        group_target_ms: 10_000,
    };
    let start = SlotStart {
        campaign: 1,
        user: "bench".to_owned(),
        uid: None,
        memory_mb: 1_024,
        lanes,
        spec: 1,
        linger_ms: LEASE,
        interruption_ms: None,
        needs_kernel_limit: false,
        listens: false,
    };
    SlotSettings {
        slot: format!("bench{}-{SHARE}", std::process::id()),
        share: SHARE,
        node: "bench".to_owned(),
        start,
        spec,
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
        ordered_ms: now,
        lease_until_ms: now.saturating_add(LEASE),
        limit: MemoryLimit::Watched,
        address: None,
    }
}
