//! The daemon: HTTP in front, a thread that owns the scheduler behind it, the store beneath.
//!
//! ```text
//!  HTTP ─ requests (bounded) ─► owner: record, plan, commit ─► store
//!   ▲                                        │
//!   └───────────── board ◄── publish ────────┘   only what is committed
//! ```
//!
//! Heartbeats take another path: the last heartbeat of each node waits until the scheduler task
//! fetches it.
//!
//! At a start the daemon serves the last stored schedule at once. Meanwhile it checks the whole
//! store and computes the last state again from the journal. All other requests wait for that, for
//! at most some seconds. If the store is damaged, the daemon ends without having written anything.
//!
//! `apportion serve`, `apportion demo` and the tests all run [`serve`].

mod audited;
mod checkpoint_policy;
mod clock;
mod configure;
mod decisions;
mod error;
mod feed;
mod heartbeat_timer;
mod hours;
mod life;
mod live;
mod notify;
mod owner;
mod past_cycles;
mod readers;
mod record;
mod refused;
mod resume;
mod urgent;
mod watch;

pub use error::DaemonError;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::{Router, middleware};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::api::{self, ApiState, ConfigAsk, Publisher, Request, ViewPublisher};
use crate::auth::{AccessError, Actor, Authenticator};
use crate::config::{Config, DaemonSettings, Journal, Sources};
use crate::dashboard::{Dashboard, Site, for_people};
use crate::model::Steps;
use crate::net::{self, Listeners, LocalSocket};
use crate::store::{PublisherRow, Retention, StartupPeek, Store};

use feed::Feed;
use life::LifeSigns;
use live::LiveConfig;
use owner::SchedulerTask;
use past_cycles::Replays;
use readers::RecordReaders;

/// Requests that wait for the scheduler; a handler waits for a free place before it sends another
/// request.
const QUEUE: usize = 256;

/// Maximum time of a request, long polls excepted.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Time that open requests get after the daemon was asked to stop.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Runs the daemon on `listener` until `stop` is cancelled.
///
/// # Errors
///
/// If the store cannot be opened or written, or a cycle panics. Then the daemon has stopped
/// serving, and has published nothing that is not stored.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), DaemonError> {
    let reread = Arc::new(Notify::new());
    // Boxed: the future is large, and the caller's future would be larger still.
    Box::pin(serve_from(config, Sources::default(), reread, listener, stop)).await
}

/// Runs the daemon like [`serve`], and reads the configuration again from its `sources` on each
/// `reread`.
///
/// # Errors
///
/// Same as for [`serve`].
pub async fn serve_from(
    config: Config,
    sources: Sources,
    reread: Arc<Notify>,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), DaemonError> {
    Box::pin(serve_beside(config, sources, reread, listener, stop, Beside::default())).await
}

/// Routes beside the daemon's own, behind the same authentication.
#[derive(Debug, Default)]
pub struct Beside {
    /// Routes to add.
    pub routes: Router,
    /// True if the routes contain pages of campaigns.
    pub has_campaigns: bool,
    /// Receives all routes, the daemon's included, once they are served. Its holder sends requests
    /// without a connection, with a [`Peer`](crate::auth::Peer) of their own.
    pub whole: Option<oneshot::Sender<Router>>,
}

