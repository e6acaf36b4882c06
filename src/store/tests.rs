//! The record as a restart, a reader and a careless administrator meet it.

use std::path::PathBuf;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Row, raw_sql};
use tempfile::TempDir;

use super::*;
use crate::model::Sealed;

/// A folder of its own for a test's file.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("state.db")
    }

    async fn open(&self) -> Store {
        Store::open(&self.path()).await.unwrap()
    }

    /// Error of opening the store, without the path of the test's folder.
    async fn refusal(&self) -> String {
        let message = Store::open(&self.path()).await.unwrap_err().to_string();
        message.replace(self.path().to_str().unwrap(), "state.db")
    }

    /// Connection of an administrator's SQL client, which may read or write at any time.
    async fn client(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path()).create_if_missing(true);
        options.connect().await.unwrap()
    }

    async fn execute(&self, sql: &str) {
        let mut client = self.client().await;
        raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut client).await.unwrap();
        client.close().await.unwrap();
    }

    /// Text column of `sql`, a line for each row.
    async fn read(&self, sql: &'static str) -> String {
        let rows = query(sql).fetch_all(&mut self.client().await).await.unwrap();
        rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
    }
}

fn node(name: &str, used: u64) -> NodeRow {
    let (name, pool) = (name.into(), "fast".into());
    NodeRow { name, pool, memory_mb: 61_440, order: 4, used, ..NodeRow::default() }
}

fn varied_off(name: &str, reason: &str) -> NodeRow {
    let states = "varied-off".to_owned();
    NodeRow { states, varied_off: Some(reason.to_owned()), ..node(name, 0) }
}

fn share(id: u64, node: &str, state: SharePhase) -> ShareRow {
    ShareRow { id, job: 7, node: node.into(), qshares: 2, state }
}

fn preemption(share: u64, beneficiary: Option<u64>) -> PreemptionRow {
    let (node, rule) = ("a1".into(), "fair_share");
    PreemptionRow { share, job: 7, node, beneficiary, rule, loss_ms: 90_000 }
}

fn act(nodes: &[&str], reason: Option<&str>) -> AdminRow {
    AdminRow {
        at_ms: 50,
        action: "vary-off".to_owned(),
        nodes: nodes.iter().copied().map(str::to_owned).collect(),
        reason: reason.map(str::to_owned),
    }
}

fn sealed(text: &str) -> Sealed {
    Sealed { version: 1, body: text.as_bytes().to_vec(), sum: b"sum".to_vec() }
}

fn checkpoint(cycle: u64, is_lasting: bool) -> CheckpointRow {
    CheckpointRow { cycle, is_beginning: cycle == 0, is_lasting, sealed: sealed("all there is") }
}

fn event(seq: u64, cycle: u64) -> FeedRow {
    FeedRow { seq, cycle, at_ms: 70, kind: "added".to_owned(), body: "[]".to_owned() }
}

/// The daemon's own connection.
fn connection(store: &mut Store) -> &mut SqliteConnection {
    &mut store.session.as_mut().unwrap().connection
}

/// A cycle in which nothing happened.
fn quiet(cycle: u64) -> CycleRecord {
    let at_ms = i64::try_from(cycle * 1000).unwrap();
    CycleRecord { cycle, at_ms, next_share: 1, ..CycleRecord::default() }
}

fn busy() -> CycleRecord {
    CycleRecord {
        publication_sequence: Some(12),
        next_share: 5,
        nodes: vec![node("a1", 4), varied_off("a2", "disk swap")],
        shares: vec![share(3, "a1", SharePhase::Held), share(4, "a1", SharePhase::Leaving)],
        preemptions: vec![preemption(4, Some(9)), preemption(3, None)],
        admin: vec![act(&["a2", "a3"], Some("disk swap")), act(&[], None)],
        schedule_cycle: Some(1),
        schedule: Some(sealed("{}")),
        digest: Some(vec![0xd1, 0x9e]),
        batch: Some(BatchRow { cycle: 1, sealed: sealed("what happened") }),
        checkpoint: Some(checkpoint(0, true)),
        feed: vec![event(1, 1), event(2, 1)],
        last_event: 2,
        ..quiet(1)
    }
}

