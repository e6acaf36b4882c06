//! Files of a rank, in the temporary folder of its task.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::RankError;
use crate::orchestrator::wire::RankStart;

/// Longest file with the ranks, in bytes: a thousand ranks with long names.
const MAX_FILE: u64 = 1 << 20;

/// Files of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFiles {
    /// The ranks and their secret, as JSON, for the user alone.
    pub ranks: PathBuf,
    /// Names of the nodes, a name a line, in the order of the ranks.
    pub nodes: PathBuf,
    /// The same with one slot a node, in the form of Open MPI.
    pub hosts: PathBuf,
    /// Script that starts a command at another rank, called as `ssh`.
    pub shell: PathBuf,
}

impl RankFiles {
    fn of(folder: &Path) -> RankFiles {
        let at = |name: &str| folder.join(name);
        RankFiles {
            ranks: at("ranks.json"),
            nodes: at("nodes"),
            hosts: at("hosts"),
            shell: at("rank-shell"),
        }
    }
}

/// Writes the files of a rank into `folder`. `program` is this binary.
///
/// # Errors
///
/// If they cannot be written.
pub fn prepare(folder: &Path, gang: &RankStart, program: &Path) -> io::Result<RankFiles> {
    let files = RankFiles::of(folder);
    write_ranks(&files, gang, write)?;
    if !gang.every_node {
        let words = [quoted(program), "rank-shell".to_owned(), quoted(&files.ranks)].join(" ");
        write(&files.shell, 0o700, &format!("#!/bin/sh\nexec {words} \"$@\"\n"))?;
    }
    Ok(files)
}

/// Replaces the files that name the ranks, each at once as a whole.
///
/// # Errors
///
/// If they cannot be written.
pub fn replace(folder: &Path, gang: &RankStart) -> io::Result<()> {
    write_ranks(&RankFiles::of(folder), gang, |path, mode, text| {
        let new = path.with_extension("new");
        let _ = std::fs::remove_file(&new);
        write(&new, mode, text)?;
        std::fs::rename(&new, path)
    })
}

/// Writes the files that name the ranks with `write`. The file for people and programs is the last,
/// so that all others are there when it changes.
fn write_ranks(
    files: &RankFiles,
    gang: &RankStart,
    write: impl Fn(&Path, u32, &str) -> io::Result<()>,
) -> io::Result<()> {
    let lines = |end: &str| {
        let lines: Vec<String> =
            gang.ranks.iter().map(|rank| format!("{}{end}\n", rank.node)).collect();
        lines.concat()
    };
    write(&files.ranks, 0o600, &serde_json::to_string(gang)?)?;
    write(&files.hosts, 0o644, &lines(" slots=1"))?;
    write(&files.nodes, 0o644, &lines(""))
}

fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// Reads the ranks from their file.
pub(super) fn read(path: &Path) -> Result<RankStart, RankError> {
    let failed = |source| RankError::File { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| failed(error.into()))
}

/// Names of the nodes, for people.
pub(super) fn names(gang: &RankStart) -> String {
    let names: Vec<&str> = gang.ranks.iter().map(|rank| rank.node.as_str()).collect();
    names.join(", ")
}
