//! The files of the record, while it is in use: none may be deleted or replaced under the daemon.
//!
//! A daemon whose database was deleted would go on writing to a file without a name, and a restart
//! would find nothing. A check of each file's number and links in each cycle detects that.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::StoreError;

/// The files beside the database, by what follows on its name.
const BESIDE: [&str; 3] = ["-wal", ".mark", ".lock"];

/// Files of the store, each with its identity when first seen.
#[derive(Debug)]
pub(super) struct Files {
    seen: Vec<(PathBuf, Option<FileId>)>,
    /// Number of hard links of the database at the last check.
    names: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    number: u64,
}

impl Files {
    /// The files of the database at `path`.
    ///
    /// # Errors
    ///
    /// If the database has several names: the lock file of another would not be met.
    pub(super) fn of(path: &Path) -> Result<Files, StoreError> {
        let names = path.metadata().map_or(1, |facts| facts.nlink());
        if 1 < names {
            return Err(StoreError::ManyNames { path: path.to_owned(), links: names });
        }
        let beside = BESIDE.map(|end| {
            let mut name = OsString::from(path);
            name.push(end);
            PathBuf::from(name)
        });
        let all = [path.to_owned()].into_iter().chain(beside);
        Ok(Files { seen: all.map(|path| (path, None)).collect(), names })
    }

    /// Checks all files, and remembers the identity of each new file.
    ///
    /// # Errors
    ///
    /// If a file is gone or was replaced.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        self.count_names();
        for (path, seen) in &mut self.seen {
            let now = match path.metadata() {
                Ok(facts) => Some(FileId { device: facts.dev(), number: facts.ino() }),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                // A file that cannot be checked now is checked in the next cycle.
                Err(_) => continue,
            };
            let what = match (*seen, now) {
                (Some(_), None) => "deleted",
                (Some(seen), Some(now)) if seen != now => "replaced",
                (Some(_) | None, _) => {
                    *seen = now;
                    continue;
                }
            };
            return Err(StoreError::Replaced { path: path.clone(), what });
        }
        Ok(())
    }

    /// Logs a warning if the database got another name. No daemon profits from it: a start is
    /// refused, and each transaction checks the owner.
    fn count_names(&mut self) {
        let Some((path, _)) = self.seen.first() else { return };
        let Ok(names) = path.metadata().map(|facts| facts.nlink()) else { return };
        if self.names < names {
            let file = path.display();
            tracing::warn!(%file, names, "the database has other names (hard links); remove them, or no daemon starts again");
        }
        self.names = names;
    }

    /// A new connection may have a write-ahead log of its own.
    pub(super) fn forget_log(&mut self) {
        if let Some((_, seen)) = self.seen.get_mut(1) {
            *seen = None;
        }
    }
}
