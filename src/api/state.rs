//! What handlers share: the latest published picture to read from, and the way to the scheduler.
//!
//! No handler waits for a cycle to read, and no reader holds up the scheduler.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::body::Bytes;
use axum::http::HeaderValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::access::{Actor, Gatekeeper, Reread};
use crate::api::config::ConfigRefusal;
use crate::api::events::PastEvents;
use crate::api::http::compression::SharedJson;
use crate::api::http::error::{ApiError, Code};
use crate::api::http::turns::Turns;
use crate::api::ingest::absence::AbsentWork;
use crate::api::ingest::heartbeat_inbox::Hearing;
use crate::api::ingest::publication_reader::Intake;
use crate::api::ingest::publishers::Publisher;
use crate::api::metrics::Meters;
use crate::api::metrics::client_stats::Clients;
use crate::api::node_list::NodeLists;
use crate::api::wire;
use crate::api::wire::from_view::schedule_json;
use crate::converter::{JobUpdate, Publication, update_of};
use crate::scheduler::{Command, CommandError, CommandOutcome, Event, JobView, Pictures, View};

/// Something for whoever owns the scheduler.
#[derive(Debug)]
pub enum Request {
    /// A publication was taken in. No events means that nothing changed.
    Publication {
        /// Its number.
        sequence: u64,
        /// What it changes.
        events: Vec<Event>,
        /// What it leaves out.
        absent: AbsentWork,
    },
    /// Whose publications count is another. Answered once that is on record.
    Publisher {
        /// Whose; `None`: anyone's.
        publisher: Option<Publisher>,
        /// What is to stand in the audit log with it.
        note: Option<AuditNote>,
        /// Where to answer.
        reply: oneshot::Sender<()>,
    },
    /// An administrator wants something. Answered once the outcome is stored.
    Command {
        /// What.
        command: Command,
        /// Who.
        by: Actor,
        /// Where to answer.
        reply: oneshot::Sender<Result<CommandOutcome, CommandError>>,
    },
    /// Something is to stand in the audit log. Nobody waits for it.
    Audit(AuditNote),
    /// Somebody asks about the configuration, or for another one.
    Configuration(ConfigAsk),
}

/// Something for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// Who.
    pub by: Actor,
    /// What, in a few words.
    pub act: String,
    /// To what.
    pub detail: String,
    /// What came of it.
    pub outcome: String,
}

/// Where the answer goes that may be a refusal.
type ConfigReply<T> = oneshot::Sender<Result<T, ConfigRefusal>>;

/// What can be asked about the configuration, each with where to answer.
#[derive(Debug)]
pub enum ConfigAsk {
    /// What is in effect.
    Show(oneshot::Sender<wire::ConfigInfo>),
    /// What was in effect.
    History(oneshot::Sender<wire::ConfigHistory>),
    /// One that was in effect.
    Generation {
        /// Which.
        generation: u64,
        /// Where to answer.
        reply: ConfigReply<wire::ConfigGeneration>,
    },
    /// What another one would come to.
    Plan {
        /// Which.
        request: wire::ConfigRequest,
        /// Where to answer.
        reply: ConfigReply<wire::ConfigPlan>,
    },
    /// Put another one into effect. Answered once it is on record.
    Apply {
        /// Which.
        request: wire::ConfigRequest,
        /// Who wants it.
        by: Actor,
        /// Where to answer.
        reply: ConfigReply<wire::ConfigPlan>,
    },
    /// The file may have changed: a signal said so. Nobody waits for an answer.
    Reread,
}

/// Everything readers can see: the books after a cycle that is on record.
#[derive(Clone, Debug)]
pub struct Published {
    /// The books.
    pub view: View,
    /// What the orchestrator gets.
    pub schedule: Arc<ScheduleText>,
    /// Whether a cycle has been planned and stored since the start.
    pub is_ready: bool,
    /// Whether the books are still on their way from the record: but for the schedule, nothing here
    /// is to be shown or built on.
    pub is_resuming: bool,
    /// The last publication in the books.
    pub publication: Option<u64>,
    /// What the last publication left out, and keeps its room.
    pub absent: AbsentWork,
    /// The work that the books had at the start, as the orchestrator had shown it: what its first
    /// publication since then is compared with.
    pub taken_over: Option<Arc<Publication>>,
    /// The number of the last event that those who follow can have.
    pub last_event: u64,
    /// The number of the configuration in effect; 0 while none is.
    pub generation: u64,
    /// How long planning took.
    pub planned_in: Duration,
    /// How long it took to prepare what goes on record, the audit included.
    pub prepared_in: Duration,
    /// How long storing took.
    pub stored_in: Duration,
    /// The rules that the last audited cycle broke.
    pub findings: Vec<String>,
    /// How often a rule was broken since the start.
    pub findings_total: u64,
    /// What cycles have taken since the start.
    pub times: CycleTimes,
}

