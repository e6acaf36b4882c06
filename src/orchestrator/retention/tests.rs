//! Old rows are removed at the configured times; other rows stay.

use std::sync::Arc;

use super::*;
use crate::orchestrator::book::{
    AttemptRow, CampaignRow, CampaignState, Effect, TaskRow, TaskState,
};
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::store::{Batch, CallerAct, CampaignStore, Submission, first_fault};
use crate::orchestrator::wire::{AttemptId, CampaignStats, Reason, TaskResult};

/// Rows of attempts of a campaign: more than a single step removes.
const TASKS: u64 = 5000;

fn found(campaign: u64, final_ms: u64) -> Final {
    Final { final_ms, campaign }
}

#[test]
fn what_ended_first_goes_first() {
    let counted: BTreeMap<Final, u64> =
        [(found(7, 10), 100), (found(3, 2 * DAY_MS), 40), (found(4, 3 * DAY_MS), 60)].into();
    let due = |days, rows| {
        let retention = CampaignRetention { days, rows, campaign_days: 400 };
        let due = due(&counted, retention, 3 * DAY_MS);
        due.into_iter().map(|found| found.campaign).collect::<Vec<_>>()
    };
    assert_eq!(due(30, 200), Vec::<u64>::new(), "all fit");
    assert_eq!(due(30, 199), [7]);
    assert_eq!(due(30, 100), [7], "100 rows are left");
    assert_eq!(due(30, 99), [7, 3]);
    assert_eq!(due(30, 0), [7, 3, 4]);
    assert_eq!(due(1, 200), [7], "the second is a day old, and not older");
}

/// A database, its owner's side, and a sweeper.
struct Place {
    folder: tempfile::TempDir,
    store: CampaignStore,
}

impl Place {
    async fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = CampaignStore::open(&folder.path().join("orchestrator.db")).await.unwrap();
        Place { folder, store }
    }

    /// A campaign of lines that ended, or has not, with an attempt of each task.
    async fn campaign(&mut self, id: u64, state: CampaignState, at_ms: u64) {
        let lines: Vec<String> = (0..TASKS).map(|line| format!("line {line}")).collect();
        let document = serde_json::json!({ "command": ["true"], "lines": lines });
        let document = document.as_object().unwrap().clone();
        let (spec, params) = CampaignSpec::read(document).unwrap();
        let spec_number = self.store.spec_number(&spec, None).await.unwrap();
        let row = CampaignRow { spec: spec_number, ..row(id, state) };
        let mut effects = vec![Effect::Campaign(row)];
        for task in 1..=TASKS {
            let done = TaskRow { state: TaskState::Done, ..TaskRow::untouched(id, task) };
            effects.push(Effect::Task(TaskRow { attempt: 1, ..done }));
            effects.push(Effect::Attempt(attempt(id, task, at_ms)));
        }
        let key = Some(("ann".to_owned(), format!("key {id}")));
        let spec = Arc::new(spec);
        let (stdin, acts) = (None, vec![act(id, at_ms)]);
        let submission = Submission { campaign: id, spec_number, spec, stdin, params, key };
        let submissions = vec![submission];
        let batch = Batch { effects, submissions, acts, at_ms, ..Batch::default() };
        self.store.commit(&batch).await.unwrap();
    }

    async fn reader(&self) -> StoreReader {
        StoreReader::open(self.store.path()).await.unwrap()
    }

    /// Sweeps at a time, and returns how many steps that took.
    async fn sweep(&mut self, retention: CampaignRetention, now_ms: u64) -> u64 {
        let (requests, mut inbox) = mpsc::channel(1);
        let path = self.folder.path().join("orchestrator.db");
        let mut sweeper = Sweeper::open(&path, retention, requests).await.unwrap();
        let sweeping = tokio::spawn(async move { sweeper.sweep(now_ms).await.unwrap() });
        let mut steps = 0;
        while let Some(request) = inbox.recv().await {
            let BookRequest::Remove(removal, reply) = request else { panic!("{request:?}") };
            steps += 1;
            reply.send(self.store.remove(&removal).await.unwrap()).unwrap();
        }
        sweeping.await.unwrap();
        steps
    }

    async fn figures(&self, id: u64) -> CampaignStats {
        stats_of(&mut self.reader().await, id).await.unwrap()
    }

    async fn rows(&self, id: u64) -> u64 {
        self.reader().await.rows(id).await.unwrap()
    }
}

fn row(id: u64, state: CampaignState) -> CampaignRow {
    CampaignRow {
        id,
        owner: "ann".to_owned(),
        uid: None,
        spec: 0,
        total: TASKS,
        submitted_ms: 1,
        state,
        ending: None,
        taken: TASKS,
        limit: TASKS,
        done: TASKS,
        failed: 0,
        cancelled: 0,
        dropped: 0,
        init_fails: 0,
        has_begun: true,
        ended_ms: 40 * TASKS,
        ended: TASKS,
        prepared_ms: 3,
        rss_mb: 90,
        verdict: None,
        waits_for: std::collections::BTreeSet::new(),
        opens_ms: None,
        hook_of: None,
        epilogue: None,
        hook_cluster: None,
        prepared: std::collections::BTreeSet::new(),
        epilogues: std::collections::BTreeSet::new(),
    }
}

