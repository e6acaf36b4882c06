//! The orchestrator, timed from outside, with agents that are simulated and a resource manager that is.
//!
//! The orchestrator is the real binary, a process of its own with a database on a disk. Agents use
//! the exchange over HTTP on loopback and start no process, so that only the orchestrator is timed.

mod agent;
mod bare;
mod large;
mod manager;
mod submission;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::agent::{BenchAgent, TaskEnding, TaskTally};
pub use self::bare::{BareWork, serve as serve_bare};
use self::manager::Manager;
use super::daemon::BenchError;
use super::daemon::child::{self, Child};
use super::load::wire::{Connection, send};
use super::load::{check, cpu_s, gather, number};
use super::process::MeasuredProcess;

/// Memory of a slot, as people write it.
const MEMORY: &str = "256MB";
/// Time that an answer to an agent waits without news: as long as for a real agent.
const POLL: &str = "25s";
/// Time between two checks whether agents are done.
const LOOK: Duration = Duration::from_millis(2);
/// Time limit of a step.
const PATIENCE: Duration = Duration::from_mins(15);

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrchestratorOptions {
    /// Task starts. `None`: they are not measured.
    pub starts: Option<Starts>,
    /// Large campaigns. `None`: they are not measured.
    pub large: Option<Large>,
}

/// Parameters of the measurement of task starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starts {
    /// Agents. At least 1.
    pub agents: u64,
    /// Slots on each node. At least 1.
    pub slots_each: u64,
    /// Tasks. At least 1.
    pub tasks: u64,
}

/// Parameters of the measurement of large campaigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// Campaigns. At least 1.
    pub campaigns: u64,
    /// Tasks of each, a line for each. At least as many as it has slots.
    pub lines: u64,
    /// Slots of all campaigns together, each with a task that runs. At least as many as campaigns.
    pub running: u64,
    /// Nodes that they are on. At least 1.
    pub nodes: u64,
    /// Duration for which the orchestrator is measured idle, and again while it publishes.
    pub time: Duration,
}

/// Figures of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrchestratorFigures {
    /// Task starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<StartFigures>,
    /// Large campaigns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large: Option<LargeFigures>,
}

/// Task starts; every answer follows the commit of its rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StartFigures {
    /// Agents.
    pub agents: u64,
    /// Slots of all of them.
    pub slots: u64,
    /// Tasks.
    pub tasks: u64,
    /// Tasks started and ended in a second.
    pub per_s: f64,
    /// Starts a second of a bare handler that commits the same rows in the same batches.
    pub bare_per_s: f64,
    /// The first over the second.
    pub ratio: f64,
    /// Processor time of the orchestrator for a task, in microseconds. `None`: not available on
    /// this system.
    pub cpu_us: Option<f64>,
    /// Processor time of the bare handler for a task.
    pub bare_cpu_us: Option<f64>,
}

/// Large campaigns. `None`: this system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LargeFigures {
    /// Campaigns.
    pub campaigns: u64,
    /// Tasks of each.
    pub lines: u64,
    /// Tasks that ran.
    pub running: u64,
    /// Agents.
    pub agents: u64,
    /// From the start of `apportion submit` with a single campaign to its end.
    pub submit_s: f64,
    /// The most memory that this command had.
    pub command_peak_mb: Option<f64>,
    /// The most memory that the orchestrator had until then.
    pub submit_peak_mb: Option<f64>,
    /// Size of the orchestrator's files then.
    pub submit_bytes: Option<u64>,
    /// The most memory that the orchestrator had with all campaigns, after all tasks had begun.
    pub peak_mb: Option<f64>,
    /// From its start anew until the first exchange was answered.
    pub restart_ms: f64,
    /// The most memory that it had since its start anew.
    pub restarted_peak_mb: Option<f64>,
    /// Processor time of the orchestrator while all agents waited and nothing happened, in percent
    /// of a core.
    pub idle_core_percent: Option<f64>,
    /// Processes in a publication.
    pub publication_processes: u64,
    /// Bytes of a publication.
    pub publication_bytes: u64,
    /// Processor time that a publication a second took in addition, in percent of a core.
    pub publication_core_percent: Option<f64>,
}

/// Measures.
///
/// # Errors
///
/// If the orchestrator cannot be started, or does not do as asked.
pub async fn run(options: &OrchestratorOptions) -> Result<OrchestratorFigures, BenchError> {
    // In this order: processes have to be gone before their folder is.
    let scratch = tempfile::TempDir::with_prefix("apportion-bench-orchestrator-")
        .map_err(BenchError::Scratch)?;
    let starts = match &options.starts {
        Some(starts) => Some(measure_starts(starts, scratch.path()).await?),
        None => None,
    };
    let large = match &options.large {
        Some(large) => Some(large::measure(large, &folder(scratch.path(), "large")?).await?),
        None => None,
    };
    Ok(OrchestratorFigures { starts, large })
}

