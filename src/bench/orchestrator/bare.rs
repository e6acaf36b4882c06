//! Baseline of task starts: a handler that commits the same rows in the same batches.
//!
//! The handler reads the same exchanges and answers in the same form. A counter takes the place of
//! the state: the handler tracks no lease, no task state and no share.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Path as InPath, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::model::Name;
use crate::orchestrator::book::{
    AttemptRow, Book, Effect, Event, NewCampaign, Now, Settings, SlotRow, SlotState, TaskRow,
    TaskState,
};
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::store::{Batch, CampaignStore, DbError, Submission};
use crate::orchestrator::wire::{
    AttemptId, Exchange, ExchangeAnswer, NewTask, SlotOrder, SlotReport, TaskSpec, VERSION,
};

/// Most exchanges in a batch: as many as the orchestrator takes.
const BATCH: usize = 512;

/// Work of the bare handler.
#[derive(Clone, Copy, Debug)]
pub struct BareWork {
    /// Tasks that it gives.
    pub tasks: u64,
    /// Slots that each node has.
    pub slots: u64,
}

type BareQuestion = (Name, Exchange, oneshot::Sender<ExchangeAnswer>);

/// Serves on any port of loopback, which `listening` gets, with a database at `file`, until the
/// process ends.
///
/// # Errors
///
/// If it cannot listen, or the database fails.
pub async fn serve(
    file: &Path,
    work: BareWork,
    listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let (questions, inbox) = mpsc::channel(4096);
    let writer = Writer::open(file, work).await.map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new()
        .name("bare".to_owned())
        .spawn(move || runtime.block_on(writer.run(inbox)))?;
    let router = Router::new()
        .route("/v1/nodes/{node}/exchange", post(exchange))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(questions);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    listening(listener.local_addr()?);
    axum::serve(listener, router).await
}

async fn exchange(
    State(questions): State<mpsc::Sender<BareQuestion>>,
    InPath(node): InPath<String>,
    Json(report): Json<Exchange>,
) -> Result<Json<ExchangeAnswer>, StatusCode> {
    let (reply, answer) = oneshot::channel();
    let gone = StatusCode::SERVICE_UNAVAILABLE;
    questions.send((Name::from(node), report, reply)).await.map_err(|_| gone)?;
    answer.await.map(Json).map_err(|_| gone)
}

/// Commits, and answers then.
struct Writer {
    store: CampaignStore,
    work: BareWork,
    spec: Arc<CampaignSpec>,
    campaign: u64,
    /// Tasks that were given.
    given: u64,
    nodes: BTreeMap<Name, u64>,
    effects: Vec<Effect>,
}

impl Writer {
    async fn open(file: &Path, work: BareWork) -> Result<Writer, DbError> {
        let mut store = CampaignStore::open(file).await?;
        let mut book = Book::new(Settings::default());
        let campaign = book.next_number();
        let document = json!({ "command": ["true"], "tasks": work.tasks.max(1) });
        let document = document.as_object().cloned().unwrap_or_default();
        let (spec, params) = CampaignSpec::read(document).expect("a right document");
        let spec = Arc::new(spec);
        let spec_number = store.spec_number(&spec, None).await?;
        let (owner, uid) = ("bench".to_owned(), None);
        let new =
            NewCampaign { owner, uid, spec_number, spec: Arc::clone(&spec), hooks: Vec::new() };
        let effects = book.record(Event::Submitted(Box::new(new)), Now::default());
        let submission = Submission {
            campaign,
            spec_number,
            spec: Arc::clone(&spec),
            stdin: None,
            params,
            key: None,
        };
        let submissions = vec![submission];
        store.commit(&Batch { effects, submissions, ..Batch::default() }).await?;
        let (nodes, effects) = (BTreeMap::new(), Vec::new());
        Ok(Writer { store, work, spec, campaign, given: 0, nodes, effects })
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<BareQuestion>) -> Result<(), DbError> {
        let mut questions = Vec::new();
        while 0 < inbox.recv_many(&mut questions, BATCH).await {
            let mut answers = Vec::new();
            for (node, report, reply) in questions.drain(..) {
                answers.push((reply, self.answer(&node, report)));
            }
            let effects = std::mem::take(&mut self.effects);
            self.store.commit(&Batch { effects, ..Batch::default() }).await?;
            for (reply, answer) in answers {
                // A client that has disconnected needs no answer.
                let _ = reply.send(answer);
            }
        }
        Ok(())
    }

    fn answer(&mut self, node: &Name, report: Exchange) -> ExchangeAnswer {
        let slots = if report.slots.is_empty() {
            let next = self.nodes.values().sum::<u64>();
            self.nodes.insert(node.clone(), self.work.slots);
            let order = |share| SlotOrder { share, order: 1, ..SlotOrder::default() };
            (next..next + self.work.slots).map(order).collect()
        } else {
            report.slots.into_iter().map(|slot| self.order(node, slot)).collect()
        };
        ExchangeAnswer {
            v: VERSION,
            orchestrator: "bare".to_owned(),
            epoch: 1,
            lease_ms: 600_000,
            slots,
            specs: BTreeMap::from([(1, TaskSpec::clone(&self.spec.task))]),
            outputs: Vec::new(),
        }
    }

    fn order(&mut self, node: &Name, slot: SlotReport) -> SlotOrder {
        let (share, order) = (slot.share, slot.seen_order + 1);
        let mut acked = 0;
        for result in slot.results {
            acked = result.number;
            let id = result.task;
            self.task(id, TaskState::Done, None);
            let node = node.clone();
            let (result, ended_ms) = (Some(result), Some(1));
            let row = AttemptRow { id, share, node, assigned_ms: 1, result, ended_ms };
            self.effects.push(Effect::Attempt(row));
        }
        let mut tasks = Vec::new();
        for _ in 0..slot.want.min(self.work.tasks.saturating_sub(self.given)) {
            self.given += 1;
            let task = AttemptId { campaign: self.campaign, task: self.given, attempt: 1 };
            self.task(task, TaskState::Assigned, Some(share));
            let (id, node) = (task, node.clone());
            let row = AttemptRow { id, share, node, assigned_ms: 1, result: None, ended_ms: None };
            self.effects.push(Effect::Attempt(row));
            tasks.push(NewTask { task, spec: 1, param: None, gang: None });
        }
        self.effects.push(Effect::Slot(self.slot(share, node, order, acked)));
        SlotOrder { share, order, acked, tasks, ..SlotOrder::default() }
    }

    fn task(&mut self, id: AttemptId, state: TaskState, share: Option<u64>) {
        let row = TaskRow::untouched(self.campaign, id.task);
        self.effects.push(Effect::Task(TaskRow { state, attempt: 1, share, ..row }));
    }

    fn slot(&self, share: u64, node: &Name, order: u64, acked: u64) -> SlotRow {
        SlotRow {
            share,
            node: node.clone(),
            campaign: self.campaign,
            step: 0,
            work: self.campaign,
            state: SlotState::Working,
            order,
            acked,
            boot: Some("bench".to_owned()),
            stop: None,
            drains: false,
            rank: None,
            memory_mb: None,
        }
    }
}
