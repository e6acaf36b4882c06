//! The doors: connections are let in, counted, encrypted and served, and end in time.
//!
//! Whoever has too many connections is not answered at all: answering costs more than they are worth.
//! The unix socket has room of its own, so that administrators get in whatever happens on TCP.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use super::gatekeeper::Gatekeeper;
use super::identity::Peer;
use super::moderation::Reporting;
use super::watched::{Busy, Patience, Watched};

/// How long TLS may take to begin.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// How long a connection may be idle, and at most need for a head. Longer than agents pause.
const IDLE_TIME: Duration = Duration::from_secs(75);
/// How long a head may take from its first byte on; how long nothing of an answer may be taken.
const PATIENCE: Patience =
    Patience { head: Duration::from_secs(5), write: Duration::from_secs(30) };
/// How long no connection is let in after the system had no room for one.
const PAUSE: Duration = Duration::from_millis(100);
/// Where agents report.
const HEARTBEATS: &str = "/v1/heartbeats";
/// Connections on the unix socket.
const LOCAL_MAX: usize = 64;
/// What the system's limit on open files leaves for the record, the log and the unix socket.
const FILES_KEPT: u64 = 128;

/// Through what everybody comes.
#[derive(Debug)]
pub struct Doors {
    /// For the network, or for this machine only.
    pub tcp: TcpListener,
    /// For this machine.
    pub local: Option<LocalSocket>,
}

/// The unix socket, and the file by which it is found; gone with it.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// Why there is no unix socket.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SocketError {
    #[error("there is something at {} that is no socket; move it away", path.display())]
    Taken { path: PathBuf },
    #[error("another daemon listens at {}", path.display())]
    InUse { path: PathBuf },
    #[error("cannot listen at {}; its folder has to be there and ours to write in", path.display())]
    Failed { path: PathBuf, source: io::Error },
}

