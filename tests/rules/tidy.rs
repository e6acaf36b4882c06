//! The rules of this repository that a machine can check.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::path::{Path, PathBuf};

/// Layer, and the words its code must not contain.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "core/src/model/",
        &["crate::engine", "crate::scheduler", "crate::converter", "serde", "Serialize"],
    ),
    ("core/src/engine/", &["crate::audit", "crate::scheduler", "crate::converter", "crate::sim"]),
    // A second opinion shares the data of the engine and none of its steps.
    (
        "core/src/audit/",
        &["engine::plan", "engine::preempt", "engine::Planning", "crate::scheduler", "crate::sim"],
    ),
    ("core/src/audit/", PURE),
    ("core/src/scheduler/", &["crate::converter", "crate::sim"]),
    ("core/src/converter/", &["crate::sim", "serde"]),
    // The pure layers neither wait, read a clock, draw lots, do I/O, nor know who is outside.
    ("core/src/model/", PURE),
    ("core/src/engine/", PURE),
    ("core/src/scheduler/", PURE),
    ("core/src/converter/", PURE),
    ("src/journal/", PURE),
    ("src/grid/", PURE),
    (
        "src/grid/",
        &["crate::engine", "crate::orchestrator", "crate::scheduler", "HashMap", "f32", "f64"],
    ),
    ("src/journal/", &["crate::converter", "crate::sim", "HashMap", "HashSet"]),
    // Decisions must not iterate over collections with an accidental order.
    ("core/src/engine/", &["HashMap", "HashSet", "f32", "f64"]),
    ("core/src/audit/", &["HashMap", "HashSet", "f32", "f64"]),
    ("core/src/scheduler/", &["HashMap", "HashSet", "f32", "f64"]),
    (
        "src/sim/",
        &[
            "crate::api",
            "crate::store",
            "crate::daemon",
            "crate::cli::",
            "tokio",
            ".await",
            "async fn",
        ],
    ),
    (
        "src/store/",
        &["crate::engine", "crate::scheduler", "crate::api", "crate::converter", "axum"],
    ),
    (
        "src/config/",
        &["crate::engine", "crate::scheduler", "crate::api", "crate::store", ".await", "tokio"],
    ),
    ("src/auth/", DOOR),
    ("src/auth/", &["crate::net", "crate::client"]),
    ("src/net/", DOOR),
    ("src/client/", DOOR),
    ("src/client/", &["crate::net"]),
    ("src/api/", &["crate::engine::plan", "sqlx", "crate::store", "crate::cli::"]),
    ("src/daemon/", &["crate::cli::", "crate::demo"]),
    // An agent knows what crosses the wire, and no more of what decides.
    ("src/agent/", AGENT),
    // A slot is small, waits for no network, and outlives the agent that started it.
    ("src/slot/", SLOT),
    // A rank of a gang is as small, and its server waits for the network in its place.
    ("src/rank/", RANK),
    // Pages are made from what the API tells.
    (
        "src/dashboard/",
        &["crate::engine", "sqlx", "crate::store", "crate::cli::", "crate::daemon", "crate::demo"],
    ),
    // The orchestrator reaches the resource manager through its public API only.
    (
        "src/orchestrator/",
        &["crate::engine", "crate::scheduler", "crate::converter", "crate::store", "crate::daemon"],
    ),
    ("src/orchestrator/spec/", PURE),
    ("src/orchestrator/book/", PURE),
    ("src/orchestrator/book/", &["HashMap", "HashSet", "f32", "f64"]),
    // Benchmarks see the measured parts from outside.
    ("src/bench/", &["crate::cli::", "crate::store", "crate::daemon", "sqlx"]),
    ("src/demo/", &["crate::engine::plan", "crate::scheduler::Scheduler", "sqlx"]),
];

/// Who may come in, and how: no layer below knows what is asked for.
const DOOR: &[&str] =
    &["crate::engine", "crate::scheduler", "crate::api", "crate::store", "crate::cli::", "sqlx"];

const AGENT: &[&str] = &[
    "sqlx",
    "axum",
    "crate::api::state",
    "crate::cli::",
    "crate::config",
    "crate::converter",
    "crate::daemon",
    "crate::engine",
    "crate::orchestrator::book",
    "crate::orchestrator::serve",
    "crate::orchestrator::spec",
    "crate::orchestrator::store",
    "crate::scheduler",
    "crate::store",
];

