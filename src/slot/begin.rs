//! The start of tasks, prologues and epilogues.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::cgroup::{SlotCgroup, TaskCgroup};
use super::family;
use super::journal::{Record, plain_result};
use super::life::{Lane, Phase, RunningSlot, own_pid};
use super::orders::input_file;
use super::output::Stream;
use super::ranks::{rank_of, spec_of};
use super::run::{Run, RunRole};
use super::spawn::{NotStarted, Program, check_cwd, start};
use super::words::{TaskPaths, Words, environment};
use crate::orchestrator::wire::{
    AttemptId, Channel, Command, NewTask, Reason, SlotEnd, Stdin, TaskSpec,
};

/// File with the name of the node on a single line.
pub(super) const NODE_FILE: &str = "nodes";

/// Pause of a slot after the node could not start a task, in milliseconds. Usually longer than
/// slots linger: the slot ends, and its tasks go to other slots.
const PAUSE_MS: u64 = 3_000;

/// The score by which the kernel prefers a task to its slot when memory is short.
const OOM_SCORE: &str = "300";

/// Time between the stop signal for an epilogue that takes longer than the grace, and its kill, in
/// milliseconds.
const EPILOGUE_GRACE: u64 = 5_000;
/// Mean time between two interruptions where the orchestrator tells none: a day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

impl RunningSlot {
    /// Starts the prologue, or becomes ready if there is none.
    pub(super) fn prepare(&mut self, now: u64) {
        if self.is_busy() {
            return;
        }
        let spec = Arc::new(self.settings.spec.clone());
        if spec.prologue.is_none() {
            self.become_ready(now);
        } else if let Err(problem) = self.begin(0, RunRole::Prologue, spec, now) {
            self.fail_prologue(&problem.text);
        }
    }

    pub(super) fn become_ready(&mut self, now: u64) {
        self.phase = Phase::Ready;
        self.idle_since = now;
        self.has_news = true;
        self.begin_tasks(now);
    }

    pub(super) fn fail_prologue(&mut self, text: &str) {
        self.text = Some(text.trim().to_owned());
        self.return_queue();
        self.start_ending(SlotEnd::Prologue);
    }

    /// Starts the epilogue, if there is an epilogue and a task ran. Returns true if it runs.
    pub(super) fn start_epilogue(&mut self, now: u64) -> bool {
        let spec = Arc::new(self.settings.spec.clone());
        let is_unheard = matches!(self.phase, Phase::Leaving(SlotEnd::Unheard));
        let has_run = self.prepared_ms.is_some() && self.folder.is_dir();
        if spec.epilogue.is_none() || !has_run || is_unheard {
            return false;
        }
        if let Err(problem) = self.begin(0, RunRole::Epilogue, Arc::clone(&spec), now) {
            self.text = Some(format!("its epilogue failed: {}", problem.text.trim()));
            return false;
        }
        let ask = now.saturating_add(spec.grace_ms);
        self.end_runs(Reason::TimeLimit, ask, ask.saturating_add(EPILOGUE_GRACE));
        true
    }

    /// Fills free lanes from the queue.
    pub(super) fn begin_tasks(&mut self, now: u64) {
        if now < self.paused_until_ms {
            return;
        }
        if 0 < self.paused_until_ms {
            (self.paused_until_ms, self.has_news) = (0, true);
        }
        while self.phase == Phase::Ready && !self.is_full && self.paused_until_ms == 0 {
            let Some(lane) = self.lanes.iter().position(|lane| lane.run.is_none()) else { return };
            let inputs = &self.inputs;
            let specs = &self.specs;
            let is_ready = |task: &NewTask| match specs.get(&task.spec).map(|spec| &spec.stdin) {
                Some(Stdin::Kept { .. }) => inputs.contains(&task.spec),
                Some(Stdin::Nothing | Stdin::File(_)) | None => true,
            };
            let Some(place) = self.queue.iter().position(is_ready) else { return };
            let Some(task) = self.queue.remove(place) else { return };
            self.begin_task(lane, task, now);
        }
        if self.is_full {
            self.return_queue();
        }
    }

    fn begin_task(&mut self, lane: usize, task: NewTask, now: u64) {
        let attempt = task.task;
        self.has_news = true;
        let Some(spec) = self.specs.get(&task.spec).cloned() else {
            self.add_result(plain_result(0, attempt, Reason::Returned));
            return;
        };
        if self.journal.append(&Record::Begin(attempt)).is_err() {
            self.note_full_disk();
            self.add_result(plain_result(0, attempt, Reason::Returned));
            return;
        }
        if self.prepared_ms.is_none() {
            self.prepared_ms = Some(now.saturating_sub(self.settings.ordered_ms));
        }
        if let Err(NotStarted { why, exit, text }) =
            self.begin(lane, RunRole::Task(task), spec, now)
        {
            if why == Reason::Returned {
                self.pause(&text, now);
            }
            let mut result = plain_result(0, attempt, why);
            result.exit = exit;
            result.tail = text;
            self.add_result(result);
            self.idle_since = now;
        }
    }

