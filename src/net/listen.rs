//! Listeners: connections are accepted, counted, encrypted and served, and end in time.
//!
//! A connection beyond the limits is closed without an answer, as an answer costs more than it is
//! worth. The unix socket has places of its own, so that a flood on TCP keeps no administrator out.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use super::delay::Delay;
use super::slow_peer::{PeerTimeouts, RequestInFlight, TimedStream};
use super::wakeup_coalescing::Reporting;
use crate::auth::gatekeeper::{Authenticator, LocalRights};
use crate::auth::identity::Peer;
use crate::auth::places::{ConnectionLimits, ConnectionPlaces, LocalPlaces, network_of};

/// Longest TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Longest idle time of a connection, and longest wait for a request head. Longer than an agent's
/// pause between heartbeats.
const IDLE_TIME: Duration = Duration::from_secs(75);
/// Timeouts of a slow client: for a request head from its first byte on, and for a write without
/// progress.
const TIMEOUTS: PeerTimeouts =
    PeerTimeouts { head: Duration::from_secs(5), write: Duration::from_secs(30) };
/// Longest idle time at the unix socket for local users that are not operators. Such clients send
/// their request at once.
const IDLE_TIME_OF_OTHERS: Duration = Duration::from_secs(10);
/// Time that the kernel keeps bytes that the client does not read, even after the connection is
/// closed here.
const UNTAKEN_TIME: Duration = Duration::from_secs(30);
/// Pause of `accept` after the system had no resources for a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Path of the route for heartbeats.
const HEARTBEATS: &str = "/v1/heartbeats";
/// File descriptors kept free for the store and the log, and for the unix socket.
const FILES_KEPT: usize = 64 + LocalPlaces::count();

/// The daemon's listeners.
#[derive(Debug)]
pub struct Listeners {
    /// Listener for the network, or for this computer only.
    pub tcp: TcpListener,
    /// Listener on the unix socket.
    pub local: Option<LocalSocket>,
}

/// The unix socket, and the file by which it is found; gone with it.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file.
    file: Option<(u64, u64)>,
}

/// Reason why the daemon cannot listen at the unix socket.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SocketError {
    #[error("{} exists and is no socket; move it away", path.display())]
    Taken { path: PathBuf },
    #[error("another daemon listens at {}", path.display())]
    InUse { path: PathBuf },
    #[error("cannot listen at {}; make its folder, and let the daemon's user write in it", path.display())]
    Failed { path: PathBuf, source: io::Error },
}

