//! Every migration is applied to a database that the version before it could have left behind.
//!
//! `tests/fixtures/store/NNNN.sql` fills the tables as they are after migration NNNN. A migration
//! without a fixture fails here: the next one could not be tested.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::{Path, PathBuf};

use apportion::store::{CycleRecord, Recovered, Store, migrations};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, query_scalar, raw_sql};

#[tokio::test]
async fn every_schema_there_was_opens_with_its_data() {
    for migration in migrations().iter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        leave_behind(&path, migration.version).await;
        let mut store = Store::open(&path).await.unwrap();
        let expected = Recovered {
            varied_off: vec![("node02".into(), "disk swap".to_owned())],
            next_share: 42,
            cycle: 9,
            sequence: Some(17),
            shares: Vec::new(),
            schedule: None,
            last_event: 0,
            journal: None,
        };
        let mut recovered = store.recover().await.unwrap();
        assert!(!recovered.shares.is_empty(), "from {}", migration.version);
        recovered.shares.clear();
        assert!(recovered.schedule.take().is_some(), "from {}", migration.version);
        if 2 <= migration.version {
            let journal = recovered.journal.take().unwrap();
            assert_eq!((journal.books.cycle, journal.cycles.len()), (8, 1));
            assert_eq!(std::mem::take(&mut recovered.last_event), 3);
        }
        assert_eq!(recovered, expected, "from {}", migration.version);
        let next = CycleRecord { cycle: 10, next_share: 43, ..CycleRecord::default() };
        store.commit(&next).await.unwrap();
        store.close().await.unwrap();
        assert_is_sound(&path).await;
    }
}

/// Makes a database as the version of apportion with schema `version` left it.
async fn leave_behind(path: &Path, version: i64) {
    let mut connection = connect(path).await;
    raw_sql("pragma application_id = 0x6170706f").execute(&mut connection).await.unwrap();
    migrations().run_to(version, &mut connection).await.unwrap();
    let fixture = std::fs::read_to_string(fixture(version)).expect("every migration has a fixture");
    raw_sql(AssertSqlSafe(fixture)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn assert_is_sound(path: &Path) {
    let check: String =
        query_scalar("pragma integrity_check").fetch_one(&mut connect(path).await).await.unwrap();
    assert_eq!(check, "ok");
}

fn fixture(version: i64) -> PathBuf {
    let file = format!("tests/fixtures/store/{version:04}.sql");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    options.connect().await.unwrap()
}