const SLOT: &[&str] = &[
    ".await",
    "async ",
    "tokio",
    "sqlx",
    "axum",
    "reqwest",
    "tracing",
    "std::net::Tcp",
    "crate::auth",
    "crate::client",
    "crate::net",
    "crate::agent",
    "crate::api",
    "crate::cli::",
    "crate::config",
    "crate::daemon",
    "crate::engine",
    "crate::orchestrator::book",
    "crate::orchestrator::serve",
    "crate::orchestrator::spec",
    "crate::orchestrator::store",
    "crate::scheduler",
    "crate::store",
];

const RANK: &[&str] = &[
    ".await",
    "async ",
    "tokio",
    "sqlx",
    "axum",
    "reqwest",
    "crate::agent",
    "crate::api",
    "crate::cli::",
    "crate::orchestrator::book",
    "crate::orchestrator::serve",
    "crate::orchestrator::spec",
    "crate::orchestrator::store",
    "crate::store",
];

const PURE: &[&str] = &[
    ".await",
    "async ",
    "::now(",
    "tokio",
    "sqlx",
    "axum",
    "reqwest",
    "std::fs",
    "std::net",
    "std::env",
    "std::time",
    "rand",
    "tracing",
    "crate::api",
    "crate::store",
    "crate::config",
    "crate::daemon",
    "crate::cli::",
    "crate::demo",
];

/// Files that may read the wall clock, with the purpose. No decision depends on it, so the clock
/// may jump.
const WALL_CLOCK: &[(&str, &str)] = &[
    ("src/daemon/clock.rs", "when a cycle went on record"),
    ("src/auth/gatekeeper.rs", "whether a token has expired"),
    ("src/cli/token.rs", "when a new token expires"),
    ("src/cli/up/authority.rs", "when a new certificate expires"),
    ("src/cli/up/join.rs", "whether a join file has expired"),
    ("src/cli/why.rs", "how long it is until a job is expected to start"),
    ("src/cli/up/public.rs", "when the tokens of a join file expire"),
    ("src/cli/urgent.rs", "when an urgent job is submitted"),
    ("src/agent/mod.rs", "when a heartbeat was sent, so that a clock that is off is noticed"),
    ("src/api/ingest/heartbeats.rs", "how far a node's clock is off, to say so"),
    ("src/api/reservations.rs", "whether a reservation is in the past, or too far ahead"),
    ("src/api/hours.rs", "whether a class is open, and how long until that changes"),
    ("src/cli/classes.rs", "how long until a class opens or closes"),
    ("src/cli/submit.rs", "what `--begin 18:00` means"),
    ("src/cli/reservation.rs", "what `18:00` means, and how long until a reservation opens"),
    ("src/cli/queue.rs", "how long ago work was submitted"),
    ("src/dashboard/watcher.rs", "when something was seen"),
    ("src/demo/play.rs", "when the work of the demo was submitted"),
    (
        "src/orchestrator/drive.rs",
        "when something went on record, and whether the hours of a campaign are open",
    ),
];

const MAX_FUNCTION_LINES: usize = 70;
const MAX_FILE_LINES: usize = 500;

/// All Rust sources under `dir`, with their paths from the root of the repository.
pub fn sources(dir: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pending: Vec<PathBuf> = vec![root.join(dir)];
    let mut files = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    files.sort();
    files
}

/// The sources of both crates.
pub fn all_sources() -> Vec<(String, String)> {
    ["core/src", "src"].into_iter().flat_map(sources).collect()
}

/// The lines that are code: no comments, and nothing from the tests below it on.
pub fn code(text: &str) -> impl Iterator<Item = &str> {
    let without_tests = text.split("\n#[cfg(test)]").next().unwrap_or(text);
    without_tests.lines().map(|line| line.split("//").next().unwrap_or(line))
}

