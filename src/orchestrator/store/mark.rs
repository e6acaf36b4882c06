//! The file beside the database that says how far it has come. It is written after each commit, so that a
//! database that was put back from a copy is noticed. It is never ahead of the database that it belongs
//! to, and need not be synced: an older one says nothing.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::StoreError;

/// How far a database has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    /// Its epoch.
    pub epoch: u64,
    /// Its commits.
    pub commits: u64,
}

/// The file.
#[derive(Debug)]
pub(super) struct MarkFile {
    path: PathBuf,
    file: File,
}

impl MarkFile {
    /// Opens the file, and reads what it says; nothing, if it is new or cannot be understood.
    pub fn open(path: &Path) -> Result<(MarkFile, Mark), StoreError> {
        let failed = |source| StoreError::Beside { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(failed)?;
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let mut words = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        // Earlier versions wrote the epoch only.
        let mark = Mark { epoch: words.next().unwrap_or(0), commits: words.next().unwrap_or(0) };
        Ok((MarkFile { path: path.to_owned(), file }, mark))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it, over what it said.
    pub fn write(&self, Mark { epoch, commits }: Mark) -> Result<(), StoreError> {
        let line = format!("{epoch:020} {commits:020}\n");
        let written = self.file.write_all_at(line.as_bytes(), 0);
        written.map_err(|source| StoreError::Beside { path: self.path.clone(), source })
    }
}
