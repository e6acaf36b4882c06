//! The database of the orchestrator: an `SQLite` file with a single writer.
//!
//! A batch of effects is a transaction, with a write-ahead log that is synced in full. The owner
//! sends no answer of a batch before [`CampaignStore::commit`] returned. [`CampaignStore::saved`]
//! reads back the rows of the book; a [`StoreReader`] reads by a connection of its own.

mod acts;
mod convert;
mod extend;
mod faults;
mod figures;
mod filed;
mod gang;
mod grid;
mod leases;
mod mark;
mod read;
mod retention;
mod rows;
mod write;

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row, SqlSafeStr, query, query_scalar};

pub use acts::{ActEntry, CallerAct, Cut, first_fault};
pub use extend::{Added, Extension};
pub use figures::{Ends, EventInfo, Progress, SampleRow};
pub use grid::{AffinityChange, ForecastRow, PassRows, StatusRow};
pub use leases::{ChildRow, ClusterRow, OutOfGrid};
pub use read::{AttemptPage, CampaignInfo, NoteInfo, StoreReader, TaskPage};
pub use retention::{Final, RemovalStep};
pub use write::{Batch, CHUNK, Submission};

use crate::agent::FactsError;
use convert::{from_sql, to_sql};
use mark::{CommitMark, MarkFile};

/// Mark of an orchestrator's database in the header of its file: "appO".
const APPLICATION_ID: i64 = 0x6170_704f;
/// Wait for another program's write transaction.
const BUSY: Duration = Duration::from_secs(5);

/// Every schema so far, oldest first.
const SCHEMAS: &[(i64, &str, &str)] = &[
    (1, "initial", include_str!("../../../migrations/orchestrator/0001_initial.sql")),
    (2, "ends", include_str!("../../../migrations/orchestrator/0002_ends.sql")),
    (3, "lists", include_str!("../../../migrations/orchestrator/0003_lists.sql")),
    (4, "mark", include_str!("../../../migrations/orchestrator/0004_mark.sql")),
    (5, "retention", include_str!("../../../migrations/orchestrator/0005_retention.sql")),
    (6, "additions", include_str!("../../../migrations/orchestrator/0006_additions.sql")),
    (7, "gangs", include_str!("../../../migrations/orchestrator/0007_gangs.sql")),
    (8, "copies", include_str!("../../../migrations/orchestrator/0008_copies.sql")),
    (9, "waits", include_str!("../../../migrations/orchestrator/0009_waits.sql")),
    (10, "admission", include_str!("../../../migrations/orchestrator/0010_admission.sql")),
    (11, "events", include_str!("../../../migrations/orchestrator/0011_events.sql")),
    (12, "leases", include_str!("../../../migrations/orchestrator/0012_leases.sql")),
    (13, "grid", include_str!("../../../migrations/orchestrator/0013_grid.sql")),
    (14, "hooks", include_str!("../../../migrations/orchestrator/0014_hooks.sql")),
    (15, "notify", include_str!("../../../migrations/orchestrator/0015_notify.sql")),
    (20, "cluster-hooks", include_str!("../../../migrations/orchestrator/0020_cluster_hooks.sql")),
    (21, "children", include_str!("../../../migrations/orchestrator/0021_children.sql")),
];

/// Reason why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// Another orchestrator uses the database.
    #[error("{} is in use by another orchestrator; stop that one, or name another file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to another program.
    #[error("{} is no database of an orchestrator; name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file beside the database cannot be used.
    #[error("cannot use {}", path.display())]
    Beside {
        /// Path of that file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The boot of this machine is not known, so the ends of leases cannot be kept.
    #[error("cannot keep leases in {}", path.display())]
    Boot {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: FactsError,
    },
    /// `SQLite` refuses a statement.
    #[error("cannot {action} in {}", path.display())]
    Sql {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: sqlx::Error,
    },
    /// The schema cannot be brought up to date.
    #[error("cannot bring the schema of {} up to date", path.display())]
    Migration {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: sqlx::migrate::MigrateError,
    },
}

/// The database, open for writing.
#[derive(Debug)]
pub struct CampaignStore {
    path: PathBuf,
    connection: SqliteConnection,
    identity: String,
    epoch: u64,
    sequence: u64,
    mark: MarkFile,
    is_set_back: bool,
    /// Boot of this machine, in which the ends of leases count.
    boot: String,
    _lock: File,
}