pub fn is_test_file(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

#[test]
fn layers_keep_to_themselves() {
    let mut offences = Vec::new();
    for (file, text) in all_sources().iter().filter(|(file, _)| !is_test_file(file)) {
        for (layer, words) in FORBIDDEN.iter().filter(|(layer, _)| file.starts_with(layer)) {
            for (number, line) in code(text).enumerate() {
                for word in words.iter().filter(|word| line.contains(**word)) {
                    offences.push(format!("{file}:{}: `{word}` in {layer}", number + 1));
                }
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn the_clock_on_the_wall_decides_nothing() {
    let reads = |text: &str| {
        let mut lines = code(text);
        lines.any(|line| {
            ["SystemTime::now", "Timestamp::now", "Zoned::now"]
                .iter()
                .any(|word| line.contains(word))
        })
    };
    let sources = all_sources();
    let readers = sources.iter().filter(|(file, text)| !is_test_file(file) && reads(text));
    let readers: Vec<&str> = readers.map(|(file, _)| file.as_str()).collect();
    let mut expected: Vec<&str> = WALL_CLOCK.iter().map(|(file, _)| *file).collect();
    expected.sort_unstable();
    assert_eq!(readers, expected, "say in the table what for, and decide nothing by it");
}

/// The table above would be worth nothing if a layer were renamed under it.
#[test]
fn every_layer_of_the_table_exists() {
    let files = all_sources();
    for (layer, _) in FORBIDDEN {
        assert!(files.iter().any(|(file, _)| file.starts_with(layer)), "{layer} has no files");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for (file, text) in ["core/src", "src", "tests", "benches"].into_iter().flat_map(sources) {
        assert!(text.starts_with("//! "), "{file}: no `//!` header");
    }
}

#[test]
fn functions_and_files_fit_in_the_head() {
    let mut offences = Vec::new();
    for (file, text) in all_sources().iter().filter(|(file, _)| !is_test_file(file)) {
        let lines: Vec<&str> = code(text).collect();
        if lines.len() > MAX_FILE_LINES {
            offences.push(format!("{file}: {} lines", lines.len()));
        }
        // rustfmt closes a function at the indentation that opened it.
        let is_fn =
            |line: &str| line.trim_start().split([' ', '(']).take(4).any(|word| word == "fn");
        for (start, opening) in lines.iter().enumerate().filter(|(_, line)| is_fn(line)) {
            let indent = opening.len() - opening.trim_start().len();
            let closing = format!("{:indent$}}}", "");
            let length = lines[start..].iter().take_while(|line| **line != closing).count();
            if length >= MAX_FUNCTION_LINES && !opening.trim_end().ends_with(';') {
                offences.push(format!("{file}:{}: {length} lines", start + 1));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// Beyond this machine there is nothing without TLS, so no document may tell people to try.
#[test]
fn documents_lead_nowhere_unencrypted() {
    let documents = ["README.md", "docs", "packaging", "config", "src/cli"];
    let files: Vec<PathBuf> = documents.iter().flat_map(|path| files(Path::new(path))).collect();
    assert!(files.iter().any(|file| file.ends_with("operations.md")));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Texts for tests are no advice to users.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for (line, text) in (1..).zip(text.lines()) {
            let leads = |mark: &str| text.split(mark).skip(1).all(is_here);
            let is_safe = leads("http://") && (!calls_curl(text) || leads_safely(text));
            assert!(is_safe, "{}:{line}: {text}", file.display());
        }
    }
}

/// Links in Markdown lead to existing files, and the first page is short enough for a single read.
#[test]
fn documents_lead_to_files_that_are_there() {
    let mut documents: Vec<PathBuf> = files(Path::new("docs"));
    documents.retain(|path| path.extension().is_some_and(|end| end == "md"));
    documents
        .extend(["README.md", "tests/README.md", "core/src/engine/README.md"].map(PathBuf::from));
    let mut offences = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let (path, heading) = link.0.split_once('#').unwrap_or((link.0, ""));
            let target = if path.is_empty() { document.clone() } else { folder.join(path) };
            let is_elsewhere = path.starts_with("https://");
            let is_there = is_elsewhere || (target.exists() && has_heading(&target, heading));
            if !is_there {
                offences.push(format!("{}: {}", document.display(), link.0));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    let lines = fs::read_to_string("README.md").unwrap().lines().count();
    assert!(lines <= 200, "README.md has {lines} lines");
}

/// True if a document has the heading that a link names, in the form that forges give it.
fn has_heading(document: &Path, wanted: &str) -> bool {
    let form = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign));
        kept.collect::<String>().replace(' ', "-")
    };
    let headings =
        |text: String| text.lines().any(|line| line.starts_with('#') && form(line) == wanted);
    wanted.is_empty() || fs::read_to_string(document).is_ok_and(headings)
}

/// True if an address with this beginning is on this machine, or only the form of an address.
fn is_here(address: &str) -> bool {
    ["127.0.0.1", "localhost", "[::1]", "HOST"].iter().any(|here| address.starts_with(here))
}

/// True if the text calls curl, and does not only list it.
fn calls_curl(text: &str) -> bool {
    text.match_indices("curl ").any(|(at, _)| !text[..at].ends_with(','))
}

/// True if a call of curl uses TLS, this machine, or an address from a variable.
fn leads_safely(call: &str) -> bool {
    ["https://", "127.0.0.1", "localhost", "--unix-socket", "with `curl`", "for `curl`"]
        .iter()
        .any(|way| call.contains(way))
}

/// The file, or the files below the folder.
pub fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let is_text = |path: &PathBuf| path.extension().is_none_or(|end| end != "snap" && end != "png");
    entries.flat_map(|entry| files(&entry)).filter(is_text).collect()
}
