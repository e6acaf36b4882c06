//! Removal of old rows in small steps: each step is a transaction of few rows.
//!
//! A campaign whose tasks are to be removed first gets a summary, in a transaction of its own. From
//! then on the campaign is folded, and readers see no task of it. The rows of its tasks are removed
//! after that. After a crash in between, the summary shows that rows remain, and the steps go on
//! from there.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Row, query, query_scalar};

use super::convert::{from_sql, number, text, to_sql};
use super::{CampaignStore, DbError, StoreReader, grid};
use crate::orchestrator::wire::CampaignStats;

/// Most rows that a step removes.
const ROWS: i64 = 2000;

/// A step. The owner repeats a step until nothing is left to do for it.
#[derive(Clone, Debug, PartialEq)]
pub enum RemovalStep {
    /// Give a campaign its summary.
    Fold {
        /// The campaign.
        campaign: u64,
        /// Time at which the campaign became final, in milliseconds since the epoch. A campaign
        /// with another time was resubmitted since, and is not folded.
        final_ms: u64,
        /// Figures of the campaign.
        figures: Box<CampaignStats>,
        /// The time, in milliseconds since the epoch.
        at_ms: u64,
    },
    /// Remove tasks, attempts and parameters of a campaign that has a summary.
    Empty(u64),
    /// Remove the rest of a campaign that has a summary.
    Forget(u64),
    /// Remove acts that are older than this, in milliseconds since the epoch.
    Acts(u64),
    /// Remove rows of the grid that are older than this, in milliseconds since the epoch.
    Grid(u64),
}

/// A final campaign. Campaigns that became final first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Final {
    /// Time at which the campaign became final, in milliseconds since the epoch.
    pub final_ms: u64,
    /// The campaign.
    pub campaign: u64,
}

impl CampaignStore {
    /// Carries a step out. Returns true if the same step has more to do.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. Nothing of the step is then done.
    pub async fn remove(&mut self, removal: &RemovalStep) -> Result<bool, DbError> {
        let failed = self.failed("remove old rows");
        let done = async {
            let mut transaction = self.connection.begin_with("begin immediate").await?;
            let more = match removal {
                RemovalStep::Fold { campaign, final_ms, figures, at_ms } => {
                    let figures = text(&**figures)?;
                    fold(&mut transaction, *campaign, *final_ms, &figures, *at_ms).await?;
                    false
                }
                RemovalStep::Empty(campaign) => empty(&mut transaction, *campaign).await?,
                RemovalStep::Forget(campaign) => forget(&mut transaction, *campaign).await?,
                RemovalStep::Acts(before_ms) => cut_acts(&mut transaction, *before_ms).await?,
                RemovalStep::Grid(before_ms) => {
                    grid::cut(&mut transaction, *before_ms, ROWS).await?
                }
            };
            transaction.commit().await?;
            Ok(more)
        };
        done.await.map_err(failed)
    }
}

async fn fold(
    connection: &mut SqliteConnection,
    campaign: u64,
    final_ms: u64,
    figures: &str,
    at_ms: u64,
) -> Result<(), sqlx::Error> {
    let sql =
        "update campaigns set folded_ms = ?3 where id = ?1 and final_ms = ?2 and folded_ms is null";
    let folded = query(sql).bind(to_sql(campaign)).bind(to_sql(final_ms)).bind(to_sql(at_ms));
    if folded.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(());
    }
    let sql = "insert into summaries (campaign, figures, emptied) values (?1, ?2, 0)";
    query(sql).bind(to_sql(campaign)).bind(figures).execute(connection).await?;
    Ok(())
}

async fn empty(connection: &mut SqliteConnection, campaign: u64) -> Result<bool, sqlx::Error> {
    let steps = [
        "delete from attempts where (campaign, task, attempt) in
             (select campaign, task, attempt from attempts where campaign = ?1 limit ?2)",
        "delete from tasks where (campaign, task) in
             (select campaign, task from tasks where campaign = ?1 limit ?2)",
        // A row of parameters is as large as hundreds of other rows.
        "delete from params where (campaign, first) in
             (select campaign, first from params where campaign = ?1 limit ?2 / 200)",
        "delete from children where batch in
             (select batch from children where campaign = ?1 limit ?2)",
        "delete from notes where id in
             (select id from notes where campaign = ?1 and task is not null limit ?2)",
    ];
    let sql = "select emptied from summaries where campaign = ?1";
    let emptied = query_scalar::<_, bool>(sql).bind(to_sql(campaign));
    if emptied.fetch_optional(&mut *connection).await? != Some(false) {
        return Ok(false);
    }
    for sql in steps {
        let gone = query(sql).bind(to_sql(campaign)).bind(ROWS).execute(&mut *connection).await?;
        if 0 < gone.rows_affected() {
            return Ok(true);
        }
    }
    let sql = "update summaries set emptied = 1 where campaign = ?1";
    query(sql).bind(to_sql(campaign)).execute(connection).await?;
    Ok(false)
}

