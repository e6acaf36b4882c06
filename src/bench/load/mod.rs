//! The daemon under load, beside the least that its libraries could do.
//!
//! The real binary and a bare server, each in a process of its own, are asked in turn, slice by
//! slice, over kept connections. Other load of the computer therefore hits both, and the ratio is
//! the figure that counts. The clients share the computer too, which slows both.

mod bare;
mod beats;
pub(super) mod wire;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

pub use self::bare::serve as serve_bare;
use self::beats::{batch_request, heartbeat, own_node, single_request};
use self::wire::{Connection, get, send};
use super::DurationSpread;
use super::cluster::ClusterShape;
use super::daemon::child::{self, Child};
use super::daemon::{BenchError, publication};
use super::process::MeasuredProcess;
use crate::api::wire as api;

/// Clients that ask at the same time at full load.
const CONNECTIONS: u64 = 8;
/// Each of both is asked so often, in turn.
const SLICES: u32 = 4;
/// Heartbeats in a batch.
const BATCH: u64 = 1_000;
/// Agents that report by themselves, and how often each does.
const AGENTS: u64 = 10_000;
const AGENTS_EVERY: Duration = Duration::from_secs(10);
/// Connections of these agents: a real agent has its own connection.
const AGENT_CONNECTIONS: u64 = 100;
/// Number of readers, and the interval of each reader.
const READERS: u64 = 200;
const READERS_EVERY: Duration = Duration::from_secs(1);
/// Paths that the readers ask for, in turn.
const PAGES: [&str; 5] =
    ["/v1/status", "/v1/nodes", "/v1/jobs?limit=100", "/v1/classes", "/v1/load"];

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The cluster.
    pub shape: ClusterShape,
    /// Duration of each measurement.
    pub time: Duration,
}

/// Figures of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadFigures {
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Number of jobs.
    pub jobs: u64,
    /// Requests with a single heartbeat; beside a handler that only reads them.
    pub single_heartbeats: Compared,
    /// Requests with 1,000 heartbeats; beside a handler that only reads them.
    pub batches: Compared,
    /// Polls of a schedule that is known; beside a bare `GET` that answers 304.
    pub unchanged_polls: Compared,
    /// Polls that get the whole schedule; beside a `GET` that answers with the same text.
    pub whole_polls: Compared,
    /// Length of that schedule.
    pub schedule_bytes: u64,
    /// 10,000 agents that report every 10 s.
    pub agents: Agents,
    /// 200 that look at the cluster once a second.
    pub readers: Readers,
}

/// Requests in a second, and the time of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Of the daemon.
    pub daemon_per_s: f64,
    /// Of the bare handler.
    pub bare_per_s: f64,
    /// The first over the second.
    pub ratio: f64,
    /// Of the daemon.
    pub daemon_ms: DurationSpread,
    /// Of the bare handler.
    pub bare_ms: DurationSpread,
    /// Processor time of the daemon for a request, in microseconds; unlike the figures above it
    /// leaves the clients out. `None`: not available on this system.
    pub daemon_cpu_us: Option<f64>,
    /// Processor time of the bare handler for a request.
    pub bare_cpu_us: Option<f64>,
}

/// Cost of agents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agents {
    /// Heartbeats sent in a second, each in its own request.
    pub sent_per_s: f64,
    /// Processor time of the daemon meanwhile, in percent of a core. `None`: not available on this
    /// system.
    pub core_percent: Option<f64>,
    /// Processor time before the agents began.
    pub idle_core_percent: Option<f64>,
    /// Processor time of a bare handler that reads the same heartbeats at the same pace: mostly
    /// wakeups.
    pub bare_core_percent: Option<f64>,
}

/// Effect of readers on the time of cycles that all have changes: planned and stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Readers {
    /// Without readers.
    pub alone_ms: DurationSpread,
    /// With them.
    pub with_readers_ms: DurationSpread,
    /// The median with them over that without.
    pub ratio: f64,
    /// Processor time of the scheduler's own thread in a cycle without readers, in milliseconds.
    /// Readers that only compete for the processor do not add to it. `None`: not available on this
    /// system.
    pub alone_cpu_ms: Option<f64>,
    /// Processor time of the thread with readers.
    pub with_readers_cpu_ms: Option<f64>,
    /// Reads in a second.
    pub reads_per_s: f64,
}

