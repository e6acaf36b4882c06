//! The whole daemon, timed from outside: from a publication to the schedule that is made of it.
//!
//! The daemon is the real binary with a store of its own. It serves HTTP on loopback and writes to
//! a disk. Its nodes have reported and are stored when the publication is sent. The time ends when
//! a schedule with every published job has been received; the daemon serves only committed
//! schedules. Then the daemon is killed and started again several times. The time of a start ends
//! when the daemon serves the same schedule again. At the end the daemon is always stopped.

pub(super) mod child;
mod client;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use self::child::Child;
use self::client::BenchClient;
use super::cluster::{self, ClusterShape, JobStream};
use super::process::MeasuredProcess;
use super::times::{DurationSpread, milliseconds};
use crate::api::wire;
use crate::model::{JobSpec, NodeReport, ProcessLimit, count};

/// Heartbeats in a request, as from an agent that reports for a part of the cluster.
const BATCH: usize = 1_000;
/// Time between two questions for the number of stored nodes.
const PAUSE: Duration = Duration::from_millis(20);
/// Time limit of a step.
const PATIENCE: Duration = Duration::from_mins(15);

/// An error that ends the measurement.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BenchError {
    #[error("failed to prepare a temporary folder for the daemon")]
    Scratch(#[source] io::Error),
    #[error("failed to start the daemon")]
    Start(#[source] io::Error),
    #[error("the daemon ended before it listened; its log:\n{said}")]
    NotListening { said: String },
    #[error("failed to set up HTTP")]
    Http(#[source] reqwest::Error),
    #[error("failed to {action}")]
    Request { action: &'static str, source: reqwest::Error },
    #[error("the daemon answered {status} when asked to {action}: {problem}")]
    Refused { action: &'static str, status: reqwest::StatusCode, problem: String },
    #[error("the daemon took {accepted} of {sent} when asked to {action}")]
    Incomplete { action: &'static str, accepted: u64, sent: u64 },
    #[error("the daemon did not {action} within {} s", PATIENCE.as_secs())]
    TooLong { action: &'static str },
    #[error("the daemon did not answer as it should under load")]
    Load(#[source] io::Error),
    #[error("the orchestrator did not answer as it should")]
    Orchestrator(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// Figures of a measurement. `None`: not available on this system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DaemonFigures {
    /// Seed from which the cluster was drawn.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// The jobs that were published, all at once.
    pub jobs: u64,
    /// Their users.
    pub users: u64,
    /// The smallest allocation.
    pub quantum_mb: u64,
    /// From the beginning of the publication to the end of the first schedule that has all of its
    /// jobs, which is stored by then.
    pub schedule_ms: f64,
    /// Within that time, until the publication was answered.
    pub answer_ms: f64,
    /// Within that time, planning, as the daemon itself counts it.
    pub plan_ms: f64,
    /// Within that time, storing the cycle, as the daemon itself counts it.
    pub store_ms: f64,
    /// Jobs that got a share in that schedule.
    pub jobs_placed: u64,
    /// Jobs that want more than they got in it, each with its reason.
    pub jobs_waiting: u64,
    /// Shares in that schedule.
    pub shares_held: u64,
    /// Processor time of the daemon from its start to that schedule.
    pub cpu_s: Option<f64>,
    /// Processor time of the daemon from the publication to that schedule.
    pub publication_cpu_s: Option<f64>,
    /// The most memory it had at a time.
    pub peak_rss_mb: Option<f64>,
    /// Bytes it had written to disks; 0 where the temporary folder is in memory.
    pub written_bytes: Option<u64>,
    /// Size of the store's files.
    pub store_bytes: Option<u64>,
    /// Number of kills and starts.
    pub starts: u64,
    /// Each time, from the start of the process to the end of the schedule that it serves.
    pub start_ms: DurationSpread,
    /// Each time, from the start of the process until it answers about everything else too.
    pub resumed_ms: DurationSpread,
}

/// Measures a daemon with a cluster of this shape, and `starts` starts of it.
///
/// # Errors
///
/// If the daemon cannot be started, or does not do as asked.
pub async fn run(shape: &ClusterShape, starts: u64) -> Result<DaemonFigures, BenchError> {
    let mut terminated = signal(SignalKind::terminate()).map_err(BenchError::Start)?;
    // An interrupt drops the measurement, which owns the daemon and ends it.
    tokio::select! {
        figures = measure(shape, starts) => figures,
        _ = tokio::signal::ctrl_c() => Err(BenchError::Interrupted),
        _ = terminated.recv() => Err(BenchError::Interrupted),
    }
}

async fn measure(shape: &ClusterShape, starts: u64) -> Result<DaemonFigures, BenchError> {
    // In this order: the daemon has to be gone before its folder is.
    let scratch =
        tempfile::TempDir::with_prefix("apportion-bench-").map_err(BenchError::Scratch)?;
    let (child, address) = child::start(scratch.path(), &config(shape)).await?;
    let process = MeasuredProcess::of(child.id());
    let client = BenchClient::new(&address).map_err(BenchError::Http)?;
    register(&client, shape.nodes).await?;

    let publication = publication(shape);
    let cpu_before = process.cpu_s();
    let timed = time(&client, &publication, shape.jobs).await?;
    let cpu_s = process.cpu_s();
    let (peak_rss_mb, written_bytes) = (process.peak_rss_mb(), process.written_bytes());
    let store_bytes = child::bytes_of(scratch.path());
    let (start_ms, resumed_ms) = time_starts(child, scratch.path(), shape, starts).await?;
    Ok(DaemonFigures {
        seed: shape.seed,
        nodes: shape.nodes,
        jobs: shape.jobs,
        users: shape.users,
        quantum_mb: shape.quantum.memory().0,
        schedule_ms: milliseconds(timed.schedule),
        answer_ms: milliseconds(timed.answer),
        plan_ms: milliseconds(Duration::from_micros(timed.status.planned_in_us)),
        store_ms: milliseconds(Duration::from_micros(timed.status.stored_in_us)),
        jobs_placed: count(timed.jobs.iter().filter(|job| !job.shares.is_empty())),
        jobs_waiting: count(timed.jobs.iter().filter(|job| job.reason.is_some())),
        shares_held: timed.jobs.iter().map(|job| count(&job.shares)).sum(),
        cpu_s,
        publication_cpu_s: spent(cpu_before, cpu_s),
        peak_rss_mb,
        written_bytes,
        store_bytes,
        starts,
        start_ms,
        resumed_ms,
    })
}

/// Kills the daemon, and starts it on the same files, several times.
async fn time_starts(
    mut child: Child,
    folder: &Path,
    shape: &ClusterShape,
    starts: u64,
) -> Result<(DurationSpread, DurationSpread), BenchError> {
    let (mut served, mut resumed) = (Vec::new(), Vec::new());
    for _ in 0..starts {
        drop(child);
        let begun = Instant::now();
        let address;
        (child, address) = child::start(folder, &config(shape)).await?;
        let client = BenchClient::new(&address).map_err(BenchError::Http)?;
        let too_long = BenchError::TooLong { action: "serve a schedule after a start" };
        let all = async {
            while client.next_schedule(None).await?.is_none() {}
            served.push(begun.elapsed());
            client.status().await?;
            resumed.push(begun.elapsed());
            Ok(())
        };
        timeout(PATIENCE, all).await.unwrap_or(Err(too_long))?;
    }
    Ok((DurationSpread::of(served), DurationSpread::of(resumed)))
}

#[expect(clippy::float_arithmetic, reason = "a figure for people; nothing is decided by it")]
fn spent(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some(after? - before?)
}

/// Reports all nodes and waits until they are stored.
async fn register(client: &BenchClient, nodes: u64) -> Result<(), BenchError> {
    let beats: Vec<wire::Heartbeat> =
        cluster::nodes(nodes).map(|report| heartbeat(&report)).collect();
    for batch in beats.chunks(BATCH) {
        client.beat(&wire::HeartbeatBatch { nodes: batch.to_vec() }).await?;
    }
    let on_record = async {
        while client.status().await?.nodes.up < nodes {
            sleep(PAUSE).await;
        }
        Ok(())
    };
    let too_long = BenchError::TooLong { action: "store all nodes" };
    timeout(PATIENCE, on_record).await.unwrap_or(Err(too_long))
}

/// The schedule that answers the publication, with the times of its steps.
struct Timed {
    schedule: Duration,
    answer: Duration,
    status: wire::Status,
    jobs: Vec<wire::ScheduledJob>,
}

/// Publishes, and waits for the schedule at the same time, as an orchestrator does.
async fn time(
    client: &BenchClient,
    publication: &wire::Publication,
    jobs: u64,
) -> Result<Timed, BenchError> {
    let body = serde_json::to_vec(publication).expect("plain structs become JSON");
    let begun = Instant::now();
    let publish = async {
        client.publish(body, jobs).await?;
        Ok(begun.elapsed())
    };
    let wait = async {
        let mut known = None;
        loop {
            let Some((text, name)) = client.next_schedule(known.as_ref()).await? else { continue };
            let received = begun.elapsed();
            let schedule = client::read_schedule(&text)?;
            if count(&schedule.jobs) == jobs {
                return Ok((received, schedule.jobs));
            }
            known = name;
        }
    };
    let both = async { tokio::try_join!(publish, wait) };
    let too_long = BenchError::TooLong { action: "serve a schedule with all jobs" };
    let (answer, (schedule, jobs)) = timeout(PATIENCE, both).await.unwrap_or(Err(too_long))?;
    // The next cycle comes with the next news, and there are none.
    let status = client.status().await?;
    Ok(Timed { schedule, answer, status, jobs })
}

fn heartbeat(report: &NodeReport) -> wire::Heartbeat {
    wire::Heartbeat {
        tags: std::collections::BTreeMap::new(),
        node: report.name.to_string(),
        memory_mb: report.memory.0,
        quiesced: report.is_quiesced,
        boot_id: None,
        sequence: None,
        sent_ms: None,
        available_mb: None,
    }
}

/// All jobs of a cluster of this shape.
pub(super) fn publication(shape: &ClusterShape) -> wire::Publication {
    let jobs = JobStream::of(shape).zip(0..shape.jobs);
    let work = jobs.map(|(spec, _)| work(&spec)).collect();
    wire::Publication { sequence: 1, full: false, publisher: None, epoch: None, work }
}

fn work(spec: &JobSpec) -> wire::Work {
    wire::Work {
        class: Some(spec.class.to_string()),
        memory_mb: Some(spec.memory.0),
        threads: spec.threads,
        remaining: spec.facts.remaining,
        max_processes: match spec.facts.limit {
            ProcessLimit::AtMost(limit) => Some(limit),
            ProcessLimit::Unlimited | ProcessLimit::Frozen => None,
        },
        ..wire::Work::of(spec.id.0, wire::WorkKind::Job, spec.user.to_string(), spec.submitted)
    }
}

/// The pool and classes of [`cluster::topology`], and limits that nothing here reaches. A cycle
/// begins as soon as there is news, and no heartbeats are missed meanwhile.
pub(super) fn config(shape: &ClusterShape) -> String {
    let ClusterShape { nodes, jobs, quantum, .. } = shape;
    let quantum_mb = quantum.memory().0;
    let classes = cluster::WEIGHTS.map(|weight| {
        let name = cluster::class_name(weight);
        format!(
            "\n[[class]]\nname = '{name}'\npolicy = 'fair-share'\nnodepool = 'main'\nweight = {weight}\n"
        )
    });
    format!(
        "[daemon]\ncycle_period = '10ms'\nheartbeat_interval = '1h'\n\n\
         [daemon.limits]\nbody_bytes = '1GB'\nmax_nodes = {nodes}\nmax_jobs = {jobs}\n\n\
         [scheduler]\nquantum = '{quantum_mb}MB'\ninitialization_cap = 2\n\
         expand_by_doubling = true\nprediction = false\nprediction_fudge = '0s'\n\n\
         [[nodepool]]\nname = 'main'\n{}",
        classes.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mebibytes, Quantum};

    #[test]
    fn the_daemon_has_the_same_classes_as_the_cycles_that_are_timed() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = ClusterShape { nodes: 10, jobs: 10, users: 1, quantum, seed: 1 };
        let config = crate::config::parse("bench.toml", &config(&shape)).unwrap();
        assert_eq!(config.topology, cluster::topology(quantum));
    }

    #[test]
    fn what_is_published_is_what_is_drawn() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = ClusterShape { nodes: 10, jobs: 10, users: 3, quantum, seed: 1 };
        let published = publication(&shape);
        let drawn = JobStream::of(&shape).take(10).collect::<Vec<_>>();
        assert_eq!(count(&published.work), 10);
        for (work, spec) in published.work.iter().zip(drawn) {
            assert_eq!((work.id, work.memory_mb), (spec.id.0, Some(spec.memory.0)));
            assert_eq!(work.class.as_deref(), Some(spec.class.as_str()));
        }
    }
}
