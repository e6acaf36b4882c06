//! Every migration is applied to a database that the version before it could have left behind.
//!
//! `tests/fixtures/store/NNNN.sql` fills the tables as they are after migration NNNN. A migration
//! without a fixture fails here: the next migration could not be tested.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::past::{leave_behind, soundness};
use apportion::store::{CycleRecord, ReadOnlyStore, Recovered, Store, migrations};

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
            lost_after: None,
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
            assert_eq!((journal.checkpoint.cycle, journal.cycles.len()), (8, 1));
            assert_eq!(std::mem::take(&mut recovered.last_event), 3);
            // With a sum or without.
            let mut archive = ReadOnlyStore::open(&path).await.unwrap();
            assert_eq!(archive.feed_since(0, 10).await.unwrap().last().unwrap().seq, 3);
        }
        if 3 <= migration.version {
            for generation in 1..=2 {
                let kept = store.configuration(generation).await.unwrap().unwrap();
                assert_eq!(kept.text, "[[nodepool]]", "from {}", migration.version);
            }
        }
        assert_eq!(recovered, expected, "from {}", migration.version);
        let next = CycleRecord { cycle: 10, next_share: 43, ..CycleRecord::default() };
        store.commit(next).await.unwrap();
        store.close().await.unwrap();
        assert_eq!(soundness(&path).await, "ok");
    }
}