#[tokio::test]
async fn a_new_file_starts_at_the_beginning() {
    let recovered = Place::new().open().await.recover().await.unwrap();
    let beginning = Recovered {
        varied_off: Vec::new(),
        next_share: 1,
        cycle: 0,
        lost_after: None,
        sequence: None,
        shares: Vec::new(),
        schedule: None,
        last_event: 0,
        journal: None,
    };
    assert_eq!(recovered, beginning);
}

/// Each table and statement has a check, through another connection while the daemon runs.
#[tokio::test]
async fn a_cycle_is_on_record_in_full() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(busy()).await.unwrap();
    let cases = [
        (
            "select concat_ws(' ', cycle, at_ms, publication_sequence, next_share, schedule_cycle,
                 hex(digest), last_event) from cycles",
            "1 1000 12 5 1 D19E 2",
        ),
        (
            "select concat_ws(' ', cycle, form, cast(body as text), hex(sum)) from schedules",
            "1 1 {} 73756D",
        ),
        (
            "select concat_ws(' ', id, cycle, form, cast(body as text), hex(sum)) from batches",
            "1 1 1 what happened 73756D",
        ),
        (
            "select concat_ws(' ', cycle, is_beginning, is_lasting, form, cast(body as text),
                 hex(sum)) from books",
            "0 1 1 1 all there is 73756D",
        ),
        (
            "select concat_ws(' ', seq, cycle, at_ms, kind, body) from feed order by seq",
            "1 1 70 added []\n2 1 70 added []",
        ),
        (
            "select concat_ws(' ', name, pool, memory_mb, order_qshares, used_qshares,
                 '<' || states || '>', missed, varied_off) from nodes order by name",
            "a1 fast 61440 4 4 <> 0\na2 fast 61440 4 0 <varied-off> 0 disk swap",
        ),
        (
            "select concat_ws(' ', id, job, node, qshares, state) from shares order by id",
            "3 7 a1 2 held\n4 7 a1 2 leaving",
        ),
        (
            "select concat_ws(' ', id, cycle, at_ms, share, job, node, beneficiary, rule, loss_ms)
             from preemptions order by id",
            "1 1 1000 4 7 a1 9 fair_share 90000\n2 1 1000 3 7 a1 fair_share 90000",
        ),
        (
            "select concat_ws(' ', id, cycle, at_ms, action, '<' || nodes || '>', reason)
             from admin_acts order by id",
            "1 1 50 vary-off <a2,a3> disk swap\n2 1 50 vary-off <>",
        ),
    ];
    for (sql, rows) in cases {
        assert_eq!(place.read(sql).await, rows, "{sql}");
    }
}

#[tokio::test]
async fn a_restart_resumes_where_the_last_cycle_ended() {
    let place = Place::new();
    place.open().await.commit(busy()).await.unwrap();
    let mut store = place.open().await;
    let recovered = store.recover().await.unwrap();
    let expected = Recovered {
        varied_off: vec![("a2".into(), "disk swap".to_owned())],
        next_share: 5,
        cycle: 1,
        lost_after: None,
        sequence: Some(12),
        shares: busy().shares,
        schedule: Some((1, sealed("{}"))),
        last_event: 2,
        journal: Some(Past {
            checkpoint: PastCheckpoint { cycle: 0, sealed: sealed("all there is") },
            cycles: vec![PastCycle {
                cycle: 1,
                at_ms: 1000,
                beginning: Some(sealed("all there is")),
                batches: vec![sealed("what happened")],
                digest: Some(vec![0xd1, 0x9e]),
            }],
            rest: Vec::new(),
        }),
    };
    assert_eq!(recovered, expected);
    // No node has reported and no publication has come since: the stored rows stay.
    store.commit(CycleRecord { next_share: 5, ..quiet(2) }).await.unwrap();
    store.close().await.unwrap();
    let recovered = place.open().await.recover().await.unwrap();
    assert_eq!(recovered.journal.as_ref().unwrap().cycles.len(), 2);
    let journal = recovered.journal.clone();
    assert_eq!(recovered, Recovered { cycle: 2, shares: Vec::new(), journal, ..expected });
}

#[tokio::test]
async fn a_node_varied_on_is_not_varied_off_after_a_restart() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(busy()).await.unwrap();
    let on = CycleRecord { nodes: vec![node("a2", 0)], next_share: 5, ..quiet(2) };
    store.commit(on).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(place.open().await.recover().await.unwrap().varied_off, []);
}

