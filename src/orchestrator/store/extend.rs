//! Tasks that are added to a campaign, with the keys of their requests, and campaigns that another
//! campaign waits for.

use std::collections::BTreeSet;

use sqlx::sqlite::SqliteConnection;
use sqlx::{query, query_scalar};

use super::convert::{from_sql, number, to_sql};
use super::write::{CHUNK, chunk_of, put_chunk};
use super::{CampaignStore, DbError};
use crate::model::count;
use crate::orchestrator::spec::Params;

/// Contents of an extension, besides the row of its campaign.
#[derive(Clone, Debug)]
pub struct Extension {
    /// The campaign.
    pub campaign: u64,
    /// Range of the added tasks.
    pub added: Added,
    /// Their parameters.
    pub params: Params,
    /// Idempotency key of the request.
    pub key: Option<String>,
}

/// Tasks that were added to a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Position of the first added task, counted from 0.
    pub position: u64,
    /// Number of added tasks.
    pub count: u64,
}

impl CampaignStore {
    /// Returns the tasks that an earlier request with `key` added to a campaign.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn added(&mut self, campaign: u64, key: &str) -> Result<Option<Added>, DbError> {
        let failed = self.failed("read added tasks");
        let found = async {
            let sql = "select position, added from additions where campaign = ?1 and key = ?2";
            let row = query(sql).bind(to_sql(campaign)).bind(key);
            let Some(row) = row.fetch_optional(&mut self.connection).await? else {
                return Ok(None);
            };
            let added =
                Added { position: number(&row, "position")?, count: number(&row, "added")? };
            Ok(Some(added))
        };
        found.await.map_err(failed)
    }

    /// Returns the campaigns among `numbers` that are done.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn done_among(&mut self, numbers: &[u64]) -> Result<BTreeSet<u64>, DbError> {
        let failed = self.failed("read campaigns");
        let found = async {
            let mut done = BTreeSet::new();
            let sql = "select id from campaigns where id = ?1 and state = 'done'";
            for number in numbers {
                let row = query_scalar(sql).bind(to_sql(*number));
                done.extend(row.fetch_optional(&mut self.connection).await?.map(from_sql));
            }
            Ok(done)
        };
        found.await.map_err(failed)
    }
}

/// Stores an extension: fills the last chunk of parameters, and adds chunks after it.
pub(super) async fn put(
    connection: &mut SqliteConnection,
    extension: &Extension,
) -> Result<(), sqlx::Error> {
    let Extension { campaign, added, params, key } = extension;
    if let Params::Texts(texts) = params {
        put_texts(connection, *campaign, added.position, texts).await?;
    }
    if let Some(key) = key {
        let sql = "insert into additions (campaign, key, position, added) values (?1, ?2, ?3, ?4)";
        query(sql)
            .bind(to_sql(*campaign))
            .bind(key)
            .bind(to_sql(added.position))
            .bind(to_sql(added.count))
            .execute(connection)
            .await?;
    }
    Ok(())
}

async fn put_texts(
    connection: &mut SqliteConnection,
    campaign: u64,
    position: u64,
    texts: &[String],
) -> Result<(), sqlx::Error> {
    let size = count(0..CHUNK);
    let begun = position.checked_rem(size).unwrap_or(0);
    let mut first = position - begun;
    let mut rest = texts;
    if 0 < begun {
        let known = chunk_of(connection, campaign, first).await?;
        let (_, mut chunk) = known.ok_or(sqlx::Error::RowNotFound)?;
        let (fills, more) = rest.split_at(rest.len().min(CHUNK.saturating_sub(chunk.len())));
        chunk.extend_from_slice(fills);
        put_chunk(connection, campaign, first, &chunk).await?;
        (rest, first) = (more, first + size);
    }
    for chunk in rest.chunks(CHUNK) {
        put_chunk(connection, campaign, first, chunk).await?;
        first += size;
    }
    Ok(())
}
