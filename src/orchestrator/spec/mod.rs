//! The specification of a campaign: from a document to facts that need no further check.
//!
//! Pure. A document is a JSON object; a TOML file becomes such an object first. A refusal lists
//! every problem of a document, with the field, the value and the remedy. [`line_of`] finds the
//! line in the file.

mod campaign;
mod early;
mod environment;
mod fields;
mod gang;
mod hooks;
mod limits;
mod mode;
mod params;
mod times;
mod waits;

pub use campaign::{CampaignSpec, CampaignType, MemoryRetry};
pub use early::EarlyTasks;
pub use environment::{EnvironmentChoice, select};
pub use gang::{GangSizes, GangSpec, MAX_RANKS};
pub use hooks::HookKind;
pub use limits::{
    MAX_ARGUMENT, MAX_COMMAND, MAX_ENVIRONMENT, MAX_GRACE_MS, MAX_NAME, MAX_STDIN, MAX_TASKS,
    mebibytes,
};
pub use mode::CampaignMode;
pub use params::{Params, TaskRange, read_more, short};
pub use times::CampaignTimes;

use std::fmt;

/// A problem of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecProblem {
    /// The field, with dots between levels. Empty: the document as a whole.
    pub field: String,
    /// The fault, with the value.
    pub message: String,
    /// The text to write instead.
    pub remedy: String,
}

impl SpecProblem {
    /// A problem of `field`.
    pub fn new(field: &str, message: impl Into<String>, remedy: impl Into<String>) -> SpecProblem {
        SpecProblem { field: field.to_owned(), message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for SpecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(f, "{}; {}", self.message, self.remedy)
        } else {
            write!(f, "{}: {}; {}", self.field, self.message, self.remedy)
        }
    }
}

/// The line of `text` where a TOML document sets `field`, from 1. `None` if it does not.
pub fn line_of(text: &str, field: &str) -> Option<usize> {
    let (table, _) = toml::de::DeTable::parse_recoverable(text);
    let mut table = table.get_ref();
    let mut found = None;
    for part in field.split('.') {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else { break };
        found = Some(key.span().start);
        let Some(inner) = value.get_ref().as_table() else { break };
        table = inner;
    }
    let before = text.get(..found?)?;
    Some(before.matches('\n').count() + 1)
}
