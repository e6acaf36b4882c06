//! The two processes of `apportion up`: their start, their logs and their end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::super::failure::{Failure, FailureKind};
use super::folder::{Folder, UpRecord};
use crate::agent::boot;
use crate::agent::run::{ProcessIdentity, end_slots};

/// Time for a process to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines of its log that are shown when a process ends by itself.
const LINES: usize = 8;

/// Variables that are meant for the caller's own commands, or for a service manager.
const NOT_INHERITED: [&str; 8] = [
    "APPORTION_URL",
    "APPORTION_ORCHESTRATOR",
    "APPORTION_TOKEN_FILE",
    "APPORTION_CA",
    "APPORTION_NODE",
    "APPORTION_CONFIG",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
];

/// A started process.
#[derive(Debug)]
struct Member {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

/// The processes, in the order of their start.
#[derive(Debug)]
pub struct Children<'a> {
    folder: &'a Folder,
    members: Vec<Member>,
    /// Record of the processes in the folder.
    pub found: UpRecord,
}

impl<'a> Children<'a> {
    /// None yet.
    ///
    /// # Errors
    ///
    /// If this system does not say which boot this is.
    pub fn new(folder: &'a Folder) -> Result<Children<'a>, Failure> {
        let own = i32::try_from(std::process::id())?;
        let found = UpRecord { up: ProcessIdentity::of(own, &boot()?), ..UpRecord::default() };
        Ok(Children { folder, members: Vec::new(), found })
    }

    /// Starts a process with `socket` as its standard input, and records it.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn start(
        &mut self,
        name: &'static str,
        arguments: &[OsString],
        socket: Option<TcpListener>,
    ) -> Result<(), Failure> {
        let log = self.folder.at(&format!("{name}.log"));
        if log.exists() {
            fs::rename(&log, self.folder.at(&format!("{name}.log.old")))?;
        }
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder.path);
        let input = socket.map_or_else(Stdio::null, |socket| OwnedFd::from(socket).into());
        command.stdin(input).stdout(file.try_clone()?).stderr(file);
        // Ctrl-C is for the supervisor, which ends the processes in their order.
        command.process_group(0);
        for variable in NOT_INHERITED {
            command.env_remove(variable);
        }
        let child = command.spawn().with_context(|| format!("cannot start the {name}"))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        self.members.push(Member { name, log, child });
        let boot = boot()?;
        self.found.children.extend(pid.and_then(|pid| ProcessIdentity::of(pid, &boot)));
        self.folder.write(&self.found)
    }

    /// Checks that all processes live.
    ///
    /// # Errors
    ///
    /// If a process has ended: its status, and the end of its log.
    pub fn check(&mut self) -> Result<(), Failure> {
        for member in &mut self.members {
            if let Some(status) = member.child.try_wait()? {
                return Err(ended(member, status));
            }
        }
        Ok(())
    }

    /// Waits until a process ends, and returns its status.
    pub async fn one_ends(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.check() {
                return failure;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Ends the agent, and the slots with their tasks.
    ///
    /// # Errors
    ///
    /// If slots do not end.
    pub async fn end_agent(&mut self) -> Result<(), Failure> {
        let Some(member) = self.members.get_mut(AGENT) else { return Ok(()) };
        end_one(&mut member.child).await?;
        end_work(self.folder).await
    }

    /// Ends the daemon, after the agent.
    ///
    /// # Errors
    ///
    /// If the system does not tell how they end.
    pub async fn end(&mut self) -> Result<(), Failure> {
        for member in self.members.iter_mut().rev() {
            end_one(&mut member.child).await?;
        }
        self.folder.forget();
        Ok(())
    }

    /// Kills them, and waits for no end of their work.
    pub async fn kill(&mut self) {
        for member in self.members.iter_mut().rev() {
            // A process that has ended already is no failure.
            let _ = member.child.kill().await;
        }
    }
}

/// The place of the agent among the processes.
const AGENT: usize = 1;

fn ended(member: &Member, status: ExitStatus) -> Failure {
    let Member { name, log, .. } = member;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    let last = last.join("\n  ");
    let message = format!("the {name} ended ({status}); the end of {}:\n  {last}", log.display());
    Failure::new(FailureKind::Refused, message)
}

async fn end_one(child: &mut Child) -> io::Result<()> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The process may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    match timeout(PATIENCE, child.wait()).await {
        Ok(status) => status.map(drop),
        Err(_) => child.kill().await,
    }
}

/// Ends the slots of the folder, and their tasks.
async fn end_work(folder: &Folder) -> Result<(), Failure> {
    let spool = folder.at("spool");
    if !spool.exists() {
        return Ok(());
    }
    let ended = end_slots(&spool).await;
    ended.map(drop).map_err(|problem| Failure::new(FailureKind::Refused, problem))
}

/// Ends what a supervisor that was killed has left: by the numbers and times of start that it wrote down.
/// Only for callers that have the lock of the folder. Returns whether there was anything.
///
/// # Errors
///
/// If something does not end.
pub async fn end_left(folder: &Folder) -> Result<bool, Failure> {
    let Some(found) = folder.read() else { return Ok(false) };
    let boot = boot()?;
    for (place, process) in found.children.iter().enumerate().rev() {
        end_process(process, &boot).await?;
        if place == AGENT {
            end_work(folder).await?;
        }
    }
    folder.forget();
    Ok(true)
}

async fn end_process(process: &ProcessIdentity, boot: &str) -> Result<(), Failure> {
    for signal in [Signal::TERM, Signal::KILL] {
        let since = Instant::now();
        if let Some(pid) = Pid::from_raw(process.pid).filter(|_| process.is_alive(boot)) {
            // The process may have ended just now.
            let _ = kill_process(pid, signal);
        }
        while process.is_alive(boot) && since.elapsed() < PATIENCE {
            sleep(Duration::from_millis(20)).await;
        }
    }
    if process.is_alive(boot) {
        return Err(anyhow!("process {} does not end", process.pid).into());
    }
    Ok(())
}
