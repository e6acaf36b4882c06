//! What handlers share: the way to the owner, and connections for reading.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::hub::Hub;
use super::problem::Failed;
use crate::access::Gatekeeper;
use crate::orchestrator::drive::Request;
use crate::orchestrator::meters::Meters;
use crate::orchestrator::rm::{Rm, RmError};
use crate::orchestrator::store::Reader;

/// Connections for reading at most: each has a thread and a cache of pages.
const READERS: usize = 8;

/// How far the orchestrator has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its database is not open yet.
    Starting,
    /// Its database is an older copy, and nodes have what it does not know.
    SetBack,
    /// It runs.
    Open,
}

/// What handlers share. A copy costs nothing.
#[derive(Clone, Debug)]
pub struct ServeState(Arc<Shared>);

/// What goes on around the handlers.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The resource manager, once the orchestrator runs.
    manager: Arc<OnceLock<Arc<Rm>>>,
    /// Changes with each commit.
    pub commits: watch::Receiver<u64>,
    /// Ends streams and waits.
    pub stop: CancellationToken,
    /// The memory of the largest node that was seen, in MiB.
    largest_mb: Arc<AtomicU64>,
}

impl Sight {
    /// Of an orchestrator that does not run yet.
    pub fn new(commits: watch::Receiver<u64>) -> Sight {
        let (manager, stop, largest_mb) = <(Arc<_>, CancellationToken, Arc<_>)>::default();
        Sight { manager, commits, stop, largest_mb }
    }

    /// Of the orchestrator from now on, which runs until `stop`.
    pub fn begin(&self, manager: Arc<Rm>, stop: CancellationToken) {
        // It begins once.
        let _ = self.manager.set(manager);
        let ends = self.stop.clone();
        tokio::spawn(async move {
            stop.cancelled().await;
            ends.cancel();
        });
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
        // Nodes are many, and most work fits: they are asked for only if it did not before.
        if memory_mb <= self.largest_mb.load(Ordering::Relaxed) {
            return None;
        }
        let nodes = self.manager().ok()?.nodes().await.ok()?;
        let largest = nodes.iter().map(|node| node.order.saturating_mul(node.quantum_mb)).max()?;
        self.largest_mb.store(largest, Ordering::Relaxed);
        Some(largest).filter(|largest| *largest < memory_mb)
    }
}

/// What is shared.
#[derive(Debug)]
pub struct Shared {
    /// Says who may do what. `None`: another gate is in front.
    pub gatekeeper: Option<Arc<Gatekeeper>>,
    /// What adds up.
    pub meters: Meters,
    /// Output on its way.
    pub hub: Hub,
    /// What goes on around the handlers.
    pub sight: Sight,
    file: PathBuf,
    requests: mpsc::Sender<Request>,
    phase: watch::Receiver<Phase>,
    /// Connections for reading that are free now.
    readers: Mutex<Vec<Reader>>,
    /// How many more there may be in use.
    places: Semaphore,
}

impl Deref for ServeState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl ServeState {
    /// State for handlers that ask the owner by `requests` and read the database at `file`, once its
    /// `phase` allows it.
    pub fn new(
        requests: mpsc::Sender<Request>,
        file: PathBuf,
        phase: watch::Receiver<Phase>,
        (gatekeeper, meters, sight): (Option<Arc<Gatekeeper>>, Meters, Sight),
    ) -> ServeState {
        let (hub, readers) = (Hub::default(), Mutex::default());
        let places = Semaphore::new(READERS);
        ServeState(Arc::new(Shared {
            gatekeeper,
            meters,
            hub,
            sight,
            file,
            requests,
            phase,
            readers,
            places,
        }))
    }

    /// Sends a request to the owner.
    ///
    /// # Errors
    ///
    /// If the owner has stopped.
    pub async fn send(&self, request: Request) -> Result<(), Failed> {
        self.requests.send(request).await.map_err(|_| Failed::stopped())
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    ///
    /// If the owner has stopped, or stops before it answers.
    pub async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Failed> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply)).await?;
        answer.await.map_err(|_| match *self.phase.borrow() {
            Phase::SetBack => Failed::set_back(),
            Phase::Starting | Phase::Open => Failed::stopped(),
        })
    }

    /// A connection for reading, of this caller alone while it has it.
    ///
    /// # Errors
    ///
    /// If the orchestrator has stopped, or the database cannot be opened.
    pub async fn reader(&self) -> Result<Reading<'_>, Failed> {
        let mut phase = self.phase.clone();
        phase.wait_for(|phase| *phase != Phase::Starting).await.map_err(|_| Failed::stopped())?;
        let place = self.places.acquire().await.map_err(|_| Failed::stopped())?;
        if self.requests.is_closed() {
            return Err(Failed::stopped());
        }
        let idle = self.idle().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => Reader::open(&self.file).await?,
        };
        Ok(Reading { reader: Some(reader), shared: self, _place: place })
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for reading, while it is used.
#[derive(Debug)]
pub struct Reading<'a> {
    reader: Option<Reader>,
    shared: &'a Shared,
    _place: SemaphorePermit<'a>,
}

impl Reading<'_> {
    /// The connection.
    ///
    /// # Errors
    ///
    /// Never: it is given back at the end only.
    pub fn get(&mut self) -> Result<&mut Reader, Failed> {
        self.reader.as_mut().ok_or_else(Failed::stopped)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.idle().extend(self.reader.take());
    }
}
