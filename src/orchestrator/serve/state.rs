//! State that handlers share: the way to the owner, and connections for reading.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::hub::Hub;
use super::problem::Failed;
use crate::auth::Authenticator;
use crate::model::Name;
use crate::orchestrator::clusters::RemoteCluster;
use crate::orchestrator::drive::BookRequest;
use crate::orchestrator::house::HouseRules;
use crate::orchestrator::meters::OrchestratorMeters;
use crate::orchestrator::rm::{Rm, RmError};
use crate::orchestrator::store::StoreReader;
use crate::orchestrator::wire::HeadClock;
use crate::slot::since_boot_ms;

/// Most connections for reading: each has a thread and a cache of pages.
const READERS: usize = 8;

/// Phase of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrchestratorPhase {
    /// The database is not open yet.
    Starting,
    /// The database is an older copy, and does not know all attempts on nodes.
    SetBack,
    /// The orchestrator runs.
    Open,
}

/// State that handlers share. A copy is cheap.
#[derive(Clone, Debug)]
pub struct ServeState(Arc<ServeShared>);

/// Surroundings of the handlers: the resource manager, commits and the stop.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The resource manager, once the orchestrator runs.
    manager: Arc<OnceLock<Arc<Rm>>>,
    /// Changes with each commit.
    pub commits: watch::Receiver<u64>,
    /// Ends streams and waits.
    pub stop: CancellationToken,
    /// Memory of the largest known node, in MiB.
    largest_mb: Arc<AtomicU64>,
    /// Boot of this machine and lease of slots, once the orchestrator runs.
    times: Arc<OnceLock<(String, u64)>>,
    /// Names of the other clusters, and memory of a resource, in MiB.
    grid: Arc<OnceLock<(Vec<Name>, u64)>>,
    /// The other clusters, for the output of tasks there.
    remotes: Arc<OnceLock<Vec<RemoteCluster>>>,
}

impl Sight {
    /// Builds the surroundings before the orchestrator runs.
    pub fn new(commits: watch::Receiver<u64>) -> Sight {
        let (manager, stop, largest_mb) = <(Arc<_>, CancellationToken, Arc<_>)>::default();
        let (times, grid, remotes) = <(Arc<_>, Arc<_>, Arc<_>)>::default();
        Sight { manager, commits, stop, largest_mb, times, grid, remotes }
    }

    /// Sets the surroundings of a running orchestrator, which runs until `stop`.
    pub fn begin(&self, manager: Arc<Rm>, stop: CancellationToken) {
        // An orchestrator begins once, so the cell is empty.
        let _ = self.manager.set(manager);
        let ends = self.stop.clone();
        tokio::spawn(async move {
            stop.cancelled().await;
            ends.cancel();
        });
    }

    /// Sets the boot of this machine and the lease of slots, in milliseconds.
    pub fn tell_times(&self, boot: &str, slot_lease_ms: u64) {
        // An orchestrator begins once, so the cell is empty.
        let _ = self.times.set((boot.to_owned(), slot_lease_ms));
    }

    /// Sets the other clusters, and the memory of a resource, in MiB.
    pub fn tell_grid(&self, clusters: Vec<Name>, resource_mb: u64) {
        // An orchestrator begins once, so the cell is empty.
        let _ = self.grid.set((clusters, resource_mb));
    }

    /// Sets the clients of the other clusters.
    pub fn tell_remotes(&self, remotes: Vec<RemoteCluster>) {
        // An orchestrator begins once, so the cell is empty.
        let _ = self.remotes.set(remotes);
    }

    /// The client of another cluster. `None`: there is no such cluster.
    pub fn remote(&self, cluster: &Name) -> Option<&RemoteCluster> {
        let mut remotes = self.remotes.get().into_iter().flatten();
        remotes.find(|remote| remote.settings().name == *cluster)
    }

    /// The names of the other clusters, and the memory of a resource, in MiB. `None`: there is no
    /// other cluster.
    pub fn grid(&self) -> Option<(Vec<Name>, u64)> {
        self.grid.get().filter(|(clusters, _)| !clusters.is_empty()).cloned()
    }

    /// A reading of the clock by which leases count. `None`: the orchestrator does not run yet.
    pub fn clock(&self) -> Option<HeadClock> {
        let (boot, slot_lease_ms) = self.times.get()?.clone();
        Some(HeadClock { boot, ms: since_boot_ms(), slot_lease_ms })
    }

    /// The resource manager.
    ///
    /// # Errors
    ///
    /// While the orchestrator does not run.
    pub fn manager(&self) -> Result<&Rm, RmError> {
        let starting = || RmError::Silent("the orchestrator is about to start".to_owned());
        self.manager.get().map(Arc::as_ref).ok_or_else(starting)
    }