/// What planned cycles have taken: for whoever asks how the daemon is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleTimes {
    /// How many there were.
    pub cycles: u64,
    /// Planning, all of them together.
    pub planned: Duration,
    /// Planning, the longest.
    pub planned_max: Duration,
    /// Storing, all of them together.
    pub stored: Duration,
    /// Storing, the longest.
    pub stored_max: Duration,
}

impl CycleTimes {
    /// These and one more cycle.
    #[must_use]
    pub fn and(self, planned_in: Duration, stored_in: Duration) -> CycleTimes {
        CycleTimes {
            cycles: self.cycles + 1,
            planned: self.planned.saturating_add(planned_in),
            planned_max: self.planned_max.max(planned_in),
            stored: self.stored.saturating_add(stored_in),
            stored_max: self.stored_max.max(stored_in),
        }
    }
}

/// The update for the orchestrator, ready to be sent.
#[derive(Debug)]
pub struct ScheduleText {
    /// The cycle in which it came about.
    pub cycle: u64,
    /// As JSON.
    pub json: SharedJson,
    /// How HTTP names it. Weak: the same schedule may be spelled in another way.
    pub etag: HeaderValue,
}

impl ScheduleText {
    /// The update of `cycle`, as JSON.
    ///
    /// # Panics
    ///
    /// Never: a number in quotes is legal in a header.
    pub fn new(cycle: u64, json: Bytes) -> ScheduleText {
        let etag = HeaderValue::try_from(format!("W/\"{cycle}\""))
            .expect("digits and quotes are legal in a header");
        ScheduleText { cycle, json: json.into(), etag }
    }

    /// The update made from `view`, in which `publication` is the last one; that of `previous` itself
    /// while nothing differs, so that the same thing gets no new number. That work waits longer for the
    /// same reason is not worth one.
    pub fn following(
        previous: Option<&Published>,
        publication: Option<u64>,
        view: &View,
    ) -> Arc<ScheduleText> {
        match previous {
            Some(previous) if say_the_same(&previous.view.jobs, &view.jobs) => {
                Arc::clone(&previous.schedule)
            }
            _ => {
                let json = Bytes::from(schedule_json(view.cycle, publication, &view.jobs));
                Arc::new(ScheduleText::new(view.cycle, json))
            }
        }
    }
}

/// Whether the updates made from them say the same.
fn say_the_same(one: &Arc<Pictures<JobView>>, other: &Arc<Pictures<JobView>>) -> bool {
    let is_same = |one: &JobView, other: &JobView| {
        one == other || {
            let (one, other) = (update_of(one), update_of(other));
            one == other || is_same_but_later(&one, &other)
        }
    };
    Arc::ptr_eq(one, other) || one.are_alike(other, is_same)
}

/// Whether they differ only in the numbers of a reason that grow with every cycle.
fn is_same_but_later(one: &JobUpdate, other: &JobUpdate) -> bool {
    let code = |update: &JobUpdate| update.reason.as_ref().map(|reason| reason.code);
    let is_counting = matches!(code(one), Some("too_dear" | "quiet_stop"));
    is_counting
        && code(one) == code(other)
        && *one == JobUpdate { reason: one.reason.clone(), ..other.clone() }
}

/// Where the latest picture hangs, for everybody to see.
#[derive(Debug)]
pub struct Board {
    latest: ArcSwap<Published>,
    changes: watch::Sender<()>,
    meters: Meters,
    /// When the scheduler last had nothing due, as time since `began`, in milliseconds.
    lived: AtomicU64,
    began: Instant,
}

impl Board {
    /// A board that shows `first`.
    pub fn new(first: Published) -> Board {
        Board {
            latest: ArcSwap::from_pointee(first),
            changes: watch::Sender::new(()),
            meters: Meters::default(),
            lived: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// Shows `next` from now on, and wakes whoever waits for it.
    pub fn publish(&self, next: Published) {
        let next = Arc::new(next);
        let before = self.latest.swap(Arc::clone(&next));
        self.changes.send_replace(());
        // Whoever waits has been told; the scheduler's thread may count.
        self.meters.step(&before, &next);
    }

    /// What is counted.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The scheduler lives, and nothing is due.
    pub fn note_life(&self) {
        let lived = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.lived.store(lived, Ordering::Relaxed);
    }

    /// How long ago the scheduler was last seen to live.
    pub fn silent_for(&self) -> Duration {
        let lived = Duration::from_millis(self.lived.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(lived)
    }

    /// The latest picture.
    pub fn latest(&self) -> Arc<Published> {
        self.latest.load_full()
    }

    /// Tells of every picture published from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

/// How much of anything is taken in.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// How long a request may take, long polls excepted.
    pub time: Duration,
    /// Nodes that may report, and that one request for work may list.
    pub nodes: usize,
    /// Requests for work in a publication.
    pub jobs: usize,
    /// Processes of one request for work.
    pub processes: usize,
    /// Bytes of a name, a reason or any other string.
    pub string: usize,
    /// From so many publications an absent process keeps its room,
    pub absent_publications: u32,
    /// and for so long.
    pub absent_time: Duration,
}

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
    pub async fn command(&self, command: Command, by: Actor) -> Result<CommandOutcome, ApiError> {
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
