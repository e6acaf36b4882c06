//! Arguments on the log of a process that runs on.

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::telemetry;

/// Log settings of a process that runs on.
#[derive(Clone, Debug, Args)]
pub struct Logging {
    /// The form of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    pub log_format: LogFormat,
    /// The level of the log: error, warn, info, debug or trace, also per module:
    /// info,apportion=debug
    #[arg(
        long,
        value_name = "LEVELS",
        env = "APPORTION_LOG",
        default_value = "info",
        value_parser = parse_levels
    )]
    pub log: String,
}

/// Form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line a message, for people.
    Human,
    /// An object a line, for programs.
    Json,
}

/// Returns the format for the module that writes the log.
pub(super) fn log_format(format: LogFormat) -> telemetry::LogLineFormat {
    match format {
        LogFormat::Human => telemetry::LogLineFormat::Human,
        LogFormat::Json => telemetry::LogLineFormat::Json,
    }
}

/// Parses levels, all of them or per module.
fn parse_levels(text: &str) -> Result<String, String> {
    // `Targets` alone would take a misspelt level for the name of a module, and log nothing else.
    let is_level = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    if !text.trim().is_empty() && text.split(',').all(is_level) && text.parse::<Targets>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err("write error, warn, info, debug or trace; or per module, info,apportion=debug"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_levels_are_not_taken_for_modules() {
        for (levels, will_do) in [
            ("info", true),
            ("WARN,apportion::daemon=debug", true),
            ("loud", false),
            ("apportion=loud", false),
            ("", false),
        ] {
            assert_eq!(parse_levels(levels).is_ok(), will_do, "{levels}");
        }
    }
}
