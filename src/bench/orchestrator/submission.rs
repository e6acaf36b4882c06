//! Submitting a campaign by the command line, with an eye on the memory of that.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::super::process::MeasuredProcess;
use super::MEMORY;

/// Time between two reads of the command's memory. Linux reports the peak so far, so that only
/// memory taken after the last read is missed.
const LOOK: Duration = Duration::from_millis(5);

/// Cost of a submission.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubmissionCost {
    /// From the start of the command to its end.
    pub time: Duration,
    /// The most memory that the command had, in MB. `None`: this system does not tell.
    pub peak_mb: Option<f64>,
}

/// Lines as people have them: names of files.
pub(super) fn lines(count: u64) -> String {
    let mut text = String::new();
    for line in 1..=count {
        // A text takes all that is written to it.
        let _ = writeln!(text, "data/run7/sample-{line:07}.fits");
    }
    text
}

/// Submits a campaign with a task for each line of `file` to the orchestrator at `address`.
///
/// # Errors
///
/// If the command cannot be started or fails.
pub(super) async fn by_command(file: &Path, address: &str) -> io::Result<SubmissionCost> {
    let log = file.with_extension("log");
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe()?)
        .args(["submit", "--user", "bench", "--memory", MEMORY, "--env-clean", "--each-line"])
        .arg(file)
        .args(["--orchestrator", &format!("http://{address}"), "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .spawn()?;
    let process = MeasuredProcess::of(command.id());
    let mut peak_mb = None;
    let status = loop {
        peak_mb = process.peak_rss_mb().or(peak_mb);
        match command.try_wait()? {
            Some(status) => break status,
            None => sleep(LOOK).await,
        }
    };
    if !status.success() {
        let said = fs::read_to_string(&log).unwrap_or_default();
        return Err(io::Error::other(format!("`apportion submit` failed: {said}")));
    }
    Ok(SubmissionCost { time: begun.elapsed(), peak_mb })
}
