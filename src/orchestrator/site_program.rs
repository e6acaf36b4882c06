//! Programs of a site: admission rules and the notify hook. Each gets JSON on its standard input.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;

/// Runs a program with `input`, for as long as `longest` at most, and returns its standard output. It is killed
/// after that time.
///
/// # Errors
///
/// With the end of a sentence whose subject is the program.
pub(super) async fn run(path: &Path, input: &[u8], longest: Duration) -> Result<Vec<u8>, String> {
    let mode = std::fs::metadata(path).map_or(0, |facts| facts.permissions().mode());
    if mode & 0o111 == 0 {
        return Err("cannot be executed: `chmod +x` it".to_owned());
    }
    let output = tokio::time::timeout(longest, converse(path, input)).await;
    let output = output.map_err(|_| format!("gave no answer within {} s", longest.as_secs()))?;
    output.map_err(|error| format!("failed: {error}"))
}

async fn converse(path: &Path, input: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = Command::new(path)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program need not read all of it.
            let _ = stdin.write_all(input).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_ANSWER).read_to_end(&mut output).await?;
        }
        io::Result::Ok(output)
    };
    let ((), output) = tokio::join!(write, read);
    let status = child.wait().await?;
    let output = output?;
    if status.success() { Ok(output) } else { Err(io::Error::other(status.to_string())) }
}