/// Measures.
///
/// # Errors
///
/// If the daemon cannot be started, or does not do as asked.
pub async fn run(options: &LoadOptions) -> Result<LoadFigures, BenchError> {
    let scratch = tempfile::TempDir::with_prefix("apportion-load-").map_err(BenchError::Scratch)?;
    let (child, daemon) = child::start(scratch.path(), &config(&options.shape)).await?;
    let (bare_child, bare) = child::start_bare().await?;
    let bench = LoadBench {
        options,
        daemon,
        bare,
        process: MeasuredProcess::of(child.id()),
        bare_process: MeasuredProcess::of(bare_child.id()),
        turns: Arc::new(AtomicU64::new(1)),
    };
    let figures = bench.measure().await;
    stop(child);
    figures.map_err(BenchError::Load)
}

/// The daemon has to be gone before its folder is.
fn stop(child: Child) {
    drop(child);
}

fn config(shape: &ClusterShape) -> String {
    // Each connection's batches have nodes of their own, even if the cluster has fewer nodes.
    let nodes = shape.nodes.max(CONNECTIONS * BATCH);
    super::daemon::config(&ClusterShape { nodes, ..*shape })
}

struct LoadBench<'o> {
    options: &'o LoadOptions,
    daemon: String,
    bare: String,
    process: MeasuredProcess,
    bare_process: MeasuredProcess,
    /// Each request is new, or the daemon would drop its heartbeat as a duplicate.
    turns: Arc<AtomicU64>,
}

