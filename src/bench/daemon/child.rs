//! The daemon as a process of its own: started with a configuration, and stopped by its number.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use super::BenchError;
use crate::bench::orchestrator::BareWork;

/// Text of the log before the port; the daemon logs it once it listens.
const BEFORE_PORT: &str = "127.0.0.1:";
/// Lines of the log that are kept, to be shown if the daemon does not start.
const LINES_KEPT: usize = 20;
/// Prefix of the environment variables that would change the daemon.
const OUR_VARIABLES: &str = "APPORTION";

/// A daemon that runs. Dropping it stops it at once: its store goes too, so there is nothing to
/// put in order first.
#[derive(Debug)]
pub(in crate::bench) struct Child(std::process::Child);

impl Child {
    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have exited already; then nothing is left to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this very program as a daemon that keeps all its files in `folder`; and its address.
pub(in crate::bench) async fn start(
    folder: &Path,
    config: &str,
) -> Result<(Child, String), BenchError> {
    let file = folder.join("apportion.toml");
    fs::write(&file, config).map_err(BenchError::Scratch)?;
    let mut command = this_program()?;
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "info", "--log-format", "json"])
        .arg("--config")
        .arg(&file)
        .arg("--state")
        .arg(folder.join(STATE));
    listening(command).await
}

/// Starts this very program as the bare server that the daemon is compared with; and its address.
pub(in crate::bench) async fn start_bare() -> Result<(Child, String), BenchError> {
    let mut command = this_program()?;
    command.args(["bench", "bare"]);
    listening(command).await
}

/// Starts this very program as an orchestrator that keeps all its files in `folder`, beside the resource
/// manager at `manager`; and its address.
pub(in crate::bench) async fn start_orchestrator(
    folder: &Path,
    manager: &str,
) -> Result<(Child, String), BenchError> {
    let mut command = this_program()?;
    command
        .args(["orchestrator", "run", "--listen", "127.0.0.1:0", "--log", "warn"])
        .args(["--rm", &format!("http://{manager}")])
        .arg("--state")
        .arg(folder.join(STATE));
    listening(command).await
}

/// Starts this very program as the bare handler that the orchestrator is compared with; and its address.
pub(in crate::bench) async fn start_bare_exchange(
    folder: &Path,
    work: BareWork,
) -> Result<(Child, String), BenchError> {
    let mut command = this_program()?;
    let (tasks, slots) = (work.tasks.to_string(), work.slots.to_string());
    command.args(["bench", "bare-exchange", "--tasks", &tasks, "--slots", &slots, "--state"]);
    command.arg(folder.join(STATE));
    listening(command).await
}

fn this_program() -> Result<Command, BenchError> {
    Ok(Command::new(std::env::current_exe().map_err(BenchError::Start)?))
}

/// Starts a server that writes its address to standard error.
async fn listening(mut command: Command) -> Result<(Child, String), BenchError> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for (variable, _) in std::env::vars_os().filter(|(variable, _)| is_ours(variable)) {
        command.env_remove(variable);
    }
    let mut child = Child(command.spawn().map_err(BenchError::Start)?);
    let log = child.0.stderr.take().expect("it was asked for above");
    let said = Arc::new(Mutex::new(VecDeque::new()));
    let (tell, heard) = oneshot::channel();
    let lines = Arc::clone(&said);
    // To its end, or the daemon would wait for a reader some day.
    thread::spawn(move || listen(log, &lines, tell));
    if let Ok(address) = heard.await {
        return Ok((child, address));
    }
    let lines = said.lock().unwrap_or_else(PoisonError::into_inner);
    let said = lines.iter().cloned().collect::<Vec<String>>().join("\n");
    Err(BenchError::NotListening { said })
}

fn is_ours(variable: &OsStr) -> bool {
    variable.to_string_lossy().starts_with(OUR_VARIABLES)
}

/// Reads the log to its end, keeps the last lines, and sends the address once the log has it.
fn listen(log: impl io::Read, said: &Mutex<VecDeque<String>>, tell: oneshot::Sender<String>) {
    let mut tell = Some(tell);
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        if let Some(address) = address_in(&line)
            && let Some(tell) = tell.take()
        {
            // The receiver is gone if the measurement was given up.
            let _ = tell.send(address);
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == LINES_KEPT {
            said.pop_front();
        }
        said.push_back(line);
    }
}

/// Returns the address that a line of the log names.
fn address_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(BEFORE_PORT)?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!port.is_empty()).then(|| format!("{BEFORE_PORT}{port}"))
}

/// File name of the store; the names of its log and lock begin with it.
const STATE: &str = "state.db";

/// Size of the store's files in `folder`, in bytes; `None` if the size cannot be read.
pub(in crate::bench) fn bytes_of(folder: &Path) -> Option<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        if entry.file_name().to_string_lossy().starts_with(STATE) {
            bytes += entry.metadata().ok()?.len();
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_the_log() {
        let line = r#"{"level":"INFO","address":"127.0.0.1:4711","message":"listening"}"#;
        assert_eq!(address_in(line).as_deref(), Some("127.0.0.1:4711"));
        assert_eq!(address_in("the record is open"), None);
        assert_eq!(address_in("127.0.0.1:"), None);
    }

    #[test]
    fn the_last_lines_are_kept() {
        let (tell, mut heard) = oneshot::channel();
        let said = Mutex::new(VecDeque::new());
        let log = (1..=30).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        listen(log.as_bytes(), &said, tell);
        let said = said.into_inner().unwrap();
        assert_eq!((said.len(), said[0].as_str()), (LINES_KEPT, "line 11"));
        assert!(heard.try_recv().is_err());
    }
}
