//! The audit log: acts of administrators and refusals, each row bound to the row before.
//!
//! The sum of a row is SHA-256 over the sum of the row before (nothing, for the first row), its
//! number, its time and its texts. Number and time have 8 bytes each, most significant first; each
//! text follows its length in 8 bytes. A changed, added or removed row forces new sums in all later
//! rows. Those sums differ from a sum noted elsewhere: `apportion audit verify` prints the sum to
//! note.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Row, query};

use super::owner::check_owner;
use super::sum::RowSum;
use super::{ReadOnlyStore, Store, StoreError, from_sql, to_sql};

/// An act or an attempt, for the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRow {
    /// Time of the act, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The name of a token, or of a user of this machine.
    pub who: String,
    /// From where.
    pub origin: String,
    /// Act, in a few words.
    pub act: String,
    /// To what, and why.
    pub detail: String,
    /// Outcome.
    pub outcome: String,
}

/// A stored row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Number of the row: 1, 2, …
    pub id: u64,
    /// Content of the row.
    pub row: AuditRow,
    /// Stored sum of the row.
    pub sum: Vec<u8>,
}

/// The end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditHead {
    /// The number of the last row; 0 if there is none.
    pub id: u64,
    /// Sum of the last row.
    pub sum: Vec<u8>,
}

/// Fault in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditFault {
    /// Rows before this row are missing.
    Missing {
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// This row or a row before it was changed after it was written.
    Changed {
        /// Number of the row.
        id: u64,
    },
    /// Rows were added after the last row that the daemon wrote.
    Added {
        /// The first of them.
        first: u64,
    },
    /// The noted row has another sum in the log.
    NotAsNoted {
        /// Number of the row.
        id: u64,
    },
}

impl Store {
    /// Stores rows outside of a cycle.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub async fn add_audit(&mut self, rows: &[AuditRow]) -> Result<(), StoreError> {
        let mut session = self.take_session().await?;
        let added = async {
            let mut transaction = session.connection.begin_with("begin immediate").await?;
            check_owner(&mut transaction, self.instance.as_deref()).await?;
            append(&mut transaction, rows).await?;
            transaction.commit().await
        };
        let added = added.await;
        self.session = match &added {
            Ok(()) => Some(session),
            // The failed write touched neither nodes nor shares, so their tables need not be read
            // again.
            Err(_) => self.renewed(session).await,
        };
        added.map_err(|source| self.unwritten("write the audit log", source))
    }
}

impl ReadOnlyStore {
    /// At most `limit` rows after number `after`, in order.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn audit_after(
        &mut self,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let sql = "select id, at_ms, who, origin, act, detail, outcome, sum from audit
                   where id > ?1 order by id limit ?2";
        let rows = query(sql).bind(to_sql(after)).bind(limit).fetch_all(&mut self.connection).await;
        let entries = rows.and_then(|rows| rows.iter().map(entry_from).collect());
        entries.map_err(|source| StoreError::of("read", &self.path, source))
    }

    /// The end of the log, as it should be.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn audit_head(&mut self) -> Result<AuditHead, StoreError> {
        let head = head(&mut self.connection).await;
        head.map_err(|source| StoreError::of("read", &self.path, source))
    }
}

/// Check for changed rows, row by row. A fault before a row is reported once: the next row is
/// judged by the stored sum.
#[derive(Debug, Default)]
pub struct AuditCheck {
    last: AuditHead,
    noted: Option<AuditHead>,
    faults: Vec<AuditFault>,
}

impl AuditCheck {
    /// A check that also compares a row that was noted down.
    pub fn against(noted: Option<AuditHead>) -> AuditCheck {
        AuditCheck { noted, ..AuditCheck::default() }
    }

    /// Checks the next row.
    pub fn look(&mut self, entry: &AuditEntry) {
        let expected = self.last.id + 1;
        let is_next = entry.id == expected;
        if !is_next {
            self.faults.push(AuditFault::Missing { first: expected, last: entry.id - 1 });
        }
        // Without the row before, the expected sum is unknown.
        if is_next && entry.sum != sum(&self.last.sum, entry.id, &entry.row) {
            self.faults.push(AuditFault::Changed { id: entry.id });
        }
        if let Some(noted) = &self.noted
            && noted.id == entry.id
            && noted.sum != entry.sum
        {
            self.faults.push(AuditFault::NotAsNoted { id: entry.id });
        }
        self.last = AuditHead { id: entry.id, sum: entry.sum.clone() };
    }

    /// Returns the faults after the last row; `head` is the end that the log should have.
    pub fn finish(mut self, head: &AuditHead) -> Vec<AuditFault> {
        let noted = self.noted.as_ref().map_or(0, |noted| noted.id);
        let end = head.id.max(noted);
        if self.last.id < end {
            self.faults.push(AuditFault::Missing { first: self.last.id + 1, last: end });
        } else if head.id < self.last.id {
            self.faults.push(AuditFault::Added { first: head.id + 1 });
        } else if self.last != *head && !self.faults.contains(&AuditFault::Changed { id: head.id })
        {
            self.faults.push(AuditFault::Changed { id: head.id });
        }
        self.faults
    }
}

/// Adds rows at the end, within a transaction.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    rows: &[AuditRow],
) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut last = head(connection).await?;
    for row in rows {
        let id = last.id + 1;
        last = AuditHead { id, sum: sum(&last.sum, id, row) };
        let sql = "insert into audit (id, at_ms, who, origin, act, detail, outcome, sum)
                   values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        query(sql)
            .bind(to_sql(id))
            .bind(row.at_ms)
            .bind(&row.who)
            .bind(&row.origin)
            .bind(&row.act)
            .bind(&row.detail)
            .bind(&row.outcome)
            .bind(&last.sum)
            .execute(&mut *connection)
            .await?;
    }
    query("update audit_head set id = ?1, sum = ?2")
        .bind(to_sql(last.id))
        .bind(&last.sum)
        .execute(connection)
        .await?;
    Ok(())
}

