//! The server of a rank: starts commands for a shell that proves itself.

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::message::{FromServer, FromShell, MAX_COMMAND, MAX_GREETING, MAX_PART};
use super::proof::{ProofSide, Proven, draw, holds, prove};
use super::{RankError, file};
use crate::orchestrator::wire::GangKey;
use crate::slot::wire::{receive, send};

/// Longest time until a shell has proven itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most connections at a time: a stranger can open them, too.
const MAX_CONNECTIONS: usize = 256;

/// Longest wait for the end of an output whose command has ended: a process that it left behind may hold it.
const DRAIN: Duration = Duration::from_millis(500);

/// Pause after a connection that the system could not hand over.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that threads write to in turn.
type SharedStream = Arc<Mutex<TcpStream>>;

/// Serves the rank whose ranks are in the file at `path`, on the listener that is standard input. Runs until
/// a signal ends it.
///
/// # Errors
///
/// If there is no such file, or standard input is no listener.
pub fn serve(path: &Path) -> Result<(), RankError> {
    let key = file::read(path)?.key;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(RankError::Listener)?;
    let listener = TcpListener::from(input);
    listener.local_addr().map_err(RankError::Listener)?;
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(PAUSE);
            continue;
        };
        if MAX_CONNECTIONS <= open.load(Ordering::Relaxed) {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (open, key) = (Arc::clone(&open), key.clone());
        let work = move || {
            // The shell notices a broken connection by itself.
            let _ = answer(&stream, &key);
            let _ = stream.shutdown(Shutdown::Both);
            open.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().spawn(work).is_err() {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Answers a connection: proofs of both sides first, then a command.
fn answer(stream: &TcpStream, key: &GangKey) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut stream = stream;
    let server = draw()?;
    send(&mut stream, &FromServer::Greeting { number: server.clone() }, &[])?;
    let Some((FromShell::Greeting { number: shell }, _)) = receive(&mut stream, MAX_GREETING)?
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let proven = Proven { server: &server, shell: &shell, command: "" };
    let proof = prove(key, ProofSide::Server, proven);
    send(&mut stream, &FromServer::Proof { proof }, &[])?;
    let Some((FromShell::Run { command, proof }, _)) = receive(&mut stream, MAX_COMMAND)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let proven = Proven { command: &command, ..proven };
    if !holds(key, ProofSide::Shell, proven, &proof) {
        let text = "the shell does not know the secret of this gang".to_owned();
        return send(&mut stream, &FromServer::Refused { text }, &[]);
    }
    stream.set_read_timeout(None)?;
    match start(&command) {
        Ok(child) => accompany(stream, child),
        Err(error) => {
            let text = format!("cannot start the command: {error}");
            send(&mut stream, &FromServer::Refused { text }, &[])
        }
    }
}

fn start(command: &str) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).process_group(0);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Passes the output of a command on, and its end. A command whose shell has left gets SIGTERM.
fn accompany(stream: &TcpStream, mut child: Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut watched = stream.try_clone()?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&has_ended);
    thread::Builder::new().spawn(move || {
        // The shell says nothing more, so any return is its end, or the end of the command.
        let _ = watched.read(&mut [0]);
        if let Some(group) = group.filter(|_| !end.load(Ordering::Acquire)) {
            let _ = kill_process_group(group, Signal::TERM);
        }
    })?;
    let shared: SharedStream = Arc::new(Mutex::new(stream.try_clone()?));
    let out = child.stdout.take().map(|out| pass_on(out, &shared, || FromServer::Out));
    let err = child.stderr.take().map(|err| pass_on(err, &shared, || FromServer::Err));
    let status = child.wait()?;
    has_ended.store(true, Ordering::Release);
    for ended in [out, err].into_iter().flatten() {
        // A process that was left behind may hold the output for as long as it likes.
        let _ = ended?.recv_timeout(DRAIN);
    }
    let signal = status.signal().and_then(|signal| u8::try_from(signal).ok());
    let exit = status.code().and_then(|code| u8::try_from(code).ok());
    let status = exit.unwrap_or_else(|| 128_u8.saturating_add(signal.unwrap_or(0)));
    let mut stream = shared.lock().unwrap_or_else(PoisonError::into_inner);
    send(&mut *stream, &FromServer::Ended { status }, &[])
}

/// Passes an output on, on a thread of its own. The receiver closes at the end of the output.
fn pass_on(
    mut output: impl Read + Send + 'static,
    shared: &SharedStream,
    message: fn() -> FromServer,
) -> io::Result<Receiver<()>> {
    let (end, ended) = channel();
    let shared = Arc::clone(shared);
    thread::Builder::new().spawn(move || {
        let _end = end;
        let mut part = vec![0; MAX_PART];
        while let Ok(length) = output.read(&mut part) {
            let Some(bytes) = part.get(..length).filter(|bytes| !bytes.is_empty()) else { return };
            let mut stream = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if send(&mut *stream, &message(), bytes).is_err() {
                return;
            }
        }
    })?;
    Ok(ended)
}