    /// Takes no task for a moment: this node cannot start any, and each would be back at once.
    fn pause(&mut self, why: &str, now: u64) {
        self.paused_until_ms = now.saturating_add(PAUSE_MS);
        self.text = Some(why.trim().to_owned());
        self.return_queue();
    }

    /// Starts a program in a lane.
    fn begin(
        &mut self,
        lane: usize,
        role: RunRole,
        spec: Arc<TaskSpec>,
        now: u64,
    ) -> Result<(), NotStarted> {
        let spec = spec_of(&role, spec);
        let Ready { program, streams, mark, error_file } = self.make_ready(lane, &role, &spec)?;
        let (pid, group) = match self.spawn(lane, spec.oom_ends_task, program) {
            Ok(started) => started,
            Err(problem) => {
                self.note_failed_start(lane, streams, &role, &problem.text);
                return Err(problem);
            }
        };
        // A process that has ended already needs no score.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()), OOM_SCORE);
        let whole = self.home.as_ref().filter(|_| group.is_none()).map(SlotCgroup::all);
        let mut run = Run {
            next_save_ms: None,
            asked_ms: None,
            cost_ms: None,
            interruption_ms: self.settings.start.interruption_ms.unwrap_or(DAY_MS),
            role,
            spec,
            pid,
            streams,
            begun_ms: now,
            saved_ms: None,
            mark,
            ending: None,
            exit: None,
            peak_bytes: 0,
            own_bytes: 0,
            oom_before: whole.map_or(0, |group| group.oom_kills()),
            group,
            seen: BTreeSet::new(),
            error_file,
            resize: None,
        };
        let first = run.period().filter(|_| run.mark.is_some());
        run.next_save_ms = first.map(|period| now.saturating_add(period));
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.run = Some(run);
        }
        // The reaper lives as long as the process.
        let _ = self.reaper.send(());
        Ok(())
    }

    /// Opens and makes all that a program needs.
    fn make_ready(
        &mut self,
        lane: usize,
        role: &RunRole,
        spec: &TaskSpec,
    ) -> Result<Ready, NotStarted> {
        let paths = LanePaths::of(&self.folder, lane);
        let (task, command) = match role {
            RunRole::Task(task) => (Some(task), Some(&spec.command)),
            RunRole::Prologue => (None, spec.prologue.as_ref()),
            RunRole::Epilogue => (None, spec.epilogue.as_ref()),
        };
        let words = Words {
            attempt: task.map(|task| task.task),
            campaign: self.settings.start.campaign,
            node: &self.settings.node,
            param: task.and_then(|task| task.param.as_deref()),
        };
        let cwd = PathBuf::from(&spec.cwd);
        // A missing working directory is an error, and must not be created here.
        check_cwd(&cwd)?;
        let checkpoints = checkpoint_folder(&cwd, task);
        let is_task = task.is_some();
        let streams = open_streams(&mut self.lanes, &self.folder, lane, spec, is_task, words)?;
        paths.make_ready().map_err(|error| node_fault(&error))?;
        if is_task && spec.checkpoint.is_some() {
            // A task that cannot save says so itself.
            let _ = fs::create_dir_all(&checkpoints);
        }
        let input = open_input(&self.folder, spec, task, &cwd, words)?;
        let places = TaskPaths {
            temporary: &paths.temporary,
            error: &paths.error,
            nodes: &self.folder.join(NODE_FILE),
            checkpoints: &checkpoints,
        };
        let [output, error] = [streams[0].for_task(), streams[1].for_task()];
        let program = Program {
            words: command.map(|command| argv(command, words)).unwrap_or_default(),
            environment: environment(&self.settings, spec, task, &places),
            cwd,
            streams: [
                input,
                output.map_err(|error| node_fault(&error))?,
                error.map_err(|error| node_fault(&error))?,
            ],
        };
        let program = match rank_of(role) {
            Some(gang) => {
                self.rank(gang, &paths.temporary, program).map_err(|error| node_fault(&error))?
            }
            None => program,
        };
        let mark = is_task.then(|| checkpoints.join("done")).map(|path| {
            let time = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
            (path, time)
        });
        Ok(Ready { program, streams, mark, error_file: paths.error })
    }

    /// Starts a program, in a cgroup of its own where that is possible.
    fn spawn(
        &self,
        lane: usize,
        ends_together: bool,
        program: Program,
    ) -> Result<(Pid, Option<TaskCgroup>), NotStarted> {
        let home = self.home.as_ref().filter(|home| home.can_nest());
        let group = home.and_then(|home| home.enter(lane, ends_together).ok());
        let started = start(program);
        if let Some(home) = home {
            // The limit holds wherever the slot is; only the attribution would suffer.
            let _ = home.leave();
        }
        Ok((started?, group))
    }

    /// Puts the reason where its reader looks for it: into the error stream of the attempt.
    fn note_failed_start(&mut self, lane: usize, streams: [Stream; 2], role: &RunRole, text: &str) {
        let attempt = match role {
            RunRole::Task(task) => task.task,
            RunRole::Prologue | RunRole::Epilogue => return,
        };
        let [out, err] = streams;
        // The result has the text, too.
        let _ = err.for_task().and_then(|mut file| file.write_all(text.as_bytes()));
        self.keep_streams(lane, [out, err], attempt);
    }

    /// Stores the output of an attempt; its lane gets back the files that it can use again.
    pub(super) fn keep_streams(
        &mut self,
        lane: usize,
        [out, err]: [Stream; 2],
        attempt: AttemptId,
    ) {
        // Output that the disk refuses is lost; the result counts all the same.
        let kept = [out, err].map(|stream| self.spool.keep(stream, attempt).ok().flatten());
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.streams = kept;
        }
    }
}

