//! The daemon, as the shell or systemd starts and stops it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::args::Serve;
use super::cohost;
use super::failure::{Failure, FailureKind};
use super::logging::log_format;
use super::output::complain;
use super::settings::{load, locate};
use crate::config::{Config, Flag, Sources};
use crate::daemon::DaemonError;
use crate::{daemon, telemetry};

/// The configuration of a daemon for development.
const DEV: &str = include_str!("dev.toml");

/// Runs the daemon until a signal stops it.
///
/// # Errors
///
/// If the configuration is wrong, the address is taken, or the daemon cannot go on.
pub async fn run(args: &Serve) -> Result<(), Failure> {
    telemetry::init(&args.logging.log, log_format(args.logging.log_format))?;
    let dev = if args.dev { Some(Dev::new()?) } else { None };
    let (sources, config) = configure(args, dev.as_ref())?;
    if config.daemon.access.tokens.is_none() && dev.is_none() {
        tracing::warn!(
            "no tokens are configured (daemon.access.tokens): every user of this machine may do everything"
        );
    }
    // The signals are caught before clients can learn of the daemon, so that no signal kills it
    // unprepared.
    let signals = ServeSignals::catch()?;
    let address = config.daemon.listen;
    let listener = if args.handed_over {
        handed_over()?
    } else {
        TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen at {address}; name another with --listen"))?
    };
    // With port 0, only the listener knows the chosen port.
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    if dev.is_some() {
        complain(&dev_hint(address));
    }
    let stop = CancellationToken::new();
    let zone = &config.calendar.zone;
    let beside = cohost::beside(&config.orchestrator, &config.grid, zone, &stop);
    tokio::select! {
        result = daemon::serve_beside(config, sources, signals.reread(), listener, stop.clone(), beside) => {
            result.map_err(ended)
        }
        () = signals.second(&stop) => {
            Err(Failure::new(FailureKind::Refused, "stopped at once, by a second signal"))
        }
    }
}

/// The files of a daemon for development, in a folder that goes with it.
#[derive(Debug)]
struct Dev {
    config: PathBuf,
    state: PathBuf,
    _folder: tempfile::TempDir,
}

impl Dev {
    fn new() -> Result<Dev, Failure> {
        let folder = tempfile::TempDir::with_prefix("apportion-dev-")
            .context("cannot make a temporary folder")?;
        let config = folder.path().join("apportion.toml");
        std::fs::write(&config, DEV)
            .with_context(|| format!("cannot write {}", config.display()))?;
        Ok(Dev { config, state: folder.path().join("apportion.db"), _folder: folder })
    }
}

/// Returns the address of a daemon for development, and the next commands to try.
fn dev_hint(address: SocketAddr) -> String {
    // Without tokens there is no other address than loopback's.
    let url = ["http", address.to_string().as_str()].join("://");
    // Other commands look at the usual address.
    let more = if address.port() == 7070 { String::new() } else { format!(" --url {url}") };
    format!(
        "apportion: a daemon for development, pages and API at {url}; nothing is kept after its end
  classes:  normal, high (fair share), fixed, reserve; one quantum is 1 GB
  next:     apportion agent --url {url}     reports this machine as a node
            apportion nodes{more}
            PUT {url}/v1/publication publishes jobs; {url}/openapi.json is the API"
    )
}

/// The socket that the parent of this process opened, and made its standard input: so no other process
/// takes the port between the choice and the start.
///
/// # Errors
///
/// If standard input is no such socket.
fn handed_over() -> io::Result<TcpListener> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Returns the failure of an ended daemon. Its exit status keeps systemd from a restart while the
/// access files are wrong.
fn ended(error: DaemonError) -> Failure {
    let is_to_be_mended = matches!(error, DaemonError::Access(_));
    let exit = if is_to_be_mended { FailureKind::Configuration } else { FailureKind::Refused };
    Failure { exit, error: Some(error.into()) }
}

/// The configuration, with the flags on top, and where it came from.
fn configure(args: &Serve, dev: Option<&Dev>) -> Result<(Sources, Config), Failure> {
    let path = dev.map_or_else(|| locate(args.config.as_deref()), |dev| dev.config.clone());
    let flag = |path: &str, value: String, flag: &str| Flag {
        path: path.to_owned(),
        value,
        flag: flag.to_owned(),
    };
    let listen = args.listen.map(|listen| flag("daemon.listen", listen.to_string(), "--listen"));
    let state = args.state.as_ref().or(dev.map(|dev| &dev.state));
    let named = state.cloned();
    let state =
        state.map(|state| flag("daemon.state", state.to_string_lossy().into_owned(), "--state"));
    let flags: Vec<Flag> = args.overrides.set.iter().cloned().chain(listen).chain(state).collect();
    let (sources, mut config) = load(&path, &flags, FailureKind::Configuration)?;
    if let Some(state) = named {
        // A path need not be text.
        config.daemon.state = state;
    }
    Ok((sources, config))
}

/// The signals that ask for an end, or to read the configuration again.
#[derive(Debug)]
struct ServeSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    reread: Arc<Notify>,
}

impl ServeSignals {
    fn catch() -> io::Result<ServeSignals> {
        Ok(ServeSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reread: Arc::new(Notify::new()),
        })
    }

    /// Says when the configuration is to be read again.
    fn reread(&self) -> Arc<Notify> {
        Arc::clone(&self.reread)
    }

    /// Asks for a stop at the first signal, and ends at the second.
    async fn second(mut self, stop: &CancellationToken) {
        self.next().await;
        stop.cancel();
        self.next().await;
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => self.reread.notify_one(),
            }
        }
    }
}
