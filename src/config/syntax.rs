//! Errors of the TOML parser as problems, with the remedy that fits.

use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

use super::problem::{Code, ConfigProblem, Problems, ValuePlace};

/// Message of the TOML parser about a key that is set twice.
const DUPLICATE_KEY: &str = "duplicate key";
/// Start of the parser's message about a text without quotes.
const NO_QUOTES: &str = "string values must be quoted";

/// Adds the parser's `errors` to `problems`, whose text was parsed. Errors that only follow from an
/// unclosed list are left out.
pub(super) fn problems(
    errors: &[Error],
    document: &DeTable<'_>,
    mut problems: Problems,
) -> Problems {
    let text = problems.text().to_owned();
    let unclosed = unclosed(&text);
    for error in errors {
        // The parser points past the end where something is missing there.
        let span = error.span().unwrap_or_default();
        let span = span.start.min(text.len())..span.end.min(text.len());
        if unclosed.as_ref().is_some_and(|(opener, _)| opener.start < span.start) {
            continue;
        }
        problems.add(if error.message() == DUPLICATE_KEY {
            duplicate(span, document, &text)
        } else {
            let problem = ConfigProblem::new(
                Code::Syntax,
                "",
                &ValuePlace::File(span.clone()),
                error.message(),
            );
            problem.remedy(remedy(error.message(), &text, span))
        });
    }
    if let Some((opener, next)) = unclosed {
        let bracket = &text[opener.clone()];
        let message = format!("this `{bracket}` is never closed");
        let close = if bracket == "[" { "]" } else { "}" };
        let problem = ConfigProblem::new(Code::Syntax, "", &ValuePlace::File(opener), message);
        let problem = problem.related(&ValuePlace::File(next), "the file goes on here");
        problems.add(problem.remedy(format!("put a `{close}` at the end of the list")));
    }
    problems.sorted()
}

fn remedy(message: &str, text: &str, span: Range<usize>) -> String {
    let line = text[..span.start].rsplit('\n').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    if matches!(words.next(), Some("Nodepool" | "Class" | "User")) && !line.contains('=') {
        return "this looks like a file of UIMA-DUCC: `apportion config import-ducc` translates it"
            .to_owned();
    }
    let word = text[span].trim();
    if message.starts_with(NO_QUOTES) && !word.is_empty() && !word.contains(['"', '\n']) {
        return format!("write it in quotes: \"{word}\"");
    }
    "the file is TOML 1.1; strings are in quotes, each setting is on its own line".to_owned()
}

fn duplicate(span: Range<usize>, document: &DeTable<'_>, text: &str) -> ConfigProblem {
    let key = text.get(span.clone()).unwrap_or_default();
    let place = ValuePlace::File(span.clone());
    let problem = ConfigProblem::new(Code::Duplicate, key, &place, format!("`{key}` is set twice"));
    let problem = problem.remedy("remove one of the two");
    match last_key_before(span.start, key, document) {
        Some(first) => problem.related(&ValuePlace::File(first), "the first"),
        None => problem,
    }
}

/// Returns the last place of `key` before `offset`: in the same table, as tables do not overlap.
fn last_key_before(offset: usize, key: &str, table: &DeTable<'_>) -> Option<Range<usize>> {
    let here = table.get_key_value(key).map(|(key, _)| key.span());
    let in_value = |value: &DeValue<'_>| match (value.as_table(), value.as_array()) {
        (Some(table), _) => last_key_before(offset, key, table),
        (_, Some(list)) => {
            let tables = list.iter().filter_map(|item| item.get_ref().as_table());
            tables
                .filter_map(|table| last_key_before(offset, key, table))
                .max_by_key(|span| span.start)
        }
        _ => None,
    };
    let below = table.values().filter_map(|value| in_value(value.get_ref()));
    here.into_iter().chain(below).filter(|span| span.start < offset).max_by_key(|span| span.start)
}

/// Returns the bracket of a value that is still open when a line begins the next section or
/// setting, or when the file ends. The second range is that place.
fn unclosed(text: &str) -> Option<(Range<usize>, Range<usize>)> {
    let mut open: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let place = start..start + line.trim_end().len();
        if let Some(opener) = open.last().filter(|_| begins_something(line)) {
            return Some((opener.clone(), place));
        }
        // The value alone: brackets around the name of a section close on their line, or the
        // parser says it better.
        let value =
            if open.is_empty() { line.find('=').map_or(line.len(), |at| at + 1) } else { 0 };
        for (at, character) in outside_strings(&line[value..]) {
            let at = start + value + at;
            match character {
                '[' | '{' => open.push(at..at + 1),
                ']' | '}' => drop(open.pop()),
                _ => {}
            }
        }
        start += line.len();
    }
    let opener = open.pop()?;
    Some((opener, text.len()..text.len()))
}

/// True if `line` cannot be within a list: `[[class]]`, `name = "x"`.
fn begins_something(line: &str) -> bool {
    let is_word = |text: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        !text.is_empty() && text.chars().all(is_letter)
    };
    let line = line.trim();
    let header = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let header = header.map(|name| name.trim_matches(['[', ']']));
    let key = line.split_once('=').map(|(key, _)| key.trim());
    !line.starts_with(['"', '\'']) && header.or(key).is_some_and(is_word)
}

/// The characters of a line that are in no string and no comment, with their places.
fn outside_strings(line: &str) -> Vec<(usize, char)> {
    let mut quote = None;
    let mut is_escaped = false;
    let mut found = Vec::new();
    for (at, character) in line.char_indices() {
        match quote {
            Some('"') if !is_escaped && character == '\\' => is_escaped = true,
            Some(open) => {
                if !is_escaped && character == open {
                    quote = None;
                }
                is_escaped = false;
            }
            None if character == '#' => break,
            None if matches!(character, '"' | '\'') => quote = Some(character),
            None => found.push((at, character)),
        }
    }
    found
}
