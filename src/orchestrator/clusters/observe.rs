//! The first step of a pass: the space of a cluster, the renewal of its leases, and its results.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::remote::{RemoteCluster, RemoteError};
use crate::api::wire::NodeInfo;
use crate::config::ClusterSettings;
use crate::grid::STRESS_LIMIT;
use crate::orchestrator::book::{Book, ForwardedBatch, Forwarding, ForwardingView};
use crate::orchestrator::rm::RmError;
use crate::orchestrator::site_program;
use crate::orchestrator::wire::{AttemptId, HeadClock, LeaseTerms, TaskInfo, TaskResult};
use crate::slot::since_boot_ms;

/// Time that the program of a cluster's stress gets.
const STRESS_PATIENCE: Duration = Duration::from_secs(5);
/// The largest stress, in thousandths.
const FULL_STRESS: u64 = 1000;

/// A cluster as a pass saw it.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    /// Free memory and all memory of each node, in MiB. Empty: the cluster is silent.
    pub nodes: Vec<(u64, u64)>,
    /// True if the cluster does not answer.
    pub is_silent: bool,
    /// Nodes by enforcement of memory limits.
    pub rungs: BTreeMap<String, u64>,
    /// The cluster's clock. `None`: the cluster is silent, or knows no leases.
    pub clock: Option<HeadClock>,
    /// Stress of the cluster, in thousandths.
    pub stress: u64,
    /// Sentence of the event or of the stress for which it gets no task.
    pub held: Option<String>,
}

/// Outcome of the step for a remote cluster.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The cluster.
    pub state: ClusterState,
    /// Starts and ends of its tasks.
    pub changes: Vec<Forwarding>,
    /// Reason why it is silent.
    pub error: Option<RemoteError>,
    /// Batches whose leases may have been renewed, each with the time of the message.
    pub renewed: Vec<(u64, u64)>,
}

impl HeadClock {
    /// The terms of a lease that counts from this reading.
    pub(super) fn terms(&self, for_ms: u64) -> Value {
        json!(LeaseTerms { for_ms, boot: self.boot.clone(), as_of_ms: self.ms })
    }
}

/// Observes a remote cluster. `children`: the child campaign of each batch. `patience`:
/// the longest wait for a sign of life, as the leases on other clusters go on meanwhile.
pub(super) async fn observe(
    remote: &RemoteCluster,
    view: &ForwardingView,
    children: &BTreeMap<u64, u64>,
    patience: Duration,
) -> Observed {
    let name = &remote.settings().name;
    let silent = |error| Observed {
        state: ClusterState { is_silent: true, ..ClusterState::default() },
        error: Some(error),
        ..Observed::default()
    };
    let snapshot = tokio::time::timeout(patience, remote.snapshot());
    let (snapshot, (stress, stressed)) =
        futures_util::future::join(snapshot, stress_of(remote.settings())).await;
    let grid = match snapshot {
        Ok(Ok(grid)) => grid,
        Ok(Err(error)) => return silent(error),
        Err(_) => return silent(RemoteError::Silent("it takes too long".to_owned())),
    };
    let node = |free: Option<u64>, all: Option<u64>| Some((free?, all?));
    let nodes = grid.nodes.iter().filter_map(|it| node(it.free_mb, it.memory_mb)).collect();
    let mut rungs = BTreeMap::new();
    for node in &grid.nodes {
        *rungs.entry(node.limits.word().to_owned()).or_default() += 1;
    }
    let held = grid.held.map(|text| format!("its own event: {text}"));
    let (clock, held) = (grid.clock, held.or(stressed));
    let mut state = ClusterState { nodes, is_silent: false, rungs, clock, stress, held };
    let here = view.batches.iter().filter(|batch| batch.cluster == *name);
    let here: Vec<(&ForwardedBatch, u64)> =
        here.filter_map(|batch| Some((batch, *children.get(&batch.batch)?))).collect();
    let leased = here.iter().filter(|(batch, _)| batch.lease_ms.is_some());
    let leased: Vec<(u64, u64)> = leased.map(|(batch, child)| (batch.batch, *child)).collect();
    let mut renewed = Vec::new();
    if let Some(clock) = state.clock.as_ref().filter(|_| !leased.is_empty()) {
        // A message without an answer may have arrived.
        let sent_ms = since_boot_ms();
        renewed = leased.iter().map(|(batch, _)| (*batch, sent_ms)).collect();
        let children = leased.into_iter().map(|(_, child)| child).collect();
        if let Err(error) = remote.renew(clock, children).await {
            tracing::warn!(cluster = %name, %error, "leases are renewed later");
        }
    }
    let mut changes = Vec::new();
    for (batch, child) in here {
        // Tasks that have ended are no news; the open ones lie close together.
        let open = || batch.tasks.iter().map(|task| task.id.task);
        let (Some(first), Some(last)) = (open().min(), open().max()) else { continue };
        match remote.results(child, first..=last).await {
            Ok(tasks) => changes.extend(news_of(batch, &tasks)),
            Err(error) => {
                tracing::warn!(cluster = %name, %error, "results are read later");
                state.is_silent = true;
            }
        }
    }
    Observed { state, changes, error: None, renewed }
}

