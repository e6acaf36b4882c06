//! Committed rows are read back; damaged or foreign files are refused.

use std::path::PathBuf;

use super::*;
use crate::orchestrator::book::{
    AttemptRow, Book, CampaignRow, Effect, Event, NewCampaign, Now, Settings, SlotRow, SlotState,
    TaskRow, TaskState,
};
use crate::orchestrator::spec::{CampaignSpec, Params};
use crate::orchestrator::wire::AttemptId;

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("orchestrator.db")
}

fn spec(text: &str) -> (Arc<CampaignSpec>, Params) {
    let (spec, params) = CampaignSpec::read(toml::from_str(text).unwrap()).unwrap();
    (Arc::new(spec), params)
}

use std::sync::Arc;

/// Submits a campaign of `lines` lines, and returns its number.
async fn submit(store: &mut CampaignStore, book: &mut Book, lines: usize) -> u64 {
    let lines: Vec<String> = (0..lines).map(|line| format!("line {line} ü\t\"")).collect();
    let text = format!("command = [\"true\"]\nlines = {}", serde_json::to_string(&lines).unwrap());
    submit_text(store, book, &text).await
}

/// Submits the campaign of a file, and returns its number.
async fn submit_text(store: &mut CampaignStore, book: &mut Book, text: &str) -> u64 {
    let (spec, params) = spec(text);
    let spec_number = store.spec_number(&spec, None).await.unwrap();
    let campaign = book.next_number();
    let new = NewCampaign {
        owner: "ann".into(),
        uid: Some(1000),
        spec_number,
        spec: Arc::clone(&spec),
        hooks: Vec::new(),
    };
    let effects = book.record(Event::Submitted(Box::new(new)), Now { ms: 1, wall_ms: 2 });
    let key = Some(("ann".to_owned(), format!("key {campaign}")));
    let submission = Submission { campaign, spec_number, spec, stdin: None, params, key };
    let batch = Batch { effects, submissions: vec![submission], at_ms: 2, ..Batch::default() };
    store.commit(&batch).await.unwrap();
    campaign
}

#[tokio::test]
async fn a_campaign_is_read_back_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let mut book = Book::new(Settings::default());
    let first = submit(&mut store, &mut book, 10_000).await;
    let second = submit(&mut store, &mut book, 3).await;
    let effects = book.record(Event::TaskCancelled(first, 9000), Now { ms: 5, wall_ms: 6 });
    store.commit(&Batch { effects, ..Batch::default() }).await.unwrap();
    let (identity, epoch) = (store.identity().to_owned(), store.epoch());
    store.close().await.unwrap();

    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    assert_eq!((store.identity(), store.epoch()), (identity.as_str(), epoch + 1));
    let saved = store.saved().await.unwrap();
    assert_eq!((saved.next, saved.campaigns.len(), saved.tasks.len()), (3, 2, 1));
    let again = Book::restore(Settings::default(), saved, 7);
    for (id, campaign) in book.campaigns() {
        assert_eq!(campaign.row(), again.campaigns()[id].row());
        assert_eq!(campaign.cursor, again.campaigns()[id].cursor);
    }
    let (at, texts) = store.params(first, 9_999).await.unwrap().unwrap();
    assert_eq!((at, texts.len(), texts.last().unwrap().as_str()), (8192, 1808, "line 9999 ü\t\""));
    assert_eq!(store.submitted("ann", "key 2").await.unwrap(), Some(second));
    assert_eq!(store.submitted("bob", "key 2").await.unwrap(), None);

    let mut reader = StoreReader::open(&file(&folder)).await.unwrap();
    let all = reader.campaigns(Some("ann"), 0..=9, 10).await.unwrap();
    assert_eq!(all.iter().map(|info| info.row.id).collect::<Vec<_>>(), [second, first]);
    assert_eq!(reader.param(first, 4096).await.unwrap().as_deref(), Some("line 4096 ü\t\""));
    let cancelled = reader.tasks(first, Some(TaskState::Cancelled), 0, 10).await.unwrap();
    assert_eq!(cancelled.iter().map(|row| row.task).collect::<Vec<_>>(), [9000]);
}

