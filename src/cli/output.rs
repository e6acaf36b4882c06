//! The one way to standard output.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Prints `text`, on a line of its own. A reader that has seen enough (`apportion nodes | head`)
/// is no failure.
///
/// # Errors
///
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints `answer`: as JSON, or as `render` shows it to people.
///
/// # Errors
///
/// As [`print()`].
pub fn show<T: Serialize>(
    answer: &T,
    as_json: bool,
    render: impl FnOnce(&T) -> String,
) -> io::Result<()> {
    if as_json { print(&serde_json::to_string_pretty(answer)?) } else { print(&render(answer)) }
}

/// Says `message` where it is in nobody's way: on standard error. That may be closed; then nobody
/// is there to be told.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", message.trim_end());
}
