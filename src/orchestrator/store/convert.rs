//! Rows of the book to columns and back.

use std::collections::BTreeSet;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::model::Name;
use crate::orchestrator::book::{
    AttemptRow, CampaignRow, CampaignState, Ending, TaskRow, TaskState,
};
use crate::orchestrator::wire::{AttemptId, Reason};

/// Returns the number as SQL stores it. `SQLite` has signed numbers: a number from 2^63 on is
/// stored as a negative number, and [`from_sql`] restores it.
pub(super) fn to_sql(number: u64) -> i64 {
    number.cast_signed()
}

/// The reverse of [`to_sql`].
pub(super) fn from_sql(number: i64) -> u64 {
    number.cast_unsigned()
}

/// A column as a number.
pub(super) fn number(row: &SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get(column).map(from_sql)
}

/// A column as a number that may be absent.
pub(super) fn maybe_number(row: &SqliteRow, column: &str) -> Result<Option<u64>, sqlx::Error> {
    row.try_get::<Option<i64>, _>(column).map(|value| value.map(from_sql))
}

/// A column as a word of a closed list.
pub(super) fn word<T>(
    row: &SqliteRow,
    column: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, sqlx::Error> {
    let text: &str = row.try_get(column)?;
    read(text).ok_or_else(|| sqlx::Error::Decode(format!("`{text}` in {column} is unknown").into()))
}

/// The same, which may be absent.
fn maybe_word<T>(
    row: &SqliteRow,
    column: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, sqlx::Error> {
    match row.try_get::<Option<&str>, _>(column)? {
        Some(_) => word(row, column, read).map(Some),
        None => Ok(None),
    }
}

/// The word of an ending.
pub(super) fn ending_word(ending: Ending) -> &'static str {
    match ending {
        Ending::Cancelled => "cancelled",
        Ending::MaxFails => "max-fails",
    }
}

fn ending_of(word: &str) -> Option<Ending> {
    [Ending::Cancelled, Ending::MaxFails].into_iter().find(|ending| ending_word(*ending) == word)
}

/// A text as JSON.
pub(super) fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, sqlx::Error> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// A value as JSON text.
pub(super) fn text<T: serde::Serialize>(value: &T) -> Result<String, sqlx::Error> {
    serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// A campaign.
pub(super) fn campaign(row: &SqliteRow) -> Result<CampaignRow, sqlx::Error> {
    Ok(CampaignRow {
        id: number(row, "id")?,
        owner: row.try_get("owner")?,
        uid: maybe_number(row, "uid")?.and_then(|uid| u32::try_from(uid).ok()),
        spec: number(row, "spec")?,
        total: number(row, "total")?,
        submitted_ms: number(row, "submitted_ms")?,
        state: word(row, "state", CampaignState::from_word)?,
        ending: maybe_word(row, "ending", ending_of)?,
        taken: number(row, "taken")?,
        limit: number(row, "positions")?,
        done: number(row, "done")?,
        failed: number(row, "failed")?,
        cancelled: number(row, "cancelled")?,
        dropped: number(row, "dropped")?,
        init_fails: number(row, "init_fails")?,
        has_begun: row.try_get("has_begun")?,
        ended_ms: number(row, "ended_ms")?,
        ended: number(row, "ended")?,
        prepared_ms: number(row, "prepared_ms")?,
        rss_mb: number(row, "rss_mb")?,
        verdict: maybe_word(row, "verdict", TaskState::from_word)?,
        waits_for: set(row, "waits_for")?,
        opens_ms: maybe_number(row, "opens_ms")?,
        hook_of: maybe_number(row, "hook_of")?,
        epilogue: maybe_number(row, "epilogue")?,
        hook_cluster: row.try_get::<Option<&str>, _>("hook_cluster")?.map(Name::from),
        prepared: set(row, "prepared")?,
        epilogues: set(row, "epilogues")?,
    })
}

/// A set in JSON; null is the empty set.
fn set<T: serde::de::DeserializeOwned + Ord>(
    row: &SqliteRow,
    column: &str,
) -> Result<BTreeSet<T>, sqlx::Error> {
    row.try_get::<Option<&str>, _>(column)?.map_or_else(|| Ok(BTreeSet::new()), json)
}

/// A task.
pub(super) fn task(row: &SqliteRow) -> Result<TaskRow, sqlx::Error> {
    let priority: i64 = row.try_get("priority")?;
    Ok(TaskRow {
        campaign: number(row, "campaign")?,
        task: number(row, "task")?,
        state: word(row, "state", TaskState::from_word)?,
        attempt: number(row, "attempt")?,
        tries: number(row, "tries")?,
        losses: number(row, "losses")?,
        resubmits: number(row, "resubmits")?,
        priority: u8::try_from(priority).unwrap_or(0),
        step: number(row, "step")?,
        live: maybe_number(row, "live")?,
        share: maybe_number(row, "share")?,
        cancel: row.try_get("cancel")?,
        reason: maybe_word(row, "reason", Reason::from_word)?,
    })
}

/// An attempt.
pub(super) fn attempt(row: &SqliteRow) -> Result<AttemptRow, sqlx::Error> {
    let result: Option<&str> = row.try_get("result")?;
    Ok(AttemptRow {
        id: AttemptId {
            campaign: number(row, "campaign")?,
            task: number(row, "task")?,
            attempt: number(row, "attempt")?,
        },
        share: number(row, "share")?,
        node: Name::from(row.try_get::<&str, _>("node")?),
        assigned_ms: number(row, "assigned_ms")?,
        result: result.map(json).transpose()?,
        ended_ms: maybe_number(row, "ended_ms")?,
    })
}
