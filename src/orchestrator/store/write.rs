//! Commits of a batch: each batch is a single transaction.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row, query, query_scalar};

use super::acts::{self, CallerAct};
use super::convert::{from_sql, text, to_sql};
use super::mark::CommitMark;
use super::{
    CampaignStore, ChildRow, DbError, Extension, OutOfGrid, PassRows, extend, filed, grid, leases,
    rows,
};
use crate::model::Name;
use crate::orchestrator::book::Effect;
use crate::orchestrator::spec::{CampaignSpec, Params};
use crate::orchestrator::wire::AdmissionRecord;

/// Number of parameters in a row of the database.
pub const CHUNK: usize = 4096;

/// Contents of a submission, besides the row of its campaign.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The number of the campaign.
    pub campaign: u64,
    /// The number of its specification.
    pub spec_number: u64,
    /// Specification of the campaign.
    pub spec: Arc<CampaignSpec>,
    /// Standard input of the tasks.
    pub stdin: Option<Vec<u8>>,
    /// Parameters of the tasks.
    pub params: Params,
    /// Owner of the campaign, and idempotency key of the submission.
    pub key: Option<(String, String)>,
}

/// Changes that are committed together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Effects of the book, in order.
    pub effects: Vec<Effect>,
    /// Submissions.
    pub submissions: Vec<Submission>,
    /// Admission rules that submitted campaigns passed.
    pub admissions: Vec<(u64, AdmissionRecord)>,
    /// Parameters and keys of tasks that were added.
    pub extensions: Vec<Extension>,
    /// Longest leases of clusters' slots, in milliseconds.
    pub slot_leases: Vec<(Name, u64)>,
    /// Clusters that an operator took out of the grid, or put back.
    pub outs: Vec<(Name, Option<OutOfGrid>)>,
    /// Child campaigns of batches that clusters have taken.
    pub children: Vec<ChildRow>,
    /// Time in ended attempts, in milliseconds, and their interruptions so far.
    pub interruptions: Option<(u64, u64)>,
    /// Passes of the router.
    pub passes: Vec<PassRows>,
    /// Acts.
    pub acts: Vec<CallerAct>,
    /// Number of the last publication, if it changed.
    pub sequence: Option<u64>,
    /// Number of the last event that the notify hook was told of, if it changed.
    pub notified: Option<u64>,
    /// True if the batch adopts attempts that nodes reported and the older copy did not know.
    pub adopts: bool,
    /// The time, in milliseconds since the epoch.
    pub at_ms: u64,
}

impl Batch {
    /// True if nothing is to be committed. Other changes come with effects.
    pub fn is_empty(&self) -> bool {
        let has_rows = !self.effects.is_empty() || !self.submissions.is_empty();
        let has_clusters = !self.slot_leases.is_empty() || !self.outs.is_empty();
        let has_grid = has_clusters || !self.passes.is_empty() || !self.children.is_empty();
        !has_rows && !has_grid && self.acts.is_empty() && self.notified.is_none()
    }
}

impl CampaignStore {
    /// Returns the number of an equal specification on record, or the next free number.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn spec_number(
        &mut self,
        spec: &CampaignSpec,
        stdin: Option<&[u8]>,
    ) -> Result<u64, DbError> {
        let failed = self.failed("read specifications");
        let found = async {
            let sum = sum_of(&text(spec)?, stdin);
            let sql = "select number from specs where sha256 = ?1";
            let known = query_scalar(sql).bind(sum).fetch_optional(&mut self.connection).await?;
            if let Some(number) = known {
                return Ok(from_sql(number));
            }
            let sql = "select coalesce(max(number), 0) + 1 from specs";
            query_scalar(sql).fetch_one(&mut self.connection).await.map(from_sql)
        };
        found.await.map_err(failed)
    }

    /// Commits a batch: all of it or nothing, synced to the disk.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. Nothing of the batch is then on record.
    pub async fn commit(&mut self, batch: &Batch) -> Result<(), DbError> {
        let failed = self.failed("commit");
        let done = async {
            let mut transaction = self.connection.begin_with("begin immediate").await?;
            write(&mut transaction, batch, &self.boot).await?;
            let sql = "update meta set commits = commits + 1 returning commits";
            let commits = query_scalar(sql).fetch_one(&mut *transaction).await.map(from_sql)?;
            transaction.commit().await?;
            Ok(commits)
        };
        let commits = done.await.map_err(failed)?;
        self.mark.write(CommitMark { epoch: self.epoch, commits })?;
        self.is_set_back = self.is_set_back && !batch.adopts;
        self.sequence = batch.sequence.unwrap_or(self.sequence);
        Ok(())
    }
}

