//! Events for clients that follow the feed, on their way to the store and back.

use std::path::PathBuf;

use tokio::sync::Mutex;

use crate::api::wire::FeedEvent;
use crate::api::{self, PastEvent, PastEvents, PastEventsRead};
use crate::scheduler::View;
use crate::store::{AdminRow, FeedRow, ReadOnlyStore, StoreError};

/// Builds the events of a cycle: acts of administrators, and the differences between `before` and
/// `now`. The first event has the number after `last`.
///
/// # Panics
///
/// If a plain struct does not become JSON.
pub fn rows(before: &View, now: &View, acts: &[AdminRow], last: u64, at_ms: i64) -> Vec<FeedRow> {
    let acts = acts.iter().map(|act| FeedEvent::Administration {
        action: act.action.clone(),
        nodes: act.nodes.clone(),
        reason: act.reason.clone(),
    });
    let all = acts.chain(api::diff_events(before, now));
    let rows = all.zip(last + 1..).map(|(what, seq)| FeedRow {
        seq,
        cycle: now.cycle,
        at_ms,
        kind: what.kind().to_owned(),
        body: serde_json::to_string(&what).expect("plain structs become JSON"),
    });
    rows.collect()
}

/// Reader of stored events, beside the daemon that writes them.
#[derive(Debug)]
pub struct Feed {
    path: PathBuf,
    /// Opened when first asked for, and again after a failure.
    archive: Mutex<Option<ReadOnlyStore>>,
}

impl Feed {
    /// The events in the record at `path`.
    pub fn new(path: PathBuf) -> Feed {
        Feed { path, archive: Mutex::new(None) }
    }

    async fn read(&self, since: u64, limit: u32) -> Result<Vec<FeedRow>, StoreError> {
        let mut archive = self.archive.lock().await;
        let mut open = match archive.take() {
            Some(open) => open,
            None => ReadOnlyStore::open(&self.path).await?,
        };
        let rows = open.feed_since(since, limit).await?;
        *archive = Some(open);
        Ok(rows)
    }
}

impl PastEvents for Feed {
    fn since(&self, since: u64, limit: u32) -> PastEventsRead<'_> {
        Box::pin(async move {
            let rows = self.read(since, limit).await;
            let rows = rows.map_err(|error| tracing::error!(%error, "the feed cannot be read"));
            let event = |row: FeedRow| {
                let FeedRow { seq, cycle, at_ms, kind, body } = row;
                PastEvent { sequence: seq, cycle, at_ms, kind, body }
            };
            Some(rows.ok()?.into_iter().map(event).collect())
        })
    }
}
