//! The journal's tables: the inputs before each cycle, the checkpoints, and the feed.
//!
//! Retention removes entries up to a checkpoint and keeps that checkpoint. The oldest kept cycle
//! can therefore be replayed.

use sqlx::query;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query_scalar};

use super::sum::{RowSum, check};
use super::write::send;
use super::{CycleRecord, from_sql, to_sql};
use crate::model::Sealed;

/// Size in bytes from which an event is bound as it is. As JSON within JSON, `SQLite` would need
/// many times its size.
const LARGE_BODY: usize = 1 << 16;

/// Amount of history to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Minimum number of cycles kept, with their inputs and the feed. The store keeps a few more,
    /// up to a checkpoint at their old end.
    pub cycles: u64,
    /// Number of cycles whose published schedules are kept.
    pub schedules: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { cycles: 10_000, schedules: 100 }
    }
}

/// A checkpoint to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRow {
    /// The cycle after which they are as they are.
    pub cycle: u64,
    /// True if no stored input leads to this checkpoint.
    pub is_beginning: bool,
    /// True if the checkpoint stays when a newer checkpoint arrives.
    pub is_lasting: bool,
    /// Checkpoint, encoded.
    pub sealed: Sealed,
}

/// A batch to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// The cycle before which it happened.
    pub cycle: u64,
    /// Inputs, encoded.
    pub sealed: Sealed,
}

/// An event for clients that follow the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRow {
    /// Number of the event: one more than that of the event before.
    pub seq: u64,
    /// The cycle in which it came about.
    pub cycle: u64,
    /// Time of the event, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Kind of the event.
    pub kind: String,
    /// Event as JSON.
    pub body: String,
}

/// A past cycle, to be computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCycle {
    /// Number of the cycle.
    pub cycle: u64,
    /// Time of the cycle, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Checkpoint before the cycle, if no inputs lead to it.
    pub beginning: Option<Sealed>,
    /// Inputs before the cycle.
    pub batches: Vec<Sealed>,
    /// Digest of the cycle's input and decisions, in 32 bytes; `None` if unknown.
    pub digest: Option<Vec<u8>>,
}

/// A stored checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCheckpoint {
    /// The cycle after which they were so.
    pub cycle: u64,
    /// Checkpoint, encoded.
    pub sealed: Sealed,
}

/// Stores the inputs, the checkpoint and the feed of a cycle.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    record: CycleRecord,
) -> Result<(), sqlx::Error> {
    if let Some(checkpoint) = record.checkpoint {
        put_checkpoint(connection, checkpoint).await?;
    }
    if let Some(BatchRow { cycle, sealed }) = record.batch {
        let sql = "insert into batches (cycle, form, body, sum) values (?1, ?2, ?3, ?4)";
        query(sql)
            .bind(to_sql(cycle))
            .bind(sealed.version)
            .bind(sealed.body)
            .bind(sealed.sum)
            .execute(&mut *connection)
            .await?;
    }
    let is_large = |event: &FeedRow| LARGE_BODY <= event.body.len();
    let (large, others): (Vec<FeedRow>, Vec<FeedRow>) = record.feed.into_iter().partition(is_large);
    for event in large {
        let sum = sum_of(&event);
        let sql = "insert into feed (seq, cycle, at_ms, kind, body, sum)
                   values (?1, ?2, ?3, ?4, ?5, ?6)";
        query(sql)
            .bind(to_sql(event.seq))
            .bind(to_sql(event.cycle))
            .bind(event.at_ms)
            .bind(event.kind)
            .bind(event.body)
            .bind(sum)
            .execute(&mut *connection)
            .await?;
    }
    let sql = "insert into feed (seq, cycle, at_ms, kind, body, sum)
               select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
                   unhex(value ->> 5)
               from json_each(?1)";
    send(connection, sql, &others, |event| {
        let sum = sum_of(event).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
        (
            to_sql(event.seq),
            to_sql(event.cycle),
            event.at_ms,
            &event.kind,
            &event.body,
            sum.concat(),
        )
    })
    .await
}

fn sum_of(event: &FeedRow) -> Vec<u8> {
    let FeedRow { seq, cycle, at_ms, kind, body } = event;
    let sum = RowSum::after(&[]).number(to_sql(*seq)).number(to_sql(*cycle)).number(*at_ms);
    sum.text(kind).text(body).end()
}

async fn put_checkpoint(
    connection: &mut SqliteConnection,
    checkpoint: CheckpointRow,
) -> Result<(), sqlx::Error> {
    let cycle = to_sql(checkpoint.cycle);
    if checkpoint.is_beginning {
        // Later inputs continue another checkpoint.
        query("delete from batches where cycle > ?1").bind(cycle).execute(&mut *connection).await?;
    }
    let sql = "replace into books (cycle, is_beginning, is_lasting, form, body, sum)
               values (?1, ?2, ?3, ?4, ?5, ?6)";
    query(sql)
        .bind(cycle)
        .bind(checkpoint.is_beginning)
        .bind(checkpoint.is_lasting)
        .bind(checkpoint.sealed.version)
        .bind(checkpoint.sealed.body)
        .bind(checkpoint.sealed.sum)
        .execute(&mut *connection)
        .await?;
    let sql = "delete from books where cycle < ?1 and not is_lasting";
    query(sql).bind(cycle).execute(connection).await?;
    Ok(())
}