/// The stress of a cluster, in thousandths, by its program; with a sentence if no task is sent for it. A program
/// that fails counts as full stress: nothing is known of the cluster then.
async fn stress_of(cluster: &ClusterSettings) -> (u64, Option<String>) {
    let Some(program) = &cluster.stress else { return (0, None) };
    let input = json!({ "cluster": cluster.name.as_str() }).to_string();
    let told = site_program::run(program, input.as_bytes(), STRESS_PATIENCE).await;
    let read = told.and_then(|told| {
        let text = String::from_utf8_lossy(&told);
        let stress = text.trim().parse::<u64>().ok().filter(|stress| *stress <= FULL_STRESS);
        stress.ok_or_else(|| "did not print a number from 0 to 1000".to_owned())
    });
    match read {
        Ok(stress) if stress < STRESS_LIMIT => (stress, None),
        Ok(stress) => (stress, Some(format!("its stress is {stress} of {FULL_STRESS}"))),
        Err(why) => (FULL_STRESS, Some(format!("its stress program {} {why}", program.display()))),
    }
}

/// The router's own cluster, by the nodes of its resource manager.
pub(super) fn local_state(nodes: Result<Vec<NodeInfo>, RmError>) -> ClusterState {
    let Ok(nodes) = nodes else {
        return ClusterState { is_silent: true, ..ClusterState::default() };
    };
    let mb = |amount: u64, quantum: u64| amount.saturating_mul(quantum);
    let node = |it: NodeInfo| (mb(it.free, it.quantum_mb), it.memory_mb);
    let nodes = nodes.into_iter().map(node).collect();
    ClusterState { nodes, ..ClusterState::default() }
}

/// The changes that a cluster reports for a batch.
fn news_of(batch: &ForwardedBatch, tasks: &[TaskInfo]) -> Vec<Forwarding> {
    let told: BTreeMap<u64, &TaskInfo> = tasks.iter().map(|task| (task.task, task)).collect();
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for task in &batch.tasks {
        let Some(info) = told.get(&task.id.task) else { continue };
        match info.state.as_str() {
            "running" if !task.is_running => begun.push(task.id),
            "done" | "failed" | "cancelled" | "dropped" => ended.push(result_of(task.id, info)),
            _ => {}
        }
    }
    vec![Forwarding::Begun(begun), Forwarding::Ended(ended)]
}

/// The result of a forwarded attempt, from the final task of the child campaign.
fn result_of(id: AttemptId, info: &TaskInfo) -> TaskResult {
    let last = info.attempts.last().and_then(|attempt| attempt.result.clone());
    let counts = matches!(info.state.as_str(), "done" | "failed");
    match last.filter(|_| counts) {
        Some(last) => TaskResult { number: 0, task: id, ..last },
        None => Book::withdrawn(id),
    }
}