impl LoadBench<'_> {
    async fn measure(&self) -> io::Result<LoadFigures> {
        let ClusterShape { nodes, jobs, .. } = self.options.shape;
        let mut publisher = LoadPublisher::new(&self.options.shape, &self.daemon).await?;
        for batch in 0..nodes.max(CONNECTIONS * BATCH).div_ceil(BATCH) {
            publisher.expect(202, &batch_request("/v1/heartbeats", batch, 0)).await?;
        }
        publisher.publish().await?;

        let single_heartbeats = self
            .compare(
                move |client, turn| single_request("/v1/heartbeats", client, turn, nodes),
                move |client, turn| single_request(bare::SINGLE, client, turn, nodes),
                202,
            )
            .await?;
        let batches = self
            .compare(
                |client, turn| batch_request("/v1/heartbeats", client, turn),
                |client, turn| batch_request(bare::BATCH, client, turn),
                202,
            )
            .await?;
        let schedule = publisher.connection.ask(&get("/v1/schedule", "")).await?;
        let known = format!("if-none-match: {}\r\n", schedule.etag.unwrap_or_default());
        let unchanged_polls = self
            .compare(
                move |_, _| get("/v1/schedule", &known),
                |_, _| get(bare::UNCHANGED, "if-none-match: W/\"1\"\r\n"),
                304,
            )
            .await?;
        let text = send("PUT", bare::TEXT, &schedule.body);
        Connection::open(&self.bare).await?.ask(&text).await?;
        let whole_polls =
            self.compare(|_, _| get("/v1/schedule", ""), |_, _| get(bare::TEXT, ""), 200).await?;
        Ok(LoadFigures {
            nodes,
            jobs,
            single_heartbeats,
            batches,
            unchanged_polls,
            whole_polls,
            schedule_bytes: u64::try_from(schedule.body.len()).unwrap_or(u64::MAX),
            agents: self.agents().await?,
            readers: self.readers(&mut publisher).await?,
        })
    }

    /// Asks both as often as they answer, in turn.
    async fn compare(
        &self,
        daemon: impl Fn(u64, u64) -> Vec<u8> + Send + Sync + 'static,
        bare: impl Fn(u64, u64) -> Vec<u8> + Send + Sync + 'static,
        status: u16,
    ) -> io::Result<Compared> {
        let slice = self.options.time / (2 * SLICES);
        let (daemon, bare) = (Arc::new(daemon), Arc::new(bare));
        let (mut times, mut bare_times) = (Vec::new(), Vec::new());
        let (mut cpu, mut bare_cpu) = (Some(0.0), Some(0.0));
        for _ in 0..SLICES {
            let flooded = flood(&self.daemon, &daemon, &self.turns, slice, status);
            let (flooded, used) = cpu_s(&self.process, flooded).await;
            times.extend(flooded?);
            cpu = cpu.zip(used).map(|(all, used)| all + used);
            let flooded = flood(&self.bare, &bare, &self.turns, slice, status);
            let (flooded, used) = cpu_s(&self.bare_process, flooded).await;
            bare_times.extend(flooded?);
            bare_cpu = bare_cpu.zip(used).map(|(all, used)| all + used);
        }
        let of_one = |cpu: Option<f64>, times: &[Duration]| Some(cpu? / number(times.len()) * 1e6);
        let spent = slice.as_secs_f64() * f64::from(SLICES);
        let rate = |times: &[Duration]| number(times.len()) / spent;
        let (daemon_per_s, bare_per_s) = (rate(&times), rate(&bare_times));
        Ok(Compared {
            daemon_per_s,
            bare_per_s,
            ratio: daemon_per_s / bare_per_s,
            daemon_cpu_us: of_one(cpu, &times),
            bare_cpu_us: of_one(bare_cpu, &bare_times),
            daemon_ms: DurationSpread::of(times),
            bare_ms: DurationSpread::of(bare_times),
        })
    }

    /// Lets agents report at their own pace, to the daemon and then to the bare handler.
    async fn agents(&self) -> io::Result<Agents> {
        let idle_core_percent = part_of_core(&self.process, sleep(self.options.time)).await.1;
        let report = |address, path| {
            let every = AGENTS_EVERY.div_f64(number(AGENTS) / number(AGENT_CONNECTIONS));
            let (turns, nodes) = (Arc::clone(&self.turns), self.options.shape.nodes);
            let request = move |client| {
                let turn = turns.fetch_add(1, Ordering::Relaxed);
                let node = own_node((client, AGENT_CONNECTIONS), turn, nodes);
                send("POST", path, heartbeat(node, turn).as_bytes())
            };
            paced(address, AGENT_CONNECTIONS, every, self.options.time, 202, request)
        };
        let reports = report(&self.daemon, "/v1/heartbeats");
        let (sent, core_percent) = part_of_core(&self.process, reports).await;
        let sent_per_s = number(sent?) / self.options.time.as_secs_f64();
        let reports = report(&self.bare, bare::SINGLE);
        let (sent, bare_core_percent) = part_of_core(&self.bare_process, reports).await;
        sent?;
        Ok(Agents { sent_per_s, core_percent, idle_core_percent, bare_core_percent })
    }

    async fn readers(&self, publisher: &mut LoadPublisher) -> io::Result<Readers> {
        let scheduler = self.process.thread("scheduler");
        let (alone, alone_cpu) =
            cpu_of(scheduler.as_ref(), publisher.cycles(self.options.time)).await;
        let alone = alone?;
        let turns = AtomicU64::new(0);
        let pages = PAGES.map(|page| get(page, ""));
        let look = move |_| {
            let turn = turns.fetch_add(1, Ordering::Relaxed);
            pages[usize::try_from(turn).unwrap_or(0) % PAGES.len()].clone()
        };
        let time = self.options.time;
        let reading = paced(&self.daemon, READERS, READERS_EVERY, time, 200, look);
        let cycles = cpu_of(scheduler.as_ref(), publisher.cycles(time));
        let ((cycles, cpu), reads) = tokio::join!(cycles, reading);
        let (cycles, reads) = (cycles?, reads?);
        let of_one =
            |cpu: Option<f64>, cycles: &[Duration]| Some(cpu? / number(cycles.len()) * 1e3);
        let (alone_cpu_ms, with_readers_cpu_ms) = (of_one(alone_cpu, &alone), of_one(cpu, &cycles));
        let (alone_ms, with_readers_ms) = (DurationSpread::of(alone), DurationSpread::of(cycles));
        Ok(Readers {
            alone_ms,
            with_readers_ms,
            ratio: with_readers_ms.median / alone_ms.median,
            alone_cpu_ms,
            with_readers_cpu_ms,
            reads_per_s: number(reads) / time.as_secs_f64(),
        })
    }
}

/// Result of `work`, and the part of a core that `process` uses meanwhile, in percent.
pub(super) async fn part_of_core<T>(
    process: &MeasuredProcess,
    work: impl Future<Output = T>,
) -> (T, Option<f64>) {
    let begun = Instant::now();
    let (outcome, used) = cpu_s(process, work).await;
    let spent = begun.elapsed().as_secs_f64();
    (outcome, used.map(|used| used / spent * 100.0))
}

/// Result of `work`, and the processor time that `process` uses meanwhile, in seconds.
pub(super) async fn cpu_s<T>(
    process: &MeasuredProcess,
    work: impl Future<Output = T>,
) -> (T, Option<f64>) {
    let before = process.cpu_s();
    let outcome = work.await;
    let used = before.zip(process.cpu_s()).map(|(before, after)| after - before);
    (outcome, used)
}

