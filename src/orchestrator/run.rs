//! The orchestrator as a whole: the owner on its thread, the routes, and the client of the resource
//! manager.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::book::Settings;
use super::clusters::{GridError, GridRouter, RemoteCluster};
use super::drive::{BookRequest, Owner, Signals, ToPublish};
use super::hold;
use super::house::HouseRules;
use super::meters::OrchestratorMeters;
use super::notifier::Notifier;
use super::retention::Sweeper;
use super::rm::{Rm, RmError, RmOptions, publication};
use super::serve::{OrchestratorPhase, ServeState, Sight};
use super::store::{CampaignStore, DbError, StoreReader};
use crate::auth::{AccessError, Authenticator};
use crate::config::{Access, CampaignRetention, GridSettings, Limits};
use crate::net::{Delay, Listeners, LocalSocket, SocketError, serve};

/// Most requests that wait for the owner.
const QUEUE: usize = 4096;
/// Longest time between two publications.
const AT_LEAST: Duration = Duration::from_secs(30);
/// Limit of connections: each agent has up to two open.
const CONNECTIONS: usize = 16_384;
/// Time that open requests get to end.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after the resource manager did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of an orchestrator.
#[derive(Clone, Debug)]
pub struct OrchestratorOptions {
    /// Path of the database.
    pub state: PathBuf,
    /// Shortest time between two publications.
    pub publish_every: Duration,
    /// Lease of a slot: time that it goes on without an exchange.
    pub lease: Duration,
    /// Time that a slot without a task stays.
    pub linger: Duration,
    /// Retention of campaigns and their tasks.
    pub retention: CampaignRetention,
    /// The router, and the other clusters.
    pub grid: GridSettings,
    /// Rules of the site for campaigns that are submitted.
    pub house: HouseRules,
}

/// Reason why an orchestrator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum OrchestratorError {
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] DbError),
    /// The resource manager cannot be reached.
    #[error(transparent)]
    Rm(#[from] RmError),
    /// The system refuses a thread or an address.
    #[error("cannot start")]
    System(#[from] std::io::Error),
    /// Files of tokens or certificates cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The unix socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address is reachable from other machines, without tokens or without a certificate.
    #[error(
        "{0} can be reached from other machines; add --tokens, --certificate and --key, or listen on \
         127.0.0.1"
    )]
    Open(SocketAddr),
    /// A cluster cannot be used as it is configured.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The owner panicked.
    #[error("internal error of the orchestrator; see its log")]
    Panicked,
}

/// A running orchestrator.
#[derive(Debug)]
pub struct Running {
    /// State that the routes share.
    pub state: ServeState,
    /// Receives the outcome of the owner; closed without a value if the owner panicked.
    done: oneshot::Receiver<Result<(), DbError>>,
}

impl Running {
    /// Waits for the end of the owner.
    ///
    /// # Errors
    ///
    /// If its database failed, or it panicked.
    pub async fn ended(self) -> Result<(), OrchestratorError> {
        drop(self.state);
        match self.done.await {
            Ok(outcome) => outcome.map_err(OrchestratorError::Store),
            Err(_) => Err(OrchestratorError::Panicked),
        }
    }
}

/// A prepared orchestrator: its routes exist, and their requests wait for its start.
#[derive(Debug)]
pub struct Prepared {
    options: OrchestratorOptions,
    state: ServeState,
    requests: mpsc::Sender<BookRequest>,
    inbox: mpsc::Receiver<BookRequest>,
    phase: watch::Sender<OrchestratorPhase>,
    committed: watch::Sender<u64>,
}

impl Prepared {
    /// Prepares an orchestrator. `gatekeeper` checks its routes; without a gatekeeper, a gate in
    /// front of them does.
    pub fn new(options: OrchestratorOptions, gatekeeper: Option<Arc<Authenticator>>) -> Prepared {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let (phase, seen) = watch::channel(OrchestratorPhase::Starting);
        let file = options.state.clone();
        let meters = OrchestratorMeters::default();
        let (committed, commits) = watch::channel(0);
        let around = (gatekeeper, meters, Sight::new(commits), options.house.clone());
        let state = ServeState::new(requests.clone(), file, seen, around);
        Prepared { options, state, requests, inbox, phase, committed }
    }

    /// Returns the state that the routes share.
    pub fn state(&self) -> ServeState {
        self.state.clone()
    }

