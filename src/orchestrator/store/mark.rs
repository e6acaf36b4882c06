//! The mark file beside the database: epoch and commits of the last commit. The store writes it
//! after each commit, to detect a database that was restored from an older copy. The file is never
//! ahead of its database. It need not be synced: an older mark only detects less.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::DbError;

/// Progress of a database, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommitMark {
    /// Epoch of the database.
    pub epoch: u64,
    /// Number of commits.
    pub commits: u64,
}

/// The open mark file.
#[derive(Debug)]
pub(super) struct MarkFile {
    path: PathBuf,
    file: File,
}

impl MarkFile {
    /// Opens the file, and reads its mark. A new or damaged file has the lowest mark.
    pub fn open(path: &Path) -> Result<(MarkFile, CommitMark), DbError> {
        let failed = |source| DbError::Beside { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(failed)?;
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let mut words = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        // Earlier versions wrote the epoch only.
        let mark =
            CommitMark { epoch: words.next().unwrap_or(0), commits: words.next().unwrap_or(0) };
        Ok((MarkFile { path: path.to_owned(), file }, mark))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Overwrites the mark.
    pub fn write(&self, CommitMark { epoch, commits }: CommitMark) -> Result<(), DbError> {
        let line = format!("{epoch:020} {commits:020}\n");
        let written = self.file.write_all_at(line.as_bytes(), 0);
        written.map_err(|source| DbError::Beside { path: self.path.clone(), source })
    }
}
