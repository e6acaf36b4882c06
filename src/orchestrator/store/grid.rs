//! The grid over time: clusters at each pass, forecasts of campaigns, and affinities.
//!
//! The last forecast of a campaign on a cluster holds the state of its predictor, so a restarted
//! router goes on with it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query, query_scalar};

use super::convert::{from_sql, json, maybe_number, number, text, to_sql};
use super::{DbError, StoreReader};
use crate::grid::{PredictorState, TaskFigures, WINDOW_MS};
use crate::model::Name;
use crate::orchestrator::book::{FIRST_BATCH, LOCAL};

/// Length of the interval that a forecast stands for, in milliseconds.
const MINUTE_MS: u64 = 60_000;

/// A cluster at a pass, in resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusRow {
    /// Time of the pass, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Name of the cluster; `local` for the router's own.
    pub cluster: String,
    /// True if the cluster did not answer.
    pub is_silent: bool,
    /// Number of its nodes.
    pub nodes: u64,
    /// All resources.
    pub capacity: u64,
    /// Free resources.
    pub free: u64,
    /// Running tasks of the grid.
    pub running: u64,
    /// Waiting tasks of the grid.
    pub waiting: u64,
    /// Tasks sent in the pass.
    pub sent: u64,
    /// Nodes by enforcement of memory limits.
    pub rungs: BTreeMap<String, u64>,
    /// Sentence of the open event or of the stress for which it got no task. Empty: none.
    pub held: String,
    /// Stress of the cluster, in thousandths.
    pub stress: u64,
}

/// A forecast of a campaign on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForecastRow {
    /// The campaign.
    pub campaign: u64,
    /// Name of the cluster. Empty: the whole campaign.
    pub cluster: String,
    /// Time of the forecast, in milliseconds since the epoch. On record, it is the start of a minute.
    pub at_ms: u64,
    /// State of the predictor. The time of closing is a duration: for how long the tap was closed.
    pub state: PredictorState,
    /// Figures of the tasks that ended within the window.
    pub figures: TaskFigures,
    /// Word of the formula.
    pub basis: String,
    /// Time until the end, in milliseconds. `None`: there is no forecast.
    pub left_ms: Option<u64>,
}

/// Affinity of a task: campaign, task and cluster, with the new affinity. `None`: it is gone.
pub type AffinityChange = ((u64, u64, Name), Option<i64>);

/// Rows of a pass.
#[derive(Clone, Debug, Default)]
pub struct PassRows {
    /// The clusters.
    pub status: Vec<StatusRow>,
    /// The forecasts.
    pub forecasts: Vec<ForecastRow>,
    /// Affinities that changed.
    pub affinities: Vec<AffinityChange>,
    /// Time at which the affinities began anew, in milliseconds since the epoch, if it changed.
    pub affinity_ms: Option<u64>,
}

/// Stores the rows of a pass.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    pass: &PassRows,
) -> Result<(), sqlx::Error> {
    for row in &pass.status {
        put_status(connection, row).await?;
    }
    for row in &pass.forecasts {
        put_forecast(connection, row).await?;
    }
    for ((campaign, task, cluster), affinity) in &pass.affinities {
        let sql = match affinity {
            Some(_) => {
                "insert or replace into affinity (campaign, task, cluster, affinity) values (?1, ?2, ?3, ?4)"
            }
            None => {
                "delete from affinity where campaign = ?1 and task = ?2 and cluster = ?3 and ?4 is null"
            }
        };
        query(sql)
            .bind(to_sql(*campaign))
            .bind(to_sql(*task))
            .bind(cluster.as_str())
            .bind(affinity)
            .execute(&mut *connection)
            .await?;
    }
    if let Some(affinity_ms) = pass.affinity_ms {
        let sql = "update meta set affinity_ms = ?1";
        query(sql).bind(to_sql(affinity_ms)).execute(connection).await?;
    }
    Ok(())
}

async fn put_status(connection: &mut SqliteConnection, row: &StatusRow) -> Result<(), sqlx::Error> {
    let sql = "insert or replace into gridstatus
                   (at_ms, cluster, silent, nodes, capacity, free, running, waiting, sent, rungs, held, stress)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    query(sql)
        .bind(to_sql(row.at_ms))
        .bind(&row.cluster)
        .bind(row.is_silent)
        .bind(to_sql(row.nodes))
        .bind(to_sql(row.capacity))
        .bind(to_sql(row.free))
        .bind(to_sql(row.running))
        .bind(to_sql(row.waiting))
        .bind(to_sql(row.sent))
        .bind(text(&row.rungs)?)
        .bind(&row.held)
        .bind(to_sql(row.stress))
        .execute(connection)
        .await?;
    Ok(())
}

