//! From a path to a file that is surely ours.
//!
//! No file is written before it is known to be a store or empty; a slip in `--state` must not cost
//! another program its database.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row, SqlSafeStr, query, query_scalar};

use super::{CycleRecord, Last, NodeRow, ShareRow, StoreError, from_sql};
use crate::model::{Name, SharePhase, Steps};

/// Instructions of `SQLite`'s virtual machine per progress step: less than a millisecond.
const INSTRUCTIONS_A_STEP: i32 = 10_000;

/// Marks a file as ours, in its header: "appo".
const APPLICATION_ID: i64 = 0x6170_706f;

/// The first version with the fix for the write-ahead log reset that could damage a file.
const SQLITE_MIN: (u32, u32, u32) = (3, 51, 3);
const SQLITE_MIN_TEXT: &str = "3.51.3";

/// Time to wait for another program's write transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Page cache in KiB, negative as `SQLite` wants it: half of `SQLite`'s default. A cycle does not
/// read its own writes again.
pub(super) const CACHE_SIZE: &str = "-1024";

/// Every schema there was, oldest first.
const SCHEMAS: &[(i64, &str, &str)] = &[
    (1, "initial", include_str!("../../migrations/0001_initial.sql")),
    (2, "journal", include_str!("../../migrations/0002_journal.sql")),
    (3, "configurations", include_str!("../../migrations/0003_configurations.sql")),
    (4, "audit", include_str!("../../migrations/0004_audit.sql")),
    (5, "sums", include_str!("../../migrations/0005_sums.sql")),
    (6, "owner", include_str!("../../migrations/0006_owner.sql")),
];

/// The steps from an empty file to the present schema.
pub fn migrations() -> Migrator {
    let step = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(SCHEMAS.iter().map(step).collect())
}

/// Returns the canonical path, so that the locks of all daemons on this file meet.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    if path.is_dir() {
        return Err(StoreError::IsFolder { path: path.to_owned() });
    }
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => Ok(folder.join(name)),
        _ => Err(StoreError::NoFolder { folder: folder.to_owned(), path: path.to_owned() }),
    }
}

/// Opens the file, sees that it is ours, and brings its schema up to date.
pub(super) async fn connect(path: &Path, steps: &Steps) -> Result<SqliteConnection, StoreError> {
    let failed = |action| move |source| StoreError::of(action, path, source);
    // Without a journal mode: changing that would already write to a file not known to be ours.
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("cache_size", CACHE_SIZE)
        .disable_statement_logging()
        .connect()
        .await
        .map_err(failed("open the record"))?;
    tell_steps(&mut connection, steps.clone()).await.map_err(failed("open the record"))?;
    let found = query_scalar("select sqlite_version()").fetch_one(&mut connection).await;
    check_version(found.map_err(failed("ask for SQLite's version"))?)?;
    mark_if_empty(&mut connection).await.map_err(failed("identify the file"))?;
    check_is_ours(&mut connection, path).await?;
    if !is_present(&mut connection).await.map_err(failed("read the schema"))? {
        // The migration is about to change the file.
        check(&mut connection, path).await?;
    }
    query("pragma journal_mode = wal")
        .execute(&mut connection)
        .await
        .map_err(failed("begin a write-ahead log"))?;
    migrations()
        .run_direct(None, &mut connection, false)
        .await
        .map_err(|source| StoreError::of_migration(path, newest_schema(), source))?;
    check_tables(&mut connection, path).await?;
    try_writing(&mut connection).await.map_err(failed("write"))?;
    Ok(connection)
}

/// Counts `steps` while a statement makes progress; a statement that waits for a lock or a disk
/// counts none.
async fn tell_steps(connection: &mut SqliteConnection, steps: Steps) -> Result<(), sqlx::Error> {
    connection.lock_handle().await?.set_progress_handler(INSTRUCTIONS_A_STEP, move || {
        steps.take();
        true
    });
    Ok(())
}

