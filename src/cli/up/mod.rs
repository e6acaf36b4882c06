//! Daemon, orchestrator and agent on this machine, with one command: two processes of this program,
//! and a supervisor. It starts them in order, watches them, and ends them in the opposite order.

mod addresses;
mod args;
mod authority;
mod background;
mod children;
mod ending;
mod flags;
mod folder;
mod found;
mod join;
mod public;
mod sample;
mod secrets;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process, setsid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

pub use self::addresses::host_name;
use self::addresses::own_url;
pub use self::args::{DOWN_EXAMPLES, DownArgs, UP_EXAMPLES, UpArgs};
use self::children::{Children, end_left};
use self::ending::TasksEnd;
use self::flags::{for_agent, for_daemon, words};
use self::folder::{Folder, UpRecord, VARIABLE, locate};
pub use self::found::{found_by_default, orchestrator_beside, with_own};
pub use self::join::Join;
use self::public::Public;
use self::secrets::Secrets;
use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::output::{complain, print};
use super::remote::{Remote, Trust};
use crate::agent::run::Ladder;
use crate::api::wire::{NodeList, NodeState};

/// Longest time of a start.
const START: Duration = Duration::from_mins(1);
/// Time between two checks of a start or an end.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait of `down` for the end, beside the tasks: the longest grace, and the ends of
/// processes.
const END: Duration = Duration::from_mins(12);
/// The port, if it is free.
const PORT: u16 = 7070;

/// Runs daemon, orchestrator and agent until a signal.
///
/// # Errors
///
/// If the processes run already, if a process does not start, or if it ends by itself.
pub async fn run(args: &UpArgs) -> Result<(), Failure> {
    let folder = Folder::open(args.state.state.as_deref())?;
    if args.detach {
        return background::start(&folder, &repeated(args, &folder));
    }
    if args.in_background {
        // The terminal that closes is none of its business.
        let _ = setsid();
    }
    let Some(_lock) = folder.lock()? else { return Err(runs_already(&folder)) };
    let mut signals = UpSignals::catch()?;
    end_left(&folder).await?;
    let mut children = Children::new(&folder)?;
    let work = async {
        match start(args, &folder, &mut children).await {
            Ok(()) => children.one_ends().await,
            Err(failure) => failure,
        }
    };
    let (failure, asked) = tokio::select! {
        failure = work => (Some(failure), EndRequest::End),
        asked = signals.next() => (None, asked),
    };
    let mut suspended = Vec::new();
    let orchestrator = client(&children.found.orchestrator, &folder).ok();
    if failure.is_none()
        && let Some(orchestrator) = &orchestrator
        && way(asked, orchestrator, &mut signals).await == TasksEnd::Wait
    {
        // A second signal ends it without waiting.
        let drained = tokio::select! {
            drained = ending::drain(orchestrator, &mut suspended) => drained,
            failure = children.one_ends() => Err(failure),
            _ = signals.next() => Ok(()),
        };
        if let Err(Failure { error: Some(error), .. }) = drained {
            complain(&format!("cannot wait for the tasks: {error:#}"));
        }
    }
    let ended = tokio::select! {
        ended = end(&mut children, orchestrator.as_ref(), &suspended) => ended,
        _ = signals.next() => {
            children.kill().await;
            let message = "stopped at once, by a second signal; `apportion down` ends the processes that are left";
            Err(Failure::new(FailureKind::Refused, message))
        }
    };
    failure.map_or(ended, Err)
}

/// Request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndRequest {
    /// An end, now.
    End,
    /// An end, from the terminal.
    Interrupt,
    /// An end when no task runs any more.
    EndLater,
}

/// The signals that end it.
#[derive(Debug)]
struct UpSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    later: tokio::signal::unix::Signal,
}

