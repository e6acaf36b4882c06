//! A real slot in a folder of its own, with the test in the place of its agent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use apportion::orchestrator::wire::{
    AttemptId, Channel, Command as Program, NewTask, SlotOrder, SlotReport, SlotStage, SlotStart,
    SlotStop, Stdin, TaskResult, TaskSpec,
};
use apportion::slot::wire::{
    FromSlot, LeasedOrder, MAX_FROM_SLOT, MemoryLimit, OutputChunk, ReadRequest, SETTINGS, SOCKET,
    SlotSettings, ToSlot, receive, send,
};
use apportion::slot::{UserIdentity, since_boot_ms};
use tempfile::TempDir;

/// Longer than anything takes on a machine that works.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A specification that runs `text` with `sh -c` in `cwd`.
pub fn shell(cwd: &Path, text: &str) -> TaskSpec {
    TaskSpec {
        name: "test".to_owned(),
        command: Program::Shell(text.to_owned()),
        environment: BTreeMap::new(),
        cwd: cwd.to_str().unwrap().to_owned(),
        stdin: Stdin::Nothing,
        output: None,
        error: None,
        time_limit_ms: None,
        grace_ms: 30_000,
        stop_signal: 15,
        checkpoint: None,
        prologue: None,
        epilogue: None,
        allows_leftovers: false,
        oom_ends_task: false,
        finishes_unheard: false,
        group_target_ms: 10_000,
    }
}

/// The first attempt of a task.
pub fn id(task: u64) -> AttemptId {
    AttemptId { campaign: 9, task, attempt: 1 }
}

/// Flags for an agent that runs work of [`user`] without limits by the kernel.
pub const WATCHED: &[&str] = &["--min-uid", "1", "--limits", "watched"];

/// A user that can run work here: another user, if this process may start its work.
pub fn user() -> String {
    let name = Command::new("id").arg("-un").output().unwrap();
    let own = String::from_utf8(name.stdout).unwrap().trim().to_owned();
    if is_root() { "nobody".to_owned() } else { own }
}

/// The orchestrator's start of a slot with a single lane, which stays when it has no task.
pub fn start() -> SlotStart {
    SlotStart {
        campaign: 9,
        user: user(),
        uid: None,
        memory_mb: 256,
        lanes: 1,
        spec: 5,
        linger_ms: 600_000,
        interruption_ms: None,
        needs_kernel_limit: false,
        listens: false,
    }
}

/// A folder for work and a spool, which the users of tasks can use: the folder itself, and the paths of
/// the two. The spool is not there yet.
pub fn site() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (work, spool) = (folder.path().join("work"), folder.path().join("spool"));
    fs::create_dir(&work).unwrap();
    for path in [folder.path(), &work] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    (folder, work, spool)
}

/// The settings of a slot that runs `spec`.
pub fn settings(spec: TaskSpec) -> SlotSettings {
    let start = SlotStart { user: "ann".to_owned(), memory_mb: 512, ..start() };
    SlotSettings {
        slot: "test-7".to_owned(),
        share: 7,
        node: "n1".to_owned(),
        start,
        spec,
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
        ordered_ms: since_boot_ms(),
        lease_until_ms: since_boot_ms() + 600_000,
        limit: MemoryLimit::Watched,
        address: None,
    }
}

/// A slot that ends with the test.
pub struct Slot {
    pub folder: PathBuf,
    pub process: Child,
    pub socket: UnixStream,
    pub order: u64,
    /// The last report.
    pub last: Option<SlotReport>,
    /// All results so far, by number.
    pub results: BTreeMap<u64, TaskResult>,
    /// True if results are acknowledged with the next order.
    pub acks: bool,
    /// True if the processes that the slot leaves behind end with it.
    pub sweeps: bool,
    scratch: Option<TempDir>,
}

impl Slot {
    /// Starts a slot as this user.
    pub fn start(settings: &SlotSettings) -> Slot {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("slot");
        fs::create_dir(&folder).unwrap();
        let mut slot = Slot::start_in(&folder, settings, &[]);
        slot.scratch = Some(scratch);
        slot
    }