/// Measures as [`cpu_s`] does if the process is known.
async fn cpu_of<T>(
    process: Option<&MeasuredProcess>,
    work: impl Future<Output = T>,
) -> (T, Option<f64>) {
    match process {
        Some(process) => cpu_s(process, work).await,
        None => (work.await, None),
    }
}

pub(super) fn number(count: impl TryInto<u32>) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}

/// Asks over some connections at a time as often as there are answers, and says how long each took.
async fn flood(
    address: &str,
    request: &Arc<impl Fn(u64, u64) -> Vec<u8> + Send + Sync + 'static>,
    turns: &Arc<AtomicU64>,
    time: Duration,
    status: u16,
) -> io::Result<Vec<Duration>> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        let (request, turns) = (Arc::clone(request), Arc::clone(turns));
        clients.spawn(async move {
            let end = Instant::now() + time;
            let mut times = Vec::new();
            while Instant::now() < end {
                let bytes = request(client, turns.fetch_add(1, Ordering::Relaxed));
                let begun = Instant::now();
                check(connection.ask(&bytes).await?, status)?;
                times.push(begun.elapsed());
            }
            Ok(times)
        });
    }
    gather(clients).await.map(|times| times.concat())
}

/// Asks over each of `connections` connections at each interval; returns the number of requests.
async fn paced(
    address: &str,
    connections: u64,
    every: Duration,
    time: Duration,
    status: u16,
    request: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static,
) -> io::Result<u64> {
    let request = Arc::new(request);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..connections {
        let mut connection = Connection::open(address).await?;
        let (request, is_over) = (Arc::clone(&request), Arc::clone(&is_over));
        // The starts are spread over an interval, as the starts of independent clients are.
        let begin = every.mul_f64(number(client) / number(connections));
        clients.spawn(async move {
            sleep(begin).await;
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut asked = 0;
            loop {
                ticks.tick().await;
                if is_over.load(Ordering::Relaxed) {
                    return Ok(asked);
                }
                check(connection.ask(&request(client)).await?, status)?;
                asked += 1;
            }
        });
    }
    sleep(time).await;
    is_over.store(true, Ordering::Relaxed);
    gather(clients).await.map(|asked: Vec<u64>| asked.into_iter().sum())
}

pub(super) async fn gather<T: 'static>(mut clients: JoinSet<io::Result<T>>) -> io::Result<Vec<T>> {
    let mut all = Vec::new();
    while let Some(one) = clients.join_next().await {
        all.push(one.map_err(io::Error::other)??);
    }
    Ok(all)
}

pub(super) fn check(answer: wire::HttpAnswer, status: u16) -> io::Result<wire::HttpAnswer> {
    if answer.status == status {
        return Ok(answer);
    }
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    Err(io::Error::other(format!("answered {} instead of {status}: {text}", answer.status)))
}

/// Publisher whose every publication has a job more or less than the last, so that every cycle has
/// to plan.
struct LoadPublisher {
    connection: Connection,
    publication: api::Publication,
    spare: Option<api::Work>,
}

impl LoadPublisher {
    async fn new(shape: &ClusterShape, address: &str) -> io::Result<LoadPublisher> {
        let connection = Connection::open(address).await?;
        let publication = publication(shape);
        Ok(LoadPublisher { connection, publication, spare: None })
    }

    async fn expect(&mut self, status: u16, request: &[u8]) -> io::Result<wire::HttpAnswer> {
        check(self.connection.ask(request).await?, status)
    }

    /// Publishes, waits until the cycle is planned and stored; returns the daemon's time for it.
    async fn publish(&mut self) -> io::Result<Duration> {
        match self.spare.take() {
            Some(work) => self.publication.work.push(work),
            None => self.spare = self.publication.work.pop(),
        }
        self.publication.sequence += 1;
        let body = serde_json::to_vec(&self.publication).expect("plain structs become JSON");
        self.expect(202, &send("PUT", "/v1/publication", &body)).await?;
        let ask = get("/v1/status", "");
        loop {
            let answer = self.expect(200, &ask).await?;
            let status: api::Status =
                serde_json::from_slice(&answer.body).map_err(io::Error::other)?;
            if status.ready && status.publication == Some(self.publication.sequence) {
                let micros = status.planned_in_us + status.stored_in_us;
                return Ok(Duration::from_micros(micros));
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// The cycles of some time.
    async fn cycles(&mut self, time: Duration) -> io::Result<Vec<Duration>> {
        let end = Instant::now() + time;
        let mut times = Vec::new();
        while Instant::now() < end {
            times.push(self.publish().await?);
        }
        Ok(times)
    }
}