impl CampaignStore {
    /// Opens the database at `path`, or creates it. Its new epoch is higher than its last epoch and
    /// than the epoch of the mark file.
    ///
    /// # Errors
    ///
    /// If it is in use, is no database of an orchestrator, or cannot be written.
    pub async fn open(path: &Path) -> Result<CampaignStore, DbError> {
        let lock = lock(path)?;
        let failed = |action| move |source| DbError::Sql { action, path: path.to_owned(), source };
        let mut connection = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .disable_statement_logging()
            .connect()
            .await
            .map_err(failed("open the database"))?;
        if !is_ours(&mut connection).await.map_err(failed("identify the file"))? {
            return Err(DbError::Foreign { path: path.to_owned() });
        }
        query("pragma journal_mode = wal")
            .execute(&mut connection)
            .await
            .map_err(failed("begin a write-ahead log"))?;
        migrations()
            .run_direct(None, &mut connection, false)
            .await
            .map_err(|source| DbError::Migration { path: path.to_owned(), source })?;
        let (mark, marked) = MarkFile::open(&beside(path, ".mark"))?;
        let meta = begin(&mut connection, marked).await.map_err(failed("begin an epoch"))?;
        let Meta { identity, epoch, sequence, commits, is_set_back } = meta;
        mark.write(CommitMark { epoch, commits })?;
        if is_set_back {
            tracing::error!(
                file = %path.display(),
                mark = %mark.path().display(),
                "the database is an older copy: tasks may run that it does not know. The orchestrator assigns \
                 nothing until `apportion orchestrator adopt`. If a newer database exists, stop, and restore it"
            );
        }
        let boot = boot_of(path)?;
        let path = path.to_owned();
        Ok(CampaignStore {
            path,
            connection,
            identity,
            epoch,
            sequence,
            mark,
            is_set_back,
            boot,
            _lock: lock,
        })
    }

    /// True if the database is an older copy, and an operator has not adopted the tasks on nodes
    /// yet.
    pub fn is_set_back(&self) -> bool {
        self.is_set_back
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the orchestrator: 8 hexadecimal digits that never change.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The boot of this machine.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// The epoch of this opening.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the last publication.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Closes the file. Nothing is left in the write-ahead log.
    ///
    /// # Errors
    ///
    /// If the log cannot be written back. Nothing is lost; the next opening does it.
    pub async fn close(mut self) -> Result<(), DbError> {
        let path = self.path.clone();
        let failed = |source| DbError::Sql { action: "close", path, source };
        let emptied = query("pragma wal_checkpoint(truncate)").execute(&mut self.connection).await;
        let closed = match emptied {
            Ok(_) => self.connection.close().await,
            Err(error) => Err(error),
        };
        closed.map_err(failed)
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(sqlx::Error) -> DbError + use<> {
        let path = self.path.clone();
        move |source| DbError::Sql { action, path, source }
    }
}

/// The steps from an empty file to the present schema.
fn migrations() -> Migrator {
    let step = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(SCHEMAS.iter().map(step).collect())
}

/// The boot of this machine, for the database at `path`.
fn boot_of(path: &Path) -> Result<String, DbError> {
    crate::agent::boot().map_err(|source| DbError::Boot { path: path.to_owned(), source })
}

/// A path with `end` added to its last name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

fn lock(path: &Path) -> Result<File, DbError> {
    let lock = beside(path, ".lock");
    let failed = |source| DbError::Beside { path: lock.clone(), source };
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(&lock).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DbError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// True if the file belongs to an orchestrator. An empty file becomes such a file.
async fn is_ours(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let id: i64 = query_scalar("pragma application_id").fetch_one(&mut *connection).await?;
    let tables: i64 =
        query_scalar("select count(*) from sqlite_schema").fetch_one(&mut *connection).await?;
    if id == 0 && tables == 0 {
        query("pragma application_id = 0x6170704f").execute(connection).await?;
        return Ok(true);
    }
    Ok(id == APPLICATION_ID)
}

/// Facts about the file, at the begin of an epoch.
struct Meta {
    identity: String,
    epoch: u64,
    sequence: u64,
    commits: u64,
    is_set_back: bool,
}

/// Begins the next epoch. The file is an older copy if its progress is behind `marked`.
async fn begin(connection: &mut SqliteConnection, marked: CommitMark) -> Result<Meta, sqlx::Error> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| sqlx::Error::Io(io::Error::other(error)))?;
    let fresh = format!("{:08x}", u32::from_be_bytes(random));
    let sql = "insert into meta (one, identity, epoch, next, sequence) values (1, ?1, 0, 1, 0)
               on conflict do nothing";
    query(sql).bind(fresh).execute(&mut *connection).await?;
    let row = query("select epoch, commits from meta").fetch_one(&mut *connection).await?;
    let found = CommitMark {
        epoch: from_sql(row.try_get("epoch")?),
        commits: from_sql(row.try_get("commits")?),
    };
    let sql = "update meta set epoch = ?1, set_back = max(set_back, ?2)
               returning identity, epoch, sequence, commits, set_back";
    let epoch = found.epoch.max(marked.epoch) + 1;
    let row = query(sql).bind(to_sql(epoch)).bind(found < marked).fetch_one(connection).await?;
    Ok(Meta {
        identity: row.try_get("identity")?,
        epoch: from_sql(row.try_get("epoch")?),
        sequence: from_sql(row.try_get("sequence")?),
        commits: from_sql(row.try_get("commits")?),
        is_set_back: row.try_get("set_back")?,
    })
}

#[cfg(test)]
mod tests;
