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

/// An exit status, with the word that shells and the orchestrator have for it, if any.
fn exit_text(status: u8) -> String {
    let word = match status {
        66 | 67 => "asked too often for another attempt".to_owned(),
        124 => "timed out".to_owned(),
        126 => "cannot be executed".to_owned(),
        127 => "command not found".to_owned(),
        // Shells report a program that a signal ended so.
        129..=192 => signal_name(status - 128),
        _ => return format!("exit status {status}"),
    };
    format!("exit status {status} ({word})")
}

impl TaskResult {
    /// Describes the attempt's end, with its status, its signal or its memory.
    pub fn ending(&self) -> String {
        match (self.why, self.exit, self.signal) {
            (Reason::Exit, Some(exit), _) => exit_text(exit),
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

#[cfg(test)]
mod tests {
    use super::exit_text;

    #[test]
    fn known_exit_statuses_have_words() {
        let told = [1, 67, 127, 137, 250].map(exit_text);
        let expected = [
            "exit status 1",
            "exit status 67 (asked too often for another attempt)",
            "exit status 127 (command not found)",
            "exit status 137 (SIGKILL)",
            "exit status 250",
        ];
        assert_eq!(told, expected);
    }
}