/// A copy of the file after a stop is complete.
#[tokio::test]
async fn closing_empties_the_log_despite_a_reader() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(busy()).await.unwrap();
    let mut archive = ReadOnlyStore::open(&place.path()).await.unwrap();
    assert_eq!(archive.feed_since(0, 10).await.unwrap().len(), 2);
    store.close().await.unwrap();
    let log = place.path().with_file_name("state.db-wal");
    assert_eq!(std::fs::metadata(log).unwrap().len(), 0);
    assert_eq!(archive.feed_since(0, 10).await.unwrap().len(), 2);
}

/// A quiet cycle adds the row of the cycle itself and no other row.
#[tokio::test]
async fn only_what_changed_is_written() {
    let place = Place::new();
    let mut store = place.open().await;
    let (preemptions, admin, feed) = (Vec::new(), Vec::new(), Vec::new());
    let steady = CycleRecord { preemptions, admin, feed, batch: None, checkpoint: None, ..busy() };
    store.commit(busy()).await.unwrap();
    let second = CycleRecord { cycle: 2, ..steady.clone() };
    assert_eq!(rows_written(&mut store, &second).await, 1);
    let third = CycleRecord {
        cycle: 3,
        nodes: vec![node("a1", 2), varied_off("a2", "disk swap")],
        shares: vec![share(3, "a1", SharePhase::Leaving)],
        ..steady
    };
    assert_eq!(rows_written(&mut store, &third).await, 4, "cycle, node, share, share gone");
    assert_eq!(place.read("select id || ' ' || state from shares").await, "3 leaving");
}

async fn rows_written(store: &mut Store, record: &CycleRecord) -> i64 {
    // `replace` counts the replaced row only if triggers see it, so each row counts once.
    let before = total_changes(store).await;
    store.commit(record.clone()).await.unwrap();
    total_changes(store).await - before
}

async fn total_changes(store: &mut Store) -> i64 {
    sqlx::query_scalar("select total_changes()").fetch_one(connection(store)).await.unwrap()
}

#[tokio::test]
async fn numbers_of_64_bits_come_back_as_they_were() {
    let place = Place::new();
    let huge = ShareRow { id: u64::MAX, job: u64::MAX - 1, ..share(1, "a1", SharePhase::Held) };
    let record = CycleRecord { shares: vec![huge.clone()], ..quiet(1) };
    place.open().await.commit(record).await.unwrap();
    assert_eq!(place.open().await.recover().await.unwrap().shares, [huge]);
}

/// The last statement of the transaction fails; the ones before it must not show.
#[tokio::test]
async fn nothing_of_a_failed_cycle_is_visible() {
    let place = Place::new();
    let mut store = place.open().await;
    let sabotage = "create trigger sabotage before insert on admin_acts
                    begin select raise(abort, 'sabotage'); end";
    place.execute(sabotage).await;
    let error = store.commit(busy()).await.unwrap_err();
    assert!(matches!(error, StoreError::Database { action: "record a cycle", .. }), "{error}");
    let rows = "select count(*) || '' from
                (select name from nodes union all select id from shares
                 union all select cycle from cycles union all select id from preemptions)";
    assert_eq!(place.read(rows).await, "0");
    assert_eq!(store.recover().await.unwrap().cycle, 0);
    place.execute("drop trigger sabotage").await;
    store.commit(busy()).await.unwrap();
    assert_eq!(place.read(rows).await, "7");
}

