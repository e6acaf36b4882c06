//! Large campaigns: submitted, kept in memory, started with, published, and waited with.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{interval, sleep, timeout};

use super::agent::{BenchAgent, TaskEnding, TaskTally};
use super::manager::{Manager, Weighed};
use super::submission::{by_command, lines};
use super::{Crowd, Large, LargeFigures, MEMORY, poll, submit};
use crate::bench::daemon::BenchError;
use crate::bench::daemon::child::{self, Child, bytes_of};
use crate::bench::load::wire::Connection;
use crate::bench::load::{number, part_of_core};
use crate::bench::process::MeasuredProcess;
use crate::bench::times::milliseconds;

/// Time in which agents must report the tasks that have begun.
const SETTLE: Duration = Duration::from_secs(2);
/// Time between two task ends while publications are weighed: each end causes a publication.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Measures with files in `folder`.
///
/// # Errors
///
/// If the orchestrator cannot be started, or does not do as asked.
pub(super) async fn measure(large: &Large, folder: &Path) -> Result<LargeFigures, BenchError> {
    let failed = BenchError::Orchestrator;
    let shares_each = large.running.checked_div(large.campaigns).unwrap_or(0).max(1);
    let manager = Manager::start(shares_each, large.nodes).await.map_err(failed)?;
    let (child, address) = child::start_orchestrator(folder, manager.address()).await?;
    let process = MeasuredProcess::of(child.id());
    let submitted = submit_all(large, folder, &address, &process).await.map_err(failed)?;

    let tally = Arc::new(TaskTally::default());
    let agents: Vec<BenchAgent> =
        (0..large.nodes).map(|node| BenchAgent::new(node, TaskEnding::WhenTold)).collect();
    let running = shares_each.saturating_mul(large.campaigns);
    let agents = begin_all(agents, &address, &tally, running).await.map_err(failed)?;
    let peak_mb = process.peak_rss_mb();

    // The next orchestrator uses the same files.
    drop(child);
    let begun = Instant::now();
    let (child, address) = child::start_orchestrator(folder, manager.address()).await?;
    let restarted = Restarted { begun, child, address, agents, tally, time: large.time };
    let restarted = restarted.measure(&manager).await.map_err(failed)?;
    let FirstSubmission { time, command_peak_mb, peak_mb: submit_peak_mb, bytes } = submitted;
    Ok(LargeFigures {
        campaigns: large.campaigns,
        lines: large.lines,
        running,
        agents: large.nodes,
        submit_s: time.as_secs_f64(),
        command_peak_mb,
        submit_peak_mb,
        submit_bytes: bytes,
        peak_mb,
        ..restarted
    })
}

/// Cost of the first submission.
struct FirstSubmission {
    time: Duration,
    command_peak_mb: Option<f64>,
    peak_mb: Option<f64>,
    bytes: Option<u64>,
}

/// Submits the first campaign by the command, and the other campaigns by its requests.
async fn submit_all(
    large: &Large,
    folder: &Path,
    address: &str,
    process: &MeasuredProcess,
) -> io::Result<FirstSubmission> {
    let (file, text) = (folder.join("lines"), lines(large.lines));
    fs::write(&file, &text)?;
    let first = by_command(&file, address).await?;
    let (peak_mb, bytes) = (process.peak_rss_mb(), bytes_of(folder));
    let lines: Vec<&str> = text.lines().collect();
    let body = json!({
        "user": "bench", "memory": MEMORY, "command": ["true"], "cwd": "/", "lines": lines,
    });
    let body = serde_json::to_vec(&body)?;
    for _ in 1..large.campaigns {
        submit(address, &body).await?;
    }
    Ok(FirstSubmission { time: first.time, command_peak_mb: first.peak_mb, peak_mb, bytes })
}

/// Lets agents begin `running` tasks and report them.
async fn begin_all(
    agents: Vec<BenchAgent>,
    address: &str,
    tally: &Arc<TaskTally>,
    running: u64,
) -> io::Result<Vec<BenchAgent>> {
    let crowd = Crowd::begin(agents, address, tally).await?;
    crowd.until(&tally.begun, running).await?;
    sleep(SETTLE).await;
    crowd.end().await
}

/// An orchestrator that was started anew, and agents with tasks that ran on.
struct Restarted {
    begun: Instant,
    child: Child,
    address: String,
    agents: Vec<BenchAgent>,
    tally: Arc<TaskTally>,
    time: Duration,
}

impl Restarted {
    async fn measure(mut self, manager: &Manager) -> io::Result<LargeFigures> {
        let (tally, time) = (Arc::clone(&self.tally), self.time);
        let process = MeasuredProcess::of(self.child.id());
        let mut first = self.agents.pop().ok_or_else(|| io::Error::other("there is no agent"))?;
        let mut connection = Connection::open(&self.address).await?;
        first.exchange(&mut connection, "0s", &tally).await?;
        let restart_ms = milliseconds(self.begun.elapsed());

        let crowd = Crowd::begin(self.agents, &self.address, &tally).await?;
        sleep(SETTLE).await;
        let polls = timeout(time, poll(&mut first, &mut connection, &tally));
        let (polled, idle) = part_of_core(&process, polls).await;
        // The time is over, unless an exchange failed.
        polled.unwrap_or(Ok(()))?;

        // An exchange that was given up is still open.
        let mut connection = Connection::open(&self.address).await?;
        manager.weigh();
        let ends = end_tasks(&mut first, &mut connection, &tally, time);
        let (ended, busy) = part_of_core(&process, ends).await;
        ended?;
        let Weighed { publications, largest, processes } = manager.weigh();
        let each = number(publications) / time.as_secs_f64();
        let publication_core_percent = busy.zip(idle).map(|(busy, idle)| (busy - idle) / each);
        let restarted_peak_mb = process.peak_rss_mb();
        crowd.end().await?;
        Ok(LargeFigures {
            restart_ms,
            restarted_peak_mb,
            idle_core_percent: idle,
            publication_processes: processes,
            publication_bytes: largest,
            publication_core_percent,
            ..LargeFigures::default()
        })
    }
}

/// Ends a task now and then.
async fn end_tasks(
    agent: &mut BenchAgent,
    connection: &mut Connection,
    tally: &TaskTally,
    time: Duration,
) -> io::Result<()> {
    let mut ticks = interval(PUBLISH_EVERY);
    let end = Instant::now() + time;
    while Instant::now() < end {
        ticks.tick().await;
        agent.end_one();
        agent.exchange(connection, "0s", tally).await?;
    }
    Ok(())
}