fn attempt(campaign: u64, task: u64, at_ms: u64) -> AttemptRow {
    let id = AttemptId { campaign, task, attempt: 1 };
    let result = TaskResult {
        number: task,
        task: id,
        why: Reason::Done,
        exit: Some(0),
        signal: None,
        ms: 30 + task,
        cpu_ms: 20,
        peak_mb: 95,
        rss_mb: 90,
        out: [0, 120],
        tail: "it was done".to_owned(),
        error: String::new(),
        has_saved: false,
    };
    let (node, result) = ("n1".into(), Some(result));
    AttemptRow { id, share: 1, node, assigned_ms: 5, result, ended_ms: Some(at_ms) }
}

fn act(id: u64, at_ms: u64) -> CallerAct {
    let word = |text: &str| text.to_owned();
    let detail = format!("campaign {id}");
    CallerAct { at_ms, who: word("ann"), origin: word("tcp"), act: word("submit"), detail }
}

#[tokio::test]
async fn tasks_are_folded_and_figures_stay() {
    let mut place = Place::new().await;
    place.campaign(1, CampaignState::Done, DAY_MS).await;
    place.campaign(2, CampaignState::Done, 2 * DAY_MS).await;
    place.campaign(3, CampaignState::Running, DAY_MS).await;
    let retention = CampaignRetention::default();
    assert_eq!(
        place.sweep(retention, 31 * DAY_MS).await,
        2,
        "only acts and rows of the grid are looked for"
    );
    let before = place.figures(1).await;
    assert_eq!((before.ms.count, before.ms.max, before.rss_mb.p50), (TASKS, 5030, 90));

    let now_ms = 31 * DAY_MS + 1;
    let steps = place.sweep(retention, now_ms).await;
    assert!(6 < steps, "{steps} steps: some of them were too large");
    let mut after = place.figures(1).await;
    assert_eq!(after.campaign.folded_ms, Some(now_ms));
    after.campaign.folded_ms = None;
    assert_eq!(after, before);
    assert_eq!(
        [place.rows(1).await, place.rows(2).await, place.rows(3).await],
        [0, 10_000, 10_000]
    );
    let mut reader = place.reader().await;
    assert_eq!(reader.param(1, 9).await.unwrap(), None);
    assert_eq!(reader.param(2, 9).await.unwrap().as_deref(), Some("line 9"));
    assert_eq!(place.store.finals(1, &[TaskState::Done]).await.unwrap(), None);
    // Of the same age or not: the rows that are kept are too many.
    let few = CampaignRetention { rows: 9_999, ..retention };
    place.sweep(few, now_ms).await;
    assert_eq!([place.rows(2).await, place.rows(3).await], [0, 10_000], "a live one stays");
}

#[tokio::test]
async fn a_fold_that_was_broken_off_goes_on() {
    let mut place = Place::new().await;
    place.campaign(1, CampaignState::Done, DAY_MS).await;
    let before = place.figures(1).await;
    let figures = Box::new(before.clone());
    let fold = |final_ms| {
        let figures = figures.clone();
        RemovalStep::Fold { campaign: 1, final_ms, figures, at_ms: 9 * DAY_MS }
    };
    // The campaign was resubmitted since the sweep found it, and ended at another time.
    place.store.remove(&fold(DAY_MS - 1)).await.unwrap();
    assert_eq!(place.figures(1).await.campaign.folded_ms, None);
    place.store.remove(&RemovalStep::Empty(1)).await.unwrap();
    assert_eq!(place.rows(1).await, 10_000, "there is no summary");
    place.store.remove(&fold(DAY_MS)).await.unwrap();
    assert!(place.store.remove(&RemovalStep::Empty(1)).await.unwrap());
    place.store.remove(&RemovalStep::Forget(1)).await.unwrap();
    assert_eq!(place.rows(1).await, 8_000, "and it is not forgotten before it is empty");
    place.sweep(CampaignRetention::default(), 10 * DAY_MS).await;
    assert_eq!(place.rows(1).await, 0);
    assert_eq!(place.figures(1).await.ms, before.ms);
}

#[tokio::test]
async fn campaigns_and_acts_go_after_a_longer_time() {
    let mut place = Place::new().await;
    place.campaign(1, CampaignState::Done, DAY_MS).await;
    place.campaign(2, CampaignState::Done, 100 * DAY_MS).await;
    let retention = CampaignRetention::default();
    place.sweep(retention, 401 * DAY_MS + 1).await;
    let mut reader = place.reader().await;
    assert_eq!(reader.campaign(1).await.unwrap(), None);
    assert_eq!(place.store.submitted("ann", "key 1").await.unwrap(), None);
    let second = reader.campaign(2).await.unwrap().unwrap();
    assert!(second.folded_ms.is_some());
    assert_eq!(reader.spec(&second.row).await.unwrap().tasks.count, TASKS, "a shared one stays");
    let (cut, acts) = reader.acts().await.unwrap();
    assert_eq!((cut.last, acts.len(), first_fault(&cut, &acts)), (1, 1, None));

    place.sweep(retention, 501 * DAY_MS).await;
    assert!(reader.spec(&second.row).await.is_err(), "no campaign has it");
    let acts = vec![act(9, 502 * DAY_MS)];
    place.store.commit(&Batch { acts, ..Batch::default() }).await.unwrap();
    let (cut, mut acts) = reader.acts().await.unwrap();
    assert_eq!((cut.last, acts[0].id, first_fault(&cut, &acts)), (2, 3, None));
    acts[0].act.who = "eve".to_owned();
    assert_eq!(first_fault(&cut, &acts), Some(3));
}
