//! Databases that earlier versions left behind.

use std::path::{Path, PathBuf};

use apportion::store::migrations;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, query_scalar, raw_sql};

/// Makes a database as the version of apportion with schema `version` left it.
pub async fn leave_behind(path: &Path, version: i64) {
    let mut connection = connect(path).await;
    raw_sql("pragma application_id = 0x6170706f").execute(&mut connection).await.unwrap();
    migrations().run_to(version, &mut connection).await.unwrap();
    let fixture = std::fs::read_to_string(fixture(version)).expect("every migration has a fixture");
    raw_sql(AssertSqlSafe(fixture)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Result of `SQLite`'s check of a file: `ok`, or the faults.
pub async fn soundness(path: &Path) -> String {
    let mut connection = connect(path).await;
    let check = query_scalar("pragma integrity_check").fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    check
}

fn fixture(version: i64) -> PathBuf {
    let file = format!("tests/fixtures/store/{version:04}.sql");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    options.connect().await.unwrap()
}
