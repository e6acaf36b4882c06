//! Some cycles of a journal as a document, for a replay elsewhere.

use serde::{Deserialize, Serialize};

use super::entry::JournalEntry;
use super::seal::VERSION;
use super::text::{self, Line};
use crate::scheduler::checkpoint::SchedulerState;

/// A checkpoint and the inputs after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// Name of the document.
    pub name: String,
    journal: Part,
}

/// Content of the field `journal`, by whose name an excerpt is recognized.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    form: u32,
    #[serde(rename = "books")]
    checkpoint: text::CheckpointText,
    cycles: Vec<Cycle>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cycle {
    cycle: u64,
    entries: Vec<Line>,
}

impl Excerpt {
    /// An excerpt that begins with a checkpoint.
    pub fn new(name: String, checkpoint: &SchedulerState) -> Excerpt {
        let part = Part { form: VERSION, checkpoint: checkpoint.into(), cycles: Vec::new() };
        Excerpt { name, journal: part }
    }

    /// Adds the next cycle, and what happened before it.
    pub fn push(&mut self, cycle: u64, entries: &[JournalEntry]) {
        let entries = entries.iter().map(Into::into).collect();
        self.journal.cycles.push(Cycle { cycle, entries });
    }

    /// Version of the document's format, if this program does not know it.
    pub fn other_form(&self) -> Option<u32> {
        (self.journal.form != VERSION).then_some(self.journal.form)
    }

    /// Returns the checkpoint, and each cycle with the inputs before it.
    pub fn into_parts(self) -> (SchedulerState, Vec<(u64, Vec<JournalEntry>)>) {
        let entries = |lines: Vec<Line>| lines.into_iter().map(Into::into).collect();
        let cycles = self.journal.cycles.into_iter();
        let cycles = cycles.map(|cycle| (cycle.cycle, entries(cycle.entries)));
        (self.journal.checkpoint.into(), cycles.collect())
    }
}
