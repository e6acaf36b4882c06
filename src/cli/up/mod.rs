//! Daemon, orchestrator and agent on this machine, with one command: three processes of this program,
//! and a supervisor that starts them in order, watches them, and ends them in the opposite order.

mod children;
mod found;
mod sample;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, getuid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use self::children::{Children, end_left};
use self::found::{Folder, Found, VARIABLE};
pub use self::found::{found_by_default, orchestrator_beside};
use super::args::{Remote, Trust, parse_address};
use super::client::Client;
use super::failure::{Exit, Failure};
use super::output::print;
use super::place::own_name;
use crate::agent::run::Ladder;
use crate::api::wire::{NodeList, NodeState};

/// What the help of `up` ends with.
pub const UP_EXAMPLES: &str = "\
Examples:
  apportion up                                     here; Ctrl-C ends it, and the work that runs
  apportion up --listen 127.0.0.1:7170             at another port
  apportion run --memory 1GB -- ./crunch input1    from another terminal, meanwhile

It needs no root and no file. Other commands find it by what it writes into its folder. The folder keeps
campaigns, output, logs and apportion.toml, which the next start takes over. All users of this machine can
reach its two ports, and their tasks would run as you: use it where you trust them.";

/// What the help of `down` ends with.
pub const DOWN_EXAMPLES: &str = "\
Examples:
  apportion down

It also ends what is left after `apportion up` was killed.";

/// How long the start may take.
const START: Duration = Duration::from_mins(1);
/// How often a start or an end is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long `down` waits for the end.
const END: Duration = Duration::from_mins(2);
/// The port of the daemon, if it is free; the orchestrator's is the next one.
const PORT: u16 = 7070;

/// The folder of `apportion up`.
#[derive(Clone, Debug, Args)]
pub struct StateArgs {
    /// The folder for state, logs and output; without it, `apportion` in the one that
    /// `XDG_STATE_HOME` names, or in ~/.local/state
    #[arg(long, value_name = "DIR", env = VARIABLE)]
    pub state: Option<PathBuf>,
}

/// Starts all there is on this machine.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Where its state is.
    #[command(flatten)]
    pub state: StateArgs,
    /// Where the daemon listens; port 0 takes a free one. Without it, 127.0.0.1:7070 or a free port
    #[arg(long, value_name = "127.0.0.1:PORT", value_parser = parse_here)]
    pub listen: Option<SocketAddr>,
}

fn parse_here(text: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text)?;
    let is_here = address.ip() == Ipv4Addr::LOCALHOST;
    let form = || "it is for this machine only; write 127.0.0.1:PORT".to_owned();
    is_here.then_some(address).ok_or_else(form)
}

/// Runs daemon, orchestrator and agent until a signal.
///
/// # Errors
///
/// If they run already, if one does not start, or if one ends by itself.
pub async fn run(args: &UpArgs) -> Result<(), Failure> {
    let folder = Folder::open(args.state.state.as_deref())?;
    let Some(_lock) = folder.lock()? else { return Err(runs_already(&folder)) };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut signalled = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    end_left(&folder).await?;
    let mut children = Children::new(&folder)?;
    let work = async {
        match start(args, &folder, &mut children).await {
            Ok(()) => children.one_ends().await,
            Err(failure) => failure,
        }
    };
    let failure = tokio::select! {
        failure = work => Some(failure),
        () = signalled() => None,
    };
    let ended = tokio::select! {
        ended = children.end() => ended,
        () = signalled() => {
            children.kill().await;
            let message = "stopped at once, by a second signal; `apportion down` ends what is left";
            Err(Failure::new(Exit::Refused, message))
        }
    };
    failure.map_or(ended, Err)
}

fn runs_already(folder: &Folder) -> Failure {
    let shown = folder.path.display();
    let message = match folder.read() {
        Some(Found { daemon, up: Some(up), .. }) => format!(
            "`apportion up` runs already, as process {} at {daemon}, with its state in {shown}; end it with \
             `apportion down`, or name another folder with --state",
            up.pid
        ),
        _ => {
            format!("`apportion up` runs already, with its state in {shown}, and is about to start")
        }
    };
    Failure::new(Exit::Conflict, message)
}

