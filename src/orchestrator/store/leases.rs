//! Leases of forwarded campaigns and batches, and the other clusters.

use std::collections::BTreeMap;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query, query_scalar};

use super::convert::{from_sql, maybe_number, number, to_sql};
use super::{DbError, StoreReader};
use crate::model::Name;
use crate::orchestrator::book::LeaseRow;

/// A cluster, as it is on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRow {
    /// The longest lease of its slots so far, in milliseconds. 0: not known.
    pub slot_lease_ms: u64,
    /// Act of the operator that took it out. `None`: it is in.
    pub out: Option<OutOfGrid>,
}

/// The child campaign of a batch that a cluster has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildRow {
    /// Number of the batch.
    pub batch: u64,
    /// The campaign.
    pub campaign: u64,
    /// Number of the child campaign on the cluster.
    pub child: u64,
}

/// Act that took a cluster out of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfGrid {
    /// Time of the act, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The operator.
    pub by: String,
    /// The operator's reason; may be empty.
    pub why: String,
}

/// Stores a lease, or removes it.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    boot: &str,
    number: u64,
    row: Option<&LeaseRow>,
) -> Result<(), sqlx::Error> {
    let Some(row) = row else {
        let sql = "delete from leases where number = ?1";
        query(sql).bind(to_sql(number)).execute(connection).await?;
        return Ok(());
    };
    let sql =
        "insert or replace into leases (number, lease_ms, until_ms, boot) values (?1, ?2, ?3, ?4)";
    query(sql)
        .bind(to_sql(row.number))
        .bind(to_sql(row.lease_ms))
        .bind(to_sql(row.until_ms))
        .bind(boot)
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads all leases. An end in another boot than `boot` is over.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    boot: &str,
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    let sql = "select number, lease_ms, iif(boot = ?1, until_ms, 0) as until_ms from leases";
    let rows = query(sql).bind(boot).fetch_all(connection).await?;
    let lease = |row| {
        Ok(LeaseRow {
            number: number(row, "number")?,
            lease_ms: number(row, "lease_ms")?,
            until_ms: number(row, "until_ms")?,
        })
    };
    rows.iter().map(lease).collect()
}

/// Stores the child campaigns of batches.
pub(super) async fn put_children(
    connection: &mut SqliteConnection,
    children: &[ChildRow],
) -> Result<(), sqlx::Error> {
    for ChildRow { batch, campaign, child } in children {
        let sql = "insert or replace into children (batch, campaign, child) values (?1, ?2, ?3)";
        let put = query(sql).bind(to_sql(*batch)).bind(to_sql(*campaign)).bind(to_sql(*child));
        put.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Stores changes of clusters: leases of their slots, in milliseconds, and acts of operators.
pub(super) async fn put_clusters(
    connection: &mut SqliteConnection,
    slot_leases: &[(Name, u64)],
    outs: &[(Name, Option<OutOfGrid>)],
) -> Result<(), sqlx::Error> {
    for (name, lease_ms) in slot_leases {
        let sql = "insert into clusters (name, slot_lease_ms) values (?1, ?2) on conflict do update
                   set slot_lease_ms = max(slot_lease_ms, excluded.slot_lease_ms)";
        let put = query(sql).bind(name.as_str()).bind(to_sql(*lease_ms));
        put.execute(&mut *connection).await?;
    }
    for (name, out) in outs {
        let sql = "insert into clusters (name, out_ms, out_by, out_why) values (?1, ?2, ?3, ?4)
                   on conflict do update set out_ms = excluded.out_ms, out_by = excluded.out_by,
                       out_why = excluded.out_why";
        query(sql)
            .bind(name.as_str())
            .bind(out.as_ref().map(|out| to_sql(out.at_ms)))
            .bind(out.as_ref().map(|out| out.by.as_str()))
            .bind(out.as_ref().map(|out| out.why.as_str()))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

impl StoreReader {
    /// Reads the number of the child campaign of a batch. `None`: no cluster has confirmed it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn child(&mut self, batch: u64) -> Result<Option<u64>, DbError> {
        let failed = self.failed();
        let sql = "select child from children where batch = ?1";
        let found: Result<Option<i64>, _> =
            query_scalar(sql).bind(to_sql(batch)).fetch_optional(&mut self.connection).await;
        found.map(|found| found.map(from_sql)).map_err(failed)
    }

    /// Reads the last reset of the affinities, in milliseconds since the epoch. 0: there was none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn affinity_reset(&mut self) -> Result<u64, DbError> {
        let failed = self.failed();
        let found: Result<i64, _> =
            query_scalar("select affinity_ms from meta").fetch_one(&mut self.connection).await;
        found.map(from_sql).map_err(failed)
    }

    /// Reads the clusters on record, by name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn clusters(&mut self) -> Result<BTreeMap<Name, ClusterRow>, DbError> {
        let failed = self.failed();
        let found = async {
            let rows = query("select * from clusters").fetch_all(&mut self.connection).await?;
            let mut clusters = BTreeMap::new();
            for row in &rows {
                let out = match maybe_number(row, "out_ms")? {
                    Some(at_ms) => {
                        let text = |column| row.try_get::<Option<String>, _>(column);
                        let (by, why) = (text("out_by")?, text("out_why")?);
                        let (by, why) = (by.unwrap_or_default(), why.unwrap_or_default());
                        Some(OutOfGrid { at_ms, by, why })
                    }
                    None => None,
                };
                let slot_lease_ms = number(row, "slot_lease_ms")?;
                let name = Name::from(row.try_get::<&str, _>("name")?);
                clusters.insert(name, ClusterRow { slot_lease_ms, out });
            }
            Ok(clusters)
        };
        found.await.map_err(failed)
    }
}
