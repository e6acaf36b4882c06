//! Shared state of handlers: the latest published view to read from, and the way to the scheduler.
//!
//! No handler waits for a cycle to read, and no reader holds up the scheduler.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::api::board::ViewPublisher;
use crate::api::event_log::PastEvents;
use crate::api::http::error::{ApiError, Code};
use crate::api::http::turns::Turns;
use crate::api::ingest::heartbeat_inbox::HeartbeatInbox;
use crate::api::ingest::publication_reader::PublicationReader;
use crate::api::limits::Limits;
use crate::api::metrics::client_stats::Clients;
use crate::api::node_list::NodeLists;
use crate::api::owner_request::{AuditNote, Request};
use crate::api::past_cycles::{PastCycles, Record};
use crate::api::published::Published;
use crate::api::urgent_rate::UrgentRate;
use crate::auth::{Actor, Authenticator, Reread};
use crate::model::JobSpec;
use crate::scheduler::{AdminCommand, CommandImpact, CommandOutcome, UrgentGrant};

/// Shared state of handlers. Every request makes several copies of it, which must be cheap.
#[derive(Clone, Debug)]
pub struct ApiState(Arc<Shared>);

/// Fields of the shared state.
pub struct Shared {
    /// The latest view.
    pub board: Arc<ViewPublisher>,
    /// Limits of requests.
    pub limits: Limits,
    /// Ends long polls.
    pub stop: CancellationToken,
    /// Past events.
    pub past_events: Arc<dyn PastEvents>,
    /// The cluster after past cycles.
    pub past_cycles: Arc<dyn PastCycles>,
    /// Permissions of callers.
    pub gatekeeper: Arc<Authenticator>,
    /// Heartbeats of nodes.
    pub heartbeats: Arc<HeartbeatInbox>,
    /// Request counts by client.
    pub(in crate::api) clients: Clients,
    /// Turns of requests that take long to answer.
    pub(in crate::api) turns: Turns,
    /// The list of all nodes, shared by all clients.
    pub(in crate::api) node_lists: NodeLists,
    /// Limit of urgent requests.
    pub(in crate::api) urgent: UrgentRate,
    /// Turn of the trial of a command.
    trials: Arc<Semaphore>,
    requests: mpsc::Sender<Request>,
    intake: Arc<tokio::sync::Mutex<PublicationReader>>,
}

impl Deref for ApiState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl ApiState {
    /// Builds the state for handlers: they read from `board`, and write to `requests` and to the
    /// log of heartbeats. `sequence` is the last publication known from before the start.
    pub fn new(
        board: Arc<ViewPublisher>,
        requests: mpsc::Sender<Request>,
        sequence: Option<u64>,
        limits: Limits,
        record: Record,
        gatekeeper: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> ApiState {
        let intake = Arc::new(tokio::sync::Mutex::new(PublicationReader::new(sequence, limits)));
        let heartbeats = Arc::new(HeartbeatInbox::new(limits));
        let node_lists = NodeLists::default();
        let shared = Shared {
            board,
            limits,
            stop,
            past_events: record.events,
            past_cycles: record.cycles,
            gatekeeper,
            heartbeats,
            clients: Clients::default(),
            turns: Turns::default(),
            node_lists,
            urgent: UrgentRate::default(),
            trials: Arc::new(Semaphore::new(1)),
            requests,
            intake,
        };
        ApiState(Arc::new(shared))
    }

    /// Returns the latest view.
    pub fn latest(&self) -> Arc<Published> {
        self.board.latest()
    }

    /// Finds out that the scheduler has stopped.
    ///
    /// # Errors
    ///
    /// If so.
    pub fn check_running(&self) -> Result<(), ApiError> {
        if self.requests.is_closed() { Err(stopping()) } else { Ok(()) }
    }

    /// Reserves space for a request to the scheduler. Sending it then cannot fail or be
    /// interrupted, so a request that is remembered as sent was sent.
    ///
    /// # Errors
    ///
    /// If the scheduler has stopped.
    pub async fn room(&self) -> Result<mpsc::Permit<'_, Request>, ApiError> {
        self.requests.reserve().await.map_err(|_| stopping())
    }

    /// Has a command of `by` carried out and its outcome stored.
    ///
    /// # Errors
    ///
    /// If the command is refused, or the scheduler stops before the outcome is stored.
    pub async fn command(
        &self,
        command: AdminCommand,
        by: Actor,
    ) -> Result<CommandOutcome, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.room().await?.send(Request::Command { command, by, reply });
        Ok(answer.await.map_err(|_| stopping())??)
    }

    /// Has an urgent job accepted, and the decision stored.
    ///
    /// # Errors
    ///
    /// If the job is refused, or the scheduler stops before the decision is stored.
    pub(in crate::api) async fn decide_urgent(
        &self,
        spec: JobSpec,
        by: Actor,
    ) -> Result<Arc<UrgentGrant>, ApiError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Urgent { spec: Box::new(spec), by, reply };
        self.room().await?.send(request);
        let decided = answer.await.map_err(|_| stopping())??;
        let refused = |reason| {
            let detail = format!("refused: {reason}. Nothing was done, and the job is not kept");
            ApiError::new(Code::UrgentRefused, detail)
        };
        decided.map_err(refused)
    }

    /// Has the effects of a command computed, a single trial at a time.
    ///
    /// # Errors
    ///
    /// If the command would be refused, or the scheduler has stopped.
    pub async fn try_out(&self, command: AdminCommand) -> Result<CommandImpact, ApiError> {
        // A trial works on a copy of all state: many at once would need the memory of many.
        let turn = Arc::clone(&self.trials).acquire_owned().await.map_err(|_| stopping())?;
        let (reply, answer) = oneshot::channel();
        self.room().await?.send(Request::Trial { command, turn, reply });
        Ok(answer.await.map_err(|_| stopping())??)
    }

    /// Adds an entry to the audit log, if the scheduler can take it now.
    pub fn note(&self, note: AuditNote) {
        if self.requests.try_send(Request::Audit(note)).is_err() {
            tracing::warn!("the scheduler is too busy for the audit log; one refusal is only here");
        }
    }

    /// Reads the files of tokens and certificates again, and records that.
    ///
    /// # Errors
    ///
    /// If the scheduler has stopped.
    pub async fn reread_access(&self, by: Actor) -> Result<(), ApiError> {
        let gatekeeper = Arc::clone(&self.gatekeeper);
        // Reading files may take long, so it gets a thread of its own and holds up no request.
        let read = tokio::task::spawn_blocking(move || gatekeeper.reread()).await;
        for Reread { what, outcome } in read.unwrap_or_default() {
            let (detail, outcome) = match outcome {
                Ok(now) => (now, "done".to_owned()),
                Err(why) => (String::new(), format!("refused: {why}")),
            };
            let act = format!("reread {what}");
            let note = AuditNote { by: by.clone(), act, detail, outcome };
            self.room().await?.send(Request::Audit(note));
        }
        Ok(())
    }

    /// Locks the intake of publications for a single caller.
    pub async fn intake(&self) -> tokio::sync::OwnedMutexGuard<PublicationReader> {
        Arc::clone(&self.intake).lock_owned().await
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The scheduler is not there any more.
pub(in crate::api) fn stopping() -> ApiError {
    ApiError::new(Code::Stopping, "the scheduler has stopped; try again when the daemon is back")
}