    /// Starts the orchestrator, which runs until `stop`. After that, and after a failure, its
    /// routes answer that it has stopped.
    ///
    /// # Errors
    ///
    /// If its database cannot be used, or the system refuses a thread.
    pub async fn start(
        self,
        rm: Rm,
        stop: CancellationToken,
    ) -> Result<Running, OrchestratorError> {
        let Prepared { options, state, requests, mut inbox, phase, committed } = self;
        let rm = Arc::new(rm);
        state.sight.begin(Arc::clone(&rm), stop.clone());
        let mut store = CampaignStore::open(&options.state).await?;
        let publisher = format!("apportion-{}", store.identity());
        let epoch = store.epoch();
        let router = GridRouter::new(&options.grid, store.identity(), &options.state, &rm)?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let settings = Settings {
            lease_ms: millis(options.lease),
            linger_ms: millis(options.linger),
            clusters: 1 + crate::model::count(&options.grid.clusters),
        };
        let clusters = options.grid.clusters.iter().map(|cluster| cluster.name.clone());
        state.sight.tell_grid(clusters.collect(), options.grid.resource_mb);
        let remotes = options.grid.clusters.iter().map(RemoteCluster::new);
        // The router has tried the same settings.
        state.sight.tell_remotes(remotes.filter_map(Result::ok).collect());
        state.sight.tell_times(store.boot(), settings.lease_ms);
        let (publish, route) = Default::default();
        let signals = Arc::new(Signals { publish, committed, route });
        let (meters, zone) = (state.meters.clone(), options.house.zone.clone());
        let (told, ends) = (Arc::clone(&signals), stop.clone());
        let running = async move {
            let parked = if store.is_set_back() {
                phase.send_replace(OrchestratorPhase::SetBack);
                let lease = settings.lease_ms;
                hold::until_adopted(&mut store, lease, &mut inbox, &ends).await?
            } else {
                Some(Vec::new())
            };
            let Some(parked) = parked else { return store.close().await };
            let around = (meters, zone);
            let mut owner = Owner::resume(store, settings, inbox, told, around).await?;
            owner.publish_to(parked);
            phase.send_replace(OrchestratorPhase::Open);
            owner.run(ends).await
        };
        let notifier = match options.house.notify.clone() {
            Some(program) => {
                let reader = StoreReader::open(&options.state).await?;
                let commits = state.sight.commits.clone();
                Some(Notifier::open(program, reader, requests.clone(), commits).await?)
            }
            None => None,
        };
        let done = spawn_owner(running)?;
        let sweeper = Sweeper::open(&options.state, options.retention, requests.clone()).await?;
        tokio::spawn(stop.clone().run_until_cancelled_owned(sweeper.run()));
        if let Some(notifier) = notifier {
            tokio::spawn(stop.clone().run_until_cancelled_owned(notifier.run()));
        }
        if let Some(router) = router {
            let routing = router.run(requests.clone(), Arc::clone(&signals));
            tokio::spawn(stop.clone().run_until_cancelled_owned(routing));
        }
        tracing::info!(publisher, epoch, "the orchestrator runs");
        let publish_every = options.publish_every;
        let link = Arc::new(Link { rm, publisher, epoch, requests, signals, publish_every });
        let follower = Arc::clone(&link);
        let publishing = async move { link.publish().await };
        tokio::spawn(stop.clone().run_until_cancelled_owned(publishing));
        tokio::spawn(stop.run_until_cancelled_owned(async move { follower.follow().await }));
        Ok(Running { state, done })
    }
}

/// Address and access control of an orchestrator that runs alone.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Tokens, certificates and the unix socket.
    pub access: Access,
}

