//! What handlers share: the way to the owner, and a connection for reading.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};

use super::hub::Hub;
use super::problem::Failed;
use crate::access::Gatekeeper;
use crate::orchestrator::drive::Request;
use crate::orchestrator::store::Reader;

/// What handlers share. A copy costs nothing.
#[derive(Clone, Debug)]
pub struct ServeState(Arc<Shared>);

/// What is shared.
#[derive(Debug)]
pub struct Shared {
    /// Says who may do what. `None`: another gate is in front.
    pub gatekeeper: Option<Arc<Gatekeeper>>,
    /// Output on its way.
    pub hub: Hub,
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
    ) -> ServeState {
        let (hub, reader) = (Hub::default(), Mutex::new(None));
        ServeState(Arc::new(Shared { gatekeeper, hub, file, requests, reader }))
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
