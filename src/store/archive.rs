//! The record, open for looking into the past: read only, beside a daemon that writes, or a copy.

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row, query, query_scalar};

use super::journal::{self, FeedRow, PastCheckpoint, PastCycle};
use super::{StoreError, from_sql, open};

/// The record, for reading.
#[derive(Debug)]
pub struct ReadOnlyStore {
    pub(super) path: PathBuf,
    pub(super) connection: SqliteConnection,
}

impl ReadOnlyStore {
    /// Opens the store at `path` for reading. Writes nothing, and waits for no lock.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not ours, or of another version.
    pub async fn open(path: &Path) -> Result<ReadOnlyStore, StoreError> {
        if !path.exists() {
            return Err(StoreError::NoFile { path: path.to_owned() });
        }
        let failed = |action| move |source| StoreError::of(action, path, source);
        let mut connection = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(open::BUSY_TIMEOUT)
            .pragma("cache_size", open::CACHE_SIZE)
            .disable_statement_logging()
            .connect()
            .await
            .map_err(failed("open the record"))?;
        open::check_is_ours(&mut connection, path).await?;
        let sql = "select max(version) from _sqlx_migrations";
        let version: Option<i64> = query_scalar(sql)
            .fetch_one(&mut connection)
            .await
            .map_err(failed("read the schema"))?;
        open::check_schema(version.unwrap_or(0), path)?;
        Ok(ReadOnlyStore { path: path.to_owned(), connection })
    }

    /// Closes the store. A store that is dropped closes some time later, on a thread of its own.
    pub async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::warn!(%error, file = %self.path.display(), "a reader cannot close the record");
        }
    }

    /// Returns the oldest cycle that can be replayed, and the newest. `None` if the store is empty.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn range(&mut self) -> Result<Option<(u64, u64)>, StoreError> {
        let sql = "select min(cycle), max(cycle) from cycles
                   where cycle > (select min(cycle) from books)";
        let row = query(sql).fetch_one(&mut self.connection).await;
        let row = row.map_err(|source| StoreError::of("read", &self.path, source))?;
        let bound = |ix: usize| row.try_get::<Option<i64>, _>(ix).ok().flatten().map(from_sql);
        Ok(bound(0).zip(bound(1)))
    }

    /// Returns the newest checkpoint taken after a cycle before `cycle`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn checkpoint_before(
        &mut self,
        cycle: u64,
    ) -> Result<Option<PastCheckpoint>, StoreError> {
        let checkpoint = journal::checkpoint_before(&mut self.connection, cycle).await;
        checkpoint.map_err(|source| StoreError::of("read", &self.path, source))
    }

    /// The cycles after which there are checkpoint on record, the newest first.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn checkpoint_cycles(&mut self) -> Result<Vec<u64>, StoreError> {
        let cycles = journal::checkpoint_cycles(&mut self.connection).await;
        cycles.map_err(|source| StoreError::of("read", &self.path, source))
    }

    /// At most `limit` cycles after `cycle`, oldest first.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn cycles_after(
        &mut self,
        cycle: u64,
        limit: u32,
    ) -> Result<Vec<PastCycle>, StoreError> {
        let cycles = journal::cycles_after(&mut self.connection, cycle, limit).await;
        cycles.map_err(|source| StoreError::of("read", &self.path, source))
    }

    /// At most `limit` events of the feed after number `since`, in order. Where the first of them
    /// is not `since + 1`, what came between is kept no more. Ends before a gap, and before an event
    /// that is not what was written.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the first of them is not what was written.
    pub async fn feed_since(&mut self, since: u64, limit: u32) -> Result<Vec<FeedRow>, StoreError> {
        let events = journal::feed_since(&mut self.connection, since, limit).await;
        events.map_err(|source| StoreError::of("read", &self.path, source))
    }
}