impl LocalSocket {
    /// Listens at `path`. What a daemon that is gone has left there is removed.
    ///
    /// Everybody on this machine may connect: the kernel tells who it is, and that decides.
    ///
    /// # Errors
    ///
    /// If something else is there, or the folder is not.
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
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(path, everybody).map_err(failed)?;
        tracing::info!(socket = %path.display(), "listening");
        Ok(LocalSocket { listener, path: here() })
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Another daemon may have taken its place; then there is nothing of ours to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
struct Caps {
    all: usize,
    per_peer: usize,
}

/// How many connections there are, by address.
#[derive(Debug, Default)]
struct Count(Mutex<(usize, BTreeMap<IpAddr, usize>)>);

/// One connection, counted until it is dropped.
#[derive(Debug)]
struct Counted {
    count: Arc<Count>,
    address: IpAddr,
}

impl Count {
    /// Room for one more from `address`, if there is.
    fn enter(self: &Arc<Count>, address: IpAddr, caps: Caps) -> Option<Counted> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_address) = &mut *count;
        let of_address = by_address.get(&address).copied().unwrap_or(0);
        if caps.all <= *all || caps.per_peer <= of_address {
            return None;
        }
        *all += 1;
        by_address.insert(address, of_address + 1);
        Some(Counted { count: Arc::clone(self), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut count = self.count.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_address) = &mut *count;
        *all = all.saturating_sub(1);
        if let Some(of_address) = by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// Lets everybody in and serves them by `router`, until `stop`; then ends when all are done.
pub async fn serve(
    doors: Doors,
    router: Router,
    gatekeeper: Arc<Gatekeeper>,
    stop: CancellationToken,
) {
    let Doors { tcp, local } = doors;
    let tracker = TaskTracker::new();
    let house = House { router, gatekeeper, tracker: tracker.clone(), stop: stop.clone() };
    let at_socket = async {
        if let Some(local) = &local {
            house.let_in_locals(&local.listener).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        ((), ()) = async { tokio::join!(house.let_in(&tcp), at_socket) } => {}
    }
    drop((tcp, local));
    tracker.close();
    tracker.wait().await;
}

/// What every connection needs.
#[derive(Clone)]
struct House {
    router: Router,
    gatekeeper: Arc<Gatekeeper>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl House {
    async fn let_in(&self, listener: &TcpListener) {
        let caps = caps(&self.gatekeeper);
        let count = Arc::new(Count::default());
        let mut turned_away: u64 = 0;
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            let Some(counted) = count.enter(address.ip().to_canonical(), caps) else {
                turned_away += 1;
                // Powers of two: said soon, and not for ever.
                if turned_away.is_power_of_two() {
                    tracing::warn!(%address, turned_away, "too many connections");
                }
                continue;
            };
            let house = self.clone();
            self.tracker.spawn(async move {
                house.serve_tcp(stream, address).await;
                drop(counted);
            });
        }
    }

    async fn serve_tcp(self, stream: TcpStream, address: std::net::SocketAddr) {
        let peer = |is_tls| Peer::Tcp { address, is_tls };
        // Answers are small and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let Some(tls) = self.gatekeeper.tls() else {
            return self.serve(stream, peer(false)).await;
        };
        Reporting::other_came();
        let handshake = timeout(HANDSHAKE_TIME, tls.acceptor().accept(stream));
        match self.stop.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.serve(stream, peer(true)).await,
            Some(Ok(Err(error))) => tracing::debug!(%address, %error, "no TLS came about"),
            Some(Err(_)) | None => tracing::debug!(%address, "TLS was not begun in time"),
        }
    }

    async fn let_in_locals(&self, listener: &UnixListener) {
        let room = Arc::new(tokio::sync::Semaphore::new(LOCAL_MAX));
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let house = self.clone();
                    self.tracker.spawn(async move {
                        house.serve_local(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => pause_after(&error).await,
            }
        }
    }

    async fn serve_local(self, stream: UnixStream) {
        match stream.peer_cred() {
            Ok(peer) => {
                let peer = Peer::Local { uid: peer.uid(), gid: peer.gid(), pid: peer.pid() };
                self.serve(stream, peer).await;
            }
            Err(error) => tracing::warn!(%error, "the kernel does not say who is at the socket"),
        }
    }

    async fn serve<T>(self, stream: T, peer: Peer)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let busy = Busy::default();
        let stream = TokioIo::new(Watched::new(stream, busy.clone(), PATIENCE));
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
        http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIME);
        let mut connection = pin!(http.serve_connection(stream, service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection broke off");
        }
    }
}

/// Connections that broke off before they were let in are nobody's fault; without files to be had,
/// others have to end first.
async fn pause_after(error: &io::Error) {
    let is_theirs = [
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionRefused,
    ];
    if !is_theirs.contains(&error.kind()) {
        tracing::warn!(%error, "no connection can be let in; trying again");
        sleep(PAUSE).await;
    }
}

/// The configured caps, as far as the system has files for them; it is asked for all it gives.
fn caps(gatekeeper: &Gatekeeper) -> Caps {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (all, per_peer) = gatekeeper.connections();
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: now.maximum, ..now };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => now.maximum,
        Err(_) => now.current,
    };
    let room = files.map_or(u64::MAX, |files| files.saturating_sub(FILES_KEPT).max(FILES_KEPT));
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if room < all {
        tracing::warn!(
            configured = all,
            room,
            "the system's limit on open files allows fewer connections"
        );
    }
    Caps { all: all.min(room), per_peer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_address_and_in_all() {
        let (count, caps) = (Arc::new(Count::default()), Caps { all: 3, per_peer: 2 });
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse::<IpAddr>().unwrap());
        let first = count.enter(a, caps);
        let _second = count.enter(a, caps);
        assert!(count.enter(a, caps).is_none(), "one peer");
        let _third = count.enter(b, caps);
        assert!(count.enter(b, caps).is_none(), "all");
        drop(first);
        assert!(count.enter(a, caps).is_some());
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
        std::fs::write(&path, "mine").unwrap();
        let refused = LocalSocket::bind(&path).unwrap_err().to_string();
        assert!(refused.contains("is no socket"), "{refused}");
    }
}