/// True if the file needs no migration and no change of mode before its use.
async fn is_present(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let mode: String = query_scalar("pragma journal_mode").fetch_one(&mut *connection).await?;
    let sql = "select count(*) from sqlite_schema where name = '_sqlx_migrations'";
    let has_schema = 0 < query_scalar::<_, i64>(sql).fetch_one(&mut *connection).await?;
    if mode != "wal" || !has_schema {
        return Ok(false);
    }
    let sql = "select max(version) from _sqlx_migrations";
    let version: Option<i64> = query_scalar(sql).fetch_one(connection).await?;
    Ok(newest_schema() <= version.unwrap_or(0))
}

/// Sees that tables, indexes and triggers are described as our migrations describe them. Where they
/// are not, what is read need not be what was written; and the library takes names on trust.
async fn check_tables(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::of("read the schema", path, source);
    let mut ours = SqliteConnectOptions::new().in_memory(true).connect().await.map_err(failed)?;
    let migrated = migrations().run_direct(None, &mut ours, false).await;
    migrated.map_err(|source| StoreError::of_migration(path, newest_schema(), source))?;
    let expected = descriptions(&mut ours).await.map_err(failed)?;
    let found = descriptions(connection).await.map_err(failed)?;
    // An administrator may have added an index or a view.
    if expected.iter().all(|table| found.binary_search(table).is_ok()) {
        return Ok(());
    }
    let finding = "its tables are not described as apportion made them".to_owned();
    Err(StoreError::Damaged { path: path.to_owned(), finding })
}

/// Returns the definition of each table, index and trigger, as bytes: a damaged definition may be
/// no valid text.
async fn descriptions(connection: &mut SqliteConnection) -> Result<Vec<Vec<u8>>, sqlx::Error> {
    let sql = "select cast(type || ' ' || name || ' ' || tbl_name || ' ' || sql as blob) from sqlite_schema \
               where sql is not null order by 1";
    query_scalar(sql).fetch_all(connection).await
}

/// Checks every page of the file, which takes as long as reading it.
pub(super) async fn check(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<(), StoreError> {
    let finding: String = query_scalar("pragma quick_check(1)")
        .fetch_one(connection)
        .await
        .map_err(|source| StoreError::of("check the file", path, source))?;
    if finding == "ok" {
        return Ok(());
    }
    // `SQLite` reports the finding on several lines; an error message has only a single line.
    let finding = finding.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(StoreError::Damaged { path: path.to_owned(), finding })
}

fn check_version(found: String) -> Result<(), StoreError> {
    if is_recent(&found) {
        Ok(())
    } else {
        Err(StoreError::OldSqlite { found, wanted: SQLITE_MIN_TEXT })
    }
}

fn is_recent(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next()) >= SQLITE_MIN
}

/// Puts our mark on a file that is empty.
async fn mark_if_empty(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let id: i64 = query_scalar("pragma application_id").fetch_one(&mut *connection).await?;
    let tables: i64 =
        query_scalar("select count(*) from sqlite_schema").fetch_one(&mut *connection).await?;
    if id == 0 && tables == 0 {
        // Before the first table, so that no crash leaves tables of ours without the mark.
        query("pragma application_id = 0x6170706f").execute(connection).await?;
    }
    Ok(())
}

/// Refuses a file without our mark.
pub(super) async fn check_is_ours(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<(), StoreError> {
    let id = query_scalar("pragma application_id").fetch_one(connection).await;
    match id.map_err(|source| StoreError::of("identify the file", path, source))? {
        APPLICATION_ID => Ok(()),
        _ => Err(StoreError::Foreign { path: path.to_owned() }),
    }
}

/// Refuses a file with another schema, for readers that must not migrate it.
pub(super) fn check_schema(found: i64, path: &Path) -> Result<(), StoreError> {
    let (path, known) = (path.to_owned(), newest_schema());
    match found.cmp(&known) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(StoreError::NewerSchema { path, found, known }),
        Ordering::Less => Err(StoreError::OlderSchema { path, found, known }),
    }
}

fn newest_schema() -> i64 {
    SCHEMAS.last().map_or(0, |&(version, ..)| version)
}

/// Meets a write-protected file now, and not in the first cycle.
async fn try_writing(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    connection.begin_with("begin immediate").await?.rollback().await
}

