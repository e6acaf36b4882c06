//! Layout of a story's lines: time, kind of event, text; folded at the right.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use crate::model::{fold_hostlist, thousands};

/// Column at which the text of a line begins.
const MARGIN: usize = 18;

/// Writes lines. Failures are ignored: a reader who has left does not end the demo.
pub(in crate::demo) struct Teller {
    out: Box<dyn Write + Send>,
    has_colour: bool,
    /// Columns of a line, unless one word is longer.
    width: usize,
}

impl Teller {
    pub fn new(out: Box<dyn Write + Send>, has_colour: bool, width: usize) -> Teller {
        Teller { out, has_colour, width }
    }

    /// A line of the story; `at` is the time since its beginning.
    pub fn tell(&mut self, at: Duration, kind: &str, text: &str) {
        let seconds = at.as_secs();
        let (minutes, seconds) = (seconds.div_euclid(60), seconds % 60);
        let kind = self.painted(kind);
        let mut lines = folded(text, self.width).into_iter();
        let first = lines.next().unwrap_or_default();
        self.plain(&format!(" {minutes:02}:{seconds:02}  {kind} {first}"));
        for line in lines {
            self.plain(&format!("{:MARGIN$} {line}", ""));
        }
    }

    /// A line as it is.
    pub fn plain(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
    }

    fn painted(&self, kind: &str) -> String {
        let colour = match kind {
            _ if !self.has_colour => return format!("{kind:<9}"),
            "preempt" | "evict" => "33",
            "silent" | "dead" | "audit" | "http" => "31",
            "waiting" | "withdraw" => "35",
            "fair" => "36",
            _ => "32",
        };
        format!("\x1b[{colour}m{kind:<9}\x1b[0m")
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").field("has_colour", &self.has_colour).finish_non_exhaustive()
    }
}

/// `text` in lines that fit beside the margin.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if MARGIN + line.chars().count() + word.chars().count() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `job 7`, or `jobs 1-4, 9` for 1, 2, 3, 4, 9.
pub(super) fn numbered(what: &str, numbers: impl IntoIterator<Item = u64>) -> String {
    let names: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    // Joined and folded in the same way as node names.
    let folded = fold_hostlist(names.iter().map(String::as_str));
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{what}{plural} {}", folded.trim_matches(['[', ']']).replace(',', ", "))
}

/// Formats a time in seconds, with a decimal.
pub(super) fn tenths(time: Duration) -> String {
    let tenths = time.as_millis().div_euclid(100);
    format!("{}.{}", tenths.div_euclid(10), tenths % 10)
}

/// `1 process`, `4 processes`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{} {noun}", thousands(count))
}

/// `ann`, `ann and bob`, `ann, bob and carl`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(numbered("job", [9, 1, 2, 3, 4]), "jobs 1-4, 9");
        assert_eq!(numbered("job", [7]), "job 7");
        assert_eq!(tenths(Duration::from_millis(2_380)), "2.3");
        assert_eq!(counted(1, "process", "processes"), "1 process");
        let names = |names: &[&str]| {
            listed(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            [names(&["ann"]), names(&["ann", "bob"]), names(&["ann", "bob", "carl"])],
            ["ann", "ann and bob", "ann, bob and carl"]
        );
    }

    #[test]
    fn long_text_is_folded_between_words() {
        let lines = folded(&"word ".repeat(40), 80);
        assert!(lines.len() == 4 && lines.iter().all(|line| MARGIN + line.len() <= 80));
        assert_eq!(lines.join(" "), ["word"; 40].join(" "));
    }
}