async fn put_forecast(
    connection: &mut SqliteConnection,
    row: &ForecastRow,
) -> Result<(), sqlx::Error> {
    let sql = "insert or replace into forecasts (campaign, cluster, at_ms, ratio, free, sent, integral, tap,
                   closed_for_ms, ended, mean_ms, deviation_ms, throughput, basis, left_ms)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    let into_minute = row.at_ms.checked_rem(MINUTE_MS).unwrap_or(0);
    let minute = row.at_ms.saturating_sub(into_minute);
    // The predicted end is the same from the start of the minute.
    let left_ms = row.left_ms.map(|left| left.saturating_add(into_minute));
    query(sql)
        .bind(to_sql(row.campaign))
        .bind(&row.cluster)
        .bind(to_sql(minute))
        .bind(to_sql(row.state.ratio))
        .bind(to_sql(row.state.free))
        .bind(to_sql(row.state.sent))
        .bind(row.state.integral)
        .bind(to_sql(row.state.tap))
        .bind(row.state.closed_ms.map(to_sql))
        .bind(to_sql(row.figures.count))
        .bind(to_sql(row.figures.mean_ms))
        .bind(to_sql(row.figures.deviation_ms))
        .bind(to_sql(row.figures.throughput().unwrap_or(0)))
        .bind(&row.basis)
        .bind(left_ms.map(to_sql))
        .execute(connection)
        .await?;
    Ok(())
}

fn status(row: &SqliteRow) -> Result<StatusRow, sqlx::Error> {
    Ok(StatusRow {
        at_ms: number(row, "at_ms")?,
        cluster: row.try_get("cluster")?,
        is_silent: row.try_get("silent")?,
        nodes: number(row, "nodes")?,
        capacity: number(row, "capacity")?,
        free: number(row, "free")?,
        running: number(row, "running")?,
        waiting: number(row, "waiting")?,
        sent: number(row, "sent")?,
        rungs: json(row.try_get("rungs")?)?,
        held: row.try_get("held")?,
        stress: number(row, "stress")?,
    })
}

fn forecast(row: &SqliteRow) -> Result<ForecastRow, sqlx::Error> {
    // The window is one second long: then the tasks in it are the throughput.
    let figures = TaskFigures {
        count: number(row, "ended")?,
        mean_ms: number(row, "mean_ms")?,
        deviation_ms: number(row, "deviation_ms")?,
        in_window: number(row, "throughput")?,
        window_ms: 1_000_000_000,
    };
    Ok(ForecastRow {
        campaign: number(row, "campaign")?,
        cluster: row.try_get("cluster")?,
        at_ms: number(row, "at_ms")?,
        state: PredictorState {
            ratio: number(row, "ratio")?,
            free: number(row, "free")?,
            sent: number(row, "sent")?,
            integral: row.try_get("integral")?,
            tap: number(row, "tap")?,
            closed_ms: maybe_number(row, "closed_for_ms")?,
        },
        figures,
        basis: row.try_get("basis")?,
        left_ms: maybe_number(row, "left_ms")?,
    })
}

/// Removes rows of the grid that are older than `before_ms`, except the last forecast of each
/// campaign on each cluster. Returns true if there are more.
pub(super) async fn cut(
    connection: &mut SqliteConnection,
    before_ms: u64,
    most: i64,
) -> Result<bool, sqlx::Error> {
    let mut gone = 0;
    for sql in [
        "delete from gridstatus where (at_ms, cluster) in
             (select at_ms, cluster from gridstatus where at_ms < ?1 limit ?2)",
        "delete from forecasts where (campaign, cluster, at_ms) in
             (select campaign, cluster, at_ms from forecasts as old where at_ms < ?1 and exists
                  (select 1 from forecasts as new where new.campaign = old.campaign
                       and new.cluster = old.cluster and old.at_ms < new.at_ms) limit ?2)",
    ] {
        let cut = query(sql).bind(to_sql(before_ms)).bind(most).execute(&mut *connection).await?;
        gone = cut.rows_affected().max(gone);
    }
    Ok(i64::try_from(gone).is_ok_and(|gone| most <= gone))
}