async fn head(connection: &mut SqliteConnection) -> Result<AuditHead, sqlx::Error> {
    let row = query("select id, sum from audit_head").fetch_one(connection).await?;
    Ok(AuditHead { id: row.try_get("id").map(from_sql)?, sum: row.try_get("sum")? })
}

fn sum(before: &[u8], id: u64, row: &AuditRow) -> Vec<u8> {
    let sum = RowSum::after(before).number(to_sql(id)).number(row.at_ms);
    let texts = [&row.who, &row.origin, &row.act, &row.detail, &row.outcome];
    texts.into_iter().fold(sum, |sum, text| sum.text(text)).end()
}

fn entry_from(row: &SqliteRow) -> Result<AuditEntry, sqlx::Error> {
    Ok(AuditEntry {
        id: row.try_get("id").map(from_sql)?,
        row: AuditRow {
            at_ms: row.try_get("at_ms")?,
            who: row.try_get("who")?,
            origin: row.try_get("origin")?,
            act: row.try_get("act")?,
            detail: row.try_get("detail")?,
            outcome: row.try_get("outcome")?,
        },
        sum: row.try_get("sum")?,
    })
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions, raw_sql};

    use super::*;

    fn row(act: &str) -> AuditRow {
        let word = |text: &str| text.to_owned();
        AuditRow {
            at_ms: 1,
            who: word("ann"),
            origin: word("tcp 10.0.0.1:7"),
            act: word(act),
            detail: word("node01"),
            outcome: word("done"),
        }
    }

    /// Faults of a log of six rows after `tampering`, with the sum of row `noted` noted before.
    async fn faults(tampering: &'static str, noted: Option<u64>) -> Vec<AuditFault> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let mut store = Store::open(&path).await.unwrap();
        store.add_audit(&["a", "b", "c"].map(row)).await.unwrap();
        store.add_audit(&["d", "e", "f"].map(row)).await.unwrap();
        store.close().await.unwrap();
        let mut archive = ReadOnlyStore::open(&path).await.unwrap();
        let before = archive.audit_after(0, 100).await.unwrap();
        let noted = noted.map(|id| {
            let entry = before.iter().find(|entry| entry.id == id).unwrap();
            AuditHead { id, sum: entry.sum.clone() }
        });

        let options = SqliteConnectOptions::new().filename(&path);
        let mut connection = options.connect().await.unwrap();
        let free = "drop trigger audit_is_not_changed; drop trigger audit_is_not_cut;";
        raw_sql(free).execute(&mut connection).await.unwrap();
        raw_sql(tampering).execute(&mut connection).await.unwrap();
        let mut check = AuditCheck::against(noted);
        for entry in archive.audit_after(0, 100).await.unwrap() {
            check.look(&entry);
        }
        check.finish(&archive.audit_head().await.unwrap())
    }

    #[tokio::test]
    async fn what_is_changed_cut_or_added_is_named() {
        use AuditFault::{Added, Changed, Missing};
        for (tampering, expected) in [
            ("select 1", vec![]),
            ("update audit set who = 'eve' where id = 3", vec![Changed { id: 3 }]),
            ("update audit set outcome = '' where id = 6", vec![Changed { id: 6 }]),
            ("update audit set sum = x'00' where id = 6", vec![Changed { id: 6 }]),
            ("delete from audit where id = 1", vec![Missing { first: 1, last: 1 }]),
            ("delete from audit where id in (3, 4)", vec![Missing { first: 3, last: 4 }]),
            ("delete from audit where id > 4", vec![Missing { first: 5, last: 6 }]),
            (
                "insert into audit select 7, at_ms, who, origin, act, detail, outcome, sum
                 from audit where id = 6",
                vec![Changed { id: 7 }, Added { first: 7 }],
            ),
        ] {
            assert_eq!(faults(tampering, None).await, expected, "{tampering}");
        }
        // A noted row reveals a log whose end was removed together with its head.
        let cut = "delete from audit where id = 6;
                   update audit_head set id = 5, sum = (select sum from audit where id = 5)";
        assert_eq!(faults(cut, None).await, []);
        assert_eq!(faults(cut, Some(6)).await, [Missing { first: 6, last: 6 }]);
        assert_eq!(
            faults("update audit set sum = x'00' where id = 2", Some(2)).await,
            [Changed { id: 2 }, AuditFault::NotAsNoted { id: 2 }, Changed { id: 3 }]
        );
    }

    /// Otherwise each refusal on a full disk would have the whole file read again.
    #[tokio::test]
    async fn a_row_that_cannot_be_written_costs_nothing_but_the_row() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("state.db")).await.unwrap();
        store.recover().await.unwrap();
        let session = store.session.as_mut().unwrap();
        let known = session.known.clone();
        raw_sql("pragma query_only = true").execute(&mut session.connection).await.unwrap();
        store.add_audit(&[row("a")]).await.unwrap_err();
        let session = store.session.as_ref().unwrap();
        assert!(session.is_sound && session.known == known);
        store.add_audit(&[row("b")]).await.unwrap();
    }

    #[tokio::test]
    async fn the_database_itself_refuses_to_change_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let mut store = Store::open(&path).await.unwrap();
        store.add_audit(&[row("a")]).await.unwrap();
        let mut session = store.take_session().await.unwrap();
        for sql in ["update audit set who = 'eve'", "delete from audit"] {
            let refused = query(sql).execute(&mut session.connection).await.unwrap_err();
            assert!(refused.to_string().contains("only added to"), "{refused}");
        }
    }
}
