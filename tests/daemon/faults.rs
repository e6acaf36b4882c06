//! The real binary, killed and failed at its system calls: its answers and views stay true, and it
//! reaches the state that it would have reached without the fault.
//!
//! `cargo test` takes a selection. `FAULTS=all cargo test --test system faults:: -- --nocapture` takes
//! all of it and prints figures, `FAULTS=10` every tenth point; a failure says its point. Without
//! `strace`, and the right to use it, what needs it is left out, and said.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "figures, and what was left out")]

use crate::support::past;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::support::daemon::apportion;
use crate::support::faults::rig::{Fault, Scene, Tracer, calls_of, play, scenes, start, state};
use crate::support::faults::witness::{Act, Broken, Witness};
use tempfile::TempDir;

/// Distance between the tested points, unless all points are tested.
const KILLS_APART: usize = 5;
const CALLS_APART: usize = 97;

/// Distance between the tested points, as `FAULTS` says.
fn apart(usual: usize) -> usize {
    match std::env::var("FAULTS").as_deref() {
        Ok("all") => 1,
        Ok(apart) => apart.parse().expect("FAULTS is `all` or a number"),
        Err(_) => usual,
    }
}

/// True if `strace` is installed and may trace; prints a note otherwise.
fn has_strace(what: &str) -> bool {
    let tried = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    let is_there = tried.is_ok_and(|output| output.status.success());
    if !is_there {
        println!(
            "LEFT OUT: {what}: there is no strace, or it may not trace; apt-get install strace"
        );
    }
    is_there
}

/// Counts of outcomes over all points.
#[derive(Debug, Default)]
struct Figures {
    points: u32,
    killed: u32,
    /// The daemon stopped with a message about its record.
    stopped: u32,
    /// An error did not matter, by the call.
    went_on: BTreeMap<String, u32>,
    not_reached: u32,
    /// On record though the daemon died before it answered.
    durable_unanswered: u32,
    /// Starts after the fault, all of which kept the answers and views of before.
    restarts: u32,
}

/// The next life, on the remaining files: no answered or shown fact may be lost, and the daemon
/// reaches the state that it would have reached without the fault.
async fn live_on(
    scene: &Scene,
    files: &TempDir,
    witness: &mut Witness,
    figures: &mut Figures,
) -> Result<(), Broken> {
    figures.restarts += 1;
    let folder = files.path();
    let daemon = start(folder, witness, &[])
        .map_err(|said| Broken::Rule(format!("I26: it does not start again: {said}")))?;
    let lived = async {
        daemon.try_get("/v1/status").await?;
        figures.durable_unanswered += u32::from(witness.check(&daemon).await?);
        if let Some(act) = scene.act.filter(|act| *act != Act::Stop) {
            witness.act(&daemon, act).await?;
        }
        witness.rest(&daemon).await
    };
    let lived = lived.await;
    let rest = lived.map_err(|broken| match broken {
        Broken::Gone => Broken::Rule(format!("I26: it ends again: {}", daemon.said())),
        rule @ Broken::Rule(_) => rule,
    })?;
    drop(daemon);
    if rest != scene.rest {
        return Err(Broken::Rule(format!("I26: in the end {rest:?}, not {:?}", scene.rest)));
    }
    let soundness = past::soundness(&state(files)).await;
    if soundness != "ok" {
        return Err(Broken::Rule(format!("the file is damaged: {soundness}")));
    }
    // The stand-in for an older version's past has no decisions to replay.
    if figures.restarts.is_multiple_of(8) && scene.name != "migration" {
        let replay = apportion(&["replay", state(files).to_str().unwrap()]);
        if !replay.status.success() {
            let said = String::from_utf8_lossy(&replay.stdout).into_owned();
            return Err(Broken::Rule(format!("I20: a replay differs: {said}")));
        }
    }
    Ok(())
}

fn fail(broken: Broken, scene: &Scene, point: &str) -> ! {
    let what = match broken {
        Broken::Gone => "nobody answers".to_owned(),
        Broken::Rule(what) => what,
    };
    panic!("{point} of `{}`: {what}", scene.name)
}

/// Checks that the output names the store's file.
fn assert_names_the_record(said: &str, files: &Path, point: &str) {
    let last = said.lines().rfind(|line| line.contains("state.db")).unwrap_or_default();
    let is_named = last.contains(files.to_str().unwrap());
    assert!(is_named, "{point}: it stops without naming its record:\n{said}");
}

