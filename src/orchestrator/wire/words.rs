//! Words of the wire, as people read them.

use super::{Reason, TaskInfo, TaskResult, signal_name};
use crate::model::Mebibytes;

impl Reason {
    /// Describes an attempt's end in words that may follow its number.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Exit => "ended with another status than 0",
            Reason::Signal => "ended by a signal",
            Reason::Memory => "over its memory",
            Reason::TimeLimit => "over its time limit",
            Reason::NodeKiller => "too many of its attempts were lost with their nodes",
            Reason::NotFound => "its program was not found",
            Reason::NotExecutable => "its program cannot be executed",
            Reason::NoCwd => "its working directory is not there",
            Reason::NoUser => "its user may not run work there",
            Reason::Prologue => "the prologue of its slot failed",
            Reason::VariedOff => "its node was varied off",
            Reason::Lost => "lost with its slot or node",
            Reason::Superseded => "another attempt ended before it",
            Reason::Returned => "not begun, and given back",
            Reason::Done | Reason::Preempted | Reason::Cancelled => self.word(),
        }
    }
}

impl TaskResult {
    /// Describes the attempt's end, with its status, its signal or its memory.
    pub fn ending(&self) -> String {
        match (self.why, self.exit, self.signal) {
            (Reason::Exit, Some(exit), _) => format!("exit status {exit}"),
            (Reason::Signal, _, Some(signal)) => format!("ended by {}", signal_name(signal)),
            (Reason::Memory, ..) => format!("over its memory, at {}", Mebibytes(self.peak_mb)),
            (why, ..) => why.words().to_owned(),
        }
    }
}

impl TaskInfo {
    /// How its last attempt ended, in words. `None`: no attempt of it has ended.
    pub fn ending(&self) -> Option<String> {
        let result = self.attempts.last().and_then(|last| last.result.as_ref());
        let code = || self.reason.clone();
        let words = |code: String| match Reason::from_word(&code) {
            Some(reason) => reason.words().to_owned(),
            // Of a later version, which has more codes.
            None => code,
        };
        result.map(TaskResult::ending).or_else(|| code().map(words))
    }
}
