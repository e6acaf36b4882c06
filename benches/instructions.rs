//! Instructions of a cycle: a figure that is independent of the computer's other load, and nearly
//! so of the computer itself.
//!
//! Runs itself under valgrind, once for each part, and counts the instructions between entering and
//! leaving [`counted`]. Without valgrind it prints a note. It is a report: it compares with nothing
//! and fails for no number.
//!
//! No crate does this: the existing crates need a second program of the same version beside them,
//! which a clean clone does not have.

#![expect(clippy::print_stdout, reason = "what it counts is all it is for")]

use std::hint::black_box;
use std::process::{Command, ExitCode, Stdio};

use apportion::bench::cluster::ClusterShape;
use apportion::bench::parts::PlanPart;
use apportion::bench::situation::{self, SITUATIONS, Situation};
use apportion::converter::{events_between, update_from};
use apportion::engine::plan;
use apportion::model::{Mebibytes, Quantum};
use apportion::scheduler::Scheduler;

/// Nodes, and as many jobs. Small, as it is played many times slower than in life.
const SIZE: u64 = 100;
/// First argument of the process whose instructions are counted.
const CHILD: &str = "--counted";
/// Suffixes of the names of parts: all of a cycle, and the engine alone.
const WHOLE: &str = ": whole cycle";
const PLAN: &str = ": plan";
/// The situation in which the engine's parts are counted separately: there each part has something
/// to do.
const IN_PARTS: &str = "churn";
/// Names of the steps around a cycle.
const DIFFERENCE: &str = "difference of publications";
const UPDATE: &str = "update";
/// Text of callgrind before the number, once the process has ended.
const COLLECTED: &str = "Collected :";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(CHILD) {
        play(&args.next().unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    println!("instructions of one cycle, {SIZE} nodes and {SIZE} jobs");
    let cycles =
        SITUATIONS.iter().flat_map(|(name, _)| [WHOLE, PLAN].map(|part| format!("{name}{part}")));
    let parts = PlanPart::ALL.map(|part| format!("{IN_PARTS}: {}", part.name()));
    for name in cycles.chain(parts).chain([DIFFERENCE, UPDATE].map(str::to_owned)) {
        match count(&name) {
            Ok(instructions) => println!("{name:<28}{instructions:>15}"),
            Err(reason) => {
                println!("skipped: {reason}");
                break;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Prepares the part of this name, and calls [`counted`] once.
fn play(name: &str) {
    match name {
        DIFFERENCE => difference(),
        UPDATE => update(),
        _ => {
            let is_it = |(situation, _): &&Situation| name.starts_with(situation);
            let (_, books) = SITUATIONS.iter().find(is_it).expect("only we start ourselves so");
            let books = books(&shape());
            let is_part = |part: &PlanPart| name.ends_with(&format!(": {}", part.name()));
            match PlanPart::ALL.into_iter().find(is_part) {
                Some(part) => alone(part, books),
                None if name.ends_with(PLAN) => planned(books),
                None => whole(books),
            }
        }
    }
}

/// Counts the instructions of a part by callgrind; on failure returns the reason.
fn count(name: &str) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*instructions::counted*"])
        .arg(own)
        .args([CHILD, name])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once(COLLECTED));
    match collected {
        Some((_, number)) if output.status.success() => Ok(number.trim().to_owned()),
        _ => Err(format!("valgrind did not count: {said}")),
    }
}

/// The counted code and nothing else; callgrind finds the function by its name.
#[inline(never)]
fn counted<T>(part: impl FnOnce() -> T) -> T {
    black_box(part())
}

fn whole(mut books: Scheduler) {
    black_box(counted(|| books.schedule()));
}

fn planned(books: Scheduler) {
    let snapshot = situation::next_snapshot(books);
    black_box(counted(|| plan(&snapshot)));
}

fn alone(part: PlanPart, books: Scheduler) {
    let snapshot = situation::next_snapshot(books);
    let prepared = part.prepared(&snapshot);
    black_box(counted(|| part.run(&snapshot, prepared)));
}

fn difference() {
    let [before, after] = situation::publications(&shape());
    black_box(counted(|| events_between(Some(&before), &after)));
}

fn update() {
    let (_, _, view) = situation::settled(&shape());
    black_box(counted(|| update_from(&view)));
}

fn shape() -> ClusterShape {
    let quantum = Quantum::new(Mebibytes::from_gib(15)).expect("15 GB is a quantum");
    ClusterShape { nodes: SIZE, jobs: SIZE, users: SIZE.div_ceil(10), quantum, seed: 1 }
}
