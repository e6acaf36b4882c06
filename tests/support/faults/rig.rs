//! States of a daemon, and faults in them: killed at a system call, or failed by an error of the
//! call, by `strace`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use super::witness::{self, Act, Broken, STORY, Witness};
use crate::support::daemon::Daemon;

/// A folder in memory if possible: these tests are not about the loss of power.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Files of a killed daemon, and the witness's knowledge at that time.
pub struct Scene {
    pub name: String,
    /// The act to be tested.
    pub act: Option<Act>,
    /// True if the test is about the start, and not about the act alone.
    pub is_start: bool,
    pub files: TempDir,
    pub witness: Witness,
    /// Final holdings of every job without a fault.
    pub rest: Vec<(u64, usize)>,
}

impl Scene {
    /// Copies its files, for a life that may ruin them.
    pub fn copy(&self) -> TempDir {
        let copy = folder();
        copy_files(self.files.path(), copy.path());
        copy
    }
}

pub fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // Shared memory belongs to the processes that have the file open; the next process makes it
        // anew.
        if !entry.file_name().to_string_lossy().ends_with("-shm") {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

pub fn start(folder: &Path, witness: &Witness, under: &[String]) -> Result<Daemon, String> {
    Daemon::try_start(folder, &witness.config, &folder.join("state.db"), under)
}

/// Plays on from `witness` in a copy of `files`: what every job has in the end.
async fn rest_of(files: &Path, mut witness: Witness, act: Option<Act>) -> Vec<(u64, usize)> {
    let copy = folder();
    copy_files(files, copy.path());
    let daemon = start(copy.path(), &witness, &[]).unwrap();
    if let Some(act) = act.filter(|act| *act != Act::Stop) {
        witness.act(&daemon, act).await.unwrap();
    }
    witness.rest(&daemon).await.unwrap()
}

/// Every act, each in the state in which a story comes to it.
pub async fn scenes() -> Vec<Scene> {
    let files = folder();
    let mut witness = Witness::new();
    let (name, rest) = ("first start".to_owned(), Vec::new());
    let (it, kept) = (witness.clone(), folder());
    let first = Scene { name, act: None, is_start: true, files: kept, witness: it, rest };
    let mut scenes = vec![first];
    let acts = STORY.into_iter().chain([Act::Stop]);
    for act in acts {
        let kept = folder();
        copy_files(files.path(), kept.path());
        let rest = rest_of(files.path(), witness.clone(), Some(act)).await;
        let name = format!("{act:?}").to_lowercase();
        let it = witness.clone();
        scenes.push(Scene {
            name,
            act: Some(act),
            is_start: false,
            files: kept,
            witness: it,
            rest,
        });
        let daemon = start(files.path(), &witness, &[]).unwrap();
        if act != Act::Stop {
            witness.act(&daemon, act).await.unwrap();
        }
    }
    scenes.push(silence(&scenes).await);
    scenes.push(checkpoint(&scenes).await);
    scenes.push(other_file(&scenes).await);
    scenes.push(migration().await);
    scenes
}

/// The state after all these acts and a kill, or a stop if `is_stopped`.
pub async fn after(acts: &[Act], is_stopped: bool) -> Scene {
    let (files, mut witness) = (folder(), Witness::new());
    let daemon = start(files.path(), &witness, &[]).unwrap();
    for act in acts {
        witness.act(&daemon, *act).await.unwrap();
    }
    if is_stopped {
        witness.act(&daemon, Act::Stop).await.unwrap();
        daemon.end(60).await.expect("it stops when it is told to");
        write_log_back(&files.path().join("state.db")).await;
    }
    drop(daemon);
    let rest = rest_of(files.path(), witness.clone(), None).await;
    let name = if is_stopped { "stopped" } else { "killed" }.to_owned();
    Scene { name, act: None, is_start: true, files, witness, rest }
}

/// Writes the log back: it is still there if a reader closed the file last.
async fn write_log_back(file: &Path) {
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    sqlx::query("pragma wal_checkpoint(truncate)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// The state in which no node reports any more.
async fn silence(scenes: &[Scene]) -> Scene {
    let busy = scenes.iter().find(|scene| scene.act == Some(Act::Pace)).unwrap();
    let (files, mut witness) = (busy.copy(), busy.witness.clone());
    witness.find(witness::impatient());
    let daemon = start(files.path(), &witness, &[]).unwrap();
    witness.act(&daemon, Act::Miss).await.unwrap();
    drop(daemon);
    let act = Some(Act::Miss);
    let rest = rest_of(files.path(), witness.clone(), act).await;
    Scene { name: "miss".to_owned(), act, is_start: false, files, witness, rest }
}

/// The write-ahead log is so long that the next cycle writes it back.
async fn checkpoint(scenes: &[Scene]) -> Scene {
    let busy = scenes.iter().find(|scene| scene.act == Some(Act::Progress)).unwrap();
    let (files, mut witness) = (busy.copy(), busy.witness.clone());
    let daemon = start(files.path(), &witness, &[]).unwrap();
    let log = files.path().join("state.db-wal");
    let frames = || (std::fs::metadata(&log).unwrap().len() - 32).div_euclid(4096 + 24);
    while frames() < 960 {
        witness.act(&daemon, Act::Progress).await.unwrap();
    }
    // Cycles differ in length; the last steps are short enough not to leap over it.
    while frames() < 988 {
        witness.act(&daemon, Act::Off).await.unwrap();
        witness.act(&daemon, Act::On).await.unwrap();
    }
    drop(daemon);
    let act = Some(Act::Progress);
    let rest = rest_of(files.path(), witness.clone(), act).await;
    Scene { name: "checkpoint".to_owned(), act, is_start: false, files, witness, rest }
}

/// A start with another file than before.
async fn other_file(scenes: &[Scene]) -> Scene {
    let busy = scenes.iter().find(|scene| scene.act == Some(Act::Pace)).unwrap();
    let (files, mut witness) = (busy.copy(), busy.witness.clone());
    witness.find(witness::CONFIG.replace("\"10ms\"", "\"12ms\""));
    let rest = rest_of(files.path(), witness.clone(), None).await;
    Scene { name: "other file".to_owned(), act: None, is_start: true, files, witness, rest }
}

/// A start on the files of an older version.
async fn migration() -> Scene {
    let files = folder();
    crate::support::past::leave_behind(&files.path().join("state.db"), 2).await;
    let witness = Witness::of_a_past(&[(40, 7, "node01"), (41, 8, "node01")], "node02");
    let act = Some(Act::Nodes);
    let rest = rest_of(files.path(), witness.clone(), act).await;
    Scene { name: "migration".to_owned(), act, is_start: true, files, witness, rest }
}

/// A fault at a system call.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Name of the call.
    pub call: &'static str,
    /// At which of them.
    pub when: String,
    /// `signal=SIGKILL` or `error=EIO`.
    pub what: &'static str,
}

impl Fault {
    pub fn words(&self, note: &Path) -> Vec<String> {
        let trace = format!("trace={}", self.call);
        let inject = format!("inject={}:{}:when={}", self.call, self.what, self.when);
        let words = ["strace", "-f", "-qq", "-e", &trace, "-e", &inject, "-o"];
        words.into_iter().map(str::to_owned).chain([note.display().to_string()]).collect()
    }

    /// The command that runs the daemon with the fault from its start on.
    pub fn words_for_start(&self, note: &Path) -> Vec<String> {
        let mut words = self.words(note);
        // The daemon stays our child.
        words.insert(1, "-D".to_owned());
        // Much faster; but then signals are not delivered.
        if self.what.starts_with("error") {
            words.insert(1, "--seccomp-bpf".to_owned());
        }
        words
    }
}

/// `strace`, at work on a daemon that runs already. Ends when that does, or when dropped.
pub struct Tracer(Child);

impl Tracer {
    /// With these words, until it says that it is there.
    pub async fn attach(daemon: &Daemon, words: &[String]) -> Tracer {
        let said = folder();
        let file = said.path().join("said");
        let child = Command::new(&words[0])
            .args(words[1..].iter().filter(|word| !word.starts_with("-q")))
            .args(["-p", &daemon.pid().to_string()])
            .stderr(std::fs::File::create(&file).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let tracer = Tracer(child);
        for _ in 0..30_000 {
            let text = std::fs::read_to_string(&file).unwrap();
            if text.contains("attached") {
                return tracer;
            }
            assert!(!text.contains("Operation not permitted"), "{text}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("strace never attached: {}", std::fs::read_to_string(&file).unwrap());
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The tracer may have ended with the traced process.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// Number of each call, by the thread that made most of them; in order of the names.
pub fn counted(note: &Path) -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(note).unwrap();
    let mut calls = std::collections::BTreeMap::<(&str, &str), u32>::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.trim_start().split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if call.chars().all(|c| c.is_ascii_alphanumeric()) {
            *calls.entry((call, thread)).or_default() += 1;
        }
    }
    let mut most = std::collections::BTreeMap::<String, u32>::new();
    for ((call, _), count) in calls {
        let entry = most.entry(call.to_owned()).or_default();
        *entry = (*entry).max(count);
    }
    most.into_iter().collect()
}

/// Calls of a scene, from the start on or from the act on.
pub async fn calls_of(scene: &Scene, calls: &str, from_start: bool) -> Vec<(String, u32)> {
    let files = scene.copy();
    let note = files.path().join("strace");
    let mut words: Vec<String> = ["strace", "-f", "-q", "-e", &format!("trace={calls}"), "-o"]
        .into_iter()
        .map(str::to_owned)
        .chain([note.display().to_string()])
        .collect();
    let mut witness = scene.witness.clone();
    witness.pause = Duration::from_millis(if from_start { 1 } else { 60 });
    let daemon;
    let _tracer = if from_start {
        words.splice(1..1, ["-D".to_owned(), "--seccomp-bpf".to_owned()]);
        daemon = start(files.path(), &witness, &words).unwrap();
        None
    } else {
        daemon = start(files.path(), &witness, &[]).unwrap();
        daemon.try_get("/v1/status").await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
        Some(Tracer::attach(&daemon, &words).await)
    };
    play(scene, &mut witness, &daemon).await.unwrap();
    if scene.act == Some(Act::Stop) {
        daemon.end(60).await.expect("it stops when it is told to");
    } else {
        daemon.kill();
    }
    await_end(&note, daemon.pid()).await;
    counted(&note)
}

/// Waits until the tracer has written that the process is gone, behind all that it did.
async fn await_end(note: &Path, pid: u32) {
    let pid = pid.to_string();
    for _ in 0..12_000 {
        let text = std::fs::read_to_string(note).unwrap();
        let is_last =
            |line: &str| line.split_whitespace().next() == Some(&pid) && line.contains("+++");
        if text.lines().any(is_last) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("strace never ended");
}

/// Plays the act of a scene, after a check that the daemon answers.
pub async fn play(scene: &Scene, witness: &mut Witness, daemon: &Daemon) -> Result<(), Broken> {
    daemon.try_get("/v1/status").await?;
    match scene.act {
        Some(act) => witness.act(daemon, act).await,
        None => Ok(()),
    }
}

/// Path of the store in a scene's copy.
pub fn state(files: &TempDir) -> PathBuf {
    files.path().join("state.db")
}