impl StoreReader {
    /// The numbers of a campaign's tasks that other clusters have, by cluster.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn away(&mut self, campaign: u64) -> Result<BTreeMap<String, u64>, DbError> {
        let failed = self.failed();
        let sql = "select node, count(*) as tasks from attempts
                   where campaign = ?1 and result is null and share >= ?2 group by node";
        let rows = query(sql).bind(to_sql(campaign)).bind(to_sql(FIRST_BATCH));
        let rows = rows.fetch_all(&mut self.connection).await;
        let pair = |row: &SqliteRow| Ok((row.try_get("node")?, number(row, "tasks")?));
        rows.and_then(|rows| rows.iter().map(pair).collect()).map_err(failed)
    }

    /// Reads the last forecast of each campaign that is not final, on each of its clusters.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn last_forecasts(&mut self) -> Result<Vec<ForecastRow>, DbError> {
        let failed = self.failed();
        let sql = "select forecasts.* from forecasts join campaigns on id = campaign
                   where state not in ('done', 'failed', 'cancelled') and at_ms =
                       (select max(at_ms) from forecasts as last where last.campaign = forecasts.campaign
                            and last.cluster = forecasts.cluster)
                   order by campaign, cluster";
        let rows = query(sql).fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(forecast).collect()).map_err(failed)
    }

    /// Reads the forecasts of a campaign, first to last, at most `limit` of the latest.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn forecasts(
        &mut self,
        campaign: u64,
        limit: u32,
    ) -> Result<Vec<ForecastRow>, DbError> {
        let failed = self.failed();
        let sql = "select * from (select * from forecasts where campaign = ?1
                       order by at_ms desc, cluster limit ?2) order by at_ms, cluster";
        let rows = query(sql).bind(to_sql(campaign)).bind(limit);
        let rows = rows.fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(forecast).collect()).map_err(failed)
    }

    /// Reads the affinities of tasks to clusters.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn affinities(&mut self) -> Result<BTreeMap<(u64, u64, Name), i64>, DbError> {
        let failed = self.failed();
        let rows = query("select * from affinity").fetch_all(&mut self.connection).await;
        let row = |row: &SqliteRow| {
            let cluster = Name::from(row.try_get::<&str, _>("cluster")?);
            let key = (number(row, "campaign")?, number(row, "task")?, cluster);
            Ok((key, row.try_get("affinity")?))
        };
        rows.and_then(|rows| rows.iter().map(row).collect()).map_err(failed)
    }

    /// Reads the clusters at the passes within a time, first to last, at most `limit` rows. Times are
    /// in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn grid_status(
        &mut self,
        times: RangeInclusive<u64>,
        limit: u32,
    ) -> Result<Vec<StatusRow>, DbError> {
        let failed = self.failed();
        let sql = "select * from gridstatus where at_ms between ?1 and ?2
                   order by at_ms, cluster limit ?3";
        let rows = query(sql).bind(to_sql(*times.start())).bind(to_sql(*times.end())).bind(limit);
        let rows = rows.fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(status).collect()).map_err(failed)
    }

    /// Reads the clusters at the last pass.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn last_status(&mut self) -> Result<Vec<StatusRow>, DbError> {
        let failed = self.failed();
        let sql = "select * from gridstatus where at_ms = (select max(at_ms) from gridstatus)
                   order by cluster";
        let rows = query(sql).fetch_all(&mut self.connection).await;
        rows.and_then(|rows| rows.iter().map(status).collect()).map_err(failed)
    }

    /// The time of the oldest of the `most` latest rows of clusters, in milliseconds since the epoch.
    /// `None`: there are fewer.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn oldest_status(&mut self, most: u64) -> Result<Option<u64>, DbError> {
        let failed = self.failed();
        let sql = "select at_ms from gridstatus order by at_ms desc limit 1 offset ?1";
        let found = query_scalar(sql).bind(to_sql(most)).fetch_optional(&mut self.connection).await;
        found.map(|found| found.map(from_sql)).map_err(failed)
    }

    /// Figures of the tasks of a campaign that ended by themselves within the last window, by
    /// cluster. `now_ms`: milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn task_figures(
        &mut self,
        campaign: u64,
        now_ms: u64,
    ) -> Result<BTreeMap<Name, TaskFigures>, DbError> {
        let failed = self.failed();
        let opens = now_ms.saturating_sub(WINDOW_MS);
        let sql = "select iif(share >= ?3, node, ?4) as cluster, count(*) as ended, min(assigned_ms) as first,
                       coalesce(sum(ms), 0) as sum, cast(total(1.0 * ms * ms) / count(*) as integer) as square
                   from (select share, node, assigned_ms, json_extract(result, '$.ms') as ms from attempts
                         where campaign = ?1 and ended_ms >= ?2 and reason in ('done', 'exit'))
                   group by cluster";
        let rows = query(sql)
            .bind(to_sql(campaign))
            .bind(to_sql(opens))
            .bind(to_sql(FIRST_BATCH))
            .bind(LOCAL)
            .fetch_all(&mut self.connection)
            .await;
        let row = |row: &SqliteRow| {
            let count = number(row, "ended")?;
            let mean_ms = number(row, "sum")?.checked_div(count).unwrap_or(0);
            let square = number(row, "square")?;
            let first = number(row, "first")?;
            let figures = TaskFigures {
                count,
                mean_ms,
                deviation_ms: square.saturating_sub(mean_ms.saturating_mul(mean_ms)).isqrt(),
                in_window: count,
                window_ms: now_ms.saturating_sub(first.max(opens)),
            };
            Ok((Name::from(row.try_get::<&str, _>("cluster")?), figures))
        };
        rows.and_then(|rows| rows.iter().map(row).collect()).map_err(failed)
    }
}
