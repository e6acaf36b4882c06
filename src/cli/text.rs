//! Text for people: its style, and prose in lines that fit the terminal.

/// Settings for the text that people read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextStyle {
    /// More columns, and nothing folded.
    pub is_wide: bool,
    /// No headings.
    pub no_header: bool,
    /// Longest line of a table, in characters. `None`: no limit.
    pub width: Option<usize>,
    /// States and reasons in colour.
    pub has_colour: bool,
}

impl TextStyle {
    /// True if the terminal is too narrow for sentences in columns.
    pub fn is_narrow(self) -> bool {
        self.width.is_some_and(|width| width < SENTENCES)
    }
}

/// A narrower terminal is too narrow for sentences in columns.
const SENTENCES: usize = 110;

/// Returns `text` with prose in lines of at most `width` characters. Lines of tables fit already: a
/// line of a table has two blanks in a row behind its first word.
pub(super) fn narrowed(text: &str, width: usize) -> String {
    let lines = text.lines().map(|line| {
        // A line with colour belongs to a table.
        if line.contains('\u{1b}') || line.chars().count() <= width {
            return line.to_owned();
        }
        let is_prose = !line.trim_start().contains("  ")
            || line.starts_with(|c: char| c == ' ' || c.is_lowercase());
        if is_prose { wrapped(line, width) } else { shortened(line, width) }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns `line`, cut to `width` characters with a mark at the end.
pub(super) fn shortened(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// `line`, broken between words; what follows the first line is indented as its text is.
pub(super) fn wrapped(line: &str, width: usize) -> String {
    let hanging = " ".repeat(hanging(line));
    let mut lines = vec![String::new()];
    let mut at = 0;
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if width < at + length && hanging.len() < at {
            lines.push(hanging.clone());
            at = hanging.len();
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(word);
        }
        at += word.chars().count();
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Returns the column where the text of a line such as `cap:    4: …` begins.
fn hanging(line: &str) -> usize {
    let label = line.find(':').filter(|at| *at < 12).map_or(0, |at| at + 1);
    let blanks = line[label..].chars().take_while(|c| *c == ' ').count();
    if 1 < blanks || label == 0 { label + blanks } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_under_its_label_and_tables_are_cut() {
        let text = "unblock:  others need less than now\nNODE    POOL  STATE  MEMORY";
        let expected =
            "unblock:  others need\n          less than\n          now\nNODE    POOL  STATE…";
        assert_eq!(narrowed(text, 21), expected);
        assert_eq!(narrowed("short", 21), "short");
        let long = "x".repeat(30);
        assert_eq!(narrowed(&long, 21), long, "a word is never broken");
    }
}
