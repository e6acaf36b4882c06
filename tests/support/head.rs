//! An orchestrator played by a test: it orders slots, and counts the agents' reports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use apportion::orchestrator::wire::{
    AttemptId, ChunkAnswer, ChunkQuery, Exchange, ExchangeAnswer, NewTask, OutputRequest, Reason,
    SlotOrder, SlotReport, SlotStage, SlotStart, SlotStop, TaskResult, TaskSpec, VERSION,
};
use axum::body::Bytes;
use axum::extract::{Path as InPath, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

/// Longer than anything takes on a machine that works.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Desired state of a slot, and its known state.
#[derive(Default)]
pub struct Wanted {
    pub start: Option<SlotStart>,
    /// Tasks to give, in order.
    pub queue: Vec<NewTask>,
    /// Tasks that were given and not listed yet.
    pub committed: BTreeMap<AttemptId, NewTask>,
    pub stop: Option<SlotStop>,
    pub order: u64,
    pub report: Option<SlotReport>,
    pub results: BTreeMap<u64, TaskResult>,
    /// Every attempt that was listed as running.
    pub seen_running: BTreeSet<AttemptId>,
    pub is_gone: bool,
    /// True if its unfinished tasks were given to another slot.
    pub is_settled: bool,
    /// True if answers name the slot.
    pub is_named: bool,
}

/// State of the orchestrator.
pub struct Book {
    pub slots: BTreeMap<u64, Wanted>,
    pub specs: BTreeMap<u64, TaskSpec>,
    pub lease_ms: u64,
    pub epoch: u64,
    /// Number of answers of which the last is lost on its way. 0: no answer is lost.
    pub loses_every: u64,
    pub answers: u64,
    /// True if the orchestrator answers at all.
    pub is_up: bool,
    pub outputs: Vec<OutputRequest>,
    pub chunks: BTreeMap<u64, Vec<u8>>,
    pub ended: BTreeMap<u64, ChunkQuery>,
    pub last: Option<Exchange>,
    /// Unique for each test: agents on the same machine find processes by it.
    pub identity: String,
    pub stdin: Vec<u8>,
    /// Specifications whose standard input was asked for.
    pub asked: BTreeSet<u64>,
}

/// The orchestrator.
#[derive(Clone)]
pub struct Head {
    pub url: String,
    book: Arc<Mutex<Book>>,
}

impl Head {
    /// Starts an orchestrator that listens on this machine, with `spec` as number 5.
    pub async fn start(spec: TaskSpec) -> Head {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}");
        let book = Book {
            slots: BTreeMap::new(),
            specs: BTreeMap::from([(5, spec)]),
            lease_ms: 600_000,
            epoch: 1,
            loses_every: 0,
            answers: 0,
            is_up: true,
            outputs: Vec::new(),
            chunks: BTreeMap::new(),
            ended: BTreeMap::new(),
            last: None,
            identity: format!("o{}x{}", std::process::id(), address.port()),
            stdin: Vec::new(),
            asked: BTreeSet::new(),
        };
        let head = Head { url, book: Arc::new(Mutex::new(book)) };
        let heard = || async { (StatusCode::ACCEPTED, r#"{"accepted": 1, "refused": []}"#) };
        let router = Router::new()
            .route("/v1/heartbeats", post(heard))
            .route("/v1/nodes/{node}/exchange", post(exchange))
            .route("/v1/nodes/{node}/output/{request}", post(output))
            .route("/v1/nodes/{node}/stdin/{spec}", get(stdin))
            .with_state(head.clone());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        head
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// The name of the slot in share `share` on its node.
    pub fn slot(&self, share: u64) -> String {
        format!("{}-{share}", self.book().identity)
    }

    /// Wants a slot in share `share`.
    pub fn want(&self, share: u64, start: SlotStart) {
        let wanted = Wanted { start: Some(start), is_named: true, ..Wanted::default() };
        self.book().slots.insert(share, wanted);
    }

    /// Gives the slot in `share` these tasks.
    pub fn give(&self, share: u64, tasks: impl IntoIterator<Item = u64>) {
        let task = |task| NewTask {
            task: AttemptId { campaign: 9, task, attempt: 1 },
            spec: 5,
            param: None,
            gang: None,
        };
        let mut book = self.book();
        book.slots.get_mut(&share).unwrap().queue.extend(tasks.into_iter().map(task));
    }

    pub fn stop(&self, share: u64, stop: SlotStop) {
        self.book().slots.get_mut(&share).unwrap().stop = Some(stop);
    }

    /// Waits until `is_right`.
    pub async fn until<T>(&self, what: &str, is_right: impl Fn(&Book) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = is_right(&self.book()) {
                return found;
            }
            let late = start.elapsed() > PATIENCE;
            assert!(!late, "never {what}: {:?}", self.book().last);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for `count` results of the slot.
    pub async fn until_results(&self, share: u64, count: usize) -> Vec<TaskResult> {
        let has = |book: &Book| {
            let results = &book.slots[&share].results;
            (results.len() >= count).then(|| results.values().cloned().collect())
        };
        self.until("all results", has).await
    }

    /// Waits until the slot is gone, and returns its last report.
    pub async fn until_gone(&self, share: u64) -> SlotReport {
        let gone = |book: &Book| {
            let slot = &book.slots[&share];
            slot.report.clone().filter(|_| slot.is_gone)
        };
        self.until("gone", gone).await
    }

    /// Gives what slots that are gone lost or gave back to new slots, as further attempts. Returns the
    /// tasks that are done.
    pub fn renew(&self, start: &SlotStart, next_share: &mut u64) -> BTreeSet<u64> {
        let mut book = self.book();
        let mut again: Vec<NewTask> = Vec::new();
        let mut done = BTreeSet::new();
        for slot in book.slots.values_mut() {
            let results = slot.results.values();
            done.extend(
                results.clone().filter(|end| end.why == Reason::Done).map(|end| end.task.task),
            );
            if !slot.is_gone || slot.is_settled {
                continue;
            }
            slot.is_settled = true;
            let not_done = results.filter(|end| end.why != Reason::Done).map(|end| end.task);
            // A task that never reached the slot has not begun.
            let known: BTreeSet<AttemptId> = slot.results.values().map(|end| end.task).collect();
            let committed = slot.committed.keys().copied().filter(|task| !known.contains(task));
            let mut next = |task: AttemptId| {
                let task = AttemptId { attempt: task.attempt + 1, ..task };
                again.push(NewTask { task, spec: 5, param: None, gang: None });
            };
            not_done.chain(committed).for_each(&mut next);
            again.append(&mut slot.queue);
        }
        if !again.is_empty() {
            let (start, is_named) = (Some(start.clone()), true);
            let wanted = Wanted { start, queue: again, is_named, ..Wanted::default() };
            book.slots.insert(*next_share, wanted);
            *next_share += 1;
        }
        done
    }

    /// Returns a task's output as a reader gets it.
    pub async fn read(&self, request: OutputRequest) -> (String, ChunkQuery) {
        let number = request.request;
        self.book().outputs.push(request);
        let end = self.until("all output", |book| book.ended.get(&number).copied()).await;
        let bytes = self.book().chunks.remove(&number).unwrap_or_default();
        (String::from_utf8_lossy(&bytes).into_owned(), end)
    }
}

async fn exchange(
    State(head): State<Head>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // Long reports come packed.
    let said: Exchange = if headers.get("content-encoding").is_some_and(|coding| coding == "gzip") {
        serde_json::from_reader(flate2::read::GzDecoder::new(&*body)).unwrap()
    } else {
        serde_json::from_slice(&body).unwrap()
    };
    let (answer, is_lost) = {
        let mut book = head.book();
        if !book.is_up {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        book.answers += 1;
        let answer = book.answer(said);
        (answer, book.loses_every > 0 && book.answers % book.loses_every == 0)
    };
    if is_lost {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    if query.contains_key("wait") && answer.slots.iter().all(|slot| slot.tasks.is_empty()) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Json(answer).into_response()
}

async fn output(
    State(head): State<Head>,
    InPath((_, request)): InPath<(String, u64)>,
    Query(query): Query<ChunkQuery>,
    bytes: Bytes,
) -> Json<ChunkAnswer> {
    let mut book = head.book();
    book.outputs.retain(|output| output.request != request);
    let chunks = book.chunks.entry(request).or_default();
    assert_eq!(u64::try_from(chunks.len()).unwrap(), query.from);
    chunks.extend_from_slice(&bytes);
    if query.end || query.problem.is_some() {
        book.ended.insert(request, query);
    }
    Json(ChunkAnswer { wanted: true })
}

async fn stdin(State(head): State<Head>, InPath((_, spec)): InPath<(String, u64)>) -> Vec<u8> {
    let mut book = head.book();
    book.asked.insert(spec);
    book.stdin.clone()
}

impl Book {
    fn answer(&mut self, said: Exchange) -> ExchangeAnswer {
        let reports: BTreeMap<u64, SlotReport> =
            said.slots.iter().map(|report| (report.share, report.clone())).collect();
        self.last = Some(said);
        let mut slots = Vec::new();
        for (share, slot) in self.slots.iter_mut().filter(|(_, slot)| slot.is_named) {
            let report = reports.get(share);
            if let Some(report) = report {
                slot.hear(report);
            }
            slots.push(slot.order(*share, report));
        }
        ExchangeAnswer {
            v: VERSION,
            orchestrator: self.identity.clone(),
            epoch: self.epoch,
            lease_ms: self.lease_ms,
            slots,
            specs: self.specs.clone(),
            outputs: self.outputs.clone(),
        }
    }
}

impl Wanted {
    fn hear(&mut self, report: &SlotReport) {
        for result in &report.results {
            let known = self.results.insert(result.number, result.clone());
            // A slot that was not started by a test may be a hostile one, and reports what it likes.
            let is_honest = self.start.is_some();
            let is_same = known.is_none_or(|known| known == *result);
            assert!(is_same || !is_honest, "two of one number: {result:?}");
            self.committed.remove(&result.task);
        }
        for task in &report.running {
            self.committed.remove(&task.task);
            self.seen_running.insert(task.task);
        }
        for task in &report.held {
            self.committed.remove(task);
        }
        // A report that was overtaken says less than the last report of a slot.
        if !self.is_gone {
            self.is_gone = report.state == SlotStage::Gone;
            self.report = Some(report.clone());
        }
    }

    fn order(&mut self, share: u64, report: Option<&SlotReport>) -> SlotOrder {
        self.order += 1;
        let want = report.map_or(0, |report| usize::try_from(report.want).unwrap());
        let count = want.saturating_sub(self.committed.len()).min(self.queue.len());
        for task in self.queue.drain(..count) {
            self.committed.insert(task.task, task);
        }
        let acked = (1..=100_000).take_while(|number| self.results.contains_key(number)).last();
        SlotOrder {
            share,
            order: self.order,
            acked: acked.unwrap_or(0),
            tasks: self.committed.values().cloned().collect(),
            start: self.start.clone().filter(|_| report.is_none() && !self.is_gone),
            stop: self.stop,
            forget: self.is_gone,
            ..SlotOrder::default()
        }
    }
}

/// An agent that runs work, as a process.
pub struct Agent {
    pub process: Child,
    url: String,
    spool: PathBuf,
    flags: Vec<String>,
    /// The command that starts it, if it is not started as it is.
    by: Vec<String>,
}

impl Agent {
    pub fn start(head: &Head, spool: &Path, flags: &[&str]) -> Agent {
        Agent::start_by(&[], head, spool, flags)
    }

    /// Starts it by another command, which gets its own as arguments and becomes it.
    pub fn start_by(by: &[String], head: &Head, spool: &Path, flags: &[&str]) -> Agent {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let process = spawn(by, &head.url, spool, &flags);
        Agent { process, url: head.url.clone(), spool: spool.to_owned(), flags, by: by.to_vec() }
    }

    /// Kills the agent, and starts another agent.
    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(&self.by, &self.url, &self.spool, &self.flags);
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(by: &[String], url: &str, spool: &Path, flags: &[String]) -> Child {
    let own = env!("CARGO_BIN_EXE_apportion").to_owned();
    let words: Vec<&String> = by.iter().chain([&own]).collect();
    Command::new(words[0])
        .args(&words[1..])
        .args(["agent", "--run", "--node", "n1", "--interval", "1s", "--url", url])
        .arg("--spool")
        .arg(spool)
        .args(flags)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}