/// Adds lines to a campaign of `position` lines.
async fn extend(
    store: &mut CampaignStore,
    book: &mut Book,
    campaign: u64,
    position: u64,
    lines: u64,
) {
    let texts = (position..position + lines).map(|line| format!("line {line} ü\t\"")).collect();
    let effects = book.record(Event::Extended(campaign, lines), Now { ms: 3, wall_ms: 4 });
    let added = Added { position, count: lines };
    let key = Some(format!("key {position}"));
    let extension = Extension { campaign, added, params: Params::Texts(texts), key };
    let batch = Batch { effects, extensions: vec![extension], at_ms: 4, ..Batch::default() };
    store.commit(&batch).await.unwrap();
}

#[tokio::test]
async fn lines_that_are_added_fill_the_last_chunk_and_begin_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let mut book = Book::new(Settings::default());
    let other = submit(&mut store, &mut book, 10).await;
    let id = submit(&mut store, &mut book, 10).await;
    let mut total = 10;
    for lines in [1, 4085, 1, 4095, 9000, 3] {
        extend(&mut store, &mut book, id, total, lines).await;
        total += lines;
    }
    let mut reader = StoreReader::open(&file(&folder)).await.unwrap();
    for line in (0..total).step_by(61).chain([10, 4095, 4096, 8191, 8192, total - 1]) {
        let param = reader.param(id, line).await.unwrap();
        assert_eq!(param, Some(format!("line {line} ü\t\"")));
    }
    assert_eq!(reader.param(id, total).await.unwrap(), None);
    let added = Some(Added { position: 11, count: 4085 });
    assert_eq!(store.added(id, "key 11").await.unwrap(), added);
    assert_eq!(store.added(other, "key 11").await.unwrap(), None);
    // An extension that fails leaves no trace: neither lines nor a larger number of tasks.
    let effects = book.record(Event::Extended(id, 1), Now { ms: 5, wall_ms: 6 });
    let (added, params) =
        (Added { position: total, count: 1 }, Params::Texts(vec!["torn".to_owned()]));
    let key = Some("key 11".to_owned());
    let extensions = vec![Extension { campaign: id, added, params, key }];
    let batch = Batch { effects, extensions, ..Batch::default() };
    store.commit(&batch).await.unwrap_err();
    assert_eq!(reader.param(id, total).await.unwrap(), None);
    store.close().await.unwrap();

    // Both campaigns share a specification; each has its own number of tasks.
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let saved = store.saved().await.unwrap();
    let counts: Vec<(u64, u64, u64)> = saved
        .campaigns
        .iter()
        .map(|(row, spec)| (row.total, row.limit, spec.tasks.count))
        .collect();
    assert_eq!(counts, [(10, 10, 10), (total, total, total)]);
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let mut book = Book::new(Settings::default());
    let id = submit(&mut store, &mut book, 1).await;
    let twice = Submission {
        campaign: id,
        spec_number: 1,
        spec: spec("command = [\"true\"]").0,
        stdin: None,
        params: Params::Numbers,
        key: Some(("ann".to_owned(), format!("key {id}"))),
    };
    let effects = vec![Effect::Next(99)];
    let batch = Batch { effects, submissions: vec![twice], ..Batch::default() };
    store.commit(&batch).await.unwrap_err();
    assert_eq!(store.saved().await.unwrap().next, 2);
}