/// Starts the three, and says so when work can run.
async fn start(args: &UpArgs, folder: &Folder, children: &mut Children<'_>) -> Result<(), Failure> {
    let config = sample::ensure(folder)?;
    let first = args.listen.map_or(PORT, |listen| listen.port());
    let port = free_port(first, args.listen.is_none_or(|listen| listen.port() == 0))?;
    children.found.daemon = url(port);
    let listen = format!("127.0.0.1:{port}");
    children.start("daemon", &words(&["serve", "--listen", &listen], &[("--config", &config)]))?;
    let daemon = client(&children.found.daemon)?;
    until(children, async || daemon.text(&["livez"]).await.is_ok()).await?;

    let next = free_port(port.saturating_add(1), true)?;
    children.found.orchestrator = url(next);
    let (rm, listen) = (children.found.daemon.clone(), format!("127.0.0.1:{next}"));
    let flags =
        ["orchestrator", "run", "--rm", &rm, "--listen", &listen, "--publish-every", "100ms"];
    let state = folder.at("orchestrator.db");
    children.start("orchestrator", &words(&flags, &[("--state", &state)]))?;
    let orchestrator = client(&children.found.orchestrator)?;
    let path = ["v1", "campaigns"];
    until(children, async || orchestrator.text(&path).await.is_ok()).await?;

    let place = children.found.orchestrator.clone();
    let mut flags = vec!["agent", "--run", "--url", &rm, "--orchestrator", &place];
    flags.extend(["--interval", "5s"]);
    let own = own_name().unwrap_or_default();
    if getuid().is_root() {
        // Of root's agent others would be served too; this one is for the caller alone.
        flags.extend(["--allow-root", "--users", &own]);
    }
    children.start("agent", &words(&flags, &[("--spool", &folder.at("spool"))]))?;
    until(children, async || daemon.text(&["readyz"]).await.is_ok()).await?;
    let mut seen = None;
    until(children, async || {
        let nodes = daemon.get::<NodeList>(&["v1", "nodes"], &[]).await;
        let mut nodes = nodes.into_iter().flat_map(|list| list.nodes);
        seen = nodes.find(|node| node.states == [NodeState::Up]);
        seen.is_some()
    })
    .await?;
    let (memory, quantum) = seen.map_or((0, 0), |node| (node.memory_mb, node.quantum_mb));
    Ok(print(&told(folder, &children.found, memory, quantum))?)
}

/// What is said when work can run.
fn told(folder: &Folder, found: &Found, memory_mb: u64, quantum_mb: u64) -> String {
    let limits = Ladder::probe(None, getuid().is_root()).words();
    let tenths = memory_mb.saturating_mul(10) >> 10;
    let memory = if memory_mb < 1024 {
        format!("{memory_mb} MB")
    } else {
        let digits = tenths.to_string();
        let (whole, rest) = digits.split_at(digits.len().saturating_sub(1));
        format!("{whole}.{rest} GB")
    };
    let is_usual = found::locate(None).and_then(|path| path.canonicalize().ok());
    let is_usual = is_usual.is_some_and(|path| path == folder.path);
    let variable = if is_usual && std::env::var_os(VARIABLE).is_none() {
        String::new()
    } else {
        format!("{VARIABLE}={} ", folder.path.display())
    };
    format!(
        "apportion: ready at {}; {memory} in quanta of {quantum_mb} MB; limits: {limits}\n\
         next: {variable}apportion run --memory 1GB -- python3 -c 'print(6*7)'",
        found.daemon
    )
}

/// Waits until something holds, while all processes live.
async fn until(
    children: &mut Children<'_>,
    mut holds: impl AsyncFnMut() -> bool,
) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        children.check()?;
        if holds().await {
            return Ok(());
        }
        if START < since.elapsed() {
            let message = "not ready after a minute; the logs are in the folder of the state";
            return Err(Failure::new(Exit::Refused, message));
        }
        sleep(LOOK).await;
    }
}

/// `first` if it is free, or else a free one if any will do.
fn free_port(first: u16, any: bool) -> Result<u16, Failure> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = match bind(first) {
        Err(_) if any => bind(0)?,
        Err(error) => {
            let message =
                format!("cannot listen at 127.0.0.1:{first} ({error}); name another port");
            return Err(Failure::new(Exit::Refused, message));
        }
        Ok(listener) => listener,
    };
    Ok(listener.local_addr()?.port())
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn client(url: &str) -> Result<Client, Failure> {
    Client::new(&Remote { url: url.parse()?, json: false, trust: Trust::default() })
}

/// A command line of words, and of flags with paths.
fn words(words: &[&str], paths: &[(&str, &Path)]) -> Vec<OsString> {
    let paths = paths.iter().flat_map(|(flag, path)| [OsString::from(flag), path.into()]);
    words.iter().map(OsString::from).chain(paths).collect()
}

/// Ends what `apportion up` started.
///
/// # Errors
///
/// If nothing runs there, or does not end.
pub async fn down(args: &StateArgs) -> Result<(), Failure> {
    let folder = Folder::open(args.state.as_deref())?;
    let since = Instant::now();
    let mut is_asked = false;
    loop {
        if let Some(_lock) = folder.lock()? {
            let has_left = end_left(&folder).await?;
            if is_asked || has_left {
                return Ok(print("apportion: down")?);
            }
            let message = format!("`apportion up` does not run in {}", folder.path.display());
            return Err(Failure::new(Exit::NotFound, message));
        }
        // The lock says that the process lives which is written down, or another one that starts.
        let up = folder.read().and_then(|found| found.up);
        if let Some(pid) = up.and_then(|up| Pid::from_raw(up.pid)).filter(|_| !is_asked) {
            kill_process(pid, Signal::TERM)?;
            is_asked = true;
        }
        if END < since.elapsed() {
            return Err(Failure::new(Exit::Refused, "it does not end; its logs say why"));
        }
        sleep(LOOK).await;
    }
}