/// Makes a folder for a database.
fn folder(scratch: &Path, name: &str) -> Result<PathBuf, BenchError> {
    let folder = scratch.join(name);
    std::fs::create_dir(&folder).map_err(BenchError::Scratch)?;
    Ok(folder)
}

async fn measure_starts(starts: &Starts, scratch: &Path) -> Result<StartFigures, BenchError> {
    let Starts { agents, slots_each, tasks } = *starts;
    let slots = agents.saturating_mul(slots_each);
    let failed = BenchError::Orchestrator;
    let manager = Manager::start(slots, agents).await.map_err(failed)?;
    let (child, address) =
        child::start_orchestrator(&folder(scratch, "starts")?, manager.address()).await?;
    submit_range(&address, tasks).await.map_err(failed)?;
    let (per_s, cpu_us) = flood(&child, &address, starts).await.map_err(failed)?;
    drop(child);
    let work = BareWork { tasks, slots: slots_each };
    let (child, address) = child::start_bare_exchange(&folder(scratch, "bare")?, work).await?;
    let (bare_per_s, bare_cpu_us) = flood(&child, &address, starts).await.map_err(failed)?;
    let ratio = per_s / bare_per_s;
    Ok(StartFigures { agents, slots, tasks, per_s, bare_per_s, ratio, cpu_us, bare_cpu_us })
}

/// Submits a campaign whose tasks have their numbers only.
async fn submit_range(address: &str, tasks: u64) -> io::Result<()> {
    let body = serde_json::json!({
        "user": "bench", "memory": MEMORY, "command": ["true"], "cwd": "/", "tasks": tasks,
    });
    submit(address, &serde_json::to_vec(&body)?).await
}

async fn submit(address: &str, body: &[u8]) -> io::Result<()> {
    let mut connection = Connection::open(address).await?;
    check(connection.ask(&send("POST", "/v1/campaigns", body)).await?, 201).map(drop)
}

/// Lets agents run all tasks. Returns tasks a second, and the server's processor time for a task in
/// microseconds.
async fn flood(child: &Child, address: &str, starts: &Starts) -> io::Result<(f64, Option<f64>)> {
    let tally = Arc::new(TaskTally::default());
    let agents = (0..starts.agents).map(|node| BenchAgent::new(node, TaskEnding::AtOnce)).collect();
    let crowd = Crowd::begin(agents, address, &tally).await?;
    let process = MeasuredProcess::of(child.id());
    let (outcome, cpu) = cpu_s(&process, crowd.until(&tally.acked, starts.tasks)).await;
    outcome?;
    let begun = tally.first().unwrap_or_else(Instant::now);
    let time = begun.elapsed();
    crowd.end().await?;
    let tasks = number(starts.tasks);
    Ok((tasks / time.as_secs_f64(), cpu.map(|cpu| cpu / tasks * 1e6)))
}

/// Has an agent exchange until an exchange fails.
async fn poll(
    agent: &mut BenchAgent,
    connection: &mut Connection,
    tally: &TaskTally,
) -> io::Result<()> {
    loop {
        agent.exchange(connection, POLL, tally).await?;
    }
}

/// Agents that run.
struct Crowd {
    agents: JoinSet<io::Result<BenchAgent>>,
    stop: CancellationToken,
}

impl Crowd {
    /// Has each of `agents` exchange without end, over a connection of its own.
    async fn begin(
        agents: Vec<BenchAgent>,
        address: &str,
        tally: &Arc<TaskTally>,
    ) -> io::Result<Crowd> {
        let stop = CancellationToken::new();
        let mut crowd = Crowd { agents: JoinSet::new(), stop };
        for mut agent in agents {
            let mut connection = Connection::open(address).await?;
            let (stop, tally) = (crowd.stop.clone(), Arc::clone(tally));
            crowd.agents.spawn(async move {
                let polls = poll(&mut agent, &mut connection, &tally);
                stop.run_until_cancelled(polls).await.unwrap_or(Ok(()))?;
                Ok(agent)
            });
        }
        Ok(crowd)
    }

    /// Waits until `count` has come to `goal`.
    async fn until(&self, count: &AtomicU64, goal: u64) -> io::Result<()> {
        let begun = Instant::now();
        while count.load(Ordering::Relaxed) < goal {
            let is_late = PATIENCE < begun.elapsed();
            if is_late || self.agents.is_empty() {
                let reached = count.load(Ordering::Relaxed);
                let what = format!("tasks came to {reached} of {goal}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Stops all agents, and gives them back as they are.
    async fn end(self) -> io::Result<Vec<BenchAgent>> {
        self.stop.cancel();
        gather(self.agents).await
    }
}