/// Moments of a write at which the daemon is killed.
const MOMENTS: [&str; 5] =
    ["before", "amid", "at the commit", "before the answer", "after the answer"];

/// At which call that is; `None`: once all is done.
fn kill_at(scene: &Scene, moment: usize, calls: &[(String, u32)]) -> Option<Fault> {
    let count =
        |name: &str| calls.iter().find(|(call, _)| call == name).map_or(0, |(_, count)| *count);
    let sync = if count("fsync") < count("fdatasync") { "fdatasync" } else { "fsync" };
    let is_answered_late = matches!(scene.act, Some(Act::Off | Act::On | Act::Pace | Act::Move));
    let (call, when) = match moment {
        0 => ("pwrite64", 1),
        1 => ("pwrite64", count("pwrite64").div_euclid(2) + 1),
        // A stop writes the log back only where no reader is left that does it.
        2 if count(sync) == 0 => return None,
        2 => (sync, count(sync)),
        3 if scene.act == Some(Act::Stop) => ("unlink", 1),
        3 if scene.is_start || is_answered_late => ("writev", 1),
        3 => ("writev", 2),
        _ => return None,
    };
    Some(Fault { call, when: when.to_string(), what: "signal=SIGKILL" })
}

/// Every kind of write, at every moment of it. C1 of the rules: no acknowledged write is lost. Of
/// its 18 kinds the lease is missing here: the daemon holds its file by a system lock, and writes
/// nothing to keep it. A start on another file takes its place.
#[tokio::test]
async fn killed_at_every_moment_of_every_kind_of_write() {
    if !has_strace("killing at the moments of a write") {
        return;
    }
    let mut figures = Figures::default();
    let scenes = scenes().await;
    let wanted = apart(KILLS_APART);
    let mut point = 0;
    for (number, scene) in scenes.iter().enumerate() {
        let mut calls = Vec::new();
        for (moment, name) in MOMENTS.iter().enumerate() {
            point += 1;
            // Another moment of each kind.
            if (moment + number) % wanted != 0 {
                continue;
            }
            if calls.is_empty() {
                calls =
                    calls_of(scene, "pwrite64,fsync,fdatasync,writev,unlink", scene.is_start).await;
            }
            let fault = kill_at(scene, moment, &calls);
            let outcome = kill_one(scene, fault.as_ref(), &mut figures).await;
            outcome.unwrap_or_else(|broken| {
                fail(broken, scene, &format!("killed {name} ({fault:?})"))
            });
        }
    }
    println!("{} kinds of write, {point} points: {figures:?}, lost 0", scenes.len());
    assert_eq!((scenes.len(), point), (18, 90));
    assert!(figures.not_reached * 10 < figures.points, "most kills hit: {figures:?}");
}

async fn kill_one(
    scene: &Scene,
    fault: Option<&Fault>,
    figures: &mut Figures,
) -> Result<(), Broken> {
    figures.points += 1;
    let files = scene.copy();
    let note = files.path().join("strace");
    let mut witness = scene.witness.clone();
    let under = fault.filter(|_| scene.is_start).map(|fault| fault.words_for_start(&note));
    let daemon = start(files.path(), &witness, &under.unwrap_or_default())
        .map_err(|said| Broken::Rule(format!("it does not start: {said}")))?;
    let mut tracer = None;
    if let Some(fault) = fault.filter(|_| !scene.is_start) {
        witness.pause = std::time::Duration::from_millis(60);
        daemon.try_get("/v1/status").await?;
        // Gives the writes of the start time to end.
        tokio::time::sleep(witness.pause).await;
        tracer = Some(Tracer::attach(&daemon, &fault.words(&note)).await);
    }
    let mut is_missed = false;
    match play(scene, &mut witness, &daemon).await {
        Err(Broken::Gone) => {}
        Ok(()) if fault.is_some() && scene.act == Some(Act::Stop) => {}
        Ok(()) => {
            is_missed = fault.is_some();
            daemon.kill();
        }
        Err(rule) => return Err(rule),
    }
    let status = daemon.end(60).await.expect("it is killed");
    drop(tracer);
    let is_killed = status.signal() == Some(9) && !is_missed;
    figures.killed += u32::from(is_killed);
    figures.not_reached += u32::from(!is_killed);
    live_on(scene, &files, &mut witness, figures).await
}