impl UpSignals {
    fn catch() -> std::io::Result<UpSignals> {
        Ok(UpSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            later: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> EndRequest {
        tokio::select! {
            _ = self.terminate.recv() => EndRequest::End,
            _ = self.hangup.recv() => EndRequest::End,
            _ = self.interrupt.recv() => EndRequest::Interrupt,
            _ = self.later.recv() => EndRequest::EndLater,
        }
    }
}

/// Returns the fate of running tasks. A second signal during the question means: now.
async fn way(asked: EndRequest, orchestrator: &DaemonClient, signals: &mut UpSignals) -> TasksEnd {
    match asked {
        EndRequest::End => TasksEnd::Now,
        EndRequest::EndLater => TasksEnd::Wait,
        EndRequest::Interrupt => {
            let running = ending::running(orchestrator).await;
            tokio::select! {
                answer = tokio::task::spawn_blocking(move || ending::ask(running)) => {
                    answer.ok().and_then(Result::ok).unwrap_or(TasksEnd::Now)
                }
                _ = signals.next() => TasksEnd::Now,
            }
        }
    }
}

/// Ends all of it. Campaigns that were suspended for that go on at the next start: the agent has ended by
/// then.
async fn end(
    children: &mut Children<'_>,
    orchestrator: Option<&DaemonClient>,
    suspended: &[u64],
) -> Result<(), Failure> {
    let outcome = children.end_agent().await;
    if let Some(orchestrator) = orchestrator {
        ending::resume(orchestrator, suspended).await;
    }
    children.end().await?;
    outcome
}

/// The flags for the process in the background.
fn repeated(args: &UpArgs, folder: &Folder) -> Vec<OsString> {
    let mut flags = words(&[], &[("--state", &folder.path)]);
    if let Some(listen) = args.listen {
        flags.extend(["--listen".into(), listen.to_string().into()]);
    }
    if let Some(host) = &args.host {
        flags.extend(["--host".into(), host.into()]);
    }
    flags.extend(["--join-file".into(), args.join_file.clone().into()]);
    flags.extend(args.rejoin.then(|| "--rejoin".into()));
    flags
}

fn runs_already(folder: &Folder) -> Failure {
    let shown = folder.path.display();
    let message = match folder.read() {
        Some(UpRecord { daemon, up: Some(up), .. }) => format!(
            "`apportion up` runs already, as process {} at {daemon}, with its state in {shown}; end it with \
             `apportion down`, or name another folder with --state",
            up.pid
        ),
        _ => {
            format!("`apportion up` runs already, with its state in {shown}, and is about to start")
        }
    };
    Failure::new(FailureKind::Conflict, message)
}

/// Starts the two, and says so when work can run.
async fn start(args: &UpArgs, folder: &Folder, children: &mut Children<'_>) -> Result<(), Failure> {
    let config = sample::ensure(folder)?;
    let secrets = Secrets::ensure(folder)?;
    children.found.token_file = Some(secrets.own.clone());
    let socket = match args.listen {
        Some(listen) => listen_at(listen, false)?,
        None => listen_at((Ipv4Addr::LOCALHOST, PORT).into(), true)?,
    };
    let address = socket.local_addr()?;
    let is_public = !address.ip().is_loopback();
    let public = is_public.then(|| Public::open(args, address, folder, &secrets)).transpose()?;
    children.found.daemon = own_url(address, is_public);
    children.found.orchestrator.clone_from(&children.found.daemon);
    if let Some(public) = &public {
        public.enter(&mut children.found);
    }

    let more = public.as_ref().map(Public::for_daemon).unwrap_or_default();
    let flags = for_daemon(&address.to_string(), &config, &secrets, more);
    children.start("daemon", &flags, Some(socket))?;
    let daemon = client(&children.found.daemon, folder)?;
    until(children, async || daemon.text(&["livez"]).await.is_ok()).await?;

    let path = ["v1", "campaigns"];
    until(children, async || daemon.text(&path).await.is_ok()).await?;

    let more = public.as_ref().map(Public::for_agent).unwrap_or_default();
    let flags = for_agent(&children.found, folder, &secrets, more);
    children.start("agent", &flags, None)?;
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
    let file = public.map(|public| public.write(folder, &secrets, &children.found)).transpose()?;
    Ok(print(&told(folder, &children.found, (memory, quantum), file.as_deref()))?)
}

/// Returns the text for people once work can run.
fn told(
    folder: &Folder,
    found: &UpRecord,
    (memory_mb, quantum_mb): (u64, u64),
    join_file: Option<&Path>,
) -> String {
    let limits = Ladder::probe(None, getuid().is_root()).words();
    let tenths = memory_mb.saturating_mul(10) >> 10;
    let memory = if memory_mb < 1024 {
        format!("{memory_mb} MB")
    } else {
        let digits = tenths.to_string();
        let (whole, rest) = digits.split_at(digits.len().saturating_sub(1));
        format!("{whole}.{rest} GB")
    };
    let is_usual = locate(None).and_then(|path| path.canonicalize().ok());
    let is_usual = is_usual.is_some_and(|path| path == folder.path);
    let variable = if is_usual && std::env::var_os(VARIABLE).is_none() {
        String::new()
    } else {
        format!("{VARIABLE}={} ", folder.path.display())
    };
    let join = join_file.map_or_else(String::new, |file| {
        format!("on the other machines: apportion agent --join {}\n", file.display())
    });
    format!(
        "apportion: ready at {}; {memory} in quanta of {quantum_mb} MB; limits: {limits}\n\
         pages: the same address; they ask for the token in {}\n{join}\
         next: {variable}apportion run --memory 1GB -- python3 -c 'print(6*7)'",
        found.daemon,
        folder.at(secrets::OWN_TOKEN).display()
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
            return Err(Failure::new(FailureKind::Refused, message));
        }
        sleep(LOOK).await;
    }
}

/// Returns a socket that listens at `address`, or at a free port if `any` permits it. The child
/// process inherits the socket, so that no other process takes the port meanwhile.
fn listen_at(address: SocketAddr, any: bool) -> Result<TcpListener, Failure> {
    match TcpListener::bind(address) {
        Err(_) if any => Ok(TcpListener::bind((address.ip(), 0))?),
        Err(error) => {
            let message = format!("cannot listen at {address} ({error}); name another port");
            Err(Failure::new(FailureKind::Refused, message))
        }
        Ok(listener) => Ok(listener),
    }
}

fn client(url: &str, folder: &Folder) -> Result<DaemonClient, Failure> {
    let trust = folder.read().map_or_else(Trust::default, |found| found.trust());
    DaemonClient::new(&Remote { url: url.parse()?, json: false, trust })
}

/// Ends what `apportion up` started.
///
/// # Errors
///
/// If nothing runs there, or does not end.
pub async fn down(args: &DownArgs) -> Result<(), Failure> {
    let folder = Folder::open(args.state.state.as_deref())?;
    let mut since = Instant::now();
    let mut asked = None;
    loop {
        if let Some(_lock) = folder.lock()? {
            let has_left = end_left(&folder).await?;
            if asked.is_some() || has_left {
                return Ok(print("apportion: down")?);
            }
            let message = format!("`apportion up` does not run in {}", folder.path.display());
            return Err(Failure::new(FailureKind::NotFound, message));
        }
        // A held lock means that the recorded process lives, or that another is starting.
        let found = folder.read().filter(|_| asked.is_none());
        if let Some((pid, found)) =
            found.and_then(|found| Some((Pid::from_raw(found.up.as_ref()?.pid)?, found)))
        {
            let way = wanted(args, &found, &folder).await?;
            kill_process(pid, if way == TasksEnd::Wait { Signal::USR1 } else { Signal::TERM })?;
            asked = Some(way);
            since = Instant::now();
        }
        if asked != Some(TasksEnd::Wait) && END < since.elapsed() {
            return Err(Failure::new(FailureKind::Refused, "it does not end; its logs say why"));
        }
        sleep(LOOK).await;
    }
}

/// Returns the fate of running tasks that `down` asks for.
async fn wanted(args: &DownArgs, found: &UpRecord, folder: &Folder) -> Result<TasksEnd, Failure> {
    if args.now || args.wait {
        return Ok(if args.wait { TasksEnd::Wait } else { TasksEnd::Now });
    }
    let Ok(orchestrator) = client(&found.orchestrator, folder) else { return Ok(TasksEnd::Now) };
    let running = ending::running(&orchestrator).await;
    Ok(tokio::task::spawn_blocking(move || ending::ask(running)).await??)
}