/// Runs the daemon like [`serve_from`], with routes `beside` its own. If the configuration enables
/// our orchestrator, no token may be for another orchestrator.
///
/// # Errors
///
/// Same as for [`serve`].
pub async fn serve_beside(
    config: Config,
    sources: Sources,
    reread: Arc<Notify>,
    listener: TcpListener,
    stop: CancellationToken,
    beside: Beside,
) -> Result<(), DaemonError> {
    // The end of this function, by return or by drop, ends its tasks and its thread.
    let stop = stop.child_token();
    let _ends_all = stop.clone().drop_guard();
    let drained = CancellationToken::new();
    let _ends_thread = drained.clone().drop_guard();

    let DaemonSettings { state, limits, access, .. } = &config.daemon;
    // Authentication comes first: without it, the daemon must not touch a file.
    let gatekeeper = Arc::new(gatekeeper_of(&config)?);
    let local = access.socket.as_deref().map(LocalSocket::bind).transpose()?;
    let steps = Steps::default();
    let life = LifeSigns::begin(steps.clone()).map_err(DaemonError::NoThread)?;
    let store = Store::open_telling(state, steps).await.map_err(DaemonError::NoRecord)?;
    let mut store = store.keeping(retention(&config.daemon.journal));
    let glance = store.glance().await.map_err(DaemonError::NoRecord)?;
    let publisher = publisher_in(&mut store).await?;
    tracing::info!(cycle = glance.cycle, "the record is open");
    say_if_lost(&glance, store.path());
    let (requests, inbox) = mpsc::channel(QUEUE);
    let board = Arc::new(ViewPublisher::new(owner::initial_view(&config, &glance)));
    let readers = RecordReaders::of(store.path());
    let state = ApiState::new(
        Arc::clone(&board),
        requests,
        glance.sequence,
        api_limits(limits),
        record_of(&readers, &stop),
        Arc::clone(&gatekeeper),
        stop.clone(),
    );
    state.intake().await.publishers().hand_over(publisher);
    let asked = state.clone();
    let live = LiveConfig::begin(&mut store, config, sources, glance.cycle).await;
    let live = live.map_err(DaemonError::NoRecord)?;
    // Recovery runs on the scheduler's thread, while the last schedule is already served.
    let (heartbeats, until) = (Arc::clone(&state.heartbeats), drained.clone());
    let delay = heartbeats.delay().clone();
    let shown = Arc::clone(&board);
    let mut owner = OwnerThread::spawn(move || {
        SchedulerTask::resumed(live, store, shown, heartbeats, inbox, until)
    })?;
    let dashboard = Dashboard::new(state.clone());
    tokio::spawn(stop.clone().run_until_cancelled_owned(dashboard.clone().watch()));
    let sockets = Listeners { tcp: listener, local };
    let routes = routes_of(state, dashboard, beside.has_campaigns, beside.routes);
    // A receiver that was dropped needs no way to the daemon.
    let _ = beside.whole.map(|tell| tell.send(routes.clone()));
    let mut serving = tokio::spawn(net::serve(sockets, routes, gatekeeper, delay, stop.clone()));
    life.runs(&board);
    tokio::spawn(stop.clone().run_until_cancelled_owned(pass_on(reread, asked)));
    let failed_early = tokio::select! {
        outcome = &mut owner.done => Some(outcome),
        () = stop.cancelled() => None,
    };
    stop.cancel();
    life.ends(&board);
    let served = drain(&mut serving, &readers).await;
    drained.cancel();
    let outcome = if let Some(outcome) = failed_early { outcome } else { (&mut owner.done).await };
    outcome.unwrap_or_else(|_| Err(owner.panic()))?;
    served
}

fn gatekeeper_of(config: &Config) -> Result<Authenticator, AccessError> {
    let DaemonSettings { limits, access, .. } = &config.daemon;
    let gatekeeper = Authenticator::open(access, limits)?;
    if config.orchestrator.enabled { gatekeeper.publishing_itself() } else { Ok(gatekeeper) }
}

/// The past, by `readers` of the store, until the daemon stops.
fn record_of(readers: &RecordReaders, stop: &CancellationToken) -> api::Record {
    api::Record {
        events: Arc::new(Feed(readers.clone())),
        cycles: Arc::new(Replays::new(readers.clone(), stop.clone())),
    }
}