#[tokio::test]
async fn one_orchestrator_has_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let _first = CampaignStore::open(&file(&folder)).await.unwrap();
    let error = CampaignStore::open(&file(&folder)).await.unwrap_err();
    assert!(matches!(error, DbError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn an_older_copy_is_noticed_and_a_foreign_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    CampaignStore::open(&file(&folder)).await.unwrap().close().await.unwrap();
    let copy = std::fs::read(file(&folder)).unwrap();
    CampaignStore::open(&file(&folder)).await.unwrap().close().await.unwrap();
    std::fs::write(file(&folder), copy).unwrap();
    // Each opening notices it, until it is adopted.
    for epoch in 3..5 {
        let store = CampaignStore::open(&file(&folder)).await.unwrap();
        assert_eq!((store.is_set_back(), store.epoch()), (true, epoch));
        store.close().await.unwrap();
    }
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    store.commit(&Batch { adopts: true, ..Batch::default() }).await.unwrap();
    assert!(!store.is_set_back());
    // A copy of the same epoch has fewer commits.
    let copy = folder.path().join("copy.db");
    let into = copy.to_string_lossy().into_owned();
    query("vacuum into ?1").bind(into).execute(&mut store.connection).await.unwrap();
    store.commit(&Batch::default()).await.unwrap();
    store.close().await.unwrap();
    std::fs::copy(copy, file(&folder)).unwrap();
    assert!(CampaignStore::open(&file(&folder)).await.unwrap().is_set_back());

    let foreign = folder.path().join("state.db");
    let options = SqliteConnectOptions::new().filename(&foreign).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    query("create table t (a)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let error = CampaignStore::open(&foreign).await.unwrap_err();
    assert!(matches!(error, DbError::Foreign { .. }), "{error}");
}

#[tokio::test]
async fn acts_are_bound_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let word = |text: &str| text.to_owned();
    let act = |act: &str| CallerAct {
        at_ms: 1,
        who: word("ann"),
        origin: word("tcp"),
        act: word(act),
        detail: word("9"),
    };
    for name in ["submit", "cancel", "resubmit"] {
        store.commit(&Batch { acts: vec![act(name)], ..Batch::default() }).await.unwrap();
    }
    let (cut, mut acts) = StoreReader::open(&file(&folder)).await.unwrap().acts().await.unwrap();
    assert_eq!((acts.len(), first_fault(&cut, &acts)), (3, None));
    acts[1].act.who = word("eve");
    assert_eq!(first_fault(&cut, &acts), Some(2));
    let refused = query("delete from acts").execute(&mut store.connection).await.unwrap_err();
    assert!(refused.to_string().contains("only added to"), "{refused}");
}

#[tokio::test]
async fn a_database_of_the_first_version_opens() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(file(&folder)).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    query("pragma application_id = 0x6170704f").execute(&mut connection).await.unwrap();
    let first = Migrator::with_migrations(migrations().iter().take(1).cloned().collect());
    first.run_direct(None, &mut connection, false).await.unwrap();
    connection.close().await.unwrap();
    // Campaigns that ended under the first version have no time of their end.
    let options = SqliteConnectOptions::new().filename(file(&folder));
    let mut connection = options.connect().await.unwrap();
    for sql in [
        "insert into specs values (1, x'00', '{}', null)",
        "insert into campaigns values (8, 'bob', null, 1, '', 1, 5, 'done', null, 1, 1, 1, 0, 0, 0, 0, 1, 9, 1, 0, 0)",
        "insert into campaigns values (9, 'bob', null, 1, '', 0, 6, 'cancelled', 'cancelled', 0, 0, 0, 0, 1, 0, 0,
             0, 0, 0, 0, 0)",
        "insert into attempts values (8, 1, 1, 4, 'n1', 6, 77, 'done', '{}')",
    ] {
        query(sql).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let id = submit(&mut store, &mut Book::new(Settings::default()), 2).await;
    let mut reader = StoreReader::open(&file(&folder)).await.unwrap();
    assert_eq!(reader.ends(id).await.unwrap(), Ends::default());
    let events = reader.events(0, 9).await.unwrap();
    assert_eq!((events.len(), events[0].code.as_str()), (1, "submitted"));
    assert_eq!((reader.last_event().await.unwrap(), events[0].owner.as_str()), (1, "ann"));
    let ends = [Final { final_ms: 6, campaign: 9 }, Final { final_ms: 77, campaign: 8 }];
    assert_eq!(reader.to_fold().await.unwrap(), ends);
}

