//! A job log: the rows that can be replayed, and the count of rows that cannot.

use std::collections::BTreeMap;

use crate::model::{Millis, Name};

/// Lines that a note names as examples.
const EXAMPLES: usize = 3;

/// Reason why a job log cannot be replayed, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobLogError {
    /// A line of a file makes no sense.
    #[error("{file}, line {line}: {problem}; {remedy}")]
    Line {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        problem: String,
        /// Remedy: the text or the option that would be right.
        remedy: String,
    },
    /// A file as a whole, or the description of the cluster, makes no sense.
    #[error("{problem}; {remedy}")]
    Whole {
        /// Description of the fault.
        problem: String,
        /// Remedy: the text or the option that would be right.
        remedy: String,
    },
}

impl JobLogError {
    /// An error that no single line causes.
    pub(super) fn whole(problem: impl Into<String>, remedy: impl Into<String>) -> JobLogError {
        JobLogError::Whole { problem: problem.into(), remedy: remedy.into() }
    }
}

/// Jobs of a cluster's past, in order of submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLog {
    /// Name of the file.
    pub file: String,
    /// Rows that can be replayed, by submission and then by line.
    pub rows: Vec<LogRow>,
    /// Rows that are left out or changed, and why.
    pub notes: Vec<LogNote>,
    /// Size of the cluster, as the log itself gives it.
    pub header: LogHeader,
}

/// Size of a cluster in the header of a log; `None` where the header is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogHeader {
    /// `MaxNodes`.
    pub nodes: Option<u64>,
    /// `MaxProcs`.
    pub processors: Option<u64>,
}

/// A job of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Number of the job, as the log has it.
    pub number: Name,
    /// Line in the file, from 1.
    pub line: usize,
    /// User who submitted the job.
    pub user: Name,
    /// Queue or partition.
    pub queue: Name,
    /// Submission in seconds since any moment.
    pub submitted: u64,
    /// Run time. At least a millisecond.
    pub runs: Millis,
    /// Requested time. At least the run time.
    pub declared: Millis,
    /// Requested processors. At least 1.
    pub processors: u64,
    /// Nodes that the request names, and processors on each.
    pub split: Option<NodeSplit>,
    /// Requested memory.
    pub memory: Option<LogMemory>,
}

/// Processes of a request that go to nodes of their own choice: `nodes=2:ppn=8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSplit {
    /// Number of processes.
    pub nodes: u64,
    /// Processors of each.
    pub processors: u64,
}

/// Memory as a log gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMemory {
    /// The number. Its unit is the log's, KB unless an option says bytes.
    pub amount: u64,
    /// Part of the job that the number is for. `None`: the log does not say.
    pub basis: Option<MemoryBasis>,
}

/// Part of a job that a number of memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBasis {
    /// Each processor.
    Processor,
    /// The processors on a node together.
    Node,
    /// The job as a whole.
    Job,
}

/// Unit of memory in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUnit {
    /// Kilobytes of 1024 bytes, as the standard workload format has it.
    Kilobytes,
    /// Bytes.
    Bytes,
}

/// Peculiarity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowNote {
    NotARow,
    TooShort,
    NegativeRun,
    NoSubmission,
    NotEnded,
    NeverRan,
    NoProcessors,
    Overran,
    Undeclared,
    Properties,
    SeveralSizes,
}

impl RowNote {
    /// True if the row is left out.
    fn is_left_out(self) -> bool {
        self < RowNote::NoProcessors
    }

    fn words(self) -> &'static str {
        match self {
            RowNote::NotARow => "not a row of numbers",
            RowNote::TooShort => "too few columns",
            RowNote::NegativeRun => "negative run time",
            RowNote::NoSubmission => "no time of submission",
            RowNote::NotEnded => "not ended when the log was written",
            RowNote::NeverRan => "no run time: the job did not run",
            RowNote::NoProcessors => "no number of processors, taken as 1",
            RowNote::Overran => "ran longer than requested: the run time counts as requested",
            RowNote::Undeclared => "no requested time: the run time counts as requested",
            RowNote::Properties => "asked for properties of nodes, which are not applied",
            RowNote::SeveralSizes => "processes of several sizes, taken as the largest",
        }
    }
}

/// Number of rows with the same peculiarity.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LogNote {
    /// The peculiarity, in words.
    pub what: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// Lines of the first of them.
    pub lines: Vec<usize>,
    /// True if the rows are left out of the replay.
    pub is_left_out: bool,
}

/// Counts peculiarities while a log is read.
#[derive(Debug, Default)]
pub(super) struct NoteCounter(BTreeMap<RowNote, (u64, Vec<usize>)>);

impl NoteCounter {
    pub fn note(&mut self, note: RowNote, line: usize) {
        let (rows, lines) = self.0.entry(note).or_default();
        *rows += 1;
        if lines.len() < EXAMPLES {
            lines.push(line);
        }
    }

    /// Number of rows with this peculiarity, and the line of the first.
    pub fn of(&self, note: RowNote) -> Option<(u64, usize)> {
        let (rows, lines) = self.0.get(&note)?;
        Some((*rows, *lines.first()?))
    }

    pub fn into_notes(self) -> Vec<LogNote> {
        let note = |(note, (rows, lines)): (RowNote, (u64, Vec<usize>))| LogNote {
            what: note.words(),
            rows,
            lines,
            is_left_out: note.is_left_out(),
        };
        self.0.into_iter().map(note).collect()
    }
}

/// Times of a row, in seconds, before they are checked. `None`: the log does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowTimes {
    pub submitted: Option<i64>,
    pub runs: Option<i64>,
    pub declared: Option<i64>,
    /// True if the job completed, so that a run time of 0 means less than a second.
    pub has_completed: bool,
}

/// Checked times of a row.
pub(super) struct CheckedTimes {
    pub submitted: u64,
    pub runs: Millis,
    pub declared: Millis,
}

impl RowTimes {
    /// Checks the times of the row on `line`, and counts its peculiarities.
    pub fn check(self, line: usize, notes: &mut NoteCounter) -> Option<CheckedTimes> {
        let mut leave_out = |note| {
            notes.note(note, line);
            None
        };
        let Some(submitted) = self.submitted.and_then(|time| u64::try_from(time).ok()) else {
            return leave_out(RowNote::NoSubmission);
        };
        let runs = match self.runs {
            None | Some(-1) => return leave_out(RowNote::NeverRan),
            Some(seconds) => match u64::try_from(seconds) {
                Err(_) => return leave_out(RowNote::NegativeRun),
                Ok(0) if self.has_completed => 1000,
                Ok(0) => return leave_out(RowNote::NeverRan),
                Ok(seconds) => seconds.saturating_mul(1000),
            },
        };
        let declared = self.declared.and_then(|time| u64::try_from(time).ok());
        let declared = match declared.filter(|time| 0 < *time) {
            None => {
                notes.note(RowNote::Undeclared, line);
                runs
            }
            Some(declared) if declared.saturating_mul(1000) < runs => {
                notes.note(RowNote::Overran, line);
                runs
            }
            Some(declared) => declared.saturating_mul(1000),
        };
        Some(CheckedTimes { submitted, runs, declared })
    }
}