/// Reads the numbers after the last committed cycle.
pub(super) async fn read_last(connection: &mut SqliteConnection) -> Result<Last, sqlx::Error> {
    let sql = "select cycle, next_share, publication_sequence, schedule_cycle, last_event
               from cycles order by cycle desc limit 1";
    let last = query(sql).fetch_optional(connection).await?;
    last.as_ref().map(last_from).transpose().map(Option::unwrap_or_default)
}

/// All nodes by name, and all shares by number.
type NodeAndShareRows = (Vec<NodeRow>, Vec<ShareRow>);

/// Reads the tables of nodes and shares as the last cycle left them.
pub(super) async fn read_rows(
    connection: &mut SqliteConnection,
) -> Result<NodeAndShareRows, sqlx::Error> {
    let sql =
        "select name, pool, memory_mb, order_qshares, used_qshares, states, missed, varied_off
               from nodes";
    // Consuming the raw rows frees each before the next is converted.
    let rows = query(sql).fetch_all(&mut *connection).await?.into_iter();
    let nodes = rows.map(|row| node_from(&row)).collect::<Result<_, _>>()?;
    let sql = "select id, job, node, qshares, state from shares";
    let rows = query(sql).fetch_all(connection).await?.into_iter();
    let shares = rows.map(|row| share_from(&row)).collect::<Result<_, _>>()?;
    let mut read = CycleRecord { nodes, shares, ..CycleRecord::default() };
    Ok(read.take_rows())
}

fn last_from(row: &SqliteRow) -> Result<Last, sqlx::Error> {
    let sequence: Option<i64> = row.try_get("publication_sequence")?;
    let schedule: Option<i64> = row.try_get("schedule_cycle")?;
    Ok(Last {
        cycle: number(row, "cycle")?,
        next_share: number(row, "next_share")?,
        sequence: sequence.map(from_sql),
        schedule: schedule.map(from_sql),
        event: number(row, "last_event")?,
    })
}

fn node_from(row: &SqliteRow) -> Result<NodeRow, sqlx::Error> {
    Ok(NodeRow {
        name: name(row, "name")?,
        pool: name(row, "pool")?,
        memory_mb: number(row, "memory_mb")?,
        order: number(row, "order_qshares")?,
        used: number(row, "used_qshares")?,
        states: row.try_get("states")?,
        missed: row.try_get("missed")?,
        varied_off: row.try_get("varied_off")?,
    })
}

fn share_from(row: &SqliteRow) -> Result<ShareRow, sqlx::Error> {
    let state: &str = row.try_get("state")?;
    Ok(ShareRow {
        id: number(row, "id")?,
        job: number(row, "job")?,
        node: name(row, "node")?,
        qshares: number(row, "qshares")?,
        // The table admits two words.
        state: if state == "leaving" { SharePhase::Leaving } else { SharePhase::Held },
    })
}

fn name(row: &SqliteRow, column: &str) -> Result<Name, sqlx::Error> {
    row.try_get(column).map(|text: &str| Name::from(text))
}

fn number(row: &SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get(column).map(from_sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let cases = [("3.51.3", true), ("3.52.0", true), ("4.0", true), ("3.100.0", true)];
        let old = [("3.51.2", false), ("3.9.9", false), ("2.60.9", false), ("", false)];
        for (version, expected) in cases.into_iter().chain(old) {
            assert_eq!(is_recent(version), expected, "{version}");
        }
    }

    #[test]
    fn a_dangling_folder_is_named() {
        let error = resolve(Path::new("/no/such/folder/state.db")).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no folder `/no/such/folder` to keep `/no/such/folder/state.db` in; create it"
        );
    }

    #[tokio::test]
    async fn a_statement_that_gets_on_takes_steps() {
        let folder = tempfile::tempdir().unwrap();
        let steps = Steps::default();
        let mut record = connect(&folder.path().join("state.db"), &steps).await.unwrap();
        let before = steps.taken();
        let sql =
            "with recursive n (x) as (select 1 union all select x + 1 from n where x < 100000)
                   select count(*) from n";
        let count: i64 = query_scalar(sql).fetch_one(&mut record).await.unwrap();
        assert_eq!(count, 100_000);
        assert!(before + 10 < steps.taken(), "{before} and then {}", steps.taken());
    }
}