/// A batch may have many rows, and several versions of a row.
#[tokio::test]
async fn of_each_row_the_last_version_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let campaign = submit(&mut store, &mut Book::new(Settings::default()), 100).await;
    let task = |task, state| {
        Effect::Task(TaskRow { state, attempt: 1, ..TaskRow::untouched(campaign, task) })
    };
    let attempt = |task, ended_ms| {
        let id = AttemptId { campaign, task, attempt: 1 };
        let node = "n1".into();
        Effect::Attempt(AttemptRow { id, share: 1, node, assigned_ms: 1, result: None, ended_ms })
    };
    let slot = |share, order| {
        Effect::Slot(SlotRow {
            share,
            node: "n1".into(),
            campaign,
            step: 0,
            work: campaign,
            state: SlotState::Working,
            order,
            acked: 0,
            boot: None,
            stop: None,
            drains: false,
            rank: Some(3),
            memory_mb: None,
        })
    };
    // More rows than a statement of each size takes.
    let mut effects: Vec<Effect> = Vec::new();
    for number in 1..=75 {
        effects.extend([task(number, TaskState::Assigned), attempt(number, None)]);
        effects.extend([slot(number, 1), task(number, TaskState::Running), slot(number, 2)]);
    }
    effects.extend([
        Effect::SlotForgotten(7),
        attempt(75, Some(9)),
        Effect::SlotForgotten(8),
        slot(8, 3),
    ]);
    store.commit(&Batch { effects, ..Batch::default() }).await.unwrap();
    let saved = store.saved().await.unwrap();
    assert_eq!(saved.tasks.len(), 75);
    assert!(saved.tasks.iter().all(|row| row.state == TaskState::Running), "{:?}", saved.tasks);
    let ended = |row: &&AttemptRow| row.ended_ms.is_some();
    let ended: Vec<u64> = saved.attempts.iter().filter(ended).map(|row| row.id.task).collect();
    assert_eq!((saved.attempts.len(), ended), (75, vec![75]));
    let orders: Vec<(u64, u64)> = saved.slots.iter().map(|row| (row.share, row.order)).collect();
    let order = |share| (share, if share == 8 { 3 } else { 2 });
    let expected: Vec<(u64, u64)> = (1..=75).filter(|share| *share != 7).map(order).collect();
    assert_eq!(orders, expected);
}

#[tokio::test]
async fn a_gang_has_a_secret_and_a_verdict_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let mut book = Book::new(Settings::default());
    let gang = "command = [\"true\"]\ngang = { nodes = 3 }";
    let first = submit_text(&mut store, &mut book, gang).await;
    let second = submit_text(&mut store, &mut book, gang).await;
    let plain = submit(&mut store, &mut book, 3).await;
    let verdict = Some(TaskState::Failed);
    let row = CampaignRow { verdict, ..book.campaigns()[&first].row() };
    let effects = vec![Effect::Campaign(row)];
    store.commit(&Batch { effects, ..Batch::default() }).await.unwrap();
    let key = store.gang_key(first).await.unwrap();
    assert_eq!(key.0.len(), 64);
    assert_ne!(key, store.gang_key(second).await.unwrap());
    assert_eq!(store.gang_key(plain).await.unwrap().0, "");
    let saved = store.saved().await.unwrap();
    let verdicts: Vec<_> = saved.campaigns.iter().map(|(row, _)| row.verdict).collect();
    assert_eq!(verdicts, [verdict, None, None]);
}