/// Runs an orchestrator alone, until `stop`. `ready` receives its address.
///
/// # Errors
///
/// If it cannot be started, cannot listen, or its database fails.
pub async fn serve_alone(
    options: &OrchestratorOptions,
    rm: RmOptions,
    reach: &Reach,
    ready: oneshot::Sender<SocketAddr>,
    stop: CancellationToken,
) -> Result<(), OrchestratorError> {
    let has_secrets = reach.access.tokens.is_some() && reach.access.certificate.is_some();
    if !reach.listen.ip().is_loopback() && !has_secrets {
        return Err(OrchestratorError::Open(reach.listen));
    }
    let stop = stop.child_token();
    let _ends_all = stop.clone().drop_guard();
    let limits =
        Limits { connections: CONNECTIONS, connections_per_peer: CONNECTIONS, ..Limits::default() };
    let gatekeeper = Arc::new(Authenticator::open(&reach.access, &limits)?);
    let listener = TcpListener::bind(reach.listen).await?;
    let address = listener.local_addr()?;
    let local = reach.access.socket.as_deref().map(LocalSocket::bind).transpose()?;
    let prepared = Prepared::new(options.clone(), Some(Arc::clone(&gatekeeper)));
    let running = prepared.start(Rm::new(rm)?, stop.clone()).await?;
    let router = super::serve::gated(running.state.clone());
    let listeners = Listeners { tcp: listener, local };
    let serving = serve(listeners, router, gatekeeper, Delay::default(), stop.clone());
    let serving = tokio::spawn(serving);
    tracing::info!(%address, "the orchestrator listens");
    // The starter of the orchestrator may have stopped waiting for the address.
    let _ = ready.send(address);
    let ended = running.ended();
    tokio::pin!(ended);
    let failed_early = tokio::select! {
        outcome = &mut ended => Some(outcome),
        () = stop.cancelled() => None,
    };
    stop.cancel();
    // Requests that wait for the owner end with it; other requests get a grace period.
    if tokio::time::timeout(DRAIN, serving).await.is_err() {
        tracing::warn!("requests did not end in time; their connections are closed");
    }
    match failed_early {
        Some(outcome) => outcome,
        None => tokio::time::timeout(DRAIN, ended).await.unwrap_or(Ok(())),
    }
}

/// Runs the owner on a thread of its own: a commit that waits for the disk must not hold up
/// anything else.
fn spawn_owner(
    running: impl Future<Output = Result<(), DbError>> + Send + 'static,
) -> Result<oneshot::Receiver<Result<(), DbError>>, OrchestratorError> {
    let (tell, done) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let run = move || {
        let outcome = runtime.block_on(running);
        if let Err(error) = &outcome {
            tracing::error!(%error, "the orchestrator stops");
        }
        // The receiver is gone if the process ends; then no answer is needed.
        let _ = tell.send(outcome);
    };
    thread::Builder::new().name("orchestrator".to_owned()).spawn(run)?;
    Ok(done)
}

/// Link of the orchestrator to the resource manager: publications and schedules.
struct Link {
    rm: Arc<Rm>,
    publisher: String,
    epoch: u64,
    requests: mpsc::Sender<BookRequest>,
    signals: Arc<Signals>,
    publish_every: Duration,
}

impl Link {
    /// Publishes after each change, at most once in `publish_every`, and at least once in
    /// [`AT_LEAST`].
    async fn publish(&self) {
        let mut is_silent = false;
        loop {
            let changed = tokio::time::timeout(AT_LEAST, self.signals.publish.notified());
            // Both mean that it is time.
            let _ = changed.await;
            let next = Instant::now() + self.publish_every;
            match self.publish_once().await {
                Ok(false) => return,
                Ok(true) => is_silent = false,
                Err(error) => {
                    if !is_silent {
                        tracing::warn!(%error, "cannot publish; slots go on");
                    }
                    is_silent = true;
                    tokio::time::sleep(PAUSE).await;
                    self.signals.publish.notify_one();
                }
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Publishes once. `false`: the owner has stopped.
    async fn publish_once(&self) -> Result<bool, RmError> {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(BookRequest::Publication(reply)).await.is_err() {
            return Ok(false);
        }
        let Ok(ToPublish { sequence, work, gone }) = answer.await else { return Ok(false) };
        let publication = publication(sequence, &self.publisher, self.epoch, work);
        let refused = self.rm.publish(&publication).await?;
        if self.requests.send(BookRequest::Refused(refused)).await.is_err() {
            return Ok(false);
        }
        Ok(self.requests.send(BookRequest::Published(sequence, gone)).await.is_ok())
    }

    /// Follows the schedule.
    async fn follow(&self) {
        let mut known = None;
        let mut is_silent = false;
        loop {
            match self.rm.next_schedule(known.as_deref()).await {
                Ok(None) => is_silent = false,
                Ok(Some(schedule)) => {
                    is_silent = false;
                    known = schedule.name;
                    let request = BookRequest::Schedule(schedule.publication, schedule.jobs);
                    if self.requests.send(request).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    if !is_silent {
                        tracing::warn!(%error, "cannot follow the schedule; slots go on");
                    }
                    is_silent = true;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}
