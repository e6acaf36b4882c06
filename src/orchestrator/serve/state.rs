//! What handlers share: the way to the owner, and a connection for reading.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::hub::Hub;
use super::problem::Failed;
use crate::access::Gatekeeper;
use crate::orchestrator::drive::Request;
use crate::orchestrator::rm::Rm;
use crate::orchestrator::store::Reader;

/// What handlers share. A copy costs nothing.
#[derive(Clone, Debug)]
pub struct ServeState(Arc<Shared>);

/// What goes on around the handlers.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The resource manager.
    pub manager: Arc<Rm>,
    /// Changes with each commit.
    pub commits: watch::Receiver<u64>,
    /// Ends streams and waits.
    pub stop: CancellationToken,
    /// The memory of the largest node that was seen, in MiB.
    largest_mb: Arc<AtomicU64>,
}

impl Sight {
    /// Of an orchestrator that stops with `stop`, before it has seen a node.
    pub fn new(manager: Arc<Rm>, commits: watch::Receiver<u64>, stop: CancellationToken) -> Sight {
        Sight { manager, commits, stop, largest_mb: Arc::default() }
    }

    /// The memory of the largest node, in MiB, if `memory_mb` is more than that. `None`: it fits, no
    /// node has reported, or the resource manager is silent.
    pub async fn exceeded(&self, memory_mb: u64) -> Option<u64> {
        // Nodes are many, and most work fits: they are asked for only if it did not before.
        if memory_mb <= self.largest_mb.load(Ordering::Relaxed) {
            return None;
        }
        let nodes = self.manager.nodes().await.ok()?;
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
    /// Output on its way.
    pub hub: Hub,
    /// What goes on around the handlers.
    pub sight: Sight,
    file: PathBuf,
    requests: mpsc::Sender<Request>,
    reader: Mutex<Option<Reader>>,
}

impl Deref for ServeState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl ServeState {
    /// State for handlers that ask the owner by `requests` and read the database at `file`.
    pub fn new(
        requests: mpsc::Sender<Request>,
        file: PathBuf,
        gatekeeper: Option<Arc<Gatekeeper>>,
        sight: Sight,
    ) -> ServeState {
        let (hub, reader) = (Hub::default(), Mutex::new(None));
        ServeState(Arc::new(Shared { gatekeeper, hub, sight, file, requests, reader }))
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
        answer.await.map_err(|_| Failed::stopped())
    }

    /// The connection for reading.
    ///
    /// # Errors
    ///
    /// If the database cannot be opened.
    pub async fn reader(&self) -> Result<Reading<'_>, Failed> {
        let mut guard = self.reader.lock().await;
        if guard.is_none() {
            *guard = Some(Reader::open(&self.file).await?);
        }
        Ok(Reading(guard))
    }
}

/// The connection for reading, while it is used.
#[derive(Debug)]
pub struct Reading<'a>(MutexGuard<'a, Option<Reader>>);

impl Reading<'_> {
    /// The connection.
    ///
    /// # Errors
    ///
    /// Never: it was opened before it was lent.
    pub fn get(&mut self) -> Result<&mut Reader, Failed> {
        self.0.as_mut().ok_or_else(Failed::stopped)
    }
}