#[tokio::test]
async fn a_database_from_before_gangs_opens() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    submit(&mut store, &mut Book::new(Settings::default()), 3).await;
    for sql in [
        "alter table campaigns drop column verdict",
        "alter table campaigns drop column gang_key",
        "delete from _sqlx_migrations where version = 7",
        "insert into slots (share, node, campaign, facts) values (7, 'n1', 1, '{\"share\":7,
             \"node\":\"n1\",\"campaign\":1,\"step\":0,\"work\":1,\"state\":\"working\",\"order\":2,
             \"acked\":0,\"boot\":\"b\",\"stop\":null,\"drains\":false}')",
    ] {
        query(sql).execute(&mut store.connection).await.unwrap();
    }
    store.close().await.unwrap();
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let saved = store.saved().await.unwrap();
    assert_eq!(saved.campaigns[0].0.verdict, None);
    assert_eq!(
        (saved.slots[0].share, saved.slots[0].rank, saved.slots[0].memory_mb),
        (7, None, None)
    );
    assert_eq!(store.gang_key(1).await.unwrap().0, "");
}

/// A database of the first version with gangs, with a campaign under way.
const OLDER: &str = "
insert into meta (one, identity, epoch, next, sequence) values (1, '0a1b2c3d', 4, 2, 9);
insert into campaigns (id, owner, uid, spec, name, total, submitted_ms, state, taken, positions, done, failed,
    cancelled, dropped, init_fails, has_begun, ended_ms, ended, prepared_ms, rss_mb)
    values (1, 'ann', 1000, 1, '', 9, 5, 'running', 2, 9, 1, 0, 0, 0, 0, 1, 70, 1, 3, 8);
insert into works (campaign, step, memory_mb, number) values (1, 0, 1024, 1);
insert into tasks (campaign, task, state, attempt, tries, losses, resubmits, priority, step, share, cancel)
    values (1, 1, 'done', 1, 0, 0, 0, 10, 0, null, 0), (1, 2, 'running', 1, 0, 0, 0, 10, 0, 7, 0);
insert into attempts (campaign, task, attempt, share, node, assigned_ms) values (1, 2, 1, 7, 'n1', 6);
";

#[tokio::test]
async fn a_database_of_before_opens_and_its_campaign_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (spec, _) = spec("command = [\"true\"]\ntasks = 9");
    {
        let options = SqliteConnectOptions::new().filename(file(&folder)).create_if_missing(true);
        let mut older = options.connect().await.unwrap();
        query("pragma application_id = 0x6170704f").execute(&mut older).await.unwrap();
        let first = Migrator::with_migrations(migrations().iter().take(7).cloned().collect());
        first.run_direct(None, &mut older, false).await.unwrap();
        let text = serde_json::to_string(&*spec).unwrap();
        for field in ["mode", "after", "active"] {
            assert!(!text.contains(&format!("\"{field}\":")), "a field of later: {text}");
        }
        let insert = "insert into specs (number, sha256, text) values (1, x'00', ?1)";
        query(insert).bind(text).execute(&mut older).await.unwrap();
        sqlx::raw_sql(OLDER).execute(&mut older).await.unwrap();
        older.close().await.unwrap();
    }
    let mut store = CampaignStore::open(&file(&folder)).await.unwrap();
    let saved = store.saved().await.unwrap();
    let (row, known) = &saved.campaigns[0];
    assert_eq!((row.done, row.waits_for.len(), row.opens_ms), (1, 0, None));
    assert_eq!(*known, spec);
    assert_eq!((saved.tasks.len(), saved.tasks[0].live, saved.attempts.len()), (1, None, 1));
    let mut book = Book::restore(Settings::default(), saved, 0);
    let work = &book.publication(0)[0];
    assert_eq!((work.work, work.remaining, work.is_frozen), (1, 8, false));
    let effects = book.record(Event::Cancelled(1), Now { ms: 1, wall_ms: 7 });
    store.commit(&Batch { effects, at_ms: 7, ..Batch::default() }).await.unwrap();
}
