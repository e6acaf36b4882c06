//! Commands that documents show are commands that the program takes.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::path::PathBuf;

use apportion::cli::args::Cli;
use clap::Parser;
use clap::error::ErrorKind;

/// What stands for something in a command, and an example of it.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("JOB", "7"),
    ("NODE", "n1"),
    ("FILE", "file"),
    ("DIR", "folder"),
    ("ADDRESS", "127.0.0.1:7070"),
    ("N", "3"),
    ("$HOME", "/home/ann"),
    ("~", "/home/ann"),
];

/// The documents that users read.
pub fn documents() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("README.md")];
    let pages = fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path());
    files.extend(pages.filter(|path| path.extension().is_some_and(|end| end == "md")));
    files.sort();
    files
}

/// The words of a command line up to a comment or the next command, as a shell takes them apart.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for sign in line.chars() {
        match (quote, sign) {
            (Some(open), _) if sign == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#' | '|' | '&' | '>' | ';') if word.is_none() => return words,
            (Some(_) | None, _) => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    words
}

/// The commands of ours in the examples of a document, with their lines.
fn examples(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let mut command = command.to_owned();
        while let Some(begun) = command.strip_suffix('\\') {
            command = begun.to_owned() + lines.next().unwrap().1;
        }
        let words = words(&command);
        let is_ours = words.first().is_some_and(|word| word.ends_with("apportion"));
        if is_ours && words.len() > 1 {
            found.push((number, words));
        }
    }
    found
}

/// The commands of ours that stand within sentences and tables, with their lines.
fn mentions(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for span in line.split('`').skip(1).step_by(2) {
            // A name alone, or with what may follow it, is no command line.
            let is_open =
                ["[", "…", "...", "<", "|", "COMMAND"].iter().any(|mark| span.contains(mark));
            let is_ours = span.starts_with("apportion ") && !is_open;
            if is_ours {
                found.push((number, words(span)));
            }
        }
    }
    found
}

#[test]
fn commands_that_documents_show_are_taken() {
    let mut refused = Vec::new();
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let examples = examples(&text).into_iter().map(|(line, words)| (line, words, true));
        let mentions = mentions(&text).into_iter().map(|(line, words)| (line, words, false));
        for (line, words, is_whole) in examples.chain(mentions) {
            let example = |word: String| {
                let found = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
                found.map_or(word, |(_, example)| (*example).to_owned())
            };
            let words: Vec<String> = words.into_iter().map(example).collect();
            count += 1;
            // A mention may leave out what a command wants, and says nothing that it does not know.
            let is_wrong = |kind: ErrorKind| {
                is_whole
                    || matches!(kind, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument)
            };
            if let Err(error) = Cli::try_parse_from(&words)
                && error.use_stderr()
                && is_wrong(error.kind())
            {
                let said = error.to_string();
                let said = said.lines().next().unwrap_or_default().to_owned();
                refused.push(format!("{}:{line}: {}: {said}", document.display(), words.join(" ")));
            }
        }
    }
    assert!(count > 60, "{count} commands");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
