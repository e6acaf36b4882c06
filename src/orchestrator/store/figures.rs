//! Figures of campaigns: ends of attempts over time, samples of memory and time, events.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};

use super::convert::{from_sql, json, maybe_number, number, to_sql};
use super::{DbError, StoreReader};
use crate::orchestrator::wire::{AdmissionRecord, CampaignEvent, EventClass, NOTIFY_FAILED};

/// Number of attempts from which figures are made: attempts with the highest task numbers.
const SAMPLES: u32 = 10_000;

/// Ends of attempts of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Number of ended attempts.
    pub attempts: u64,
    /// Time of the first end, in milliseconds since the epoch. `None`: no attempt has ended.
    pub first_ms: Option<u64>,
    /// Time of the last end, in milliseconds since the epoch.
    pub last_ms: Option<u64>,
}

/// Ends of attempts within an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Start of the interval, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Attempts that were done in the interval.
    pub done: u64,
    /// Attempts that ended otherwise in the interval.
    pub other: u64,
}

/// An attempt, for figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// Task of the attempt.
    pub task: u64,
    /// Node of the attempt.
    pub node: String,
    /// True if the attempt has ended.
    pub has_ended: bool,
    /// True if the attempt was done.
    pub is_done: bool,
    /// Run time of the attempt, in milliseconds.
    pub ms: u64,
    /// Memory that it used, in MiB; 0: not known.
    pub rss_mb: u64,
}

/// An event of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// Number of the event.
    pub id: u64,
    /// Time of the event, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The campaign.
    pub campaign: u64,
    /// The owner of the campaign.
    pub owner: String,
    /// Task, if the event concerns a task.
    pub task: Option<u64>,
    /// Node, if the event concerns a node.
    pub node: Option<String>,
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub text: String,
}

impl From<EventInfo> for CampaignEvent {
    fn from(event: EventInfo) -> CampaignEvent {
        let class = match (&event.node, event.task) {
            _ if event.code == NOTIFY_FAILED => EventClass::Notify,
            (_, Some(_)) => EventClass::Task,
            (Some(_), None) => EventClass::Node,
            (None, None) => EventClass::Campaign,
        };
        CampaignEvent {
            sequence: event.id,
            at_ms: event.at_ms,
            campaign: event.campaign,
            user: event.owner,
            task: event.task,
            node: event.node,
            class,
            code: event.code,
            text: event.text,
        }
    }
}

impl StoreReader {
    /// The admission rules that a campaign passed. `None`: there were none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn admission(&mut self, campaign: u64) -> Result<Option<AdmissionRecord>, DbError> {
        let failed = self.failed();
        let sql = "select admission from campaigns where id = ?1";
        let row = sqlx::query_scalar::<_, Option<String>>(sql).bind(to_sql(campaign));
        let row = row.fetch_optional(&mut self.connection).await;
        let read = |text: Option<String>| text.as_deref().map(json).transpose();
        row.and_then(|row| read(row.flatten())).map_err(failed)
    }

    /// The ends of a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn ends(&mut self, campaign: u64) -> Result<Ends, DbError> {
        let failed = self.failed();
        let sql = "select count(*) as attempts, min(ended_ms) as first, max(ended_ms) as last from attempts
                   where campaign = ?1 and ended_ms is not null";
        let row = query(sql).bind(to_sql(campaign)).fetch_one(&mut self.connection).await;
        let read = |row: &SqliteRow| {
            let (first_ms, last_ms) = (maybe_number(row, "first")?, maybe_number(row, "last")?);
            Ok(Ends { attempts: number(row, "attempts")?, first_ms, last_ms })
        };
        row.and_then(|row| read(&row)).map_err(failed)
    }

    /// The ends of a campaign from `since_ms` on, in whiles of `width_ms`, first to last.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn progress(
        &mut self,
        campaign: u64,
        since_ms: u64,
        width_ms: u64,
    ) -> Result<Vec<Progress>, DbError> {
        let failed = self.failed();
        let sql = "select (ended_ms - ?2) / ?3 as step, sum(reason = 'done') as done, count(*) as ended
                   from attempts where campaign = ?1 and ended_ms >= ?2 group by step order by step";
        let rows = query(sql)
            .bind(to_sql(campaign))
            .bind(to_sql(since_ms))
            .bind(to_sql(width_ms.max(1)))
            .fetch_all(&mut self.connection)
            .await;
        let read = |row: &SqliteRow| {
            let (step, done) = (number(row, "step")?, number(row, "done")?);
            let other = number(row, "ended")?.saturating_sub(done);
            let at_ms = since_ms.saturating_add(step.saturating_mul(width_ms.max(1)));
            Ok(Progress { at_ms, done, other })
        };
        rows.and_then(|rows| rows.iter().map(read).collect()).map_err(failed)
    }

    /// The attempts of a campaign with the highest task numbers, 10,000 at most.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn samples(&mut self, campaign: u64) -> Result<Vec<SampleRow>, DbError> {
        let failed = self.failed();
        let sql = "select task, node, reason, json_extract(result, '$.ms') as ms,
                       json_extract(result, '$.rss_mb') as rss_mb
                   from attempts where campaign = ?1 order by task desc, attempt desc limit ?2";
        let rows = query(sql).bind(to_sql(campaign)).bind(SAMPLES);
        let rows = rows.fetch_all(&mut self.connection).await;
        let read = |row: &SqliteRow| {
            let reason: Option<&str> = row.try_get("reason")?;
            let (has_ended, is_done) = (reason.is_some(), reason == Some("done"));
            Ok(SampleRow {
                task: number(row, "task")?,
                node: row.try_get("node")?,
                has_ended,
                is_done,
                ms: maybe_number(row, "ms")?.unwrap_or(0),
                rss_mb: maybe_number(row, "rss_mb")?.unwrap_or(0),
            })
        };
        rows.and_then(|rows| rows.iter().map(read).collect()).map_err(failed)
    }

    /// At most `limit` events after number `since`, in order.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn events(&mut self, since: u64, limit: u32) -> Result<Vec<EventInfo>, DbError> {
        let failed = self.failed();
        let sql = "select notes.*, campaigns.owner from notes join campaigns on campaigns.id = notes.campaign
                   where notes.id > ?1 order by notes.id limit ?2";
        let rows = query(sql).bind(to_sql(since)).bind(limit).fetch_all(&mut self.connection).await;
        let read = |row: &SqliteRow| {
            Ok(EventInfo {
                id: number(row, "id")?,
                at_ms: number(row, "at_ms")?,
                campaign: number(row, "campaign")?,
                owner: row.try_get("owner")?,
                task: maybe_number(row, "task")?,
                node: row.try_get("node")?,
                code: row.try_get("code")?,
                text: row.try_get("text")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(read).collect()).map_err(failed)
    }

    /// The number of the last event; 0: there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn last_event(&mut self) -> Result<u64, DbError> {
        let failed = self.failed();
        let sql = "select coalesce(max(id), 0) from notes";
        let last = sqlx::query_scalar(sql).fetch_one(&mut self.connection).await;
        last.map(from_sql).map_err(failed)
    }
}