    /// The memory of the largest node, in MiB, if `memory_mb` is more than that. `None`: it fits, no
    /// node has reported, or the resource manager is silent.
    pub async fn exceeded(&self, memory_mb: u64) -> Option<u64> {
        // Most campaigns fit into nodes known before. Only a larger request asks for the nodes
        // again.
        if memory_mb <= self.largest_mb.load(Ordering::Relaxed) {
            return None;
        }
        let nodes = self.manager().ok()?.nodes().await.ok()?;
        let largest = nodes.iter().map(|node| node.order.saturating_mul(node.quantum_mb)).max()?;
        self.largest_mb.store(largest, Ordering::Relaxed);
        Some(largest).filter(|largest| *largest < memory_mb)
    }
}

/// Contents of the shared state.
#[derive(Debug)]
pub struct ServeShared {
    /// Checks credentials and rules. `None`: another gate is in front.
    pub gatekeeper: Option<Arc<Authenticator>>,
    /// Counters of the orchestrator.
    pub meters: OrchestratorMeters,
    /// Output on its way.
    pub hub: Hub,
    /// Surroundings of the handlers.
    pub sight: Sight,
    /// Rules of the site for campaigns that are submitted.
    pub house: HouseRules,
    file: PathBuf,
    requests: mpsc::Sender<BookRequest>,
    phase: watch::Receiver<OrchestratorPhase>,
    /// Idle connections for reading.
    readers: Mutex<Vec<StoreReader>>,
    /// Permits for further connections.
    places: Semaphore,
    /// Turn of a submission, where a rule counts the campaigns of a user.
    submissions: tokio::sync::Mutex<()>,
}

impl Deref for ServeState {
    type Target = ServeShared;

    fn deref(&self) -> &ServeShared {
        &self.0
    }
}

impl ServeState {
    /// State for handlers that ask the owner by `requests` and read the database at `file`, once its
    /// `phase` allows it.
    pub fn new(
        requests: mpsc::Sender<BookRequest>,
        file: PathBuf,
        phase: watch::Receiver<OrchestratorPhase>,
        (gatekeeper, meters, sight, house): (
            Option<Arc<Authenticator>>,
            OrchestratorMeters,
            Sight,
            HouseRules,
        ),
    ) -> ServeState {
        let (hub, readers) = (Hub::default(), Mutex::default());
        let places = Semaphore::new(READERS);
        ServeState(Arc::new(ServeShared {
            gatekeeper,
            meters,
            hub,
            sight,
            house,
            file,
            requests,
            phase,
            readers,
            places,
            submissions: tokio::sync::Mutex::default(),
        }))
    }

    /// Sends a request to the owner.
    ///
    /// # Errors
    ///
    /// If the owner has stopped.
    pub async fn send(&self, request: BookRequest) -> Result<(), Failed> {
        self.requests.send(request).await.map_err(|_| Failed::stopped())
    }

    /// Sends a request to the owner, and waits for the answer.
    ///
    /// # Errors
    ///
    /// If the owner has stopped, or stops before it answers.
    pub async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> BookRequest,
    ) -> Result<T, Failed> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply)).await?;
        answer.await.map_err(|_| match *self.phase.borrow() {
            OrchestratorPhase::SetBack => Failed::set_back(),
            OrchestratorPhase::Starting | OrchestratorPhase::Open => Failed::stopped(),
        })
    }

    /// Waits for the turn of a submission, which lasts as long as the answer is held. Without a rule that
    /// counts campaigns, submissions take no turns.
    pub async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let counts = self.house.rules.iter().any(|rule| rule.max_live.is_some());
        if counts { Some(self.submissions.lock().await) } else { None }
    }

    /// Takes a connection for reading. The caller has it alone.
    ///
    /// # Errors
    ///
    /// If the orchestrator has stopped, or the database cannot be opened.
    pub async fn reader(&self) -> Result<PooledReader<'_>, Failed> {
        let mut phase = self.phase.clone();
        phase
            .wait_for(|phase| *phase != OrchestratorPhase::Starting)
            .await
            .map_err(|_| Failed::stopped())?;
        let place = self.places.acquire().await.map_err(|_| Failed::stopped())?;
        if self.requests.is_closed() {
            return Err(Failed::stopped());
        }
        let idle = self.idle().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => StoreReader::open(&self.file).await?,
        };
        Ok(PooledReader { reader: Some(reader), shared: self, _place: place })
    }
}

impl ServeShared {
    fn idle(&self) -> MutexGuard<'_, Vec<StoreReader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for reading, while it is used.
#[derive(Debug)]
pub struct PooledReader<'a> {
    reader: Option<StoreReader>,
    shared: &'a ServeShared,
    _place: SemaphorePermit<'a>,
}

impl PooledReader<'_> {
    /// The connection.
    ///
    /// # Errors
    ///
    /// Never: the connection is returned only at the end.
    pub fn get(&mut self) -> Result<&mut StoreReader, Failed> {
        self.reader.as_mut().ok_or_else(Failed::stopped)
    }
}

impl Drop for PooledReader<'_> {
    fn drop(&mut self) {
        self.shared.idle().extend(self.reader.take());
    }
}