/// Cuts the record at its old end, where `last` is the newest cycle. Returns the cycle up to which
/// nothing is kept, which was `cut` before.
pub(super) async fn trim(
    connection: &mut SqliteConnection,
    last: u64,
    retention: Retention,
    cut: u64,
) -> Result<u64, sqlx::Error> {
    let sql = "delete from schedules where cycle <
                   (select min(schedule_cycle) from cycles where cycle > ?1)";
    let oldest = to_sql(last.saturating_sub(retention.schedules));
    query(sql).bind(oldest).execute(&mut *connection).await?;
    // Without any checkpoint no cycle can be replayed, and only the number counts.
    let sql = "select coalesce(max(cycle), iif(exists (select 1 from books), null, ?1))
               from books where cycle <= ?1";
    let oldest = to_sql(last.saturating_sub(retention.cycles));
    let now: Option<i64> = query_scalar(sql).bind(oldest).fetch_one(&mut *connection).await?;
    let Some(now) = now.filter(|now| cut < from_sql(*now)) else { return Ok(cut) };
    for sql in [
        "delete from cycles where cycle <= ?1",
        "delete from batches where cycle <= ?1",
        "delete from feed where cycle <= ?1",
        "delete from books where cycle < ?1",
    ] {
        query(sql).bind(now).execute(&mut *connection).await?;
    }
    Ok(from_sql(now))
}

/// Returns the newest checkpoint taken after a cycle before `before`; `None` if there is none.
pub(super) async fn checkpoint_before(
    connection: &mut SqliteConnection,
    before: u64,
) -> Result<Option<PastCheckpoint>, sqlx::Error> {
    let sql = "select cycle, form, body, sum from books where cycle < ?1
               order by cycle desc limit 1";
    let row = query(sql).bind(to_sql(before)).fetch_optional(connection).await?;
    let checkpoint = |row: SqliteRow| {
        Ok(PastCheckpoint { cycle: from_sql(row.try_get("cycle")?), sealed: sealed_from(&row)? })
    };
    row.map(checkpoint).transpose()
}

/// Returns the cycles that have a checkpoint, newest first.
pub(super) async fn checkpoint_cycles(
    connection: &mut SqliteConnection,
) -> Result<Vec<u64>, sqlx::Error> {
    let sql = "select cycle from books order by cycle desc";
    let cycles: Vec<i64> = query_scalar(sql).fetch_all(connection).await?;
    Ok(cycles.into_iter().map(from_sql).collect())
}

/// Returns at most `limit` planned cycles after `after`, oldest first.
pub(super) async fn cycles_after(
    connection: &mut SqliteConnection,
    after: u64,
    limit: u32,
) -> Result<Vec<PastCycle>, sqlx::Error> {
    let sql = "select cycles.cycle, at_ms, digest, form, body, sum from cycles
               left join books on books.cycle = cycles.cycle - 1 and is_beginning
               where cycles.cycle > ?1 order by cycles.cycle limit ?2";
    let rows = query(sql).bind(to_sql(after)).bind(limit).fetch_all(&mut *connection).await?;
    let mut cycles = Vec::with_capacity(rows.len());
    for row in &rows {
        let cycle = from_sql(row.try_get("cycle")?);
        let is_beginning = row.try_get::<Option<i64>, _>("form")?.is_some();
        cycles.push(PastCycle {
            cycle,
            at_ms: row.try_get("at_ms")?,
            beginning: is_beginning.then(|| sealed_from(row)).transpose()?,
            batches: batches_before(connection, cycle).await?,
            digest: row.try_get("digest")?,
        });
    }
    Ok(cycles)
}

/// Returns the inputs before `cycle`, in order.
pub(super) async fn batches_before(
    connection: &mut SqliteConnection,
    cycle: u64,
) -> Result<Vec<Sealed>, sqlx::Error> {
    let sql = "select form, body, sum from batches where cycle = ?1 order by id";
    let rows = query(sql).bind(to_sql(cycle)).fetch_all(connection).await?;
    rows.iter().map(sealed_from).collect()
}

/// The schedule that came about in `cycle`.
pub(super) async fn schedule_of(
    connection: &mut SqliteConnection,
    cycle: u64,
) -> Result<Option<Sealed>, sqlx::Error> {
    let sql = "select form, body, sum from schedules where cycle = ?1";
    let row = query(sql).bind(to_sql(cycle)).fetch_optional(connection).await?;
    row.as_ref().map(sealed_from).transpose()
}

/// Returns at most `limit` events after number `since`, in order. The list ends before a lost or a
/// changed event; a changed event at its start is an error.
pub(super) async fn feed_since(
    connection: &mut SqliteConnection,
    since: u64,
    limit: u32,
) -> Result<Vec<FeedRow>, sqlx::Error> {
    let sql = "select seq, cycle, at_ms, kind, body, sum from feed where seq > ?1
               order by seq limit ?2";
    let rows = query(sql).bind(to_sql(since)).bind(limit).fetch_all(connection).await?;
    let mut events: Vec<FeedRow> = Vec::with_capacity(rows.len());
    for row in &rows {
        match event_from(row) {
            Ok(event) if events.last().is_some_and(|last| last.seq + 1 != event.seq) => break,
            Ok(event) => events.push(event),
            Err(error) if events.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(events)
}

fn event_from(row: &SqliteRow) -> Result<FeedRow, sqlx::Error> {
    let event = FeedRow {
        seq: from_sql(row.try_get("seq")?),
        cycle: from_sql(row.try_get("cycle")?),
        at_ms: row.try_get("at_ms")?,
        kind: row.try_get("kind")?,
        body: row.try_get("body")?,
    };
    check(row, &sum_of(&event), &format!("event {} of the feed", event.seq))?;
    Ok(event)
}

fn sealed_from(row: &SqliteRow) -> Result<Sealed, sqlx::Error> {
    Ok(Sealed {
        version: row.try_get("form")?,
        body: row.try_get("body")?,
        sum: row.try_get("sum")?,
    })
}
