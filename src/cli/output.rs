//! Standard output: all commands write through this module.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// State of the reader of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputReader {
    /// Reads on, as far as a writer can tell.
    There,
    /// Closed the pipe (`apportion nodes | head`), which is no failure.
    Gone,
}

/// Prints `text` as it is, at once.
///
/// # Errors
///
/// If standard output cannot be written, but for a reader that is gone.
pub fn say(text: &str) -> io::Result<OutputReader> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(OutputReader::Gone),
        Err(error) => Err(error),
        Ok(()) => Ok(OutputReader::There),
    }
}

/// Prints `text`, on a line of its own. A closed pipe is no failure.
///
/// # Errors
///
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> io::Result<()> {
    say(&format!("{}\n", text.trim_end())).map(|_| ())
}

/// Prints `answer`: as JSON, or as `render` shows it to people.
///
/// # Errors
///
/// If standard output cannot be written, as for [`print()`].
pub fn show<T: Serialize>(
    answer: &T,
    as_json: bool,
    render: impl FnOnce(&T) -> String,
) -> io::Result<()> {
    if as_json { print(&serde_json::to_string_pretty(answer)?) } else { print(&render(answer)) }
}

/// Writes `message` to standard error, apart from the answer. An error is ignored: no reader is
/// left if standard error is closed.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", message.trim_end());
}