/// All kept cycles can be replayed from kept checkpoints, for any alignment of the numbers.
#[tokio::test]
async fn what_leads_to_the_oldest_cycle_stays_with_it() {
    let place = Place::new();
    let retention = Retention { cycles: 10, schedules: 3 };
    let mut store = place.open().await.keeping(retention);
    for cycle in 1..=40 {
        // Checkpoints after each fourth cycle stay; checkpoints between them go when the next
        // comes.
        let checkpoint =
            (cycle > 1 && cycle % 2 == 1).then(|| checkpoint(cycle - 1, cycle % 4 == 1));
        let record = CycleRecord {
            schedule_cycle: Some(cycle - cycle % 3),
            schedule: (cycle % 3 == 0).then(|| sealed("{}")),
            digest: Some(vec![1]),
            batch: Some(BatchRow { cycle, sealed: sealed(&cycle.to_string()) }),
            checkpoint: if cycle == 1 { Some(self::checkpoint(0, true)) } else { checkpoint },
            feed: vec![event(cycle, cycle)],
            last_event: cycle,
            ..quiet(cycle)
        };
        store.commit(record).await.unwrap();
        let mut archive = ReadOnlyStore::open(&place.path()).await.unwrap();
        let (oldest, newest) = archive.range().await.unwrap().unwrap();
        assert_eq!(newest, cycle);
        assert!(oldest <= cycle.saturating_sub(9).max(1), "{oldest}..={newest} are kept");
        assert!(cycle.saturating_sub(10 + 4) < oldest, "{oldest}..={newest} are kept");
        let checkpoint = archive.checkpoint_before(oldest).await.unwrap().unwrap();
        let led_to = archive.cycles_after(checkpoint.cycle, 100).await.unwrap();
        assert_eq!(led_to.first().unwrap().cycle, oldest);
        assert!(led_to.iter().all(|cycle| cycle.batches == [sealed(&cycle.cycle.to_string())]));
        let events = archive.feed_since(0, 100).await.unwrap();
        assert_eq!((events[0].seq, events.len()), (oldest, led_to.len()));
    }
    let kept = "select group_concat(cycle, ' ') from schedules
                union all select group_concat(cycle, ' ') from books";
    assert_eq!(place.read(kept).await, "36 39\n28 32 36 38");
}

#[tokio::test]
async fn an_archive_is_only_read() {
    let place = Place::new();
    let refusal = |error: StoreError| error.to_string();
    let error = ReadOnlyStore::open(&place.path()).await.map(|_| ()).map_err(refusal).unwrap_err();
    assert!(error.starts_with("there is no file"), "{error}");
    assert!(!place.path().exists());
    place.open().await.close().await.unwrap();
    place.execute("delete from _sqlx_migrations where version = 6").await;
    let error = ReadOnlyStore::open(&place.path()).await.map(|_| ()).map_err(refusal).unwrap_err();
    assert!(error.contains("its schema is 5, this one's is 6"), "{error}");
}

/// An event is returned unchanged or reported as changed; events before a changed event are
/// returned.
#[tokio::test]
async fn a_changed_event_is_named_and_hides_none_before_it() {
    let place = Place::new();
    place.open().await.commit(busy()).await.unwrap();
    let mut archive = ReadOnlyStore::open(&place.path()).await.unwrap();
    let whole = archive.feed_since(0, 10).await.unwrap();
    assert_eq!(whole, busy().feed);
    for change in ["cycle = 2", "at_ms = 71", "kind = 'gone'", "body = '[0]'", "sum = x'00'"] {
        place.execute("create table kept as select * from feed").await;
        place.execute(&format!("update feed set {change} where seq = 2")).await;
        assert_eq!(archive.feed_since(0, 10).await.unwrap(), whole[..1], "{change}");
        let error = archive.feed_since(1, 10).await.unwrap_err().to_string();
        let expected = format!(
            "`{}` is damaged (event 2 of the feed was changed after it was written); move it away",
            place.path().display()
        );
        assert!(error.starts_with(&expected), "{change}: {error}");
        place
            .execute("delete from feed; insert into feed select * from kept; drop table kept")
            .await;
    }
    assert_eq!(archive.feed_since(0, 10).await.unwrap(), whole);
    // After lost events the numbers go on behind them, so that a follower sees the gap.
    place.execute("update feed set seq = 9, sum = null where seq = 2").await;
    assert_eq!(archive.feed_since(0, 10).await.unwrap(), whole[..1]);
    assert_eq!(archive.feed_since(1, 10).await.unwrap()[0].seq, 9);
    place.execute("update feed set seq = 2 where seq = 9").await;
    // The state that an older version left.
    place.execute("update feed set sum = null, body = '[0]'").await;
    assert_eq!(archive.feed_since(0, 10).await.unwrap()[1].body, "[0]");
}