/// All that the start of a program needs.
struct Ready {
    program: Program,
    streams: [Stream; 2],
    mark: Option<(PathBuf, Option<SystemTime>)>,
    error_file: PathBuf,
}

/// The temporary folder of a lane's task.
pub(super) fn temporary_of(folder: &Path, lane: usize) -> PathBuf {
    folder.join(format!("lane{lane}.tmp"))
}

/// Files and folders of a lane.
struct LanePaths {
    temporary: PathBuf,
    error: PathBuf,
}

impl LanePaths {
    fn of(folder: &Path, lane: usize) -> LanePaths {
        LanePaths {
            temporary: temporary_of(folder, lane),
            error: folder.join(format!("lane{lane}.error")),
        }
    }

    /// Removes the files of an earlier task.
    fn make_ready(&self) -> io::Result<()> {
        let _ = fs::remove_file(&self.error);
        let is_empty = fs::read_dir(&self.temporary).is_ok_and(|mut list| list.next().is_none());
        if is_empty {
            return Ok(());
        }
        // A task may have replaced the folder by a link or a file, which is removed.
        let _ = fs::remove_dir_all(&self.temporary);
        let _ = fs::remove_file(&self.temporary);
        fs::create_dir(&self.temporary)
    }
}

fn node_fault(error: &io::Error) -> NotStarted {
    let text = format!("the spool of this node cannot be used: {error}\n");
    NotStarted { why: Reason::Returned, exit: None, text }
}

fn argv(command: &Command, words: Words<'_>) -> Vec<String> {
    match command {
        Command::Argv(argv) => argv.iter().map(|word| words.fill(word)).collect(),
        Command::Shell(text) => vec!["/bin/sh".to_owned(), "-c".to_owned(), text.clone()],
    }
}

/// Folder for the checkpoints of a task: below the working directory, so that later attempts on
/// other nodes find it.
fn checkpoint_folder(cwd: &Path, task: Option<&NewTask>) -> PathBuf {
    let name = task.map(|task| format!("{}.{}", task.task.campaign, task.task.task));
    cwd.join(".apportion").join(name.unwrap_or_default())
}

fn open_streams(
    lanes: &mut [Lane],
    folder: &Path,
    lane: usize,
    spec: &TaskSpec,
    is_task: bool,
    words: Words<'_>,
) -> Result<[Stream; 2], NotStarted> {
    let mut open = |place: usize, channel: Channel, chosen: Option<&String>| {
        if let Some(template) = chosen.filter(|_| is_task) {
            let path = Path::new(&spec.cwd).join(words.fill_path(template));
            let what = match channel {
                Channel::Out => "standard output",
                Channel::Err => "standard error",
            };
            return Stream::chosen(path.clone(), channel)
                .map_err(|error| NotStarted::redirection(what, &path, &error));
        }
        let kept = lanes.get_mut(lane).and_then(|lane| lane.streams.get_mut(place)?.take());
        match kept {
            Some(stream) => Ok(stream),
            None => Stream::of_lane(folder, lane, channel).map_err(|error| node_fault(&error)),
        }
    };
    let out = open(0, Channel::Out, spec.output.as_ref())?;
    let err = open(1, Channel::Err, spec.error.as_ref())?;
    Ok([out, err])
}

fn open_input(
    folder: &Path,
    spec: &TaskSpec,
    task: Option<&NewTask>,
    cwd: &Path,
    words: Words<'_>,
) -> Result<File, NotStarted> {
    let path = match (&spec.stdin, task) {
        (Stdin::File(name), Some(_)) => cwd.join(words.fill(name)),
        (Stdin::Kept { .. }, Some(task)) => input_file(folder, task.spec),
        (Stdin::Nothing | Stdin::File(_) | Stdin::Kept { .. }, _) => PathBuf::from("/dev/null"),
    };
    // A pipe without a writer would stop the slot.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(&path, flags, Mode::empty());
    let failed = |error: io::Error| NotStarted::redirection("standard input", &path, &error);
    let file = File::from(opened.map_err(|errno| failed(errno.into()))?);
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(|errno| failed(errno.into()))?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// Returns the children of this slot that are not the program of a lane.
pub(super) fn adopted(mains: &[i32]) -> Vec<i32> {
    let all = family::children(own_pid());
    all.into_iter().filter(|pid| !mains.contains(pid)).collect()
}
