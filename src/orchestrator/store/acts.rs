//! Acts of callers on record, each row bound to the row before it.
//!
//! The sum of a row is a SHA-256. It covers the previous row's sum (empty for the first row), then
//! the row's number and time, then its texts. Numbers are 8 bytes, most significant first; each
//! text follows its length in 8 bytes. A changed, added or removed row makes all later sums wrong.
//! Old rows are removed from the start; the number and the sum of the last removed row stay.

use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};

use super::convert::{from_sql, number, to_sql};
use super::{DbError, StoreReader};

/// An act of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerAct {
    /// Time of the act, in milliseconds since the epoch.
    pub at_ms: u64,
    /// The name of the caller.
    pub who: String,
    /// The origin of the request.
    pub origin: String,
    /// The act in a few words.
    pub act: String,
    /// Object of the act, with details.
    pub detail: String,
}

/// An act on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActEntry {
    /// Number of the act, from 1 without gaps.
    pub id: u64,
    /// The act.
    pub act: CallerAct,
    /// Sum of the row.
    pub sum: Vec<u8>,
}

fn sum(before: &[u8], id: u64, act: &CallerAct) -> Vec<u8> {
    let mut sum = Sha256::new_with_prefix(before);
    for number in [id, act.at_ms] {
        sum.update(number.to_be_bytes());
    }
    for text in [&act.who, &act.origin, &act.act, &act.detail] {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        sum.update(length.to_be_bytes());
        sum.update(text);
    }
    sum.finalize().to_vec()
}

/// Last removed act: the acts on record begin after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Number of the last removed act; 0 if no act was removed.
    pub last: u64,
    /// Sum of the last removed act.
    pub sum: Vec<u8>,
}

/// Returns the number of the first act after `cut` that was tampered with; `None` if no act was.
pub fn first_fault(cut: &Cut, entries: &[ActEntry]) -> Option<u64> {
    let mut before: &[u8] = &cut.sum;
    for (expected, entry) in (cut.last + 1..).zip(entries) {
        if entry.id != expected || entry.sum != sum(before, entry.id, &entry.act) {
            return Some(expected);
        }
        before = &entry.sum;
    }
    None
}

/// Adds acts at the end, within a transaction.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    acts: &[CallerAct],
) -> Result<(), sqlx::Error> {
    if acts.is_empty() {
        return Ok(());
    }
    let last = query("select id, sum from acts order by id desc limit 1");
    let last = last.fetch_optional(&mut *connection).await?;
    let (mut id, mut before) = if let Some(row) = last {
        (from_sql(row.try_get("id")?), row.try_get("sum")?)
    } else {
        let cut = read_cut(connection).await?;
        (cut.last, cut.sum)
    };
    for act in acts {
        id += 1;
        before = sum(&before, id, act);
        let sql = "insert into acts (id, at_ms, who, origin, act, detail, sum)
                   values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        query(sql)
            .bind(to_sql(id))
            .bind(to_sql(act.at_ms))
            .bind(&act.who)
            .bind(&act.origin)
            .bind(&act.act)
            .bind(&act.detail)
            .bind(&before)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn read_cut(connection: &mut SqliteConnection) -> Result<Cut, sqlx::Error> {
    let row = query("select acts_cut, acts_cut_sum from meta").fetch_one(connection).await?;
    let sum: Option<Vec<u8>> = row.try_get("acts_cut_sum")?;
    Ok(Cut { last: number(&row, "acts_cut")?, sum: sum.unwrap_or_default() })
}

impl StoreReader {
    /// Reads all acts on record, first to last, and the cut before them.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn acts(&mut self) -> Result<(Cut, Vec<ActEntry>), DbError> {
        let failed = self.failed();
        let found = async {
            let cut = read_cut(&mut self.connection).await?;
            let rows = query("select * from acts order by id").fetch_all(&mut self.connection);
            let acts = rows.await?.iter().map(act).collect::<Result<_, _>>()?;
            Ok((cut, acts))
        };
        found.await.map_err(failed)
    }
}

fn act(row: &SqliteRow) -> Result<ActEntry, sqlx::Error> {
    let act = CallerAct {
        at_ms: number(row, "at_ms")?,
        who: row.try_get("who")?,
        origin: row.try_get("origin")?,
        act: row.try_get("act")?,
        detail: row.try_get("detail")?,
    };
    Ok(ActEntry { id: number(row, "id")?, act, sum: row.try_get("sum")? })
}
