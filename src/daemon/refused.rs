//! Reasons for refusing a configuration, for the log if no client waits, else for the client.

use std::error::Error;

use crate::api::ConfigRefusal;
use crate::api::wire::ItemProblem;
use crate::config::{ConfigError, ConfigProblem, Problems};
use crate::store::StoreError;

/// Reason for refusing a configuration. The previous configuration stays in effect.
#[derive(Debug)]
pub enum Refused {
    /// The configuration has errors.
    Wrong(Problems),
    /// The file could not be read.
    Unreadable(ConfigError),
    /// The store has no configuration with this number.
    NoGeneration(u64),
    /// The stored configuration was changed after it was written.
    Damaged(StoreError),
}

impl From<ConfigError> for Refused {
    fn from(error: ConfigError) -> Refused {
        match error {
            ConfigError::Problems(problems) => Refused::Wrong(problems),
            ConfigError::NotFound { .. }
            | ConfigError::Unreadable { .. }
            | ConfigError::IsDirectory { .. }
            | ConfigError::NotUtf8 { .. }
            | ConfigError::NoFile
            | ConfigError::Environment(_) => Refused::Unreadable(error),
        }
    }
}

impl From<Refused> for ConfigRefusal {
    fn from(refused: Refused) -> ConfigRefusal {
        match refused {
            Refused::Wrong(problems) => {
                let name = problems.name().to_owned();
                let errors = problems.iter().map(|problem| item(problem, &name)).collect();
                ConfigRefusal::Wrong { name, errors }
            }
            Refused::Unreadable(error) => ConfigRefusal::Unreadable(with_cause(&error)),
            Refused::NoGeneration(generation) => ConfigRefusal::NoGeneration(generation),
            Refused::Damaged(error) => ConfigRefusal::Unreadable(error.to_string()),
        }
    }
}

impl Refused {
    /// Logs the refusal.
    pub fn log(&self) {
        const KEPT: &str = "the configuration is refused; the one before stays in effect";
        match self {
            Refused::Wrong(problems) => {
                for problem in problems.iter() {
                    let (code, line) = (problem.code.as_str(), problem.line);
                    tracing::error!(code, line, remedy = problem.remedy, "{}", problem.message);
                }
                let count = problems.iter().count();
                tracing::error!(file = problems.name(), problems = count, "{KEPT}");
            }
            Refused::Unreadable(error) => tracing::error!(error = with_cause(error), "{KEPT}"),
            Refused::NoGeneration(generation) => tracing::error!(generation, "{KEPT}"),
            Refused::Damaged(error) => tracing::error!(%error, "{KEPT}"),
        }
    }
}

fn with_cause(error: &ConfigError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn item(problem: &ConfigProblem, name: &str) -> ItemProblem {
    let place = match (problem.line, problem.column, &problem.outside) {
        (Some(line), Some(column), _) => format!("{name}:{line}:{column}"),
        (.., Some(outside)) => outside.clone(),
        _ => name.to_owned(),
    };
    let detail = format!("{place}: {}; {}", problem.message, problem.remedy);
    ItemProblem {
        pointer: "/text".to_owned(),
        code: problem.code.as_str().to_owned(),
        detail: detail.trim_end_matches("; ").to_owned(),
    }
}