    /// Starts a slot in `folder`, with these flags.
    pub fn start_in(folder: &Path, settings: &SlotSettings, flags: &[&str]) -> Slot {
        fs::write(folder.join(SETTINGS), serde_json::to_vec(settings).unwrap()).unwrap();
        let process = command(folder).args(flags).spawn().unwrap();
        let socket = connect(folder);
        let (last, results) = (None, BTreeMap::new());
        let folder = folder.to_owned();
        Slot {
            folder,
            process,
            socket,
            order: 0,
            last,
            results,
            acks: true,
            sweeps: true,
            scratch: None,
        }
    }

    /// Starts a slot in `folder` by another command, which gets the slot's command as arguments.
    /// `None`: the slot ended before it listened.
    pub fn try_start_in(folder: &Path, settings: &SlotSettings, by: &[String]) -> Option<Slot> {
        fs::write(folder.join(SETTINGS), serde_json::to_vec(settings).unwrap()).unwrap();
        let own = command(folder);
        let mut process = Command::new(&by[0])
            .args(&by[1..])
            .arg(own.get_program())
            .args(own.get_args())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let socket = connect_while(folder, || process.try_wait().unwrap().is_none())?;
        let (last, results) = (None, BTreeMap::new());
        let folder = folder.to_owned();
        Some(Slot {
            folder,
            process,
            socket,
            order: 0,
            last,
            results,
            acks: true,
            sweeps: false,
            scratch: None,
        })
    }

    /// A new connection, if it does not end first.
    pub fn reconnect_if_it_listens(&mut self) {
        let process = &mut self.process;
        let socket = connect_while(&self.folder, || process.try_wait().unwrap().is_none());
        self.socket = socket.unwrap_or_else(|| UnixStream::pair().unwrap().0);
    }

    /// Gives it these tasks. Returns whether it took the order.
    pub fn try_give(&mut self, tasks: impl IntoIterator<Item = u64>) -> bool {
        let task = |task| NewTask { task: id(task), spec: 5, param: None, gang: None };
        let tasks = tasks.into_iter().map(task).collect();
        self.try_order(SlotOrder { tasks, ..SlotOrder::default() })
    }

    /// Stops it. Returns whether it took the order.
    pub fn try_stop(&mut self, stop: Option<SlotStop>) -> bool {
        self.try_order(SlotOrder { stop, ..SlotOrder::default() })
    }

    /// A new connection, as after the restart of an agent.
    pub fn reconnect(&mut self) {
        self.socket = connect(&self.folder);
    }

    pub fn send(&mut self, message: &ToSlot) {
        send(&mut self.socket, message, &[]).unwrap();
    }

    /// Sends `order` with the next number.
    pub fn order(&mut self, order: SlotOrder) {
        assert!(self.try_order(order), "the slot takes no order");
    }

    /// Sends `order` with the next number. Returns whether the slot took it.
    pub fn try_order(&mut self, order: SlotOrder) -> bool {
        self.order += 1;
        let acked =
            if self.acks { self.results.keys().next_back().copied().unwrap_or(0) } else { 0 };
        let order = SlotOrder { share: 7, order: self.order, acked, ..order };
        let order = Some(order);
        let lease_until_ms = since_boot_ms() + 600_000;
        let order = LeasedOrder { lease_until_ms, order, specs: BTreeMap::new() };
        send(&mut self.socket, &ToSlot::Order(Box::new(order)), &[]).is_ok()
    }

    /// Gives it these tasks.
    pub fn give(&mut self, tasks: impl IntoIterator<Item = u64>) {
        let task = |task| NewTask { task: id(task), spec: 5, param: None, gang: None };
        let tasks = tasks.into_iter().map(task).collect();
        self.order(SlotOrder { tasks, ..SlotOrder::default() });
    }

