//! Events of nodes and clusters, and the last event that the notify hook was told of.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query, query_scalar};

use super::convert::{from_sql, maybe_number, number, to_sql, word};
use super::faults::fault;
use super::{DbError, StoreReader};
use crate::orchestrator::book::{FaultRow, LOCAL};
use crate::orchestrator::wire::{EventClass, GridEvent};

/// Most events in a list.
const LIMIT: u32 = 1000;

/// Stores an event.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    event: &GridEvent,
) -> Result<(), sqlx::Error> {
    let sql = "insert or replace into filed (id, class, name, code, who, opened_ms, closed_ms, parent, text)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    query(sql)
        .bind(to_sql(event.id))
        .bind(event.class.word())
        .bind(&event.name)
        .bind(&event.code)
        .bind(&event.who)
        .bind(to_sql(event.opened_ms))
        .bind(event.closed_ms.map(to_sql))
        .bind(event.parent.map(to_sql))
        .bind(&event.text)
        .execute(connection)
        .await?;
    Ok(())
}

/// Stores the number of the last event that the notify hook was told of.
pub(super) async fn put_notified(
    connection: &mut SqliteConnection,
    sequence: u64,
) -> Result<(), sqlx::Error> {
    let sql = "update meta set notified = ?1";
    query(sql).bind(to_sql(sequence)).execute(connection).await?;
    Ok(())
}

fn event(row: &SqliteRow) -> Result<GridEvent, sqlx::Error> {
    Ok(GridEvent {
        id: number(row, "id")?,
        class: word(row, "class", EventClass::from_word)?,
        name: row.try_get("name")?,
        code: row.try_get("code")?,
        who: row.try_get("who")?,
        opened_ms: number(row, "opened_ms")?,
        closed_ms: maybe_number(row, "closed_ms")?,
        parent: maybe_number(row, "parent")?,
        text: row.try_get("text")?,
    })
}

/// Reads the open events that have an effect, and the next number of an event.
pub(super) async fn read_open(
    connection: &mut SqliteConnection,
) -> Result<(Vec<GridEvent>, u64), sqlx::Error> {
    let sql = "select * from filed where closed_ms is null and class <> 'log' order by id";
    let rows = query(sql).fetch_all(&mut *connection).await?;
    let open = rows.iter().map(event).collect::<Result<_, _>>()?;
    let next = query_scalar("select coalesce(max(id), 0) + 1 from filed");
    Ok((open, from_sql(next.fetch_one(connection).await?)))
}

impl StoreReader {
    /// Reads events of nodes and clusters, the newest first, and the faults of all campaigns that are open.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn filed(&mut self) -> Result<(Vec<GridEvent>, Vec<FaultRow>), DbError> {
        let failed = self.failed();
        let found = async {
            let sql = "select * from filed order by id desc limit ?1";
            let rows = query(sql).bind(LIMIT).fetch_all(&mut self.connection).await?;
            let events = rows.iter().map(event).collect::<Result<_, _>>()?;
            let sql =
                "select * from events where closed_ms is null order by campaign, node limit ?1";
            let rows = query(sql).bind(LIMIT).fetch_all(&mut self.connection).await?;
            Ok((events, rows.iter().map(fault).collect::<Result<_, _>>()?))
        };
        found.await.map_err(failed)
    }

    /// Reads the sentence of the open event of this orchestrator's own cluster. `None`: there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn held(&mut self) -> Result<Option<String>, DbError> {
        let failed = self.failed();
        let sql =
            "select text from filed where closed_ms is null and class = 'cluster' and name = ?1";
        let found = query_scalar(sql).bind(LOCAL).fetch_optional(&mut self.connection).await;
        found.map_err(failed)
    }

    /// Reads the number of the last event that the notify hook was told of. `None`: it was told of none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn notified(&mut self) -> Result<Option<u64>, DbError> {
        let failed = self.failed();
        let found: Result<Option<i64>, _> =
            query_scalar("select notified from meta").fetch_one(&mut self.connection).await;
        found.map(|number| number.map(from_sql)).map_err(failed)
    }
}