/// System calls at which a scene is killed or failed.
const KILLING: [&str; 6] = ["pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "writev"];
const FAILING: [&str; 5] = ["pwrite64", "fsync", "fdatasync", "ftruncate", "unlink"];
/// Acts read what was read at the start, so that these are for starts.
const FAILING_AT_STARTS: [&str; 2] = ["pread64", "openat"];

fn sweep(scene: &Scene, calls: &[(String, u32)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut each = |names: &[&'static str], what: &'static str, lasting: &str| {
        for &call in names {
            let count = calls.iter().find(|(name, _)| name == call).map_or(0, |(_, count)| *count);
            faults.extend((1..=count).map(|when| Fault {
                call,
                when: format!("{when}{lasting}"),
                what,
            }));
        }
    };
    each(&KILLING, "signal=SIGKILL", "");
    each(&FAILING, "error=EIO", "");
    if scene.is_start || scene.name == "checkpoint" {
        each(&FAILING_AT_STARTS, "error=EIO", "");
    }
    each(&["pwrite64"], "error=ENOSPC", "");
    each(&["pwrite64", "fsync", "fdatasync"], "error=EIO", "+");
    faults
}

/// Starts, cycles, acts, configurations, checkpoints and migrations, each killed and failed at
/// every system call.
#[tokio::test]
async fn killed_and_failed_at_its_system_calls() {
    if !has_strace("killing and failing at system calls") {
        return;
    }
    let mut figures = Figures::default();
    let mut points = Vec::new();
    let scenes = scenes().await;
    for scene in &scenes {
        let names: Vec<&str> =
            KILLING.into_iter().chain(FAILING).chain(FAILING_AT_STARTS).collect();
        let calls = calls_of(scene, &names.join(","), true).await;
        points.extend(sweep(scene, &calls).into_iter().map(|fault| (scene, fault)));
    }
    let apart = apart(CALLS_APART);
    println!("{} scenes, {} points, one in {apart} is taken", scenes.len(), points.len());
    for (scene, fault) in points.iter().step_by(apart) {
        let outcome = fail_one(scene, fault, &mut figures).await;
        outcome.unwrap_or_else(|broken| fail(broken, scene, &format!("{fault:?}")));
        if figures.points.is_multiple_of(250) {
            println!("{figures:?}");
        }
    }
    println!("{figures:?}, lost 0");
    assert!(figures.not_reached * 5 < figures.points, "most are reached: {figures:?}");
    assert!(0 < figures.killed && 0 < figures.stopped, "{figures:?}");
}

async fn fail_one(scene: &Scene, fault: &Fault, figures: &mut Figures) -> Result<(), Broken> {
    figures.points += 1;
    let files = scene.copy();
    let note = files.path().join("strace");
    let mut witness = scene.witness.clone();
    match start(files.path(), &witness, &fault.words_for_start(&note)) {
        // The daemon stopped before it opened its store.
        Err(_) => figures.stopped += 1,
        Ok(daemon) => {
            let mut is_ours = false;
            match play(scene, &mut witness, &daemon).await {
                Err(Broken::Gone) => {}
                Ok(()) if scene.act == Some(Act::Stop) => {}
                Ok(()) => {
                    is_ours = true;
                    daemon.kill();
                }
                Err(rule) => return Err(rule),
            }
            let status = daemon.end(60).await.expect("it ends by itself");
            let is_injected =
                std::fs::read_to_string(&note).is_ok_and(|note| note.contains("INJECTED"));
            match (status.code(), status.signal()) {
                (Some(1), _) => figures.stopped += 1,
                (None, Some(9)) if !is_ours => figures.killed += 1,
                _ if is_injected => {
                    *figures
                        .went_on
                        .entry(format!("{} {}", fault.call, fault.what))
                        .or_default() += 1;
                }
                _ => {
                    figures.not_reached += 1;
                }
            }
            if status.code() == Some(1) {
                assert_names_the_record(&daemon.said(), files.path(), &format!("{fault:?}"));
            }
        }
    }
    live_on(scene, &files, &mut witness, figures).await
}