/// A full disk ends the transaction behind the connection's back. Once it has space again, so has
/// the daemon.
#[tokio::test]
async fn troubles_of_the_file_pass() {
    let place = Place::new();
    let mut store = place.open().await;
    let large = |cycle| CycleRecord {
        schedule_cycle: Some(cycle),
        schedule: Some(sealed(&"x".repeat(1 << 20))),
        ..quiet(cycle)
    };
    let troubles = [
        ("pragma max_page_count = 20", "the disk that holds `state.db` is full"),
        ("pragma query_only = true", "`state.db` cannot be written"),
    ];
    for (cycle, (trouble, message)) in (1..).zip(troubles) {
        // Both last as long as the connection does.
        raw_sql(trouble).execute(connection(&mut store)).await.unwrap();
        let error = store.commit(large(cycle)).await.unwrap_err().to_string();
        let error = error.replace(place.path().to_str().unwrap(), "state.db");
        assert!(error.starts_with(message), "{trouble}: {error}");
        store.commit(large(cycle)).await.unwrap();
    }
    assert_eq!(place.read("select count(*) || '' from cycles").await, "2");
}

#[tokio::test]
async fn a_client_that_keeps_the_file_locked_is_named_as_such() {
    let place = Place::new();
    let mut store = place.open().await;
    raw_sql("pragma busy_timeout = 0").execute(connection(&mut store)).await.unwrap();
    let mut client = place.client().await;
    let transaction = client.begin_with("begin immediate").await.unwrap();
    let error = store.commit(quiet(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    transaction.rollback().await.unwrap();
    store.commit(quiet(1)).await.unwrap();
}

/// This happens when an administrator acts after a restart and before the first publication.
#[tokio::test]
async fn a_cycle_recorded_again_gains_and_loses_nothing() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(busy()).await.unwrap();
    let again = CycleRecord {
        nodes: vec![varied_off("a1", "fan"), varied_off("a2", "disk swap")],
        admin: vec![act(&["a1"], Some("fan"))],
        next_share: 5,
        ..quiet(1)
    };
    store.commit(again).await.unwrap();
    let sql = "select cast(body as text) || ' ' || publication_sequence || ' ' || hex(digest)
               from cycles join schedules using (cycle)
               union all select count(*) || ' preemptions' from preemptions
               union all select count(*) || ' acts' from admin_acts";
    assert_eq!(place.read(sql).await, "{} 12 D19E\n2 preemptions\n3 acts");
    assert_eq!(store.recover().await.unwrap().varied_off.len(), 2);
}

/// F242: neither a failed cycle, nor a cycle committed again, nor a restart brings the share back.
#[tokio::test]
async fn a_share_that_is_gone_is_not_on_record_again() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(busy()).await.unwrap();
    let without_4 = |cycle, state| CycleRecord {
        nodes: vec![node("a1", 2)],
        shares: vec![share(3, "a1", state)],
        next_share: 5,
        ..quiet(cycle)
    };
    let shares = "select group_concat(id || ' ' || state) from shares";
    // The cycle that removes the share fails, so the share stays stored until the next.
    place
        .execute("create trigger no before delete on shares begin select raise(abort, 'no'); end")
        .await;
    store.commit(without_4(2, SharePhase::Held)).await.unwrap_err();
    assert_eq!(place.read(shares).await, "3 held,4 leaving");
    place.execute("drop trigger no").await;
    store.commit(without_4(2, SharePhase::Held)).await.unwrap();
    assert_eq!(place.read(shares).await, "3 held");
    store.commit(without_4(2, SharePhase::Leaving)).await.unwrap();
    assert_eq!(place.read(shares).await, "3 leaving");
    store.close().await.unwrap();

    let mut store = place.open().await;
    store.commit(without_4(3, SharePhase::Leaving)).await.unwrap();
    assert_eq!(place.read(shares).await, "3 leaving");
    store
        .commit(CycleRecord { nodes: vec![node("a1", 0)], next_share: 5, ..quiet(4) })
        .await
        .unwrap();
    assert_eq!(place.read("select count(*) || '' from shares").await, "0");
}

#[tokio::test]
async fn numbers_never_go_back() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(CycleRecord { next_share: 50, ..quiet(8) }).await.unwrap();
    let cases = [
        (CycleRecord { next_share: 50, ..quiet(7) }, "cycle 7 comes after cycle 8 is on record"),
        (CycleRecord { next_share: 49, ..quiet(9) }, "share number 49 was issued before"),
    ];
    for (record, message) in cases {
        let error = store.commit(record).await.unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    store.commit(CycleRecord { next_share: 50, ..quiet(9) }).await.unwrap();
    assert_eq!(store.recover().await.unwrap().cycle, 9);
}

