//! Logging: text for people on standard error, or JSON lines (an object a line) for collectors.

use std::io::{self, IsTerminal};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Format of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLineFormat {
    /// For people; coloured on a terminal.
    #[default]
    Human,
    /// A JSON object a line.
    Json,
}

/// Reason why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TelemetryError {
    #[error(
        "`{levels}` names no log levels; use one such as `info`, or `info,apportion::daemon=debug`"
    )]
    Levels { levels: String, source: ParseError },
    #[error("logging was set up before")]
    SetUpBefore(#[from] TryInitError),
}

/// Sets up logging for the whole process: what `levels` lets through, such as `info` or
/// `warn,apportion=debug`.
///
/// # Errors
///
/// If `levels` cannot be read, or logging was set up before.
pub fn init(levels: &str, format: LogLineFormat) -> Result<(), TelemetryError> {
    let filter: Targets = levels
        .parse()
        .map_err(|source| TelemetryError::Levels { levels: levels.to_owned(), source })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let lines = match format {
        LogLineFormat::Human => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogLineFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).try_init()?;
    Ok(())
}
