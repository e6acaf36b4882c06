//! Readers of the record beside the daemon that writes it.
//!
//! Each opens the record, reads and closes it again, on a task of its own that no client cuts off. The
//! daemon waits for them before it closes the record: its last connection removes the write-ahead log,
//! which a connection that only reads cannot.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio_util::task::TaskTracker;

use crate::store::{FeedRow, ReadOnlyStore, StoreError};

/// All readers of the record of a daemon.
#[derive(Clone, Debug)]
pub struct RecordReaders {
    path: PathBuf,
    tasks: TaskTracker,
}

impl RecordReaders {
    /// Readers of the record at `path`; none so far.
    pub fn of(path: &Path) -> RecordReaders {
        RecordReaders { path: path.to_owned(), tasks: TaskTracker::new() }
    }

    /// The stored events after number `since`, the oldest first, `limit` at most.
    ///
    /// # Errors
    ///
    /// If the record cannot be read.
    pub async fn events(&self, since: u64, limit: u32) -> Result<Vec<FeedRow>, StoreError> {
        let path = self.path.clone();
        let read = self.tasks.spawn(async move {
            let mut record = ReadOnlyStore::open(&path).await?;
            let rows = record.feed_since(since, limit).await;
            record.close().await;
            rows
        });
        read.await.unwrap_or_else(panicked)
    }

    /// The oldest cycle that can be replayed, and the newest. `None`: no cycle is stored.
    ///
    /// # Errors
    ///
    /// If the record cannot be read.
    pub async fn range(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let path = self.path.clone();
        let read = self.tasks.spawn(async move {
            let mut record = ReadOnlyStore::open(&path).await?;
            let range = record.range().await;
            record.close().await;
            range
        });
        read.await.unwrap_or_else(panicked)
    }

    /// What `read` makes of the record, on a thread of its own, for work that takes long.
    ///
    /// # Errors
    ///
    /// If the record cannot be opened, or `read` fails.
    pub async fn compute<T, E>(
        &self,
        read: impl AsyncFnOnce(&mut ReadOnlyStore) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (path, here) = (self.path.clone(), Handle::current());
        let whole = async move || {
            let mut record = ReadOnlyStore::open(&path).await?;
            let outcome = read(&mut record).await;
            record.close().await;
            outcome
        };
        let computed = self.tasks.spawn_blocking(move || here.block_on(whole()));
        computed.await.unwrap_or_else(panicked)
    }

    /// Waits until the last reader has closed the record.
    pub async fn end(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Goes on with the panic of a reader where its outcome is awaited.
fn panicked<T>(failure: JoinError) -> T {
    resume_unwind(failure.into_panic())
}