fn sum_of(text: &str, stdin: Option<&[u8]>) -> Vec<u8> {
    let mut sum = Sha256::new_with_prefix(text);
    sum.update([0]);
    sum.update(stdin.unwrap_or_default());
    sum.finalize().to_vec()
}

async fn write(
    connection: &mut SqliteConnection,
    batch: &Batch,
    boot: &str,
) -> Result<(), sqlx::Error> {
    for submission in &batch.submissions {
        put_spec(connection, submission).await?;
    }
    rows::put(connection, batch, boot).await?;
    leases::put_clusters(connection, &batch.slot_leases, &batch.outs).await?;
    leases::put_children(connection, &batch.children).await?;
    for pass in &batch.passes {
        grid::put(connection, pass).await?;
    }
    for submission in &batch.submissions {
        put_params(connection, submission).await?;
    }
    for (campaign, record) in &batch.admissions {
        let sql = "update campaigns set admission = ?2 where id = ?1";
        let update = query(sql).bind(to_sql(*campaign)).bind(text(record)?);
        update.execute(&mut *connection).await?;
    }
    for extension in &batch.extensions {
        extend::put(connection, extension).await?;
    }
    if let Some(sequence) = batch.sequence {
        let sql = "update meta set sequence = ?1";
        query(sql).bind(to_sql(sequence)).execute(&mut *connection).await?;
    }
    if let Some(sequence) = batch.notified {
        filed::put_notified(connection, sequence).await?;
    }
    if let Some((attempts_ms, interruptions)) = batch.interruptions {
        let sql = "update meta set attempts_ms = ?1, interruptions = ?2";
        let update = query(sql).bind(to_sql(attempts_ms)).bind(to_sql(interruptions));
        update.execute(&mut *connection).await?;
    }
    if batch.adopts {
        query("update meta set set_back = 0").execute(&mut *connection).await?;
    }
    acts::append(connection, &batch.acts).await
}

async fn put_spec(
    connection: &mut SqliteConnection,
    submission: &Submission,
) -> Result<(), sqlx::Error> {
    let spec = text(&*submission.spec)?;
    let stdin = submission.stdin.as_deref();
    let sql = "insert into specs (number, sha256, text, stdin) values (?1, ?2, ?3, ?4)
               on conflict do nothing";
    query(sql)
        .bind(to_sql(submission.spec_number))
        .bind(sum_of(&spec, stdin))
        .bind(&spec)
        .bind(stdin)
        .execute(connection)
        .await?;
    Ok(())
}

async fn put_params(
    connection: &mut SqliteConnection,
    submission: &Submission,
) -> Result<(), sqlx::Error> {
    let campaign = to_sql(submission.campaign);
    if let Params::Texts(texts) = &submission.params {
        for (first, chunk) in (0_u64..).zip(texts.chunks(CHUNK)) {
            let first = first.saturating_mul(crate::model::count(0..CHUNK));
            put_chunk(connection, submission.campaign, first, chunk).await?;
        }
    }
    if let Some((owner, key)) = &submission.key {
        let sql = "insert into submissions (owner, key, campaign) values (?1, ?2, ?3)";
        query(sql).bind(owner).bind(key).bind(campaign).execute(connection).await?;
    }
    Ok(())
}

/// Stores the chunk of parameters that begins at position `first`.
pub(super) async fn put_chunk(
    connection: &mut SqliteConnection,
    campaign: u64,
    first: u64,
    texts: &[String],
) -> Result<(), sqlx::Error> {
    let packed = lz4_flex::compress_prepend_size(text(&texts)?.as_bytes());
    let sql = "insert into params (campaign, first, packed) values (?1, ?2, ?3)
               on conflict do update set packed = excluded.packed";
    query(sql).bind(to_sql(campaign)).bind(to_sql(first)).bind(packed).execute(connection).await?;
    Ok(())
}

/// The packed chunk of parameters that holds `position`, counted from 0.
pub(super) async fn chunk_of(
    connection: &mut SqliteConnection,
    campaign: u64,
    position: u64,
) -> Result<Option<(u64, Vec<String>)>, sqlx::Error> {
    let size = crate::model::count(0..CHUNK);
    let first = position - position.checked_rem(size).unwrap_or(0);
    let sql = "select packed from params where campaign = ?1 and first = ?2";
    let row = query(sql).bind(to_sql(campaign)).bind(to_sql(first));
    let Some(row) = row.fetch_optional(connection).await? else { return Ok(None) };
    let packed: &[u8] = row.try_get("packed")?;
    let unpacked = lz4_flex::decompress_size_prepended(packed)
        .map_err(|error| sqlx::Error::Decode(error.into()))?;
    let texts: Vec<String> =
        serde_json::from_slice(&unpacked).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(Some((first, texts)))
}