async fn forget(connection: &mut SqliteConnection, campaign: u64) -> Result<bool, sqlx::Error> {
    let campaign = to_sql(campaign);
    let sql =
        "select spec from campaigns join summaries on campaign = id where id = ?1 and emptied = 1";
    let spec: Option<i64> =
        query_scalar(sql).bind(campaign).fetch_optional(&mut *connection).await?;
    let Some(spec) = spec else { return Ok(false) };
    let sql = "delete from notes where id in (select id from notes where campaign = ?1 limit ?2)";
    let notes = query(sql).bind(campaign).bind(ROWS).execute(&mut *connection).await?;
    if 0 < notes.rows_affected() {
        return Ok(true);
    }
    for sql in [
        "delete from works where campaign = ?1",
        "delete from events where campaign = ?1",
        "delete from forecasts where campaign = ?1",
        "delete from affinity where campaign = ?1",
        "delete from submissions where campaign = ?1",
        "delete from additions where campaign = ?1",
        "delete from summaries where campaign = ?1",
        "delete from campaigns where id = ?1",
    ] {
        query(sql).bind(campaign).execute(&mut *connection).await?;
    }
    let sql = "delete from specs where number = ?1 and not exists
                   (select 1 from campaigns where spec = ?1)";
    query(sql).bind(spec).execute(connection).await?;
    Ok(false)
}

async fn cut_acts(connection: &mut SqliteConnection, before_ms: u64) -> Result<bool, sqlx::Error> {
    // Acts are removed from the first on, so that the remaining acts stay bound to each other.
    let sql = "select id, at_ms, sum from acts order by id limit ?1";
    let rows = query(sql).bind(ROWS).fetch_all(&mut *connection).await?;
    let mut last = None;
    for row in &rows {
        if before_ms <= number(row, "at_ms")? {
            break;
        }
        last = Some((row.try_get::<i64, _>("id")?, row.try_get::<Vec<u8>, _>("sum")?));
    }
    let Some((id, sum)) = last else { return Ok(false) };
    let sql = "update meta set acts_cut = ?1, acts_cut_sum = ?2";
    query(sql).bind(id).bind(sum).execute(&mut *connection).await?;
    let gone = query("delete from acts where id <= ?1").bind(id).execute(connection).await?;
    Ok(u64::try_from(ROWS) == Ok(gone.rows_affected()))
}

impl StoreReader {
    /// Returns final campaigns that are not folded, by the time at which they became final.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn to_fold(&mut self) -> Result<Vec<Final>, DbError> {
        let sql =
            "select id, final_ms from campaigns where final_ms is not null and folded_ms is null
                   order by final_ms, id";
        let failed = self.failed();
        let rows = query(sql).fetch_all(&mut self.connection).await;
        let read = |row: &SqliteRow| {
            Ok(Final { campaign: number(row, "id")?, final_ms: number(row, "final_ms")? })
        };
        rows.and_then(|rows| rows.iter().map(read).collect()).map_err(failed)
    }

    /// Returns the number of rows of tasks and attempts of a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn rows(&mut self, campaign: u64) -> Result<u64, DbError> {
        // Both indexes are much smaller than their tables.
        let sql =
            "select (select count(*) from tasks indexed by tasks_by_state where campaign = ?1) +
                       (select count(*) from attempts indexed by attempts_by_end
                        where campaign = ?1 and ended_ms is not null)";
        let failed = self.failed();
        let rows = query_scalar(sql).bind(to_sql(campaign)).fetch_one(&mut self.connection);
        rows.await.map(from_sql).map_err(failed)
    }

    /// Returns campaigns that have a summary, and still some rows of tasks.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn to_empty(&mut self) -> Result<Vec<u64>, DbError> {
        let failed = self.failed();
        let sql = "select campaign from summaries where emptied = 0";
        let ids: Result<Vec<i64>, _> = query_scalar(sql).fetch_all(&mut self.connection).await;
        ids.map(|ids| ids.into_iter().map(from_sql).collect()).map_err(failed)
    }

    /// Returns folded campaigns that became final before a time, in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn to_forget(&mut self, before_ms: u64) -> Result<Vec<u64>, DbError> {
        let failed = self.failed();
        let sql = "select id from campaigns where folded_ms is not null and final_ms < ?1
                   order by final_ms";
        let ids = query_scalar(sql).bind(to_sql(before_ms)).fetch_all(&mut self.connection).await;
        ids.map(|ids: Vec<i64>| ids.into_iter().map(from_sql).collect()).map_err(failed)
    }

    /// Reads the figures of a folded campaign. `None`: the campaign is not folded.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn summary(&mut self, campaign: u64) -> Result<Option<CampaignStats>, DbError> {
        let failed = self.failed();
        let sql = "select figures from summaries where campaign = ?1";
        let found = query_scalar(sql).bind(to_sql(campaign)).fetch_optional(&mut self.connection);
        let found: Result<Option<String>, _> = found.await;
        found
            .and_then(|text| text.map(|text| super::convert::json(&text)).transpose())
            .map_err(failed)
    }
}