    /// The next message; `None` if the slot ended.
    pub fn hear(&mut self) -> Option<(FromSlot, Vec<u8>)> {
        let (message, bytes) = receive::<FromSlot>(&mut self.socket, MAX_FROM_SLOT).ok()??;
        if let FromSlot::Report(report) = &message {
            let report = report.report.clone();
            for result in &report.results {
                let known = self.results.insert(result.number, result.clone());
                assert!(known.is_none_or(|known| known == *result), "{result:?}");
            }
            self.last = Some(report);
        }
        Some((message, bytes))
    }

    /// Takes reports until a report is right.
    pub fn until(&mut self, is_right: impl Fn(&SlotReport) -> bool) -> SlotReport {
        let start = Instant::now();
        loop {
            if let Some(report) = self.last.clone().filter(&is_right) {
                return report;
            }
            assert!(start.elapsed() < PATIENCE, "never right: {:?}", self.last);
            assert!(self.hear().is_some(), "the slot ended after {:?}", self.last);
        }
    }

    /// Waits for `count` results.
    pub fn until_results(&mut self, count: usize) -> Vec<TaskResult> {
        let start = Instant::now();
        while self.results.len() < count {
            assert!(start.elapsed() < PATIENCE, "only {:?}", self.results);
            assert!(self.hear().is_some(), "the slot ended after {:?}", self.results);
        }
        self.results.values().cloned().collect()
    }

    /// Runs a task and returns its result.
    pub fn run(&mut self, task: u64) -> TaskResult {
        let before = self.results.len();
        self.give([task]);
        self.until_results(before + 1).pop().unwrap()
    }

    /// Waits until the slot has ended, and returns its last report.
    pub fn until_gone(&mut self) -> SlotReport {
        let last = self.until(|report| report.state == SlotStage::Gone);
        assert!(self.process.wait().unwrap().success());
        last
    }

    /// Output of a task.
    pub fn output(&mut self, task: u64, channel: Channel) -> String {
        let request = ReadRequest { request: 1, task: id(task), channel, from: 0 };
        self.send(&ToSlot::Read(request));
        loop {
            if let (FromSlot::Chunk(chunk), bytes) = self.hear().unwrap() {
                assert_eq!(chunk.problem, None);
                return String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }

    /// Ends the slot at once.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if self.sweeps {
            sweep(&self.folder);
        }
    }
}

/// Kills the rest of a slot or an agent: tasks have the folder in their environment, other
/// processes among their arguments.
pub fn sweep(folder: &Path) {
    let mark = folder.to_str().unwrap().as_bytes();
    for pid in having("cmdline", mark).into_iter().chain(marked(mark)) {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    }
}

/// Processes whose environment has `mark` in it.
pub fn marked(mark: &[u8]) -> Vec<u32> {
    having("environ", mark)
}

/// Processes that have `mark` in this file of theirs.
fn having(file: &str, mark: &[u8]) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark)
    };
    numbers.filter(is_marked).collect()
}

/// The command that starts a slot.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.arg("slot").arg(folder).stdin(Stdio::null());
    command
}

fn connect(folder: &Path) -> UnixStream {
    connect_while(folder, || true).unwrap()
}

/// `None`: it has ended.
fn connect_while(folder: &Path, mut is_alive: impl FnMut() -> bool) -> Option<UnixStream> {
    let start = Instant::now();
    loop {
        if let Ok(socket) = UnixStream::connect(folder.join(SOCKET)) {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            return Some(socket);
        }
        if !is_alive() {
            return None;
        }
        assert!(start.elapsed() < PATIENCE, "the slot does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The last report of a dead slot.
pub fn report_dead(folder: &Path) -> SlotReport {
    let output = command(folder).arg("--report").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let frame = receive::<FromSlot>(&mut output.stdout.as_slice(), MAX_FROM_SLOT);
    match frame.unwrap().unwrap().0 {
        FromSlot::Report(report) => report.report,
        FromSlot::Chunk(OutputChunk { .. }) => panic!("a chunk"),
    }
}

/// Prints a note on tests that are left out on this machine.
pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// True if this process may become other users.
pub fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A user that no account has.
pub fn stranger() -> UserIdentity {
    UserIdentity { uid: 54_321, gid: 54_322, groups: vec![54_322, 54_323] }
}