impl LocalSocket {
    /// Listens at `path`. A socket left by an earlier daemon is removed.
    ///
    /// All local users may connect: the kernel reports the user, and the user's rights decide.
    ///
    /// # Errors
    ///
    /// If another file or daemon is at `path`, or its folder is missing.
    pub fn bind(path: &Path) -> Result<LocalSocket, SocketError> {
        let here = || path.to_owned();
        let failed = |source| SocketError::Failed { path: here(), source };
        match path.symlink_metadata() {
            Ok(facts) if !facts.file_type().is_socket() => {
                return Err(SocketError::Taken { path: here() });
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(SocketError::InUse { path: here() });
            }
            Ok(_) => std::fs::remove_file(path).map_err(failed)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let for_all_users = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(path, for_all_users).map_err(failed)?;
        tracing::info!(socket = %path.display(), "listening");
        Ok(LocalSocket { listener, path: here(), file: file_at(path) })
    }
}

/// Device and number of the file at `path`.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|facts| (facts.dev(), facts.ino()))
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Another daemon may have taken the path; then its file stays.
        if file_at(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Serves connections by `router` until `stop`, and returns when all connections have ended. The
/// wait of requests for their turn is recorded in `delay`.
pub async fn serve(
    listeners: Listeners,
    router: Router,
    gatekeeper: Arc<Authenticator>,
    delay: Delay,
    stop: CancellationToken,
) {
    let Listeners { tcp, local } = listeners;
    let tracker = TaskTracker::new();
    let server = ConnectionServer {
        router,
        gatekeeper,
        delay,
        tracker: tracker.clone(),
        stop: stop.clone(),
    };
    let at_socket = async {
        if let Some(local) = &local {
            server.let_in_locals(&local.listener).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        ((), ()) = async { tokio::join!(server.let_in(&tcp), at_socket) } => {}
        () = server.delay.measure() => {}
    }
    drop((tcp, local));
    tracker.close();
    tracker.wait().await;
}

/// State that every connection needs.
#[derive(Clone)]
struct ConnectionServer {
    router: Router,
    gatekeeper: Arc<Authenticator>,
    delay: Delay,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl ConnectionServer {
    async fn let_in(&self, listener: &TcpListener) {
        let places = ConnectionPlaces::new(caps(&self.gatekeeper));
        let mut turned_away = TurnedAway::default();
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            let Some(place) = places.take(network_of(address.ip())) else {
                turned_away.note(address);
                continue;
            };
            let server = self.clone();
            let came = Instant::now();
            self.tracker.spawn(async move {
                server.delay.note(came.elapsed());
                server.serve_tcp(stream, address).await;
                drop(place);
            });
        }
    }

    async fn serve_tcp(self, stream: TcpStream, address: std::net::SocketAddr) {
        let peer = |is_tls| Peer::Tcp { address, is_tls };
        // Answers are small, and a client waits for each.
        let _ = stream.set_nodelay(true);
        forget_untaken(&stream);
        let Some(tls) = self.gatekeeper.tls() else {
            return self.serve(stream, peer(false), IDLE_TIME).await;
        };
        Reporting::other_came();
        let handshake = timeout(HANDSHAKE_TIME, tls.acceptor().accept(stream));
        match self.stop.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.serve(stream, peer(true), IDLE_TIME).await,
            Some(Ok(Err(error))) => tracing::debug!(%address, %error, "TLS handshake failed"),
            Some(Err(_)) | None => tracing::debug!(%address, "TLS handshake timed out"),
        }
    }

    async fn let_in_locals(&self, listener: &UnixListener) {
        let places = LocalPlaces::new();
        let mut turned_away = TurnedAway::default();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            let peer = match stream.peer_cred() {
                Ok(peer) => peer,
                Err(error) => {
                    tracing::warn!(%error, "the kernel does not report the user at the socket");
                    continue;
                }
            };
            let (uid, gid) = (peer.uid(), peer.gid());
            let standing = self.gatekeeper.standing(uid, gid);
            let Some(place) = places.take(standing, uid) else {
                turned_away.note(format_args!("uid {uid}"));
                continue;
            };
            let idle = if standing == LocalRights::Other { IDLE_TIME_OF_OTHERS } else { IDLE_TIME };
            let server = self.clone();
            let peer = Peer::Local { uid, gid, pid: peer.pid() };
            self.tracker.spawn(async move {
                server.serve(stream, peer, idle).await;
                drop(place);
            });
        }
    }

    async fn serve<T>(self, stream: T, peer: Peer, idle: Duration)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let busy = RequestInFlight::default();
        let stream = TokioIo::new(TimedStream::new(stream, busy.clone(), TIMEOUTS));
        let router = self.router;
        let reporting = Reporting::new();
        let service = service_fn(move |mut request: Request<Incoming>| {
            if request.uri().path() == HEARTBEATS {
                reporting.came();
            } else {
                Reporting::other_came();
            }
            request.extensions_mut().insert(peer);
            let (mut router, busy) = (router.clone(), busy.clone());
            busy.begin_or_end();
            async move {
                let answer = router.call(request.map(Body::new)).await;
                busy.begin_or_end();
                answer
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(idle);
        let mut connection = pin!(http.serve_connection(stream, service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "connection broke off");
        }
    }
}

/// Count of refused connections.
#[derive(Debug, Default)]
struct TurnedAway(u64);

impl TurnedAway {
    /// Logs at powers of two: soon, and not for ever.
    fn note(&mut self, who: impl std::fmt::Display) {
        self.0 += 1;
        if self.0.is_power_of_two() {
            tracing::warn!(%who, turned_away = self.0, "too many connections");
        }
    }
}

/// Makes the kernel end a connection whose client reads nothing. Otherwise the kernel keeps the
/// rest of an answer long after the connection was closed here.
fn forget_untaken(stream: &TcpStream) {
    let time = u32::try_from(UNTAKEN_TIME.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, time) {
        tracing::debug!(%error, "the kernel keeps its own timeout for unread bytes");
    }
}

/// Waits before the next `accept` if the system lacks resources, such as file descriptors: an open
/// connection has to end first. A connection that the client aborted needs no pause.
async fn pause_after(error: &io::Error) {
    let is_theirs = [
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionRefused,
    ];
    if !is_theirs.contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept connections; trying again");
        sleep(ACCEPT_BACKOFF).await;
    }
}

/// Returns the configured limits, lowered to the number of files that the system permits. The soft
/// limit of open files is raised to the hard limit first.
fn caps(gatekeeper: &Authenticator) -> ConnectionLimits {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (all, per_peer) = gatekeeper.connections();
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: now.maximum, ..now };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => now.maximum,
        Err(_) => now.current,
    };
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let room = files.saturating_sub(FILES_KEPT).max(FILES_KEPT);
    if room < all {
        tracing::warn!(
            configured = all,
            room,
            "the system's limit on open files allows fewer connections"
        );
    }
    ConnectionLimits { all: all.min(room), per_one: per_peer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_does_not_keep_what_is_not_taken() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        forget_untaken(&client);
        let kept = rustix::net::sockopt::tcp_user_timeout(&client).unwrap();
        assert_eq!(kept, 30_000, "milliseconds");
    }

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let socket = LocalSocket::bind(&path).unwrap();
        let refused = LocalSocket::bind(&path).unwrap_err().to_string();
        assert!(refused.starts_with("another daemon listens at"), "{refused}");
        drop(socket);
        assert!(!path.exists());
        let first = LocalSocket::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = LocalSocket::bind(&path).unwrap();
        drop(first);
        assert!(path.exists(), "that of the second");
        drop(second);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        let refused = LocalSocket::bind(&path).unwrap_err().to_string();
        assert!(refused.contains("is no socket"), "{refused}");
    }
}