/// Builds all routes. A browser gets problems as pages.
fn routes_of(state: ApiState, dashboard: Dashboard, has_campaigns: bool, others: Router) -> Router {
    let site = Site::beside(has_campaigns);
    let routes = api::router(state, dashboard.routes(has_campaigns), others);
    routes.layer(middleware::from_fn_with_state(site, for_people))
}

/// Returns the orchestrator whose publications count, if the store knows it.
async fn publisher_in(store: &mut Store) -> Result<Option<Publisher>, DaemonError> {
    let publisher = store.publisher().await.map_err(DaemonError::NoRecord)?;
    Ok(publisher.map(|PublisherRow { name, epoch }| Publisher { name, epoch }))
}

/// Logs an error if the store ends before the cycle in its mark.
fn say_if_lost(glance: &StartupPeek, file: &Path) {
    let Some(on_record) = glance.lost_after else { return };
    let was = glance.cycle;
    tracing::error!(
        on_record,
        was,
        file = %file.display(),
        "the record had come further than this: an older copy was put in its place, or its write-ahead log is \
         gone or damaged. Later acts are lost: check which nodes are varied off. Jobs are \
         taken over from the next publication, and no number is used again"
    );
}

/// Has the configuration read again whenever that is asked for.
async fn pass_on(reread: Arc<Notify>, state: ApiState) {
    loop {
        reread.notified().await;
        if state.reread_access(Actor::daemon("SIGHUP")).await.is_err() {
            return;
        }
        let Ok(room) = state.room().await else { return };
        room.send(Request::Configuration(ConfigAsk::Reread));
    }
}

fn retention(journal: &Journal) -> Retention {
    let Journal { cycles, schedules, .. } = *journal;
    Retention { cycles, schedules }
}

fn api_limits(limits: &crate::config::Limits) -> api::Limits {
    api::Limits {
        body: limits.body_bytes,
        time: REQUEST_TIME,
        nodes: limits.max_nodes,
        jobs: limits.max_jobs,
        processes: limits.max_processes_per_job,
        string: limits.max_string,
        absent_publications: limits.absent_publications,
        absent_time: limits.absent_time,
    }
}

/// Lets open requests end, for a while, and then all readers of the record.
async fn drain(
    serving: &mut tokio::task::JoinHandle<()>,
    readers: &RecordReaders,
) -> Result<(), DaemonError> {
    let served = match tokio::time::timeout(DRAIN_TIME, &mut *serving).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failure)) => Err(DaemonError::Http(failure.into())),
        Err(_) => {
            tracing::warn!(
                "some requests did not end in {} s; they are cut off",
                DRAIN_TIME.as_secs()
            );
            serving.abort();
            Ok(())
        }
    };
    readers.end().await;
    served
}

/// Thread that owns the scheduler, separate so that a long cycle does not delay HTTP.
struct OwnerThread {
    /// Receives the outcome; closed without a value if the thread panicked.
    done: oneshot::Receiver<Result<(), DaemonError>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl OwnerThread {
    fn spawn<F>(owner: impl FnOnce() -> F + Send + 'static) -> Result<OwnerThread, DaemonError>
    where
        F: Future<Output = Result<SchedulerTask, DaemonError>>,
    {
        let (tell, done) = oneshot::channel();
        let runtime = Handle::current();
        let run = move || {
            let outcome = runtime.block_on(async { owner().await?.run().await });
            // If the daemon's future was dropped, no receiver needs the outcome.
            let _ = tell.send(outcome);
        };
        let thread = thread::Builder::new()
            .name("scheduler".to_owned())
            .spawn(run)
            .map_err(DaemonError::NoThread)?;
        Ok(OwnerThread { done, thread: Some(thread) })
    }

    /// Returns the message of the panic that ended the thread.
    fn panic(&mut self) -> DaemonError {
        let panic = self.thread.take().and_then(|thread| thread.join().err());
        let message = panic.map(|panic| error::message_of(panic.as_ref())).unwrap_or_default();
        DaemonError::CyclePanicked { message }
    }
}
