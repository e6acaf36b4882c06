//! Failures of the store, each with its remedy.
//!
//! Every message names the file and the remedy. `SQLite`'s own words are in the source, and only
//! where they add something.

use std::io;
use std::path::{Path, PathBuf};

use sqlx::migrate::MigrateError;

/// Failure of the store.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum StoreError {
    #[error("`{}` is a folder; name a file in it", path.display())]
    IsFolder { path: PathBuf },
    #[error("there is no folder `{}` to keep `{}` in; create it", folder.display(), path.display())]
    NoFolder { folder: PathBuf, path: PathBuf },
    #[error(
        "`{}` is in use by another apportion{}; stop that one, or give this one a file of its own",
        path.display(),
        holder.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse { path: PathBuf, holder: Option<u32> },
    #[error(
        "another apportion took over `{}`: its lock file was deleted, or it has a second name. Changes that this \
         daemon has not written are lost; run a single daemon on it",
        path.display()
    )]
    TakenOver { path: PathBuf },
    #[error(
        "`{}` was {what} while it was in use; stop, put the right files back (docs/operations.md, Recovery), and \
         start again",
        path.display()
    )]
    Replaced { path: PathBuf, what: &'static str },
    #[error(
        "`{}` has {links} names (hard links): another daemon could open it by another name; remove the other names",
        path.display()
    )]
    ManyNames { path: PathBuf, links: u64 },
    #[error("failed to lock `{}`; the folder must be writable for the user that runs apportion", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("failed to use `{}`, which says how far the record beside it has come; it must be writable for the user that runs apportion", path.display())]
    Mark { path: PathBuf, source: io::Error },
    #[error("`{}` is another program's database; name another file", path.display())]
    Foreign { path: PathBuf },
    #[error("`{}` is not a database; name another file, or move this one away", path.display())]
    NotADatabase { path: PathBuf },
    #[error(
        "`{}` was written by a newer apportion (its schema is {found}, this one knows {known}); \
         install that version or newer, or restore a copy from before the upgrade",
        path.display()
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    #[error(
        "`{}` was written by an older apportion (its schema is {found}, this one's is {known}); start the \
         daemon on it once, or use the version that wrote it",
        path.display()
    )]
    OlderSchema { path: PathBuf, found: i64, known: i64 },
    #[error("there is no file `{}`; `daemon.state` in the configuration says where the record is", path.display())]
    NoFile { path: PathBuf },
    #[error(
        "`{}` has a schema {version} that differs from this apportion's; use the build that wrote it",
        path.display()
    )]
    OtherSchema { path: PathBuf, version: i64 },
    #[error(
        "`{}` is damaged ({finding}); move it away and restore a copy, or start with a new file and \
         vary off again the nodes that were varied off",
        path.display()
    )]
    Damaged { path: PathBuf, finding: String },
    #[error("`{}` cannot be written; it and its folder must be writable for the user that runs apportion", path.display())]
    ReadOnly { path: PathBuf },
    #[error("the disk that holds `{}` is full; free some space, nothing is lost", path.display())]
    Full { path: PathBuf },
    #[error(
        "the disk that holds `{}` failed; no acknowledged change is lost. Read the system's log on the disk, \
         then start again: the daemon checks the file first",
        path.display()
    )]
    Disk { path: PathBuf, source: sqlx::Error },
    #[error("`{}` is locked by another program; end its transaction", path.display())]
    Busy { path: PathBuf },
    #[error("SQLite {found} is too old; build with the bundled one, or link {wanted} or newer")]
    OldSqlite { found: String, wanted: &'static str },
    #[error("cycle {given} comes after cycle {stored} is on record in `{}`", path.display())]
    CycleWentBack { path: PathBuf, stored: u64, given: u64 },
    #[error("share number {given} was issued before: `{}` is at {stored}", path.display())]
    ShareNumberWentBack { path: PathBuf, stored: u64, given: u64 },
    #[error("failed to {action} in `{}`", path.display())]
    Database { action: &'static str, path: PathBuf, source: sqlx::Error },
}

impl StoreError {
    /// Translates `source` into an error with a remedy for the operator. `SQLite`'s extended result
    /// codes keep the kind in the low byte.
    pub(super) fn of(action: &'static str, path: &Path, source: sqlx::Error) -> StoreError {
        let path = path.to_owned();
        let code = source.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
        // Our own statements fit the tables that we made, and read what we wrote; what the library does
        // not expect in a file ends its worker.
        let is_nonsense =
            matches!(source, sqlx::Error::ColumnDecode { .. } | sqlx::Error::WorkerCrashed);
        if let sqlx::Error::Decode(finding) = &source {
            return StoreError::Damaged { path, finding: finding.to_string() };
        }
        match code.map(|code| code & 0xff) {
            None if is_nonsense => StoreError::Damaged { path, finding: source.to_string() },
            Some(5 | 6) => StoreError::Busy { path },
            Some(8) => StoreError::ReadOnly { path },
            Some(10) => StoreError::Disk { path, source },
            Some(1 | 11) => StoreError::Damaged { path, finding: source.to_string() },
            Some(13) => StoreError::Full { path },
            Some(26) => StoreError::NotADatabase { path },
            _ => StoreError::Database { action, path, source },
        }
    }

    /// The same for a failed migration, where the newest migration we have is `known`.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are mistakes of our own")]
    pub(super) fn of_migration(path: &Path, known: i64, source: MigrateError) -> StoreError {
        match source {
            MigrateError::VersionMissing(found) => {
                StoreError::NewerSchema { path: path.to_owned(), found, known }
            }
            MigrateError::Dirty(version) => StoreError::Damaged {
                path: path.to_owned(),
                finding: format!("its change to schema {version} was never finished"),
            },
            MigrateError::VersionMismatch(version) => {
                StoreError::OtherSchema { path: path.to_owned(), version }
            }
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
                StoreError::of("migrate", path, source)
            }
            other => StoreError::of("migrate", path, sqlx::Error::Migrate(Box::new(other))),
        }
    }
}
