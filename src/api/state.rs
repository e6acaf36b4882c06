//! What handlers share: the latest published picture to read from, and the way to the scheduler.
//!
//! No handler waits for a cycle to read, and no reader holds up the scheduler.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::access::{Actor, Gatekeeper, Reread};
use crate::api::board::Board;
use crate::api::event_log::PastEvents;
use crate::api::http::error::{ApiError, Code};
use crate::api::http::turns::Turns;
use crate::api::ingest::heartbeat_inbox::Hearing;
use crate::api::ingest::publication_reader::Intake;
use crate::api::limits::Limits;
use crate::api::metrics::client_stats::Clients;
use crate::api::node_list::NodeLists;
use crate::api::owner_request::{AuditNote, Request};
use crate::api::published::Published;
use crate::scheduler::{AdminCommand, CommandOutcome};

/// What handlers share. Every request has several copies made of it, which have to cost nothing.
#[derive(Clone, Debug)]
pub struct ApiState(Arc<Shared>);

/// What is shared.
pub struct Shared {
    /// The latest picture.
    pub board: Arc<Board>,
    /// How much of anything is taken in.
    pub limits: Limits,
    /// Ends long polls.
    pub stop: CancellationToken,
    /// What came about before.
    pub past_events: Arc<dyn PastEvents>,
    /// Who may do what.
    pub gatekeeper: Arc<Gatekeeper>,
    /// What was heard of nodes.
    pub hearing: Arc<Hearing>,
    /// Who asks.
    pub(in crate::api) clients: Clients,
    /// Whose turn it is of those that take long to answer.
    pub(in crate::api) turns: Turns,
    /// All nodes, for all who look.
    pub(in crate::api) node_lists: NodeLists,
    requests: mpsc::Sender<Request>,
    intake: Arc<tokio::sync::Mutex<Intake>>,
}

impl Deref for ApiState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl ApiState {
    /// State for handlers that read from `board` and write to `requests`, or what was heard of nodes to
    /// a log that has to be asked. `sequence` is the last publication known from before the start.
    pub fn new(
        board: Arc<Board>,
        requests: mpsc::Sender<Request>,
        sequence: Option<u64>,
        limits: Limits,
        past_events: Arc<dyn PastEvents>,
        gatekeeper: Arc<Gatekeeper>,
        stop: CancellationToken,
    ) -> ApiState {
        let intake = Arc::new(tokio::sync::Mutex::new(Intake::new(sequence, limits)));
        let hearing = Arc::new(Hearing::new(limits));
        let node_lists = NodeLists::default();
        let shared = Shared {
            board,
            limits,
            stop,
            past_events,
            gatekeeper,
            hearing,
            clients: Clients::default(),
            turns: Turns::default(),
            node_lists,
            requests,
            intake,
        };
        ApiState(Arc::new(shared))
    }

    /// The latest picture.
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

    /// Room for one request to the scheduler. Sending it then cannot fail or be interrupted, so
    /// what is remembered as sent was sent.
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
    /// If the command is refused, or the scheduler stops before the outcome is on record.
    pub async fn command(
        &self,
        command: AdminCommand,
        by: Actor,
    ) -> Result<CommandOutcome, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.room().await?.send(Request::Command { command, by, reply });
        Ok(answer.await.map_err(|_| stopping())??)
    }

    /// Has something put into the audit log, if the scheduler has room for it now.
    pub fn note(&self, note: AuditNote) {
        if self.requests.try_send(Request::Audit(note)).is_err() {
            tracing::warn!("the scheduler is too busy for the audit log; one refusal is only here");
        }
    }

    /// Has the files of tokens and certificates read again, on record.
    ///
    /// # Errors
    ///
    /// If the scheduler has stopped.
    pub async fn reread_access(&self, by: Actor) -> Result<(), ApiError> {
        let gatekeeper = Arc::clone(&self.gatekeeper);
        // Files are read; nobody else should have to wait for that.
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

    /// The publications taken in so far, for one at a time.
    pub async fn intake(&self) -> tokio::sync::OwnedMutexGuard<Intake> {
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
