//! Events of nodes, and the tasks that they make suspicious.

use std::collections::BTreeSet;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query, query_scalar};

use super::convert::{from_sql, maybe_number, number, to_sql};
use super::{CampaignStore, DbError, StoreReader};
use crate::model::Name;
use crate::orchestrator::book::FaultRow;

/// Stores an event.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    row: &FaultRow,
) -> Result<(), sqlx::Error> {
    let sql =
        "insert or replace into events (campaign, node, opened_ms, code, closed_ms, text, parent)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    query(sql)
        .bind(to_sql(row.campaign))
        .bind(row.node.as_str())
        .bind(to_sql(row.opened_ms))
        .bind(&row.code)
        .bind(row.closed_ms.map(to_sql))
        .bind(&row.text)
        .bind(row.parent.map(to_sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// Marks the tasks of a campaign that were done on `node` within `ms` milliseconds, or since `since_ms`, as
/// suspicious.
pub(super) async fn suspect(
    connection: &mut SqliteConnection,
    campaign: u64,
    node: &str,
    (ms, since_ms): (u64, u64),
) -> Result<(), sqlx::Error> {
    let sql = "update tasks set suspicious = 1 where campaign = ?1 and state = 'done' and task in
                   (select task from attempts where campaign = ?1 and node = ?2 and reason = 'done'
                        and (json_extract(result, '$.ms') <= ?3 or ?4 <= ended_ms))";
    let update =
        query(sql).bind(to_sql(campaign)).bind(node).bind(to_sql(ms)).bind(to_sql(since_ms));
    update.execute(connection).await?;
    Ok(())
}

pub(super) fn fault(row: &SqliteRow) -> Result<FaultRow, sqlx::Error> {
    Ok(FaultRow {
        campaign: number(row, "campaign")?,
        node: Name::from(row.try_get::<&str, _>("node")?),
        code: row.try_get("code")?,
        opened_ms: number(row, "opened_ms")?,
        closed_ms: maybe_number(row, "closed_ms")?,
        parent: maybe_number(row, "parent")?,
        text: row.try_get("text")?,
    })
}

/// Reads all open events.
pub(super) async fn read_open(
    connection: &mut SqliteConnection,
) -> Result<Vec<FaultRow>, sqlx::Error> {
    let sql = "select * from events where closed_ms is null order by campaign, node";
    query(sql).fetch_all(connection).await?.iter().map(fault).collect()
}

impl CampaignStore {
    /// Returns the numbers of a campaign's suspicious tasks.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn suspicious(&mut self, campaign: u64) -> Result<BTreeSet<u64>, DbError> {
        let failed = self.failed("read suspicious tasks");
        let sql = "select task from tasks where campaign = ?1 and suspicious = 1";
        let rows = query_scalar(sql).bind(to_sql(campaign)).fetch_all(&mut self.connection).await;
        rows.map(|rows| rows.into_iter().map(from_sql).collect()).map_err(failed)
    }
}

impl StoreReader {
    /// Reads the open events of a campaign, and the number of its suspicious tasks.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn faults(&mut self, campaign: u64) -> Result<(Vec<FaultRow>, u64), DbError> {
        let failed = self.failed();
        let found = async {
            let sql =
                "select * from events where campaign = ?1 and closed_ms is null order by node";
            let rows = query(sql).bind(to_sql(campaign)).fetch_all(&mut self.connection).await?;
            let rows = rows.iter().map(fault).collect::<Result<_, _>>()?;
            let sql = "select count(*) from tasks where campaign = ?1 and suspicious = 1";
            let count = query_scalar(sql).bind(to_sql(campaign));
            Ok((rows, from_sql(count.fetch_one(&mut self.connection).await?)))
        };
        found.await.map_err(failed)
    }
}