#[tokio::test]
async fn the_oldest_goes_when_the_record_is_full() {
    let place = Place::new();
    let retention = Retention { cycles: 100, ..Retention::default() };
    let mut store = place.open().await.keeping(retention);
    let cycles = 102;
    for cycle in 1..=cycles {
        store.commit(quiet(cycle)).await.unwrap();
    }
    let acts = vec![act(&["a1"], None); usize::try_from(ADMIN_ACTS_KEPT).unwrap()];
    let losses = vec![preemption(1, None); usize::try_from(PREEMPTIONS_KEPT).unwrap()];
    for cycle in cycles + 1..=cycles + 2 {
        let (preemptions, admin) = (losses.clone(), acts.clone());
        store.commit(CycleRecord { preemptions, admin, ..quiet(cycle) }).await.unwrap();
    }
    let kept = "select min(cycle) || ' ' || count(*) from cycles
                union all select min(cycle) || ' ' || count(*) from preemptions
                union all select min(cycle) || ' ' || count(*) from admin_acts";
    assert_eq!(place.read(kept).await, "5 100\n104 100000\n104 10000");
}

#[tokio::test]
async fn a_second_daemon_is_refused_until_the_first_is_gone() {
    let place = Place::new();
    let first = place.open().await;
    let expected = format!(
        "`state.db` is in use by another apportion (process {}); stop that one, or give this one \
         a file of its own",
        std::process::id()
    );
    assert_eq!(place.refusal().await, expected);
    drop(first);
    place.open().await;
}

#[tokio::test]
async fn another_name_for_the_same_file_is_no_way_around_the_lock() {
    let place = Place::new();
    let _first = place.open().await;
    let alias = place.folder.path().join("alias.db");
    std::os::unix::fs::symlink(place.path(), &alias).unwrap();
    let error = Store::open(&alias).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_folder_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path()).unwrap();
    assert_eq!(place.refusal().await, "`state.db` is a folder; name a file in it");
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_alone() {
    for sql in ["create table mail (id)", "pragma application_id = 7; create table mail (id)"] {
        let place = Place::new();
        place.execute(sql).await;
        let before = std::fs::read(place.path()).unwrap();
        let expected = "`state.db` is another program's database; name another file";
        assert_eq!(place.refusal().await, expected);
        assert_eq!(std::fs::read(place.path()).unwrap(), before, "{sql}");
    }
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    let text = "quantum 15GB\n".repeat(100);
    std::fs::write(place.path(), &text).unwrap();
    let expected = "`state.db` is not a database; name another file, or move this one away";
    assert_eq!(place.refusal().await, expected);
    assert_eq!(std::fs::read_to_string(place.path()).unwrap(), text);
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    let place = Place::new();
    let mut store = place.open().await;
    store.commit(busy()).await.unwrap();
    store.close().await.unwrap();
    let whole = std::fs::read(place.path()).unwrap();
    for pages in [1, 3, 6] {
        std::fs::write(place.path(), &whole[..pages * 4096]).unwrap();
        let refusal = place.refusal().await;
        assert!(refusal.starts_with("`state.db` is damaged ("), "{pages} pages: {refusal}");
    }
}

#[tokio::test]
async fn damage_within_a_file_is_told_on_one_line() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    let mut bytes = std::fs::read(place.path()).unwrap();
    bytes[4096..8192].fill(0xaa);
    std::fs::write(place.path(), &bytes).unwrap();
    let refusal = place.refusal().await;
    assert!(refusal.starts_with("`state.db` is damaged ("), "{refusal}");
    assert!(!refusal.contains('\n'), "{refusal}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    let newer = "insert into _sqlx_migrations (version, description, success, checksum,
                     execution_time) values (999, 'newer', true, x'00', 0)";
    place.execute(newer).await;
    let refusal = place.refusal().await;
    let known = migrations().iter().map(|migration| migration.version).max().unwrap();
    let expected = format!(
        "`state.db` was written by a newer apportion (its schema is 999, this one knows {known}); \
         install that version or newer, or restore a copy from before the upgrade"
    );
    assert_eq!(refusal, expected);
}

#[tokio::test]
async fn a_schema_of_another_build_is_refused() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    place.execute("update _sqlx_migrations set checksum = x'00'").await;
    let expected = "`state.db` has a schema 1 that differs from this apportion's; use the build \
                    that wrote it";
    assert_eq!(place.refusal().await, expected);
}
