//! Removal of old rows: tasks of finished campaigns first, later campaigns and acts.
//!
//! The sweeper searches by a connection of its own. The owner removes the found rows in small
//! steps, and serves other requests in between.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::drive::{BookRequest, wall_ms};
use super::serve::{Failed, stats_of};
use super::store::{DbError, Final, RemovalStep, StoreReader};
use crate::config::CampaignRetention;

/// Time between two sweeps.
const EVERY: Duration = Duration::from_mins(1);
/// Milliseconds in a day.
const DAY_MS: u64 = 86_400_000;
/// Days for which the clusters and forecasts of passes are kept.
const GRID_DAYS: u64 = 30;
/// Most rows of clusters at passes. Fifty clusters have that many in a day.
const GRID_ROWS: u64 = 500_000;

/// Reason why a sweep was broken off.
#[derive(Debug)]
pub enum Broken {
    /// The owner has stopped, or waits until it has adopted an older copy of the database.
    NoOwner,
    /// The database cannot be read.
    Unread,
}

impl From<DbError> for Broken {
    fn from(error: DbError) -> Broken {
        tracing::warn!(%error, "cannot search for old rows; the next sweep tries again");
        Broken::Unread
    }
}

impl From<Failed> for Broken {
    fn from(_: Failed) -> Broken {
        // The log has the cause already.
        Broken::Unread
    }
}

/// Searches for old rows, and has the owner remove them.
#[derive(Debug)]
pub struct Sweeper {
    retention: CampaignRetention,
    reader: StoreReader,
    requests: mpsc::Sender<BookRequest>,
    /// Number of rows of each final campaign, so that each campaign is counted once.
    counted: BTreeMap<Final, u64>,
}

impl Sweeper {
    /// A sweeper of the database at `path`, whose owner takes `requests`.
    ///
    /// # Errors
    ///
    /// If the database cannot be opened for reading.
    pub async fn open(
        path: &Path,
        retention: CampaignRetention,
        requests: mpsc::Sender<BookRequest>,
    ) -> Result<Sweeper, DbError> {
        let reader = StoreReader::open(path).await?;
        Ok(Sweeper { retention, reader, requests, counted: BTreeMap::new() })
    }

    /// Sweeps at intervals, until it is dropped.
    pub async fn run(mut self) {
        loop {
            // A failed sweep is in the log. A stopped owner ends this task too.
            let _ = self.sweep(wall_ms()).await;
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Has all rows removed that are old at time `now_ms`, in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// If the sweep was broken off. Rows removed so far stay removed; the next sweep goes on.
    pub async fn sweep(&mut self, now_ms: u64) -> Result<(), Broken> {
        for found in self.due(now_ms).await? {
            let Final { campaign, final_ms } = found;
            let figures = Box::new(stats_of(&mut self.reader, campaign).await?);
            self.remove(RemovalStep::Fold { campaign, final_ms, figures, at_ms: now_ms }).await?;
        }
        // A sweep that was broken off may have left such tasks.
        for campaign in self.reader.to_empty().await? {
            self.remove(RemovalStep::Empty(campaign)).await?;
            tracing::info!(campaign, "the tasks of a finished campaign were folded into counts");
        }
        let before_ms = now_ms.saturating_sub(self.retention.campaign_days.saturating_mul(DAY_MS));
        for campaign in self.reader.to_forget(before_ms).await? {
            self.remove(RemovalStep::Forget(campaign)).await?;
        }
        self.remove(RemovalStep::Acts(before_ms)).await?;
        let oldest_ms = now_ms.saturating_sub(GRID_DAYS.saturating_mul(DAY_MS));
        let crowded_ms = self.reader.oldest_status(GRID_ROWS).await?.unwrap_or(0);
        self.remove(RemovalStep::Grid(oldest_ms.max(crowded_ms))).await
    }

    /// Returns the campaigns whose tasks are to be folded.
    async fn due(&mut self, now_ms: u64) -> Result<Vec<Final>, Broken> {
        let finals = self.reader.to_fold().await?;
        let mut counted = BTreeMap::new();
        for found in &finals {
            let rows = match self.counted.remove(found) {
                Some(rows) => rows,
                None => self.reader.rows(found.campaign).await?,
            };
            counted.insert(*found, rows);
        }
        self.counted = counted;
        Ok(due(&self.counted, self.retention, now_ms))
    }

    /// Has a step repeated until it has nothing left to do.
    async fn remove(&self, removal: RemovalStep) -> Result<(), Broken> {
        loop {
            let began = Instant::now();
            let (reply, answer) = oneshot::channel();
            let request = BookRequest::Remove(removal.clone(), reply);
            self.requests.send(request).await.map_err(|_| Broken::NoOwner)?;
            if !answer.await.map_err(|_| Broken::NoOwner)? {
                return Ok(());
            }
            // Other requests get at least half of the owner's time.
            tokio::time::sleep(began.elapsed()).await;
        }
    }
}

/// Returns the campaigns that are too old, or whose rows together are too many. Campaigns that
/// finished first go first.
fn due(counted: &BTreeMap<Final, u64>, retention: CampaignRetention, now_ms: u64) -> Vec<Final> {
    let oldest_ms = now_ms.saturating_sub(retention.days.saturating_mul(DAY_MS));
    let mut rows = counted.values().fold(0, |sum: u64, rows| sum.saturating_add(*rows));
    let is_due = |(found, own): &(&Final, &u64)| {
        let is_over = retention.rows < rows;
        rows = rows.saturating_sub(**own);
        is_over || found.final_ms < oldest_ms
    };
    counted.iter().take_while(is_due).map(|(found, _)| *found).collect()
}

#[cfg(test)]
mod tests;
